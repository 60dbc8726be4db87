"""The frame of a trampoline: where each argument goes, and which are converted inline.

At its start are the owners: one for every argument whose value must outlive the call, a buffer or
an object that was made of it. What follows is a place for every argument that C gets from memory,
or that the core converts.
"""

from __future__ import annotations

from .._signature.ctype import Scalar
from .._signature.derived import View, inner_types
from .._values.callspec import letter
from .shape import layout
from .writer import WORD, is_inline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._signature.ctype import CType

_MAX_NUMBERS = 32  # numbers that are converted inline: each one takes LLVM its time


def _holds_owners(ctype: CType) -> bool:
    """Whether a type has a part whose value must outlive the call."""
    if isinstance(ctype, Scalar):
        return False
    owned = ctype.kind in ("pointer", "voidptr", "function", "view", "object")
    return owned or any(map(_holds_owners, inner_types(ctype)))


class Place:
    """An argument: its type, where in the frame it goes, and what the code has of it."""

    __slots__ = ("ctype", "index", "inline", "letter", "offset", "owner", "value")

    def __init__(self, index: int, ctype: CType) -> None:
        self.index = index
        self.ctype = ctype
        self.letter = letter(ctype)
        self.inline = False
        self.owner = -1
        self.offset = 0
        self.value = ""  # the number, where it need not be in the frame

    @property
    def step(self) -> int:
        """How the core converts it, see csrc/codegen/symbols.h."""
        ndim = self.ctype.ndim if isinstance(self.ctype, View) else 0
        bits = ord(self.letter) | (self.owner >= 0) << 8 | ndim << 9
        return bits | self.index << 16 | self.offset << 32


def lay_out(places: Sequence[Place]) -> tuple[int, int]:
    """Give every argument its place in the frame; the number of owners and the frame's bytes."""
    inline = 0
    for place in places:
        place.inline = is_inline(place.ctype) and inline < _MAX_NUMBERS
        inline += place.inline
    owners = 0
    for place in places:
        if place.letter != "O" and _holds_owners(place.ctype):
            place.owner = owners
            owners += 1
    offset = owners * layout["pointer_bytes"]
    for place in places:
        size, alignment = place.ctype.size, max(place.ctype.alignment, WORD)
        if isinstance(place.ctype, View):
            size = (1 + 2 * place.ctype.ndim) * WORD
        elif place.letter in ("P", "O"):
            size = 0
        place.offset = offset = -(-offset // alignment) * alignment
        offset += -(-size // WORD) * WORD
    return owners, offset
