"""Libraries that nothing here was written for: headers are read, and some functions called.

Where one is not installed, its test is skipped.
"""

import hashlib
import lzma
import zlib

import pytest

import nativecall as nc
from nativecall._cdecl.preprocessor import compiler

numpy = pytest.importorskip("numpy")


@pytest.fixture
def opened():
    """Loads a library, of which all but what takes a `va_list` is offered."""
    if compiler() is None:
        pytest.skip("there is no C compiler")

    def load(name, *headers, **options):
        try:
            lib = nc.load(name, header=headers, **options)
        except nc.LibraryError as error:
            pytest.skip(str(error).splitlines()[0])
        left_out = {name: why for name, why in lib.skipped.items() if not why.startswith("a macro")}
        assert {name for name, why in left_out.items() if "va_list" not in why} == set()
        return lib

    return load


def test_gmp(opened):
    gmp = opened("gmp", "gmp.h")
    x, y = gmp.new("mpz_t"), gmp.new("mpz_t")
    gmp.mpz_init_set_str(x, b"123456789012345678901234567890", 10)
    gmp.mpz_init(y)
    gmp.mpz_pow_ui(y, x, 2)
    text = gmp.mpz_get_str(None, 10, y)
    assert int(nc.string(text)) == 123456789012345678901234567890**2
    numbers = [gmp[f"__GNU_MP_VERSION{part}"] for part in ("", "_MINOR", "_PATCHLEVEL")]
    assert gmp.gmp_version == b"%d.%d.%d" % tuple(numbers)
    with pytest.raises(nc.SymbolError, match=r"not a function; did you mean '_mpz_cmp_ui'\?$"):
        gmp.mpz_cmp_ui
    gmp.mpz_clear(x)
    gmp.mpz_clear(y)


def test_mpfr(opened):
    mpfr = opened("mpfr", "mpfr.h")
    x, text = mpfr.new("mpfr_t"), bytearray(80)
    mpfr.mpfr_init2(x, 200)
    mpfr.mpfr_const_pi(x, mpfr.MPFR_RNDN)
    length = mpfr.mpfr_snprintf(text, 80, b"%.30Rf", x)
    assert text[:length] == b"3.141592653589793238462643383280"
    mpfr.mpfr_clear(x)


def test_pcre2(opened):
    name = "pcre2_compile_8"
    pcre = opened(
        "pcre2-8",
        "pcre2.h",
        define={"PCRE2_CODE_UNIT_WIDTH": 8},
        out={name: [3, 4]},
    )
    pattern, text = rb"(\w+)@(\w+)", b"mail me@home now"
    code, _, _ = pcre.pcre2_compile_8(pattern, len(pattern), 0, None)
    found = pcre.pcre2_match_data_create_from_pattern_8(code, None)
    count = pcre.pcre2_match_8(code, text, len(text), 0, 0, found, None)
    places = pcre.asarray(pcre.pcre2_get_ovector_pointer_8(found), (count, 2))
    assert [text[a:b] for a, b in places] == [b"me@home", b"me", b"home"]
    pcre.pcre2_match_data_free_8(found)
    pcre.pcre2_code_free_8(code)
    assert pcre.pcre2_compile_8(b"(", 1, 0, None)[::2] == (None, 1)


def test_archive(opened):
    archive = opened("archive", "archive.h", "archive_entry.h")
    packed, used = bytearray(10240), archive.new("size_t *")
    writer, entry = archive.archive_write_new(), archive.archive_entry_new()
    archive.archive_write_set_format_ustar(writer)
    assert archive.archive_write_open_memory(writer, packed, len(packed), used) == 0
    archive.archive_entry_set_pathname(entry, b"x.txt")
    archive.archive_entry_set_size(entry, 5)
    archive.archive_entry_set_filetype(entry, archive.AE_IFREG)
    archive.archive_write_header(writer, entry)
    archive.archive_write_data(writer, b"hello", 5)
    archive.archive_write_close(writer)
    size = used[0]
    archive.archive_write_free(writer)
    archive.archive_entry_free(entry)
    reader, entries = archive.archive_read_new(), archive.new("struct archive_entry *[1]")
    archive.archive_read_support_format_all(reader)
    archive.archive_read_open_memory(reader, packed, size)
    assert archive.archive_read_next_header(reader, entries) == archive.ARCHIVE_OK
    assert archive.archive_entry_pathname(entries[0]) == b"x.txt"
    assert archive.archive_entry_size(entries[0]) == 5
    archive.archive_read_free(reader)


