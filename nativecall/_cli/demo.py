"""``nativecall demo``: functions wrapped, shown, called, checked and timed, in seconds.

Functions of the system's math library are called from Python, from C and by SciPy's `quad`. Every
value is compared with what Python's `math` gives; one that differs makes the exit status 1. Every
time is measured in this run: samples of all ways are taken in rounds, one of each way in a
round, so that a drift of the machine falls on all alike; what is shown is the median.

The calls from C are made by a loop in the compiled core (csrc/cli/probe.c), so no compiler is
needed.
"""

from __future__ import annotations

import array
import math
import os
import platform
import random
import statistics
import struct
import sys
import time

from .. import _lib
from .._callable.callable import NativeCallable
from .._callable.wrap import wrap
from .._errors import LibraryError, SymbolError
from .._library import load
from .._slots import customslots
from .._version import __version__
from .describe import address_text, entry_rows, slot_rows
from .output import CommandError, Output, Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
_POINTS = 500  # values checked a function and way
_ULPS = 2  # units in the last place by which two correct math libraries may differ
_ROUNDS = 51
_QUAD_ERROR = 1e-14  # what quad promises for so smooth a function, and more
_SAMPLE = 500_000  # ns that one sample lasts
_UNROLL = 10
_C_LENGTH = 1000  # arguments in one go through the arrays of the C loop
_BAR = 24  # characters of the longest bar
_SUBJECT = "fabs"  # what is timed: it takes next to no time itself


def run() -> int:
    """Show everything; 0 when all values are right, 1 when not."""
    output = Output()
    library = _load()
    functions = _functions(library)
    output.heading(f"nativecall {__version__}: one callable for every native function")
    output.text(_machine(), "dim")

    output.heading(f"1  Functions out of {library.path or library.name}")
    output.text('m = nativecall.load("m", "double cos(double x); ...")', "dim")
    _show_tables(output, functions)

    output.heading("2  Every value against Python's math module")
    right = _show_values(output, functions)

    output.heading("3  What a call costs")
    output.text(f"{_SUBJECT}(x), median of {_ROUNDS} interleaved samples of each way", "dim")
    _show_costs(output, library)

    output.heading("4  SciPy's quad")
    right &= _show_quad(output, library)

    output.heading("Every value is right." if right else "There are wrong values: see above.")
    return 0 if right else 1


def _load() -> Library:
    """The system's math library with the declarations above."""
    try:
        return load("ucrtbase" if sys.platform == "win32" else "m", _DECLARATIONS)
    except (LibraryError, SymbolError) as error:
        raise CommandError(f"the system's math library cannot be used: {error}") from None


def _functions(library: Library) -> dict[str, NativeCallable]:
    """The callables of the demo; `cos` has two entries."""
    found: dict[str, NativeCallable] = {
        name: getattr(library, name) for name in ("exp", "cbrt", "fabs", "pow", "atan2", "ldexp")
    }
    return {"cos": wrap({"d:d": library.cos, "f:f": library.cosf}, name="cos"), **found}


def _machine() -> str:
    """Where the figures come from."""
    model = platform.processor()
    if sys.platform == "linux":
        try:
            with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
                names = [line for line in file if line.startswith("model name")]
            model = names[0].partition(":")[2].strip() if names else model
        except OSError:
            pass
    parts = [
        f"{platform.python_implementation()} {platform.python_version()}",
        f"{platform.system()} {platform.machine()}",
        model,
        f"{os.cpu_count()} cores",
    ]
    return " · ".join([part for part in parts if part])


# -- tables ---------------------------------------------------------------------------------------


def _show_tables(output: Output, functions: Mapping[str, NativeCallable]) -> None:
    output.table(*entry_rows(functions.values()))
    cos = functions["cos"]
    output.space()
    output.text("What their type says to native code, its slots:", "dim")
    output.table(*slot_rows(customslots(cos)))
    offset = _lib.types.call_table_offset(type(cos))
    output.text(
        f"so C code finds the call table of cos at {address_text(id(cos))} + {offset}", "dim"
    )


# -- values ---------------------------------------------------------------------------------------


