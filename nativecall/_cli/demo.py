"""``nativecall demo``: wrap, show, call, check and time functions within seconds.

It calls functions of the system's math library from Python, from C and through SciPy's `quad`.
Every value is compared with Python's `math`; a wrong value sets the exit status to 1. All times are
measured in this run. Each round takes one sample of every kind of call, so that drift affects all
kinds alike. The tables show medians.

A loop in the compiled core (csrc/cli/probe.c) makes the calls from C, so no compiler is needed.
"""

from __future__ import annotations

import array
import math
import os
import platform
import random
import statistics
import sys
from timeit import Timer

from .. import _ext
from .._callable.wrap import wrap
from .._errors import TYPE_CHECKING, LibraryError, SymbolError
from .._library import load
from .._output import CommandError, Output, Row
from .._slots import customslots
from .._version import __version__
from .describe import entry_rows, slot_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .._callable.callable import NativeCallable
    from .._library import Library

_DECLARATIONS = """
double cos(double x);
float  cosf(float x);
double exp(double x);
double cbrt(double x);
double fabs(double x);
double pow(double x, double y);
double atan2(double y, double x);
double ldexp(double x, int exp);
"""
_POINTS = 500  # values checked per function and kind of call
_ULPS = 2  # units in the last place by which two correct math libraries may differ
_ROUNDS = 51
_QUAD_ERROR = 1e-14  # stricter than quad's guarantee; smooth functions stay below it
_SAMPLE = 500e-6  # seconds per sample
_UNROLL = 10
_C_LENGTH = 1000  # arguments per pass through the arrays of the C loop
_SUBJECT = "fabs"  # the timed function: it takes almost no time itself


def run() -> int:
    """Show everything; return 0 if all values are right, otherwise 1."""
    output = Output()
    try:
        library = load("ucrtbase" if sys.platform == "win32" else "m", _DECLARATIONS)
    except (LibraryError, SymbolError) as error:
        raise CommandError(f"the system's math library cannot be used: {error}") from None
    cos = wrap({"d:d": library.cos, "f:f": library.cosf}, name="cos")
    others = [library[name] for name in ("exp", "cbrt", "fabs", "pow", "atan2", "ldexp")]
    output.heading(f"nativecall {__version__}: one callable for every native function")
    output.text(
        f"Python {platform.python_version()}, {platform.platform()}, {os.cpu_count()} cores", "dim"
    )

    output.heading(f"1  Functions from {library.path or library.name}")
    output.text('m = nativecall.load("m", "double cos(double x); ...")', "dim")
    output.table(*entry_rows([cos, *others]))
    output.space()
    output.text("What their type says to native code, its slots:", "dim")
    output.table(*slot_rows(customslots(cos)))

    output.heading("2  Every value against Python's math module")
    right = _show_values(output, [cos["d:d"], cos["f:f"], *others])

    output.heading("3  What a call costs")
    output.text(f"{_SUBJECT}(x), median of {_ROUNDS} interleaved samples of each way", "dim")
    _show_costs(output, library)

    output.heading("4  SciPy's quad")
    right &= _show_quad(output, library)

    output.heading("Every value is right." if right else "Some values are wrong: see above.")
    return 0 if right else 1


# -- values ---------------------------------------------------------------------------------------

#: Arguments of the example calls; 1 for other functions.
_SHOWN = {"cbrt": (27,), "fabs": (-1.5,), "pow": (2, 0.5), "atan2": (1, 1), "ldexp": (0.75, 4)}


def _arguments(name: str, single: bool) -> list[Sequence[float]]:
    """Return random arguments for a function, the same each time."""
    draw = random.Random(201).uniform
    x = [draw(-20.0, 20.0) for _ in range(_POINTS)]
    y = [draw(-20.0, 20.0) for _ in range(_POINTS)]
    if name == "pow":
        return [[*map(abs, x)], y]
    if name == "ldexp":
        return [x, [*map(round, y)]]
    return [x, y] if name == "atan2" else [array.array("f" if single else "d", x)]


def _worst(values: Iterable[float], expected: Sequence[float], single: bool) -> float:
    """Return the largest difference, in units in the last place of a float (`single`) or double."""
    worst = 0.0
    for value, right in zip(values, expected, strict=True):
        if value != right:
            found = abs(value - right) / math.ulp(right) / (2.0**29 if single else 1.0)
            worst = max(worst, found if math.isfinite(found) else math.inf)
    return worst


def _show_values(output: Output, entries: Sequence[NativeCallable]) -> bool:
    rows = []
    for entry in entries:
        name, signature = entry.__name__, entry.signatures[0]
        single = signature.startswith("f")
        arguments = _arguments(name, single)
        expected = [*map(getattr(math, name), *arguments)]
        each: list[Iterable[float]] = [map(entry, *arguments), map(entry.builtin, *arguments)]
        for way in ("offset", "slot"):
            found = array.array("d", [math.nan]) * _POINTS
            given = [array.array("d", values) for values in arguments]
            _ext.call_loop(entry, signature, way, found, *given)
            each.append(found)
        differences = [_worst(values, expected, single) for values in each]
        verdicts = [
            "✓ equal" if one == 0 else f"{'✓' if one <= _ULPS else '✗'} {one:.2g}"
            for one in differences
        ]
        shown = _SHOWN.get(name, (1,))
        example = f"{name}({', '.join(map(str, shown))}) = {entry(*shown):.12g}"
        style = "" if max(differences) <= _ULPS else "bad"
        rows.append(Row(example, signature, *verdicts, style=style))
    output.text(
        f"each with {_POINTS} arguments; the largest difference, in units in the last place",
        "dim",
    )
    titles = ["for example", "entry", "f(x)", "f.builtin(x)", "C: offset", "C: slot"]
    output.table(titles, rows)
    return not any([row.style for row in rows])


