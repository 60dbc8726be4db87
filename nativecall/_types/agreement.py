"""Compare C types, to decide whether one can stand for another. No other module decides this.

`agreement` returns the weakest level among all parts of a type or signature; the caller decides
which level suffices. `agreement` ignores values, `const`, and the names of types.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING
from .derived import Array, FunctionPointer, Pointer, Struct
from .signature import Signature

if TYPE_CHECKING:
    from .ctype import CType

POINTERS = ("pointer", "voidptr", "function", "view", "object")
_WHOLE = ("bool", "int")


class Agreement:
    """Levels of agreement, from no agreement to the same type."""

    NO = 0
    INTEGER = 1  # integers of one size, in registers
    POINTER = 2  # pointers to different types
    OPAQUE = 3  # pointers, at least one without a specified target: `void *`, a view
    LAYOUT = 4  # the same bytes, but signs of integers in memory and array lengths may differ
    BYTES = 5  # the same type except for signs of bytes in memory, or an array of the wanted type
    SAME = 6


def agreement(given: CType | Signature, wanted: CType | Signature, *, memory: bool = False) -> int:
    """Return how far two types or signatures agree; with `memory`, as the targets of pointers.

    Examples
    --------
    >>> from nativecall._cdecl.spelling import parse, parse_type
    >>> agreement(parse_type("&d"), parse_type("P")) == Agreement.OPAQUE
    True
    >>> agreement(parse("d:iP"), parse("d:I&d")) == Agreement.INTEGER
    True
    """
    if isinstance(given, Signature) and isinstance(wanted, Signature):
        given, wanted = given.function, wanted.function
        return Agreement.SAME if given == wanted else _of_calls(given, wanted)
    assert not isinstance(given, Signature)
    assert not isinstance(wanted, Signature)
    if given == wanted:
        return Agreement.SAME
    if memory and (isinstance(given, Array) or isinstance(wanted, Array)):
        most = Agreement.LAYOUT if isinstance(wanted, Array) else Agreement.BYTES
        items = [one.item if isinstance(one, Array) else one for one in (given, wanted)]
        return min(most, agreement(items[0], items[1], memory=True))
    if given.kind in POINTERS and wanted.kind in POINTERS:
        if isinstance(given, Pointer) and isinstance(wanted, Pointer):
            found = agreement(given.pointee, wanted.pointee, memory=True)
        elif isinstance(given, FunctionPointer) and isinstance(wanted, FunctionPointer):
            found = _of_calls(given, wanted)
        else:
            opaque = {given.kind, wanted.kind} & {"voidptr", "view"}
            return Agreement.OPAQUE if opaque else Agreement.POINTER
        return found if found >= Agreement.OPAQUE else Agreement.POINTER
    if given.kind in _WHOLE and wanted.kind in _WHOLE and given.size == wanted.size:
        if not memory:
            return Agreement.INTEGER
        is_byte = given.size == 1 and given.kind == wanted.kind
        return Agreement.BYTES if is_byte else Agreement.LAYOUT
    if memory and isinstance(given, Struct) and isinstance(wanted, Struct):
        return _of_structs(given, wanted)
    return Agreement.NO


def suits(given: CType, wanted: CType) -> bool:
    """Return whether a pointer to one type can stand for a pointer to the other."""
    return agreement(given, wanted, memory=True) >= Agreement.BYTES


def _of_calls(given: FunctionPointer, wanted: FunctionPointer) -> int:
    if given.variadic != wanted.variadic or len(given.args) != len(wanted.args):
        return Agreement.NO
    pairs = zip((given.result, *given.args), (wanted.result, *wanted.args), strict=True)
    return min([agreement(one, other) for one, other in pairs])


def _of_structs(given: Struct, wanted: Struct) -> int:
    places = [[(f.offset, f.shift, f.width) for f in one.fields] for one in (given, wanted)]
    if given.size != wanted.size or places[0] != places[1]:
        return Agreement.NO
    pairs = zip(given.fields, wanted.fields, strict=True)
    return min([agreement(one.type, other.type, memory=True) for one, other in pairs])
