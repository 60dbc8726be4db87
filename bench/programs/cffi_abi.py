"""The programs with cffi, its functions from ``ffi.dlopen`` and ``ffi.callback``."""

from __future__ import annotations

from typing import Any

import cffi

from bench import programs
from bench.programs import Run

ffi = cffi.FFI()
ffi.cdef(
    programs.CHECKSUMS + programs.INTEGRATION + programs.SQLITE + programs.SOLVER + programs.SORT
)


def sorts() -> Run:
    """A callback for every comparator."""
    qsort, data = ffi.dlopen(None).qsort, programs.SORTED
    callback, lend, doubles = ffi.callback, ffi.from_buffer, ffi.typeof("double[]")

    def run() -> float:
        total = 0.0
        for n in range(programs.SORTS):
            values = data[:]
            compare = callback(
                "int(const double *, const double *)",
                lambda x, y, k=n % 8: -1 if abs(x[0] - k) < abs(y[0] - k) else 1,
            )
            qsort(lend(doubles, values), 8, 8, compare)
            total += values[n % 7]
        return total

    return run


def integrals() -> Run:
    """A callback for every closure, which calls the C function."""
    gsl = ffi.dlopen(programs.library("gsl"))
    return integrated(ffi, gsl, ffi.dlopen(str(programs.kernels().path)).kernel_peak)


def integrated(ffi: Any, gsl: Any, peak: Any) -> Run:
    """Integrate Python closures over a C function."""
    workspace = gsl.gsl_integration_workspace_alloc(programs.LIMIT)
    function, result, error = ffi.new("gsl_function *"), ffi.new("double *"), ffi.new("double *")
    callback, qag, limit = ffi.callback, gsl.gsl_integration_qag, programs.LIMIT

    def run() -> float:
        total = 0.0
        for at, width in programs.PEAKS:
            closure = callback(
                "double(double, void *)", lambda x, _, at=at, width=width: peak(x, at, width)
            )
            function.function = closure
            qag(function, -1.0, 1.0, 0.0, 1e-8, limit, 1, workspace, result, error)
            total += result[0]
        return total

    return run


def python_solver() -> Run:
    """One callback for all solutions."""
    function = ffi.callback("double(double, double)", programs.slope)
    solve = ffi.dlopen(str(programs.kernels().path)).kernel_solve
    return programs.solutions(solve, function, programs.SOLUTIONS)


def numba_solver() -> Run:
    """The address of a cfunc."""
    from bench.programs.numba_programs import cfunc

    function = ffi.cast("double(*)(double, double)", cfunc().address)
    solve = ffi.dlopen(str(programs.kernels().path)).kernel_solve
    return programs.solutions(solve, function, programs.MANY_SOLUTIONS)


def pointers() -> Run:
    """Each address is cast to a function pointer."""
    cast, pointer = ffi.cast, ffi.typeof("double(*)(double)")
    return programs.pointers(lambda address: cast(pointer, address))


def dispatch() -> Run:
    """A dictionary of function pointers."""
    types = {"d": "double", "q": "int64_t", "f": "float", "i": "int32_t"}
    address_of = programs.kernels().address_of
    functions = {
        key: ffi.cast(f"{types[key[0]]}(*)({types[key[2]]})", address_of(name))
        for key, name in programs.KERNELS.items()
    }
    return programs.dispatch(functions)


def sqlite() -> Run:
    """The function in SQL is a callback."""
    lib = ffi.dlopen(programs.library("sqlite3"))
    value, result, user = lib.sqlite3_value_double, lib.sqlite3_result_double, programs.user

    def function(context: Any, count: int, values: Any) -> None:
        result(context, user(value(values[0])))

    pointer = ffi.callback("void(sqlite3_context *, int, sqlite3_value **)", function)
    return programs.queried(lib, ffi, ffi.NULL, pointer)


def checksums() -> Run:
    """Functions of the library, as they are."""
    lib = ffi.dlopen(programs.library("z"))
    return programs.checksums(lib.crc32, lib.adler32)
