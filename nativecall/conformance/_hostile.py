"""Build test providers, valid and invalid, for the rules of consumers."""

from __future__ import annotations

from nativecall._core import ffi

from . import _abi, _providers
from ._abi import NATIVECALLABLE, PACKEDCALLABLE
from ._rules import TYPE_CHECKING, about

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._ext import Foreign

    #: (signature, flags, function)
    Entries = Sequence[tuple[str, int, int]]

#: Addresses of different C functions.
FUNCTIONS: tuple[int, ...] = _providers.functions
#: Offsets of the four words of each object: `CALLS`, `_PACKED`, `_API` and a spare one.
WORDS = [_providers.words + n * _abi.WORD for n in range(4)]
CALLS, _PACKED, _API = 0, 1, 2


def make_type(
    name: str,
    rows: Sequence[tuple[int, int, int]] = (),
    *,
    ready: bool = True,
    room: int | None = None,
    offset: int = 0,
    bases: tuple[type, ...] = (),
    call: str | None = None,
) -> type:
    """Return a static type with an array of `room` rows; see csrc/conformance/providers.c."""
    about(f"with the type {name!r}")
    room = len(rows) if room is None else room
    array = _abi.kept(ffi.new("PyCustomSlot[]", max(room, len(rows)) + 1))
    for slot, (key, flags, data) in zip(array, rows, strict=False):
        slot.id, slot.flags, slot.data.objoffset = key, flags, data
    address = _abi.number(array) if room or rows else 0
    call = ("" if bases else "a") if call is None else call
    return _providers.make_type(f"hostile.{name}", ready, address, room, offset, bases, call)


def assign_call(kind: type, function: Callable[..., object]) -> None:
    """Assign `__call__` to a class."""
    setattr(kind, "__call__", function)  # noqa: B010  # mypy refuses to assign to a method


def call_row(key: int = NATIVECALLABLE, word: int = CALLS) -> tuple[int, int, int]:
    return key, 0, WORDS[word]


class Types:
    """The types that several cases share."""

    def __init__(self) -> None:
        packed = call_row(PACKEDCALLABLE, _PACKED)
        self.both = make_type("Both", [call_row(), packed], offset=WORDS[CALLS])
        self.slot = make_type("Slot", [call_row()])
        self.unpacked = make_type("Unpacked", [call_row()], offset=WORDS[CALLS])
        others = [(0x05000001 + 256 * n, 0, n) for n in range(40)]
        self.elsewhere = make_type("Elsewhere", [*others[:20], call_row(), packed, *others[20:]])
        self.far = make_type("Far", [call_row(word=_PACKED)], offset=WORDS[_PACKED])
        self.no_table = make_type("NoTable", others[:3])
        self.plain = make_type("Plain", ready=False)


def set_word(made: object, word: int, memory: Foreign) -> None:
    """Store a pointer to `memory` in a word of an object."""
    ffi.cast("uintptr_t *", id(made) + WORDS[word])[0] = _abi.number(memory)


def provider(kind: type, entries: Entries, packed: Entries | None = None) -> Foreign:
    """Return an object with these entries in its call table and its packed table."""
    made = kind()
    set_word(made, CALLS, _abi.call_table(entries))
    known = [entry for entry in entries if not entry[1] & _abi.ABI_MASK]
    words = _abi.packed_table(known if packed is None else packed)
    set_word(made, _PACKED, words)
    return made


def api_capsule(
    *,
    find: str | None = "find",
    entry: str | None = "entry",
    size: int | None = None,
    name: int = _abi.API_NAME,
    capsule: str = _abi.API_CAPSULE,
) -> object:
    """Return a capsule for `__nativecall_api__`, valid or not."""
    made = _abi.kept(ffi.new("NcNativeApi *"))
    made.size = ffi.sizeof("NcNativeApi") if size is None else size
    made.name = name
    for field, function in (("find", find), ("entry", entry)):
        address = 0 if function is None else _providers.api[function]
        setattr(made, field, ffi.cast(ffi.typeof(getattr(made, field)), address))
    return _abi.capsule(_abi.number(made), capsule)


def tier2(base: type, capsule: object, entries: Entries, **namespace: object) -> Foreign:
    """Return an object of a Python class with `__nativecall_api__`."""
    kind = type("Tier2", (base,), {_abi.API_ATTRIBUTE: capsule, **namespace})
    return offer(kind(), entries)


def offer(made: Foreign, entries: Entries, *, interned: bool = False) -> Foreign:
    """Offer entries through tier 2, which accepts signatures that are not interned."""
    memory = _abi.kept(ffi.new("PyNativeCallableEntry[]", len(entries) + 1))
    for position, entry in enumerate(entries):
        _abi.fill(memory[position], *entry, interned=interned)
    set_word(made, _API, memory)
    return made
