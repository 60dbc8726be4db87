"""The rules of a provider: what an object offers is checked as it lies in memory.

Each rule looks at one object (`Provider`); one that the object has nothing for is absent.
"""

from __future__ import annotations

import ctypes
import gc
import re
import sys
from types import BuiltinFunctionType, MethodDescriptorType

from . import _abi, _providers
from ._abi import CALL_KEYS, NATIVECALLABLE, PACKEDCALLABLE, at, ffi
from ._rules import Absent, Broken, a, attribute, check, rules_of, same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types import Foreign


_BY_AN_OBJECT = f"a type with '{_abi.API_ATTRIBUTE}' is checked by an object of it"


class Provider:
    """An object that is said to offer native entries or slots.

    Attributes
    ----------
    object : object
        What offers them: of a built-in view, what it is a view of.
    kind : type
        Whose slots are looked at: the object itself when it is an extensible type.
    """

    def __init__(self, given: Foreign) -> None:
        self.object = given if _viewed(given) is None else _viewed(given)
        self.views = [] if self.object is given else [given]
        is_type = isinstance(given, type) and _abi.is_extensible(given)
        self.kind: type = given if is_type else type(self.object)
        self.offset = 0 if is_type else _abi.call_offset(self.kind)
        self.snapshot = _block(self.kind)

    def slot_table(self) -> Foreign:
        """The type's slot table."""
        if not _abi.is_extensible(self.kind):
            raise Absent("the type's metatype is not the runtime's")
        table = _abi.extension(self.kind).etp_custom_slots
        if not table:
            raise Absent("the type has no slots")
        return table

    def call_table(self) -> Foreign:
        """The object's call table."""
        if not self.offset:
            raise Absent("the object has no call table")
        address = _abi.pointer_at(id(self.object) + self.offset)
        check(address, "the pointer to the call table is NULL")
        return at("PyNativeCallableTable", address)

    def entries(self) -> list[tuple[str, int, int, int]]:
        """The entries of the call table, or what tier 2 tells."""
        if self.offset:
            return _abi.entries(self.call_table())
        return self.listed()

    def api(self) -> Foreign:
        """The struct of `__nativecall_api__`, which can be asked."""
        try:
            return self.interface()
        except Broken:
            raise Absent("nobody can ask it: see the rule 'api-struct'") from None

    def interface(self) -> Foreign:
        """The struct of `__nativecall_api__`."""
        if isinstance(self.object, type) and _api_capsule(self.object) is not None:
            raise Absent(_BY_AN_OBJECT)
        return _interface(type(self.object))

    def listed(self) -> list[tuple[str, int, int, int]]:
        """What `entry` of tier 2 tells."""
        api = self.api()
        if not api.entry:
            raise Absent("'entry' of the struct is NULL: nothing is told")
        found = []
        for position in range(_abi.API_MOST):
            entry = api.entry(id(self.object), position)
            if not entry:
                break
            check(entry.signature, f"the signature of entry {position} is NULL")
            text = ffi.string(entry.signature, 4097).decode("latin-1")
            found.append((text, int(entry.flags), int(entry.funcptr), _abi.number(entry.signature)))
        return found


rule = rules_of("provider")
#: Of rules whose functions are given the type's slot table.
slot_rule = rules_of("provider", Provider.slot_table)
_get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)


def _api_capsule(kind: type) -> object:
    """What stands under the attribute, by the rule of inheritance; None without it."""
    for one in kind.__mro__:
        if _abi.API_ATTRIBUTE in vars(one):
            return vars(one)[_abi.API_ATTRIBUTE]
        if "__call__" in vars(one):
            return None
    return None


