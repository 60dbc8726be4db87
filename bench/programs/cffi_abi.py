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
ffi.cdef(programs.EXPAT + programs.TREE + programs.STREAM + programs.VECTORS)


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


def expat() -> Run:
    """Three callbacks."""
    heard = programs.Heard()
    start, end, text = handlers(ffi, heard)
    start = ffi.callback("void(void *, const char *, const char **)", start)
    end = ffi.callback("void(void *, const char *)", end)
    text = ffi.callback("void(void *, const char *, int)", text)
    lib = ffi.dlopen(programs.library("expat"))
    return programs.parsed(lib, heard, ffi.NULL, start, end, text)


def handlers(ffi: Any, heard: programs.Heard) -> tuple[Any, Any, Any]:
    """Make Python objects of what expat gives: these functions suit both modes of cffi."""
    string, unpack = ffi.string, ffi.unpack

    def start(_: Any, name: Any, attributes: Any) -> None:
        found, at = {}, 0
        while attributes[at]:
            found[string(attributes[at]).decode()] = string(attributes[at + 1]).decode()
            at += 2
        heard.start(string(name).decode(), found)

    def end(_: Any, name: Any) -> None:
        heard.end(string(name).decode())

    def text(_: Any, start: Any, size: int) -> None:
        heard.text(unpack(start, size).decode())

    return start, end, text


def rows() -> Run:
    """Functions of the library."""
    return read(ffi, ffi.dlopen(programs.library("sqlite3")))


def read(ffi: Any, lib: Any) -> Run:
    """Read the columns, in both modes."""
    database = programs.opened(lib, ffi)
    fill, select = programs.FILL_ITEMS, programs.SELECT_ITEMS
    statement = programs.selected(lib, ffi, ffi.NULL, database, fill, select)
    step, text, integer = lib.sqlite3_step, lib.sqlite3_column_text, lib.sqlite3_column_int
    string, reset, row = ffi.string, lib.sqlite3_reset, programs.ROW

    def run() -> float:
        total = 0
        while step(statement) == row:
            total += len(string(text(statement, 0)).decode()) + integer(statement, 1)
        reset(statement)
        return total

    return run


def tree() -> Run:
    """Members of cffi's pointers."""
    return walked(ffi, ffi.dlopen(programs.library("xml2")))


def walked(ffi: Any, lib: Any) -> Run:
    """Walk through the nodes, in both modes."""
    document, null, string = programs.document(), ffi.NULL, ffi.string
    return programs.walked(
        lambda: lib.xmlReadMemory(document, len(document), null, null, 0),
        lib.xmlDocGetRootElement,
        lib.xmlFreeDoc,
        lambda name: string(name).decode(),
    )


def vectors() -> Run:
    """Structs by value, through libffi."""
    return moved(ffi, ffi.dlopen(programs.values()))


def moved(ffi: Any, lib: Any) -> Run:
    """Move vectors, in both modes."""
    return programs.motion(
        lambda x, y, z: ffi.new("Vec3 *", (x, y, z))[0], lib.vec3_add, lib.vec3_scale, lib.vec3_dot
    )


def stream() -> Run:
    """Members of a struct."""
    return deflated(ffi, ffi.dlopen(programs.library("z")))


def deflated(ffi: Any, lib: Any) -> Run:
    """Deflate through a struct, in both modes."""
    buffer, bytes_type = ffi.new("unsigned char[]", programs.SIZE), ffi.typeof("unsigned char[]")
    lend = ffi.from_buffer

    def start() -> Any:
        stream = ffi.new("z_stream *")
        lib.deflateInit_(stream, programs.LEVEL, lib.zlibVersion(), ffi.sizeof("z_stream"))
        return stream

    return programs.deflated(
        start,
        lib.deflate,
        lib.deflateEnd,
        lambda piece: lend(bytes_type, piece),
        (ffi.buffer(buffer), buffer),
    )
