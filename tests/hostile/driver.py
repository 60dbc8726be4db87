"""What runs hostile steps: in children, one kind of step each, so that a crash names its step.

A kind is a module with

    step(world, r)      one hostile step, which draws all that it does from the `random.Random` r
    make(tools)         the world of a child's steps, made once
    missing()           why the kind is left out here, or None
    EXPECTED            exceptions that a step may end with, beside those of every kind
    GROWTH              bytes of memory that a step may leave for good, on average
    REFERENCES          references that a step may leave in the caches, on a debug build, optional
    WARM                steps of a child in which caches fill, before growth is judged, optional

A step works, or ends with an expected exception. All else is a finding: another exception, a wrong
answer (`Finding`), text on stderr, an exception that nobody could catch, a crash, a step that does
not end, and memory that grows. Step n of a seed draws from a generator of its own, so it can be
replayed without those before it.

Guarantees: the parent runs no step; whatever becomes of a child is reported with kind, seed and
step.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import io
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from support import compilecache

HERE = Path(__file__).resolve().parent
KINDS = (
    "conversions",
    "classes",
    "races",
    "endings",
    "echoes",
)
STEP_SECONDS = int(os.environ.get("NATIVECALL_HOSTILE_STEP_SECONDS", "60"))
_SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")


class Finding(Exception):
    """A wrong answer, or what is left behind."""


class Planned(Exception):
    """What hooks of hostile objects raise; a step may end with it."""


class Left(Exception):
    """What a step needs is not here."""


class Tools(NamedTuple):
    """What worlds are made from."""

    folder: Path
    unraisable: list[Any]

    def library(self, name: str) -> Path:
        """A shared library that the parent compiled."""
        return self.folder / f"{name}.so"


# -- the child -----------------------------------------------------------------------------------


def expected(kind: Any) -> tuple[type[BaseException], ...]:
    import nativecall as nc

    common = (Planned, nc.NativeCallError, TypeError, ValueError, OverflowError, BufferError)
    return (*common, RecursionError, *getattr(kind, "EXPECTED", ()))


def _resident() -> int:
    """Bytes of memory in use."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def _references() -> int:
    """On a debug build, references to all that can be reached, as the suite counts them there."""
    if not hasattr(sys, "gettotalrefcount"):
        return 0
    from support import references

    return references.measure()[0]


class Journal:
    """What a child tells its parent: the step that it is at, and its findings."""

    def __init__(self, folder: Path) -> None:
        self.at = os.open(folder / "at", os.O_WRONLY | os.O_CREAT)
        self.log = open(folder / "log", "a", encoding="utf-8")  # noqa: SIM115  # closed at the end
        self.errors = os.fstat(2).st_size

    def begin(self, step: int) -> None:
        os.pwrite(self.at, b"%-20d" % step, 0)

    def tell(self, **what: object) -> None:
        self.log.write(json.dumps(what) + "\n")
        self.log.flush()

    def printed(self) -> str:
        """What came to stderr since the last time."""
        size = os.fstat(2).st_size
        if size == self.errors:
            return ""
        with open("/proc/self/fd/2", "rb") as file:
            file.seek(self.errors)
            text = file.read().decode(errors="replace")
        self.errors = size
        return text

    def close(self) -> None:
        os.close(self.at)
        self.log.close()


