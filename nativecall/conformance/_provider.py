"""The rules for providers: check the entries and slots in the memory of an object.

Each rule checks one object (`Provider`). A rule that does not apply to the object raises `Absent`.
"""

from __future__ import annotations

import gc
import sys

from nativecall._core import ffi, lib

from . import _abi, _providers
from ._abi import CALL_KEYS, NATIVECALLABLE, PACKEDCALLABLE, at
from ._rules import TYPE_CHECKING, Absent, Broken, a, about, check, rules_of, same

if TYPE_CHECKING:
    from .._ext import Foreign


_BY_AN_OBJECT = f"a type with '{_abi.API_ATTRIBUTE}' is checked by an object of it"


class Provider:
    """An object that is supposed to offer native entries or slots.

    Attributes
    ----------
    object : object
        The object that offers the entries or slots. For a built-in view, the viewed object.
    kind : type
        The type whose slots are checked: the given object if it is an extensible type, otherwise
        the type of `object`.
    """

    def __init__(self, given: Foreign) -> None:
        self.object: Foreign = _providers.behind(given)
        is_type = isinstance(given, type) and _abi.is_extensible(given)
        self.kind: type = given if is_type else type(self.object)
        self.offset = 0 if is_type else _abi.call_offset(self.kind)

    def extension(self) -> Foreign:
        """Return the struct of the extensible type."""
        if not _abi.is_extensible(self.kind):
            raise Absent("the type's metatype is not the runtime's")
        return _abi.extension(self.kind)

    def slot_table(self) -> Foreign:
        """Return the type's slot table."""
        table = self.extension().etp_custom_slots
        if not table:
            raise Absent("the type has no slots")
        return table

    def call_table(self) -> Foreign:
        """Return the object's call table."""
        if not self.offset:
            raise Absent("the object has no call table")
        address = _abi.pointer_at(id(self.object) + self.offset)
        check(address, "the pointer to the call table is NULL")
        return at("PyNativeCallableTable", address)

    def entries(self) -> list[tuple[str, int, int, int]]:
        """Return the entries of the call table; without a table, the entries that tier 2 lists."""
        if self.offset:
            return _abi.entries(self.call_table())
        return self.listed()

    def api(self) -> Foreign:
        """Return the struct of `__nativecall_api__`; raise Absent if it is missing or invalid."""
        about("where 'find' is called without the GIL")
        try:
            return self.interface()
        except Broken:
            raise Absent("it cannot be queried: see the rule 'api-struct'") from None

    def interface(self) -> Foreign:
        """Return the struct of `__nativecall_api__`; raise Broken if it is invalid."""
        if isinstance(self.object, type) and _api_capsule(self.object) is not None:
            raise Absent(_BY_AN_OBJECT)
        capsule = _api_capsule(type(self.object))
        if capsule is None:
            raise Absent(f"the type has no '{_abi.API_ATTRIBUTE}'")
        try:
            address = _abi.capsule_pointer(capsule, _abi.API_CAPSULE.encode())
        except ValueError:
            raise Broken(f"'{_abi.API_ATTRIBUTE}' is {capsule!r}") from None
        api, least = at("NcNativeApi", address), ffi.sizeof("NcNativeApi")
        check(api.size >= least, f"'size' is {api.size}, less than {least}")
        same(int(api.name), _abi.API_NAME, "'name'")
        check(api.find, "'find' is NULL")
        return api

    def listed(self) -> list[tuple[str, int, int, int]]:
        """Return the entries that the `entry` function of tier 2 lists."""
        api = self.api()
        if not api.entry:
            raise Absent("'entry' of the struct is NULL: it lists nothing")
        found = []
        for position in range(_abi.API_MOST):
            entry = api.entry(at("PyObject", id(self.object)), position)
            if not entry:
                break
            check(entry.signature, f"the signature of entry {position} is NULL")
            found.append(_abi.entry(entry))
        return found


rule = rules_of("provider")


def _api_capsule(kind: type) -> object:
    """Return the value of `__nativecall_api__`, own or inherited; None if there is none."""
    for one in kind.__mro__:
        if _abi.API_ATTRIBUTE in vars(one):
            return vars(one)[_abi.API_ATTRIBUTE]
        if "__call__" in vars(one):
            return None
    return None


# -- the slot table ------------------------------------------------------------------------------


