"""Other libraries' boxes, both ways: ctypes, cffi in both modes, capsules, LowLevelCallable.

(SciPy calling through one is in test_scipy.py.)
"""

import ctypes
import functools
import gc
import sys
import sysconfig
import weakref
from pathlib import Path

import cffi
import pytest
from scipy import LowLevelCallable

import nativecall as nc
from nativecall._types.ctype import scalar
from support import build, compilecache
from support.capsules import capsule, get_name

CHAR = scalar("c").text
ORACLE = cffi.FFI()


@pytest.fixture
def cdll(lib):
    return ctypes.CDLL(lib.path)


@pytest.fixture
def cos():
    return nc.load("m").function("cos", "d:d", name="cos")


class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]


# -- from ctypes ---------------------------------------------------------------------------------


CTYPES = [
    ([], None, "v:"),
    ([ctypes.c_bool, ctypes.c_char, ctypes.c_byte, ctypes.c_ubyte], ctypes.c_bool, f"?:?{CHAR}bB"),
    ([ctypes.c_int16, ctypes.c_uint16, ctypes.c_int32, ctypes.c_uint32], ctypes.c_int, "i:hHiI"),
    (
        [ctypes.c_int64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_ssize_t],
        ctypes.c_int64,
        "q:qQQq",
    ),
    ([ctypes.c_float, ctypes.c_double, ctypes.c_longdouble], ctypes.c_longdouble, "g:fdg"),
    (
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_float)],
        ctypes.c_void_p,
        f"P:P&{CHAR}&f",
    ),
    ([ctypes.POINTER(ctypes.POINTER(ctypes.c_int))], ctypes.POINTER(ctypes.c_int), "&i:&&i"),
    ([Point, ctypes.POINTER(Point)], Point, "T{dd}:T{dd}&T{dd}"),
    ([ctypes.py_object], ctypes.py_object, "O:O"),
    (
        [ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double), ctypes.CFUNCTYPE(None)],
        ctypes.c_int,
        "i:X{d:d}X{v:}",
    ),
]


@pytest.mark.parametrize(("argtypes", "restype", "signature"), CTYPES)
def test_ctypes_types(cdll, argtypes, restype, signature):
    prototype = ctypes.CFUNCTYPE(restype, *argtypes)
    address = ctypes.cast(cdll.square, ctypes.c_void_p).value
    assert nc.wrap(prototype(address)).signatures == (signature,)
    cdll.square.argtypes, cdll.square.restype = argtypes, restype
    assert nc.wrap(cdll.square).signatures == (signature,)


def test_characters_have_the_sign_that_the_compiler_gives_them(builder):
    """Plain char and wchar_t are signed on some machines, not on others."""
    source = """
    #include <wchar.h>
    int narrow(void); int narrow(void) { return (char)-1 < 0; }
    int wide(void); int wide(void) { return (wchar_t)-1 < 0; }
    """
    signs = ctypes.CDLL(str(builder.library(source, "signs", flags=("-Wno-type-limits",))))
    narrow, wide = "b", {2: "h", 4: "i"}[ctypes.sizeof(ctypes.c_wchar)]
    narrow = narrow if signs.narrow() else narrow.upper()
    wide = wide if signs.wide() else wide.upper()
    types = [ctypes.c_char, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char), ctypes.c_wchar_p]
    f = ctypes.CFUNCTYPE(None, *types)(1 << 20)
    assert nc.wrap(f).signatures == (f"v:{narrow}&{narrow}&{narrow}&{wide}",)


def test_ctypes_functions_without_argtypes_need_a_signature(cdll, fails):
    message = "'signature' must be given: a _FuncPtr does not have one: "
    with fails(TypeError, message + "its argtypes are not set"):
        nc.wrap(cdll.square)
    assert nc.wrap(cdll.square, "d:d")(3.0) == 9.0
    cdll.square.argtypes, cdll.square.restype = [ctypes.c_double], lambda x: x
    with fails(TypeError, message + "its restype is a Python function"):
        nc.wrap(cdll.square)


