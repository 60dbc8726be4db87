"""C functions that modules of Cython's export: types of their own, variants, optional arguments,
`cpdef` functions as Python has them, and what is known of exceptions and the GIL.

The module is tests/ext/cythonboxes.pyx. Its .pxd lies beside the source, and so not beside the
module, but where a test says so.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import pickle
import shutil
import sys
import types

import numpy as np
import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._bridges import _cython, capsulename, pxd
from nativecall._cdecl.spelling import parse_type
from support import build

pytest.importorskip("Cython")
NEED, TAKE = _lib.FLAG_NEEDS_GIL, _lib.FLAG_TAKES_GIL
RAISES = _lib.ERRORS["python"]


@pytest.fixture(scope="session")
def module(builder, include):
    path = builder.cython(build.EXT / "cythonboxes.pyx", "cythonboxes", include=include)
    return build.load_extension(path)


@pytest.fixture
def declared(module, tmp_path, monkeypatch):
    """The module, with its .pxd beside it."""
    shutil.copy(build.EXT / "cythonboxes.pxd", tmp_path)
    monkeypatch.setattr(module, "__file__", str(tmp_path / "cythonboxes.so"))
    return module


def flags(f):
    return f._chosen(None)[2]


# What a capsule tells by its name, and then with the .pxd.
SIGNATURES = {
    "raising": ("d:d", "d:d"),
    "halved": ("d:d", "d:d"),
    "both": ("d:d", "d:d"),
    "same": ("O:O", "O:O"),
    "turned": ("Zd:Zd", "Zd:Zd"),
    "wide": ("Q:QqB", "Q:QqB"),
    "text": ("&b:&b", "&b:&b"),
    "two": ("T{id}:i", "T{id}:i"),
    "own": ("d:P", "d:P"),
    "at_pair": ("d:P", "d:&T{di}"),
    "typed": (None, "H:HI"),
    "of_pair": (None, "d:T{di}"),
    "of_tight": (None, "=T{bd}:=T{bd}"),
    "of_nested": (None, "d:T{T{di}H}"),
    "integrate": (None, "d:X{d:dP}dP"),
    "view": (None, None),
    "level": (None, None),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_what_a_name_tells(module, name):
    capsule = module.__pyx_capi__[name]
    expected = SIGNATURES[name][0]
    if expected is None:
        with pytest.raises(
            TypeError, match=r"must be given: in the capsule's name|has no function"
        ):
            nc.wrap(capsule)
    else:
        f = nc.wrap(capsule)
        assert (f.signatures, f.__name__) == ((expected,), name)
        assert flags(f) == NEED


@pytest.mark.parametrize("name", SIGNATURES)
def test_what_a_pxd_tells(declared, name):
    capsule = declared.__pyx_capi__[name]
    expected = SIGNATURES[name][1]
    if expected is None:
        with pytest.raises(TypeError):
            nc.wrap(capsule)
    else:
        assert nc.wrap(capsule).signatures == (expected,)


def test_calls_with_types_of_a_pxd(declared):
    def of(name):
        return nc.wrap(declared, name)

    assert of("typed")(40000, 1) == 40001
    assert of("of_pair")((2.5, 3)) == 5.5
    assert (
        of("at_pair")(np.array((2.5, 3), np.dtype([("a", "f8"), ("b", "i4")], align=True))) == -0.5
    )
    assert tuple(of("of_tight")((2, 0.5))) == (2, 2.5)
    assert of("of_nested")(((2.5, 3), 4)) == 6.5
    assert of("integrate")(lambda x, data: x + 1, 2.0, None) == 3.0
    assert tuple(of("two")(7)) == (7, 2.5)
    assert of("turned")(1) == 1j
    assert of("both")(4.0) == 8.0


def test_what_is_not_known_is_listed_with_the_way_to_name_it(module, fails):
    capsule = module.__pyx_capi__["typed"]
    small, color = "__pyx_t_11cythonboxes_small", "__pyx_t_11cythonboxes_color"
    name = f"{small} ({small}, enum {color})"
    with fails(
        TypeError,
        f"'signature' must be given: in the capsule's name, {name!r}, 'small' is an unknown "
        "type; write the signature, or name a library that declares the type with "
        "'types', as in nativecall.load(None, 'typedef … small;')",
    ):
        nc.wrap(capsule)
    library = nc.load(None, "typedef unsigned short small;")
    assert nc.wrap(capsule, types=library)(40000, 1) == 40001
    assert nc.wrap(module, "typed", types=library)(40000, 1) == 40001
    assert nc.wrap(capsule, "H:Hi")(40000, 1) == 40001


def test_what_is_known_is_not_contradicted(module, fails):
    capsule = module.__pyx_capi__["integrate"]
    assert nc.wrap(capsule, "d:X{d:dP}dP")(lambda x, data: 2 * x, 2.0, None) == 4.0
    with fails(nc.SignatureError, "'signature' is 'd:PfP', but argument 2 of the target is 'd'"):
        nc.wrap(capsule, "d:PfP")
    with fails(nc.SignatureError, "'signature' is 'f:PdP', but the result of the target is 'd'"):
        nc.wrap(capsule, "f:PdP")
    with fails(nc.SignatureError, "'signature' is 'd:Pd', but the target takes 3 arguments"):
        nc.wrap(capsule, "d:Pd")
    with fails(
        nc.SignatureError,
        "'signature' is 'd:i', but the target is 'd:d'; omit 'signature' to use the target's own",
    ):
        nc.wrap(module.__pyx_capi__["raising"], "d:i")
    # Of a type that nobody knows a pointer may be said to be more.
    assert nc.wrap(module.__pyx_capi__["at_pair"], "d:&T{di}").signatures == ("d:&T{di}",)


def test_a_variable_is_no_function(module, fails):
    with fails(
        TypeError,
        f"{module.__pyx_capi__['level']!r} has no function: its name declares a variable, "
        "'double', not a function",
    ):
        nc.wrap(module.__pyx_capi__["level"], "d:d")


def test_objects_of_a_class_of_cythons(module, fails):
    f = nc.wrap(module, "valued")
    assert f.signatures == ("d:Pd",)
    with fails(
        TypeError,
        "argument 1 of 'valued' must be a 'struct __pyx_obj_11cythonboxes_Kind *': a cffi or "
        "ctypes pointer, or None (got Kind); 'O' in the signature accepts an object of any class",
    ):
        f(module.Kind(2.5), 1.0)
    assert nc.wrap(module, "d:Od", name="valued")(module.Kind(2.5), 1.0) == 3.5
    with pytest.raises(nc.SignatureError, match="the target is 'd:P'"):
        nc.wrap(module, "d:d", name="own")


def test_a_view_of_cythons(module):
    with pytest.raises(TypeError, match=r"'const NcView \*' and converts it to a memoryview"):
        nc.wrap(module, "view")


# -- exceptions and the GIL ----------------------------------------------------------------------


def test_where_nobody_knows_python_looks_for_an_exception(module):
    f = nc.wrap(module, "raising")
    assert (f.entries[0].gil, f.entries[0].errors) == ("need", "none")
    assert f(4.0) == 2.0
    with pytest.raises(ValueError, match=r"^negative$"):
        f(-1.0)
    with pytest.raises(ValueError, match=r"^negative$"):
        f.builtin(-1.0)
    assert f(4.0) == 2.0


def test_the_caller_may_know(module):
    assert nc.wrap(module, "raising", errors="python").entries[0].errors == "python"
    assert flags(nc.wrap(module, "wide", gil="release")) == _lib.FLAG_RELEASE_GIL
    assert nc.wrap(module, "wide", gil="release")(1, 2, 3) == 6


PROMISES = {
    "promised": 0,
    "of_nested": 0,
    "typed": NEED,
    "checked": NEED | RAISES,
    "checked_freely": TAKE | RAISES,
    "both": NEED,
    "raising": NEED,
}


@pytest.mark.parametrize("name", PROMISES)
def test_a_pxd_tells_more(declared, name):
    f = nc.wrap(declared, name)
    assert flags(f) & ~TAKE == PROMISES[name] & ~TAKE
    assert flags(nc.wrap(declared.__pyx_capi__[name])) == flags(f)
    if PROMISES[name] & RAISES:
        arguments = (-1,) * len(f.signatures[0][2:])
        with pytest.raises(KeyError, match="-1"):
            f(*arguments)
        assert f(*[2 for _ in arguments]) == 2 * len(arguments)


def test_what_needs_the_gil_after_all_is_not_called_without(declared, fails):
    with fails(ValueError, "gil='release' cannot be right: the target needs the GIL"):
        nc.wrap(declared, "typed", gil="release")


@pytest.mark.parametrize("nogil", [False, True])
def test_jitted_code_sees_the_exception_of_what_takes_the_gil_itself(declared, nogil):
    numba = pytest.importorskip("numba")
    f = nc.wrap(declared, "checked_freely")
    assert f.entries[0].gil == "hold"

    @numba.njit(nogil=nogil)
    def total(f, n):
        found = 0
        for i in range(n):
            found += f(1 - i, 0)
        return found

    assert total(f, 2) == 1
    for _ in range(2):
        with pytest.raises(KeyError, match="-1"):
            total(f, 5)


def test_a_pxd_that_cannot_be_read_tells_nothing(module, tmp_path, monkeypatch):
    (tmp_path / "cythonboxes.pxd").write_bytes(b"cdef double promised(\xff\x00 noexcept nogil\n(((")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "cythonboxes.so"))
    assert flags(nc.wrap(module, "promised")) == NEED
    monkeypatch.setattr(module, "__file__", 5)
    assert flags(nc.wrap(module, "promised")) == NEED


def test_what_is_read_in_a_pxd():
    found = pxd.read((build.EXT / "cythonboxes.pxd").read_text())
    assert found.functions["checked_freely"] == (True, True)
    assert found.functions["promised"] == (True, False)
    assert found.functions["both"] == (False, None)
    assert found.types["color"] == "uint32_t @color@"
    assert found.types["nested"] == "struct { @pair@ first; @small@ second; } @nested@"
    assert found.types["tight"].startswith("struct __attribute__((packed)) { char c;")
    assert found.types["integrand"] == "double (*@integrand@)(double, void *)"
    assert "level" not in found.functions
    assert "real" not in found.types
    assert pxd.unmangled("__pyx_t_5scipy_8optimize_6_zeros_kind", "__pyx_t_") == (
        "scipy.optimize._zeros",
        "kind",
    )


ENUMS = {
    "I": "RED = 1\n    GREEN",
    "i": "BELOW = -1, ABOVE = 0x7fffffff",
    "q": "BELOW = -1, ABOVE = 0x80000000",
    "Q": "BIG = 1 << 2\n    BIGGER = 1LL << 40",
}


def test_enums_are_of_the_type_that_their_values_need():
    for code, members in ENUMS.items():
        found = pxd.read(f"cpdef enum big:\n    {members}\n").types["big"]
        assert f"{parse_type(code).c_declaration()} @big@" == found
    assert pxd.read("cdef enum big:\n    A = UNKNOWN\n").types["big"] == "int @big@"
    assert pxd.read("cdef enum big:\n    pass\n").types["big"] == "int @big@"


USER = """
from other cimport real
from .lib.other cimport (inner as kept,
                         Big)
