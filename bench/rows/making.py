"""Making what is called: what it costs to look up, to wrap and to hand over, beside the peers.

`LINES` has a function for each kind of thing that is made; it returns the rows of its group. The
goals stand with the rows that they are about.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench import installed, timing
from bench.peers import Call, build, load_module
from bench.rows import Effort, libraries
from bench.rows.calls import EMPTY, TARGET_NS
from bench.section import Group, Section

METHOD = (
    "ns of one statement in a for loop of 20 unrolled ones, its names local variables; the result "
    "is dropped, and freed. The cost of the loop itself is subtracted. Subjects of a row are "
    "interleaved in shuffled rounds, in several fresh processes pinned to one CPU, garbage "
    "collector off; ratios are medians of the rounds' ratios. Bytes are the slope of the resident "
    "size while so many are made and kept in a list that has their places already, collector on. "
    + libraries.METHOD
)
KEPT = 100_000  # of each maker, for its bytes
DICT = "a dict lookup"


@dataclass(frozen=True)
class Line:
    """Statements that do the same work, by who does it; the reference is the first peer."""

    row: str
    reference: str
    subjects: Mapping[str, Call]


@dataclass(frozen=True)
class Most:
    """A goal: `subject`, less the time of `less`, takes at most `bound` times what `peer` does."""

    row: str
    subject: str
    peer: str
    bound: float
    less: str | None = None


@dataclass
class Tools:
    """What the rows are made with: nativecall, a function ``d:d`` by its address, and cffi."""

    nc: Any
    address: int = field(default_factory=lambda: address_of("cos"))

    @property
    def ffi(self) -> Any:
        """An `FFI` of cffi that knows no declarations."""
        import cffi

        return cffi.FFI()


def address_of(name: str) -> int:
    """Return the address of a function of C's library of mathematics."""
    found = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    if found is None:
        raise ValueError(f"'{name}' has no address")
    return found


# -- entries looked up ---------------------------------------------------------------------------

LOOKUPS = "look up an entry"


def _lookups(tools: Tools) -> list[Line]:
    one = tools.nc.wrap(tools.address, "d:d")
    names = {"d": {"d:d": one}, "f": one}
    statements = {DICT: "d['d:d']", "f[…]": "f['d:d']"}
    return [Line(LOOKUPS, DICT, {what: Call(text, names) for what, text in statements.items()})]


# -- addresses wrapped ---------------------------------------------------------------------------

WRAPS = "a callable of an address"
FFI_CAST, CFUNCTYPE = "ffi.cast", "CFUNCTYPE"


def _wraps(tools: Tools) -> list[Line]:
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    names = {
        "a": tools.address,
        "wrap": tools.nc.wrap,
        "new": function,
        "cast": tools.ffi.cast,
        "x": 0.5,
    }
    statements = {
        FFI_CAST: "cast('double (*)(double)', a)",
        CFUNCTYPE: "new(a)",
        "wrap(…)": "wrap(a, 'd:d')",
    }
    statements |= {f"{what}, called": f"{text}(x)" for what, text in statements.items()}
    return [Line(WRAPS, FFI_CAST, {what: Call(text, names) for what, text in statements.items()})]


# -- Python functions for C ----------------------------------------------------------------------

CALLBACKS = "a Python function as a C function"
PASSED = "a Python function passed to a C function"
FFI_CALLBACK = "ffi.callback"
CALLBACK = "nc.callback(…)"


