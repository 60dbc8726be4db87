"""Array views, `[n]T`: what C gets of arrays of every shape, type and exporter; what is refused.

The callees are C that includes ``nativecall/view.h`` and reads elements by its macros. Everything
is called through generated code and without.
"""

from __future__ import annotations

import array
import ctypes
import gc
import itertools
import math
import sys
import weakref

import numpy as np
import pytest

import nativecall as nc
from nativecall._cdecl.spelling import parse

MAX_NDIM = 8  # of the macros, and of the callees here
TYPES = {
    "?": "_Bool", "b": "int8_t", "B": "uint8_t", "h": "int16_t", "H": "uint16_t", "i": "int32_t",
    "I": "uint32_t", "q": "int64_t", "Q": "uint64_t", "e": "uint16_t", "f": "float", "d": "double",
    "g": "long double", "Zf": "float _Complex", "Zd": "double _Complex",
    "Zg": "long double _Complex",
}  # fmt: skip
DTYPES = {code: np.dtype(code) for code in "?bBhHiIqQefdg"}
DTYPES.update({"Zf": np.dtype("F"), "Zd": np.dtype("D"), "Zg": np.dtype("G")})


def walk(n: int) -> str:
    """A callee of n dimensions: elements times their number in C order, added up."""
    loops = "".join(f"for (i{k} = 0; i{k} < a->shape[{k}]; i{k}++) " for k in range(n))
    indices = ", ".join(f"i{k}" for k in range(n))
    return f"""
typedef NC_VIEW(const double, {n}) Walked{n};
double walk{n}(const Walked{n} *a);
double walk{n}(const Walked{n} *a)
{{
    intptr_t {indices};
    double total = 0, number = 0;
    {loops}total += ++number * NC_VIEW_AT(const double, a, {indices});
    return total;
}}
void words{n}(const NcView *a, intptr_t *out);
void words{n}(const NcView *a, intptr_t *out)
{{
    intptr_t i;
    *out = (intptr_t)a->data;
    for (i = 0; i < {n}; i++) {{
        out[1 + i] = nc_view_shape(a)[i];
        out[1 + {n} + i] = nc_view_strides(a, {n})[i];
    }}
}}
"""


def last(code: str, name: str) -> str:
    """A callee that copies the last element of a type."""
    c = TYPES[code]
    return f"""
typedef NC_VIEW({c}, 1) Last_{name};
void last_{name}(const Last_{name} *a, {c} *out);
void last_{name}(const Last_{name} *a, {c} *out)
{{ *out = NC_VIEW_AT({c}, a, a->shape[0] - 1); }}
"""


SOURCE = """
#include <nativecall/view.h>

typedef NC_VIEW(double, 1) Vector;
typedef NC_VIEW(double, 2) Matrix;

void scale(const Matrix *a, double factor)
{
    intptr_t i, j;
    for (i = 0; i < a->shape[0]; i++) {
        for (j = 0; j < a->shape[1]; j++) {
            NC_VIEW_AT(double, a, i, j) *= factor;
        }
    }
}

void multiply(const Matrix *a, const Matrix *b, const Matrix *out)
{
    intptr_t i, j, k;
    for (i = 0; i < a->shape[0]; i++) {
        for (j = 0; j < b->shape[1]; j++) {
            double sum = 0;
            for (k = 0; k < b->shape[0]; k++) {
                sum += NC_VIEW_AT(double, a, i, k) * NC_VIEW_AT(double, b, k, j);
            }
            NC_VIEW_AT(double, out, i, j) = sum;
        }
    }
}

/* Null, else size, and whether it is contiguous in either order. */
int64_t order(const Matrix *a)
{
    return a == NULL ? -1 : NC_VIEW_SIZE(a) * 4 + (NC_VIEW_IS_F(a) ? 2 : 0) + NC_VIEW_IS_C(a);
}

double meanwhile(const Vector *a, void (*run)(void))
{
    run();
    return NC_VIEW_AT(double, a, a->shape[0] - 1);
}

/* `after` is there to fail to convert. */
int32_t fail(const Vector *a, int32_t status, double after)
{
    return a->shape[0] + (intptr_t)after < 0 ? -1 : status;
}

typedef struct {
    int8_t tag;
    double x;
    struct {
        float w;
        int16_t n[3];
    } inner;
} Record;
typedef NC_VIEW(const Record, 2) Records;

double records(const Records *a)
{
    double total = 0;
    intptr_t i, j;
    for (i = 0; i < a->shape[0]; i++) {
        for (j = 0; j < a->shape[1]; j++) {
            const Record *r = &NC_VIEW_AT(const Record, a, i, j);
            total += r->tag + r->x + (double)r->inner.w + r->inner.n[2];
        }
    }
    return total;
}

typedef NC_VIEW(double *, 1) Rows;
double rows(const Rows *a)
{
    double total = 0;
    intptr_t i;
    for (i = 0; i < a->shape[0]; i++) {
        total += *NC_VIEW_AT(double *, a, i);
    }
    return total;
}
"""
RECORD = "T{b:tag:d:x:T{f:w:(3)h:n:}:inner:}"
INNER = [("w", "f4"), ("n", "i2", (3,))]
RECORD_DTYPE = np.dtype([("tag", "i1"), ("x", "f8"), ("inner", INNER)], align=True)


