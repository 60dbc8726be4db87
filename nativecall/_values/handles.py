"""Pointers that the caller must free or close: the options `free=` and `close=`.

If a function with such an option returns a pointer, the core wraps the pointer in an ``ffi.gc()``
object (csrc/values/destructor.h). With `free=`, the named function runs when the object is
deallocated, or at ``ffi.release(object)``. If Python calls a freeing or closing function with the
object, all functions refuse the object afterwards. If that call raises, the object stays valid. The
pointer is freed once, even if several threads try.

If a call or its check raises, the attribute `out` of the exception holds the pointers that C
returned or stored in out-parameters. These pointers are freed with the exception. With `close=`, no
other code can close such a pointer. So the first function of the option that takes no other
argument closes it.
"""

from __future__ import annotations

import sys

from .. import _ext, _lib
from .._errors import TYPE_CHECKING
from .._rows import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._ext import FFIData
    from .calloptions import Check

#: The name of the function that closed a handle; None for an open one.
ended_by = _ext.ended_by


def check_open(handle: object, who: str) -> None:
    """Raise ValueError for a handle that a function has closed; `who` begins the message."""
    closer = ended_by(handle)
    if closer is not None:
        raise ValueError(f"{who} was already freed or closed by {closer!r}")


def handle(obj: object) -> FFIData:
    """Return the address of a Python object as a ``void *``: user data for C code.

    The handle keeps the object alive. With ``keep=``, a handle lives as long as the
    function that is passed in the same call. To get the object in a callback, declare the parameter
    as ``PyObject *``: C then **must pass such an address**, or the process crashes.

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
    """Return whether a value is a cffi object of any kind."""
    backend = sys.modules.get("_cffi_backend")
    return backend is not None and isinstance(_ext.bare(value), backend._CDataBase)


class Handled(NamedTuple):
    """The check of functions that `free=` or `close=` affects.

    The result of such a function must be freed or closed, or the function frees or closes an
    argument.

    Attributes
    ----------
    then : callable or None
        The option ``check=``, called with each result.
    owns : tuple or None
        Two destructors, each as two items: a name, and a function or None. The first is used after
        a successful call. If it has no function, the caller must close the pointer. The second is
        used if the call raises.
    ends : str or None
        The name of the function, if it frees or closes argument `index`.
    """

    then: Check | None
    owns: tuple[object, ...] | None
    ends: str | None
    index: int  # type: ignore[assignment]  # a field, not the method of tuples

    def __call__(
        self, result: object, function: Callable[..., object], values: tuple[object, ...]
    ) -> object:
        """Call only `then`. In calls, the core itself handles `owns` and `ends`."""
        return result if self.then is None else self.then(result, function, values)


def parts(check: Check | None) -> tuple[Check | None, object, str | None, int]:
    """Return the fields of a `Handled`. For any other check, return it and empty fields."""
    return check if isinstance(check, Handled) else (check, None, None, -1)
