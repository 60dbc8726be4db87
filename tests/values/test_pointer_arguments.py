"""What is passed as a pointer: buffers, boxes of other libraries, functions; nothing is copied."""

import array
import ctypes
import math

import cffi
import numpy as np
import pytest

import nativecall as nc
from nativecall._types.ctype import scalar

CHAR = scalar("c").text


# -- pointers from buffers -----------------------------------------------------------------------


def test_buffers_pass_without_a_copy(lib):
    f = lib.function("address_of", "N:P")
    a = np.arange(5.0)
    assert f(a) == a.ctypes.data
    assert f(a[2:]) == a.ctypes.data + 16
    b = bytearray(b"abc")
    assert f(b) == ctypes.addressof(ctypes.c_char.from_buffer(b))
    c = array.array("d", [1, 2])
    assert f(c) == f(memoryview(c)) == c.buffer_info()[0]
    assert f(memoryview(c)[1:]) == c.buffer_info()[0] + 8
    d = (ctypes.c_int * 3)()
    assert f(d) == ctypes.addressof(d)
    assert f(None) == 0
    assert f(bytearray()) != 0


def test_callees_write_into_the_callers_memory(lib):
    f = lib.function("fill", "v:&dqd")
    a = np.zeros((2, 3))
    assert f(a, 6, 2.5) is None
    assert (a == 2.5).all()
    b = array.array("d", [0, 0])
    f(b, 2, 1.5)
    assert list(b) == [1.5, 1.5]
    f(memoryview(b)[1:], 1, 3.0)
    assert list(b) == [1.5, 3.0]
    f(None, 0, 1.0)
    c = (ctypes.c_double * 2)()
    f(c, 2, 4.0)
    assert list(c) == [4.0, 4.0]


NATIVE = {
    "b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32",
    "q": "int64", "Q": "uint64", "f": "float32", "d": "float64", "g": "longdouble",
    "Zf": "complex64", "Zd": "complex128", "Zg": "clongdouble", "e": "float16", "?": "bool",
}  # fmt: skip


#: The names of NumPy's for the elements that C's fixed widths have.
DTYPES = {f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)}
DTYPES |= {"float32", "float64", "complex64", "complex128"}
RANKS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


@pytest.mark.parametrize("wanted", NATIVE)
def test_element_types_must_match(lib, fails, wanted):
    """Every pair of element types: the equal ones pass, and bytes pass as bytes."""
    f = lib.function("address_of", f"N:&{wanted}")
    for given, dtype in NATIVE.items():
        a = np.zeros(2, dtype=dtype)
        same = given == wanted or (wanted in "bB" and given in "?bB")
        if same:
            assert f(a) == a.ctypes.data
        else:
            hint = ""
            if np.dtype(NATIVE[wanted]).name in DTYPES:
                suits = np.dtype(NATIVE[wanted]).name
                hint = f"; its dtype is {a.dtype}"
                # Otherwise fractions or imaginary parts would go.
                if RANKS[a.dtype.kind] <= RANKS[suits[0]]:
                    hint += f", astype('{suits}') of it is a copy that suits"
            with fails(
                TypeError,
                f"argument 1 of 'address_of' must be a buffer that suits '&{wanted}' "
                f"(got '{memoryview(a).format}' elements in numpy.ndarray){hint}",
            ):
                f(a)
    assert f(None) == 0


def test_integers_match_by_width_not_by_letter(lib):
    for code in "lqn" if ctypes.sizeof(ctypes.c_long) == 8 else "qn":
        f = lib.function("address_of", f"N:&{code}")
        for other in "lqn" if ctypes.sizeof(ctypes.c_long) == 8 else "qn":
            assert f(memoryview(bytearray(16)).cast(other)) != 0


