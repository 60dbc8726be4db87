"""Conversions of arguments and results whose hooks change what other arguments refer to.

Each callee is compiled C that reads all the memory that it is given, calls the functions that it is
given, and then logs the scalars, so that a call says what C saw. A hostile object may refuse, raise
or give its honest value; what C saw must be that value, buffers must be free again after the call,
and references as many as before.
"""

from __future__ import annotations

import array
import ctypes
import gc
import random
import sys
from typing import Any

import hostility
from driver import Finding, Tools, expected
from hostility import Pair, Scene

EXPECTED = (KeyError, AttributeError, IndexError, StopIteration, ArithmeticError, LookupError)
GROWTH = 2000
WARM = 2500  # until then callees and ways to call them are met for the first time
# Every other step or so brings a new signature, whose types and code the caches keep up to their
# bounds: 86 references a step, on average.
REFERENCES = 120
FUNCTIONS = 96

C_TYPES = {
    "?": "_Bool", "c": "char", "b": "int8_t", "B": "uint8_t", "h": "int16_t", "H": "uint16_t",
    "i": "int", "I": "unsigned", "l": "long", "L": "unsigned long", "q": "int64_t",
    "Q": "uint64_t", "n": "intptr_t", "N": "uintptr_t", "e": "uint16_t", "f": "float",
    "d": "double", "g": "long double", "Zf": "float _Complex", "Zd": "double _Complex",
    "Zg": "long double _Complex",
}  # fmt: skip
SCALARS = [code for code in C_TYPES if code != "e"]
# What the callees take, and what C calls it; scalars and pointers to each beside.
OTHERS = {
    "P": "void *", "&P": "void **", "&&d": "double **", "&(4)d": "double *",
    "T{i:a:d:b:}": "Pair", "&T{i:a:d:b:}": "Pair *", "=T{b:a:d:b:}": "Packed",
    "T{(3)d:x:i:n:}": "Arrays", "T{&d:p:q:n:}": "Pointing", "T{T{i:a:d:b:}:p:X{d:d}:f:}": "Nested",
    "T{O:o:d:x:}": "Holding", "X{d:d}": "function", "[1]d": "intptr_t *", "[2]i": "intptr_t *",
    "[1]T{i:a:d:b:}": "intptr_t *", "O": "void *",
}  # fmt: skip
PRELUDE = """
#include <complex.h>
#include <stdint.h>
#include <string.h>
typedef double (*function)(double);
typedef struct { int a; double b; } Pair;
typedef struct __attribute__((packed)) { int8_t a; double b; } Packed;
typedef struct { double x[3]; int n; } Arrays;
typedef struct { double *p; int64_t n; } Pointing;
typedef struct { Pair p; function f; } Nested;
typedef struct { void *o; double x; } Holding;
char nc_log[1024];
static __thread unsigned char sink;
static void touch(const void *p, size_t n)
{
    if (p == 0) return;
    const volatile unsigned char *at = p;
    for (size_t i = 0; i < n; i++) sink += at[i];
}
static void view(const intptr_t *v, int ndim, size_t size)
{
    if (v == 0) return;
    intptr_t rows = ndim == 2 ? v[1] : 1, columns = ndim == 2 ? v[2] : v[1];
    for (intptr_t i = 0; i < rows; i++)
        for (intptr_t j = 0; j < columns; j++)
            touch((char *)v[0] + (ndim == 2 ? i * v[3] + j * v[4] : j * v[2]), size);
}
static void call(function f) { if (f) f(1.0); }
static void note(int i, const void *p, size_t n) { memcpy(nc_log + 32 * i, p, n); }
double identity(double x) { return x; }
int variadic(int n, ...) { return n; }
"""


def _types() -> list[str]:
    return [*SCALARS, *["&" + code for code in SCALARS], *OTHERS]


def functions() -> list[list[str]]:
    """The argument types of each callee: one of each, then random ones."""
    r = random.Random(0)
    everything = _types()
    single = [[code] for code in everything]
    weighted = [*everything, *[code for code in OTHERS for _ in range(3)]]
    more = [[r.choice(weighted) for _ in range(r.randrange(2, 7))] for _ in range(FUNCTIONS)]
    return single + more


def _c(code: str) -> str:
    if code in OTHERS:
        return OTHERS[code]
    return C_TYPES[code[1:]] + " *" if code[0] == "&" else C_TYPES[code]


