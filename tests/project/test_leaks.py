"""Nothing leaks: reference counts and memory are level after many repetitions of every operation.

Each operation runs in a fork of its own: warmed up, then in three rounds. Between rounds the test
compares the reference counts of what the operation uses, the number of allocated blocks (Python's
allocator) and the bytes in use of the C allocator; on a debug build of Python, all references too.
If something grew in all three rounds, more rounds follow.
NATIVECALL_TEST_REPEAT sets the repetitions: 1,600 by default, which show one reference, one block,
or 64 bytes of C memory a repetition; 10,000 show less memory.
"""

from __future__ import annotations

import json
import os
import sys

import pytest

from support.modes import DEBUG

REPEAT = int(os.environ.get("NATIVECALL_TEST_REPEAT", "1600"))

# What the operations may use.
SETUP = """
import ctypes, gc, sys
import nativecall as nc
lib = nc.load(sys.argv[1])
m = nc.load("m")
cos, sin, square = m.address("cos"), m.address("sin"), lib.address("square")
f = nc.wrap(square, "double square(double x)", name="square")
g = lib.function("same_i16", "h:h")
strings = lib.function("length", "q:&c")
pointed = lib.function("sum", "double (const double *, ptrdiff_t)")
filled = lib.function("fill", "v:&dqd")
structs = lib.function("next_mixed", "T{b:tag:(2)T{d:x:d:y:}:at:T{f:w:h:n:}:inner:}:"
                       "T{b:tag:(2)T{d:x:d:y:}:at:T{f:w:h:n:}:inner:}")
applied = lib.function("apply", "d:X{d:d}d")
task = lib.function("run_task", "d:T{&d:x:q:n:X{d:d}:f:}")
variadic = lib.function("add_all", "d:i.")
failing = lib.function("fail_with", "i:i", errors="nonzero")
errno = lib.function("fail_with", "i:i", errors="errno")
f32, i64 = lib.address("same_f32"), lib.address("same_i64")
overloaded = nc.wrap({"d:d": square, "f:f": f32, "q:q": i64})
null = lib.function("null_unless", "&c:?")
objects = nc.wrap(ctypes.pythonapi.PyNumber_Add, "O:OO", errors="python")
view2 = lib.function("sum_view", "d:[2]d")
box = ctypes.CDLL(lib.path).square
box.argtypes, box.restype = [ctypes.c_double], ctypes.c_double
import array, cffi
lent = cffi.FFI().new("double[4]")
doubles = array.array("d", range(4))
matrix = memoryview(bytearray(64)).cast("B").cast("d", (2, 4))
mixed = (1, [(1, 2), (3, 4)], (0.5, 7))
builtin = f.builtin
single = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(lib.address("same_f32"))
numbers = array.array("i", [2, 3])
fortran = lib.function("increment", "v:&i", fortran=True)
texts = lib.function("length", "q:&c", fortran=True)
c = nc.load("c", "extern int optind; extern char *optarg; extern char *tzname[2];")
def refused(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except Exception:
        return
    raise AssertionError("accepted")
class Raising:
    def __index__(self): raise LookupError
    def __float__(self): raise LookupError
def raising(x): raise LookupError
def square_of(x): return x * x
thing = object()
typed = nc.load(None, '''
typedef struct pair { double x, y; } pair;
typedef struct entry { double (*f)(double); const char *name; struct entry *next; int n[3]; } entry;
typedef struct one one; typedef struct two two;
char *strdup(const char *); void *malloc(size_t); one *realloc(one *, size_t); void free(void *);
two *memchr(two *, int, size_t);
''', free={"strdup": "free"}, close={"realloc": "free"})
failing = nc.load(None, '''
char *strdup(const char *); void free(void *);
void *bsearch(const void *, const double *, size_t, size_t, int (*)(const void *, const void *));
''', free={"strdup": "free", "bsearch": id}, check={"strdup": raising})
power = nc.load("m", "double pow(double x, double y);").pow
import pickle
Own = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
class Task(ctypes.Structure): _fields_ = [("f", Own)]
def task_of(f): Task(f.to_ctypes()).f(1.0)
needs = nc.wrap(square, "d:d", gil="need")
several = nc.wrap({"d:d": lib.function("square", "d:d"), "f:f": lib.function("same_f32", "f:f")})
def reraised():
    with nc.reraise():
        nc.callback("d:d", raising).to_cffi()(1.0)
vector = nc.callback("d:[1]d", lambda values: values[1])
from nativecall._callable import thunk
compiled = thunk.thunk
def by_plans(): thunk.thunk = lambda made: (made.packed, False)
def by_code(): thunk.thunk = compiled
import copy
class Node(nc.NativeObject):
    x = nc.field("d")
    v = nc.field("(3)d")
    s = nc.field("T{d:a:i:b:}")
    p = nc.field("(2)&d")
    next = nc.field("Node")
    n = nc.field("q", atomic=True)
    twice = nc.method(lib.address("square"), "d:P")
    @nc.method("d:&vd")
    def plus(self, more): return self.x + more
class Twin(nc.NativeObject):
    x = nc.field("d")
    other = nc.field("Twin")
watched = (f, g, power, overloaded, lib, m, box, doubles, matrix, mixed, builtin, thing, None,
           Raising)
"""
OPERATIONS = {
    "wrap": "nc.wrap(square, 'd:d', name='n', doc='d', owner=thing)",
    "wrap a box": "nc.wrap(box); nc.wrap(f, name='other'); nc.wrap(f.builtin)",
    "wrap overloads": "nc.wrap({'d:d': square, 'f:f': cos})",
    "call": "f(2.0); f(x=2.0); f(*[2.0])",
    "call the view": "builtin(2.0); f.builtin(2.0); f.builtin",
    "call by plans": "g(5); variadic(2, 1.0, 2.0)",
    "call with pointers": "pointed(doubles, 4); filled(doubles, 4, 1.0); strings(b'text'); "
    "pointed(None, 0); pointed(ctypes.pointer(ctypes.c_double()), 1)",
    "call with pointers of cffi": "pointed(lent, 4); pointed(lent + 1, 3); "
    "applied(f.to_cffi(), 1.0)",
    "call with structs": "structs(mixed); task((doubles, 4, f)); task((None, 0, None))",
    "call with functions": "applied(f, 1.0); applied(box, 1.0); applied(None, 1.0)",
    "call with Python functions": "applied(float, 1.0)",
    "call with functions that are converted": "applied(overloaded['f:f'], 1.0); "
    "applied(single, 1.0)",
    "call Fortran": "fortran(2); fortran(numbers); refused(fortran, 2.5); refused(fortran, 'x'); "
    "refused(fortran, 2**40); refused(fortran, thing); texts('text'); texts(b'text'); "
    "refused(texts, '\\xe9'); refused(texts, ctypes.pointer(ctypes.c_char()))",
    "variables": "c.optind; c.optind = 1; c.tzname[0]; c.optarg = b'text'; c.optarg; "
    "c.optarg = None; c.tzname = [b'A', b'B']; nc.string(c.tzname[1]); "
    "refused(setattr, c, 'optind', 'x'); refused(setattr, c, 'tzname', [b'A'])",
    "call with objects": "objects(1000, 2000); objects([thing], [thing])",
    "call with views": "view2(matrix)",
    "call an overload": "overloaded(2.0); overloaded(2); overloaded(True)",
    "pointer results": "null(True); null(False)",
    "add": "h = nc.wrap(square, 'd:d'); [h.add('d:' + 'd' * n, square, owner=thing) "
    "for n in range(2, 8)]; h(1.0); h.entries; h['d:dd']",
    "replace": "h = nc.wrap(square, 'd:d'); h.builtin; "
    "h.add('d:d', cos, replace=True, owner=thing); h.add('d:d', square, replace=True); h(2.0)",
    "load": "l = nc.load('m'); l.function('cos', 'd:d')(1.0); l.close()",
    "load declarations": "l = nc.load('m', 'double cos(double); enum e {A = 1};'); l.cos(0.0); l.A",
    "bind": "power.bind(2.0)(3.0); power.bind(y=2.0)(3.0); pointed.bind(doubles)(4); "
    "task.bind((doubles, 4, f))(); refused(power.bind, 1, 'x'); "
    "refused(power.bind, 1, Raising()); refused(pointed.bind, 'x'); refused(power.bind, 1, 2, 3)",
    "bind structs": "structs.bind(mixed)()",
    "signatures": "h = f.convert('f:f'); h(1.0); h.convert('d:d').bind(1.0)(); f.convert('d:dP'); "
    "refused(g.convert('d:d'), 0.5); refused(f.convert, 'd:Zd'); overloaded.convert('d:&d')",
    "bind by plans": "by_plans(); h = power.bind(..., 2.0); h(3.0); h.convert('d:h')(3); "
    "refused(g.convert('h:d'), 0.5); structs.bind(mixed).convert('v:'); by_code()",
    "consumers' types": "f.to_ctypes(Own)(1.0); f.to_cffi('double (double)'); "
    "nc.wrap(f.to_capsule(name='')); task_of(f)",
    "needs the GIL": "needs.to_cffi()(1.0); nc.wrap(square, 'd:d', gil='need').to_ctypes()",
    "pickle": "pickle.loads(pickle.dumps([several, power.bind(2.0), "
    "nc.callback('d:d', square_of)]))",
    "reraise": "refused(reraised)",
    "array as view": "vector.convert('d:&dq')(doubles, 4)",
    "convert": "f.to_ctypes()(1.0); f.to_cffi()(1.0); f.to_capsule(); nc.wrap(f.to_capsule())",
    "boxes for SciPy": "f.to_scipy(); nc.wrap(square, 'd:dP').to_scipy(user_data=doubles); "
    "nc.wrap(square, 'd:d&d').to_scipy(user_data=doubles); nc.wrap(square, 'd:dd').to_scipy(); "
    "refused(f.to_scipy, user_data=doubles); refused(f.to_scipy, 'd:ddd')",
    "introspect": "f.signatures; f.entries; repr(f); f.__doc__; 'd:d' in f; nc.customslots(f); "
    "f['d:d']; refused(iter, f); f.__annotations__",
    "subclass": "c = type(nc.NativeCallable)('C', (nc.NativeCallable,), "
    "{'__customslots__': {'k': 1}}); c(square, 'd:d')(1.0); "
    "c.__call__ = raising; del c.__call__; gc.collect()",
    "refused calls": "refused(f); refused(f, 1, 2); refused(f, y=1); refused(f, 'x'); "
    "refused(f, 10**400); refused(f, Raising()); refused(g, 10**6); refused(g, 10**30); "
    "refused(g, Raising()); refused(overloaded, 'x'); refused(overloaded, Raising()); "
    "refused(overloaded, x=1)",
    "refused pointers": "refused(pointed, 'x', 1); refused(pointed, bytearray(3), 1); "
    "refused(pointed, memoryview(doubles)[::2], 1); refused(filled, doubles, 2**70, 1.0); "
    "refused(filled, memoryview(doubles).toreadonly(), 1, 1.0); refused(filled, doubles, 1, 'x'); "
    "refused(view2, doubles); refused(applied, 5, 1.0); refused(applied, power, 1.0)",
    "refused structs": "refused(structs, 5); refused(structs, (1, 2)); "
    "refused(structs, (1, [(1, 2), (3, 'x')], (0.5, 7))); refused(structs, {'tag': 1}); "
    "refused(task, (doubles, 4, 5)); refused(task, ('x', 4, None))",
    "failures": "refused(failing, 3); refused(errno, 2); refused(objects, 1, 'x')",
    "refused wraps": "refused(nc.wrap, 0, 'd:d'); refused(nc.wrap, square, 'd:w', owner=thing); "
    "refused(nc.wrap, square); refused(nc.wrap, {'d:d': square, 'double(double)': square}); "
    "refused(nc.wrap, box, 'f:f'); refused(nc.wrap, square, 'd:d', errors='null', owner=thing); "
    "refused(f.add, 'd:d', cos, owner=thing); refused(f.add, 'd:w', cos); "
    "refused(f.address, 'q:q'); refused(f.__getitem__, 'q:q')",
    "refused loads": "refused(nc.load, '/no/such/library.so'); refused(lib.address, 'squar'); "
    "refused(getattr, lib, 'squar')",
    "memory of types": "typed.new('pair', (1, 2)); typed.new('double[3]', doubles[:3]); "
    "e = typed.new('entry', {'f': f, 'name': b'n', 'next': {'next': (None,), 'n': [1, 2]}}); "
    "typed.new('entry *[2]', [e, None]); typed.new('entry[2]', [(square_of, b'n'), {}]); "
    "typed.asarray(e); refused(typed.new, 'entry', {'name': 'x'}); refused(typed.new, 'par'); "
    "refused(typed.new, 'one'); refused(typed.new, 'entry', {'next': {'x': 1}})",
    "members of structs": "e = typed.new('entry'); e.f = f; e.f = square_of; e.name = b'n'; "
    "e.next = e; e.next = None; e.next = typed.new('entry'); refused(setattr, e, 'name', 'x'); "
    "refused(setattr, e, 'next', 1.0); typed.new('entry *[2]', [e, e])[1].name = b'm'",
    "types by name": "typed.types.entry; typed.types['struct pair']; refused(getattr, typed.types, "
    "'pai'); typed.ffi.sizeof('entry[2]'); 'pair' in typed.types; "
    "nc.wrap(square, 'double (*)(double)', types=typed)(1.0)",
    "what is freed": "typed.strdup(b'text'); p = typed.strdup(b'text'); typed.free(p); "
    "refused(typed.free, p); typed.ffi.release(typed.strdup(b'text'))",
    "calls that raise": "refused(failing.strdup, b'text'); "
    "refused(failing.bsearch, doubles, doubles, 4, 8, raising); "
    "refused(failing.bsearch, doubles, doubles, 4, 8, 'x')",
    "handles": "p = typed.realloc(None, 8); refused(typed.memchr, p, 0, 0); typed.free(p); "
    "refused(typed.realloc, p, 9)",
    "native objects": "p = Node(1.0, s=(1, 2)); p.x = 2.0; p.v = [1, 2, 3]; p.s; "
    "p.next = Node(next=Node()); p.next.next = None; p.plus(1.0); Node.n.add(p, 1); "
    "p.name = 'name'; p.p = (None, 16); p.p; refused(setattr, p, 'p', (doubles, None)); "
    "refused(setattr, p, 'x', 'x'); refused(setattr, p, 's', (1, 'x')); "
    "refused(setattr, p, 'next', 3); refused(Node, y=1); t = Twin(1.0, Twin(2.0)); copy.copy(t); "
    "t.name = 'name'; pickle.loads(pickle.dumps(t)); copy.deepcopy(t); repr(t); "
    "refused(p.plus, 'x'); refused(Node.x.__get__, 3)",
    "atomic fields": "p = Node(); Node.n.add(p, 2**40); Node.n.exchange(p, 2**50); "
    "Node.n.compare_exchange(p, 2**50, 2**60); Node.n.compare_exchange(p, 2**50, 1); "
    "refused(Node.n.exchange, p, 'x'); refused(Node.x.exchange, p, 1.0); "
    "refused(Node.n.compare_exchange, p, 2**50, 2**70); refused(Node.n.add, 3, 1)",
    "fields that are arrays": "p = Node(v=[1, 2, 3]); p.v[0]; repr(p); copy.copy(p); "
    "p.p = [doubles.buffer_info()[0], 0]; refused(copy.copy, p)",
    "arrays of native objects": "a = nc.ObjectArray(Node, 5); list(a); a[0].x = 2.0; "
    "a[1].next = a[2]; a[4].name = 'name'; kept = a[3]; refused(a.__getitem__, 'next'); "
    "refused(a.__getitem__, 9); refused(nc.ObjectArray, int, 3); refused(nc.ObjectArray, Node, -1)",
    "columns of native objects": "a = nc.ObjectArray(Node, 5); a['x'][1] = 2.0; a['s']",
    "classes of native objects": "c = type(Node)('C', (Node,), {'y': nc.field('d'), "
    "'plus': lambda self, more: 2.0}); c(1.0).plus(1.0); c().name = 1; "
    "c.pool = nc.ObjectArray(c, 2); gc.collect(); "
    "refused(type(Node), 'C', (Node,), {'x': nc.field('d')})",
    "refused classes": "refused(nc.extensibletype, 'T', (), {'__customslots__': {'a': 'b'}}); "
    "refused(nc.extensibletype, 'T', (), {'__customslots__': {'a': 1, b'a': 2}})",
}
# How much less than REPEAT an operation runs, where one takes long.
SLOW = {
    "consumers' types": 8, "bind by plans": 8, "pickle": 8, "refused loads": 20,
    "fields that are arrays": 4,
    "boxes for SciPy": 2, "load declarations": 2, "memory of types": 2, "native objects": 2,
    "classes of native objects": 2, "refused pointers": 2, "refused wraps": 2,
}  # fmt: skip
# Operations that read C for each repetition.
READS_C = {"load declarations", "boxes for SciPy"}
# What changes the count of all references without a reference: code that is generated releases
# buffers without telling a debug build, cffi's memory of structs and its types do not tell it all,
# and NumPy's arrays come and go in code of a release build.
UNCOUNTED = {
    *("call Fortran", "memory of types", "members of structs", "what is freed", "handles"),
    "types by name",
    *("calls that raise", "consumers' types", "array as view", "fields that are arrays"),
    "columns of native objects",
}
MEASURE = """
class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]
try:
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Info
    def in_use():
        found = mallinfo2()
        return found.uordblks + found.hblkhd
except AttributeError:  # not glibc: Python's own counts must do
    def in_use():
        return 0

def check(operate, repeat, counted, reads_c):
    # All references of the process, which a debug build of Python counts. Where pycparser reads C,
    # the interpreter's cache of attributes fills with names that it composes: only what is watched
    # must be level there.
    is_debug = hasattr(sys, "gettotalrefcount")
    total = sys.gettotalrefcount if is_debug and not reads_c and counted else lambda: 0

    def measure():
        gc.collect()
        counts = [sys.getrefcount(one) for one in watched]
        blocks = 0 if is_debug and reads_c else sys.getallocatedblocks()
        return counts, blocks, in_use(), total()

    def rounds(n):
        for _ in range(n):
            operate()

    # Caches fill slowly, and empty now and then: what grows by every repetition grows in every
    # round.
    def growing():
        counts, blocks, size, totals = zip(*measured[1:])
        nones = [count[watched.index(None)] for count in counts]
        # One leaked block a repetition would be repeat // 3 of them.
        few = repeat // 6 + 10
        # Rounds of few repetitions also show what the loader and find_library keep for themselves.
        most = {"None": few, "blocks": few, "all references": few, "bytes": max(repeat * 4, 16384)}
        for (what, most), levels in zip(most.items(), (nones, blocks, totals, size)):
            if min(b - a for a, b in zip(levels, levels[1:])) >= most:
                return what, levels
        return None

    rounds(min(repeat, 1000))
    measured = [measure(), measure()]
    for n in range(40):  # ends with the first level ones
        rounds(repeat // 3)
        measured.append(measure())
        if n >= 2 and growing() is None:
            break
    for i, one in enumerate(watched):
        if one is not None:
            found = [count[0][i] for count in measured[1:]]
            assert max(found) - min(found) <= 4, (type(one), found)
    assert growing() is None, growing()

# Collections in the forks visit only what operations make.
gc.collect()
gc.freeze()
import json, os, traceback
for name, (operation, *options) in json.loads(sys.argv[2]).items():
    print(f"\\0{name}", flush=True)
    child = os.fork()
    if child == 0:
        os.dup2(1, 2)
        try:
            exec(f"def operate():\\n    {operation}")
            check(operate, *options)
            print("level", flush=True)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    if status := os.waitpid(child, 0)[1]:
        print("exit status", os.waitstatus_to_exitcode(status), flush=True)
"""


