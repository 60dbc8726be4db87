"""errno of callbacks: `errors="errno"` gives C the number of an OSError."""

import pickle

import pytest

import nativecall as nc

SOURCE = """
#include <errno.h>
int run(int (*f)(int), int x, int *e) { errno = 7; int r = f(x); *e = errno; return r; }
double rund(double (*f)(int), int x, int *e) { errno = 7; double r = f(x); *e = errno; return r; }
"""
DECLARED = "int run(int (*f)(int), int x, int *e); double rund(double (*f)(int), int x, int *e);"


def raising(x):
    if x > 0:
        raise OSError(x, "no")
    if x < 0:
        raise (ValueError("bad"), OSError("no number"), OSError(2**40, ""), OSError("2", ""))[
            -x - 1
        ]
    return x


@pytest.fixture
def lib(builder):
    return nc.load(builder.library(SOURCE, "errno"), DECLARED, out=["e"])


def test_an_os_error_is_told_by_errno_alone(lib):
    function = nc.callback("i:i", raising, errors="errno")
    assert lib.run(function, 0) == (0, 7)
    assert lib.run(function, 2) == (-1, 2)
    assert lib.run(pickle.loads(pickle.dumps(function)), 13) == (-1, 13)
    result, number = lib.rund(nc.callback("d:i", raising, errors="errno"), 2)
    assert (result != result, number) == (True, 2)


@pytest.mark.parametrize(
    ("x", "error"), [(-1, ValueError), (-2, OSError), (-3, OSError), (-4, OSError)]
)
def test_other_exceptions_are_raised(lib, x, error):
    with pytest.raises(error):
        lib.run(nc.callback("i:i", raising, errors="errno"), x)


def test_a_call_from_python_raises_it_again():
    function = nc.callback("q:i", raising, errors="errno")
    assert function(0) == 0
    with pytest.raises(FileNotFoundError, match=r"\(from 'raising'\)"):
        function(2)
    with pytest.raises(ValueError, match="bad"):
        function(-1)


def test_c_has_eio_for_what_has_no_number(lib):
    import errno

    import numpy as np

    function = nc.callback("i:i", raising, errors="errno")
    number = np.zeros(1, "i")
    with pytest.raises(ValueError, match="bad"):
        nc.wrap(lib.run.address(), "i:X{i:i}i&i")(function, -1, number)
    assert number[0] == errno.EIO
