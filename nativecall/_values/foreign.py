"""Find C functions and data in objects of other libraries (foreign objects), through bridges.

A bridge reads the objects of one library. It is looked up along the MRO of the object's type. The
key is the top-level module that defines a type: ``numba``, or ``_cython`` for ``_cython_3_2_4``. If
the type's C code names no module, the key is the type's name (``PyCapsule``). For a built-in
function, the type of its ``__self__`` is searched, too.

Each module in `nativecall._bridges` is a bridge; its name is the key. `register_box` and entry
points add others. A bridge is imported when the first object of its library is read. It imports
only modules that the library has already imported. A bridge may define

    native(obj) -> NativeCallable | None
                                          the native callable that an object stands for
    function(obj) -> Function | None      the C function inside an object
    reason(obj) -> str | None             why an object of the library has no readable C function,
                                          and what would work, for messages
    own_entry(obj) -> NativeCallable | None
                                          the entry of a foreign callable that nativecall created
    user_data(obj) -> int | None          the user data that the function inside an object expects
    pointer(obj) -> Pointer | None        the data pointer inside an object
    array(obj) -> object | None           an object with an array protocol (arrays.py); raises
                                          TypeError or ValueError if `obj` provides no array
    struct(obj) -> Struct | None          the struct that an object holds by value
    layout(obj) -> CType | None           the type of an object's memory, if its buffer does not
                                          describe the type; raises SignatureError if no signature
                                          describes it
    instance(obj, signature, errors) -> Function | None
                                          the C function that `obj` has or compiles for a signature
    signatures(obj) -> list | None        the signatures that `obj` was compiled for
    count(obj) -> int | None              the number of arguments of a function that compiles on
                                          demand; -1 if the number varies
    called(obj, arguments) -> Signature | None
                                          the signature that a call with these arguments compiles;
                                          raises TypeError with the reason if compilation fails
    parameters(obj) -> inspect.Signature | None
                                          the parameters of a function that compiles on demand
    loops(obj) -> bool | None             whether `obj` is a ufunc with C functions
    form(entry) -> tuple | None           the parts from which the core creates a foreign callable
                                          of one entry (csrc/callable/foreign.c)
    from_callable(f, signature, user_data)
                                          a foreign callable of the matching entry, if `form` does
                                          not suffice

Each function returns None for objects that it does not recognise. To support a new library, only a
bridge is needed. The bridge `native` reads objects with a call table or `__nativecall_api__` from
other providers, in any module.

A foreign callable created here keeps its entry (csrc/callable/foreign.h), because no foreign object
records everything about an entry: types that C lacks, whether it needs the GIL, how it reports
failure. `function` returns the kept entry, but only if its address is still the address in the
object.
"""

from __future__ import annotations

import os
import sys

from .. import _ext, _lib
from .._errors import TYPE_CHECKING, require, wrong_type
from .._rows import NamedTuple
from .calloptions import DEFAULT

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable
    from types import ModuleType
    from typing import TypeAlias, TypeGuard

    from .._ext import FFIType, Foreign, Native
    from .._types.ctype import CType
    from .._types.signature import Signature
    from .calloptions import Policies

    Reader: TypeAlias = Callable[[Foreign], object]
    #: What is known about an argument's type: the type; for an unknown struct by value, its name
    #: and the type to use instead; None if nothing is known.
    Part: TypeAlias = CType | tuple[str, str | None] | None


class Function(NamedTuple):
    """A C function found in a foreign object."""

    address: int
    signature: Signature | None  # None if the object does not record it
    owner: object  # keeps the function alive
    name: str | None = None
    flags: int = 0  # the flags of an entry for it (docs/abi/find.md)
    policies: Policies = DEFAULT
    # Whether the flags are a default that the caller may override.
    supposed: bool = False
    # Whether the signature has machine types: integers without signedness, untyped pointers.
    machine: bool = False
    # The known parts of an incomplete signature: result and arguments, None for unknown ones.
    partial: tuple[Part, ...] | None = None
    # Possible signatures; the caller may give more precise pointer types.
    forms: tuple[str, ...] = ()
    # For messages: why the signature is incomplete, and what the caller can do.
    reason: str | None = None


class Passing:
    """The owner of a function that converts its arguments and calls a foreign function.

    This owner is pickled as the foreign object.
    """

    __slots__ = ("code", "foreign")

    def __init__(self, foreign: object, code: object) -> None:
        self.foreign = foreign
        self.code = code


