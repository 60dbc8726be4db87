"""Single-flight: if several threads request an object at once, one thread creates it for all.

::

    once(key, find, make)    # returns find(), or make() called by one thread at a time

Guarantees:

- Threads that request a key at the same time get the same object. The first thread creates it, and
  the others wait. There is no global lock.
- A thread that is inside `make` never waits. If it requests another key, as a finalizer inside
  `make` may, it calls `make` itself. Hence no thread waits for a thread that waits.
- An exception of `make` propagates only in the thread that called `make`. The threads that waited
  try again.
- During interpreter shutdown no thread waits.
- After a fork, the child does not wait for other threads of its parent.
"""

from __future__ import annotations

import os
from _thread import _local, allocate_lock, get_ident  # importing threading takes longer
from sys import is_finalizing

from ._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ._ext import Foreign

    _Made = TypeVar("_Made")


class _Flight:
    """An object that one thread creates while others wait for it."""

    __slots__ = ("done", "made", "thread")

    def __init__(self) -> None:
        self.thread = get_ident()
        try:
            self.done = allocate_lock()  # held until the object exists
        except RuntimeError:  # CPython's error when memory is short
            raise MemoryError from None
        self.done.acquire()
        self.made: Foreign = None


_flights: dict[object, _Flight] = {}
_this_thread = _local()


def _after_fork() -> None:
    me = get_ident()
    for key, flight in [*_flights.items()]:
        if flight.thread != me:
            del _flights[key]
            # A signal handler may fork while its thread waits in `once`. In the child, that thread
            # then continues and creates the object.
            flight.done._at_fork_reinit()  # type: ignore[attr-defined]  # typeshed lacks it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def once(
    key: object,
    find: Callable[[], _Made | None],
    make: Callable[[], _Made],
    again: Callable[[], None] = lambda: None,
) -> _Made:
    """Return the result of `find`, or of `make` if `find` returns None.

    For each key, only one thread at a time calls `make`. If `make` requests its own key, `again` is
    called; `again` may raise.
    """
    # During shutdown, other threads never finish.
    busy = getattr(_this_thread, "busy", False) or is_finalizing()
    while True:
        found = find()
        if found is not None:
            return found
        flight = _Flight()
        try:
            # setdefault is atomic: exactly one thread stores its flight.
            first = _flights.setdefault(key, flight)
            if first is not flight and first.thread == flight.thread:
                again()
            if first is flight or busy:
                _this_thread.busy = True
                # Another thread may have created the object since the first call of `find`.
                found = find()
                made = flight.made = make() if found is None else found
                return made
        finally:
            if _flights.get(key) is flight:
                del _flights[key]
            flight.done.release()
            _this_thread.busy = busy  # last, since only this can fail when memory is short
        with first.done:
            pass
        shared: _Made | None = first.made
        if shared is not None:
            return shared
