"""Boxes as their consumers want them: ctypes by its classes, cffi by its types, capsules by names;
and functions that need the GIL for callers that have dropped it.
"""

import ctypes
import gc
import inspect
import re
import threading
import weakref

import cffi
import pytest

import nativecall as nc
from nativecall import _core, _lib
from support.capsules import get_name, get_pointer
from support.modes import DEBUG
from support.threads import each

DOUBLE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
PARTS = ("_flags_", "_argtypes_", "_restype_")


@pytest.fixture
def square(lib):
    return lib.function("square", "d:d")


def apply_of(lib, kind=DOUBLE):
    """The C function that calls what it is given, with the GIL dropped."""
    apply = ctypes.CDLL(lib.path)["apply"]
    apply.argtypes, apply.restype = [kind, ctypes.c_double], ctypes.c_double
    return apply


# -- ctypes --------------------------------------------------------------------------------------


class Table(ctypes.Structure):
    _fields_ = (("n", ctypes.c_int), ("f", DOUBLE))


def test_ctypes_takes_it_for_its_own(lib, square):
    box = square.to_ctypes()
    assert isinstance(box, DOUBLE)
    assert apply_of(lib)(box, 3.0) == 9.0
    assert Table(1, box).f(3.0) == (DOUBLE * 2)(box, box)[1](3.0) == 9.0
    table = Table()
    table.f = box
    assert nc.wrap(table.f).address() == square.address()


@pytest.mark.parametrize(
    ("signature", "kind"),
    [
        ("q:qi", ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long, ctypes.c_int)),
        ("v:", ctypes.CFUNCTYPE(None)),
        ("Q:P", ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)),
        ("P:&d&&i", ctypes.CFUNCTYPE(
            ctypes.c_void_p,
            ctypes.POINTER(ctypes.c_double),
            ctypes.POINTER(ctypes.POINTER(ctypes.c_int)),
        )),
        ("v:X{d:d}", ctypes.CFUNCTYPE(None, DOUBLE)),
        ("O:O", ctypes.CFUNCTYPE(ctypes.py_object, ctypes.py_object)),
    ],
)  # fmt: skip
def test_its_class_is_the_one_that_ctypes_has(square, signature, kind):
    assert isinstance(nc.wrap(square.address(), signature).to_ctypes(), kind)


def test_ctypes_takes_a_callable_itself(lib, square):
    apply = apply_of(lib)
    assert apply(square, 3.0) == 9.0
    apply.argtypes = None
    assert apply(square, ctypes.c_double(3.0)) == 9.0
    overloaded = nc.wrap({"d:d": square, "f:f": square.address()})
    apply.argtypes = [DOUBLE, ctypes.c_double]
    assert apply(overloaded["d:d"], 3.0) == 9.0
    with pytest.raises(ctypes.ArgumentError) as caught:
        apply(overloaded, 3.0)
    assert str(caught.value).endswith(
        "ctypes does not say which entry of 'square' it wants; pass square['d:d'] or "
        "square['f:f'], or f.to_ctypes(CLASS), with the class in argtypes"
    )
    members = dict(inspect.getmembers(overloaded))
    assert members["signatures"] == ("d:d", "f:f"), "nothing raises that is asked for an attribute"
    with pytest.raises(ctypes.ArgumentError, match=r"instead of NativeFunction\[f:f\]"):
        apply(overloaded["f:f"], 3.0)


