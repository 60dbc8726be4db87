"""`lib.ffi`: a cffi FFI that knows the types of a library.

It parses the names of types with the library's declarations. It also accepts wrappers of cffi
objects (csrc/values/structpointer.h). Otherwise it behaves like `cffi.FFI`.
"""

from __future__ import annotations

from functools import cache, wraps

from .. import _ext
from .._errors import TYPE_CHECKING, SignatureError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from cffi import FFI

    from .._ext import FFIType, Foreign

    class Owner(Protocol):
        """The object that holds the types of a library (types.py)."""

        def type(self, text: str) -> FFIType: ...


@cache
def ffi_class() -> type[FFI]:
    """Return the class of `Library.ffi`; create it on first use, since this imports cffi."""
    from cffi import FFI

    class LibraryFFI(FFI):  # type: ignore[misc]  # cffi has no types
        """A `cffi.FFI` with the types of a library and the types that its own `cdef` declares."""

        def __init__(self, owner: Owner) -> None:
            super().__init__()
            self._owner = owner
            buffer, bare = self._backend.buffer, _ext.bare
            self.buffer = lambda cdata, size=-1: buffer(bare(cdata), size)

        def addressof(self, cdata: Foreign, *names: str | int) -> Foreign:
            found: Foreign = getattr(type(cdata), "_address_of", super().addressof)
            return found(cdata, *names)

        def _typeof(self, cdecl: str, consider_function_as_funcptr: bool = False) -> FFIType:
            # All methods of cffi.FFI use this to parse the name of a type.
            try:
                return self._owner.type(cdecl)
            except SignatureError:
                if not self._cdefsources:
                    raise
                return super()._typeof(cdecl, consider_function_as_funcptr)

    for name in _TAKING:
        setattr(LibraryFFI, name, _taking_bare(getattr(LibraryFFI, name)))
    return LibraryFFI


#: Methods that take cffi objects, and here also wrappers of them.
_TAKING = (
    *("addressof", "cast", "from_handle", "gc", "memmove", "new", "release"),
    *("sizeof", "string", "typeof", "unpack"),
)


def _bare(value: Foreign) -> Foreign:
    """Replace wrappers in an argument by their cffi objects; an initialiser may contain several."""
    if type(value) in (list, tuple):
        return [*map(_bare, value)]
    if type(value) is dict:
        return {name: _bare(one) for name, one in value.items()}
    return _ext.bare(value)


def _taking_bare(method: Callable[..., object]) -> Callable[..., object]:
    @wraps(method)
    def taking(self: FFI, *args: object, **named: object) -> object:
        return method(self, *map(_bare, args), **{name: _bare(one) for name, one in named.items()})

    return taking
