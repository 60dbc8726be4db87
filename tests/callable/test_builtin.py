"""`f.builtin`: the same callable as a real built-in function."""

import gc
import inspect
import sys
import types
import weakref

import pytest

import nativecall as nc


@pytest.fixture
def square(lib):
    return lib.function("square", "double square(double x)")


def test_a_view_is_a_real_builtin(square):
    view = square.builtin
    assert type(view) is types.BuiltinFunctionType is type(len)
    assert inspect.isbuiltin(view)
    assert view.__self__ is square
    assert (view.__name__, view.__doc__) == ("square", "double square(double x)")
    assert view(3.0) == 9.0
    assert view is square.builtin
    assert nc.wrap(view) is square


@pytest.mark.parametrize(
    ("symbol", "signature", "arguments", "result"),
    [
        ("called", "q:", (), None),
        ("square", "d:d", (3.0,), 9.0),
        ("which_two", "&c:dd", (1.0, 2.0), None),
        ("same_i16", "h:h", (-5,), -5),
        ("add_all", "d:i.", (2, 1.0, 2.0), 3.0),
    ],
)
def test_every_calling_convention(lib, symbol, signature, arguments, result):
    f = lib.function(symbol, signature)
    view = f.builtin
    if result is not None:
        assert view(*arguments) == f(*arguments) == result
    else:
        assert type(view(*arguments)) is type(f(*arguments))
    with pytest.raises(TypeError):
        view(*arguments, x=1)
    if not signature.endswith("."):
        with pytest.raises(TypeError):
            view(*arguments, 1)


def test_the_view_keeps_the_callable_but_not_the_other_way_round(lib):
    f = lib.function("square", "d:d")
    alive = weakref.ref(f)
    view = f.builtin
    del f
    gc.collect()
    assert alive() is not None
    assert view(3.0) == 9.0
    assert view.__self__.builtin is view
    gone = weakref.ref(view)
    del view
    gc.collect()
    assert gone() is None
    assert alive() is None


def test_a_dead_view_is_made_anew(square):
    first = weakref.ref(square.builtin)
    gc.collect()
    assert first() is None
    assert square.builtin(2.0) == 4.0


def test_views_follow_their_callable(lib):
    f = lib.function("square", "d:d")
    old = f.builtin
    f.add("d:d", lib.address("same_f64"), replace=True)
    assert old(3.0) == 3.0
    f.add("i:i", lib.address("same_i32"))
    assert old(3.0) == f(3.0) == 3.0
    assert old(7) == f(7) == 7
    assert type(old(7)) is int
    assert nc.wrap(old) is f
    new = f.builtin
    assert new(7) == 7
    assert nc.wrap(new) is f
    f.add("d:dd", nc.load("m").address("pow"))
    assert new(2.0, 3.0) == 8.0


def test_reference_counts_are_level(square):
    view = square.builtin
    before = sys.getrefcount(square), sys.getrefcount(view)
    for _ in range(1000):
        view(2.0)
        square.builtin
        nc.wrap(view)
    assert (sys.getrefcount(square), sys.getrefcount(view)) == before


def test_ordinary_methods_are_no_views(square):
    for method in (square._entries, square.__reduce_ex__, [].append, len):
        with pytest.raises(TypeError, match=r"^'target' must be an address, "):
            nc.wrap(method)
    assert square(3.0) == 9.0


def test_the_name_is_kept_once_there_is_a_view(square, fails):
    square.builtin
    with fails(RuntimeError, "a callable with a built-in view cannot be renamed"):
        square._describe("other", None)
    assert square.builtin.__name__ == "square"
