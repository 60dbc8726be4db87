"""Slot tables of types (SEP 200) in Python: the metaclass and the rows."""

from __future__ import annotations

from collections import namedtuple

from . import _ext, _lib
from ._errors import TYPE_CHECKING

extensibletype = _ext.extensibletype
PADDING = 1  # the key of placeholder rows; it may occur more than once


if TYPE_CHECKING:
    from typing import NamedTuple

    from ._ext import Foreign

    class _Row(NamedTuple):
        key: bytes | int
        flags: int
        data: int

else:  # importing typing takes half as long as all of our modules
    _Row = namedtuple("Slot", ["key", "flags", "data"], module=__package__)


class Slot(_Row):
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

    __slots__ = ()


Slot.__module__ = "nativecall"


def customslots(obj: object) -> tuple[Slot, ...]:
    """Return the rows of an object's slot tables, in the provider's order.

    Parameters
    ----------
    obj : object
        If this is an extensible type, the rows of the type itself are returned.

    Returns
    -------
    tuple of Slot
        The object's own rows, then the rows of its type with keys that the object's rows lack.
        Empty if there are no rows.

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
    """Return the rows of a slot table, which lives as long as its type."""
    from ._core import lib

    return [*lib.nc_slottable_rows(table)[0 : table.count]] if table else []


def _key(id: int) -> bytes | int:
    if id % 2:
        return id
    text = _lib.interned(id)
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
