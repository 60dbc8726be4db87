"""PyCapsules: function pointers named by a C declaration, as Cython and SciPy exchange them."""

from __future__ import annotations

import ctypes

from .. import _lib
from ..foreign import Function
from ..signature import Signature, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..callable import NativeCallable

# Prototypes of our own: the argtypes of ctypes.pythonapi's functions belong to the whole process.
_get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def function(obj: object) -> Function | None:
    """The function in a capsule: its name is its signature, if it reads as one."""
    name = _get_name(obj)
    address = _get_pointer(obj, name)
    signature: Signature | None = None
    if name is not None:
        try:
            signature = parse(name.decode(), hint="c")
        except (ValueError, UnicodeDecodeError):
            signature = None
    return Function(address or 0, signature, obj)


def from_callable(callable: NativeCallable, signature: Signature, address: int) -> object:
    """A capsule of one entry, named by the entry's C declaration; it keeps the callable alive."""
    return _lib.types.capsule(address, signature.c_declaration("").encode(), callable)
