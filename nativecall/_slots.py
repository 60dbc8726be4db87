"""Slot tables of types (SEP 200) in Python: the metaclass and the rows."""

from __future__ import annotations

from . import _ext, _lib
from ._errors import TYPE_CHECKING, wrong_type
from ._rows import NamedTuple

extensibletype = _ext.extensibletype
PADDING = 1  # the key of placeholder rows; it may occur more than once


if TYPE_CHECKING:
    from ._ext import Foreign


class Slot(NamedTuple):
    """One row of a type's slot table.

    Attributes
    ----------
    key : bytes or int
        An interned string; an allocated ID (odd); or an address (even). The key 1 marks padding.
    flags : int
        The meaning depends on the slot's definition.
    data : int
        A pointer, or an offset into the type's objects.
    """

    key: bytes | int
    flags: int
    data: int


Slot.__module__ = "nativecall"


def customslots(obj: object) -> tuple[Slot, ...]:
    """Return the rows of an object's slot tables, in the provider's order.

    Parameters
    ----------
    obj : object
        If this is a type that offers slots, the rows of the type itself are returned.

    Returns
    -------
    tuple of Slot
        The object's own rows, then the rows of its type, then those that `__nativecall_slots__`
        offers. Later rows with the key of an earlier one are left out. Empty if there are no rows.

    Raises
    ------
    TypeError
        If `__nativecall_slots__` is neither a capsule of rows nor None.

    Examples
    --------
    >>> import nativecall
    >>> class Shape(metaclass=nativecall.extensibletype):
    ...     __customslots__ = {"area": 0x1000}
    >>> nativecall.customslots(Shape())
    (Slot(key=b'area', flags=0, data=4096),)
    """
    from ._core import ffi, lib

    there = ffi.cast("PyObject *", id(obj))
    if issubclass(type(obj), extensibletype):
        tables = [ffi.cast("PyHeapExtensibleTypeObject *", there).etp_custom_slots]
    else:
        tables = [lib.nc_slots_of_object(there), lib.nc_slots_of(there)]
    rows = [row for one in tables if one for row in lib.nc_slottable_rows(one)[0 : one.count]]
    rows += _offered(obj if issubclass(type(obj), type) else type(obj))
    first = {row.id: row for row in reversed(rows)}
    kept = [row for row in rows if row.id == PADDING or row is first[row.id]]
    return tuple([Slot(_key(row.id), row.flags, row.data.flags) for row in kept])


def _offered(kind: Foreign) -> list[Foreign]:
    """Return the rows that the attribute `__nativecall_slots__` of a type offers."""
    from ._core import ffi
    from ._values.capsules import get_pointer

    rows: list[Foreign] = []
    for owner in [one for one in kind.__mro__ if "__nativecall_slots__" in vars(one)]:
        given = vars(owner)["__nativecall_slots__"]
        if given is None:
            break
        try:
            row = ffi.cast("PyCustomSlot *", get_pointer(given, b"nativecall_slots_v1"))
        except ValueError:
            who = f"'__nativecall_slots__' of {owner.__name__}"
            raise wrong_type(who, "a capsule named 'nativecall_slots_v1' or None", given) from None
        while row.id:
            rows.append(row[0])
            row += 1
    return rows


def _key(id: int) -> bytes | int:
    text = None if id % 2 else _lib.interned(id)
    return id if text is None else text


def get_include() -> str:
    """Return the include directory for C compilers: ``#include <nativecall/customslots.h>``."""
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.join(here, "include")
    if os.path.isdir(installed):
        return installed
    # An editable install: the package lies in the source tree.
    return os.path.join(os.path.dirname(here), "csrc", "include")
