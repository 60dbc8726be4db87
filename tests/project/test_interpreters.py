"""Interpreters that share the GIL with the main one: each imports the package and works by itself,
and what C code carries from one to the other finds its own way or is refused.

Where CPython's own end of an interpreter frees what others still use (3.12 before 3.12.8, 3.13.0),
the import is refused, and the one test of that runs instead of the others.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.modes import generated

ENDS_WELL = sys.version_info < (3, 12) or sys.version_info[:3] >= (
    (3, 12, 8) if sys.version_info < (3, 13) else (3, 13, 1)
)
ends_well = pytest.mark.skipif(
    not ENDS_WELL, reason="refused on this CPython (test_a_python_that_ends_them_badly_is_refused)"
)

#: Defines run(code, **values) and cycle(code, **values), which ends the interpreter.
START = """
import sys
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
    create = lambda: interpreters.create("legacy")
    isolated = lambda: interpreters.create("isolated")
else:
    import _xxsubinterpreters as interpreters
    create = lambda: interpreters.create(isolated=False)
    isolated = lambda: interpreters.create(isolated=True)

def run(interpreter, code, **values):
    values = "".join(f"{name} = {value!r}\\n" for name, value in values.items())
    failed = interpreters.run_string(interpreter, values + code)
    assert failed is None, failed

def cycle(code, **values):
    interpreter = create()
    run(interpreter, code, **values)
    interpreters.destroy(interpreter)

SAYS = '''
try:
    import nativecall
except ImportError as error:
    print(error, flush=True)
else:
    print("imported", flush=True)
'''
"""


def test_the_main_interpreter_imports_it_first_and_own_gils_are_refused(python):
    code = """
cycle(SAYS)
import nativecall
one = isolated()
run(one, SAYS)
interpreters.destroy(one)
print(nativecall.load("m").function("cos", "d:d")(0.0))
"""
    first, own, works = python(START + code).splitlines()
    if ENDS_WELL:
        assert first == (
            "nativecall cannot be imported in a subinterpreter before the main interpreter has "
            "imported it: its types are the process's and are made there; import it in the main "
            "interpreter first"
        )
    if sys.version_info >= (3, 12):  # before, all share it
        assert own.startswith(
            "nativecall cannot be imported in an interpreter with a GIL of its own"
        )
    assert works == "1.0"


@pytest.mark.skipif(ENDS_WELL, reason="this CPython ends interpreters well")
def test_a_python_that_ends_them_badly_is_refused(python):
    lines = python(START + "import nativecall\ncycle(SAYS)\n").splitlines()
    here = ".".join(map(str, sys.version_info[:3]))
    assert lines == [
        f"nativecall cannot be imported in a subinterpreter of CPython {here}, whose end frees "
        "what other interpreters still use; CPython 3.11, 3.12.8 or newer, and 3.13.1 or newer can"
    ]


WORK = """
import array
import threading
import nativecall as nc
from nativecall import _lib

m = nc.load("m", "double cos(double);")
assert m.cos(0.0) == 1.0 and m.cos.signatures == ("d:d",)
assert m.cos.convert("double (int)")(0) == 1.0
try:
    m.cos("a")
except TypeError as error:
    assert "argument 1 of 'cos' must be a real number" in str(error)
else:
    raise AssertionError("'a' is no number")
libc = nc.load(
    None,
    '''
    void qsort(void *, size_t, size_t, int (*)(const int *, const int *));
    int pthread_create(unsigned long *, void *, void *(*)(void *), void *);
    int pthread_join(unsigned long, void **);
    ''',
    gil={"pthread_join": "release"},
)

# Python functions: in the call, in threads of Python's, and in one that Python does not know.
numbers = array.array("i", [3, 1, 2])
libc.qsort(numbers, 3, 4, lambda x, y: x[0] - y[0])
assert numbers.tolist() == [1, 2, 3]
try:
    libc.qsort(numbers, 3, 4, lambda x, y: 1 / 0)