def _interface(kind: type) -> Foreign:
    """The struct of a type's tier 2."""
    capsule = _api_capsule(kind)
    if capsule is None:
        raise Absent(f"the type has no '{_abi.API_ATTRIBUTE}'")
    name = _get_name(capsule) if type(capsule).__name__ == "PyCapsule" else None
    if name is None or name.decode() != _abi.API_CAPSULE:
        raise Broken(f"'{_abi.API_ATTRIBUTE}' is {capsule!r}")
    api, least = at("NcNativeApi", _abi.capsule_pointer(capsule, name)), ffi.sizeof("NcNativeApi")
    check(api.size >= least, f"'size' is {api.size}, less than {least}")
    same(int(api.name), _abi.API_NAME, "'name'")
    check(api.find, "'find' is NULL")
    return api


class _Function(ctypes.Structure):
    """The beginning of a PyCFunctionObject, behind the type."""

    _fields_ = [("m_ml", ctypes.c_void_p), ("m_self", ctypes.c_void_p)]


def _definition(function: BuiltinFunctionType) -> int:
    return _Function.from_address(id(function) + object.__basicsize__).m_ml or 0


def _viewed(given: Foreign) -> Foreign:
    """What a built-in function is a view of, None when it is none."""
    if type(given) is not BuiltinFunctionType or given.__self__ is None:
        return None
    owner = given.__self__
    within = _definition(given) - id(owner)
    return owner if 0 <= within < type(owner).__basicsize__ else None


def _bound_elsewhere(given: Foreign, name: str, member: Foreign) -> bool:
    """Whether an attribute is a built-in function bound to the object, and no method of its type:
    one that is meant to be a view, and is none."""
    return (
        type(member) is BuiltinFunctionType
        and member.__self__ is given
        and not isinstance(getattr(type(given), name, None), MethodDescriptorType)
    )


def _block(kind: type) -> bytes:
    """The bytes of a type's slot table."""
    table = _abi.extension(kind).etp_custom_slots if _abi.is_extensible(kind) else None
    return bytes(ffi.buffer(ffi.cast("char *", table), table.size)) if table else b""


# -- the slot table ------------------------------------------------------------------------------


@rule("Words", "the object has slots, entries or an interface")
def offers(it: Provider) -> None:
    if isinstance(it.object, type) and _api_capsule(it.object) is not None:
        check(_abi.is_extensible(it.object), _BY_AN_OBJECT)
    has_rows = _abi.is_extensible(it.kind) and _abi.rows(it.kind)
    check(
        has_rows or it.offset or _api_capsule(type(it.object)) is not None,
        f"{a(it.kind.__name__)} offers nothing: its metatype is {type(it.kind).__name__}, it has "
        f"neither slots nor '{_abi.API_ATTRIBUTE}'",
    )


@slot_rule("Building a slot table", "header and size of the table")
def slot_table_header(table: Foreign) -> None:
    same(int(table.abi_version), _abi.ABI_VERSION, "'abi_version'")
    check(0 < table.count <= 65536, f"'count' is {table.count}")
    least = ffi.sizeof("PyCustomSlotTable") + 24 * (table.count + 1)
    check(table.size > least, f"'size' is {table.size}, too small for {table.count} rows")


@slot_rule("Building a slot table", "a zero row follows the last (guarantee 1)")
def slot_zero_row(table: Foreign) -> None:
    row = _abi.rows_of(table)[table.count]
    found = (int(row.id), int(row.flags), int(row.data))
    same(found, (0, 0, 0), f"row {table.count}, behind the last,")


@slot_rule("Building a slot table", "sizes and shifts of the perfect hash (guarantee 2)")
def slot_hash_sizes(table: Foreign) -> tuple[int, int]:
    """F and G of a table."""
    check(table.multiplier % 2, f"'multiplier' is {table.multiplier:#x}, which is even")
    f = 2**64 - table.f_high
    check(f > 0 and f & (f - 1) == 0, f"F is {f}, no power of two")
    check(0 < table.g_shift <= 63, f"'g_shift' is {table.g_shift}, so G is not 2 or more")
    wanted = table.g_shift - (f.bit_length() - 1)
    check(wanted >= 0, f"F · G is above 2^64: 'g_shift' is {table.g_shift}, F is {f}")
    same(int(table.f_shift), wanted, "'f_shift'")
    return f, 2 ** (64 - table.g_shift)