def SOURCE() -> str:
    """C of the callees."""
    lines = [PRELUDE]
    for number, codes in enumerate(functions()):
        before, calls, after = [], [], []
        for i, code in enumerate(codes):
            if code in OTHERS:
                if code == "&(4)d":
                    before.append(f"touch(a{i}, 32);")
                elif code == "&T{i:a:d:b:}":
                    before.append(f"touch(a{i}, 16);")
                elif code in ("&P", "&&d"):
                    before.append(f"touch(a{i}, 8);")
                elif code == "O":
                    before.append(f"touch(a{i}, 16);")
                elif code == "T{&d:p:q:n:}":
                    before.append(f"touch(a{i}.p, 8);")
                elif code == "T{O:o:d:x:}":
                    before.append(f"touch(a{i}.o, 16);")
                elif code == "T{T{i:a:d:b:}:p:X{d:d}:f:}":
                    calls.append(f"call(a{i}.f);")
                elif code == "X{d:d}":
                    calls.append(f"call(a{i});")
                elif code[0] == "[":
                    size = {"d": 8, "i": 4}.get(code[-1], 16)
                    before.append(f"view(a{i}, {code[1]}, {size});")
                elif code == "T{i:a:d:b:}":
                    after.append(f"note({i}, &a{i}.a, 4); note({i}, &a{i}.a, 4);")
                    after.append(f"memcpy(nc_log + {32 * i + 4}, &a{i}.b, 8);")
            elif code[0] == "&":
                before.append(f"touch(a{i}, sizeof *a{i});")
            elif code == "g":
                after.append(f"double d{i} = a{i}; note({i}, &d{i}, 8);")
            elif code == "Zg":
                after.append(f"double d{i}[2] = {{creall(a{i}), cimagl(a{i})}};")
                after.append(f"note({i}, d{i}, 16);")
            else:
                after.append(f"note({i}, &a{i}, sizeof a{i});")
        head = ", ".join(f"{_c(code)} a{i}" for i, code in enumerate(codes))
        body = " ".join([*before, *calls, *before, *after])
        lines.append(f"int f{number}({head}) {{ {body} return {number}; }}")
    return "\n".join(lines)


def missing() -> str | None:
    return None


class World:
    """The callees."""

    def __init__(self, tools: Tools) -> None:
        import nativecall as nc

        self.nc = nc
        self.lib = nc.load(tools.library("conversions"))
        loaded = ctypes.CDLL(str(tools.library("conversions")))
        self.log = (ctypes.c_char * 1024).in_dll(loaded, "nc_log")
        self.signatures = functions()
        self.identity = self.lib.function("identity", "d:d")
        self.thing: Any = None
        hostility.recursion_room()
        self.ffi = __import__("cffi").FFI()
        self.ffi.cdef("typedef struct { int a; double b; } Pair;")


def make(tools: Tools) -> World:
    return World(tools)


class Thing:
    """What object arguments get: references to it are counted."""


def step(world: World, r: random.Random) -> None:
    world.thing = Thing()
    usual = sys.getrefcount(world.thing)
    which = r.random()
    try:
        (_arguments if which < 0.75 else _result if which < 0.9 else _options)(world, r)
    except (*expected(sys.modules[__name__]), RuntimeError) as error:
        if type(error) is RuntimeError and "closed" not in str(error):
            raise
        error.__traceback__ = None
    if sys.getrefcount(world.thing) != usual:
        gc.collect()
        count = sys.getrefcount(world.thing)
        if count != usual:
            raise Finding(f"{count} references to an object, not {usual}")


# -- arguments -----------------------------------------------------------------------------------


def _pair(world: World, scene: Scene) -> tuple[Any, bytes | None]:
    """A struct of an int and a double, in any form."""
    r = scene.r
    a, b = r.randrange(100), r.randrange(100) / 2
    x: Any = hostility.number(scene, a) if r.random() < 0.4 else a
    y: Any = hostility.number(scene, b) if r.random() < 0.4 else b
    data = hostility.packed("i", a) + hostility.packed("d", b)
    which = r.randrange(10)
    np = hostility.numpy()
    if which == 0:
        value: Any = (x, y)
    elif which == 1:
        value = [x, y]
    elif which == 2:
        value = {"a": x, "b": y}
    elif which == 3:
        value = hostility.mapping(scene, {"a": x, "b": y})
    elif which == 4:
        value = hostility.sequence(scene, [x, y])
    elif which == 5:
        value = Pair(a, b)
    elif which == 6:
        value = hostility.ShortPair(a, b)
    elif which == 7:
        value = world.ffi.new("Pair *", (a, b))
        value = value if r.random() < 0.5 else value[0]
    elif which == 8 and np is not None:
        value = np.array((a, b), np.dtype([("a", "i4"), ("b", "f8")], align=True))
        value = value if r.random() < 0.5 else value[()]
    else:
        value = hostility.exporter(scene, Pair(a, b))
        data = None
    if which in (2, 3, 4, 9) or not isinstance(x, int) or not isinstance(y, float):
        # A hook may answer with something else that fits.
        data = None
    scene.current.append(value)
    return value, data