def test_argtypes_that_are_arrays_or_pythons_own(cdll, fails):
    """Types for arrays tell what they lead to; classes that convert arguments tell nothing."""
    np = pytest.importorskip("numpy")
    double, pointer = ctypes.c_double, np.ctypeslib.ndpointer
    f = cdll.square
    f.restype = None
    for argtype, code in (
        (pointer(np.float64, ndim=2), "&d"),
        (pointer(np.complex64), "&Zf"),
        (pointer(np.float64, shape=(2, 3), flags="C"), "&(2,3)d"),
        (pointer(np.float64, ndim=1, shape=(4,), flags="F"), "&(4)d"),
        (pointer(np.float64, ndim=2, flags="C,F"), "&d"),
        (pointer(np.uint16), "&H"),
        (pointer(), "P"),
        (pointer(np.dtype(">f8")), "P"),
        (pointer(np.dtype("M8[s]")), "P"),
        (double * 3, "&d"),
        (double * 3 * 2, "&(3)d"),
    ):
        f.argtypes = [argtype, ctypes.c_int]
        assert nc.wrap(f).signatures == (f"v:{code}i",)
    for options in ({"ndim": 2, "flags": "F"}, {"flags": "F"}, {"shape": (2, 2), "flags": "F"}):
        f.argtypes = [pointer(np.float64, **options), ctypes.c_int]
        with pytest.raises(TypeError, match="converts arguments itself"):
            nc.wrap(f)
        assert nc.wrap(f, "v:&di", order="F").signatures == ("v:&di",)
    for one, name in ((type("Mine", (), {"from_param": int}), "Mine"), (Odd(), "Odd")):
        f.argtypes = [ctypes.c_int, one]
        with fails(
            TypeError,
            f"'signature' must be given: a _FuncPtr does not have one: {name}, argument 2 of "
            "its argtypes, is a Python class without a C type",
        ):
            nc.wrap(f)
        assert nc.wrap(f, "v:i&d").signatures == ("v:i&d",)


def test_a_pointer_to_anything_may_be_said_to_lead_to_something(cdll):
    cdll.square.argtypes, cdll.square.restype = [ctypes.c_void_p, ctypes.c_int], ctypes.c_void_p
    for signature in ("&d:&ii", "P:X{d:d}i", "P:Pi"):
        assert nc.wrap(cdll.square, signature).signatures == (signature,)
    for signature in ("P:di", "P:Oi", "P:&d", "P:[1]di"):
        with pytest.raises(nc.SignatureError, match="but the target is 'P:Pi'"):
            nc.wrap(cdll.square, signature)


def test_a_library_is_no_function(cdll):
    for library in (cdll, cffi.FFI().dlopen(None)):
        with pytest.raises(TypeError, match=r"\(got .*, a library; pass one of its functions\)$"):
            nc.wrap(library)
    with pytest.raises(TypeError, match=r"\(got str; nativecall.load finds functions by their"):
        nc.wrap("cos", "d:d")


def test_a_ctypes_signature_cannot_be_contradicted(cdll, fails):
    cdll.square.argtypes, cdll.square.restype = [ctypes.c_double], ctypes.c_double
    with fails(
        nc.SignatureError,
        "'signature' is 'f:f', but the target is 'd:d'; omit 'signature' to use the target's own",
    ):
        nc.wrap(cdll.square, "f:f")
    assert nc.wrap(cdll.square, "double (double)")(3.0) == 9.0


class Union(ctypes.Union):
    _fields_ = [("i", ctypes.c_int)]


class Bits(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int, 3)]


class Odd:
    """ctypes takes anything with from_param."""

    def from_param(self, value):
        return value

    def __repr__(self):
        return "<odd>"


class Converting(type(ctypes.c_double)):
    def from_param(cls, value):
        return ctypes.c_double(5)


@pytest.mark.parametrize(
    "kind",
    [
        Converting("Meta", (ctypes.c_double,), {}),
        type("Own", (ctypes.c_double,), {"from_param": classmethod(Converting.from_param)}),
        type("Any", (ctypes.c_double,), {"from_param": functools.partial(ctypes.c_double)}),
    ],
)
def test_argtypes_that_convert_are_refused(kind):
    function = ctypes.CDLL(None)["abs"]
    function.argtypes, function.restype = [kind], ctypes.c_int
    with pytest.raises(TypeError, match="argument 1 of its argtypes, converts arguments itself"):
        nc.wrap(function)


def test_ctypes_types_that_share_parts_are_read_once():
    made = [type("S", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_int)]})]
    function = ctypes.CFUNCTYPE(None, ctypes.c_int)
    for _ in range(14):  # ctypes itself writes all of it into a format
        both = ctypes.POINTER(made[-1])
        made.append(type("S", (ctypes.Structure,), {"_fields_": [("a", both), ("b", both)]}))
    for _ in range(60):
        function = ctypes.CFUNCTYPE(None, *[ctypes.POINTER(function)] * 2)
    from nativecall._bridges._ctypes import ctype_of

    for kind in (made[-1], function):
        assert len(ctype_of(kind).text) < 4096


