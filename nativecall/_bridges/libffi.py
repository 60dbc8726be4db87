"""What libffi, by which ctypes and cffi call functions, passes otherwise than C."""

from __future__ import annotations

import os
import sys

from .. import _lib
from .._signature import derived
from .._signature.ctype import CType, is_native
from .._signature.derived import Array, Struct, inner_types
from .._signature.signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._types import Foreign

_WORD = _lib.ffi.sizeof("void *")
_REGISTERS = 16  # bytes up to which a struct may travel in two registers
_MACHINE = os.uname().machine if _WORD == 8 and sys.platform != "win32" else ""
_SYSTEM_V = _MACHINE in ("x86_64", "amd64")
_AAPCS64 = _MACHINE in ("aarch64", "arm64")
_ARM_REGISTERS = 8  # for integers and pointers
_GENERAL_REGISTERS, _VECTOR_REGISTERS = 6, 8
# Bytes up to which a struct may travel in registers, as ctypes has it.
_SMALL = 16 if _SYSTEM_V else 32


def gap(signature: Signature, *, flattened: bool) -> str | None:
    """Why callers that know only the C types of ctypes or cffi would go wrong, None when they would
    not: they make such a call, but look for a value in the wrong place.

    `flattened`: to the caller an array of several dimensions is one of all its items; to cffi it
    is, to ctypes not.
    """
    result = signature.result
    unknown = _unknown((*signature.args, result))
    if unknown:
        return f"it has no {unknown!r}"
    if result.text == "Zg":
        return "it has no complex long double result"
    if isinstance(result, Struct) and _only_scalar(result) == "g":
        return "it looks for a struct of one long double in memory"
    for one in (*signature.args, result):
        if isinstance(one, Struct) and one.size <= _REGISTERS and _is_unaligned(one):
            return "it takes a small packed struct apart by other rules than C"
    if not flattened:
        for one in (*signature.args, result):
            if isinstance(one, Struct) and one.size <= _SMALL and _has_rows(one):
                return "it takes the rows of an array in a small struct for pointers"
    if _is_overrunning(signature):
        return "it writes the float of a struct over another argument"
    if _is_misplacing(signature):
        return "it aligns the pointer to a struct on the stack as the struct"
    if not flattened:
        for one in (*signature.args, result):
            if one.size > _SMALL and _homogeneous(one) and _has_array(one):
                return "it takes the array in a struct of long doubles for a pointer"
    return None


def _unknown(ctypes: Sequence[CType]) -> str:
    """The C name of a number among types, or in one of them, that ctypes has no type for."""
    for ctype in ctypes:
        found = _unknown(inner_types(ctype)) if is_native(ctype) else ctype.c_declaration()
        if found:
            return found
    return ""


def _only_scalar(ctype: CType) -> str | None:
    """The scalar that a struct consists of, None for one of several members."""
    while isinstance(ctype, (Struct, Array)):
        if isinstance(ctype, Array):
            if ctype.shape != (1,) * len(ctype.shape):
                return None
            ctype = ctype.item
        elif len(ctype.fields) == 1:
            ctype = ctype.fields[0].type
        else:
            return None
    return ctype.text


def _has_rows(ctype: CType) -> bool:
    """Whether a type has an array of more than one dimension in it."""
    rows = isinstance(ctype, Array) and len(ctype.shape) > 1
    return rows or any(map(_has_rows, inner_types(ctype)))


def _has_array(ctype: CType) -> bool:
    return isinstance(ctype, Array) or any(map(_has_array, inner_types(ctype)))


def _loose(ctype: CType) -> Foreign:
    """The type without packing, in whatever is inside it either."""
    if isinstance(ctype, Struct):
        return Struct([(field.name, _loose(field.type)) for field in ctype.fields])
    return Array(_loose(ctype.item), ctype.shape) if isinstance(ctype, Array) else ctype


def _is_packed(ctype: CType) -> bool:
    packed = isinstance(ctype, Struct) and ctype.packed
    return packed or any(map(_is_packed, inner_types(ctype)))


def _is_unaligned(struct: Struct) -> bool:
    """Whether packing moves anything in a struct."""
    if not _is_packed(struct):
        return False
    loose = zip(_scalars(struct, 0), _scalars(_loose(struct), 0), strict=True)
    return any([a[0] != b[0] for a, b in loose])


def _is_overrunning(signature: Signature) -> bool:
    """Whether libffi would write an argument over the first vector register.

    On x86-64 it copies a struct whose first word is an integer and whose second a float to the
    general registers whole, and then the second word to its place. Where the first word takes the
    last general register, the copy ends in the first vector register, which an argument may be in.
    """
    result = signature.result
    general = int(isinstance(result, Struct) and not _words(result))
    vector = 0
    for arg in signature.args if _SYSTEM_V else ():
        words = _words(arg)
        integers, floats = words.count("I"), words.count("F")
        if general + integers > _GENERAL_REGISTERS or vector + floats > _VECTOR_REGISTERS:
            continue
        general, vector = general + integers, vector + floats
        if words == "IF" and general == _GENERAL_REGISTERS and vector > 1:
            return True
    return False


def _homogeneous(ctype: CType) -> tuple[str, ...]:
    """The floating-point numbers that 64-bit ARM passes a struct of up to four as; else none."""
    found = derived.homogeneous(ctype) if _AAPCS64 and isinstance(ctype, Struct) else ()
    return tuple([one.text for one in found if is_native(one)])


def _is_referenced(ctype: CType) -> bool:
    """Whether 64-bit ARM passes an argument as a pointer to a copy.

    libffi is given that pointer: it would align the pointer to a struct on the stack as the struct.
    """
    large = _AAPCS64 and isinstance(ctype, Struct) and ctype.size > _REGISTERS
    return large and not _homogeneous(ctype)


def _is_misplacing(signature: Signature) -> bool:
    """Whether libffi may put the pointer to a struct at the wrong place on the stack."""
    general = 0
    for arg in signature.args if _AAPCS64 else ():
        if arg.kind in ("float", "complex") or _homogeneous(arg):
            continue
        words = 1 if _is_referenced(arg) else (max(arg.size, 1) + _WORD - 1) // _WORD
        if general + words <= _ARM_REGISTERS:
            general += words
            continue
        general = _ARM_REGISTERS
        if _is_referenced(arg) and arg.alignment > _WORD:
            return True
    return False


def _words(ctype: CType) -> str:
    """The registers that each word of a value takes, ``I`` or ``F``; none for one in memory."""
    if ctype.size > _REGISTERS:
        return ""
    words = [""] * ((ctype.size + _WORD - 1) // _WORD)
    for offset, part in _scalars(ctype, 0):
        if part.text in ("g", "Zg"):
            return ""
        for at in range(offset // _WORD, (offset + part.size - 1) // _WORD + 1):
            if part.kind not in ("float", "complex") or not words[at]:
                words[at] = "F" if part.kind in ("float", "complex") else "I"
    return "".join(words)


def _scalars(ctype: CType, offset: int) -> list[tuple[int, CType]]:
    """What a value consists of, and where."""
    if isinstance(ctype, Struct):
        parts = [_scalars(field.type, offset + field.offset) for field in ctype.fields]
    elif isinstance(ctype, Array):
        places = range(offset, offset + ctype.size, ctype.item.size)
        parts = [_scalars(ctype.item, at) for at in places]
    else:
        return [(offset, ctype)]
    return [one for part in parts for one in part]
