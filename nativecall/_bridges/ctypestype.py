"""Make ctypes types and function prototypes from C types, for functions that ctypes calls.

ctypes accepts such a prototype wherever it accepts the CFUNCTYPE of the same types. A type is never
replaced while a program still uses it.
"""

from __future__ import annotations

import ctypes
import sys
from _ctypes import FUNCFLAG_CDECL, FUNCFLAG_PYTHONAPI, CFuncPtr
from weakref import WeakValueDictionary

from .._errors import TYPE_CHECKING, SignatureError
from .._fifo import Cache
from .._types.ctype import SCALARS, CType, is_native, part_of
from .._types.derived import Array, FunctionPointer, Pointer, Struct
from .._types.signature import Signature

if TYPE_CHECKING:
    #: A ctypes class or an instance: typeshed covers too little of both.
    from .._ext import Foreign

_MAX_ARGUMENTS = 1024  # ctypes' own limit

#: The ctypes types of scalars, by code; complex numbers are missing.
SIMPLE: dict[str, Foreign] = {
    one.text: found
    for one in SCALARS.values()
    if (found := getattr(ctypes, f"c_{one.c_name.removesuffix('_t').replace(' ', '')}", None))
}
# ctypes caches one pointer type per target type, and a pointer type of a user must be that same
# type. So this cache must find a type as long as anything references it.
_made: WeakValueDictionary[str, Foreign] = WeakValueDictionary()


def foreign_type(ctype: CType) -> Foreign:
    """Return the ctypes type of a C type; raises SignatureError if there is none."""
    key = ctype.named
    found = _made.get(key)
    return _made.setdefault(key, _make(ctype)) if found is None else found


def _make(ctype: CType) -> Foreign:
    if ctype.text in SIMPLE:
        return SIMPLE[ctype.text]
    if not is_native(ctype):
        raise SignatureError(f"ctypes has no {ctype.c_declaration()!r}")
    if ctype.kind == "complex":
        part = SIMPLE[part_of(ctype).text]
        return type("complex", (ctypes.Structure,), {"_fields_": [("re", part), ("im", part)]})
    if isinstance(ctype, Struct):
        return _make_struct(ctype)
    if isinstance(ctype, Array):
        made = foreign_type(ctype.item)
        for length in reversed(ctype.shape):
            made = made * length
        return made
    if ctype.kind == "object":
        return ctypes.py_object
    if isinstance(ctype, FunctionPointer):
        return ctypes.CFUNCTYPE(_result_type(ctype.result), *map(foreign_type, ctype.args))
    if isinstance(ctype, Pointer):
        try:
            return ctypes.POINTER(foreign_type(ctype.pointee))
        except SignatureError:
            return ctypes.c_void_p
    return ctypes.c_void_p


def _make_struct(struct: Struct) -> Foreign:
    if not struct.is_plain or not struct.fields:
        raise SignatureError(f"ctypes passes no {struct.c_declaration()!r} by value")
    members: dict[str, Foreign] = {
        "_fields_": [
            (name, foreign_type(field.type))
            for name, field in zip(struct.field_names, struct.fields, strict=True)
        ]
    }
    if struct.packed:
        members = {"_pack_": 1, **members}
        if sys.version_info >= (3, 14):
            members["_layout_"] = "ms"
    return type("Struct", (ctypes.Structure,), members)


def _result_type(result: CType) -> Foreign:
    return None if result.kind == "void" else foreign_type(result)


def _set(pointer: Foreign, name: str, value: object) -> None:
    """`__setattr__` of exported function pointers.

    After a change, a pointer is no longer shared: it keeps a new callable of the same entry alive.
    The cache of the original callable returns a pointer only while the pointer keeps the previous
    one alive (csrc/callable/foreign.h).
    """
    CFuncPtr.__setattr__(pointer, name, value)
    kept = pointer._objects
    if kept is not None and "nativecall" in kept:
        kept["nativecall"] = kept["nativecall"]._alone(None)


_prototypes: Cache[tuple[str, bool], Foreign] = Cache(1024)


def prototype(signature: Signature, *, hold: bool) -> Foreign:
    """Return a class of function pointers whose calls hold the GIL (`hold`) or release it."""
    count = len(signature.args)
    if count > _MAX_ARGUMENTS:  # ctypes checks this only after allocating memory
        raise SignatureError(
            f"{count} arguments are more than the {_MAX_ARGUMENTS} that ctypes can pass",
            hint="pass a pointer to a struct of them",
        )
    key = (signature.function.named, hold)
    found = _prototypes.get(key)
    if found is None:
        members: dict[str, Foreign] = {
            "_flags_": FUNCFLAG_CDECL | (FUNCFLAG_PYTHONAPI if hold else 0),
            "_argtypes_": tuple(map(foreign_type, signature.args)),
            "_restype_": _result_type(signature.result),
            "__setattr__": _set,
        }
        base = foreign_type(signature.function)
        # ctypes' error for a rejected argument shows only the class name.
        found = _prototypes.keep(key, type(f"NativeFunction[{signature.text}]", (base,), members))
    return found
