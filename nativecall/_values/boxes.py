"""Who knows a foreign box: finds the bridge for an object of another library.

A bridge (a module in `nativecall._bridges`) knows one library's objects. It is found by the name of
the module that defines the object's type, and loaded only then; so nothing is imported for a
library that the program does not use. A bridge may have

    function(obj) -> Function | None      the C function inside a box
    own_entry(obj) -> NativeCallable | None
                                          the entry that a box of ours was made of
    pointer(obj) -> Pointer | None        the data pointer inside a box
    struct(obj) -> Struct | None          the struct by value that a box has
    layout(obj) -> CType | None           the type of the memory that a box has, where its buffer
                                          does not tell; SignatureError where there is none
    instance(obj, signature, errors) -> Function | None
                                          the C function that it has, or compiles, for a signature
    signatures(obj) -> list | None        for what signatures there are such functions already

and answers None for objects that it does not know after all. Objects of other providers, which
have a call table or `__nativecall_api__`, are known by that: `native` is their bridge, whatever
module they are of. It may make boxes as well, of an entry
or of a callable (`from_entry`, `from_callable`): `bridge` gives it to who asks for one.

Boxes that are made here keep the entry that they were made of (`NativeCallable._for_box`), because
no foreign form says all that an entry does: what C has no type for, whether it needs the GIL, how
it reports failure. So `function` finds the entry itself in them. It is believed only for the
address that the box holds.
"""

from __future__ import annotations

from importlib import import_module

from .. import _lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Protocol, Self

    from .._signature.ctype import CType
    from .._signature.signature import Signature
    from .._types import CallSpec

    class Native(Protocol):
        """A native callable, as far as the modules below it know it (callable.py)."""

        __name__: str
        _doc: str | None
        _target: int
        _specializer: Any

        @property
        def _generated(self) -> object: ...

        def __call__(self, *values: object) -> object: ...
        def address(self) -> int: ...
        def _entries(self) -> list[tuple[str, int, int]]: ...
        def _entry(self) -> tuple[CallSpec, int, int]: ...
        def _resolved(self) -> list[tuple[Self, Signature, int, int]]: ...
        def _chosen(self, signature: str | Signature | None) -> tuple[Signature, int, int]: ...
        def _add_missing(self, found: Any) -> None: ...
        def _derived(
            self, spec: CallSpec, address: int, flags: int, owner: object, name: str | None = None
        ) -> Self: ...
        def _choose(self, fixed: int) -> None: ...


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
        What the box says about calls of the function, as an entry has it (docs/abi/find.md).
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


class Struct:
    """A struct by value found in a foreign box.

    Attributes
    ----------
    type : CType or None
        None where no signature describes it.
    shown : str
        For messages: whose it is, and what.
    address : int
        Of its memory, if it has a type.
    kept : list
        What keeps that, and all that the pointers in it lead to, whatever becomes of the box.
    """

    __slots__ = ("address", "kept", "shown", "type")

    def __init__(self, type: CType | None, shown: str, address: int, kept: list[object]) -> None:
        self.type = type
        self.shown = shown
        self.address = address
        self.kept = kept


def bridge(name: str) -> ModuleType:
    """The bridge of a library: the one place where a bridge is imported, and only by its name."""
    return import_module(f"nativecall._bridges.{name}")


def _ask(obj: object, question: str, *given: object) -> Any:
    """The first answer of the bridges that may know `obj`; None when none has one."""
    asked = ""
    for cls in type(obj).__mro__:
        root = str(cls.__module__).partition(".")[0]
        # Types of C modules that do not say which module they are from.
        name = _BUILTIN_BRIDGES.get(cls.__name__) if root == "builtins" else _BRIDGES.get(root)
        if name is not None and name != asked:
            asked = name
            answer = _answer(name, question, obj, given)
            if answer is not None:
                return answer
    # A function of cffi's API mode is a plain built-in: its library object tells.
    if type(obj) is type(len):
        library = getattr(obj, "__self__", None)
        if type(library).__module__ == "_cffi_backend":
            return _answer("cffi", question, obj, given)
    if question in ("instance", "signatures") and _lib.types.native_offer(obj) is not None:
        return _answer("native", question, obj, given)
    return None


def _answer(name: str, question: str, obj: object, given: tuple[object, ...]) -> object:
    find = getattr(bridge(name), question, None)
    return None if find is None else find(obj, *given)


def holds_entry(obj: object, address: int) -> bool:
    """Whether `obj` is a native callable of one entry, whose function is at `address`."""
    base = _lib.types.CallableBase
    if not issubclass(type(obj), base):
        return False
    entries = base._entries(obj)  # type: ignore[arg-type]  # that it is one is known
    return len(entries) == 1 and entries[0][1] == address


def own_entry(obj: object) -> Native | None:
    """The entry that a box of ours was made of, as a callable of that one; else None.

    Consumers in C ask here too (box.h), by the name `nativecall._own_entry`.
    """
    found: Native | None = _ask(obj, "own_entry")
    return found


def function(obj: object) -> Function | None:
    """The C function inside `obj`, None when no bridge knows one."""
    entry = own_entry(obj)
    if entry is not None:
        signature, address, flags = entry._chosen(None)
        return Function(address, signature, obj, entry.__name__, flags)
    found: Function | None = _ask(obj, "function")
    return found


def instance(obj: object, signature: Signature, errors: str) -> Function | None:
    """The C function that `obj` has, or can be compiled to, for a signature, None when it is
    nothing that has several.
    """
    found: Function | None = _ask(obj, "instance", signature, errors)
    return found


def signatures(obj: object) -> list[Signature] | None:
    """What `obj` has entries of, or was compiled for already, None when it is nothing of the
    kind.
    """
    found: list[Signature] | None = _ask(obj, "signatures")
    return found


def is_python_function(obj: object) -> bool:
    """Whether `obj` can be called from Python, and holds no C function."""
    if not callable(obj) or isinstance(obj, _lib.types.CallableBase):
        return False
    if _lib.types.viewed(obj) is not None or function(obj) is not None:
        return False
    return _lib.types.native_offer(obj) is None


def pointer(obj: object) -> Pointer | None:
    """The data pointer inside `obj`, None when no bridge knows one."""
    found: Pointer | None = _ask(obj, "pointer")
    return found


def struct(obj: object) -> Struct | None:
    """The struct by value that `obj` is, None when no bridge knows one."""
    found: Struct | None = _ask(obj, "struct")
    return found


def layout(obj: object) -> CType | None:
    """The type of the memory that `obj` has, None when its buffer is all there is to go by.

    Raises
    ------
    SignatureError
        When no signature describes it.
    """
    found: CType | None = _ask(obj, "layout")
    return found