from . cimport sibling
cimport pkg.lib.other
cimport pkg.lib.other as lib
from numpy cimport float64_t
cimport numpy as np
from gone cimport lost

cdef struct outer:
    kept i
    pkg.lib.other.inner j
    lib.real r
    real *at
    sibling.tag t
    float64_t d
    np.int16_t h
    Big b
cdef struct node:
    node *next
    other *to
cdef struct other:
    node n
cdef struct bare:
    lost *there
    lost here[2]
"""
NAMES = {
    "double (struct __pyx_t_3pkg_4user_outer)": "d:T{T{hb}T{hb}f&dQdhI}",
    "double (__pyx_t_3pkg_3lib_5other_real)": "d:f",
    "double (enum __pyx_t_3pkg_3lib_5other_Big)": "d:I",
    "double (struct __pyx_t_3pkg_4user_other)": "d:T{T{PP}}",
    "double (struct __pyx_t_3pkg_4user_bare *)": "d:P",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of which one module is imported that cimports from others."""
    (tmp_path / "pkg" / "lib").mkdir(parents=True)
    (tmp_path / "pkg" / "user.pxd").write_text(USER)
    (tmp_path / "pkg" / "sibling.pxd").write_text("ctypedef unsigned long long tag\n")
    (tmp_path / "pkg" / "lib" / "other.pxd").write_text(
        "ctypedef float real\ncdef enum Big:\n    BIG = 0x80000000\n"
        "cdef struct inner:\n    short s\n    char c\n"
    )
    (tmp_path / "other.pxd").write_text("ctypedef double real\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, where in (("pkg", "__path__"), ("pkg.user", "__file__")):
        made = types.ModuleType(name)
        path = str(tmp_path / "pkg")
        setattr(made, where, [path] if where == "__path__" else path + "/user.so")
        monkeypatch.setitem(sys.modules, name, made)


def test_types_that_a_pxd_cimports(package, fails):
    for name, signature in NAMES.items():
        said = capsulename.read(name)
        assert said.signature is not None, said
        assert said.signature.text == signature
    name = "double (struct __pyx_t_3pkg_4user_bare)"
    said = capsulename.read(name)
    assert said.reason == (
        f"in the capsule's name, {name!r}, 'lost' (in 'bare') is an unknown type; "
        "write the signature, or name a library that declares the type with 'types', as in "
        "nativecall.load(None, 'typedef … bare;')"
    )
    assert (said.partial[0].text, said.partial[1]) == ("d", None)


STRUCTS = {
    "tags": "struct inner { short s; char c; }; union bits { int i; };",
    "typedefs": "typedef struct { short s; char c; } inner; typedef union { int i; } bits;",
}


_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))
_names: list[bytes] = []  # which capsules point to


