"""The rules for consumers: check that a consumer finds the entries that the specification requires.

A consumer is a Python function `find(obj, signature, refuse)`: see docs/conformance.md.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from functools import cached_property
from operator import attrgetter
from types import SimpleNamespace

from . import _abi, _apart, _hostile, _providers
from ._hostile import FUNCTIONS, call_row, make_type, provider, tier2
from ._rules import TYPE_CHECKING, Absent, Broken, a, about, check, rules_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._ext import Foreign

    Find = Callable[[object, str, int], object]

F = FUNCTIONS
#: Three entries used in most cases.
PLAIN = [("d:d", 0, F[0]), ("i:i", 0, F[1]), ("d:dd", _abi.NEEDS_GIL, F[2])]
_FUTURE = 1 << 24  # a flag of a later ABI


def _answering(it: Consumer) -> Consumer:
    """Raise Absent if the function under test failed in every call."""
    if it.mute:
        raise Absent("no call has an answer: see the rule 'answers'")
    return it


def _reading(it: Consumer) -> Consumer:
    """Raise Absent for a consumer that need not read call tables."""
    if it.only_tier2:
        raise Absent("this consumer finds by '__nativecall_api__' only: --tier2")
    return _answering(it)


rule = rules_of("consumer", _answering)
#: For rules that do not apply to consumers that read only tier 2.
table_rule = rules_of("consumer", _reading)


class Consumer:
    """The function under test, its import path, and the types of the test objects."""

    def __init__(self, find: Find, place: str, *, only_tier2: bool = False) -> None:
        self.find = find
        self.place = place
        self.only_tier2 = only_tier2
        self.mute = False  # whether every call fails; set by the rule `answers`

    @cached_property
    def types(self) -> _hostile.Types:
        """The types of test objects, created on first use, since they need a runtime."""
        return _hostile.Types()

    def found(self, obj: object, signature: str, refuse: int = 0) -> int:
        """Return the address that the consumer finds; 0 if it finds nothing."""
        answer = self.find(obj, signature, refuse)
        if answer is None:
            return 0
        if not isinstance(answer, int):
            raise Broken(
                f"find() returns {a(type(answer).__name__)}; an address, None or 0 is needed"
            )
        return answer

    def finds(
        self, what: str, obj: object, signature: str, wanted: int | None, refuse: int = 0
    ) -> None:
        """Raise `Broken` unless the consumer finds `wanted`, or nothing if `wanted` is None."""
        about(f"in {what}, at {signature!r}")
        found = self.found(obj, signature, refuse)
        if found != (wanted or 0):
            asked = f"{signature!r}" + (f" with {refuse:#x} refused" if refuse else "")
            raise Broken(f"in {what}, {asked} is {_function(found)}, not {_function(wanted or 0)}")

    def finds_nothing(self, what: str, obj: object, signature: str = "d:d") -> None:
        self.finds(what, obj, signature, None)


def _function(address: int) -> str:
    if not address:
        return "nothing"
    return f"function {F.index(address)}" if address in F else f"{address:#x}"


def _plain(it: Consumer, what: str, kind: type) -> None:
    obj = provider(kind, PLAIN)
    for text, _, function in PLAIN:
        it.finds(what, obj, text, function)
    for text in ("f:f", "d:ddd", "v:"):
        it.finds_nothing(what, obj, text)


@rules_of("consumer")("C1", "the function takes three arguments, and gives an address")
def answers(it: Consumer) -> None:
    wrong: set[str] = set()
    makes = (lambda: provider(it.types.both, PLAIN), lambda: tier2_object(it), lambda: None)
    for make in makes:
        try:
            it.found(make(), "d:d")
            return
        except Broken as error:
            wrong.add(str(error))
        except Exception as error:
            wrong.add(f"{type(error).__name__}: {error}")
    if len(wrong) == 1:
        it.mute = True
        raise Broken(
            f"{wrong.pop()}; find(obj, signature, refuse) is called, with a str and an int"
        )


def tier2_object(it: Consumer) -> Foreign:
    return tier2(it.types.plain, _hostile.api_capsule(), PLAIN)


# -- call tables ---------------------------------------------------------------------------------


@table_rule("F15 F17", "each entry, and nothing for other signatures")
def finds(it: Consumer) -> None:
    _plain(it, "a table of three entries", it.types.both)
    _plain(it, "an object without a packed table", it.types.unpacked)
    many = [(f"d:{'d' * n}i", 0, F[n % 8]) for n in range(30)]
    obj = provider(it.types.both, many)
    for text, _, function in many:
        it.finds("a table of 30 entries", obj, text, function)
    longer = [("d:dd", 0, F[0]), ("d:ddi", 0, F[1])]
    it.finds_nothing("a table of longer signatures", provider(it.types.unpacked, longer))
    obj = provider(it.types.unpacked, [*longer, ("d:d", 0, F[2])])
    it.finds("one where longer signatures come first", obj, "d:d", F[2])
    it.finds_nothing("one of shorter signatures", obj, "d:ddd")


@table_rule("F12", "types that have the slot without an offset")
def slot_only(it: Consumer) -> None:
    _plain(it, "an object of a type with the slot alone", it.types.slot)


@table_rule("F13", "the slot is found at any position")
def slot_elsewhere(it: Consumer) -> None:
    _plain(it, "a type with the slot in row 20 of 42", it.types.elsewhere)
    padded = make_type("Padded", [(1, 0, 0), (1, 0, 0), call_row()])
    _plain(it, "a type with two rows of padding before the slot", padded)


@table_rule("F12", "each type has its own offset")
def offsets(it: Consumer) -> None:
    near = provider(it.types.unpacked, PLAIN)
    far = provider(it.types.far, [])
    _hostile.set_word(far, 1, _abi.call_table([("d:d", 0, F[4])]))
    for _ in range(2):
        it.finds("an object with its call table in its first word", near, "d:d", F[0])
        it.finds("an object with its call table in its second word", far, "d:d", F[4])


@rule("F12", "no call table, and an empty one")
def no_slots(it: Consumer) -> None:
    it.finds_nothing("an object whose type has other slots", it.types.no_table())
    bare = _abi.metatype()("Bare", (), {})
    it.finds_nothing("an object of an extensible type without slots", bare())
    empty = provider(it.types.both, [])
    it.finds_nothing("an empty table", empty)
    it.finds_nothing("an empty table", empty, "Zg:ZgZgZgZg")  # never interned


@table_rule("F16 F18", "entries with a refused flag are passed over")
def refuse(it: Consumer) -> None:
    obj = provider(it.types.both, [("d:d", _abi.NEEDS_GIL, F[0]), ("i:i", 0x20, F[1])])
    what = "an entry that needs the GIL"
    it.finds(what, obj, "d:d", F[0])
    it.finds(what, obj, "d:d", None, _abi.NEEDS_GIL)
    it.finds(what, obj, "d:d", F[0], _abi.ERRORS)
    it.finds("an entry with an error convention", obj, "i:i", None, _abi.ERRORS)
    for flags in (0x10, 0x20, 0x40, 0x50):
        obj = provider(it.types.both, [("i:i", flags, F[2])])
        what = f"an entry with the convention {flags:#x}"
        it.finds(what, obj, "i:i", F[2])
        it.finds(what, obj, "i:i", None, _abi.ERRORS)


@table_rule("F17", "of equal signatures the first that suits counts")
def duplicates(it: Consumer) -> None:
    same = [("d:d", _abi.NEEDS_GIL, F[0]), ("d:d", 0, F[1]), ("d:d", 0, F[2])]
    obj = provider(it.types.both, same)
    what = "three entries of one signature"
    it.finds(what, obj, "d:d", F[0])
    it.finds(what, obj, "d:d", F[1], _abi.NEEDS_GIL)
    it.finds(what, provider(it.types.unpacked, same), "d:d", F[1], _abi.NEEDS_GIL)


@table_rule("F19 F20", "flags of a later ABI: from 8 to 23 ignored")
def later_abi(it: Consumer) -> None:
    for bit in (7, 24, 31, 8 * _abi.WORD - 1):
        known = ("d:d", 0, F[1])
        obj = provider(it.types.both, [("d:d", 1 << bit, F[0]), known], [known])
        it.finds(f"an entry with the flag 1 << {bit} before one without", obj, "d:d", F[1])
        obj = provider(it.types.both, [("d:d", 1 << bit, F[0])], [])
        it.finds_nothing(f"an entry with the flag 1 << {bit}", obj)
    obj = provider(it.types.unpacked, [("d:d", 0xFFFF00, F[0])])
    it.finds("an entry with the flags 0xFFFF00", obj, "d:d", F[0])


@table_rule("F21", "unknown error conventions are not trusted")
def unknown_convention(it: Consumer) -> None:
    for flags in range(0, _abi.ERRORS + 1, 0x10):
        if _abi.fits("i:&i", flags) or _abi.fits("P:", flags):
            continue
        obj = provider(it.types.unpacked, [("d:d", flags, F[0]), ("d:d", 0, F[1])])
        what = f"an entry with the convention {flags:#x} before one without"
        it.finds(what, obj, "d:d", F[1], _abi.ERRORS)
        it.finds(what, obj, "d:d", F[0])


# -- the runtime ---------------------------------------------------------------------------------


@table_rule(
    "F4 F8",
    "the runtime is looked up, never imported, and again until there is one",
)
def late_runtime(it: Consumer) -> None:
    ended, line = _apart.run("_consumer", it.place)
    check(not ended, ended)
    told = json.loads(line)
    if told["brings"]:
        raise Absent("the module brings a runtime, or imports one that does")
    check(not told["found"], told["found"])


def main(place: str) -> None:
    """Check a consumer before and after a runtime exists; print a line of JSON.

    `late_runtime` runs this in a new process without nativecall.
    """
    asked: list[str] = []
    watch: Foreign = SimpleNamespace(find_spec=lambda name, *rest: asked.append(name))
    sys.meta_path.insert(0, watch)
    brings, found = False, ""
    try:
        module, _, name = place.partition(":")
        it = Consumer(attrgetter(name)(importlib.import_module(module)), place)
        for obj in (None, object(), type("C", (), {})(), type("Meta", (type,), {})("C", (), {})()):
            it.finds_nothing(f"{obj!r:.60}, before there is a runtime", obj)
        brings = _abi.MODULE in sys.modules
        check(brings or _abi.MODULE not in asked, f"it imports {_abi.MODULE!r}, which has no file")
        import nativecall  # noqa: F401  # creates the runtime

        obj = provider(it.types.both, PLAIN)
        it.finds("an object of a runtime that came late", obj, "d:d", PLAIN[0][2])
    except Exception as error:
        found = str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
    print("\n" + json.dumps({"brings": brings, "found": found}))


# -- tables that change --------------------------------------------------------------------------


@table_rule("F12 F15", "a table, an entry and a function that are new")
def changed(it: Consumer) -> None:
    obj = provider(it.types.unpacked, [])
    it.finds_nothing("an empty table", obj)
    added = ("v:", 0, F[7])
    for entries in ([("d:d", 0, F[3])], [("d:d", 0, F[3]), added], [("d:d", 0, F[4]), added]):
        _hostile.set_word(obj, _hostile.CALLS, _abi.call_table(entries))
        for text, _, function in entries:
            it.finds("an object with a new call table", obj, text, function)


# -- views and methods ---------------------------------------------------------------------------


@table_rule("F28", "a built-in view counts as its callable")
def view(it: Consumer) -> None:
    for kind in (it.types.both, it.types.slot, it.types.unpacked):
        obj = _providers.view(provider(kind, PLAIN))
        it.finds(f"a view of a {kind.__name__}", obj, "d:d", F[0])
        it.finds(f"a view of a {kind.__name__}", obj, "d:dd", None, _abi.NEEDS_GIL)
        it.finds_nothing(f"a view of a {kind.__name__}", obj, "f:f")


@rule("F28", "other built-in functions are no views")
def method(it: Consumer) -> None:
    it.finds_nothing("a method of a callable", provider(it.types.both, PLAIN).method)
    it.finds_nothing("a view of what has no slots", _providers.view(it.types.plain()))
    others: tuple[Foreign, ...] = (len, [].append, str.join, dict.fromkeys, "".join, print)
    for function in others:
        it.finds_nothing(f"the built-in {function.__name__}", function)


# -- types ---------------------------------------------------------------------------------------


@table_rule("F10", "metaclasses that derive from it count")
def derived_metaclass(it: Consumer) -> None:
    meta = type("Meta", (type("Meta", (_abi.metatype(),), {}),), {})
    made = meta("Derived", (it.types.both,), {"__slots__": ()})
    it.finds("an object whose metatype derives", provider(made, PLAIN), "d:d", F[0])
    it.finds_nothing("an object whose metatype derives", provider(made, PLAIN), "f:f")


@table_rule("F12", "objects of Python subclasses have the entries")
def subclass(it: Consumer) -> None:
    for kind in (it.types.both, it.types.slot, it.types.elsewhere):
        made = type(kind)("Sub", (kind,), {"x": 1})
        _plain(it, f"an object of a Python subclass of {kind.__name__}", made)


@table_rule("F10 F12", "a subclass with a __call__ offers nothing")
def override(it: Consumer) -> None:
    for kind in (it.types.both, it.types.slot):
        made = type(kind)("Sub", (kind,), {"__call__": lambda self, *args: -2.0})
        it.finds_nothing("an object whose class overrides __call__", provider(made, PLAIN))
        later = type(kind)("Sub", (kind,), {})
        obj = provider(later, PLAIN)
        it.finds("an object of a subclass", obj, "d:d", F[0])
        _hostile.assign_call(later, lambda self, *args: -2.0)
        it.finds_nothing("an object whose class was given a __call__", obj)
        delattr(later, "__call__")
        it.finds("an object whose class has lost its __call__", obj, "d:d", F[0])


@rule("F7 F10", "nothing, and no exception, in other objects")
def plain_objects(it: Consumer) -> None:
    class Python:
        def __call__(self) -> None: ...

        def method(self) -> None: ...

    others: list[object] = [None, 1, 1.5, "text", b"bytes", (), {}, object(), Python(), Python]
    others += [type, object, int, len, lambda: None, Python().method, sys, ...]
    others += [_abi.metatype(), it.types.both, it.types.plain, it.types.plain()]
    for obj in others:
        it.finds_nothing(f"{obj!r:.60}", obj)


@rule("F2", "the object's references are as before")
def references(it: Consumer) -> None:
    made = provider(it.types.both, PLAIN)
    objects = [made, object(), _providers.view(made)]
    before = [sys.getrefcount(obj) for obj in objects]
    for n in range(600):
        it.found(objects[n % 3], "d:d" if n % 2 else "f:f")
    after = [sys.getrefcount(obj) for obj in objects]
    check(before == after, f"200 calls change the counts from {before} to {after}")


# -- tier 2 --------------------------------------------------------------------------------------


def _looking(it: Consumer) -> Consumer:
    """Raise Absent for a consumer that ignores `__nativecall_api__`."""
    _answering(it)
    obj = tier2(it.types.plain, _hostile.api_capsule(), [])
    if not it.found(_hostile.offer(obj, PLAIN, interned=True), "d:d"):
        raise Absent("this consumer does not look at '__nativecall_api__'")
    return it


tier2_rule = rules_of("consumer", _looking)


def _refuses(it: Consumer, what: str, obj: object) -> None:
    """Check that an invalid interface yields nothing or a TypeError."""
    with contextlib.suppress(TypeError):
        it.finds_nothing(what, obj)


@tier2_rule("F32", "entries of __nativecall_api__")
def api(it: Consumer) -> None:
    obj = tier2(it.types.plain, _hostile.api_capsule(), PLAIN)
    for text, _, function in PLAIN:
        it.finds("an object with '__nativecall_api__'", obj, text, function)
    it.finds("an object with '__nativecall_api__'", obj, "d:dd", None, _abi.NEEDS_GIL)
    it.finds_nothing("an object with '__nativecall_api__'", obj, "f:f")
    called = {"__call__": lambda self, *args: -2.0}
    obj = tier2(it.types.plain, _hostile.api_capsule(), PLAIN, **called)
    it.finds("one whose class has '__call__' beside it", obj, "d:d", F[0])
    untold = tier2(it.types.plain, _hostile.api_capsule(entry=None), PLAIN)
    it.finds("one whose 'entry' is NULL", untold, "d:d", F[0])
    later = tier2(it.types.plain, _hostile.api_capsule(), [("d:d", _FUTURE, F[0])])
    it.finds_nothing("one with an entry of a later ABI", later)
    larger = tier2(it.types.plain, _hostile.api_capsule(size=4096), PLAIN)
    it.finds("one whose interface is larger", larger, "d:d", F[0])
    same = tier2(it.types.plain, _hostile.api_capsule(), [("d:d", 1, F[0]), ("d:d", 0, F[1])])
    it.finds("one with two entries of one signature", same, "d:d", F[1], _abi.NEEDS_GIL)


@tier2_rule("F1", "extensible types may have it behind their call table")
def api_behind(it: Consumer) -> None:
    _reading(it)
    namespace = {"__slots__": (), _abi.API_ATTRIBUTE: _hostile.api_capsule()}
    both = provider(type(it.types.both)("Both", (it.types.both,), namespace), PLAIN)
    _hostile.offer(both, [("d:d", 0, F[4]), ("f:f", 0, F[5]), ("d:dd", 0, F[6])])
    what = "an object with a call table and '__nativecall_api__'"
    it.finds(what, both, "d:d", F[0])
    it.finds(what, both, "f:f", F[5])
    it.finds(what, both, "d:dd", F[6], _abi.NEEDS_GIL)


@tier2_rule("F28 F32", "a built-in view counts as the object that has it")
def api_view(it: Consumer) -> None:
    # A consumer that reads only tier 2 need not know views.
    _reading(it)
    view = _providers.view(tier2(it.types.plain, _hostile.api_capsule(), PLAIN))
    what = "a view of an object with '__nativecall_api__'"
    it.finds(what, view, "d:d", F[0])
    it.finds(what, view, "d:dd", None, _abi.NEEDS_GIL)
    it.finds_nothing(what, view, "f:f")


@tier2_rule("F33", "an exception of 'find' is passed on or cleared")
def api_raises(it: Consumer) -> None:
    obj = tier2(it.types.plain, _hostile.api_capsule(find="find_and_raise"), PLAIN)
    for text, right in (("d:d", (0, F[0])), ("f:f", (0,))):
        with contextlib.suppress(LookupError):
            found = it.found(obj, text)
            check(found in right, f"where 'find' raises, {text!r} is {_function(found)}")


@tier2_rule("F30", "a subclass inherits it, without a __call__")
def api_inherited(it: Consumer) -> None:
    base = type(tier2(it.types.plain, _hostile.api_capsule(), PLAIN))
    inherits = _hostile.offer(type("Sub", (base,), {})(), PLAIN)
    it.finds("a subclass of one with '__nativecall_api__'", inherits, "d:d", F[0])
    overrides = type("Sub", (base,), {"__call__": lambda self, *args: -2.0})
    it.finds_nothing("a subclass with a __call__", _hostile.offer(overrides(), PLAIN))
    without = type("Sub", (base,), {_abi.API_ATTRIBUTE: None})
    it.finds_nothing("a subclass that has None there", _hostile.offer(without(), PLAIN))


@tier2_rule("F31", "wrong interfaces are not used")
def api_wrong(it: Consumer) -> None:
    wrong = {
        "an interface of 8 bytes": _hostile.api_capsule(size=8),
        "an interface with another name": _hostile.api_capsule(name=_abi.API_NAME + 1),
        "an interface whose 'find' is NULL": _hostile.api_capsule(find=None),
        "a capsule with another name": _hostile.api_capsule(capsule="nativecall_api_v2"),
        "a number in place of the capsule": 5,
    }
    right = type(tier2(it.types.plain, _hostile.api_capsule(), PLAIN))
    for what, capsule in wrong.items():
        _refuses(it, what, tier2(it.types.plain, capsule, PLAIN))
        _refuses(it, f"{what}, before a base's that is right", tier2(right, capsule, PLAIN))
    obj = _hostile.offer(type("Plain", (it.types.plain,), {})(), PLAIN)
    setattr(obj, _abi.API_ATTRIBUTE, _hostile.api_capsule())
    it.finds_nothing("an object that has '__nativecall_api__' itself", obj)
