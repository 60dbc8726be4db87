"""The rules of a runtime: a module that was imported first has brought the metaclass and the
registry, nativecall's core has come second, and all of it is used."""

from __future__ import annotations

import ctypes
import sys
import threading
import types
from abc import ABCMeta, abstractmethod
from functools import partial

from . import _abi, _provider, _providers, _unfit
from ._abi import CALL_KEYS, PACKEDCALLABLE, ffi
from ._hostile import FUNCTIONS, WORDS, assign_call, call_row, make_array, make_type, provider
from ._inheritance import Family, table
from ._rules import RULES, Absent, Broken, check, rules_of, same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from .._types import Foreign


class Runtime:
    """The runtime that a module has brought, and nativecall beside it.

    Attributes
    ----------
    name : str
        Of the module.
    refusal : str
        What nativecall's core says against the runtime; empty when it has joined it.
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
        """The runtime itself; absent for what cannot be asked anything."""
        if self.module is None or self.refusal:
            raise Absent("there is no runtime here that nativecall can use")
        return self


rule = rules_of("runtime")
#: Of rules that ask the runtime itself.
fit_rule = rules_of("runtime", Runtime.fit)


def raises(kinds: str, what: str, call: Callable[..., object], *given: Foreign) -> None:
    """Raise `Broken` unless a call raises an exception of one of these names."""
    try:
        call(*given)
    except Exception as error:
        if type(error).__name__ in kinds:
            return
        raise Broken(f"{what} is {type(error).__name__}, not {kinds}: {error}") from None
    raise Broken(f"{what} is accepted; {kinds} is needed")


# -- the handshake -------------------------------------------------------------------------------


_destructor = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(
    ("PyCapsule_GetDestructor", ctypes.pythonapi)
)


@rule("The handshake", "module, attributes and capsule")
def names(it: Runtime) -> None:
    module = it.module
    check(module is not None, f"importing {it.name!r} puts nothing at {_abi.MODULE!r}")
    check(isinstance(module, types.ModuleType), f"sys.modules[{_abi.MODULE!r}] is {module!r}")
    check(getattr(module, "__file__", None) is None, "a file stands behind the module object")
    capsule = getattr(module, _abi.ATTRIBUTE, None)
    check(type(capsule).__name__ == "PyCapsule", f"its 'runtime_v1' is {capsule!r}")
    check(f'"{_abi.CAPSULE}"' in repr(capsule), f"the capsule's name is not right: {capsule!r}")
    check(_destructor(capsule) is None, "the capsule has a destructor")
    found = getattr(module, "extensibletype_v1", None)
    check(isinstance(found, type), f"its 'extensibletype_v1' is {found!r}")
    same(id(found), _abi.number(_abi.runtime().metatype), "the address of 'extensibletype_v1'")


def _there(it: Runtime) -> None:
    """Absent where the module has brought nothing."""
    if it.module is None:
        raise Absent("the module brings no runtime: see the rule 'names'")


@rule("The handshake", "the fields of NcRuntime")
def fields(it: Runtime) -> None:
    _there(it)
    found = _abi.runtime()
    same(int(found.abi_version), _abi.ABI_VERSION, "'abi_version'")
    least = ffi.sizeof("NcRuntime")
    check(found.struct_size >= least, f"'struct_size' is {found.struct_size}, less than {least}")
    least = _abi.HEAP_TYPE + ffi.sizeof("Extension")
    check(found.type_size >= least, f"'type_size' is {found.type_size}, less than {least}")
    same(int(found.slot_size), ffi.sizeof("PyCustomSlot"), "'slot_size'")
    for field in ("provider", "metatype", "registry", "intern", "ready"):
        check(getattr(found, field), f"'{field}' is NULL")
    same(_abi.metatype().__basicsize__, int(found.type_size), "'tp_basicsize' of the metaclass")
    check(issubclass(_abi.metatype(), type), "the metaclass does not derive from type")


@rule("The handshake", "nativecall joins the runtime")
def joined(it: Runtime) -> None:
    _there(it)
    check(not it.refusal, f"nativecall refuses it: {it.refusal}")
    check(sys.modules.get(_abi.MODULE) is it.module, "the module object was replaced")
    import nativecall

    wanted = "another" if nativecall.extensibletype is not _abi.metatype() else "the runtime's"
    same(wanted, "the runtime's", "nativecall's metaclass")


# -- the registry --------------------------------------------------------------------------------

_TEXTS = [b"", b"\0", b"d", b"d:d", b"d:d\0", b"\0d:d", b"i:d&f", b"01234567", b"012345678"]
_TEXTS += [b"double (double)", bytes(range(256)), b"x" * 65535, "é".encode()]


@fit_rule("Interned strings", "equal strings have one address, others another")
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


@fit_rule("The hash", "length and pre-hash stand before the string")
def intern_header(it: Runtime) -> None:
    for text in _TEXTS:
        header = _abi.at("NcInternHeader", _abi.intern(text) - 16)
        same(int(header.length), len(text), f"the length before {text[:20]!r}")
        same(int(header.hash), _abi.hash_of(text), f"the pre-hash before {text[:20]!r}")


@fit_rule("Interned strings", "a string that is too long is refused")
def intern_limit(it: Runtime) -> None:
    found, out = _abi.runtime(), ffi.new("char **")
    for size in (65536, 10**6):
        status = found.intern(found.registry, b"y" * size, size, out)
        same(status, _abi.E_TOOLONG, f"the status for {size} bytes")


@fit_rule("Threads and memory", "threads without the GIL intern alike")
def intern_threads(it: Runtime) -> None:
    texts = [f"a thread's {n}".encode() for n in range(3000)]
    made: list[list[int]] = []
    start = threading.Barrier(4)

    def run() -> None:
        start.wait()
        made.append([_abi.intern(text) for text in texts])

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(len(made), 4, "the number of threads that came to an end")
    check(all([one == made[0] for one in made]), "one string has several addresses")


@fit_rule("The registry", "the registry can be searched by readers")
def registry(it: Runtime) -> None:
    texts = [*_TEXTS, *[f"registry {n}".encode() for n in range(500)]]
    addresses = [_abi.intern(text) for text in texts]
    found = _abi.runtime().registry
    same(int(found.abi_version), _abi.ABI_VERSION, "'abi_version'")
    same(int(found.reserved), 0, "'reserved'")
    first = size = found.table.mask + 1
    used = sum([1 for n in range(size) if found.table.cells[n]])
    while size == first and used < 2**17:  # until the table is replaced, however full it gets
        check(size & (size - 1) == 0, f"the number of cells is {size}, no power of two")
        check(2 * used <= size, f"{used} of {size} cells are in use, more than half")
        used += 1
        _abi.intern(f"cell {used}".encode())
        size = found.table.mask + 1
    cells = found.table.cells
    for text, address in zip(texts, addresses, strict=True):
        position = _abi.hash_of(text)
        while (
            cells[position & found.table.mask]
            and _abi.number(cells[position & found.table.mask]) != address
        ):
            position += 1
        check(cells[position & found.table.mask], f"a search misses {text[:20]!r}")


# -- slot tables ---------------------------------------------------------------------------------


def _sound(kind: type) -> None:
    """All that a builder guarantees of a type's table."""
    found = _abi.extension(kind).etp_custom_slots
    if not found:
        return
    _provider.slot_table_header(found)
    _provider.slot_zero_row(found)
    _provider.slot_found(found)
    _provider.slot_cells(found)


