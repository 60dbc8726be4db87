"""pandas calls native callables: `apply`, `map`, `agg`, `transform` and the same of groups.

Results are compared with those of Python functions, which pandas calls the same way.
"""

from __future__ import annotations

import array
import math

import pytest

import nativecall as nc

pd = pytest.importorskip("pandas")

libm = nc.load("m", "double cos(double x); double pow(double x, double y);")


@nc.callback("d:const [1]d")  # pandas lends its columns, which nobody may write to
def spread(values):
    """How far apart the elements are."""
    return values.max() - values.min()


def python_spread(values):
    return values.max() - values.min()


@pytest.fixture(scope="module")
def column():
    return pd.Series([0.0, 0.5, 1.0, -2.0], name="angle")


@pytest.fixture(scope="module")
def table():
    return pd.DataFrame({"key": ["a", "b", "a", "b"], "x": [1.0, 2.0, 4.0, 8.0], "y": [0.5] * 4})


@pytest.mark.parametrize("function", [libm.cos, libm.cos.builtin, nc.wrap({"d:d": libm.cos})])
def test_a_column_takes_a_callable_for_its_elements(column, function) -> None:
    expected = [math.cos(x) for x in column]
    assert column.apply(function).tolist() == expected
    assert column.map(function).tolist() == expected
    assert column.apply(libm.pow, args=(2.0,)).tolist() == [x**2 for x in column]
    assert column.apply(libm.pow, y=2.0).tolist() == [x**2 for x in column]


def test_an_overloaded_callable_is_one_function(column) -> None:
    both = nc.wrap({"d:d": libm.cos, "d:dd": libm.pow}, name="both")
    found = column.apply(both)
    assert isinstance(found, pd.Series)
    assert found.tolist() == [math.cos(x) for x in column]


def test_a_table_takes_it_for_elements_columns_and_rows(table) -> None:
    numbers = table[["x", "y"]]
    pd.testing.assert_frame_equal(numbers.map(libm.cos), numbers.map(math.cos))
    for axis in (0, 1):
        found = numbers.apply(spread, axis=axis)
        pd.testing.assert_series_equal(found, numbers.apply(python_spread, axis=axis))
    pd.testing.assert_series_equal(numbers.agg(spread), numbers.agg(python_spread))
    named = numbers.agg({"x": spread, "y": spread})
    pd.testing.assert_series_equal(named, numbers.agg({"x": python_spread, "y": python_spread}))
    several = numbers.agg([spread, "max"])
    assert several.loc["spread"].tolist() == [7.0, 0.0]


def test_groups_take_it(table) -> None:
    groups = table.groupby("key")[["x", "y"]]
    one = table.groupby("key")["x"]
    assert one.agg(spread).tolist() == one.agg(python_spread).tolist() == [3.0, 6.0]
    assert one.apply(spread).tolist() == [3.0, 6.0]
    assert one.transform(spread).tolist() == [3.0, 6.0, 3.0, 6.0]
    pd.testing.assert_frame_equal(groups.agg(spread), groups.agg(python_spread))
    named = one.agg(width=spread)
    assert named["width"].tolist() == [3.0, 6.0]


def test_transform(column) -> None:
    @nc.callback("O:const [1]d")
    def centred(values):
        return pd.Series(values - values.mean())

    assert column.transform(centred).tolist() == (column - column.mean()).tolist()
    assert column.transform(libm.cos).tolist() == [math.cos(x) for x in column]


def test_keys_may_be_native_callables(table) -> None:
    """`groupby` calls what it is given with each label."""
    by_parity = nc.callback("q:q")(lambda label: label % 2)
    found = table["x"].groupby(by_parity).sum()
    assert found.to_dict() == {0: 5.0, 1: 10.0}


def test_an_exception_of_an_element_is_the_users(column) -> None:
    @nc.callback("d:d")
    def refuses(x):
        raise KeyError(x)

    with pytest.raises(KeyError):
        column.apply(refuses)
    with pytest.raises(TypeError, match="argument 1 of 'cos' must be a real number"):
        pd.Series(["a"]).apply(libm.cos)


def test_what_is_an_array_of_pandas_is_still_one(column) -> None:
    total = nc.callback("d:const [1]d")(lambda values: values.sum())
    assert total(column) == column.sum()
    assert total(array.array("d", [1.0, 2.0])) == 3.0


def test_a_jitted_function_is_compiled_for_a_column(column) -> None:
    numba = pytest.importorskip("numba")
    ends = nc.wrap(numba.njit(lambda values: values[0] + values[2]), name="ends")
    assert ends(column) == column.agg(ends) == 1.0
    assert ends(pd.Series([1, 2, 4])) == 5
    assert ends.signatures == ("d:[1]d", "q:[1]q")
    with pytest.raises(
        TypeError, match="its elements, of dtype 'str', are not stored as numbers in memory"
    ):
        ends(pd.Series(["a"], dtype="str"))
    with pytest.raises(TypeError, match="1 of its 3 elements are missing"):
        ends(pd.Series([1, 2, None], dtype="Int64"))