def _capsule(name):
    _names.append(name.encode())
    return _new_capsule(nc.load(None, "int abs(int);").abs.address(), _names[-1], None)


@pytest.mark.parametrize("text", STRUCTS.values(), ids=[*STRUCTS])
def test_structs_of_cython_are_found_by_their_names(text):
    lib = nc.load(None, text)
    struct = "struct inner" if "struct inner" in text else "inner"
    found = nc.wrap(_capsule("double (struct __pyx_t_1m_inner, __pyx_t_1m_inner *)"), types=lib)
    assert found.signatures == ("d:T{hb}&T{hb}",)
    assert repr(found).endswith(f"({struct}, {struct} *)>")
    assert nc.wrap(_capsule("int (union __pyx_t_1m_bits)"), types=lib).signatures == ("i:U{i}",)


def test_what_is_advised_for_structs_of_cython_works(fails):
    name = "double (struct __pyx_t_1m_inner)"
    said = (
        f"'signature' must be given: in the capsule's name, {name!r}, 'inner' is an unknown "
        "type; write the signature, or name a library that declares the type with "
        "'types', as in nativecall.load(None, 'typedef … inner;')"
    )
    with fails(TypeError, said):
        nc.wrap(_capsule(name))
    assert nc.wrap(_capsule(name), "d:T{hb}").signatures == ("d:T{hb}",)
    known = nc.load(None, "typedef struct { short s; char c; } inner;")
    assert nc.wrap(_capsule(name), types=known).signatures == ("d:T{hb}",)
    without = "unknown type name 'inner' at column 9 in 'double (inner)'; declare it with typedef"
    with fails(nc.SignatureError, without + " first"):
        nc.wrap(_capsule(name), types=nc.load(None, "int abs(int);"))
    said = (
        "struct 'inner' is not declared in full and cannot be passed by value in 'double (inner)'; "
        "declare its members, or call it through a C function of your own that takes a pointer"
    )
    opaque = nc.load(None, "typedef struct inner inner;")
    with fails(nc.SignatureError, said):
        nc.wrap(_capsule(name), types=opaque)


