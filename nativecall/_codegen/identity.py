"""What determines machine code beside its IR: LLVM, the processor, Python, and this package.

LLVM tells it, and to import that takes a tenth of a second. So what it told is noted in the cache,
by what can be seen without it: its files, what the processor says of itself, Python, the package.
With the note a process finds the object files that another one has kept, and needs no LLVM.
"""

from __future__ import annotations

import os
import sys

from .. import _cache, _ext, _lib
from .._version import __version__


def python() -> tuple[object, ...]:
    """The Python that this is, and the edition of this package."""
    return (
        sys.implementation.cache_tag,
        getattr(sys, "abiflags", ""),
        sys.hexversion >> 16,
        sys.maxsize,
        __version__,
        _edition(),
    )


#: Folders that no code comes from: commands, checks of other projects, headers, what users and
#: other libraries see. What they want compiled is in the key of it, to the last detail. Looking at
#: the files takes a tenth of a load of a large library that is kept.
_ELSEWHERE = {"__pycache__", "_bridges", "_callable", "_cli", "_library", "_native_objects"}
_ELSEWHERE |= {"_ufunc", "conformance", "include"}


def _stamp(name: str, status: os.stat_result) -> tuple[str, int, int]:
    """What tells one edition of a file from another."""
    return name, status.st_size, status.st_mtime_ns


def _edition() -> list[tuple[str, int, int]]:
    """Which edition of the package this is: code of one is not for another with its version.

    All else of it counts: what code does is also said by C types, call interfaces and plans.
    """
    package = os.path.dirname(os.path.dirname(__file__))
    found = [_stamp(os.path.basename(_lib.FILE), os.stat(_lib.FILE))]
    folders = [package]
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    found.append(_stamp(entry.path[len(package) + 1 :], entry.stat()))
                elif entry.name not in _ELSEWHERE and entry.is_dir():
                    folders.append(entry.path)
    return sorted(found)


def _seen() -> bytes | None:
    """What can be seen without LLVM, as the key of the note; None where that is not enough."""
    from _frozen_importlib_external import PathFinder  # importlib.machinery imports more

    processor = _ext.processor()
    try:
        spec = PathFinder.find_spec("llvmlite")
        if not processor or spec is None or spec.origin is None:
            return None
        folder = os.path.dirname(spec.origin)
        library = os.path.join(folder, "binding", "libllvmlite.so")
        files = spec.origin, os.path.join(folder, "_version.py"), library
        llvmlite = [_stamp(path, os.stat(path)) for path in files]
        said = repr((llvmlite, processor, python()))
    except (ImportError, OSError, ValueError, AttributeError):
        return None
    return _cache.hashed(f"what LLVM is {said}".encode()).digest()


def noted() -> str | None:
    """What LLVM told a process that saw the same; None where there is no note."""
    key = _seen()
    found = None if key is None else _cache.shared().get(key)
    return None if found is None else found.decode()


def note(identity: str) -> None:
    """Note what LLVM told this process."""
    key = _seen()
    if key is not None and _cache.shared().get(key) != identity.encode():
        _cache.shared().put(key, identity.encode())