def test_a_consumers_own_class(lib, square):
    class Point(ctypes.Structure):
        _fields_ = (("x", ctypes.c_double), ("y", ctypes.c_double))

    own = type("Own", (DOUBLE,), {name: getattr(DOUBLE, name) for name in PARTS})
    errno = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, use_errno=True)
    gil = ctypes.PYFUNCTYPE(ctypes.c_double, ctypes.c_double)
    for kind in (own, errno, gil):
        box = square.to_ctypes(kind)
        assert type(box) is kind
        assert box(3.0) == 9.0
        assert apply_of(lib, kind)(box, 3.0) == 9.0
        assert nc.wrap(box).address() == square.address()
    pointers = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.POINTER(Point), ctypes.c_void_p)
    f = nc.wrap({"d:&T{dd}&d": square.address(), "d:d": square.address()})
    assert type(f.to_ctypes(pointers)) is pointers
    points = ctypes.CFUNCTYPE(Point, Point, Point)
    add = lib.function("add_points", "T{dd}:T{dd}T{dd}").to_ctypes(points)
    assert add(Point(1, 2), Point(3, 4)).y == 6.0


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (int, TypeError, r"a function pointer class .* \(got the class int\)"),
        (
            ctypes.CFUNCTYPE(ctypes.c_int).__mro__[1],
            TypeError,
            "whose argument types are all ctypes types",
        ),
        (ctypes.CFUNCTYPE(ctypes.c_int), nc.NoEntryError, "no native entry for 'i:'"),
    ],
)
def test_classes_that_mean_nothing(square, kind, error, message):
    with pytest.raises(error, match=message):
        square.to_ctypes(kind)


def test_several_that_only_pointers_tell_apart(square):
    f = nc.wrap({"d:&d": square.address(), "d:&f": square.address()})
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)
    message = "has 2 entries that agree with 'd:P', 'd:&d', 'd:&f': choose one first"
    with pytest.raises(nc.NoEntryError, match=message):
        f.to_ctypes(kind)
    assert type(f["d:&f"].to_ctypes(kind)) is kind


def _pointing(*pointees):
    return ctypes.CFUNCTYPE(ctypes.c_double, *map(ctypes.POINTER, pointees))


class Pair(ctypes.Structure):
    _fields_ = (("i", ctypes.c_int), ("x", ctypes.POINTER(ctypes.c_float)))


AGREEING = [
    ("d:&d", ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)),
    ("d:P", _pointing(ctypes.c_double)),
    ("d:&i", _pointing(ctypes.c_uint)),  # signs are not told apart
    ("d:&b", ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_char_p)),
    ("d:&(3)d", _pointing(ctypes.c_double)),
    ("d:&&d", _pointing(ctypes.c_void_p)),
    ("d:&T{i&f}", _pointing(Pair)),
    ("d:&T{IP}", _pointing(Pair)),
    ("d:X{d:&d}", ctypes.CFUNCTYPE(ctypes.c_double, _pointing(ctypes.c_double))),
    ("d:[1]d", ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)),
]
DIFFERENT = [
    ("d:&d", _pointing(ctypes.c_int)),
    ("d:&d", _pointing(ctypes.c_float)),
    ("d:&i", _pointing(ctypes.c_long)),
    ("d:&&d", _pointing(ctypes.c_double)),
    ("d:&&d", _pointing(ctypes.POINTER(ctypes.c_float))),
    ("d:&T{i&d}", _pointing(Pair)),
    ("d:&T{ii}", _pointing(Pair)),
    ("d:&d", ctypes.CFUNCTYPE(ctypes.c_double, _pointing(ctypes.c_double))),
    ("d:X{d:&d}", ctypes.CFUNCTYPE(ctypes.c_double, _pointing(ctypes.c_int))),
    ("d:&d", ctypes.CFUNCTYPE(ctypes.c_double, ctypes.py_object)),
    ("d:&d", _pointing(ctypes.c_double, ctypes.c_double)),
]


@pytest.mark.parametrize(("signature", "kind"), AGREEING)
def test_pointers_that_agree(square, signature, kind):
    f = nc.wrap(square.address(), signature)
    assert type(f.to_ctypes(kind)) is kind


@pytest.mark.parametrize(("signature", "kind"), DIFFERENT)
def test_pointers_to_other_types_are_refused(square, signature, kind):
    f = nc.wrap(square.address(), signature)
    offered = re.escape(f"offers {f.signatures[0]!r}")
    with pytest.raises(nc.NoEntryError, match=f"no native entry for .*{offered}"):
        f.to_ctypes(kind)


