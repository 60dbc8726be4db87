"""The programs with nativecall."""

from __future__ import annotations

import struct
from array import array

import cffi

from bench import installed, programs
from bench.programs import Run

nc = installed.import_nativecall()


def sorts() -> Run:
    """The comparator is passed as it is: the call makes its pointer."""
    qsort = nc.load(None, programs.SORT).qsort
    data = programs.SORTED

    def run() -> float:
        total = 0.0
        for n in range(programs.SORTS):
            values = data[:]
            qsort(values, 8, 8, lambda x, y, k=n % 8: -1 if abs(x[0] - k) < abs(y[0] - k) else 1)
            total += values[n % 7]
        return total

    return run


def integrals() -> Run:
    """Two of the function's arguments are bound, and GSL calls C alone."""
    gsl = nc.load(programs.library("gsl"), programs.INTEGRATION)
    qag = gsl.gsl_integration_qag
    workspace = gsl.gsl_integration_workspace_alloc(programs.LIMIT)
    address = programs.kernels().address_of("kernel_peak")
    peak = nc.wrap(address, "double peak(double x, double at, double width)")
    peak = peak.convert("double peak(double x, double at, double width, void *params)")
    function, result, error = bytearray(16), array("d", [0.0]), array("d", [0.0])

    def run() -> float:
        total = 0.0
        for at, width in programs.PEAKS:
            bound = peak.bind(at=at, width=width)
            struct.pack_into("PP", function, 0, bound.address(), 0)
            qag(function, -1.0, 1.0, 0.0, 1e-8, programs.LIMIT, 1, workspace, result, error)
            total += result[0]
        return total

    return run


def _solver() -> object:
    return nc.load(str(programs.kernels().path), programs.SOLVER).kernel_solve


def python_solver() -> Run:
    """The Python function is passed as it is."""
    return programs.solutions(_solver(), programs.slope, programs.SOLUTIONS)


def numba_solver() -> Run:
    """The jitted function's entry of this signature."""
    import numba

    function = nc.wrap(numba.njit(programs.slope), "d:dd")
    return programs.solutions(_solver(), function, programs.MANY_SOLUTIONS)


def pointers() -> Run:
    """Each address becomes a callable."""
    wrap = nc.wrap
    return programs.pointers(lambda address: wrap(address, "d:d"))


def dispatch() -> Run:
    """One callable has all the functions."""
    address_of = programs.kernels().address_of
    return programs.dispatch(
        nc.wrap({key: address_of(name) for key, name in programs.KERNELS.items()})
    )


def sqlite() -> Run:
    """The function in SQL gets pointers, and hands them to SQLite's functions."""
    lib = nc.load(programs.library("sqlite3"), programs.SQLITE)
    ffi = cffi.FFI()
    ffi.cdef(programs.SQLITE)
    value, result = lib.sqlite3_value_double.builtin, lib.sqlite3_result_double.builtin
    user = programs.user

    def function(context: object, count: int, values: list[object]) -> None:
        result(context, user(value(values[0])))

    pointer = nc.callback("void (void *, int, void **)", function)
    return programs.queried(lib, ffi, None, pointer)


def checksums() -> Run:
    """Through the built-in views."""
    lib = nc.load(programs.library("z"), programs.CHECKSUMS)
    return programs.checksums(lib.crc32.builtin, lib.adler32.builtin)