def run_child(name: str, seed: str, first: int, steps: int, seconds: float, folder: Path) -> None:
    """Run steps of a kind, and tell the journal in `folder`."""
    faulthandler.enable()
    # Debug builds show what others ignore, and hooks answer True where an int is wanted.
    strict = r".*The ability to return an instance of a strict subclass of"
    warnings.filterwarnings("ignore", strict, DeprecationWarning)
    kind = importlib.import_module(name)
    journal = Journal(folder)
    unraisable: list[Any] = []

    def note(args: Any) -> None:
        text = "".join(traceback.format_exception(args.exc_value or args.exc_type))
        unraisable.append((args.exc_type, f"{args.err_msg} {type(args.object)}: {text}"))

    sys.unraisablehook = note
    threading.excepthook = note
    tools = Tools(folder.parent, unraisable)
    world = kind.make(tools)
    allowed = expected(kind)
    begun = time.monotonic()
    done = 0
    levels: list[tuple[int, int, int]] = []
    every = max(steps // 8, 1)
    next_level = next_watch = 0.0
    for step in range(first, first + steps):
        passed = time.monotonic() - begun
        if passed > seconds:
            break
        if (done % every == 0 if seconds == float("inf") else passed >= next_level) and (
            sys.platform == "linux" and not _SANITIZED
        ):
            gc.collect()
            levels.append((done, _resident(), _references()))
            next_level = passed + seconds / 8
        journal.begin(step)
        if passed >= next_watch:
            # A new thread each time, which is to begin before a step meddles with allocators.
            faulthandler.dump_traceback_later(STEP_SECONDS + 10, exit=True)
            time.sleep(0.01)
            next_watch = passed + 5
        unraisable.clear()
        found = None
        try:
            kind.step(world, random.Random(f"{seed}/{name}/{step}"))
        except allowed:
            pass
        except Finding as error:
            found = f"{error}\n" + "".join(traceback.format_tb(error.__traceback__, -2))
        except Left as error:
            journal.tell(left=str(error))
        except BaseException:
            found = traceback.format_exc()
        done += 1
        if found is None and unraisable:
            found = "nobody could catch: " + "\n".join(text for _, text in unraisable)
        unraisable.clear()
        printed = journal.printed()
        if found is None and printed:
            found = "printed: " + printed
        if found is not None:
            journal.tell(step=step, finding=found)
    faulthandler.cancel_dump_traceback_later()
    journal.begin(-1)
    told = {"done": done, "next": first + done, "printed": journal.errors, "levels": levels}
    journal.tell(
        **told,
        growth=getattr(kind, "GROWTH", 0),
        warm=getattr(kind, "WARM", 0),
        references=getattr(kind, "REFERENCES", getattr(kind, "GROWTH", 0) / 200),
    )
    journal.close()
    # Whatever the steps left behind goes with the interpreter's end, which must be silent.
    del world
    gc.collect()


# -- the parent ----------------------------------------------------------------------------------


class Result:
    """What one kind has come to."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.cases = 0
        self.next = 0
        self.seconds = 0.0
        self.left: set[str] = set()
        self.findings: dict[str, tuple[str, list[int]]] = {}

    def add(self, step: int, text: str) -> bool:
        """Note a finding; whether it is a new one."""
        digits = re.sub(r"0x[0-9a-fA-F]+|\d+", "#", text)
        lines = [line for line in digits.splitlines() if line.strip()]
        key = "\n".join([*lines[:1], *lines[-2:]])[:400]
        new = key not in self.findings
        self.findings.setdefault(key, (text, []))[1].append(step)
        return new


def _how(status: int) -> str:
    if status < 0:
        return f"the process ended by {signal.Signals(-status).name}"
    return f"the process ended with {status}"


class Trial:
    """A run over several kinds."""

    def __init__(self, seed: str, folder: Path, out: io.TextIOBase | Any = sys.stdout) -> None:
        self.seed = seed
        self.folder = folder
        self.out = out
        self.results: dict[str, Result] = {}
        self.lock = threading.Lock()
        self.count = 0

    def say(self, text: str) -> None:
        with self.lock:
            print(text, file=self.out, flush=True)

    def run(self, kind: str, first: int, steps: int, seconds: float = float("inf")) -> int:
        """Run steps of a kind in as many children as it takes; the first step that was not run."""
        result = self.results.setdefault(kind, Result(kind))
        end, at = first + steps, first
        begun = time.monotonic()
        while at < end and time.monotonic() - begun < seconds:
            left = seconds - (time.monotonic() - begun)
            following, done = self._child(result, at, end - at, left)
            result.cases += done
            at = following
        result.seconds += time.monotonic() - begun
        return at

    def _child(self, result: Result, first: int, steps: int, seconds: float) -> tuple[int, int]:
        with self.lock:
            self.count += 1
            folder = self.folder / f"child{self.count}"
        folder.mkdir()
        command = [
            sys.executable,
            str(HERE / "run.py"),
            "--child",
            result.kind,
            "--seed",
            self.seed,
        ]
        command += ["--first", str(first), "--steps", str(steps), "--journal", str(folder)]
        if seconds != float("inf"):
            command += ["--seconds", str(seconds)]
        out, errors = folder / "out", folder / "err"
        limit = 3600 if seconds == float("inf") else seconds + 3 * STEP_SECONDS
        with open(out, "wb") as stdout, open(errors, "ab") as stderr:
            child = subprocess.Popen(
                command, stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL, cwd=folder
            )
            try:
                status = child.wait(limit)
            except subprocess.TimeoutExpired:
                child.kill()
                status = child.wait()
        told = []
        with contextlib.suppress(FileNotFoundError):
            told = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
        at = -2
        with contextlib.suppress(FileNotFoundError, ValueError):
            at = int((folder / "at").read_text())
        done = steps
        following = first + steps
        printed = 0
        for one in told:
            if "finding" in one:
                self._found(result, one["step"], one["finding"])
            elif "left" in one:
                result.left.add(one["left"])
            elif "done" in one:
                done, following, printed = one["done"], one["next"], one["printed"]
                self._memory(result, first, one)
        if status != 0:
            text = errors.read_text(errors="replace")
            tail = text if len(text) < 6000 else text[:4000] + "\n...\n" + text[-2000:]
            where = max(at, first)
            what = "while it ended" if at == -1 else "before its first step" if at == -2 else ""
            self._found(result, where, f"{_how(status)} {what}\n{tail}".strip())
            if at >= 0:
                done, following = at + 1 - first, at + 1
            elif at == -2:
                done = 0
        elif at == -1 and errors.stat().st_size > printed:
            text = errors.read_bytes()[printed:].decode(errors="replace")
            self._found(result, first, f"printed at the end: {text[-3000:]}")
        return following, done

    def _memory(self, result: Result, first: int, told: dict[str, Any]) -> None:
        """See that what steps leave behind does not grow, in the later half of a child's life."""
        levels = told["levels"][len(told["levels"]) // 2 :]
        levels = [one for one in levels if one[0] >= told["warm"]]
        if len(levels) < 3 or levels[-1][0] - levels[0][0] < 100:
            return
        steps = levels[-1][0] - levels[0][0]
        grown = min(b[1] - a[1] for a, b in itertools.pairwise(levels))
        total = levels[-1][1] - levels[0][1]
        if grown > 0 and total > max(steps * told["growth"], 8 << 20):
            text = f"memory grows: {total / steps:.0f} bytes a step over {steps} steps"
            self._found(result, first, text)
        counts = [b[2] - a[2] for a, b in itertools.pairwise(levels)]
        if min(counts) > 0 and sum(counts) > max(steps * told["references"], 5000):
            text = f"references grow: {sum(counts) / steps:.1f} a step over {steps} steps"
            self._found(result, first, text)

    def _found(self, result: Result, step: int, text: str) -> None:
        if result.add(step, text):
            self.say(
                f"\n== {result.kind}: step {step} of seed {self.seed}\n{text.rstrip()}\n"
                f"   replay: python {HERE / 'run.py'} --replay {result.kind}:{self.seed}:{step}"
            )

    def table(self) -> str:
        """Kind, cases, findings."""
        lines = [f"{'kind':<14}{'cases':>10}{'findings':>10}{'seconds':>9}  left out"]
        for kind, result in self.results.items():
            left = "; ".join(sorted(result.left))
            lines.append(
                f"{kind:<14}{result.cases:>10}{len(result.findings):>10}"
                f"{result.seconds:>9.0f}  {left}"
            )
        total = sum(one.cases for one in self.results.values())
        lines.append(f"{'all':<14}{total:>10}{self.findings:>10}")
        return "\n".join(line.rstrip() for line in lines)

    @property
    def findings(self) -> int:
        return sum(len(one.findings) for one in self.results.values())


def compile_libraries(folder: Path, kinds: list[str]) -> None:
    """What the kinds' worlds load: C sources of theirs, each compiled once."""
    compiler = next(filter(None, [os.environ.get("CC"), "cc"]))
    flags = os.environ.get("NATIVECALL_TEST_CFLAGS", "").split()
    for kind in kinds:
        source = getattr(importlib.import_module(kind), "SOURCE", None)
        if source is None:
            continue
        path = folder / f"{kind}.c"
        path.write_text(source() if callable(source) else source, encoding="utf-8")
        include = "-I" + importlib.import_module("nativecall").get_include()
        command = [*compiler.split(), include, "-O1", "-g", "-shared", "-fPIC", "-pthread", "-w"]
        made = folder / f"{kind}.so"
        # The compiler must not meet a sanitizer's runtime that is meant for the children.
        with mock.patch.dict(os.environ):
            os.environ.pop("LD_PRELOAD", None)
            compilecache.compiled([*command, *flags, str(path), "-o", str(made), "-lm"], made)


@contextlib.contextmanager
def working_folder(kept: str | None = None) -> Any:
    """A folder for libraries and journals."""
    if kept is not None:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield Path(kept)
        return
    with tempfile.TemporaryDirectory(prefix="nativecall-hostile-") as folder:
        yield Path(folder)