def outcomes(forked, callees, operations: dict[str, tuple[str, int, bool, bool]]) -> dict[str, str]:
    """What each operation printed, in a fork of its own of one process; "level" is good."""
    printed = forked(SETUP + MEASURE, callees, json.dumps(operations), timeout=1200)
    found = [one.partition("\n")[::2] for one in printed.split("\0")[1:]]
    return {name: text.strip() for name, text in found}


def test_level(forked, callees) -> None:
    operations = {
        name: (code, max(REPEAT // SLOW.get(name, 1), 90), name not in UNCOUNTED, name in READS_C)
        for name, code in OPERATIONS.items()
    }
    if DEBUG:  # it ends where cffi returns with an exception set
        del operations["reraise"]
    found = outcomes(forked, callees, operations)
    assert [*found] == [*operations]
    assert {name: text for name, text in found.items() if text != "level"} == {}


@pytest.mark.allocator
def test_a_leak_would_be_seen(forked, callees) -> None:
    """The measurement itself finds a reference, and a block, that is never given back."""
    leaks = {
        "object": ("globals().setdefault('kept', []).append(object())", 90),
        "reference": ("ctypes.pythonapi.Py_IncRef(ctypes.py_object(f))", 90),
        "memory": ("ctypes.pythonapi.malloc(56)", 800),
    }
    if sys.version_info < (3, 12):  # None is immortal since
        leaks["None"] = ("ctypes.pythonapi.Py_IncRef(ctypes.py_object(None))", 90)
    found = outcomes(forked, callees, {name: (*leak, True, False) for name, leak in leaks.items()})
    assert [*found] == [*leaks]
    for name, text in found.items():
        assert "AssertionError: (" in text, (name, text)
