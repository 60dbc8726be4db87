"""Functions of Fortran that f2py has made objects of (tests/ext/f2py_boxes.f90)."""

from __future__ import annotations

import numpy as np
import pytest

import nativecall as nc
from nativecall._bridges import fortran
from nativecall._codegen import engine
from support import foreign

integrate = pytest.importorskip("scipy.integrate")
by_value = pytest.mark.skipif(not engine.available(), reason=engine.reason() or "code")


@pytest.fixture(scope="session")
def module(builder):
    try:
        return foreign.f2py(builder)
    except foreign.Missing as error:
        pytest.skip(f"{error} is not installed")


@by_value
def test_quad_of_a_function_of_fortran(module):
    """SEP 201's example."""
    h = nc.wrap(module.square, "d:d")
    assert (h.signatures, h.__name__, h(3.0)) == (("d:d",), "square", 9.0)
    assert abs(integrate.quad(h.to_scipy(), 0, 1)[0] - 1 / 3) < 1e-12
    assert nc.wrap(module.single, "f:f")(2.5) == 5.0
    assert nc.wrap(module.count, "i:i")(4) == 5
    assert nc.wrap(module.mixed, "d:idq")(1, 2.5, 2) == 6.0


def test_everything_by_reference(module):
    f = nc.wrap(module.square, "v:&d&d", fortran=True, out=[0])
    assert f(3.0) == 9.0
    x = np.array([1.0, 2.0])
    nc.wrap(module.scale, "v:&i&d&d", fortran=True)(2, x, 3.0)
    assert x.tolist() == [3.0, 6.0]


@by_value
def test_scalars_of_a_subroutine(module):
    x = np.array([1.0, 2.0])
    nc.wrap(module.scale, "v:i&dd")(2, x, 3.0)
    assert x.tolist() == [3.0, 6.0]


@by_value
def test_a_function_that_is_an_argument(module):
    f = nc.wrap(module.apply, "d:X{d:&d}d")
    assert f(nc.callback("d:&d", lambda x: x[0] + 1), 2.0) == 3.0


def test_what_is_told_without_a_signature(module, fails):
    with fails(
        TypeError,
        "'signature' must be given: f2py does not tell the kinds of numbers, only 'r = square(h)' "
        "(h : input float). Write what is passed, all by reference: 'v:&d&d' if float is real(8); "
        "or, of a function, scalars by value: 'd:d'",
    ):
        nc.wrap(module.square)


@by_value
def test_contradictions(module, fails):
    with fails(
        nc.SignatureError,
        "'signature' is 'd:d', but 'x' of f2py's 'r = single(x)' is 'f'",
    ):
        nc.wrap(module.single, "d:d")
    with fails(
        nc.SignatureError,
        "'signature' is 'v:&f&d', but 'x' of f2py's 'r = single(x)' is 'f'",
    ):
        nc.wrap(module.single, "v:&f&d")
    with fails(
        nc.SignatureError,
        "'signature' is 'd:dd', but f2py says 'r = square(h)', of 1 argument",
    ):
        nc.wrap(module.square, "d:dd")
    with pytest.raises(nc.SignatureError, match="what passes a 'Zd' of 'scale' by reference"):
        nc.wrap(module.scale, "v:i&dZd")


def test_without_generated_code(module, monkeypatch):
    monkeypatch.setattr(engine, "available", lambda: False)
    monkeypatch.setattr(engine, "reason", lambda: "somebody said so")
    with pytest.raises(nc.SignatureError, match="by reference is code: somebody said so"):
        nc.wrap(module.square, "d:d")
    assert nc.wrap(module.square, "v:&d&d").signatures == ("v:&d&d",)


def test_without_a_symbol(module, monkeypatch):
    monkeypatch.setattr(fortran, "_is_wrapper", lambda address: None)
    with pytest.raises(nc.SignatureError, match="'square' returns its result or writes it cannot"):
        nc.wrap(module.square, "d:d")


def test_objects_without_a_function(module, lib):
    blas = pytest.importorskip("scipy.linalg.blas")
    assert nc.wrap(blas.dscal, "v:&i&d&d&i").signatures == ("v:&i&d&d&i",)
    with pytest.raises(TypeError, match=r"only 'xy = ddot\(x,y,\[n,"):
        nc.wrap(blas.ddot)
    apply = lib.function("apply", "d:X{d:d}d")
    assert apply(module.square, 3.0) == 9.0, "called through Python"


def test_callables_are_given_to_it_in_capsules_without_a_name(module):
    """f2py takes a capsule for the C function itself, and looks for no name."""
    f = nc.callback("d:&d", lambda x: 2 * x[0])
    assert module.apply(f.to_capsule(name=""), 3.0) == 6.0
    square = nc.load("m", "double pow(double, double);").pow.bind(..., 2.0).convert("d:&d")
    assert module.apply(square.to_capsule(name=""), 3.0) == 9.0
