"""Read the memory of arrays that have no Python buffer, through other protocols.

The protocols are Arrow's C data interface, DLPack, NumPy's array interface, and the bridge of a
library (`foreign.array`). No library is imported. The memory becomes a buffer. As for any other
buffer, the core checks the elements, memory layout, alignment and writability.

Guarantees:

- No element is copied.
- The memory is released to its exporter exactly once, when the call has returned. (The capsule is
  not renamed, so its own destructor releases the memory.)
- Device memory, nulls, and elements without a C type are rejected.
"""

from __future__ import annotations

import ctypes
import struct
import sys

from .. import _ext, _lib
from .._errors import TYPE_CHECKING
from . import foreign
from .capsules import get_name, get_pointer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from .._ext import Foreign

    #: A buffer, and the object that keeps its memory alive.
    _Found: TypeAlias = tuple[object, object]

_ffi = _lib.ffi
_OTHER_ORDER = ">" if sys.byteorder == "little" else "<"
_LONG_DOUBLE = ctypes.sizeof(ctypes.c_longdouble)
#: PEP 3118 letters by NumPy kind and size.
_LETTERS = {
    **dict(zip(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"], "bhiqBHIQ", strict=True)),
    "b1": "?",
    "f2": "e",
    "f4": "f",
    "f8": "d",
    "c8": "Zf",
    "c16": "Zd",
    f"f{_LONG_DOUBLE}": "g",
    f"c{2 * _LONG_DOUBLE}": "Zg",
}


def memory(value: object, text: str, who: str, what: str = "pointer") -> _Found | None:
    """Return (buffer, owner) for an array without a Python buffer; None for other values.

    Raises
    ------
    TypeError, ValueError, BufferError
        If C code cannot read the memory of the array. The message names the expected type `text`
        and its kind `what`.
    """
    try:
        return _memory(value)
    except MemoryError:
        raise
    except Exception as error:  # the array's library may raise any exception
        kind = type(error) if type(error) in (TypeError, ValueError) else BufferError
        given = type(value).__name__
        problem = kind(f"{who} must be a {text!r} {what} (got {given}: {error})")
    raise problem  # outside `except`, so that no traceback keeps the export alive


def _memory(value: object) -> _Found | None:
    inner = foreign.array(value)
    if inner is not None:
        # If `value` is an instance of `type(inner)`, then `inner` is a view of the same memory, and
        # exports a buffer itself.
        return (inner, value) if isinstance(value, type(inner)) else _memory(inner)
    for name, read in _PROTOCOLS.items():
        # Only NumPy's interface may be an attribute of the instance instead of the type.
        if hasattr(type(value), name) or (name == _INTERFACE and hasattr(value, name)):
            found = read(value)
            if found is not None:
                return found
    return None


def _unpack(layout: str, address: int) -> tuple[Foreign, ...]:
    return struct.unpack(layout, _bytes(address, struct.calcsize(layout)))


def _bytes(address: int, count: int) -> bytes:
    return bytes(_ffi.buffer(_ffi.cast("char *", address), count))


# -- Arrow ---------------------------------------------------------------------------------------

_ARROW = dict(zip("cCsSiIlLefg", "bBhHiIqQefd", strict=True))


def _arrow(value: Foreign) -> _Found:
    """Return the memory of a primitive array without nulls; it is read-only."""
    capsules = value.__arrow_c_array__()
    (name,) = _unpack("@P", get_pointer(capsules[0], b"arrow_schema"))
    form = _ffi.string(_ffi.cast("char *", name)).decode()
    array = get_pointer(capsules[1], b"arrow_array")
    length, nulls, offset, _, _, buffers = _unpack("@5qP", array)
    code = _ARROW.get(form)
    if code is None:
        what = str(getattr(value, "type", form))
        raise TypeError(f"its elements are {what!r} to Arrow, not C numbers")
    valid, data = _unpack("@2P", buffers)
    if nulls and valid:  # a negative count means unknown
        bits = int.from_bytes(_bytes(valid, (offset + length + 7) // 8), "little") >> offset
        nulls = length - (bits & ((1 << length) - 1)).bit_count()
        if nulls:
            raise ValueError(f"{nulls} of its {length} elements are null")
    size = struct.calcsize(code)
    return _ext.Memory(data + offset * size, code.encode(), size, (length,), None, True), capsules


# -- DLPack --------------------------------------------------------------------------------------

_DLTENSOR = "PiiiBBHPPQ"
_READONLY, _COPIED = 1, 2
#: Devices with CPU memory: the CPU, and the pinned host memory of CUDA and ROCm.
_HOST = (1, 3, 11)
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA", 14: "oneAPI"}
_DLPACK_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


def _dlpack(value: Foreign) -> _Found:
    device = int(value.__dlpack_device__()[0])
    if device not in _HOST:
        name = _DEVICES.get(device, f"number {device}")
        raise ValueError(f"its memory is on a device ({name}); copy it to the CPU")
    try:
        capsule = value.__dlpack__(max_version=(1, 0), copy=False)
    except TypeError:
        capsule = value.__dlpack__()  # exporters before DLPack 1.0
    flags = 0
    if get_name(capsule) == b"dltensor_versioned":
        start = get_pointer(capsule, b"dltensor_versioned")
        major, minor, _, _, flags, *tensor = _unpack("@IIPPQ" + _DLTENSOR, start)
        if major != 1:
            raise BufferError(f"its version of DLPack, {major}.{minor}, is not supported")
    else:
        tensor = [*_unpack("@" + _DLTENSOR, get_pointer(capsule, b"dltensor"))]
    data, _, _, ndim, code, bits, lanes, lengths, steps, offset = tensor
    if flags & _COPIED:
        raise BufferError("it exports a copy")
    letter = _LETTERS.get(f"{_DLPACK_KINDS.get(code)}{bits // 8}")
    if letter is None or bits % 8 or lanes != 1:
        what = f"{bits} bits of DLPack's type {code}" + (f", {lanes} times" if lanes != 1 else "")
        raise TypeError(f"its elements are not C numbers ({what})")
    size = bits // 8
    shape = _unpack(f"@{ndim}q", lengths) if ndim else ()
    strides = None
    if ndim and steps:
        strides = tuple([size * step for step in _unpack(f"@{ndim}q", steps)])
    start, locked = data + offset, bool(flags & _READONLY)
    return _ext.Memory(start, letter.encode(), size, shape, strides, locked), capsule


# -- NumPy's array interface ---------------------------------------------------------------------

_INTERFACE = "__array_interface__"


def _interface(value: Foreign) -> _Found | None:
    told = value.__array_interface__
    if not isinstance(told, dict):
        return None
    kind = told["typestr"]
    letter = _LETTERS.get(kind[1:])
    if letter is None:
        what = "Python objects" if kind[1:] == "O" else f"{kind!r} to NumPy, not C numbers"
        raise TypeError(f"its elements are {what}")
    size = int(kind[2:])
    if kind[0] == _OTHER_ORDER and size > 1:
        raise TypeError("its elements do not have this machine's byte order; pass a copy that does")
    if told.get("mask") is not None:
        raise ValueError("it has a mask")
    data, keep = told.get("data"), value
    if isinstance(data, tuple):
        address, readonly = data
    else:
        keep, *_, readonly = _ext.export(value if data is None else data)
        address = keep.address + told.get("offset", 0)
    strides = told.get("strides")
    shape = tuple(told["shape"])
    strides = None if strides is None else tuple(strides)
    form = letter.encode()
    return _ext.Memory(address, form, size, shape, strides, bool(readonly)), keep


_PROTOCOLS: dict[str, Callable[[Foreign], _Found | None]] = {
    "__arrow_c_array__": _arrow,
    _INTERFACE: _interface,
    "__dlpack__": _dlpack,
}