def test_a_contradiction_is_said_in_c(package, fails):
    capsule = _capsule("double (struct __pyx_t_3pkg_4user_outer *)")
    assert repr(nc.wrap(capsule)).endswith("(outer *)>")
    said = "'signature' is 'double (int)', but the target is 'double (outer *)'; omit 'signature'"
    lib = nc.load(None, "typedef struct { int n; } outer;")
    with fails(nc.SignatureError, said + " (or 'types') to use the target's own"):
        nc.wrap(capsule, "double (int)")
    said = (
        "'signature' is 'double (outer *)', but the target has types of these names with other "
        "members; omit 'signature' (or 'types') to use the target's own"
    )
    with fails(nc.SignatureError, said):
        nc.wrap(capsule, types=lib)
    assert nc.wrap(capsule).signatures[0].startswith("d:&T{")


def test_what_was_read_is_kept_up_to_a_bound(tmp_path):
    for number in range(40):
        (tmp_path / f"m{number}.pxd").write_text("cdef double f() noexcept nogil\n")
        found = pxd.beside(str(tmp_path / f"m{number}.so"))
        assert found.functions == {"f": (True, False)}
        assert len(pxd._read) <= pxd._read.limit


def test_where_capsules_are_is_looked_up_once_for_all_modules(module, monkeypatch):
    capsules = _cython.table(module)
    name = next(iter(SIGNATURES))
    assert _cython.place(capsules[name]) == (module, name)
    foreign = nc.wrap(module, name).to_capsule()
    assert _cython.place(foreign) is None
    monkeypatch.setattr(_cython, "table", None)  # modules are not looked through again
    assert _cython.place(foreign) is None
    monkeypatch.undo()
    # Of a module that was imported since they are known, of one that is gone not.
    again = types.ModuleType("exporting_again")
    again.__pyx_capi__ = {"f": foreign}
    monkeypatch.setitem(sys.modules, "exporting_again", again)
    assert _cython.place(foreign) == (again, "f")
    monkeypatch.delitem(sys.modules, "exporting_again")
    assert _cython.place(foreign) is None


