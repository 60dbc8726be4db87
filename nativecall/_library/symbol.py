"""Symbols of shared libraries: their addresses, and the owner that keeps a function loaded."""

from __future__ import annotations

import os
from collections import namedtuple

from .. import _lib
from .._errors import TYPE_CHECKING, LibraryError, SymbolError
from .._locate import exported_like, find
from .._types.ctype import Single

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._callable.callable import NativeCallable
    from .._ext import Foreign
    from .._ext import Library as OpenLibrary
    from .._types.signature import Signature
    from .._values.calloptions import CallOptions


def opened(name: str | None, flags: int = 0, folders: Sequence[str] = ()) -> OpenLibrary:
    """Open a library by linker name or path; None stands for all libraries of the process."""
    return _lib.library_open(None, flags) if name is None else find(name, flags, folders)


def address(
    handle: OpenLibrary,
    library: str | None,
    path: str | None,
    symbol: str,
    version: str | None = None,
) -> int:
    """Return the address of a symbol, or of a version of it.

    A missing symbol raises a SymbolError that lists close matches.
    """
    found = 0
    if "\0" not in symbol and "\0" not in (version or ""):
        found = _lib.library_symbol(handle, symbol, version)
    if found == 0:
        if version is not None and _lib.library_symbol(handle, symbol.partition("\0")[0]):
            raise SymbolError(
                f"symbol {symbol!r} of {library or 'the process'!r} has no version {version!r}",
                symbol,
            )
        raise SymbolError.missing(symbol, library, exported_like(symbol, handle, path))
    return found


class Symbol(
    namedtuple("Symbol", ["handle", "library", "name", "place", "version"], defaults=[None]), Single
):
    """Owner of a function found in a library.

    `handle` is the open library; `library` is its name or path, or None for the process. `name` and
    `version` identify the symbol. `place` is the file and line of a header that declares the
    function, or None.

    Symbols are immutable, since the function's code stays loaded only as long as `handle` exists.
    """

    __slots__ = ()
    handle: OpenLibrary
    library: str | None
    name: str
    place: tuple[str, int] | None
    version: str | None

    def __repr__(self) -> str:
        return f"<symbol {self.name!r} of {self.library or 'the process'!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"cannot pickle {self!r}; pickle the function that it owns")

    def declaration(self, signature: Signature) -> str:
        """Return the function's C declaration for a signature, and the header's comment."""
        declared = signature.c_declaration(self.name)
        if self.place is None:
            return declared
        from .._cdecl.header import doc

        comment = doc(*self.place)
        return f"{declared}\n\n{comment}" if comment else declared

    def pickled(self, *how: Foreign) -> tuple[object, ...]:
        """For `pickle`: return a callable and arguments to find the function in another process."""
        if self.library is None and self.place is not None:
            raise TypeError(
                f"cannot pickle {how[1]!r}, which was compiled in this process; load it in the "
                "other one"
            )
        return restored(self.library, self.name, *how, self.version)


def restored(library: str | None, symbol: str, *how: Foreign) -> tuple[object, ...]:
    """For `pickle`: return the callable that finds a function by its symbol, and the arguments."""
    return _restore, (library, _by_name(library), symbol, *how)


def _by_name(path: str | None) -> str | None:
    """Return the name by which the loader finds a file; None if the loader needs the path.

    On another machine, the file may have another path.
    """
    name = os.path.basename(path or "")
    if name in ("", path):
        return None
    try:
        return name if _lib.library_path(_lib.library_open(name, 0)) == path else None
    except LibraryError:
        return None


def _restore(
    library: str | None,
    file: str | None,
    symbol: str,
    signature: Signature,
    name: str,
    doc: str | None,
    options: CallOptions,
    version: str | None = None,
) -> NativeCallable:
    """For `pickle`: find the function by the library's path, or else by its file name."""
    try:
        handle = opened(library)
    except LibraryError as error:
        try:
            if file is None:
                raise
            handle = opened(file)
        except LibraryError:
            raise LibraryError(
                f"the native callable {name!r} was pickled as {symbol!r} of the library "
                f"{library!r}, which this process cannot load: {error}"
            ) from None
    from .._callable.wrap import wrap

    path = _lib.library_path(handle)
    owner = Symbol(handle, path or library, symbol, None, version)
    found = address(handle, library, path, symbol, version)
    return wrap(found, signature, name=name, doc=doc, owner=owner, **options)