def test_event(opened):
    event = opened("event", "event2/event.h", "event2/event_struct.h", keep={"event_new": 0})
    base, seen = event.event_base_new(), []
    one = event.event_new(
        base, -1, event.EV_TIMEOUT, lambda fd, what, data: seen.append(what), None
    )
    event.event_add(one, event.new("struct timeval", (0, 1000)))
    assert event.event_base_dispatch(base) == 1
    assert seen == [event.EV_TIMEOUT]
    event.event_free(one)
    event.event_base_free(base)


def test_sodium(opened):
    sodium = opened("sodium", "sodium.h")
    assert sodium.sodium_init() >= 0
    digest, key, nonce = bytearray(32), bytes(32), bytes(24)
    sodium.crypto_generichash(digest, 32, b"hello", 5, None, 0)
    assert digest == hashlib.blake2b(b"hello", digest_size=32).digest()
    box, text = bytearray(5 + sodium.crypto_secretbox_MACBYTES), bytearray(5)
    sodium.crypto_secretbox_easy(box, b"hello", 5, nonce, key)
    assert sodium.crypto_secretbox_open_easy(text, box, len(box), nonce, key) == 0
    assert text == b"hello"
    box[0] ^= 1
    assert sodium.crypto_secretbox_open_easy(text, box, len(box), nonce, key) == -1


def test_tiff(opened, tmp_path):
    tiff = opened("tiff", "tiffio.h", encoding="utf-8")
    image = tiff.TIFFOpen(str(tmp_path / "image.tif"), "w")
    for tag, value in (
        (tiff.TIFFTAG_IMAGEWIDTH, 4),
        (tiff.TIFFTAG_IMAGELENGTH, 2),
        (tiff.TIFFTAG_BITSPERSAMPLE, 8),
        (tiff.TIFFTAG_SAMPLESPERPIXEL, 1),
        (tiff.TIFFTAG_PHOTOMETRIC, tiff.PHOTOMETRIC_MINISBLACK),
    ):
        tiff.TIFFSetField(image, tag, value)
    for row in range(2):
        tiff.TIFFWriteScanline(image, numpy.arange(4, dtype=numpy.uint8) + row, row, 0)
    tiff.TIFFClose(image)
    image = tiff.TIFFOpen(str(tmp_path / "image.tif"), "r")
    width, line = numpy.zeros(1, numpy.uint32), numpy.zeros(4, numpy.uint8)
    tiff.TIFFGetField(image, tiff.TIFFTAG_IMAGEWIDTH, width)
    tiff.TIFFReadScanline(image, line, 1, 0)
    tiff.TIFFClose(image)
    assert (width.tolist(), line.tolist()) == ([4], [1, 2, 3, 4])


def test_freetype(opened):
    freetype = opened(
        "freetype",
        "freetype/freetype.h",
        include="/usr/include/freetype2",
        out={"FT_Init_FreeType": [0], "FT_Library_Version": [1, 2, 3], "FT_New_Face": [3]},
        errors={"FT_Init_FreeType": "nonzero"},
    )
    library = freetype.FT_Init_FreeType()
    assert freetype.FT_Library_Version(library)[0] == freetype.FREETYPE_MAJOR
    assert freetype.FT_New_Face(library, b"/nowhere", 0) == (1, None)
    freetype.FT_Done_FreeType(library)


