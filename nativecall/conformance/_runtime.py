"""The rules for runtimes: check the metaclass and the registry that a module creates.

The module under test is imported first, and creates both. nativecall is imported second, and its
core must use both.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from functools import partial
from pathlib import Path

from nativecall._core import ffi, lib

from . import _abi, _apart, _provider, _providers
from ._abi import CALL_KEYS, PACKEDCALLABLE
from ._hostile import FUNCTIONS, WORDS, assign_call, call_row, make_type, provider
from ._rules import RULES, TYPE_CHECKING, Absent, Broken, check, rules_of, same

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._ext import Foreign


class Runtime:
    """The runtime that a module created, after nativecall tried to join it.

    Attributes
    ----------
    name : str
        Name of the module.
    refusal : str
        Why nativecall's core rejects the runtime; empty if the core has joined it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.module = sys.modules.get(_abi.MODULE)
        self.refusal = ""
        try:
            import nativecall  # noqa: F401  # its core joins the runtime
        except Exception as error:
            self.refusal = f"{type(error).__name__}: {error}"

    def fit(self) -> Runtime:
        """Return the runtime; raise Absent if it cannot be queried."""
        if self.module is None or self.refusal:
            raise Absent("there is no runtime here that nativecall can use")
        return self

    def there(self) -> Runtime:
        """Return the runtime; raise Absent if the module created none."""
        if self.module is None:
            raise Absent("the module brings no runtime: see the rule 'names'")
        return self


#: For rules about a runtime that the module created.
there_rule = rules_of("runtime", Runtime.there)
#: For rules that query the runtime itself.
fit_rule = rules_of("runtime", Runtime.fit)


# -- the handshake -------------------------------------------------------------------------------


@rules_of("runtime")("R1", "module, attributes and capsule")
def names(it: Runtime) -> None:
    module = it.module
    check(module is not None, f"importing {it.name!r} puts nothing at {_abi.MODULE!r}")
    check(isinstance(module, types.ModuleType), f"sys.modules[{_abi.MODULE!r}] is {module!r}")
    check(getattr(module, "__file__", None) is None, "a file stands behind the module object")
    capsule = getattr(module, _abi.ATTRIBUTE, None)
    check(type(capsule).__name__ == "PyCapsule", f"its 'runtime_v1' is {capsule!r}")
    check(f'"{_abi.CAPSULE}"' in repr(capsule), f"the capsule's name is not right: {capsule!r}")
    found = getattr(module, "extensibletype_v1", None)
    check(isinstance(found, type), f"its 'extensibletype_v1' is {found!r}")
    same(id(found), _abi.number(_abi.runtime().metatype), "the address of 'extensibletype_v1'")


@there_rule("R1", "the fields of NcRuntime")
def fields(it: Runtime) -> None:
    found = _abi.runtime()
    same(int(found.abi_version), _abi.ABI_VERSION, "'abi_version'")
    least = ffi.sizeof("NcRuntime")
    check(found.struct_size >= least, f"'struct_size' is {found.struct_size}, less than {least}")
    least = ffi.sizeof("PyHeapExtensibleTypeObject")
    check(found.type_size >= least, f"'type_size' is {found.type_size}, less than {least}")
    same(int(found.slot_size), ffi.sizeof("PyCustomSlot"), "'slot_size'")
    for field in ("provider", "metatype", "registry", "intern", "ready"):
        check(getattr(found, field), f"'{field}' is NULL")
    same(_abi.metatype().__basicsize__, int(found.type_size), "'tp_basicsize' of the metaclass")
    check(issubclass(_abi.metatype(), type), "the metaclass does not derive from type")


@there_rule("R2", "nativecall joins the runtime")
def joined(it: Runtime) -> None:
    check(not it.refusal, f"nativecall refuses it: {it.refusal}")
    check(sys.modules.get(_abi.MODULE) is it.module, "the module object was replaced")
    import nativecall

    wanted = "another" if nativecall.extensibletype is not _abi.metatype() else "the runtime's"
    same(wanted, "the runtime's", "nativecall's metaclass")


# -- the registry --------------------------------------------------------------------------------

_TEXTS = [b"", b"\0", b"d", b"d:d", b"d:d\0", b"\0d:d", b"i:d&f", b"01234567", b"012345678"]
_TEXTS += [b"double (double)", bytes(range(256)), b"x" * 65535, "é".encode()]


