"""The types of other libraries' functions, as far as a signature means what they mean.

A function of ctypes, cffi or Numba is called natively only if its types have the layout, its
complex numbers the registers and its result the meaning that its signature tells a C caller. What
is taken is called by compiled C; what is not says why.
"""

import ctypes
import platform
import sys

import cffi
import pytest

import nativecall as nc
from nativecall._types.ctype import scalar

SOURCE = """
struct __attribute__((packed)) packed { signed char a; double b; };
struct natural { signed char a; double b; };
double add_packed(struct packed s) { return s.a + s.b; }
double add_natural(struct natural s) { return s.a + s.b; }
int negate(int x) { return -x; }
"""
# What the reasons say for which no signature describes a function.
CHAR = scalar("c").text
LAYOUT = "has a layout that no signature describes"
ORDER = "does not have this machine's byte order"
COMPLEX = "Numba's cfunc does not pass one of the complex numbers in "


@pytest.fixture(scope="session")
def path(builder, tmp_path_factory):
    """A library of the functions in SOURCE."""
    source = tmp_path_factory.mktemp("boxes") / "boxed.c"
    source.write_text(SOURCE + "int declared_for_the_warnings;\n")
    return str(builder.library(source, "boxed"))


def agrees(found, expected):
    """Whether a box has this signature, or none and this in the reason."""
    signature, why = found
    return (why is None and signature == expected) or (signature is None and expected in why)


def read(box):
    """What `wrap` gets from a box: a signature, or why there is none."""
    try:
        return nc.wrap(box).signatures[0], None
    except nc.SignatureError as error:
        return None, str(error)


# -- cffi ----------------------------------------------------------------------------------------

STRUCTS = """
typedef struct { signed char a; double b; } S;
typedef struct { int a, b; } I;
typedef struct { signed char a, b; } B;
typedef struct { signed char a; S b; int *c; } N;
typedef struct { int a:3; int b:5; } F;
typedef struct { double a; int b:5; } G;
typedef struct { double a; F b; } H;
typedef union { int a; double b; } U;
typedef struct hidden hidden;
"""
CFFI = [
    # (declared with, function, signature or why there is none)
    ({}, "double(*)(S)", "d:T{bd}"),
    ({"packed": True}, "double(*)(S)", "d:=T{bd}"),
    ({"packed": True}, "S(*)(void)", "=T{bd}:"),
    ({"packed": True}, "double(*)(S *, S **)", "d:&=T{bd}&&=T{bd}"),
    ({"packed": True}, "double(*)(I)", "d:=T{ii}"),
    ({"packed": True}, "double(*)(B)", "d:T{bb}"),
    ({"packed": True}, "double(*)(N)", "d:=T{b=T{bd}&i}"),
    ({}, "double(*)(N)", "d:T{bT{bd}&i}"),
    ({"pack": 1}, "double(*)(S)", "d:=T{bd}"),
    ({"pack": 2}, "double(*)(S)", LAYOUT),
    ({"pack": 2}, "double(*)(S *)", "d:P"),
    ({"pack": 2}, "double(*)(N)", LAYOUT),
    ({"pack": 2}, "double(*)(I)", LAYOUT),
    ({"pack": 2}, "double(*)(B)", "d:T{bb}"),
    ({"pack": 4}, "double(*)(I)", "d:T{ii}"),
    ({}, "int(*)(F)", "i:T{i#3i#5}"),
    ({}, "int(*)(F *, int)", "i:&T{i#3i#5}i"),
    ({}, "int(*)(G)", "i:T{di#5}"),
    ({}, "int(*)(H)", "i:T{dT{i#3i#5}}"),
    ({}, "F(*)(int)", "T{i#3i#5}:i"),
    ({}, "int(*)(U, U *)", "i:U{id}&U{id}"),
    ({}, "void(*)(int, hidden *, hidden **)", "v:iP&P"),
    ({}, "void(*)(double _Complex, bool, char, unsigned char, size_t)", f"v:Zd?{CHAR}BQ"),
    ({}, "int(*)(double(*)(int), char *, ...)", f"i:X{{d:i}}&{CHAR}."),
]