@slot_rule("Building a slot table", "each key leads to its row, and stands once (guarantee 3)")
def slot_found(table: Foreign) -> None:
    seen: dict[int, int] = {}
    for index in range(table.count):
        key = int(_abi.rows_of(table)[index].id)
        if key in (0, 1):
            continue
        check(key not in seen, f"rows {seen.get(key)} and {index} have the same key {key:#x}")
        seen[key] = index
        found = _abi.probe(table, key)[0]
        check(found == index, f"find({key:#x}) leads to row {found}, not to row {index}")


@slot_rule(
    "Building a slot table",
    "each cell and expected row is there, and 0 and 1 are not found (guarantees 4 and 5)",
)
def slot_cells(table: Foreign) -> None:
    f, g = slot_hash_sizes(table)
    start = _abi.number(table)
    cells = _abi.number(table.cells)
    behind = start + ffi.sizeof("PyCustomSlotTable") + 24 * (table.count + 1)
    same(cells - 2 * f, behind, "the address of the first cell")
    check(cells + 2 * g <= start + table.size, "the G cells end behind the table")
    for index in range(-f, 0):
        row = table.cells[index]
        check(row <= table.count, f"cell {index} names row {row} of {table.count}")
    for index, row in enumerate(table.expected):
        check(row <= table.count, f"'expected[{index}]' is row {row} of {table.count}")
    for key in (0, 1):
        row = _abi.probe(table, key)[1]
        check(row.id != key, f"find({key}) leads to a row with that key")
        row = _abi.rows_of(table)[_abi.expected(table, key)]
        check(row.id != key, f"find({key}) expects a row with that key")


@slot_rule("Keys", "keys are allocated IDs or addresses")
def slot_keys(table: Foreign) -> None:
    for row in _abi.rows_of(table)[0 : table.count]:
        key = int(row.id)
        if key % 2 and key != 1:
            check(key < 2**32, f"the key {key:#x} has bits above bit 31")
            check(key >> 24, f"the key {key:#x} has no registrar in bits 24 to 31")


@rule("Call tables", "rows of call tables lead into the object")
def call_slots(it: Provider) -> None:
    it.slot_table()
    found = {key: row for key in CALL_KEYS if (row := _abi.find_slot(it.kind, key)) is not None}
    if not found:
        raise Absent("the type brings no call table")
    check(NATIVECALLABLE in found, "there is the row 0x04000003 and no row 0x04000001")
    for key, row in found.items():
        _within(it.kind, int(row.data), f"'objoffset' of the row {key:#010x}")
        same(int(row.flags), 0, f"'flags' of the row {key:#010x}")


@rule("Heap types", "readers do not pass over the call table")
def readable(it: Provider) -> None:
    if _abi.call_offset(it.kind) == 0:
        raise Absent("the type has no call table")
    if _abi.is_read(it.kind):
        return
    if _abi.overrides(it.kind):
        raise Absent("the type overrides the __call__ of the one that brings the call table")
    name, meta = it.kind.__name__, type(it.kind).__name__
    raise Broken(
        f"'{name}' is mutable and of the metaclass '{meta}', which derives from the runtime's: "
        "readers cannot know whether it was given another __call__, and find nothing; make it with "
        "Py_TPFLAGS_IMMUTABLETYPE, or of the runtime's metaclass itself"
    )