@pytest.fixture(scope="module")
def views(builder, include):
    parts = [SOURCE, *map(walk, range(1, MAX_NDIM + 1))]
    parts += [last(code, code.replace("?", "t")) for code in TYPES]
    return nc.load(builder.library("\n".join(parts), "views", flags=("-O2", f"-I{include}")))


@pytest.fixture
def function(views):
    """Functions of the library."""
    return views.function


class Tagged(np.ndarray):
    """A subclass of arrays whose memory is elsewhere by another protocol."""

    __array_interface__ = {"data": (8, False), "shape": (1,), "typestr": "<f8", "version": 3}


def promised(text: str) -> nc.Signature:
    """A signature whose callee writes to none of its arguments."""
    known = parse(text)
    return nc.Signature(known.result, known.args, readonly=[True] * len(known.args))


def weighted(a) -> float:
    flat = np.asarray(a).reshape(-1)
    return float((flat * np.arange(1, flat.size + 1)).sum())


def is_free(data: bytearray) -> bool:
    """Whether nobody exports it: only then it can be resized."""
    try:
        data.append(0)
    except BufferError:
        return False
    data.pop()
    return True


# -- what arrives --------------------------------------------------------------------------------


@pytest.mark.parametrize("ndim", range(1, MAX_NDIM + 1))
def test_every_number_of_dimensions(function, ndim):
    """Pointer, shape and strides are the array's own; elements are found by them."""
    walked = function(f"walk{ndim}", f"d:[{ndim}]d")
    words = function(f"words{ndim}", f"v:[{ndim}]d&n")
    shape = (4, 3, 2, 1, 2, 3, 2, 2)[:ndim]
    a = np.arange(math.prod(shape)).reshape(shape) + 0.5
    step = (slice(None, None, -1), slice(None, None, 2))
    for one in (a, a.T, np.asfortranarray(a), a[step[:ndim]], a[..., :0], a[::-1].T, a[1:]):
        out = np.full(1 + 2 * ndim, -1, np.intp)
        words(one, out)
        # NumPy tells other strides of empty arrays to exporters than to people.
        assert out.tolist() == [one.ctypes.data, *one.shape, *memoryview(one).strides]
        assert walked(one) == weighted(one)


@pytest.mark.parametrize("ndim", [65, 129, 300])
def test_more_dimensions_than_a_view_may_have(views, function, fails, ndim):
    """ctypes counts no dimensions."""
    kind = ctypes.c_double
    for _ in range(ndim):
        kind = kind * 1
    with fails(
        ValueError,
        f"argument 1 of 'walk1' cannot be read as a strided array: it has {ndim} dimensions, more "
        "than 64",
    ):
        function("walk1", "d:[1]d")(kind())
    both = nc.wrap({f"d:[{n}]d": views.function(f"walk{n}", f"d:[{n}]d") for n in (1, 2)})
    with pytest.raises(TypeError, match="no entry of"):
        both(kind())


