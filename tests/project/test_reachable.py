"""What Python code can reach: no wrong object, attribute or order of calls ends the process.

Everything in `nativecall` and its modules is called, set, deleted, copied and made again with
objects that are wrong for it, in a process of its own. What it raises is its own affair. Left out
are functions that take the address of memory or of code, for which the caller vouches, and the
conformance kit's modules, which look at whatever memory they are led to.
"""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import subprocess
import sys

import pytest

import nativecall as nc
from support.levels import sweep, where

# What takes addresses, or makes what is called with one. Of the package's modules, functions whose
# names begin with an underscore and those that have a parameter called `address` are left out too.
TAKES_ADDRESSES = {
    "NativeCallable": "the address of a function",
    "wrap": "the address of a function",
    "add": "the address of a function",
    "_set_entry": "the address of a function",
    "_replace": "the address of a function",
    "capsule": "the address of a function",
    "Trampoline": "the address of code",
    "ThunkSpec": "the address of code",
    "PyCallback": "the address of code",
    "Memory": "the address of memory",
    "Layout": "reads structs at addresses",
    "_take_objects": "references that memory has",
    "_put": "addresses to read and write",
    "_copy_to": "an address to write to",
    "store": "an address to write to",
    "store_scalar": "an address to write to",
    "load_scalar": "an address to read from",
    "object_as_python": "the address of an object",
    "object_with_class": "the address of an object",
    "native_object": "the address of an object",
    "object_at": "the address of an object",
    "take_object": "the address of an object",
}
# What takes the locks of LLVM and keeps them: before a fork, and at the end of Python.
TAKES_LOCKS = ("_hold", "keep_for_good")

