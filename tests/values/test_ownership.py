"""Who owns a Python object that passes between Python and C, in every place where one can.

The rule, as docs/abi/provide.md has it: arguments are borrowed by who is called, results are new
references of who called; what stands in a struct or an array by value follows what holds it. Memory
behind a pointer belongs to who wrote it, and nobody here counts for it. Each cell of the table runs
many times, with generated code and without, in a process of its own; afterwards the objects
must have as many references as before.
"""

import sysconfig

import pytest

from support.modes import GENERATED

SOURCE = """
#include <Python.h>
typedef struct { PyObject *o; double d; } Pair;
typedef struct { Pair pairs[2]; int n; PyObject *last[3]; } Nest;
PyObject *same(PyObject *o) { return Py_NewRef(o); }
PyObject *no_object(PyObject *o) { (void)o; return NULL; }
PyObject *failing(PyObject *o) { PyErr_SetObject(PyExc_LookupError, o); return NULL; }
PyObject *later(PyObject *o, int n) { (void)n; return Py_NewRef(o); }
PyObject *member(Pair p) { return Py_NewRef(p.o); }
double number(Pair p) { return p.d; }
Pair pair(PyObject *o, double d) { Pair p = {Py_NewRef(o), d}; return p; }
Pair empty(void) { Pair p = {NULL, 1.0}; return p; }
Pair same_pair(Pair p) { Py_INCREF(p.o); return p; }
PyObject *third(Nest n) { return Py_NewRef(n.last[2]); }
Nest nest(PyObject *o)
{
    Nest n = {{{Py_NewRef(o), 1}, {Py_NewRef(o), 2}}, 3,
              {Py_NewRef(o), Py_NewRef(o), Py_NewRef(o)}};
    return n;
}
int write_new(PyObject *o, PyObject **out) { *out = Py_NewRef(o); return 0; }
PyObject *read_at(PyObject *const *from) { return Py_NewRef(*from); }
double read_pair(const Pair *p) { return p->d; }
PyObject *apply(PyObject *(*f)(PyObject *), PyObject *o) { return f(o); }
int apply_and_drop(PyObject *(*f)(PyObject *), PyObject *o)
{
    PyObject *found = f(o);
    int given = found != NULL;
    Py_XDECREF(found);
    return given;
}
int apply_pair(Pair (*f)(PyObject *), PyObject *o)
{
    Pair found = f(o);
    int given = found.o != NULL;
    Py_XDECREF(found.o);
    return given;
}
double give_pair(double (*f)(Pair), PyObject *o) { Pair p = {o, 2.0}; return f(p); }
double give_none(double (*f)(Pair)) { Pair p = {NULL, 2.0}; return f(p); }
int give_array(int (*f)(PyObject **), PyObject *o) { PyObject *two[2] = {o, o}; return f(two); }
int give_null(int (*f)(PyObject *)) { return f(NULL); }
typedef PyObject *(*Same)(PyObject *);
Same chosen(void) { return same; }
PyObject *through(Same (*f)(void), PyObject *o)
{
    Same found = f();
    return found == NULL ? Py_NewRef(Py_None) : found(o);
}
"""