@pytest.mark.parametrize("given", [["a"], [b"a"], [None], ["2001-01-01"], [1.5], [1j]])
def test_no_advice_that_fails_or_loses_is_given(lib, given):
    dtype = "M8[D]" if given == ["2001-01-01"] else None
    with pytest.raises(TypeError) as told:
        lib.function("address_of", "N:&i")(np.array(given, dtype))
    assert "astype" not in str(told.value)


def test_byte_order_must_be_the_machines(lib, fails):
    f = lib.function("address_of", "N:&d")
    a = np.zeros(2, dtype=np.dtype("d").newbyteorder("S"))
    with fails(
        TypeError,
        "argument 1 of 'address_of' must be a buffer that suits '&d' "
        f"(got '{memoryview(a).format}' elements in numpy.ndarray); its dtype is {a.dtype}, "
        "astype('float64') of it is a copy that suits",
    ):
        f(a)
    assert f(np.zeros(2, dtype=np.dtype("d").newbyteorder("="))) != 0


def test_buffers_must_be_contiguous(lib, fails):
    f = lib.function("sum", "d:&dq")
    a = np.arange(12.0).reshape(3, 4)
    for bad in (a[:, ::2], a.T[:, ::2], a[::-1]):
        with fails(
            ValueError,
            "argument 1 of 'sum' must be C-contiguous, this numpy.ndarray is not; "
            "pass a contiguous copy",
        ):
            f(bad, 3)
    with fails(
        ValueError,
        "argument 1 of 'sum' must be C-contiguous, this memoryview is not; pass a contiguous copy",
    ):
        f(memoryview(array.array("d", [1, 2, 3]))[::2], 2)
    assert f(np.ascontiguousarray(a.T), 12) == 66
    assert f(a, 12) == 66


def test_read_only_buffers_need_const(lib, fails):
    a = np.arange(3.0)
    a.flags.writeable = False
    f = lib.function("sum", "double (double *, ptrdiff_t)")
    message = (
        "argument 1 of '{}' must be writable, this {} is read-only; "
        "a C declaration with const makes the argument read-only"
    )
    with fails(ValueError, message.format("sum", "numpy.ndarray")):
        f(a, 3)
    with fails(ValueError, message.format("sum", "memoryview")):
        f(memoryview(array.array("d", [1])).toreadonly(), 1)
    g = lib.function("sum", "double (const double *, ptrdiff_t)")
    assert g(a, 3) == 3.0
    assert f(np.arange(3.0), 3) == 3.0
    h = lib.function("increment", "v:&B")
    with fails(ValueError, message.format("increment", "numpy.ndarray")):
        h(np.frombuffer(b"abcd", dtype="B"))


@pytest.mark.parametrize("value", [5, 1.5, [1.0, 2.0], (1.0,), object(), {1: 2}])
def test_what_is_no_pointer_is_refused(lib, fails, value):
    f = lib.function("sum", "d:&dq")
    message = (
        "argument 1 of 'sum' must be a '&d' pointer: a buffer, a ctypes or cffi pointer, or None "
        f"(got {type(value).__name__})"
    )
    if isinstance(value, (list, tuple)):
        message += "; numpy.array(values, 'd') makes a buffer from them"
    if isinstance(value, (int, float)):
        message += "; if C writes a result there, use 'out'"
    with fails(TypeError, message):
        f(value, 1)
    read = lib.function("sum", "double sum(const double *x, ptrdiff_t n)")
    message = message.partition("; if C")[0].replace("'&d'", "'const double *'")
    with fails(TypeError, message):
        read(value, 1)


def test_what_numpy_makes_no_numbers_of_is_not_advised(lib, fails):
    f = lib.function("sum", "d:&dq")
    message = (
        "argument 1 of 'sum' must be a '&d' pointer: a buffer, a ctypes or cffi pointer, or None "
        "(got list)"
    )
    for value in (["a"], [], [[None]]):
        with fails(TypeError, message):
            f(value, 1)
    with fails(TypeError, f"{message}; numpy.array(values, 'd') makes a buffer from them"):
        f([[1, 2], [3, 4]], 4)


