"""The specification's structs, functions and words, as the kit reads and makes them.

All of it is written from docs/abi, apart from the headers, and nothing of the package's core is
used: what the kit expects is what the document says.
"""

from __future__ import annotations

import ctypes
import sys

from cffi import FFI

from ._rules import Broken, check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .._ext import Foreign

ffi = FFI()
ffi.cdef("""
typedef struct { uint64_t length, hash; } NcInternHeader;
typedef struct { uintptr_t id; uint64_t flags; intptr_t data; } PyCustomSlot;
typedef struct {
    uint32_t abi_version, count;
    uint64_t multiplier;
    uint16_t *cells;
    uint64_t f_high;
    uint32_t g_shift, f_shift;
    uint64_t size;
    uint16_t expected[256];
} PyCustomSlotTable;
typedef struct { char *signature; uintptr_t flags; uintptr_t funcptr; } PyNativeCallableEntry;
typedef struct { intptr_t count; PyNativeCallableEntry entries[]; } PyNativeCallableTable;
typedef struct {
    PyCustomSlotTable *etp_custom_slots;
    intptr_t etp_obj_custom_slots_offset;
    intptr_t etp_table_shift;
    void *etp_private;
} Extension;
typedef struct { size_t mask; void *superseded; char *cells[]; } NcInternTable;
typedef struct { uint32_t abi_version, reserved; NcInternTable *table; } NcRegistry;
typedef struct {
    uint32_t abi_version, struct_size, type_size, slot_size;
    char *provider;
    void *metatype;
    NcRegistry *registry;
    int (*intern)(NcRegistry *, const char *, size_t, char **);
    void *ready;
} NcRuntime;
typedef struct {
    size_t size;
    uint64_t name;
    void *release;
    PyNativeCallableEntry *(*find)(uintptr_t object, const char *signature, uintptr_t refuse);
    PyNativeCallableEntry *(*entry)(uintptr_t object, size_t position);
} NcNativeApi;
""")

WORD: int = ffi.sizeof("void *")
#: What the document calls H.
HEAP_TYPE: int = type.__dict__["__basicsize__"].__get__(type)
ABI_VERSION = 1
MODULE, ATTRIBUTE, CAPSULE = "_extensibletype", "runtime_v1", "_extensibletype.runtime_v1"
NATIVECALLABLE, PACKEDCALLABLE = 0x04000001, 0x04000003
CALL_KEYS = (NATIVECALLABLE, PACKEDCALLABLE)
NEEDS_GIL, TAKES_GIL = 1, 2
ERRORS, ERRORS_PYTHON = 0x70, 0x10
#: The error conventions, and what is found in the signatures that they fit: a result that is an
#: integer, a pointer; a last argument that is one to an int, and not the end of another type.
CONVENTIONS = {
    0x00: "",
    0x10: "",
    0x20: "^[?bBhHiIqQ]:",
    0x30: "^[?bBhHiIqQ]:",
    0x40: "^[PO&X]",
    0x50: "",
    0x60: r"[^&)\]]&i$",
}
ABI_MASK = 2 ** (8 * WORD) - 2**24 | 0x80
API_ATTRIBUTE, API_CAPSULE, API_NAME = (
    "__nativecall_api__",
    "nativecall_api_v1",
    0x6E635F6170690001,
)
API_MOST = 64
#: Of a Python object: where its type is.
OB_TYPE = object.__basicsize__ - WORD


def at(kind: str, address: int) -> Foreign:
    """A pointer to one of the structs."""
    return ffi.cast(f"{kind} *", address)


def number(pointer: Foreign) -> int:
    return int(ffi.cast("uintptr_t", pointer))


# -- the runtime ---------------------------------------------------------------------------------


capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))


def capsule(address: int, name: str) -> object:
    made: object = _new_capsule(address, number(kept(ffi.new("char[]", name.encode()))), None)
    return made


def runtime() -> Foreign:
    """The NcRuntime of this process."""
    found = getattr(sys.modules[MODULE], ATTRIBUTE)
    return at("NcRuntime", capsule_pointer(found, CAPSULE.encode()))


def metatype() -> type:
    found: type = sys.modules[MODULE].extensibletype_v1
    return found


def intern(text: bytes) -> int:
    """The address of an interned string."""
    out = ffi.new("char **")
    found = runtime()
    status = found.intern(found.registry, text, len(text), out)
    check(status == 0, f"intern() of {text[:40]!r} gives the status {status}")
    return number(out[0])


_K = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)
_ALL = 2**64 - 1


def hash_of(data: bytes) -> int:
    """The pre-hash of a string."""
    h = (_K[0] + len(data) * _K[1]) & _ALL
    for start in range(0, len(data), 8):
        w = int.from_bytes(data[start : start + 8], "little") * _K[1] & _ALL
        w ^= w >> 32
        h = (h ^ w) * _K[2] & _ALL
        h ^= h >> 29
    h = h * _K[3] & _ALL
    return h ^ h >> 32


# -- types and slot tables -----------------------------------------------------------------------