def test_broadcast_and_zero_strides(function):
    walked = function("walk2", promised("d:[2]d"))
    a = np.broadcast_to(np.array([1.0, 2.0]), (3, 2))
    assert a.strides == (0, 8)
    assert walked(a) == weighted(a)
    writable = np.lib.stride_tricks.as_strided(np.array([7.0]), (2, 3), (0, 0))
    assert walked(writable) == weighted(writable)


def test_callees_write_in_place(function):
    scale = function("scale", "v:[2]dd")
    a = np.arange(24.0).reshape(4, 6)
    expected = a.copy()
    for part in ((slice(None),), (slice(None, None, -2), slice(1, 4)), (slice(0), slice(None))):
        scale(a[part], 2.0)
        expected[part] *= 2.0
        assert (a == expected).all()
    scale(a.T, 0.5)
    assert (a == expected * 0.5).all()
    m = memoryview(bytearray(a.tobytes())).cast("d", (4, 6))
    scale(m, 3.0)
    assert m.tolist() == (a * 3).tolist()


def test_several_views_in_a_call(function):
    multiply = function("multiply", "v:[2]d[2]d[2]d")
    r = np.random.default_rng(1)
    a, b = r.random((3, 4)), r.random((5, 4)).T
    out = np.zeros((4, 10))
    multiply(a[::-1], b, out[:3, ::2])
    # Not `@`, whose libraries have errors on emulated processors.
    assert np.allclose(out[:3, ::2], np.einsum("ik,kj->ij", a[::-1], b))
    assert not out[3].any()
    assert not out[:, 1::2].any()
    square = r.random((3, 3))
    expected = square[:, :1] * square[:1]
    multiply(square[:, :1], square[:1], out[:3, :3])
    assert np.allclose(out[:3, :3], expected)


def test_the_order_of_elements(function):
    order = function("order", "q:[2]d")
    a = np.zeros((4, 6))
    strange = np.lib.stride_tricks.as_strided(a, (1, 6), (12345 * 8, 8))
    for one in (
        a, a.T, a[:, :3], a[:2], a[::-1], a[:1], a[:, :1], a[:1, :1], a[:0], a[:0, ::2], strange,
    ):  # fmt: skip
        flags = 2 * one.flags.f_contiguous + one.flags.c_contiguous
        assert order(one) == 4 * one.size + flags
    assert order(None) == -1


@pytest.mark.parametrize("code", TYPES)
def test_every_element_type(function, code):
    """Every scalar type arrives as itself; what is no such array is refused."""
    f = function(f"last_{code.replace('?', 't')}", f"v:[1]{code}&{code}")
    dtype = DTYPES[code]
    values = [0, 1, 1, 0] if code == "?" else [1, 2, 3, 100]
    a = np.array(values).astype(dtype)
    if dtype.kind == "c":
        a += 0.5j
    for one in (a, a[::-1], a[::2], a[:1]):
        out = np.zeros(1, dtype)
        f(one, out)
        assert out[0] == one[-1]
    assert memoryview(a).format == memoryview(out).format
    for other, kind in DTYPES.items():
        same = other == code or {other, code} <= set("bB") or kind == dtype
        if not same:
            with pytest.raises(TypeError) as info:
                f(a.astype(kind, casting="unsafe") if kind.kind == "c" else np.ones(4, kind), out)
            begins = (
                f"argument 1 of '{f.__name__}' must have '{parse(f.signatures[0]).args[0].item}"
            )
            assert str(info.value).startswith(begins)