def test_buffers_are_released_after_the_call(lib, fails):
    f = lib.function("fill", "v:&dqd")
    g = lib.function("sum", "d:&dq")
    b = bytearray(16)
    view = memoryview(b).cast("d")
    f(view, 2, 1.0)
    with pytest.raises(OverflowError):
        f(view, 2**70, 1.0)
    with fails(TypeError, "argument 3 of 'fill' must be a real number (got str)"):
        f(view, 2, "x")
    assert g(view, 2) == 2.0
    view.release()
    b.append(1)  # BufferError while anything still exports it


def test_buffers_of_structs(lib, callees, fails):
    f = lib.function("scale_points", "v:&T{d:x:d:y:}id")
    a = np.array([(1, 2), (3, 4)], dtype=[("x", "d"), ("y", "d")])
    f(a, 2, 2.0)
    assert a.tolist() == [(2, 4), (6, 8)]
    raw = bytearray(np.array([1.0, 2.0]).tobytes())
    f(raw, 1, 3.0)
    assert np.frombuffer(raw).tolist() == [3.0, 6.0]
    with fails(
        TypeError,
        "argument 1 of 'scale_points' must be a buffer that suits '&T{dd}' "
        "(got 'B' elements in bytearray)",
    ):
        f(bytearray(15), 1, 2.0)

    declared = "typedef struct { double x, y; } point; void scale_points(point *, int, double);"
    with fails(
        TypeError,
        "argument 1 of 'scale_points' must be a buffer that suits 'point *' "
        "(got 'd' elements in numpy.ndarray)",
    ):
        nc.load(callees, declared).scale_points(np.zeros(2), 1, 2.0)
    constant = nc.load(callees, declared.replace("(point", "(const point"))
    with pytest.raises(TypeError, match="must be a buffer that suits 'const point"):
        constant.scale_points(np.zeros(2), 1, 2.0)

    class P(ctypes.Structure):
        _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]

    p = P(1, 2)
    f(p, 1, 2.0)
    f(ctypes.pointer(p), 1, 2.0)
    f(ctypes.byref(p), 1, 2.0)
    assert (p.x, p.y) == (8.0, 16.0)
    ps = (P * 2)(P(1, 1), P(2, 2))
    f(ps, 2, 3.0)
    assert (ps[0].x, ps[1].y) == (3.0, 6.0)


OTHER_STRUCTS = {
    "an object pair": [("x", "O"), ("y", "O")],
    "the other byte order": [("x", np.dtype("d").newbyteorder("S")), ("y", "d")],
    "text": "S16",
    "integers": [("x", "q"), ("y", "q")],
    "three fields": [("x", "d"), ("y", "f"), ("z", "f")],
    "nested": [("p", [("x", "d")]), ("y", "d")],
    "an array": [("x", "d", (2,))],
    "complex": "Zd",
    "untyped": "V16",
    "bytes of another size": "V15",
}


@pytest.mark.parametrize("what", OTHER_STRUCTS)
def test_structs_of_the_same_size_are_told_apart(lib, fails, what):
    f = lib.function("scale_points", "v:&T{d:x:d:y:}id")
    a = np.zeros(2, dtype="D" if what == "complex" else OTHER_STRUCTS[what])
    with fails(
        TypeError,
        "argument 1 of 'scale_points' must be a buffer that suits '&T{dd}' "
        f"(got '{memoryview(a).format}' elements in numpy.ndarray)",
    ):
        f(a, 2, 2.0)
    both = nc.wrap({"v:&T{dd}id": f, "d:d": nc.load("m").address("cos")})
    with pytest.raises(TypeError, match=r"^no entry of '\w+' takes \(ndarray, int, float\)"):
        both(a, 2, 2.0)


