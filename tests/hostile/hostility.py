"""Objects whose hooks change the world, and plain values to stand beside them.

A `Scene` is what one step has made: the arguments that hooks change, the callable that they call
back into. Hooks run one action each, drawn from the step's generator; actions swallow what they may
cause, for their owner is in the middle of somebody else's work.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import mmap
import random
import struct
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from driver import Planned

DEPTH = 3  # of hooks that call back
INTEGERS = "bBhHiIqQlLnN"
FLOATS = "efdg"
COMPLEX = ("Zf", "Zd", "Zg")
FORMATS = {"c": "b", "?": "?", "e": "e", "f": "f", "d": "d", "g": "d", "l": "q", "L": "Q"} | {
    "n": "q", "N": "Q", **{code: code for code in "bBhHiIqQ"}
}  # fmt: skip
CTYPES: dict[str, Any] = {
    "?": ctypes.c_bool, "c": ctypes.c_char, "b": ctypes.c_byte, "B": ctypes.c_ubyte,
    "h": ctypes.c_short, "H": ctypes.c_ushort, "i": ctypes.c_int, "I": ctypes.c_uint,
    "q": ctypes.c_longlong, "Q": ctypes.c_ulonglong, "l": ctypes.c_long, "L": ctypes.c_ulong,
    "n": ctypes.c_ssize_t, "N": ctypes.c_size_t, "f": ctypes.c_float, "d": ctypes.c_double,
    "g": ctypes.c_longdouble,
}  # fmt: skip


class Pair(ctypes.Structure):
    """The struct T{id} of the callees."""

    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_double)]


class ShortPair(Pair):
    """The same with a buffer that is too short, from Python 3.12 on."""

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(b"1")


def numpy() -> Any:
    """NumPy, None where it is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


class Scene:
    """What a step has made.

    Attributes
    ----------
    current : list
        Arguments that actions change.
    call : callable
        Calls the same callable once more, with plain arguments.
    change : list of callable
        More that actions may do, which the kind of step knows.
    """

    # Of a scene whose attributes the collector has cleared, while hooks still run.
    armed = False

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.current: list[Any] = []
        self.call: Callable[[], object] = lambda: None
        self.change: list[Callable[[], object]] = []
        self.depth = 0
        self.armed = True
        self.running = False  # C, which must find its memory where it is
        self.told: list[Any] = []  # what addresses were told of
        self.failed = False  # a function that C called
        self.junk: list[Any] = []

    def act(self) -> None:
        """Do something bad, once."""
        if not self.armed or self.depth >= DEPTH:
            return
        self.depth += 1
        try:
            for _ in range(self.r.choice((1, 1, 2))):
                self._one()
        finally:
            self.depth -= 1

    def _one(self) -> None:
        r = self.r
        which = r.randrange(12)
        try:
            if which == 0:
                self.call()
            elif which == 1:
                gc.collect(r.randrange(2))
            elif which == 2:
                raise Planned("of a hook")
            elif which == 3:
                time.sleep(0)
            elif which == 4:
                self.current.clear()
                self._fill()
            elif which == 5 and self.change:
                r.choice(self.change)()
            else:
                for one in list(self.current):
                    self.spoil(one)
                self._fill()
        except Planned:
            raise
        except Exception:
            pass

    def _fill(self) -> None:
        """Take the memory that was just freed."""
        self.junk = [bytes(n) for n in range(8, 120, 8)] + [(i,) * 3 for i in range(8)]

    def spoil(self, one: Any) -> None:
        """Change one object as much as it lets itself be changed."""
        r = self.r
        try:
            if isinstance(one, bytearray):
                r.choice([one.clear, lambda: one.extend(b"x" * 4096), lambda: one.__init__(1)])()
            elif isinstance(one, array.array):
                r.choice([lambda: one.__delitem__(slice(None)), lambda: one.extend(one)])()
            elif isinstance(one, memoryview):
                one.release()
            elif isinstance(one, mmap.mmap):
                r.choice([one.close, lambda: one.resize(8192)])()
            elif isinstance(one, list):
                for item in one:
                    self.spoil(item)
                r.choice([one.clear, lambda: one.append(one), one.pop])()
            elif isinstance(one, dict):
                r.choice([one.clear, lambda: one.update(z=1), lambda: one.pop(next(iter(one)))])()
            elif isinstance(one, ctypes._Pointer):
                one.contents = type(one)._type_()
            elif isinstance(one, ctypes.Array):
                # An array interface has told an address, which nobody can look at again.
                if not self.running and not any([one is other for other in self.told]):
                    ctypes.resize(one, min(ctypes.sizeof(one) * 64, 1 << 20))
            elif isinstance(one, Pair):
                if self.running or r.random() < 0.5:
                    one.a = 7
                else:
                    ctypes.resize(one, 4096)
            elif isinstance(one, (ctypes.c_void_p, ctypes.c_char_p)):
                one.value = None
            elif hasattr(one, "close"):
                one.close()
            elif isinstance(one, Hostile):
                one.turn()
        except (BufferError, ValueError, TypeError, AttributeError, OSError, SystemError):
            pass

    def left_exported(self) -> list[Any]:
        """What cannot be resized any more, though nobody should look into it."""
        found = []
        for one in self.current:
            try:
                if isinstance(one, (bytearray, array.array)):
                    one.append(0)
            except BufferError:
                found.append(one)
        return found