class Pointer(NamedTuple):
    """A data pointer found in a foreign object."""

    address: int
    pointee: CType | None  # None for `void`, and for data that no type describes
    # Keeps the data alive independently of the object. If the object holds the memory itself, the
    # owner is a Pin of the core: before the call, the Pin checks that the memory has not moved.
    owner: object
    # The address of the pointer itself, if the object is a C variable that holds it.
    at: int | None = None
    # Whether the object holds the memory itself, as an array does. Such memory must be aligned. The
    # address in a pointer object is not checked, since handles may be odd.
    is_memory: bool = False
    struct: bool = False  # whether the target is a struct; `pointee` may then be None
    kind: Foreign = None  # the cffi type that such objects convert to
    # Whether the fields above may differ between objects of that cffi type.
    may_change: bool = False
    # If not (): arguments for take_ctypes(), which lets the core read such objects itself.
    taken: tuple[type, int] | tuple[()] = ()


class Struct(NamedTuple):
    """A struct by value found in a foreign object."""

    type: CType | None  # None if no signature describes it
    shown: str  # its library and name, for messages
    address: int  # of its memory; may be 0 if `type` is None
    # Owners that keep the memory and the targets of its pointers alive without the object.
    kept: list[object]
    named: tuple[str, int] = ("", 0)  # C name and size, which are known even if the type is not
    foreign: FFIType | None = None  # the cffi type of a cffi struct


# -- the bridge of an object ---------------------------------------------------------------------

_PACKAGE = "nativecall._bridges"
_BUILTIN_FUNCTION = type(len)
_MEMBER = type(vars(type)["__basicsize__"])
_PYTHON_FUNCTIONS = (type(require), type(require.__get__(0)))  # functions, methods
# Read these from `type` itself, because metaclasses may redefine them.
_mro_of = type.__dict__["__mro__"].__get__
_module_of = type.__dict__["__module__"].__get__
_name_of = type.__dict__["__name__"].__get__
_bridges: dict[str, ModuleType | _Registered | None] = {}  # None: a bridge not imported yet
#: Libraries whose types are defined in a module with a different name.
_IMPORTED_AS = {
    "ctypes": "_ctypes",
    "cffi": "_cffi_backend",
    "cython": "_cython",
    "Cython": "_cython",
    "pybind11": "pybind11_builtins",
}
_entry_points_are_read = False
_pythons: set[int] = set()  # ids of Python's own types that name no module


class _Registered:
    """A registered bridge: the reader of a library's objects, or its import path."""

    def __init__(self, library: str, reader: str | Reader) -> None:
        self.library = library
        self.reader = reader

    def native(self, obj: object) -> Native | None:
        reader = self.reader
        if isinstance(reader, str):
            from importlib import import_module

            module, _, name = reader.partition(":")
            try:
                imported: Reader = getattr(import_module(module), name)
            except (AttributeError, ImportError) as error:
                raise ImportError(
                    f"{reader!r}, the reader for {self.library!r}, cannot be imported: {error}"
                ) from error
            self.reader = reader = imported
        found = reader(obj)
        made = _ext.callable_of(found)
        if made is None and found is not None:
            raise TypeError(
                f"the reader for {self.library!r} must return a native callable or None "
                f"(got {type(found).__name__})"
            )
        return made


def register_box(library: str, reader: str | Reader) -> None:
    """Register a reader for the functions in another library's objects.

    `wrap` and function-pointer arguments then accept such an object, as the native callable that
    `reader` returns for it.

    Parameters
    ----------
    library : str
        The top-level module that defines the type of the objects or one of its base classes. If the
        type's C code names no module, use the name of the type.
    reader : callable or str
        ``reader(obj)`` returns a native callable, or None for an object without a function. The
        callable must keep alive everything it needs (see `owner` of `wrap`). The reader is also
        called for built-in functions bound to such objects. If `reader` is a string
        ``"MODULE:FUNCTION"``, it is imported when the first such object is read.

    Raises
    ------
    ValueError
        If the library already has a reader or bridge, or a name is invalid.

    Notes
    -----
    If your package may not be imported in time, register an entry point instead. Entry points are
    read when no bridge recognises an object::

        [project.entry-points."nativecall.boxes"]
        their_library = "my_package:reader"

    Your own library needs no reader: its types can have call tables (docs/abi/provide.md).

    Examples
    --------
    >>> import types, nativecall
    >>> Kernel = type("Kernel", (types.SimpleNamespace,), {"__module__": "their_library"})
    >>> def reader(kernel):
    ...     return nativecall.wrap(kernel.address, "d:d", owner=kernel)
    >>> nativecall.register_box("their_library", reader)
    >>> nativecall.wrap(Kernel(address=nativecall.load("m").address("cos")))(0.0)
    1.0
    """
    require("'library'", library, str, "a str")
    if not isinstance(reader, str) and not callable(reader):
        raise wrong_type("'reader'", "a callable or a str", reader)
    if not library.isidentifier():
        raise ValueError(f"'library' must be the name of a top-level module (got {library!r})")
    if isinstance(reader, str) and not all(reader.partition(":")):
        raise ValueError(f"'reader' must be given as MODULE:FUNCTION (got {reader!r})")
    own = _IMPORTED_AS.get(library, library)
    if _known().setdefault(own, made := _Registered(library, reader)) is not made:
        raise ValueError(f"{library!r} already has a reader or bridge")


