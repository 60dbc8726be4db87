"""Foreign callables, and other objects of other libraries that hold a pointer; who knows them.

A bridge knows the objects of one library. It is found by an object's type, or one that this
inherits from: by the name of the top-level module that defines it (``numba``, and ``_cython`` for
``_cython_3_2_4``), or by the type's own name if its C code names no module (``PyCapsule``). So are
built-in functions, by what they are bound to.

The modules in `nativecall._bridges` are bridges, each for the types that its name says; others are
added with `register_box`, or by an entry point. A bridge is imported when the first object of its
library is met, and imports nothing that this object's library has not imported. It may have

    native(obj) -> NativeCallable | None
                                          the native callable that an object stands for
    function(obj) -> Function | None      the C function inside an object
    reason(obj) -> str | None             why something of a library has no C function that can be
                                          read, and what would work, for messages
    own_entry(obj) -> NativeCallable | None
                                          the entry that an object of ours was made of
    user_data(obj) -> int | None          what the function inside an object must get for user data
    pointer(obj) -> Pointer | None        the data pointer inside an object
    array(obj) -> object | None           what follows a protocol of arrays (arrays.py) for an
                                          object; TypeError, ValueError where it has none
    struct(obj) -> Struct | None          the struct by value that an object has
    layout(obj) -> CType | None           the type of the memory that an object has, where its
                                          buffer does not tell; SignatureError where there is none
    instance(obj, signature, errors) -> Function | None
                                          the C function that it has, or compiles, for a signature
    signatures(obj) -> list | None        for what signatures there are such functions already
    count(obj) -> int | None              how many arguments it takes that is compiled for
                                          signatures, -1 where that differs
    called(obj, arguments) -> Signature | None
                                          for what it would be compiled by a call with arguments;
                                          TypeError with the reason where it cannot be
    parameters(obj) -> inspect.Signature | None
                                          what calls of such a function pass, by names too
    loops(obj) -> bool | None             whether it is a ufunc with such functions
    form(entry) -> tuple | None           what a foreign callable of one entry is made of, as
                                          the core wants it (csrc/callable/foreign.c)
    from_callable(f, signature, user_data)
                                          that of whatever entry is meant, where there is no form

and answers None for objects that it does not know after all. A new library needs a bridge, and
nothing else. Objects of other providers, which have a call table or `__nativecall_api__`, are known
by that: `native` is their bridge, whatever module they are of.

Foreign callables that are made here keep the entry that they were made of
(csrc/callable/foreign.h), because no foreign form says all that an entry does: what C has no type
for, whether it needs the GIL, how it reports failure. So `function` finds the entry itself in them.
It is used only if its address is the one in the object.
"""

from __future__ import annotations

import os
import sys
from collections import namedtuple

from .. import _ext, _lib
from .._errors import require, wrong_type
from .calloptions import DEFAULT

TYPE_CHECKING = False
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
    #: What is known of an argument: its type, or of a struct by value that is not known the name,
    #: and what to take in its place.
    Part: TypeAlias = CType | tuple[str, str | None] | None


class Function(
    namedtuple(
        "Function",
        "address signature owner name flags policies supposed machine partial forms reason",
        defaults=(None, 0, DEFAULT, False, False, None, (), None),
    )
):
    """A C function found in a foreign object."""

    __slots__ = ()
    address: int
    signature: Signature | None  # None where the object does not know it
    owner: object  # what keeps the function alive
    name: str | None
    flags: int  # what the object says about calls, as an entry has it (docs/abi/find.md)
    policies: Policies
    # Whether the flags are what is to be assumed where nobody knows: the caller may know.
    supposed: bool
    # Whether the signature is that of a machine: integers have no sign, pointers lead nowhere.
    machine: bool
    # What is known of a function without one: the result and the arguments, each None where it is
    # not; and for messages, what is not, with what the caller can do.
    partial: tuple[Part, ...] | None
    forms: tuple[str, ...]  # signatures of which it has one; pointers may be said to be more
    reason: str | None


class Passing:
    """The owner of a function that passes its arguments on to that of a foreign one, otherwise than
    it gets them: it is pickled as that.
    """

    __slots__ = ("code", "foreign")

    def __init__(self, foreign: object, code: object) -> None:
        self.foreign = foreign
        self.code = code


class Pointer(
    namedtuple(
        "Pointer",
        "address pointee owner at is_memory struct kind may_change taken",
        defaults=(None, False, False, None, False, ()),
    )
):
    """A data pointer found in a foreign object."""

    __slots__ = ()
    address: int
    pointee: CType | None  # None for `void`, and for what no type describes
    # What keeps the data alive, whatever becomes of the object. A Pin of the core, where that has
    # the memory itself, is asked before the call whether that is still in its place.
    owner: object
    # Where the pointer itself lies, if the object is a variable of C that holds it.
    at: int | None
    # Whether the object has the memory itself, as an array does: then it must be aligned. An
    # address that a pointer holds is not checked: handles may be odd.
    is_memory: bool
    struct: bool  # whether `pointee` is a struct, which may have no type
    kind: Foreign  # the cffi type that such objects convert to
    may_change: bool  # whether that type does not say all that is said here
    # How the core can take others like it: what take_ctypes() gets besides the type; or ().
    taken: tuple[type, int] | tuple[()]


