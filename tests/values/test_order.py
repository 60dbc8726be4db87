"""The order of arrays in memory: C's by default, Fortran's or either where a function says so."""

import ctypes
import pickle

import numpy as np
import pytest

import nativecall as nc

ORDERS = ("C", "F", "A")
ROWS = np.arange(12.0).reshape(3, 4)
COLUMNS = np.asfortranarray(ROWS)
GAPS = np.zeros((6, 8))[::2, ::2]
LINE = np.arange(3.0)
IN_C = (
    "argument 1 of '{}' must be in C order, this {} is in Fortran order; "
    'load the function with order="F" or order="A" if C expects that'
)
IN_FORTRAN = (
    "argument 1 of '{}' must be in Fortran order, this {} is in C order; pass "
    'numpy.asfortranarray() of it, or load the function with order="C" or order="A" if C expects '
    "that"
)
HAS_GAPS = {
    "C": "argument 1 of '{}' must be C-contiguous, this {} is not; pass a contiguous copy",
    "F": "argument 1 of '{}' must be contiguous in Fortran order, this {} is not; "
    "pass a contiguous copy, as numpy.asfortranarray() makes one",
    "A": "argument 1 of '{}' must be contiguous, this {} is not; pass a contiguous copy",
}
REFUSED = {"C": (COLUMNS, IN_C), "F": (ROWS, IN_FORTRAN)}


def check(f, order, fails, name="address_of"):
    """That a function of a pointer takes arrays in an order, and refuses others."""
    for array in (ROWS, COLUMNS, LINE, LINE[:0], ROWS[:1], COLUMNS[:, 1:2].T):
        if array is not REFUSED.get(order, (None,))[0]:
            assert f(array) == array.ctypes.data
            assert f(memoryview(array)) == array.ctypes.data
    assert f(None) == 0
    for array in (GAPS, LINE[::2], ROWS[::-1]):
        with fails(ValueError, HAS_GAPS[order].format(name, "numpy.ndarray")):
            f(array)
    if order in REFUSED:
        array, message = REFUSED[order]
        with fails(ValueError, message.format(name, "numpy.ndarray")):
            f(array)
        with fails(ValueError, message.format(name, "memoryview")):
            f(memoryview(array))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("signature", ["N:&d", "N:P", "size_t f(const double *)"])
def test_functions_take_arrays_in_their_order(lib, fails, signature, order):
    check(lib.function("address_of", signature, order=order), order, fails)


@pytest.mark.parametrize("order", ORDERS)
def test_elements_of_every_kind_have_an_order(lib, order):
    points = np.zeros((2, 3), dtype=[("x", "d"), ("y", "d")])
    for signature, array in (
        ("N:&c", np.zeros((2, 3), "B")),
        ("N:&Zd", np.zeros((2, 3), "D")),
        ("N:&T{dd}", points),
        ("N:&(6)d", np.zeros((2, 3))),
    ):
        f = lib.function("address_of", signature, order=order)
        other = np.asfortranarray(array)
        for one, refusing in ((array, "F"), (other, "C")):
            if order == refusing:
                with pytest.raises(ValueError, match=r"order, this numpy.ndarray is in"):
                    f(one)
            else:
                assert f(one) == one.ctypes.data


def test_arrays_of_ctypes_are_in_c_order(lib, fails):
    array = ((ctypes.c_double * 3) * 2)()
    for order in "CA":
        assert lib.function("address_of", "N:&d", order=order)(array) == ctypes.addressof(array)
    f = lib.function("address_of", "N:&d", order="F")
    assert f(array[0]) == ctypes.addressof(array)
    with fails(ValueError, IN_FORTRAN.format("address_of", "c_double_Array_3_Array_2")):
        f(array)


def test_views_take_any_strides(lib):
    for order in ORDERS:
        f = lib.function("sum_view", "d:[2]d", order=order)
        assert f(COLUMNS) == f(ROWS)
        assert f(GAPS) == 0.0


def test_a_library_has_an_order_for_all_of_it(callees, lib, fails):
    declared = nc.load(callees, "size_t address_of(double *);", order="F")
    check(declared.address_of, "F", fails)
    check(declared.function("address_of"), "F", fails)
    check(declared.function("address_of", order="C"), "C", fails)
    check(declared.function("address_of", gil="release"), "F", fails)
    again = pickle.loads(pickle.dumps(declared))
    check(again.address_of, "F", fails)
    check(nc.load(callees).function("address_of", "N:&d"), "C", fails)


def test_what_a_pointer_variable_is_set_to_has_the_library_s_order(builder, tmp_path, fails):
    source = tmp_path / "matrix.c"
    source.write_text("double *matrix;\n")
    path = builder.library(source, "matrix")
    lib = nc.load(path, "extern double *matrix;", order="F")
    lib.matrix = COLUMNS
    assert lib.matrix[1] == COLUMNS[1, 0]
    with pytest.raises(ValueError, match=r"^variable 'matrix' must be in Fortran order"):
        lib.matrix = ROWS
    lib.matrix = None