def bridge(name: str) -> ModuleType:
    """Import a bridge of this package by name. All imports of bridges go through this function."""
    # importlib.import_module is not used, because importlib imports more modules.
    return __import__(f"{_PACKAGE}.{name}", fromlist=[name])


def _known() -> dict[str, ModuleType | _Registered | None]:
    """Return the bridges, by library."""
    if not _bridges:
        folders = __import__(_PACKAGE, fromlist=["__path__"]).__path__
        try:
            files = [file for folder in folders for file in os.listdir(folder)]
        except OSError:  # the package is in an archive
            from pkgutil import iter_modules

            files = [found.name for found in iter_modules(folders)]
        _bridges.update(dict.fromkeys([one.partition(".")[0] for one in files if one[:2] != "__"]))
    return _bridges


def _read_entry_points() -> None:
    """Add the bridges of installed packages, without importing them."""
    global _entry_points_are_read
    from importlib.metadata import entry_points

    for point in entry_points(group="nativecall.boxes"):
        own = _IMPORTED_AS.get(point.name, point.name)
        _known().setdefault(own, _Registered(point.name, point.value))
    _entry_points_are_read = True


def _is_pythons(cls: type, root: str) -> bool:
    """Return whether a type belongs to Python itself or to the main program."""
    if root != "builtins":
        return root == "__main__" or root in sys.stdlib_module_names
    if not _pythons:
        import builtins
        import types

        _pythons.update(map(id, (*vars(builtins).values(), *vars(types).values())))
    return id(cls) in _pythons


def _bridge_of(cls: type, registered: bool) -> ModuleType | _Registered | None:
    """Return the bridge for a type, ignoring base classes; read entry points if `registered`."""
    try:
        root = _module_of(cls)
    except AttributeError:
        return None
    if not isinstance(root, str):
        if type(root) is not _MEMBER:
            return None
        # The type defines __module__ for its instances. Only the type's repr shows its own module.
        root = type.__repr__(cls).partition("'")[2]
        if "." not in root:
            return None
    root = root.partition(".")[0]
    key = _name_of(cls) if root == "builtins" else root
    bridges = _known()
    if key not in bridges and key[-1:].isdecimal():
        key = key.rstrip("0123456789_")
    if key not in bridges:
        if not registered or _entry_points_are_read or _is_pythons(cls, root):
            return None
        _read_entry_points()
    found = bridges.get(key)
    if found is None and key in bridges:
        found = bridges[key] = bridge(key)
    return found


def _ask(question: str, obj: object, *given: object) -> Foreign:
    """Return the first answer of a bridge for `obj`; None if no bridge answers."""
    if type(obj) in _PYTHON_FUNCTIONS or type(obj) is int:
        return None
    obj = _ext.bare(obj)
    asked = None
    types = _mro_of(type(obj)) or ()  # a type under construction has no MRO
    if type(obj) is _BUILTIN_FUNCTION:
        types += _mro_of(type(obj.__self__)) or ()  # type: ignore[attr-defined]  # a built-in has one
    for cls in types:
        found = _bridge_of(cls, question == "native")
        if found is not None and found is not asked:
            asked = found
            find = getattr(found, question, None)
            answer = None if find is None else find(obj, *given)
            if answer is not None:
                return answer
    if question in ("instance", "signatures") and _ext.native_offer(obj) is not None:
        return getattr(bridge("native"), question)(obj, *given)
    return None


# -- the questions to bridges --------------------------------------------------------------------


