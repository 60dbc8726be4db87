"""The programs with nativecall."""

from __future__ import annotations

from array import array
from typing import Any

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


def expat() -> Run:
    """Names are str by the encoding; text has its length beside it."""
    lib = nc.load(
        programs.library("expat"),
        header="expat.h",
        only="XML_*",
        encoding={"XML_SetCharacterDataHandler": None, "*": "utf-8"},
        keep={"XML_Set*Handler": "parser"},
        close={"XML_ParserCreate": "XML_ParserFree"},
    )
    heard, string = programs.Heard(), nc.string

    def start(_: object, name: str, attributes: Any) -> None:
        found, at = {}, 0
        while attributes[at]:
            found[string(attributes[at], "utf-8")] = string(attributes[at + 1], "utf-8")
            at += 2
        heard.start(name, found)

    def end(_: object, name: str) -> None:
        heard.end(name)

    def text(_: object, start: Any, size: int) -> None:
        heard.text(string(start, "utf-8", size))

    return programs.parsed(lib, heard, None, start, end, text)


def rows() -> Run:
    """Text is str by the encoding."""
    lib = nc.load(
        programs.library("sqlite3"),
        header="sqlite3.h",
        encoding="utf-8",
        out={"sqlite3_open": ["ppDb"], "sqlite3_prepare_v2": ["ppStmt"]},
        errors=dict.fromkeys(("sqlite3_open", "sqlite3_prepare_v2", "sqlite3_exec"), "nonzero"),
    )
    database = lib.sqlite3_open(":memory:")
    for sql in programs.FILL_ITEMS:
        lib.sqlite3_exec(database, sql, None, None, None)
    statement = lib.sqlite3_prepare_v2(database, programs.SELECT_ITEMS, -1, None)
    step, text, integer = lib.sqlite3_step, lib.sqlite3_column_text, lib.sqlite3_column_int
    reset, row = lib.sqlite3_reset, lib.SQLITE_ROW

    def run() -> float:
        total = 0
        while step(statement) == row:
            total += len(text(statement, 0)) + integer(statement, 1)
        reset(statement)
        return total

    return run


def tree() -> Run:
    """Members of pointers, with the struct of the header."""
    header, include = ["libxml/parser.h", "libxml/tree.h"], programs.xml_headers()
    lib = nc.load(programs.library("xml2"), header=header, include=include, only="xml*")
    document, string = programs.document(), nc.string
    return programs.walked(
        lambda: lib.xmlReadMemory(document, len(document), None, None, 0),
        lib.xmlDocGetRootElement,
        lib.xmlFreeDoc,
        lambda name: string(name, "utf-8"),
    )


def vectors() -> Run:
    """Results are Records, which are arguments again."""
    lib = nc.load(programs.values(), programs.VECTORS)
    return programs.motion(
        lambda x, y, z: lib.new("Vec3 *", (x, y, z))[0], lib.vec3_add, lib.vec3_scale, lib.vec3_dot
    )


def stream() -> Run:
    """Bytes are assigned to the struct's members as they are."""
    lib = nc.load(programs.library("z"), header="zlib.h", errors={"deflateInit_": "nonzero"})
    out = bytearray(programs.SIZE)

    def start() -> Any:
        stream = lib.new("z_stream")
        lib.deflateInit_(stream, programs.LEVEL, lib.ZLIB_VERSION, lib.ffi.sizeof("z_stream"))
        return stream

    target = lib.ffi.from_buffer("Bytef[]", out)
    return programs.deflated(
        start, lib.deflate, lib.deflateEnd, lambda piece: piece, (memoryview(out), target)
    )