def test_lzma(opened):
    xz = opened("lzma", "lzma.h")
    data, packed = b"abc" * 1000, bytearray(2000)
    stream = xz.new("lzma_stream", {"next_in": data, "avail_in": 3000, "avail_out": 2000})
    assert xz.lzma_easy_encoder(stream, 6, xz.LZMA_CHECK_CRC64) == xz.LZMA_OK
    target = xz.ffi.from_buffer("uint8_t[]", packed)
    stream.next_out = target
    assert xz.lzma_code(stream, xz.LZMA_FINISH) == xz.LZMA_STREAM_END
    assert lzma.decompress(packed[: stream.total_out]) == data
    xz.lzma_end(stream)


def test_cholmod(opened):
    cholmod = opened("cholmod", "suitesparse/cholmod.h")
    common = cholmod.new("cholmod_common")
    cholmod.cholmod_start(common)
    identity = cholmod.cholmod_speye(4, 4, cholmod.CHOLMOD_REAL, common)
    assert (identity.nrow, cholmod.cholmod_norm_sparse(identity, 1, common)) == (4, 1.0)
    cholmod.cholmod_free_sparse(cholmod.new("cholmod_sparse *[1]", [identity]), common)
    cholmod.cholmod_finish(common)


def test_expat(opened):
    expat = opened("expat", "expat.h", keep={"XML_SetElementHandler": "parser"})
    seen, text = [], b"<a><b x='1'/></a>"
    parser = expat.XML_ParserCreate(None)

    def start(data, name, attributes):
        seen.append((nc.string(name), nc.string(attributes[0])))

    def end(data, name):
        seen.append(nc.string(name))

    expat.XML_SetElementHandler(parser, start, end)
    assert expat.XML_Parse(parser, text, len(text), True) == expat.XML_STATUS_OK
    expat.XML_ParserFree(parser)
    assert seen == [(b"a", None), (b"b", b"x"), b"b", b"a"]


def test_jpeg(opened):
    jpeg = opened("jpeg", "stdio.h", "jpeglib.h")
    image, errors = jpeg.new("struct jpeg_compress_struct"), jpeg.new("struct jpeg_error_mgr")
    image.err = jpeg.jpeg_std_error(errors)
    size = jpeg.ffi.sizeof("struct jpeg_compress_struct")
    jpeg.jpeg_CreateCompress(image, jpeg.JPEG_LIB_VERSION, size)
    memory, used = jpeg.new("unsigned char *[1]"), jpeg.new("unsigned long *")
    jpeg.jpeg_mem_dest(image, memory, used)
    image.image_width = image.image_height = 8
    image.input_components, image.in_color_space = 1, jpeg.JCS_GRAYSCALE
    jpeg.jpeg_set_defaults(image)
    jpeg.jpeg_start_compress(image, True)
    rows = jpeg.new("JSAMPROW[1]", [numpy.full(8, 100, numpy.uint8)])
    for _ in range(8):
        jpeg.jpeg_write_scanlines(image, rows, 1)
    jpeg.jpeg_finish_compress(image)
    packed = bytes(jpeg.ffi.buffer(memory[0], used[0]))
    jpeg.jpeg_destroy_compress(image)
    assert (packed[:2], packed[-2:]) == (b"\xff\xd8", b"\xff\xd9")


def test_regular_expressions_of_the_c_library(opened):
    c = nc.load("c", header="regex.h", encoding="utf-8")
    wanted, found = c.new("regex_t"), c.new("regmatch_t[2]")
    assert c.regcomp(wanted, "a(b+)", c.REG_EXTENDED) == 0
    # Its array of matches is declared as [__restrict nmatch].
    assert c.regexec(wanted, "xabbb", 2, found, 0) == 0
    assert (found[1].rm_so, found[1].rm_eo) == (2, 5)
    c.regfree(wanted)