ATTACK = r"""
import copy, faulthandler, gc, importlib, inspect, pickle, pkgutil, random, sys, types, warnings
faulthandler.enable()
warnings.simplefilter("ignore")
import array, ctypes
import nativecall as nc
import nativecall._cdecl.texts
import nativecall._types.bufferformat, nativecall._plan.rules
from nativecall import _ext as core

ADDRESSES, seed, part = set(sys.argv[1].split(",")), int(sys.argv[2]), sys.argv[3]
chance = random.Random(seed)
sys.modules["numba"] = None  # an attribute of callables imports it, for longer than all the rest
gc.collect()
gc.freeze()  # collections visit only what follows
m = nc.load("m", "double cos(double); double frexp(double, int *); double pow(double x, double y);")
f = nc.wrap({"d:d": m.cos, "d:dd": m.pow}, name="f")
g = nc.callback("d:T{di}&dX{i:i}", lambda *args: 1.0)
cos, power = m.cos, m.pow
cos(1.0), f(1.0), cos.builtin

class Evil:
    value = address = _handle = 5
    depth = 0
    def __getattr__(self, name):
        # Not without end: what asks for the elements of elements would ask for ever.
        if name.startswith("__") or self.depth > 9:
            raise AttributeError(name)
        made = Evil()
        made.depth = self.depth + 1
        return made
    def __call__(self, *args, **named): return Evil()
    def __index__(self): return 3
    def __len__(self): return 2
    def __iter__(self): return iter((1, 2))
    def __getitem__(self, key): return Evil()
    def __eq__(self, other): return True
    def __hash__(self): return 1

class Text(str): pass
class Number(int): pass

# Taken before anything is changed.
parts = [f["d:d"], f.entries, f.entries[0], cos._cif, f._overloads, g._made]
parts += [cos.builtin, cos.entries[0].owner, cos.entries[0].owner.handle, m.declarations]
parts += map(nc._cdecl.spelling.parse, ("d:d", "v:P&dT{di}."))
parts += map(nc._cdecl.spelling.parse_type, ("T{di}", "[2]d"))

def samples():
    return parts + [
        None, True, 0, -1, 3, 2**70, 1.5, float("nan"), 2j, "", "d:d", "d:dd", "T{di}", "x\0y",
        "int f(int);", "\ud800", b"", b"m", b"libm.so.6", bytearray(b"12345678"), (), (1, 2),
        (None,) * 12, [], [1.0, 2.0], {}, {"a": 1}, {"d:d": cos}, set(), object(), Evil(), Evil,
        int, type, lambda *args: None, len, print, array.array("d", [1.0] * 4),
        memoryview(b"12345678"), ctypes.c_int(5), ctypes.c_void_p(0), ctypes.py_object(3),
        Text("d:d"), Number(3), m, cos, f, g, nc.Signature, nc.wrap,
        ValueError("x"), KeyError,
        core.Stash(), iter(()), range(3),
        types.SimpleNamespace(value=5, text="d:d", args=(), result=None), ...,
    ]

def reachable():
    # (name, object) of all functions, classes and objects of modules, and of their members.
    modules = [nc, core]
    for found in pkgutil.walk_packages(nc.__path__, "nativecall."):
        name = found.name
        others = ("__main__", "_core", "._cli", ".conformance", "numba")
        if not any(word in name for word in others):
            modules.append(importlib.import_module(name))
    seen, found = set(), []
    for module in modules:
        for name, thing in sorted(vars(module).items()):
            owner = getattr(thing, "__module__", None) or ""
            ours = str(owner).startswith("nativecall") or module is core
            if id(thing) in seen or not ours or name.startswith("__"):
                continue
            seen.add(id(thing))
            found.append((name, thing))
    return found

def attempt(function, /, *args, **named):
    try:
        made = function(*args, **named)
        if isinstance(made, types.GeneratorType):
            next(made, None)
        repr(made)
        return made
    except Exception:
        return None

def arguments():
    pool = samples()
    return [chance.choice(pool) for _ in range(chance.randrange(7))]

def call(name, thing):
    if name in ADDRESSES or not callable(thing):
        return
    if isinstance(thing, types.FunctionType) and (
        name.startswith("_") or {"address", "pointer"} & {*inspect.signature(thing).parameters}
    ):
        return
    for _ in range(25):
        named = {}
        if chance.random() < 0.3:
            try:
                names = [*inspect.signature(thing).parameters]
            except (TypeError, ValueError):
                names = ["x", "signature"]
            named = {name: chance.choice(samples()) for name in names if chance.random() < 0.4}
        attempt(thing, *arguments(), **named)

def use(made):
    for name in dir(type(made)):
        if name in ADDRESSES or name in ("__class__", "__del__", "__init_subclass__"):
            continue
        if isinstance(made, core.PyCallback) and name == "__call__":
            continue  # what ctypes calls leaves exceptions for ctypes to raise
        member = attempt(getattr, made, name)
        if callable(member) and getattr(member, "__self__", None) is made:
            attempt(member)
            for _ in range(3):
                attempt(member, *arguments())

def change(made):
    names = {*dir(type(made)), *(attempt(dir, made) or ()), "value", "x", "_handle"}
    for name in sorted(names - {"__dict__"}):
        for value in chance.sample(samples(), 4):
            attempt(setattr, made, name, value)
        attempt(delattr, made, name)
    for name in sorted(vars(made)) if isinstance(getattr(made, "__dict__", None), dict) else ():
        attempt(vars(made).update, {name: chance.choice(samples())})

def calls():
    attempt(cos, 1.0), attempt(f, 1.0), attempt(f, 1.0, 2.0), attempt(g, (1.0, 2), None, None)
    attempt(nc.wrap, m, "d:d"), attempt(getattr, m, "pow")

if part == "functions":
    for name, thing in reachable():
        call(name, thing)
        if isinstance(thing, type) and name not in ADDRESSES:
            blank = attempt(object.__new__, thing) or attempt(thing.__new__, thing)
            if blank is not None and not isinstance(blank, type):
                use(blank)
                change(blank)
                for taken in (copy.copy, copy.deepcopy, pickle.dumps):
                    attempt(taken, blank)
            attempt(type, "Sub", (thing,), {"__slots__": ("a", "b")})
            attempt(type, "Sub", (thing, int), {})
            attempt(type, "Sub", (thing,), {"__new__": lambda cls, *args: 5})
    calls()
elif part == "hooks":
    for group in ("calls", "values", "objects", "interfaces"):
        for count in range(11):
            attempt(core.set_hooks, group, *[Evil()] * count)
            attempt(core.set_hooks, group, *[None] * count)
    calls()
else:
    kept = samples()
    made = [m, cos, f, g, f["d:d"], cos._cif, g._made, cos.builtin]
    made += [cos.entries[0], cos.entries[0].owner, cos.entries[0].owner.handle, core.Stash()]
    made += [nc._cdecl.spelling.parse("d:P&dT{di}"), m.declarations,
             *nc._cdecl.spelling.parse("d:P&d[2]dT{di}X{i:i}").args,
             nc._cdecl.spelling.parse_type("T{di}").fields[0]]
    made += [nc.customslots(f), nc.callback("d:d", abs), f.specialize, power.bind(1.0)]
    # What keeps code and memory there, and what that consists of.
    called = [nc.callback("d:d", abs), power.bind(1.0), cos.convert("f:f"), g]
    called.append(power.convert("d:i&d"))
    owners = [entry.owner for one in [*called, cos] for entry in one.entries]
    for one in owners:
        for name in dir(one) if len(owners) < 300 else ():
            value = attempt(getattr, one, name)
            if type(value).__module__.startswith("nativecall") and value not in owners:
                owners.append(value)
    del one, value
    for place in range(len(made) + len(owners)):
        one = (made + owners)[place]
        change(one)
        if place % 4 == 0:
            gc.collect()
        for function in called:
            attempt(function, 1.0), attempt(function, 2, array.array("d", [1.0, 2.0]))
            attempt(function, (1.0, 2), None, None)
        use(one)
        for init in (getattr(type(one), name, None) for name in ("__init__", "__setstate__")):
            for _ in range(10):
                attempt(init, one, *arguments())
        attempt(setattr, one, "__class__", nc.Callback), attempt(setattr, one, "__class__", Evil)
        attempt(copy.copy, one), attempt(copy.deepcopy, one), attempt(pickle.dumps, one)
        calls()
gc.collect()
print("survived")
"""


