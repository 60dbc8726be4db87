"""Compress an image with libwebp, which passes the bytes to a Python function in a struct."""

import nativecall as nc

DECLARED = """
    typedef struct WebPConfig WebPConfig;
    typedef struct WebPPicture WebPPicture;
    typedef int (*WebPWriterFunction)(const uint8_t *data, size_t size, const WebPPicture *picture);
    struct WebPConfig {
        int lossless;
        float quality;
        int method, image_hint, target_size;
        float target_PSNR;
        int more[23];
    };
    struct WebPPicture {
        int use_argb, colorspace, width, height;
        uint8_t *y, *u, *v;
        int y_stride, uv_stride;
        uint8_t *a;
        int a_stride;
        uint32_t pad1[2];
        uint32_t *argb;
        int argb_stride;
        uint32_t pad2[3];
        WebPWriterFunction writer;
        void *custom_ptr;
        int extra_info_type;
        uint8_t *extra_info;
        void *stats;
        int error_code;
        int (*progress_hook)(int percent, const WebPPicture *picture);
        void *user_data;
        uint32_t pad3[3];
        uint8_t *pad4, *pad5;
        uint32_t pad6[8];
        void *memory_, *memory_argb_, *pad7[2];
    };
    int WebPConfigInitInternal(WebPConfig *, int preset, float quality, int version);
    int WebPPictureInitInternal(WebPPicture *, int version);
    int WebPPictureImportRGB(WebPPicture *, const uint8_t *rgb, int stride);
    int WebPEncode(const WebPConfig *, WebPPicture *);
    void WebPPictureFree(WebPPicture *);
"""
VERSION = 0x0200
webp = nc.load("webp", DECLARED, errors="zero")


def encode(rgb, width, height, quality):
    """An image of three bytes a pixel, compressed."""
    written = bytearray()

    def write(data, size, picture):
        written.extend(webp.ffi.buffer(data, size))
        return 1

    config, picture = webp.new("WebPConfig"), webp.new("WebPPicture")
    webp.WebPConfigInitInternal(config, 0, quality, VERSION)
    webp.WebPPictureInitInternal(picture, VERSION)
    picture.width, picture.height, picture.writer = width, height, write
    webp.WebPPictureImportRGB(picture, rgb, 3 * width)
    try:
        webp.WebPEncode(config, picture)
    finally:
        webp.WebPPictureFree(picture)
    return bytes(written)


def main():
    rgb = bytes(x ^ y for y in range(64) for x in range(64) for _ in range(3))
    image = encode(rgb, 64, 64, 50)
    print(image[:4], image[8:16], len(image) < len(rgb) / 4)
    try:
        encode(rgb, 64, 64, 500)
    except nc.NativeFailure:
        print("no such quality")


if __name__ == "__main__":
    main()
