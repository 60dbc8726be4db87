"""Convert between Numba types and C types, and check the version of Numba.

The bridge relies on Numba internals that have no public interface: how jitted functions are called,
and how values are represented. We checked these internals in the versions in `KNOWN`. With other
versions, the bridge raises an error.
"""

from __future__ import annotations

import sys

from ..._errors import TYPE_CHECKING, SignatureError
from ..._types.agreement import suits
from ..._types.ctype import VOID, CType, Scalar, integer, scalar
from ..._types.derived import Array, Pointer, Struct, View, is_plain, pointer
from ..._values.dtypes import dtype_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType
    from typing import TypeAlias

    from ..._ext import Foreign

    # Numba is only partly typed, and differently in every version.
    NumbaType: TypeAlias = Foreign
    NumbaObject: TypeAlias = Foreign  # a dispatcher, its compiled code, or a part of the compiler

#: The first and the last supported version of Numba.
KNOWN = ((0, 62), (0, 68))
_checked: list[str] = []  # the version of this process, once it is known to be supported


def core(name: str) -> ModuleType:
    """Return a module of `numba.core`. It is already loaded, because a Numba object exists."""
    return sys.modules["numba.core." + name]


def unknown_version() -> str | None:
    """Return why this version of Numba is not supported; None if it is."""
    text: str = sys.modules["numba"].__version__
    if text in _checked:
        return None
    numbers = [int(part) if part.isdecimal() else -1 for part in text.split(".")[:2]]
    if KNOWN[0] <= tuple(numbers) <= KNOWN[1]:
        _checked.append(text)
        return None
    first, last = [".".join(map(str, one)) for one in KNOWN]
    return f"this version of nativecall supports Numba {first} to {last}, not Numba {text}"


def check_version() -> None:
    """Raise SignatureError for an unsupported version of Numba."""
    reason = unknown_version()
    if reason is not None:
        raise SignatureError(reason, hint="a cfunc's address can be wrapped with a signature")


