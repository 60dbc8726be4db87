"""Table rows that describe native callables and slots, for `demo` and `inspect`."""

from __future__ import annotations

import os

from .._callable.callable import NativeCallable
from .._errors import TYPE_CHECKING
from .._library import Symbol
from .._output import Row
from .._slots import PADDING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .._slots import Slot

# Slots that the package itself defines, with a description of their data.
_KNOWN_SLOTS = {
    0x04000001: "where objects keep their call table",
    0x04000003: "where objects keep their packed call table",
    0x04000101: "where objects keep their own slot table",
}


def owner_text(owner: object) -> str:
    """Return what keeps a function alive, in a few words."""
    if owner is None:
        return "nothing"
    if isinstance(owner, Symbol):
        where = os.path.basename(owner.library) if owner.library else "the process"
        return f"{owner.name} of {where}"
    if isinstance(owner, NativeCallable) and owner._owners:
        return owner_text(owner._owners[-1])
    text = repr(owner)
    return text if len(text) <= 60 else f"a {type(owner).__name__}"


def entry_rows(callables: Iterable[NativeCallable]) -> tuple[list[str], list[Row]]:
    """Return the column titles and rows of a table that lists the entries of native callables."""
    rows = [
        Row(
            callable.__name__ if n == 0 else "",
            entry.signature,
            f"{entry.flags:#x}",
            hex(entry.address),
            entry.trampoline,
            owner_text(entry.owner),
        )
        for callable in callables
        for n, entry in enumerate(callable.entries)
    ]
    return ["callable", "signature", ">flags", ">address", "trampoline", "kept alive by"], rows


def slot_rows(slots: Iterable[Slot]) -> tuple[list[str], list[Row]]:
    """Return the column titles and rows of a table that lists the slots."""
    rows = []
    for n, slot in enumerate(slots):
        if isinstance(slot.key, bytes):
            key, meaning = repr(slot.key.decode("utf-8", "backslashreplace")), "an interned key"
        elif slot.key == PADDING:
            key, meaning = "1", "padding"
        elif slot.key % 2:
            key = f"{slot.key:#010x}"
            meaning = _KNOWN_SLOTS.get(slot.key, "an allocated ID")
        else:
            key, meaning = hex(slot.key), "an address as a key"
        data = str(slot.data) if slot.key in _KNOWN_SLOTS else hex(slot.data)
        rows.append(Row(str(n), key, f"{slot.flags:#x}", data, meaning))
    return [">row", "key", ">flags", ">data", "meaning"], rows
