"""`errors="argument"`: functions that say by their last argument, an `int *`, that they failed.

Calls of any shape, callbacks, conversions and bound arguments, with the exceptions of Python
functions on the way; C code that gcc compiled is on the other side of each.
"""

from __future__ import annotations

import array
import ctypes
import errno
import inspect
import math
import pickle
import sysconfig
from itertools import pairwise
from typing import Any

import pytest

import nativecall as nc

SOURCE = """
#include <Python.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
typedef struct { double x, y; } Point;
double root(double x, int *error) { if (x < 0) *error = 33; return x < 0 ? -1 : sqrt(x); }
int count(int *error) { (*error)++; return 5; }
void fine(int *error) { (void)error; }
int was(int *error) { return *error; }
double negative(double x, int *error) { *error = -(int)x; errno = EDOM; return x; }
Point mirrored(Point p, int *error) { *error = p.x == p.y; return (Point){p.y, p.x}; }
double at(const double *data, int n, int *error)
{
    if (n >= 3) *error = n;
    return n < 3 ? data[n] : 0;
}
double twice(double (*f)(double, int *), double x, int *error)
{
    double y = f(x, error);
    return *error ? -7 : 2 * y;
}
double through(double (*f)(double, int *), double x)
{
    int error = 0;
    double y = f(x, &error);
    return error ? 1000 + error : y;
}
PyObject *given(PyObject *o, int *error) { if (o == Py_None) *error = 3; return Py_NewRef(o); }
PyObject *null(int *error) { *error = 4; return NULL; }
PyObject *nothing(int *error) { (void)error; return NULL; }
double set(double x, int *error)
{
    if (x < 0) { PyErr_SetString(PyExc_LookupError, "below"); *error = x > -2; }
    return x;
}
typedef struct { double (*f)(double, int *); double x, y; int error; } Job;
static void *work(void *job) { Job *j = job; j->y = j->f(j->x, &j->error); return NULL; }
int elsewhere(double (*f)(double, int *), double x, double *y)
{
    Job job = {f, x, 0, 0};
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, &job) != 0) return -1;
    pthread_join(thread, NULL);
    *y = job.y;
    return job.error;
}
"""
DECLARED = {
    "root": "double (double x, int *error)",
    "count": "i:&i",
    "fine": "v:&i",
    "was": "i:&i",
    "negative": "d:d&i",
    "mirrored": "T{dd}:T{dd}&i",
    "at": "double (const double *data, int n, int *error)",
    "twice": "d:X{d:d&i}d&i",
}


@pytest.fixture(scope="module")
def library(builder):
    flags = ("-O1", f"-I{sysconfig.get_path('include')}", "-pthread")
    return nc.load(builder.library(SOURCE, "error_argument", flags=flags))


@pytest.fixture(scope="module")
def c(library):
    class Functions:
        pass

    for name, signature in DECLARED.items():
        setattr(Functions, name, library.function(name, signature, errors="argument"))
    return Functions


# -- calls ---------------------------------------------------------------------------------------


def test_python_passes_one_argument_less(c, fails):
    assert c.root(6.25) == c.root.builtin(6.25) == c.root(x=6.25) == 2.5
    with fails(nc.NativeFailure, "'root' failed: it set its last argument to 33") as caught:
        c.root(-1.0)
    assert caught.value.value == 33
    with fails(nc.NativeFailure, "'negative' failed: it set its last argument to -8"):
        c.negative.builtin(8)
    for given in ((), (1.0, 2.0), (1.0, None), (1.0, ctypes.c_int())):
        with fails(TypeError, f"'root' takes exactly 1 argument ({len(given)} given)"):
            c.root(*given)
    with pytest.raises(TypeError, match="'error'"):
        c.root(1.0, error=None)
    assert str(inspect.signature(c.root)) == "(x: float) -> float"
    assert (c.root.signatures, c.root.entries[0].flags) == (("d:d&i",), 0x60)
    assert c.root.entries[0].errors == "argument"


def test_the_int_is_fresh_in_each_call(c, fails):
    for _ in range(2):
        with fails(nc.NativeFailure, "'count' failed: it set its last argument to 1"):
            c.count()
    assert c.fine() is None
    assert c.was() == c.was.builtin() == 0


