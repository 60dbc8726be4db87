"""Variables of C libraries, read and written at their addresses; also pointer constants.

A number or a pointer reads as its value. Text is a pointer to const characters or a const array of
characters; it reads as `bytes` or `str`. Other variables read as views of the library's memory,
which keep the library open:

- An array of numbers is a NumPy array. If the variable is const, the array is read-only.
- Any other array is a cffi array.
- A struct or union is a cffi pointer.

An object assigned to a pointer variable is kept alive until the next assignment, since C code may
follow the pointer at any time. Reads and writes are plain loads and stores. If C code in other
threads uses the variable, you must synchronise.
"""

from __future__ import annotations

from .. import _ext, _lib
from .._cdecl.cffitype import pointer_from
from .._cdecl.nodes import CHARACTERS, element
from .._errors import TYPE_CHECKING
from .._rows import NamedTuple
from .._types.ctype import Scalar
from .._types.derived import pointer
from .._types.grammar import read_type
from .._types.signature import BYTES
from .._values import foreign, storage
from .._values.text import string

if TYPE_CHECKING:
    from .._ext import FFIType
    from .._ext import Library as OpenLibrary
    from .._types.ctype import CType
    from .._values.calloptions import Policies
    from .types import Owner

_POINTERS = ("pointer", "voidptr", "function", "handle")
_RECORDS = ("struct", "union")
# Objects assigned to variables, by address.
_pointed: dict[int, list[object]] = {}


class Variable(NamedTuple):
    """A variable of a library; `owner` declares its types, and `encoding` decodes its text."""

    name: str
    ctype: CType
    address: int
    owner: Owner
    handle: OpenLibrary
    const: bool
    encoding: str | None

    def read(self) -> object:
        """Return the variable's value, or a view of its memory."""
        if isinstance(self.ctype, Scalar):
            return storage.load(self.ctype, self.address)
        found = self.owner.variable(self.name)
        if found is None:
            return self._pointer()
        kind, text = found
        if kind.kind == "array":
            return self._array(kind, text)
        if kind.kind in _RECORDS:
            return self._at(kind)
        if self._is_text(text) and (word := self._word()):
            return string(self.owner.ffi.cast(kind, word), self.encoding)
        return self._pointer()

    def pointer(self) -> object:
        """Return a pointer to the variable; the pointer keeps the library loaded."""
        found = self.owner.variable(self.name)
        if found is not None:
            return self._at(found[0])
        return pointer_from(pointer(self.ctype), self.address, owner=self.handle)

    def _is_text(self, text: str) -> bool:
        return bool(text) and (text not in BYTES or self.encoding is not None)

    def _word(self) -> int:
        return int(_lib.ffi.cast("uintptr_t *", self.address)[0])

    def _pointer(self) -> object:
        """Return a pointer's value; for a type that cffi lacks, a pointer to the variable."""
        if self.ctype.kind not in _POINTERS:
            return self.pointer()
        word = self._word()
        # Keep the library loaded, since the pointer's target often belongs to it.
        return None if word == 0 else pointer_from(self.ctype, word, owner=self.handle)

    def _at(self, kind: FFIType) -> object:
        """Return a pointer of this kind to the variable; the pointer keeps the library loaded."""
        from .memory import pointer_to

        ffi = self.owner.ffi
        made = ffi.gc(ffi.cast(pointer_to(kind), self.address), _ext.Destructor(self.handle))
        return _ext.struct_pointer(made, self.owner.structs)

    def _array(self, kind: FFIType, text: str) -> object:
        ffi = self.owner.ffi
        if kind.length is None:
            start = self._at(kind.item)
            return string(start, self.encoding) if text else start
        memory = ffi.buffer(self._at(kind), ffi.sizeof(kind))
        array = ffi.from_buffer(kind, memory)
        if text:
            return string(array, self.encoding)
        item = element(kind)
        if item.kind not in ("primitive", "enum") or item.cname in CHARACTERS:
            return array
        from .memory import asarray

        seen = asarray(array, None)
        if self.const:
            seen.flags.writeable = False
        return seen

    # -- assignment --------------------------------------------------------------------------------

    def write(self, value: object, policies: Policies) -> None:
        """Store a value; if it does not fit, change nothing."""
        who = f"variable {self.name!r}"
        found = None if isinstance(self.ctype, Scalar) else self.owner.variable(self.name)
        if found is not None and found[0].kind in ("array", *_RECORDS):
            from .memory import assign

            self._keep(assign(self.owner, found[0], self.address, value, who))
            return
        if not isinstance(self.ctype, Scalar) and self.ctype.kind not in _POINTERS:
            raise TypeError(f"{who} is a {self.ctype.text!r}, for which cffi has no type")
        spelled = "" if found is None or self.ctype.kind != "pointer" else found[0].cname
        if spelled == "char *" and isinstance(value, str) and self.encoding is None:
            hint = "load the library with an encoding for str"
            raise TypeError(f"{who} must be bytes, a pointer or None (got str); {hint}")
        self._store(value, who, policies._replace(encoding=self.encoding), spelled)

    def _store(self, value: object, who: str, policies: Policies, spelled: str) -> None:
        """Store a number or a pointer."""
        ctype = self.ctype
        if ctype.kind == "function" and foreign.is_python_function(value):
            raise TypeError(
                f"{who} must be a C function that stays alive (got {type(value).__name__}); make "
                f"one with nativecall.callback({ctype.text[2:-1]!r}, function)"
            )
        keep: list[object] = []
        storage.replace(ctype, value, self.address, who, keep, policies, spelled)
        self._keep(keep)

    def _keep(self, kept: list[object]) -> None:
        if kept:
            _pointed[self.address] = kept
        else:
            _pointed.pop(self.address, None)


def pointer_constant(named: str, address: int) -> object:
    """Return a constant that is a pointer; None for NULL."""
    return pointer_from(read_type(named), address) if address else None