@fit_rule("Building a slot table", "tables of 1 to 2000 rows")
def slot_tables(it: Runtime) -> None:
    padding = make_type("Padding", [(1, 0, 0)] * 3)
    same(_abi.rows(padding), [(1, 0, 0)] * 3, "the rows of a type with padding alone")
    _sound(padding)
    for size in (1, 2, 3, 4, 5, 8, 17, 64, 65, 300, 2000):
        ids = [(0x05000001 + 2 * n, n, -n) for n in range(size)]
        names = [(_abi.intern(f"key {size} {n}".encode()), n, n) for n in range(size)]
        spaced = [row for pair in zip(ids, names, strict=True) for row in (pair[0], (1, 0, 0))]
        for rows in (ids, names, spaced[:size]):
            kind = make_type(f"Rows{size}", rows)
            same(_abi.rows(kind), rows, "the rows of a type, in order,")
            _sound(kind)
    check(not _abi.extension(make_type("None")).etp_custom_slots, "no rows, and yet a table")


@fit_rule("Static types", "own rows, direct offset and shift of static types")
def ready(it: Runtime) -> None:
    rows = [call_row(), call_row(PACKEDCALLABLE, 1), (0x05000001, 7, -1)]
    made, array = make_array("Ready", rows, room=5, offset=WORDS[0])
    same(type(made), _abi.metatype(), "the metatype")
    same(table(made), (rows, WORDS[0]), "rows and offset")
    extension = _abi.extension(made)
    same(int(extension.etp_table_shift), WORDS[0] - _abi.OB_TYPE, "'etp_table_shift'")
    check(extension.etp_private, "'etp_private' is NULL once the type is ready")
    before = _abi.number(extension.etp_custom_slots)
    same(_abi.ready(made, 5), 0, "Ready of a type that is ready")
    same(_abi.number(extension.etp_custom_slots), before, "the table after a second Ready")
    check(before != array, "the provider's array was published as the table")
    bare = _abi.extension(make_type("Bare"))
    same((int(bare.etp_obj_custom_slots_offset), int(bare.etp_table_shift)), (0, 0), "offsets of 0")


