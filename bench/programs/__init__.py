"""Whole programs that users time, written for nativecall and for each of its peers.

`PROGRAMS` says what each one does; a peer's module has a function for each that it can do, which
prepares all that is made once and returns the program. The loop is Python, as in users' programs:
what is compared is the way to C and back. Every program returns a number that all must agree on.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import subprocess
import types
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench.peers import build
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
    Program(
        "expat",
        "events of 20,000 elements",
        "libexpat parses a document and calls Python functions for start, end and text",
    ),
    Program(
        "rows",
        "20,000 rows of SQLite",
        "sqlite3_step, and a column of text and one of integers in each row",
    ),
    Program(
        "tree",
        "a tree of 20,000 elements",
        "libxml2 parses a document; children, next, type and name are read of every node",
    ),
    Program(
        "vectors",
        "200,000 calls with structs by value",
        "add, scale and dot of vectors of three doubles",
    ),
    Program(
        "stream",
        "20 MB through a stream",
        "zlib's deflate of 1,280 pieces of 16 KB, by a z_stream",
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
        "expat": NO_PYTHON_FUNCTION,
        "rows": "has no way from 'char *' to str",
        "tree": "has no types for pointers to structs in C's memory",
        "vectors": "passes no structs by value",
        "stream": "takes arrays, not bytes",
    },
    "Python's own module": dict.fromkeys(
        ("sorts", "integrals", "python_solver", "numba_solver", "pointers", "dispatch", "vectors"),
        "there is none",
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
    ("expat", "Cython"): "makes the str and the dict in C; ours are made in Python",
    ("expat", "Python's own module"): "makes the str and the dict in C; ours are made in Python",
    ("rows", "Cython"): "one call a row, which returns a tuple: ours are three calls",
    ("tree", "Python's own module"): "reads tags of objects that it made while parsing",
    ("vectors", "Cython"): "its functions were compiled for one class, and take nothing else",
}


def library(name: str) -> str:
    """Return the file of a library that the system has, by its name without prefix and suffix."""
    found = ctypes.util.find_library(name)
    if found is None:
        raise Unable(f"the library '{name}' is not installed")
    return found


def xml_headers() -> str:
    """Return the directory of libxml2's headers."""
    try:
        command = ["xml2-config", "--prefix"]
        prefix = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unable(f"the headers of libxml2 are not installed: {error}") from error
    return f"{prefix.strip()}/include/libxml2"


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
ITEMS = 20_000
FILL_ITEMS = (
    "create table items (name text, number integer)",
    f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {ITEMS}) "
    "insert into items select 'item ' || i, i from n",
)
SELECT_ITEMS = "select name, number from items"
MOVES = 40_000
#: The size of a piece of what is deflated and of what comes out, and how much zlib should try.
SIZE, LEVEL, FINISH = 1 << 14, 1, 4
ELEMENT = 1


@cache
def pieces() -> list[bytes]:
    """Return what is deflated."""
    return [(b"%d squared is %d. " % (n, n * n) * 2000)[:SIZE] for n in range(1280)]


@cache
def document() -> bytes:
    """Return a document of XML: 2,000 shelves of nine things each."""
    text = []
    for shelf in range(2000):
        text.append(f'<shelf no="{shelf}">')
        for n in range(9):
            tag = ("book", "film", "photograph")[n % 3]
            text.append(f'<{tag} no="{n}" title="The {n}th">Größe &amp; {shelf}</{tag}>')
        text.append("</shelf>\n")
    return f"<list>{''.join(text)}</list>".encode()


class Heard:
    """The handlers of a document's events."""

    total = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.total += len(name) + int(attributes.get("no", 0))

    def end(self, name: str) -> None:
        self.total += len(name)

    def text(self, text: str) -> None:
        self.total += len(text)


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


def values() -> str:
    """Return the path of the library that has the vectors."""
    return str(build.built("values") / build.library_name("bench_values"))


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


def motion(made: Callable[..., Any], add: Any, scale: Any, dot: Any) -> Run:
    """Move a vector by others."""
    start, force = made(1.0, 0.5, 0.25), made(0.0, -0.01, 0.002)

    def run() -> float:
        position, velocity, total = start, start, 0.0
        for _ in range(MOVES):
            velocity = add(velocity, scale(force, 0.5))
            position = add(position, scale(velocity, 0.01))
            total += dot(position, velocity)
        return total

    return alone(run)


def walked(parse: Callable[[], Any], top: Callable[..., Any], free: Any, text: Any) -> Run:
    """Parse the document and count its elements by name; a node is false where there is none."""

    def run() -> float:
        counts: dict[str, int] = {}
        parsed = parse()
        todo = [top(parsed)]
        while todo:
            node = todo.pop()
            while node:
                if node.type == ELEMENT:
                    name = text(node.name)
                    counts[name] = counts.get(name, 0) + 1
                    todo.append(node.children)
                node = node.next
        free(parsed)
        return sum([len(name) * count for name, count in counts.items()])

    return alone(run)


