"""The programs with cffi's API mode: compiled modules, with ``extern "Python"`` for callbacks."""

from __future__ import annotations

from typing import Any

from bench import programs
from bench.peers import load_module
from bench.programs import Run, cffi_abi


def _module(name: str) -> Any:
    return load_module(f"cffi_{name}", f"bench_cffi_{name}")


def sorts() -> Run:
    """One C function for all comparators, which calls the one that is current."""
    module = _module("c")
    lib, ffi, data = module.lib, module.ffi, programs.SORTED
    current: Any = None

    @ffi.def_extern()
    def compare(x: Any, y: Any) -> int:
        found: int = current(x, y)
        return found

    qsort, function, lend, doubles = lib.qsort, lib.compare, ffi.from_buffer, ffi.typeof("double[]")

    def run() -> float:
        nonlocal current
        total = 0.0
        for n in range(programs.SORTS):
            values = data[:]
            current = lambda x, y, k=n % 8: -1 if abs(x[0] - k) < abs(y[0] - k) else 1  # noqa: E731
            qsort(lend(doubles, values), 8, 8, function)
            total += values[n % 7]
        return total

    return run


def integrals() -> Run:
    """One C function for all closures, which finds what is bound by its user data."""
    module = _module("gsl")
    lib, ffi = module.lib, module.ffi
    peak = _module("c").lib.kernel_peak
    from_handle, new_handle = ffi.from_handle, ffi.new_handle

    @ffi.def_extern()
    def integrand(x: float, params: Any) -> float:
        at, width = from_handle(params)
        found: float = peak(x, at, width)
        return found

    workspace = lib.gsl_integration_workspace_alloc(programs.LIMIT)
    function, result, error = ffi.new("gsl_function *"), ffi.new("double *"), ffi.new("double *")
    function.function = lib.integrand
    qag, limit = lib.gsl_integration_qag, programs.LIMIT

    def run() -> float:
        total = 0.0
        for bound in programs.PEAKS:
            handle = new_handle(bound)
            function.params = handle
            qag(function, -1.0, 1.0, 0.0, 1e-8, limit, 1, workspace, result, error)
            total += result[0]
        return total

    return run


def python_solver() -> Run:
    """The Python function is that of an ``extern "Python"``."""
    module = _module("c")
    module.ffi.def_extern("slope")(programs.slope)
    return programs.solutions(module.lib.kernel_solve, module.lib.slope, programs.SOLUTIONS)


def numba_solver() -> Run:
    """The address of a cfunc."""
    from bench.programs.numba_programs import cfunc

    module = _module("c")
    function = module.ffi.cast("double(*)(double, double)", cfunc().address)
    return programs.solutions(module.lib.kernel_solve, function, programs.MANY_SOLUTIONS)


def pointers() -> Run:
    """Each address is cast to a function pointer."""
    ffi = _module("c").ffi
    cast, pointer = ffi.cast, ffi.typeof("double(*)(double)")
    return programs.pointers(lambda address: cast(pointer, address))


def dispatch() -> Run:
    """A dictionary of the module's functions."""
    lib = _module("c").lib
    return programs.dispatch({key: getattr(lib, name) for key, name in programs.KERNELS.items()})


def sqlite() -> Run:
    """The function in SQL is an ``extern "Python"``."""
    module = _module("sqlite3")
    lib, ffi, user = module.lib, module.ffi, programs.user
    value, result = lib.sqlite3_value_double, lib.sqlite3_result_double

    @ffi.def_extern()
    def in_sql(context: Any, count: int, values: Any) -> None:
        result(context, user(value(values[0])))

    return programs.queried(lib, ffi, ffi.NULL, lib.in_sql)


def checksums() -> Run:
    """Functions of the module."""
    lib = _module("z").lib
    return programs.checksums(lib.crc32, lib.adler32)


def expat() -> Run:
    """Three of ``extern "Python"``."""
    module, heard = _module("expat"), programs.Heard()
    lib, ffi = module.lib, module.ffi
    functions = cffi_abi.handlers(ffi, heard)
    for name, function in zip(("started", "ended", "said"), functions, strict=True):
        ffi.def_extern(name)(function)
    return programs.parsed(lib, heard, ffi.NULL, lib.started, lib.ended, lib.said)


def rows() -> Run:
    """Functions of the module."""
    module = _module("sqlite3")
    return cffi_abi.read(module.ffi, module.lib)


def tree() -> Run:
    """Members of cffi's pointers."""
    module = _module("xml2")
    return cffi_abi.walked(module.ffi, module.lib)


def vectors() -> Run:
    """Structs by value, through compiled code."""
    module = _module("values")
    return cffi_abi.moved(module.ffi, module.lib)


def stream() -> Run:
    """Members of a struct."""
    module = _module("z")
    return cffi_abi.deflated(module.ffi, module.lib)
