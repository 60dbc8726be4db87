"""cffi: convert function and data pointers of ABI mode and API mode, in both directions.

cffi distinguishes ``int32_t`` from ``int`` and ``int64_t`` from ``long``, also in function pointer
types. A signature records only widths. Exported pointers therefore use the types that C code uses
most, unless the consumer names other types.
"""

from __future__ import annotations

import gc
import re
import sys

import _cffi_backend

from .. import _ext, _lib
from .._cdecl import cffitype
from .._cdecl.lexer import NAMES
from .._cdecl.nodes import c_name_of
from .._cdecl.spelling import is_ffi_type, parse
from .._errors import TYPE_CHECKING, SignatureError
from .._types.ctype import VOID, VOIDPTR, CType
from .._types.derived import FunctionPointer
from .._types.derived import Pointer as PointerType
from .._types.signature import Signature
from .._values.foreign import Function, Pointer, Struct, beneath, holds_entry
from .._values.handles import is_cdata

if TYPE_CHECKING:
    from .._callable.callable import NativeCallable
    from .._ext import FFIData, FFIType, Foreign

_FROM_BUFFER = "__CDataFromBuf"


def function(obj: FFIData) -> Function | None:
    """Return the function behind a cffi function pointer (ABI mode) or `lib.f` (API mode)."""
    owner = obj
    name = None
    if not is_cdata(obj):
        if type(getattr(obj, "__self__", None)).__name__ != "Lib":
            return None
        name = obj.__name__
        ffi = getattr(sys.modules.get(getattr(obj, "__module__", None) or ""), "ffi", None)
        if ffi is None:
            raise SignatureError(
                f"the FFI object of {obj!r} cannot be found; pass ffi.addressof(lib, {name!r})"
            )
        obj = ffi.addressof(obj.__self__, name)
    kind = _lib.ffi.typeof(obj)
    if kind.kind != "function":
        return None
    signature = cffitype.from_ffi(kind)
    assert isinstance(signature, Signature)
    address = int(_lib.ffi.cast("uintptr_t", obj))
    return Function(address, signature, owner, name)


def reason(obj: Foreign) -> str | None:
    """Return why a cffi object has no C function, and what to pass instead."""
    if is_ffi_type(obj):
        return f"{obj!r} is a cffi type; pass a function pointer of that type"
    if not is_cdata(obj) or _lib.ffi.typeof(obj).cname != "void *":
        return None
    return (
        "a cffi 'void *' has no function type; if it is a function, cast it: "
        "ffi.cast('double (*)(double)', it)"
    )


def pickled(obj: Foreign, *how: Foreign) -> tuple[object, ...] | None:
    """For `pickle`: return a function and arguments that fetch an API-mode function again.

    Return None for other objects.
    """
    module = sys.modules.get(getattr(obj, "__module__", None) or "")
    symbol: str = getattr(obj, "__name__", "")
    lib: Foreign = getattr(module, "lib", None)
    if module is None or not symbol or getattr(lib, symbol, None) is not obj:
        return None
    from .._callable.callable import NativeCallable
    from .._callable.pickled import wrapped_there

    place = module.__name__, f"lib.{symbol}"
    return wrapped_there, (NativeCallable, *place, *how)


def own_entry(obj: FFIData) -> NativeCallable | None:
    """Return the entry of a cffi function pointer that nativecall made."""
    if not is_cdata(obj) or _lib.ffi.typeof(obj).kind != "function":
        return None
    address = int(_lib.ffi.cast("uintptr_t", obj))
    while obj is not None:
        # Only the garbage collector exposes a pointer's destructor.
        held = gc.get_referents(obj)
        for one in held:
            if isinstance(one, _ext.Destructor) and holds_entry(one.owner, address):
                entry: Foreign = one.owner
                return beneath(entry)
        # If a user passed our pointer to ffi.gc(), the new object refers to our pointer.
        obj = next(filter(is_cdata, held), None)
    return None