@pytest.mark.parametrize(
    ("argtype", "message"),
    [
        (ctypes.c_wchar, "a c_wchar of ctypes cannot be passed by value"),
    ],
)
def test_ctypes_types_that_c_functions_do_not_take(cdll, fails, argtype, message):
    cdll.square.argtypes, cdll.square.restype = [argtype], ctypes.c_double
    with fails(nc.SignatureError, message):
        nc.wrap(cdll.square)
    cdll.square.argtypes = [ctypes.c_double]
    assert nc.wrap(cdll.square)(3.0) == 9.0


def test_unions_and_bit_fields_of_ctypes(cdll):
    cdll.square.argtypes = [ctypes.POINTER(Union), ctypes.POINTER(Bits), Bits]
    cdll.square.restype = None
    assert nc.wrap(cdll.square).signatures == ("v:&U{i}&T{i#3}T{i#3}",)


def test_null_functions(fails):
    null = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(0)
    with fails(ValueError, f"'target' must hold a C function; {null!r} is NULL"):
        nc.wrap(null)
    pointer = ORACLE.cast("double(*)(double)", 0)
    with fails(ValueError, f"'target' must hold a C function; {pointer!r} is NULL"):
        nc.wrap(pointer)


# -- to ctypes -----------------------------------------------------------------------------------


def test_to_ctypes_converts_for_people(lib):
    f = lib.function("add_points", "T{d:x:d:y:}:T{d:x:d:y:}T{d:x:d:y:}").to_ctypes()
    kind = f.argtypes[0]
    assert (f(kind(1, 2), kind(3, 4)).x, f(kind(1, 2), kind(3, 4)).y) == (4.0, 6.0)
    g = lib.function("sum", "d:&dq").to_ctypes()
    assert g((ctypes.c_double * 3)(1, 2, 3), 3) == 6.0
    h = lib.function("apply", "d:X{d:d}d").to_ctypes()
    assert h(h.argtypes[0](lambda x: -x), 3.0) == -3.0
    assert nc.wrap(h).signatures == ("d:X{d:d}d",)
    repr_box = nc.wrap(ctypes.pythonapi.PyObject_Repr, "O:O").to_ctypes()
    assert repr_box([1]) == "[1]"


GAPS = [
    ("d:e", "it has no '_Float16'"),
    ("e:", "it has no '_Float16'"),
    ("v:T{ed}", "it has no '_Float16'"),
    ("Zg:", "it has no complex long double result"),
    ("T{g}:", "it expects a struct of one long double in memory"),
    ("T{T{(1)g}}:", "it expects a struct of one long double in memory"),
    ("v:=T{bi}", "it splits a small packed struct differently from C"),
    ("v:T{b=T{bi}}", "it splits a small packed struct differently from C"),
]


@pytest.mark.parametrize(("signature", "reason"), GAPS)
def test_what_ctypes_and_cffi_would_call_wrongly_is_refused(lib, fails, signature, reason):
    f = nc.wrap(lib.address("called0"), signature)
    text = f.signatures[0]
    with fails(nc.SignatureError, f"ctypes cannot call {text!r}: {reason}"):
        f.to_ctypes()
    with fails(nc.SignatureError, f"cffi cannot call {text!r}: {reason}"):
        f.to_cffi()
    assert f.signatures == (text,)


def test_rows_of_arrays_in_small_structs(builder, fails):
    """ctypes takes them for pointers; cffi knows what they are."""
    source = """
    typedef struct { double at[1][2]; } Row;
    double row(Row r, double x); double row(Row r, double x) { return r.at[0][0] + x * r.at[0][1]; }
    """
    lib = nc.load(builder.library(source, "rows"))
    f = lib.function("row", "d:T{(1,2)d:at:}d")
    assert f((((1.0, 2.0),),), 10.0) == 21.0
    with fails(
        nc.SignatureError,
        "ctypes cannot call 'd:T{(1,2)d}d': it mistakes the rows of an array in a small struct for "
        "pointers",
    ):
        f.to_ctypes()
    assert f.to_cffi()([[[1.0, 2.0]]], 10.0) == 21.0


# -- cffi ----------------------------------------------------------------------------------------

CDEF = """
    typedef struct { double x, y; } Point;
    double square(double);
    Point add_points(Point, Point);
    double add_all(int32_t n, ...);
    double apply(double (*f)(double), double x);
    void increment(int32_t *x);
"""