# -- cffi ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signature", "kind"),
    [
        ("i:iI", "int(*)(int, unsigned int)"),
        ("q:q", "long(*)(long)"),
        ("Q:Q", "size_t(*)(size_t)"),
        ("Q:&b", "size_t(*)(const char *)"),
        ("h:bB", "short(*)(signed char, unsigned char)"),
        ("v:PQQX{i:PP}", "void(*)(void *, size_t, size_t, int(*)(const void *, const void *))"),
        ("?:&&d", "_Bool(*)(double **)"),
    ],
)
def test_cffi_takes_the_usual_types(square, signature, kind):
    ffi = cffi.FFI()
    box = nc.wrap(square.address(), signature).to_cffi()
    assert ffi.new(kind.replace("(*)", "(*[1])", 1), [box])[0] == box
    assert ffi.typeof(box) is ffi.typeof(kind)


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("q: l", "long long(*)(long)"),
        ("N:nL&c", "size_t(*)(ssize_t, unsigned long, char *)"),
        ("int64_t(int64_t)", "int64_t(*)(int64_t)"),
        ("intptr_t (*)(ptrdiff_t)", "intptr_t(*)(ptrdiff_t)"),
    ],
)
def test_types_as_they_are_written(square, written, kind):
    ffi = cffi.FFI()
    f = nc.wrap(square.address(), written.replace("(*)", ""))
    box = f.to_cffi(written)
    assert ffi.typeof(box) is ffi.typeof(kind)
    assert nc.wrap(box).address() == square.address()
    assert ffi.typeof(f.to_cffi(ffi.typeof(kind))) is ffi.typeof(kind)


def test_the_consumers_ffi(lib):
    ffi = cffi.FFI()
    ffi.cdef("""
        typedef struct { double x, y; } point;
        typedef point (*sum)(point, point);
        typedef struct { sum f; double (*g)(double, void *); } table;
    """)
    add = lib.function("add_points", "T{dd}:T{dd}T{dd}")
    table = ffi.new("table *", [add.to_cffi("sum", ffi=ffi)])
    assert table.f(ffi.new("point *", [1, 2])[0], ffi.new("point *", [3, 4])[0]).y == 6.0
    assert ffi.typeof(add.to_cffi(ffi.typeof("sum"))) is ffi.typeof("sum")
    square = lib.function("square", "d:d").convert("d:dP")
    table.g = square.to_cffi(ffi=ffi)
    assert table.g(3.0, ffi.NULL) == 9.0
    with pytest.raises(nc.NoEntryError, match="no native entry for 'd:d'"):
        add.to_cffi("double (double)", ffi=ffi)
    with pytest.raises(nc.SignatureError, match="'point' is not a function pointer in cffi"):
        add.to_cffi(ffi.typeof("point"), ffi=ffi)
    with pytest.raises(nc.SignatureError, match=r"if your own FFI declares the type, pass it"):
        add.to_cffi("sum")
    with pytest.raises(nc.SignatureError, match="'point' is not a function pointer in cffi"):
        add.to_cffi("point", ffi=ffi)
    with pytest.raises(nc.SignatureError, match="the FFI has no type 'handler_t'"):
        add.to_cffi("handler_t", ffi=ffi)
    with pytest.raises(nc.SignatureError, match=r"unknown type 'w' at column 3 in 'd:w'$"):
        add.to_cffi("d:w")
    with pytest.raises(TypeError, match=r"'ffi' must be a cffi FFI or None \(got int\)"):
        add.to_cffi(ffi=3)
    with pytest.raises(TypeError, match=r"to_cffi\(\) takes from 0 to 1 positional arguments"):
        add.to_cffi("sum", ffi)
    # An FFI of API mode ends the process for such a text (cffi 2.1).
    with pytest.raises(nc.SignatureError, match=r"\\udc80"):
        add.to_cffi("\udc80", ffi=_core.ffi)


# -- capsules ------------------------------------------------------------------------------------


