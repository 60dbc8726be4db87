"""C types and prototypes for libffi, as ctypes knows it, and the faults of libffi that they avoid.

What ctypes has no type for is passed as something of the same class in the C ABI: a complex number
as a struct of its two parts, a half as the low bits of a float register, a packed struct as its
fields or, beyond 16 bytes, as bytes in memory. What has no such equal is refused with the reason.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from _ctypes import FUNCFLAG_CDECL, FUNCFLAG_PYTHONAPI, FUNCFLAG_USE_ERRNO, CFuncPtr
from _weakref import ref

from .._errors import SignatureError
from .._fifo import Cache
from .._signature import derived
from .._signature.ctype import SCALARS, CType, is_native, part_of
from .._signature.derived import Array, FunctionPointer, Pointer, Struct, inner_types
from .._signature.signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: Here a class of ctypes', or what one makes: typeshed knows too little of what both have.
    from .._types import Foreign

_CACHE_LIMIT = 1024
WORD = ctypes.sizeof(ctypes.c_void_p)
_REGISTERS = 16  # bytes up to which a struct may travel in two registers
_MAX_ARGUMENTS = 1024  # ctypes' own limit
_MAX_BYTES = 1 << 18  # of arguments and result by value: they go on the stack of any thread

# What works instead of a result that libffi cannot return.
RETURN_HINT = "return it through a pointer, or let code be generated (llvmlite, NATIVECALL_JIT)"

#: The ctypes types of scalars, by code; it has those of C, but for complex numbers.
SIMPLE: dict[str, Foreign] = {
    one.text: found
    for one in SCALARS.values()
    if (found := getattr(ctypes, f"c_{one.c_name.removesuffix('_t').replace(' ', '')}", None))
}


def _raw(simple: Foreign) -> Foreign:
    """A subclass of a simple type: ctypes hands out its instances as they are, unconverted."""
    return type(f"raw_{simple.__name__}", (simple,), {})


# An integer of each alignment; for more a long double, which has the most.
_ALIGNED: dict[int, Foreign] = {
    1: ctypes.c_uint8,
    2: ctypes.c_uint16,
    4: ctypes.c_uint32,
    8: ctypes.c_uint64,
    16: ctypes.c_longdouble,
}
_RAW = {code: _raw(simple) for code, simple in SIMPLE.items()}
RAW_POINTER = _raw(ctypes.c_void_p)
_made: dict[tuple[str, bool], Foreign] = {}
_most = 0  # types that others have, twice: so many are made before others are looked for again
# ctypes has one type for pointers of a kind, which people's types have to be, too, and keeps it for
# ever, up to Python 3.13 for data. What it keeps for our sake: dicts of ctypes, and keys in them.
_shared: list[tuple[dict[Foreign, Foreign], Foreign]] = []
_FUNCTION_TYPES = getattr(ctypes, "_c_functype_cache", {})
_POINTER_TYPES = getattr(ctypes, "_pointer_type_cache", {}) if sys.version_info < (3, 14) else {}


def _complex_struct(ctype: CType) -> Foreign:
    part = SIMPLE[part_of(ctype).text]
    return type("complex", (ctypes.Structure,), {"_fields_": [("re", part), ("im", part)]})


def _refuse(reason: str) -> SignatureError:
    return SignatureError(
        f"{reason} cannot be passed through libffi", hint="pass a pointer to it instead"
    )


def foreign_type(ctype: CType, *, plain: bool = False) -> Foreign:
    """The ctypes type that travels as `ctype` does; SignatureError when libffi has no equal.

    A `plain` one is for people to use: converted automatically by ctypes, pointers typed.
    """
    key = (ctype.named, plain)
    found = _made.get(key)
    if found is None:
        found = _make(ctype, plain)
        if len(_made) >= max(_CACHE_LIMIT, _most):
            _forget()
        _made[key] = found
    return found


def _make(ctype: CType, plain: bool) -> Foreign:
    if ctype.text in SIMPLE:
        return (SIMPLE if plain else _RAW)[ctype.text]
    if not is_native(ctype):
        if plain:
            raise SignatureError(f"ctypes has no {ctype.c_declaration()!r}")
        return _RAW["f"]
    if ctype.kind == "complex":
        return _complex_struct(ctype)
    if isinstance(ctype, Struct):
        if not ctype.is_plain:
            raise SignatureError(f"ctypes passes no {ctype.c_declaration()!r} by value")
        return _make_struct(ctype, plain)
    if isinstance(ctype, Array):
        made = foreign_type(ctype.item, plain=plain)
        if not plain:
            # In a struct that may travel in registers ctypes looks into an array of one dimension,
            # and takes the rows of others for pointers.
            return made * ctype.length
        for length in reversed(ctype.shape):
            made = made * length
        return made
    if ctype.kind == "object":
        return ctypes.py_object
    if plain and isinstance(ctype, FunctionPointer):
        restype = None if ctype.result.kind == "void" else foreign_type(ctype.result, plain=True)
        argtypes = tuple([foreign_type(arg, plain=True) for arg in ctype.args])
        key = (restype, argtypes, FUNCFLAG_CDECL)
        return _share(_FUNCTION_TYPES, key, lambda: ctypes.CFUNCTYPE(restype, *argtypes))
    if plain and isinstance(ctype, Pointer):
        try:
            target = foreign_type(ctype.pointee, plain=True)
        except SignatureError:
            return ctypes.c_void_p
        return _share(_POINTER_TYPES, target, lambda: ctypes.POINTER(target))
    return ctypes.c_void_p if plain else RAW_POINTER


def _share(cache: dict[Foreign, Foreign], key: object, make: Callable[[], Foreign]) -> Foreign:
    """What ctypes makes and keeps in a cache of its own, as long as we do where it is for us."""
    was_there = key in cache
    made = make()
    if not was_there:
        _shared.append((cache, key))
    return made


def _forget() -> None:
    """Drop the types that nobody else has, also from ctypes' caches, where they are for our sake.

    One that a program has, or anything made of it, stays what ctypes gives for these types. Types
    are in cycles, so only a collection tells; meanwhile another thread may have ctypes make its
    own, which then is not the same.
    """
    global _most
    made = [(key, ref(kind)) for key, kind in [*_made.items()]]
    shared = _withdrawn()
    _made.clear()
    _prototypes.clear()
    # ctypes does not say what its types refer to: those in others go after these.
    alive = len(made) + 1
    while (left := sum([one() is not None for _, one in made])) < alive:
        alive = left
        gc.collect()
    for text, reference in made:
        if (kind := reference()) is not None:
            _made.setdefault(text, kind)
    for cache, reference in shared:
        if (kind := reference()) is not None:
            is_function = cache is _FUNCTION_TYPES
            key = (kind._restype_, kind._argtypes_, FUNCFLAG_CDECL) if is_function else kind._type_
            cache[key] = kind
            _shared.append((cache, key))
    _most = 2 * len(_made)


def _withdrawn() -> list[tuple[dict[Foreign, Foreign], ref[Foreign]]]:
    """What was in ctypes' caches for our sake, and is out of them now."""
    found = []
    while _shared:
        cache, key = _shared.pop()
        kind = cache.pop(key, None)
        if kind is not None:
            found.append((cache, ref(kind)))
    return found


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
    if overrunning(signature):
        return "it writes the float of a struct over another argument"
    if _is_misplacing(signature):
        return "it aligns the pointer to a struct on the stack as the struct"
    if not flattened:
        for one in (*signature.args, result):
            if one.size > _SMALL and homogeneous(one) and _has_array(one):
                return "it takes the array in a struct of long doubles for a pointer"
    return None


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


