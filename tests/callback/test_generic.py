"""Pointers to functions declared `()`, and `void *`: any C function, but none of Python.

`void (*)(void)` is a callback of any type, too.
"""

import ctypes

import cffi
import pytest

import nativecall as nc

SOURCE = """
typedef int (*any)();
any kept;
int run(int (*f)(), int x) { return f ? f(x) : -1; }
void set(any g) { kept = g; }
typedef void (*plain)(void);
int attach(plain g, void *data) { return ((int (*)(int, void *))g)(4, data); }
typedef struct { plain member; } slot;
int emit(slot *s, void *data) { return attach(s->member, data); }
any get(void) { return kept; }
"""
DECLARED = "typedef int (*any)(); extern any kept; int run(int (*f)(), int x); void set(any g);"
DECLARED += "any get(void); typedef void (*plain)(void); int attach(plain g, void *data);"
DECLARED += "typedef struct { plain member; } slot; int emit(slot *s, void *data);"


@pytest.fixture(scope="module")
def lib(builder):
    return nc.load(builder.library(SOURCE, "generic", flags=("-O1", "-std=gnu17")), DECLARED)


def functions():
    absolute = nc.load(None, "int abs(int);").abs
    yield absolute
    yield absolute.builtin
    yield nc.callback("i:i", abs)
    yield ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(abs)
    yield cffi.FFI().callback("int(int)", abs)
    yield nc.wrap({"i:i": absolute, "d:d": nc.load("m", "double fabs(double);").fabs})["i:i"]


@pytest.mark.parametrize("number", range(6))
def test_c_functions_are_taken(lib, number):
    function = [*functions()][number]
    assert lib.run(function, -3) == 3
    lib.set(function)
    assert lib.run(lib.get(), -4) == 4
    lib.kept = function
    assert lib.run(lib.kept, -5) == 5
    lib.kept = None
    assert lib.run(lib.kept, -5) == -1


@pytest.mark.parametrize("function", [abs, lambda x: x, "".join, int])
def test_python_functions_are_refused_with_the_way_out(lib, function):
    message = r"must be a pointer or a C function \(got .*nativecall.callback\(signature, function"
    with pytest.raises(TypeError, match=f"argument 1 of 'run' {message}"):
        lib.run(function, 3)
    with pytest.raises(TypeError, match=f"variable 'kept' {message}"):
        lib.kept = function


def test_several_functions_are_none(lib):
    fabs = nc.load("m", "double fabs(double);").fabs
    both = nc.wrap({"i:i": next(functions()), "d:d": fabs})
    with pytest.raises(
        TypeError, match=r"must be one C function \(.* offers 'i:i', 'd:d'\); index"
    ):
        lib.run(both, 3)


def test_a_callback_of_any_type_is_a_plain_function(lib):
    note = nc.callback("int (int, PyObject *)", lambda x, notes: notes.append(x) or len(notes))
    notes = nc.handle([])
    assert lib.attach(note, notes) == 1
    slot = lib.new("slot", {"member": note})
    assert lib.emit(slot, notes) == 2
    slot.member = nc.callback("int (int)", lambda x: -x)
    assert lib.emit(slot, None) == -4
    with pytest.raises(TypeError, match="it takes 1 argument, not 0"):
        lib.attach(next(functions()), None)
    with pytest.raises(TypeError, match="without the GIL"):
        lib.attach(nc.callback("int (int)", abs, gil="need"), None)