@pytest.mark.parametrize(
    ("part", "jit"),
    # Attributes, of which there are most, are the same without generated code.
    where(
        [(part, jit) for part in ("functions", "hooks") for jit in "10"] + [("attributes", "1")],
        lambda row: row != ("functions", "0"),
    ),
)
def test_nothing_that_python_reaches_ends_the_process(part: str, jit: str, tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ATTACK, ",".join([*TAKES_ADDRESSES, *TAKES_LOCKS]), "11", part],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "NATIVECALL_JIT": jit},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["survived"]), done.stderr[
        -3000:
    ]


LIBM = "double cos(double x); float cosf(float x); double pow(double x, double y);"


#: Calls whose messages other tests do not look at.
WRONG = {
    "nc.callback(abs)": (TypeError, "'signature' is missing: write @nativecall.callback"),
    "nc.callback(abs, 'd:d')": (TypeError, "'signature' comes first: write @nativecall"),
    "nc.wrap('d:d', m.cos)": (TypeError, "a signature must be str or Signature (got Na"),
    "m.cos.add(m.cosf, 'f:f')": (TypeError, "a signature must be str or Signature (got"),
    "m.cos.add('d:d', m.cos, replace=1)": (TypeError, "'replace' must be True or False"),
    "m.cos.add('f:f', m.cosf, replace='no')": (TypeError, "'replace' must be True or F"),
    "m.function('cos', m.cos)": (TypeError, "a signature must be str or Signature (got"),
    "m.cos.convert(m.cosf)": (TypeError, "a signature must be str or Signature (got Na"),
    "nc.load('m', 'd:d')": (nc.SignatureError, "unknown type name 'd' at column 1"),
    "nc.Signature(3)": (TypeError, "a result must be a CType (got int)"),
}