@rule("P1", "the object has slots, entries or an interface")
def offers(it: Provider) -> None:
    if isinstance(it.object, type) and _api_capsule(it.object) is not None:
        check(_abi.is_extensible(it.object), _BY_AN_OBJECT)
    has_rows = _abi.is_extensible(it.kind) and _abi.rows(it.kind)
    check(
        has_rows or it.offset or _api_capsule(type(it.object)) is not None,
        f"{a(it.kind.__name__)} offers nothing: its metatype is {type(it.kind).__name__}, it has "
        f"neither slots nor '{_abi.API_ATTRIBUTE}'",
    )


@rules_of("provider", Provider.slot_table)(
    "R14 R15 R16 R17 R18", "header, rows, and what leads to them"
)
def slot_table(table: Foreign) -> None:
    same(int(table.abi_version), _abi.ABI_VERSION, "'abi_version'")
    count = int(table.count)
    check(0 < count <= 65536, f"'count' is {count}")
    least = ffi.sizeof("PyCustomSlotTable") + 24 * (count + 1)
    check(table.size > least, f"'size' is {table.size}, too small for {count} rows")
    rows = lib.nc_slottable_rows(table)
    same(_abi.row(rows[count]), (0, 0, 0), f"row {count}, behind the last,")
    keys = [int(rows[index].id) for index in range(count)]
    for index, key in enumerate(keys):
        if key not in (0, 1):
            first = keys.index(key)
            check(first == index, f"rows {first} and {index} have the same key {key:#x}")
            found = _abi.probe(table, key)[0]
            check(found == index, f"find({key:#x}) leads to row {found}, not to row {index}")
    for key in (0, 1):
        check(_abi.probe(table, key)[1].id != key, f"find({key}) leads to a row with that key")
    for place, row in enumerate(table.expected):
        check(row <= count, f"'expected[{place}]' is row {row} of {count}")


@rule("P24 P25 R22", "direct offset, shift and slot say the same")
def offset(it: Provider) -> None:
    extension = it.extension()
    direct, shift = int(extension.etp_obj_custom_slots_offset), int(extension.etp_table_shift)
    same(shift, direct - _abi.OB_TYPE if direct else 0, "'etp_table_shift'")
    rows = {key: row for key in CALL_KEYS if (row := _abi.find_slot(it.kind, key)) is not None}
    places = range(object.__basicsize__, it.kind.__basicsize__, _abi.WORD)
    for key, row in rows.items():
        place = int(row.data.objoffset)
        check(place in places, f"'objoffset' of the row {key:#010x} is {place}, not in {places}")
        same(int(row.flags), 0, f"'flags' of the row {key:#010x}")
    if direct or rows:
        check(NATIVECALLABLE in rows, "there is a call table and no row 0x04000001")
    if direct:
        same(int(rows[NATIVECALLABLE].data.objoffset), direct, "'objoffset' of the row 0x04000001")


# -- entries -------------------------------------------------------------------------------------


@rule("P36", "count, functions, and the zero entry behind the last")
def call_table(it: Provider) -> None:
    table = it.call_table()
    found = _abi.entries(table)
    for text, _, function, _ in found:
        check(function, f"the function of {text!r} is NULL")
    same(int(table.count), len(found), "'count', with that many entries before the NULL signature,")
    last = table.entries[len(found)]
    wanted = 0 if found else _abi.ABI_MASK
    same(int(last.flags), wanted, "'flags' of the entry behind the last")
    same(_abi.number(last.funcptr), 0, "'funcptr' of the entry behind the last")


@rule("P11 P37", "signatures are in canonical form")
def canonical(it: Provider) -> None:
    for text, _, _, _ in it.entries():
        same(text, _abi.canonical(text), "a signature")


@rule("P37", "signatures are interned in the registry")
def interned(it: Provider) -> None:
    it.call_table()
    for text, _, _, address in it.entries():
        wanted = _abi.intern(text.encode("latin-1"))
        same(address, wanted, f"the address of the signature {text!r}, which is not interned,")


@rule("P38", "no bit of a flag is set that version 1 does not have")
def flags(it: Provider) -> None:
    for text, found, _, _ in it.entries():
        check(not found & ~0x7F, f"{text!r} has the flags {found:#x}: bits from 7 on")