def _callbacks(tools: Tools) -> list[Line]:
    def g(x: float) -> float:
        return x

    def compare(a: object, b: object) -> int:
        return 0

    prototype = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    comparator = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    statements = {
        FFI_CALLBACK: "callback('double (double)', g)",
        CFUNCTYPE: "prototype(g)",
        CALLBACK: "make('d:d', g)",
    }
    statements |= {f"{what}, called": f"{text}(x)" for what, text in statements.items()}
    names = {
        "callback": tools.ffi.callback,
        "prototype": prototype,
        "make": tools.nc.callback,
        "g": g,
        "x": 0.5,
    }
    made = {what: Call(text, names) for what, text in statements.items()}
    # It looks through no elements, so the comparator is not called.
    of_ctypes = ctypes.CDLL(None).bsearch
    of_ctypes.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
    of_ctypes.argtypes = [*of_ctypes.argtypes, comparator]
    of_ctypes.restype = ctypes.c_void_p
    ffi = tools.ffi
    ffi.cdef(
        "void *bsearch(void *key, void *base, size_t n, size_t size, int (*)(void *, void *));"
    )
    callees = {
        "ours": tools.nc.load("c").function("bsearch", "P:PPNNX{i:PP}"),
        "of_ctypes": of_ctypes,
        "of_cffi": ffi.dlopen(None).bsearch,
        "new": comparator,
        "callback": ffi.callback,
        "null": ffi.NULL,
        "g": compare,
    }
    passed = {
        FFI_CALLBACK: "of_cffi(null, null, 0, 8, callback('int (void *, void *)', g))",
        CFUNCTYPE: "of_ctypes(None, None, 0, 8, new(g))",
        "f(g)": "ours(None, None, 0, 8, g)",
    }
    return [
        Line(CALLBACKS, FFI_CALLBACK, made),
        Line(PASSED, FFI_CALLBACK, {what: Call(text, callees) for what, text in passed.items()}),
    ]


# -- other boxes ---------------------------------------------------------------------------------

BOXES = "a box for others"
TO = ("to_ctypes", "to_cffi", "to_scipy")


def _boxes(tools: Tools) -> list[Line]:
    wrap = tools.nc.wrap
    one = wrap(tools.address, "d:d")
    names = {
        "callback": tools.ffi.callback,
        "g": lambda x: x,
        "wrap": wrap,
        "a": tools.address,
        "f": one,
        "d": {"d:d": one},
    }
    statements = {
        FFI_CALLBACK: "callback('double (double)', g)",
        DICT: "d['d:d']",
        "wrap(…)": "wrap(a, 'd:d')",
        **{f"f.{to}(), first": f"wrap(a, 'd:d').{to}()" for to in TO},
        **{f"f.{to}(), again": f"f.{to}()" for to in TO},
    }
    return [
        Line(BOXES, FFI_CALLBACK, {what: Call(text, names) for what, text in statements.items()})
    ]


# -- functions of functions ----------------------------------------------------------------------

THUNKS = "a function of a function"


def _thunks(tools: Tools) -> list[Line]:
    libm = tools.nc.load("m", "double pow(double x, double y); double cos(double x);")
    names = {
        "callback": tools.ffi.callback,
        "g": lambda x: x,
        "pow": libm.pow,
        "cos": libm.cos,
        "x": 0.5,
    }
    statements = {FFI_CALLBACK: "callback('double (double)', g)"}
    statements |= {"f.bind(…)": "pow.bind(2.0)", "f.convert(…)": "cos.convert('f:f')"}
    statements |= {f"{what}, called": f"{text}(x)" for what, text in statements.items()}
    return [
        Line(THUNKS, FFI_CALLBACK, {what: Call(text, names) for what, text in statements.items()})
    ]


# -- callbacks that C code accepts ---------------------------------------------------------------

ACCEPTED = "a callback accepted by C code, and called once"
CCALLBACK = "SciPy's ccallback"


def _accepted(_: Tools) -> list[Line]:
    from scipy import LowLevelCallable
    from scipy._lib import _test_ccallback

    names = {
        "scipy": _test_ccallback.test_call_simple,
        "ours": load_module("lookup", "bench_lookup").apply,
        "low": LowLevelCallable(_test_ccallback.test_get_plus1_capsule()),
        "g": lambda x: x + 1.0,
    }
    statements = {
        f"{CCALLBACK}, a LowLevelCallable": "scipy(low, 0.5)",
        f"{CCALLBACK}, a lambda": "scipy(g, 0.5)",
        "callback.h, a LowLevelCallable": "ours(low, 0.5)",
        "callback.h, a lambda": "ours(g, 0.5)",
    }
    calls = {what: Call(text, names) for what, text in statements.items()}
    return [Line(ACCEPTED, f"{CCALLBACK}, a LowLevelCallable", calls)]


