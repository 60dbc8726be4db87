"""Read and build the structs and tables of the ABI specification (docs/abi), for the kit.

The kit does not rely on the module under test. Structs, hashes, canonical texts, packed words and
registry look-ups come from nativecall's core, through cffi (csrc/core/core.cdef.txt).
tests/core compares the core with readers that were written from docs/abi alone. Those readers, not
the kit, are the oracle for nativecall's own runtime and callables.

The core trusts the memory that it reads, and builds only valid structures. So this module itself
handles these cases, as docs/abi describes them: a wrong slot-table cell that look-ups never read
because `expected` already gives the row; a table without an end; an entry of a later ABI.

`_apart` loads the core without the package, because the package would create a runtime.
"""

from __future__ import annotations

import ctypes
import sys

from nativecall._core import ffi, lib

from ._rules import TYPE_CHECKING, Broken, check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .._ext import Foreign

WORD: int = ffi.sizeof("void *")
_ALL = 2**64 - 1
ABI_VERSION = 1
MODULE, ATTRIBUTE, CAPSULE = "_extensibletype", "runtime_v1", "_extensibletype.runtime_v1"
NATIVECALLABLE, PACKEDCALLABLE = 0x04000001, 0x04000003
CALL_KEYS = (NATIVECALLABLE, PACKEDCALLABLE)
NEEDS_GIL, TAKES_GIL = 1, 2
ERRORS, ERRORS_PYTHON = 0x70, 0x10
ABI_MASK = 2 ** (8 * WORD) - 2**24 | 0x80
API_ATTRIBUTE, API_CAPSULE = "__nativecall_api__", "nativecall_api_v1"
API_NAME = 0x6E635F6170690001
API_MOST = 64
#: Offset of the type in a Python object.
OB_TYPE = object.__basicsize__ - WORD


def fits(text: str, flags: int) -> bool:
    """Return whether the error convention in `flags` fits a signature."""
    given = text.encode("latin-1")
    return bool(lib.nc_convention_fits(given, len(given), flags))


def at(kind: str, address: int) -> Foreign:
    """Return a pointer to the struct `kind` at an address."""
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
    return _new_capsule(address, number(kept(ffi.new("char[]", name.encode()))), None)


def runtime() -> Foreign:
    """Return the NcRuntime of this process."""
    found = getattr(sys.modules[MODULE], ATTRIBUTE)
    return at("NcRuntime", capsule_pointer(found, CAPSULE.encode()))


def metatype() -> type:
    found: type = sys.modules[MODULE].extensibletype_v1
    return found


def intern(text: bytes) -> int:
    """Return the address of an interned string."""
    out = ffi.new("const char **")
    found = runtime()
    status = found.intern(found.registry, text, len(text), out)
    check(status == 0, f"intern() of {text[:40]!r} gives the status {status}")
    return number(out[0])


# -- types and slot tables -----------------------------------------------------------------------


def is_extensible(kind: type) -> bool:
    """Return whether a type has the process's metaclass, or a subclass of it."""
    return issubclass(type(kind), metatype())


def extension(kind: type) -> Foreign:
    """Return the struct of an extensible type."""
    return at("PyHeapExtensibleTypeObject", id(kind))


def row(slot: Foreign) -> tuple[int, int, int]:
    return int(slot.id), int(slot.flags), int(slot.data.objoffset)


def rows(kind: type) -> list[tuple[int, int, int]]:
    """Return the rows of a type's slot table; an empty list if it has no table."""
    table = extension(kind).etp_custom_slots
    if not table:
        return []
    return [row(slot) for slot in lib.nc_slottable_rows(table)[0 : table.count]]


def probe(table: Foreign, key: int) -> tuple[int, Foreign]:
    """Return the index and the row that a key hashes to; the row's key may differ."""
    x = key * table.multiplier & _ALL
    f = (x >> table.f_shift | table.f_high) & _ALL
    f ^= table.cells[x >> table.g_shift]
    index = table.cells[f - 2**64]
    return index, lib.nc_slottable_rows(table)[index]


def find_slot(kind: type, key: int) -> Foreign:
    """Return the row of a key in a type's table, or None."""
    table = extension(kind).etp_custom_slots
    if not table:
        return None
    found = probe(table, key)[1]
    return found if found.id == key else None


# -- call tables ---------------------------------------------------------------------------------


