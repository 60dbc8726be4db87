"""Identify the code generator: LLVM, the processor, Python, and this package.

The identity and the IR together determine the machine code. Only LLVM can report its part of the
identity, and importing LLVM takes a tenth of a second. So the identity is stored in the cache. Its
cache key consists of data that can be read without LLVM: stamps of llvmlite's files, the
processor's identification, and the identity of Python and this package. A process that finds the
identity in the cache can use cached object files without LLVM.
"""

from __future__ import annotations

import os
import sys

from .. import _cache, _ext, _lib
from .._version import __version__


def python() -> tuple[object, ...]:
    """Return the identity of this Python and of this package."""
    return (
        sys.implementation.cache_tag,
        getattr(sys, "abiflags", ""),
        sys.hexversion >> 16,
        sys.maxsize,
        __version__,
        _edition(),
    )


#: Folders that do not affect generated code: commands, conformance checks, headers, and interfaces
#: to users and other libraries. If a module in these folders requests code, the key of the request
#: contains all that the module decides. Scanning these files would take a tenth of the time to load
#: a large cached library.
_ELSEWHERE = {"__pycache__", "_bridges", "_callable", "_cli", "_library", "_native_objects"}
_ELSEWHERE |= {"_ufunc", "conformance", "include"}


def _stamp(name: str, status: os.stat_result) -> tuple[str, int, int]:
    """Return a stamp that changes when the file changes."""
    return name, status.st_size, status.st_mtime_ns


def _edition() -> list[tuple[str, int, int]]:
    """Return the stamps of the package's files, which may change while the version does not.

    Folders in `_ELSEWHERE` are omitted. C types, call interfaces and plans are included, since they
    also determine generated code.
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
    """Return the key of the identity; None if LLVM or the processor cannot be identified."""
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
    """Return the identity that another process stored in the cache; None without one."""
    key = _seen()
    found = None if key is None else _cache.shared().get(key)
    return None if found is None else found.decode()


def note(identity: str) -> None:
    """Store in the cache the identity that LLVM reported."""
    key = _seen()
    if key is not None and _cache.shared().get(key) != identity.encode():
        _cache.shared().put(key, identity.encode())
