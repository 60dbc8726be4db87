"""The System V ABI of x86-64: Linux, BSD and macOS.

An object of up to 16 bytes is cut into eightbytes. Each has a class, merged from those of the
scalars in it; it travels in a general register (INTEGER) or in a vector register (SSE), and the
whole object goes to the stack when one of its eightbytes has the class MEMORY or when not all of
them find a register. Later, smaller arguments may still use the registers that it left.

Where the ABI's text leaves packed structs open, this follows GCC: a scalar that is not at a
multiple of its natural alignment sends the object to memory, and an array has the classes of its
first element, over and over.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from llvmlite import ir

from ..._signature.ctype import CType, integer
from ..._signature.derived import Array, Field, Struct
from .lowering import (
    X86_FP80,
    Convention,
    Passing,
    Piece,
    by_value,
    extension,
    float_type,
    in_memory,
    in_pieces,
    into_memory,
    on_stack,
    whole,
)


class Class(Enum):
    """The class of an eightbyte; MEMORY is that of whole objects, written `None` here."""

    NONE = "no class"
    INTEGER = "integer"
    SSE = "sse"
    X87 = "x87"
    X87UP = "x87up"


_X87 = (Class.X87, Class.X87UP)


def classify(ctype: CType, offset: int = 0) -> list[Class] | None:
    """Classes of the eightbytes of an object that begins `offset` bytes into the outermost one.

    The first is the eightbyte that holds its first byte. `None`: the object is passed in memory.
    """
    start = offset % 8
    count = (start + ctype.size + 7) // 8
    if isinstance(ctype, Struct):
        # A struct that is larger is in memory whatever it holds.
        if ctype.size > 16:
            return None
        merged = [Class.NONE] * count
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
        return merged
    if isinstance(ctype, Array):
        if ctype.size > 16:
            return None
        found = classify(ctype.item, offset)
        return found and [found[index % len(found)] for index in range(count)]
    if offset % (ctype.alignment if ctype.kind == "complex" else ctype.size):
        return None
    match ctype.kind:
        case "float" if ctype.size > 8:
            return [*_X87]
        case "complex" if ctype.size > 16:
            return [*_X87, *_X87]
        case "float" | "complex":
            return [Class.SSE] * count
    return [Class.INTEGER] * count


def _classify_field(field: Field, offset: int, union: bool) -> list[Class] | None:
    """Of a bit-field every eightbyte that it has bits in is INTEGER, wherever it lies. In a union
    GCC takes one, and one of 0 bits, too, for the smallest integer that it fits into.
    """
    if field.width is None:
        return classify(field.type, offset + field.offset)
    if union:
        size = next(size for size in (1, 2, 4, 8) if field.width <= 8 * size)
        return classify(integer(size, signed=False), offset)
    first = 8 * ((offset + field.offset) % 8) + field.shift
    return [Class.INTEGER] * ((first + field.width + 63) // 64 if field.width else 0)


def _merge(one: Class, other: Class) -> Class | None:
    if one is other:
        return one
    if Class.NONE in (one, other):
        return other if one is Class.NONE else one
    if one in _X87 or other in _X87:
        return None
    return Class.INTEGER


class SystemV(Convention):
    """The System V convention of x86-64."""

    name = "x86-64 System V"
    general = 6
    vector = 8

    def pass_result(self, ctype: CType) -> Passing:
        if not in_memory(ctype):
            return by_value(ctype, extension(ctype))
        classes = classify(ctype)
        if classes is None:
            return into_memory(ctype)
        if Class.X87 in classes:
            # A number in st(0), a complex one in st(0) and st(1).
            return in_pieces(ctype, [Piece(X86_FP80, at, 16) for at in range(0, ctype.size, 16)])
        return in_pieces(ctype, _pieces(ctype, classes))

    def pass_arguments(
        self, args: Sequence[CType], hidden: bool, fixed: int | None
    ) -> list[Passing]:
        general = self.general - hidden
        vector = self.vector
        passed = []
        for arg in args:
            if not in_memory(arg):
                # LLVM puts what finds no register on the stack, as C does.
                if arg.kind == "float":
                    vector -= vector > 0
                else:
                    general -= general > 0
                passed.append(by_value(arg, extension(arg)))
                continue
            if arg.kind == "float" and arg.size > 8:
                passed.append(whole(arg, X86_FP80))
                continue
            classes = classify(arg)
            if classes is not None and Class.X87 not in classes:
                need = classes.count(Class.INTEGER)
                if need <= general and len(classes) - need <= vector:
                    general -= need
                    vector -= len(classes) - need
                    passed.append(in_pieces(arg, _pieces(arg, classes)))
                    continue
            passed.append(on_stack(arg, max(8, arg.alignment)))
        return passed


def _pieces(ctype: CType, classes: Sequence[Class]) -> list[Piece]:
    """One IR parameter for each eightbyte."""
    pieces = []
    for index, found in enumerate(classes):
        size = min(8, ctype.size - 8 * index)
        number = float_type(size) if size in (2, 4) else ir.DoubleType()
        type = number if found is Class.SSE else ir.IntType(64)
        pieces.append(Piece(type, 8 * index, size))
    return pieces


SYSV_X86_64 = SystemV()
