"""Text behind pointers to const characters, and `nativecall.string` for other pointers."""

import array
import codecs
import ctypes
import pickle
import sys

import cffi
import numpy as np
import pytest

import nativecall as nc

WORDS = ("", "plain", "häß", "\u20ac\U0001f600", "x" * 5000)
WIDE = ("wchar_t", "char16_t", "char32_t")
SIZES = {"wchar_t": ctypes.sizeof(ctypes.c_wchar), "char16_t": 2, "char32_t": 4}


def same(lib, kind, **options):
    """A function that returns the text it is given."""
    return lib.function("address_of", f"const {kind} *f(const {kind} *text)", **options)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "utf-7", "gb18030"])
def test_text_in_an_encoding(lib, word, encoding):
    f = same(lib, "char", encoding=encoding)
    assert f(word) == word
    assert f(word.encode(encoding)) == word
    assert f(None) is None
    assert f(text=word) == word
    assert f.builtin(word) == word


def test_a_codec_gets_a_copy(lib):
    given = []

    def decode(data, errors="strict"):
        given.append(data)
        return bytes(data).decode("latin-1"), len(data)

    def find(name):
        if name != "keeps_it":
            return None
        return codecs.CodecInfo(codecs.latin_1_encode, decode, name="keeps_it")

    codecs.register(find)
    try:
        f = same(lib, "char", encoding="keeps_it")
        memory = ffi.new("char[]", b"text")
        assert f(memory) == nc.string(ffi.cast("char *", memory), "keeps_it") == "text"
        ffi.buffer(memory)[:] = b"gone\0"
        assert [bytes(one) for one in given] == [b"text"] * 2
    finally:
        codecs.unregister(find)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("kind", WIDE)
def test_wide_text_needs_no_encoding(lib, kind, word):
    f = same(lib, kind)
    assert f(word) == word
    assert f(None) is None
    encoded = (word + "\0").encode(
        f"utf-{8 * SIZES[kind]}-{'le' if sys.byteorder == 'little' else 'be'}"
    )
    # The last letter is the type of a character, which for wchar_t has a sign here and there.
    array = np.frombuffer(encoded, f.signatures[0][-1])
    assert f(array) == word


def test_text_without_an_encoding_is_bytes(lib, fails):
    f = same(lib, "char")
    assert f(b"a\xffb\0c") == b"a\xffb"
    assert f(bytearray(b"ab\0")) == b"ab"
    assert f(None) is None
    with fails(
        TypeError,
        "argument 1 of 'address_of' must be a 'const char *' pointer: a buffer, a ctypes or cffi "
        "pointer, or None (got str); a str is not a buffer, pass s.encode(), or give the function "
        "an encoding",
    ):
        f("ab")
    message = r"^argument 1 of 'atoi' must be a .* pointer: a str, a buffer, .* \(got int\)$"
    with pytest.raises(TypeError, match=message):
        nc.load(None, "int atoi(const char *);", encoding="utf-8").atoi(5)


@pytest.mark.parametrize(
    "declaration",
    [
        "char *f(const char *)",
        "unsigned char *f(const char *)",
        "const uint8_t *f(const char *)",
        "const int8_t *f(const char *)",
        "const char **f(const char *)",
        "char *const f(const char *)",
        "&b:&b",
    ],
)
def test_other_pointers_stay_pointers(lib, declaration):
    f = lib.function("address_of", declaration, encoding="utf-8")
    memory = bytearray(b"ab\0cdefghijklmn\0")
    found = f(memory)
    assert isinstance(found, cffi.FFI.CData)
    if "**" not in declaration:
        assert nc.string(found) == b"ab"


