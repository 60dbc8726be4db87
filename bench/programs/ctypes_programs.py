"""The programs with ctypes."""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    byref,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint,
    c_ulong,
    c_void_p,
)
from typing import Any

from bench import programs
from bench.programs import Run

DOUBLES = POINTER(c_double)
SLOPE = CFUNCTYPE(c_double, c_double, c_double)
INTEGRAND = CFUNCTYPE(c_double, c_double, c_void_p)


class GslFunction(ctypes.Structure):
    """GSL's struct of a function."""

    _fields_ = (("function", INTEGRAND), ("params", c_void_p))


def _typed(function: Any, result: Any, *arguments: Any) -> Any:
    function.restype, function.argtypes = result, arguments
    return function


def sorts() -> Run:
    """A function pointer for every comparator."""
    comparator = CFUNCTYPE(c_int, DOUBLES, DOUBLES)
    doubles, data = c_double * 8, programs.SORTED
    qsort = _typed(ctypes.CDLL(None).qsort, None, doubles, c_size_t, c_size_t, comparator)

    def run() -> float:
        total = 0.0
        for n in range(programs.SORTS):
            values = data[:]
            compare = comparator(lambda x, y, k=n % 8: -1 if abs(x[0] - k) < abs(y[0] - k) else 1)
            qsort(doubles.from_buffer(values), 8, 8, compare)
            total += values[n % 7]
        return total

    return run


def integrals() -> Run:
    """A function pointer for every closure, which calls the C function."""
    gsl = ctypes.CDLL(programs.library("gsl"))
    allocate = _typed(gsl.gsl_integration_workspace_alloc, c_void_p, c_size_t)
    numbers, size = (c_double,) * 4, (c_size_t, c_int, c_void_p)
    function_type = POINTER(GslFunction)
    qag = _typed(gsl.gsl_integration_qag, c_int, function_type, *numbers, *size, DOUBLES, DOUBLES)
    peak = _typed(programs.kernels().library.kernel_peak, c_double, *numbers[:3])
    workspace, result, error = allocate(programs.LIMIT), c_double(), c_double()
    to_result, to_error, limit = byref(result), byref(error), programs.LIMIT

    def run() -> float:
        total = 0.0
        for at, width in programs.PEAKS:
            closure = INTEGRAND(lambda x, _, at=at, width=width: peak(x, at, width))
            function = GslFunction(closure, None)
            qag(function, -1.0, 1.0, 0.0, 1e-8, limit, 1, workspace, to_result, to_error)
            total += result.value
        return total

    return run


def _solver() -> Any:
    solve = programs.kernels().library.kernel_solve
    return _typed(solve, c_double, SLOPE, c_double, c_double, c_int64)


def python_solver() -> Run:
    """One function pointer for all solutions."""
    return programs.solutions(_solver(), SLOPE(programs.slope), programs.SOLUTIONS)


def numba_solver() -> Run:
    """What Numba makes for ctypes."""
    from bench.programs.numba_programs import cfunc

    return programs.solutions(_solver(), SLOPE(cfunc().address), programs.MANY_SOLUTIONS)


def pointers() -> Run:
    """Each address becomes a function pointer."""
    return programs.pointers(CFUNCTYPE(c_double, c_double))


def dispatch() -> Run:
    """A dictionary of function pointers."""
    types = {"d": c_double, "q": c_int64, "f": c_float, "i": c_int32}
    address_of = programs.kernels().address_of
    functions = {
        key: CFUNCTYPE(types[key[0]], types[key[2]])(address_of(name))
        for key, name in programs.KERNELS.items()
    }
    return programs.dispatch(functions)


def sqlite() -> Run:
    """The function in SQL is a function pointer."""
    lib = ctypes.CDLL(programs.library("sqlite3"))
    function_type = CFUNCTYPE(None, c_void_p, c_int, POINTER(c_void_p))
    place, out = c_void_p, POINTER(c_void_p)
    _typed(lib.sqlite3_open, c_int, c_char_p, out)
    function_arguments = (c_char_p, c_int, c_int, place, function_type, place, place)
    _typed(lib.sqlite3_create_function, c_int, place, *function_arguments)
    _typed(lib.sqlite3_prepare_v2, c_int, place, c_char_p, c_int, out, out)
    _typed(lib.sqlite3_step, c_int, place)
    _typed(lib.sqlite3_reset, c_int, place)
    _typed(lib.sqlite3_column_double, c_double, place, c_int)
    value = _typed(lib.sqlite3_value_double, c_double, place)
    result = _typed(lib.sqlite3_result_double, None, place, c_double)
    user = programs.user

    def function(context: int, count: int, values: Any) -> None:
        result(context, user(value(values[0])))

    class Places:
        """Memory for pointers, as cffi's ``ffi.new`` gives it."""

        @staticmethod
        def new(_: str) -> Any:
            return (c_void_p * 1)()

    return programs.queried(lib, Places, None, function_type(function))


def checksums() -> Run:
    """Functions of the library."""
    lib = ctypes.CDLL(programs.library("z"))
    types = (c_ulong, c_ulong, c_char_p, c_uint)
    return programs.checksums(_typed(lib.crc32, *types), _typed(lib.adler32, *types))