def _function(world: World, scene: Scene) -> Any:
    """What a function-pointer argument takes, or something like it."""
    r, nc = scene.r, world.nc

    def run(x: float) -> Any:
        if scene.failed:
            return x  # of two functions that raise in one call, the second one's is reported
        scene.running = True
        try:
            scene.act()
        except BaseException:
            scene.failed = True
            raise
        finally:
            scene.running = False
        return x

    which = r.randrange(9)
    if which == 0:
        return world.identity
    if which == 1:
        return world.identity.builtin
    if which == 2:
        made = nc.callback("d:d", run)
        scene.current.append(made)
        scene.change.append(made.close)
        return made
    if which == 3:
        # ctypes has nobody to raise an exception to.
        return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x)
    if which == 4:
        f = nc.wrap({"f:f": world.lib.address("identity"), "d:d": world.identity})
        scene.change.append(lambda: f.add("q:q", world.identity.address()))
        return f
    if which == 5:
        return hostility.exporter(scene, run)
    if which == 6:
        f = nc.wrap({"f:f": world.lib.address("identity")})

        def hook(f: Any, signature: str) -> Any:
            scene.act()
            return world.identity if signature == "d:d" else None

        f.specialize = hook
        return f
    if which == 7:
        return None
    return run


def _value(world: World, scene: Scene, code: str) -> tuple[Any, bytes | None]:
    """An argument, and the bytes that C then sees, where they are known."""
    r = scene.r
    if code in C_TYPES:
        value = hostility.scalar(r, code)
        if code == "c" and r.random() < 0.5:
            return bytes([value]), bytes([value])
        if r.random() < 0.6:
            return hostility.number(scene, value), None
        return value, hostility.packed(code, value)
    if code == "T{i:a:d:b:}":
        return _pair(world, scene)
    if code == "X{d:d}":
        return _function(world, scene), None
    if code == "O":
        return r.choice([world.thing, hostility.number(scene, 1), scene.current]), None
    value = _aggregate(world, scene, code)
    if r.random() < 0.15:
        value = hostility.exporter(scene, value)
    return value, None


def _aggregate(world: World, scene: Scene, code: str) -> Any:
    r = scene.r

    def part(code: str) -> Any:
        return _value(world, scene, code)[0]

    if code == "=T{b:a:d:b:}":
        return r.choice([tuple, list])([part("b"), part("d")])
    if code == "T{(3)d:x:i:n:}":
        items = [part("d") for _ in range(3)]
        inner = r.choice(
            [items, tuple(items), hostility.sequence(scene, items), array.array("d", [1, 2, 3])]
        )
        scene.current.append(inner)
        return r.choice([(inner, part("i")), {"x": inner, "n": part("i")}])
    if code == "T{&d:p:q:n:}":
        return r.choice([tuple, list])([part("&d"), part("q")])
    if code == "T{T{i:a:d:b:}:p:X{d:d}:f:}":
        return r.choice([tuple, list])([part("T{i:a:d:b:}"), part("X{d:d}")])
    if code == "T{O:o:d:x:}":
        return r.choice([tuple, list])([world.thing, part("d")])
    if code == "P":
        return r.choice([None, part("&d"), bytearray(8), ctypes.c_void_p(0), part("&b")])
    if code in ("&P", "&&d"):
        pointer = ctypes.POINTER(ctypes.c_double)
        kind = ctypes.c_void_p if code == "&P" else pointer
        made: Any = r.choice([lambda: ctypes.pointer(kind()), kind * 2])()
        scene.current.append(made)
        return r.choice([None, made, ctypes.byref(kind()), ctypes.c_void_p(), made])
    if code == "&(4)d":
        return hostility.memory(r, "d", 4, scene)
    if code == "&T{i:a:d:b:}":
        made = r.choice([lambda: ctypes.pointer(Pair()), Pair * 2, Pair])()
        scene.current.append(made)
        cffi_pointer = world.ffi.new("Pair *")
        return r.choice([made, made, cffi_pointer, None, bytearray(16)])
    if code[0] == "[":
        np = hostility.numpy()
        item = code[3:]
        if np is None:
            made = array.array("d", [1, 2, 3])
        elif item == "d":
            made = r.choice([np.zeros(5), np.zeros(9)[::2], np.zeros(4)[::-1], np.zeros(0)])
        elif item == "i":
            made = r.choice([np.zeros((2, 3), "i4"), np.zeros((4, 4), "i4").T[::2]])
        else:
            made = np.zeros(3, np.dtype([("a", "i4"), ("b", "f8")], align=True))
        if item == "d" and r.random() < 0.4:
            made = r.choice([array.array("d", [1, 2]), memoryview(array.array("d", [1, 2, 3]))])
        scene.current.append(made)
        return r.choice([made, made, made, None])
    if r.random() < 0.1:
        return None
    return hostility.memory(r, code[1:], r.choice((1, 1, 3)), scene)


