"""SciPy runs native: its C code calls the kernel itself, as often as it says, and calls no Python.

Each kernel counts its calls and notes the return address of the last one, so what called it is
seen: SciPy's own extension module, where a call from Python comes from our core.
"""

from __future__ import annotations

import array
import ast
import ctypes
import gc
import math
import sys
import weakref
from pathlib import Path

import cffi
import numpy as np
import pytest
import scipy
from scipy import LowLevelCallable, integrate, ndimage

import nativecall as nc
from nativecall import _ext, _lib
from nativecall._bridges import scipy as scipy_bridge
from nativecall._cdecl.spelling import parse
from support.capsules import set_context

overlooked = pytest.mark.skipif(
    hasattr(sys, "gettotalrefcount"),
    reason="debug builds of CPython end where C code overlooks exceptions, as SciPy's does",
)

KERNELS = """
#include <stddef.h>
#include <stdint.h>
static int64_t count;
static void *caller;
#define CALLED (count++, caller = __builtin_return_address(0))
int64_t calls(void) { return count; }
void *last_caller(void) { return caller; }
double gauss(double x) { CALLED; return 1 / (1 + x * x); }
double scaled(double x, void *scale)
{ CALLED; return x * *(double *)scale; }
double many(int n, double *x)
{ double p = 1; CALLED; for (int i = 0; i < n; i++) p *= x[i]; return p; }
double many_scaled(int n, double *x, void *scale)
{ double p = *(double *)scale; CALLED; for (int i = 0; i < n; i++) p *= x[i]; return p; }
int largest(double *x, ptrdiff_t n, double *out, void *data)
{
    CALLED; (void)data; *out = x[0];
    for (ptrdiff_t i = 1; i < n; i++) { if (x[i] > *out) { *out = x[i]; } }
    return 1;
}
int shift(ptrdiff_t *out, double *in, int rank_out, int rank_in, void *data)
{
    CALLED; (void)data; (void)rank_out;
    for (int i = 0; i < rank_in; i++) { in[i] = (double)out[i] - 1; }
    return 1;
}
int running(double *in, ptrdiff_t n_in, double *out, ptrdiff_t n_out, void *data)
{
    CALLED; (void)data;
    for (ptrdiff_t i = 0; i < n_out; i++) { out[i] = in[i] + in[i + n_in - n_out]; }
    return 1;
}
"""


@pytest.fixture(scope="module")
def kernels(builder):
    return nc.load(builder.library(KERNELS, "kernels"))


@pytest.fixture
def counted(kernels):
    """The number of calls that a block makes, and the file that the last one came from."""
    calls = kernels.function("calls", "q:")
    caller = kernels.function("last_caller", "P:")

    def counted(block):
        before = calls()
        result = block()
        made = calls() - before
        address = int(ctypes.c_size_t(int(_lib.ffi.cast("uintptr_t", caller()))).value)
        return result, made, _lib.address_origin(address)[0]

    return counted


def events(block) -> int:
    """How many Python-level calls and C calls from Python a block makes."""
    seen = 0

    def note(frame, event, argument):
        nonlocal seen
        seen += 1

    sys.setprofile(note)
    try:
        block()
    finally:
        sys.setprofile(None)
    return seen


def test_quad_calls_the_pointer_itself(kernels, counted):
    f = kernels.function("gauss", "double (double)")
    box = f.to_scipy()
    (value, _, info), made, file = counted(lambda: integrate.quad(box, 0, 1, full_output=True))
    assert abs(value - math.pi / 4) < 1e-14
    assert made == info["neval"] > 0
    assert "_quadpack" in file
    _, made, file = counted(lambda: f(0.5))
    assert (made, "nativecall" in file) == (1, True)