@rule("P39 P40", "what handles objects or sets exceptions needs the GIL")
def needs_gil(it: Provider) -> None:
    for text, found, _, _ in it.entries():
        if "O" in text:
            check(found & _abi.NEEDS_GIL, f"{text!r} has 'O' and not NC_FLAG_NEEDS_GIL")
        if found & _abi.ERRORS == _abi.ERRORS_PYTHON:
            check(
                found & (_abi.NEEDS_GIL | _abi.TAKES_GIL),
                f"{text!r} sets exceptions, and has neither NC_FLAG_NEEDS_GIL nor "
                "NC_FLAG_TAKES_GIL",
            )


@rule("P38 P41 P42", "the error convention fits the signature")
def convention(it: Provider) -> None:
    for text, found, _, _ in it.entries():
        kind = found & _abi.ERRORS
        check(
            _abi.fits(text, kind), f"{text!r} has the convention {kind:#x}, which it does not fit"
        )


# -- the packed table ----------------------------------------------------------------------------


@rule("P47 P48 P49", "the same entries in the same order")
def packed(it: Provider) -> None:
    it.call_table()
    row = _abi.find_slot(it.kind, PACKEDCALLABLE)
    if row is None:
        raise Absent("the type has no packed table")
    address = _abi.pointer_at(id(it.object) + int(row.data.objoffset))
    check(address, "the pointer to the packed table is NULL")
    same(address % 8, 0, "the address of the packed table modulo 8")
    wanted = [
        (_abi.pack(text, flags), function)
        for text, flags, function, _ in it.entries()
        if not flags & _abi.ABI_MASK
    ]
    found = list(_abi.packed_entries(address))
    for position, (one, other) in enumerate(zip(found, wanted, strict=False)):
        shown = [_abi.unpacked(words) for words, _ in (one, other)]
        check(one[0] == other[0], f"entry {position} is {shown[0]}, not {shown[1]}")
        check(one[1] == other[1], f"entry {position} has another function than the call table")
    same(len(found), len(wanted), "the number of entries")


# -- tier 2 --------------------------------------------------------------------------------------


@rule("P3 P5", "capsule, size, name and functions of the interface")
def api_struct(it: Provider) -> None:
    it.interface()


#: Signatures that hardly any provider offers.
_RARE = {"v:bBhHiI", "Zg:Zg", "d:&&&&d"}
#: Time limit for `find`, in seconds.
_LIMIT = 10


@rule("P7", "'find' needs no GIL and never takes it")
def api_without_gil(it: Provider) -> None:
    find = _abi.number(it.api().find)
    short = {entry[0] for entry in it.entries()[:8] if len(entry[0]) < 64}
    for text in sorted(_RARE | short):
        check(
            _providers.finds_alone(find, it.object, text, _LIMIT),
            f"find({text!r}) did not return within {_LIMIT} seconds while another thread "
            "held the GIL",
        )


@rule("P6 P8", "'find' gives what is asked for, by its characters, or NULL")
def api_find(it: Provider) -> None:
    api, there = it.api(), at("PyObject", id(it.object))
    listed = {entry[0]: entry[1] for entry in reversed(it.entries())}
    for text, flags in {**dict.fromkeys(_RARE, 0), **listed}.items():
        found = api.find(there, text.encode("latin-1"), 0)
        is_missing = text in listed and not found
        check(not is_missing, f"find({text!r}) gives nothing, though the object has that entry")
        if found:
            given = ffi.string(found.signature).decode("latin-1")
            same(given, text, f"the signature that find({text!r}) gives")
        if flags:
            other = api.find(there, text.encode("latin-1"), flags)
            check(
                not other or not other.flags & flags,
                f"find({text!r}) with {flags:#x} refused gives an entry with such flags",
            )


# -- inheritance ---------------------------------------------------------------------------------


@rule("P31", "objects of a Python subclass come and go")
def subclass_objects(it: Provider) -> None:
    it.extension()
    try:
        made: type = type(it.kind)("Subclass", (it.kind,), {"__slots__": ()})
        kept = [made] * 1000  # an excess decref must not free the class
        made()
    except Exception as error:
        raise Absent(f"no subclass can be made, and called without arguments: {error}") from None
    gc.collect()
    before = sys.getrefcount(made)
    for _ in range(100):
        made()
    gc.collect()
    after = sys.getrefcount(made)
    check(
        after == before,
        f"100 objects that came and went change the references to their class, a Python subclass, "
        f"from {before} to {after}; {len(kept)} of these are the kit's",
    )
