"""Whole programs that users time, written for nativecall and for each of its peers.

`PROGRAMS` says what each one does; a peer's module has a function for each that it can do, which
prepares all that is made once and returns the program. The loop is Python, as in users' programs:
what is compared is the way to C and back. Every program returns a number that all must agree on.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import types
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench.peers.kernels import Kernels

Run = Callable[[], float]


class Unable(Exception):
    """What cannot do a program, or is not installed; the message says why."""


@dataclass(frozen=True)
class Program:
    """A program: what a function in a peer's module is named, and what it does."""

    name: str
    title: str
    what: str


PROGRAMS = (
    Program(
        "sorts",
        "100,000 short sorts",
        "qsort of 8 doubles, each with a comparator of its own, a Python closure",
    ),
    Program(
        "integrals",
        "2,000 integrals of bound functions",
        "GSL's gsl_integration_qag over a C function of three numbers, two of which are bound anew "
        "for every integral",
    ),
    Program(
        "python_solver",
        "2,000 solutions, a Python function",
        "a solver in C takes 25 steps, with a Python function for the slope",
    ),
    Program(
        "numba_solver",
        "20,000 solutions, a Numba function",
        "the same solver with a function of Numba's, compiled before",
    ),
    Program(
        "pointers",
        "4 times 5,000 function pointers",
        "addresses of 5,000 functions, each wrapped and called once, 4 times over",
    ),
    Program(
        "dispatch",
        "1,000,000 calls by signature",
        "calls of a function that is found by its signature, one of four strings",
    ),
    Program(
        "sqlite",
        "a function in SQL over 100,000 rows",
        "SQLite calls a Python function with the number in each row",
    ),
    Program(
        "checksums",
        "200,000 checksums",
        "zlib's crc32 and adler32 of 100,000 bytes objects, of 32 to 95 bytes",
    ),
)

OURS = "nativecall"
PEERS = {
    OURS: "nativecall_programs",
    "cffi, ABI mode": "cffi_abi",
    "cffi, API mode": "cffi_api",
    "ctypes": "ctypes_programs",
    "Numba": "numba_programs",
    "Cython": "cython_programs",
    "Python's own module": "own",
}
NO_PYTHON_FUNCTION = "what Numba compiles cannot be made of a Python function as it comes"
#: Where a peer has no function for a program, and why.
WITHOUT = {
    "Numba": {
        "sorts": "compiles every comparator, for some 50 ms each",
        "python_solver": NO_PYTHON_FUNCTION,
        "sqlite": NO_PYTHON_FUNCTION,
        "checksums": "takes arrays, not bytes",
    },
    "Python's own module": dict.fromkeys(
        [one.name for one in PROGRAMS if one.name not in ("sqlite", "checksums")], "there is none"
    ),
}
#: Where a peer was found to be faster, and why; what the difference is was measured, call by call
#: or in instructions, on CPython 3.11.
REASONS = {
    ("sorts", "Cython"): "one comparator at a time, in a global variable: ours is a pointer of its "
    "own, made, converted and passed in 0.7 µs of 3.7 a sort",
    ("integrals", "Cython"): "makes nothing: what is bound is user data of one C function; bind() "
    "and the address of its pointer take 0.35 µs of 8 an integral, and qag() from Python 0.2",
    ("integrals", "Numba"): "makes nothing: what is bound is user data of one compiled function",
    ("python_solver", "Cython"): "keeps one function in a global variable and makes no pointer, "
    "which takes 0.2 µs of 6.5 a solution",
    ("numba_solver", "Cython"): "takes an address for granted: nothing says what is there",
    ("pointers", "Cython"): "objects of a pointer alone, of a class compiled for this one "
    "signature: ours find theirs by text, and have the table that C code reads",
    ("dispatch", "Cython"): "a dictionary of four strings, which the interpreter specialises: it "
    "takes 929 instructions a turn, f[signature](x) 968",
    ("sqlite", "Cython"): "its C function reads and stores the number; a Python function that gets "
    "handles does so by two calls more",
    ("sqlite", "Python's own module"): "its C code reads and stores the number; a Python function "
    "that gets handles does so by two calls more",
    ("checksums", "Cython"): "its functions were compiled for bytes, and take nothing else",
    ("checksums", "Python's own module"): "takes one argument of three: the buffer has its length",
}


def library(name: str) -> str:
    """Return the file of a library that the system has, by its name without prefix and suffix."""
    found = ctypes.util.find_library(name)
    if found is None:
        raise Unable(f"the library '{name}' is not installed")
    return found


# -- what the programs work on -------------------------------------------------------------------

SORTED = array("d", (5, 3, 8, 1, 9, 2, 7, 4))
SORTS = 100_000
#: Where the integrals' peaks are, and how wide.
PEAKS = [(n % 100 / 50 - 1, 0.01 + n % 7 / 100) for n in range(2000)]
LIMIT = 1000
SOLUTIONS, MANY_SOLUTIONS, STEP, STEPS = 2000, 20_000, 0.01, 25
PASSES = 4
CALLS: Sequence[tuple[str, float]] = [("d:d", 1.5), ("q:q", 3), ("f:f", 2.5), ("i:i", 4)] * 250_000
KERNELS = {"d:d": "kernel_d_d", "q:q": "kernel_q_q", "f:f": "kernel_f_f", "i:i": "kernel_i_i"}
ROWS = 100_000
FILL = (
    "create table t (x real)",
    f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS}) "
    "insert into t select i from n",
)
SELECT = "select sum(f(x)) from t"
BUFFERS = [bytes(range(n % 64 + 32)) for n in range(100_000)]
QAG = "gsl_integration_qag"


