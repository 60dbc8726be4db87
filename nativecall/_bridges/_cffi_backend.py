"""cffi: function pointers and data pointers of both its modes, both ways."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress

import _cffi_backend

from .. import _lib
from .._errors import SignatureError
from .._libffi import types
from .._signature import cffitype
from .._signature.ctype import CType
from .._signature.signature import Signature
from .._values.boxes import Function, Pointer, Struct, holds_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cffi.FFI import CData as FFIData
    from cffi.FFI import CType as FFIType

    from .._callable.callable import NativeCallable
    from .._types import Foreign

_FROM_BUFFER = "__CDataFromBuf"


def _is_cdata(obj: object) -> bool:
    return type(obj).__module__ == "_cffi_backend" and isinstance(obj, cffitype.ffi().CData)


def _api_mode(obj: Foreign) -> FFIData:
    """The function pointer behind `lib.f` of an API-mode module, which is a plain built-in."""
    module = sys.modules.get(getattr(obj, "__module__", None) or "")
    ffi = getattr(module, "ffi", None)
    if ffi is None:
        raise SignatureError(
            f"the FFI object of {obj!r} cannot be found; pass ffi.addressof(lib, {obj.__name__!r})"
        )
    return ffi.addressof(obj.__self__, obj.__name__)


def function(obj: FFIData) -> Function | None:
    """The function behind a cffi function pointer (ABI mode) or `lib.f` (API mode)."""
    owner = obj
    name = None
    if not _is_cdata(obj):
        if type(getattr(obj, "__self__", None)).__name__ != "Lib":
            return None
        owner, name, obj = (obj, obj.__self__), obj.__name__, _api_mode(obj)
    kind = cffitype.ffi().typeof(obj)
    if kind.kind != "function":
        return None
    signature = cffitype.from_ffi(kind)
    assert isinstance(signature, Signature)
    address = int(cffitype.ffi().cast("uintptr_t", obj))
    return Function(address, signature, owner, name)


def own_entry(obj: FFIData) -> NativeCallable | None:
    """The entry that a cffi function pointer of ours was made of."""
    if not _is_cdata(obj) or cffitype.ffi().typeof(obj).kind != "function":
        return None
    address = int(cffitype.ffi().cast("uintptr_t", obj))
    while True:
        # Only the collector can see what holds a pointer's destructor.
        held = gc.get_referents(obj)
        for one in held:
            if isinstance(one, _lib.types.Keep) and holds_entry(one.owner, address):
                found: NativeCallable = one.owner  # type: ignore[assignment]  # holds_entry
                return found
        # Another ffi.gc() around ours keeps ours.
        obj = [*[one for one in held if _is_cdata(one)], None][0]
        if obj is None:
            return None


def pointer(obj: FFIData) -> Pointer | None:
    """The address in a cffi pointer or array."""
    if not _is_cdata(obj):
        return None
    ffi = cffitype.ffi()
    kind = ffi.typeof(obj)
    if kind.kind == "function":
        found = function(obj)
        assert found is not None
        assert found.signature is not None
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
        kind=converted,
        may_change=type(obj).__name__ == _FROM_BUFFER,
    )


def struct(obj: FFIData) -> Struct | None:
    """The struct that a cffi struct is, or that a pointer to one points to."""
    if not _is_cdata(obj):
        return None
    ffi = cffitype.ffi()
    kind = ffi.typeof(obj)
    if kind.kind == "pointer" and kind.item.kind == "struct":
        kind, obj = kind.item, obj[0]
    if kind.kind != "struct":
        return None
    address = int(ffi.cast("uintptr_t", ffi.addressof(obj)))
    return Struct(_pointee(kind), f"cffi's {kind.cname!r}", address, [obj])


def kept(obj: FFIData) -> list[object]:
    """What keeps the memory of a box: ffi.release() ends the export of ffi.from_buffer()."""
    found = [obj]
    if type(obj).__name__ == _FROM_BUFFER:
        for exporter in gc.get_referents(obj):
            # Those of a __buffer__ in Python export nothing themselves.
            with suppress(TypeError):
                found.append(_lib.types.hold(exporter))
    return found


def _pointee(kind: FFIType) -> CType | None:
    """What a pointer points to; None for void and for types that have no name here."""
    try:
        found = cffitype.from_ffi(kind)
    except SignatureError:
        return None
    if isinstance(found, Signature) or found.kind == "void":
        return None
    return found


def form(entry: NativeCallable) -> tuple[object, ...]:
    """What cffi's function pointers are made of, which have their entry with them: cast, the type,
    and what adds a destructor.
    """
    spec, _, flags = entry._chosen(None)
    signature = spec.signature
    if flags & _lib.FLAG_NEEDS_GIL:
        raise ValueError(
            f"{entry.__name__!r} needs the GIL, which cffi drops around calls; use to_ctypes()"
        )
    gap = types.gap(signature, flattened=True)
    if gap is not None:
        raise SignatureError(f"cffi cannot call {signature.text!r}: {gap}")
    return _cffi_backend.cast, cffitype.to_ffi(signature), _cffi_backend.gcp