@pytest.mark.parametrize(("options", "text", "expected"), CFFI)
def test_layouts_of_cffi(options, text, expected):
    ffi = cffi.FFI()
    ffi.cdef(STRUCTS, **options)
    box = ffi.cast(text, 1 << 20)
    found = read(box)
    assert agrees(found, expected), found


def test_structs_of_cffi_are_passed_as_they_lie(path):
    ffi = cffi.FFI()
    ffi.cdef("typedef struct { signed char a; double b; } S; double add_natural(S);")
    assert nc.wrap(ffi.dlopen(path).add_natural)((3, 4.5)) == 7.5
    ffi = cffi.FFI()
    ffi.cdef("typedef struct { signed char a; double b; } S; double add_packed(S);", packed=True)
    assert nc.wrap(ffi.dlopen(path).add_packed)((3, 4.5)) == 7.5


def test_a_pointer_does_not_make_up_for_what_comes_before_it():
    ffi = cffi.FFI()
    ffi.cdef(STRUCTS, pack=2)
    box = ffi.cast("void(*)(S, int *, hidden *)", 1 << 20)
    assert agrees(read(box), LAYOUT)
    box = ctypes.CFUNCTYPE(None, PACK_2, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(Either))(1)
    assert agrees(read(box), LAYOUT)


# -- ctypes --------------------------------------------------------------------------------------


class Either(ctypes.Union):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_double))


def structure(*fields, **attributes):
    """A Structure of these types."""
    named = [(f"f{i}", field) for i, field in enumerate(fields)]
    if "_pack_" in attributes:
        attributes["_layout_"] = "ms"  # what _pack_ means, and 3.14 wants to hear
    return type(ctypes.Structure)(
        "Made", (ctypes.Structure,), {**attributes, "_fields_": named, "__slots__": ()}
    )


class Bits(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int, 3), ("b", ctypes.c_int, 5))


class Empty(ctypes.Structure):
    _fields_ = ()


class Opaque(ctypes.Structure):
    pass


class Shadowed(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_double))


Shadowed.b = None


class Celsius(ctypes.c_double):
    """A type of its own, but no other double."""


NATURAL = structure(ctypes.c_byte, ctypes.c_double)
PACKED = structure(ctypes.c_byte, ctypes.c_double, _pack_=1)
PACK_2 = structure(ctypes.c_byte, ctypes.c_double, _pack_=2)
ALIGNED = structure(ctypes.c_double, _align_=32)
BIG = structure(ctypes.c_double.__ctype_be__)
LITTLE = structure(ctypes.c_double.__ctype_le__)
OTHER = BIG if sys.byteorder == "little" else LITTLE
OTHER_DOUBLE = OTHER._fields_[0][1]
# Before 3.13, _align_ is an attribute like any other.
ALIGNS = sys.version_info >= (3, 13)

