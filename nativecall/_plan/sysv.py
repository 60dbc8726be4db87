"""The System V ABI of x86-64: Linux, BSD and macOS.

An object of up to 16 bytes is cut into eightbytes. The class of an eightbyte is merged from the
classes of its scalars. INTEGER eightbytes go into general registers; SSE eightbytes go into vector
registers. If an eightbyte has the class MEMORY, or the registers do not suffice for all eightbytes,
the whole object goes on the stack. Smaller arguments that follow may still use the remaining
registers.

The ABI does not specify packed structs, so this follows GCC. If a scalar is not at a multiple of
its natural alignment, the object is passed in memory. An array repeats the classes of its first
element.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING
from .._types.ctype import CType, integer
from .._types.derived import Array, Field, Struct
from .abi import ABI, Call, Passing, Piece, cut, in_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

# Classes of an eightbyte. MEMORY applies to whole objects, and is represented by None.
_NONE, _INTEGER, _SSE, _X87, _X87UP = "", "integer", "sse", "x87", "x87up"
# Offsets in the block of csrc/call/abi_x86_64.S.
_GENERAL = (0, 8, 16, 24, 32, 40)
_VECTOR = tuple(range(48, 176, 16))
_RAX, _RDX, _XMM0, _XMM1 = 176, 184, 192, 208
_ST0 = (176, 192)


def classify(ctype: CType, offset: int = 0) -> list[str] | None:
    """Return the classes of the eightbytes that contain an object, in order.

    The object begins `offset` bytes into the outermost object that contains it. Return None if the
    object is passed in memory.
    """
    start = offset % 8
    count = (start + ctype.size + 7) // 8
    if isinstance(ctype, Struct):
        # Larger structs are always passed in memory.
        if ctype.size > 16:
            return None
        merged = [_NONE] * count
        for field in ctype.fields:
            found = _classify_field(field, offset, ctype.kind == "union")
            if found is None:
                return None
            first = (start + field.offset) // 8
            for index, new in enumerate(found, first):
                both = _merge(merged[index], new)
                if both is None:
                    return None
                merged[index] = both
        # If an integer overlaps the lower half of a long double, the object is passed in memory.
        torn = [i for i, one in enumerate(merged) if one == _X87UP and merged[i - 1] != _X87]
        return None if torn else merged
    if isinstance(ctype, Array):
        if ctype.size > 16:
            return None
        found = classify(ctype.item, offset)
        return found and [found[index % len(found)] for index in range(count)]
    if offset % (ctype.alignment if ctype.kind == "complex" else ctype.size):
        return None
    match ctype.kind:
        case "float" if ctype.size > 8:
            return [_X87, _X87UP]
        case "complex" if ctype.size > 16:
            return [_X87, _X87UP, _X87, _X87UP]
        case "float" | "complex":
            return [_SSE] * count
    return [_INTEGER] * count


def _classify_field(field: Field, offset: int, union: bool) -> list[str] | None:
    """Return the classes of a field. Every eightbyte with bits of a bit-field is INTEGER.

    In a union, GCC treats a bit-field, even one of width 0, as the smallest integer that holds it.
    """
    if field.width is None:
        return classify(field.type, offset + field.offset)
    if union:
        size = next(size for size in (1, 2, 4, 8) if field.width <= 8 * size)
        return classify(integer(size, signed=False), offset)
    first = 8 * ((offset + field.offset) % 8) + field.shift
    return [_INTEGER] * ((first + field.width + 63) // 64 if field.width else 0)


def _merge(one: str, other: str) -> str | None:
    if one == other or not other:
        return one
    if not one:
        return other
    if _INTEGER in (one, other):
        return _INTEGER
    return None  # a long double beside another float


class SystemV(ABI):
    """The System V convention of x86-64."""

    extends = True
    stack = 240
    # A long double is returned in st(0), a complex long double in st(0) and st(1).
    results = {"general": (_RAX, _RDX), "vector": (_XMM0, _XMM1), "x87": _ST0}
    indirect = _GENERAL[0], _RAX

    def pieces(self, ctype: CType) -> tuple[Piece, ...] | None:
        if not in_memory(ctype):
            return (Piece("vector" if ctype.kind == "float" else "general", 0, ctype.size),)
        classes = classify(ctype)
        if classes is None:
            return None
        if _X87 in classes:
            return cut(ctype, "x87", 16)
        # One piece for each eightbyte that is not only padding.
        return tuple(
            [
                Piece("vector" if one == _SSE else "general", 8 * i, min(8, ctype.size - 8 * i))
                for i, one in enumerate(classes)
                if one
            ]
        )

    def arguments(self, result: Passing, args: Sequence[CType], fixed: int | None) -> Call:
        registers: dict[str, list[int]] = {"general": [*_GENERAL], "vector": [*_VECTOR], "x87": []}
        if result.how == "reference":
            del registers["general"][0]
        stack = self.stack
        passed: list[Passing] = []
        for arg in args:
            pieces, is_value = self.pieces(arg), not in_memory(arg)
            kinds = [piece.kind for piece in pieces or ()]
            fits = [kinds.count(kind) <= len(left) for kind, left in registers.items()]
            if pieces is not None and all(fits):
                places = tuple([registers[kind].pop(0) for kind in kinds])
                passed.append(Passing(arg, "value" if is_value else "pieces", pieces, places))
                continue
            if arg.alignment > 8:
                stack = -(-stack // 16) * 16
            how = "value" if is_value else "stack"
            passed.append(Passing(arg, how, pieces or () if is_value else (), (stack,)))
            stack += -(-arg.size // 8) * 8
        return Call(result, passed, stack, len(_VECTOR) - len(registers["vector"]))


SYSV_X86_64 = SystemV()
