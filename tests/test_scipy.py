"""SciPy runs native: its C code calls the kernel itself, as often as it says, and calls no Python.

Each kernel counts its calls and notes the return address of the last one, so what called it is
seen: SciPy's own extension module, where a call from Python comes from our core.
"""

from __future__ import annotations

import ctypes
import math
import sys

import numpy as np
import pytest
from scipy import LowLevelCallable, integrate, ndimage

import nativecall as nc
from nativecall import _lib

KERNELS = """
#include <stddef.h>
#include <stdint.h>
static int64_t count;
static void *caller;
#define CALLED (count++, caller = __builtin_return_address(0))
int64_t calls(void); int64_t calls(void) { return count; }
void *last_caller(void); void *last_caller(void) { return caller; }
double gauss(double x); double gauss(double x) { CALLED; return 1 / (1 + x * x); }
double scaled(double x, void *scale); double scaled(double x, void *scale)
{ CALLED; return x * *(double *)scale; }
double many(int n, double *x); double many(int n, double *x)
{ double p = 1; CALLED; for (int i = 0; i < n; i++) p *= x[i]; return p; }
double many_scaled(int n, double *x, void *scale); double many_scaled(int n, double *x, void *scale)
{ double p = *(double *)scale; CALLED; for (int i = 0; i < n; i++) p *= x[i]; return p; }
int largest(double *x, ptrdiff_t n, double *out, void *data);
int largest(double *x, ptrdiff_t n, double *out, void *data)
{
    CALLED; (void)data; *out = x[0];
    for (ptrdiff_t i = 1; i < n; i++) { if (x[i] > *out) { *out = x[i]; } }
    return 1;
}
int shift(ptrdiff_t *out, double *in, int rank_out, int rank_in, void *data);
int shift(ptrdiff_t *out, double *in, int rank_out, int rank_in, void *data)
{
    CALLED; (void)data; (void)rank_out;
    for (int i = 0; i < rank_in; i++) { in[i] = (double)out[i] - 1; }
    return 1;
}
int running(double *in, ptrdiff_t n_in, double *out, ptrdiff_t n_out, void *data);
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
    little = lambda: integrate.quad(box, 0, 1)  # noqa: E731
    much = lambda: integrate.quad(box, 0, 1000, limit=200)  # noqa: E731
    assert counted(much)[1] > 3 * counted(little)[1]
    assert events(much) == events(little)
    python = lambda x: 1 / (1 + x * x)  # noqa: E731
    assert events(lambda: integrate.quad(python, 0, 1000, limit=200)) > events(much) + 300


def test_the_callable_itself_would_be_called_through_python(kernels, counted):
    f = kernels.function("gauss", "double (double)")
    (value, _), made, file = counted(lambda: integrate.quad(f, 0, 1))
    assert made > 0
    assert "nativecall" in file
    assert abs(value - math.pi / 4) < 1e-14


def test_the_same_as_a_box_made_by_hand(kernels, counted):
    hand = ctypes.CDLL(kernels.path).gauss
    hand.argtypes, hand.restype = [ctypes.c_double], ctypes.c_double
    by_hand = counted(lambda: integrate.quad(LowLevelCallable(hand), 0, 3))
    box = kernels.function("gauss", "d:d").to_scipy()
    assert counted(lambda: integrate.quad(box, 0, 3)) == by_hand


@pytest.mark.parametrize("kind", ["ctypes", "cffi", "capsule"])
def test_user_data(kernels, counted, kind):
    import cffi

    ffi = cffi.FFI()
    scale = ctypes.c_double(3)
    data = {
        "ctypes": ctypes.cast(ctypes.pointer(scale), ctypes.c_void_p),
        "cffi": ffi.cast("void *", ctypes.addressof(scale)),
        "capsule": _lib.types.capsule(ctypes.addressof(scale), b"user data", scale),
    }[kind]
    f = kernels.function("scaled", "double (double, void *)")
    (value, _), made, file = counted(lambda: integrate.quad(f.to_scipy(user_data=data), 0, 2))
    assert value == pytest.approx(6.0)
    assert made > 0
    assert "_quadpack" in file


def test_overloads_choose_by_signature(kernels, counted):
    other = nc.load("m").function("cosf", "f:f")
    f = nc.wrap({"f:f": other, "d:d": kernels.function("gauss", "d:d")})
    (value, _), made, _ = counted(lambda: integrate.quad(f.to_scipy("d:d"), 0, 1))
    assert made > 0
    assert value == pytest.approx(math.pi / 4)


def test_nquad(kernels, counted):
    many = kernels.function("many", "double (int, double *)")
    (value, _), made, file = counted(
        lambda: integrate.nquad(many.to_scipy(), [[0, 2], [0, 2], [0, 2]])
    )
    assert value == pytest.approx(8.0)
    assert made > 9000
    assert "_quadpack" in file
    scale = ctypes.c_double(2)
    box = kernels.function("many_scaled", "double (int, double *, void *)").to_scipy(
        user_data=ctypes.cast(ctypes.pointer(scale), ctypes.c_void_p)
    )
    assert integrate.nquad(box, [[0, 2], [0, 2]])[0] == pytest.approx(8.0)


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


def test_quad_refuses_a_signature_it_does_not_take(kernels):
    f = kernels.function("largest", "int (double *, ptrdiff_t, double *, void *)")
    with pytest.raises(ValueError, match="signature"):
        integrate.quad(f.to_scipy(), 0, 1)
    g = kernels.function("gauss", "d:d")
    assert integrate.quad(g.to_scipy(), 0, 1)[0] == pytest.approx(math.pi / 4)


def test_user_data_that_was_not_given_is_null(builder, tmp_path):
    """SciPy passes a capsule's context as user_data; ours has none."""
    source = tmp_path / "user_data.c"
    source.write_text(
        "double is_null(double x, void *user_data) { return user_data == 0 ? x : -1e9; }\n"
    )
    f = nc.load(builder.library(source, "user_data")).function("is_null", "d:dP")
    assert integrate.quad(f.to_scipy(), 0.0, 2.0)[0] == pytest.approx(2.0)