def _is_tight(struct: Struct) -> bool:
    """Whether packing takes padding from the end of a struct, or an alignment that stacks heed."""
    return _loose(struct).size != struct.size or _loses_alignment(struct)


def _loses_alignment(struct: Struct) -> bool:
    """Whether packing takes an alignment that stacks heed."""
    return bool(_loose(struct).alignment > max(struct.alignment, WORD))


def _make_struct(struct: Struct, plain: bool) -> Foreign:
    unknown = _unknown([struct])
    if unknown:
        raise _refuse(f"the struct {struct.text!r}, which holds a {unknown!r},")
    if not struct.fields:
        raise _refuse("a struct without fields")
    if not plain and _only_scalar(struct) == "g" and struct.alignment > WORD:
        # libffi looks for such a result in memory, C returns it where long doubles are returned.
        return _RAW["g"]
    alike = () if plain else homogeneous(struct)
    if alike:
        # In a large struct ctypes would take arrays for pointers.
        numbered = [(f"f{index}", SIMPLE[code]) for index, code in enumerate(alike)]
        return type("Struct", (ctypes.Structure,), {"_fields_": numbered})
    fields = [
        (name, foreign_type(field.type, plain=plain))
        for name, field in zip(struct.field_names, struct.fields, strict=True)
    ]
    members: dict[str, Foreign] = {"_fields_": fields}
    if struct.packed and plain:
        members = {"_pack_": 1, **members}
        if sys.version_info >= (3, 14):
            members["_layout_"] = "ms"
    elif plain:
        pass
    elif struct.size > _REGISTERS:
        if _is_unaligned(struct) or _is_tight(struct):
            # In memory whatever it consists of: only size and alignment count.
            rest = struct.size - struct.alignment
            first = _ALIGNED[struct.alignment]
            members = {"_fields_": [("first", first), ("rest", ctypes.c_uint8 * rest)]}
    elif _is_unaligned(struct) or _loses_alignment(struct):
        raise _refuse(f"the packed struct {struct.text!r}")
    return type("Struct", (ctypes.Structure,), members)


