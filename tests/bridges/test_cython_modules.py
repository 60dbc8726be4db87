"""C functions that modules of Cython's export, by their names: SciPy's of special functions and of
linear algebra.
"""

import math
import re
import types
import warnings

import numpy as np
import pytest

import nativecall as nc
from nativecall._bridges import _cython

special = pytest.importorskip("scipy.special")
cython_special = pytest.importorskip("scipy.special.cython_special")
cython_blas = pytest.importorskip("scipy.linalg.cython_blas")
cython_lapack = pytest.importorskip("scipy.linalg.cython_lapack")
linalg = pytest.importorskip("scipy.linalg")

NAMES = sorted(
    {_cython.plain_name(key) for key in cython_special.__pyx_capi__ if isinstance(key, str)}
)
POINTS = (0.3, 1.0, 2.0)


def test_every_capsule_tells_its_signature():
    for module, least in ((cython_special, 390), (cython_blas, 140), (cython_lapack, 1400)):
        capsules = module.__pyx_capi__
        assert len(capsules) >= least
        for name, capsule in capsules.items():
            assert nc.wrap(capsule, name=name).signatures


@pytest.mark.parametrize("name", NAMES)
def test_special_functions_are_those_of_the_ufuncs(name):
    """Each variant; those of several results write them through pointers."""
    f = nc.wrap(cython_special, name)
    of_python = getattr(special, name)
    tried = 0
    for text in f.signatures:
        result, _, arguments = text.partition(":")
        results = re.findall("&(Z?[a-z])", arguments)
        given = re.findall("(?<!&)(?<!Z)(Z?[a-z])", arguments)
        assert (result == "v") == bool(results)
        # Of an integer and a complex number SciPy's variants return NaN, whoever calls them. Those
        # of integers are for 'd' where the ufunc has no such loop.
        if {"q", "Zd"} <= {*given} and not name.startswith("spherical"):
            continue
        for point in POINTS:
            values = [value(point, code) for code in given]
            made = [np.zeros(1, {"Z": "c16", "f": "f4"}.get(code[0], "f8")) for code in results]
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of numbers that should be integers
                expected = of_python(*values)
                found = f[text](*values, *made)
            tried += 1
            tolerance = 1e-4 if "f" in text else 1e-12
            expected = expected if isinstance(expected, tuple) else (expected,)
            assert len(expected) == max(1, len(results))
            for one, other in zip(made or [found], expected, strict=True):
                assert np.isclose(one, other, rtol=tolerance, equal_nan=True).all(), (text, values)
    assert tried


def value(point, code):
    """A value for an argument of a type."""
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


def test_a_package_whose_modules_export():
    """The .pxd of a package is what users cimport of; modules in it have the capsules."""
    package = pytest.importorskip("scipy.optimize.cython_optimize")
    with pytest.raises(TypeError, match=r"may: .*scipy\.optimize\.cython_optimize\._zeros"):
        nc.wrap(package, "brentq")
    from scipy.optimize.cython_optimize import _zeros

    assert nc.wrap(_zeros, "brentq").signatures == ("d:X{d:dP}ddPddi&T{iiid}",)


def test_what_a_module_does_not_export(fails):
    with pytest.raises(nc.SymbolError, match=r"no symbol 'gama' in .*did you mean 'gamma'"):
        nc.wrap(cython_special, "gama")
    with fails(
        TypeError,
        "module 'math' exports no C functions: it has no '__pyx_capi__', where Cython lists them; "
        "for its own 'sin' write wrap(math.sin)",
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
    for given in ({"signature": "f"}, {"signature": "d:d", "name": "f"}):
        with fails(
            TypeError,
            "'f' in the '__pyx_capi__' of module 'empty' must be a PyCapsule (got int)",
        ):
            nc.wrap(empty, **given)


def test_a_signature_beside_the_name(fails):
    """As a C declaration, or with the name apart."""
    for one in (
        nc.wrap(cython_special, "double gamma(double)"),
        nc.wrap(cython_special, "d:d", name="gamma"),
        nc.wrap(cython_special, name="gamma")["d:d"],
        nc.wrap(cython_special, signature="d->d", name="gamma"),
    ):
        assert (one.signatures, one.__name__, one(5.0)) == (("d:d",), "gamma", 24.0)
    with fails(TypeError, "wrap() takes from 1 to 2 positional arguments but 3 were given"):
        nc.wrap(cython_special, "gamma", "d:dd")
    with fails(TypeError, "wrap() takes from 1 to 2 positional arguments but 4 were given"):
        nc.wrap(1, "d:d", "f", "doc")
    with fails(nc.NoEntryError, "no native entry for 'f:f'; 'gamma' offers 'Zd:Zd', 'd:d'"):
        nc.wrap(cython_special, "f:f", name="gamma")
    with pytest.raises(nc.SignatureError, match="'signature' is 'v:&d', but the target is"):
        nc.wrap(cython_lapack, "v:&d", name="dgesv")
    with fails(
        TypeError,
        "'d:d' names no function of the module 'scipy.special.cython_special'; write a C "
        "declaration with the name, as in 'double gamma(double)', or give name=",
    ):
        nc.wrap(cython_special, "d:d")
    with pytest.raises(nc.SymbolError, match="did you mean 'gamma'"):
        nc.wrap(cython_special, "double gama(double)")


def test_the_capsules_themselves(fails):
    with fails(
        TypeError,
        "'target' must map signatures to targets (got a mapping from names to capsules, such as "
        "'__pyx_capi__'); nativecall.wrap(module, 'name') takes one function",
    ):
        nc.wrap(cython_special.__pyx_capi__)
