"""PyCapsules: function pointers named by a C declaration, as Cython and SciPy exchange them.

Consumers compare the names character by character, so a name is spelt as Cython spells it: plain C
types, no argument names, one space after each comma. A strided view, which C has no name for, is
``void *`` in it, and no name says whether a function needs the GIL; so capsules that are made here
have their entry with them as well.
"""

from __future__ import annotations

import ctypes

from .. import _lib
from .._signature.ctype import CType
from .._signature.signature import Signature
from .._signature.spelling import parse
from .._values.boxes import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._callable.callable import NativeCallable

# Prototypes of our own: the argtypes of ctypes.pythonapi's functions belong to the whole process.
_get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def own_entry(obj: object) -> NativeCallable | None:
    """The entry that a capsule of ours was made of."""
    found: NativeCallable | None = _lib.types.capsule_entry(obj)
    return found


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


_SPELLINGS = {
    "?": "_Bool",
    "b": "signed char",
    "B": "unsigned char",
    "h": "short",
    "H": "unsigned short",
    "i": "int",
    "I": "unsigned int",
    "Zf": "float complex",
    "Zd": "double complex",
    "Zg": "long double complex",
}


def spelling(signature: Signature) -> str:
    """The name of a capsule of `signature`."""
    return signature.function.declare_function("", spell=_spell).strip()


def _spell(ctype: CType) -> str:
    if ctype.text in ("q", "Q"):
        # The platform's own type of that size, as for npy_intp and Py_ssize_t.
        name = "long" if ctypes.sizeof(ctypes.c_long) == ctype.size else "long long"
        return name if ctype.text == "q" else "unsigned " + name
    if ctype.kind in ("voidptr", "view"):
        return "void *"
    return _SPELLINGS.get(ctype.text) or ctype.c_declaration().strip()


def from_callable(callable: NativeCallable, wanted: str | Signature | None) -> object:
    """A capsule of an entry, named by its C declaration."""
    return from_entry(callable._for_box(wanted))


def from_entry(entry: NativeCallable, name: str | None = None) -> object:
    """A capsule with an entry in it, named by its C declaration or as a consumer spells that."""
    signature, address, _ = entry._chosen(None)
    return _lib.types.capsule(address, (name or spelling(signature)).encode(), entry)