# -- functions as Python has them ----------------------------------------------------------------


def test_cpdef_functions(module, lib):
    f = nc.wrap(module.halved)
    assert (f.signatures, f.__name__, f(3.0)) == (("d:d",), "halved", 1.5)
    with pytest.raises(ValueError, match="negative"):
        f(-1.0)
    assert nc.wrap(module.alias)(3.0) == 1.5
    assert nc.wrap(module.both)(4.0) == 8.0
    assert nc.wrap(module.halved, "d:d", name="other").__name__ == "other"
    assert nc.wrap(module.halved, gil="release").entries[0].gil == "release"
    with pytest.raises(nc.SignatureError, match="'signature' is 'd:i', but the target is 'd:d'"):
        nc.wrap(module.halved, "d:i")


def test_cpdef_functions_without_binding(monkeypatch):
    """These are built-in functions, as of other modules written in C."""
    sin = nc.load("m").function("sin", "d:d").to_capsule()
    with pytest.raises(TypeError, match="'target' must be an address"):
        nc.wrap(math.cos)
    monkeypatch.setattr(math, "__pyx_capi__", {"cos": sin}, raising=False)
    assert nc.wrap(math.cos)(0.5) == math.sin(0.5)
    with pytest.raises(TypeError, match="'target' must be an address"):
        nc.wrap(math.tan)


def test_what_leaves_arguments_out_is_pickled(module):
    f = pickle.loads(pickle.dumps(nc.wrap(module, "both")))
    assert (f.signatures, f.__name__, f(4.0)) == (("d:d",), "both", 8.0)


