"""C functions that modules of Cython's export, by their names: SciPy's of special functions and of
linear algebra.
"""

from __future__ import annotations

import math
import re
import types
import warnings

import numpy as np
import pytest

import nativecall as nc

special = pytest.importorskip("scipy.special")
cython_special = pytest.importorskip("scipy.special.cython_special")
cython_blas = pytest.importorskip("scipy.linalg.cython_blas")
cython_lapack = pytest.importorskip("scipy.linalg.cython_lapack")
linalg = pytest.importorskip("scipy.linalg")

BARE = sorted(
    {name for name in dir(cython_special) if not name.startswith("_")}
    & {name for name in dir(special) if isinstance(getattr(special, name), np.ufunc)}
)
POINTS = (0.3, 1.0, 2.0)


def test_every_capsule_tells_its_signature():
    for module, least in ((cython_special, 390), (cython_blas, 140), (cython_lapack, 1400)):
        capsules = module.__pyx_capi__
        assert len(capsules) >= least
        for name, capsule in capsules.items():
            assert nc.wrap(capsule, name=name).signatures


def scalars(f):
    """The overloads that take nothing but numbers and return one."""
    return [one for one in f.signatures if not set("&P{") & set(one) and not one.startswith("v")]


@pytest.mark.parametrize("name", BARE)
def test_special_functions_are_those_of_the_ufuncs(name):
    try:
        f = nc.wrap(cython_special, name)
    except nc.SymbolError:
        pytest.skip("a Python function, not a C function")
    ufunc = getattr(special, name)
    tried = 0
    for text in scalars(f):
        arguments = text.partition(":")[2]
        # Of an integer and a complex number SciPy's variants return NaN, whoever calls them.
        if len(arguments.replace("Z", "")) != ufunc.nin or {"q", "Z"} <= {*arguments}:
            continue
        one = f[text]
        for point in POINTS:
            values = [value(point, text, number) for number in range(ufunc.nin)]
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of numbers that should be integers
                expected = ufunc(*values)
                if isinstance(expected, tuple):
                    continue
                found = one(*values)
            tried += 1
            tolerance = 1e-4 if "f" in text else 1e-12
            assert np.isclose(found, expected, rtol=tolerance, equal_nan=True), (text, values)
    if not tried:
        pytest.skip("it has several results")


def value(point, text, number):
    """A value for an argument of a signature."""
    code = re.findall("Z?[a-z]", text.partition(":")[2])[number]
    if code in ("i", "q"):
        return max(1, round(point))
    return complex(point, 0.25) if code[0] == "Z" else point


def test_variants_of_fused_types_are_overloads():
    gamma = nc.wrap(cython_special, "gamma")
    assert set(gamma.signatures) == {"d:d", "Zd:Zd"}
    assert gamma(5.0) == 24.0
    assert abs(gamma(5 + 0j) - 24) < 1e-10
    assert gamma.__name__ == "gamma"
    assert nc.wrap(cython_special, "gamma", name="g").__name__ == "g"
    assert nc.wrap(cython_special, "gamma", gil="release").entries[0].gil == "release"


def test_blas_and_lapack():
    rng = np.random.default_rng(7)
    a, b = (np.asfortranarray(rng.random((4, 4))) for _ in range(2))
    c = np.zeros((4, 4), order="F")
    fortran = {"fortran": True}
    dgemm = nc.wrap(cython_blas, "dgemm", **fortran)
    dgemm(b"N", b"N", 4, 4, 4, 1.0, a, 4, b, 4, 0.0, c, 4)
    assert np.allclose(c, a @ b)
    x = np.asfortranarray(rng.random((4, 1)))
    expected = np.linalg.solve(a, x)
    dgesv = nc.wrap(cython_lapack, "dgesv", **fortran)
    info = np.ones(1, np.int32)
    dgesv(4, 1, a.copy(order="F"), 4, np.zeros(4, np.int32), x, 4, info)
    assert info[0] == 0
    assert np.allclose(x, expected)
    h = rng.random((4, 4)) + 1j * rng.random((4, 4))
    h = np.asfortranarray(h + h.conj().T)
    w, work, rwork = np.zeros(4), np.zeros(64, complex), np.zeros(16)
    values = linalg.eigvalsh(h)
    zheev = nc.wrap(cython_lapack, "zheev", **fortran)
    zheev(b"N", b"U", 4, h, 4, w, work, 64, rwork, info)
    assert info[0] == 0
    assert np.allclose(w, values)


def test_what_a_module_does_not_export(fails):
    with pytest.raises(nc.SymbolError, match=r"no symbol 'gama' in .*did you mean 'gamma'"):
        nc.wrap(cython_special, "gama")
    with fails(
        TypeError,
        "module 'math' exports no C functions: it has no '__pyx_capi__', in which Cython puts them",
    ):
        nc.wrap(math, "sin")
    with fails(
        TypeError,
        "a module has many functions: name one, as in wrap(scipy.special.cython_special, 'name') "
        "(got NoneType)",
    ):
        nc.wrap(cython_special)
    empty = types.ModuleType("empty")
    empty.__pyx_capi__ = {"f": 5}
    with pytest.raises(TypeError):
        nc.wrap(empty, "f")