@rule("Slots of single objects", "the object's own slot table")
def object_slots(it: Provider) -> None:
    it.slot_table()
    row = _abi.find_slot(it.kind, _abi.OBJECTSLOTS)
    if row is None:
        raise Absent("the type's objects have no slots of their own")
    _within(it.kind, int(row.data), "'objoffset' of the row 0x04000101")
    address = 0 if isinstance(it.object, type) else _abi.pointer_at(id(it.object) + int(row.data))
    if not address:
        raise Absent("the object has no slots of its own")
    table = at("PyCustomSlotTable", address)
    for sound in (slot_table_header, slot_zero_row, slot_found, slot_cells, slot_keys):
        sound(table)
    keys = [int(one.id) for one in _abi.rows_of(table)[0 : table.count]]
    wrong = [hex(key) for key in keys if key % 2 and key >> 8 in (0x040000, 0x040001)]
    same(wrong, [], "the keys whose data lead into objects")


def _within(kind: type, offset: int, what: str) -> None:
    most = kind.__basicsize__ - _abi.WORD
    check(
        object.__basicsize__ <= offset <= most and offset % _abi.WORD == 0,
        f"{what} is {offset}; a word of the object's own is at {object.__basicsize__} to {most}",
    )


@rule("Types", "direct offset, shift and slot say the same")
def offset(it: Provider) -> None:
    if not _abi.is_extensible(it.kind):
        raise Absent("the type's metatype is not the runtime's")
    extension = _abi.extension(it.kind)
    direct, shift = (
        int(extension.etp_obj_custom_slots_offset),
        int(extension.etp_table_shift),
    )
    same(shift, direct - _abi.OB_TYPE if direct else 0, "'etp_table_shift'")
    if direct:
        _within(it.kind, direct, "'etp_obj_custom_slots_offset'")
        row = _abi.find_slot(it.kind, NATIVECALLABLE)
        check(row is not None, "there is a direct offset and no row 0x04000001")
        same(int(row.data), direct, "'objoffset' of the row 0x04000001")


# -- entries -------------------------------------------------------------------------------------


@rule("Call tables", "count, and the zero entry behind the last")
def call_table(it: Provider) -> None:
    table = it.call_table()
    found = _abi.entries(table)
    same(int(table.count), len(found), "'count', with that many entries before the NULL signature,")
    last = table.entries[len(found)]
    wanted = 0 if found else _abi.ABI_MASK
    same(int(last.flags), wanted, "'flags' of the entry behind the last")
    same(int(last.funcptr), 0, "'funcptr' of the entry behind the last")


@rule("Call tables", "no function of an entry is NULL")
def functions(it: Provider) -> None:
    for text, _, function, _ in it.entries():
        check(function, f"the function of {text!r} is NULL")


@rule("Canonical form", "signatures are in canonical form")
def canonical(it: Provider) -> None:
    from nativecall._errors import SignatureError
    from nativecall._signature.spelling import parse

    for text, _, _, _ in it.entries():
        try:
            wanted = parse(text, hint="native").text
        except SignatureError as error:
            raise Broken(f"the signature {text!r} is malformed: {error}") from None
        same(text, wanted, "a signature")


@rule("Call tables", "signatures are interned in the registry")
def interned(it: Provider) -> None:
    it.call_table()
    for text, _, _, address in it.entries():
        wanted = _abi.intern(text.encode("latin-1"))
        check(
            address == wanted,
            f"the signature {text!r} lies at {address:#x}; interned, it is at {wanted:#x}",
        )


@rule("Flags", "no bit of a flag is set that version 1 does not have")
def flags(it: Provider) -> None:
    for text, found, _, _ in it.entries():
        check(not found & _abi.ABI_MASK, f"{text!r} has the flags {found:#x}: bit 7 or above 23")
        check(found >> 8 == 0, f"{text!r} has the flags {found:#x}: bits from 8 to 23")
        convention = found & _abi.ERRORS
        check(
            convention in _abi.CONVENTIONS,
            f"{text!r} has the error convention {convention:#x}, which has no meaning",
        )


@rule("Flags", "what handles objects or sets exceptions needs the GIL")
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


@rule("Flags", "the error convention fits the signature")
def convention(it: Provider) -> None:
    for text, found, _, _ in it.entries():
        kind = found & _abi.ERRORS
        fits = re.search(_abi.CONVENTIONS.get(kind, ""), text)
        check(fits, f"{text!r} has the convention {kind:#x}, which it does not fit")