def test_no_python_call_happens(kernels, counted):
    """SciPy's box holds nothing that Python could call, and work in it costs no Python event."""
    f = kernels.function("gauss", "double (double)")
    box = f.to_scipy()
    assert not callable(box)
    assert not any(callable(part) for part in tuple.__iter__(box))
    little = lambda: integrate.quad(box, 0, 1)
    much = lambda: integrate.quad(box, 0, 1000, limit=200)
    assert counted(much)[1] > 3 * counted(little)[1]
    assert events(much) == events(little)
    python = lambda x: 1 / (1 + x * x)
    assert events(lambda: integrate.quad(python, 0, 1000, limit=200)) > events(much) + 300


def test_a_filter_whose_signature_is_named():
    """It reports to SciPy as SciPy has it: 1 is well, 0 an exception."""
    mean = nc.callback("d:i&d", lambda n, values: sum(values[i] for i in range(n)) / n)
    box = mean.to_scipy("i:&dq&dP")
    image = np.arange(9.0).reshape(3, 3)
    assert ndimage.generic_filter(image, box, size=3)[1, 1] == 4.0
    failing = nc.callback("d:i&d", lambda n, values: 1 / 0).to_scipy("i:&dq&dP")
    with pytest.raises(ZeroDivisionError):
        ndimage.generic_filter(image, failing, size=3)


def test_ndimage(kernels, counted):
    a = np.arange(12.0).reshape(3, 4)
    f = kernels.function("largest", "int (double *, ptrdiff_t, double *, void *)").to_scipy()
    result, made, file = counted(lambda: ndimage.generic_filter(a, f, size=3))
    assert (result == ndimage.maximum_filter(a, size=3)).all()
    assert made == a.size
    assert "_nd_image" in file
    g = kernels.function("shift", "int (ptrdiff_t *, double *, int, int, void *)").to_scipy()
    result, made, file = counted(lambda: ndimage.geometric_transform(a, g, order=1))
    assert (result == ndimage.shift(a, 1, order=1)).all()
    assert made == a.size
    assert "_nd_image" in file
    h = kernels.function("running", "int (double *, ptrdiff_t, double *, ptrdiff_t, void *)")
    result, made, file = counted(
        lambda: ndimage.generic_filter1d(a, h.to_scipy(), 3, mode="nearest")
    )
    assert (result[:, 1:-1] == a[:, :-2] + a[:, 2:]).all()
    assert made == a.shape[0]


# -- every entrance, every spelling --------------------------------------------------------------

IMAGE = np.arange(12.0).reshape(3, 4)
QUAD = ["double (double)", "double (double, void *)"]
NQUAD = ["double (int, double *)", "double (int, double *, void *)"]
FILTER = "int (double *, {}, double *, void *)"
FILTER1D = "int (double *, {}, double *, {}, void *)"
TRANSFORM = "int ({} *, double *, int, int, void *)"
INTEGERS = ["npy_intp", "intptr_t", "ptrdiff_t", "Py_ssize_t", "long", "int64_t"]
ENTRANCES = {
    "quad": (lambda box: integrate.quad(box, 0, 1), QUAD + NQUAD),
    "nquad": (lambda box: integrate.nquad(box, [[0, 1], [0, 1]]), QUAD + NQUAD),
    "dblquad": (lambda box: integrate.dblquad(box, 0, 1, 0, 1), QUAD + NQUAD),
    "tplquad": (lambda box: integrate.tplquad(box, 0, 1, 0, 1, 0, 1), QUAD + NQUAD),
    "generic_filter": (lambda box: ndimage.generic_filter(IMAGE, box, size=3), [FILTER]),
    "generic_filter1d": (lambda box: ndimage.generic_filter1d(IMAGE, box, 3), [FILTER1D]),
    "geometric_transform": (lambda box: ndimage.geometric_transform(IMAGE, box), [TRANSFORM]),
}


@pytest.mark.parametrize("name", ENTRANCES)
def test_all_that_scipy_takes_is_known(kernels, name):
    """What SciPy says that it expects is what `to_scipy` knows; a new form shows here."""
    call, forms = ENTRANCES[name]
    box = LowLevelCallable(kernels.function("gauss", "d:d").to_capsule(), signature="void (void)")
    with pytest.raises(ValueError, match=r"Expected one of: \[.*\]") as found:
        call(box)
    expected = ast.literal_eval(str(found.value).partition("Expected one of: ")[2])
    known = {parse(form.replace("{}", "npy_intp")).text for form in forms}
    assert {parse(form).text for form in expected} == known
    assert known <= set(scipy_bridge._SPELLINGS)
    assert {scipy_bridge._SPELLINGS[text] for text in known} <= set(expected)


