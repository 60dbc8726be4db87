"""``nativecall doctor``: report what works on this machine, what uses a slower fallback, and why.

The tests make calls, callbacks and conversions and compare their values, write a file into the
cache and delete it, compile a line of C, and import the packages. Each test adds a line to the
table, even if it fails. The command leaves files only in the cache, and changes nothing else.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
from contextlib import suppress
from importlib import import_module, metadata

from .._cache import Cache, directory
from .._cdecl import preprocessor
from .._errors import TYPE_CHECKING, LibraryError
from .._output import Output, Row
from .._slots import get_include
from .cache import none_chosen, unwritable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    _Line: TypeAlias = tuple[str, str, str, str]

_GOOD, _FALLBACK, _BAD, _ABSENT = "✓", "·", "✗", " "
#: What nativecall uses other packages for, if they are installed.
_PACKAGES = {
    "cffi": "declarations, memory, calls without generated code",
    "llvmlite": "generated code",
    "numpy": "arrays",
    "rich": "colour",
    "scipy": "to_scipy",
    "numba": "jitted functions",
    "Cython": "cimport nativecall",
}
#: Environment variables: the value with an effect, and the purpose.
_SETTINGS = {
    "NATIVECALL_JIT": ("0", "no generated code"),
    "NATIVECALL_TRACE": ("1", "calls in frames with their names, a microsecond slower"),
    "NATIVECALL_PERF": ("1", "names of generated code for perf, in /tmp/perf-PID.map"),
}
_REQUIRED = {"cffi"}
_REPORT = "please report this"
_TRIED = "nativecall_tried"  # the name of the function in the line of C


def run() -> int:
    """Test everything and show the results; return 1 if something essential does not work."""
    output = Output()
    parts = [_system, _tried, _kept, _headers, _packages]
    rows = [row for part in parts for row in part()]
    shown = [Row(*row, style="bad" if row[0] == _BAD else "") for row in rows]
    output.table(["", "what", "found", "means"], shown)
    failed = [row for row in rows if row[0] == _BAD]
    output.space()
    if failed:
        output.text(f"does not work: {', '.join([row[1] for row in failed])}", "bad")
        return 1
    slower = [row[1] for row in rows if row[0] == _FALLBACK]
    better = f", but these could work better: {', '.join(slower)}" if slower else ""
    output.text(f"everything works{better}")
    return 0


def _told(error: BaseException) -> str:
    """Return an exception in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _system() -> Iterator[_Line]:
    version = platform.python_version() + (" debug" if hasattr(sys, "gettotalrefcount") else "")
    yield _GOOD, "interpreter", f"{platform.python_implementation()} {version}", sys.executable
    yield (
        _GOOD,
        "machine",
        f"{platform.system()} {platform.machine()}",
        " ".join(platform.libc_ver()),
    )
    yield _GOOD, "nativecall", metadata.version("nativecall"), os.path.dirname(get_include())
    for name, (value, means) in _SETTINGS.items():
        chosen = os.environ.get(name, "")
        if chosen == value:
            yield _GOOD, "settings", f"{name}={chosen}", means
        elif chosen not in ("", "0", "1"):
            found = f"{name}={chosen}"
            yield _FALLBACK, "settings", found, f"unknown and ignored; {value} means {means}"


def _tried() -> Iterator[_Line]:
    """Yield a line each for calls, callbacks and conversions, with their implementation."""
    names = "calls", "callbacks", "conversions"
    try:
        from .. import callback, wrap
        from .._codegen import engine

        why = " ".join(engine.reason().split())
        double = callback("q:qq", lambda a, b: 2 * a + b)
        # For four arguments of mixed types, no trampoline was compiled ahead of time.
        mixed = callback("d:dqfi", lambda a, b, c, d: a + b + c + d)
    except Exception as error:  # report any failure
        yield from [(_BAD, name, _told(error), "") for name in names]
        return
    generated = "plans" if why else "generated code"
    sign = _FALLBACK if why else _GOOD
    carried = *[(_GOOD, "plans", "")] * 2, (sign, generated, why)
    tries: tuple[Callable[[], bool], ...] = (
        lambda: wrap(mixed.address(), "d:dqfi", owner=mixed)(0.5, 1, 2.0, 3) == 6.5,
        lambda: wrap(double.address(), "q:qq", owner=double)(20, 2) == 42,
        lambda: wrap(double).bind(20).convert("d:d")(2.0) == 42.0,
    )
    for name, right, (good, how, because) in zip(names, tries, carried, strict=True):
        try:
            found = "" if right() else "a wrong value"
        except Exception as error:  # report any failure
            found = _told(error)
        yield (_BAD, name, found, _REPORT) if found else (good, name, how, because)


def _kept() -> Iterator[_Line]:
    cache = Cache(directory())
    if cache.where is None:
        means = f"compiled again by each process: {none_chosen()}"
        yield _FALLBACK, "cache", "in memory", means
        return
    refusal = cache.refusal()
    means = refusal and f"not used: {refusal}"
    if not refusal:
        refusal = unwritable(cache)
        means = f"nothing more is kept: {refusal}" if refusal else "kept between processes"
    yield _FALLBACK if refusal else _GOOD, "cache", cache.where, means


def _headers() -> Iterator[_Line]:
    command: list[str] | None = None
    with suppress(LibraryError):  # raised if CC is wrong; the line below shows CC
        command = preprocessor.compiler()
    if command is None:
        chosen = os.environ.get("CC", "").strip()
        found = f"CC={chosen} is not found" if chosen else "none"
        yield _FALLBACK, "C compiler", found, "header= needs one, declarations given as text do not"
        return
    failed = _compiled(command)
    means = f"header= fails: {failed}; set CC to another" if failed else "header=, inline functions"
    yield _FALLBACK if failed else _GOOD, "C compiler", shlex.join(command), means


def _compiled(command: list[str]) -> str:
    """Return why a compiler cannot compile a line of C; ``""`` if it can."""
    try:
        line = f"int {_TRIED}(void) {{ return 1; }}\n"
        done = preprocessor.call([*command, "-x", "c", "-S", "-o", "-", "-"], line)
    except LibraryError as error:
        return str(error)
    said = done.stderr.strip().splitlines()
    if done.returncode:
        return f"it exits with status {done.returncode}" + (f", {said[0]}" if said else "")
    return "" if _TRIED in done.stdout else "it generates no code"


def _packages() -> Iterator[_Line]:
    for package, use in _PACKAGES.items():
        try:
            version = metadata.version(package)
            import_module(package)
        except metadata.PackageNotFoundError:
            yield _BAD if package in _REQUIRED else _ABSENT, package, "not installed", use
        except Exception as error:  # a broken package may raise anything
            sign = _BAD if package in _REQUIRED else _FALLBACK
            yield sign, package, f"{version}, broken", f"{use}: {_told(error)}"
        else:
            yield _GOOD, package, version, use