class _Check:
    """One entry and what it should give: what `reference`, a function of `math`, gives for the
    first and the second `arguments`. `shown` are those of the call that is shown.
    """

    def __init__(
        self,
        entry: NativeCallable,
        reference: Callable[..., float],
        shown: tuple[object, ...],
        *arguments: Sequence[float],
    ) -> None:
        self.entry = entry
        self.shown = shown
        self.arguments = arguments
        self.expected = [reference(*values) for values in zip(*arguments, strict=True)]

    def from_python(self, function: Callable[..., float]) -> list[float]:
        """The values that calls from Python give."""
        return [function(*values) for values in zip(*self.arguments, strict=True)]

    def from_c(self, way: str) -> list[float]:
        """The values that calls from C give."""
        results = array.array("d", [math.nan]) * len(self.expected)
        arguments = [array.array("d", values) for values in self.arguments]
        signature = self.entry.signatures[0]
        _lib.types.call_loop(self.entry, signature, way, 1, results, *arguments)
        return list(results)

    def example(self) -> str:
        """One call with its value, for people."""
        value = self.entry(*self.shown)
        return f"{self.entry.__name__}({', '.join(map(str, self.shown))}) = {value:.12g}"

    def worst(self, values: list[float]) -> float:
        """The largest difference from `expected`, in units of the last place."""
        single = self.entry.signatures[0].startswith("f")
        return max([_ulps(*pair, single) for pair in zip(values, self.expected, strict=True)])


def _ulps(value: float, expected: float, single: bool) -> float:
    """A difference in units in the last place of a double, or of a float."""
    if value == expected:
        return 0.0
    if not (math.isfinite(value) and math.isfinite(expected)):
        return math.inf
    return abs(value - expected) / (math.ulp(expected) * (2.0**29 if single else 1.0))


def _checks(functions: Mapping[str, NativeCallable]) -> list[_Check]:
    draw = random.Random(201).uniform
    x = [draw(-20.0, 20.0) for _ in range(_POINTS)]
    y = [draw(-20.0, 20.0) for _ in range(_POINTS)]
    positive = [abs(value) for value in x]
    singles = [*struct.unpack(f"{_POINTS}f", struct.pack(f"{_POINTS}f", *x))]
    whole = [round(value) for value in y]
    return [
        _Check(functions["cos"]["d:d"], math.cos, (1,), x),
        _Check(functions["cos"]["f:f"], math.cos, (1,), singles),
        _Check(functions["exp"], math.exp, (1,), x),
        _Check(functions["cbrt"], math.cbrt, (27,), x),
        _Check(functions["fabs"], math.fabs, (-1.5,), x),
        _Check(functions["pow"], math.pow, (2, 0.5), positive, y),
        _Check(functions["atan2"], math.atan2, (1, 1), x, y),
        _Check(functions["ldexp"], math.ldexp, (0.75, 4), x, whole),
    ]


def _show_values(output: Output, functions: Mapping[str, NativeCallable]) -> bool:
    rows = []
    all_right = True
    for check in _checks(functions):
        entry = check.entry
        differences = [
            check.worst(check.from_python(entry)),
            check.worst(check.from_python(entry.builtin)),
            check.worst(check.from_c("offset")),
            check.worst(check.from_c("slot")),
        ]
        right = max(differences) <= _ULPS
        all_right &= right
        rows.append(
            Row(
                check.example(),
                entry.signatures[0],
                *[_verdict(difference) for difference in differences],
                style="" if right else "bad",
            )
        )
    output.text(
        f"each with {_POINTS} arguments; the largest difference, in units in the last place",
        "dim",
    )
    titles = ["for example", "entry", "f(x)", "f.builtin(x)", "C: offset", "C: slot"]
    output.table(titles, rows)
    return all_right


def _verdict(difference: float) -> str:
    if difference == 0:
        return "✓ equal"
    return f"{'✓' if difference <= _ULPS else '✗'} {difference:.2g}"


# -- costs ----------------------------------------------------------------------------------------


class _Way:
    """One way of calling: `run` makes some rounds of so many calls and returns the ns that they
    lasted. Each of `samples` is the ns for one call.
    """

    def __init__(
        self, name: str, run: Callable[[int], float], calls: int, *, ours: bool = False
    ) -> None:
        self.name = name
        self.ours = ours
        self.samples: list[float] = []
        self._run = run
        self._calls = calls
        self._number = 1
        while (lasted := run(self._number)) < _SAMPLE / 4:
            self._number *= 4
        self._number = max(1, round(self._number * _SAMPLE / lasted))

    def sample(self) -> None:
        """Take one more sample."""
        self.samples.append(self._run(self._number) / (self._number * self._calls))

    @property
    def median(self) -> float:
        """Of the samples."""
        return statistics.median(self.samples)

    def ratio(self, other: _Way) -> float:
        """The median over the rounds of how much more this one costs."""
        pairs = zip(self.samples, other.samples, strict=True)
        return statistics.median([mine / its for mine, its in pairs])


def _python_way(
    name: str, function: Callable[..., object], *values: object, ours: bool = False
) -> _Way:
    """Calls from Python, with nothing but local variables in the loop."""
    from timeit import Timer

    names = ["f", *[f"x{i}" for i in range(len(values))]]
    call = f"f({', '.join(names[1:])})"
    timer = Timer(
        "; ".join([call] * _UNROLL),
        f"{', '.join(names)}, = given",
        time.perf_counter,
        {"given": (function, *values)},
    )
    return _Way(name, lambda number: timer.timeit(number) * 1e9, _UNROLL, ours=ours)


