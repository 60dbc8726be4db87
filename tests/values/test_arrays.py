"""Arrays without a buffer as pointer arguments: DLPack, array interfaces, Arrow, pandas columns."""

import ctypes
import sys

import numpy as np
import pytest

import nativecall as nc

READS = "size_t f(const double *)"
WRITES = "N:&d"
NUMBERS = {
    "?": "?", "b": "i1", "B": "u1", "h": "i2", "H": "u2", "i": "i4", "I": "u4", "q": "i8",
    "Q": "u8", "e": "f2", "f": "f4", "d": "f8", "Zf": "c8", "Zd": "c16",
}  # fmt: skip


class Tensor:
    """An array of NumPy behind DLPack alone."""

    def __init__(self, array, device=(1, 0)):
        self.held, self.device, self.asked = array, device, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        self.asked.append(options)
        return self.held.__dlpack__(**options)


class OldTensor(Tensor):
    """One of before version 1, which takes no options."""

    def __dlpack__(self, stream=None):
        return super().__dlpack__()


class Interface:
    """An array of NumPy behind the array interface alone."""

    def __init__(self, array, **other):
        self.held = array
        self.__array_interface__ = {**array.__array_interface__, **other}


BOXES = [Tensor, OldTensor, Interface]


@pytest.fixture
def refused(lib, fails):
    """A context manager: that is why a value is no argument of a signature."""

    def refused(value, error, why, signature=READS, text="&d"):
        given = type(value).__name__
        message = f"argument 1 of 'address_of' must be a {text!r} pointer (got {given}"
        with fails(error, f"{message}: {why})"):
            lib.function("address_of", signature)(value)

    return refused


@pytest.mark.parametrize("box", BOXES)
def test_numbers_pass_without_a_copy(lib, fails, box):
    for letter, dtype in NUMBERS.items():
        array = np.zeros((2, 3), dtype)
        assert lib.function("address_of", f"N:&{letter}")(box(array)) == array.ctypes.data
        assert lib.function("address_of", "N:P")(box(array)) == array.ctypes.data
    array = np.arange(5.0)
    f = lib.function("fill", "v:&dqd")
    f(box(array[1:]), 3, 2.5)
    assert array.tolist() == [0, 2.5, 2.5, 2.5, 4]
    assert lib.function("address_of", WRITES)(box(array[:0])) in (0, array.ctypes.data)
    with fails(
        TypeError,
        "argument 1 of 'fill' must be a buffer that suits '&d' "
        f"(got 'f' elements in {box.__name__})",
    ):
        f(box(array.astype("f")), 1, 0.0)
    with fails(
        ValueError,
        "argument 1 of 'address_of' must be a buffer of at least 8 items of 'd' (got 5)",
    ):
        lib.function("address_of", "N:&(8)d")(box(array))


@pytest.mark.parametrize("box", BOXES)
def test_their_order_and_gaps_are_judged_as_those_of_buffers(lib, fails, box):
    rows = np.zeros((3, 4))
    name = box.__name__
    for order, good, bad in (("C", rows, rows.T), ("F", rows.T, rows)):
        f = lib.function("address_of", WRITES, order=order)
        assert f(box(good)) == rows.ctypes.data
        with pytest.raises(ValueError, match=rf"this {name} is in (C|Fortran) order; "):
            f(box(bad))
    with fails(
        ValueError,
        f"argument 1 of 'address_of' must be C-contiguous, this {name} is not; "
        "pass a contiguous copy",
    ):
        lib.function("address_of", WRITES)(box(rows[:, ::2]))


@pytest.mark.parametrize("box", [Tensor, Interface])
def test_what_is_read_only_needs_const(lib, fails, box):
    array = np.zeros(3)
    array.flags.writeable = False
    assert lib.function("address_of", READS)(box(array)) == array.ctypes.data
    with fails(
        ValueError,
        f"argument 1 of 'address_of' must be writable, this {box.__name__} is read-only; "
        "a C declaration with const makes the argument read-only",
    ):
        lib.function("address_of", WRITES)(box(array))


