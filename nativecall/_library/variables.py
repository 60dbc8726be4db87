"""Variables of C libraries, read and written at their addresses; constants that are pointers.

What a variable points to since it was assigned here lives until another value is assigned, since C
code may follow the pointer at any time. Reads and writes are plain loads and stores: to order them
against C code in other threads is for who runs these.
"""

from __future__ import annotations

from .. import _lib
from .._signature.cffitype import pointer_from
from .._signature.ctype import Scalar
from .._signature.derived import pointer
from .._signature.grammar import read_type
from .._values import boxes, storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._signature.ctype import CType
    from .._types import Library as OpenLibrary
    from .._values.policies import Policies

_POINTERS = ("pointer", "voidptr", "function")
# What variables were assigned, by their addresses.
_pointed: dict[int, list[object]] = {}


def read(ctype: CType, address: int, owner: OpenLibrary) -> object:
    """The value of a number or pointer; a pointer to any other variable."""
    if isinstance(ctype, Scalar):
        return storage.load(ctype, address)
    if ctype.kind not in _POINTERS:
        return pointer_from(pointer(ctype), address, owner=owner)
    word = int(_lib.ffi.cast("uintptr_t *", address)[0])
    # What it points to is often the library's own.
    return None if word == 0 else pointer_from(ctype, word, owner=owner)


def write(ctype: CType, address: int, who: str, value: object, policies: Policies) -> None:
    """Store a number or a pointer; a value that does not fit changes nothing."""
    if not isinstance(ctype, Scalar) and ctype.kind not in _POINTERS:
        raise TypeError(
            f"{who} is a {ctype.text!r}, which is written through the pointer that reading it gives"
        )
    if ctype.kind == "function" and boxes.is_python_function(value):
        raise TypeError(
            f"{who} must be a C function that stays (got {type(value).__name__}); make one "
            f"with nativecall.callback({ctype.text[2:-1]!r}, function)"
        )
    keep: list[object] = []
    # Into memory of ours first: a conversion that fails changes nothing.
    memory = _lib.ffi.new("char[]", ctype.size + 16)
    start = int(_lib.ffi.cast("uintptr_t", memory))
    storage.store(ctype, value, start, who, keep, False, policies)
    before = _pointed.get(address)
    if keep:
        _pointed[address] = keep
    _lib.ffi.memmove(_lib.ffi.cast("char *", address), memory, ctype.size)
    if before is not None and not keep:
        del _pointed[address]


def pointer_constant(named: str, address: int) -> object:
    """A constant that is a pointer; None for NULL."""
    return pointer_from(read_type(named), address) if address else None