@pytest.mark.parametrize(
    "declaration",
    [
        "const char *f(const char *)",
        "char const *f(char const *)",
        "extern const char *const f(const char *const restrict)",
        "typedef const char *text; text f(text);",
        "typedef const char letter; letter *f(letter *);",
        "typedef char letter; const letter *f(const letter *);",
        "const char *f(const char s[]);",
    ],
)
def test_every_way_to_declare_text(lib, declaration):
    if declaration.startswith("typedef"):
        library = nc.load(
            lib.path,
            declaration.replace(" f(", " address_of(").replace("*f(", "*address_of("),
            encoding="utf-8",
        )
        f = library.address_of
    else:
        f = lib.function("address_of", declaration, encoding="utf-8")
    assert f("häß") == "häß"


def test_characters_of_arguments_that_are_written_take_no_str(lib, fails):
    f = lib.function("address_of", "const char *f(char *)", encoding="utf-8")
    assert f(bytearray(b"ab\0")) == "ab"
    with pytest.raises(TypeError, match=r"got str"):
        f("ab")


@pytest.mark.parametrize(
    ("kind", "encoding", "value", "encoded"),
    [("char", "utf-8", "a\0b", ""), ("char", "utf-16", "ab", " once it is encoded")]
    + [(kind, "utf-8", "a\0", "") for kind in WIDE],
)
def test_null_characters_are_refused(lib, fails, kind, encoding, value, encoded):
    message = f"must not contain a null character{encoded}, which ends a string in C"
    with fails(ValueError, f"argument 1 of 'address_of' {message}"):
        same(lib, kind, encoding=encoding)(value)


def test_text_that_does_not_fit_the_encoding(lib):
    with pytest.raises(UnicodeEncodeError, match="latin-1"):
        same(lib, "char", encoding="latin-1")("\u20ac")
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed") as raised:
        same(lib, "char", encoding="utf-8")("\ud800")
    assert raised.value.__notes__ == ["argument 1 of 'address_of'"]
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        same(lib, "wchar_t")("\ud800")
    with pytest.raises(UnicodeDecodeError, match="'utf-8' codec can't decode byte 0xff"):
        same(lib, "char", encoding="utf-8")(b"a\xff")
    with pytest.raises(UnicodeDecodeError, match="illegal encoding"):
        same(lib, "char16_t")(np.array([0xDC00, 0], np.uint16))
    with pytest.raises(UnicodeDecodeError, match="not in range"):
        same(lib, "char32_t")(np.array([0x110000, 0], np.uint32))


def test_a_subclass_of_str_is_text(lib):
    class Word(str):
        __slots__ = ()

    assert same(lib, "char", encoding="utf-8")(Word("ab")) == "ab"
    # One that has a buffer, of characters that C does not have.
    for kind in ("char", "wchar_t"):
        assert same(lib, kind, encoding="utf-8")(np.str_("aé")) == "aé"


def test_failures_of_text_results(lib):
    f = same(lib, "char", errors="null", encoding="utf-8")
    assert f("") == ""
    with pytest.raises(nc.NativeFailure, match="it returned NULL"):
        f(None)


def test_an_overload_takes_text_where_it_has_an_encoding(lib):
    text = same(lib, "char", encoding="utf-8")
    f = nc.wrap({"const char *(const char *)": text, "d:d": lib.address("square")}, name="f")
    assert f("ab") == "ab"
    assert f(3.0) == 9.0
    plain = nc.wrap(
        {"const char *(const char *)": same(lib, "char"), "d:d": lib.address("square")}, name="g"
    )
    with pytest.raises(TypeError):
        plain("ab")


def test_text_survives_binding_conversion_and_pickling(lib):
    getenv = nc.load(None, "const char *strchr(const char *, int);", encoding="utf-8").strchr
    assert getenv.bind("a=b")(ord("=")) == "=b"
    again = pickle.loads(pickle.dumps(getenv))
    assert again("a=b", ord("=")) == "=b"
    printf = nc.load(
        None, "int snprintf(char *, unsigned long, const char *, ...);", encoding="ascii"
    )
    memory = bytearray(16)
    assert printf.snprintf(memory, 16, "%d %s", 5, b"six") == 5
    assert nc.string(memory) == b"5 six"


