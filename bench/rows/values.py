"""Idioms beside plain numbers: structs, text, handles, callbacks, beside the peers that have them.

Each function of `LINES` returns rows; `GOALS` has the bound of a row against one peer.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from functools import cached_property
from types import ModuleType
from typing import Any

from bench import installed
from bench.peers import Call, build, load_module
from bench.rows import Effort
from bench.rows.making import Line, measure_line
from bench.section import Section

METHOD = (
    "ns of one statement in a for loop of 20 unrolled ones, its names local variables; the result "
    "is dropped, and freed. The cost of the loop itself is subtracted. Subjects of a row are "
    "interleaved in shuffled rounds, in several fresh processes pinned to one CPU, garbage "
    "collector off; ratios are medians of the rounds' ratios."
)
OURS, CFFI, CTYPES, CYTHON, NUMBA = "nativecall", "cffi API mode", "ctypes", "Cython", "Numba"
TIMES = 100  # calls of a callback in one statement


class Tools:
    """The library of idioms, as each peer has it."""

    def __init__(self) -> None:
        self.nc: Any = installed.import_nativecall()
        self.path = build.built("values") / build.library_name("bench_values")
        header = (build.HERE / "values.h").read_text()
        self.declarations = declarations(header)
        self.lib: Any = self.nc.load(str(self.path), self.declarations)

    @cached_property
    def cffi(self) -> Any:
        """cffi's module in API mode."""
        return load_module("cffi_values", "bench_cffi_values")

    @cached_property
    def cython(self) -> ModuleType:
        """Cython's module."""
        return load_module("cython_values", "bench_cython_values")

    @cached_property
    def dll(self) -> ctypes.CDLL:
        """ctypes' library, without prototypes."""
        return ctypes.CDLL(str(self.path))


def declarations(header: str) -> str:
    """Return what the header declares, without directives and comments."""
    text = re.sub(r"(?s)/\*.*?\*/|^#.*?$", "", header, flags=re.M)
    return text.replace("EXPORT ", "")


def line(row: str, **subjects: tuple[str, Mapping[str, Any]]) -> Line:
    """A row; its reference is the first peer named."""
    calls = {NAMES[name]: Call(*call) for name, call in subjects.items()}
    return Line(row, next(name for name in calls if name != OURS), calls)


NAMES = {"ours": OURS, "cffi": CFFI, "ctypes": CTYPES, "cython": CYTHON, "numba": NUMBA}
NAMES |= {"plain": "char *", "bare": "the bare calls", "entry": "the entry alone"}

# -- structs -------------------------------------------------------------------------------------


def _structs(tools: Tools) -> list[Line]:
    lib, cffi, cython = tools.lib, tools.cffi, tools.cython
    rows = []
    for name, what, call in (
        ("P2", "16 bytes", "p2"),
        ("S64", "64 bytes", "s64"),
        ("S4K", "4 KB", ""),
    ):
        function = f"take_{name.lower()}"
        subjects = {
            "ours": ("f(s)", {"f": getattr(lib, function), "s": lib.new(f"{name} *")[0]}),
            "cffi": (
                "f(s)",
                {"f": getattr(cffi.lib, function), "s": cffi.ffi.new(f"{name} *")[0]},
            ),
        }
        if call:
            made = cython.P2(1, 2) if name == "P2" else cython.S64()
            subjects["cython"] = ("f(p)", {"f": getattr(cython, call), "p": made})
        rows.append(line(f"a struct of {what} by value", **subjects))
    rows.append(
        line(
            "a pointer to a struct of our own",
            cython=("f(p)", {"f": cython.read, "p": cython.P2(1, 2)}),
            ours=("f(p)", {"f": lib.read_p2, "p": lib.new("P2 *")}),
            cffi=("f(p)", {"f": cffi.lib.read_p2, "p": cffi.ffi.new("P2 *")}),
        )
    )
    return rows


class _P2(ctypes.Structure):
    _fields_ = (("x", ctypes.c_double), ("y", ctypes.c_double))