def ctype_of(kind: NumbaType) -> CType:
    """Return the C type of a Numba type."""
    types = core("types")
    kind = types.unliteral(kind)
    if isinstance(kind, types.Boolean):
        return scalar("?")
    if isinstance(kind, types.Integer):
        return integer(kind.bitwidth // 8, kind.signed)
    if isinstance(kind, types.Float) and kind.bitwidth in (32, 64):
        return scalar("f" if kind.bitwidth == 32 else "d")
    if isinstance(kind, types.Complex):
        return scalar("Zf" if kind.bitwidth == 64 else "Zd")
    if kind == types.none:
        return VOID
    if kind == types.voidptr:
        return pointer(VOID)
    if isinstance(kind, types.CPointer):
        return pointer(ctype_of(kind.dtype))
    if isinstance(kind, types.NestedArray):  # before Array, its base class
        return Array(ctype_of(kind.dtype), kind.shape)
    if isinstance(kind, types.Array):
        return View(ctype_of(kind.dtype), kind.ndim)
    if isinstance(kind, types.Record):
        return struct_of(kind)
    raise SignatureError(f"the Numba type {kind} has no C type here")


def struct_of(record: NumbaType) -> Struct:
    """Return the struct with the memory layout of a record."""
    fields = sorted(record.fields.items(), key=lambda item: item[1].offset)
    typed = [(name, ctype_of(field.type)) for name, field in fields]
    for packed in (False, True):
        made = Struct(typed, packed)
        offsets = [field.offset for field in made.fields]
        if made.size == record.size and offsets == [field.offset for _, field in fields]:
            return made
    raise SignatureError(f"{record} has a memory layout that no C struct can have")


def numba_type(ctype: CType, const: bool = False) -> NumbaType:
    """Return Numba's type for a C type in jitted functions; a `const` view is a read-only array."""
    types = core("types")
    match ctype:
        case CType(kind="void"):
            return types.none
        case Scalar(kind="bool"):
            return types.boolean
        case Scalar(kind="int"):
            sign = "int" if ctype.signed else "uint"
            return getattr(types, f"{sign}{8 * ctype.size}")
        case Scalar(kind="float", size=4 | 8) | Scalar(kind="complex", size=8 | 16):
            return getattr(types, f"{ctype.kind}{8 * ctype.size}")
        case CType(kind="voidptr"):
            return types.voidptr
        case Pointer(pointee=pointee):
            return types.CPointer(numba_type(getattr(pointee, "item", pointee)))
        case View():
            return types.Array(numba_type(ctype.item), ctype.ndim, "A", readonly=const)
        case Struct(kind="struct") if is_plain(ctype):
            for field in ctype.fields:
                part: Foreign = field.type
                while part.kind == "array":
                    part = part.item
                if part.kind != "pointer":  # pointers are integers in the dtype
                    numba_type(part)
            return sys.modules["numba"].from_dtype(dtype_of(ctype))
    raise SignatureError(f"Numba has no type for {ctype.text!r} ({ctype.c_declaration()})")


def passed(kinds: Iterable[NumbaType]) -> list[NumbaType]:
    """Return the types that a call passes to a compiled instance.

    Drop arguments that take their default, and replace `*args` by its items.
    """
    types = core("types")
    found: list[NumbaType] = []
    left_out = False
    for kind in kinds:
        if isinstance(kind, types.Omitted):
            left_out = True
            continue
        starred = isinstance(kind, (types.StarArgTuple, types.StarArgUniTuple))
        more = [*kind] if starred else [kind]
        if left_out and more:
            raise SignatureError("an argument is omitted before one that is passed")
        found += more
    return found


def becomes(kind: NumbaType, ctype: CType) -> bool:
    """Return whether a value of a Numba type can become an argument, result or field of a C type.

    Records are compared by memory layout; the names of fields do not matter.
    """
    types = core("types")
    kind = types.unliteral(kind)
    match ctype:
        case CType(kind="void"):
            return bool(kind == types.none)
        case Scalar(kind="bool" | "int"):
            return isinstance(kind, (types.Boolean, types.Integer))
        case Scalar(kind="float"):
            return isinstance(kind, (types.Boolean, types.Integer, types.Float))
        case Scalar(kind="complex"):
            return isinstance(kind, (types.Boolean, types.Integer, types.Float, types.Complex))
        case CType(kind="voidptr"):
            return isinstance(kind, types.RawPointer | types.CPointer)
        case Struct(kind="struct") if isinstance(kind, types.BaseTuple):
            fields = [field.type for field in ctype.fields]
            return len(fields) == len(kind) and all(map(becomes, kind, fields))
        case Struct(kind="struct") if isinstance(kind, types.Record):
            return struct_of(kind) == ctype
        case Array() if isinstance(kind, types.BaseTuple):
            return ctype.shape == (len(kind),) and all([becomes(one, ctype.item) for one in kind])
    return bool(kind == numba_type(ctype))


def is_struct(kind: NumbaType, ctype: CType) -> bool:
    """Return whether a record or a tuple can become a struct."""
    try:
        return becomes(kind, ctype)
    except SignatureError:
        return False  # no C struct has the record's memory layout


def is_item(kind: NumbaType, ctype: CType) -> bool:
    """Return whether array elements of a Numba type match a C type."""
    try:
        return suits(ctype_of(kind), ctype)
    except SignatureError:
        return False


def leads_to(ctype: CType, kind: NumbaType) -> bool:
    """Return whether a C pointer may point to elements of a Numba type.

    Return True for `void *` and for C types that are not pointers.
    """
    if not isinstance(ctype, Pointer) or ctype.pointee.kind == "void":
        return True
    return is_item(kind, getattr(ctype.pointee, "item", ctype.pointee))


def result_of(kind: NumbaType) -> CType:
    """Return the C type of a result; a tuple becomes a struct."""
    if isinstance(kind, core("types").BaseTuple) and len(kind):
        names: Iterable[str | None] = getattr(kind, "fields", None) or [None] * len(kind)
        return Struct([(name, result_of(one)) for name, one in zip(names, kind, strict=True)])
    if isinstance(kind, core("types").Array):
        raise SignatureError(
            "it returns an array, which no C function can; pass an array for it to write to"
        )
    return ctype_of(kind)
