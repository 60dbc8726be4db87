"""What is of another type never reaches C: user data, capsules, LowLevelCallables."""

import array
import ctypes
import sys

import cffi
import numpy as np
import pytest

import nativecall as nc
from support.capsules import capsule

scipy = pytest.importorskip("scipy")  # an extra; the tests try its LowLevelCallable

SOURCE = """
typedef struct { double a, b; } pair;
typedef struct { int q; } other;
static int calls;
double of_pair(double x, pair *p) { calls++; return p->a * x; }
double of_doubles(double x, double *p) { calls++; return *p * x; }
double of_pointer(double x, double **p) { calls++; return **p * x; }
double one(double x) { calls++; return x; }
double apply(double (*f)(double), double x) { return f(x); }
int count(void) { return calls; }
"""
DECLARED = (
    "typedef struct { double a, b; } pair; typedef struct { int q; } other;"
    "double of_pair(double x, pair *p); double of_doubles(double x, double *p);"
    "double of_pointer(double x, double **p); double one(double x);"
    "double apply(double (*f)(double), double x); int count(void);"
)
FUNCTIONS = ("of_pair", "of_doubles", "of_pointer")


@pytest.fixture(scope="module")
def lib(builder):
    return nc.load(builder.library(SOURCE, "wrongtypes"), DECLARED)


class Other(ctypes.Structure):
    _fields_ = (("q", ctypes.c_int),)


IS_LITTLE = sys.byteorder == "little"
SWAPPED = ctypes.c_double.__ctype_be__ if IS_LITTLE else ctypes.c_double.__ctype_le__


class Swapped(ctypes.BigEndianStructure if IS_LITTLE else ctypes.LittleEndianStructure):
    _fields_ = (("a", ctypes.c_double), ("b", ctypes.c_double))


def wrong_data(lib):
    """What is no pair, no doubles and no pointer to doubles."""
    ffi = cffi.FFI()
    ffi.cdef("typedef struct { int q; } other; typedef struct { double a; float b; } pair;")
    yield lib.new("other *")
    yield lib.new("int *", 3)
    yield lib.new("float[2]")
    yield lib.new("other[2]")
    yield lib.new("int (*)[2]")
    yield ffi.new("other *")
    yield ffi.new("pair *")
    yield ffi.new("int[2]")
    yield ffi.callback("int(int)", abs)
    yield ffi.callback("double(double)", abs)
    yield ffi.new("double(**)(double)")
    yield ffi.cast("FILE *", ffi.new("double[2]"))
    yield ffi.cast("int (*)[]", ffi.new("double[2]"))
    yield ctypes.CDLL(None).abs
    yield ctypes.CFUNCTYPE(ctypes.c_double)(float)
    yield ctypes.byref(ctypes.CFUNCTYPE(ctypes.c_double)(float))
    yield ctypes.byref(ctypes.c_wchar("a"))
    yield ctypes.pointer((ctypes.c_wchar * 4)())
    yield ctypes.pointer(SWAPPED(1.0))
    yield ctypes.byref((SWAPPED * 2)())
    yield ctypes.byref(Swapped())
    yield ctypes.pointer(Other())
    yield ctypes.byref(ctypes.c_int(3))
    yield (ctypes.c_int * 2)(1, 2)
    yield ctypes.c_float(2.0)
    yield Other()
    yield array.array("i", [1, 2])
    yield array.array("f", [1, 2])
    yield np.array([1, 2])
    yield np.float32([1, 2])
    yield np.zeros(2, [("q", "i")])
    yield np.array([1j])
    yield bytearray(12)
    yield memoryview(b"12345678")
    yield lib.one
    yield lib.one.to_capsule()
    yield 3.0
    yield "text"
    yield abs