@pytest.mark.parametrize(
    ("signature", "const"),
    [
        ("d:d", ""),
        ("d:", ""),
        ("d:&id", ""),
        ("d:d&I", ""),
        ("d:d&&i", ""),
        ("d:dP", ""),
        ("d:d&i.", ""),
        ("double (double, const int *)", ", where that is const"),
    ],
)
def test_signatures_that_do_not_end_so_are_refused(c, fails, signature, const):
    code = "" if const else ", '&i',"  # where the signature is in codes
    message = (
        f"errors='argument' needs a pointer to an int{code} as the last argument, but the "
        f"signature is {signature!r}{const}"
    )
    with fails(ValueError, message):
        nc.wrap(c.root.address(), signature, errors="argument")
    if "." not in signature:
        with fails(ValueError, message):
            nc.callback(signature, abs, errors="argument")
        with fails(ValueError, message):
            c.root.convert(signature, errors="argument")
    bare = nc.wrap(c.root.address(), "i:i")
    with pytest.raises(ValueError, match="errors='argument' needs"):
        bare.add(signature, c.root.address(), errors="argument")
    assert bare.signatures == ("i:i",)


def test_an_entry_is_what_it_is_by_every_way(c):
    ways = [c.root.to_ctypes(), c.root.to_capsule(), c.root.to_cffi(), c.root.builtin]
    for one in (*map(nc.wrap, ways), nc.wrap(c.root.address(), "d:d&i", errors="argument")):
        assert one(4.0) == 2.0
        assert one.entries[0].errors == "argument"
        with pytest.raises(nc.NativeFailure, match="to 33"):
            one(-4.0)
    again = nc.wrap(nc.wrap(c.root.address(), "d:d&i"), errors="argument")
    assert again(4.0) == 2.0
    plain = nc.wrap(c.root.address(), "d:d&i")
    told = array.array("i", [0])
    assert (plain(-4.0, told), told[0]) == (-1.0, 33)


def test_among_overloads_it_takes_what_python_passes(c, library):
    both = nc.wrap({"d:d&i": c.root, "d:&di&i": c.at})
    data = array.array("d", [1.0, 2.0, 4.0])
    assert (both(4.0), both(data, 2)) == (2.0, 4.0)
    with pytest.raises(nc.NativeFailure, match="failed: it set its last argument to 3"):
        both(data, 3)
    with pytest.raises(TypeError):
        both(data, 2, None)
    both.add("i:", library.address("was"))
    assert len(both.entries) == 3
    replaced = nc.wrap(c.root.address(), "d:d&i", errors="argument")
    replaced.add("d:d&i", library.address("negative"), errors="argument", replace=True)
    with pytest.raises(nc.NativeFailure, match="to -9"):
        replaced(9.0)
    assert replaced["double (double, int *)"](0) == 0.0


def test_errno_is_kept_beside_it(library):
    f = library.function("negative", "d:d&i", errors="argument", errno=True)
    with pytest.raises(nc.NativeFailure, match="to -2"):
        f(2)
    assert nc.get_errno() == errno.EDOM
    released = library.function("root", "d:d&i", errors="argument", gil="release")
    assert released(9) == 3.0
    with pytest.raises(nc.NativeFailure, match="to 33"):
        released(-9)


def test_an_exception_that_was_set_is_the_one(library, fails):
    """Where the function needs the GIL; whatever the int says."""
    f = library.function("set", "d:d&i", errors="argument", gil="need")
    assert f(1.5) == 1.5
    for x in (-1.0, -3.0):
        with fails(LookupError, "below"):
            f(x)


def test_objects_and_failure(library, fails):
    given = library.function("given", "O:O&i", errors="argument")
    thing = [1]
    assert given(thing) is thing
    with fails(nc.NativeFailure, "'given' failed: it set its last argument to 3"):
        given(None)
    with fails(nc.NativeFailure, "'null' failed: it set its last argument to 4"):
        library.function("null", "O:&i", errors="argument")()
    with fails(SystemError, "'nothing' returned NULL without setting an exception"):
        library.function("nothing", "O:&i", errors="argument")()


