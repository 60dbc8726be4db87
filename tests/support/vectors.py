"""The vectors of the ABI: built by the core, written to `nativecall/abi`, and read again.

`made` returns the contents of every file. `tests/core/test_vectors.py` compares the installed files
with them, and with readers that were written from the documents alone. Run as a script from the
repository root, this file rewrites the vectors:

    PYTHONPATH=tests python -m support.vectors
"""

from __future__ import annotations

import ctypes
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import nativecall as nc
from nativecall._cdecl.spelling import parse
from nativecall._core import ffi, lib
from nativecall._types.ctype import CType
from nativecall.conformance import _abi

from . import build, capsules, typevectors
from .spellings import Maker

Vector = dict[str, Any]
Row = tuple[int, int, int]

API_NAME = 0x6E635F6170690001
STATUS = {-4: "NC_E_TOOLONG", -5: "NC_E_FORMAT"}


class Entry(ctypes.Structure):
    """PyNativeCallableEntry."""

    _fields_ = (
        ("signature", ctypes.c_char_p),
        ("flags", ctypes.c_size_t),
        ("funcptr", ctypes.c_void_p),
    )


class Api(ctypes.Structure):
    """NcNativeApi."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_uint64),
        ("release", ctypes.c_void_p),
        ("find", ctypes.c_void_p),
        ("entry", ctypes.c_void_p),
    )


class Core:
    """The core's functions, through cffi; tests/ext/vectors.c has those that take objects."""

    def __init__(self, builder: build.Builder, include: Path) -> None:
        flags = [f"-I{include}", "-isystem", build.sysconfig.get_path("include"), "-O1"]
        path = builder.library(build.EXT / "vectors.c", "vectors", flags=flags)
        objects = ctypes.PyDLL(str(path))
        self._type, self._api = objects.vec_type, objects.vec_api
        self._ask, self._look = objects.vec_ask, objects.vec_look
        self._accepts, self._looks = objects.vec_runtime, objects.vec_look_runtime
        self._accepts.argtypes, self._looks.argtypes = [ctypes.py_object], []
        self._leads, self._behind = objects.vec_leads, objects.vec_behind
        self._leads.argtypes = [ctypes.py_object, ctypes.c_size_t]
        self._behind.argtypes = [ctypes.py_object]
        self.offered = ctypes.cast(objects.vec_offered, ctypes.c_void_p).value
        for function in (
            *(self._type, self._api, self._ask, self._look, self._accepts, self._looks),
            *(self._leads, self._behind),
        ):
            function.restype = ctypes.py_object
        self._api.argtypes = [ctypes.py_object]
        asks = [ctypes.py_object, ctypes.c_char_p, ctypes.c_ssize_t, ctypes.c_void_p]
        self._ask.argtypes = self._look.argtypes = asks
        self._type.argtypes = [ctypes.c_char_p, ctypes.py_object, ctypes.py_object]
        self._type.argtypes += [ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.c_int]
        self._size = ffi.new("size_t *")

    def canonical(self, text: str) -> tuple[int, str | int]:
        """Return the status, and the canonical form or the position of the error."""
        data = text.encode()
        out = ffi.new("char[]", 5000)
        status = lib.nc_signature_canonical(data, len(data), out, 5000, self._size)
        return status, self._size[0] if status else ffi.string(out).decode()

    def pack(self, text: str, flags: int = 0) -> list[int]:
        data = text.encode()
        out = ffi.new("uint64_t[]", lib.NC_PACKED_MAX_WORDS)
        status = lib.nc_signature_pack(data, len(data), flags, out, len(out), self._size)
        assert status == 0, text
        return list(out[0 : self._size[0]])

    def unpack(self, words: Sequence[int]) -> tuple[int, str, int]:
        """Return the status, the signature and the flags."""
        out, flags = ffi.new("char[]", 5000), ffi.new("uintptr_t *")
        status = lib.nc_signature_unpack(words, len(words), out, 5000, self._size, flags)
        return status, ffi.string(out).decode(), flags[0]

    def slots(self, rows: Iterable[Row]) -> bytes:
        """Return a slot table, with `cells` relative to its start."""
        filled = [(id, flags, {"flags": data}) for id, flags, data in rows]
        given = ffi.new("PyCustomSlot[]", filled)
        out = ffi.new("PyCustomSlotTable **")
        assert lib.nc_slottable_build(given, len(given), out, ffi.NULL) == 0
        table = out[0]
        table.cells = ffi.cast("uint16_t *", _abi.number(table.cells) - _abi.number(table))
        made = bytes(ffi.buffer(ffi.cast("char *", table), table.size))
        lib.nc_slottable_free(table)
        return made

    def probe(self, table: bytes, id: int, position: int) -> int | None:
        aligned = ffi.new("uint64_t[]", len(table) // 8 + 1)
        ffi.buffer(aligned)[0 : len(table)] = table
        copy = ffi.cast("PyCustomSlotTable *", aligned)
        copy.cells = ffi.cast("uint16_t *", _abi.number(copy) + _abi.number(copy.cells))
        row = lib.nc_slottable_find_expected(copy, id, position)
        return row - lib.nc_slottable_rows(copy) if row else None

    def call(self, entries: Sequence[tuple[int, int]], signature: int, refuse: int) -> int | None:
        """Return the entry found in a call table; signatures are numbers."""
        table = ffi.new("PyNativeCallableTable *", [len(entries), len(entries) + 1])
        for entry, (number, flags) in zip(table.entries, entries, strict=False):
            entry.signature, entry.flags = ffi.cast("char *", number), flags
        found = lib.nc_calltable_find(table, ffi.cast("char *", signature), refuse)
        return found - ffi.addressof(table.entries, 0) if found else None

    def packed(self, entries: Sequence[tuple[str, int]]) -> list[int]:
        """Return the words of a packed table whose functions are 1, 2 and so on."""
        table = ffi.new("NcPackedTable *")
        lib.nc_packedtable_init(table)
        for number, (text, flags) in enumerate(entries, 1):
            words = self.pack(text, flags)
            function = ffi.cast("void *", number)
            assert lib.nc_packedtable_append(table, words, len(words), function) == 0
        made = list(table.published[0 : table.growth.used // 8])
        lib.nc_packedtable_clear(table)
        return made

    def packed_find(self, table: Sequence[int], words: Sequence[int], refuse: int) -> int | None:
        memory = ffi.new("uint64_t[]", table)
        found = lib.nc_packed_find(memory, words, len(words), refuse << 56)
        return found[len(words)] - 1 if found else None

    def suits(self, module: ModuleType, *, look: bool = False) -> bool:
        """Return whether a reader, or with `look` the one that only looks, accepts a runtime."""
        if not look:
            accepted: bool = self._accepts(module)
            return accepted
        before = sys.modules["_extensibletype"]
        sys.modules["_extensibletype"] = module
        try:
            looked: bool = self._looks()
            return looked
        finally:
            sys.modules["_extensibletype"] = before

    def api(self, obj: object) -> int | None:
        """Return the address of an object's tier-2 interface; TypeError if it is invalid."""
        address: int | None = self._api(obj)
        return address

    def ask(
        self, obj: object, signature: str, refuse: int, entry: Entry | None, *, look: bool = False
    ) -> bool:
        """Return whether a reader gets the offered entry; with `look`, the one that only looks."""
        offered = None if entry is None else ctypes.byref(entry)
        ask = self._look if look else self._ask
        usable: bool = ask(obj, signature.encode(), refuse, offered)
        return usable

    def leads(self, obj: object, id: int) -> bool:
        """Return whether a slot of an object's type points anywhere in the object."""
        leads: bool = self._leads(obj, id)
        return leads

    def is_view(self, obj: object) -> bool:
        """Return whether a built-in function stands for the object it is bound to."""
        view: bool = self._behind(obj)
        return view

    def type(self, name: str, bases: Sequence[type], vector: Vector) -> type:
        """Return the class that a vector of inheritance describes."""
        rows = tuple(tuple(number(word) for word in row) for row in vector["rows"])
        if vector["kind"] == "static":
            room, offset = vector["room"], vector["offset"]
            calls = (None, "a", "b").index(vector["call"])
            made: type = self._type(name.encode(), tuple(bases), rows, room, offset, calls)
            return made
        namespace: dict[str, Any] = {}
        if vector["call"] is not None:
            namespace["__call__"] = lambda self: None
        if vector["kind"] == "plain":
            return type(name, tuple(bases), namespace)
        namespace["__customslots__"] = {id: (flags, data) for id, flags, data in rows}
        return nc.extensibletype(name, tuple(bases), namespace)


def number(text: str | int) -> int:
    return int(text, 0) if isinstance(text, str) else text


def hexadecimal(value: int) -> str:
    return f"{value:#x}"


def word(value: int) -> str:
    return f"0x{value:016X}"


# -- hashes --------------------------------------------------------------------------------------


def hashes(core: Core) -> tuple[str, list[Vector]]:
    data = [bytes(range(n)) for n in (*range(18), 31, 32, 33, 255, 256)]
    data += [b"\0", bytes(8), bytes(9), b"d", b"d:d", b"i:d&f", b"01234567", b"012345678"]
    data += [b"double (double)", "caf\u00e9".encode(), b"\xff" * 24, b"x" * 1000]
    about = "bytes: in hexadecimal; hash: of them (signatures.md, The hash)"
    return about, [
        {
            "bytes": each.hex(),
            "hash": word(lib.nc_interned_hash(ffi.cast("char *", _abi.intern(each)))),
        }
        for each in dict.fromkeys(data)
    ]


# -- signatures ----------------------------------------------------------------------------------

# By platform: the codes of char, long and pointers, and the kind of long double.
PLATFORMS = {
    "linux-x86_64": ("b", "q", "q", "g"),
    "linux-aarch64": ("B", "q", "q", "g"),
    "macos-arm64": ("b", "q", "q", "d"),
    "windows-x86_64": ("b", "i", "q", "d"),
    "linux-i386": ("b", "i", "i", "g"),
}
GOOD = [
    "v:", "d:d", "d:dd", "i:d&f", "d: d d", "\td\n:\vd\f\r ", "i:&c l n", "L:N", "g:&v", "Zg:&g",
    "v:T{d:x:d:y:}", "v:&(2)(03)d", "X{v:}:&&v.", "?:?cbBhHiIlLqQnNefdgPO", "Zf:Zd&Zd", "v:=T{cd}",
    "v:T{T{bd}i}", "v:&T{(2,3)i(4)T{dZf}}", "d:[1]d[2]&b", "i:&b.", "O:OO", "v:X{i:&v&v}&vLL",
    "X{X{v:}:X{d:d}}:", "P:&&&P", "v:T{l:l:g:g:}", "v:&(1)(1)(1)b", "v:&(018)b",
    "Z d : T { d : _a1 : d : b : } .", "d:dddddddddddd", "d:ddddddddddddd", "d:ddddddddddddI",
    "v:[64]g", "v:T{d(2,3)i}X{i:P}[2]d", "q:&bqP.",
    "U{i:whole:T{h:low:h:high:}:parts:}:=U{Zdb}", "v:T{I#3:a:I#29:b:?#1l#0c}",
    "v : T { I # 003 : a : }", "v:&U{(2)U{qQ#64}}",
    "d:" + "&" * 63 + "d", "d:" + "&" * 63 + "&v", "d:" + "X{d:" * 63 + "}" * 63,
    "v:&(" + ",".join("1" * 64) + ")b", "v:&" + "(1)" * 62 + "b", "d:" + "d" * 4094,
]  # fmt: skip
BAD = [
    "", ":", "d", "d:v", "w:d", "d:w", "d d:", "d:d:", "d:.", "d:d.d", "v:T{}", "v:T{d", "v:T{d:x}",
    "v:T{d:x:d:x:}", "v:T{d:1:}", "v:T{v}", "(2)d:", "d:(2)d", "[1]d:", "d:&[1]d", "v:T{[1]d}",
    "d:[1](2)d", "d:[1][1]d", "d:[0]d", "d:[65]d", "v:&(0)d", "v:&()d", "v:&(2)", "v:&(2,)d",
    "v:&(9999999999999999999)d", "d:Z", "d:Zi", "d:=d", "d:=Td", "d:T", "d:X", "X{v}:", "X{:}:",
    "v:X{v:", "d:&", "v:}", "dd->d", "dd)d", "double (double)", "d:d\0", "d:\u00e9",
    "v:U{}", "v:T{d#3}", "v:T{I#33}", "v:T{?#2}", "v:T{I#0:a:}", "v:T{I#}",
    "v:I#3", "v:&I#3", "v:(2)I#3", "d:=U",
    "d:" + "&" * 64 + "d",
    "v:&(999999999999999999,99)d", "d:" + "X{d:" * 64 + "}" * 64, "v:&" + "(1)" * 65 + "b",
    "v:&(" + ",".join("1" * 65) + ")b", "d:" + "d" * 4095,
]  # fmt: skip


def spelled(text: str, platform: str) -> str:
    """Return a valid signature without names, with platform-dependent parts written out."""
    char, long, pointer, double = PLATFORMS[platform]
    codes = {"c": char, "l": long, "L": long.upper(), "n": pointer, "N": pointer.upper()}
    # A name stands between two colons; arguments before a colon contain a brace.
    return re.sub(r":\s*[A-Za-z_]\w*\s*:", "", text).translate(
        str.maketrans({**codes, "g": double})
    )


def largest(ctype: CType) -> int:
    """Return the size of a type's largest part."""
    parts = [getattr(ctype, name, None) for name in ("pointee", "item", "result")]
    parts += getattr(ctype, "args", ())
    parts += [field.type for field in getattr(ctype, "fields", ())]
    return max([ctype.size, *[largest(one) for one in parts if one is not None]])


def signatures(core: Core) -> tuple[str, list[Vector]]:
    vectors = []
    maker = Maker(13)
    good = [*GOOD, *[text for text in [maker.text() for _ in range(60)] if len(text) < 120]]
    for text in dict.fromkeys(good):
        if core.canonical(text)[0] != 0:
            continue  # exceeds the address space
        forms: dict[str, list[str]] = {}
        for platform in PLATFORMS:
            if platform == "linux-i386" and largest(parse(text).function) >= 2**31:
                continue  # exceeds the address space there
            canonical = core.canonical(spelled(text, platform))[1]
            forms.setdefault(str(canonical), []).append(platform)
        for canonical, platforms in forms.items():
            words = [word(each) for each in core.pack(canonical)]
            vector = {"text": text, "platforms": platforms, "canonical": canonical}
            vectors.append({**vector, "words": words})
    for text in BAD:
        status, offset = core.canonical(text)
        vectors.append({"text": text, "error": STATUS[status], "offset": offset})
    about = (
        "text: to be read, as UTF-8; platforms: where canonical and words are its canonical form "
        "and its packed form without flags; or error: NC_E_FORMAT, malformed, or NC_E_TOOLONG, and "
        "offset: the byte at which the first thing is that cannot be (signatures.md, Positions)"
    )
    return about, vectors


# -- packed words --------------------------------------------------------------------------------


def packed(core: Core) -> tuple[str, list[Vector]]:
    vectors: list[Vector] = []
    maker = Maker(14, spaces=0, names=False)
    texts = ["v:", "d:d", "d:dd", "i:d&f", "Zd:Zd", "q:&bqP.", "d:dddddddddddd", "d:ddddddddddddd"]
    texts += ["d:ddddddddddddI", "v:T{d(2,3)i}X{i:P}[2]d", "e:?BhHIQ=T{X{g:}}(7)", "v:" + "d" * 80]
    texts += ["i:d&f", "v:&(1234567890)b", *[maker.text() for _ in range(40)]]
    for text in texts:
        status, canonical = core.canonical(text)
        if status == 0 and len(text) < 120:
            flags = maker.random.choice([0, 0, 1, 0x58, maker.random.randrange(128)])
            words = [word(each) for each in core.pack(str(canonical), flags)]
            vectors.append({"signature": canonical, "flags": hexadecimal(flags), "words": words})
    start, more = 0x8011000000000000, 0x4000000000000000
    bad = [
        ([0], "no start"), ([start & ~(1 << 63)], "no start"), ([start, more], "an even number"),
        ([start, more, more], "more words than needed"), ([start | 1], "behind the end"),
        ([0x8000000000000000], "no result"), ([0x80DC000000000000], "no such symbol"),
        ([0x80FF000000000000], "no such symbol"), ([0x8011111111111111], "no end"),
        ([0x8019000000000000], "a void argument"), ([0x80C7C8C9C9C90000], "braces"),
        ([0x8011111111111111, more, 0], "a word without its mark"),
        ([0x8011111111111111, more, start], "a start among the others"),
        ([0x8016000000000000], "half a type"), ([0x80D1000000000000], "no result"),
    ]  # fmt: skip
    for words, why in bad:
        assert core.unpack(words)[0] == -5, words
        vectors.append({"words": [word(each) for each in words], "error": why})
    about = (
        "signature: canonical on 64-bit Linux on x86; flags: of the entry; words: packed; or "
        "error: why no signature has these words (signatures.md, Packing)"
    )
    return about, vectors


# -- slot tables ---------------------------------------------------------------------------------

CALLS, PACKED = 0x04000001, 0x04000003


def slottables(core: Core) -> tuple[str, list[Vector]]:
    rng = random.Random(15)
    tables: list[list[Row]] = [
        [(CALLS, 0, 16)],
        [(CALLS, 0, 16), (PACKED, 0, 48)],
        [(PACKED, 0, 48), (CALLS, 0, 16)],
        [(1, 0, 0), (PACKED, 0, 48), (0x05000101, 7, 2**64 - 8)],
        [(1, 0, 0), (1, 0, 0)],
    ]
    for count in (3, 8, 33, 100):
        keys: dict[int, None] = {CALLS: None}
        while len(keys) < count:
            odd = rng.randrange(5, 256) << 24 | rng.randrange(1 << 24) | 1
            keys[rng.choice([odd, rng.randrange(1 << 47) & ~7])] = None
        rows = [(key, rng.choice([0, rng.getrandbits(64)]), rng.getrandbits(64)) for key in keys]
        for _ in range(count // 8):
            rows.insert(rng.randrange(len(rows)), (1, 0, 0))
        tables.append(rows)
    vectors = []
    for rows in tables:
        table = core.slots(rows)
        asked = [(id, 0) for id, _, _ in rows if id != 1]
        asked += [(id, at) for at, (id, _, _) in enumerate(rows) if id != 1]
        asked += [(CALLS, 0), (CALLS, 1), (PACKED, 0), (PACKED, 1), (PACKED, len(rows) + 5)]
        asked += [(key, 0) for key in (2**64 - 1, 0x06000001, 0x7F0000001000)]
        probes = [
            {"id": hexadecimal(id), "position": position, "row": core.probe(table, id, position)}
            for id, position in dict.fromkeys(asked)
        ]
        vectors.append({"rows": shown(rows), "bytes": table.hex(), "probes": probes})
    about = (
        "rows: id, flags and data in order; bytes: a table of them in hexadecimal, for 64-bit "
        "little-endian platforms, to be put at a multiple of 8, with the number of its own address "
        "added to `cells`; probes: the row, from 0 on, that slot(type, id, position) leads to, or "
        "null (find.md, Step 3; runtime.md, Building a slot table)"
    )
    return about, vectors


def shown(rows: Iterable[Row]) -> list[list[str]]:
    return [[hexadecimal(word) for word in row] for row in rows]


# -- call tables ---------------------------------------------------------------------------------

REFUSALS = (0, 0x1, 0x2, 0x23, 0x70, 0x71, 0x60, 0x7F, 0xFFFFFF)


def calltables(core: Core) -> tuple[str, list[Vector]]:
    tables: list[list[tuple[str, int]]] = [
        [],
        [("d:d", 0)],
        [("d:d", 1), ("f:f", 0), ("d:d", 0)],
        [("d:d", 0x10 | 1), ("d:d", 0x10 | 2), ("d:d", 0x20), ("d:d", 0x50 | 8), ("d:d", 4)],
        [("d:d", 1 << 24), ("d:d", 1 << 63), ("d:d", 1 << 23 | 0x100)],
        [("i:d", 0x80), ("i:d", 0x70), ("i:d", 0xF0), ("O:O", 1)],
        [("i:d&i", 0x60), ("i:d&i", 0)],
        [("d:d", 1 << 32)],
    ]
    vectors = []
    for entries in tables:
        numbers = {text: at for at, text in enumerate(dict.fromkeys(t for t, _ in entries), 1)}
        rows = [(numbers[text], flags) for text, flags in entries] or [(0, 0xFFFFFFFFFF000080)]
        finds = []
        for text in (*numbers, "q:q"):
            for refuse in REFUSALS:
                entry = core.call(rows, numbers.get(text, 99), refuse)
                finds.append({"signature": text, "refuse": hexadecimal(refuse), "entry": entry})
        listed = [{"signature": text, "flags": hexadecimal(flags)} for text, flags in entries]
        vectors.append({"entries": listed, "finds": finds})
    about = (
        "entries: of a call table, in order; finds: the entry, from 0 on, that a reader who cannot "
        "serve the flags in refuse takes for a signature, or null (find.md, Step 4)"
    )
    return about, vectors


# -- packed tables -------------------------------------------------------------------------------


def packedtables(core: Core) -> tuple[str, list[Vector]]:
    long = "d:" + "d" * 13
    tables: list[list[tuple[str, int]]] = [
        [],
        [("d:d", 0)],
        [("d:d", 1), ("f:f", 0), ("d:d", 0)],
        [(long, 0), ("d:d", 0x51), (long + "d", 0), (long, 0x10 | 2)],
        [("v:T{d(2,3)i}X{i:P}[2]d", 3), ("v:", 0), ("d:" + "d" * 50, 4), ("i:d&f", 0x58)],
        [("d:d&i", 0x61), ("d:d&i", 0x60), ("d:d&i", 4)],
    ]
    vectors = []
    for entries in tables:
        words = core.packed(entries)
        finds = []
        for text in (*dict.fromkeys(text for text, _ in entries), "q:q", long + "f"):
            for refuse in (0, 0x1, 0x70, 0x71, 0x7F):
                entry = core.packed_find(words, core.pack(text), refuse)
                finds.append({"signature": text, "refuse": hexadecimal(refuse), "entry": entry})
        listed = [{"signature": text, "flags": hexadecimal(flags)} for text, flags in entries]
        vectors.append({"entries": listed, "words": [word(w) for w in words], "finds": finds})
    about = (
        "entries: in order; words: the packed table, in which the function of entry n, from 0 on, "
        "is the address n + 1; finds: the entry that a reader who cannot serve the flags in refuse "
        "takes for a signature, or null (find.md, Step 5; provide.md, Packed tables)"
    )
    return about, vectors


# -- runtimes ------------------------------------------------------------------------------------


def runtime(**changes: int | str | list[str] | None) -> Vector:
    vector = {"capsule": "_extensibletype.runtime_v1", "abi_version": 1, "struct_size": 56}
    return {**vector, "type_size": "H + 32", "slot_size": 24, "null": [], **changes}


RUNTIMES = [
    runtime(), runtime(struct_size=64), runtime(struct_size=48), runtime(struct_size=0),
    runtime(abi_version=0), runtime(abi_version=2), runtime(type_size="H + 24"),
    runtime(type_size="H + 40"), runtime(type_size="H + 40", struct_size=64),
    runtime(slot_size=16), runtime(slot_size=32),
    *[runtime(null=[field]) for field in ("provider", "metatype", "registry", "intern", "ready")],
    runtime(null=["intern", "ready"], struct_size=64),
    runtime(capsule="_extensibletype.runtime_v2"), runtime(capsule=None),
]  # fmt: skip


class Runtime(ctypes.Structure):
    """NcRuntime."""

    _fields_ = (
        *[(name, ctypes.c_uint32) for name in ("abi_version", "struct_size", "type_size")],
        ("slot_size", ctypes.c_uint32),
        *[(name, ctypes.c_void_p) for name in ("provider", "metatype", "registry")],
        *[(name, ctypes.c_void_p) for name in ("intern", "ready", "more")],
    )


def module_of(vector: Vector) -> ModuleType:
    """Return a stand-in for `sys.modules["_extensibletype"]`.

    Fields that the vector does not change are those of this process.
    """
    capsule = sys.modules["_extensibletype"].runtime_v1
    address = capsules.get_pointer(capsule, b"_extensibletype.runtime_v1")
    made = Runtime.from_buffer_copy(ctypes.string_at(address, 56) + bytes(8))
    made.type_size = type.__basicsize__ + number(vector["type_size"].removeprefix("H + "))
    for field in ("abi_version", "struct_size", "slot_size"):
        setattr(made, field, vector[field])
    for field in vector["null"]:
        setattr(made, field, None)
    _kept.append(made)
    module = ModuleType("_extensibletype")
    if vector["capsule"] is not None:
        module.__dict__["runtime_v1"] = new_capsule(made, vector["capsule"])
    return module


def new_capsule(struct: ctypes.Structure, name: str) -> object:
    """Return a capsule around a struct; both live as long as the process."""
    _kept.append(struct)
    return capsules.capsule(name.encode(), ctypes.addressof(struct))


_kept: list[object] = []


def runtimes(core: Core) -> tuple[str, list[Vector]]:
    about = (
        "runtime: an NcRuntime with these fields, and NULL for those in null, in a capsule of that "
        'name at sys.modules["_extensibletype"].runtime_v1; capsule: null where there is none. H '
        "is sizeof(PyHeapTypeObject). suits: whether readers use it (find.md, Step 1)"
    )
    return about, [{"runtime": each, "suits": core.suits(module_of(each))} for each in RUNTIMES]


# -- tier 2 --------------------------------------------------------------------------------------


def capsule(size: int = 40, find: bool = True, **changes: int | str) -> Vector:
    vector = {"capsule": "nativecall_api_v1", "size": size, "name": word(API_NAME), "find": find}
    return {**vector, **changes}


GIVEN = capsule()
# From the object's type up to `object`: the attribute's value, and whether there is a __call__.
CHAINS: list[list[tuple[Any, bool]]] = [
    [(GIVEN, True)], [(GIVEN, False)], [(None, False), (GIVEN, True)],
    [(None, True), (GIVEN, True)], [("None", False), (GIVEN, True)],
    [(None, False), (None, True), (GIVEN, True)],
    [(GIVEN, True), ("None", True), (GIVEN, True)], [(None, True)], [(None, False)],
    [("3", False)], [(capsule(capsule="nativecall_api_v2"), True)], [(capsule(39), True)],
    [(capsule(48), True)], [(capsule(find=False), True)],
    [(capsule(name=word(API_NAME + 1)), True)],
    [(None, False), ("3", False), (GIVEN, True)],
]  # fmt: skip
ASKED: list[tuple[Vector | None, str, int]] = [
    (None, "d:d", 0),
    *[
        ({"signature": "d:d", "flags": hexadecimal(flags), "function": True}, "d:d", refuse)
        for flags, refuse in [(0, 0), (1, 0), (1, 1), (0x11, 0x70), (0x12, 1), (1 << 24, 0)]
    ],
    ({"signature": "d:d", "flags": hexadecimal(0x300), "function": True}, "d:d", 0x7F),
    ({"signature": "d:d", "flags": hexadecimal(0x80), "function": True}, "d:d", 0),
    ({"signature": "f:f", "flags": "0x0", "function": True}, "d:d", 0),
    ({"signature": "d:d", "flags": "0x0", "function": False}, "d:d", 0),
    ({"signature": None, "flags": "0x0", "function": True}, "d:d", 0),
]


def chained(core: Core, chain: Iterable[Vector]) -> tuple[object, list[Any]]:
    """Return an object of the first of these classes, and the attribute's value in each."""
    cls: type = object
    values = []
    for vector in reversed([*chain]):
        namespace: dict[str, Any] = {"__call__": lambda self: None} if vector["call"] else {}
        value = vector["attribute"]
        if isinstance(value, dict):
            find = core.offered if value["find"] else None
            api = Api(value["size"], number(value["name"]), None, find)
            namespace["__nativecall_api__"] = new_capsule(api, value["capsule"])
            value = ctypes.addressof(api)
        elif value is not None:
            namespace["__nativecall_api__"] = {"None": None, "3": 3}[value]
        values.insert(0, value)
        cls = type("Chained", (cls,), namespace)
    return cls(), values


def laid_out(entry: Vector | None) -> Entry | None:
    """Return an entry that is offered."""
    if entry is None:
        return None
    text = entry["signature"] and entry["signature"].encode()
    return Entry(text, number(entry["flags"]), 64 if entry["function"] else None)


def tier2(core: Core) -> tuple[str, list[Vector]]:
    vectors: list[Vector] = []
    for chain in CHAINS:
        classes = [{"attribute": attribute, "call": call} for attribute, call in chain]
        obj, values = chained(core, classes)
        try:
            found = core.api(obj)
        except TypeError:
            vectors.append({"classes": classes, "api": "error"})
        else:
            vectors.append({"classes": classes, "api": found and values.index(found)})
    obj, _ = chained(core, [{"attribute": GIVEN, "call": True}])
    for entry, signature, refuse in ASKED:
        usable = core.ask(obj, signature, refuse, laid_out(entry))
        asked = {"signature": signature, "refuse": hexadecimal(refuse), "usable": usable}
        vectors.append({"offered": entry, **asked})
    about = (
        "classes: of an object, from its type up; attribute: null for no __nativecall_api__ of its "
        "own, None, 3, or a capsule of that name around a struct of this size and name with or "
        "without a find; call: whether it has a __call__ of its own; api: the class whose "
        "interface counts, from 0 on, null, or error. offered: what find or entry gives, or null; "
        "usable: whether a reader takes it for signature and refuse (find.md, Step 7)"
    )
    return about, vectors


# -- inheritance ---------------------------------------------------------------------------------

A, B, C = 0x05000101, 0x05000201, 0x05000301


def static(
    name: str, bases: str, rows: Sequence[Row], room: int, offset: int, call: str | None = None
) -> Vector:
    return {
        "name": name, "kind": "static", "bases": bases.split(), "rows": shown(rows), "room": room,
        "offset": offset, "call": call,
    }  # fmt: skip


def class_(name: str, bases: str, *rows: Row, call: str | None = None) -> Vector:
    return {
        "name": name,
        "kind": "class",
        "bases": bases.split(),
        "rows": shown(rows),
        "call": call,
    }


def plain(name: str, bases: str = "object", call: str | None = None) -> Vector:
    return {"name": name, "kind": "plain", "bases": bases.split(), "rows": [], "call": call}


BOTH = [(CALLS, 0, 16), (PACKED, 0, 48)]
FAMILIES: list[list[Vector]] = [
    [
        class_("X", "object", (A, 0, 1), (B, 5, 2)),
        class_("Y", "X", (B, 0, 3), (C, 0, 4)),
        class_("Z", "Y"),
    ],
    [
        class_("X", "object", (A, 0, 1), (B, 0, 2)),
        class_("Y", "object", (C, 0, 3), (A, 0, 4)),
        class_("Z", "X Y", (0x1000, 0, 5)),
        class_("W", "Y X"),
    ],
    [
        class_("Top", "object", (A, 0, 1)),
        class_("Left", "Top", (B, 0, 2)),
        class_("Right", "Top", (A, 0, 3), (C, 0, 4)),
        class_("Bottom", "Left Right"),
    ],
    [
        static("Base", "object", BOTH, 2, 16, "a"),
        static("Same", "Base", [(A, 0, 1)], 3, 0),
        static("Other", "Base", [(A, 0, 1)], 3, 0, "b"),
        static("Own", "Base", [(CALLS, 0, 32)], 2, 32, "b"),
        class_("Inherits", "Base", (B, 0, 2)),
        class_("Overrides", "Base", (B, 0, 2), call="own"),
        class_("Below", "Overrides"),
        static("Lower", "Own", [], 0, 0),
        class_("Lowest", "Lower", (C, 0, 3)),
    ],
    [
        static("Base", "object", [(A, 0, 1), *BOTH, (B, 0, 2)], 4, 16, "a"),
        class_("Overrides", "Base", call="own"),
        class_("Adds", "Overrides", (C, 0, 3)),
    ],
    [
        static("Padded", "object", [(1, 0, 0), (A, 0, 1), (1, 0, 0), (B, 0, 2)], 4, 0),
        static("More", "Padded", [(1, 0, 0), (C, 0, 3), (A, 9, 9)], 8, 0),
        class_("Mixed", "object", (C, 0, 7)),
        class_("Both", "Mixed Padded"),
        class_("Turned", "Padded Mixed"),
    ],
    [
        static("Base", "object", [*BOTH, (A, 0, 1)], 3, 16, "a"),
        static("Slot", "Base", [(CALLS, 0, 32)], 3, 0, "b"),
        class_("Child", "Slot"),
        static("Again", "Slot", [(PACKED, 0, 64), (CALLS, 0, 80)], 4, 80),
    ],
    [
        static("Slot", "object", [(CALLS, 0, 16)], 1, 0, "a"),
        class_("Child", "Slot"),
        static("Offset", "object", [(CALLS, 0, 24)], 1, 24),
        class_("Silent", "Offset"),
    ],
    [
        static("Base", "object", BOTH, 2, 16, "a"),
        plain("Mixin"),
        class_("Before", "Mixin Base"),
        class_("Behind", "Base Mixin"),
        static("Mute", "object", BOTH, 2, 16),
        class_("After", "Mute Mixin"),
        plain("Calls", call="own"),
        class_("Called", "Calls Base"),
    ],
    [  # table rows that differ from those of the classes
        class_("First", "object", (C, 0, 1)),
        class_("Third", "object", (A, 0, 2)),
        class_("Second", "Third", (B, 0, 3)),
        class_("Joined", "First Second", (0x1000, 0, 4)),
    ],
    [  # padding: trailing, declared or computed, own, and where bases have it
        static("Base", "object", [(A, 0, 1), BOTH[0], (1, 0, 0)], 3, 16, "a"),
        class_("Overrides", "Base", (B, 0, 2), call="own"),
        static("Ends", "Base", [(1, 0, 0), (B, 0, 2), (1, 0, 0)], 6, 0),
        class_("Mixed", "object", (C, 0, 7)),
        class_("Behind", "Mixed Overrides"),
        class_("Both", "Mixed Base"),
    ],
    [  # call rows below a class that has lost its own
        static("Base", "object", [(A, 0, 1), *BOTH], 3, 16, "a"),
        static("Hides", "Base", [(B, 0, 2)], 4, 0, "b"),
        static("Brings", "Hides", [(1, 0, 0), (C, 0, 3), (CALLS, 0, 32)], 7, 32),
        class_("Twice", "Brings", call="own"),
        class_("Again", "Twice", (0x1000, 0, 4)),
    ],
]  # fmt: skip


def offset_of(made: type) -> int:
    """Return the direct offset of the call tables, from the type's memory."""
    return int(ctypes.c_ssize_t.from_address(id(made) + type.__basicsize__ + 8).value)


def rows_of(made: type) -> list[Row]:
    return [(key, flags, data % 2**64) for key, flags, data in _abi.rows(made)]


def family(core: Core, vectors: Sequence[Vector]) -> dict[str, type]:
    """Return the classes that vectors of inheritance describe, by name."""
    made: dict[str, type] = {"object": object}
    for vector in vectors:
        bases = [made[name] for name in vector["bases"]]
        made[vector["name"]] = core.type(vector["name"], bases, vector)
    return made


def inheritance(core: Core) -> tuple[str, list[Vector]]:
    vectors = []
    for described in FAMILIES:
        made = family(core, described)
        classes = []
        for vector in described:
            result: Vector = {}
            if vector["kind"] != "plain":
                cls = made[vector["name"]]
                result = {"table": shown(rows_of(cls)), "merged_offset": offset_of(cls)}
            classes.append({**vector, **result})
        vectors.append({"classes": classes})
    about = (
        "classes: in the order in which they are made. kind: static, made ready with an array of "
        "`room` rows, NULL where that is 0; class, a class statement of the metaclass; plain, one "
        "of `type`. bases: by name. rows: its own, id, flags and data; offset: of its call tables, "
        "0 for none; call: null where it has no call of its own; a and b, two C functions, the "
        "tp_call of static types; own, a __call__ in the class statement. "
        "table and merged_offset: what the metaclass makes of it (runtime.md, Inheritance)"
    )
    return about, vectors


# -- the files -----------------------------------------------------------------------------------

FILES: dict[str, Callable[[Core], tuple[str, list[Vector]]]] = {
    "runtimes": runtimes,
    "types": typevectors.types,
    "hashes": hashes,
    "signatures": signatures,
    "packed": packed,
    "slottables": slottables,
    "calltables": calltables,
    "packedtables": packedtables,
    "views": typevectors.views,
    "tier2": tier2,
    "inheritance": inheritance,
}


def made(core: Core, name: str) -> str:
    """Return the required content of the file of this name."""
    about, vectors = FILES[name](core)
    lines = ",\n".join(json.dumps(vector) for vector in vectors)
    return f'{{"abi_version": 1, "about": {json.dumps(about)}, "vectors": [\n{lines}\n]}}\n'


def installed(name: str) -> str:
    """Return the installed file of this name."""
    file = resources.files("nativecall") / "abi" / f"{name}.json"
    return file.read_text(encoding="utf-8")


def main() -> None:
    folder = Path(__file__).resolve().parents[2] / "nativecall" / "abi"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        core = Core(build.Builder(Path(temporary)), Path(nc.get_include()))
        for name in FILES:
            (folder / f"{name}.json").write_text(made(core, name), encoding="utf-8")


if __name__ == "__main__":
    main()