def test_every_kind_of_exporter(function):
    walk1, walk2 = function("walk1", "d:[1]d"), function("walk2", "d:[2]d")
    values = [1.5, -2.0, 3.25, 4.0]
    flat = array.array("d", values)
    expected = weighted(values)
    for one in (
        flat,
        memoryview(flat),
        memoryview(bytearray(flat.tobytes())).cast("d"),
        (ctypes.c_double * 4)(*values),
        np.array(values),
        np.ma.array(values),
        np.array(values).view(Tagged),
    ):
        assert walk1(one) == expected
    assert walk1(memoryview(flat)[::-2]) == weighted(values[::-2])
    rows = (ctypes.c_double * 2 * 3)((1, 2), (3, 4), (5, 6))
    assert walk2(rows) == walk2(memoryview(rows)) == weighted(rows)
    assert walk2(memoryview(bytearray(48)).cast("d", (2, 3))) == 0.0
    data = bytes(flat)
    assert function("walk1", promised("d:[1]d"))(memoryview(data).cast("d")) == expected


def test_bytes_are_bytes(function):
    text = b"abc\xff"
    for code in "bB":
        out = bytearray(1)
        f = function(f"last_{code}", f"v:[1]{code}&{code}")
        for one in (
            bytearray(text),
            array.array("b", [1, -1]),
            np.frombuffer(bytearray(text), "b"),
        ):
            f(one, out)
            assert out[0] == 0xFF
    known = parse("v:[1]c&c")
    f = function("last_b", nc.Signature(known.result, known.args, readonly=(True, False)))
    for one in (text, memoryview(text), memoryview(text)[::-3], np.frombuffer(text, "B")):
        f(one, out)
        assert out[0] == memoryview(one)[-1]


# -- structs and pointers ------------------------------------------------------------------------


def test_views_of_records(function):
    f = function("records", f"d:[2]{RECORD}")
    a = np.zeros((4, 6), RECORD_DTYPE)
    a["tag"], a["x"] = 1, np.arange(24).reshape(4, 6)
    a["inner"]["w"], a["inner"]["n"][..., 2] = 0.5, 7

    def total(one):
        inner = one["inner"]
        return float((one["tag"] + one["x"] + inner["w"] + inner["n"][..., 2]).sum())

    for one in (a, a.T, a[::-1, ::2], a[:0]):
        assert f(one) == total(one)
    for dtype in (
        np.dtype([("tag", "i1"), ("x", "f8"), ("inner", INNER)]),
        np.dtype([("tag", "i1"), ("x", "f4"), ("inner", INNER)], align=True),
        np.dtype([("tag", "i1"), ("x", "f8")], align=True),
        np.dtype("f8"),
    ):
        with pytest.raises(
            TypeError, match=r"^argument 1 of 'records' must have 'T\{b:tag:d:x:T\{"
        ):
            f(np.zeros((2, 2), dtype))


def test_fields_of_records(function):
    """A field is an array whose strides are the records', a multiple of its own size or not."""
    dtype = np.dtype([("z", "D"), ("d", "d")], align=True)
    assert dtype.itemsize == 24
    a = np.zeros(5, dtype)
    a["z"], a["d"] = np.arange(5) * 1j, np.arange(5)
    out = np.zeros(1, "D")
    function("last_Zd", "v:[1]Zd&Zd")(a["z"], out)
    assert out[0] == 4j
    assert function("walk1", "d:[1]d")(a["d"]) == weighted(a["d"])
    function("scale", "v:[2]dd")(a["d"].reshape(1, 5), 3.0)
    assert a["d"].tolist() == [0, 3, 6, 9, 12]
    assert a["z"][4] == 4j


def test_views_of_pointers(function, fails):
    numbers = [ctypes.c_double(x) for x in (1, 2, 4)]
    pointers = (ctypes.POINTER(ctypes.c_double) * 3)(*map(ctypes.pointer, numbers))
    f = function("rows", "d:[1]&d")
    assert f(pointers) == 7.0
    addresses = (ctypes.c_void_p * 3)(*map(ctypes.addressof, numbers))
    assert f(addresses) == function("rows", "d:[1]P")(addresses) == 7.0
    with fails(TypeError, "argument 1 of 'rows' must have '&d' elements (got '&<f')"):
        f((ctypes.POINTER(ctypes.c_float) * 3)())
    with pytest.raises(TypeError, match="must have '&d' elements"):
        f(np.zeros(3, np.uintp))