def test_signatures_know_text_but_are_equal_without():
    s = nc.Signature
    text = nc.wrap(1, "const char *f(const wchar_t *, double, const char16_t *)", name="f")
    signature = text._entry()[0].signature
    assert signature.characters == ("wchar_t", "", "char16_t", "char")
    assert isinstance(signature, s)
    assert pickle.loads(pickle.dumps(signature)).characters == signature.characters
    assert signature == nc.wrap(1, signature.text, name="g")._entry()[0].signature
    assert s(signature.result, signature.args).characters == ()
    with pytest.raises(ValueError, match="'characters' must have one item an argument and one"):
        s(signature.result, signature.args, characters=("char",))


# -- string --------------------------------------------------------------------------------------

ffi = cffi.FFI()
KEPT = [
    ffi.new("char[]", b"ab"),
    ffi.new("wchar_t[]", "a\u20acb"),
    ffi.new("char16_t[]", "\U0001f600"),
]


@pytest.mark.parametrize(
    ("pointer", "text"),
    [
        (None, None),
        (ffi.NULL, None),
        (ffi.cast("char *", 0), None),
        (KEPT[0], b"ab"),
        (ffi.cast("char *", KEPT[0]), b"ab"),
        (ffi.cast("unsigned char *", KEPT[0]), b"ab"),
        (ffi.cast("void *", KEPT[0]), b"ab"),
        (ffi.cast("signed char *", KEPT[0]), b"ab"),
        (KEPT[1], "a\u20acb"),
        (KEPT[2], "\U0001f600"),
        (ctypes.c_char_p(b"ab\0c"), b"ab"),
        (ctypes.c_char_p(None), None),
        (ctypes.c_wchar_p("a\u20ac"), "a\u20ac"),
        (ctypes.create_string_buffer(b"ab\0c"), b"ab"),
        (ctypes.cast(ctypes.create_string_buffer(b"ab"), ctypes.POINTER(ctypes.c_char)), b"ab"),
        (b"ab\0c", b"ab"),
        (b"ab", b"ab"),
        (bytearray(), b""),
        (memoryview(b"a1b2c\0")[::2], b"abc"),
        (np.frombuffer(b"ab\0c", np.uint8), b"ab"),
    ],
)
def test_string_reads_up_to_the_null_character(pointer, text):
    assert nc.string(pointer) == text


def test_string_reads_text_of_a_given_length():
    ffi = cffi.FFI()
    text, wide = ffi.new("char[]", b"h\xc3\xa4\0b"), ffi.new("wchar_t[]", "hä\0b")
    for pointer in (
        text,
        ffi.cast("char *", text),
        ffi.cast("void *", text),
        bytes(ffi.buffer(text)),
        memoryview(ffi.buffer(text)),
        ctypes.cast(int(ffi.cast("uintptr_t", text)), ctypes.POINTER(ctypes.c_char)),
        ctypes.cast(int(ffi.cast("uintptr_t", text)), ctypes.POINTER(ctypes.c_uint8)),
    ):
        assert nc.string(pointer, length=3) == b"h\xc3\xa4"
        assert nc.string(pointer, "utf-8", 3) == nc.string(pointer, "UTF8", 3) == "hä"
        assert nc.string(pointer, length=0) == b""
        assert nc.string(pointer, "utf-8", length=5) == "hä\0b"
    for pointer in (wide, ffi.cast("wchar_t *", wide), "hä\0b"):
        assert nc.string(pointer, length=4) == nc.string(pointer, "utf-8", 4) == "hä\0b"
    assert nc.string(None, length=2) is nc.string(ffi.cast("char *", 0), "utf-8", 2) is None
    for pointer, length, error, message in (
        (text, 7, ValueError, "'length' is 7, but 'pointer' has 6 items"),
        (b"abc", 4, ValueError, "'length' is 4, but 'pointer' has 3 items"),
        (text, -1, ValueError, "'length' must be 0 or more"),
        (ffi.new("wchar_t *"), 2**62, MemoryError, "^$"),
        (text, 1.5, TypeError, "'length' must be an int or None"),
        (text, 2, UnicodeDecodeError, "unexpected end of data"),
    ):
        with pytest.raises(error, match=message):
            nc.string(pointer, "utf-8", length)
    for length in range(2, 300):  # more array types than are cached
        assert nc.string(ffi.new(f"char[{length}]", b"a")) == b"a"


