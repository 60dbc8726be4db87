"""Serialize the use of LLVM, and quiesce it across `os.fork`.

::

    with starting: ...                 # this thread starts LLVM
    keep_for_good() -> bool            # lock LLVM for this thread for good, if it is idle

There are two reentrant locks: `starting`, and the lock that llvmlite takes in every call. A thread
that needs both takes `starting` first. A fork takes both, so that LLVM is idle in the child.
"""

from __future__ import annotations

import os
from _thread import RLock  # importing threading takes longer
from sys import is_finalizing

from .._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from .._ext import Foreign

starting = RLock()
#: The second is llvmlite's private lock, once llvmlite is imported.
locks: list[Foreign] = [starting]
_held: list[Foreign] = []  # locks held by the forking thread


def keep_for_good() -> bool:
    """Lock LLVM for good during interpreter shutdown; return False at once if it is in use.

    Even a lock that is free now could block later: a thread that Python ended while waiting for the
    lock still acquires it, and never releases it.
    """
    return all(lock.acquire(blocking=False) for lock in locks)


def _hold() -> None:
    for lock in locks:  # llvmlite's lock may be added while the first is held
        # During shutdown, a thread that Python ended may hold the lock for good.
        if lock.acquire(blocking=not is_finalizing()):
            _held.append(lock)


def _release() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