except ZeroDivisionError:
    pass
else:
    raise AssertionError("it raises")
add = nc.callback("d:d", lambda x: x + 1)
sums = []
threads = [threading.Thread(target=lambda: sums.append(add(1.0))) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sums == [2.0] * 3
seen, reported = [], []
sys = __import__("sys")
sys.unraisablehook = lambda report: reported.append(type(report.exc_value))

def body(pointer):
    seen.append(sys.modules["__main__"] is __import__("__main__"))
    if len(seen) == 2:
        raise LookupError
    return None

start = nc.callback("void *(void *)", body)
for _ in range(3):
    made = array.array("L", [0])
    assert libc.pthread_create(made, None, start, None) == 0
    libc.pthread_join(made[0], None)
assert seen == [True] * 3 and reported == [LookupError]

# Objects of both worlds.
class Point(nc.NativeObject):
    x = nc.field("d")

point = Point(1.5)
point.x += 1
assert point.x == 2.5 and isinstance(point, nc.NativeObject)
assert repr(point) == "Point(x=2.5)" and point.__reduce_ex__(4)[2][0] == {"x": 2.5}
try:
    type("Node", (nc.NativeObject,), {"of": nc.field("OfMain")})
except TypeError as error:
    assert "there is none of that name yet" in str(error)
else:
    raise AssertionError("the class is the main interpreter's")

assert sys.modules["_extensibletype"].extensibletype_v1 is _lib.types.extensibletype
"""

SIZE = """
import nativecall
cos = nativecall.load("m", "double cos(double);").cos
from pathlib import Path
def size():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
"""


@ends_well
@generated
def test_an_interpreter_works_and_ends(forked):
    """Twice, so that the second finds what the first has left, before and after the main one."""
    code = """
import copy
import nativecall
class OfMain(nativecall.NativeObject):
    x = nativecall.field("d")
cycle(WORK)
cos = nativecall.load("m", "double cos(double);").cos
cycle(WORK)
assert cos(0.0) == 1.0 and cos.convert("double (long)")(0) == 1.0
class Point(nativecall.NativeObject):
    x = nativecall.field("d")
assert repr(copy.copy(Point(2.5))) == "Point(x=2.5)"
"""
    assert forked(START + f"WORK = {WORK!r}\n" + code) == ""


@ends_well
@pytest.mark.allocator
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_nothing_is_left_of_those_that_ended(forked):
    """What each leaves is there in every round; what the C allocator takes at first is not."""
    code = """
USE = '''
import nativecall
wrapped = nativecall.wrap(ADDRESS, "d:d")
assert wrapped(0.0) == 1.0
shortened = wrapped.signatures, nativecall.wrap(ADDRESS, "double (double)")
'''
levels = []
for _ in range(5):
    cycle(USE, ADDRESS=cos.address())
    cycle(USE, ADDRESS=cos.address())
    levels.append(size())
print(min(after - before for before, after in zip(levels, levels[1:])) // 2 // 1024)
"""
    assert int(forked(START + SIZE + code)) < 120, "KB an interpreter"


@ends_well
@generated
def test_objects_of_one_interpreter_in_another(forked):
    """Tables are read and pointers called; Python code of the other one never runs."""
    code = """
import ctypes
double = nativecall.callback("d:d", lambda x: x * 2)
narrow = nativecall.wrap(ctypes.CDLL(None).labs, "long (long)").convert("int (long)")
cycle('''
import ctypes
import nativecall as nc
from nativecall import _lib

def refused(function, *arguments):
    try:
        return function(*arguments)
    except RuntimeError as error:
        return str(error)

other = ctypes.cast(COS, ctypes.py_object).value
assert other(0.0) == 1.0
assert "belongs to another Python interpreter" in refused(nc.wrap, other)
assert "belongs to another Python interpreter" in refused(other.convert, "double (int)")
assert "in another interpreter than its own" in refused(nc.wrap(DOUBLE, "d:d"), 1.0)
assert nc.wrap(NARROW, "i:q")(-3) == 3
assert "in another interpreter than its own" in refused(nc.wrap(NARROW, "i:q"), 1 << 40)
# A thread that holds the GIL for nobody enters the interpreter of the function.
assert nc.wrap(DOUBLE, "d:d", gil="release")(4.0) == 8.0
del other
''', COS=id(cos), DOUBLE=double.address(), NARROW=narrow.address())
assert double(1.0) == 2.0 and narrow(-4) == 4
"""
    assert forked(START + SIZE + code) == ""


@ends_well
@generated
def test_callbacks_of_an_interpreter_that_has_ended(python, tmp_path):
    """C that keeps the object gets what a failed call gives; a pointer alone ends the process."""
    code = """
cycle('''
import ctypes
from pathlib import Path
import nativecall as nc
kept = nc.callback("d:d", lambda x: x + 1)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
Path("kept").write_text(str(kept.address()))
''')
cycle('''
from pathlib import Path
import nativecall as nc
gone = nc.callback("d:d", lambda x: x - 1)
Path("gone").write_text(str(gone.address()))
''')
kept, gone = int(Path("kept").read_text()), int(Path("gone").read_text())
print(nativecall.wrap(kept, "d:d", gil="release")(1.0))
try:
    nativecall.wrap(kept, "d:d")(1.0)
except RuntimeError as error:
    print(error)
sys.stdout.flush()
nativecall.wrap(gone, "d:d")(1.0)
"""
    done = subprocess.run(
        [sys.executable, "-c", START + SIZE + code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "nan",
        "a Python function was called by C code in another interpreter than its own",
    ]
    assert "was called after the object that it belonged to was gone: '<lambda>'" in done.stderr


@ends_well
def test_libffi_makes_no_pointers_there(python):
    """They would run Python functions in the main interpreter."""
    code = """
import os
os.environ["NATIVECALL_JIT"] = "0"
cycle('''
import nativecall as nc
assert nc.wrap(ADDRESS, "d:d")(0.0) == 1.0
try:
    nc.callback("d:d", abs)
except RuntimeError as error:
    print(error, flush=True)
''', ADDRESS=cos.address())
"""
    assert "libffi makes run Python functions in the main interpreter alone" in python(
        START + SIZE + code
    )


@ends_well
@generated
def test_a_thread_that_waits_to_enter_hinders_no_end(forked):
    """It has a thread state there only once it has the GIL, which this thread keeps up to the end
    of the interpreter; CPython 3.11 would take that state for the interpreter's own."""
    code = """
sys.setswitchinterval(60)
one = create()
run(one, '''
import array
import ctypes
import nativecall as nc
libc = nc.load(None, "int pthread_create(unsigned long *, void *, void *(*)(void *), void *);")
start = nc.callback("void *(void *)", lambda pointer: print("entered", flush=True))
assert libc.pthread_create(array.array("L", [0]), None, start, None) == 0
ctypes.PyDLL(None).usleep(50000)
''')
interpreters.destroy(one)
print("ended", flush=True)
"""
    assert forked(START + "import nativecall\n" + code) == "entered\nended\n"


@ends_well
@generated
def test_python_ends_beside_an_interpreter_whose_function_runs(forked):
    """It waits for a C thread inside; CPython would end the process for the thread's state."""
    code = """
import warnings
warnings.filterwarnings("ignore", "remaining subinterpreters")  # 3.15 says so
one = create()
run(one, '''
import array
import threading
import time
import nativecall as nc
libc = nc.load(None, "int pthread_create(unsigned long *, void *, void *(*)(void *), void *);")
inside = threading.Event()
def body(pointer):
    inside.set()
    time.sleep(0.1)
    print("left", flush=True)
start = nc.callback("void *(void *)", body)
assert libc.pthread_create(array.array("L", [0]), None, start, None) == 0
assert inside.wait(10)
''')
"""
    assert forked(START + "import nativecall\n" + code) == "left\n"
