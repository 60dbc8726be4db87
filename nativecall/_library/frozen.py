"""Frozen declarations: the headers that `load` reads, in one file that a package ships.

The file has the format of the cache's files (_sealed.py): its hash is checked before anything in it
is read. Its key names the format and the C ABI. It contains plain data: the table of declarations,
and the inline functions as a shared object. Every version of Python reads it.
"""

from __future__ import annotations

import marshal
import os
import sys

from .._cdecl.declarations import offered
from .._errors import LibraryError, require
from .._sealed import sealed, unsealed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from .._cdecl.declarations import Declarations
    from .._ext import Foreign
    from .._ext import Library as OpenLibrary

    class Readable(Protocol):
        """A file of a package, as in `importlib.resources`."""

        def read_bytes(self) -> bytes: ...


#: The format of tables. It increases when an older nativecall could not read a table, or would
#: misread it.
FORMAT = 1
_MARSHAL = 4  # every version of Python reads it


def _key() -> bytes:
    """Return the format, and the processor, system and C library of layouts and code."""
    system = getattr(sys.implementation, "_multiarch", sys.platform)
    if "-" not in system:  # a system with one C library, whose name has no processor
        bits = 64 if sys.maxsize > 2**32 else 32
        system = f"{os.uname().machine if hasattr(os, 'uname') else 'x86'}-{system}-{bits}"
    return f"{FORMAT} {system}".encode().ljust(32, b"\0")


def read(
    given: str | os.PathLike[str] | Readable, only: Sequence[str] | str | None, skip: bool
) -> Declarations:
    """Read a file that `freeze` wrote; raise LibraryError for any other file."""
    try:
        if hasattr(given, "read_bytes"):
            whole = given.read_bytes()
        else:
            require("'frozen'", given, (str, os.PathLike), "a path")
            with open(given, "rb") as file:
                whole = file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LibraryError(f"the frozen file {str(given)!r} cannot be read: {reason}") from None
    found = unsealed(whole)
    if found is None:
        reason = "it is damaged, or was not made by 'nativecall freeze'"
        raise LibraryError(f"the frozen file {str(given)!r} cannot be used: {reason}")
    key, content = found
    if key != _key():
        theirs, ours = [_spelled(one) for one in (key, _key())]
        raise LibraryError(
            f"the frozen file {str(given)!r} is for {theirs}, and this process is {ours}; "
            "freeze the header here"
        )
    table, compiled = marshal.loads(content)
    # The part before the content contains its hash.
    made = offered(table, whole[: -len(content)], only, skip)
    made.compiled = compiled
    return made


def _spelled(key: bytes) -> str:
    number, _, system = key.rstrip(b"\0").decode(errors="replace").partition(" ")
    return f"{system!r} in format {number}"


def _canonical(value: Foreign, known: dict[str, Foreign]) -> Foreign:
    """Return a value whose equal parts are one object, recorded in `known`.

    `marshal` writes references to shared objects, and equal tables must produce equal bytes.
    """
    if isinstance(value, dict):
        return {_canonical(key, known): _canonical(each, known) for key, each in value.items()}
    if isinstance(value, list):
        return [_canonical(each, known) for each in value]
    if isinstance(value, tuple):
        value = tuple([_canonical(each, known) for each in value])
    return known.setdefault(repr(value), sys.intern(value) if isinstance(value, str) else value)


def freeze(
    known: Declarations, opened: OpenLibrary, library: str | None, path: str | os.PathLike[str]
) -> None:
    """Write the declarations of an open library, whose file the inline functions need."""
    from .inline import compiled

    require("'path'", path, (str, os.PathLike), "a path")
    made, refused = compiled(known, opened, library)
    reasons = {**known.skipped, **refused}
    for name, symbol in known.symbols.items():
        if symbol in refused and name in known.rows:
            reasons[name] = refused[symbol]
    rows = {name: row for name, row in known.rows.items() if name not in reasons}
    # Unnamed declarations are named by position, which means nothing elsewhere; nor do files.
    reasons = {name: reason for name, reason in reasons.items() if ":" not in name}
    table: Foreign = {**known.table, "functions": rows, "skipped": reasons, "inlines": []}
    table["inlines"] = [name for name in known.table["inlines"] if name in rows]
    table.pop("files", None)
    table.pop("places", None)
    content = marshal.dumps((_canonical(table, {}), made), _MARSHAL)
    with open(path, "wb") as file:
        file.write(sealed(_key(), content) + content)