def is_extensible(kind: type) -> bool:
    """Whether a type has the process's metaclass, or one that derives from it."""
    return issubclass(type(kind), metatype())


def extension(kind: type) -> Foreign:
    """The fields behind the PyHeapTypeObject of an extensible type."""
    return at("Extension", id(kind) + HEAP_TYPE)


def rows_of(table: Foreign) -> Foreign:
    return ffi.cast("PyCustomSlot *", table + 1)


def rows(kind: type) -> list[tuple[int, int, int]]:
    """The rows of a type's slot table; none without one."""
    table = extension(kind).etp_custom_slots
    if not table:
        return []
    return [(row.id, row.flags, row.data) for row in rows_of(table)[0 : table.count]]


def probe(table: Foreign, key: int) -> tuple[int, Foreign]:
    """The row number that a key leads to, and the row."""
    x = key * table.multiplier & _ALL
    f = (x >> table.f_shift | table.f_high) & _ALL
    f ^= table.cells[x >> table.g_shift]
    index = table.cells[f - 2**64]
    return index, rows_of(table)[index]


def find_slot(kind: type, key: int) -> Foreign:
    """The row of a key in a type's table, or None."""
    table = extension(kind).etp_custom_slots
    if not table:
        return None
    row = probe(table, key)[1]
    return row if row.id == key else None


# -- call tables ---------------------------------------------------------------------------------


def call_offset(kind: type) -> int:
    """Where objects of a type have the pointer to their call table; 0 for nowhere."""
    if not is_extensible(kind):
        return 0
    direct = int(extension(kind).etp_obj_custom_slots_offset)
    if direct:
        return direct
    row = find_slot(kind, NATIVECALLABLE)
    return 0 if row is None else int(row.data)


def pointer_at(address: int) -> int:
    return int(ffi.cast("uintptr_t *", address)[0])


def entries(table: Foreign) -> list[tuple[str, int, int, int]]:
    """(signature, flags, function, address of the signature), until the signature is NULL."""
    found: list[tuple[str, int, int, int]] = []
    for position in range(65536):
        entry = table.entries[position]
        if not entry.signature:
            return found
        text = ffi.string(entry.signature, 4097).decode("latin-1")
        found.append((text, int(entry.flags), int(entry.funcptr), number(entry.signature)))
    raise Broken("the table has no entry with a NULL signature")


_MADE: list[Foreign] = []  # memory of tables, kept as long as the process


def kept(made: Foreign) -> Foreign:
    """Memory that stays."""
    _MADE.append(made)
    return made


def call_table(given: Iterable[tuple[str, int, int]]) -> Foreign:
    """A call table of (signature, flags, function)."""
    given = list(given)
    made = kept(ffi.new("PyNativeCallableTable *", [0, len(given) + 1]))
    made.count = len(given)
    for position, (text, flags, function) in enumerate(given):
        entry = made.entries[position]
        entry.flags, entry.funcptr = flags, function
        entry.signature = ffi.cast("char *", intern(text.encode()))
    if not given:
        made.entries[0].flags = ABI_MASK
    return made


# -- packed tables -------------------------------------------------------------------------------

_COMMON, _RARE = "d&iPfZqgvbO", "?BhHIQeX{}T=(),[].0123456789"
_NIBBLES = {c: (code,) for code, c in enumerate(_COMMON, 1)} | {
    c: (12 + code // 16, code % 16) for code, c in enumerate(_RARE)
}


def pack(signature: str, flags: int) -> list[int]:
    """The words of a canonical signature; flags that readers ignore are left out."""
    unknown = {*signature} - {":", *_NIBBLES}
    check(not unknown, f"{signature!r} has no packed form: it is not canonical")
    nibbles = [n for c in signature if c != ":" for n in _NIBBLES[c]] + [0]
    beyond = max(len(nibbles) - 14, 0)
    nibbles += [0] * (14 + -(-beyond // 30) * 30 - len(nibbles))

    def word(part: list[int]) -> int:
        return int("".join([f"{n:x}" for n in part]), 16)

    words = [1 << 63 | (flags & 0x7F) << 56 | word(nibbles[:14])]
    return words + [1 << 62 | word(nibbles[n : n + 15]) for n in range(14, len(nibbles), 15)]


def packed_entries(address: int) -> Iterator[tuple[list[int], int]]:
    """The entries of a packed table: words and function."""
    words = ffi.cast("uint64_t *", address)
    at = 0
    while words[at]:
        check(words[at] >> 63, f"word {at} is {words[at]:#x}, which starts no entry")
        end = at + 1
        while words[end + 1] >> 60 == 4:
            end += 2
        yield [words[n] for n in range(at, end)], int(words[end])
        at = end + 1
        check(at < 2**20, "the packed table has no word 0 at its end")


def packed_table(given: Iterable[tuple[str, int, int]]) -> Foreign:
    """A packed table of (signature, flags, function)."""
    words = [word for text, flags, function in given for word in [*pack(text, flags), function]]
    return kept(ffi.new("uint64_t[]", [*words, 0, 0]))