# -- costs ----------------------------------------------------------------------------------------


class _Way:
    """One way of calling a function, and its timings in seconds per call.

    One run of `timer` makes `calls` calls.
    """

    def __init__(self, name: str, timer: Timer, calls: int) -> None:
        self.name = name
        self.samples: list[float] = []
        self.timer = timer
        self.calls = calls
        self.number = max(1, round(100 * _SAMPLE / timer.timeit(100)))


def _python_way(name: str, function: Callable[..., object], *values: object) -> _Way:
    """Time calls from Python, with only local variables in the loop."""
    names = ["f", *[f"x{i}" for i in range(len(values))]]
    call = f"f({', '.join(names[1:])})"
    setup = f"{', '.join(names)}, = given"
    timer = Timer("; ".join([call] * _UNROLL), setup, globals={"given": (function, *values)})
    return _Way(name, timer, _UNROLL)


def _c_way(name: str, function: Callable[..., object], way: str) -> _Way:
    """Time calls from C; "boxed" calls get and return Python floats."""
    x = array.array("d", [i / _C_LENGTH for i in range(_C_LENGTH)])
    found = array.array("d", x)
    if way == "boxed":
        return _Way(name, Timer(lambda: array.array("d", map(function, x))), _C_LENGTH)  # type: ignore[type-var]  # they return floats
    return _Way(name, Timer(lambda: _ext.call_loop(function, "d:d", way, found, x)), _C_LENGTH)


def _measure(ways: Sequence[_Way]) -> None:
    for _ in range(_ROUNDS):
        for way in random.sample(ways, len(ways)):
            way.samples.append(way.timer.timeit(way.number) / (way.number * way.calls))


def _cost_table(
    output: Output, title: str, ways: Sequence[_Way], unit: str, errors: Sequence[str] = ()
) -> None:
    """Show the times of `ways`, also relative to the first; `errors` adds a column."""
    medians = [statistics.median(way.samples) for way in ways]
    rows = [
        Row(
            way.name,
            *errors[n : n + 1],
            f"{medians[n] * {'ns': 1e9, 'µs': 1e6}[unit]:.1f}",
            f"{medians[n] / medians[0]:.1f}x",
            style="ours" if way.name[0] == "f" else "",  # `f` is the native callable
        )
        for n, way in enumerate(ways)
    ]
    output.table([title, *["error"][: len(errors)], f">{unit}", ">ratio"], rows)


def _peers(native: NativeCallable) -> tuple[Callable[..., object], Callable[..., object]]:
    """Return a callable's C function as a ctypes and as a cffi function."""
    import ctypes

    import cffi

    address = native.address()
    by_ctypes = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)
    return by_ctypes, cffi.FFI().cast("double (*)(double)", address)


def _show_costs(output: Output, library: Library) -> None:
    native = library.function(_SUBJECT)
    by_ctypes, by_cffi = _peers(native)

    def in_python(x: float) -> float:
        return abs(x)

    from_python = [
        _python_way("f.builtin(x)", native.builtin, 0.5),
        _python_way("f(x)", native, 0.5),
        _python_way(f"math.{_SUBJECT}(x), a built-in", getattr(math, _SUBJECT), 0.5),
        _python_way("a Python function", in_python, 0.5),
        _python_way("a cffi function pointer", by_cffi, 0.5),
        _python_way("a ctypes function", by_ctypes, 0.5),
    ]
    from_c = [
        _c_way("a plain function pointer", native, "pointer"),
        _c_way("f, found by offset at each call", native, "offset"),
        _c_way("f, found by slot at each call", native, "slot"),
        _c_way("a Python function, boxed", in_python, "boxed"),
        _c_way("a cffi function pointer, boxed", by_cffi, "boxed"),
        _c_way("a ctypes function, boxed", by_ctypes, "boxed"),
    ]
    _measure(from_python + from_c)
    _cost_table(output, "called from Python", from_python, "ns")
    output.space()
    _cost_table(output, "called from C", from_c, "ns")
    output.text("boxed: how C code must call a callable that it cannot inspect", "dim")


# -- quad -----------------------------------------------------------------------------------------


def _show_quad(output: Output, library: Library) -> bool:
    try:
        from scipy import LowLevelCallable
        from scipy.integrate import quad
    except ImportError:
        output.text("SciPy is not installed; 'pip install scipy' and run this again to see it")
        return True
    cos = library.cos
    by_ctypes, _ = _peers(cos)

    def in_python(x: float) -> float:
        return math.cos(x)

    given: dict[str, object] = {
        "f.to_scipy()": cos.to_scipy(),
        "a LowLevelCallable made by hand": LowLevelCallable(by_ctypes),
        "f, called through Python": cos,
        "a Python function": in_python,
        "a ctypes function": by_ctypes,
    }
    expected = math.sin(1.0)
    differences = [abs(quad(integrand, 0.0, 1.0)[0] - expected) for integrand in given.values()]
    ways = [_python_way(name, quad, integrand, 0.0, 1.0) for name, integrand in given.items()]
    _measure(ways)
    output.text("quad(f, 0, 1) with f = cos, against math.sin(1)", "dim")
    verdicts = [f"{'✓' if one <= _QUAD_ERROR else '✗ wrong by'} {one:.0g}" for one in differences]
    _cost_table(output, "the integrand is", ways, "µs", verdicts)
    return all([one <= _QUAD_ERROR for one in differences])