def test_deflate(opened):
    made, ends = "libdeflate_alloc_compressor", "libdeflate_free_compressor"
    deflate = opened("deflate", "libdeflate.h", close={made: ends})
    compressor, packed = deflate.libdeflate_alloc_compressor(6), bytearray(100)
    size = deflate.libdeflate_zlib_compress(compressor, b"x" * 500, 500, packed, 100)
    assert zlib.decompress(packed[:size]) == b"x" * 500
    deflate.libdeflate_free_compressor(compressor)
    with pytest.raises(
        ValueError, match="was already freed or closed by 'libdeflate_free_compressor'"
    ):
        deflate.libdeflate_zlib_compress(compressor, b"x", 1, packed, 100)


def test_yaml(opened):
    yaml = opened("yaml", "yaml.h")
    parser, event, text = yaml.new("yaml_parser_t"), yaml.new("yaml_event_t"), b"a: [1, 2]\n"
    assert yaml.yaml_parser_initialize(parser)
    yaml.yaml_parser_set_input_string(parser, text, len(text))
    scalars, kind = [], yaml.YAML_NO_EVENT
    while kind != yaml.YAML_STREAM_END_EVENT:
        assert yaml.yaml_parser_parse(parser, event)
        kind = event.type
        if kind == yaml.YAML_SCALAR_EVENT:
            scalars.append(nc.string(event.data.scalar.value))
        yaml.yaml_event_delete(event)
    yaml.yaml_parser_delete(parser)
    assert scalars == [b"a", b"1", b"2"]


def test_idn2(opened):
    name = "idn2_to_ascii_8z"
    idn = opened(
        "idn2", "idn2.h", encoding="utf-8", out={name: ["output"]}, free={name: "idn2_free"}
    )
    status, found = idn.idn2_to_ascii_8z("bücher.example", 0)
    assert (status, nc.string(found)) == (idn.IDN2_OK, b"xn--bcher-kva.example")


def test_tcl(opened):
    tcl = opened(
        "tcl8.6",
        "tcl.h",
        include=["/usr/include/tcl8.6"],
        close={"Tcl_CreateInterp": "Tcl_DeleteInterp"},
    )
    interpreter = tcl.Tcl_CreateInterp()
    assert tcl.Tcl_Eval(interpreter, b"expr {6 * 7}") == tcl.TCL_OK
    assert tcl.Tcl_GetStringResult(interpreter) == b"42"
    tcl.Tcl_DeleteInterp(interpreter)


def test_webp(opened):
    webp = opened("webp", "webp/encode.h", "webp/decode.h", errors={"WebPEncode": "zero"})
    config, picture, written = webp.new("WebPConfig"), webp.new("WebPPicture"), []
    webp.WebPConfigInit(config)
    webp.WebPPictureInit(picture)
    picture.width, picture.height = 8, 4
    pixels = numpy.full((4, 8, 3), (10, 200, 30), "u1")
    webp.WebPPictureImportRGB(picture, pixels, pixels.strides[0])

    def write(data, size, picture):
        written.append(bytes(webp.ffi.buffer(data, size)))
        return 1

    picture.writer = write  # only after it was initialised
    webp.WebPEncode(config, picture)
    webp.WebPPictureFree(picture)
    image = b"".join(written)
    width, height = webp.new("int *"), webp.new("int *")
    assert webp.WebPGetInfo(image, len(image), width, height) == 1
    assert (image[:4], width[0], height[0]) == (b"RIFF", 8, 4)


def test_sqlite_text(opened):
    outs = {"sqlite3_open": ["ppDb"], "sqlite3_prepare_v2": ["ppStmt", "pzTail"]}
    sqlite = opened("sqlite3", "sqlite3.h", encoding="utf-8", out=outs)
    _, db = sqlite.sqlite3_open(":memory:")
    _, rows, rest = sqlite.sqlite3_prepare_v2(db, "SELECT 'Grüße', NULL", -1)
    sqlite.sqlite3_step(rows)
    assert [sqlite.sqlite3_column_text(rows, i) for i in range(2)] == ["Grüße", None]
    assert rest == ""
    sqlite.sqlite3_finalize(rows)
    sqlite.sqlite3_close(db)
