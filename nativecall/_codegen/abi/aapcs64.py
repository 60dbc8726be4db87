"""The procedure call standard of 64-bit ARM (AAPCS64), and Apple's variant of it.

Up to four floating-point numbers of one type with nothing between them, however nested, are a
homogeneous aggregate: they travel in that many vector registers or, when these do not suffice, on
the stack. Any other object of up to 16 bytes is one or two general registers' worth; a larger one
is copied by the caller and passed as a pointer. LLVM keeps an IR array together, in registers or
on the stack, as the standard demands of an aggregate.

The only type with an alignment of 16 is `long double`, and an object of up to 16 bytes that holds
one is homogeneous: the rule about even register numbers never applies here.

Apple's variant differs in IR only in that callers and callees extend small integers; LLVM
handles the rest (the packing of the argument area, where variadic arguments go) by the triple.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ..._signature.ctype import CType
from ..._signature.derived import homogeneous
from .lowering import (
    FP128,
    Convention,
    Passing,
    Piece,
    by_reference,
    by_value,
    extension,
    float_type,
    in_memory,
    in_pieces,
    into_memory,
    whole,
)


class Arm64(Convention):
    """AAPCS64, or Apple's variant of it."""

    general = vector = 8

    def __init__(self, apple: bool = False) -> None:
        self.name = "Apple ARM64" if apple else "AAPCS64"
        self._apple = apple

    def pass_result(self, ctype: CType) -> Passing:
        return self._in_registers(ctype, ()) or into_memory(ctype)

    def pass_arguments(
        self, args: Sequence[CType], hidden: bool, fixed: int | None
    ) -> list[Passing]:
        passed = []
        for arg in args:
            # On the stack an aggregate has a multiple of 8 bytes, unless Apple packs it.
            aligned = () if self._apple else (f"alignstack({16 if arg.alignment >= 16 else 8})",)
            passed.append(self._in_registers(arg, aligned) or by_reference(arg))
        return passed

    def _in_registers(self, ctype: CType, aligned: tuple[str, ...]) -> Passing | None:
        """What is passed as the IR values it consists of, if LLVM has registers for them."""
        if not in_memory(ctype):
            return by_value(ctype, extension(ctype) if self._apple else ())
        if ctype.kind == "float":
            return whole(ctype, FP128 if ctype.size == 16 else float_type(ctype.size))
        members = homogeneous(ctype)
        if members:
            member = FP128 if members[0].size == 16 else float_type(members[0].size)
            type = ir.ArrayType(member, len(members))
            return in_pieces(ctype, [Piece(type, 0, ctype.size)], aligned)
        if ctype.size > 16:
            return None
        word = ir.IntType(64)
        type = word if ctype.size <= 8 else ir.ArrayType(word, 2)
        return in_pieces(ctype, [Piece(type, 0, ctype.size)])


AAPCS64 = Arm64()
APPLE_ARM64 = Arm64(apple=True)
