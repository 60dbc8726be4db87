"""The algorithms of the ABI, transcribed from docs/abi/ as an outsider would write them.

Written independently of the headers, so that each tests the other. Bytes are those of 64-bit
little-endian platforms. For packed signatures see `packed`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

MASK = 2**64 - 1
EXPECTED = 0xE220A8397B1DCDAF
SKIP = 1
CALL_KEYS = (0x04000001, 0x04000003)

Row = tuple[int, int, int]


def suits(runtime: dict[str, Any]) -> bool:
    """find.md, "Step 1": whether a runtime is acceptable."""
    named = runtime["capsule"] == "_extensibletype.runtime_v1"
    type_size = int(runtime["type_size"].removeprefix("H + "))
    sizes = type_size >= 32 and runtime["slot_size"] == 24
    version = runtime["abi_version"] == 1 and runtime["struct_size"] >= 56
    return named and version and sizes and not runtime["null"]


def derives(metatypes: Sequence[str]) -> bool:
    """find.md, "Step 2": whether a type has the runtime's metaclass, or one derived from it."""
    return "runtime" in metatypes


def extensible(metatypes: Sequence[str], bases: Sequence[dict[str, Any]]) -> bool:
    """find.md, "Step 2": whether a type's call tables count."""
    if metatypes[0] == "runtime":
        return True
    if not derives(metatypes):
        return False
    unchangeable = [base for base in bases if base["immutable"]]
    return bool(unchangeable) and unchangeable[0]["call"] == bases[0]["call"]


def is_view(function: dict[str, Any]) -> bool:
    """find.md, "Step 6": whether a built-in function stands for its object."""
    within = int(function["distance"], 0) < function["basicsize"]
    return function["exact"] and function["self"] and within


def hash_bytes(data: bytes) -> int:
    """signatures.md, "The hash"."""
    k0, k1 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
    k2, k3 = 0x94D049BB133111EB, 0xD6E8FEB86659FD93
    h = (k0 + len(data) * k1) & MASK
    for start in range(0, len(data), 8):
        w = int.from_bytes(data[start : start + 8], "little")
        w = w * k1 & MASK
        w ^= w >> 32
        h = (h ^ w) * k2 & MASK
        h ^= h >> 29
    h = h * k3 & MASK
    return h ^ h >> 32


def slot(table: bytes, id: int, position: int) -> int | None:
    """find.md, "Step 3": the number of a row in a table whose `cells` counts from its beginning."""
    _, count, multiplier, cells, f_high, g_shift, f_shift, size = struct.unpack_from(
        "<IIQQQIIQ", table
    )
    assert size == len(table)

    def id_of(row: int) -> int:
        return int(struct.unpack_from("<Q", table, 560 + 24 * row)[0])

    def cell(index: int) -> int:
        return int(struct.unpack_from("<H", table, cells + 2 * index)[0])

    if id in (0, 1):
        return None  # may not be asked for
    if position < count and id_of(position) == id:
        return position
    row = int(struct.unpack_from("<H", table, 48 + 2 * ((id * EXPECTED & MASK) >> 56))[0])
    if id_of(row) == id:
        return row
    x = id * multiplier & MASK
    f = ((x >> f_shift) | f_high) ^ cell(x >> g_shift)
    row = cell(f - 2**64)
    return row if id_of(row) == id else None


def in_table(entries: Sequence[tuple[str, int]], signature: str, refuse: int) -> int | None:
    """find.md, "Step 4": the number of an entry."""
    for at, (text, flags) in enumerate(entries):
        if text == signature and flags & (refuse | ~0xFFFF7F) == 0:
            return at
    return None


def packed_in(words: Sequence[int], wanted: Sequence[int], refuse: int) -> int | None:
    """find.md, "Step 5", and provide.md, "Packed tables": the function of an entry."""
    mask = ~((~refuse & 0x7F) << 56)
    at = 0
    while words[at]:
        if (words[at] ^ wanted[0]) & mask == 0:
            end = at + len(wanted)
            if list(words[at + 1 : end]) == list(wanted[1:]):
                return words[end]
        at += 2
    return None


def api_of(classes: Sequence[dict[str, Any]]) -> int | str | None:
    """find.md, "Step 7": the number of the class whose interface counts, None, or 'error'."""
    for at, cls in enumerate(classes):
        value = cls["attribute"]
        if value == "None":
            return None
        if value is not None:
            good = isinstance(value, dict) and value["capsule"] == "nativecall_api_v1"
            good = good and value["size"] >= 40 and value["find"]
            return at if good and value["name"] == "0x6E635F6170690001" else "error"
        if cls["call"]:
            return None
    return None


def usable(entry: dict[str, Any] | None, signature: str, refuse: int) -> bool:
    """find.md, "Step 7": whether a reader takes an entry."""
    if entry is None or entry["signature"] != signature or not entry["function"]:
        return False
    return int(entry["flags"], 0) & (refuse | ~0xFFFF7F) == 0


class Class:
    """runtime.md, "Inheritance": a class, its declarations, and the results.

    Parameters
    ----------
    mro : sequence of Class
        Its base classes in order.
    rows : sequence of tuple
        Its own.
    offset : int
        Its own.
    call : object
        The owner of the called function; None if the class has no call of its own.
    kind : {'static', 'class', 'plain', 'builtin'}
        The metaclass's, made in C or by a class statement; or of `type`, mutable or not.
    """

    def __init__(
        self, mro: Sequence[Class], rows: Sequence[Row], offset: int, call: object, kind: str
    ) -> None:
        self.mro = [self, *mro]
        self.own, self.own_offset, self.kind = list(rows), offset, kind
        self.extensible = kind in ("static", "class")
        self.own_call = call
        self.call = next((cls.own_call for cls in self.mro if cls.own_call is not None), None)
        self.table: list[Row] = []
        self.offset = 0
        if self.extensible:
            self._merge()

    def _dropped(self) -> set[int]:
        """Rules 3 and 4: the keys of call tables that the class lacks."""
        for at, cls in enumerate(self.mro):
            brought = {row[0] for row in cls.own} & set(CALL_KEYS)
            if cls.own_offset or brought:
                before = self.mro[:at] if cls.call is not None else self.mro
                foreign = any(other.kind == "plain" for other in before)
                hidden = foreign or self.call != cls.call
                self.offset = 0 if hidden else cls.own_offset
                return set(CALL_KEYS) - (set() if hidden else brought)
        return set()

    def _merge(self) -> None:
        dropped = self._dropped()

        def offered(row: Row) -> Row:
            return (SKIP, 0, 0) if row[0] in dropped else row

        rows: list[Row] = []
        for cls in self.mro[1:]:  # rule 2
            for at, row in enumerate(map(offered, cls.table)):
                if len(rows) == at if row[0] == SKIP else row[0] not in [one[0] for one in rows]:
                    rows.append(row)
        for row in map(offered, self.own):
            if row[0] == SKIP or row[0] not in [known[0] for known in rows]:
                rows.append(row)
        brought = {row[0]: row for cls in reversed(self.mro) for row in cls.own}  # rule 1
        self.table = [row if row[0] == SKIP else brought[row[0]] for row in rows]
