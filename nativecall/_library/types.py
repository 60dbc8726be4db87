"""`lib.types` and `lib.ffi`: the types of a library by name, as cffi types, and their FFI.

All libraries loaded with the same declarations share one set of types. So a function of one library
accepts values that a function of another library returns. Everything is built on first use.
"""

from __future__ import annotations

from _weakref import ref
from itertools import count

from .._errors import TYPE_CHECKING, SignatureError, SymbolError, require
from .._fifo import Cache, Fifo
from .._types.ctype import Single
from .._types.grammar import owners
from .._types.signature import Signature

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cffi import FFI

    from .._cdecl.declarations import Declarations
    from .._cdecl.nodes import Node
    from .._cdecl.typenames import TypeNames
    from .._ext import FFIType, Foreign

_numbers = count(1)


class Owner:
    """The declared types; builds signatures, cffi types and an FFI from them."""

    def __init__(self, declarations: Declarations | None, base: Owner | None = None) -> None:
        self.serial: int = next(_numbers)
        self._declarations = declarations
        self._base = base
        self._names: TypeNames | None = None
        self._ffi: FFI | None = None
        self._structs: dict[FFIType, Foreign] | None = None
        self._types: Cache[str, FFIType] = Cache(1024)
        self._pointers: dict[str, FFIType] = {}
        self._signatures: Cache[str, Signature] = Cache(1024)
        #: The encodings of the libraries that use these types.
        self.encodings: set[str] = set()
        #: Data for allocating memory, by the requested type or text.
        self.rows: Cache[object, Foreign] = Cache(1024)
        #: Conversions of values to pointers, by pointer type.
        self.slots: Cache[FFIType, Foreign] = Cache(1024)
        serial, known = self.serial, owners  # at exit, the module's globals may end first
        owners[serial] = ref(self, lambda _: known.pop(serial, None))

    def encoded(self, text: str, who: str) -> bytes:
        """Encode text for memory of these types, in the encoding of their libraries."""
        from .._values.text import encoded

        each = sorted(self.encodings)
        without = (
            f"is a str, and libraries with these declarations have the encodings {each}"
            if each
            else "is a str, which is not a buffer; pass s.encode(), or load the library "
            "with an encoding"
        )
        return encoded(text, each[0] if len(each) == 1 else None, who, without)

    @property
    def structs(self) -> dict[FFIType, Foreign]:
        """The data for assigning to members of structs."""
        if self._structs is None:
            from .memory import Structs

            self._structs = Structs(self)
        return self._structs

    @property
    def names(self) -> TypeNames:
        """The declared names of types."""
        if self._names is None:
            base = None if self._base is None else self._base.names
            known = self._declarations
            if known is None:
                from .._cdecl.texts import parse_declarations

                known = parse_declarations("")
            from .._cdecl.cffitype import naming
            from .._cdecl.typenames import TypeNames

            with naming:  # two sets of nodes would create two cffi types for one name
                if self._names is None:
                    self._names = TypeNames(known, base, self)
        return self._names

    def type(self, text: str) -> FFIType:
        """Return cffi's type for a C type."""
        return self._types.get(text) or self._types.keep(text, ffi_type(self.names.node(text)))

    def alignment(self, text: str) -> int:
        """Return the alignment of a C type or, if it is a pointer type, of its target."""
        node: Foreign = self.names.node(text)
        return int((node.item if node.kind == "pointer" else node).alignment)

    def variable(self, name: str) -> tuple[FFIType, str] | None:
        """Return cffi's type for a variable and, if the variable is text, its character type.

        Return None for numbers, for unknown names, and if cffi has no such type.
        """
        known = self._declarations
        row = None if known is None else known.declared.get(name)
        if row is None:
            return None
        try:
            return self.type(row[0]), row[1]
        except SignatureError:
            return None

    def pointer(self, name: str) -> FFIType | None:
        """Return cffi's pointer type to a named type or function; None for an unknown name."""
        found = self._pointers.get(name)
        if found is None:
            node = self.names.find(name)
            if node is None:
                return None
            found = self._pointers.setdefault(name, ffi_type(node.pointer()))
        return found

    def node(self, name: str) -> Node | None:
        """Return the node of a name; None for an unknown name."""
        return self.names.find(name)

    def tag(self, name: str) -> str:
        """Return the tag of a typedef's struct or union; return other names unchanged."""
        from .._cdecl.nodes import c_name_of

        node = self.names.find(name)
        return name if node is None else c_name_of(node.main or node) or name

    def signature(self, given: object) -> Signature:
        """Parse a signature in any spelling; C text may use the declared types.

        The name of a function type is also accepted.
        """
        from .._cdecl.spelling import is_c, is_ffi_type, parse

        if isinstance(given, str) and (given.isidentifier() or is_c(given)):
            text = str.__str__(given)
            known = self._signatures.get(text)
            return known or self._signatures.keep(text, self.names.function(text))
        if is_ffi_type(given):
            from .._cdecl.cffitype import from_ffi

            made = from_ffi(given, self)
            if isinstance(made, Signature):
                return made
        return parse(given)  # type: ignore[arg-type]  # parse checks the type

    @property
    def ffi(self) -> FFI:
        """The FFI that contains the types."""
        if self._ffi is None:
            from .._cdecl.cffitype import naming
            from .ffi import ffi_class

            made = ffi_class()(self)
            with naming:
                self._ffi = self._ffi or made
        return self._ffi


_owners: Fifo[object, Owner] = Fifo()


def owner_of(declarations: Declarations | None, base: Owner | None = None) -> Owner:
    """Return the owner that all declarations with the same key share, whatever `only` selects."""
    whole = (None if declarations is None else declarations.key, base)
    found = _owners.get(whole)
    if found is None:
        named = None if declarations is None else declarations.whole or declarations
        found = _owners.keep(whole, Owner(named, base))
    if declarations is not None:
        declarations.owner = found
    return found


def ffi_type(node: Node) -> FFIType:
    """Return cffi's type for a node."""
    from .._cdecl import cffitype

    return cffitype.ffi_type(node)


class Types(Single):
    """The types of a library by name, as attributes and items.

    They are structs, unions, enums, typedefs and function types. Each is a cffi type of
    `Library.ffi`, with attributes such as ``.fields`` and ``.kind``. Tags are found with and
    without ``struct``, ``union`` or ``enum``. Iteration and `dir` list the names.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"cannot pickle {self!r} of a library; pickle the library")

    def _signature_of(self, given: object) -> Signature:
        return self._owner.signature(given)

    def __getitem__(self, name: str) -> FFIType:
        require("a name of types", name, str, "a str")
        names = self._owner.names
        node = names.find(name)
        if node is None:
            advice = names.like(name.rpartition(" ")[2])
            raise KeyError(f"no type {name!r} is declared" + (f"; {advice}" if advice else ""))
        if node.kind == "unusable":
            raise SignatureError(f"the type {name!r} cannot be offered: {node.reason}")
        return ffi_type(node)

    def __getattr__(self, name: str) -> FFIType:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise SymbolError(error.args[0], name) from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._owner.names.find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._owner.names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __dir__(self) -> list[str]:
        return sorted(self)

    def __repr__(self) -> str:
        return f"<{len(self)} types>"
