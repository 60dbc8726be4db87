"""The rules of a runtime about types that C makes, and about a fork: what no rule of `_runtime` has
objects for."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from functools import partial
from pathlib import Path

from . import _abi, _providers
from ._abi import PACKEDCALLABLE, ffi
from ._hostile import WORDS, assign_call, call_row, make_array, make_type
from ._inheritance import table
from ._rules import Absent, check, same
from ._runtime import Runtime, fit_rule, make_class, raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types import Foreign

_CALLS = [call_row(), call_row(PACKEDCALLABLE, 1)]
_ROW = (0x05000001, 0, 5)
#: As many rows as a type can have.
_MOST = [_ROW] + [(1, 0, 0)] * 65535
#: Py_TPFLAGS_HAVE_VECTORCALL
_VECTORCALL = 1 << 11
#: Seconds that a child may take for one string, and how many children there are.
_SECONDS, _FORKS = 10, 20


def _call(self: object, *args: object) -> float:
    return -2.0


@fit_rule("Static types", "a heap type of another metatype is refused")
def other_heap_types(it: Runtime) -> None:
    other = _providers.roomy("Other", (), {})
    what = "Ready of a heap type of another metatype"
    raises("TypeError", what, _abi.ready, other, 0)


def _makes_heap_types() -> None:
    if sys.version_info < (3, 12):
        raise Absent("C makes heap types of a metaclass from Python 3.12 on")


@fit_rule("Heap types", "PyType_FromMetaclass and Ready make heap types")
def heap_types(it: Runtime) -> None:
    _makes_heap_types()
    made = make_type("Heap", [*_CALLS, _ROW], kind="heap", offset=WORDS[0])
    same(table(made), ([*_CALLS, _ROW], WORDS[0]), "rows and offset of a heap type")
    child = type(made)("Child", (made,), {})
    same(table(child), table(made), "rows and offset of a class derived from it")


def _make_ready(late: type, rows: list[tuple[int, int, int]], offset: int = 0) -> int:
    """Fill in the fields of a heap type that C has made, and make it ready."""
    array = _abi.kept(ffi.new("PyCustomSlot[]", [*rows, (0, 0, 0)]))
    extension = _abi.extension(late)
    extension.etp_custom_slots = ffi.cast("PyCustomSlotTable *", array)
    extension.etp_obj_custom_slots_offset = offset
    return _abi.ready(late, len(rows))


@fit_rule("Heap types", "heap types of a metaclass that derives, and with classes that derive")
def heap_types_derived(it: Runtime) -> None:
    _makes_heap_types()
    wanted = ([*_CALLS, _ROW], WORDS[0])
    base = type("Meta", (_abi.metatype(),), {})("Base", (), {"__slots__": ()})
    made = make_type("Derived", wanted[0], kind="mutable", offset=WORDS[0], base=base)
    same(table(made), wanted, "rows and offset of a heap type of a derived metaclass")
    late = make_type("Late", kind="late")
    child = type(late)("Child", (late,), {})
    _make_ready(late, *wanted)
    same(table(late), wanted, "rows and offset of a heap type")
    same(table(child), wanted, "rows and offset of a class that was derived before Ready")


@fit_rule("Heap types", "one that Ready refuses for a class that derives from it has no table")
def heap_types_fail(it: Runtime) -> None:
    _makes_heap_types()
    root = make_type("Root")
    wide = make_type("Wide", _MOST, base=root)
    late = make_type("Late", kind="late", base=root)
    type(late)("Child", (wide, late), {})
    what = "Ready of a type whose subclass would have 65537 rows"
    raises("ValueError", what, _make_ready, late, [(0x05000003, 0, 1)])
    same(table(late), ([], 0), "rows and offset of a type that was refused for a subclass")


@fit_rule("Inheritance", "the call table goes with the call of the type that brings it (rule 4)")
def call_of_the_type(it: Runtime) -> None:
    _makes_heap_types()
    made = make_type("Mutable", _CALLS, kind="mutable", offset=WORDS[0])
    call = vars(made)["__call__"]
    assign_call(made, _call)
    below = type(made)("Below", (made,), {"__call__": call})
    found = [row[0] for row in _abi.rows(below) if row[0] in _abi.CALL_KEYS]
    what = "the call table of a class with the former __call__ of the type that brings it"
    same((found, table(below)[1]), ([], 0), what)


@fit_rule("Static types", "a type that Ready refuses has no table")
def ready_fails(it: Runtime) -> None:
    base = make_type("Wide", [(0x05000101 + 2 * n, 0, n) for n in range(4)])
    make = partial(make_array, "Fails", kind="fails")
    wrong = {
        "a key that stands twice": partial(make, [_ROW, *_CALLS, _ROW], offset=WORDS[0]),
        "the key 3": partial(make, [call_row(), (3, 0, 0)], offset=WORDS[0]),
        "another offset than the row 0x04000001": partial(make, _CALLS, offset=WORDS[1]),
        "an array that is too small": partial(make, [_ROW], room=3, base=base),
    }
    for what, refused in wrong.items():
        made, address = refused()
        check(made is None, f"{what} is accepted")
        left = _abi.at("Extension", address + _abi.HEAP_TYPE)
        found = (_abi.number(left.etp_custom_slots), int(left.etp_obj_custom_slots_offset))
        same(found, (0, 0), f"table and offset of a type that was refused for {what}")


@fit_rule("Static types", "what stands behind the rows in the array stays")
def ready_array(it: Runtime) -> None:
    base = make_type("Base", [call_row(), (0x05000003, 0, 3)])
    behind = [(0x05000005, 8, 9), (0x05000007, 10, 11)]
    # Own rows end before the first of key 0; four rows of the array are merged ones.
    _, array = make_array("Child", [_ROW, (0, 0, 0), (0, 0, 0), *behind], base=base)
    memory = _abi.at("PyCustomSlot", array)
    rows = [(int(row.id), int(row.flags), int(row.data)) for row in memory[0:5]]
    same(rows, [call_row(), (0x05000003, 0, 3), _ROW, *behind], "the array after Ready")


@fit_rule("Changes of classes", "classes made in __init_subclass__ are made anew")
def init_subclass(it: Runtime) -> None:
    inner: list[type] = []

    def hook(cls: type) -> None:
        if cls.__name__ == "Middle":
            inner.append(make_class("Inner", (cls,)))

    base = make_class("Base", (), __init_subclass__=classmethod(hook))
    middle = make_class("Middle", (base,), __customslots__={"a": 1})
    wanted = ([(_abi.intern(b"a"), 0, 1)], 0)
    same(table(middle), wanted, "rows and offset of a class whose base has __init_subclass__")
    same(table(inner[0]), wanted, "rows and offset of a class that was made there meanwhile")


@fit_rule("Changes of classes", "a table that cannot be made is withdrawn")
def withdrawn(it: Runtime) -> None:
    root = make_type("Root")
    wide = make_type("Wide", _MOST, base=root)
    base = make_class("Base", (root,))
    made = make_class("Made", (base,), __customslots__={"a": 1})
    own = _abi.rows(made)
    raises("ValueError", "a class with 65537 rows", setattr, made, "__bases__", (base, wide))
    same(made.__bases__, (base, wide), "the bases after the assignment, which stands,")
    same(_abi.rows(made)[:3], [], "the rows of a class whose table cannot be made")
    made.__bases__ = (base,)
    same(_abi.rows(made), own, "the rows of a class whose table can be made again")


@fit_rule("Types", "vectorcall is inherited while the call table is")
def vectorcall(it: Runtime) -> None:
    base = make_type("Fast", _CALLS, kind="vectorcall", offset=WORDS[0])
    check(base.__flags__ & _VECTORCALL, "Ready takes vectorcall from a static type")
    child = type(base)("Child", (base,), {})
    check(child.__flags__ & _VECTORCALL, "a Python subclass does not inherit vectorcall")
    over = type(base)("Over", (base,), {"__call__": _call})
    check(not over.__flags__ & _VECTORCALL, "one that overrides __call__ has vectorcall")
    assign_call(child, _call)
    check(not child.__flags__ & _VECTORCALL, "one that was given a __call__ keeps vectorcall")
    if sys.version_info < (3, 12):  # from then on heap types inherit it
        slow = make_type("SlotAlone", [call_row()], kind="vectorcall")
        child = type(slow)("Child", (slow,), {})
        check(not child.__flags__ & _VECTORCALL, "a class without a direct offset has vectorcall")


@fit_rule("Inheritance", "the classes of inheritance.json")
def inheritance_vectors(it: Runtime) -> None:
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
    """A class of the vectors."""
    rows = [_numbers(row) for row in one["rows"]]
    if one["kind"] == "static":
        given = tuple([base for base in bases if base is not object])
        given_call = one["call"] or ""
        offset, room = one["offset"], one["room"]
        made: type = make_array(
            one["name"], rows, room=room, offset=offset, base=given, call=given_call
        )[0]
        return made
    namespace: dict[str, object] = {} if one["call"] is None else {"__call__": _call}
    if one["kind"] == "plain":
        return type(one["name"], tuple(bases), namespace)
    slots = {key: (flags, data) for key, flags, data in rows}
    meta = next((type(base) for base in bases if _abi.is_extensible(base)), _abi.metatype())
    kind: type = meta(one["name"], tuple(bases), {**namespace, "__customslots__": slots})
    return kind


@fit_rule("Threads and memory", "a child of a fork can intern")
def fork(it: Runtime) -> None:
    if not hasattr(os, "fork"):
        raise Absent("this system has no fork")
    found, out = _abi.runtime(), ffi.new("char **")
    threads = [
        threading.Thread(target=_providers.intern_many, args=(f"fork {n}", 200_000), daemon=True)
        for n in range(2)
    ]
    for thread in threads:
        thread.start()
    for number in range(_FORKS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
            child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_SECONDS)
            text = b"of child %d" % number
            os._exit(found.intern(found.registry, text, len(text), out) & 0xFF)
        status = os.waitpid(child, 0)[1]
        check(
            status == 0,
            f"a child whose fork came while a thread interned, {number + 1} of {_FORKS}, "
            + (f"cannot within {_SECONDS} seconds" if status == signal.SIGALRM else "fails")
            + f" (status {status})",
        )
    for thread in threads:
        thread.join()
