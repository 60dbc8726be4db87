"""Who knows a foreign box: finds the bridge for an object of another library.

A bridge (a module in `nativecall.bridges`) knows one library's objects. It is found by the name of
the module that defines the object's type, and loaded only then; so nothing is imported for a
library that the program does not use. A bridge may have

    function(obj) -> Function | None      the C function inside a box
    carried(obj) -> NativeCallable | None the entry that a box of ours was made of
    pointer(obj) -> Pointer | None        the data pointer inside a box
    instance(obj, signature, errors) -> Function | None
                                          the C function that is compiled for a signature
    signatures(obj) -> list | None        for what signatures there are such functions already

and answers None for objects that it does not know after all.

Boxes that are made here carry the entry that they were made of (`NativeCallable._carried`), because
no foreign form says all that an entry does: what C has no type for, whether it needs the GIL, how
it reports failure. So `function` finds the entry itself in them. It is believed only for the
address that the box holds.
"""

from __future__ import annotations

from importlib import import_module
from types import BuiltinFunctionType

from . import _lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from .callable import NativeCallable
    from .ctype import CType
    from .signature import Signature

# The top-level module that a box's type is defined in, or inherits from: its bridge.
_BRIDGES = {
    "_ctypes": "ctypes",
    "ctypes": "ctypes",
    "_cffi_backend": "cffi",
    "numba": "numba",
    "scipy": "scipy",
}
_BUILTIN_BRIDGES = {"PyCapsule": "capsule", "CArgObject": "ctypes"}


class Function:
    """A C function found in a foreign box.

    Attributes
    ----------
    address : int
    signature : Signature or None
        None where the box does not know it.
    owner : object
        What keeps the function alive.
    name : str or None
    flags : int
        What the box says about calls of the function, as an entry has it (docs/abi.md).
    """

    __slots__ = ("address", "flags", "name", "owner", "signature")

    def __init__(
        self,
        address: int,
        signature: Signature | None,
        owner: object,
        name: str | None = None,
        flags: int = 0,
    ) -> None:
        self.address = address
        self.signature = signature
        self.owner = owner
        self.name = name
        self.flags = flags


class Pointer:
    """A data pointer found in a foreign box.

    Attributes
    ----------
    address : int
    pointee : CType or None
        What it points to; None for `void`.
    owner : object
        What keeps the data alive, whatever becomes of the box. A Pin of the core, where the box has
        the memory itself, is asked before the call whether that is still in its place.
    variable : int or None
        Where the pointer itself lies, if the box is a variable of C that holds it.
    is_memory : bool
        Whether the box has the memory itself, as an array does: then it must be aligned. An address
        that a pointer holds is the user's to vouch for: handles may be odd.
    """

    __slots__ = ("address", "is_memory", "owner", "pointee", "variable")

    def __init__(
        self,
        address: int,
        pointee: CType | None,
        owner: object,
        variable: int | None = None,
        *,
        is_memory: bool = False,
    ) -> None:
        self.address = address
        self.pointee = pointee
        self.owner = owner
        self.variable = variable
        self.is_memory = is_memory


def _bridge(obj: object) -> ModuleType | None:
    """The bridge that may know `obj`."""
    for cls in type(obj).__mro__:
        root = str(cls.__module__).partition(".")[0]
        if root in _BRIDGES:
            return import_module(f"{__package__}.bridges.{_BRIDGES[root]}")
        # Types of C modules that do not say which module they are from.
        if root == "builtins" and cls.__name__ in _BUILTIN_BRIDGES:
            return import_module(f"{__package__}.bridges.{_BUILTIN_BRIDGES[cls.__name__]}")
    # A function of cffi's API mode is a plain built-in: its library object tells.
    if isinstance(obj, BuiltinFunctionType) and type(obj.__self__).__module__ == "_cffi_backend":
        return import_module(f"{__package__}.bridges.cffi")
    return None


def holds_entry(obj: object, address: int) -> bool:
    """Whether `obj` is a native callable of one entry, whose function is at `address`."""
    base = _lib.types.CallableBase
    if not issubclass(type(obj), base):
        return False
    rows = base._rows(obj)
    return len(rows) == 1 and rows[0][1] == address


def carried(obj: object) -> NativeCallable | None:
    """The entry that a box of ours was made of, as a callable of that one; else None.

    Consumers in C ask here too (box.h).
    """
    find = getattr(_bridge(obj), "carried", None)
    found: NativeCallable | None = find(obj) if find is not None else None
    return found


def function(obj: object) -> Function | None:
    """The C function inside `obj`, None when no bridge knows one."""
    entry = carried(obj)
    if entry is not None:
        signature, address, flags = entry._one(None)
        return Function(address, signature, obj, entry.__name__, flags)
    find = getattr(_bridge(obj), "function", None)
    found: Function | None = find(obj) if find is not None else None
    return found


def instance(obj: object, signature: Signature, errors: str) -> Function | None:
    """The C function that `obj` can be compiled to, None when it is nothing that can be."""
    bridge = _bridge(obj)
    compile = getattr(bridge, "instance", None)
    found: Function | None = compile(obj, signature, errors) if compile is not None else None
    return found


def signatures(obj: object) -> list[Signature] | None:
    """What `obj` was compiled for already, None when it is nothing that can be compiled."""
    find = getattr(_bridge(obj), "signatures", None)
    found: list[Signature] | None = find(obj) if find is not None else None
    return found


def is_python_function(obj: object) -> bool:
    """Whether `obj` can be called from Python, and holds no C function."""
    if not callable(obj) or isinstance(obj, _lib.types.CallableBase):
        return False
    return _lib.types.viewed(obj) is None and function(obj) is None


def pointer(obj: object) -> Pointer | None:
    """The data pointer inside `obj`, None when no bridge knows one."""
    bridge = _bridge(obj)
    find = getattr(bridge, "pointer", None)
    found: Pointer | None = find(obj) if find is not None else None
    return found