@pytest.mark.parametrize("box", BOXES)
def test_what_was_exported_lives_until_the_call_returns(lib, box):
    """The counts of references would tell of a deleter that ran twice, or never."""
    array = np.arange(3.0)
    before = sys.getrefcount(array)
    seen = []

    def look(x):
        seen.append(sys.getrefcount(array))
        return x

    f = lib.function("run_task", "d:T{&d:x:q:n:X{d:d}:f:}")
    assert f((box(array), 3, look)) == 3.0
    assert min(seen) > before
    assert sys.getrefcount(array) == before
    given = box(array)
    g = lib.function("fill", "v:&dqd")
    for bad in ("x", 1.5):
        with pytest.raises(TypeError) as info:
            g(given, bad, 1.0)
        # Also while the exception, and what its traceback holds, lives.
        assert info.value.__traceback__ is not None
        assert sys.getrefcount(array) == before + 1
    with pytest.raises(TypeError):
        lib.function("address_of", "N:&f")(given)
    assert sys.getrefcount(array) == before + 1
    bound = g.bind(given, 3)
    del given
    assert sys.getrefcount(array) > before
    bound(7.0)
    assert array.tolist() == [7.0] * 3
    del bound
    assert sys.getrefcount(array) == before


@pytest.mark.parametrize("box", BOXES)
def test_overloads_know_them(lib, box):
    address = lib.address("address_of")
    f = nc.wrap({"N:&d": address, "N:&f": address, "N:d": address}, name="f")
    for dtype in "df":
        array = np.zeros(3, dtype)
        assert f(box(array)) == array.ctypes.data
    with pytest.raises(TypeError, match=rf"^no entry of 'f' takes \({box.__name__}\)"):
        f(box(np.zeros(3, "i")))


def test_dlpack_is_asked_for_no_copy(lib):
    tensor = Tensor(np.zeros(2))
    lib.function("address_of", WRITES)(tensor)
    assert tensor.asked == [{"max_version": (1, 0), "copy": False}]


def test_memory_of_other_devices_is_refused(refused):
    for number, name in ((2, "CUDA"), (8, "Metal"), (99, "number 99")):
        tensor = Tensor(np.zeros(2), (number, 0))
        refused(tensor, ValueError, f"its memory is on a device ({name}); copy it to the CPU")
        assert tensor.asked == []


class Capsule:
    """A tensor that NumPy cannot make: what DLPack says of its elements is changed."""

    def __init__(self, code, bits, lanes=1):
        self.type, self.held = (code, bits, lanes), np.zeros(4)

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self):
        capsule = self.held.__dlpack__()
        get = ctypes.PYFUNCTYPE(ctypes.c_size_t, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", ctypes.pythonapi)
        )
        code, bits, lanes = self.type
        place = get(capsule, b"dltensor") + 20
        ctypes.memmove(place, bytes([code, bits]) + lanes.to_bytes(2, sys.byteorder), 4)
        return capsule


def test_elements_of_dlpack_that_c_has_not_are_refused(refused):
    for given, what in (
        ((4, 16), "16 bits of DLPack's type 4"),
        ((0, 4), "4 bits of DLPack's type 0"),
        ((3, 64), "64 bits of DLPack's type 3"),
        ((2, 32, 2), "32 bits of DLPack's type 2, 2 times"),
    ):
        refused(Capsule(*given), TypeError, f"its elements are not C numbers ({what})")


def test_what_an_exporter_raises_is_told(refused):
    class Broken(Tensor):
        def __dlpack__(self, **options):
            raise self.held

    refused(Broken(RuntimeError("it needs a gradient")), BufferError, "it needs a gradient")
    refused(Broken(ValueError("no")), ValueError, "no")

    class Used(Tensor):
        def __dlpack__(self):
            return 5

    refused(Used(None), ValueError, "PyCapsule_GetName called with invalid PyCapsule object")