def pointer(obj: FFIData) -> Pointer | None:
    """Return the address in a cffi pointer or array."""
    if not is_cdata(obj):
        return None
    ffi = _lib.ffi
    kind = ffi.typeof(obj)
    if kind.kind == "function":
        found: Foreign = function(obj)
        return Pointer(found.address, found.signature.function, obj)
    if kind.kind not in ("pointer", "array"):
        return None
    pointee = _pointee(kind.item)
    address = int(ffi.cast("uintptr_t", ffi.cast("void *", obj)))
    owners, is_memory = kept(obj), kind.kind == "array"
    converted = _cffi_backend.new_pointer_type(kind.item) if is_memory else kind
    return Pointer(
        address,
        pointee,
        owners,
        is_memory=is_memory,
        struct=kind.item.kind in ("struct", "union"),
        kind=converted,
        may_change=type(obj).__name__ == _FROM_BUFFER,
    )


def struct(obj: FFIData) -> Struct | None:
    """Return a cffi struct or union, given directly or through a cffi pointer."""
    if not is_cdata(obj):
        return None
    ffi = _lib.ffi
    kind = ffi.typeof(obj)
    is_pointer = kind.kind == "pointer" and kind.item.kind in ("struct", "union")
    if is_pointer:
        kind, obj = kind.item, obj[0]
    if kind.kind not in ("struct", "union"):
        return None
    address = int(ffi.cast("uintptr_t", ffi.addressof(obj)))
    named = c_name_of(kind), ffi.sizeof(kind)
    foreign = None if is_pointer else kind
    return Struct(_pointee(kind), f"cffi's {kind.cname!r}", address, [obj], named, foreign)


def kept(obj: FFIData) -> list[object]:
    """Return the objects that keep the memory of a cffi object alive.

    ffi.release() ends the export of ffi.from_buffer(), so the exporter is held as well.
    """
    found = [obj]
    if type(obj).__name__ == _FROM_BUFFER:
        for exporter in gc.get_referents(obj):
            # hold() raises TypeError for an object that has no memory of its own, only a Python
            # `__buffer__` method.
            try:
                found.append(_ext.hold(exporter))
            except TypeError:
                continue
    return found


def _pointee(kind: FFIType) -> CType | None:
    """Return the type that a pointer points to; None for void and unsupported types."""
    while kind.kind == "array" and kind.length is None:
        kind = kind.item
    try:
        found = cffitype.from_ffi(kind)
    except SignatureError:
        return None
    if isinstance(found, Signature):
        return found.function
    return None if found.kind == "void" else found


def to_cffi(signature: Foreign = None, *, ffi: Foreign = None) -> tuple[Foreign, Foreign]:
    """Parse the arguments of `NativeCallable.to_cffi` that the core does not parse itself."""
    return signature, ffi


def form(entry: NativeCallable) -> tuple[object, ...]:
    """Return cffi's cast and the function type with which the core creates function pointers."""
    cif, _, flags = entry._chosen(None)
    signature = cif.signature
    if flags & _lib.FLAG_NEEDS_GIL and signature.variadic:
        raise ValueError(
            f"{entry.__name__!r} needs the GIL, which cffi releases around calls, and no thunk can "
            "acquire it for a variadic function; use to_ctypes()"
        )
    return _cffi_backend.cast, _usual(signature.function)


# _USUAL maps codes to the most common C type of each width. _WRITTEN maps codes as users write
# them, which distinguish C types of equal width.
_LONG = "long" if _lib.ffi.sizeof("long") == 8 else "long long"
_USUAL = {code: NAMES[code] for code in "?bBhHiIfdg"} | {"q": _LONG, "Q": "size_t"}
_WRITTEN = _USUAL | {code: NAMES[code] for code in "clLqQ"} | {"n": "ssize_t", "N": "size_t"}
_OTHERS = {"v": VOID, "P": VOIDPTR}
_FLAT = re.compile(rf"(&*)([{''.join([*_WRITTEN, *_OTHERS])}])")


_primitive = _cffi_backend.new_primitive_type


