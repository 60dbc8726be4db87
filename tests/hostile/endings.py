"""Interpreters that end, or fork, while callbacks live and are called.

Each step is a program of a few hostile pieces in a process of its own. It must end by itself with
status 0, and print nothing.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys

from driver import STEP_SECONDS, Finding, Tools

GROWTH = 0
SOURCE = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
typedef double (*F)(double);
double one(double x) { return x + 1; }
double apply(F f, double x) { return f(x); }
static F kept[16];
static int n_kept;
static void at_end(void) { for (int i = 0; i < n_kept; i++) kept[i](1.0); }
/* Calls f when the process ends. */
int keep(F f)
{
    if (n_kept == 0) atexit(at_end);
    if (n_kept < 16) kept[n_kept++] = f;
    return n_kept;
}
static void *forever(void *f)
{
    for (;;) { ((F)f)(1.0); usleep(50); }
    return 0;
}
static void *some(void *f)
{
    for (int i = 0; i < 2000; i++) ((F)f)(1.0);
    return 0;
}
/* A thread that calls f until the process ends, or 2000 times. */
int start(F f, int endless)
{
    pthread_t thread;
    if (pthread_create(&thread, 0, endless ? forever : some, (void *)f)) return -1;
    pthread_detach(thread);
    return 0;
}
"""
HEAD = """
import faulthandler; faulthandler.enable()
import atexit, ctypes, gc, os, random, signal, sys, threading, time, weakref
import nativecall as nc
lib = nc.load(sys.argv[1])
apply = lib.function("apply", "d:X{d:d}d")
free = lib.function("apply", "d:X{d:d}d", gil="release")
keep, start = lib.function("keep", "i:P"), lib.function("start", "i:Pi", gil="release")
sys.setswitchinterval(1e-5)
forever = []
def hold(one):
    # The object is never freed.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
    forever.append(one)
    return one
ending = []
def daemon(work):
    def run():
        try: work()
        except Exception:
            # Modules fall apart around a daemon thread.
            if not ending: raise
    threading.Thread(target=run, daemon=True).start()
def pointer(one):
    return ctypes.c_void_p(one.address())
f = nc.wrap(lib.address("one"), "d:d")
cb = hold(nc.callback("d:d", lambda x: x + 1))
"""
PIECES = {
    "daemon calls": """
def spin(cb=cb, f=f):
    while True: cb(1.0); apply(cb, 1.0); f(1.0)
for _ in range(2): daemon(spin)
""",
    "daemon makes": """
def spin(cb=cb, f=f):
    while True:
        g = nc.callback("d:d", lambda x: x); g(1.0); f.bind(1.0)(); f.to_ctypes()(1.0)
        nc.wrap({"d:d": f}).add("f:f", f.address())
daemon(spin)
""",
    "daemon compiles": """
def spin(cb=cb, f=f):
    r = random.Random(5)
    while True:
        t = "".join(r.choice("bhiqfd") for _ in range(r.randrange(1, 7)))
        nc.wrap(f.address(), "d:" + t)(*[1] * len(t)); nc.callback("d:" + t, lambda *a: 1.0)
daemon(spin)
""",
    "daemon without the GIL": """
def spin(cb=cb, f=f):
    while True: free(cb, 1.0)
for _ in range(2): daemon(spin)
""",
    "native threads": "start(pointer(cb), 1); start(pointer(cb), 1)\n",
    "native threads that end": "start(pointer(cb), 0); start(pointer(cb), 0)\n",
    "native thread of a converted callback": """
g = hold(cb.convert("d:f")); h = hold(f.convert("d:f"))
start(pointer(cb), 1)
""",
    "C at exit": "keep(pointer(cb))\n",
    "C at exit, bound": "two = hold(f.bind(1.0)); keep(pointer(hold(cb.convert('d:f'))))\n",
    "C at exit, closed": """
gone = hold(nc.callback("d:d", lambda x: x)); keep(pointer(gone)); gone.close()
""",
    "atexit calls": """
def calls():
    try: cb(1.0); apply(cb, 1.0); f(1.0); free(cb, 1.0)
    except ImportError:
        if "nativecall" in sys.modules: raise
atexit.register(calls)
""",
    "atexit makes": """
def late():
    try:
        nc.callback("d:d", lambda x: x)(1.0); nc.wrap(f.address(), "f:ff"); f.convert("f:f")(1.0)
        f.bind(1.0)(); nc.load("m").function("cos", "d:d")(1.0)
    except ImportError:
        if "nativecall" in sys.modules: raise
atexit.register(late)
""",
    "atexit threads": """
def late():
    t = threading.Thread(target=lambda: cb(1.0), daemon=True)
    try: t.start()
    except RuntimeError: pass
atexit.register(late)
""",
    "finalizers": """
class Last:
    def __init__(self): self.me = self; self.f = f; self.cb = cb; self.apply = apply
    def __del__(self): self.f(1.0); self.cb(1.0); self.apply(self.cb, 1.0)
last = Last(); sys.last_of_all = Last(); nc.last = Last()
weakref.finalize(last, cb, 1.0)
""",
    "finalizers that make": """
class Maker:
    def __init__(self): self.me = self; self.nc = nc; self.a = f.address()
    def __del__(self):
        try: self.nc.wrap(self.a, "d:d")(1.0)
        except (ImportError, TypeError, AttributeError, RuntimeError): pass
sys.maker = Maker()
""",
    "cycles": """
class Cycle: pass
for _ in range(20):
    c = Cycle(); c.c = c; c.cb = nc.callback("d:d", lambda x, c=c: x); c.box = c.cb.to_ctypes()
    c.g = c.cb.convert("f:f"); c.h = c.cb.builtin; c.cb(1.0)
""",
    "modules are cleared": """
def clear():
    for name in list(sys.modules):
        if name.startswith("nativecall"): del sys.modules[name]
atexit.register(clear)
""",
    "fork": """
pid = os.fork()
if pid == 0:
    assert cb(1.0) == 2.0 and apply(cb, 1.0) == 2.0 and f(1.0) == 2.0
    assert nc.callback("d:di", lambda x, i: x)(1.0, 2) == 1.0
    assert f.convert("f:f")(1.0) == 2.0 and f.bind(1.0)() == 2.0
    assert nc.wrap(f.address(), "d:dqfb")(1.0, 1, 1, 1) == 2.0
    if os.environ.get("HOW") == "exit": os._exit(0)
else:
    deadline = time.time() + SECONDS
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done: break
        if time.time() > deadline: os.kill(pid, signal.SIGABRT)
        time.sleep(0.005)
    if status: print("the child ended with", status, file=sys.stderr)
""",
    "fork in a callback": """
def forking(x):
    pid = os.fork()
    if pid == 0: return x
    status = os.waitpid(pid, 0)[1]
    if status: print("the child ended with", status, file=sys.stderr)
    return x
forks = nc.callback("d:d", forking)
apply(forks, 1.0)
""",
    "fork in a thread": """
def forking():
    pid = os.fork()
    if pid == 0:
        apply(cb, 1.0); free(cb, 1.0)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if status: print("the child ended with", status, file=sys.stderr)
t = threading.Thread(target=forking); t.start(); t.join()
""",
    "exit in a callback": """
def leaving(x): raise SystemExit(0)
leaves = nc.callback("d:d", leaving)
""",
    "sleep": "time.sleep(0.02)\n",
    "collect": "gc.collect()\n",
    "threads still running": """
def slow(cb=cb, f=f):
    for _ in range(50): free(cb, 1.0); time.sleep(0)
for _ in range(3): threading.Thread(target=slow).start()
""",
    "delete": "del cb, f\ngc.collect()\ncb = hold(nc.callback('d:d', lambda x: x + 1)); "
    "f = nc.wrap(lib.address('one'), 'd:d')\n",
}
TAILS = [
    "",
    "",
    "sys.exit(0)\n",
    "def leaving(x): raise SystemExit(0)\nnc.callback('d:d', leaving)(1.0)\n",
    "def leaving(x): raise SystemExit(0)\napply(leaving, 1.0)\n",
    "del lib\ngc.collect()\n",
]
FORKS = ("fork", "fork in a callback", "fork in a thread")