@fit_rule("Static types", "inherited rows are written back to the array")
def ready_merges(it: Runtime) -> None:
    base = make_type("Base", [call_row(), (0x05000001, 1, 1), (0x05000003, 2, 2)])
    own = [(0x05000003, 9, 9), (0x05000005, 3, 3)]
    for room in (4, 7):
        made, array = make_array("Child", own, room=room, base=base)
        wanted = [call_row(), (0x05000001, 1, 1), (0x05000003, 9, 9), (0x05000005, 3, 3)]
        same(_abi.rows(made), wanted, "the rows of a static subtype")
        memory = _abi.at("PyCustomSlot", array)
        back = [(int(row.id), int(row.flags), int(row.data)) for row in memory[0:4]]
        same(back, wanted, "what is written back to the array")
        same(int(memory[room].id), 0, "what stood behind the array")
        _sound(made)


@fit_rule("Static types", "duplicate keys and arrays that are too small")
def ready_refuses(it: Runtime) -> None:
    row = (0x05000001, 0, 0)
    base = make_type("Wide", [(0x05000101 + 2 * n, 0, n) for n in range(4)])
    twice = [row, call_row(), row]
    raises("ValueError", "a key that stands twice", lambda: make_type("Twice", twice))
    raises("ValueError", "three rows and no array", lambda: make_type("None", room=-3))
    wrong = {
        "the key 3": ([(3, 0, 0)], 0),
        "a key above bit 31": ([(2**33 + 1, 0, 0)], 0),
        "an ID of registrar 0xFF that nobody has allocated": ([(0xFFABCD01, 0, 0)], 0),
        "an offset without the row 0x04000001": ([row], WORDS[0]),
        "an offset that the row 0x04000001 does not have": ([call_row()], WORDS[1]),
        "the row 0x04000003 without the row 0x04000001": ([call_row(PACKEDCALLABLE, 1)], 0),
    }
    for what, (rows, offset) in wrong.items():
        make = partial(make_type, "Wrong", rows, offset=offset)
        raises("ValueError", what, make)
    small = "an array with room for 3 of 5 rows"
    raises("ValueError", small, lambda: make_type("Small", [row], room=3, base=base))