def test_elements_of_array_interfaces_that_c_has_not_are_refused(refused):
    for dtype, what in (
        ("O", "Python objects"),
        ("M8[s]", "'<M8[s]' to NumPy, not C numbers"),
        ("S3", "'|S3' to NumPy, not C numbers"),
        ([("x", "d")], "'|V8' to NumPy, not C numbers"),
    ):
        refused(Interface(np.zeros(2, dtype)), TypeError, f"its elements are {what}")
    swapped = np.zeros(2, np.dtype("d").newbyteorder("S"))
    why = "its elements do not have this machine's byte order; pass a copy that does"
    refused(Interface(swapped), TypeError, why)
    refused(Interface(np.zeros(2), mask=Interface(np.zeros(2, "?"))), ValueError, "it has a mask")
    refused(
        Interface(np.zeros(2), typestr=None), TypeError, "'NoneType' object is not subscriptable"
    )


def test_an_array_interface_may_name_a_buffer(lib, fails):
    memory = bytearray(32)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    given = Interface(np.zeros(2), data=memory, offset=8)
    assert lib.function("address_of", WRITES)(given) == start + 8
    given = Interface(np.zeros(2), data=bytes(32))
    assert lib.function("address_of", READS)(given) != 0
    with pytest.raises(ValueError, match="must be writable, this Interface is read-only"):
        lib.function("address_of", WRITES)(given)


def test_what_is_no_array_is_refused_as_before(lib, fails):
    class Odd:
        __array_interface__ = None

    for value in (Odd(), 5, "text", [1.0]):
        with pytest.raises(TypeError, match="pointer: a buffer, a ctypes or cffi pointer, or None"):
            lib.function("address_of", WRITES)(value)
    with pytest.raises(TypeError, match="must be a '&&d' pointer: a buffer"):
        lib.function("address_of", "N:&&d")(Tensor(np.zeros(3, "u8")))


# -- Arrow ---------------------------------------------------------------------------------------


@pytest.fixture
def pa():
    return pytest.importorskip("pyarrow")


def test_arrays_of_arrow_pass_without_a_copy(lib, pa):
    for letter, name in C_NAMES.items():
        array = np.arange(5).astype(NUMBERS[letter])
        given = pa.array(array)
        start = given.buffers()[1].address
        f = lib.function("address_of", f"size_t f(const {name} *)")
        assert f(given) == f(pa.chunked_array([given])) == f(given[:0]) == start
        assert f(given[2:]) == start + 2 * array.itemsize
    given = pa.array([1.5, 2.5, 4.0])
    assert lib.function("sum", "double f(const double *, ptrdiff_t)")(given[1:], 2) == 6.5


C_NAMES = {
    "b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short", "i": "int",
    "I": "unsigned int", "q": "long long", "Q": "unsigned long long", "f": "float", "d": "double",
}  # fmt: skip


def test_arrays_of_arrow_are_not_written_to(lib, fails, pa):
    with fails(
        ValueError,
        "argument 1 of 'address_of' must be writable, this pyarrow.lib.DoubleArray is read-only; "
        "a C declaration with const makes the argument read-only",
    ):
        lib.function("address_of", WRITES)(pa.array([1.5]))


def test_nulls_and_other_types_of_arrow_are_refused(lib, refused, pa):
    given = pa.array([1.5, None, 2.5, None, 3.5])
    refused(given, ValueError, "2 of its 5 elements are null")
    refused(given[1:3], ValueError, "1 of its 2 elements are null")
    assert lib.function("address_of", READS)(given[2:3]) == given.buffers()[1].address + 16
    chunks = pa.chunked_array([[1.5], [2.5]])
    refused(chunks, ValueError, "it is in 2 chunks; pass its combine_chunks()")
    for given in (
        pa.array(["a"]),
        pa.array([True]),
        pa.array([[1.5]]),
        pa.array([1], pa.timestamp("s")),
    ):
        why = f"its elements are {str(given.type)!r} to Arrow, not C numbers"
        refused(given, TypeError, why)


# -- pandas --------------------------------------------------------------------------------------


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


