"""Pointers that the caller is to free or close, and what becomes of them: `free=` and `close=`.

The core makes an object of ffi.gc() of each pointer that a function with such a policy returns
(csrc/values/destructor.h). With `free=` the function that is named runs when the object goes, or at
``ffi.release(object)``. When Python calls such a function, the object that it was called with is
refused from then on, by all functions, unless that call raises an exception. It is freed once, also
where several threads try.

Where a call raises, what it has given all the same, as its result or in out-parameters, is the
attribute `out` of the exception: freed with that, or by the first function that `close=` names and
that takes nothing more, since nobody else has it. The same holds where a check raises.
"""

from __future__ import annotations

import sys
from collections import namedtuple

from .. import _ext, _lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._ext import FFIData
    from .calloptions import Check

#: The name of the function that has closed a handle; None for one that is open.
ended_by = _ext.ended_by


def check_open(handle: object, who: str) -> None:
    """ValueError for a handle that a function has closed; `who` is its part in the message."""
    closer = ended_by(handle)
    if closer is not None:
        raise ValueError(f"{who} must be open, but {closer!r} was called with it")


def handle(obj: object) -> FFIData:
    """The address of a Python object as a ``void *``: user data for C code.

    It keeps the object. With ``keep=``, C code that keeps a function keeps the handles that are
    passed beside it. A callback gets the object if its signature has ``PyObject *`` where C passes
    the ``void *``: then C **must pass such an address**, or the process crashes.

    Parameters
    ----------
    obj : object

    Returns
    -------
    cffi pointer
        Handles of one object are equal.

    Examples
    --------
    >>> import nativecall
    >>> libc = nativecall.load(None, "void qsort_r(void *, size_t, size_t, "
    ...                              "int (*)(const void *, const void *, void *), void *);")
    >>> @nativecall.callback("int (const char *, const char *, PyObject *)")
    ... def by_rank(one, other, ranks):
    ...     return ranks[one[0]] - ranks[other[0]]
    >>> text = bytearray(b"cab")
    >>> libc.qsort_r(text, 3, 1, by_rank, nativecall.handle(dict(zip(b"cba", range(3)))))
    >>> text
    bytearray(b'cba')
    """
    return _lib.ffi.gc(_lib.ffi.cast("void *", id(obj)), _ext.Destructor(obj))


def is_cdata(value: object) -> bool:
    """Whether a value is data of cffi's, of any kind."""
    backend = sys.modules.get("_cffi_backend")
    return backend is not None and isinstance(_ext.bare(value), backend._CDataBase)


class Handled(namedtuple("Handled", ["then", "owns", "ends", "index"])):
    """A check of results whose pointers the caller is to free or close, or of a function that frees
    or closes an argument.

    Attributes
    ----------
    then : callable or None
        Another check, which sees the results.
    owns : tuple or None
        The name of the function that frees, and it, or None where the object is not to call it;
        then the same of what frees or closes pointers that a call gave before it raised.
    ends : str or None
        The name of the function, where it ends argument `index`.
    """

    __slots__ = ()
    then: Check | None
    owns: tuple[object, ...] | None
    ends: str | None
    index: int  # not what tuples have by this name

    def __call__(
        self, result: object, function: Callable[..., object], values: tuple[object, ...]
    ) -> object:
        """What the check alone makes of a result; the core does the rest in calls."""
        return result if self.then is None else self.then(result, function, values)


def parts(check: Check | None) -> tuple[Check | None, object, str | None, int]:
    """What sees the results of calls, what they own, and the name and the argument of what ends."""
    return check if isinstance(check, Handled) else (check, None, None, -1)