def test_struct_buffers_of_every_kind(lib, fails):
    """Nested structs, arrays and padding as NumPy and ctypes have them."""
    f = lib.function("address_of", "N:&T{b(2)T{dd}T{fh}}")
    point = [("x", "d"), ("y", "d")]
    dtype = np.dtype(
        [("t", "b"), ("at", point, (2,)), ("inner", [("w", "f"), ("n", "h")])], align=True
    )
    a = np.zeros(3, dtype)
    assert f(a) == f(memoryview(a)) == f(a.view("B")) == f(a.view("b")) == a.ctypes.data
    with pytest.raises(TypeError, match=r"^argument 1 of 'address_of' must be a buffer that suits"):
        f(np.zeros(3, np.dtype(dtype.descr)[["t", "at"]]))

    class Point(ctypes.Structure):
        _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]

    class Inner(ctypes.Structure):
        _fields_ = [("w", ctypes.c_float), ("n", ctypes.c_short)]

    class Mixed(ctypes.Structure):
        _fields_ = [("t", ctypes.c_byte), ("at", Point * 2), ("inner", Inner)]

    class Union(ctypes.Union):
        _fields_ = [("mixed", Mixed)]

    class Packed(ctypes.Structure):
        _pack_ = 1
        _layout_ = "ms"
        _fields_ = [("t", ctypes.c_byte), ("d", ctypes.c_double)]

    class Swapped(ctypes.BigEndianStructure if np.little_endian else ctypes.LittleEndianStructure):
        _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]

    for value in (Mixed(), (Mixed * 2)(), (Mixed * 2 * 2)()):
        assert f(value) == f(memoryview(value)) == ctypes.addressof(value)
    packed = Packed()
    assert lib.function("address_of", "N:&=T{bd}")(packed) == ctypes.addressof(packed)
    for signature, value in (
        ("N:&T{b(2)T{dd}T{fh}}", Union()),
        ("N:&T{b(2)T{dd}T{fh}}", (Point * 3)()),
        ("N:&T{dd}", Swapped()),
        ("N:&=T{bq}", packed),
    ):
        with pytest.raises(TypeError, match=r"^argument 1 of 'address_of' must be a buffer that"):
            lib.function("address_of", signature)(value)


def test_buffers_of_python_objects_are_refused(lib, fails):
    f = lib.function("address_of", "N:P")

    class Holder(ctypes.Structure):
        _fields_ = [("o", ctypes.py_object)]

    class Pointing(ctypes.Structure):
        _fields_ = [("o", ctypes.POINTER(ctypes.py_object))]

    for value in (
        np.zeros(2, object),
        np.zeros(2, [("a", "d"), ("b", "O")]),
        (ctypes.py_object * 2)(),
        Holder(),
    ):
        with fails(
            TypeError,
            "argument 1 of 'address_of' must be a buffer that suits 'P' "
            f"(got '{memoryview(value).format}' elements in "
            f"{'numpy.ndarray' if isinstance(value, np.ndarray) else type(value).__name__})",
        ):
            f(value)
    # The letter in a field's name is no object, and a pointer to one is a pointer.
    named = np.zeros(2, [("O", "d"), ("aOb", "d")])
    assert f(named) == named.ctypes.data
    pointing = Pointing()
    assert f(pointing) == ctypes.addressof(pointing)


# -- pointers from other boxes -------------------------------------------------------------------


def test_ctypes_pointers(lib, fails):
    f = lib.function("increment", "v:&i")
    x = ctypes.c_int(1)
    f(x)
    f(ctypes.pointer(x))
    f(ctypes.byref(x))
    f(ctypes.cast(ctypes.pointer(x), ctypes.c_void_p))
    assert x.value == 5
    xs = (ctypes.c_int * 3)(1, 1, 1)
    f(ctypes.byref(xs, 4))
    f(ctypes.cast(xs, ctypes.POINTER(ctypes.c_int)))
    assert list(xs) == [2, 2, 1]
    y = ctypes.c_double(1)
    with fails(
        TypeError,
        "argument 1 of 'increment' must be a pointer '&i' (got '&d' from LP_c_double)",
    ):
        f(ctypes.pointer(y))
    with fails(
        TypeError, "argument 1 of 'increment' must be a pointer '&i' (got '&d' from CArgObject)"
    ):
        f(ctypes.byref(y))
    assert y.value == 1.0
    assert f(x) is None