# -- what is refused -----------------------------------------------------------------------------


def test_the_number_of_dimensions_is_checked(function, fails):
    f, g = function("walk1", "d:[1]d"), function("walk2", "d:[2]d")
    for value, ndim in ((np.zeros(()), 0), (np.float64(1), 0), (np.zeros((2, 2)), 2)):
        with fails(ValueError, f"argument 1 of 'walk1' must have 1 dimension (got {ndim})"):
            f(value)
    with fails(ValueError, "argument 1 of 'walk2' must have 2 dimensions (got 1)"):
        g(array.array("d", [1]))
    with fails(ValueError, "argument 1 of 'walk2' must have 2 dimensions (got 0)"):
        g(ctypes.c_double(1))


def test_what_has_no_buffer_is_refused(function, fails):
    f = function("walk1", "d:[1]d")
    for value in ([1.0], (1.0,), 1.0, "text", object(), iter([1.0])):
        with fails(
            TypeError,
            "argument 1 of 'walk1' must be an array or another object with a buffer "
            f"(got {type(value).__name__})",
        ):
            f(value)


def test_byte_order_is_the_machines(function, fails):
    other = ">" if sys.byteorder == "little" else "<"
    with fails(
        TypeError,
        f"argument 1 of 'walk1' must have 'd' elements (got '{other}d'); pass a copy in this "
        "machine's byte order",
    ):
        function("walk1", "d:[1]d")(np.zeros(3, other + "f8"))
    swapped = RECORD_DTYPE.newbyteorder("S")
    with pytest.raises(TypeError, match=r"pass a copy in this machine's byte order$"):
        function("records", f"d:[2]{RECORD}")(np.zeros((1, 1), swapped))
    odd = np.dtype([("a>b", "f8"), ("c", "f4")], align=True)
    with pytest.raises(TypeError, match=r"c:.*}'\)$|4x}'\)$"):
        function("records", f"d:[2]{RECORD}")(np.zeros((1, 1), odd))


@pytest.mark.parametrize("what", ["address", "stride"])
def test_elements_must_be_aligned(function, fails, what):
    f = function("walk1", "d:[1]d")
    memory = bytearray(100)
    start = -np.frombuffer(memory, "B").ctypes.data % 8
    offset, stride = (start + 1, 8) if what == "address" else (start, 12)
    a = np.ndarray((4,), "d", memory, offset, (stride,))
    with fails(
        ValueError,
        "argument 1 of 'walk1' must have its elements at multiples of 8 bytes, those of this "
        "ndarray are not; pass an aligned copy, as numpy.require(a, requirements='A') makes one of "
        "an array",
    ):
        f(a)
    assert f(a.copy()) == 0.0
    # Strides between no elements, and addresses of none, mean nothing.
    assert f(a[:0]) == 0.0
    if what == "stride":
        assert f(a[:1]) == 0.0
    packed = np.ndarray((4,), "B", memory, offset, (stride,))
    out = bytearray(1)
    function("last_B", "v:[1]B&B")(packed, out)


def test_read_only_arrays_need_a_promise(function, fails):
    a = np.arange(3.0)
    a.flags.writeable = False
    f = function("walk1", "d:[1]d")
    for value in (a, memoryview(a), memoryview(bytes(24)).cast("d")):
        with fails(
            ValueError,
            f"argument 1 of 'walk1' must be writable, this {type(value).__name__} is read-only; "
            "pass a copy, or write 'const' before the array in the signature, as in "
            "'const [1]d', if the callee does not write",
        ):
            f(value)
    g = function("walk1", promised("d:[1]d"))
    assert g(a) == g(memoryview(a)) == weighted(a)
    assert g.signatures == f.signatures == ("d:[1]d",)


def test_the_promise_is_const_in_c():
    text = promised("d:[2]f&i").c_declaration("f")
    assert text == (
        "double f(struct { const float *data; int64_t shape[2]; int64_t strides[2]; } *, "
        "const int32_t *)"
    )
    assert promised("v:[1]&d").c_declaration("f").startswith("void f(struct { double *const *data;")


