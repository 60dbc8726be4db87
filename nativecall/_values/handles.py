"""Pointers that the caller is to free or close, and what becomes of them: `free=` and `close=`.

What a function with such a policy returns is an object of `ffi.gc`. With `free=` the function
that is named runs when the object goes, or at ``ffi.release(object)``. The functions that are named
tell when Python calls them: the object that one was called with is refused from then on, by all
functions, unless that call raised an exception. It is freed once, whoever does it, also where
several threads try.

Where a call raises, what it has given all the same, as its result or in out-parameters, is the
attribute `out` of the exception: freed with that, or by the first function that `close=` names and
that takes nothing more, since nobody else has it. The same holds where a check raises.

Objects that are alive at the end of Python are neither freed nor closed.

What is remembered is the object, as long as it lives, not the address, which may be used again:
another object with the same address is not known.
"""

from __future__ import annotations

from gc import get_referents
from sys import is_finalizing
from weakref import ref

import _cffi_backend

from .. import _lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._types import FFIData, Foreign
    from .policies import Check

_GCP = "__CDataGCP"
_ended = _lib.types.ended


def ended_by(handle: object) -> str | None:
    """The name of the function that has closed a handle; None for one that is open."""
    if not _ended:
        return None
    found = _ended.get(id(handle))
    return None if found is None else found[1]


def check_open(handle: object, who: str) -> None:
    """ValueError for a handle that a function has closed; `who` is its part in the message."""
    closer = ended_by(handle)
    if closer is not None:
        raise ValueError(f"{who} must be open, but {closer!r} was called with it")


def keep_out(error: BaseException, found: object) -> None:
    """Have an exception keep what a call has given; what it cannot keep goes here."""
    try:
        error.out = found  # type: ignore[attr-defined]  # most exceptions take any attribute
    except (AttributeError, TypeError):
        return


def _end(handle: object, function: str) -> bool:
    """Remember that a function closes a handle; False where one does so already."""
    key = id(handle)

    def forget(_: object) -> None:
        _ended.pop(key, None)

    entry = ref(handle, forget), function
    return _ended.setdefault(key, entry) is entry


def is_cdata(value: object) -> bool:
    """Whether a value is data of cffi's, of any kind."""
    cls = type(value)
    return cls.__module__ == "_cffi_backend" and "CData" in cls.__name__


class _Free:
    """What cffi calls with a pointer whose object goes."""

    __slots__ = ("function", "handle", "name")

    def __init__(self, name: str, function: Callable[[object], object]) -> None:
        self.name = name
        self.function = function
        self.handle: ref[Foreign] | None = None

    def __call__(self, pointer: FFIData, _ending: Callable[[], bool] = is_finalizing) -> None:
        if _ending():
            return  # the system frees it; what the function needs may be gone
        handle = None if self.handle is None else self.handle()
        if handle is None or _end(handle, self.name):
            self.function(pointer)


class _Close:
    """What cffi calls with a handle whose object goes: it is for the caller to close, unless the
    caller has never got it. Then `free` closes it.
    """

    __slots__ = ("free",)

    def __init__(self) -> None:
        self.free: _Free | None = None

    def __call__(self, pointer: FFIData) -> None:
        if self.free is not None:
            self.free(pointer)


class Owned:
    """A check of results that makes objects of the pointers which the caller is to free or close.

    Parameters
    ----------
    name : str
        Of the function that frees.
    function : callable or None
        It, where the object is to call it.
    then : callable or None
        Another check, which sees the result next.
    closer : tuple of str and callable, optional
        What closes a handle that a call has given before it raised, and its name.
    """

    __slots__ = ("closer", "function", "name", "then")

    def __init__(
        self,
        name: str,
        function: Callable[[object], object] | None,
        then: Check | None,
        closer: tuple[str, Callable[[object], object] | None] | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.then = then
        self.closer = closer or (name, function)

    def __call__(
        self, result: object, function: Callable[..., object], values: tuple[object, ...]
    ) -> object:
        result = _all_owned(result, self.name, self.function)
        if self.then is None:
            return result
        try:
            return self.then(result, function, values)
        except BaseException as error:
            self.failed(error, result)
            raise

    def failed(self, error: BaseException, found: object) -> None:
        """Have an exception keep what a call has given."""
        keep_out(error, _all_owned(found, *self.closer))


def _all_owned(value: Foreign, name: str, function: Callable[[object], object] | None) -> object:
    """What a call gives, with objects for its pointers."""
    if isinstance(value, tuple):
        make: Foreign = getattr(type(value), "_make", tuple)
        return make([_owned(one, name, function) for one in value])
    return _owned(value, name, function)


def _owned(value: object, name: str, function: Callable[[object], object] | None) -> object:
    if isinstance(value, _lib.types.RecordBase):
        for place, one in enumerate(value):
            if is_cdata(one):
                value[place] = _owned(one, name, function)  # as long as the Record
        return value
    if not is_cdata(value):
        return value
    free = None if function is None else _Free(name, function)
    if type(value).__name__ == _GCP:
        for one in get_referents(value):
            if isinstance(one, _Close) and free is not None:
                # The caller was to close it, and has not got it.
                free.handle = ref(value)
                one.free = free
        return value
    if free is None:
        return _cffi_backend.gcp(value, _Close())
    made = _cffi_backend.gcp(value, free)
    free.handle = ref(made)
    return made


class Ending:
    """What a call does to argument `index`, which its function frees or closes, as a check of its
    results.

    The core calls `begin` once the arguments are converted, then `succeed` or `fail`.
    """

    __slots__ = ("index", "name", "then")

    def __init__(self, name: str, index: int, then: Check | None) -> None:
        self.name = name
        self.index = index
        self.then = then

    def __call__(
        self, result: object, function: Callable[..., object], values: tuple[object, ...]
    ) -> object:
        return result if self.then is None else self.then(result, function, values)

    def begin(self, handle: object, function: Foreign) -> None:
        """From here on the handle is refused, in all threads."""
        if _is_owned(handle) and not _end(handle, self.name):
            check_open(handle, f"argument {self.index + 1} of {function.__name__!r}")

    def fail(self, handle: object, function: Foreign) -> None:
        """The function has raised: the handle is open."""
        _ended.pop(id(handle), None)

    def succeed(self, handle: object, function: Foreign) -> None:
        """The function has closed it, so that its object need not."""
        if ended_by(handle) is not None:
            _cffi_backend.gcp(handle, None)


def _is_owned(value: object) -> bool:
    """Whether a pointer is one that a function gave for the caller to free or close."""
    if type(value).__name__ != _GCP or not is_cdata(value):
        return False
    # Only the collector can see what cffi is to call.
    return any([isinstance(one, _Free | _Close) for one in get_referents(value)]) or (
        ended_by(value) is not None
    )