# -- Python classes ------------------------------------------------------------------------------


def make_class(name: str, bases: tuple[type, ...] = (), **namespace: Foreign) -> type:
    meta = next((type(base) for base in bases if _abi.is_extensible(base)), _abi.metatype())
    made: type = meta(name, bases, namespace)
    return made


@fit_rule("Python classes", "keys and data of __customslots__")
def customslots(it: Runtime) -> None:
    given = {"a key": 5, b"bytes\0": (3, 6), 0x05000001: -1, id(it): 2**64 - 1, "é": 0}
    made = make_class("Given", __customslots__=given)
    wanted = [
        (_abi.intern(b"a key"), 0, 5),
        (_abi.intern(b"bytes\0"), 3, 6),
        (0x05000001, 0, -1),
        (id(it), 0, -1),
        (_abi.intern("é".encode()), 0, 0),
    ]
    same(_abi.rows(made), wanted, "the rows")
    _sound(made)
    bare = make_class("Bare")
    check(_abi.is_extensible(bare), "a class without __customslots__ has another metatype")
    check(not _abi.extension(bare).etp_custom_slots, "a class without rows has a table")
    raises("TypeError", "assigning __customslots__", setattr, made, "__customslots__", {})


@fit_rule("Python classes", "keys that no Python class may bring")
def customslots_refused(it: Runtime) -> None:
    for key in (0, 1, 3, 0x00000101, 2**33 + 1, *CALL_KEYS, 0x040000FF, 0x04000101, 0x040001FF):
        raises("ValueError", f"the key {key:#x}", _with_slots, {key: 1})
    for bad in (5, "text", {1.5: 1}, {None: 1}, {"a": "b"}, {"a": (1, 2, 3)}, {"a": None}):
        raises("TypeError or ValueError", f"{bad!r} as __customslots__", _with_slots, bad)
    raises("ValueError", "one key as str and as bytes", _with_slots, {"a": 1, b"a": 2})


def _with_slots(slots: object) -> type:
    return make_class("C", __customslots__=slots)


# -- inheritance ---------------------------------------------------------------------------------


class _Maker(Family):
    """Makes classes as tests of inheritance need them."""

    def static(self, rows: list[tuple[int, int, int]], offset: int = 0) -> type:
        return self.add(make_type("Static", rows, offset=offset), rows, offset)

    def python(self, *bases: type, **namespace: Foreign) -> type:
        slots = namespace.get("__customslots__", {})
        rows = [(_abi.intern(key.encode()), 0, data) for key, data in slots.items()]
        return self.add(make_class("C", bases, **namespace), rows)

    def compare(self, what: str, kind: type) -> None:
        rows, offset = table(kind)
        same(rows, self.rows(kind), f"the table of {what}")
        same(offset, self.offset(kind), f"the direct offset of {what}")
        shift = int(_abi.extension(kind).etp_table_shift)
        same(shift, offset - _abi.OB_TYPE if offset else 0, f"the shift of {what}")
        _sound(kind)


def _call(self: object, *args: object) -> float:
    return -2.0


_CALLS = [call_row(), call_row(PACKEDCALLABLE, 1)]


@fit_rule("Inheritance", "positions and values of several bases (rules 1 and 2)")
def inherits(it: Runtime) -> None:
    to = _Maker()
    a = to.python(__customslots__={"a": 1, "b": 2, "c": 3})
    b = to.python(a, __customslots__={"b": 20, "d": 4})
    c = to.python(a, __customslots__={"c": 30, "e": 5})
    d = to.python(b, c, __customslots__={"f": 6, "a": 10})
    e = to.python(d)
    other = to.python(__customslots__={"z": 9, "a": 90, "e": 91})
    mixed = to.python(other, d, __customslots__={"e": 92})
    plain = type("Plain", (), {})
    beside = to.python(plain, c, __customslots__={"g": 7})
    for what, kind in {
        "a class with three rows": a, "one that overrides one of them": b, "a diamond": d,
        "a class without rows of its own": e, "several bases that share a base": mixed,
        "a class with a plain base before": beside,
    }.items():  # fmt: skip
        to.compare(what, kind)
    padded = to.static([(1, 3, 4), (0x05000001, 0, 1), (1, 0, 0), (0x05000003, 0, 2)])
    to.compare("a static type with padding", padded)
    to.compare("a Python subclass of one with padding", to.python(padded, __customslots__={"a": 1}))
    other = to.python(__customslots__={"y": 1})
    to.compare("padding behind another base", to.python(other, padded))