def _of_ctypes(tools: Tools) -> list[Line]:
    number, struct = ctypes.c_int(), _P2(1, 2)
    half, read = tools.dll.half, tools.dll.read_p2
    half.argtypes, half.restype = (ctypes.c_double, ctypes.POINTER(ctypes.c_int)), ctypes.c_double
    read.argtypes, read.restype = (ctypes.POINTER(_P2),), ctypes.c_double
    rows = []
    for what, argument in (
        ("byref(…)", ctypes.byref(number)),
        ("pointer(…)", ctypes.pointer(number)),
    ):
        rows.append(
            line(
                f"ctypes' {what} as an argument",
                ctypes=("f(1.0, p)", {"f": half, "p": argument}),
                ours=("f(1.0, p)", {"f": tools.lib.half, "p": argument}),
            )
        )
    rows.append(
        line(
            "ctypes' struct for a pointer",
            ctypes=("f(p)", {"f": read, "p": struct}),
            ours=("f(p)", {"f": tools.lib.read_p2, "p": struct}),
        )
    )
    return rows


# -- memory --------------------------------------------------------------------------------------


def _memory(tools: Tools) -> list[Line]:
    lib, ffi = tools.lib, tools.cffi.ffi
    word = lib.new("char[]", b"abc")
    own = ffi.new("char[]", b"abc")
    rows = [
        line(
            "an array of 1000 pointers",
            cffi=("new('char *[]', p)", {"new": ffi.new, "p": [own] * 1000}),
            ours=("new('char *[]', p)", {"new": lib.new, "p": [word] * 1000}),
        ),
        line(
            "an array of 1000 strings",
            cffi=(
                "k = [new('char[]', t) for t in texts]; new('char *[]', k)",
                {"new": ffi.new, "texts": [b"abc"] * 1000},
            ),
            ours=("new('char *[]', texts)", {"new": lib.new, "texts": [b"abc"] * 1000}),
        ),
    ]
    import numpy

    for what, ctype, dtype in (("doubles", "double", "d"), ("structs", "P2", "d,d")):
        pointer = ffi.cast(f"{ctype} *", ffi.new(f"{ctype}[1000]"))
        mine = lib.new(f"{ctype}[1000]")
        kind = numpy.dtype(dtype)
        size = 1000 * kind.itemsize
        rows.append(
            line(
                f"an array over C's memory of {what}",
                cffi=(
                    "view(buffer(p, n), t)",
                    {
                        "view": numpy.frombuffer,
                        "buffer": ffi.buffer,
                        "p": pointer,
                        "n": size,
                        "t": kind,
                    },
                ),
                ours=(
                    "view(p, 1000)",
                    {"view": lib.asarray, "p": lib.ffi.cast(f"{ctype} *", mine), "k": mine},
                ),
            )
        )
    return rows


def _handles(tools: Tools) -> list[Line]:
    load, path, text = tools.nc.load, str(tools.path), tools.declarations
    ending = load(path, text, close={"open_one": "close_one"})
    freed = load(path, text, free={"new_text": "free_text"})
    lib, ffi, api = tools.lib, tools.cffi.ffi, tools.cffi.lib
    return [
        line(
            "a handle, opened and closed",
            bare=("c(o(1))", {"o": lib.open_one, "c": lib.close_one}),
            ours=("c(o(1))", {"o": ending.open_one, "c": ending.close_one}),
            cffi=("gc(o(1), c)", {"o": api.open_one, "c": api.close_one, "gc": ffi.gc}),
        ),
        line(
            "text that is freed",
            bare=("c(o())", {"o": lib.new_text, "c": lib.free_text}),
            ours=("o()", {"o": freed.new_text}),
        ),
    ]


# -- text ----------------------------------------------------------------------------------------


