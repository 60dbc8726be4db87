"""Build and inspect the types and built-in functions of the vectors of steps 2 and 6 of find.md.

Each vector describes the memory that a reader sees. This file builds the classes and functions in
which it sees that memory, so that every reader in this process can be tested. `offering` gives the
objects of a class a call table, whatever the class inherits. `viewing` makes a built-in function
whose definition is at any distance from its object.
"""

from __future__ import annotations

import contextlib
import ctypes
from abc import ABCMeta
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import nativecall as nc
from nativecall.conformance import _abi

if TYPE_CHECKING:
    from .vectors import Core

Vector = dict[str, Any]

KEY = 0x05000101  # not that of a call table
OFFERED = 64  # the address that objects offer as d:d
HEAD = object.__basicsize__
TP_CALL = HEAD + 14 * ctypes.sizeof(ctypes.c_void_p)
IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
METH_O, METH_METHOD = 0x0008, 0x0200 | 0x0080 | 0x0002
#: Bypasses the runtime, which would remove the call table.
PAST = {"__setattr__": type.__setattr__, "__delattr__": type.__delattr__}


def called(self: object) -> None:
    """A `__call__` other than the base's."""


def static(core: Core, name: str, base: type, call: str | None) -> type:
    rows = [(KEY, 0, HEAD - 8)]
    vector = {"kind": "static", "rows": rows, "room": 2, "offset": 0, "call": call}
    return core.type(name, [base], vector)


def classes(core: Core) -> Iterator[tuple[str, type]]:
    """Yield classes of all kinds, each with a description."""
    slots = {"__customslots__": {KEY: (0, HEAD - 8)}}
    own = {"__call__": called}
    runtime = nc.extensibletype
    derived = type("derived", (runtime,), PAST)
    twice = type("twice", (derived,), {})
    other = type("other", (type,), {})
    first = static(core, "First", object, "a")
    lower = static(core, "Lower", first, "b")
    mute = static(core, "Mute", object, None)
    plain = type("Plain", (), own)
    yield "static, of the runtime's metaclass", first
    yield "a class of it", runtime("Below", (first,), {})
    yield "a class of it with another __call__", runtime("Overrides", (first,), own)
    yield "without a base", runtime("Alone", (), slots)
    yield "of type", plain
    yield "built in", int
    yield "of a metaclass of its own", other("Other", (), own)
    yield "of a metaclass that derives from the runtime's, without a base", derived("A", (), slots)
    yield "the same with a __call__", derived("B", (), {**slots, **own})
    yield "below a static one", derived("C", (first,), {})
    overrides = derived("D", (first,), own)
    yield "below a static one, with another __call__", overrides
    yield "below that", derived("E", (overrides,), {})
    yield "below a static one without a call", derived("F", (mute,), {})
    yield "the same with a __call__", derived("G", (mute,), own)
    yield "below two static ones, of which the nearer counts", derived("H", (lower,), {})
    yield "with a __call__ from a plain base", derived("I", (plain, first), {})
    yield "with a plain base behind", derived("J", (first, plain), {})
    yield "derived twice", twice("K", (first,), {})
    yield "derived twice, with another __call__", twice("L", (first,), own)
    for bases in ((ABCMeta, runtime), (runtime, ABCMeta)):
        both = type("both", bases, PAST)
        yield "of two metaclasses, one of them the runtime's", both("M", (first,), {})
        yield "the same with another __call__", both("N", (first,), own)
    later = derived("O", (first,), {})
    type.__setattr__(later, "__call__", called)
    yield "with a __call__ that came later", later
    back = derived("P", (first,), own)
    type.__delattr__(back, "__call__")
    yield "with a __call__ that was taken away", back
    below = derived("Q", (back,), {})
    type.__setattr__(back, "__call__", called)
    yield "below one whose __call__ came later", below


def word(address: int) -> ctypes.c_size_t:
    return ctypes.c_size_t.from_address(address)


def seen(cls: type) -> Vector:
    """Return what a reader sees of a class."""
    metatypes, bases = [], []
    calls: dict[int, str | None] = {0: None}
    meta: type | None = type(cls)
    while meta is not None:
        metatypes.append("runtime" if meta is nc.extensibletype else meta.__name__)
        meta = meta.__base__
    base: type | None = cls
    while base is not None:
        call = calls.setdefault(word(id(base) + TP_CALL).value, "abc"[len(calls) - 1])
        bases.append({"immutable": bool(base.__flags__ & IMMUTABLE), "call": call})
        base = base.__base__
    return {"metatypes": metatypes, "bases": bases}


