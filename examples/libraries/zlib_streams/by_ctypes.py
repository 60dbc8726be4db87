"""zlib compresses and decompresses in pieces of 256 bytes: with ctypes."""

import ctypes as ct


class ZStream(ct.Structure):
    _fields_ = [
        ("next_in", ct.c_void_p),
        ("avail_in", ct.c_uint),
        ("total_in", ct.c_ulong),
        ("next_out", ct.c_void_p),
        ("avail_out", ct.c_uint),
        ("total_out", ct.c_ulong),
        ("msg", ct.c_char_p),
        ("state", ct.c_void_p),
        ("zalloc", ct.c_void_p),
        ("zfree", ct.c_void_p),
        ("opaque", ct.c_void_p),
        ("data_type", ct.c_int),
        ("adler", ct.c_ulong),
        ("reserved", ct.c_ulong),
    ]


z = ct.CDLL("libz.so")
z.zlibVersion.restype = ct.c_char_p
z.deflateInit_.argtypes = [ct.POINTER(ZStream), ct.c_int, ct.c_char_p, ct.c_int]
z.inflateInit_.argtypes = [ct.POINTER(ZStream), ct.c_char_p, ct.c_int]
for step in (z.deflate, z.inflate):
    step.argtypes = [ct.POINTER(ZStream), ct.c_int]
for end in (z.deflateEnd, z.inflateEnd):
    end.argtypes = [ct.POINTER(ZStream)]
Z_OK, Z_STREAM_END, Z_BUF_ERROR, Z_FINISH = 0, 1, -5, 4


def pieces(step, end, stream, data, size=256):
    """What steps of zlib's make of data."""
    out, status = ct.create_string_buffer(size), Z_OK
    stream.next_in, stream.avail_in = ct.cast(ct.c_char_p(data), ct.c_void_p), len(data)
    try:
        while status != Z_STREAM_END:
            stream.next_out, stream.avail_out = ct.cast(out, ct.c_void_p), size
            status = step(stream, Z_FINISH)
            if status not in (Z_OK, Z_STREAM_END, Z_BUF_ERROR) or stream.avail_out == size:
                raise ValueError(stream.msg.decode() if stream.msg else "no end")
            yield out[: size - stream.avail_out]
    finally:
        end(stream)


def compressed(data, level=9):
    stream = ZStream()
    if z.deflateInit_(stream, level, z.zlibVersion(), ct.sizeof(ZStream)) != Z_OK:
        raise ValueError("deflateInit_")
    return pieces(z.deflate, z.deflateEnd, stream, data)


def decompressed(data):
    stream = ZStream()
    if z.inflateInit_(stream, z.zlibVersion(), ct.sizeof(ZStream)) != Z_OK:
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
