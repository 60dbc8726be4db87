"""Compress and decompress with zlib, in pieces of 256 bytes."""

import nativecall as nc

z = nc.load("z", header="zlib.h", errors={"*Init_": "nonzero"})


def pieces(step, end, data, stream, size=256):
    """What steps of zlib's make of data."""
    out, status = bytearray(size), z.Z_OK
    stream.avail_in, target = len(data), z.ffi.from_buffer("Bytef[]", out)
    try:
        while status != z.Z_STREAM_END:
            stream.next_out, stream.avail_out = target, size
            status = step(stream, z.Z_FINISH)
            if status not in (z.Z_OK, z.Z_STREAM_END, z.Z_BUF_ERROR) or stream.avail_out == size:
                raise ValueError(nc.string(stream.msg, "ascii") or "no end")
            yield bytes(out[: size - stream.avail_out])
    finally:
        end(stream)


def compressed(data, level=9):
    stream = z.new("z_stream", {"next_in": data})
    z.deflateInit_(stream, level, z.ZLIB_VERSION, z.ffi.sizeof("z_stream"))
    return pieces(z.deflate, z.deflateEnd, data, stream)


def decompressed(data):
    stream = z.new("z_stream", {"next_in": data})
    z.inflateInit_(stream, z.ZLIB_VERSION, z.ffi.sizeof("z_stream"))
    return pieces(z.inflate, z.inflateEnd, data, stream)


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
