"""Class graphs that change while the metaclass walks them, and tables that claim what is not so.

Whatever becomes of a class, C code and Python agree on what its instances do: a native caller calls
an entry only where a call from Python ends there too.
"""

from __future__ import annotations

import abc
import gc
import random
from collections.abc import Callable
from typing import Any

from driver import Finding, Planned, Tools

EXPECTED = (AttributeError, KeyError)
GROWTH = 20_000
SOURCE = """
double one(double x) { return x + 1; }
double two(double x) { return x + 2; }
double apply(double (*f)(double), double x) { return f(x); }
"""
NAMES = ["__call__", "__customslots__", "zz", "__class_getitem__", "__init_subclass__", "__slots__"]


def missing() -> str | None:
    return None


class World:
    def __init__(self, tools: Tools) -> None:
        import nativecall as nc

        self.nc = nc
        self.lib = nc.load(tools.library("classes"))
        self.one, self.two = self.lib.address("one"), self.lib.address("two")
        self.apply = self.lib.function("apply", "d:X{d:d}d")


def make(tools: Tools) -> World:
    return World(tools)


class Graph:
    """The classes of a step, and what a hostile key does to them."""

    def __init__(self, world: World, r: random.Random) -> None:
        self.world, self.r = world, r
        nc = world.nc
        self.meta = nc.extensibletype
        self.armed = 0
        self.walking = 0
        self.junk: list[Any] = []
        self.native: list[Any] = []
        self.slotted: list[Any] = []
        self.plain = [type("P", (), {}), type("Q", (), {"__call__": lambda self, x: 9.0})]
        self.instances: list[Any] = []
        for _ in range(r.randrange(1, 4)):
            self.grow()

    def key(self, text: str) -> str:
        """A key with the hash of `text`, which does something when it is compared."""

        def equal(this: Any, other: object) -> bool:
            if self.armed > 0:
                self.armed -= 1
                armed, self.armed = self.armed, 0
                try:
                    self.change()
                    self.junk = [(i,) * n for n in range(3, 8) for i in range(20)]
                except Planned:
                    raise
                except Exception:
                    pass
                self.armed = armed
            return False

        return type("Key", (str,), {"__eq__": equal, "__hash__": lambda this: hash(text)})("evil")

    def body(self, bases: list[Any]) -> dict[Any, Any]:
        """The body of a class with these bases."""
        r = self.r
        body: dict[Any, Any] = {}
        if r.random() < 0.5:
            body[self.key(r.choice(NAMES[:3]))] = 1
        if r.random() < 0.2:
            body["__call__"] = r.choice([lambda self, x: 7.0, Descriptor(self), None])
        if r.random() < 0.4:
            body["__customslots__"] = self.slots()
        if r.random() < 0.15:
            slots = r.choice([(), ("a",), ("__dict__",)])
            # Where `__bases__` brought a base with a dict to a class without one, CPython takes
            # other memory for the dict of a subclass with slots: any class of Python's crashes.
            if not any(
                base.__dictoffset__ == 0 and any([one.__dictoffset__ for one in base.__mro__])
                for base in bases
            ):
                body["__slots__"] = slots
        return body

    def slots(self) -> Any:
        """What `__customslots__` may be asked to hold."""
        r = self.r
        made: dict[Any, Any] = {}
        for _ in range(r.randrange(4)):
            key = r.choice([
                "a", b"b", "c", self.key("a"), 0x05000003, 0x04000001, 0x04000003, 0x04000005,
                0x1000, 2, 3, 0, 1, -2, 1 << 40, r.getrandbits(32), r.getrandbits(32) | 1,
            ])  # fmt: skip
            made[key] = r.choice([
                2, 1 << 40, -8, 0, 16, 24, (1, 2), (3, 1 << 63), r.getrandbits(64), "x", None, (),
            ])  # fmt: skip
        return r.choice([made, made, made, made.items(), list(made), Slots(self, made)])

    def grow(self) -> None:
        """One more class."""
        r, nc = self.r, self.world.nc
        which = r.randrange(5)
        if which <= 2:
            bases = [r.choice([*self.native, nc.NativeCallable])]
            if r.random() < 0.4:
                bases.insert(r.randrange(2), r.choice([*self.plain, *self.slotted]))
            self.native.append(type(nc.NativeCallable)("N", tuple(bases), self.body(bases)))
        elif which == 3:
            bases = [r.choice([*self.slotted, *self.plain, object])]
            meta = self.meta
            if r.random() < 0.2:
                meta = type("M", (abc.ABCMeta, meta), {})
            elif r.random() < 0.2:
                meta = type("M", (meta,), {"mro": self.mro})
            self.slotted.append(meta("S", tuple(bases), self.body(bases)))
        else:
            bases = r.sample(self.plain, 1)
            self.plain.append(type("P", tuple(bases), self.body(bases)))

    def mro(self, cls: Any) -> Any:
        """`mro` of a metaclass of its own."""
        if self.armed > 0:
            self.armed -= 1
            self.change()
        found = type.mro(cls)
        if self.r.random() < 0.1:
            return self.r.choice([found[:1], [*found, *self.plain], [cls, object], 5, [cls, 5]])
        return found

    def change(self) -> None:
        """Change some class."""
        r, nc = self.r, self.world.nc
        everything = [*self.native, *self.slotted, *self.plain]
        cls = r.choice(everything)
        # CPython itself walks subclasses that go meanwhile.
        which = r.choice((3, 4, 5, 6, 11)) if self.walking else r.randrange(13)
        if which in (0, 1, 2, 3, 4, 5, 6, 11):
            self.walking += 1
            try:
                self.attribute(cls, which, everything)
            finally:
                self.walking -= 1
        elif which == 7 and self.instances:
            one = r.choice(self.instances)
            one.__class__ = r.choice([type(one), *self.native, *self.slotted])
        elif which == 8:
            gc.collect(1)
        elif which == 9:
            self.grow()
        elif which == 10 and everything:
            for group in (self.native, self.slotted):
                if len(group) > 1:
                    group.pop(r.randrange(len(group)))
        else:
            nc.customslots(cls)

    def attribute(self, cls: Any, which: int, everything: list[Any]) -> None:
        """Change an attribute of a class, or its bases."""
        r = self.r
        if which <= 2:
            bases = tuple(r.sample(everything, r.randrange(1, 3)))
            r.choice([
                lambda: setattr(cls, "__bases__", bases),
                lambda: type.__dict__["__bases__"].__set__(cls, bases),
                lambda: type.__setattr__(cls, "__bases__", bases),
                lambda: type(cls).__dict__["__bases__"].__set__(cls, bases),
                lambda: setattr(cls, "__bases__", (r.choice(self.plain), *cls.__bases__)),
                lambda: type.__dict__["__bases__"].__set__(
                    cls, (r.choice(self.plain), *cls.__bases__)
                ),
            ])()  # fmt: skip
        elif which == 3:
            cls.__call__ = r.choice([lambda self, x: 5.0, Descriptor(self), 5])
        elif which == 4:
            del cls.__call__
        elif which == 5:
            name = r.choice(NAMES)
            r.choice([setattr, type.__setattr__])(cls, name, self.slots())
        elif which == 6:
            type.__delattr__(cls, r.choice(NAMES))
        else:
            type.__setattr__(cls, "__call__", lambda self, x: 6.0)

    def make(self) -> None:
        """An instance."""
        r, world = self.r, self.world
        if self.native:
            cls = r.choice(self.native)
            self.instances.append(cls(r.choice([world.one, world.two]), "d:d"))

    def check(self) -> None:
        """Hold what native callers do against what Python does."""
        world = self.world
        from nativecall import _ext

        for one in self.instances[-4:]:
            try:
                by_python: Any = one(1.0)
            except Exception as error:
                by_python = type(error)
            offers = world.nc.NativeCallable.signatures.__get__(one)
            offset = _ext.call_table_offset(type(one))
            if bool(offers) != bool(offset):
                raise Finding(f"{offers} are offered by {one!r}, at {offset}")
            try:
                by_native: Any = world.apply(one, 1.0)
            except Exception as error:
                by_native = type(error)
            if by_native != by_python and by_python not in (by_native, TypeError, AttributeError):
                raise Finding(f"Python calls for {by_python!r}, C for {by_native!r}")
            if isinstance(by_python, type) and not isinstance(by_native, type):
                raise Finding(f"Python cannot call ({by_python.__name__}), C gets {by_native!r}")
            self.loops(one, by_python)
        for one in (*self.native, *self.slotted):
            self.look(one)

    def loops(self, one: Any, by_python: Any) -> None:
        """What a reader that follows the tables calls."""
        from array import array

        from nativecall import _ext

        for way in ("offset", "slot"):
            out = array("d", [0.0])
            try:
                _ext.call_loop(one, "d:d", way, out, array("d", [1.0]))
            except (LookupError, TypeError, ValueError, self.world.nc.NativeCallError):
                continue
            if out[0] != by_python:
                raise Finding(f"Python calls for {by_python!r}, a reader by {way} for {out[0]!r}")

    def look(self, cls: Any) -> None:
        for slot in self.world.nc.customslots(cls):
            repr(slot)


