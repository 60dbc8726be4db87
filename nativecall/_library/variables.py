"""Variables of C libraries, read and written at their addresses; constants that are pointers.

A number or a pointer is its value; text, a pointer to const characters or a const array of these,
is `bytes` or `str`. Others are views of the library's memory, which keep the library open: an array
of numbers is a NumPy array, one that cannot be written to if it is const, any other array one of
cffi's, and a struct or union a pointer of cffi's.

What a variable points to since it was assigned here lives until another value is assigned, since C
code may follow the pointer at any time. Reads and writes are plain loads and stores: to order them
against C code in other threads is for who runs these.
"""

from __future__ import annotations

from .. import _lib
from .._cdecl.cffitype import pointer_from
from .._cdecl.characters import CHARACTERS
from .._cdecl.nodes import element
from .._types.ctype import Scalar
from .._types.derived import pointer
from .._types.grammar import read_type
from .._values import boxes, storage
from .._values.text import string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._ext import FFIType
    from .._ext import Library as OpenLibrary
    from .._types.ctype import CType
    from .._values.calloptions import Policies
    from .types import Owner

_POINTERS = ("pointer", "voidptr", "function", "handle")
_RECORDS = ("struct", "union")
# What variables were assigned, by their addresses.
_pointed: dict[int, list[object]] = {}


class Variable:
    """A variable of a library.

    Parameters
    ----------
    name : str
    ctype : CType
    address : int
    owner : Owner
        The types of the library.
    handle : OpenLibrary
    const : bool
    encoding : str or None
        Of text.
    """

    __slots__ = ("_address", "_const", "_ctype", "_encoding", "_handle", "_name", "_owner")

    def __init__(
        self,
        name: str,
        ctype: CType,
        address: int,
        owner: Owner,
        handle: OpenLibrary,
        const: bool,
        encoding: str | None,
    ) -> None:
        self._name = name
        self._ctype = ctype
        self._address = address
        self._owner = owner
        self._handle = handle
        self._const = const
        self._encoding = encoding

    def read(self) -> object:
        """Its value, or a view of it."""
        if isinstance(self._ctype, Scalar):
            return storage.load(self._ctype, self._address)
        found = self._owner.variable(self._name)
        if found is None:
            return self._pointer()
        kind, text = found
        if kind.kind == "array":
            return self._array(kind, text)
        if kind.kind in _RECORDS:
            return self._at(kind)
        if text and (word := self._word()):
            return string(self._owner.ffi.cast(kind, word), self._encoding)
        return self._pointer()

    def _word(self) -> int:
        return int(_lib.ffi.cast("uintptr_t *", self._address)[0])

    def _pointer(self) -> object:
        """A pointer's value; a pointer to what cffi has no type of."""
        if self._ctype.kind not in _POINTERS:
            return pointer_from(pointer(self._ctype), self._address, owner=self._handle)
        word = self._word()
        # What it points to is often the library's own.
        return None if word == 0 else pointer_from(self._ctype, word, owner=self._handle)

    def _at(self, kind: FFIType) -> object:
        """A pointer to something at the address, which keeps the library."""
        from .memory import pointer_to

        ffi = self._owner.ffi
        return ffi.gc(
            ffi.cast(pointer_to(kind), self._address), _lib.types.Destructor(self._handle)
        )

    def _array(self, kind: FFIType, text: str) -> object:
        ffi = self._owner.ffi
        if kind.length is None:
            start = self._at(kind.item)
            return string(start, self._encoding) if text else start
        memory = ffi.buffer(self._at(kind), ffi.sizeof(kind))
        array = ffi.from_buffer(kind, memory)
        if text:
            return string(array, self._encoding)
        item = element(kind)
        if item.kind not in ("primitive", "enum") or item.cname in CHARACTERS:
            return array
        from .memory import asarray

        seen = asarray(self._owner, array, None)
        if self._const:
            seen.flags.writeable = False
        return seen

    # -- assignment --------------------------------------------------------------------------------

    def write(self, value: object, policies: Policies) -> None:
        """Store a value; one that does not fit changes nothing."""
        who = f"variable {self._name!r}"
        found = None if isinstance(self._ctype, Scalar) else self._owner.variable(self._name)
        if found is not None and found[0].kind in ("array", *_RECORDS):
            from .memory import assign

            self._keep(assign(self._owner, found[0], self._address, value, who))
            return
        if not isinstance(self._ctype, Scalar) and self._ctype.kind not in _POINTERS:
            raise TypeError(f"{who} is a {self._ctype.text!r}, of which cffi has no type")
        if found is not None and found[1] and isinstance(value, str):
            value = self._encoded(found[0], value, who)
        self._store(value, who, policies)

    def _encoded(self, kind: FFIType, value: str, who: str) -> object:
        """Text as C has it."""
        if "\0" in value:
            raise ValueError(f"{who} must have no null character, which ends text in C")
        if kind.item.cname != "char":
            return self._owner.ffi.new(f"{kind.item.cname}[]", value)
        if self._encoding is None:
            raise TypeError(
                f"{who} must be bytes, a pointer or None (got str); load the library with an "
                "encoding for str"
            )
        encoded = value.encode(self._encoding)
        if b"\0" in encoded:
            raise ValueError(
                f"{who} must have no null character once it is encoded, which ends text in C"
            )
        return encoded

    def _store(self, value: object, who: str, policies: Policies) -> None:
        """Store a number or a pointer."""
        ctype = self._ctype
        if ctype.kind == "function" and boxes.is_python_function(value):
            raise TypeError(
                f"{who} must be a C function that stays (got {type(value).__name__}); make one "
                f"with nativecall.callback({ctype.text[2:-1]!r}, function)"
            )
        keep: list[object] = []
        # Into memory of ours first: a conversion that fails changes nothing.
        memory = _lib.ffi.new("char[]", ctype.size + 16)
        start = int(_lib.ffi.cast("uintptr_t", memory))
        storage.store(ctype, value, start, who, keep, False, policies)
        target = _lib.ffi.cast("char *", self._address)
        before = _pointed.get(self._address)
        if keep:
            _pointed[self._address] = keep
        _lib.ffi.memmove(target, memory, ctype.size)
        if before is not None and not keep:
            del _pointed[self._address]

    def _keep(self, kept: list[object]) -> None:
        if kept:
            _pointed[self._address] = kept
        else:
            _pointed.pop(self._address, None)


def pointer_constant(named: str, address: int) -> object:
    """A constant that is a pointer; None for NULL."""
    return pointer_from(read_type(named), address) if address else None
