"""Objects of cffi and ctypes that the core takes by itself once Python code has looked at one.

Each call is made more than once, since the first is another way than those that follow.
"""

import ctypes
import gc

import pytest

import nativecall as nc

DECLARED = """
typedef struct { double x, y; } pair;
typedef struct { double x; long long n; } other;
typedef struct { double *at; double scale; } leading;
double sum(pair p);
double scaled(leading l);
double read_pair(const pair *p);
double first(const double *p);
double held(double *p, double (*then)(void));
double plus(const double *p, double x);
int letter(const char *text, int a, int b, int c, int d, int e, int f, int g);
unsigned char *bytes(void);
wchar_t *wide(void);
"""
SOURCE = (
    "#include <stddef.h>\n"
    + DECLARED
    + """
double sum(pair p) { return p.x + p.y; }
double scaled(leading l) { return l.at[0] * l.scale; }
double read_pair(const pair *p) { return p->x; }
double first(const double *p) { return p[0]; }
double plus(const double *p, double x) { return p[0] + x; }
double held(double *p, double (*then)(void)) { then(); return p[0]; }
int letter(const char *text, int a, int b, int c, int d, int e, int f, int g)
{
    return text[0] + a + b + c + d + e + f + g;
}
unsigned char *bytes(void) { static unsigned char here[] = "text"; return here; }
wchar_t *wide(void) { static wchar_t here[] = L"text"; return here; }
"""
)
TIMES = 3


class Pair(ctypes.Structure):
    _fields_ = (("x", ctypes.c_double), ("y", ctypes.c_double))


class Other(ctypes.Structure):
    _fields_ = (("x", ctypes.c_double), ("n", ctypes.c_longlong))


@pytest.fixture(scope="module")
def lib(builder):
    path = builder.library(SOURCE, "taken", flags=("-O1", "-w"))
    return nc.load(path, DECLARED, encoding="utf-8")


def test_structs_of_cffi_by_value(lib):
    one = lib.new("pair *", (1, 2))
    for i in range(TIMES):
        one.x = i
        assert lib.sum(one[0]) == i + 2
        with pytest.raises(TypeError, match="must be a 'pair'"):
            lib.sum(lib.new("other *", (1, 2))[0])
        assert lib.sum((i, 1)) == lib.sum({"x": i, "y": 1}) == i + 1


def test_structs_of_cffi_that_lead_on(lib):
    for i in range(TIMES):
        number = lib.new("double *", i)
        assert lib.scaled(lib.new("leading *", {"at": number, "scale": 2})[0]) == 2 * i


def test_structs_of_ctypes_for_pointers(lib):
    for i in range(TIMES):
        assert lib.read_pair(Pair(i, 0)) == i
        assert lib.read_pair(ctypes.byref(Pair(i, 0))) == i
        assert lib.read_pair(ctypes.pointer(Pair(i, 0))) == i
        assert lib.read_pair((Pair * 2)(Pair(i, 0))) == i
        for wrong in (Other(1, 2), ctypes.byref(Other(1, 2)), ctypes.pointer(Other(1, 2))):
            with pytest.raises(TypeError, match="'const pair \\*'"):
                lib.read_pair(wrong)


def test_byref_with_an_offset(lib):
    one = Pair(1, 5)
    numbers = (ctypes.c_double * 3)(1, 2, 3)
    for _ in range(TIMES):
        assert lib.first(ctypes.byref(ctypes.c_double(7))) == 7
        assert lib.first(ctypes.byref(numbers, 16)) == 3
        with pytest.raises(TypeError):
            lib.first(ctypes.byref(one))
        with pytest.raises(TypeError):
            lib.first(ctypes.c_int.from_param(1))


def test_pointers_are_read_at_each_call(lib):
    pointer = ctypes.pointer(ctypes.c_double(1))
    for i in range(TIMES):
        pointer.contents = ctypes.c_double(i)
        assert lib.first(pointer) == i
        assert lib.first(ctypes.cast(pointer, type(pointer))) == i
    with pytest.raises(TypeError):
        lib.first(ctypes.pointer(ctypes.c_int(3)))


def test_what_a_pointer_led_to_lives_until_the_call_is_over(lib):
    pointer = ctypes.pointer(ctypes.c_double(1))

    def change():
        pointer.contents = ctypes.c_double(-1)
        gc.collect()
        return len([ctypes.c_double(-2) for _ in range(1000)])

    for i in range(TIMES):
        pointer.contents = ctypes.c_double(i)
        assert lib.held(pointer, change) == i
        assert lib.held(ctypes.byref(ctypes.c_double(i)), change) == i


@pytest.mark.parametrize("name", ["_objects", "_b_base_"])
def test_a_class_cannot_hide_what_its_pointers_lead_to(lib, name):
    pointer = ctypes.POINTER(ctypes.c_double)
    made = type("Hides", (pointer,), {"_type_": ctypes.c_double, name: None})
    holder = type("Holder", (ctypes.Structure,), {"_fields_": [("p", made)]})()

    def change():
        holder.p = made(ctypes.c_double(-1))
        gc.collect()
        return len([ctypes.c_double(-2) for _ in range(1000)])

    for i in range(TIMES):
        holder.p = made(ctypes.c_double(i))
        assert lib.held(holder.p, change) == i


def test_a_resized_object_is_not_passed(lib):
    numbers = ctypes.c_double(1)

    class Moves:
        def __float__(self):
            ctypes.resize(numbers, 1 << 20)
            return 1.0

    for _ in range(TIMES):
        numbers = ctypes.c_double(1)
        with pytest.raises((BufferError, ValueError)):
            lib.plus(ctypes.byref(numbers), Moves())


def test_text_as_it_is(lib):
    names = [*"abcdefg"]
    for text in ("A", b"A", "Aé", bytearray(b"A"), "A" * 100):
        assert lib.letter(text, *range(7)) == 65 + 21
        assert lib.letter(text, **dict(zip(names, range(7), strict=True))) == 65 + 21
        backwards = dict(zip(names[::-1], range(7), strict=True))
        assert lib.letter(text=text, **backwards) == 65 + 21
    with pytest.raises(ValueError, match="null character"):
        lib.letter("A\0", *range(7))
    with pytest.raises(TypeError, match="'h'"):
        lib.letter("A", *range(6), h=1)
    with pytest.raises(TypeError, match="multiple values"):
        lib.letter("A", *range(7), a=1)


@pytest.mark.parametrize("ctype", ["wchar_t", "char16_t", "char32_t"])
def test_wide_text_is_read(lib, ctype):
    for _ in range(TIMES):
        assert nc.string(lib.new(f"{ctype}[]", "four")) == "four"
        assert nc.string(lib.new(f"{ctype}[4]", "four")) == "four"
        assert nc.string(lib.ffi.cast(f"{ctype} *", 0)) is None
    assert nc.string(lib.wide()) == "text"
    assert nc.string(lib.bytes()) == b"text"
    assert nc.string(lib.bytes(), "ascii") == "text"