def test_order_is_kept_by_whatever_is_made_of_a_function(lib, fails):
    f = lib.function("address_of", "N:&d", order="F")
    address = f.address()
    assert f.entries[0].order == "F"
    made = [
        f["N:&d"],
        f.builtin,
        nc.wrap(f, gil="release"),
        nc.wrap(address, "N:&d", order="F", name="address_of"),
        nc.NativeCallable(address, "N:&d", order="F", name="address_of"),
        nc.wrap({"N:&d": f}, name="address_of"),
        nc.wrap({"N:&d": address}, order="F", name="address_of"),
        nc.wrap(f.to_ctypes()),
        nc.wrap(f.to_cffi()),
        nc.wrap(f.to_capsule()),
        pickle.loads(pickle.dumps(f)),
        f.convert("size_t other(double *xs)"),
    ]
    for one in made:
        check(one, "F", fails)
    check(nc.wrap(f, order="C"), "C", fails)
    # The table, and what C code finds, know nothing of it.
    assert f.signatures == lib.function("address_of", "N:&d").signatures
    assert f.entries[0].flags == 0


def test_bound_values_have_the_function_s_order(lib, fails):
    f = lib.function("sum", "double (double *x, ptrdiff_t n)", order="F")
    assert f.bind(COLUMNS)(12) == f.bind(n=12)(COLUMNS) == 66.0
    with fails(ValueError, IN_FORTRAN.format("sum", "numpy.ndarray")):
        f.bind(ROWS)
    with fails(ValueError, IN_FORTRAN.format("sum", "numpy.ndarray")):
        f.bind(n=12)(ROWS)
    assert pickle.loads(pickle.dumps(f.bind(n=12))).entries[0].order == "F"


def test_pointers_in_structs_have_the_function_s_order(lib, fails):
    task = "d:T{&d:x:q:n:X{d:d}:f:}"
    f = lib.function("run_task", task, order="F")
    assert f((COLUMNS, 12, None)) == 66.0
    message = IN_FORTRAN.replace("argument", "field 'x' of argument").format(
        "run_task", "numpy.ndarray"
    )
    with fails(ValueError, message):
        f((ROWS, 12, None))
    both = nc.wrap({task: f, "d:d": lib.address("square")}, name="both")
    assert both((COLUMNS, 12, None)) == 66.0


def test_arguments_after_the_fixed_ones_have_the_function_s_order(fails):
    declaration = "int (char *, size_t, const char *, ...)"
    text = bytearray(40)
    for order in ORDERS:
        f = nc.load(None).function("snprintf", declaration, order=order)
        for array in (ROWS, COLUMNS):
            if array is REFUSED.get(order, (None,))[0]:
                message = REFUSED[order][1].replace("argument 1", "argument 4")
                with fails(ValueError, message.format("snprintf", "numpy.ndarray")):
                    f(text, 40, b"%p", array)
            else:
                count = f(text, 40, b"%p", array)
                assert int(text[:count], 16) == array.ctypes.data


def test_overloads_are_chosen_by_their_order(lib, fails):
    address = lib.address("address_of")
    f = nc.wrap({"N:&d": address, "N:&f": address}, order="F", name="address_of")
    for _ in range(3):
        for array in (LINE, COLUMNS, COLUMNS.astype("f")):
            assert f(array) == array.ctypes.data
        with fails(ValueError, IN_FORTRAN.format("address_of", "numpy.ndarray")):
            f(ROWS)
    g = nc.wrap({"N:&d": address, "N:&f": address}, name="address_of")
    for _ in range(3):
        assert g(ROWS) == ROWS.ctypes.data
        with fails(ValueError, IN_C.format("address_of", "numpy.ndarray")):
            g(COLUMNS)


def test_overloads_may_have_several_orders(builder):
    """What one entry refuses, another takes, whichever was called before."""
    source = "int first(double *x) { return x != 0; } int second(void *x) { return 2 + (x == 0); }"
    lib = nc.load(builder.library(source, "orders"))
    f = nc.wrap(
        {
            "i:&d": lib.function("first", "i:&d", order="F"),
            "i:P": lib.function("second", "i:P"),
        }
    )
    assert [entry.order for entry in f.entries] == ["F", "C"]
    for _ in range(3):
        assert [f(LINE), f(COLUMNS), f(ROWS), f(LINE)] == [1, 1, 2, 1]


def test_entries_have_an_order_each(lib):
    f = nc.wrap({"N:&d": lib.address("address_of")}, order="A", name="f")
    f.add("d:d", lib.function("square", "d:d"), order="F")
    assert [entry.order for entry in f.entries] == ["A", "F"]
    with pytest.raises(ValueError, match=r"has other policies; order must be the same to replace"):
        f.add("N:&d", lib.address("address_of"), replace=True)
    f.add("N:&d", lib.address("address_of"), replace=True, order="A")
    assert f["N:&d"](COLUMNS) == COLUMNS.ctypes.data


@pytest.mark.parametrize("bad", ["K", "c", "", "CF", 1, b"C", ["C"], True])
def test_what_is_no_order_is_refused(callees, lib, fails, bad):
    message = f"'order' must be one of 'C', 'F', 'A' (got {bad!r})"
    for make in (
        lambda: nc.load(callees, order=bad),
        lambda: lib.function("address_of", "N:P", order=bad),
        lambda: nc.wrap(lib.address("square"), "d:d", order=bad),
        lambda: nc.wrap(lib.function("square", "d:d")).add("f:f", 1, order=bad),
    ):
        with fails(ValueError, message):
            make()


def test_there_are_no_other_options(lib, fails):
    f = lib.function("square", "d:d")
    with fails(TypeError, "there is no option 'oder'; did you mean 'order'?"):
        f.add("f:f", 1, oder="F")