def test_no_other_module_of_scipy_takes_callables():
    """Modules that know LowLevelCallable, by the name that ccallback.h looks up in them."""
    modules = [
        path.name.partition(".")[0]
        for path in Path(scipy.__file__).parent.rglob("*")
        if path.suffix in (".so", ".pyd") and b"LowLevelCallable" in path.read_bytes()
    ]
    taking = {"_quadpack", "_nd_image", "_test_ccallback", "_ccallback_c"}
    # These two use it to find their Python functions again, and take no native ones.
    assert set(modules) - {"_minpack", "unuran_wrapper"} == taking


@pytest.mark.parametrize("integer", INTEGERS)
def test_spellings_of_integers(kernels, counted, integer):
    """Whatever the platform's word for npy_intp is, and whoever wrote the declaration."""
    for name, pattern, call in [
        ("largest", FILTER, ENTRANCES["generic_filter"][0]),
        ("running", FILTER1D, ENTRANCES["generic_filter1d"][0]),
        ("shift", TRANSFORM, ENTRANCES["geometric_transform"][0]),
    ]:
        form = pattern.replace("{}", integer)
        f = kernels.function(name, form)
        for box in (f.to_scipy(), f.to_scipy(form), f.to_scipy(f.signatures[0])):
            _, made, file = counted(lambda box=box: call(box))
            assert made > 0
            assert "_nd_image" in file


@pytest.mark.parametrize("signature", QUAD + NQUAD)
def test_quad_takes_all_four(kernels, counted, signature):
    scale = np.array([3.0])
    name = {"d:d": "gauss", "d:dP": "scaled", "d:i&d": "many", "d:i&dP": "many_scaled"}[
        parse(signature).text
    ]
    f = kernels.function(name, signature)
    data = scale if f.signatures[0].endswith("P") else None
    box = f.to_scipy(user_data=data)
    (value, _), made, file = counted(lambda: integrate.quad(box, 0, 2))
    assert value == pytest.approx({"gauss": math.atan(2), "many": 2.0}.get(name, 6.0))
    assert made > 0
    assert "_quadpack" in file
    assert box.signature == signature


# -- user data -----------------------------------------------------------------------------------


class Scale(ctypes.Structure):
    _fields_ = (("value", ctypes.c_double),)


DOUBLE = ctypes.c_double(3)
USER_DATA = {
    "numpy": lambda: np.array([3.0, 5.0]),
    "numpy record": lambda: np.array([(3.0,)], dtype=[("value", "f8")]),
    "numpy scalar array": lambda: np.array(3.0),
    "array": lambda: array.array("d", [3.0]),
    "bytearray": lambda: bytearray(np.array([3.0])),
    "memoryview": lambda: memoryview(np.array([0.0, 3.0]))[1:],
    "ctypes number": lambda: ctypes.c_double(3),
    "ctypes struct": lambda: Scale(3),
    "ctypes array": lambda: (ctypes.c_double * 2)(3, 5),
    "ctypes pointer": lambda: ctypes.pointer(ctypes.c_double(3)),
    "ctypes byref": lambda: ctypes.byref(Scale(3)),
    "ctypes void pointer": lambda: ctypes.cast(ctypes.pointer(ctypes.c_double(3)), ctypes.c_void_p),
    "cffi pointer": lambda: cffi.FFI().new("double *", 3.0),
    "cffi array": lambda: cffi.FFI().new("double[]", [3.0]),
    "capsule": lambda: _ext.capsule(ctypes.addressof(DOUBLE), b"anything", DOUBLE),
}