class _Entry(ctypes.Structure):
    _fields_ = (
        ("signature", ctypes.c_void_p),
        ("flags", ctypes.c_size_t),
        ("funcptr", ctypes.c_void_p),
    )


class _Table(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ssize_t), ("entries", _Entry * 2))


_table = _Table(1, ((_abi.intern(b"d:d"), 0, OFFERED), (None, 0, None)))
_pointer = ctypes.c_void_p(ctypes.addressof(_table))


@contextlib.contextmanager
def offering(obj: object) -> Iterator[None]:
    """Make an object's type report a call table with d:d."""
    cls = type(obj)
    if not issubclass(type(cls), nc.extensibletype):
        yield
        return
    offset = word(id(cls) + type.__basicsize__ + 8)
    before, offset.value = offset.value, ctypes.addressof(_pointer) - id(obj)
    try:
        yield
    finally:
        offset.value = before


def types(core: Core) -> tuple[str, list[Vector]]:
    vectors = []
    for how, cls in classes(core):
        obj = cls()
        derives = core.leads(obj, KEY)
        with offering(obj):
            extensible = core.leads(obj, 0x04000001)
        vectors.append({"type": how, **seen(cls), "derives": derives, "extensible": extensible})
    about = (
        "type: in words; metatypes: its type and that one's bases along tp_base, runtime for the "
        "runtime's metaclass; bases: itself and its bases along tp_base; immutable: whether "
        "Py_TPFLAGS_IMMUTABLETYPE is set; call: which function tp_call is, null for NULL; "
        "derives and extensible: what these two give (find.md, Step 2)"
    )
    return about, vectors


class _Definition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)
def _function(self: int, argument: int) -> None:
    """Never called."""


_address = ctypes.cast(_function, ctypes.c_void_p)
_DEFINITIONS = [_Definition(b"view", _address, flags, None) for flags in (METH_O, METH_METHOD)]


@contextlib.contextmanager
def viewing(obj: object, vector: Vector) -> Iterator[object]:
    """Yield the built-in function of a vector, bound to `obj`."""
    new = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 4)(
        ctypes.cast(ctypes.pythonapi.PyCMethod_New, ctypes.c_void_p).value
    )
    untrack = ctypes.PYFUNCTYPE(None, ctypes.py_object)(
        ctypes.cast(ctypes.pythonapi.PyObject_GC_UnTrack, ctypes.c_void_p).value
    )
    definition = ctypes.addressof(_DEFINITIONS[not vector["exact"]])
    owner = id(obj) if vector["self"] else None
    function = new(definition, owner, None, None if vector["exact"] else id(type(obj)))
    untrack(function)  # the collector would read the definition
    place = word(id(function) + HEAD)
    place.value = (owner or 0) + int(vector["distance"], 0)
    try:
        yield function
    finally:
        place.value = definition


def bound(core: Core, size: int) -> object:
    """Return an object of a type with this basicsize, a multiple of 8."""
    names = [f"field{i}" for i in range((size - HEAD) // 8)]
    return nc.extensibletype("Bound", (), {"__slots__": names})()


def _views() -> Iterator[tuple[bool, bool, int, int]]:
    """Yield properties of built-in functions.

    They are whether the type is exact, whether there is an object, its size, and the distance of
    the definition.
    """
    for size in (16, 80, 400):
        for distance in (0, 8, 16, size - 8, size - 1, size, size + 1, size + 8, -1, -8, -size):
            yield True, True, size, distance % 2**64
        yield True, True, size, 2**63
        yield False, True, size, size - 8
        yield True, False, size, size - 8


def views(core: Core) -> tuple[str, list[Vector]]:
    vectors = []
    for exact, has_self, size, distance in dict.fromkeys(_views()):
        vector = {"exact": exact, "self": has_self, "basicsize": size, "distance": hex(distance)}
        with viewing(bound(core, size), vector) as function:
            vectors.append({**vector, "view": core.is_view(function)})
    about = (
        "a built-in function on a 64-bit platform. exact: whether its type is PyCFunction_Type "
        "itself, not PyCMethod_Type; self: whether its m_self is not NULL; basicsize: of the type "
        "of m_self; distance: m_ml - m_self modulo 2^64; view: whether behind gives m_self "
        "(find.md, Step 6)"
    )
    return about, vectors


def each_type(core: Core, vectors: Sequence[Vector]) -> Iterator[tuple[Vector, object]]:
    """Yield the vectors of types, each with an object of that type."""
    for vector, (how, cls) in zip(vectors, classes(core), strict=True):
        assert vector["type"] == how
        yield vector, cls()
