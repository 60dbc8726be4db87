"""The calling convention of 64-bit Windows on x86-64.

An argument is one register or one slot of 8 bytes: an object of 1, 2, 4 or 8 bytes as an integer,
any other as a pointer to the caller's copy. An object of those sizes comes back in rax, any other
in memory that a hidden argument points to. LLVM does what is left, such as passing variadic
floating-point arguments in both kinds of register.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ..._signature.ctype import CType, is_native
from ..._signature.derived import inner_types
from ..engine import Unsupported
from .lowering import (
    Convention,
    Passing,
    Piece,
    by_reference,
    by_value,
    in_memory,
    in_pieces,
    into_memory,
)


class Windows64(Convention):
    """Windows x64; `keyword` is ``"win64cc"`` where it is not the target's own convention."""

    name = "Windows x64"
    general = vector = 4
    by_place = True

    def __init__(self, keyword: str = "") -> None:
        self.keyword = keyword

    def pass_result(self, ctype: CType) -> Passing:
        return self._in_register(ctype) or into_memory(ctype)

    def pass_arguments(
        self, args: Sequence[CType], hidden: bool, fixed: int | None
    ) -> list[Passing]:
        return [self._in_register(arg) or by_reference(arg) for arg in args]

    def _in_register(self, ctype: CType) -> Passing | None:
        _refuse(ctype)
        if not is_native(ctype):
            named = ctype.c_declaration()
            raise Unsupported(f"compilers for Windows do not agree on how {named!r} is passed")
        if not in_memory(ctype):
            return by_value(ctype)
        if ctype.size not in (1, 2, 4, 8):
            return None
        return in_pieces(ctype, [Piece(ir.IntType(8 * ctype.size), 0, ctype.size)])


def _refuse(ctype: CType) -> None:
    """Refuse what holds a number that Windows does not have."""
    inner = inner_types(ctype)
    for one in inner:
        _refuse(one)
    if not inner and ctype.size > (16 if ctype.kind == "complex" else 8):
        raise Unsupported("Windows has no 'long double' that is wider than 'double'")


WIN64 = Windows64()