def call_offset(kind: type) -> int:
    """Return the offset of the call table pointer in a type's objects; 0 if there is none."""
    if not is_extensible(kind):
        return 0
    direct = int(extension(kind).etp_obj_custom_slots_offset)
    if direct:
        return direct
    slot = find_slot(kind, NATIVECALLABLE)
    return 0 if slot is None else int(slot.data.objoffset)


def pointer_at(address: int) -> int:
    return int(ffi.cast("uintptr_t *", address)[0])


def entry(found: Foreign) -> tuple[str, int, int, int]:
    """Return (signature, flags, function, address of the signature) of an entry."""
    text = ffi.string(found.signature, 4097).decode("latin-1")
    return text, int(found.flags), number(found.funcptr), number(found.signature)


def entries(table: Foreign) -> list[tuple[str, int, int, int]]:
    """Return the entries up to a NULL signature."""
    found: list[tuple[str, int, int, int]] = []
    for position in range(65536):
        if not table.entries[position].signature:
            return found
        found.append(entry(table.entries[position]))
    raise Broken("the table has no entry with a NULL signature")


_MADE: list[Foreign] = []  # memory of tables, never freed


def kept(made: Foreign) -> Foreign:
    """Keep memory alive forever, and return it."""
    _MADE.append(made)
    return made


def fill(made: Foreign, text: str, flags: int, function: int, *, interned: bool = True) -> None:
    """Fill in an entry, and intern its signature if `interned`."""
    given = text.encode()
    own = intern(given) if interned else kept(ffi.new("char[]", given))
    made.signature, made.flags = ffi.cast("char *", own), flags
    made.funcptr = ffi.cast("void *", function)


def call_table(given: Iterable[tuple[str, int, int]]) -> Foreign:
    """Return a call table with rows of (signature, flags, function)."""
    given = list(given)
    made = kept(ffi.new("PyNativeCallableTable *", [0, len(given) + 1]))
    made.count = len(given)
    for position, one in enumerate(given):
        fill(made.entries[position], *one)
    if not given:
        made.entries[0].flags = ABI_MASK
    return made


# -- signatures, packed tables ---------------------------------------------------------------------


def canonical(signature: str) -> str:
    """Return the canonical form of a signature."""
    given, size = signature.encode("latin-1"), ffi.new("size_t *")
    out = ffi.new("char[]", len(given) + 1)
    status = lib.nc_signature_canonical(given, len(given), out, len(out), size)
    why = ffi.string(lib.nc_status_text(status)).decode()
    check(status == lib.NC_OK, f"{signature!r} is not a signature: {why} at offset {size[0]}")
    return str(ffi.string(out).decode())


def pack(signature: str, flags: int) -> list[int]:
    """Return the packed words of a canonical signature, without flags that readers ignore."""
    check(canonical(signature) == signature, f"{signature!r} has no packed form")
    given, count = signature.encode(), ffi.new("size_t *")
    words = ffi.new("uint64_t[]", lib.NC_PACKED_MAX_WORDS)
    lib.nc_signature_pack(given, len(given), flags & 0x7F, words, len(words), count)
    return list(words[0 : count[0]])


def unpacked(words: list[int]) -> str:
    """Return packed words as text for messages, with their signature and flags if valid."""
    out, size, flags = ffi.new("char[]", 4097), ffi.new("size_t *"), ffi.new("uintptr_t *")
    shown = " ".join([f"{word:#018x}" for word in words])
    status = lib.nc_signature_unpack(words, len(words), out, len(out), size, flags)
    return f"{shown} ({ffi.string(out).decode()!r}, {flags[0]:#x})" if not status else shown


def packed_entries(address: int) -> Iterator[tuple[list[int], int]]:
    """Yield the entries of a packed table: words and function."""
    words = ffi.cast("uint64_t *", address)
    at = 0
    while count := lib.nc_packed_count(words + at):
        check(words[at] >> 63, f"word {at} is {words[at]:#x}, which starts no entry")
        yield list(words[at : at + count]), int(words[at + count])
        at += count + 1
        check(at < 2**20, "the packed table has no word 0 at its end")


def packed_table(given: Iterable[tuple[str, int, int]]) -> Foreign:
    """Return a packed table with entries of (signature, flags, function)."""
    words = [word for text, flags, function in given for word in [*pack(text, flags), function]]
    return kept(ffi.new("uint64_t[]", [*words, 0, 0]))
