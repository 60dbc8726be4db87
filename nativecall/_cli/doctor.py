"""``nativecall doctor``: what works on this machine, what falls back to something slower, and why.

Each line was tried, not guessed: a call, a callback and a conversion are made and their values
compared. Nothing is changed, and nothing is written but what the cache keeps.
"""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

from .._slots import get_include
from .output import Output, Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GOOD, _FALLBACK, _BAD, _ABSENT = "✓", "·", "✗", " "
#: What nativecall does with other packages, where they are.
_PACKAGES = {
    "cffi": "declarations, memory, calls without generated code",
    "llvmlite": "generated code",
    "numpy": "arrays",
    "platformdirs": "a cache on disk",
    "pcpp": "headers where there is no C compiler",
    "rich": "colour",
    "scipy": "to_scipy",
    "numba": "jitted functions",
    "Cython": "cimport nativecall",
}
_REQUIRED = {"cffi", "numpy"}


def run() -> int:
    """Try everything and show it; 1 when something that nativecall needs does not work."""
    output = Output()
    rows = [*_system(), *_tried(), *_kept(), *_headers(), *_packages()]
    shown = [Row(*row, style="bad" if row[0] == _BAD else "") for row in rows]
    output.table(["", "what", "found", "means"], shown)
    failed = [row for row in rows if row[0] == _BAD]
    output.space()
    if failed:
        output.text(f"does not work: {', '.join([row[1] for row in failed])}", "bad")
        return 1
    slower = [row[1] for row in rows if row[0] == _FALLBACK]
    output.text(
        f"all works; not as well as it could: {', '.join(slower)}" if slower else "all works"
    )
    return 0


def _system() -> Iterator[tuple[str, str, str, str]]:
    version = platform.python_version() + (" debug" if hasattr(sys, "gettotalrefcount") else "")
    yield _GOOD, "interpreter", f"{platform.python_implementation()} {version}", sys.executable
    yield (
        _GOOD,
        "machine",
        f"{platform.system()} {platform.machine()}",
        " ".join(platform.libc_ver()),
    )
    yield _GOOD, "nativecall", metadata.version("nativecall"), os.path.dirname(get_include())


def _tried() -> Iterator[tuple[str, str, str, str]]:
    """Calls each way, and what carries them out."""
    from .. import callback, wrap
    from .._codegen import engine

    why = engine.reason()
    carried = "libffi" if why else "generated code"
    sign = _FALLBACK if why else _GOOD
    double = callback("q:qq", lambda a, b: 2 * a + b)
    # Four arguments of mixed types: there is no trampoline ahead of time.
    mixed = callback("d:dqfi", lambda a, b, c, d: a + b + c + d)
    tries: dict[str, Callable[[], bool]] = {
        "calls": lambda: wrap(mixed.address(), "d:dqfi", owner=mixed)(0.5, 1, 2.0, 3) == 6.5,
        "callbacks": lambda: wrap(double.address(), "q:qq", owner=double)(20, 2) == 42,
        "conversions": lambda: wrap(double).bind(20).convert("d:d")(2.0) == 42.0,
    }
    for name, right in tries.items():
        try:
            good = right()
            found = carried if good else "a wrong value"
        except Exception as error:  # whatever it is, it is what the reader wants to know
            good, found = False, f"{type(error).__name__}: {error}"
        yield (sign, name, found, why) if good else (_BAD, name, found, "please report this")


def _kept() -> Iterator[tuple[str, str, str, str]]:
    from .._cache import Cache, directory

    cache = Cache(directory())
    if cache.where is None:
        means = "compiled again by each process: install platformdirs, or set NATIVECALL_CACHE_DIR"
        yield _FALLBACK, "cache", "in memory", means
        return
    refusal = cache.refusal()
    yield _FALLBACK if refusal else _GOOD, "cache", cache.where, refusal or "kept between processes"


def _headers() -> Iterator[tuple[str, str, str, str]]:
    import shlex

    from .._signature import preprocessor

    command = preprocessor.compiler()
    if command is not None:
        yield _GOOD, "C compiler", shlex.join(command), "header=, inline functions"
    elif _version("pcpp"):
        yield _FALLBACK, "C compiler", "none", "headers are read by pcpp, without inline functions"
    else:
        yield _FALLBACK, "C compiler", "none", "header= needs one, or the package pcpp"


def _packages() -> Iterator[tuple[str, str, str, str]]:
    for package, use in _PACKAGES.items():
        version = _version(package)
        missing = _BAD if package in _REQUIRED else _ABSENT
        yield _GOOD if version else missing, package, version or "not installed", use


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