def _usual(ctype: CType) -> FFIType:
    """Return the cffi type for a C type, with the most common C name for each part."""
    if ctype.text in _USUAL:
        return _primitive(_USUAL[ctype.text])
    if isinstance(ctype, FunctionPointer):
        from .libffi import refuse_gap

        refuse_gap("cffi", parse(ctype), flattened=True)
        made = cffitype.to_ffi(ctype)  # rejects what cffi cannot express
        if "T" in ctype.text or ctype.variadic:
            return made
        args = tuple(map(_usual, ctype.args))
        abi = cffitype.DEFAULT_ABI
        return _cffi_backend.new_function_type(args, _usual(ctype.result), False, abi)
    if isinstance(ctype, PointerType):
        pointee = _primitive("char") if ctype.pointee.text == "b" else _usual(ctype.pointee)
        return _cffi_backend.new_pointer_type(pointee)
    return cffitype.to_ffi(ctype)


def _as_written(text: str) -> FFIType | None:
    """Return the function type of a signature in plain codes; None for other texts."""
    result, colon, args = re.sub(r"\s", "", text).partition(":")
    parts = _FLAT.findall(args)
    if not colon or not _FLAT.fullmatch(result) or "".join(a + b for a, b in parts) != args:
        return None

    def made(stars: str, letter: str) -> FFIType:
        other = _OTHERS.get(letter)
        found = _primitive(_WRITTEN[letter]) if other is None else cffitype.to_ffi(other)
        for _ in stars:
            found = _cffi_backend.new_pointer_type(found)
        return found

    types = tuple([made(*part) for part in parts])
    (returned,) = _FLAT.findall(result)
    return _cffi_backend.new_function_type(types, made(*returned), False, cffitype.DEFAULT_ABI)


def _declared(ffi: Foreign, text: str) -> FFIType | None:
    """Parse a C declaration with an FFI, and return the function type; None for other texts.

    If `ffi` is None, use a new FFI.
    """
    # C declarations are ASCII, and an API-mode FFI aborts on a lone surrogate.
    if not text.isascii():
        return None
    if ffi is None:
        from cffi import FFI

        ffi = FFI()  # new, because an FFI caches all texts that it parses
    for form in (text, re.sub(r"\(", "(*)(", text, count=1)):
        try:
            found = ffi.typeof(form)
        except Exception:  # cffi's parsers raise many exception types
            continue
        if found.kind == "function":
            return found
    return None


def _named(text: Foreign, ffi: Foreign) -> Signature:
    """Parse the signature in a text that the FFI does not parse as a function type."""
    try:
        return parse(text)
    except SignatureError as error:
        if not isinstance(text, str) or not re.fullmatch(r"[\w\s*(),]+", text):
            raise
        if ffi is None:
            hint = "if your own FFI declares the type, pass it as ffi=ffi"
            raise SignatureError(
                error.reason, error.text, error.position, error.line, hint
            ) from None
        try:
            found = ffi.typeof(text)
        except Exception as refusal:  # cffi's parsers raise many exception types
            reason = (str(refusal).splitlines() or [type(refusal).__name__])[0]
            raise SignatureError(f"the FFI has no type {text!r}: {reason}") from None
        raise SignatureError(f"{found.cname!r} is not a function pointer in cffi") from None


def typed(
    callable: NativeCallable, signature: Foreign, ffi: Foreign
) -> tuple[NativeCallable, tuple[object, ...] | None]:
    """Return the requested entry, and the cast and type for its function pointers.

    The second item is None if the cast and the type are those that `form` returns.
    """
    if ffi is not None and not hasattr(ffi, "typeof"):
        raise TypeError(f"'ffi' must be a cffi FFI or None (got {type(ffi).__name__})")
    if signature is None:
        return callable._alone(None), None
    kind: FFIType | None = None
    if is_ffi_type(signature):
        kind = signature
        if kind.kind == "pointer" and kind.item.kind == "function":
            kind = kind.item
        if kind.kind != "function":
            raise SignatureError(f"{kind.cname!r} is not a function pointer in cffi")
    elif isinstance(signature, str):
        kind = _as_written(signature) or _declared(ffi, signature)
    if kind is None:
        return callable[_named(signature, ffi)], None
    meant = cffitype.from_ffi(kind)
    assert isinstance(meant, Signature)
    entry = callable._matching(meant)
    if form(entry)[1] is kind:
        return entry, None
    return entry, (_cffi_backend.cast, kind)