def _text(tools: Tools) -> list[Line]:
    lib, cffi, string = tools.lib, tools.cffi, tools.nc.string
    wide = {"s": string, "p": lib.wide_text()}
    encoded = tools.nc.load(str(tools.path), tools.declarations, encoding="utf-8")
    rows = [
        line(
            "nc.string",
            plain=(
                "s(p)",
                {"s": string, "p": lib.ffi.cast("char *", lib.new("char[]", b"eleven byte"))},
            ),
            ours=("s(p)", {"s": string, "p": lib.unsigned_text()}),
        ),
        line(
            "nc.string of wide text",
            cffi=("s(p)", {"s": cffi.ffi.string, "p": cffi.lib.wide_text()}),
            ours=("s(p)", wide),
        ),
        line(
            "str for wchar_t *",
            cffi=("f(t)", {"f": cffi.lib.wide_first, "t": "hello"}),
            ours=("f(t)", {"f": lib.wide_first, "t": "hello"}),
        ),
    ]
    for what, value, name in (("bytes", b"hello", "of_bytes"), ("str", "hello", "of_str")):
        rows.append(
            line(
                f"{what} for char *",
                cython=("f(t)", {"f": getattr(tools.cython, name), "t": value}),
                ours=("f(t)", {"f": (encoded if what == "str" else lib).first, "t": value}),
            )
        )
    return rows


# -- numbers -------------------------------------------------------------------------------------


def _numbers(tools: Tools) -> list[Line]:
    import numpy

    rows = []
    for what, value in (
        ("an int above 2^30", 2**30 + 5),
        ("a bool for an int", True),
        ("a numpy.int64 for an int", numpy.int64(5)),
    ):
        rows.append(
            line(
                what,
                cython=("f(n)", {"f": tools.cython.next, "n": value}),
                ours=("f(n)", {"f": tools.lib.next, "n": value}),
            )
        )
    names = {"x": 1.0, "y": 2.0, "z": 3.0}
    rows.append(
        line(
            "three keywords",
            cython=("f(a=x, b=y, c=z)", {"f": tools.cython.three, **names}),
            ours=("f(a=x, b=y, c=z)", {"f": tools.lib.three, **names}),
        )
    )
    rows.append(
        line(
            "a function by attribute, called",
            cython=("m.next(1)", {"m": tools.cython}),
            ours=("m.next(1)", {"m": tools.lib}),
            cffi=("m.next(1)", {"m": tools.cffi.lib}),
        )
    )
    return rows


# -- overloads -----------------------------------------------------------------------------------


def _overloads(tools: Tools) -> list[Line]:
    import numba
    import numpy

    lib, wrap = tools.lib, tools.nc.wrap
    first = numba.njit(lambda array: array[0])
    numbers = {"f": first, "a": numpy.ones(10)}
    struct = lib.new("P2 *")[0]
    either = wrap({"i:i": lib.next, lib.take_p2.entries[0].signature: lib.take_p2})
    return [
        line(
            "a jitted function of an array, by no signature",
            numba=("f(a)", numbers),
            ours=("f(a)", {**numbers, "f": wrap(first)}),
        ),
        line(
            "an overload of a number and a struct, by a struct",
            entry=("f(s)", {"f": lib.take_p2, "s": struct}),
            ours=("f(s)", {"f": either, "s": struct}),
        ),
    ]


# -- callbacks -----------------------------------------------------------------------------------


def _callbacks(tools: Tools) -> list[Line]:
    lib, cython = tools.lib, tools.cython
    times = {"n": TIMES}

    def of_node(node: Any) -> float:
        return float(node.value)

    def of_p2(p: Any) -> float:
        return float(p.x)

    def same(p: Any) -> Any:
        return p

    made = [
        ("a callback that reads a struct pointer", lib.each_node, cython.nodes, of_node),
        ("a callback with a struct", lib.each_p2, cython.each, of_p2),
        ("a callback from struct to struct", lib.map_p2, cython.mapped, same),
    ]
    rows = [
        line(
            f"{what}, {TIMES} times",
            cython=("g(f, n)", {"g": theirs, "f": function, **times}),
            ours=("g(f, n)", {"g": ours, "f": function, **times}),
        )
        for what, ours, theirs, function in made
    ]
    rows.append(
        line(
            "a fresh lambda, called once",
            cython=("g(lambda x: x, 1)", {"g": cython.apply}),
            ours=("g(lambda x: x, 1)", {"g": lib.apply}),
        )
    )
    return rows