@pytest.fixture
def abi(lib):
    ffi = cffi.FFI()
    ffi.cdef(CDEF)
    return ffi, ffi.dlopen(lib.path)


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """A module of cffi's API mode."""
    ffi = cffi.FFI()
    ffi.cdef(
        "double square(double); int many(int, double, char *);"
        "double half(double); int add(int, ...);"
    )
    source = """
        static double square(double x) { return x * x; }
        static int many(int a, double b, char *c) { return a + (int)b + c[0]; }
        static double half(double x) { return x / 2; }
        static int add(int a, ...) { return a; }
        """
    ffi.set_source("nc_tests_api", source)

    def make(into):
        Path(ffi.compile(tmpdir=str(into))).rename(into / "product")
        return []

    directory = tmp_path_factory.mktemp("api")
    path = directory / f"nc_tests_api{sysconfig.get_config_var('EXT_SUFFIX')}"
    key = [*build.compiler(), cffi.__version__, sys.version, source]
    compilecache.kept(key, path, make)
    return build.load_extension(path)


def test_abi_mode(abi):
    ffi, library = abi
    f = nc.wrap(library.square)
    assert f(3.0) == 9.0
    assert f.signatures == ("d:d",)
    assert f.entries[0].owner == library.square
    assert nc.wrap(library.add_points)((1, 2), (3, 4)) == (4.0, 6.0)
    assert nc.wrap(library.add_all)(2, 1.5, 2.0) == 3.5
    assert nc.wrap(library.apply)(f, 3.0) == 9.0
    assert nc.wrap(library.apply).signatures == ("d:X{d:d}d",)
    assert nc.wrap(ffi.addressof(library, "square"))(2.0) == 4.0


def test_api_mode(api):
    f = nc.wrap(api.lib.square)
    assert f(3.0) == 9.0
    assert (f.signatures, f.__name__) == (("d:d",), "square")
    assert nc.wrap(api.ffi.addressof(api.lib, "square"))(2.0) == 4.0
    assert nc.wrap(api.lib.many)(1, 2.5, b"A") == 1 + 2 + 65
    assert nc.wrap(api.lib.add)(5, 6) == 5
    assert nc.wrap(api.lib.half, "double (double)")(3.0) == 1.5
    with pytest.raises(nc.SignatureError, match="'signature' is 'f:f', but the target is 'd:d'"):
        nc.wrap(api.lib.half, "f:f")


def test_cffi_values_that_are_no_functions(fails):
    for value in (ORACLE.new("int *"), ORACLE.cast("int", 5)):
        with fails(
            TypeError,
            "'target' must be an address, a native callable, a function pointer or function of "
            "ctypes, cffi, Cython, Numba, f2py, pybind11 or llvmlite, a ufunc, a PyCapsule, a "
            "LowLevelCallable, an object with a registered reader or a mapping "
            f"(got {type(value).__name__})",
        ):
            nc.wrap(value, "d:d")


def test_texts_for_cffi_are_not_kept(monkeypatch):
    f = nc.load("m").function("cos", "d:d")
    f.to_cffi("double (*)(double first)")
    made = []

    class Seen(cffi.FFI):
        def __init__(self):
            super().__init__()
            made.append(weakref.ref(self))

    monkeypatch.setattr(cffi, "FFI", Seen)
    for n in range(1, 20):
        assert f.to_cffi(f"double (*)(double v{n})")(0.0) == 1.0
        assert f.to_cffi(f"double (double v{n})")(0.0) == 1.0
        with pytest.raises(nc.NoEntryError):
            f.to_cffi(f"double (*)(double (*)[{n}])")
    gc.collect()
    assert len(made) >= 2 * 19
    assert not any(one() for one in made)


def test_to_cffi(lib):
    f = lib.function("square", "d:d")
    box = f.to_cffi()
    assert box(3.0) == 9.0
    assert ORACLE.typeof(box).cname == "double(*)(double)"
    assert nc.wrap(box).address() == f.address()
    point = lib.function("add_points", "T{d:x:d:y:}:T{d:x:d:y:}T{d:x:d:y:}").to_cffi()
    assert point({"x": 1, "y": 2}, (3, 4)).y == 6.0
    assert nc.wrap(lib.function("add_all", "d:i.").to_cffi()).signatures == ("d:i.",)


def test_to_cffi_takes_the_structs_of_the_library(lib):
    text = "typedef struct { double x, y; } point; point add_points(point a, point b);"
    declared = nc.load(lib.path, text)
    add = declared.add_points.to_cffi()
    made = add(declared.new("point", (1, 2))[0], (3, 4))
    assert (made.x, made.y) == (4, 6)
    assert declared.ffi.typeof(made) is declared.types.point
    assert nc.wrap(add)(made, (1, 1)).y == 7
    with pytest.raises(TypeError):
        add(nc.load(lib.path, text + "struct other;").new("point")[0], made)