CTYPES = [
    (None, NATURAL, "v:T{bd}"),
    (None, PACKED, "v:=T{bd}"),
    (PACKED, None, "=T{bd}:"),
    (None, ctypes.POINTER(PACKED), "v:&=T{bd}"),
    (None, structure(PACKED, ctypes.c_int), "v:T{=T{bd}i}"),
    (None, structure(ctypes.c_int, NATURAL, _pack_=1), "v:=T{iT{bd}}"),
    (None, structure(ctypes.c_byte, ctypes.c_byte, _pack_=1), "v:=T{bb}"),
    (None, PACK_2, LAYOUT),
    (None, structure(PACK_2, ctypes.c_int), LAYOUT),
    (None, ctypes.POINTER(PACK_2), "v:P"),
    (None, structure(ctypes.c_int, ctypes.c_int, _pack_=4), "v:T{ii}"),
    (None, structure(ctypes.c_int, ctypes.c_double, _pack_=16), "v:T{id}"),
    (None, ALIGNED, LAYOUT if ALIGNS else "v:T{d}"),
    (ALIGNED, None, LAYOUT if ALIGNS else "T{d}:"),
    (None, ctypes.POINTER(ALIGNED), "v:P" if ALIGNS else "v:&T{d}"),
    (None, structure(ctypes.c_int, ALIGNED), LAYOUT if ALIGNS else "v:T{iT{d}}"),
    # Of the size that C gives it: only the alignment differs.
    (None, structure(*[ctypes.c_int] * 4, _align_=16), LAYOUT if ALIGNS else "v:T{iiii}"),
    (None, structure(ctypes.c_double, _align_=1), "v:T{d}"),
    (None, Bits, "v:T{i#3i#5}"),
    (None, structure(ctypes.c_int, Bits), "v:T{iT{i#3i#5}}"),
    (None, ctypes.POINTER(Bits), "v:&T{i#3i#5}"),
    (None, Either, "v:U{id}"),
    (Either, ctypes.POINTER(Either), "U{id}:&U{id}"),
    (None, ctypes.POINTER(Opaque), "v:P"),
    (None, ctypes.POINTER(Empty), "v:P"),
    (None, Empty, "a struct needs at least one field"),
    (None, Shadowed, LAYOUT),
    (None, OTHER, ORDER),
    (None, OTHER_DOUBLE, ORDER),
    (OTHER_DOUBLE, None, ORDER),
    (None, ctypes.POINTER(OTHER_DOUBLE), "v:P"),
    (None, ctypes.c_ubyte.__ctype_be__, "v:B"),
    (None, ctypes.c_ubyte.__ctype_le__, "v:B"),
    (None, Celsius, "v:d"),
    (Celsius, structure(Celsius), "d:T{d}"),
    (None, ctypes.CFUNCTYPE(None, OTHER_DOUBLE), ORDER),
]


@pytest.mark.parametrize(("result", "argument", "expected"), CTYPES)
def test_layouts_of_ctypes(result, argument, expected):
    box = ctypes.CFUNCTYPE(result, *[argument] * (argument is not None))(1 << 20)
    found = read(box)
    assert agrees(found, expected), found


def test_structs_of_ctypes_are_passed_as_they_lie(path):
    lib = ctypes.CDLL(path)
    for function, argument in ((lib.add_natural, NATURAL), (lib.add_packed, PACKED)):
        function.argtypes, function.restype = [argument], ctypes.c_double
        assert nc.wrap(function)((3, 4.5)) == 7.5


class Node(ctypes.Structure):
    pass


class Edge(ctypes.Structure):
    _fields_ = (("node", ctypes.POINTER(Node)), ("weight", ctypes.c_double))


Node._fields_ = (
    ("next", ctypes.POINTER(ctypes.POINTER(Node))),
    ("edges", ctypes.POINTER(Edge) * 2),
    ("visit", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Node), ctypes.POINTER(ctypes.c_int))),
    ("label", ctypes.POINTER(ctypes.c_float)),
)


def test_structs_of_ctypes_that_lead_back_to_themselves():
    """As in cffi, where `void *` ends the circle at the same places."""
    ffi = cffi.FFI()
    ffi.cdef("""
        typedef struct node node;
        typedef struct { node *node; double weight; } edge;
        struct node { node **next; edge *edges[2]; int (*visit)(node *, int *); float *label; };
    """)
    node = "T{P(2)PX{i:P&i}&f}"
    expected = (f"v:&{node}T{{Pd}}", None)
    assert read(ffi.cast("void(*)(node *, edge)", 1 << 20)) == expected
    box = ctypes.CFUNCTYPE(None, ctypes.POINTER(Node), Edge)(1 << 20)
    assert read(box) == expected


class Checked(ctypes.c_int):
    """As HRESULT on Windows: its results are checked."""

    def _check_retval_(self):
        if self.value < 0:
            raise OSError(f"failed with {self.value}")
        return self.value + 1000