def test_arrays_of_pointers_to_rows_are_refused(function, fails):
    testbuffer = pytest.importorskip(
        "_testbuffer", reason="CPython's own exporter is not installed"
    )
    flags = testbuffer.ND_PIL | testbuffer.ND_WRITABLE
    a = testbuffer.ndarray([1.0, 2.0, 3.0, 4.0], shape=[2, 2], format="d", flags=flags)
    for value in (a, memoryview(a)):
        with pytest.raises(BufferError) as info:
            function("walk2", "d:[2]d")(value)
        message = str(info.value)
        assert message.startswith("argument 1 of 'walk2' cannot be read as a strided array: ")
        assert "suboffsets" in message
        assert message.endswith("; pass a copy")


def test_what_the_exporter_says_is_told(function, fails):
    f = function("walk1", "d:[1]d")
    begins = "argument 1 of 'walk1' cannot be read as a strided array: "
    with fails(ValueError, begins + "cannot include dtype 'M' in a buffer"):
        f(np.zeros(3, "M8[s]"))
    released = memoryview(bytearray(8))
    released.release()
    with fails(ValueError, begins + "operation forbidden on released memoryview object"):
        f(released)
    for dtype in ("O", "U3", "S8", "V8"):
        with pytest.raises(TypeError, match=r"^argument 1 of 'walk1' must have 'd' elements"):
            f(np.zeros(3, dtype))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="__buffer__ is new in Python 3.12")
@pytest.mark.parametrize("error", [LookupError, MemoryError, KeyboardInterrupt])
def test_errors_of_python_exporters_pass_for_pointers(function, views, error):
    class Raising:
        asked = 0

        def __buffer__(self, flags):
            self.asked += 1
            raise error("my own error")

    f = function("walk1", "d:[1]d")
    pointer = function("last_d", "v:&d&d")
    anything = function("last_d", "v:PP")
    one = nc.wrap({"d:[1]d": f, "d:d": views.address("walk1")})
    other = nc.wrap({"v:&d&d": pointer, "v:PP": anything})
    for call in (f, one, lambda value: pointer(value, value), lambda value: other(value, value)):
        value = Raising()
        with pytest.raises(error, match=r"^my own error$"):
            call(value)
        assert value.asked == 1
    with pytest.raises(error, match=r"^my own error$"):
        anything(Raising(), None)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="__buffer__ is new in Python 3.12")
def test_buffers_of_python_exporters_are_released(function):
    class Array:
        def __init__(self):
            self.data, self.released = array.array("d", [1, 2]), 0

        def __buffer__(self, flags):
            return memoryview(self.data)

        def __release_buffer__(self, buffer):
            self.released += 1

    f = function("walk1", "d:[1]d")
    one = Array()
    assert f(one) == 5.0
    assert one.released == 1


# -- lifetime ------------------------------------------------------------------------------------


def test_buffers_are_held_during_the_call_and_released_after(function):
    f = function("meanwhile", "d:[1]dX{v:}")
    data = bytearray(np.arange(4.0).tobytes())
    held = []

    def resize():
        held.append(not is_free(data))
        try:
            data.clear()
        except BufferError as error:
            held.append(str(error))

    view = memoryview(data).cast("d")
    assert f(view, resize) == 3.0
    view.release()
    assert held == [True, "Existing exports of data: object cannot be re-sized"]
    assert is_free(data)
    numbers = array.array("d", [1, 2])
    with pytest.raises(BufferError, match="cannot resize an array that is exporting buffers"):
        f(numbers, lambda: numbers.append(3.0))
    numbers.append(3.0)
    assert numbers[2] == 3.0


def test_arrays_outlive_their_last_name_until_the_call_returns(function):
    f = function("meanwhile", "d:[1]dX{v:}")
    box = [np.arange(1000.0)]
    gone = weakref.ref(box[0])
    seen = []

    def drop():
        box.clear()
        gc.collect()
        seen.append(gone() is not None)

    assert f(box[0], drop) == 999.0
    assert seen == [True]
    assert gone() is None