LINES: tuple[Callable[[Tools], list[Line]], ...] = (
    _lookups,
    _wraps,
    _callbacks,
    _boxes,
    _thunks,
    _accepted,
)
GOALS = (
    Most(LOOKUPS, "f[…]", DICT, 2.0),
    *[Most(WRAPS, f"wrap(…){called}", f"{FFI_CAST}{called}", 3.0) for called in ("", ", called")],
    *[
        Most(CALLBACKS, f"{CALLBACK}{called}", f"{peer}{called}", bound)
        for called in ("", ", called")
        for peer, bound in ((CFUNCTYPE, 1.0), (FFI_CALLBACK, 0.5))
    ],
    Most(PASSED, "f(g)", CFUNCTYPE, 1.0),
    Most(PASSED, "f(g)", FFI_CALLBACK, 0.5),
    *[Most(BOXES, f"f.{to}(), first", FFI_CALLBACK, 1.0, less="wrap(…)") for to in TO],
    *[Most(BOXES, f"f.{to}(), again", DICT, 4.0) for to in TO],
    *[
        Most(THUNKS, f"{what}{called}", f"{FFI_CALLBACK}{called}", 0.75)
        for called in ("", ", called")
        for what in ("f.bind(…)", "f.convert(…)")
    ],
    *[
        Most(ACCEPTED, f"callback.h, {what}", f"{CCALLBACK}, {what}", bound)
        for what, bound in (("a LowLevelCallable", 1.0), ("a lambda", 1.2))
    ],
)


# -- memory --------------------------------------------------------------------------------------


def _same(x: float) -> float:
    return x


def _kept(tools: Tools) -> dict[str, Callable[[], object]]:
    one = tools.nc.wrap(tools.address, "d:d")
    two = tools.nc.wrap(address_of("pow"), "d:dd")
    return {
        "wrap(…)": lambda: tools.nc.wrap(tools.address, "d:d"),
        "f.bind(…)": lambda: two.bind(2.0),
        "f.convert(…)": lambda: one.convert("f:f"),
        "callback(…)": lambda: tools.nc.callback("d:d", _same),
    }


#: Most bytes of one of what `_kept` makes.
BYTES = {"wrap(…)": 200.0, "f.bind(…)": 320.0, "f.convert(…)": 320.0, "callback(…)": 320.0}


def resident() -> int:
    """Return the resident size of this process in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def bytes_of(make: Callable[[], object]) -> float:
    """Return the bytes that each of `KEPT` more takes, when as many were made before."""
    kept: list[object] = [0] * (2 * KEPT)
    for i in range(KEPT):
        kept[i] = make()
    before = resident()
    for i in range(KEPT, 2 * KEPT):
        kept[i] = make()
    return (resident() - before) / KEPT


# -- the section ---------------------------------------------------------------------------------


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(5, 1)


def finish(section: Section, effort: Effort) -> None:
    """Add the rows of whole libraries, each sample from a process of its own."""
    try:
        installed.import_nativecall()
        libraries.add(section, effort)
    except (ImportError, installed.NotInstalled, subprocess.CalledProcessError) as error:
        section.absent["libraries"] = str(error)


def measure_line(line: Line, effort: Effort) -> Group:
    """Time the subjects of a row, interleaved."""
    samplers = {
        name: timing.python_loop(call.statement, call.names) for name, call in line.subjects.items()
    }
    samplers[EMPTY] = timing.python_loop("", {})
    subjects = {
        name: partial(sampler, timing.calibrate(sampler, timing.UNROLL, TARGET_NS))
        for name, sampler in samplers.items()
    }
    samples = timing.interleave(subjects, effort.choose(35, 25), effort.seed)
    loop = timing.summarise(samples.pop(EMPTY)).median
    alone = {name: [value - loop for value in values] for name, values in samples.items()}
    return Group(line.row, "ns", line.reference, alone)


def measure(effort: Effort) -> Section:
    """Time the statements, and weigh what is kept."""
    section = Section("making", METHOD)
    try:
        tools = Tools(installed.import_nativecall())
    except installed.NotInstalled as error:
        section.absent["nativecall"] = str(error)
        return section
    for lines in LINES:
        try:
            found = lines(tools)
        except (ImportError, build.BuildError) as error:
            section.absent[lines.__name__.strip("_")] = str(error)
            continue
        section.groups += [measure_line(line, effort) for line in found]
    if sys.platform == "linux":
        section.figures["bytes"] = {name: bytes_of(make) for name, make in _kept(tools).items()}
    return section