def _set(pointer: Foreign, name: str, value: object) -> None:
    """`__setattr__` of function pointers that people use: one that was changed is not given to
    anybody else, which a callable sees from its entry (csrc/object/boxed.h)."""
    CFuncPtr.__setattr__(pointer, name, value)
    kept = pointer._objects
    if kept is not None and "nativecall" in kept:
        kept["nativecall"] = kept["nativecall"]._alone(None)


# A pointer after the fixed arguments.
_prototypes: Cache[tuple[str, bool, bool, bool], Foreign] = Cache(_CACHE_LIMIT)


def prototype(
    signature: Signature, *, hold: bool, errno: bool = False, plain: bool = False
) -> Foreign:
    """A ctypes function type, whose calls keep the GIL (`hold`) or drop it, and swap errno with
    ctypes' copy (`errno`). A `plain` one is for people to use: ctypes converts arguments and
    results, and takes it wherever it takes a CFUNCTYPE of these types.
    """
    _check_limits(signature)
    key = (signature.function.named, hold, errno, plain)
    found = _prototypes.get(key)
    if found is None:
        flags = FUNCFLAG_CDECL
        flags |= FUNCFLAG_PYTHONAPI if hold else 0
        flags |= FUNCFLAG_USE_ERRNO if errno else 0
        members: dict[str, Foreign] = {
            "_flags_": flags,
            "_argtypes_": tuple(_argument_types(signature, plain)),
            "_restype_": _result_type(signature.result, plain),
        }
        base: Foreign = CFuncPtr
        if plain:
            members["__setattr__"] = _set
            base = foreign_type(signature.function, plain=True)
        # ctypes says no more than the class's name of an argument that it refuses.
        name = f"NativeFunction[{signature.text}]"
        found = _prototypes.keep(key, type(name, (base,), members))
    return found


def _result_type(result: CType, plain: bool) -> Foreign:
    if result.kind == "void":
        return None
    if result.kind == "object" and not plain:
        # ctypes counts references of an object result that is NULL.
        return RAW_POINTER
    return foreign_type(result, plain=plain)


def _argument_types(signature: Signature, plain: bool) -> list[Foreign]:
    types = [foreign_type(arg, plain=plain) for arg in signature.args]
    if not plain:
        types = [
            RAW_POINTER if is_referenced(arg) else type_
            for arg, type_ in zip(signature.args, types, strict=True)
        ]
        for index in reversed(overrunning(signature)):
            types[index : index + 1] = _HALVES
    return types


# -- errors of libffi ----------------------------------------------------------------------------

