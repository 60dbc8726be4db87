"""Functions of Fortran that f2py has made objects of (tests/ext/f2py_boxes.f90)."""

import pickle
import sys

import numpy as np
import pytest

import nativecall as nc
from nativecall._bridges import fortran
from nativecall._bridges.scipy import _FORTRAN_KNOWN
from support import foreign

integrate = pytest.importorskip("scipy.integrate")


@pytest.fixture(scope="session")
def module(builder):
    try:
        return foreign.f2py(builder)
    except foreign.Missing as error:
        pytest.skip(f"{error} is not installed")


def test_quad_of_a_function_of_fortran(module):
    """SEP 201's example."""
    h = nc.wrap(module.square, "d:d")
    assert (h.signatures, h.__name__, h(3.0)) == (("d:d",), "square", 9.0)
    assert abs(integrate.quad(h.to_scipy(), 0, 1)[0] - 1 / 3) < 1e-12
    assert nc.wrap(module.single, "f:f")(2.5) == 5.0
    assert nc.wrap(module.count, "i:i")(4) == 5
    assert nc.wrap(module.mixed, "d:idq")(1, 2.5, 2) == 6.0


def test_complex_numbers_by_value(module, fails):
    """As C passes them: a complex result of f2py's subroutines is written to their argument."""
    turn = nc.wrap(module.turn, "Zd:Zdh")
    assert (turn(2 + 1j, 1), turn(2 + 1j, -2)) == (-1 + 2j, -2 - 1j)
    assert turn.convert("v:&Zdh&Zd", errors="none").signatures == ("v:&Zdh&Zd",)
    assert nc.wrap(module.narrow, "Zf:Zf")(1 + 2j) == 1 - 2j
    assert nc.wrap(module.narrow, "Zf:&Zf").signatures == ("Zf:&Zf",)
    assert nc.wrap(module.low, "h:h")(-4) == -5
    assert nc.wrap(module.count, "b:i")(4) == 5, "a wider result than was said has room"
    with fails(
        nc.SignatureError,
        "'signature' is 'Zd:Zd', but 'z' of f2py's 'r = narrow(z)' is 'Zf'",
    ):
        nc.wrap(module.narrow, "Zd:Zd")


def test_everything_by_reference(module):
    f = nc.wrap(module.square, "v:&d&d", fortran=True, out=[0])
    assert f(3.0) == 9.0
    x = np.array([1.0, 2.0])
    nc.wrap(module.scale, "v:&i&d&d", fortran=True)(2, x, 3.0)
    assert x.tolist() == [3.0, 6.0]


def test_scalars_of_a_subroutine(module):
    x = np.array([1.0, 2.0])
    nc.wrap(module.scale, "v:i&dd")(2, x, 3.0)
    assert x.tolist() == [3.0, 6.0]


def test_lengths_of_texts_follow(module):
    """They are in the signature, whether they were written or not, and are passed by value."""
    for signature in ("v:&b&i&b", "v:&b&i&bQQ", "void (const char *, int *, const char *)"):
        f = nc.wrap(module.measure, signature, fortran=True, out=[1])
        assert (f.signatures, f("hello", "abc")) == (("v:&b&i&bQQ",), 53)
    plain = nc.wrap(module.measure, "void (const char *, int *, const char *)", out=[1])
    assert plain(b"hello", b"abc", 5, 2) == 52


def test_texts_and_arrays_of_int8_are_told_apart(module, fails):
    """Of an array of texts, too, a length follows, which is that of each."""
    f = nc.wrap(module.words, "v:P&b&i", out=[2])
    assert f.signatures == ("v:P&b&iQ",)
    assert f(np.array([1, 20], "b"), b"onetwosix", 3) == 23
    with fails(
        nc.SignatureError,
        "'signature' is 'v:&b&b&i', where 2 arguments can be strings, but f2py reports 1 in 'n = "
        "words(b,a)'; write '&b' for each string, since its length follows, and 'P' for arrays of "
        "int8; nativecall.wrap(f._cpointer, signature, owner=f) takes the pointer without a check",
    ):
        nc.wrap(module.words, "v:&b&b&i")


def test_lengths_of_texts_are_no_scalars(module):
    f = nc.wrap(module.letters, "i:&bi", fortran=True)
    assert (f.signatures, f("hello", 3)) == (("i:&biQ",), 15)
    assert nc.wrap(module.letters, "int (const char *, int, size_t)")(b"hello", 3, 4) == 12


def test_a_function_that_is_an_argument(module):
    f = nc.wrap(module.apply, "d:X{d:&d}d")
    assert f(nc.callback("d:&d", lambda x: x[0] + 1), 2.0) == 3.0


def test_what_is_told_without_a_signature(module, fails):
    with fails(
        TypeError,
        "'signature' must be given: f2py does not report the kinds of numbers, only "
        "'r = square(h)' (h : input float). Write what is passed, all by reference and in "
        "the order of the procedure, as in 'v:&d&d'; or, for a function, scalars by value: 'd:d'",
    ):
        nc.wrap(module.square)


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
        "'signature' is 'd:dd', but f2py says 'r = square(h)', of 1 argument; "
        "nativecall.wrap(f._cpointer, signature, owner=f) takes the pointer without a check",
    ):
        nc.wrap(module.square, "d:dd")
    with pytest.raises(
        nc.SignatureError, match="no wrapper can pass a 'e' of 'scale' by reference"
    ):
        nc.wrap(module.scale, "v:i&de")


