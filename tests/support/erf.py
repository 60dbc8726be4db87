"""The error function as every kind of foreign callable, and as Python functions."""

import ctypes
import ctypes.util
import functools
import importlib
import math
import shutil
import sys
import types

import pytest

import nativecall as nc

# The integral of erf from 0 to 1 by the midpoint rule with 100 points.
ERF = sum(math.erf((i + 0.5) / 100) for i in range(100)) / 100


def _imported(name):
    return pytest.importorskip(name)  # some builds of CPython have no wheel of it


def python_erf(x):
    """A Python function; its calls show what is not native."""
    return math.erf(x)


def libm():
    return ctypes.CDLL(ctypes.util.find_library("m"))


def ctypes_erf():
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(("erf", libm()))


def box_native():
    return nc.load("m").function("erf", "d:d")


def box_view():
    return box_native().builtin


def box_overloaded():
    return nc.wrap({"f:f": nc.load("m").address("erff"), "d:d": nc.load("m").address("erf")})


def box_ctypes():
    return ctypes_erf()


def box_ctypes_library():
    erf = libm().erf
    erf.argtypes, erf.restype = [ctypes.c_double], ctypes.c_double
    return erf


def box_capsule():
    return box_native().to_capsule("d:d")


def box_cffi():
    ffi = importlib.import_module("cffi").FFI()
    ffi.cdef("double erf(double);")
    return ffi.dlopen(ctypes.util.find_library("m")).erf


def box_cffi_cast():
    ffi = importlib.import_module("cffi").FFI()
    return ffi.gc(ffi.cast("double (*)(double)", nc.load("m").address("erf")), lambda _: None)


@functools.cache
def api_module():
    cffi = importlib.import_module("cffi")
    importlib.import_module("setuptools")
    import tempfile

    ffi = cffi.FFI()
    ffi.cdef("double erf(double); int twice(int);")
    ffi.set_source("_callback_cffi", "#include <math.h>\nstatic int twice(int x) { return 2 * x; }")
    place = tempfile.mkdtemp()
    ffi.compile(place)
    sys.path.insert(0, place)
    try:
        import _callback_cffi
    finally:
        sys.path.remove(place)
        shutil.rmtree(place)
    return _callback_cffi


def box_cffi_api():
    return api_module().lib.erf


def box_cffi_addressof():
    module = api_module()
    return module.ffi.addressof(module.lib, "erf")


@functools.cache
def box_numba():
    numba = _imported("numba")
    return numba.cfunc("float64(float64)")(python_erf)


def box_cython_special():
    module = _imported("scipy.special.cython_special")
    capsule = module.__pyx_capi__["__pyx_fuse_1erf"]
    assert "__pyx_skip_dispatch" in repr(capsule)
    return capsule


def box_scipy_ctypes():
    return _imported("scipy").LowLevelCallable(ctypes_erf())


def box_scipy_cython():
    scipy = _imported("scipy")
    return scipy.LowLevelCallable(box_cython_special())


def box_scipy_numba():
    return _imported("scipy").LowLevelCallable(box_numba().ctypes)


def box_to_scipy():
    _imported("scipy")
    return box_native().to_scipy()


def box_ufunc():
    return _imported("scipy.special").erf


NATIVE = {name[4:]: make for name, make in list(globals().items()) if name.startswith("box_")}


def python_jitted():
    return _imported("numba").njit(python_erf)


PYTHON = {
    "function": lambda: python_erf,
    "builtin": lambda: math.erf,
    "partial": lambda: functools.partial(python_erf),
    "method": lambda: types.MethodType(lambda self, x: python_erf(x), object()),
    "jitted": python_jitted,
}
