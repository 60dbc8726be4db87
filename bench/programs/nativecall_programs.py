"""The programs with nativecall."""

from __future__ import annotations

from array import array

import cffi

from bench import installed, programs
from bench.programs import Run

nc = installed.import_nativecall()


def sorts() -> Run:
    """The comparator is one of numbers: where it is passed for one of pointers it is converted."""
    qsort, callback = nc.load(None, programs.SORT).qsort, nc.callback
    data = programs.SORTED

    def run() -> float:
        total = 0.0
        for n in range(programs.SORTS):
            values = data[:]
            compare = callback("i:dd", lambda x, y, k=n % 8: -1 if abs(x - k) < abs(y - k) else 1)
            qsort(values, 8, 8, compare)
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
    members = memoryview(function).cast("N")

    def run() -> float:
        total = 0.0
        for at, width in programs.PEAKS:
            bound = peak.bind(at=at, width=width)
            members[0] = bound.address()
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
    """Handles are declared as integers, and the argument is loaded before Python gets it."""
    declared = programs.SQLITE
    for handle in ("sqlite3_context *", "sqlite3_value *"):
        declared = declared.replace(handle, "uintptr_t ")
    lib = nc.load(programs.library("sqlite3"), declared)
    ffi = cffi.FFI()
    ffi.cdef(programs.SQLITE)
    value, result = lib.sqlite3_value_double.builtin, lib.sqlite3_result_double.builtin
    user = programs.user

    def function(context: int, count: int, argument: int) -> None:
        result(context, user(value(argument)))

    loads = nc.callback("void (uintptr_t, int, uintptr_t)", function)
    pointer = loads.convert("void (uintptr_t, int, uintptr_t *)")
    return programs.queried(lib, ffi, None, pointer)


def checksums() -> Run:
    """Through the built-in views."""
    lib = nc.load(programs.library("z"), programs.CHECKSUMS)
    return programs.checksums(lib.crc32.builtin, lib.adler32.builtin)