def test_structs_and_buffers(c, fails):
    assert tuple(c.mirrored((1.0, 2.0))) == (2.0, 1.0)
    with fails(nc.NativeFailure, "'mirrored' failed: it set its last argument to 1"):
        c.mirrored((2.0, 2.0))
    data = array.array("d", [1.0, 2.0, 4.0])
    assert c.at(data, 1) == 2.0
    with fails(nc.NativeFailure, "'at' failed: it set its last argument to 5"):
        c.at(data, 5)
    data.append(8.0)  # it is not exported any more


# -- calls of any shape --------------------------------------------------------------------------


# -- callbacks -----------------------------------------------------------------------------------


def inverse(x: float) -> float:
    if x == 0:
        raise ZeroDivisionError("0 has no inverse")
    return 1 / x


def test_a_python_function_tells_c(library, unraisable):
    f = nc.callback("d:d&i", inverse, errors="argument")
    assert (f(4.0), f.entries[0].errors) == (0.25, "argument")
    with pytest.raises(ZeroDivisionError):
        f(0.0)
    through = library.function("through", "d:X{d:d&i}d")
    assert through(f, 4.0) == 0.25
    with pytest.raises(ZeroDivisionError):
        through(f, 0.0)
    pointer, told = f.to_ctypes(), ctypes.c_int(0)
    assert (pointer(2.0, ctypes.byref(told)), told.value) == (0.5, 0)
    with pytest.raises(ZeroDivisionError):
        pointer(0.0, ctypes.byref(told))
    assert told.value == 1
    told.value = 12  # success says nothing: C sets it before the call
    assert (pointer(2.0, ctypes.byref(told)), told.value) == (0.5, 12)
    f.close()
    told.value = 0
    with pytest.raises(RuntimeError, match="is closed"):
        pointer(2.0, ctypes.byref(told))
    assert told.value == 1
    assert unraisable == []


def test_the_exception_comes_out_of_the_call_that_led_to_it(c, fails):
    f = nc.callback("d:d&i", inverse, errors="argument")
    assert (c.twice(f, 4.0), c.twice(c.root, 4.0)) == (0.5, 4.0)
    with fails(ZeroDivisionError, "0 has no inverse") as caught:
        c.twice(f, 0.0)
    trace = caught.value.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    assert trace.tb_frame.f_code is inverse.__code__
    with fails(nc.NativeFailure, "'twice' failed: it set its last argument to 33"):
        c.twice(c.root, -4.0)
    wrong = nc.callback("d:d&i", lambda x: "no number", errors="argument")
    with pytest.raises(TypeError, match="must be a real number"):
        c.twice(wrong, 1.0)


def test_c_in_a_thread_of_its_own_sees_it(library, unraisable):
    f = nc.callback("d:d&i", inverse, errors="argument")
    elsewhere = library.function("elsewhere", "i:X{d:d&i}d&d", gil="release")
    y = array.array("d", [0])
    assert (elsewhere(f, 4.0, y), y[0]) == (0, 0.25)
    assert elsewhere(f, 0.0, y) == 1
    assert math.isnan(y[0])
    assert [kind for kind, *_ in unraisable] == [ZeroDivisionError]


@pytest.mark.parametrize(
    ("signature", "given", "returned", "sentinel"),
    [
        ("v:&i", (), None, None),
        ("i:&i", (), 5, 0),
        ("i:ii&i", (1, 2), 5, 0),
        ("d:" + "d" * 10 + "&i", (1.5,) * 10, 2.5, None),
        ("q:" + "q" * 9 + "&i", (3,) * 9, 7, 0),
        ("P:P&i", (None,), None, None),
    ],
)
@pytest.mark.parametrize("gil", ["take", "need"])
def test_callbacks_of_any_shape(signature, given, returned, sentinel, gil):
    seen: list[tuple[object, ...]] = []

    def function(*values: object) -> object:
        seen.append(values)
        if len(seen) == 2:
            raise KeyError("second")
        return returned

    f = nc.callback(signature, function, errors="argument", gil=gil)
    pointer, told = nc.wrap(f.address(), signature), array.array("i", [0])
    assert pointer(*given, told) == returned
    assert told[0] == 0
    with pytest.raises(KeyError):
        pointer(*given, told)
    assert (told[0], seen) == (1, [given, given])
    told[0] = 0
    assert f(*given) == returned