# -- the packed table ----------------------------------------------------------------------------


@rule("Packed tables", "the same entries in the same order")
def packed(it: Provider) -> None:
    it.call_table()
    row = _abi.find_slot(it.kind, PACKEDCALLABLE)
    if row is None:
        raise Absent("the type has no packed table")
    address = _abi.pointer_at(id(it.object) + int(row.data))
    check(address, "the pointer to the packed table is NULL")
    same(address % 8, 0, "the address of the packed table modulo 8")
    wanted = [
        (_abi.pack(text, flags), function)
        for text, flags, function, _ in it.entries()
        if not flags & _abi.ABI_MASK
    ]
    found = list(_abi.packed_entries(address))
    shown = [" ".join([f"{word:#018x}" for word in words]) for words, _ in found]
    for position, (one, other) in enumerate(zip(found, wanted, strict=False)):
        check(one[0] == other[0], f"entry {position} is {shown[position]}, not {other[0][0]:#018x}")
        check(one[1] == other[1], f"entry {position} has another function than the call table")
    same(len(found), len(wanted), "the number of entries")


# -- views ---------------------------------------------------------------------------------------


@rule("Built-in views", "built-in views lead to a callable")
def view(it: Provider) -> None:
    views, outside = list(it.views), ""
    if not isinstance(it.object, type):
        for name in dir(type(it.object)):
            member = attribute(it.object, name) if not name.startswith("__") else None
            if _viewed(member) is it.object:
                views.append(member)
            elif _bound_elsewhere(it.object, name, member):
                outside = (
                    f"; the PyMethodDef of its '{name}', which is bound to it, lies outside of it"
                )
    if not views:
        raise Absent(f"the object has no attribute that is a view of it{outside}")
    for one in views:
        offers = it.offset or _api_capsule(type(it.object)) is not None
        check(offers, f"{one!r} is a view of an object without a call table or tier 2")
        name, method = ffi.cast("uintptr_t *", _definition(one))[0:2]
        check(name and method, f"the PyMethodDef of {one!r} has no name or no function")


# -- tier 2 --------------------------------------------------------------------------------------


@rule("Tier 2", "capsule, size, name and functions of the interface")
def api_struct(it: Provider) -> None:
    it.interface()


_ALONE = ", where 'find' is called without the GIL"
#: What many providers have, and what hardly one has.
_COMMON = ("d:d", "f:f", "d:dd", "i:i", "q:q", "v:", "i:", "P:P", "O:O", "v:P", "i:d&f", "d:ddd")
_RARE = {"v:bBhHiI", "Zg:Zg", "d:&&&&d"}
#: Seconds in which `find` must have come to an end.
_LIMIT = 10


@rule("Tier 2", "'find' needs no GIL and never takes it", _ALONE)
def api_without_gil(it: Provider) -> None:
    find = _abi.number(it.api().find)
    short = {entry[0] for entry in it.entries()[:8] if len(entry[0]) < 64}
    for text in sorted(_RARE | short):
        check(
            _providers.finds_alone(find, it.object, text, _LIMIT),
            f"find({text!r}) has not come to an end after {_LIMIT} seconds in which another thread "
            "had the GIL",
        )


@rule("Tier 2", "'entry' tells what 'find' finds, up to the 64th", _ALONE)
def api_entry(it: Provider) -> None:
    api, texts = it.api(), [row[0] for row in it.entries()] if it.offset else []
    it.listed()
    for text in [*texts[: _abi.API_MOST], *_COMMON]:
        found = api.find(id(it.object), text.encode("latin-1"), 0)
        told = it.listed()
        check(
            not found or len(told) == _abi.API_MOST or text in [row[0] for row in told],
            f"find({text!r}) gives an entry, and the {len(told)} that 'entry' tells have none",
        )