def slope(t: float, y: float) -> float:
    """The differential equation that the solvers solve."""
    return t - y


def user(x: float) -> float:
    """The function that SQL calls."""
    return x * 0.5 + 1.0


@cache
def kernels() -> Kernels:
    """Return the library of kernels."""
    return Kernels()


@cache
def table() -> list[int]:
    """Return the addresses of 5,000 functions."""
    return list((ctypes.c_size_t * 5000).in_dll(kernels().library, "kernel_table"))


# -- loops that peers share ----------------------------------------------------------------------


def alone(run: Run) -> Run:
    """Return a function with code of its own: CPython specialises a call for one callee."""
    code = run.__code__.replace()
    return types.FunctionType(code, run.__globals__, run.__name__, None, run.__closure__)


def solutions(solve: Callable[..., float], function: object, count: int) -> Run:
    """Solve the equation from many starts."""

    def run() -> float:
        total = 0.0
        for n in range(count):
            total += solve(function, n, STEP, STEPS)
        return total

    return alone(run)


def pointers(wrap: Callable[[int], Callable[[float], float]]) -> Run:
    """Wrap every address of the table and call it."""
    addresses = table()

    def run() -> float:
        total = 0.0
        for _ in range(PASSES):
            for address in addresses:
                total += wrap(address)(0.5)
        return total

    return alone(run)


def dispatch(functions: Mapping[str, Callable[[float], float]] | Any) -> Run:
    """Call functions by their signatures."""

    def run() -> float:
        total = 0.0
        for signature, x in CALLS:
            total += functions[signature](x)
        return total

    return alone(run)


def checksums(crc32: Callable[..., int], adler32: Callable[..., int]) -> Run:
    """Add up the checksums of the buffers."""

    def run() -> float:
        total = 0
        for buffer in BUFFERS:
            size = len(buffer)
            total += crc32(0, buffer, size) + adler32(1, buffer, size)
        return total

    return alone(run)


# -- declarations, as C has them -----------------------------------------------------------------

CHECKSUMS = """
unsigned long crc32(unsigned long crc, const unsigned char *buffer, unsigned int size);
unsigned long adler32(unsigned long adler, const unsigned char *buffer, unsigned int size);
"""
INTEGRATION = """
typedef struct { double (*function)(double x, void *params); void *params; } gsl_function;
typedef struct gsl_integration_workspace gsl_integration_workspace;
gsl_integration_workspace *gsl_integration_workspace_alloc(size_t n);
int gsl_integration_qag(const gsl_function *f, double a, double b, double epsabs, double epsrel,
    size_t limit, int key, gsl_integration_workspace *workspace, double *result, double *abserr);
"""
SQLITE = """
typedef struct sqlite3 sqlite3;
typedef struct sqlite3_context sqlite3_context;
typedef struct sqlite3_value sqlite3_value;
typedef struct sqlite3_stmt sqlite3_stmt;
int sqlite3_open(const char *filename, sqlite3 **db);
int sqlite3_create_function(sqlite3 *db, const char *name, int arguments, int encoding, void *data,
    void (*function)(sqlite3_context *, int, sqlite3_value **), void *step, void *final);
int sqlite3_prepare_v2(sqlite3 *db, const char *text, int size, sqlite3_stmt **statement,
    const char **tail);
int sqlite3_step(sqlite3_stmt *statement);
int sqlite3_reset(sqlite3_stmt *statement);
double sqlite3_column_double(sqlite3_stmt *statement, int column);
double sqlite3_value_double(sqlite3_value *value);
void sqlite3_result_double(sqlite3_context *context, double value);
"""
SOLVER = """
double kernel_peak(double x, double at, double width);
double kernel_solve(double (*slope)(double t, double y), double y, double step, int64_t steps);
"""
SORT = """
void qsort(double *base, size_t count, size_t size,
    int (*compare)(const double *, const double *));
"""
ROW, DONE, UTF8 = 100, 101, 1


def queried(lib: Any, ffi: Any, null: Any, function: Any) -> Run:
    """Fill a table and select from it, through a library with SQLite's functions."""

    def checked(found: int, expected: int = 0) -> None:
        if found != expected:
            raise ValueError(f"SQLite answered {found}, expected {expected}")

    def prepared(text: str) -> Any:
        place = ffi.new("sqlite3_stmt **")
        checked(lib.sqlite3_prepare_v2(database, text.encode(), -1, place, null))
        return place[0]

    place = ffi.new("sqlite3 **")
    checked(lib.sqlite3_open(b":memory:", place))
    database = place[0]
    checked(lib.sqlite3_create_function(database, b"f", 1, UTF8, null, function, null, null))
    for text in FILL:
        checked(lib.sqlite3_step(prepared(text)), DONE)
    statement = prepared(SELECT)
    kept = function, database

    def run() -> float:
        checked(lib.sqlite3_step(statement), ROW)
        total: float = lib.sqlite3_column_double(statement, 0)
        lib.sqlite3_reset(statement)
        return total if kept else 0.0

    return run


def prepared(peer: str, program: Program) -> Run:
    """Return a peer's program, or raise why it has none."""
    reason = WITHOUT.get(peer, {}).get(program.name)
    if reason is not None:
        raise Unable(reason)
    module = importlib.import_module(f"bench.programs.{PEERS[peer]}")
    run: Run = getattr(module, program.name)()
    return run