CELLS = '''
import ctypes, gc, sys
import nativecall as nc

class Thing:
    pass

class Evil:
    """Fails as an integer."""
    def __index__(self):
        raise LookupError

thing, other = Thing(), Thing()
lib = nc.load(sys.argv[1])
P, N = "T{Od}", "T{(2)T{Od}i(3)O}"

def declared(name, signature, **options):
    return lib.function(name, signature, gil="hold", **options)

def raising(*values):
    raise LookupError

def refused(call, *arguments):
    try:
        call(*arguments)
    except (LookupError, ValueError, TypeError, SystemError, RuntimeError, nc.NativeFailure):
        return
    raise AssertionError("accepted")

class Holder(ctypes.Structure):
    _fields_ = [("o", ctypes.py_object), ("d", ctypes.c_double)]

def pointer(callback):
    """Its address: what needs the GIL is refused where C code does not say that it has it."""
    return ctypes.c_void_p(callback.address())

# What follows from an exception that is raised.
sys.unraisablehook = lambda report: None

def arguments():
    same, failing, null = (declared(name, "O:O") for name in ("same", "failing", "no_object"))
    later = declared("later", "O:Oi")
    yield "argument and result", lambda: same(thing)
    yield "argument of the built-in view", lambda: same.builtin(thing)
    yield "argument that fails", lambda: refused(failing, thing)
    yield "NULL without an exception", lambda: refused(null, thing)
    checked = declared("no_object", "O:O", errors="null")
    yield "NULL by convention", lambda: refused(checked, thing)
    yield "argument before one that fails", lambda: refused(later, thing, Evil())
    chosen = nc.wrap({"O:O": lib.address("same"), "d:dd": lib.address("number")}, name="chosen")
    yield "argument of an overload", lambda: chosen(thing)

def structs():
    member, number = declared("member", f"O:{P}"), declared("number", f"d:{P}")
    third, pair = declared("third", f"O:{N}"), declared("pair", f"{P}:Od")
    nest, empty = declared("nest", f"{N}:O"), declared("empty", f"{P}:")
    same, named = declared("same_pair", f"{P}:{P}"), declared("member", "O:T{O:o:d:d:}")
    yield "member of an argument", lambda: member((thing, 1.0))
    yield "member of a mapping", lambda: number({"f0": thing, "f1": 1.0})
    yield "member of ctypes' struct", lambda: named(Holder(thing, 1.0))
    yield "member before one that fails", lambda: refused(number, (thing, thing))
    yield "members of an array in an argument", lambda: third(
        ([(thing, 1.0), (other, 2.0)], 3, (other, other, thing)))
    yield "member of a result", lambda: pair(thing, 1.0)
    yield "NULL in a result", lambda: empty()
    yield "members of a nested result", lambda: nest(thing)
    yield "member of an argument and of a result", lambda: same((thing, 1.0))

def pointers():
    write, read = declared("write_new", "i:O&O"), declared("read_at", "O:&O")
    held = ctypes.py_object(other)
    def written():
        # What C wrote is a new reference, which is the memory's: it is given up with it.
        cell = ctypes.py_object()
        write(thing, ctypes.byref(cell))
        ctypes.pythonapi.Py_DecRef(cell)
    yield "object behind a pointer that is written", written
    yield "object behind a pointer that is read", lambda: read(ctypes.byref(held))
    array = (ctypes.py_object * 2)(thing, other)
    yield "object in an array behind a pointer", lambda: read(array)
    behind, holder = declared("read_pair", "d:&T{O:o:d:d:}"), Holder(thing, 2.0)
    yield "object in a struct behind a pointer", lambda: behind(ctypes.byref(holder))

def callbacks():
    use, apply = declared("apply_and_drop", "i:PO"), declared("apply", "O:PO")
    passed = declared("apply", "O:X{O:O}O")
    same = nc.callback("O:O", lambda o: o)
    closed = nc.callback("O:O", lambda o: o, errors=other)
    closed.close()
    fails = nc.callback("O:O", raising)
    lends = nc.callback("O:O", raising, errors=thing)
    yield "argument and result of a callback", lambda: same(thing)
    yield "argument and result of a callback in C", lambda: use(pointer(same), thing)
    yield "result of a callback that C returns", lambda: apply(pointer(same), thing)
    yield "callback that fails", lambda: refused(fails, thing)
    yield "callback that fails in C", lambda: refused(use, pointer(fails), thing)
    yield "sentinel", lambda: refused(lends, other)
    yield "sentinel by signature", lambda: refused(lends["O:O"], other)
    yield "sentinel in C", lambda: refused(use, pointer(lends), other)
    yield "sentinel of a closed callback", lambda: refused(closed, thing)
    yield "sentinel of a closed callback in C", lambda: refused(use, pointer(closed), thing)
    yield "Python function as an argument", lambda: passed(lambda o: o, thing)
    yield "Python function that fails", lambda: refused(passed, raising, thing)
    null = declared("give_null", "i:X{i:O}")
    yield "NULL as an argument of a callback", lambda: refused(null, lambda o: 1)
    twice = declared("give_array", "i:X{i:&(2)O}O")
    yield "objects behind a pointer of a callback", lambda: twice(lambda a: a[0] is thing, thing)
    def recursive(o):
        try:
            lends(o)
        except LookupError:
            return o
    nested = nc.callback("O:O", recursive, errors=thing)
    yield "sentinel of a callback in a callback", lambda: nested(thing)

def callback_structs():
    give, none = declared("give_pair", f"d:X{{d:{P}}}O"), declared("give_none", f"d:X{{d:{P}}}")
    yield "member of an argument of a callback", lambda: give(lambda p: p.f1, thing)
    yield "member of an argument of a callback that fails", lambda: refused(give, raising, thing)
    yield "NULL in an argument of a callback", lambda: none(lambda p: 1.0 if p.f0 is None else 2.0)

def callback_struct_results():
    use = declared("apply_pair", "i:PO")
    passed = declared("apply_pair", f"i:X{{{P}:O}}O")
    made = nc.callback(f"{P}:O", lambda o: (o, 1.0))
    lends = nc.callback(f"{P}:O", raising, errors=(thing, 1.0))
    bad = nc.callback(f"{P}:O", lambda o: (o, "x"), errors=(thing, 1.0))
    nested = nc.callback(f"{N}:O", lambda o: ([(o, 1.0), (other, 2.0)], 3, (o, other, o)))
    yield "member of a callback's result", lambda: made(thing)
    yield "member of a callback's result in C", lambda: use(pointer(made), thing)
    yield "member of a Python function's result", lambda: passed(lambda o: (o, 1.0), thing)
    yield "members of a callback's nested result", lambda: nested(thing)
    yield "member of a sentinel", lambda: refused(lends, other)
    yield "member of a sentinel in C", lambda: refused(use, pointer(lends), other)
    yield "member before one that does not convert", lambda: refused(bad, other)

def functions():
    chosen = declared("chosen", "X{O:O}:")
    def called():
        found = nc.wrap(int(nc_cast(chosen())), "O:O")
        return found(thing)
    ffi = nc._lib.ffi
    nc_cast = lambda pointer: ffi.cast("uintptr_t", pointer)
    yield "function of objects that a function returned", called
    through = declared("through", "O:X{P:}O")
    same = nc.callback("O:O", lambda o: o)
    held = pointer(same)
    yield "function of objects that a callback returned", lambda: through(lambda: held, thing)

def made():
    same, later, member = (
        declared(*one) for one in (("same", "O:O"), ("later", "O:Oi"), ("member", f"O:{P}"))
    )
    yield "bound argument", lambda: same.bind(thing)()
    bound = later.bind(thing)
    yield "argument that stays bound", lambda: bound(1)
    yield "bound argument and one that fails", lambda: refused(bound, Evil())
    yield "bound member", lambda: member.bind((thing, 1.0))()
    yield "bound argument before one that fails", lambda: refused(later.bind, thing, Evil())
    wider = later.convert("O:Oh")
    yield "converted", lambda: wider(thing, 1)
    more = same.convert("O:OP")
    yield "converted with one more argument", lambda: more(thing, None)
    written = declared("write_new", "i:O&O", errors="nonzero").convert("O:O")
    yield "written behind a pointer, converted to a result", lambda: written(thing)
    failing = declared("failing", "O:O", errors="python").convert("O:OP")
    yield "converted, and fails", lambda: refused(failing, thing, None)

groups = [
    arguments, structs, pointers, callbacks, callback_structs, callback_struct_results, functions,
    made,
]
count = 0
for group in groups:
    for name, operate in group():
        count += 1
        for _ in range(3):
            operate()
        gc.collect()
        before = [sys.getrefcount(thing), sys.getrefcount(other)]
        for _ in range(50):
            operate()
        gc.collect()
        after = [sys.getrefcount(thing), sys.getrefcount(other)]
        if max(abs(a - b) for a, b in zip(before, after)) > 2:
            print(f"{name}: {before} {after}")
print(count)
'''


@pytest.fixture(scope="module")
def objects(builder):
    include = sysconfig.get_path("include")
    return builder.library(SOURCE, "ownership", flags=("-O1", f"-I{include}"))


@pytest.mark.parametrize("jit", ["1", "0"])
def test_references_are_level(python, forked, monkeypatch, objects, jit):
    """Wherever an object stands."""
    monkeypatch.setenv("NATIVECALL_JIT", jit)
    run = forked if jit == "1" and GENERATED else python
    assert run(CELLS, objects) == "56\n"
