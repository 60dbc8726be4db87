"""What a fork waits for: imports that other threads are in the middle of, and generated code.

The lock of a module that another thread is importing stays locked in the child, which would wait
for it for ever. Much of this package, and the libraries that it uses, is imported when it is first
needed. So a fork waits until no thread is importing any of that, and none begins to until it is
over. It waits for LLVM (_codegen/idle.py) and for cffi's parser (_signature/cffitype.py), too.
Where an import takes longer than the limit, perhaps because it waits for the thread that forks, the
fork goes on.
"""

import _frozen_importlib  # what importlib is made of; that imports more
import _imp
import os
import sys
import time
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Holder(Protocol):
        """A module that a fork waits for."""

        def hold(self) -> None: ...
        def release(self) -> None: ...
        def begin_anew(self) -> None: ...


__all__: list[str] = []

_PACKAGE = __name__.partition(".")[0]
# Modules whose `hold` waits until other threads are done and keeps them off until `release`.
_HOLDERS = (f"{_PACKAGE}._codegen.idle", f"{_PACKAGE}._signature.cffitype")
#: What functions of this package import: packages with all that is in them, and modules.
_OURS = frozenset(
    f"{_PACKAGE} llvmlite numpy scipy cffi _cffi_backend pycparser ctypes _ctypes platformdirs "
    "inspect keyword mmap hashlib importlib collections threading contextlib weakref fractions "
    "copy difflib re warnings pkgutil types fnmatch subprocess tempfile bisect html".split()
)
_LIMIT = 30.0  # seconds
_BRIEF = 1.0  # seconds that a thread takes from finding a module's lock to having it, at most
_held: "list[list[Holder]]" = []  # what the thread that forks has to release


def _importing(brief: bool) -> bool:
    """Whether another thread is importing what is ours or, if `brief`, is about to."""
    # CPython has no public way to see it. A lock exists as long as a thread imports its module.
    locks: dict[object, Callable[[], object]] = getattr(_frozen_importlib, "_module_locks", {})
    others = (get_ident(),) if brief else (get_ident(), None)
    for name, reference in [*locks.items()]:
        if isinstance(name, str) and name.partition(".")[0] in _OURS:
            lock = reference()
            if lock is not None and getattr(lock, "owner", None) not in others:
                return True
    return False


def _holders() -> "list[Holder]":
    """The modules of `_HOLDERS` that there are, as far as they are ready."""
    found = [sys.modules.get(name) for name in _HOLDERS]
    # `begin_anew` is the last that they define: what has it has the rest of `Holder`.
    return [one for one in found if hasattr(one, "begin_anew")]  # type: ignore[misc]  # as said


def _before() -> None:
    start = time.monotonic()
    while True:
        holders = _holders()
        for module in holders:
            module.hold()
        # No thread begins to import while this is held; the fork itself takes it, too.
        _imp.acquire_lock()
        waited = time.monotonic() - start
        ready = not _importing(waited < _BRIEF) and holders == _holders()
        # At the end of Python others are done with nothing any more.
        if ready or waited > _LIMIT or sys.is_finalizing():
            _held.append(holders)
            return
        _imp.release_lock()
        for module in holders:
            module.release()
        time.sleep(0.001)


def _after() -> None:
    if _held:
        _imp.release_lock()
        for module in _held.pop():
            module.release()


def _after_in_child() -> None:
    _after()
    for module in _holders():
        module.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