def _sorting(tools: Tools) -> list[Line]:
    items = [float(i * 7919 % 1000) for i in range(1000)]
    array = ctypes.c_double * 1000
    pointer = ctypes.POINTER(ctypes.c_double)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)

    def compare(a: Any, b: Any) -> int:
        return (a[0] > b[0]) - (a[0] < b[0])

    return [
        line(
            "1000 doubles sorted by a Python function",
            ctypes=(
                "f(array(*items), 1000, kind(compare))",
                {
                    "f": tools.dll.sort,
                    "array": array,
                    "items": items,
                    "kind": kind,
                    "compare": compare,
                },
            ),
            ours=(
                "f(new('double[]', items), 1000, compare)",
                {"f": tools.lib.sort, "new": tools.lib.new, "items": items, "compare": compare},
            ),
        )
    ]


# -- the section ---------------------------------------------------------------------------------

LINES = (_structs, _of_ctypes, _memory, _handles, _text, _numbers, _overloads, _callbacks, _sorting)

#: Row, peer, bound of our time over the peer's.
GOALS: tuple[tuple[str, str, float], ...] = (
    ("a struct of 16 bytes by value", CFFI, 1.0),
    ("a struct of 16 bytes by value", CYTHON, 1.3),
    ("a struct of 64 bytes by value", CFFI, 1.0),
    ("a struct of 64 bytes by value", CYTHON, 1.3),
    ("a struct of 4 KB by value", CFFI, 1.0),
    ("a pointer to a struct of our own", CYTHON, 1.5),
    ("ctypes' byref(…) as an argument", CTYPES, 1.0),
    ("ctypes' pointer(…) as an argument", CTYPES, 1.0),
    ("ctypes' struct for a pointer", CTYPES, 1.0),
    ("an array of 1000 pointers", CFFI, 1.0),
    ("an array of 1000 strings", CFFI, 1.0),
    ("an array over C's memory of doubles", CFFI, 1.0),
    ("an array over C's memory of structs", CFFI, 1.0),
    ("a handle, opened and closed", NAMES["bare"], 2.0),
    ("text that is freed", NAMES["bare"], 2.0),
    ("nc.string", NAMES["plain"], 1.2),
    ("nc.string of wide text", CFFI, 1.0),
    ("str for wchar_t *", CFFI, 1.0),
    ("bytes for char *", CYTHON, 1.2),
    ("str for char *", CYTHON, 1.2),
    ("an int above 2^30", CYTHON, 1.2),
    ("a bool for an int", CYTHON, 1.2),
    ("a numpy.int64 for an int", CYTHON, 1.2),
    ("three keywords", CYTHON, 1.3),
    ("a function by attribute, called", CYTHON, 1.3),
    ("a jitted function of an array, by no signature", NUMBA, 1.2),
    (f"a callback that reads a struct pointer, {TIMES} times", CYTHON, 1.2),
    (f"a callback with a struct, {TIMES} times", CYTHON, 1.2),
    (f"a callback from struct to struct, {TIMES} times", CYTHON, 1.2),
    ("a fresh lambda, called once", CYTHON, 2.0),
    ("1000 doubles sorted by a Python function", CTYPES, 0.6),
)


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(5, 1)


def measure(effort: Effort) -> Section:
    """Time the statements."""
    section = Section("values", METHOD)
    try:
        tools = Tools()
    except (installed.NotInstalled, build.BuildError) as error:
        section.absent[OURS] = str(error)
        return section
    for lines in LINES:
        try:
            found = lines(tools)
        except (ImportError, build.BuildError) as error:
            section.absent[lines.__name__.strip("_")] = str(error)
            continue
        section.groups += [measure_line(one, effort) for one in found]
    return section
