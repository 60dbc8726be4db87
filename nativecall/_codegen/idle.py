"""Who has LLVM: one thread at a time, and nobody while the process forks.

::

    with starting: ...                 # this thread starts LLVM
    keep_for_good() -> bool            # this thread has it from now on, where no other has
    hold(), release(), begin_anew()    # for a fork (_fork.py)

Two locks, which know their owner: `starting`, and that of llvmlite, which every call of it takes.
Who takes both takes `starting` first.
"""

from __future__ import annotations

from _thread import RLock  # threading is more, and takes its time
from sys import is_finalizing

from . import flights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType

    from .._types import Foreign

starting = RLock()
#: The second is llvmlite's, once that is imported. llvmlite offers no other way to it.
locks: list[Foreign] = [starting]
_locked: list[LockType | RLock] = []  # what the thread that forks holds


def keep_for_good() -> bool:
    """Take LLVM for good, as the last thread of Python may. False, at once, where another thread
    starts it or is at work in it.

    Where it is idle it may not stay so: a thread that Python ended while it waited for a lock
    still gets the lock once it is free, and holds it for ever.
    """
    return all(lock.acquire(blocking=False) for lock in locks)


def hold() -> None:
    """Wait until LLVM is idle, and keep other threads from it until `release`."""
    if is_finalizing():  # who has it now has it for ever
        keep_for_good()
        return
    for lock in locks:  # the second comes while the first is held
        lock.acquire()
        _locked.append(lock)


def release() -> None:
    """The end of `hold`, in the parent and in the child, whose only thread it is that forked."""
    while _locked:
        _locked.pop().release()


def begin_anew() -> None:
    """No thread of a child waits for what the parent's others were making."""
    flights.begin_anew()
