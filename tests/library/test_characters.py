"""Pointers to characters of all kinds: arguments, results, variables, members, callbacks."""

import pytest

import nativecall as nc

INCLUDES = """
#include <stdint.h>
#include <uchar.h>
#include <wchar.h>
typedef unsigned char xmlChar;
typedef unsigned char Bytef;
"""
NARROW = {"c": "char", "uc": "unsigned char", "sc": "signed char", "xc": "xmlChar"}
BYTES = {"u8": "uint8_t", "by": "Bytef"}
WIDE = {"w": "wchar_t", "c16": "char16_t", "c32": "char32_t"}
KINDS = {**NARROW, **BYTES, **WIDE}
PREFIXES = {"w": "L", "c16": "u", "c32": "U"}


def declared(kind, c):
    return f"""
typedef struct {{ const {c} *s; }} st_{kind};
typedef void (*cb_{kind})(const {c} *s);
typedef const {c} *(*give_{kind})(void);
st_{kind} made_{kind}(void);
{c} *getm_{kind}(void);
const {c} *const *list_{kind}(void);
int change_{kind}({c} *s);
void fill_{kind}({c} *s, int count);
int ask_{kind}(give_{kind} f);
const {c} *get_{kind}(void);
int len_{kind}(const {c} *s);
int in_{kind}(st_{kind} p);
int behind_{kind}(st_{kind} *p);
void call_{kind}(cb_{kind} f);
void put_{kind}(const {c} **s);
extern const {c} *var_{kind};
"""


def defined(kind, c):
    text = f'(const {c} *){PREFIXES.get(kind, "")}"abc"'
    return f"""
const {c} *var_{kind} = {text};
const {c} *get_{kind}(void) {{ return {text}; }}
{c} *getm_{kind}(void) {{ return ({c} *){text}; }}
const {c} *const *list_{kind}(void) {{ static const {c} *l[1]; l[0] = {text}; return l; }}
st_{kind} made_{kind}(void) {{ st_{kind} p = {{{text}}}; return p; }}
void fill_{kind}({c} *s, int count) {{ while (--count >= 0) s[count] = ({text})[count]; }}
int len_{kind}(const {c} *s) {{ int n = 0; while (s[n]) n++; return n; }}
int change_{kind}({c} *s) {{ return len_{kind}(s); }}
int ask_{kind}(give_{kind} f) {{ const {c} *s = f(); return s ? len_{kind}(s) : -1; }}
int in_{kind}(st_{kind} p) {{ return len_{kind}(p.s); }}
int behind_{kind}(st_{kind} *p) {{ return len_{kind}(p->s); }}
void call_{kind}(cb_{kind} f) {{ f({text}); }}
void put_{kind}(const {c} **s) {{ *s = {text}; }}
"""


DECLARED = INCLUDES + "".join([declared(*one) for one in KINDS.items()])


@pytest.fixture(scope="module")
def path(builder):
    return builder.library(DECLARED + "".join([defined(*one) for one in KINDS.items()]), "chars")


@pytest.fixture(params=["text", "header"])
def load(request, path, tmp_path):
    out = {f"put_{kind}": ["s"] for kind in KINDS}
    out |= {f"fill_{kind}": {"s": "count"} for kind in KINDS}
    if request.param == "text":
        without = "".join(DECLARED.partition("typedef unsigned char xmlChar")[1:])
        return lambda **options: nc.load(path, without, out=out, **options)
    header = tmp_path / "chars.h"
    header.write_text(DECLARED)
    return lambda **options: nc.load(path, header=header, out=out, **options)


def arrived(lib, kind, function=None):
    seen = []
    lib[f"call_{kind}"](seen.append if function is None else function(seen.append))
    return seen[0]