@pytest.mark.parametrize("gil", ["hold", "release"])
def test_buffers_are_released_on_every_path(function, fails, gil):
    f = function("fail", "i:[1]did", errors="nonzero", gil=gil)
    data = bytearray(32)

    def attempt(*rest, kind="d"):
        with memoryview(data).cast(kind) as view:
            return f(view, *rest)

    assert attempt(0, 1.0) == 0
    assert is_free(data)
    with pytest.raises(nc.NativeFailure):
        attempt(3, 1.0)
    assert is_free(data)
    for rest, error in (((0, "x"), TypeError), ((2**40, 0), OverflowError), ((0,), TypeError)):
        with pytest.raises(error):
            attempt(*rest)
        assert is_free(data)
    for kind, error in (("f", TypeError), ("q", TypeError)):
        with pytest.raises(error):
            attempt(0, 1.0, kind=kind)
        assert is_free(data)
    with pytest.raises(ValueError, match="must have 1 dimension"), memoryview(data) as bytes_:
        f(bytes_.cast("d", (2, 2)), 0, 0)
    gc.collect()
    assert is_free(data)


def test_the_second_view_fails_and_the_first_is_released(function):
    multiply = function("multiply", "v:[2]d[2]d[2]d")
    data = bytearray(8)
    for bad in ([[1.0]], np.zeros(1), np.zeros((1, 1), "f"), np.zeros((1, 1), ">d")):
        with memoryview(data).cast("d", (1, 1)) as first, pytest.raises((TypeError, ValueError)):
            multiply(first, bad, np.zeros((1, 1)))
        assert is_free(data)


def test_buffers_in_a_struct_are_released_when_its_next_field_fails(function):
    f = function("fail", "i:[1]dT{&d:x:d:y:}d")
    data, vector = bytearray(8), np.zeros(1)
    with memoryview(data).cast("d") as view, pytest.raises(TypeError, match=r"^field 'y' of arg"):
        f(vector, (view, "x"), 0.0)
    assert is_free(data)


# -- overloads -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def overloaded(views):
    """One callable for arrays of several types and numbers of dimensions."""
    parts = {f"d:[{n}]d": f"walk{n}" for n in range(1, 4)}
    parts |= {"v:[1]f&f": "last_f", "v:[1]q&q": "last_q", "v:[1]B&B": "last_B"}
    found = {text: views.function(symbol, text) for text, symbol in parts.items()}
    found[f"d:[2]{RECORD}"] = views.function("records", f"d:[2]{RECORD}")
    return nc.wrap(found, name="overloaded")


def test_overloads_are_chosen_by_dimensions_and_elements(overloaded):
    a = np.arange(24.0)
    for shape in ((24,), (4, 6), (2, 3, 4)):
        assert overloaded(a.reshape(shape)) == weighted(a)
        assert overloaded(a.reshape(shape).T) == weighted(a.reshape(shape).T)
    for dtype in "fqB":
        out = np.zeros(1, dtype)
        assert overloaded(np.array([1, 7], dtype), out) is None
        assert out[0] == 7
    record = np.zeros((1, 2), RECORD_DTYPE)
    record["x"] = 2.5
    assert overloaded(record) == 5.0


def test_overloads_without_a_match_list_what_there_is(overloaded):
    for value in (np.zeros((1,) * 4), np.zeros(3, "i"), np.zeros(3, ">d"), [1.0], 1.0, None):
        with pytest.raises(TypeError, match=r"no entry of 'overloaded'") as info:
            overloaded(value, value, value)
        assert "d:[2]d" in str(info.value)
    for value in (np.zeros((1,) * 4), np.zeros(3, "i"), np.zeros(3, ">d"), [1.0], 1.0):
        with pytest.raises(TypeError, match=r"no entry of 'overloaded'"):
            overloaded(value)