def test_variants_are_overloads(module):
    f = nc.wrap(module.product)
    assert {*f.signatures} == {"f:ff", "d:dd", "q:qq"}
    assert (f(2, 3), f(2.5, 2.0), f.__name__) == (6, 5.0, "product")
    one = nc.wrap(module.product["double"])
    assert (one.signatures, one(2.5, 2)) == (("d:dd",), 5.0)
    assert {*nc.wrap(module, "product").signatures} == {*f.signatures}
    for key in ("__pyx_fuse_1product", "product[double]", "product[double,double]"):
        if key in module.__pyx_capi__:
            assert nc.wrap(module, key).signatures == ("d:dd",)


def test_a_cpdef_function_is_an_argument(declared, lib):
    apply = lib.function("apply", "d:X{d:d}d")
    assert apply(declared.promised, 4.0) == 12.0
    assert apply(declared.python_only, 4.0) == 4.0, "called through Python"


def test_functions_of_python_are_none(module, fails):
    with fails(
        TypeError,
        "'python_only' is a Python function compiled by Cython, and its module exports no C "
        "function for it; declare it as 'cpdef' in a .pxd, or make a C function with "
        "nativecall.callback",
    ):
        nc.wrap(module.python_only)
    for obj in (module.Kind.method, module.Kind().method):
        with pytest.raises(TypeError):
            nc.wrap(obj)
    assert nc.callback("d:d", module.python_only)(2.0) == 2.0


def test_a_function_that_was_put_in_anothers_place(module, monkeypatch):
    monkeypatch.setattr(module, "halved", module.python_only)
    with pytest.raises(TypeError):
        nc.wrap(module.halved)
    monkeypatch.setattr(module.product, "__module__", None)
    with pytest.raises(TypeError):
        nc.wrap(module.product)


# -- SciPy's -------------------------------------------------------------------------------------


def test_every_capsule_of_cython_optimize():
    zeros = pytest.importorskip("scipy.optimize.cython_optimize._zeros")
    known = {name: nc.wrap(one).signatures for name, one in zeros.__pyx_capi__.items()}
    assert {*known} == {"bisect", "brenth", "brentq", "ridder"}
    assert {*known.values()} == {("d:X{d:dP}ddPddi&T{iiid}",)}
    fields = [("calls", "i4"), ("iterations", "i4"), ("error", "i4"), ("root", "f8")]
    full = np.zeros(1, np.dtype(fields, align=True))
    found = nc.wrap(zeros, "brentq")(
        lambda x, data: x * x - 2, 0.0, 2.0, None, 1e-12, 1e-12, 100, full
    )
    assert abs(found - 2**0.5) < 1e-10
    assert full["root"][0] == found


def test_scipys_own_promises():
    special = pytest.importorskip("scipy.special.cython_special")
    blas = pytest.importorskip("scipy.linalg.cython_blas")
    for module, names in ((special, ("gamma", "j0", "spherical_jn")), (blas, ("ddot", "dgemm"))):
        for name in names:
            for entry in nc.wrap(module, name).entries:
                assert (entry.gil, entry.errors) == ("hold", "none")
    assert nc.wrap(special.gamma)(5.0) == 24.0
    assert {*nc.wrap(special.gamma).signatures} == {"d:d", "Zd:Zd"}
    spherical = nc.wrap(special, "spherical_jn")["d:qd"]
    assert abs(spherical(2, 1.5) - special.spherical_jn(2, 1.5)) < 1e-15


def test_a_name_that_is_no_text():
    """As modules of SciPy's have for what moved."""
    moved = types.ModuleType("moved")
    moved.__pyx_capi__ = {5: nc.load("m").function("cos", "d:d").to_capsule()}
    with pytest.raises(nc.SymbolError, match="no symbol 'cos' in 'moved'"):
        nc.wrap(moved, "cos")


def test_a_module_that_went(module):
    """Names of modules are looked up when a capsule is met, not kept."""
    capsule = module.__pyx_capi__["raising"]
    assert nc.wrap(capsule).__name__ == "raising"
    held = sys.modules.pop("cythonboxes")
    try:
        f = nc.wrap(capsule)
        assert (f.__name__, flags(f)) != ("raising", NEED)
    finally:
        sys.modules["cythonboxes"] = held
    assert importlib.import_module("cythonboxes") is held
