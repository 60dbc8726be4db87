"""What the programs of examples/libraries do with C libraries: nativecall, cffi and ctypes."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from bench import timing
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "microseconds of processor time of what the programs of examples/libraries do: each function "
    "of theirs that calls the library, and the program as a whole without the loading of the "
    "library. They are the same programs with the same checks, ABI mode of cffi. The programs of a "
    "row are interleaved in shuffled rounds. Not here: the program that waits for its timers."
)
PROGRAMS = Path(__file__).resolve().parents[2] / "examples" / "libraries"
WAYS = ("nativecall", "cffi", "ctypes")


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(2, 1)


def _module(program: str, way: str) -> ModuleType:
    path = PROGRAMS / program / f"by_{way}.py"
    spec = importlib.util.spec_from_file_location(f"{program}_by_{way}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _quadrature(m: Any) -> dict[str, Callable[[], object]]:
    return {"an integral of a Python function": lambda: m.integral(abs, 0.0, 1.0)}


def _zlib(m: Any) -> dict[str, Callable[[], object]]:
    data = b"".join(b"%d squared is %d. " % (i, i * i) for i in range(20))
    packed = b"".join(m.compressed(data))
    return {
        "compressing 400 bytes": lambda: list(m.compressed(data)),
        "decompressing them": lambda: list(m.decompressed(packed)),
    }


def _sqlite(m: Any) -> dict[str, Callable[[], object]]:
    database = m.Database()
    database.define("cube", lambda x: x**3)
    rows = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100) select"
    return {
        "100 rows for a Python function": lambda: database.execute(
            f"{rows} i from n", lambda *_: None
        ),
        "100 calls from SQL": lambda: database.execute(f"{rows} sum(cube(i)) from n"),
        "a statement": lambda: database.execute("select 1"),
    }


def _fourier(m: Any) -> dict[str, Callable[[], object]]:
    import numpy

    signal = numpy.arange(64.0)
    return {"a transform of 64 numbers, with its plan": lambda: m.spectrum(signal)}


def _linear_algebra(m: Any) -> dict[str, Callable[[], object]]:
    import numpy

    a, b, c = numpy.eye(3, order="F"), numpy.ones((3, 2), order="F"), numpy.ones((3, 2), order="F")
    return {
        "dgesv, 3 equations": lambda: m.solve(a, b),
        "dgemm, 3 by 3 by 2": lambda: m.multiply(a, b, c),
    }


def _sorting(m: Any) -> dict[str, Callable[[], object]]:
    found: dict[str, Callable[[], object]] = {}
    given = [(b"%d" % (i * 37 % 50), i * 37 % 50, i) for i in range(50)]
    maker = getattr(m, "c", None)
    if hasattr(m, "City"):
        cities = (m.City * 50)(*given)
    else:
        cities = (m.ffi if hasattr(m, "ffi") else maker).new("city[]", given)
    found["50 structs sorted by a Python function"] = lambda: m.sort(cities, lambda a: a.latitude)
    return found


def _walking(m: Any) -> dict[str, Callable[[], object]]:
    return {"a walk through 12 files": lambda: m.walk(_folder(), lambda *_: 0)}


_made: list[tempfile.TemporaryDirectory[str]] = []


def _folder() -> str:
    if not _made:
        _made.append(tempfile.TemporaryDirectory())
        for number in range(12):
            Path(_made[0].name, str(number)).touch()
    return _made[0].name


ROWS: dict[str, Callable[[Any], dict[str, Callable[[], object]]]] = {
    "quadrature": _quadrature,
    "zlib_streams": _zlib,
    "sqlite": _sqlite,
    "fourier": _fourier,
    "linear_algebra": _linear_algebra,
    "sorting": _sorting,
    "walking": _walking,
}


def _quietly(run: Callable[[], object]) -> Callable[[], object]:
    def quiet() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            run()

    return quiet


def _sampled(run: Callable[[], object]) -> Callable[[], float]:
    """Takes one sample: microseconds of processor time of one run."""

    def many(repeats: int) -> float:
        start = time.process_time_ns()
        for _ in range(repeats):
            run()
        return (time.process_time_ns() - start) / repeats

    repeats = timing.calibrate(many, 1, 1e6)
    return lambda: many(repeats) / 1000


def measure(effort: Effort) -> Section:
    """Time what every program does, and the program."""
    section = Section("clibraries", METHOD)
    for program, rows in ROWS.items():
        runs: dict[str, dict[str, Callable[[], object]]] = {}
        for way in WAYS:
            try:
                module = _module(program, way)
                found = {**rows(module), f"the program '{program}'": _quietly(module.main)}
                for run in found.values():
                    run()
            except Exception as error:
                section.absent[f"{way} '{program}'"] = f"{type(error).__name__}: {error}"
                continue
            for row, run in found.items():
                runs.setdefault(row, {})[way] = run
        for row, subjects in runs.items():
            sampled = {way: _sampled(run) for way, run in subjects.items()}
            samples = timing.interleave(sampled, effort.choose(40, 10), effort.seed)
            reference = "nativecall" if "nativecall" in samples else next(iter(samples))
            section.groups.append(Group(row, "us", reference, samples))
    for folder in _made:
        folder.cleanup()
    _made.clear()
    return section
