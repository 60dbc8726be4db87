"""zlib compresses and decompresses in pieces of 256 bytes: with cffi."""

from cffi import FFI

ffi = FFI()
ffi.cdef("""
    typedef struct {
        unsigned char *next_in; unsigned avail_in; unsigned long total_in;
        unsigned char *next_out; unsigned avail_out; unsigned long total_out;
        char *msg; struct internal_state *state; void *zalloc, *zfree, *opaque;
        int data_type; unsigned long adler, reserved;
    } z_stream;
    const char *zlibVersion(void);
    int deflateInit_(z_stream *, int level, const char *version, int stream_size);
    int deflate(z_stream *, int flush);
    int deflateEnd(z_stream *);
    int inflateInit_(z_stream *, const char *version, int stream_size);
    int inflate(z_stream *, int flush);
    int inflateEnd(z_stream *);
""")
z = ffi.dlopen("libz.so")
Z_OK, Z_STREAM_END, Z_BUF_ERROR, Z_FINISH = 0, 1, -5, 4


def pieces(step, end, stream, data, size=256):
    """What steps of zlib's make of data."""
    source, out, status = ffi.from_buffer("unsigned char[]", data), bytearray(size), Z_OK
    stream.next_in, stream.avail_in = source, len(data)
    target = ffi.from_buffer("unsigned char[]", out)
    try:
        while status != Z_STREAM_END:
            stream.next_out, stream.avail_out = target, size
            status = step(stream, Z_FINISH)
            if status not in (Z_OK, Z_STREAM_END, Z_BUF_ERROR) or stream.avail_out == size:
                raise ValueError(ffi.string(stream.msg).decode() if stream.msg else "no end")
            yield bytes(out[: size - stream.avail_out])
    finally:
        end(stream)


def compressed(data, level=9):
    stream = ffi.new("z_stream *")
    if z.deflateInit_(stream, level, z.zlibVersion(), ffi.sizeof("z_stream")) != Z_OK:
        raise ValueError("deflateInit_")
    return pieces(z.deflate, z.deflateEnd, stream, data)


def decompressed(data):
    stream = ffi.new("z_stream *")
    if z.inflateInit_(stream, z.zlibVersion(), ffi.sizeof("z_stream")) != Z_OK:
        raise ValueError("inflateInit_")
    return pieces(z.inflate, z.inflateEnd, stream, data)


def main():
    data = b"".join(b"%d squared is %d. " % (i, i * i) for i in range(1000))
    packed = list(compressed(data))
    print(len(data), len(packed), {len(piece) for piece in packed[:-1]})
    print(b"".join(decompressed(b"".join(packed))) == data)
    for broken in (b"not compressed", b"".join(packed)[:500]):
        try:
            print(len(b"".join(decompressed(broken))))
        except ValueError as error:
            print(error)


if __name__ == "__main__":
    main()
