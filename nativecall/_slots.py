"""Slot tables of types, as Python sees them (SEP 200): the metaclass and the rows."""

from __future__ import annotations

from collections import namedtuple

from . import _ext, _lib

extensibletype = _ext.extensibletype
PADDING = 1  # the key of rows that keep a place; it may stand more than once


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    from ._ext import Foreign

    class _Row(NamedTuple):
        key: bytes | int
        flags: int
        data: int

else:  # without typing, which takes as long to import as half of ours
    _Row = namedtuple("Slot", ["key", "flags", "data"])


class Slot(_Row):
    """One row of a type's slot table.

    Attributes
    ----------
    key : bytes or int
        An interned string; an allocated ID (odd); or an address (even). 1 pads the table.
    flags : int
        As the slot's own definition says.
    data : int
        A pointer, or an offset into the type's objects.
    """

    __slots__ = ()


Slot.__module__ = "nativecall"


def customslots(obj: object) -> tuple[Slot, ...]:
    """The rows that an object offers, in the provider's order.

    Parameters
    ----------
    obj : object
        An object; of a type that is itself extensible, the rows of the type are meant.

    Returns
    -------
    tuple of Slot
        First the object's own, if it has any, then those of its type whose keys are others. Empty
        for objects of types without slots.

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
        rows = _rows(ffi.cast("PyHeapExtensibleTypeObject *", there).etp_custom_slots)
    else:
        own = _rows(lib.nc_slots_of_object(there))
        keys = {row.id for row in own} - {PADDING}
        rows = own + [row for row in _rows(lib.nc_slots_of(there)) if row.id not in keys]
    return tuple([Slot(_key(row.id), row.flags, row.data.flags) for row in rows])


def _rows(table: Foreign) -> list[Foreign]:
    """The rows of a slot table, which lives as long as the type that it is of."""
    from ._core import lib

    return [*lib.nc_slottable_rows(table)[0 : table.count]] if table else []


def _key(id: int) -> bytes | int:
    if id % 2:
        return id
    text = _lib.interned(id)
    return id if text is None else text


def get_include() -> str:
    """The directory to give a C compiler, so that ``#include <nativecall/customslots.h>`` works."""
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.join(here, "include")
    if os.path.isdir(installed):
        return installed
    # An editable install: the package is the source tree's.
    return os.path.join(os.path.dirname(here), "csrc", "include")