def deflated(start: Callable[[], Any], deflate: Any, end: Any, lend: Any, place: Any) -> Run:
    """Deflate the pieces through a ``z_stream``, by way of the buffer that is at `place`."""
    (out, target), inputs = place, pieces()

    def run() -> float:
        stream, packed = start(), []
        for left, piece in zip(range(len(inputs) - 1, -1, -1), inputs, strict=True):
            lent = lend(piece)
            stream.next_in, stream.avail_in, stream.avail_out = lent, len(piece), 0
            while stream.avail_out == 0:
                stream.next_out, stream.avail_out = target, SIZE
                deflate(stream, 0 if left else FINISH)
                packed.append(bytes(out[: SIZE - stream.avail_out]))
        end(stream)
        return checksum(packed)

    return alone(run)


def compressed(made: Callable[[], Any]) -> Run:
    """Deflate the pieces through an object as zlib.compressobj makes it."""
    inputs = pieces()

    def run() -> float:
        stream = made()
        packed = [stream.compress(piece) for piece in inputs]
        return checksum([*packed, stream.flush()])

    return alone(run)


def parsed(lib: Any, heard: Heard, null: Any, start: Any, end: Any, text: Any) -> Run:
    """Parse the document with handlers that call those of `heard`."""
    source = document()

    def run() -> float:
        heard.total = 0
        parser = lib.XML_ParserCreate(null)
        lib.XML_SetElementHandler(parser, start, end)
        lib.XML_SetCharacterDataHandler(parser, text)
        if lib.XML_Parse(parser, source, len(source), 1) != 1:
            raise ValueError("expat has found an error in the document")
        lib.XML_ParserFree(parser)
        return heard.total

    return run


def checksum(packed: list[bytes]) -> int:
    """Return the checksum at the end of what zlib has made."""
    return int.from_bytes(b"".join(packed)[-4:], "big")


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
int sqlite3_column_int(sqlite3_stmt *statement, int column);
const unsigned char *sqlite3_column_text(sqlite3_stmt *statement, int column);
double sqlite3_value_double(sqlite3_value *value);
void sqlite3_result_double(sqlite3_context *context, double value);
"""
SOLVER = """
double kernel_peak(double x, double at, double width);
double kernel_solve(double (*slope)(double t, double y), double y, double step, int64_t steps);
"""
EXPAT = """
typedef struct XML_ParserStruct *XML_Parser;
XML_Parser XML_ParserCreate(const char *encoding);
void XML_SetElementHandler(XML_Parser parser,
    void (*start)(void *data, const char *name, const char **attributes),
    void (*end)(void *data, const char *name));
void XML_SetCharacterDataHandler(XML_Parser parser,
    void (*text)(void *data, const char *text, int size));
int XML_Parse(XML_Parser parser, const char *text, int size, int final);
void XML_ParserFree(XML_Parser parser);
"""
TREE = """
typedef struct xmlDoc xmlDoc;
typedef struct xmlNode {
    void *own;
    int type;
    const unsigned char *name;
    struct xmlNode *children, *last, *parent, *next;
} xmlNode;
xmlDoc *xmlReadMemory(const char *text, int size, const char *url, const char *encoding,
    int options);
xmlNode *xmlDocGetRootElement(const xmlDoc *document);
void xmlFreeDoc(xmlDoc *document);
"""
STREAM = """
typedef struct {
    const unsigned char *next_in;
    unsigned int avail_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned int avail_out;
    unsigned long total_out;
    const char *msg;
    void *state, *alloc, *free, *opaque;
    int data_type;
    unsigned long adler, reserved;
} z_stream;
const char *zlibVersion(void);
int deflateInit_(z_stream *stream, int level, const char *version, int size);
int deflate(z_stream *stream, int flush);
int deflateEnd(z_stream *stream);
"""
VECTORS = """
typedef struct { double x, y, z; } Vec3;
Vec3 vec3_add(Vec3 a, Vec3 b);
Vec3 vec3_scale(Vec3 a, double by);
double vec3_dot(Vec3 a, Vec3 b);
"""
SORT = """
void qsort(double *base, size_t count, size_t size,
    int (*compare)(const double *, const double *));
"""
ROW, DONE, UTF8 = 100, 101, 1


def checked(found: int, expected: int = 0) -> None:
    """Raise where SQLite has failed."""
    if found != expected:
        raise ValueError(f"SQLite answered {found}, expected {expected}")


def opened(lib: Any, ffi: Any) -> Any:
    """Open a database in memory, through a library with SQLite's functions."""
    place = ffi.new("sqlite3 **")
    checked(lib.sqlite3_open(b":memory:", place))
    return place[0]


def selected(lib: Any, ffi: Any, null: Any, database: Any, fill: Sequence[str], text: str) -> Any:
    """Fill a database and return the statement that selects from it."""

    def prepared(text: str) -> Any:
        place = ffi.new("sqlite3_stmt **")
        checked(lib.sqlite3_prepare_v2(database, text.encode(), -1, place, null))
        return place[0]

    for one in fill:
        checked(lib.sqlite3_step(prepared(one)), DONE)
    return prepared(text)


def queried(lib: Any, ffi: Any, null: Any, function: Any) -> Run:
    """Fill a table and select from it, through a library with SQLite's functions."""
    database = opened(lib, ffi)
    checked(lib.sqlite3_create_function(database, b"f", 1, UTF8, null, function, null, null))
    statement = selected(lib, ffi, null, database, FILL, SELECT)
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