def test_ctypes_pointers_pass_the_address_they_hold(lib):
    """ctypes exports the pointer's own memory as a buffer; that is not what is meant."""
    f = lib.function("address_of", "N:P")
    x = ctypes.c_double(1)
    for p in (
        ctypes.pointer(x),
        ctypes.byref(x),
        ctypes.cast(ctypes.pointer(x), ctypes.c_void_p),
        ctypes.cast(ctypes.pointer(x), ctypes.c_char_p),
    ):
        assert f(p) == ctypes.addressof(x)
    assert f(ctypes.c_void_p()) == f(ctypes.c_char_p()) == f(ctypes.POINTER(ctypes.c_int)()) == 0
    text = ctypes.c_char_p(b"abc")
    assert lib.function("length", "q:&c")(text) == 3
    square = ctypes.CDLL(lib.path).square
    assert f(square) == ctypes.cast(square, ctypes.c_void_p).value


def test_arrays_of_pointers(lib):
    f = lib.function("total_length", "i:&&ci")
    texts = (ctypes.c_char_p * 2)(b"abc", b"defg")
    assert f(texts, 2) == 7
    ffi = cffi.FFI()
    kept = [ffi.new("char[]", b"abc"), ffi.new("char[]", b"d")]
    assert f(ffi.new("char *[]", kept), 2) == 4


@pytest.mark.parametrize(
    ("signature", "count", "item", "make"),
    [
        ("&(3)d", 3, "d", lambda n: array.array("d", bytes(8 * n))),
        ("&(2,3)i", 6, "i", lambda n: np.zeros(n, "i")),
        ("&(3)d", 3, "d", lambda n: (ctypes.c_double * n)()),
        ("&(5)c", 5, CHAR, bytes),
        ("&(5)c", 5, CHAR, bytearray),
        ("&(2)T{d:x:d:y:}", 2, "T{dd}", lambda n: np.zeros(n, [("x", "d"), ("y", "d")])),
        ("&(2)T{d:x:d:y:}", 2, "T{dd}", lambda n: bytearray(16 * n)),
        ("&(2)Zd", 2, "Zd", lambda n: np.zeros(n, "D")),
    ],
)
def test_pointers_to_arrays_take_no_shorter_ones(lib, fails, signature, count, item, make):
    f = lib.function("address_of", f"N:{signature}")
    for n in (count, count + 1):
        assert f(make(n)) != 0
    assert f(None) == 0
    short = make(count - 1)
    text = f"must be a buffer of at least {count} items of {item!r} (got {count - 1})"
    for _ in range(2):
        with fails(ValueError, f"argument 1 of 'address_of' {text}"):
            f(short)
        with fails(ValueError, f"argument 1 of 'address_of' {text}"):
            f.bind(short)
    g = nc.callback(f"q:{signature}", lambda given: -1)
    with fails(ValueError, f"argument 1 of '<lambda>' {text}"):
        g(short)


def test_a_buffer_that_is_too_short_is_released(lib):
    short = bytearray(4)
    with pytest.raises(ValueError, match="at least 5 items"):
        lib.function("address_of", "N:&(5)c")(short)
    short.append(0)  # which an exported one refuses