@pytest.mark.parametrize("kind", [*NARROW, *WIDE])
def test_text(load, kind):
    lib = load(encoding="utf-8")
    assert lib[f"get_{kind}"]() == lib[f"put_{kind}"]() == arrived(lib, kind) == "abc"
    assert nc.string(lib[f"get_{kind}"]()) == "abc"
    wide = {"c16": 4, "c32": 4, "w": 4}.get(kind, 5)
    assert lib[f"len_{kind}"]("abc\N{LATIN SMALL LETTER E WITH ACUTE}") == wide
    assert lib[f"in_{kind}"]({"s": "abcd"}) == 4
    setattr(lib, f"var_{kind}", "xyz")
    assert getattr(lib, f"var_{kind}") == "xyz"
    setattr(lib, f"var_{kind}", None)


@pytest.mark.parametrize("kind", WIDE)
def test_members_of_wide_characters(load, kind):
    lib = load()
    made = lib.new(f"st_{kind}", {"s": "abc"})
    assert lib[f"behind_{kind}"](made) == lib[f"in_{kind}"](made[0]) == 3
    made.s = "wide"
    assert (lib[f"behind_{kind}"](made), nc.string(made.s)) == (4, "wide")


@pytest.mark.parametrize("kind", BYTES)
def test_bytes_are_no_text(load, kind):
    lib = load(encoding="utf-8")

    def callback(function):
        return nc.callback(f"void (const {BYTES[kind]} *)", function, types=lib, encoding="ascii")

    found = lib[f"get_{kind}"](), lib[f"put_{kind}"](), arrived(lib, kind)
    for one in (*found, arrived(lib, kind, callback), getattr(lib, f"var_{kind}")):
        assert isinstance(one, lib.ffi.CData)
        assert nc.string(one) == b"abc"
    with pytest.raises(TypeError, match="got str"):
        lib[f"len_{kind}"]("abc")


@pytest.mark.parametrize("kind", ["uc", "sc", "xc"])
def test_bytes_without_an_encoding(load, kind):
    lib = load()
    for one in (lib[f"get_{kind}"](), lib[f"put_{kind}"](), arrived(lib, kind)):
        assert isinstance(one, lib.ffi.CData)
        assert nc.string(one, "ascii") == "abc"
    with pytest.raises(TypeError, match="got str"):
        lib[f"len_{kind}"]("abc")
    assert lib[f"get_{kind}"].__signature__.return_annotation is object


@pytest.mark.parametrize("encoding", [None, "utf-8"])
@pytest.mark.parametrize("kind", KINDS)
def test_string_reads_whatever_a_function_returned(load, kind, encoding):
    lib = load(encoding=encoding)
    filled = lib[f"fill_{kind}"](4)
    if kind in WIDE:
        hint = r"; for wide characters pass ffi.from_buffer\('wchar_t\[\]', value\)$"
        with pytest.raises(TypeError, match=hint):
            nc.string(filled)
        filled = lib.ffi.from_buffer(f"{WIDE[kind]}[]", filled)
    returned = (
        *(lib[f"get_{kind}"](), lib[f"getm_{kind}"](), lib[f"list_{kind}"]()[0]),
        *(lib[f"made_{kind}"]().s, lib[f"put_{kind}"](), filled),
        arrived(lib, kind),
    )
    for one in returned:
        assert nc.string(one, None if kind in WIDE else "ascii") == "abc"


@pytest.mark.parametrize("encoding", [None, "utf-8"])
@pytest.mark.parametrize("kind", KINDS)
def test_str_is_taken_or_refused_with_what_works(load, kind, encoding):
    lib = load(encoding=encoding)
    c, is_text = KINDS[kind], kind in WIDE or (kind in NARROW and encoding is not None)
    places = {
        "parameter": lib[f"len_{kind}"],
        "result": lambda value: lib[f"ask_{kind}"](lambda: value),
        "changed": lib[f"change_{kind}"],
    }
    for place, call in places.items():
        if is_text and place != "changed":
            assert call("abcd") == 4
            continue
        helps = place == "parameter" and kind in NARROW  # by encoding=
        hint = rf"new\('{c}\[\]', value\)" if kind in WIDE else r"pass s\.encode\(\)"
        with pytest.raises(TypeError, match=hint) as info:
            call("abcd")
        assert ("give the function an encoding" in str(info.value)) == helps
        assert call(lib.new(f"{c}[]", "abcd") if kind in WIDE else b"abcd") == 4
