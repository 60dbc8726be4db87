"""Pass a `Record`, the struct value that calls return, to C as a struct or as a pointer."""

from __future__ import annotations

from .._errors import TYPE_CHECKING
from .._values.foreign import Pointer, Struct
from .._values.storage import Record

if TYPE_CHECKING:
    from .._ext import Foreign


def struct(obj: Foreign) -> Struct | None:
    """Return the struct in a `Record`; None for other objects."""
    if not isinstance(obj, Record) or not obj._layout.about.places:
        return None  # an array
    about = obj._layout.about
    shown = repr(about.name) if about.type.name else f"{about.type.kind} {about.type.text!r}"
    return Struct(about.type, shown, obj._address, [obj])


def pointer(obj: Foreign) -> Pointer | None:
    """Return a pointer to the memory of a `Record`; None for other objects."""
    if not isinstance(obj, Record):
        return None
    return Pointer(obj._address, obj._layout.about.type, obj, is_memory=True)