@pytest.mark.parametrize("name", FUNCTIONS)
def test_user_data(lib, name):
    function = getattr(lib, name)
    tried = 0
    for value in wrong_data(lib):
        tried += 1
        for use in (
            lambda data: function.to_scipy(user_data=data),
            lambda data: function.to_scipy(signature="double (double, void *)", user_data=data),
            lambda data: function.bind(..., data),
            lambda data: function.bind(data=data),
            lambda data: function(1.0, data),
        ):
            with pytest.raises((TypeError, ValueError)):
                use(value)
    assert tried >= 20
    assert lib.count() == 0


#: Names of capsules and signatures that contradict them.
WRONG = {
    b"double (double)": ("d:i", "i:d", "d:dd", "d:", "f:d", "d:f", "d:P", "v:d", "d:[1]d", "d:O"),
    b"int (double *, void *)": ("i:&iP", "i:dP", "i:&d", "d:&dP", "i:&di", "i:&fP"),
    b"double (double, struct pair)": ("d:dd", "d:d&d", "d:dP", "d:di"),
    b"void (int (*)(int))": ("v:i", "v:X{d:d}", "v:&i", "v:X{i:ii}"),
}


@pytest.mark.parametrize("name", WRONG)
def test_capsules(lib, name):
    box = capsule(name, lib.one.address())
    for signature in WRONG[name]:
        with pytest.raises((nc.SignatureError, TypeError)):
            nc.wrap(box, signature)
    assert lib.count() == 0


#: Capsules, and signatures that a LowLevelCallable says of them, which are no double (double).
BOXES = (
    *[(name, None) for name in (b"int (double *, float *)", b"void (double)", b"double (void)")],
    *[(name, None) for name in (b"double *(double)", b"int (void *)", b"double (double, double)")],
    *[(name, None) for name in (b"double (double, double *)", b"char *(int)", b"void *(void)")],
    *[(name, None) for name in (b"double (struct pair)", b"struct pair (double)")],
    *[(name, None) for name in (b"double (int (*)(int))", b"double _Complex (double)")],
    *[(b"double (double)", said) for said in ("double *(double)", "void (double)", "int (void *)")],
    *[
        (b"double (double)", said)
        for said in ("double (double, double)", "char *(int)", "double ()")
    ],
    (b"double (double)", "double (struct pair)"),
    (b"double (double)", "double (int (*)(int))"),
)


@pytest.mark.parametrize(("name", "said"), BOXES)
def test_low_level_callables(lib, name, said):
    box = scipy.LowLevelCallable(capsule(name, lib.one.address()), signature=said)
    with pytest.raises((nc.NativeCallError, TypeError)):
        lib.apply(box, 1.0)
    with pytest.raises((nc.NativeCallError, TypeError)):
        nc.wrap(box, "d:d")
    assert lib.count() == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_user_data_of_low_level_callables(lib, name):
    function = getattr(lib, name)
    tried = 0
    for value in wrong_data(lib):
        try:
            box = scipy.LowLevelCallable(function.to_ctypes(), value)
        except (TypeError, ValueError):
            continue  # SciPy's own refusal
        tried += 1
        for use in (nc.wrap, lambda box: lib.apply(box, 1.0)):
            with pytest.raises((nc.NativeCallError, TypeError, ValueError)):
                use(box)
    assert tried >= 4
    with pytest.raises(TypeError, match="a capsule that holds a function, not data"):
        nc.wrap(scipy.LowLevelCallable(function.to_ctypes(), lib.one.to_capsule()))
    assert lib.count() == 0


def test_capsules_with_data_are_user_data(lib):
    """One without a name, or with another than a function's, holds what the user says."""
    number = ctypes.c_double(2.0)
    for name in (None, b"data", b"void *"):
        data = capsule(name, ctypes.addressof(number))
        box = scipy.LowLevelCallable(lib.of_doubles.to_capsule(), data)
        assert nc.wrap(box)(3.0) == 6.0
        box = lib.of_doubles.to_scipy(signature="double (double, void *)", user_data=data)
        assert nc.wrap(box)(3.0) == 6.0
