"""Calls through libffi: signatures that have no trampoline, where none can be generated.

ctypes is the way to libffi, not cffi: cffi drops the GIL around every call, and an entry that says
``gil="hold"``, or takes Python objects, must be called with the GIL held. ctypes has both kinds of
call. Arguments are converted by `convert`, into memory of C layout, so results are the same as a
trampoline's.

What ctypes has no type for is passed as something of the same class in the C ABI: a complex number
as a struct of its two parts, a half as the low bits of a float register, a packed struct as its
fields or, beyond 16 bytes, as bytes in memory. What has no such equal is refused with the reason.
"""

from __future__ import annotations

import ctypes
import os
import sys
from _ctypes import (
    FUNCFLAG_CDECL,
    FUNCFLAG_PYTHONAPI,
    FUNCFLAG_USE_ERRNO,
    CFuncPtr,
    set_errno,
)
from itertools import islice
from weakref import WeakValueDictionary, ref

from .. import _lib
from .._errors import SignatureError
from .._signature.ctype import VOID, VOIDPTR, Array, CType, FunctionPointer, Pointer, Struct, scalar
from .._signature.signature import Signature
from .._values import storage
from .._values.failure import raise_failure
from .._values.variadic import extra_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .._values.boxes import Native

_types = _lib.types
_CACHE_LIMIT = 1024
_WORD = ctypes.sizeof(ctypes.c_void_p)
_REGISTERS = 16  # bytes up to which a struct may travel in two registers
_MAX_ARGUMENTS = 1024  # ctypes' own limit
_MAX_BYTES = 1 << 18  # of arguments and result by value: they go on the stack of any thread
_MOST_UNASKED = 1 << 10  # of them for which nobody asks whether the stack has room

# What works instead of a result that libffi cannot return.
RETURN_HINT = "return it through a pointer, or let code be generated (llvmlite, NATIVECALL_JIT)"

SIMPLE: dict[str, Any] = {
    "?": ctypes.c_bool,
    "b": ctypes.c_int8,
    "B": ctypes.c_uint8,
    "h": ctypes.c_int16,
    "H": ctypes.c_uint16,
    "i": ctypes.c_int32,
    "I": ctypes.c_uint32,
    "q": ctypes.c_int64,
    "Q": ctypes.c_uint64,
    "f": ctypes.c_float,
    "d": ctypes.c_double,
    "g": ctypes.c_longdouble,
}


def _raw(simple: Any) -> Any:
    """A subclass of a simple type: ctypes hands out its instances as they are, unconverted."""
    return type(f"raw_{simple.__name__}", (simple,), {})


# An integer of each alignment; for more a long double, which has the most.
_ALIGNED: dict[int, Any] = {
    1: ctypes.c_uint8,
    2: ctypes.c_uint16,
    4: ctypes.c_uint32,
    8: ctypes.c_uint64,
    16: ctypes.c_longdouble,
}
_RAW = {code: _raw(simple) for code, simple in SIMPLE.items()}
RAW_POINTER = _raw(ctypes.c_void_p)
_made: dict[tuple[str, bool], Any] = {}
# ctypes has one type for pointers of a kind, which people's types have to be, too, and keeps it for
# ever, up to Python 3.13 for data. What it keeps for our sake: dicts of ctypes, and keys in them.
_shared: list[tuple[dict[Any, Any], Any]] = []
_FUNCTION_TYPES = getattr(ctypes, "_c_functype_cache", {})
_POINTER_TYPES = getattr(ctypes, "_pointer_type_cache", {}) if sys.version_info < (3, 14) else {}


def _complex_struct(code: str) -> Any:
    part = SIMPLE[code[1]]
    return type("complex", (ctypes.Structure,), {"_fields_": [("re", part), ("im", part)]})


def _refuse(reason: str) -> SignatureError:
    return SignatureError(
        f"{reason} cannot be passed through libffi", hint="pass a pointer to it instead"
    )