class Struct(
    namedtuple("Struct", "type shown address kept named foreign", defaults=(("", 0), None))
):
    """A struct by value found in a foreign object."""

    __slots__ = ()
    type: CType | None  # None where no signature describes it
    shown: str  # for messages: whose it is, and what
    address: int  # of its memory, if it has a type
    # What keeps that, and all that the pointers in it lead to, whatever becomes of the object.
    kept: list[object]
    named: tuple[str, int]  # what C calls it, and its size, where no more than that may be known
    foreign: FFIType | None  # cffi's type of what is a struct of cffi


# -- who knows an object -------------------------------------------------------------------------

_PACKAGE = "nativecall._bridges"
_BUILTIN_FUNCTION = type(len)
_MEMBER = type(vars(Passing)["foreign"])
_PYTHON_FUNCTIONS = (
    type(Passing.__init__),
    type(Passing.__init__.__get__(0)),
)  # functions, methods
# Read from types themselves, because metaclasses may have attributes of these names.
_mro_of = type.__dict__["__mro__"].__get__
_module_of = type.__dict__["__module__"].__get__
_name_of = type.__dict__["__name__"].__get__
_bridges: dict[str, ModuleType | _Registered | None] = {}  # None: a module that is not imported yet
#: The bridges of libraries whose types are defined in a module that has another name.
_IMPORTED_AS = {
    "ctypes": "_ctypes",
    "cffi": "_cffi_backend",
    "cython": "_cython",
    "Cython": "_cython",
    "pybind11": "pybind11_builtins",
}
_entry_points_are_read = False
_pythons: set[int] = set()  # the types of Python itself that name no module, by their addresses


class _Registered:
    """A bridge that was added: what reads the objects of a library, or the name of it."""

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
                    f"{reader!r}, which reads the boxes of {self.library!r}, cannot be imported: "
                    f"{error}"
                ) from error
            self.reader = reader = imported
        found = reader(obj)
        made = _ext.callable_of(found)
        if made is None and found is not None:
            raise TypeError(
                f"what reads the boxes of {self.library!r} must return a native callable or None "
                f"(got {type(found).__name__})"
            )
        return made


