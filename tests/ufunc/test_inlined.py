"""Loops that have Numba's functions inside of them: no call is left, and NumPy calls the loop."""

import importlib
import math
import re

import numpy as np
import pytest

import nativecall as nc
from nativecall._ufunc import inlined, make
from support.modes import assembly, generates

numba = pytest.importorskip("numba")  # some builds of CPython have no wheel
X = np.linspace(-3, 3, 1001)


def polynomial(x):
    return x * x * 3.0 + x - 1.0


@numba.njit
def jitted(x):
    return polynomial_jitted(x)


polynomial_jitted = numba.njit(polynomial)


@numba.njit
def picky(x):
    if x < 0:
        raise ValueError("below zero")
    return math.sqrt(x)


def final_code(monkeypatch, make):
    """The IR of the loops that are made meanwhile, as Numba optimized them."""
    texts = []
    kind = type(numba.core.registry.cpu_target.target_context.codegen().create_library("probe"))
    finalize = kind.finalize

    def noted(self):
        finalize(self)
        if "_loop_" in self.name:
            texts.append(self.get_llvm_str())

    monkeypatch.setattr(kind, "finalize", noted)
    return make(), texts


@generates
@pytest.mark.parametrize("kind", ["jitted", "called", "cfunc"])
def test_the_function_is_in_the_loop(optimized, monkeypatch, kind):
    if kind == "jitted":
        f = nc.wrap(numba.njit(polynomial), "d:d")
    elif kind == "called":
        f = nc.wrap(numba.njit(polynomial))
        assert f(0.5) == polynomial(0.5)
    else:
        f = nc.wrap(numba.cfunc("float64(float64)")(polynomial))
    made, (text,) = final_code(monkeypatch, f.to_ufunc)
    loop = text[text.index("_loop_") :]
    assert not re.search(r"call double", loop)
    assert re.search(r"fmul <\d+ x double>", text)  # vectorized
    assert np.array_equal(made(X), polynomial(X))
    assert np.array_equal(made(X[::-3]), polynomial(X[::-3]))
    again, texts = final_code(monkeypatch, f.to_ufunc)
    assert texts == []  # Numba keeps code for ever, so it is the same
    assert np.array_equal(again(X), polynomial(X))


@generates
def test_functions_of_llvmlite():
    from llvmlite import ir

    from nativecall._codegen import conversioncode

    module = ir.Module()
    double = ir.DoubleType()
    function = ir.Function(module, ir.FunctionType(double, [double]), "cube")
    builder = ir.IRBuilder(function.append_basic_block())
    (x,) = function.args
    builder.ret(builder.fmul(x, builder.fmul(x, x)))
    f = nc.wrap(function)
    made = f.to_ufunc()
    assert np.array_equal(made(X), X * (X * X))
    assert np.array_equal(made(X[::2]), (X * (X * X))[::2])
    owner = f._owners[-1]
    address, (_, code) = inlined.loop(f, make._loop(f, None).plan)
    assert address != f.address()
    text = conversioncode.loop(make._loop(f, None).plan, "loop", owner.name)
    assert "call double @" in text
    body = owner.text + "".join(
        [line + "\n" for line in text.splitlines() if not line.startswith(("declare", "target"))]
    )
    assert re.search(r"vmulpd|mulpd|fmul\s+v", assembly(body))  # vectorized
    assert code.key.startswith("ufunc loop")


def test_functions_of_numba(monkeypatch):
    assert np.array_equal(nc.wrap(jitted, "d:d").to_ufunc()(X), polynomial(X))
    two = nc.wrap(numba.njit(lambda x, y: x + 2 * y), "q:qq").to_ufunc()
    assert two.types == ["ll->l"]
    assert two([[1], [2]], [3, 4]).tolist() == [[7, 9], [8, 10]]
    both = {"d:d": numba.njit(lambda x: -x), "f:f": numba.njit(lambda x: -x)}
    made = nc.wrap(both, name="negated").to_ufunc()
    assert made.types == ["f->f", "d->d"]
    assert made(np.float32([1, 2])).dtype == np.float32
    pair = nc.wrap(numba.njit(lambda x: (x + 1, x < 0)), "T{d?}:d").to_ufunc()
    assert pair.types == ["d->d?"]
    assert [one.tolist() for one in pair([1.0, -2.0])] == [[2, -1], [False, True]]


@generates
def test_complex_numbers():
    turned = nc.wrap(numba.njit(lambda z: z * 1j), "Zd:Zd").to_ufunc()
    assert turned([1 + 2j, 3]).tolist() == [-2 + 1j, 3j]


def test_what_it_raises_comes_out(unraisable):
    made = nc.wrap(picky, "d:d").to_ufunc()
    assert made([4.0, 9.0]).tolist() == [2, 3]
    for size in (3, 20_000):
        x = np.ones(size)
        x[1] = -1
        with pytest.raises(ValueError, match="below zero"):
            made(x)
    assert unraisable == []
    made = nc.wrap(picky, "d:d", errors="python").to_ufunc()
    with pytest.raises(ValueError, match="below zero"):
        made([1.0, -1.0])


def test_functions_of_arrays():
    @numba.njit
    def spread(x):
        return x.max() - x.min()

    made = nc.wrap(spread, "d:[1]d").to_ufunc(signature="(n)->()")
    a = np.arange(12.0).reshape(3, 4) ** 2
    assert np.array_equal(made(a[:, ::-2]), np.ptp(a[:, ::-2], axis=1))


def test_a_cfunc_that_numba_keeps_on_disk(tmp_path, monkeypatch, recwarn):
    """Numba has no IR of it, and warns whoever asks."""
    source = "import numba\n@numba.cfunc('f8(f8)', cache=True)\ndef twice(x):\n    return 2 * x\n"
    (tmp_path / "kept_cfunc.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    twice = importlib.import_module("kept_cfunc").twice
    made = nc.wrap(twice).to_ufunc()
    assert np.array_equal(made(X), 2 * X)
    assert not [one for one in recwarn if "Inspection" in str(one.message)]
