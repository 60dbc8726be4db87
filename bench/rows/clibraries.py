"""What the programs of examples/libraries do with C libraries: nativecall, cffi and ctypes."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import tempfile
import time
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from bench import timing
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "microseconds of processor time of what the programs of examples/libraries do: each function "
    "of theirs that calls the library, what these do in steps, and the program as a whole without "
    "the loading of the library. They are the same programs with the same checks, ABI mode of "
    "cffi. The programs of a row are interleaved in shuffled rounds. Of the program that waits for "
    "its timers there are the steps."
)
PROGRAMS = Path(__file__).resolve().parents[2] / "examples" / "libraries"
WAITING = ("event_loop",)
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


def _way(m: Any) -> str:
    """What a program calls its library by."""
    return str(m.__name__).rpartition("_")[2]


def _text(m: Any, call: Callable[[], Any]) -> Callable[[], str]:
    """What gets a `str` of a function's text."""
    ffi = getattr(m, "ffi", None)
    made: dict[str, Callable[[], str]] = {
        "nativecall": call,
        "cffi": lambda: ffi.string(call()).decode(),
        "ctypes": lambda: call().decode(),
    }
    return made[_way(m)]


def _quadrature(m: Any) -> dict[str, Callable[[], object]]:
    gsl = m.gsl

    def given(x: float, params: object) -> float:
        return x

    def of_nativecall() -> object:
        return gsl.new("gsl_function", {"function": given})

    def of_cffi() -> object:
        made = m.ffi.callback("double(double, void *)", given, error=m.math.nan, onerror=m.note)
        return made, m.ffi.new("gsl_function *", {"function": made})

    def of_ctypes() -> object:
        def guarded(x: float, params: object) -> float:
            try:
                return given(x, params)
            except Exception:  # whatever the integrand raises
                return float("nan")

        return m.GslFunction(m.FUNCTION(guarded))

    def freed() -> None:
        gsl.gsl_integration_workspace_free(gsl.gsl_integration_workspace_alloc(1000))

    made = {"nativecall": of_nativecall, "cffi": of_cffi, "ctypes": of_ctypes}[_way(m)]
    return {
        "an integral of a Python function": lambda: m.integral(abs, 0.0, 1.0),
        "a struct with a Python function": made,
        "a workspace made and freed": freed,
        "the text of an error": _text(m, lambda: gsl.gsl_strerror(1)),
    }


def _zlib(m: Any) -> dict[str, Callable[[], object]]:
    data = b"".join(b"%d squared is %d. " % (i, i * i) for i in range(20))
    packed = b"".join(m.compressed(data))
    out = bytearray(256)

    def of_nativecall() -> object:
        return m.z.new("z_stream", {"next_in": data})

    def of_cffi() -> object:
        stream = m.ffi.new("z_stream *")
        stream.next_in = source = m.ffi.from_buffer("unsigned char[]", data)
        return stream, source

    def of_ctypes() -> object:
        stream = m.ZStream()
        stream.next_in = m.ct.cast(m.ct.c_char_p(data), m.ct.c_void_p)
        return stream

    found = {}
    if _way(m) != "ctypes":
        ffi, name = (m.ffi, "unsigned char[]") if _way(m) == "cffi" else (m.z.ffi, "Bytef[]")
        found["a buffer as an array of C"] = lambda: ffi.from_buffer(name, out)
    made = {"nativecall": of_nativecall, "cffi": of_cffi, "ctypes": of_ctypes}[_way(m)]
    return {
        **found,
        "a stream with 400 bytes to read": made,
        "compressing 400 bytes": lambda: list(m.compressed(data)),
        "decompressing them": lambda: list(m.decompressed(packed)),
    }


def _sqlite(m: Any) -> dict[str, Callable[[], object]]:
    database = m.Database()
    database.define("cube", lambda x: x**3)

    def failing() -> None:
        with contextlib.suppress(RuntimeError):
            database.execute("select y from t")

    rows = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100) select"
    return {
        "100 rows for a Python function": lambda: database.execute(
            f"{rows} i from n", lambda *_: None
        ),
        "100 calls from SQL": lambda: database.execute(f"{rows} sum(cube(i)) from n"),
        "a statement": lambda: database.execute("select 1"),
        "a statement that fails": failing,
        "the text of the last error": _text(m, lambda: m.lite.sqlite3_errmsg(database.db)),
        "a database opened and closed": m.Database,
        "a Python function given to SQL": lambda: database.define("twice", abs),
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
    cffi = m.ffi if hasattr(m, "ffi") else maker

    def made() -> object:
        return cffi.new("city[]", given[:3])

    def of_ctypes() -> object:
        return (m.City * 3)(*given[:3])

    def name_of_ctypes() -> str:
        name: str = cities[0].name.decode()
        return name

    found["3 structs from a list"] = of_ctypes if _way(m) == "ctypes" else made
    found["a name in a struct"] = {
        "nativecall": lambda: m.nc.string(cities[0].name, "ascii"),
        "cffi": lambda: cffi.string(cities[0].name).decode(),
        "ctypes": name_of_ctypes,
    }[_way(m)]
    found["50 structs sorted by a Python function"] = lambda: m.sort(cities, lambda a: a.latitude)
    return found


def _walking(m: Any) -> dict[str, Callable[[], object]]:
    def failing() -> None:
        with contextlib.suppress(OSError):
            m.walk("/nowhere/at/all", lambda *_: 0)

    return {
        "a walk through 12 files": lambda: m.walk(_folder(), lambda *_: 0),
        "a walk that fails": failing,
    }


def _event_loop(m: Any) -> dict[str, Callable[[], object]]:
    loop, uv = m.Loop(), m.uv
    loop.every(100_000, abs)  # which never comes
    timer = loop.kept[0] if _way(m) != "cffi" else m.ffi.cast("uv_timer_t *", loop.kept[0])

    def visit(timer: object) -> None:
        pass

    def checked_by_the_library() -> None:
        uv.uv_timer_start(timer, visit, 100_000, 100_000)
        uv.uv_timer_stop(timer)

    def started(passed: object) -> None:
        m.check(uv.uv_timer_start(timer, passed, 100_000, 100_000))
        m.check(uv.uv_timer_stop(timer))

    def every(made: Callable[[Any], object]) -> None:
        loop.every(100_000, abs)
        uv.uv_timer_stop(made(loop.kept))

    starts: dict[str, Callable[[], object]] = {"nativecall": checked_by_the_library}
    if _way(m) == "cffi":
        starts["cffi"] = partial(started, m.ffi.callback("uv_timer_cb", visit))
        made = partial(every, lambda kept: m.ffi.cast("uv_timer_t *", kept[-2]))
    elif _way(m) == "ctypes":
        starts["ctypes"] = partial(started, m.CALLBACK(visit))
        made = partial(every, itemgetter(-2))
    else:
        made = partial(every, itemgetter(-1))
    return {
        "a timer started and stopped": starts[_way(m)],
        "a timer made, started and stopped": made,
    }


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
    "event_loop": _event_loop,
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
                found = rows(module)
                if program not in WAITING:
                    found[f"the program '{program}'"] = _quietly(module.main)
                for run in found.values():
                    run()
            except Exception as error:  # a peer that is not there, or cannot
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
