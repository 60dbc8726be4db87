"""Make capsules as other libraries do."""

from __future__ import annotations

import ctypes

_api = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _api)
)
get_pointer = ctypes.PYFUNCTYPE(ctypes.c_size_t, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", _api))
set_context = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(
    ("PyCapsule_SetContext", _api)
)
_names: list[bytes | None] = []  # capsules refer to a name by address


def capsule(name: bytes | None, address: int = 1 << 20) -> object:
    """Make a capsule; the caller must keep its content alive."""
    _names.append(name)
    return _new(address, name, None)