class Hostile:
    """Base of objects with hooks; `value` is what they honestly are."""

    def __init__(self, scene: Scene, value: Any) -> None:
        self.scene = scene
        self.value = value

    def turn(self) -> None:
        """Become something else, with other hooks or none."""
        cls = type(self)
        for name in ("__index__", "__float__", "__getitem__", "__len__"):
            if name in cls.__dict__ and self.scene.r.random() < 0.3:
                delattr(cls, name)
                break
        else:
            self.__class__ = Other
            self.__dict__.clear()


class Other(Hostile):
    """What others turn into."""


def _answer(scene: Scene, value: Any) -> Any:
    """What a hook returns: mostly the truth, after something bad."""
    scene.act()
    if scene.r.random() < 0.08:
        return scene.r.choice([None, "x", 1.5, 2**70, -1, float("nan"), (), object(), True])
    return value


def number(scene: Scene, value: Any) -> Any:
    """A number with hooks."""

    def index(self: Any) -> Any:
        return _answer(scene, int(value.real))

    def real(self: Any) -> Any:
        return _answer(scene, float(value.real))

    hooks = {
        "__index__": index,
        "__float__": real,
        "__complex__": lambda self: _answer(scene, complex(value)),
        "__bool__": lambda self: _answer(scene, bool(value)),
        "__int__": index,
        "__eq__": lambda self, other: _answer(scene, False),
        "__hash__": lambda self: _answer(scene, 5),
    }
    r = scene.r
    wanted = {name: hook for name, hook in hooks.items() if r.random() < 0.8}
    base = r.choice([Hostile, Hostile, Hostile, int, float, complex])
    if base is Hostile:
        return type("Number", (Hostile,), wanted)(scene, value)
    try:
        return type("Number", (base,), wanted)(value.real if base is not complex else value)
    except (TypeError, ValueError):
        return value


def sequence(scene: Scene, items: list[Any]) -> Any:
    """A sequence with hooks, or a list or tuple of a class with hooks."""
    r = scene.r

    def iterate(self: Any) -> Any:
        scene.act()
        for item in items:
            scene.act()
            yield item

    hooks = {
        "__len__": lambda self: _answer(scene, len(items)),
        "__getitem__": lambda self, i: _answer(scene, items[i]),
        "__iter__": iterate,
    }
    base = r.choice([Hostile, list, tuple])
    wanted = {name: hook for name, hook in hooks.items() if r.random() < 0.8}
    cls = type("Sequence", (base,), wanted)
    return cls(scene, items) if base is Hostile else cls(items)


def mapping(scene: Scene, items: dict[str, Any]) -> Any:
    """A mapping with hooks, whose keys have hooks as well."""
    r = scene.r
    keys = [key(scene, name) if r.random() < 0.3 else name for name in items]
    known = dict(items)

    def get(self: Any, name: Any) -> Any:
        return _answer(scene, known[str(name)])

    def names(self: Any) -> Any:
        scene.act()
        return iter(keys)

    hooks = {"keys": names, "__getitem__": get, "__len__": lambda self: _answer(scene, len(keys))}
    base = r.choice([Hostile, dict])
    cls = type("Mapping", (base,), hooks)
    return cls(scene, items) if base is Hostile else cls(items)


def key(scene: Scene, name: str) -> str:
    """A str that compares with hooks."""

    def equal(self: Any, other: object) -> bool:
        scene.act()
        return str.__eq__(self, other)

    def hashed(self: Any) -> int:
        scene.act()
        return str.__hash__(self)

    def text(self: Any) -> str:
        scene.act()
        return str.__str__(self)

    return type("Key", (str,), {"__eq__": equal, "__hash__": hashed, "__str__": text})(name)


