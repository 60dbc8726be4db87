"""The calling convention of 64-bit Windows on x86-64.

Each argument takes one register or one 8-byte stack slot. Objects of 1, 2, 4 or 8 bytes are passed
as integers and returned in rax. For an object of another size, the caller makes a copy and passes a
pointer to it. Such an object is returned in memory whose address is a hidden first argument. A
variadic floating-point argument is passed in both a vector and a general register.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING
from .._types.ctype import CType, is_native
from .._types.derived import inner_types
from .abi import ABI, Call, Passing, Piece, Unsupported, in_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

# Offsets in the block of registers and arguments that csrc/call/abi_win64.S reads. The callee's
# shadow space precedes the stack arguments.
_GENERAL = (0, 8, 16, 24)
_VECTOR = (32, 48, 64, 80)
_RAX, _XMM0 = 96, 112


class Windows64(ABI):
    """The convention of Windows x64."""

    by_place = True
    stack = 176
    results = {"general": (_RAX,), "vector": (_XMM0,)}
    indirect = _GENERAL[0], _RAX

    def pieces(self, ctype: CType) -> tuple[Piece, ...] | None:
        _refuse(ctype)
        if not is_native(ctype):
            named = ctype.c_declaration()
            raise Unsupported(f"Windows compilers disagree on how {named!r} is passed")
        if in_memory(ctype) and ctype.size not in (1, 2, 4, 8):
            return None
        is_float = ctype.kind == "float"
        return (Piece("vector" if is_float else "general", 0, ctype.size),)

    def arguments(self, result: Passing, args: Sequence[CType], fixed: int | None) -> Call:
        passed: list[Passing] = []
        first = int(result.how == "reference")
        for index, arg in enumerate(args):
            pieces = self.pieces(arg) or ()
            how = "pieces" if in_memory(arg) else "value"
            number = first + index
            places: tuple[int, ...] = (self.stack + 8 * (number - len(_GENERAL)),)
            if number < len(_GENERAL):
                places = (_GENERAL[number],)
                if pieces and pieces[0].kind == "vector":
                    both = fixed is not None and index >= fixed
                    places = (_VECTOR[number], *places) if both else (_VECTOR[number],)
            passed.append(Passing(arg, how if pieces else "reference", pieces, places))
        count = max(first + len(args) - len(_GENERAL), 0)
        return Call(result, passed, self.stack + 8 * count, len(_VECTOR))


def _refuse(ctype: CType) -> None:
    """Raise `Unsupported` if a type contains a number type that Windows lacks."""
    inner = inner_types(ctype)
    for one in inner:
        _refuse(one)
    if not inner and ctype.size > (16 if ctype.kind == "complex" else 8):
        raise Unsupported("Windows has no 'long double' that is wider than 'double'")


WIN64 = Windows64()