def test_without_a_symbol(module, monkeypatch):
    """f2py names an object again where it writes a subroutine that calls a function."""
    monkeypatch.setattr(fortran._lib, "address_origin", lambda address: ("/a/file", None))
    assert nc.wrap(module.square, "d:d")(3.0) == 9.0
    monkeypatch.setattr(fortran, "_is_wrapper", lambda obj, address: None)
    with pytest.raises(
        nc.SignatureError,
        match=r"^cannot tell whether 'square' returns its result or writes it",
    ):
        nc.wrap(module.square, "d:d")


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("v:&d&d", "but f2py says 'scale(x,a,[n])', of 3 arguments"),
        ("v:&i&d&d&d", "of 3 arguments"),
        ("v:&d&d&d", "and no argument is left for 'n' (input int, optional)"),
        ("d:&i&d&d", "which does not return such a value"),
        ("v:&i&i&d", "and no argument is left for 'a' (input float)"),
        ("v:&i&f&f", "and no argument is left for 'x' (in/output rank-1 array('d')"),
        ("v:&idd", "and no argument is left for 'x' (in/output rank-1 array('d')"),
    ],
)
def test_arguments_of_a_subroutine(module, signature, said):
    with pytest.raises(nc.SignatureError) as caught:
        nc.wrap(module.scale, signature)
    assert said in str(caught.value)
    assert nc.wrap(module.scale._cpointer, signature, owner=module.scale).signatures == (signature,)


def test_procedures_of_scipy_tell_their_types(fails):
    """Their objects hold the address of the procedure itself, which has no symbol there."""
    blas = pytest.importorskip("scipy.linalg.blas")
    version = tuple([int(one) for one in sys.modules["scipy"].__version__.split(".")[:2]])
    if version > _FORTRAN_KNOWN[1]:
        pytest.skip("a SciPy whose objects nobody has looked at yet")
    n, x, step = np.array([3], "i"), np.array([3.0, 4.0, 12.0]), np.array([1], "i")
    norm = nc.wrap(blas.dnrm2)
    assert (norm.signatures, norm(n, x, step)) == (("d:&i&d&i",), 13.0)
    assert norm["d:i&di"](3, x, 1) == 13.0
    by_value = nc.wrap(blas.dnrm2, "d:i&di")
    assert pickle.loads(pickle.dumps(by_value))(3, x, 1) == 13.0
    assert pickle.loads(pickle.dumps(norm))(n, x, step) == 13.0, "by the module that has the object"
    assert nc.wrap(blas.ddot, "d:&i&d&i&d&i")(n, x, step, x, step) == 169.0
    dot, result = nc.wrap(blas.zdotc), np.zeros(1, complex)
    dot(result, n, 1j * x, step, 1j * x, step)
    assert (dot.signatures, result[0]) == (("v:&Zd&i&Zd&i&Zd&i",), 169.0)
    assert nc.wrap(blas.zdotc, "Zd:i&Zdi&Zdi")(3, 1j * x, 1, x + 0j, 1) == -169j
    assert dot["Zd:&i&Zdi&Zd&i"](n, x + 0j, 1, 2j * x, step) == 338j
    scaled = x + 0j
    nc.wrap(blas.zscal, "v:iZd&Zdi")(3, 2j, scaled, 1)
    assert scaled.tolist() == (2j * x).tolist()
    assert nc.wrap(blas.dgemm, "v:&b&biiid&di&did&diNN").signatures[0].endswith("QQ")
    for signature in ("d:d", "v:&d&i&d&i", "v:&i&d&i", "d:&i&f&i", "d:&i&d"):
        with fails(
            nc.SignatureError,
            f"'signature' is {signature!r}, but the target is 'd:&i&d&i'; omit 'signature' to use "
            "that; scalars may be written by value, 'i' for '&i'",
        ):
            nc.wrap(blas.dnrm2, signature)


def test_procedures_of_scipy_that_are_not_known(monkeypatch):
    """With another version, what the texts tell is all."""
    scipy = pytest.importorskip("scipy")
    blas = pytest.importorskip("scipy.linalg.blas")
    monkeypatch.setattr(scipy, "__version__", "9.0")
    with pytest.raises(TypeError, match=r"only 'xy = ddot\(x,y,\[n,"):
        nc.wrap(blas.ddot)
    assert nc.wrap(blas.dnrm2, "d:&i&d&i").signatures == ("d:&i&d&i",)
    with pytest.raises(nc.SignatureError, match="of at least 2 arguments"):
        nc.wrap(blas.ddot, "d:&d")
    with pytest.raises(nc.SignatureError, match=r"no argument is left for 'x' \(input rank-1"):
        nc.wrap(blas.dnrm2, "d:&i&f&i")


def test_objects_without_a_function(module, lib):
    apply = lib.function("apply", "d:X{d:d}d")
    assert apply(module.square, 3.0) == 9.0, "called through Python"


def test_callables_are_given_to_it_in_capsules_without_a_name(module):
    """f2py takes a capsule for the C function itself, and looks for no name."""
    f = nc.callback("d:&d", lambda x: 2 * x[0])
    assert module.apply(f.to_capsule(name=""), 3.0) == 6.0
    square = nc.load("m", "double pow(double, double);").pow.bind(..., 2.0).convert("d:&d")
    assert module.apply(square.to_capsule(name=""), 3.0) == 9.0