def test_string_decodes():
    memory = ffi.new("char[]", "häß".encode())
    assert nc.string(memory, "utf-8") == "häß"
    assert nc.string(memory, encoding="latin-1") == "hÃ¤Ã\x9f"
    assert nc.string(KEPT[1], "utf-8") == "a\u20acb"
    assert nc.string(None, "utf-8") is None
    with pytest.raises(UnicodeDecodeError):
        nc.string(memory, "ascii")
    with pytest.raises(ValueError, match="'encoding' must be a text encoding that Python supports"):
        nc.string(memory, "utf-9")
    with pytest.raises(ValueError, match="'encoding' must be a text encoding that Python supports"):
        nc.string(ffi.new("char[]", b"6162"), "hex")


@pytest.mark.parametrize(
    ("pointer", "shown"),
    [
        (5, "(got int)"),
        (
            ffi.new("int *"),
            "(got cffi's 'int *'); cast it to 'wchar_t *', 'char16_t *' or 'char32_t *'",
        ),
        (ffi.new("double *"), "(got cffi's 'double *')"),
        (ffi.cast("int", 5), "(got cffi's 'int')"),
        (np.zeros(3), "(got 'd' elements in ndarray)"),
        (ctypes.pointer(ctypes.c_int(5)), "(got '&i' from LP_c_int)"),
    ],
)
def test_string_refuses_what_leads_to_no_characters(fails, pointer, shown):
    with fails(
        TypeError,
        "'pointer' must be a pointer to characters or bytes: a cffi or ctypes pointer, a buffer of "
        f"bytes, or None {shown}",
    ):
        nc.string(pointer)


# -- functions that get text ---------------------------------------------------------------------

CALLING = """
#include <wchar.h>
typedef int (*visitor)(const char *, int, char *, const wchar_t *);
static visitor kept;
int visit(const char *text, visitor f) { char own[] = "own"; return f(text, 2, own, L"\\u00e9"); }
int visit_named(const char *text, visitor f) { return visit(text, f); }
void keep(visitor f) { kept = f; }
int visit_kept(const char *text) { char own[] = "own"; return kept(text, 3, own, 0); }
"""
DECLARED = """
#include <stddef.h>
typedef int (*visitor)(const char *, int, char *, const wchar_t *);
int visit(const char *text, visitor f);
int visit_named(const char *, int (*)(const char *name, int, char *, const wchar_t *));
void keep(visitor f);
int visit_kept(const char *text);
"""


@pytest.fixture(scope="module")
def calling(builder):
    return builder.library(CALLING, "calling_with_text")


@pytest.fixture(params=["header", "text"])
def visiting(request, calling, tmp_path):
    def load(**options):
        if request.param == "text":
            declared = DECLARED.replace("#include <stddef.h>", "")
            return nc.load(calling, declared, **options)
        (tmp_path / "calling.h").write_text(DECLARED)
        return nc.load(calling, header="calling.h", include=[tmp_path], **options)

    return load


def test_functions_get_text_by_the_encoding(visiting):
    lib = visiting(encoding="utf-8", keep={"keep": "library"})
    seen = []

    def visit(*values):
        seen.append(values)
        return 7

    for call in (lib.visit, lib.visit_named, lib.visit):
        assert call("hä", visit) == 7
        text, number, own, wide = seen.pop()
        assert (text, number, wide) == ("hä", 2, "é")
        assert isinstance(own, cffi.FFI.CData)
    assert lib.visit(None, lambda text, *_: text is None) == 1
    lib.keep(visit)
    assert lib.visit_kept("kept") == 7
    assert (seen[-1][0], seen[-1][3]) == ("kept", None)