def test_no_traceback_keeps_a_buffer_exported(lib):
    """What was converted before the value that is refused is released, though the error is kept."""
    given = array.array("i", [0])
    f = nc.wrap(lib.address("fill"), "v:&iT{d:x:}")
    with pytest.raises(TypeError) as bound:
        f.bind(given, ("x",))
    given.append(0)
    with pytest.raises(TypeError) as called:
        f(given, ("x",))
    given.append(0)
    kept = [bound.value, called.value]
    with pytest.raises(TypeError) as sentinel:
        nc.callback("T{&i:p:d:x:}:i", lambda i: None, errors=(given, "x"))
    given.append(0)
    with pytest.raises(TypeError) as result:
        nc.callback("T{&i:p:d:x:}:i", lambda i: (given, "x"))(1)
    given.append(0)
    kept += [sentinel.value, result.value]
    assert all(error.__traceback__ is not None for error in kept)


def test_pointers_to_arrays_of_other_libraries_have_their_length(lib, fails):
    f = lib.function("address_of", "N:&(3)d")
    three, two = (ctypes.c_double * 3)(), (ctypes.c_double * 2)()
    assert f(ctypes.pointer(three)) == f(ctypes.byref(three)) == ctypes.addressof(three)
    message = "argument 1 of 'address_of' must be a pointer '&(3)d' (got '&(2)d' from {})"
    with fails(TypeError, message.format("LP_c_double_Array_2")):
        f(ctypes.pointer(two))
    with fails(TypeError, message.format("CArgObject")):
        f(ctypes.byref(two))
    ffi = cffi.FFI()
    assert f(ffi.new("double(*)[3]")) != 0
    with fails(TypeError, message.format("__CDataOwn")):
        f(ffi.new("double(*)[2]"))


def test_cffi_pointers_of_a_type_that_was_taken_before(lib, fails):
    """Python is asked about the first of a type; what is wrong is seen all the same."""
    ffi = cffi.FFI()
    ffi.cdef("typedef struct later later; typedef struct { double x, y; } point;")
    f = lib.function("increment", "v:&i")
    x, xs = ffi.new("int *", 1), ffi.new("int[2]")
    unaligned = ffi.cast("int(*)[1]", int(ffi.cast("uintptr_t", xs)) + 1)[0]
    refused = [
        (ffi.new("double *"), TypeError, "be a pointer '&i' (got '&d' from __CDataOwn)"),
        (ffi.new("int **"), TypeError, "be a pointer '&i' (got '&&i' from __CDataOwn)"),
        (
            ffi.cast("int", 5),
            TypeError,
            "be a '&i' pointer: a buffer, a ctypes or cffi pointer, or None (got cffi's 'int')",
        ),
        (
            unaligned,
            ValueError,
            "have its elements at multiples of 4 bytes, those of this _CDataBase are not; pass an "
            "aligned copy, as numpy.require(a, requirements='A') makes one of an array",
        ),
    ]
    aligned = ffi.cast("int(*)[1]", xs)[0]
    for _ in range(3):
        for good in (x, ffi.cast("void *", x), xs, xs + 1, ffi.gc(x, lambda _: None), aligned):
            f(good)
        for bad, exception, message in refused:
            with fails(exception, f"argument 1 of 'increment' must {message}"):
                f(bad)
    assert (x[0], list(xs)) == (10, [6, 3])
    asked = lib.function("address_of", "N:&T{dd}")
    points, pointer = ffi.new("point[1]"), ffi.new("point *")
    assert [asked(points), asked(pointer)] == [asked(points), asked(pointer)]
    # What is opaque may be declared yet.
    opaque = ffi.cast("later *", 16)
    assert asked(opaque) == asked(opaque) == 16
    ffi.cdef("struct later { int x; };")
    with fails(
        TypeError,
        "argument 1 of 'address_of' must be a pointer '&T{dd}' (got '&T{i}' from _CDataBase)",
    ):
        asked(opaque)


def test_cffi_pointers_of_more_types_than_are_kept(lib):
    ffi = cffi.FFI()
    f = lib.function("address_of", "N:P")
    assert f(ffi.NULL) == 0
    arrays = [ffi.new(f"char[{length}]") for length in range(1, 300)]
    for _ in range(3):
        for one in arrays:
            assert f(one) == int(ffi.cast("uintptr_t", one))


