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


class Node(ctypes.Structure):
    """libxml2's node, as far as it is read."""


Node._fields_ = (
    ("own", c_void_p),
    ("type", c_int),
    ("name", c_char_p),
    *((name, POINTER(Node)) for name in ("children", "last", "parent", "next")),
)


class Vec3(ctypes.Structure):
    """A vector of three numbers."""

    _fields_ = (("x", c_double), ("y", c_double), ("z", c_double))


class Stream(ctypes.Structure):
    """zlib's z_stream."""

    _fields_ = (
        ("next_in", c_char_p),
        ("avail_in", c_uint),
        ("total_in", c_ulong),
        ("next_out", c_void_p),
        ("avail_out", c_uint),
        ("total_out", c_ulong),
        ("msg", c_char_p),
        *((name, c_void_p) for name in ("state", "alloc", "free", "opaque")),
        ("data_type", c_int),
        ("adler", c_ulong),
        ("reserved", c_ulong),
    )


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


class Places:
    """Memory for pointers, as cffi's ``ffi.new`` gives it."""

    @staticmethod
    def new(_: str) -> Any:
        return (c_void_p * 1)()


def _sqlite() -> Any:
    lib = ctypes.CDLL(programs.library("sqlite3"))
    place, out = c_void_p, POINTER(c_void_p)
    _typed(lib.sqlite3_open, c_int, c_char_p, out)
    _typed(lib.sqlite3_prepare_v2, c_int, place, c_char_p, c_int, out, out)
    _typed(lib.sqlite3_step, c_int, place)
    _typed(lib.sqlite3_reset, c_int, place)
    _typed(lib.sqlite3_column_double, c_double, place, c_int)
    _typed(lib.sqlite3_column_int, c_int, place, c_int)
    _typed(lib.sqlite3_column_text, c_char_p, place, c_int)
    return lib


def sqlite() -> Run:
    """The function in SQL is a function pointer."""
    lib, place = _sqlite(), c_void_p
    function_type = CFUNCTYPE(None, place, c_int, POINTER(place))
    function_arguments = (c_char_p, c_int, c_int, place, function_type, place, place)
    _typed(lib.sqlite3_create_function, c_int, place, *function_arguments)
    value = _typed(lib.sqlite3_value_double, c_double, place)
    result = _typed(lib.sqlite3_result_double, None, place, c_double)
    user = programs.user

    def function(context: int, count: int, values: Any) -> None:
        result(context, user(value(values[0])))

    return programs.queried(lib, Places, None, function_type(function))


def checksums() -> Run:
    """Functions of the library."""
    lib = ctypes.CDLL(programs.library("z"))
    types = (c_ulong, c_ulong, c_char_p, c_uint)
    return programs.checksums(_typed(lib.crc32, *types), _typed(lib.adler32, *types))


def expat() -> Run:
    """Three function pointers."""
    lib, heard = ctypes.CDLL(programs.library("expat")), programs.Heard()
    start_type = CFUNCTYPE(None, c_void_p, c_char_p, POINTER(c_char_p))
    end_type = CFUNCTYPE(None, c_void_p, c_char_p)
    text_type = CFUNCTYPE(None, c_void_p, POINTER(ctypes.c_char), c_int)
    _typed(lib.XML_ParserCreate, c_void_p, c_char_p)
    _typed(lib.XML_SetElementHandler, None, c_void_p, start_type, end_type)
    _typed(lib.XML_SetCharacterDataHandler, None, c_void_p, text_type)
    _typed(lib.XML_Parse, c_int, c_void_p, c_char_p, c_int, c_int)
    _typed(lib.XML_ParserFree, None, c_void_p)

    @start_type
    def start(_: Any, name: bytes, attributes: Any) -> None:
        found, at = {}, 0
        while key := attributes[at]:
            found[key.decode()] = attributes[at + 1].decode()
            at += 2
        heard.start(name.decode(), found)

    @end_type
    def end(_: Any, name: bytes) -> None:
        heard.end(name.decode())

    @text_type
    def text(_: Any, start: Any, size: int) -> None:
        heard.text(start[:size].decode())

    return programs.parsed(lib, heard, None, start, end, text)


def rows() -> Run:
    """Functions of the library."""
    lib = _sqlite()
    fill, select = programs.FILL_ITEMS, programs.SELECT_ITEMS
    database = programs.opened(lib, Places)
    statement = c_void_p(programs.selected(lib, Places, None, database, fill, select))
    step, text, integer = lib.sqlite3_step, lib.sqlite3_column_text, lib.sqlite3_column_int
    reset, row = lib.sqlite3_reset, programs.ROW

    def run() -> float:
        total = 0
        while step(statement) == row:
            total += len(text(statement, 0).decode()) + integer(statement, 1)
        reset(statement)
        return total

    return run


def tree() -> Run:
    """Members of structs, each behind a pointer."""
    lib, pointer = ctypes.CDLL(programs.library("xml2")), c_void_p
    read = _typed(lib.xmlReadMemory, pointer, c_char_p, c_int, c_char_p, c_char_p, c_int)
    top = _typed(lib.xmlDocGetRootElement, POINTER(Node), pointer)
    free = _typed(lib.xmlFreeDoc, None, pointer)
    document, element = programs.document(), programs.ELEMENT

    def run() -> float:
        counts: dict[str, int] = {}
        parsed = read(document, len(document), None, None, 0)
        todo = [top(parsed)]
        while todo:
            node = todo.pop()
            while node:
                found = node.contents
                if found.type == element:
                    name = found.name.decode()
                    counts[name] = counts.get(name, 0) + 1
                    todo.append(found.children)
                node = found.next
        free(parsed)
        return sum([len(name) * count for name, count in counts.items()])

    return run


def vectors() -> Run:
    """Structs by value."""
    lib = ctypes.CDLL(programs.values())
    add, scale = (
        _typed(lib.vec3_add, Vec3, Vec3, Vec3),
        _typed(lib.vec3_scale, Vec3, Vec3, c_double),
    )
    return programs.motion(Vec3, add, scale, _typed(lib.vec3_dot, c_double, Vec3, Vec3))


def stream() -> Run:
    """Members of a struct."""
    lib, pointer = ctypes.CDLL(programs.library("z")), POINTER(Stream)
    version = _typed(lib.zlibVersion, c_char_p)()
    begin = _typed(lib.deflateInit_, c_int, pointer, c_int, c_char_p, c_int)
    deflate, end = (
        _typed(lib.deflate, c_int, pointer, c_int),
        _typed(lib.deflateEnd, c_int, pointer),
    )
    out = bytearray(programs.SIZE)
    place = ctypes.addressof((ctypes.c_char * len(out)).from_buffer(out))

    def start() -> Stream:
        stream = Stream()
        begin(stream, programs.LEVEL, version, ctypes.sizeof(Stream))
        return stream

    return programs.deflated(start, deflate, end, lambda piece: piece, (memoryview(out), place))