def test_overloads_prefer_the_sign_of_bytes(views):
    """Either takes both; the one of the array's own type is exact, in whatever order they stand."""
    parts = {f"v:[1]{code}&{code}": views.function(f"last_{code}", f"v:[1]{code}&{code}")
             for code in "bB"}  # fmt: skip
    for pairs in (parts.items(), reversed(parts.items())):
        both = nc.wrap(dict(pairs))
        for dtype in "bB":
            out = np.zeros(1, dtype)
            both(np.array([1, 100], dtype), out)
            assert out[0] == 100


def test_overloads_take_what_a_pointer_refuses(views):
    """Strides and read-only memory, which the other entry has no trouble with."""
    parts = {"d:&d": views.address("walk1"), "d:[1]d": views.function("walk1", "d:[1]d")}
    locked = np.arange(3.0)
    locked.flags.writeable = False
    for pairs in (parts.items(), reversed(parts.items())):
        f = nc.wrap(dict(pairs), owner=views)
        for _ in range(3):
            assert f(np.arange(6.0)[::2]) == weighted(np.arange(6.0)[::2])
            with pytest.raises(ValueError, match="must be writable"):
                f(locked)
    for text in ("d:&d", "d:[2]d"):
        f = nc.wrap({text: views.address("walk2")}, owner=views)
        f.add(promised("d:[1]d"), views.address("walk1"))
        for _ in range(3):
            assert f(locked) == weighted(locked)


def test_overloads_release_what_they_looked_at(overloaded):
    data = bytearray(32)
    with memoryview(data).cast("d") as view:
        assert overloaded(view) == 0.0
    assert is_free(data)
    with memoryview(data).cast("h") as view, pytest.raises(TypeError):
        overloaded(view)
    assert is_free(data)


# -- the header ----------------------------------------------------------------------------------

CHECKED = """
#include <nativecall/view.h>
typedef NC_VIEW({declared}, 2) Checked;
double f(const Checked *a) {{ {statement} }}
"""


@pytest.mark.parametrize(
    ("declared", "statement", "compiles"),
    [
        ("double", "return NC_VIEW_AT(double, a, 0, 1u);", True),
        ("double", "NC_VIEW_AT(double, a, 0, 1) = 2; return a->data[0];", True),
        ("const double", "return NC_VIEW_AT(const double, a, 0, 1);", True),
        ("const double", "return NC_VIEW_AT(double, a, 0, 1);", True),
        ("double", "return (double)NC_VIEW_AT(float, a, 0, 1);", False),
        ("double", "return NC_VIEW_AT(double, a, 0);", False),
        ("double", "return NC_VIEW_AT(double, a, 0, 1, 2);", False),
        ("const double", "NC_VIEW_AT(double, a, 0, 1) = 2; return 0;", False),
    ],
)
def test_the_compiler_checks_types_and_indices(builder, include, declared, statement, compiles):
    source = CHECKED.format(declared=declared, statement=statement)
    flags = ("-O1", f"-I{include}")
    if compiles:
        f = nc.load(builder.library(source, f"checked{hash(source)}", flags=flags))
        assert f.function("f", "d:[2]d")(np.zeros((1, 2))) == 0.0
    else:
        with pytest.raises(AssertionError, match="error:"):
            builder.library(source, "refused", flags=flags)


def test_strides_that_callers_fill_in(builder, include):
    """Every order of every small shape is as NumPy has it."""
    source = """
    #include <nativecall/view.h>
    void fill(const intptr_t *shape, intptr_t *strides, int ndim, int c)
    { nc_view_fill_strides(shape, strides, ndim, 8, c ? 'C' : 'F'); }
    """
    path = builder.library(source, "fill", flags=("-O1", f"-I{include}"))
    fill = nc.load(path).function("fill", "v:&n&nii")
    for ndim in (1, 2, 3):
        for shape in itertools.product((1, 2, 5), repeat=ndim):
            for order in "CF":
                strides = np.zeros(ndim, np.intp)
                fill(np.array(shape, np.intp), strides, ndim, order == "C")
                assert tuple(strides) == np.zeros(shape, order=order).strides
