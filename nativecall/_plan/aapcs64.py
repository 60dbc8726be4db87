"""The procedure call standard of 64-bit ARM (AAPCS64), and Apple's variant of it.

A homogeneous aggregate consists of one to four floating-point members of one type, nested or not,
without padding. It takes one vector register per member; if too few are left, it goes on the stack.
Any other object of up to 16 bytes takes one or two general registers. The caller copies a larger
object and passes a pointer. An object is never split between registers and stack. If an argument
does not fit into the remaining registers of a kind, later arguments do not use registers of that
kind.

Apple's variant extends small integers, does not pad arguments on the stack, and passes all variadic
arguments on the stack.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING
from .._types.ctype import CType
from .._types.derived import homogeneous
from .abi import ABI, Call, Passing, Piece, cut, in_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

# Offsets in the block of csrc/call/abi_aarch64.S; results overwrite arguments.
_GENERAL = tuple(range(0, 64, 8))
_X8 = 64
_VECTOR = tuple(range(80, 208, 16))


class Arm64(ABI):
    """AAPCS64, or Apple's variant of it."""

    joined = True
    stack = 224
    results = {"general": _GENERAL, "vector": _VECTOR}
    indirect = (_X8,)

    def __init__(self, apple: bool = False) -> None:
        self.extends = self.packs = apple

    def pieces(self, ctype: CType) -> tuple[Piece, ...] | None:
        if ctype.kind == "float":
            return (Piece("vector", 0, ctype.size),)
        if not in_memory(ctype):
            return (Piece("general", 0, ctype.size),)
        members = homogeneous(ctype)
        if members:
            return cut(ctype, "vector", members[0].size)
        return None if ctype.size > 16 else cut(ctype, "general")

    def arguments(self, result: Passing, args: Sequence[CType], fixed: int | None) -> Call:
        used = {"general": 0, "vector": 0}
        stack = self.stack
        passed: list[Passing] = []
        for index, arg in enumerate(args):
            pieces = self.pieces(arg)
            how = "pieces" if in_memory(arg) else "value"
            size, alignment = arg.size, arg.alignment
            if pieces is None:
                how, pieces, size, alignment = "reference", (Piece("general", 0, 8),), 8, 8
            kind = pieces[0].kind
            row = _GENERAL if kind == "general" else _VECTOR
            first = used[kind]
            if kind == "general" and alignment > 8:
                first += first % 2
            last = first + len(pieces)
            if self.packs and fixed is not None and index >= fixed:
                places: tuple[int, ...] = ()
                alignment = max(alignment, 8)
            elif last <= len(row):
                used[kind] = last
                places = row[first:last]
            else:
                used[kind] = len(row)
                places = ()
            if not places:
                least = alignment if self.packs else max(alignment, 8)
                stack = -(-stack // least) * least
                places = tuple([stack + piece.offset for piece in pieces])
                stack += size if self.packs else -(-size // 8) * 8
            passed.append(Passing(arg, how, () if how == "reference" else pieces, places))
        return Call(result, passed, stack, used["vector"])


AAPCS64 = Arm64()
APPLE_ARM64 = Arm64(apple=True)