def _plain(world: World, r: random.Random, code: str) -> Any:
    """A harmless value."""
    if code in C_TYPES:
        return hostility.scalar(r, code)
    return {
        "T{i:a:d:b:}": (1, 2.0), "=T{b:a:d:b:}": (1, 2.0), "T{(3)d:x:i:n:}": ((1, 2, 3), 4),
        "T{&d:p:q:n:}": (None, 0), "T{T{i:a:d:b:}:p:X{d:d}:f:}": ((1, 2.0), None),
        "T{O:o:d:x:}": (world.thing, 1.0), "O": world.thing,
    }.get(code)  # fmt: skip


def _callable(world: World, scene: Scene, number: int, codes: list[str]) -> Any:
    """A callable of a callee, and how to call it."""
    r, nc = scene.r, world.nc
    text = "i:" + "".join(codes)
    named = r.random() < 0.2
    f = world.lib.function(f"f{number}", text)
    options: dict[str, Any] = {}
    holds = any(code in ("O", "T{O:o:d:x:}") for code in codes)
    if not holds and r.random() < 0.3:
        options["gil"] = "release"
        f = nc.wrap(f.address(), text, owner=f, **options)
    way = r.randrange(8)
    if way == 0:
        f._unwrap()
    if way in (1, 2):
        other = "i:" + "".join(codes[:-1] + ["d" if codes[-1] != "d" else "P"])
        if nc.wrap(f.address(), other).signatures != f.signatures:
            g = nc.wrap({text: f.address()}, **options)
            scene.change.append(lambda: g.add(other, world.identity.address()))
            scene.change.append(lambda: g.add(text, f.address(), replace=True, **options))
            f = nc.wrap({text: f.address(), "i:PPPPPPPPP": f.address()}) if way == 1 else g
    scene.change.append(lambda: f.add("v:" + "i" * r.randrange(20), f.address(text)))
    if named and hasattr(nc, "Signature"):
        scene.change.append(world.lib.close if r.random() < 0.0 else gc.collect)
    if way == 3:
        return f.builtin
    if way == 4:

        def bind_one(*args: Any) -> Any:
            bound = f.bind(*args[:1])
            # Whoever binds memory vouches for it: it must stay where it is from then on.
            before, scene.running = scene.running, True
            try:
                return bound(*args[1:])
            finally:
                scene.running = before
                del (
                    bound
                )  # it keeps what it was given, and an exception's traceback keeps this frame

        return bind_one
    if way == 5:
        return lambda *args: f.bind(*args)()
    return f


def _arguments(world: World, r: random.Random) -> None:
    number = r.randrange(len(world.signatures))
    codes = world.signatures[number]
    scene = Scene(r)
    f = _callable(world, scene, number, codes)
    pairs = [_value(world, scene, code) for code in codes]
    harmless = [_plain(world, r, code) for code in codes]

    def call() -> Any:
        """A call from a hook, which may run when C has returned: the log stays the outer call's."""
        seen = world.log.raw
        try:
            return f(*harmless)
        finally:
            world.log.raw = seen

    scene.call = call
    values = [value for value, _ in pairs]
    ctypes.memset(world.log, 0xA5, 1024)
    answer = None
    try:
        answer = f(*values)
        log = bytes(world.log)
    finally:
        # What is raised keeps nothing that was converted.
        scene.armed = False
        exported = scene.left_exported()
        kinds = {type(one) for one in [*values, *_flat(values)]}
        if exported and memoryview not in kinds and not _exports(values):
            sys.exc_info()
            gc.collect()
            again = scene.left_exported()
            if again:
                raise Finding(f"{codes}: exported after the call: {again!r:.200}")
    if answer != number:
        raise Finding(f"f{number} {codes} returned {answer!r}")
    for i, (value, data) in enumerate(pairs):
        if data is None:
            continue
        right = [data]
        if isinstance(value, hostility.Pair):
            # A hook of another argument may have written to it before it was copied.
            right.append(hostility.packed("i", 7) + data[4:])
        if log[32 * i : 32 * i + len(data)] not in right:
            raise Finding(
                f"argument {i} of {codes}: C saw {log[32 * i :][: len(data)]!r}: {data!r}"
            )


