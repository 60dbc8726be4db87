"""`f.specialize`: a hook that is asked for the entries that a native callable does not have yet.

SEP 201 leaves it open how a table gets the signatures that were not foreseen. Here a look for
one, through `f[signature]`, `f.address`, `f.to_*`, `f.convert`, `wrap`, or from C through
callback.h, dynamiccall.h and every other reader of `__nativecall_api__`, asks the hook for it,
and adds the answer to the table. Readers of the table itself ask nothing and go on meanwhile.

Guarantees: a hook is asked once for a signature, whatever the number of threads that look for it
("single-flight"). The others wait for the answer, with no lock held but that of the flight. That
the hook has none is remembered, of the last 256 such signatures, until another hook is set; an
exception is not. A thread that would wait for one that waits for it gets RuntimeError instead.
"""

from __future__ import annotations

import os
from _thread import RLock, allocate_lock, get_ident

from .. import _lib
from .._errors import NoEntryError, SignatureError
from .._fifo import Fifo
from .._signature.spelling import parse
from .._values.failure import check_errors
from .entry import Options, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._signature.signature import Signature
    from .._values.boxes import Native
    from .entry import HowKept, NewEntry

    Hook = Callable[[Native, str], object]

_types = _lib.types


class Specializer:
    """A callable's hook, and what it has no answer to: what the core keeps in the callable."""

    __slots__ = ("hook", "missing")

    def __init__(self, hook: Hook) -> None:
        if not callable(hook):
            raise TypeError(
                "'specialize' must be a function of a callable and a signature, or None "
                f"(got {type(hook).__name__})"
            )
        self.hook = hook
        self.missing: Fifo[str, None] = Fifo()


class _Flight:
    """A signature that a hook is being asked for, once for all threads that look for it."""

    __slots__ = ("answered", "thread")

    def __init__(self) -> None:
        self.thread = get_ident()
        try:
            self.answered = allocate_lock()
        except RuntimeError:  # as CPython says it
            raise MemoryError from None
        self.answered.acquire()


# What is being asked, by the callable's address (the asking thread holds a reference) and the
# signature, and which of it a thread waits for. The key has no hook in it: one that sets another
# hook and asks again goes in a circle all the same. The lock is held to look and to decide, never
# while a hook runs; the thread that has it may take it again, for the collector may run code that
# asks.
_flights: dict[tuple[int, str], _Flight] = {}
_waits: dict[int, _Flight] = {}
_deciding = RLock()


def _after_fork() -> None:
    """Flights of threads that the child does not have are begun again."""
    _deciding._at_fork_reinit()  # type: ignore[attr-defined]  # typeshed leaves it out
    me = get_ident()
    for thread in [*_waits]:
        if thread != me:
            del _waits[thread]
    for key, flight in [*_flights.items()]:
        if flight.thread != me:
            del _flights[key]
            # A thread that waits for it asks: a signal handler may fork while its thread waits.
            flight.answered._at_fork_reinit()  # type: ignore[attr-defined]  # as above


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def ask(whole: Native, text: str) -> None:
    """Ask the hook of a callable, if it has one, for a signature that is missing from its table.

    Returns when the entry is there, or when there is none. What the hook raises is raised.

    Parameters
    ----------
    whole : Native
    text : str
        Canonical.
    """
    if not _types.call_table_offset(type(whole)):
        return  # a subclass with a __call__ of its own, which offers no entries
    key = id(whole), text
    while True:
        specializer: Specializer | None = whole._specializer
        if specializer is None or text in specializer.missing or _has(whole, text):
            return
        mine = _Flight()
        try:
            with _deciding:
                flight = _flights.setdefault(key, mine)
            if flight is mine:
                # The answer may have come since we looked.
                if not _has(whole, text) and text not in specializer.missing:
                    _answer(whole, specializer, text)
                return
        finally:
            if _flights.get(key) is mine:
                del _flights[key]
            mine.answered.release()
        _wait(flight, whole, text)


def ask_for_native(whole: Native, text: str) -> None:
    """`ask` for a C consumer, whose signature is checked first: no hook sees what is none."""
    try:
        canonical = parse(text).text == text
    except SignatureError:
        canonical = False
    if canonical:
        ask(whole, text)


def _has(whole: Native, text: str) -> bool:
    return any([entry[0] == text for entry in whole._entries()])


def _wait(flight: _Flight, whole: Native, text: str) -> None:
    """Wait until another thread has its answer, unless that waits for us."""
    me = get_ident()
    with _deciding:
        asked: _Flight | None = flight
        while asked is not None:
            if asked.thread == me:
                raise RuntimeError(
                    f"the specialize hook of {whole.__name__!r} asks for {text!r}, "
                    "which it is being asked for"
                )
            asked = _waits.get(asked.thread)
        # A thread waits once more when code that runs while it waits, a signal handler's, asks.
        before = _waits.get(me)
        _waits[me] = flight
    try:
        with flight.answered:
            pass
    finally:
        with _deciding:
            if before is None:
                del _waits[me]
            else:
                _waits[me] = before


def _answer(whole: Native, specializer: Specializer, text: str) -> None:
    """Ask the hook, and add what it answers."""
    hook = specializer.hook
    answer = hook(whole, text)
    if answer is None:
        # A hook may have added the entry by itself.
        if not _has(whole, text):
            specializer.missing.put(text, None)
        return
    found = _checked(whole, hook, text, answer)
    whole._add_missing(found)


def _checked(whole: Native, hook: Hook, text: str, answer: object) -> NewEntry:
    """The entry that an answer gives, or an error that names the hook."""
    name = getattr(hook, "__qualname__", None) or type(hook).__qualname__
    what = f"{name}(), the specialize hook of {whole.__name__!r}, was asked for {text!r}"
    if answer is whole or _types.viewed(answer) is whole:
        if _has(whole, text):
            return resolve(answer, text, _PLAIN)
        raise TypeError(
            f"{what} and answered with {whole.__name__!r} itself, which has no such entry"
        )
    try:
        return resolve(answer, text, _PLAIN)
    except (SignatureError, NoEntryError) as error:
        reason = error.reason if isinstance(error, SignatureError) else error
        raise SignatureError(f"{what} and gave another function: {reason}") from error
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{what} and gave what is none: {error}") from error


def compiled(target: object, signatures: list[Signature], options: Options) -> list[NewEntry]:
    """The entries of what a compiler's function was compiled for already, where there can be."""
    found = []
    for signature in signatures:
        try:
            found.append(resolve(target, signature, options))
        except SignatureError:
            continue
    return found


def on_demand(target: object, options: HowKept) -> Hook:
    """A hook that has a compiler's function compiled for the signatures that are asked for.

    Those that it is not compiled for, and those whose results cannot show the error convention,
    have no entry: a consumer asks for all that it can use, and takes the first that there is.
    """

    def compile(whole: Native, text: str) -> object:
        signature = parse(text)
        try:
            check_errors(signature, options["errors"])
        except ValueError:
            return None
        try:
            found = resolve(target, signature, Options(whole.__name__, None, **options))
        except SignatureError:
            return None
        return whole._derived(*found.arguments())

    return compile


_PLAIN = Options(None, None, None, "hold", "none", False)
