"""Single-flight: what several threads want at once is made by one of them, without a lock.

::

    once(key, find, make)    # what find() finds, made by make() in one thread at a time

Guarantees:

- Threads that ask for one key at once get one object, made once: the first one makes it, the others
  wait for it. A thread that is making something never waits for another (a finalizer that runs in
  it may ask for something, too): it makes it for itself. Hence no thread waits for one that waits.
- An exception of `make` is the caller's alone: who waited tries again.
- Once Python ends there are no other threads, and nobody waits.
- The child of a fork does not wait for what other threads of its parent were making.
"""

from __future__ import annotations

import os
from _thread import _local, allocate_lock, get_ident  # threading is more, and takes its time
from sys import is_finalizing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ._ext import Foreign

    _Made = TypeVar("_Made")


class _Flight:
    """Something that one thread makes while others wait for it."""

    __slots__ = ("done", "made", "thread")

    def __init__(self) -> None:
        self.thread = get_ident()
        try:
            self.done = allocate_lock()  # held while it is made
        except RuntimeError:  # as CPython says it
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
            # A signal handler may fork while its thread waits for this; the thread then makes it.
            flight.done._at_fork_reinit()  # type: ignore[attr-defined]  # typeshed lacks it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def once(
    key: object,
    find: Callable[[], _Made | None],
    make: Callable[[], _Made],
    again: Callable[[], None] = lambda: None,
) -> _Made:
    """What `find` finds, made by `make` if need be, in one thread at a time for each key. `again`
    is called where `make` asks for what it is making; it may raise.
    """
    # Once Python ends, what another thread was making never comes.
    busy = getattr(_this_thread, "busy", False) or is_finalizing()
    while True:
        found = find()
        if found is not None:
            return found
        flight = _Flight()
        try:
            # An atomic operation: of several threads, one stores its own.
            first = _flights.setdefault(key, flight)
            if first is not flight and first.thread == flight.thread:
                again()
            if first is flight or busy:
                _this_thread.busy = True
                # It may have been made between the look above and now.
                found = find()
                made = flight.made = make() if found is None else found
                return made
        finally:
            if _flights.get(key) is flight:
                del _flights[key]
            flight.done.release()
            _this_thread.busy = busy  # last: where memory is short, this alone may fail
        with first.done:
            pass
        shared: _Made | None = first.made
        if shared is not None:
            return shared