@rule("Tier 2", "'find' gives what is asked for, by its characters", _ALONE)
def api_find(it: Provider) -> None:
    api = it.api()
    for text, flags in {entry[0]: entry[1] for entry in reversed(it.entries())}.items():
        found = api.find(id(it.object), text.encode("latin-1"), 0)
        check(found, f"find({text!r}) gives nothing, though the object has that entry")
        given = ffi.string(found.signature).decode("latin-1")
        same(given, text, f"the signature that find({text!r}) gives")
        if flags:
            other = api.find(id(it.object), text.encode("latin-1"), flags)
            check(
                not other or not other.flags & flags,
                f"find({text!r}) with {flags:#x} refused gives an entry with such flags",
            )


@rule("Tier 2", "'find' gives NULL for what is not there, quietly", _ALONE)
def api_missing(it: Provider) -> None:
    api = it.api()
    offered = {entry[0] for entry in it.entries()} if api.entry or it.offset else set()
    for text in _RARE - offered:
        found = api.find(id(it.object), text.encode(), 0)
        if found:
            given = ffi.string(found.signature).decode("latin-1")
            same(given, text, f"the signature that find({text!r}) gives")


@rule("Tier 2", "tier 2 tells what the call table has")
def api_agrees(it: Provider) -> None:
    if not it.offset:
        raise Absent("the object has no call table")
    api = it.api()
    for text, _, function, _ in it.entries():
        found = api.find(id(it.object), text.encode("latin-1"), 0)
        check(
            found and int(found.funcptr) in [row[2] for row in it.entries() if row[0] == text],
            f"find({text!r}) gives another function than the call table, which has {function:#x}",
        )


# -- inheritance ---------------------------------------------------------------------------------


def _subclass(it: Provider, namespace: dict[str, object]) -> type:
    if not _abi.is_extensible(it.kind):
        raise Absent("the type's metatype is not the runtime's")
    try:
        made: type = type(it.kind)("Subclass", (it.kind,), namespace)
    except TypeError as error:
        raise Absent(f"the type cannot be subclassed: {error}") from None
    return made


@rule("Inheritance", "a Python subclass has the rows and the call table")
def subclass(it: Provider) -> None:
    made = _subclass(it, {"__slots__": ()})
    same(_abi.rows(made), _abi.rows(it.kind), "the rows of a subclass")
    wanted, found = [
        int(_abi.extension(kind).etp_obj_custom_slots_offset) for kind in (it.kind, made)
    ]
    same(found, wanted, "'etp_obj_custom_slots_offset' of a subclass")


@rule("Inheritance", "objects of a Python subclass come and go")
def subclass_objects(it: Provider) -> None:
    made = _subclass(it, {"__slots__": ()})
    kept = [made] * 1000  # a reference that is given back too often is not the last
    try:
        made()
    except Exception as error:
        raise Absent(f"a subclass cannot be called without arguments: {error}") from None
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


@rule("Inheritance", "a subclass with a __call__ has no call table")
def override(it: Provider) -> None:
    if not it.offset and _abi.call_offset(it.kind) == 0:
        raise Absent("the object has no call table")
    made = _subclass(it, {"__slots__": (), "__call__": lambda self, *args: None})
    same(_abi.call_offset(made), 0, "where objects of the subclass have a call table")
    left = [hex(row[0]) for row in _abi.rows(made) if row[0] in CALL_KEYS]
    same(left, [], "the rows for call tables of the subclass")
    wanted = [row for row in _abi.rows(it.kind) if row[0] not in CALL_KEYS and row[0] != 1]
    found = [row for row in _abi.rows(made) if row[0] != 1]
    same(found, wanted, "the other rows of the subclass")


@rule("Building a slot table", "a published table never changes (guarantee 6)")
def slot_table_constant(it: Provider) -> None:
    it.slot_table()
    check(_block(it.kind) == it.snapshot, "bytes of the table have changed since it was first read")
