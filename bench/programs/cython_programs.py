"""The programs with Cython: functions and a class in cython_programs.pyx, written for each."""

from __future__ import annotations

import ctypes
from typing import Any

from bench import programs
from bench.peers import load_module
from bench.programs import Run


def _module(library: Any, *names: str) -> Any:
    module = load_module("cython_programs", "bench_cython_programs")
    for name in names:
        module.prepare(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
    return module


def sorts() -> Run:
    """The C function calls the comparator with numbers: here it need not be one of pointers."""
    sort, data = _module(None).sort, programs.SORTED

    def run() -> float:
        total = 0.0
        for n in range(programs.SORTS):
            values = data[:]
            sort(values, lambda x, y, k=n % 8: -1 if abs(x - k) < abs(y - k) else 1)
            total += values[n % 7]
        return total

    return run


def integrals() -> Run:
    """What is bound is a struct in C, and the integrand a C function of it."""
    gsl = ctypes.CDLL(programs.library("gsl"))
    _module(programs.kernels().library, "kernel_peak")
    integral = _module(gsl, "gsl_integration_workspace_alloc", "gsl_integration_qag").integral
    limit = programs.LIMIT

    def run() -> float:
        total = 0.0
        for at, width in programs.PEAKS:
            total += integral(at, width, limit)
        return total

    return run


def python_solver() -> Run:
    """A C function that calls the Python function."""
    module = _module(programs.kernels().library, "kernel_solve")
    return programs.solutions(module.solve, programs.slope, programs.SOLUTIONS)


def numba_solver() -> Run:
    """The address of a cfunc."""
    from bench.programs.numba_programs import cfunc

    module = _module(programs.kernels().library, "kernel_solve")
    return programs.solutions(module.solve_native, cfunc().address, programs.MANY_SOLUTIONS)


def pointers() -> Run:
    """Each address becomes an object of a class for this signature."""
    return programs.pointers(_module(None).Pointer)


def dispatch() -> Run:
    """A dictionary of functions that were compiled for their signatures."""
    module = _module(programs.kernels().library, *programs.KERNELS.values())
    return programs.dispatch(
        {"d:d": module.d_d, "q:q": module.q_q, "f:f": module.f_f, "i:i": module.i_i}
    )


def sqlite() -> Run:
    """The function in SQL is a C function that reads the number and calls the Python function."""
    import cffi

    lib = ctypes.CDLL(programs.library("sqlite3"))
    module = _module(lib, "sqlite3_value_double", "sqlite3_result_double")
    ffi = cffi.FFI()
    ffi.cdef(programs.SQLITE)
    function = ffi.cast(
        "void(*)(sqlite3_context *, int, sqlite3_value **)", module.sql_function(programs.user)
    )
    opened = ffi.dlopen(programs.library("sqlite3"))
    return programs.queried(opened, ffi, ffi.NULL, function)


def checksums() -> Run:
    """Functions of bytes."""
    module = _module(ctypes.CDLL(programs.library("z")), "crc32", "adler32")
    return programs.checksums(module.crc32, module.adler32)


def _linked(name: str) -> Any:
    return load_module(f"cython_{name}", f"bench_cython_{name}")


def expat() -> Run:
    """A class of the parser, as the module pyexpat has."""
    parser, document = _linked("expat").Parser, programs.document()

    def run() -> float:
        heard = programs.Heard()
        parser(heard.start, heard.end, heard.text).parse(document)
        return heard.total

    return run


def rows() -> Run:
    """An iterator of tuples."""
    database, select = _linked("sqlite3").Database(), programs.SELECT_ITEMS
    for text in programs.FILL_ITEMS:
        list(database.rows(text))

    def run() -> float:
        total = 0
        for name, number in database.rows(select):
            total += len(name) + number
        return total

    return run


def tree() -> Run:
    """A class of nodes, with properties."""
    module, document = _linked("xml2"), programs.document()
    return programs.walked(
        lambda: module.Document(document),
        lambda parsed: parsed.top(),
        lambda parsed: parsed.free(),
        str,
    )


def vectors() -> Run:
    """A class that has the struct."""
    module = load_module("cython_values", "bench_cython_values")
    return programs.motion(module.Vec3, module.add, module.scale, module.dot)


def stream() -> Run:
    """A class of the stream."""
    made = _linked("z").Deflate
    return programs.compressed(lambda: made(programs.LEVEL))
