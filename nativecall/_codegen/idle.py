"""Serialize the use of LLVM, and hold it across `os.fork`.

::

    with starting: ...                 # this thread starts LLVM
    keep_for_good() -> bool            # this thread has it from now on, where no other has

There are two reentrant locks: `starting`, and that of llvmlite, which every call of it takes. A
thread that takes both takes `starting` first. A fork takes both, so that the child finds LLVM idle.
"""

from __future__ import annotations

import os
from _thread import RLock  # threading is more, and takes its time
from sys import is_finalizing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._ext import Foreign

starting = RLock()
#: The second is llvmlite's, once that is imported. llvmlite offers no other way to it.
locks: list[Foreign] = [starting]
_held: list[Foreign] = []  # by the thread that forks


def keep_for_good() -> bool:
    """Take LLVM for good, as the last thread of Python may. False, at once, where another thread
    starts it or is at work in it.

    Where it is idle it may not stay so: a thread that Python ended while it waited for a lock
    still gets the lock once it is free, and holds it for ever.
    """
    return all(lock.acquire(blocking=False) for lock in locks)


def _hold() -> None:
    for lock in locks:  # the second comes while the first is held
        # At the end of Python, a thread that was ended may have it for ever.
        if lock.acquire(blocking=not is_finalizing()):
            _held.append(lock)


def _release() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