def test_columns_of_pandas_pass_without_a_copy(lib, pd):
    f = lib.function("address_of", READS)
    array = np.arange(4.0)
    column = pd.Series(array, copy=False)
    assert f(column) == f(column.array) == array.ctypes.data
    assert f(column[1:]) == array.ctypes.data + 8
    table = pd.DataFrame({"x": array, "y": np.arange(4)})
    assert f(table["x"]) == table["x"].to_numpy().ctypes.data
    index = pd.Index(array, copy=False)
    assert f(index) == index.to_numpy().ctypes.data
    with pytest.raises(TypeError, match=r"\(got '.' elements in Series\); its dtype is int64"):
        f(table["y"])


def test_columns_with_masks_pass_where_nothing_is_missing(lib, refused, pd):
    f = lib.function("sum", "double f(const double *, ptrdiff_t)")
    column = pd.Series([1.5, 2.5, 4.0], dtype="Float64")
    assert f(column, 3) == f(column.array, 3) == 8.0
    given = pd.Series([1.5, None, 2.5], dtype="Float64")
    refused(given, ValueError, "1 of its 3 elements are missing")
    assert f(given[:1], 1) == 1.5
    with pytest.raises(ValueError, match="must be writable, this Series is read-only"):
        lib.function("address_of", WRITES)(column)


def test_columns_of_arrow_are_arrays_of_arrow(lib, refused, pa, pd):
    f = lib.function("sum", "double f(const double *, ptrdiff_t)")
    column = pd.Series([1.5, 2.5], dtype=pd.ArrowDtype(pa.float64()))
    assert f(column, 2) == f(column.array, 2) == 4.0
    given = pd.Series([1.5, None], dtype=pd.ArrowDtype(pa.float64()))
    refused(given, ValueError, "1 of its 2 elements are null")


def test_columns_without_numbers_in_memory_are_refused(lib, refused, pd):
    refused(pd.Series([1.5, "a"], dtype=object), TypeError, "its elements are Python objects")
    times = pd.Series(np.zeros(2, "M8[s]"))
    refused(times, TypeError, "its elements are '<M8[s]' to NumPy, not C numbers")
    for given in (pd.Series(["a"], dtype="category"), pd.Series(["a"], dtype="string")):
        why = f"its elements, of dtype {str(given.dtype)!r}, are not stored as numbers in memory"
        refused(given, TypeError, why)
    refused(pd.RangeIndex(3), TypeError, "a range has no memory buffer; pass its to_numpy()")
    refused(pd.DataFrame({"x": [1.5]}), TypeError, "a table has many columns; pass one of them")


def test_columns_that_pandas_shares_are_not_written_to(lib, pd):
    """pandas 3 says that they are read-only; before that they may be written to."""
    column = pd.Series([1.5, 2.5])
    f = lib.function("address_of", WRITES)
    if column.to_numpy().flags.writeable:
        assert f(column) == column.to_numpy().ctypes.data
    else:
        with pytest.raises(ValueError, match="must be writable, this Series is read-only"):
            f(column)


def test_nothing_is_imported(python):
    """Objects that only look like those of a library are no reason to import it."""
    code = """if True:
        import sys, numpy as np, nativecall as nc
        f = nc.load(None).function("strlen", "size_t f(const void *)")
        held = np.zeros(2)
        class T:
            __array_interface__ = held.__array_interface__
        assert f(T()) == 0
        assert not {"pandas", "pyarrow", "torch"} & {*sys.modules}
    """
    assert python(code) == ""


# -- structured dtypes ---------------------------------------------------------------------------

MIXED = """
    #include <stddef.h>
    typedef struct {
        _Bool a; double _Complex b; float _Complex c; long double d; short e[2];
    } mixed;
    mixed same(mixed one) { return one; }
    size_t copy(mixed *to, const mixed *from, size_t n)
    {
        for (size_t i = 0; i < n; i++) { to[i] = from[i]; }
        return sizeof(mixed);
    }
"""
FIELDS = [("a", "?"), ("b", "c16"), ("c", "c8"), ("d", np.longdouble), ("e", "i2", (2,))]