def test_pointer_results_are_cffi_pointers(lib):
    f = lib.function("same_pointer", "&d:&d")
    a = np.array([1.5, 2.5])
    p = f(a)
    assert (p[0], p[1]) == (1.5, 2.5)
    p[0] = 7
    assert a[0] == 7
    assert cffi.FFI().typeof(p).cname == "double *"
    assert cffi.FFI().string(lib.function("null_unless", "char *(_Bool)")(True)) == b"found"


# -- pointer variables of ctypes -----------------------------------------------------------------


def test_a_void_pointer_of_ctypes_is_passed_by_reference():
    process = nc.load(None)
    allocate = process.function("posix_memalign", "int (void **, size_t, size_t)")
    free = process.function("free", "void (void *)")
    variable = ctypes.c_void_p()
    assert allocate(variable, 64, 100) == 0
    assert variable.value % 64 == 0
    free(variable)
    variable.value = None
    bound = allocate.bind(variable)
    assert bound(64, 100) == 0
    assert variable.value
    free(variable)
    also = ctypes.c_void_p(1)
    assert allocate(ctypes.byref(also), 64, 100) == allocate(ctypes.pointer(variable), 64, 1) == 0
    free(also)
    free(variable)
    choose = nc.wrap({"i:&P": process.address("abs"), "i:d": process.address("abs")})
    assert nc._ext.match(choose["i:&P"]._cif, variable) == 0


@pytest.mark.parametrize("make", [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_wchar_p])
@pytest.mark.parametrize("type", ["&d", "&c", "&&d", "X{d:d}", "O", "P"])
def test_other_pointer_variables_of_ctypes_are_not_passed_by_value(lib, make, type):
    """Their value, NULL for a new one, is not where the function is to put a pointer."""
    if make is ctypes.c_void_p and type == "P":
        return  # by reference, above
    place = lib.address("called0")
    one = nc.wrap(place, f"v:&{type}", name="f")
    text = one.signatures[0][2:]
    message = (
        f"must be a pointer {text!r} to a variable of {text[1:]!r} (got {make.__name__}); "
        "pass ctypes.byref() of one"
    )
    for call in (
        lambda: one(make()),
        lambda: nc.wrap(place, f"v:T{{&{type}}}", name="f")((make(),)),
        lambda: nc.wrap(place, f"v:&{type}i", name="f").bind(make()),
        nc.callback(f"&{type}:", make, errors="python"),
    ):
        with pytest.raises(TypeError) as info:
            call()
        assert str(info.value).endswith(message)


# -- function pointers ---------------------------------------------------------------------------


def test_function_pointer_arguments(lib, fails):
    apply = lib.function("apply", "d:X{d:d}d")
    square = lib.function("square", "d:d")
    cdll = ctypes.CDLL(lib.path)
    cdll.square.argtypes, cdll.square.restype = [ctypes.c_double], ctypes.c_double
    assert apply(square, 3.0) == apply(square.builtin, 3.0) == apply(cdll.square, 3.0) == 9.0
    assert apply(square.to_cffi(), 3.0) == apply(square.to_capsule(), 3.0) == 9.0
    assert apply(lambda x: x + 1, 3.0) == apply(math.sqrt, 16.0) == 4.0
    assert apply(None, 3.0) == -1
    overloaded = nc.wrap({"f:f": nc.load("m").function("sqrtf", "f:f"), "d:d": square})
    assert apply(overloaded, 3.0) == 9.0
    assert apply(nc.load("m").function("sqrtf", "f:f"), 9.0) == 3.0
    why = "it takes 2 arguments, not 1; bind() fixes arguments"
    why += "; a trailing 'void *' may be dropped or added"
    cdll.apply.argtypes, cdll.apply.restype = [ctypes.c_double] * 2, ctypes.c_double
    with fails(
        TypeError,
        "argument 1 of 'apply' must be a function 'd:d' (got 'd:dd' from _FuncPtr): cannot convert "
        f"'apply' from 'd:dd' to 'd:d': {why}",
    ):
        apply(cdll.apply, 3.0)
    with fails(TypeError, "argument 1 of 'apply' must be a function (got int)"):
        apply(5, 3.0)
    assert apply(square, 3.0) == 9.0