def test_capsules_by_other_names(square):
    owner = set()
    alive = weakref.ref(owner)
    f = nc.wrap(square.address(), "d:d", owner=owner)
    cython = "double (double, int __pyx_skip_dispatch)"
    jax = "xla._CUSTOM_CALL_TARGET"
    capsules = [f.to_capsule(name=name) for name in (cython, jax, "")]
    assert [get_name(one) for one in capsules] == [cython.encode(), jax.encode(), None]
    for capsule, name in zip(capsules, (cython.encode(), jax.encode(), None), strict=True):
        assert get_pointer(capsule, name) == square.address()
        assert nc.wrap(capsule).signatures == ("d:d",)
    del f, owner, capsule, capsules[:2]
    gc.collect()
    assert alive() is not None
    capsules.clear()
    gc.collect()
    assert alive() is None


def test_names_that_are_none(square):
    with pytest.raises(TypeError, match=r"'name' must be a str, '' for no name, or None"):
        square.to_capsule(name=b"x")
    with pytest.raises(ValueError, match="must not contain a null"):
        square.to_capsule(name="a\0b")
    with pytest.raises(
        ValueError, match=r"must be text \(got '\\ud800', which UTF-8 cannot encode"
    ):
        square.to_capsule(name="\ud800")
    with pytest.raises(TypeError, match=r"to_capsule\(\) takes from 0 to 1 positional arguments"):
        square.to_capsule("d:d", "x")


# -- functions that need the GIL -----------------------------------------------------------------


@pytest.fixture
def needs():
    return nc.load(None).function("PyGILState_Check", "i:", gil="need")


def ways(f):
    """Boxes whose callers drop the GIL."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int)
    struct = type("S", (ctypes.Structure,), {"_fields_": [("f", kind)]})
    return {
        "struct": struct(f.to_ctypes()).f,
        "array": (kind * 1)(f.to_ctypes())[0],
        "class": f.to_ctypes(kind),
        "cffi": f.to_cffi(),
    }


def test_they_are_called_with_it(needs):
    for name, call in ways(needs).items():
        assert call() == 1, name
    hold = nc.load(None).function("PyGILState_Check", "i:")
    assert ways(hold)["struct"]() == ways(hold)["cffi"]() == 0, "or nothing is shown by this"


def test_the_entry_comes_back_as_it_was(needs):
    for box in (needs.to_ctypes(), *ways(needs).values()):
        again = nc.wrap(box)
        assert again.address() == needs.address()
        assert again.entries[0].flags == _lib.FLAG_NEEDS_GIL


def test_foreign_threads_and_objects(lib):
    """What a Python function that is known to have the GIL gets, when it has it not."""
    seen = []
    f = nc.callback("d:d", lambda x: seen.append(threading.get_ident()) or 2 * x, gil="need")
    apply = apply_of(lib)
    assert each(lambda x: apply(f.to_ctypes(), x), *[2.0] * 4) == [4.0] * 4
    assert len(seen) == 4
    text = nc.wrap(ctypes.pythonapi.PyObject_Repr, "O:O")
    assert text.to_ctypes(ctypes.CFUNCTYPE(ctypes.py_object, ctypes.py_object))([1]) == "[1]"


@pytest.mark.skipif(DEBUG, reason="a debug build ends where ctypes returns with an exception set")
def test_their_exceptions():
    """As of callbacks: raised where Python code waits for the call, by whoever looks."""
    f = nc.callback("d:d", lambda x: 1 / x, gil="need")
    struct = type("S", (ctypes.Structure,), {"_fields_": [("f", DOUBLE)]})
    for call in (f.to_ctypes(), f.to_cffi(), struct(f.to_ctypes()).f):
        with pytest.raises((ZeroDivisionError, SystemError)) as info:
            call(0.0)
        assert ZeroDivisionError in (type(info.value), type(info.value.__cause__))
    fails = nc.wrap(ctypes.pythonapi.PyLong_AsLong, "q:O", errors="python")
    with pytest.raises(TypeError):
        fails.to_ctypes()("x")
    assert fails.to_ctypes()(7) == 7


def test_the_thunk_is_kept_with_the_box(needs):
    owner = set()
    alive = weakref.ref(owner)
    box = nc.wrap(needs.address(), "i:", gil="need", owner=owner).to_cffi()
    del owner
    gc.collect()
    assert box() == 1
    assert alive() is not None
    del box
    gc.collect()
    assert alive() is None