@fit_rule("S19 S20", "equal strings have one address, others another")
def interns(it: Runtime) -> None:
    seen: dict[int, bytes] = {}
    for text in _TEXTS:
        address = _abi.intern(text)
        check(address % 8 == 0, f"the address of {text[:20]!r} is {address:#x}")
        check(address not in seen, f"{text[:20]!r} and {seen.get(address)!r:.20} lie together")
        seen[address] = text
        again = _abi.intern(bytes(bytearray(text)))
        check(again == address, f"{text[:20]!r} lies at {address:#x} and at {again:#x}")
        found = bytes(ffi.buffer(ffi.cast("char *", address), len(text) + 1))
        check(found == text + b"\0", f"at {address:#x} lies {found[:20]!r}, not {text[:20]!r}")


@fit_rule("S18 S20", "length and pre-hash stand before the string")
def intern_header(it: Runtime) -> None:
    for text in _TEXTS:
        there = ffi.cast("char *", _abi.intern(text))
        same(lib.nc_interned_length(there), len(text), f"the length before {text[:20]!r}")
        wanted = lib.nc_hash_bytes(text, len(text))
        same(lib.nc_interned_hash(there), wanted, f"the pre-hash before {text[:20]!r}")


@fit_rule("R12 R13", "the registry can be searched by readers")
def registry(it: Runtime) -> None:
    texts = [*_TEXTS, *[f"registry {n}".encode() for n in range(500)]]
    addresses = [_abi.intern(text) for text in texts]
    found = _abi.runtime().registry
    same(int(found.abi_version), _abi.ABI_VERSION, "'abi_version'")
    mask = int(found.table.mask)
    check(mask & (mask + 1) == 0, f"the number of cells is {mask + 1}, no power of two")
    for text, address in zip(texts, addresses, strict=True):
        there = _abi.number(lib.nc_interned_find(found, text, len(text)))
        check(there == address, f"a search misses {text[:20]!r}")


# -- slot tables ---------------------------------------------------------------------------------


def _sound(kind: type) -> None:
    """Run all checks of a type's table."""
    found = _abi.extension(kind).etp_custom_slots
    if found:
        _provider.slot_table(found)


@fit_rule("R14 R15 R16 R17 R18", "tables of 1 to 300 rows")
def slot_tables(it: Runtime) -> None:
    for size in (1, 2, 3, 8, 64, 300):
        ids = [(0x05000001 + 2 * n, n, -n) for n in range(size)]
        names = [(_abi.intern(f"key {size} {n}".encode()), n, n) for n in range(size)]
        for rows in (ids, names):
            kind = make_type(f"Rows{size}", rows)
            same(_abi.rows(kind), rows, "the rows of a type, in order,")
            _sound(kind)
    check(not _abi.extension(make_type("None")).etp_custom_slots, "no rows, and yet a table")


@fit_rule("P27", "own rows, direct offset and shift of static types")
def ready(it: Runtime) -> None:
    rows = [call_row(), call_row(PACKEDCALLABLE, 1), (0x05000001, 7, -1)]
    made = make_type("Ready", rows, room=5, offset=WORDS[0])
    same(type(made), _abi.metatype(), "the metatype")
    same(table(made), (rows, WORDS[0]), "rows and offset")
    check(_abi.extension(made).etp_private, "'etp_private' is NULL once the type is ready")
    same(table(make_type("Bare")), ([], 0), "rows and offset of a type without rows")


def refused(kind: type[Exception], what: str, ask: Callable[..., object], *given: object) -> None:
    """Raise `Broken` unless a call raises this exception."""
    try:
        ask(*given)
    except kind:
        return
    except Exception as error:
        raise Broken(f"{what} raises {type(error).__name__}, not {kind.__name__}") from None
    raise Broken(f"{what} is accepted")


@fit_rule("P18 P24 P25 P28", "static types that cannot be made ready")
def refused_types(it: Runtime) -> None:
    base, row = make_type("Base", [call_row()], offset=WORDS[0]), (0x05000001, 0, 1)
    for what, rows, offset, bases in (
        ("a key that occurs twice", [row, row], 0, ()),
        ("an odd key of registrar 0", [(3, 0, 0)], 0, ()),
        ("an offset without a call table's row", [row], WORDS[0], ()),
        ("another offset than its row's", [call_row(word=1)], WORDS[0], ()),
        ("a packed table without a call table", [call_row(PACKEDCALLABLE)], 0, ()),
        ("an array without room for inherited rows", [row], 0, (base,)),
    ):
        make = partial(make_type, "Refused", rows, offset=offset, bases=bases)
        refused(ValueError, what, make)