_MACHINE = os.uname().machine if WORD == 8 and sys.platform != "win32" else ""
_SYSTEM_V = _MACHINE in ("x86_64", "amd64")
_AAPCS64 = _MACHINE in ("aarch64", "arm64")
_ARM_REGISTERS = 8  # for integers and pointers
_GENERAL_REGISTERS, _VECTOR_REGISTERS = 6, 8
# Bytes up to which a struct may travel in registers, as ctypes has it.
_SMALL = 16 if _SYSTEM_V else 32
# A struct of these two words travels as two arguments do.
_HALVES = (_RAW["Q"], _RAW["d"])


def overrunning(signature: Signature) -> list[int]:
    """Arguments that libffi would write over the first vector register.

    On x86-64 it copies a struct whose first word is an integer and whose second a float to the
    general registers whole, and then the second word to its place. Where the first word takes the
    last general register, the copy ends in the first vector register, which an argument may be in.
    """
    if not _SYSTEM_V:
        return []
    result = signature.result
    general = int(isinstance(result, Struct) and not _words(result))
    vector = 0
    found = []
    for index, arg in enumerate(signature.args):
        words = _words(arg)
        integers, floats = words.count("I"), words.count("F")
        if general + integers > _GENERAL_REGISTERS or vector + floats > _VECTOR_REGISTERS:
            continue
        general, vector = general + integers, vector + floats
        if words == "IF" and general == _GENERAL_REGISTERS and vector > 1:
            found.append(index)
    return found


def homogeneous(ctype: CType) -> tuple[str, ...]:
    """The floating-point numbers that 64-bit ARM passes a struct of up to four as; else none."""
    found = derived.homogeneous(ctype) if _AAPCS64 and isinstance(ctype, Struct) else ()
    return tuple([one.text for one in found if one.text in SIMPLE])


def is_referenced(ctype: CType) -> bool:
    """Whether 64-bit ARM passes an argument as a pointer to a copy.

    libffi is given that pointer: it would align the pointer to a struct on the stack as the struct.
    """
    large = _AAPCS64 and isinstance(ctype, Struct) and ctype.size > _REGISTERS
    return large and not homogeneous(ctype)


def _is_misplacing(signature: Signature) -> bool:
    """Whether libffi may put the pointer to a struct at the wrong place on the stack."""
    general = 0
    for arg in signature.args if _AAPCS64 else ():
        if arg.kind in ("float", "complex") or homogeneous(arg):
            continue
        words = 1 if is_referenced(arg) else (max(arg.size, 1) + WORD - 1) // WORD
        if general + words <= _ARM_REGISTERS:
            general += words
            continue
        general = _ARM_REGISTERS
        if is_referenced(arg) and arg.alignment > WORD:
            return True
    return False


def _words(ctype: CType) -> str:
    """The registers that each word of a value takes, ``I`` or ``F``; none for one in memory."""
    if ctype.size > _REGISTERS:
        return ""
    words = [""] * ((ctype.size + WORD - 1) // WORD)
    for offset, part in _scalars(ctype, 0):
        if part.text in ("g", "Zg"):
            return ""
        for at in range(offset // WORD, (offset + part.size - 1) // WORD + 1):
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


def _check_limits(signature: Signature) -> None:
    """Refuse what would not fit on a stack, before memory is made for it."""
    check_count(len(signature.args))
    size = bytes_passed(signature)
    if size > _MAX_BYTES:
        raise SignatureError(
            f"arguments and result of {size} bytes by value are more than the {_MAX_BYTES} that a "
            "call through libffi may put on the stack",
            hint="pass pointers",
        )


def bytes_passed(signature: Signature) -> int:
    """What a call takes and returns by value."""
    return sum([one.size for one in (*signature.args, signature.result)])


def check_count(count: int) -> None:
    if count > _MAX_ARGUMENTS:
        raise SignatureError(
            f"{count} arguments are more than the {_MAX_ARGUMENTS} of a call through libffi",
            hint="pass a pointer to a struct of them",
        )


def check_result(signature: Signature) -> None:
    """Refuse a result that libffi would fetch from the wrong place."""
    if signature.result.text == "Zg":
        # x87 returns it in two registers of the floating-point stack, a struct in memory.
        raise SignatureError(
            f"the result of {signature.text!r}, a complex long double, cannot be returned through "
            "libffi",
            hint=RETURN_HINT,
        )