def exporter(scene: Scene, target: Any) -> Any:
    """An object that stands for another: as a buffer, an array interface, a parameter."""
    r = scene.r
    kept: list[Any] = []

    def buffer(self: Any, flags: int) -> memoryview:
        scene.act()
        return memoryview(target)

    def release(self: Any, view: memoryview) -> None:
        scene.act()

    def interface(self: Any) -> Any:
        scene.act()
        np = numpy()
        if np is None:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of formats of ctypes
            kept.append(np.asarray(target))  # the address is that of its memory
        scene.told += [target, getattr(target, "obj", None)]
        return kept[-1].__array_interface__

    def parameter(self: Any) -> Any:
        scene.act()
        return target

    def anything(self: Any, name: str) -> Any:
        scene.act()
        if r.random() < 0.5:
            raise AttributeError(name)
        return r.choice([None, target, 5, parameter, ()])

    def call() -> Any:
        # C calls this, which must find its memory where it is.
        before, scene.running = scene.running, True
        try:
            return _answer(scene, 1.0)
        finally:
            scene.running = before

    hooks: dict[str, Any] = {
        "__buffer__": buffer,
        "__release_buffer__": release,
        "__array_interface__": property(interface),
        "_as_parameter_": property(parameter),
        "__class__": property(lambda self: _answer(scene, type(target))),
        "__getattr__": anything,
        "__del__": lambda self: scene.act(),
        "__call__": lambda self, *args: call(),
        "__name__": property(lambda self: _answer(scene, "name")),
        "dtype": property(lambda self: _answer(scene, r.choice([None, Pair, "d"]))),
        "ndim": property(lambda self: _answer(scene, 0)),
        "_fields_": [("a", ctypes.c_int), ("b", ctypes.c_double)],
        "_b_base_": None,
    }
    wanted = {name: hook for name, hook in hooks.items() if r.random() < 0.5}
    # Exceptions of these come out of nothing that could be caught.
    if "__del__" in wanted or "__release_buffer__" in wanted:
        quiet = scene.act

        def act() -> None:
            with contextlib.suppress(Planned):
                quiet()

        wanted = {
            **wanted,
            **({"__del__": lambda self: act()} if "__del__" in wanted else {}),
            **(
                {"__release_buffer__": lambda self, view: act()}
                if "__release_buffer__" in wanted
                else {}
            ),
        }
    return type("Exporter", (Hostile,), wanted)(scene, target)


# -- plain values --------------------------------------------------------------------------------


def scalar(r: random.Random, code: str) -> Any:
    """A number that every type of its kind holds exactly, also after a way through others."""
    if code == "?":
        return r.random() < 0.5
    if code in COMPLEX:
        return complex(r.randrange(100) / 2, r.randrange(100) / 2)
    if code in FLOATS:
        return r.randrange(100) / 2
    return r.randrange(100)


def packed(code: str, value: Any) -> bytes:
    """The bytes that the callees log for a scalar."""
    if code in COMPLEX:
        form = "f" if code == "Zf" else "d"
        return struct.pack(f"={form}{form}", value.real, value.imag)
    return struct.pack("=" + FORMATS[code], value)


def memory(r: random.Random, code: str, count: int, scene: Scene) -> Any:
    """Something writable with room for `count` items of a scalar type, or a pointer to it."""
    np = numpy()
    size = 16 if code in ("g", "Zd") else 32 if code == "Zg" else 8 if code == "Zf" else None
    if size is None:
        size = struct.calcsize("=" + FORMATS[code])
    choices = ["bytearray", "mmap", "memoryview"] if code in "bB" else []
    if code in CTYPES:
        choices += ["ctypes array", "ctypes pointer", "byref", "cast memory"]
    if code in "bBhHiIlLqQfd":
        choices += ["array"]
    if np is not None and code != "c":
        choices += ["numpy"]
    which = r.choice(choices or ["bytearray"])
    if which == "bytearray":
        made: Any = bytearray(size * count)
    elif which == "mmap":
        made = mmap.mmap(-1, max(size * count, 1))
    elif which == "memoryview":
        made = memoryview(bytearray(size * count))
    elif which == "cast memory" and code in "?cbBhHiIlLqQfd":
        made = memoryview(bytearray(size * count)).cast(code)
    elif which == "ctypes array":
        made = (CTYPES[code] * count)()
    elif which == "ctypes pointer":
        made = ctypes.pointer(CTYPES[code]())
        if count > 1:
            made = ctypes.cast((CTYPES[code] * count)(), ctypes.POINTER(CTYPES[code]))
    elif which == "array":
        made = array.array(code, bytes(size * count))
    elif which == "numpy":
        dtype = {"Zf": "F", "Zd": "D", "Zg": "G"}.get(code, code)
        dtype = {"n": np.intp, "N": np.uintp, "c": "b"}.get(dtype, dtype)
        made = np.zeros(count, dtype)
    else:
        made = (CTYPES[code] * count)() if code in CTYPES else bytearray(size * count)
    scene.current.append(made)
    if which == "byref" and count == 1 and code in CTYPES:
        held = CTYPES[code]()
        scene.current.append(held)
        made = ctypes.byref(held)
    return made


def recursion_room() -> None:
    """Fail with RecursionError well before the C stack ends."""
    sys.setrecursionlimit(400)
