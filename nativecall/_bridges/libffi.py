"""Find the signatures that libffi calls differently from C. ctypes and cffi call through libffi.

Each reason names a rule of libffi; the difference was confirmed with gcc. There are no workarounds:
exporting such a function to ctypes or cffi raises an error.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING, SignatureError
from .._plan import steps
from .._plan.aapcs64 import AAPCS64
from .._plan.sysv import SYSV_X86_64
from .._types.ctype import SCALARS, CType, is_native
from .._types.derived import Array, Struct, homogeneous, inner_types, parts_of
from .._types.signature import Signature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._ext import Foreign

_WORD = 8
_REGISTERS = 16  # maximum bytes of a struct in two registers
# Offsets of x86-64's last general and first vector argument registers in the register block.
_R9, _XMM0 = 40, 48


def refuse_gap(who: str, signature: Signature, *, flattened: bool) -> None:
    """Raise SignatureError, on behalf of ctypes or cffi, if their calls would fail."""
    found = gap(signature, flattened=flattened)
    if found is not None:
        raise SignatureError(f"{who} cannot call {signature.text!r}: {found}")


def gap(signature: Signature, *, flattened: bool) -> str | None:
    """Return why calls through ctypes or cffi would fail; None if they would work.

    A failing call reports no error: libffi passes a value in the wrong place.

    `flattened`: whether the caller treats an array of several dimensions as one flat array. cffi
    does, ctypes does not.
    """
    result = signature.result
    unknown = _unknown((*signature.args, result))
    if unknown:
        return f"it has no {unknown!r}"
    if result.text == "Zg":
        return "it has no complex long double result"
    long_double = SCALARS["g"]
    is_one = isinstance(result, Struct) and result.size == long_double.size
    if is_one and parts_of(result) == [(0, long_double)]:
        return "it expects a struct of one long double in memory"
    small = 16 if steps.ABI is SYSV_X86_64 else 32  # ctypes' limit
    for one in (*signature.args, result):
        if not isinstance(one, Struct):
            continue
        if one.size <= _REGISTERS and _is_unaligned(one):
            return "it splits a small packed struct differently from C"
        if flattened:
            continue
        if one.size <= small and _has_array(one, 2):
            return "it mistakes the rows of an array in a small struct for pointers"
        if steps.ABI is AAPCS64 and one.size > small and homogeneous(one) and _has_array(one):
            return "it mistakes the array in a struct of long doubles for a pointer"
    for passing in steps.place(signature).args if steps.ABI in (SYSV_X86_64, AAPCS64) else ():
        # libffi copies the whole struct to the general registers, then moves the float.
        kinds, places = [piece.kind for piece in passing.pieces], passing.places
        if kinds == ["general", "vector"] and places[0] == _R9 and places[1] != _XMM0:
            return "it overwrites another argument with a float of a struct"
        is_far = passing.how == "reference" and places[0] >= AAPCS64.stack
        if is_far and passing.ctype.alignment > _WORD:
            return "it aligns a pointer to a struct on the stack like the struct itself"
    return None


def _unknown(ctypes: Sequence[CType]) -> str:
    """Return the name of the first number type that C lacks; "" if there is none.

    Structs and arrays are searched for such types too.
    """
    for ctype in ctypes:
        found = _unknown(inner_types(ctype)) if is_native(ctype) else ctype.c_declaration()
        if found:
            return found
    return ""


def _has_array(ctype: CType, least: int = 1) -> bool:
    """Return whether a type contains an array of at least this many dimensions."""
    found = isinstance(ctype, Array) and len(ctype.shape) >= least
    return found or any([_has_array(one, least) for one in inner_types(ctype)])


def _loose(ctype: CType) -> Foreign:
    """Return the type with all structs in it unpacked."""
    if isinstance(ctype, Struct):
        return Struct([(field.name, _loose(field.type)) for field in ctype.fields])
    return Array(_loose(ctype.item), ctype.shape) if isinstance(ctype, Array) else ctype


def _is_packed(ctype: CType) -> bool:
    packed = isinstance(ctype, Struct) and ctype.packed
    return packed or any(map(_is_packed, inner_types(ctype)))


def _is_unaligned(struct: Struct) -> bool:
    """Return whether packing changes the offset of any scalar in a struct."""
    if not _is_packed(struct):
        return False
    loose = zip(parts_of(struct), parts_of(_loose(struct)), strict=True)
    return any([a[0] != b[0] for a, b in loose])