# -- Python classes ------------------------------------------------------------------------------


def make_class(name: str, bases: tuple[type, ...] = (), **namespace: Foreign) -> type:
    meta = next((type(base) for base in bases if _abi.is_extensible(base)), _abi.metatype())
    made: type = meta(name, bases, namespace)
    return made


@fit_rule("P32", "keys and data of __customslots__")
def customslots(it: Runtime) -> None:
    given = {"a key": 5, b"bytes\0": (3, 6), 0x05000001: -1, id(it): 2**64 - 1, "é": 0}
    texts = [_abi.intern(text) for text in (b"a key", b"bytes\0", "é".encode())]
    wanted = [(texts[0], 0, 5), (texts[1], 3, 6), (0x05000001, 0, -1), (id(it), 0, -1)]
    made = table(make_class("Given", __customslots__=given))
    same(made, ([*wanted, (texts[2], 0, 0)], 0), "rows and offset")
    same(table(make_class("Bare")), ([], 0), "rows and offset of a class without __customslots__")


@fit_rule("P18 P33 P34", "invalid __customslots__, and changes of it")
def refused_slots(it: Runtime) -> None:
    big, pair = 1 << 64, {"a": 1, b"a": 2}
    wrong: list[object] = [3, {1.5: 1}, {"a": "b"}, {"a": (1,)}, {"a": (1, 2, 3)}, {"a": ("b", 1)}]
    keys = [0, 1, 3, -1, big, 0x04000001, 0x040000FF, 0x04000101, 0x040001FF, "\ud800"]
    values = [{"a": value} for value in (big, -big, (-1, 0), (big, 0))]
    invalid = [*[{key: 1} for key in keys], *values, pair]
    for kind, cases in ((TypeError, wrong), (ValueError, invalid)):
        for slots in cases:
            body = {"__customslots__": slots}
            refused(kind, f"__customslots__ = {slots!r}", _abi.metatype(), "Refused", (), body)
    made = make_class("Made", __customslots__={"a": 1})
    refused(TypeError, "a later assignment", setattr, made, "__customslots__", {})
    refused(TypeError, "a deletion of __customslots__", delattr, made, "__customslots__")


# -- inheritance ---------------------------------------------------------------------------------


def _call(self: object, *args: object) -> float:
    return -2.0


_CALLS = [call_row(), call_row(PACKEDCALLABLE, 1)]


def table(kind: type) -> tuple[list[tuple[int, int, int]], int]:
    """Return rows and direct offset of a class, after checking its table and its shift."""
    _sound(kind)
    offset = int(_abi.extension(kind).etp_obj_custom_slots_offset)
    shift = int(_abi.extension(kind).etp_table_shift)
    same(shift, offset - _abi.OB_TYPE if offset else 0, f"the shift of {kind.__name__!r}")
    return _abi.rows(kind), offset


@fit_rule("R24 R25 R26 R27", "the classes of inheritance.json")
def inheritance(it: Runtime) -> None:
    file = Path(__file__).parent.parent / "abi" / "inheritance.json"
    for number, vector in enumerate(json.loads(file.read_text(encoding="utf-8"))["vectors"]):
        made: dict[str, type] = {"object": object}
        for one in vector["classes"]:
            kind = made[one["name"]] = _described(one, [made[name] for name in one["bases"]])
            if one["kind"] != "plain":
                wanted = [_numbers(row) for row in one["table"]], one["merged_offset"]
                what = f"rows and offset of {one['name']!r} in vector {number}"
                same(table(kind), wanted, what)


def _numbers(row: list[str]) -> tuple[int, int, int]:
    key, flags, data = [int(text, 16) for text in row]
    return key, flags, data - (data >> 63 << 64)


def _described(one: dict[str, Foreign], bases: list[type]) -> type:
    """Return the class that one of the test vectors describes."""
    rows = [_numbers(row) for row in one["rows"]]
    if one["kind"] == "static":
        given = tuple([base for base in bases if base is not object])
        more = {"room": one["room"], "offset": one["offset"], "call": one["call"] or ""}
        return make_type(one["name"], rows, bases=given, **more)
    namespace: dict[str, object] = {} if one["call"] is None else {"__call__": _call}
    if one["kind"] == "plain":
        return type(one["name"], tuple(bases), namespace)
    slots = {key: (flags, data) for key, flags, data in rows}
    return make_class(one["name"], tuple(bases), **namespace, __customslots__=slots)