def _c_way(name: str, function: object, way: str, *, ours: bool = False) -> _Way:
    """Calls from C."""
    x = array.array("d", [i / _C_LENGTH for i in range(_C_LENGTH)])
    results = array.array("d", bytes(8 * _C_LENGTH))
    loop = _lib.types.call_loop

    def run(number: int) -> float:
        start = time.perf_counter_ns()
        loop(function, "d:d", way, number, results, x)
        return time.perf_counter_ns() - start

    return _Way(name, run, _C_LENGTH, ours=ours)


def _measure(ways: Sequence[_Way]) -> None:
    order = list(ways)
    shuffler = random.Random(200)
    for _ in range(_ROUNDS):
        shuffler.shuffle(order)
        for way in order:
            way.sample()


def _bar(value: float, largest: float) -> str:
    """A bar in eighths of a character, never empty."""
    eighths = max(1, round(value / largest * _BAR * 8))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _cost_table(
    output: Output,
    title: str,
    ways: Sequence[_Way],
    unit: str,
    scale: float,
    extra: tuple[str, Sequence[str]] | None = None,
) -> None:
    """Times of `ways`, and how they compare with the first; `extra` is one more column."""
    largest = max([way.median for way in ways])
    rows = [
        Row(
            way.name,
            *([extra[1][n]] if extra else []),
            f"{way.median * scale:.1f}",
            f"{way.ratio(ways[0]):.1f}x",
            _bar(way.median, largest),
            style="ours" if way.ours else "",
        )
        for n, way in enumerate(ways)
    ]
    output.table([title, *([extra[0]] if extra else []), f">{unit}", ">ratio", ""], rows)


def _peers(native: NativeCallable) -> tuple[Callable[..., object], Callable[..., object]]:
    """The function of a callable as users of ctypes and cffi know it."""
    import ctypes

    import cffi

    ffi = cffi.FFI()
    address = native.address()
    by_ctypes = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)
    return by_ctypes, ffi.cast("double (*)(double)", address)


def _show_costs(output: Output, library: Library) -> None:
    native = library.function(_SUBJECT)
    by_ctypes, by_cffi = _peers(native)

    def in_python(x: float) -> float:
        return abs(x)

    from_python = [
        _python_way("f.builtin(x)", native.builtin, 0.5, ours=True),
        _python_way("f(x)", native, 0.5, ours=True),
        _python_way(f"math.{_SUBJECT}(x), a built-in", getattr(math, _SUBJECT), 0.5),
        _python_way("a Python function", in_python, 0.5),
        _python_way("a cffi function pointer", by_cffi, 0.5),
        _python_way("a ctypes function", by_ctypes, 0.5),
    ]
    from_c = [
        _c_way("a plain function pointer", native, "pointer"),
        _c_way("f, found by offset at each call", native, "offset", ours=True),
        _c_way("f, found by slot at each call", native, "slot", ours=True),
        _c_way("a Python function, boxed", in_python, "object"),
        _c_way("a cffi function pointer, boxed", by_cffi, "object"),
        _c_way("a ctypes function, boxed", by_ctypes, "object"),
    ]
    _measure(from_python + from_c)
    _cost_table(output, "called from Python", from_python, "ns", 1.0)
    output.space()
    _cost_table(output, "called from C", from_c, "ns", 1.0)
    output.text("boxed: what C code must do with a callable that it cannot look into", "dim")


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

    given: list[tuple[str, object, bool]] = [
        ("f.to_scipy()", cos.to_scipy(), True),
        ("a LowLevelCallable made by hand", LowLevelCallable(by_ctypes), False),
        ("f, called through Python", cos, True),
        ("a Python function", in_python, False),
        ("a ctypes function", by_ctypes, False),
    ]
    expected = math.sin(1.0)
    differences = [abs(quad(integrand, 0.0, 1.0)[0] - expected) for _, integrand, _ in given]
    right = [difference <= _QUAD_ERROR for difference in differences]
    ways = [
        _python_way(name, quad, integrand, 0.0, 1.0, ours=ours) for name, integrand, ours in given
    ]
    _measure(ways)
    output.text("quad(f, 0, 1) with f = cos, against math.sin(1)", "dim")
    verdicts = [
        f"{'✓' if good else '✗ wrong by'} {difference:.0g}"
        for good, difference in zip(right, differences, strict=True)
    ]
    _cost_table(output, "the integrand is", ways, "µs", 1e-3, ("error", verdicts))
    return all(right)