@pytest.mark.parametrize("code", WRONG)
def test_a_wrong_call_is_told_at_once(code) -> None:
    m = nc.load("m", LIBM)
    error, message = WRONG[code]
    with pytest.raises(error) as info:
        eval(code)
    assert str(info.value).startswith(message)
    assert m.cos.signatures == ("d:d",)
    assert m.cos(0.0) == 1.0


def test_what_is_immutable_is_not_made_again() -> None:
    signature = nc.load("m", LIBM).cos._cif.signature
    field = nc.wrap(1, "v:T{di}")._cif.signature.args[0].fields[0]
    with pytest.raises(AttributeError, match="is immutable; it is already initialised"):
        signature.__init__(signature.result, ())
    field.__init__("x", field.type, 3)
    assert (field.name, field.offset) == (None, 0)
    with pytest.raises(TypeError, match="cannot be a subclass of a CType"):
        type("Wide", (type(signature.result),), {"size": 1})
    assert signature.text == "d:d"


RELOAD = """
import importlib, os, sys, traceback
import nativecall as nc
lib = nc.load("m", "double cos(double);")
cos = lib.cos
# What is imported here is not imported by each fork.
cos.convert("f:d"), nc.wrap(cos.to_ctypes(), "d:d")

def check(name):
    try:
        importlib.reload(sys.modules[name])
    except ImportError as error:
        assert "cannot be reloaded" in str(error) or "loaded twice" in str(error), error
    assert cos(0.0) == 1.0
    assert nc.wrap(cos.to_ctypes(), "d:d")(0.0) == 1.0
    assert nc.wrap(cos.address(), "double (double)")(0.0) == 1.0
    assert nc.load("m", "double pow(double x, double y);").pow.bind(2.0)(3.0) == 8.0
    assert cos.convert("f:f")(0.0) == 1.0
    assert nc.callback("d:d", lambda x: x + 1)(2.0) == 3.0
    assert nc.wrap(cos.to_capsule())(0.0) == 1.0
    try:
        nc.wrap(cos, "w:w")
    except nc.SignatureError:
        return
    assert False, "a wrong signature was taken"

# Numba comes last: with its memory each fork takes longer.
for name in sorted(sys.argv[1:], key=lambda name: ".numba." in name):
    importlib.import_module(name)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            check(name)
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        os._exit(status)
    if os.waitpid(child, 0)[1] != 0:
        print("failed", name, flush=True)
"""


#: All that a program imports; what the command line is made of is loaded once.
MODULES = [
    module.name
    for module in pkgutil.walk_packages(nc.__path__, "nativecall.")
    if "_cli" not in module.name
    and module.name not in ("nativecall.__main__", "nativecall._core")
    and (".numba." not in module.name or importlib.util.find_spec("numba") is not None)
]


#: Modules whose objects others know by identity, and of the others by default every fourth.
KNOWN = {
    *("_callable.arguments", "_callable.callable", "_callable.hooks", "_errors"),
    *(
        "_native_objects.declared",
        "_native_objects.describing",
        "_native_objects.leaks",
        "_native_objects.root",
    ),
    *("_plan.conversionplan", "_types.ctype", "_types.derived", "_types.signature"),
    *("_values.callinterface", "_values.storage"),
}
REFUSING = [name for name in MODULES if name.partition(".")[2] in KNOWN]
OTHERS = [name for name in MODULES if name not in REFUSING]
SHARES = {"refusing": REFUSING, **{f"{n}th": OTHERS[n::4] for n in range(4)}}


@pytest.mark.parametrize("share", sweep(SHARES, "refusing", "0th"))
def test_a_module_is_reloaded_or_says_that_it_cannot_be(share, forked) -> None:
    """Each in a process of its own, a copy of one that has imported the package."""
    assert len(SHARES[share]) > 5
    assert forked(RELOAD, "nativecall", *SHARES[share], timeout=300) == ""