def test_variadic_functions_that_need_the_gil_are_not_for_cffi(fails):
    f = nc.load(None).function("PyGILState_Check", "i:i.", gil="need", name="check")
    with fails(
        ValueError,
        "'check' needs the GIL, which cffi releases around calls, and no thunk can acquire it for "
        "a variadic function; use to_ctypes()",
    ):
        f.to_cffi()


# -- capsules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("d:d", b"double (double)"),
        ("d:d&dP", b"double (double, double *, void *)"),
        ("v:", b"void (void)"),
        ("Zd:Zd", b"double complex (double complex)"),
        ("d:X{d:d}d", b"double (double (*)(double), double)"),
    ],
)
def test_to_capsule(lib, signature, name):
    f = nc.wrap(lib.address("called0"), signature)
    box = f.to_capsule()
    assert type(box).__name__ == "PyCapsule"
    assert get_name(box) == name
    back = nc.wrap(box)
    assert (back.signatures, back.address()) == (f.signatures, f.address())


def test_capsules_without_a_signature(lib):
    address = lib.address("square")
    for name in (None, b"some.module.name", b"\xff"):
        with pytest.raises(TypeError, match="must be given: a PyCapsule does not have one: it"):
            nc.wrap(capsule(name, address))
    assert nc.wrap(capsule(None, address), "d:d")(3.0) == 9.0
    assert nc.wrap(capsule(b"double (double x)", address))(x=3.0) == 9.0


# -- LowLevelCallable ----------------------------------------------------------------------------


def test_low_level_callables(cdll, abi, lib):
    cdll.square.argtypes, cdll.square.restype = [ctypes.c_double], ctypes.c_double
    named = capsule(b"double (double)", lib.address("square"))
    for inner in (cdll.square, abi[1].square, named):
        box = LowLevelCallable(inner)
        f = nc.wrap(box)
        assert f(3.0) == 9.0
        assert f.entries[0].owner is box


@pytest.mark.parametrize(
    ("method", "module", "way"),
    [
        ("to_scipy", "scipy", "SciPy; install it with 'pip install scipy'"),
        ("to_ufunc", "numpy", "the package 'numpy'; pip install 'nativecall[numpy]' installs it"),
    ],
)
def test_without_a_library(forked, method, module, way):
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "import nativecall as nc\n"
        "cos = nc.load('m').function('cos', 'd:d')\n"
        f"try: cos.{method}()\n"
        "except ImportError as error: print(error)\n"
        "print(cos(0))\n"
    )
    assert forked(code) == f"{method}() needs {way}\n1.0\n"


# -- around the world ----------------------------------------------------------------------------


def test_pointers_without_a_type_say_how_to_tell_it(cos, fails):
    ffi = cffi.FFI()
    address = cos.address()
    with fails(
        TypeError,
        "a cffi 'void *' has no function type; if it is a function, cast it: "
        "ffi.cast('double (*)(double)', it)",
    ):
        nc.wrap(ffi.cast("void *", address), "d:d")
    assert nc.wrap(ffi.cast("double (*)(double)", ffi.cast("void *", address)))(0.0) == 1.0
    with fails(
        TypeError,
        "a ctypes c_void_p has no type; if it is a function, pass the address and a signature: "
        "wrap(it.value, 'd:d')",
    ):
        nc.wrap(ctypes.c_void_p(address), "d:d")
    assert nc.wrap(ctypes.c_void_p(address).value, "d:d")(0.0) == 1.0
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    for one, message in (
        (kind, "CFunctionType is a class of ctypes function pointers; pass an instance of it"),
        (
            ffi.typeof("int (*)(int)"),
            "<ctype 'int(*)(int)'> is a cffi type; pass a function pointer of that type",
        ),
    ):
        with fails(TypeError, message):
            nc.wrap(one)


def test_ctypes_functions_that_keep_errno_or_convert_themselves():
    close = ctypes.CDLL(None, use_errno=True)["close"]
    close.argtypes, close.restype = [ctypes.c_int], ctypes.c_int
    assert nc.wrap(close)(-1) == -1
    assert nc.get_errno() == 9

    class Twice(ctypes.c_int):
        @classmethod
        def from_param(cls, value):
            return ctypes.c_int(2 * value)

    labs = ctypes.CDLL(None)["labs"]
    labs.argtypes = [Twice]
    with pytest.raises(TypeError, match=r"Twice, argument 1 .* converts .*from_param"):
        nc.wrap(labs)
    assert nc.wrap(labs, "l:l")(-3) == 3
