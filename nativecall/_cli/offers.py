"""What things offer to native code, as plain data: entries, and which consumers accept them.

`nativecall inspect` shows it as tables, and as JSON with ``--json``: one reading for both. A
consumer accepts an entry when the box that it wants can be made; nothing is called for that.
"""

from __future__ import annotations

from importlib.util import find_spec

from .. import _lib
from .._callable.callable import NativeCallable
from .._callable.wrap import wrap
from .._fifo import Cache
from .describe import owner_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from .._signature.signature import Signature
    from .._values.policies import Policies

    #: What JSON has.
    Plain: TypeAlias = str | int | float | bool | list["Plain"] | dict[str, "Plain"] | None

_BOXES: dict[str, tuple[str, Callable[[NativeCallable], object]]] = {
    # The library that must be installed, and what makes the box.
    "ctypes": ("", lambda f: f.to_ctypes()),
    "cffi": ("", lambda f: f.to_cffi()),
    "capsule": ("", lambda f: f.to_capsule()),
    "SciPy": ("scipy", lambda f: f.to_scipy()),
    "ufunc": ("numpy", lambda f: f.to_ufunc()),
    "Numba": ("numba", lambda f: f._numba_type_),
}
_NEEDS_GIL = _lib.FLAG_NEEDS_GIL
_known: Cache[tuple[str, int, Policies], tuple[list[str], dict[str, str]]] = Cache(4096)


def consumers(one: NativeCallable) -> tuple[list[str], dict[str, str]]:
    """Who accepts the only entry of a callable; why others do not."""
    spec, _, flags = one._entry()
    key = spec.signature.text, flags, spec.policies
    found = _known.get(key)
    if found is not None:
        return found
    accepted = ["Python", "C"]
    refused: dict[str, str] = {}
    for name, (library, make) in _BOXES.items():
        if library and find_spec(library) is None:
            refused[name] = f"{library} is not installed"
            continue
        try:
            made = make(one)
        except Exception as error:  # whatever class the other library has for it
            refused[name] = str(error).partition("\n")[0]
            continue
        if made is None:
            refused[name] = "no type for it"
        else:
            accepted.append(name)
    return _known.keep(key, (accepted, refused))


def entries(native: NativeCallable, name: str | None = None) -> list[dict[str, Plain]]:
    """The entries of a callable."""
    rows: list[dict[str, Plain]] = []
    for entry, one in zip(native.entries, native._overloads or (native,), strict=False):
        signature: Signature = one._entry()[0].signature
        accepted, refused = consumers(one)
        rows.append(
            {
                "name": name or native.__name__,
                "signature": entry.signature,
                "c": signature.c_declaration(native.__name__),
                "flags": entry.flags,
                "gil": entry.gil,
                "errors": entry.errors,
                "errno": bool(entry.flags & _lib.FLAG_ERRNO),
                "address": entry.address,
                "trampoline": entry.trampoline,
                "owner": owner_text(entry.owner),
                "accepted": [*accepted],
                "refused": {**refused},
            }
        )
    return rows


def declared(
    name: str, signature: Signature | None, address: int | None = None, reason: str = ""
) -> list[dict[str, Plain]]:
    """The entry that a function has which is only declared, or only exported."""
    row: dict[str, Plain] = {"name": name, "signature": None, "c": None, "address": address}
    if signature is None:
        if reason:
            row["reason"] = reason
        return [row]
    accepted, refused = consumers(wrap(1, signature, name=name))
    return [
        row
        | {
            "signature": signature.text,
            "c": signature.c_declaration(name),
            "accepted": [*accepted],
            "refused": {**refused},
        }
    ]


def cells(row: dict[str, Plain]) -> tuple[str, str, str]:
    """For people: what calls do with the GIL, how failure shows, and who accepts the entry."""
    gil = {"need": "needed", "release": "dropped", "hold": "kept"}.get(str(row.get("gil")), "")
    accepted = row["accepted"]
    assert isinstance(accepted, list)
    return gil, str(row.get("errors", "")), ", ".join(map(str, accepted))