def test_recursion_that_is_too_deep_is_told(c):
    made: list[Any] = []
    f = nc.callback("d:d&i", lambda x: made[0](made[1], x), errors="argument")
    made += [c.twice, f]
    with pytest.raises(RecursionError):
        f(1.0)


# -- other signatures, and other conventions -----------------------------------------------------


@pytest.mark.parametrize("signature", ["f:f&i", "d:q&i", "d:&d&i", "f:fP&i", "d:i&d&i"])
def test_it_is_passed_on_to_what_has_one_too(c, fails, signature):
    f = c.root.convert(signature)
    assert f.entries[0].errors == "argument"
    data = array.array("d", [16.0])
    rest = {"d:&d&i": (data,), "f:fP&i": (16.0, None), "d:i&d&i": (1, data)}.get(signature, (16,))
    assert f(*rest) == 4.0
    data[0] = -16.0
    rest = {"f:fP&i": (-16.0, None), "d:q&i": (-16,), "f:f&i": (-16.0,)}.get(signature, rest)
    with fails(nc.NativeFailure, "'root' failed: it set its last argument to 33"):
        f(*rest)
    # C sees the function's own number.
    told = array.array("i", [0])
    nc.wrap(f.address(), signature)(*rest, told)
    assert told[0] == 33


def test_what_does_not_convert_is_told_by_the_thunk(c, library):
    narrow = c.root.convert("d:q&i")
    pointer, told = nc.wrap(narrow.address(), "d:q&i"), array.array("i", [0])
    with pytest.raises(OverflowError, match="which 'double' does not hold exactly"):
        pointer(2**53 + 1, told)
    assert told[0] == 1
    through = library.function("through", "d:X{d:d&i}d")
    whole = nc.callback("i:i&i", lambda n: n, errors="argument").convert("d:d&i")
    assert through(whole, 3.0) == 3.0
    with pytest.raises(ValueError, match=r"is 0.5, not an integer"):
        through(whole, 0.5)
    # The result does not pass: the function had not failed.
    big = nc.callback("q:q&i", lambda n: 2**60 + n, errors="argument").convert("i:q&i")
    told[0] = 0
    with pytest.raises(OverflowError, match="the result of '<lambda>' is 1152921504606846977"):
        nc.wrap(big.address(), "i:q&i")(1, told)
    assert told[0] == 1


OTHERS = {
    # what root becomes, and what it and its C pointer give for -4
    "none": ("d:d", nc.NativeFailure, None),
    "python": ("d:d", nc.NativeFailure, None),
    "errno": ("d:d", OSError, None),
    "nonzero": ("i:d&d", nc.NativeFailure, 1),
    "zero": ("i:d&d", nc.NativeFailure, 0),
}


@pytest.mark.parametrize("errors", OTHERS)
def test_to_another_convention(c, errors):
    signature, exception, status = OTHERS[errors]
    f = c.root.convert(signature, errors=errors)
    y = array.array("d", [0])
    assert f.entries[0].errors == errors
    if status is None:
        assert f(4.0) == 2.0
        with pytest.raises(exception, match="'root'"):
            f(-4.0)
        return
    assert f(4.0, y) == 1 - status
    assert y[0] == 2.0
    with pytest.raises(exception, match="'root' failed"):
        f(-4.0, y)
    assert nc.wrap(f.address(), signature)(-4.0, y) == status
    assert y[0] == 2.0


def test_what_is_inherited_where_nothing_is_asked_for(c):
    wanted = {"d:d": "none", "f:f&i": "argument", "i:d&d": "nonzero", "v:d": "none", "v:d&i": None}
    for signature, errors in wanted.items():
        if errors is not None:
            assert c.root.convert(signature).entries[0].errors == errors, signature
    assert c.root.convert("d:d&i") is c.root
    dropped = c.root.convert("v:d&i")
    assert dropped.entries[0].errors == "argument"
    with pytest.raises(nc.NativeFailure, match="to 33"):
        dropped(-1.0)