def test_a_subclass_that_overrides_call_is_a_python_function_to_c(lib):
    class Plus(nc.NativeCallable):
        def __call__(self, x):
            return super().__call__(x) + 1

    apply = lib.function("apply", "d:X{d:d}d")
    assert apply(Plus(lib.function("square", "d:d"), name="plus"), 3.0) == 10.0


def test_function_pointer_results(lib):
    f = lib.function("get_square", "X{d:d}:")
    assert f()(3.0) == 9.0
    assert nc.wrap(f())(3.0) == 9.0


@pytest.mark.parametrize("array", [np.zeros(3, "M8[s]"), np.zeros(3, "m8[s]")])
def test_what_has_no_buffer_says_why(lib, array):
    with pytest.raises(
        TypeError,
        match=r"^argument 1 of 'address_of' must be a buffer that suits '&d' "
        r"\(numpy.ndarray has none: cannot include dtype '[Mm]' in a buffer\)$",
    ):
        lib.function("address_of", "N:&d")(array)


# -- rows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signature", "rows", "good", "bad"),
    [
        ("N:&(3)d", "(3,)", [(3,), (2, 3), (5, 2, 3), (6,), (3, 1)], [(2, 4), (3, 2)]),
        ("N:&(6)d", "(6,)", [(6,), (2, 3), (4, 2, 3), (4, 6)], [(3, 3), (6, 2)]),
        ("N:&(2,3)d", "(2, 3)", [(2, 3), (4, 3), (5, 2, 3), (6,)], [(3, 2), (5, 3, 2), (2, 4, 3)]),
    ],
)
def test_rows_have_the_length_that_c_declares(lib, fails, signature, rows, good, bad):
    f = lib.function("address_of", signature)
    for shape in good:
        array = np.zeros(shape)
        assert f(array) == f(memoryview(array)) == array.ctypes.data
    for shape in bad:
        message = (
            f"argument 1 of 'address_of' must have rows of shape {rows} (got an array of shape "
            f"{shape}); reshape it, or pass a one-dimensional array"
        )
        for array in (np.zeros(shape), memoryview(np.zeros(shape))):
            with fails(ValueError, message):
                f(array)


def test_rows_of_fortran_are_not_compared(lib):
    """Where the order is another, C's declaration says nothing of an array's lengths."""
    array = np.zeros((3, 4), order="F")
    assert lib.function("address_of", "N:&(3)d", order="F")(array) == array.ctypes.data
    assert lib.function("address_of", "N:&(3)d", order="A")(array) == array.ctypes.data


def test_functions_are_no_pointers_to_functions(builder, fails):
    """What has the code itself is no variable that points to it."""
    source = "typedef int (*function)(int); int of(function *f) { return (*f)(3); }"
    lib = nc.load(
        builder.library(source, "offunctions"),
        source.partition(" int of")[0] + "int of(function *f);",
    )
    double = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: 2 * x)
    ffi = cffi.FFI()
    of_cffi = ffi.callback("int(int)", lambda x: 3 * x)
    assert lib.of(ctypes.byref(double)) == 6
    assert lib.of(ctypes.pointer(double)) == 6
    assert lib.of((type(double) * 1)(double)) == 6
    assert lib.of(ffi.new("int(**)(int)", of_cffi)) == 9
    for function, box in ((double, "CFunctionType"), (of_cffi, "__CDataOwnGC")):
        with fails(TypeError, f"argument 1 of 'of' must be a pointer 'function *' (got a {box})"):
            lib.of(function)
    with pytest.raises(TypeError, match="must be a pointer 'function \\*'"):
        lib.of(ctypes.CDLL(None).abs)
