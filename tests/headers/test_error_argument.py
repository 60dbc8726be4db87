"""C code that is told of failures by its last argument: each header for consumers, both ways."""

import pytest

import nativecall as nc
from support import build

SOURCE = """
#include <math.h>
double root(double x, int *error) { if (x < 0) *error = 33; return x < 0 ? -1 : sqrt(x); }
double half(double x, void *data, int *error) { *error = data != 0 || x < 0; return x / 2; }
"""
CHECKS_ERRORS, CHECKS_ARGUMENT = 4, 16
EXACT, BOXED = 0, 2


@pytest.fixture(scope="module", params=["c", "c++"])
def c(request, builder, include):
    name = f"error_argument_{'c' if request.param == 'c' else 'cpp'}"
    path = builder.extension("error_argument.c", name, include=include, language=request.param)
    return build.load_extension(path)


@pytest.fixture(scope="module")
def library(builder):
    return nc.load(builder.library(SOURCE, "error_argument_callees", flags=("-O1",)))


@pytest.fixture
def root(library):
    return library.function("root", "d:d&i", errors="argument")


def inverse(x):
    return 1 / x


@pytest.fixture
def called_back():
    return nc.callback("d:d&i", inverse, errors="argument")


def test_by_looking_alone(c, root, called_back):
    assert (c.look(root, 4.0), c.told()) == (2.0, 0)
    assert (c.look(root, -4.0), c.told()) == (-1.0, 33)
    assert c.look(called_back, 4.0) == 0.25
    with pytest.raises(ZeroDivisionError):
        c.look(called_back, 0.0)
    assert c.told() == 1
    assert c.look(nc.wrap(root.address(), "d:d&i"), 4.0) is None


def test_dispatch_gives_python_one_argument_less(c, root, called_back):
    for f in (root, root.builtin):
        assert c.dispatch(f, 4.0) == 2.0
        with pytest.raises(nc.NativeFailure, match="it set its last argument to 33"):
            c.dispatch(f, -4.0)
    for f in (inverse, called_back):
        assert c.dispatch(f, 4.0) == 0.25
        with pytest.raises(ZeroDivisionError):
            c.dispatch(f, 0.0)
    # An entry that says nothing of failures is called as it is.
    assert (c.dispatch(nc.wrap(root.address(), "d:d&i"), -4.0), c.told()) == (-1.0, 33)


def test_calls_at_run_time_give_python_one_argument_less(c, root, called_back):
    for f in (root, root.builtin):
        assert c.dynamic(f, 4.0) == (BOXED, 2.0)
        with pytest.raises(nc.NativeFailure, match="it set its last argument to 33"):
            c.dynamic(f, -4.0)
    with pytest.raises(ZeroDivisionError):
        c.dynamic(called_back, 0.0)
    plain = nc.wrap(root.address(), "d:d&i")
    assert (c.dynamic(plain, -4.0), c.told()) == ((EXACT, -1.0), 33)
    # Nothing says of a Python function that the pointer is no argument of its.
    seen = []
    c.dynamic(lambda x, at: seen.append(at) or x, 4.0)
    assert isinstance(seen[0], int)


@pytest.mark.parametrize("options", [CHECKS_ARGUMENT, CHECKS_ERRORS])
def test_native_functions_are_taken_by_who_looks(c, root, options):
    for f in (root, root.builtin):
        assert (c.callback(f, -4.0, options, 0), c.told()) == (-1.0, 33)
        assert (c.callback(f, 4.0, options, 0), c.told()) == (2.0, 0)


def test_others_leave_them_to_python(c, root):
    for f in (root, root.builtin, inverse):
        assert c.callback(f, 4.0, 0, 0) is None


def test_who_looks_at_the_int_alone_takes_no_other_convention(c, library):
    other = nc.wrap(library.address("root"), "d:d&i", errors="errno")
    assert c.callback(other, 4.0, CHECKS_ERRORS, 0) == 2.0
    assert c.callback(other, 4.0, CHECKS_ARGUMENT, 0) is None
    half = library.function("half", "d:dP&i", errors="argument")
    assert (c.callback(half, 4.0, CHECKS_ARGUMENT, 1), c.told()) == (2.0, 0)


def test_entries_made_on_demand(c, root):
    f = nc.wrap({"i:i": nc.load(None).function("abs", "i:i")}, name="made")
    f.specialize = lambda f, signature: root if signature == "d:d&i" else None
    assert (c.callback(f, -4.0, CHECKS_ARGUMENT, 0), c.told()) == (-1.0, 33)