# -- changes -------------------------------------------------------------------------------------


@fit_rule("R28", "assignments to __call__")
def call_assigned(it: Runtime) -> None:
    base = make_type("Base", [*_CALLS, (0x05000001, 0, 5)], offset=WORDS[0])
    parent = make_class("Parent", (base,))
    child = make_class("Child", (parent,), __customslots__={"a": 1})
    before = table(parent), table(child)
    hidden = [([(1, 0, 0) if row[0] in CALL_KEYS else row for row in had], 0) for had, _ in before]
    what = "rows and offsets of a class that {}, and of a subclass,"
    for _ in range(3):
        assign_call(parent, _call)
        same([table(parent), table(child)], hidden, what.format("was given a __call__"))
        delattr(parent, "__call__")
        same((table(parent), table(child)), before, what.format("has lost its __call__"))


@fit_rule("R28 R30 R31", "assignments to __bases__, and classes made in __init_subclass__")
def bases_assigned(it: Runtime) -> None:
    first, second = [make_class(name, __customslots__={name: 1}) for name in "ab"]
    child = make_class("Child", (first,))
    both = child, make_class("Below", (child,))
    child.__bases__ = (second,)
    same([*map(table, both)], [table(second)] * 2, "rows of a class with other bases, and below,")
    refused(TypeError, "type.__bases__", vars(type)["__bases__"].__set__, child, (first,))
    same(child.__bases__, (second,), "'__bases__' after a change that was refused")
    made: list[type] = []

    def early(kind: type) -> None:
        if not made:
            made.append(kind)
            made.append(make_class("Early", (kind,)))

    parent = make_class("Parent", __init_subclass__=classmethod(early))
    late = table(make_class("Late", (parent,), __customslots__={"c": 1}))
    same(table(made[1]), late, "rows of a class made in __init_subclass__")


@fit_rule("R34", "superseded tables stay, and serve again")
def old_tables(it: Runtime) -> None:
    kind = make_class("C", (make_type("Base", _CALLS, offset=WORDS[0]),), __customslots__={"a": 1})
    first = _abi.extension(kind).etp_custom_slots
    before = bytes(ffi.buffer(ffi.cast("char *", first), first.size))
    assign_call(kind, _call)
    check(_abi.extension(kind).etp_custom_slots != first, "an override leaves the table")
    delattr(kind, "__call__")
    now = _abi.extension(kind).etp_custom_slots
    check(now == first, "rows that come back do not get their old table")
    after = bytes(ffi.buffer(ffi.cast("char *", first), len(before)))
    check(after == before, "a superseded table has changed")


# -- together ------------------------------------------------------------------------------------


#: Rules of a provider that nativecall's own callables must satisfy on the runtime.
_OF_NATIVECALL = ("slot-table", "offset", "call-table", "interned", "packed")


@fit_rule("R2", "nativecall works on the runtime")
def nativecall_works(it: Runtime) -> None:
    import nativecall as nc

    made = nc.wrap(FUNCTIONS[3], "d:d")
    same(made(1.5), 4.5, "a call of nativecall's own callable")
    same(made.builtin(2.5), 5.5, "a call of its built-in view")
    thing = _provider.Provider(made)
    for one in RULES:
        if one.role == "provider" and one.name in _OF_NATIVECALL:
            one.check(thing)
    obj = provider(make_type("Foreign", _CALLS, offset=WORDS[0]), [("d:d", 0, FUNCTIONS[2])])
    same(nc.wrap(obj)(1.0), 3.0, "nativecall.wrap of an object of another provider")
    same(nc.wrap(_providers.view(obj))(1.0), 3.0, "the same of its view")


@there_rule("R4", "the module joins nativecall's runtime")
def newcomer(it: Runtime) -> None:
    ended, same_module = _apart.run("_runtime", it.name)
    check(not ended, f"after nativecall: {ended}")
    check(same_module == "True", "what nativecall has brought is gone")


def main(name: str) -> None:
    """Print whether a module leaves nativecall's runtime in place. Runs in a new process."""
    import nativecall  # noqa: F401  # creates the runtime

    before = sys.modules[_abi.MODULE]
    importlib.import_module(name)
    print("\n" + str(sys.modules.get(_abi.MODULE) is before))
