"""Calls through libffi: every signature without a trampoline, and every call with special flags.

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
import sys
from _ctypes import (
    FUNCFLAG_CDECL,
    FUNCFLAG_PYTHONAPI,
    FUNCFLAG_USE_ERRNO,
    CFuncPtr,
    get_errno,
    set_errno,
)

from . import _lib, convert
from .ctype import Array, CType, FunctionPointer, Struct, scalar
from .errors import NativeFailure, SignatureError
from .signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .callable import NativeCallable

_CACHE_LIMIT = 4096
_WORD = ctypes.sizeof(ctypes.c_void_p)
_REGISTERS = 16  # bytes up to which a struct may travel in two registers

_SIMPLE: dict[str, Any] = {
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


_RAW = {code: _raw(simple) for code, simple in _SIMPLE.items()}
_RAW_POINTER = _raw(ctypes.c_void_p)
_made: dict[tuple[str, bool], Any] = {}


def _complex_struct(code: str) -> Any:
    part = _SIMPLE[code[1]]
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
        if len(_made) > _CACHE_LIMIT:
            _made.clear()
        _made[key] = found
    return found


def _make(ctype: CType, plain: bool) -> Any:
    if ctype.text in _SIMPLE:
        return (_SIMPLE if plain else _RAW)[ctype.text]
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
        for length in reversed(ctype.shape):
            made = made * length
        return made
    if ctype.kind == "object":
        return ctypes.py_object
    if plain and isinstance(ctype, FunctionPointer):
        return ctypes.CFUNCTYPE(
            None if ctype.result.kind == "void" else foreign_type(ctype.result, plain=True),
            *[foreign_type(arg, plain=True) for arg in ctype.args],
        )
    if plain and ctype.kind == "pointer":
        pointee = ctype.pointee  # type: ignore[attr-defined]
        try:
            return ctypes.POINTER(foreign_type(pointee, plain=True))
        except SignatureError:
            return ctypes.c_void_p
    return ctypes.c_void_p if plain else _RAW_POINTER


def _holds_half(ctype: CType) -> bool:
    if isinstance(ctype, Struct):
        return any(_holds_half(field.type) for field in ctype.fields)
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


def gap(signature: Signature) -> str | None:
    """Why callers that know only the C types of ctypes and cffi would go wrong, None when they
    would not: they make such a call, but look for a value in the wrong place."""
    result = signature.result
    if any(_holds_half(one) for one in (*signature.args, result)):
        return "it has no half-precision float"
    if result.text == "Zg":
        return "it has no complex long double result"
    if isinstance(result, Struct) and _only_scalar(result) == "g":
        return "it looks for a struct of one long double in memory"
    for one in (*signature.args, result):
        if isinstance(one, Struct) and one.size <= _REGISTERS and _is_unaligned(one):
            return "it takes a small packed struct apart by other rules than C"
    return None


def _is_unaligned(struct: Struct) -> bool:
    """Whether packing moves a member of a struct, or of one inside it."""
    natural = Struct([(field.name, field.type) for field in struct.fields])
    if any(a.offset != b.offset for a, b in zip(natural.fields, struct.fields, strict=True)):
        return True
    for field in struct.fields:
        inner = field.type
        while isinstance(inner, Array):
            inner = inner.item
        if isinstance(inner, Struct) and _is_unaligned(inner):
            return True
    return False


def _make_struct(struct: Struct, plain: bool) -> Any:
    if _holds_half(struct):
        raise _refuse(f"the struct {struct.text!r}, which holds a half-precision float,")
    if not struct.fields:
        raise _refuse("a struct without fields")
    if not plain and _only_scalar(struct) == "g":
        # libffi looks for such a result in memory, C returns it where long doubles are returned.
        return _RAW["g"]
    fields = [
        (name, foreign_type(field.type, plain=plain))
        for name, field in zip(struct.field_names, struct.fields, strict=True)
    ]
    members: dict[str, Any] = {"_fields_": fields}
    if struct.packed and plain:
        members = {"_pack_": 1, **members}
        if sys.version_info >= (3, 14):
            members["_layout_"] = "ms"
    elif struct.packed and _is_unaligned(struct):
        if struct.size <= _REGISTERS:
            raise _refuse(f"the packed struct {struct.text!r}")
        members = {"_fields_": [("bytes", ctypes.c_uint8 * struct.size)]}
    return type("Struct", (ctypes.Structure,), members)


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
    key = (signature.function.named, hold, errno, plain)
    found = _prototypes.get(key)
    if found is None:
        flags = FUNCFLAG_CDECL
        flags |= FUNCFLAG_PYTHONAPI if hold else 0
        flags |= FUNCFLAG_USE_ERRNO if errno else 0
        result = signature.result
        members = {
            "_flags_": flags,
            "_argtypes_": tuple([foreign_type(arg, plain=plain) for arg in signature.args]),
            "_restype_": None if result.kind == "void" else foreign_type(result, plain=plain),
        }
        found = type("NativeFunction", (CFuncPtr,), members)
        if len(_prototypes) > _CACHE_LIMIT:
            _prototypes.clear()
        _prototypes[key] = found
    return found


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


def _extra_type(value: object, who: str) -> CType:
    """The C type that a Python value has as an argument after the fixed ones (C99 6.5.2.2)."""
    from . import foreign
    from .ctype import VOIDPTR

    if isinstance(value, float):
        return scalar("d")
    if isinstance(value, int):
        return scalar("i" if -(2**31) <= value < 2**31 else "q" if value < 2**63 else "Q")
    if value is None or isinstance(value, (bytes, bytearray, memoryview)):
        return VOIDPTR
    if foreign.pointer(value) is not None:
        return VOIDPTR
    simple = getattr(type(value), "_type_", None)
    if isinstance(value, ctypes._SimpleCData) and isinstance(simple, str):
        from .bridges.ctypes import ctype_of

        found = ctype_of(type(value))
        # The default argument promotions.
        if found.text == "f":
            return scalar("d")
        return scalar("i") if found.kind in ("bool", "int") and found.size < 4 else found
    try:
        is_array = memoryview(value).ndim > 0  # type: ignore[arg-type]
    except (TypeError, BufferError, ValueError):
        is_array = False
    if is_array:
        return VOIDPTR
    if hasattr(value, "__index__"):
        return _extra_type(value.__index__(), who)
    if hasattr(value, "__float__"):
        return scalar("d")
    raise TypeError(
        f"{who} has no C type of its own (got {type(value).__name__}); pass an int, a float, "
        "bytes, a buffer, or a ctypes or cffi value"
    )


def _extra_value(value: Any) -> Any:
    """A ctypes number passes as the number in it."""
    if isinstance(value, ctypes._SimpleCData) and not isinstance(
        value, (ctypes.c_void_p, ctypes.c_char_p)
    ):
        return value.value
    return value


def make_invoke(callable: NativeCallable) -> Callable[..., object]:
    """A function of Python arguments that calls the only entry of `callable` through libffi."""
    plan = callable._plan
    signature: Signature = plan.signature
    _, address, flags = callable._rows()[0]
    name = callable.__name__
    hold = not flags & _lib.FLAG_RELEASE_GIL
    errors = flags & _lib.ERRORS_MASK
    errno = bool(flags & _lib.FLAG_ERRNO) or errors == _lib.ERRORS["errno"]
    function = prototype(signature, hold=hold, errno=errno)(address)
    _check_result(signature)
    fixed = signature.args
    offsets, size = _layout(fixed)
    kinds = [foreign_type(arg) for arg in fixed]
    result_type = signature.result
    pin = _lib.types.pin

    def convert_one(index: int, ctype: CType, value: Any, at: int, keep: list[object]) -> None:
        if ctype.kind in ("pointer", "voidptr", "function") and index < len(fixed):
            held = pin(plan, name, index, value)
            keep.append(held)
            _lib.ffi.cast("uintptr_t *", at)[0] = held.address
            return
        convert.store(ctype, value, at, f"argument {index + 1} of '{name}'", keep)

    def invoke(*values: Any) -> object:
        extra: list[CType] = []
        places, total, types = offsets, size, kinds
        if len(values) > len(fixed):
            for i in range(len(fixed), len(values)):
                extra.append(_extra_type(values[i], f"argument {i + 1} of '{name}'"))
            places, total = _layout(fixed + tuple(extra))
            types = kinds + [foreign_type(one) for one in extra]
        memory = ctypes.create_string_buffer(total + 16)
        base = (ctypes.addressof(memory) + 15) & ~15
        keep: list[object] = []
        arguments: list[Any] = []
        for i, value in enumerate(values):
            ctype = fixed[i] if i < len(fixed) else extra[i - len(fixed)]
            at = base + places[i]
            if ctype.kind == "object":
                arguments.append(ctypes.py_object(value))
                continue
            if i < len(fixed):
                convert_one(i, ctype, value, at, keep)
            else:
                _store_extra(ctype, _extra_value(value), at, keep, f"argument {i + 1} of '{name}'")
            arguments.append(types[i].from_address(at))
        if errno:
            set_errno(0)
        answer = function(*arguments)
        code = get_errno() if errno else 0
        if errno:
            _saved.value = code
        if result_type.kind == "void":
            value = None
        elif result_type.kind == "object":
            value = answer
        else:
            value = convert.load(result_type, ctypes.addressof(answer))
        if errors:
            _raise_failure(name, errors, value, code)
        return value

    return invoke


def _store_extra(ctype: CType, value: Any, at: int, keep: list[object], who: str) -> None:
    """An argument after the fixed ones; buffers pass as their address."""
    if ctype.kind != "voidptr" or value is None:
        convert.store(ctype, value, at, who, keep)
        return
    from . import foreign

    found = foreign.pointer(value)
    if found is not None:
        keep.append(found.owner)
        address = found.address
    else:
        held = _lib.ffi.from_buffer(value)
        keep.append(held)
        address = int(_lib.ffi.cast("uintptr_t", held))
    _lib.ffi.cast("uintptr_t *", at)[0] = address


def _check_result(signature: Signature) -> None:
    """Refuse a result that libffi would fetch from the wrong place."""
    if signature.result.text == "Zg":
        # x87 returns it in two registers of the floating-point stack, a struct in memory.
        raise SignatureError(
            f"the result of {signature.text!r}, a complex long double, cannot be returned through "
            "libffi",
            hint="return it through a pointer",
        )


class _Saved:
    """errno after the last call with ``errno=True`` on each thread."""

    def __init__(self) -> None:
        from _thread import _local

        self._local = _local()

    @property
    def value(self) -> int:
        return getattr(self._local, "value", 0)

    @value.setter
    def value(self, code: int) -> None:
        self._local.value = code


_saved = _Saved()


def saved_errno() -> int:
    """See `nativecall.get_errno`."""
    return _saved.value


def _raise_failure(name: str, errors: int, value: Any, code: int) -> None:
    """Turn an entry's error convention (D11) into an exception.

    The convention "python" needs nothing here: a call that holds the GIL raises what was set.
    """
    import os

    if errors == _lib.ERRORS["errno"] and code != 0:
        raise OSError(code, f"{os.strerror(code)} (from '{name}')")
    if errors == _lib.ERRORS["nonzero"] and value != 0:
        raise NativeFailure(f"'{name}' failed: it returned {value}, not 0", value)
    if errors == _lib.ERRORS["zero"] and not value:
        raise NativeFailure(f"'{name}' failed: it returned 0", value)
    if errors == _lib.ERRORS["null"] and value is None:
        raise NativeFailure(f"'{name}' failed: it returned NULL", value)
