"""Inline functions of headers: compiled where a C compiler is there, and found in what it made."""

from __future__ import annotations

from .. import _lib
from .._errors import LibraryError, SignatureError, SymbolError
from .._locate import open_bytes
from .._signature.inlines import PREFIX, compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._signature.declared import Declarations
    from .._types import Library as OpenLibrary


def found(
    name: str, declarations: Declarations, opened: OpenLibrary | None, path: str | None
) -> tuple[OpenLibrary, int]:
    """The library that has an inline function, and the function's address.

    `opened` is what was compiled before. All that the headers have are compiled together, or this
    one alone where the compiler refuses another.
    """
    assert declarations.wanted is not None
    if opened is None or not _lib.library_symbol(opened, PREFIX + name):
        given = declarations.wanted, declarations.files
        several = [other for other in declarations.inlines if other not in declarations.symbols]
        try:
            made = compiled(*given, sorted({*several, name}), path)
        except SignatureError:
            try:
                made = compiled(*given, [name], path)
            except SignatureError as error:
                raise SymbolError(f"{name!r} is an inline function: {error}", name) from None
        except LibraryError as error:
            raise SymbolError(f"{name!r} cannot be offered: {error}", name) from None
        opened = open_bytes(made)
    pointer = _lib.library_symbol(opened, PREFIX + name)
    return opened, int(_lib.ffi.cast("uintptr_t *", pointer)[0])