@pytest.mark.parametrize("make", USER_DATA.values(), ids=USER_DATA)
def test_every_kind_of_user_data(kernels, make):
    """The box alone keeps what it points to."""
    box = kernels.function("scaled", "double (double, void *)").to_scipy(user_data=make())
    gc.collect()
    junk = [np.full(8, 7.0) for _ in range(100)]
    assert integrate.quad(box, 0, 2)[0] == pytest.approx(6.0)
    assert len(junk) == 100


def test_user_data_is_bound_where_the_box_is_wrapped_or_passed(builder):
    """Of SciPy's boxes and of ours; the callable keeps the box, which keeps the data."""
    source = (
        "double scaled(double x, double *data) { return data ? x * *data : -1e9; }\n"
        "double apply(double (*f)(double), double x) { return f(x); }\n"
        "double more(double (*f)(double, void *), void *data, double x) { return f(x, data); }\n"
    )
    lib = nc.load(
        builder.library(source, "bound_data"),
        "double scaled(double x, double *data); double apply(double (*f)(double), double x);"
        "double more(double (*f)(double, void *), void *data, double x);",
    )
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_void_p)
    scale = ctypes.c_double(3.0)
    data = ctypes.cast(ctypes.pointer(scale), ctypes.c_void_p)
    theirs = LowLevelCallable(kind(lib.scaled.address()), data)
    ours = lib.scaled.to_scipy(user_data=np.array([3.0]))
    for box in (theirs, ours):
        f = nc.wrap(box)
        assert (f.signatures, f.__name__, f(2.0)) == (("d:d",), "scaled", 6.0)
        assert integrate.quad(f.to_scipy(), 0.0, 2.0)[0] == pytest.approx(6.0)
        assert (lib.apply(box, 2.0), lib.apply(f, 2.0), lib.more(box, None, 2.0)) == (6.0,) * 3
        with pytest.raises(nc.NoEntryError, match="'d:dP'"):
            nc.wrap(box, "d:dP")
    del box, ours, theirs
    gc.collect()
    junk = [np.full(1, 7.0) for _ in range(100)]
    assert (f(2.0), len(junk)) == (6.0, 100)
    unnamed = _ext.capsule(lib.scaled.address(), b"their own", None)
    said = nc.wrap(LowLevelCallable(unnamed, data, signature="double (double, void *)"))
    assert (said.signatures, said(2.0)) == (("d:d",), 6.0)


def test_a_buffer_stays_exported_as_long_as_the_box(kernels):
    scale = array.array("d", [3.0])
    box = kernels.function("scaled", "double (double, void *)").to_scipy(user_data=scale)
    with pytest.raises(BufferError):
        scale.append(1.0)
    again = LowLevelCallable(box)  # SciPy makes such copies itself
    del box
    gc.collect()
    with pytest.raises(BufferError):
        scale.append(1.0)
    del again
    gc.collect()
    scale.append(1.0)


@pytest.mark.parametrize("null", [None, ctypes.c_void_p(), ctypes.POINTER(ctypes.c_double)()])
def test_user_data_that_is_null(builder, null):
    source = "double is_null(double x, void *data) { return data == 0 ? x : -1e9; }\n"
    f = nc.load(builder.library(source, "null_data")).function("is_null", "d:dP")
    assert integrate.quad(f.to_scipy(user_data=null), 0.0, 2.0)[0] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("3.0", TypeError, "got str.*pass bytearray.s.encode"),
        (3.0, TypeError, "'user_data' must be a 'P' pointer: a buffer, .*got float"),
        (140737488355328, TypeError, "got int"),
        (object(), TypeError, "got object"),
        (b"12345678", ValueError, "writable.*const makes the argument read-only"),
        (np.zeros(4)[::2], ValueError, "C-contiguous"),
    ],
)
def test_user_data_that_is_none(kernels, value, error, message):
    f = kernels.function("scaled", "double (double, void *)")
    with pytest.raises(error, match=message):
        f.to_scipy(user_data=value)


