"""Foreign callables in, foreign callables out: test each pair, and write the document's table.

A row is a foreign callable that `nc.wrap` accepts, a column a consumer of the result. Each cell
wraps a fresh callable and lets the consumer call it at `COUNT` points. Calls through Python are
counted by the callable's `check`, which sees only those. A cell is

    ``native``   the right values, and no call through Python
    ``Python``   the right values, by calls through Python
    ``no``       refused, with the reason

``python -m support.matrix``, run in `tests`, writes the table.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import math
import pickle
import sys
import tempfile
from collections import namedtuple
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType

import nativecall as nc
from nativecall._codegen import engine
from support import build, foreign

ROOT = Path(__file__).resolve().parents[2]
COUNT = 12
POINTS = [(i + 0.5) / COUNT for i in range(COUNT)]
Cell = namedtuple("Cell", ["what", "reason"], defaults=[""])


class Missing(Exception):
    """A library is not installed."""


def module(name: str) -> ModuleType:
    """Import a library that a row or a column needs."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        raise Missing(name.partition(".")[0])
    return importlib.import_module(name)


def _special(x: float) -> float:
    return float(module("scipy.special").j0(x))


class Row:
    """A foreign callable: how it is made, and what its function computes.

    `signature` is passed to `wrap` if the callable has none. `counts` says that its function counts
    its calls.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[Boxes], object],
        signature: str | None = None,
        function: Callable[[float], float] = lambda x: x * x,
        *,
        counts: bool = False,
        text: str = "",
    ) -> None:
        self.name = name
        self.make = make
        self.signature = signature
        self.function = function
        self.counts = counts
        self.text = text or name


class Column:
    """A consumer: how it calls its argument, and its result for a function."""

    def __init__(
        self,
        name: str,
        consume: Callable[[Boxes, nc.NativeCallable], float],
        *,
        python: bool = False,
        total: bool = True,
        travels: bool = False,
        text: str = "",
    ) -> None:
        self.name = name
        self.consume = consume
        self.travels = travels  # whether it is pickled, which a counting function cannot be
        self.python = python  # whether its calls always come from Python
        self.total = total  # whether it returns the sum over POINTS, not the integral
        self.text = text or name


class Boxes:
    """The extension of tests/ext/matrix.pyx and other compiled modules, built once per session."""

    def __init__(self, builder: build.Builder, include: Path) -> None:
        self._builder = builder
        self._include = include

    @cached_property
    def c(self) -> ModuleType:
        """Build tests/ext/matrix.pyx."""
        module("Cython")
        source = build.EXT / "matrix.pyx"
        flags = ("-O1", "-isystem", module("numpy").get_include())
        path = self._builder.cython(source, "nc_matrix", include=self._include, flags=flags)
        return build.load_extension(path)

    @cached_property
    def provider(self) -> ModuleType:
        """Build tests/foreign/provider.c, which shares no header with the product."""
        folder = build.EXT.parent / "foreign"
        path = self._builder.extension(
            "../foreign/provider.c", "matrix_provider", include=folder, directory="matrix_provider"
        )
        return build.load_extension(path)

    @cached_property
    def nopython(self) -> Callable[[object, int], float]:
        """Return a Numba function that sums the values of its argument."""
        numba = module("numba")

        @numba.njit
        def total(f, count):
            found = 0.0
            for i in range(count):
                found += f((i + 0.5) / count)
            return found

        return total

    def foreign(self, name: str) -> ModuleType:
        """Build a module of tests/support/foreign.py."""
        try:
            made: ModuleType = getattr(foreign, name)(self._builder)
        except foreign.Missing as error:
            raise Missing(str(error)) from None
        return made


# -- in --------------------------------------------------------------------------------------------


def _ctypes(boxes: Boxes) -> object:
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(boxes.c.address())


def _cffi(boxes: Boxes) -> object:
    return module("cffi").FFI().cast("double (*)(double)", boxes.c.address())


@cache
def _jitted() -> object:
    @module("numba").njit
    def square(x):
        return x * x

    return square


@cache
def _cfunc() -> object:
    @module("numba").cfunc("float64(float64)")
    def square(x):
        return x * x

    return square


@cache
def _vectorized() -> object:
    @module("numba").vectorize(["float64(float64)"])
    def square(x):
        return x * x

    return square


def _llvm(boxes: Boxes) -> object:
    if not engine.available():
        raise Missing("generated code")
    text = "define double @square(double %x) {\n  %y = fmul double %x, %x\n  ret double %y\n}\n"
    return module("llvmlite.binding").parse_assembly(text).get_function("square")


def _f2py(boxes: Boxes) -> object:
    return boxes.foreign("f2py").square


def _callback(boxes: Boxes) -> object:
    return nc.callback("d:d")(lambda x: x * x)


def _overloads(boxes: Boxes) -> object:
    return nc.wrap({"d:d": boxes.c.address(), "i:i": boxes.c.address()}, name="square")


ROWS = [
    Row("address", lambda boxes: boxes.c.address(), "d:d", counts=True),
    Row("ctypes function pointer", _ctypes, counts=True),
    Row("cffi function pointer", _cffi, counts=True),
    Row("Cython `cdef api` function", lambda boxes: boxes.c.__pyx_capi__["square"], counts=True),
    Row(
        "`cython_special` function",
        lambda boxes: module("scipy.special.cython_special").__pyx_capi__["j0"],
        function=_special,
    ),
    Row(
        "Cython `cpdef` function",
        lambda boxes: module("scipy.special.cython_special").j0,
        function=_special,
    ),
    Row(
        "SciPy `LowLevelCallable`",
        lambda boxes: module("scipy").LowLevelCallable(_ctypes(boxes)),
        counts=True,
    ),
    Row("Numba `cfunc`", lambda boxes: _cfunc()),
    Row("Numba `njit` function", lambda boxes: _jitted(), "d:d"),
    Row("`numba.vectorize` ufunc", lambda boxes: _vectorized()),
    Row("NumPy ufunc", lambda boxes: module("numpy").square),
    Row("NumPy ufunc dispatched by CPU", lambda boxes: module("numpy").sin, function=math.sin),
    Row("`scipy.special` ufunc", lambda boxes: module("scipy.special").j0, function=_special),
    Row("`@cython.ufunc`", lambda boxes: boxes.c.squares),
    Row("f2py function", _f2py, "d:d"),
    Row(
        "pybind11 function",
        lambda boxes: boxes.foreign("pybind11").half,
        function=lambda x: x / 2,
    ),
    Row("LLVM function (llvmlite)", _llvm),
    Row(
        "another provider's object",
        lambda boxes: boxes.provider.callable,
        function=lambda x: 10 * x + 1,
    ),
    Row(
        "`__nativecall_api__`",
        lambda boxes: boxes.provider.tier2,
        function=lambda x: 10 * x + 1,
    ),
    Row("native callable with overloads", _overloads, "d:d", counts=True),
    Row(
        "its built-in view",
        lambda boxes: nc.wrap(boxes.c.address(), "d:d").builtin,
        counts=True,
    ),
    Row("`nc.callback` of a Python function", _callback),
]


# -- out -------------------------------------------------------------------------------------------


def _by_python(boxes: Boxes, f: nc.NativeCallable) -> float:
    return sum(f(x) for x in POINTS)


def _by_ctypes(boxes: Boxes, f: nc.NativeCallable) -> float:
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    total = ctypes.CFUNCTYPE(ctypes.c_double, function, ctypes.c_int)(boxes.c.sum_address())
    found: float = total(f.to_ctypes(), COUNT)
    return found


def _by_cffi(boxes: Boxes, f: nc.NativeCallable) -> float:
    ffi = module("cffi").FFI()
    total = ffi.cast("double (*)(double (*)(double), int)", boxes.c.sum_address())
    found: float = total(f.to_cffi(), COUNT)
    return found


def _by_capsule(boxes: Boxes, f: nc.NativeCallable) -> float:
    found: float = boxes.c.by_capsule(f.to_capsule(), b"double (double)", COUNT)
    return found


def _by_lookup(boxes: Boxes, f: nc.NativeCallable) -> float:
    found: float = boxes.c.by_lookup(f, COUNT)
    return found


def _by_callback(boxes: Boxes, f: nc.NativeCallable) -> float:
    found, boxed = boxes.c.by_callback(f, COUNT)
    assert not boxed
    total: float = found
    return total


def _by_quad(boxes: Boxes, f: nc.NativeCallable) -> float:
    found: float = module("scipy.integrate").quad(f.to_scipy(), 0, 1)[0]
    return found


def _by_ufunc(boxes: Boxes, f: nc.NativeCallable) -> float:
    numpy = module("numpy")
    return float(f.to_ufunc()(numpy.array(POINTS)).sum())


def _by_nopython(boxes: Boxes, f: nc.NativeCallable) -> float:
    found: float = boxes.nopython(f, COUNT)
    return found


def _by_pickle(boxes: Boxes, f: nc.NativeCallable) -> float:
    again = pickle.loads(pickle.dumps(f))
    return sum(again(x) for x in POINTS)


def _by_convert(boxes: Boxes, f: nc.NativeCallable) -> float:
    """Call a thunk with another signature from C."""
    thunk = f.convert("double (int n, double *x)")
    call = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int, ctypes.POINTER(ctypes.c_double))
    return sum([call(thunk.address())(1, ctypes.c_double(x)) for x in POINTS])


COLUMNS = [
    Column("Python", _by_python, python=True),
    Column("C that looks the entry up", _by_lookup, text="C, Cython: lookup"),
    Column("`callback.h`", _by_callback),
    Column("ctypes", _by_ctypes),
    Column("cffi", _by_cffi),
    Column("capsule", _by_capsule),
    Column("`scipy.integrate.quad`", _by_quad, total=False, text="SciPy `quad`"),
    Column("Numba nopython", _by_nopython, text="Numba `njit`"),
    Column("ufunc", _by_ufunc, text="NumPy ufunc"),
    Column("`convert`", _by_convert),
    Column("pickle", _by_pickle, python=True, travels=True),
]


#: Foreign callables known only by address, or that other processes cannot find: not pickled.
STAYING = {
    "address",
    "ctypes function pointer",
    "cffi function pointer",
    "SciPy `LowLevelCallable`",
    "Numba `cfunc`",
    "f2py function",
    "native callable with overloads",
    "its built-in view",
    "`nc.callback` of a Python function",
}
#: Pairs that must be rejected.
REFUSED = {(name, "pickle") for name in STAYING}


def cell(boxes: Boxes, row: Row, column: Column) -> Cell:
    """Return the result of a pair; raise AssertionError for wrong values, Missing if untestable."""
    boxed = 0

    def count(result: object, function: object, arguments: object) -> object:
        nonlocal boxed
        boxed += 1
        return result

    box = row.make(boxes)
    expected = sum(row.function(x) for x in POINTS)
    if not column.total:
        expected = module("scipy.integrate").quad(row.function, 0, 1)[0]
    try:
        whole = nc.wrap(box, row.signature, check=None if column.travels else count)
        f = whole if whole.signatures == ("d:d",) else whole["d:d"]
        boxes.c.calls()
        found = column.consume(boxes, f)
    except (TypeError, ValueError, LookupError, nc.NativeCallError) as error:
        return Cell("no", f"{type(error).__name__}: {error}")
    assert abs(found - expected) < 1e-9, f"{row.name} to {column.name}: {found}, not {expected}"
    if row.counts:
        called = boxes.c.calls()
        assert called == (21 if column.name == "`scipy.integrate.quad`" else COUNT)
    assert boxed in (0, COUNT)
    return Cell("Python" if boxed or column.travels else "native")


# -- tables ----------------------------------------------------------------------------------------

MARKS = "<!-- matrix: made by tests/support/matrix.py -->", "<!-- end of matrix -->"
_SIGNS = {"native": "●", "Python": "○", "no": "\N{EN DASH}"}


def tried(boxes: Boxes) -> dict[tuple[str, str], Cell]:
    """Test all pairs whose libraries are installed."""
    found = {}
    for row in ROWS:
        for column in COLUMNS:
            try:
                found[row.name, column.name] = cell(boxes, row, column)
            except Missing as error:
                found[row.name, column.name] = Cell("missing", str(error))
    return found


def whole_table(cells: dict[tuple[str, str], Cell]) -> list[str]:
    """Return the table of docs/foreign-callables.md: every pair; rows with equal cells are one."""
    lines = [
        "| in \\ out | " + " | ".join([column.text for column in COLUMNS]) + " |",
        "|---|" + ":-:|" * len(COLUMNS),
    ]
    equal: dict[str, list[str]] = {}
    for row in ROWS:
        signs = [_SIGNS[cells[row.name, column.name].what] for column in COLUMNS]
        equal.setdefault(" | ".join(signs), []).append(row.text)
    lines += [f"| {', '.join(rows)} | {signs} |" for signs, rows in equal.items()]
    return lines


def put(text: str, lines: list[str]) -> str:
    """Return a document with its table replaced by the lines."""
    before, begin, rest = text.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    assert begin
    assert end
    return "\n".join([f"{before}{begin}", *lines, f"{end}{after}"])


DOCUMENTS = {"docs/foreign-callables.md": whole_table}


def main() -> int:
    """Write the table into the document, unless a library is missing."""
    with tempfile.TemporaryDirectory() as folder:
        boxes = Boxes(build.Builder(Path(folder)), Path(nc.get_include()))
        cells = tried(boxes)
    missing = {one.reason for one in cells.values() if one.what == "missing"}
    for pair, one in cells.items():
        if one.reason:
            print(*pair, one.reason, sep=": ")
    if missing:
        print(f"nothing is written: install {', '.join(sorted(missing))}")
        return 1
    for name, table in DOCUMENTS.items():
        path = ROOT / name
        path.write_text(put(path.read_text(encoding="utf-8"), table(cells)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