def register_box(library: str, reader: str | Reader) -> None:
    """Teach nativecall the functions inside of another library's objects.

    From then on `wrap` and function arguments take these objects as the native callables that
    `reader` makes of them.

    Parameters
    ----------
    library : str
        The top-level module that defines the types of the objects, or a type that they inherit
        from; the type's own name if its C code names no module.
    reader : callable or str
        ``reader(obj)`` returns a native callable, which keeps alive what it needs (see `owner` of
        `wrap`), or None for an object without a function. It is also asked for built-in functions
        that are bound to such objects. ``"MODULE:FUNCTION"`` is imported when the first of the
        objects is met.

    Raises
    ------
    ValueError
        When the library's boxes are known already, or a name is none.

    Notes
    -----
    A package that is not imported by then registers with an entry point, which is read when the
    first object is met that no bridge knows::

        [project.entry-points."nativecall.boxes"]
        their_library = "my_package:reader"

    A library of your own needs none of that: its types can have call tables (docs/abi/provide.md).

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
        raise ValueError(f"the boxes of {library!r} are known already")


def bridge(name: str) -> ModuleType:
    """A bridge of this package: the one place where one is imported, and only by its name."""
    # importlib imports more.
    found: ModuleType = __import__(f"{_PACKAGE}.{name}", fromlist=[name])
    return found


def _known() -> dict[str, ModuleType | _Registered | None]:
    """The bridges, by what they know."""
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
    """Add the bridges of packages that are installed, without importing them."""
    global _entry_points_are_read
    from importlib.metadata import entry_points

    for point in entry_points(group="nativecall.boxes"):
        own = _IMPORTED_AS.get(point.name, point.name)
        _known().setdefault(own, _Registered(point.name, point.value))
    _entry_points_are_read = True


def _is_pythons(cls: type, root: str) -> bool:
    """Whether a type is one of Python itself, or of the program."""
    if root != "builtins":
        return root == "__main__" or root in sys.stdlib_module_names
    if not _pythons:
        import builtins
        import types

        _pythons.update(map(id, (*vars(builtins).values(), *vars(types).values())))
    return id(cls) in _pythons


def _bridge_of(cls: type, registered: bool) -> ModuleType | _Registered | None:
    """The bridge for a type, by itself; also one that an entry point has, if `registered`."""
    try:
        root = _module_of(cls)
    except AttributeError:
        return None
    if not isinstance(root, str):
        if type(root) is not _MEMBER:
            return None
        # It is that of the objects. The type's own is in its name, which only its text has.
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
    """The first answer of the bridges that may know `obj`; None when none has one."""
    if type(obj) in _PYTHON_FUNCTIONS or type(obj) is int:
        return None
    obj = _ext.bare(obj)
    asked = None
    types = _mro_of(type(obj)) or ()  # a type that is being made has none
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


# -- what it is asked ----------------------------------------------------------------------------


def _asking(question: str) -> Callable[..., Foreign]:
    """A function that asks one question of the bridges."""

    def ask(obj: object, *given: object) -> Foreign:
        return _ask(question, obj, *given)

    return ask


def native(obj: object) -> Native | None:
    """The native callable that `obj` is, is the built-in view of, or stands for."""
    found = _ext.callable_of(obj)
    return _ask("native", obj) if found is None else found


def holds_entry(obj: object, address: int) -> bool:
    """Whether `obj` is a native callable of one entry, whose function is at `address`."""
    base = _ext.CallableBase
    if not issubclass(type(obj), base):
        return False
    entries = base._entries(obj)  # type: ignore[arg-type]  # that it is one is known
    return len(entries) == 1 and entries[0][1] == address


def beneath(entry: Native) -> Native:
    """The entry that a foreign callable was made of, where it has a thunk that takes the GIL
    instead.
    """
    owners = entry._owners
    if not owners or type(owners[-1]) is not _ext.Thunk:
        return entry
    inner: Native = owners[-1].function
    _, _, flags = entry._entry()
    cif, _, needed = inner._entry()
    taken = needed & _lib.FLAG_NEEDS_GIL and not flags & _lib.FLAG_NEEDS_GIL
    return inner if taken and cif.signature.text == entry.signatures[0] else entry


#: The entry that a foreign callable of ours was made of, as a callable of that one; else None.
own_entry: Callable[[object], Native | None] = _asking("own_entry")


def function(obj: object) -> Function | None:
    """The C function inside `obj`, None when no bridge knows one."""
    entry = own_entry(obj)
    if entry is not None:
        cif, address, flags = entry._chosen(None)
        return Function(address, cif.signature, obj, entry.__name__, flags, cif.policies)
    found: Function | None = _ask("function", obj)
    return found


def reason(obj: object) -> str | None:
    """Why `obj`, which is of a library that a bridge knows, has no C function that can be read."""
    found: str | None = _ask("reason", obj)
    if found is None and type(obj).__name__ in ("instancemethod", "method"):
        found = _ask("reason", getattr(obj, "__func__", None))
    return found


# What follows is None when no bridge knows.

#: For `pickle`, of a foreign callable, a signature, name, doc and options: how another process
#: finds the function in it, as a function that makes the native callable and its arguments.
pickled: Callable[..., tuple[object, ...] | None] = _asking("pickled")
#: The address that the function in an object must get for user data.
user_data: Callable[[object], int | None] = _asking("user_data")
#: The C function that an object has, or can be compiled to, for a signature and the name of an
#: error convention, None when it is nothing that has several.
instance: Callable[[object, Signature, str], Function | None] = _asking("instance")
#: What an object has entries of, or was compiled for already, None when it is nothing of the kind.
signatures: Callable[[object], list[Signature] | None] = _asking("signatures")
#: How many arguments a function takes that compiles to C functions, -1 where that differs; None for
#: what does not compile.
count: Callable[[object], int | None] = _asking("count")
#: The signature that a compiler's function has for the arguments of a call, which it is compiled
#: for; None when it does not say. TypeError when it cannot be.
called: Callable[[object, tuple[object, ...]], Signature | None] = _asking("called")
#: What calls of a compiler's function pass, which may have names; None for all else.
parameters: Callable[[object], inspect.Signature | None] = _asking("parameters")
#: All arguments of a call of a compiler's function in their order, of its values and of those that
#: have names, a dict; None when it has none for them. TypeError when it does not take these.
by_position: Callable[..., tuple[object, ...] | None] = _asking("by_position")
#: The data pointer inside an object.
pointer: Callable[[object], Pointer | None] = _asking("pointer")
#: What has the memory of an array.
array: Callable[[object], object | None] = _asking("array")
#: The struct by value that an object is.
struct: Callable[[object], Struct | None] = _asking("struct")
#: The type of the memory that an object has, None when its buffer is all there is to go by;
#: SignatureError when no signature describes it.
layout: Callable[[object], CType | None] = _asking("layout")


def loops(obj: object) -> bool:
    """Whether `obj` is a ufunc, or like one, that has C functions of numbers by now."""
    return bool(_ask("loops", obj))


def is_python_function(obj: object) -> TypeGuard[Callable[..., object]]:
    """Whether `obj` can be called from Python, and holds or compiles to no C function."""
    if type(obj) in _PYTHON_FUNCTIONS:
        return True
    if not callable(obj) or native(obj) is not None or function(obj) is not None:
        return False
    if count(obj) is not None:
        return False
    return _ext.native_offer(obj) is None