@fit_rule("Inheritance", "which call table a class has (rules 3 and 4)")
def call_tables(it: Runtime) -> None:
    to = _Maker()
    plain = type("Plain", (), {})
    for rows, offset in (
        (_CALLS, WORDS[0]),
        ([call_row()], 0),
        ([call_row()], WORDS[0]),
        ([*_CALLS, (0x05000001, 0, 5)], WORDS[0]),
        ([(0x05000001, 0, 5), *_CALLS], WORDS[0]),
    ):
        base = to.static(rows, offset)
        to.compare("a static type", base)
        child = to.python(base)
        to.compare("a Python subclass", child)
        to.compare("one with rows", to.python(base, __customslots__={"a": 1}))
        over = to.python(base, __call__=_call, __customslots__={"a": 1})
        to.compare("one that overrides __call__", over)
        to.compare("a subclass of one that overrides __call__", to.python(over))
        to.compare("a class with a mutable base before", to.python(plain, base))
        to.compare("a class with a mutable base behind", to.python(base, plain))
        other = make_type("Other", [call_row()], room=9, base=base)
        to.compare("a static subtype that brings a call table", to.add(other, [call_row()], 0))
        to.compare("a subclass of that", to.python(other, __customslots__={"a": 1}))
        mixin = to.python(__call__=_call)
        to.compare("a class with a base before that has __call__", to.python(mixin, base))


# -- changes -------------------------------------------------------------------------------------


@fit_rule("Changes of classes", "assignments to __call__")
def call_assigned(it: Runtime) -> None:
    to = _Maker()
    base = to.static([*_CALLS, (0x05000001, 0, 5)], WORDS[0])
    parent = to.python(base)
    child = to.python(parent, __customslots__={"a": 1})
    for _ in range(3):
        assign_call(parent, _call)
        to.compare("a class that was given a __call__", parent)
        to.compare("a subclass of one that was given a __call__", child)
        delattr(parent, "__call__")
        to.compare("a class that has lost its __call__", parent)
        to.compare("a subclass of one that has lost its __call__", child)


@fit_rule("Threads and memory", "superseded tables stay, and serve again")
def old_tables(it: Runtime) -> None:
    kind = make_class("C", (make_type("Base", _CALLS, offset=WORDS[0]),), __customslots__={"a": 1})
    first = _abi.extension(kind).etp_custom_slots
    before = bytes(ffi.buffer(ffi.cast("char *", first), first.size))
    assign_call(kind, _call)
    check(_abi.extension(kind).etp_custom_slots != first, "an override leaves the table")
    delattr(kind, "__call__")
    check(
        _abi.extension(kind).etp_custom_slots == first,
        "rows that come back do not get their old table",
    )
    after = bytes(ffi.buffer(ffi.cast("char *", first), len(before)))
    check(after == before, "a superseded table has changed")


@fit_rule("Changes of classes", "assignments to __bases__")
def bases_assigned(it: Runtime) -> None:
    to = _Maker()
    one = to.python(__customslots__={"a": 1, "b": 2})
    other = to.python(__customslots__={"c": 3, "a": 10})
    parent = to.python(one, __customslots__={"p": 5})
    child = to.python(parent)
    parent.__bases__ = (other,)
    to.compare("a class with other bases", parent)
    to.compare("a subclass of one with other bases", child)
    parent.__bases__ = (other, one)
    to.compare("a class with more bases", parent)
    to.compare("a subclass of one with more bases", child)