def test_user_data_has_the_numbers_that_the_pointer_leads_to():
    f = nc.callback("double (double, const double *)")(lambda x, p: x * p[1])
    numbers = np.array([1.0, 3.0])
    for data in (numbers, (ctypes.c_double * 2)(1, 3), array.array("d", numbers)):
        assert integrate.quad(f.to_scipy(user_data=data), 0, 2)[0] == pytest.approx(6.0)
    for wrong in (np.array([1, 3]), np.float32([1, 3]), (ctypes.c_int * 2)(1, 3), bytes(numbers)):
        with pytest.raises(TypeError, match=r"'user_data' must be a .*'&d'"):
            f.to_scipy(user_data=wrong)


def test_user_data_that_is_only_read(kernels):
    f = kernels.function("scaled", "double (double, const void *)")
    scale = np.array([3.0])
    scale.flags.writeable = False
    for data in (scale, scale.tobytes()):
        assert integrate.quad(f.to_scipy(user_data=data), 0, 2)[0] == pytest.approx(6.0)
        assert integrate.quad(f.to_scipy("d:dP", user_data=data), 0, 2)[0] == pytest.approx(6.0)


def test_asking_for_const_makes_no_promise_for_the_function(kernels):
    f = kernels.function("scaled", "double (double, void *)")
    with pytest.raises(ValueError, match="'user_data' must be writable"):
        f.to_scipy("double (double, const void *)", user_data=b"12345678")
    with pytest.raises(nc.SignatureError, match="argument 2 is const"):
        f.to_scipy("float (double, const void *)", user_data=b"12345678")


def test_user_data_without_a_place(kernels):
    f = kernels.function("gauss", "d:d")
    with pytest.raises(ValueError, match=r"pointer as the last argument.*'gauss'.*'d:d'"):
        f.to_scipy(user_data=np.zeros(1))
    with pytest.raises(ValueError, match=r"last argument.*'d:d' does not have"):
        f.to_scipy("d:d", user_data=np.zeros(1))


# -- conversions ---------------------------------------------------------------------------------

CONVERTED = """
#include <stdint.h>
static int64_t count;
static void *caller;
#define CALLED (count++, caller = __builtin_return_address(0))
int64_t calls(void) { return count; }
void *last_caller(void) { return caller; }
float single(float x) { CALLED; return x * x; }
double by_reference(const double *x) { CALLED; return *x * 3; }
double three(double x, double a, double b) { CALLED; return x * a + b; }
double two_references(const double *x, const double *y) { CALLED; return *x * *y; }
double single_and_double(float x, double y) { CALLED; return x + y; }
float singles(float x, float y) { CALLED; return x * y; }
double wide(int64_t n, double *x)
{ double p = 1; CALLED; for (int64_t i = 0; i < n; i++) p *= x[i]; return p; }
double of_doubles(double x, const double *scale) { CALLED; return x * *scale; }
double two_scaled(double x, double y, void *scale) { CALLED; return x * y * *(double *)scale; }
double order(int n, double x) { CALLED; return n * x; }
double sum(double *x, int64_t n)
{ double s = 0; CALLED; for (int64_t i = 0; i < n; i++) s += x[i]; return s; }
void sum_out(double *x, int64_t n, double *out) { *out = sum(x, n); }
int sum_status(double *x, int64_t n, double *out) { *out = sum(x, n); return *out > 1e6; }
void running(double *in, int64_t n_in, double *out, int64_t n_out)
{ CALLED; for (int64_t i = 0; i < n_out; i++) out[i] = in[i] + in[i + n_in - n_out]; }
void shift(const int64_t *out, double *in, int rank_out, int rank_in)
{ CALLED; (void)rank_out; for (int i = 0; i < rank_in; i++) in[i] = (double)out[i] - 1; }
"""


@pytest.fixture(scope="module")
def others(builder):
    return nc.load(builder.library(CONVERTED, "others"))


@pytest.fixture
def seen(others):
    """The number of calls a block makes, once it is known that no Python event belongs to it."""
    calls = others.function("calls", "q:")

    def seen(block):
        before = calls()
        result = block()
        return result, calls() - before

    return seen