class CheckedMore(Checked):
    """What is inherited counts."""


@pytest.mark.parametrize("restype", [Checked, CheckedMore])
def test_results_that_ctypes_checks_stay_checked(path, restype):
    negate = ctypes.CDLL(path).negate
    negate.argtypes = [ctypes.c_int]
    negate.restype = ctypes.c_int
    assert nc.wrap(negate)(-3) == 3
    negate.restype = restype
    assert agrees(read(negate), f"ctypes calls {restype.__name__}._check_retval_ with the results")
    with pytest.raises(nc.SignatureError, match=f"{restype.__name__}._check_retval_"):
        nc.wrap(negate)
    address = ctypes.cast(negate, ctypes.c_void_p).value
    assert nc.wrap(address, "i:i")(3) == -3


def test_a_checked_type_is_an_int_to_c():
    """Only the function that ctypes itself calls has its result checked."""
    inner = ctypes.CFUNCTYPE(Checked, Checked)
    box = ctypes.CFUNCTYPE(None, inner, Checked, ctypes.POINTER(Checked))(1 << 20)
    assert read(box) == ("v:X{i:i}i&i", None)


# -- Numba ---------------------------------------------------------------------------------------


def cfunc(signature):
    """A cfunc with a signature of ours: the sum of its arguments, each times its number."""
    numba = pytest.importorskip("numba")
    names = {"d": "float64", "f": "float32", "q": "int64", "Zd": "complex128", "Zf": "complex64"}
    letters = signature.partition(":")[2].replace("Z", " Z").replace("d", "d ")
    parts = []
    for word in letters.split():
        parts += [word] if word.startswith("Z") else list(word)
    terms = "+".join(f"{i + 1}*a{i}" for i in range(len(parts)))
    function = eval(f"lambda {','.join(f'a{i}' for i in range(len(parts)))}: {terms}")
    result = names[signature.partition(":")[0]]
    made = numba.cfunc(f"{result}({', '.join(names[part] for part in parts)})")(function)
    values = [(i + 1) * (1 + 0.5j if part[0] == "Z" else 1) for i, part in enumerate(parts)]
    return made, values, function(*values)


SYSTEM_V = platform.machine() in ("x86_64", "AMD64") and sys.platform != "win32"


@pytest.mark.parametrize(
    ("signature", "same"),
    [
        ("Zd:Zd", True),
        ("Zd:dZd", True),
        ("Zd:dddddZd", True),
        ("Zd:ddddddZd", True),
        ("Zd:dddddddZd", False),  # C passes it in memory, LLVM half of it
        ("Zd:ddddddddZd", True),
        ("Zd:dddddddddZd", True),
        ("Zd:ZdZdZdZdZd", True),
        ("Zd:ZdZdZdZddd", True),
        ("Zd:ddZdddqZddZd", True),
    ],
)
def test_complex_numbers_of_numba(signature, same):
    made, values, expected = cfunc(signature)
    if same and SYSTEM_V:
        assert read(made) == (signature, None)
        assert nc.wrap(made)(*values) == expected
    else:
        assert agrees(read(made), COMPLEX)


def test_single_complex_numbers_of_numba_are_refused():
    numba = pytest.importorskip("numba")
    made = numba.cfunc("complex64(complex64)")(lambda z: z * 2)
    assert agrees(read(made), COMPLEX)
    for text in ("float64(complex64)", "complex64(float64)"):
        assert agrees(read(numba.cfunc(text)(lambda x: x.real)), COMPLEX)
    made = numba.cfunc("float64(CPointer(complex64), float32)")(lambda p, x: x)
    assert read(made) == ("d:&Zff", None)
    text = "float32(float64, CPointer(int32), voidptr, boolean, uint8, intp, complex128)"
    made = numba.cfunc(text)(lambda a, b, c, d, e, f, g: numba.float32(a))
    assert read(made) == ("f:d&iP?BqZd", None)
