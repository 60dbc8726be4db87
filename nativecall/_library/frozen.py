"""Read and write frozen files. `load` reads them instead of headers, and packages can ship them.

A frozen file has the format of the cache's files (_fileheader.py). Its hash is checked before its
content is parsed. Its key names the format of the table and the C ABI. The content is plain data:
the table of declarations, and the inline functions compiled to a shared object. Every version of
Python can read it.
"""

from __future__ import annotations

import marshal
import os
import sys

from .. import _fileheader
from .._cdecl.declarations import offered
from .._errors import TYPE_CHECKING, LibraryError, require

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.resources.abc import Traversable

    from .._cdecl.declarations import Declarations
    from .._ext import Foreign
    from .._ext import Library as OpenLibrary


#: The version of the table format. Increase it if older versions of nativecall cannot read new
#: tables, or would misread them.
FORMAT = 1
_MARSHAL = 4  # a version of marshal's format that every version of Python reads


def _key() -> bytes:
    """Return the key of files that this process can use.

    It names the format, and the processor, system and C library for which layouts and code are
    valid.
    """
    system = getattr(sys.implementation, "_multiarch", sys.platform)
    if "-" not in system:  # the system has one C library, and `system` names no processor
        bits = 64 if sys.maxsize > 2**32 else 32
        system = f"{os.uname().machine if hasattr(os, 'uname') else 'x86'}-{system}-{bits}"
    return f"{FORMAT} {system}".encode().ljust(32, b"\0")


def read(
    given: str | os.PathLike[str] | Traversable, only: Sequence[str] | str | None, skip: bool
) -> Declarations:
    """Read a file that `freeze` wrote for this C ABI; raise LibraryError for any other file."""
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
    found = _fileheader.read(whole)
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
    # The file's header identifies the declarations, because it contains the content's hash.
    made = offered(table, whole[: -len(content)], only, skip)
    made.compiled = compiled
    return made


def _spelled(key: bytes) -> str:
    number, _, system = key.rstrip(b"\0").decode(errors="replace").partition(" ")
    return f"{system!r} in format {number}"


def _canonical(value: Foreign, known: dict[str, Foreign]) -> Foreign:
    """Return an equal value in which equal parts are the same object. `known` records the objects.

    `marshal` writes references for shared objects. Without this function, equal tables could
    produce different bytes.
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
    """Write the declarations of an open library to a file.

    The library must be open, since its inline functions are compiled against it.
    """
    from .inline import compiled

    require("'path'", path, (str, os.PathLike), "a path")
    made, refused = compiled(known, opened, library)
    reasons = {**known.skipped, **refused}
    for name, symbol in known.symbols.items():
        if symbol in refused and name in known.rows:
            reasons[name] = refused[symbol]
    rows = {name: row for name, row in known.rows.items() if name not in reasons}
    # Omit reasons for unnamed declarations: their names are positions in the headers, which mean
    # nothing on other machines. Omit the paths of the headers for the same reason.
    reasons = {name: reason for name, reason in reasons.items() if ":" not in name}
    table: Foreign = {**known.table, "functions": rows, "skipped": reasons, "inlines": []}
    table["inlines"] = [name for name in known.table["inlines"] if name in rows]
    table.pop("files", None)
    table.pop("places", None)
    content = marshal.dumps((_canonical(table, {}), made), _MARSHAL)
    with open(path, "wb") as file:
        file.write(_fileheader.header(_key(), content) + content)