SUMS = ndimage.uniform_filter(IMAGE, size=3) * 9
QUADS = [
    ("single", "f:f", lambda box: integrate.quad(box, 0, 3), 9.0),
    ("by_reference", "d:&d", lambda box: integrate.quad(box, 0, 2), 6.0),
    ("three", "d:ddd", lambda box: integrate.quad(box, 0, 2, args=(3.0, 1.0)), 8.0),
    ("three", "d:ddd", lambda box: integrate.tplquad(box, 0, 1, 0, 1, 0, 1), 0.75),
    ("two_references", "d:&d&d", lambda box: integrate.dblquad(box, 0, 2, 0, 2), 4.0),
    ("single_and_double", "d:fd", lambda box: integrate.dblquad(box, 0, 2, 0, 1), 3.0),
    ("singles", "f:ff", lambda box: integrate.quad(box, 0, 2, args=(0.5,)), 1.0),
    ("wide", "d:q&d", lambda box: integrate.nquad(box, [[0, 2]] * 3), 8.0),
]


@pytest.mark.parametrize(("name", "signature", "call", "expected"), QUADS)
def test_quad_of_converted_functions(others, seen, name, signature, call, expected):
    box = others.function(name, signature).to_scipy()
    (value, _), made = seen(lambda: call(box))
    assert value == pytest.approx(expected, rel=1e-6)
    assert made > 0
    assert not any(callable(part) for part in tuple.__iter__(box))


def test_a_converted_function_calls_no_python(others, seen):
    box = others.function("three", "d:ddd").to_scipy()
    little = lambda: integrate.quad(box, 0, 1, args=(3.0, 1.0))
    much = lambda: integrate.dblquad(box, 0, 1, 0, 1, args=(3.0,))[0]
    assert seen(little)[1] == 21
    assert seen(much)[1] == 21 * 21
    assert events(little) == events(lambda: integrate.quad(box, 0, 2, args=(4.0, 1.0)))


@pytest.mark.parametrize(
    ("name", "signature", "data"),
    [
        ("of_doubles", "double (double, const double *)", np.array([3.0])),
        ("of_doubles", "double (double, const void *)", np.array([3.0]).tobytes()),
        ("two_scaled", "double (double, double, void *)", np.array([1.5])),
    ],
)
def test_user_data_of_converted_functions(others, name, signature, data):
    box = others.function(name, signature).to_scipy(user_data=data)
    args = (2.0,) if name == "two_scaled" else ()
    assert integrate.quad(box, 0, 2, args=args)[0] == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("name", "signature", "errors"),
    [
        ("sum", "d:&dq", "none"),
        ("sum_out", "v:&dq&d", "none"),
        ("sum_status", "i:&dq&d", "nonzero"),
    ],
)
def test_filters_of_converted_functions(others, seen, name, signature, errors):
    box = others.function(name, signature, errors=errors).to_scipy()
    result, made = seen(lambda: ndimage.generic_filter(IMAGE, box, size=3))
    assert result == pytest.approx(SUMS)
    assert made == IMAGE.size


def test_failures_become_what_ndimage_understands(others):
    """C's non-zero status is ndimage's zero, and the failure is told in ndimage's words."""
    box = others.function("sum_status", "i:&dq&d", errors="nonzero").to_scipy()
    with pytest.raises(RuntimeError, match="error in filter function"):
        ndimage.generic_filter(IMAGE * 1e6, box, size=3)
    f = nc.callback("i:&dn&dP", lambda *_: {}[0], errors="nonzero")
    with pytest.raises(KeyError):
        ndimage.generic_filter(IMAGE, f.to_scipy(), size=3)