def _flat(values: Any) -> list[Any]:
    """What tuples and lists among the values hold, those in them too."""
    found = []
    for one in values:
        if type(one) in (tuple, list):
            items = [item for item in one if item is not values][:20]
            found += [*items, *_flat(items)]
    return found


def _exports(values: Any) -> bool:
    """Whether what was passed holds buffers by itself."""
    np = hostility.numpy()
    for one in [*values, *_flat(values)]:
        if np is not None and isinstance(one, np.ndarray):
            return True
        if isinstance(one, (hostility.Hostile, ctypes._Pointer, ctypes.Array)):
            return True
    return False


# -- results -------------------------------------------------------------------------------------


def _result(world: World, r: random.Random) -> None:
    """What a Python function returns to C."""
    nc = world.nc
    scene = Scene(r)
    choices = [*SCALARS, "e", *OTHERS, "&d", "&i"]
    code = r.choice([one for one in choices if one[0] != "["])

    def run(x: int) -> Any:
        scene.act()
        return _value(world, scene, code if code != "e" else "f")[0]

    try:
        f = nc.callback(code + ":i", run)
    except nc.SignatureError:
        return
    scene.change += [f.close, lambda: nc.wrap(f.to_ctypes()), lambda: repr(f)]
    scene.call = lambda: f(1)
    try:
        for _ in range(3):
            f(1)
    finally:
        scene.armed = False
        scene.current.clear()


def _options(world: World, r: random.Random) -> None:
    """Hostile options, signatures and targets."""
    nc = world.nc
    scene = Scene(r)
    f = nc.wrap(world.identity.address(), "d:d", owner=world.lib)
    scene.change += [
        lambda: f.add("f:f", f.address("d:d")),
        lambda: f.add("d:d", f.address("d:d"), replace=True),
        lambda: setattr(f, "specialize", lambda f, text: None),
    ]
    scene.call = lambda: f(1.0)
    scene.current.append(f)
    bad: Any = r.choice([
        lambda: hostility.key(scene, "d:d"), lambda: hostility.number(scene, f.address("d:d")),
        lambda: hostility.exporter(scene, f), lambda: hostility.key(scene, "hold"),
        lambda: hostility.sequence(scene, ["d:d"]), lambda: f, lambda: None,
        lambda: hostility.mapping(scene, {"d:d": f.address("d:d"), "f:f": f}),
    ])()  # fmt: skip
    which = r.randrange(16)
    if which == 0:
        nc.wrap(bad, "d:d")
    elif which == 1:
        nc.wrap(f.address("d:d"), bad)
    elif which == 2:
        nc.wrap(bad)
    elif which == 3:
        nc.wrap(f.address("d:d"), "d:d", name=bad, doc=bad)
    elif which == 4:
        nc.wrap(f.address("d:d"), "d:d", gil=bad)
    elif which == 5:
        nc.wrap(f.address("d:d"), "d:d", errors=bad)
    elif which == 6:
        f.add(bad, f.address("d:d"))
    elif which == 7:
        f.add("f:f", bad)
    elif which == 8:
        f.convert(bad)
    elif which == 9:
        f.bind(bad)
    elif which == 10:
        f.specialize = bad
        f["d:dd"]
    elif which == 11:
        nc.callback("d:d", lambda x: x, errors=bad)(1.0)
    elif which == 12:
        nc.load(bad)
    elif which == 13:
        world.lib.function(bad, "d:d")
    elif which == 14:
        f(**{bad if isinstance(bad, str) else "x": 1.0})
    else:
        nc.extensibletype("T", (), {"__customslots__": r.choice([bad, {bad: 1}, {"a": bad}])})