@pytest.mark.parametrize(
    ("own", "errors", "code"),
    [("d:d", "errno", errno.EDOM), ("i:d&d", "nonzero", 1), ("i:d&d", "zero", 1)],
)
def test_from_another_convention(builder, own, errors, code):
    source = """
    #include <errno.h>
    double by_errno(double x) { if (x < 0) errno = EDOM; return x / 2; }
    int by_nonzero(double x, double *y) { *y = x / 2; return x < 0 ? 9 : 0; }
    int by_zero(double x, double *y) { *y = x / 2; return x >= 0; }
    """
    library = nc.load(builder.library(source, "error_others", flags=("-O1",)))
    f = library.function(f"by_{errors}", own, errors=errors).convert("d:d&i", errors="argument")
    assert (f(4.0), f.entries[0].errors) == (2.0, "argument")
    with pytest.raises(nc.NativeFailure, match=f"to {code}$"):
        f(-4.0)
    told = array.array("i", [0])
    assert nc.wrap(f.address(), "d:d&i")(4.0, told) == 2.0
    assert told[0] == 0
    assert math.isnan(nc.wrap(f.address(), "d:d&i")(-4.0, told))
    assert told[0] == code


def test_from_python_exceptions(fails):
    f = nc.callback("d:d", inverse, errors="python", gil="need")
    made = f.convert("d:d&i", errors="argument")
    assert (made(4.0), made.entries[0].gil) == (0.25, "need")
    with fails(ZeroDivisionError, "0 has no inverse"):
        made(0.0)


def test_refusals(c, fails):
    plain = nc.wrap(c.root.address(), "d:d&i")
    with fails(
        nc.SignatureError,
        "cannot convert 'root' from 'd:d&i' to 'f:f&i': its last argument does not report "
        "failures; nativecall.wrap(f, errors='argument') declares that it does",
    ):
        plain.convert("f:f&i", errors="argument")
    with pytest.raises(nc.SignatureError, match="it takes 1 argument, not 2"):
        c.root.convert("d:d&i", errors="none")
    with pytest.raises(nc.SignatureError, match="it takes 1 argument, not 2"):
        c.root.convert("d:dd&i")


def test_bound_arguments(c, fails):
    data = array.array("d", [1.0, 2.0, 4.0])
    f = c.at.bind(data)
    assert (f.signatures, f.entries[0].errors, f(2)) == (("d:i&i",), "argument", 4.0)
    with fails(nc.NativeFailure, "'at' failed: it set its last argument to 3"):
        f(3)
    assert c.root.bind(4.0)() == 2.0
    with fails(nc.NativeFailure, "'root' failed: it set its last argument to 33"):
        c.root.bind(x=-4.0)()
    with fails(TypeError, "'root' takes 1 argument, 2 values cannot be bound"):
        c.root.bind(1.0, None)
    with fails(TypeError, "'root' has no argument 'error'; its arguments are 'x'"):
        c.root.bind(error=None)


def test_a_chain_of_thunks_passes_it_on(c, fails):
    made = [c.root]
    for signature in ("f:f&i", "d:d&i", "d:q&i", "d:d&i"):
        made.append(made[-1].convert(signature, name=f"step{len(made)}"))
    assert all(one(4) == 2.0 for one in made)
    for before, after in pairwise(made):
        with fails(nc.NativeFailure, f"'{after.__name__}' failed: it set its last argument to 33"):
            after(-4)
        assert before is not after


def test_it_is_pickled(c, callees):
    for made, call in (
        (c.root, lambda f: f(4.0)),
        (c.root.convert("f:f&i"), lambda f: f(4.0)),
        (c.root.bind(4.0), lambda f: f()),
    ):
        again = pickle.loads(pickle.dumps(made))
        assert call(again) == 2.0
        assert again.entries[0].errors == "argument"


def test_scipy_calls_it_without_the_int(c):
    integrate = pytest.importorskip("scipy.integrate")  # not made for every Python
    assert integrate.quad(c.root.to_scipy(), 0, 1)[0] == pytest.approx(2 / 3)