@overlooked
def test_checks_of_conversions_surface(others):
    """A value out of range and a wrong number of coordinates are no wrong numbers."""
    box = others.function("single", "f:f").to_scipy()
    with pytest.raises((SystemError, OverflowError)) as found:
        integrate.quad(box, 0, 1e39)
    assert isinstance(found.value.__cause__ or found.value, OverflowError)
    box = others.function("three", "d:ddd").to_scipy()
    with pytest.raises((SystemError, ValueError)) as found:
        integrate.quad(box, 0, 1)
    assert isinstance(found.value.__cause__ or found.value, ValueError)
    assert "3" in str(found.value.__cause__ or found.value)


def test_the_box_keeps_what_was_converted(others):
    gone = []
    f = nc.callback("d:ddd", lambda x, a, b: x)
    weakref.finalize(f.function, gone.append, True)
    box = f.to_scipy()
    del f
    gc.collect()
    assert integrate.quad(box, 0, 2, args=(0.0, 0.0))[0] == pytest.approx(2.0)
    assert not gone
    del box
    gc.collect()
    assert gone


def test_the_order_of_choice(kernels, others):
    """What SciPy calls as it is comes before what is converted, in the documented order."""
    f = nc.wrap(
        {
            "d:ddd": others.function("three", "d:ddd"),
            "d:i&d": kernels.function("many", "d:i&d"),
            "d:dP": kernels.function("scaled", "d:dP"),
            "f:f": others.function("single", "f:f"),
        }
    )
    assert f.to_scipy().signature == "double (double, void *)"
    assert f["d:i&d"].to_scipy().signature == "double (int, double *)"
    assert f["f:f"].to_scipy().signature == "double (double)"
    f.add("d:d", kernels.function("gauss", "d:d"))
    assert f.to_scipy().signature == "double (double)"
    assert f.to_scipy(user_data=np.zeros(1)).signature == "double (double, void *)"
    assert f.to_scipy("d:i&d").signature == "double (int, double *)"
    g = nc.wrap({"d:ddd": f["d:ddd"], "f:f": f["f:f"]})
    assert g.to_scipy().signature == "double (int, double *)"
    assert g.to_scipy("d:d").signature == "double (double)"
    assert integrate.quad(g.to_scipy("d:d"), 0, 3)[0] == pytest.approx(9.0)


def test_what_scipy_cannot_call(others):
    """`order(n, x)` would fit (int, double *), with the number of coordinates for its order."""
    f = others.function("order", "d:id")
    with pytest.raises(nc.SignatureError, match=r"can call 'order', which offers 'd:id'.*'d:i&d'"):
        f.to_scipy()
    with pytest.raises(nc.SignatureError, match=r"convert|'d:id'"):
        f.to_scipy("d:dddd")
    assert integrate.quad(f.bind(2).to_scipy(), 0, 2)[0] == pytest.approx(4.0)
    for signature in ("P:d", "d:&&d", "v:d&d&d", "d:d.", "Zd:d", "d:", "O:O"):
        with pytest.raises(nc.SignatureError, match=r"SciPy|convert"):
            nc.wrap(f.address(), signature).to_scipy()
    assert nc.wrap(f.address(), "d:&f").to_scipy().signature == "double (double)"


def test_an_entry_that_another_library_calls(others):
    f = nc.wrap(others.function("three", "d:ddd").address(), "double (double, int *, void *)")
    assert f.to_scipy("d:d&iP").signature == "double (double, int *, void *)"
    with pytest.raises(nc.SignatureError, match="give the type that it calls as 'signature'"):
        f.to_scipy()


def test_a_low_level_callable_says_its_signature_and_its_data():
    from scipy._lib import _test_ccallback

    m = ctypes.CDLL(nc.load("m").path)
    other = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_double)(("cos", m))
    f = nc.wrap(LowLevelCallable(other, signature="double (double)"))
    assert (f.signatures, f(0.0)) == (("d:d",), 1.0)
    two = ctypes.c_double(2.0)
    box = _test_ccallback.test_get_plus1_capsule()
    set_context(box, ctypes.addressof(two))
    for target in (LowLevelCallable(box), box):
        f = nc.wrap(target)
        assert (f.signatures, f(1.0, array.array("i", [0]))) == (("d:d&i",), 3.0)
