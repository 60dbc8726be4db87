"""libwebp compresses an image; a Python function, set after its struct was initialised, gets it.

With ctypes.
"""

import ctypes as ct

BYTES = ct.POINTER(ct.c_uint8)


class Config(ct.Structure):
    _fields_ = [
        ("lossless", ct.c_int),
        ("quality", ct.c_float),
        ("method", ct.c_int),
        ("image_hint", ct.c_int),
        ("target_size", ct.c_int),
        ("target_PSNR", ct.c_float),
        ("more", ct.c_int * 23),
    ]


WRITER = ct.CFUNCTYPE(ct.c_int, BYTES, ct.c_size_t, ct.c_void_p)


class Picture(ct.Structure):
    _fields_ = [
        *[(name, ct.c_int) for name in ("use_argb", "colorspace", "width", "height")],
        *[(name, BYTES) for name in ("y", "u", "v")],
        ("y_stride", ct.c_int),
        ("uv_stride", ct.c_int),
        ("a", BYTES),
        ("a_stride", ct.c_int),
        ("pad1", ct.c_uint32 * 2),
        ("argb", ct.POINTER(ct.c_uint32)),
        ("argb_stride", ct.c_int),
        ("pad2", ct.c_uint32 * 3),
        ("writer", WRITER),
        ("custom_ptr", ct.c_void_p),
        ("extra_info_type", ct.c_int),
        ("extra_info", BYTES),
        ("stats", ct.c_void_p),
        ("error_code", ct.c_int),
        ("progress_hook", ct.c_void_p),
        ("user_data", ct.c_void_p),
        ("pad3", ct.c_uint32 * 3),
        ("pad4", ct.c_void_p * 2),
        ("pad6", ct.c_uint32 * 8),
        ("memory", ct.c_void_p * 4),
    ]


VERSION = 0x0200
webp = ct.CDLL("libwebp.so.7")
webp.WebPConfigInitInternal.argtypes = [ct.POINTER(Config), ct.c_int, ct.c_float, ct.c_int]
webp.WebPPictureInitInternal.argtypes = [ct.POINTER(Picture), ct.c_int]
webp.WebPPictureImportRGB.argtypes = [ct.POINTER(Picture), ct.c_char_p, ct.c_int]
webp.WebPEncode.argtypes = [ct.POINTER(Config), ct.POINTER(Picture)]
webp.WebPPictureFree.argtypes = [ct.POINTER(Picture)]


def check(done):
    if not done:
        raise ValueError("not compressed")


def encode(rgb, width, height, quality):
    """An image of three bytes a pixel, compressed."""
    written = bytearray()

    @WRITER
    def write(data, size, picture):
        written.extend(ct.string_at(data, size))
        return 1

    config, picture = Config(), Picture()
    check(webp.WebPConfigInitInternal(config, 0, quality, VERSION))
    check(webp.WebPPictureInitInternal(picture, VERSION))
    picture.width, picture.height, picture.writer = width, height, write
    check(webp.WebPPictureImportRGB(picture, rgb, 3 * width))
    try:
        check(webp.WebPEncode(config, picture))
    finally:
        webp.WebPPictureFree(picture)
    return bytes(written)


def main():
    rgb = bytes(x ^ y for y in range(64) for x in range(64) for _ in range(3))
    image = encode(rgb, 64, 64, 50)
    print(image[:4], image[8:16], len(image) < len(rgb) / 4)
    try:
        encode(rgb, 64, 64, 500)
    except ValueError:
        print("no such quality")


if __name__ == "__main__":
    main()