def _asking(question: str) -> Callable[..., Foreign]:
    """Return a function that asks the bridges one question."""

    def ask(obj: object, *given: object) -> Foreign:
        return _ask(question, obj, *given)

    return ask


def native(obj: object) -> Native | None:
    """Return the native callable that `obj` is, views or stands for; None if there is none."""
    found = _ext.callable_of(obj)
    return _ask("native", obj) if found is None else found


def holds_entry(obj: object, address: int) -> bool:
    """Return whether `obj` is a native callable with a single entry, at `address`."""
    base = _ext.CallableBase
    if not issubclass(type(obj), base):
        return False
    entries = base._entries(obj)  # type: ignore[arg-type]  # that it is one is known
    return len(entries) == 1 and entries[0][1] == address


def beneath(entry: Native) -> Native:
    """Return the entry inside a thunk that only acquires the GIL, or `entry` unchanged."""
    owners = entry._owners
    if not owners or type(owners[-1]) is not _ext.Thunk:
        return entry
    inner: Native = owners[-1].function
    _, _, flags = entry._entry()
    cif, _, needed = inner._entry()
    taken = needed & _lib.FLAG_NEEDS_GIL and not flags & _lib.FLAG_NEEDS_GIL
    return inner if taken and cif.signature.text == entry.signatures[0] else entry


#: The entry of a foreign callable that nativecall created, as a callable; None for other objects.
own_entry: Callable[[object], Native | None] = _asking("own_entry")


def function(obj: object) -> Function | None:
    """Return the C function inside `obj`; None if no bridge finds one."""
    entry = own_entry(obj)
    if entry is not None:
        cif, address, flags = entry._chosen(None)
        return Function(address, cif.signature, obj, entry.__name__, flags, cif.policies)
    found: Function | None = _ask("function", obj)
    return found


def reason(obj: object) -> str | None:
    """Return why `obj` has no readable C function; None if no bridge has a reason."""
    found: str | None = _ask("reason", obj)
    if found is None and type(obj).__name__ in ("instancemethod", "method"):
        found = _ask("reason", getattr(obj, "__func__", None))
    return found


# The following return None if no bridge has an answer.

#: For `pickle`: a function and its arguments that restore a foreign callable in another process.
#: Takes the foreign callable, a signature, name, doc and options.
pickled: Callable[..., tuple[object, ...] | None] = _asking("pickled")
#: The address of the user data for the function in an object.
user_data: Callable[[object], int | None] = _asking("user_data")
#: The C function that an object has or compiles for a signature and an error convention; None for
#: objects with a single function.
instance: Callable[[object, Signature, str], Function | None] = _asking("instance")
#: The signatures of an object's entries, or those that it was compiled for.
signatures: Callable[[object], list[Signature] | None] = _asking("signatures")
#: The number of arguments of a function that compiles on demand, -1 if the number varies; None for
#: objects that do not compile.
count: Callable[[object], int | None] = _asking("count")
#: For a function that compiles on demand: the signature for a call with these arguments; None if
#: unknown. Raises TypeError if compilation fails.
called: Callable[[object, tuple[object, ...]], Signature | None] = _asking("called")
#: The parameters of a function that compiles on demand; None for other objects.
parameters: Callable[[object], inspect.Signature | None] = _asking("parameters")
#: For a function that compiles on demand: all arguments of a call by position, from the positional
#: values and a dict of the keyword arguments. Raises TypeError if the function rejects them.
by_position: Callable[..., tuple[object, ...] | None] = _asking("by_position")
#: The data pointer inside an object.
pointer: Callable[[object], Pointer | None] = _asking("pointer")
#: An object that exposes an array's memory through an array protocol.
array: Callable[[object], object | None] = _asking("array")
#: The struct that an object holds by value.
struct: Callable[[object], Struct | None] = _asking("struct")
#: The type of an object's memory; None if only the object's buffer describes the memory. Raises
#: SignatureError if no signature describes the type.
layout: Callable[[object], CType | None] = _asking("layout")


def loops(obj: object) -> bool:
    """Return whether `obj` is a ufunc, or a similar object, with C functions of numbers."""
    return bool(_ask("loops", obj))


def is_python_function(obj: object) -> TypeGuard[Callable[..., object]]:
    """Return whether `obj` is a callable that neither contains nor compiles C functions."""
    if type(obj) in _PYTHON_FUNCTIONS:
        return True
    if not callable(obj) or native(obj) is not None or function(obj) is not None:
        return False
    if count(obj) is not None:
        return False
    return _ext.native_offer(obj) is None