def foreign_type(ctype: CType, *, plain: bool = False) -> Any:
    """The ctypes type that travels as `ctype` does.

    Parameters
    ----------
    ctype : CType
    plain : bool
        For people to use: converted automatically by ctypes, pointers typed.

    Raises
    ------
    SignatureError
        When libffi has no equal.
    """
    key = (ctype.named, plain)
    found = _made.get(key)
    if found is None:
        found = _make(ctype, plain)
        if len(_made) >= _CACHE_LIMIT:
            _made.clear()
            _forget_shared()
        _made[key] = found
    return found


def _make(ctype: CType, plain: bool) -> Any:
    if ctype.text in SIMPLE:
        return (SIMPLE if plain else _RAW)[ctype.text]
    if ctype.text == "e":
        if plain:
            raise SignatureError("ctypes has no half-precision float")
        return _RAW["f"]
    if ctype.kind == "complex":
        return _complex_struct(ctype.text)
    if isinstance(ctype, Struct):
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


def _share(cache: dict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    """What ctypes makes and keeps in a cache of its own, as long as we do where it is for us."""
    was_there = key in cache
    made = make()
    if not was_there:
        _shared.append((cache, key))
    return made


def _forget_shared() -> None:
    """Take what is in ctypes' caches for our sake out of them; its users keep it alive."""
    while _shared:
        cache, key = _shared.pop()
        cache.pop(key, None)


def _holds_half(ctype: CType) -> bool:
    if isinstance(ctype, Struct):
        return any([_holds_half(field.type) for field in ctype.fields])
    return _holds_half(ctype.item) if isinstance(ctype, Array) else ctype.text == "e"


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
    if isinstance(ctype, Struct):
        return any([_has_rows(field.type) for field in ctype.fields])
    return isinstance(ctype, Array) and (len(ctype.shape) > 1 or _has_rows(ctype.item))


def gap(signature: Signature, *, flattened: bool) -> str | None:
    """Why callers that know only the C types of ctypes or cffi would go wrong, None when they
    would not: they make such a call, but look for a value in the wrong place.

    Parameters
    ----------
    signature : Signature
    flattened : bool
        Whether an array of several dimensions is one of all its items to the caller: to cffi it
        is, to ctypes not.
    """
    result = signature.result
    if any([_holds_half(one) for one in (*signature.args, result)]):
        return "it has no half-precision float"
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
    return isinstance(ctype, Array) or (
        isinstance(ctype, Struct) and any(_has_array(field.type) for field in ctype.fields)
    )


def _loose(ctype: CType) -> Any:
    """The type without packing, in whatever is inside it either."""
    if isinstance(ctype, Struct):
        return Struct([(field.name, _loose(field.type)) for field in ctype.fields])
    return Array(_loose(ctype.item), ctype.shape) if isinstance(ctype, Array) else ctype


def _is_packed(ctype: CType) -> bool:
    while isinstance(ctype, Array):
        ctype = ctype.item
    return isinstance(ctype, Struct) and (
        ctype.packed or any([_is_packed(field.type) for field in ctype.fields])
    )


def _is_unaligned(struct: Struct) -> bool:
    """Whether packing moves anything in a struct."""
    if not _is_packed(struct):
        return False
    loose = zip(_scalars(struct, 0), _scalars(_loose(struct), 0), strict=True)
    return any([a[0] != b[0] for a, b in loose])


def _is_tight(struct: Struct) -> bool:
    """Whether packing takes padding from the end of a struct, or an alignment that stacks heed."""
    return _loose(struct).size != struct.size or _is_lowered(struct)


def _is_lowered(struct: Struct) -> bool:
    """Whether packing takes an alignment that stacks heed."""
    return bool(_loose(struct).alignment > max(struct.alignment, _WORD))


def _make_struct(struct: Struct, plain: bool) -> Any:
    if _holds_half(struct):
        raise _refuse(f"the struct {struct.text!r}, which holds a half-precision float,")
    if not struct.fields:
        raise _refuse("a struct without fields")
    if not plain and _only_scalar(struct) == "g" and struct.alignment > _WORD:
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
    members: dict[str, Any] = {"_fields_": fields}
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
    elif _is_unaligned(struct) or _is_lowered(struct):
        raise _refuse(f"the packed struct {struct.text!r}")
    return type("Struct", (ctypes.Structure,), members)


# Any pointer after the fixed arguments.
_EXTRA_POINTER = Signature(VOID, (VOIDPTR,), readonly=(True,))
_prototypes: dict[tuple[str, bool, bool, bool], Any] = {}


def prototype(signature: Signature, *, hold: bool, errno: bool = False, plain: bool = False) -> Any:
    """A ctypes function type: its instances call with the GIL held or dropped.

    Parameters
    ----------
    signature : Signature
    hold : bool
        Whether calls keep the GIL.
    errno : bool
        Whether calls swap errno with ctypes' copy.
    plain : bool
        For people to use: arguments and results are converted by ctypes.
    """
    _check_limits(signature)
    key = (signature.function.named, hold, errno, plain)
    found = _prototypes.get(key)
    if found is None:
        flags = FUNCFLAG_CDECL
        flags |= FUNCFLAG_PYTHONAPI if hold else 0
        flags |= FUNCFLAG_USE_ERRNO if errno else 0
        result = signature.result
        members = {
            "_flags_": flags,
            "_argtypes_": tuple(_argument_types(signature, plain)),
            "_restype_": _result_type(result, plain),
        }
        found = type("NativeFunction", (CFuncPtr,), members)
        if len(_prototypes) >= _CACHE_LIMIT:
            _prototypes.clear()
        _prototypes[key] = found
    return found


_closure_types: dict[tuple[Any, tuple[Any, ...], bool], Any] = {}


def closure_type(restype: Any, argtypes: Sequence[Any], *, errno: bool = False) -> Any:
    """A ctypes function type for Python functions, as `ctypes.CFUNCTYPE`, which keeps all.

    Parameters
    ----------
    restype, argtypes : ctypes types
    errno : bool
        Whether calls swap errno with ctypes' copy.
    """
    key = (restype, tuple(argtypes), errno)
    found = _closure_types.get(key)
    if found is None:
        flags = FUNCFLAG_CDECL | (FUNCFLAG_USE_ERRNO if errno else 0)
        members = {"_flags_": flags, "_argtypes_": key[1], "_restype_": restype}
        found = type("NativeClosure", (CFuncPtr,), members)
        if len(_closure_types) >= _CACHE_LIMIT:
            _closure_types.clear()
        _closure_types[key] = found
    return found


def _result_type(result: CType, plain: bool) -> Any:
    if result.kind == "void":
        return None
    if result.kind == "object" and not plain:
        # ctypes counts references of an object result that is NULL.
        return RAW_POINTER
    return foreign_type(result, plain=plain)


def _argument_types(signature: Signature, plain: bool) -> list[Any]:
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

_MACHINE = os.uname().machine if _WORD == 8 and sys.platform != "win32" else ""
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
    if not _AAPCS64 or not isinstance(ctype, Struct) or ctype.size > 4 * scalar("g").size:
        return ()
    found: list[str] = []
    for _, part in _scalars(ctype, 0):
        if part.kind not in ("float", "complex") or len(found) > 4:
            return ()
        found += part.text[1:] * 2 if part.kind == "complex" else part.text
    alike = 0 < len(found) <= 4 and len(set(found)) == 1 and found[0] in SIMPLE
    # Members that fill the struct leave no padding.
    filled = alike and len(found) * scalar(found[0]).size == ctype.size
    return tuple(found) if filled else ()


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
        words = 1 if is_referenced(arg) else (max(arg.size, 1) + _WORD - 1) // _WORD
        if general + words <= _ARM_REGISTERS:
            general += words
            continue
        general = _ARM_REGISTERS
        if is_referenced(arg) and arg.alignment > _WORD:
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


def _check_limits(signature: Signature) -> None:
    """Refuse what would not fit on a stack, before memory is made for it."""
    _check_count(len(signature.args))
    size = _bytes(signature)
    if size > _MAX_BYTES:
        raise SignatureError(
            f"arguments and result of {size} bytes by value are more than the {_MAX_BYTES} that a "
            "call through libffi may put on the stack",
            hint="pass pointers",
        )


def _bytes(signature: Signature) -> int:
    """What a call takes and returns by value."""
    return sum([one.size for one in (*signature.args, signature.result)])


def _check_count(count: int) -> None:
    if count > _MAX_ARGUMENTS:
        raise SignatureError(
            f"{count} arguments are more than the {_MAX_ARGUMENTS} of a call through libffi",
            hint="pass a pointer to a struct of them",
        )


def _layout(args: tuple[CType, ...]) -> tuple[list[int], int]:
    """Offsets of arguments laid out one after the other, and bytes in all."""
    offsets = []
    size = 0
    for arg in args:
        step = max(arg.alignment, 1)
        size = (size + step - 1) // step * step
        offsets.append(size)
        # Small structs are read as whole registers, halves as floats.
        size += max(arg.size + 8, 16)
    return offsets, size


def foreign_function(type_: Any, address: int) -> Any:
    """A function of ctypes that raises what a Python function left, however ctypes calls it."""
    function = type_(address)
    function.errcheck = _types.raise_left
    return function


def called(function: Any, arguments: Sequence[Any]) -> Any:
    """What a function of ctypes returns for arguments that are instances of its very types."""
    try:
        return function(*arguments)
    except ctypes.ArgumentError as error:
        trace = error.__traceback__
        if trace is not None and trace.tb_next is not None:
            raise  # a Python function that C called raised it
        # All that ctypes can fail to do with them is to make its own objects of them, and it
        # loses why.
        raise MemoryError from None


def make_invoke(callable: Native) -> Callable[..., object]:
    """A function of Python arguments that calls the only entry of `callable` through libffi."""
    plan, address, flags = callable._single()
    return invoker(plan, callable.__name__, address, flags, ref(callable))


def invoker(
    plan: Any, name: str, address: int, flags: int, owner: Callable[[], Native | None]
) -> Callable[..., object]:
    """The same of what makes up an entry, and of a weak reference to the callable that has it."""
    signature: Signature = plan.signature
    hold = not flags & _lib.FLAG_RELEASE_GIL
    holds_objects = "O" in signature.result.text
    errors = flags & _lib.ERRORS_MASK
    errno = bool(flags & _lib.FLAG_ERRNO) or errors == _lib.ERRORS["errno"]
    type_ = prototype(signature, hold=hold, errno=errno)
    function = foreign_function(type_, address)
    check_result(signature)
    fixed = signature.args
    offsets, size = _layout(fixed)
    # The very types of the prototype: those of `foreign_type` may be made anew.
    declared = iter(type_._argtypes_)
    halved = overrunning(signature)
    kinds = [tuple(islice(declared, 2 if i in halved else 1)) for i in range(len(fixed))]
    result_type = signature.result
    needed = 3 * _bytes(signature)  # ctypes' copies, libffi's, and those of a thunk on the way
    asks = needed > 3 * _MOST_UNASKED
    pin = _lib.types.pin
    settle = _lib.types.settle
    check_unmoved = _lib.types.check_unmoved

    def convert_one(index: int, ctype: CType, value: Any, at: int, keep: list[object]) -> None:
        if ctype.kind in ("pointer", "voidptr", "function"):
            if index < len(fixed):
                held = pin(plan, name, index, value)
            else:
                # Nobody can say const after the fixed arguments: memory of any kind passes.
                who = f"argument {index + 1} of '{name}'"
                held = pin(storage.plan(_EXTRA_POINTER), who, -1, value)
            keep.append(held)
            _lib.ffi.cast("uintptr_t *", at)[0] = held.address
            return
        promised = index < len(fixed) and signature.readonly[index]
        storage.store(ctype, value, at, f"argument {index + 1} of '{name}'", keep, promised)

    def invoke(*values: Any) -> object:
        keep: list[object] = []
        try:
            return call(values, keep)
        finally:
            # Tracebacks keep frames: nothing may stay exported in one.
            keep.clear()

    def call(values: tuple[Any, ...], keep: list[object]) -> object:
        if asks:
            _types.stack_require(name, needed)
        extra: list[CType] = []
        places, total, types = offsets, size, kinds
        if len(values) > len(fixed):
            _check_count(len(values))
            given: list[object] = []
            for i in range(len(fixed), len(values)):
                ctype, number = extra_argument(values[i], i, name)
                extra.append(ctype)
                given.append(number)
            values = (*values[: len(fixed)], *given)
            places, total = _layout(fixed + tuple(extra))
            types = kinds + [(foreign_type(one),) for one in extra]
        memory = ctypes.create_string_buffer(total + 16)
        base = (ctypes.addressof(memory) + 15) & ~15
        arguments: list[Any] = []
        for i, value in enumerate(values):
            ctype = fixed[i] if i < len(fixed) else extra[i - len(fixed)]
            at = base + places[i]
            if ctype.kind == "object":
                arguments.append(ctypes.py_object(value))
                continue
            convert_one(i, ctype, value, at, keep)
            if is_referenced(ctype):
                arguments.append(RAW_POINTER(at))
                continue
            arguments += [one.from_address(at + _WORD * k) for k, one in enumerate(types[i])]
        if keep and len(values) > 1:
            check_unmoved(keep, name)
        callee = function
        entry = owner()
        if entry is not None and entry._target != address:
            # What an argument ran while it was converted has replaced the entry.
            callee = foreign_function(type_, entry._target)
        code = 0
        others = set_errno(0) if errno else 0
        answer: Any = None
        raised: BaseException | None = None
        lender = (
            _lenders.get(address if entry is None else entry._target) if holds_objects else None
        )
        if lender is not None:
            lender.forget_lent()
        try:
            answer = called(callee, arguments)
        except BaseException as error:
            raised = error
            if lender is not None:
                # With an exception ctypes gives no result; a callback's was its sentinel.
                lender.take_back()
        if errno:
            # The user's own copy is not for calls from here.
            code = set_errno(others)
            _lib.types.save_errno(code)
        try:
            if keep or raised is not None:
                settle(keep, raised)
        except BaseException:
            if holds_objects and answer is not None:
                storage.load(result_type, ctypes.addressof(answer), owned=True)
            raise
        finally:
            raised = None
        if result_type.kind == "void":
            value = None
        elif result_type.kind == "object":
            value = _lib.types.take_object(name, answer.value or 0, errors)
        else:
            value = storage.load(result_type, ctypes.addressof(answer), owned=True)
        if errors:
            raise_failure(name, errors, value, code)
        return value

    return invoke


# -- Python functions that C calls ---------------------------------------------------------------

# What came to an end, which C code may be just about to return through; what runs still.
# The first of a ring's items says which was written last: to write needs no memory.
_ENDED = 64
_ended: list[Any] = [0, *[None] * _ENDED]
_running: list[tuple[Any, Any]] = []
# Closures whose sentinels may be Python objects, by address.
_lenders: WeakValueDictionary[int, Any] = WeakValueDictionary()


class Thunk:
    """A function pointer of ctypes, and the core's Closure that it calls."""

    __slots__ = ("__weakref__", "both", "closure", "pointer")

    pointer: Any
    closure: Any
    both: tuple[Any, Any]

    def __init__(self, pointer: Any, closure: Any) -> None:
        if hasattr(self, "pointer"):
            raise AttributeError("a Thunk is immutable; it has been made already")
        if not isinstance(closure, _types.Closure):
            raise TypeError(f"'closure' must be a Closure (got {type(closure).__name__})")
        object.__setattr__(self, "closure", closure)
        object.__setattr__(self, "both", (pointer, closure))
        object.__setattr__(self, "pointer", pointer)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Thunk is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Thunk is immutable; cannot delete {name!r}")

    def __del__(
        self,
        ended: list[Any] = _ended,
        running: list[tuple[Any, Any]] = _running,
        count: int = _ENDED,
    ) -> None:
        # The lists are there even when the module is torn down.
        if not hasattr(self, "pointer"):
            return  # it was never made
        # What has ended needs no memory here, for want of which nothing could be raised.
        self.closure.close()
        if not running and not self.closure.running:
            ended[0] = at = ended[0] % count + 1
            ended[at] = self.pointer
            return
        running.append(self.both)
        others = running.copy()
        running.clear()
        for both in others:
            if both[1].running:
                running.append(both)
            else:
                ended[0] = at = ended[0] % count + 1
                ended[at] = both[0]


class _Int(int):
    """An integer for ctypes that holds a reraiser; ctypes drops it when all else is done."""

    reraiser: object


class _Float(float):
    """The same for a float."""

    reraiser: object


def returned(restype: Any, sentinel: bytes) -> tuple[Any, type | None]:
    """The sentinel as ctypes takes it, and the class of a result that holds a reraiser."""
    if restype is None:
        return None, None
    zero = restype.from_buffer_copy(sentinel).value or 0
    return zero, _Float if isinstance(zero, float) else _Int


def closure(
    signature: Signature,
    function: Callable[..., object],
    name: str,
    who: str,
    readers: Sequence[Any],
    plan: Any,
    sentinel: bytes,
    objects: tuple[int, ...],
    stash: Any,
    holding: bool,
    stays: bool,
    keep: object,
) -> tuple[int, Any, object]:
    """C code that runs a Python function, made by ctypes; see `callbackfactory.closure`.

    Raises
    ------
    SignatureError
        For results that ctypes does not give to C, and arguments that libffi does not know.
    """
    result = signature.result
    if result.text not in SIMPLE and result.kind in ("struct", "complex", "float"):
        raise SignatureError(f"libffi cannot return {result.text!r} to C", hint=RETURN_HINT)
    kinds = [received(arg) for arg in signature.args]
    given = tuple(
        [
            _reader(arg, reader, f"argument {index + 1} of '{name}'")
            for index, (arg, reader) in enumerate(zip(signature.args, readers, strict=True))
        ]
    )
    restype = None
    if result.kind != "void":
        restype = SIMPLE.get(result.text, ctypes.c_void_p)

    def write(made: Any, value: object) -> object:
        if restype is None:
            return None
        box = restype()
        made.store(value, ctypes.addressof(box))
        return 0 if box.value is None else box.value

    made = _types.Closure(
        function,
        name,
        who,
        given,
        None,
        write,
        returned(restype, sentinel),
        plan,
        storage.letter(result),
        sentinel,
        objects,
        stash,
        holding,
        stays,
        0,
        None,
        keep,
    )
    pointer = closure_type(restype, kinds)(made)
    address = ctypes.c_void_p.from_address(ctypes.addressof(pointer)).value or 0
    if objects:
        _lenders[address] = made
    return address, made, Thunk(pointer, made)


def received(ctype: CType) -> Any:
    """How ctypes hands an argument from C to Python."""
    if ctype.text in SIMPLE:
        return SIMPLE[ctype.text]
    if ctype.kind in ("pointer", "voidptr", "function", "view", "object"):
        return ctypes.c_void_p
    return foreign_type(ctype)


def _reader(ctype: CType, reader: Any, who: str) -> Any:
    """What makes a Python object of that; None for nothing."""
    if ctype.text in SIMPLE:
        return None
    if ctype.kind == "object":

        def borrowed(address: int | None) -> object:
            if address is None:
                raise ValueError(f"{who} is NULL, which is no object")
            return ctypes.cast(address, ctypes.py_object).value

        return borrowed
    if ctype.kind in ("pointer", "voidptr", "function", "view"):
        return lambda address: None if address is None else reader(address)
    return lambda box: storage.load(ctype, ctypes.addressof(box))


# -- results -------------------------------------------------------------------------------------


def check_result(signature: Signature) -> None:
    """Refuse a result that libffi would fetch from the wrong place."""
    if signature.result.text == "Zg":
        # x87 returns it in two registers of the floating-point stack, a struct in memory.
        raise SignatureError(
            f"the result of {signature.text!r}, a complex long double, cannot be returned through "
            "libffi",
            hint=RETURN_HINT,
        )