class Descriptor:
    """What a `__call__` may be that is no function."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __get__(self, obj: Any, cls: Any = None) -> Any:
        if self.graph.armed > 0:
            self.graph.armed -= 1
            self.graph.change()
        return lambda x: 8.0


class Slots(dict):
    """A `__customslots__` with hooks."""

    def __init__(self, graph: Graph, items: dict[Any, Any]) -> None:
        super().__init__(items)
        self.graph = graph

    def keys(self) -> Any:
        self.graph.change()
        return super().keys()

    def items(self) -> Any:
        self.graph.change()
        return super().items()

    def __getitem__(self, key: Any) -> Any:
        self.graph.change()
        return super().__getitem__(key)


def step(world: World, r: random.Random) -> None:
    gc.disable()
    graph = Graph(world, r)
    for _ in range(r.randrange(4, 25)):
        graph.armed = r.randrange(6)
        action: Callable[[], None] = r.choice([graph.grow, graph.change, graph.change, graph.make])
        try:
            action()
        except (Planned, world.nc.NativeCallError, TypeError, ValueError, OverflowError):
            pass
        except (AttributeError, KeyError, RuntimeError):
            pass
        graph.armed = 0
        graph.check()
    if r.random() < 0.1:
        graph.instances.clear()
        gc.collect()