def test_functions_get_pointers_without_an_encoding(visiting):
    lib = visiting()
    assert lib.visit(b"abc", lambda text, *_: len(nc.string(text))) == 3


def test_text_that_does_not_decode_is_raised_by_the_call(visiting):
    lib = visiting(encoding="utf-8")
    with pytest.raises(UnicodeDecodeError) as info:
        lib.visit(b"\xff", len_of)
    assert info.value.__notes__ == ["argument 1 of 'len_of'"]


def len_of(text):
    return len(text) if isinstance(text, str) else -1


def test_a_callback_gets_text_by_its_encoding(visiting):
    lib = visiting()

    @nc.callback("int (const char *, int, char *, const wchar_t *)", encoding="utf-8")
    def visit(text, number, own, wide):
        return len(text) + len(wide)

    assert lib.visit("hä".encode(), visit) == 3
    assert nc.callback("int (const char *)", lambda text: text is None, encoding="ascii")(None) == 1
    with pytest.raises(ValueError, match=r"'encoding' must be a text encoding .*'none'"):
        nc.callback("int (const char *)", print, encoding="none")
    visit = nc.callback("int (const char *)", len_of, encoding="latin-1")
    assert visit("\xe9\xe9") == pickle.loads(pickle.dumps(visit))("\xe9\xe9") == 2
    pointer = nc.callback("int (const char *)", lambda text: isinstance(text, cffi.FFI.CData))
    assert pointer(b"a") == 1


# -- Python functions that give text to C ----------------------------------------------------------


@pytest.mark.parametrize("kind", ["char", *WIDE])
def test_python_functions_give_text(kind):
    words = iter(WORDS)
    f = nc.callback(f"const {kind} *(void)", lambda: next(words), encoding="utf-8")
    assert [f() for _ in WORDS] == [*WORDS]
    other = nc.callback(f"const {kind} *(void)", lambda: None, encoding="utf-8")
    assert other() is None


def test_text_of_a_callback_lives_until_its_next_call():
    f = nc.callback("const char *(int)", lambda n: f"text {n}", encoding="utf-8")
    address = nc.wrap(f.address(), "q:i")(1)
    _ = [bytes(8) for _ in range(1000)]
    assert ctypes.string_at(address) == b"text 1"


@pytest.mark.parametrize(
    ("encoding", "value", "error", "message"),
    [
        ("latin-1", "\u20ac", UnicodeEncodeError, "latin-1"),
        ("utf-8", "a\0b", ValueError, "null character"),
        ("utf-8", 3, TypeError, r"must be a '&[bB]' pointer.*got int"),
        (None, "a", TypeError, "pass s.encode"),
    ],
)
def test_text_that_a_python_function_cannot_give(encoding, value, error, message):
    options = {} if encoding is None else {"encoding": encoding}
    f = nc.callback("const char *(void)", lambda: value, errors="python", **options)
    with pytest.raises(error, match=message):
        f()


def test_wide_text_that_c_may_change(builder):
    """The memory of ctypes goes in; a pointer comes back that is one to characters."""
    declared = "#include <wchar.h>\nwchar_t *shout(wchar_t *s);"
    path = builder.library(
        "#include <wchar.h>\n#include <wctype.h>\n"
        "wchar_t *shout(wchar_t *s);\nwchar_t *shout(wchar_t *s)"
        " { for (wchar_t *p = s; *p; p++) *p = (wchar_t)towupper((wint_t)*p); return s; }",
        "shout",
    )
    lib = nc.load(path, declared)
    text = ctypes.create_unicode_buffer("abc")
    assert (nc.string(lib.shout(text)), text.value) == ("ABC", "ABC")
    assert lib.ffi.typeof(lib.shout(text)) is lib.ffi.typeof("wchar_t *")
    with pytest.raises(TypeError, match=r"suits 'wchar_t \*' \(got 'H' elements in array"):
        lib.shout(array.array("H", [1, 0]))