@fit_rule("Changes of classes", "bases changed past the metaclass")
def bases_past(it: Runtime) -> None:
    to = _Maker()
    put = type.__dict__["__bases__"].__set__
    one, other = to.python(__customslots__={"a": 1}), to.python(__customslots__={"b": 1})
    made = to.python(one)
    raises("TypeError", "a change by the descriptor of type.__bases__", put, made, (other,))
    same(made.__bases__, (one,), "the bases after a change that was refused")
    raises("TypeError", "one extensible base more, behind the other,", put, made, (one, other))
    same(made.__bases__, (one,), "the bases after a change that was refused")
    to.compare("a class whose change was refused", made)
    base = to.static(_CALLS, WORDS[0])
    plain = type("Plain", (), {})
    called = to.python(base)
    parent = type("Parent", (plain,), {})
    further = type("Further", (type("Furthest", (), {}),), {})  # one more than before
    harmless = {"without a call table": (one, parent), "behind a call table": (base, parent)}
    kinds = {what: to.python(*bases) for what, bases in harmless.items()}
    parent.__bases__ = (further,)
    for what, kind in kinds.items():
        check(further in kind.__mro__, f"a change of a plain base {what} is not carried out")
        to.compare(f"a class whose plain base has changed {what}", kind)
    raises("TypeError", "a mutable base before the call table", put, called, (plain, base))
    to.compare("a class whose change was refused", called)


# -- together ------------------------------------------------------------------------------------


@fit_rule("Python classes", "metaclasses that derive from the runtime's")
def metaclasses(it: Runtime) -> None:
    meta = type("Both", (ABCMeta, _abi.metatype()), {})
    base = make_type("Base", _CALLS, offset=WORDS[0])
    made = meta("Made", (base,), {"__customslots__": {"a": 1}, "f": abstractmethod(_call)})
    check(made.__abstractmethods__ == {"f"}, "ABCMeta beside the metaclass does not work")
    wanted = [*_CALLS, (_abi.intern(b"a"), 0, 1)]
    same(table(made), (wanted, WORDS[0]), "rows and offset under a derived metaclass")


#: Rules of a provider that nativecall's own callables keep on the runtime.
_OF_NATIVECALL = ("slot-found", "offset", "call-table", "interned", "packed", "override")


@fit_rule("Words", "nativecall works on the runtime")
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


@rule("The handshake", "nativecall refuses what does not suit")
def unfit(it: Runtime) -> None:
    _meets("nativecall", _unfit.CASES)


@rule("The handshake", "the module refuses what does not suit")
def unfit_newcomer(it: Runtime) -> None:
    _there(it)
    _meets(it.name, _unfit.CASES)


@rule("The handshake", "nativecall publishes beside what is no runtime")
def beside(it: Runtime) -> None:
    _meets("nativecall", _unfit.BESIDE)


@rule("The handshake", "the module publishes beside it, too")
def beside_newcomer(it: Runtime) -> None:
    _there(it)
    _meets(it.name, _unfit.BESIDE)


def _meets(target: str, cases: Collection[str]) -> None:
    wrong = {case: found for case in cases if (found := _unfit.meet(target, case))}
    for case, found in wrong.items():
        more = f" (and {len(wrong) - 1} others)" if len(wrong) > 1 else ""
        raise Broken(f"where there is {case}: {found}{more}")


@rule("The handshake", "the module joins nativecall's runtime, and a larger one")
def newcomer(it: Runtime) -> None:
    _there(it)
    for case in ("", "larger"):
        found = _unfit.meet(it.name, case, "nativecall")
        check(found is None, f"after nativecall{', made larger,' if case else ''}: {found}")


@fit_rule("The handshake", "nativecall joins the runtime when its struct is larger")
def larger(it: Runtime) -> None:
    found = _unfit.meet("nativecall", "larger", it.name)
    check(found is None, f"nativecall refuses it: {found}")