def missing() -> str | None:
    return None if hasattr(os, "fork") else "no fork here"


class World:
    def __init__(self, tools: Tools) -> None:
        self.library = str(tools.library("endings"))
        self.folder = tools.folder


def make(tools: Tools) -> World:
    return World(tools)


def step(world: World, r: random.Random) -> None:
    names = [r.choice(list(PIECES)) for _ in range(r.randrange(1, 5))]
    # What a child of fork inherits of other threads' locks is CPython's affair at its end.
    if any(name in FORKS for name in names):
        names = sorted(set(names), key=lambda name: name not in FORKS)
    tail = r.choice(TAILS)
    code = HEAD.replace("SECONDS", str(STEP_SECONDS - 8))
    code += "\n".join(f"# {name}\n{PIECES[name]}" for name in names).replace(
        "SECONDS", str(STEP_SECONDS - 8)
    )
    code += "atexit.register(ending.append, True)\n" + tail
    environment = {**os.environ, "HOW": r.choice(["exit", "end"]), "PYTHONWARNINGS": "ignore"}
    if r.random() < 0.2:
        environment["NATIVECALL_JIT"] = "0"
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, world.library],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
        cwd=world.folder,
        start_new_session=True,
    )
    ends = ""
    try:
        _, printed = child.communicate(timeout=STEP_SECONDS - 8)
    except subprocess.TimeoutExpired:
        # Each process of the group prints where it is.
        ends = "does not end: "
        os.killpg(child.pid, signal.SIGABRT)
        _, printed = child.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    if child.returncode or printed:
        mode = "" if environment.get("NATIVECALL_JIT") != "0" else " without generated code"
        raise Finding(
            f"{ends}status {child.returncode} of {', '.join(names)}{mode}\n{printed[:3000]}\n{code}"
        )