def test_structured_dtypes_are_arrays_of_structs_and_records(builder, fails):
    lib = nc.load(builder.library(MIXED, "mixed"))
    struct = "T{?:a:Zd:b:Zf:c:g:d:(2)h:e:}"
    copy = lib.function("copy", f"N:&{struct}&{struct}N")
    given = np.zeros(3, np.dtype(FIELDS, align=True))
    given[1] = (True, 1 + 2j, 3 + 4j, np.longdouble(1) / 3, (5, 6))
    given[2] = (False, -1j, 1, 2.5, (-1, -2))
    got = np.zeros_like(given)
    assert copy(got, given, 3) == given.dtype.itemsize
    assert (got == given).all()
    same = lib.function("same", f"{struct}:{struct}")
    packed = given.astype(np.dtype(FIELDS))
    for record, other in zip(given, packed, strict=True):
        result = same(record)
        assert result == same(other)
        assert tuple(result)[:4] == (record["a"], record["b"], record["c"], float(record["d"]))
        assert result.e == tuple(record["e"].tolist())
    with pytest.raises(TypeError, match="argument 2 of 'copy' must be a buffer that suits"):
        copy(got, packed, 3)
    fields = given[["a", "b"]]
    with pytest.raises(TypeError, match="argument 1 of 'copy' must be a buffer that suits"):
        copy(fields, given, 2)


# -- masked arrays ---------------------------------------------------------------------------------


class Levels(np.ma.MaskedArray):
    """A class of one's own."""


@pytest.mark.parametrize("cls", [np.ma.MaskedArray, Levels])
def test_masked_elements_are_refused(lib, refused, fails, cls):
    """The buffer has what is behind the mask, and C code would compute with it."""
    given = np.ma.array([1.5, -999.0, 2.5], mask=[False, True, False]).view(cls)
    refused(given, ValueError, "1 of its 3 elements are masked")
    refused(given, ValueError, "1 of its 3 elements are masked", signature=WRITES)
    refused(given, ValueError, "1 of its 3 elements are masked", signature="N:P", text="P")
    with fails(
        ValueError,
        "argument 1 of 'sum' must be a '&d' pointer "
        f"(got {cls.__name__}: 1 of its 3 elements are masked)",
    ):
        lib.function("sum", "double f(const double *, ptrdiff_t)")(given, 3)
    given[1] = 4.0
    assert lib.function("sum", "double f(const double *, ptrdiff_t)")(given, 3) == 8.0
    with pytest.raises(ValueError, match="2 of its 2 elements are masked"):
        nc.load(None).new("double[]", np.ma.masked_all(2))


@pytest.mark.parametrize("mask", [np.ma.nomask, False, [False] * 3])
def test_masked_arrays_without_masked_elements_are_arrays(lib, fails, mask):
    given = np.ma.array([1.5, 2.5, 4.0], mask=mask)
    for signature in (READS, WRITES, "N:P"):
        assert lib.function("address_of", signature)(given) == given.data.ctypes.data
        assert lib.function("address_of", signature)(given[1:]) == given.data.ctypes.data + 8
    lib.function("fill", "v:&dqd")(given, 2, 0.5)
    assert given.tolist() == [0.5, 0.5, 4.0]
    with fails(
        TypeError,
        "argument 1 of 'address_of' must be a buffer that suits '&d' "
        "(got 'f' elements in MaskedArray); "
        "its dtype is float32, astype('float64') of it is a copy that suits",
    ):
        lib.function("address_of", WRITES)(given.astype("f"))
    given.flags.writeable = False
    with pytest.raises(ValueError, match="must be writable, this MaskedArray is read-only"):
        lib.function("address_of", WRITES)(given)


def test_masked_arrays_as_views(builder, fails):
    path = builder.library(
        """
        #include <stdint.h>
        typedef struct { double *data; intptr_t shape[1], strides[1]; } view;
        double last(const view *v) { return v->data[v->shape[0] - 1]; }
        """,
        "masked_views",
    )
    last = nc.load(path).function("last", "d:[1]d")
    given = np.ma.array([1.5, 2.5], mask=[True, False])
    with fails(
        ValueError,
        "argument 1 of 'last' must be a '[1]d' array "
        "(got MaskedArray: 1 of its 2 elements are masked)",
    ):
        last(given)
    given.mask = False
    assert last(given) == last(given[::-1][::-1]) == 2.5
