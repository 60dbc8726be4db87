"""The loops of NumPy's, SciPy's, Numba's and Cython's ufuncs as C functions.

Every loop of every ufunc of NumPy and scipy.special that is not over Python objects is wrapped, and
called as a C function of numbers: the results are the ufunc's own, bit for bit. The default level
takes a quarter of the ufuncs.
"""

import ctypes
import gc
import pickle
import re
import sys

import numpy as np
import pytest
import scipy.special
from scipy import integrate

import nativecall as nc
from nativecall._codegen import engine
from nativecall._fifo import Fifo
from nativecall._ufunc import loops, structure
from support.levels import sweep

FEW = {
    # Beyond some sizes these take long, or are said to warn.
    "?": [True, False],
    "i": [0, 1, 3, 7],
    "f": [0.25, 1.0, 2.5, -0.5],
    "c": [0.25 + 0.5j, 1.0, -0.5 + 1.25j],
}


def ufuncs(*modules):
    found = {}
    for module in modules:
        for name in dir(module):
            one = getattr(module, name)
            if isinstance(one, np.ufunc):
                found.setdefault(id(one), one)
    return [*found.values()]


def every():
    umath = sys.modules.get("numpy._core.umath") or sys.modules["numpy.core.umath"]
    linear = np.linalg._umath_linalg
    return ufuncs(np, umath, linear, scipy.special)


def kinds(letters):
    """Values of some types, element by element."""
    rows = []
    for letter in letters:
        kind = {"b": "?", "i": "i", "u": "i", "f": "f", "c": "c"}.get(np.dtype(letter).kind, "i")
        rows.append(FEW[kind])
    return [[row[(k + 2 * place) % len(row)] for place, row in enumerate(rows)] for k in range(5)]


def expected(ufunc, types, values):
    """What the ufunc gives by this very loop; None where it raises."""
    letters = types.replace("->", "")
    inputs = [np.array([v]).astype(t) for v, t in zip(values, letters, strict=False)]
    try:
        found = ufunc(*inputs, signature=types)
    except (ValueError, TypeError) as error:
        return inputs, error
    return inputs, [one[0] for one in (found if ufunc.nout > 1 else (found,))]


def called(one, inputs, outputs):
    """The C function by its pointer, through memory: nothing is lost of long doubles and halves."""
    args = [row.ctypes.data_as(ctypes.POINTER(ctypes.c_char)) for row in (*inputs, *outputs)]
    pointers = (ctypes.POINTER(ctypes.c_char) * len(args))(*args)
    count = np.ones(1, np.intp)
    steps = np.array([row.itemsize for row in (*inputs, *outputs)], np.intp)
    one(pointers, count, steps)


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind in "fc":
        return bool(np.array_equal(a, b, equal_nan=True))
    return bool(a == b) or a.tobytes() == b.tobytes()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("step", sweep([1, 4], 4))
def test_every_loop_of_numpy_and_scipy(step):
    """Strided and scalar entries beside the ufunc; dates as counts of 64 bits."""
    seen, scalars = 0, 0
    with np.errstate(all="ignore"), scipy.special.errstate(all="ignore"):
        for ufunc in every()[::step]:
            for types in dict.fromkeys(ufunc.types):
                if "O" in types:
                    with pytest.raises(nc.SignatureError, match="over Python objects"):
                        nc.ufunc_loop(ufunc, types)
                    continue
                made = nc.ufunc_loop(ufunc, types)
                seen += 1
                assert "v:&&b&q&q" in made.signatures
                if ufunc.signature is not None:
                    assert len(made.signatures) == 1
                    continue
                letters = types.replace("->", "")
                strided = made["v:&&b&q&q"]
                scalar = made[made.signatures[0]]
                dates = bool({*letters} & {*"Mm"})
                for values in kinds(letters[: ufunc.nin]):
                    if dates:
                        typed = [t if t not in "Mm" else f"{t}8[s]" for t in letters]
                        inputs = [
                            np.array([v]).astype(t) for v, t in zip(values, typed, strict=False)
                        ]
                        wanted = None
                    else:
                        inputs, wanted = expected(ufunc, types, values)
                    plain = [np.int64 if t in "Mm" else t for t in letters]
                    outputs = [np.zeros(1, t) for t in plain[ufunc.nin :]]
                    if isinstance(wanted, Exception):
                        with pytest.raises(type(wanted)):
                            called(strided, inputs, outputs)
                        continue
                    called(strided, inputs, outputs)
                    got = [row[0] for row in outputs]
                    if not dates:
                        assert all(map(same, got, wanted)), (ufunc, types, values, got, wanted)
                    if scalar is not None:
                        # Python has no long double: what is compared is what a call gives of it.
                        given = [
                            row.view(np.int64)[0].item() if t in "Mm" else row[0]
                            for row, t in zip(inputs, letters, strict=False)
                        ]
                        found = scalar(*given)
                        found = found if ufunc.nout > 1 else (found,)
                        for one, other in zip(found, got, strict=True):
                            assert same(np.asarray(one).astype(other.dtype), other) or (
                                other.dtype.char in "gG"
                                and np.allclose(
                                    np.complex128(one), np.complex128(other), equal_nan=True
                                )
                            ), (ufunc, types, values, one, other)
                        scalars += 1
    assert seen > 1000 // step
    assert scalars > 4000 // step


def test_wrap_has_every_loop_of_numbers_as_an_overload():
    f = nc.wrap(np.sin)
    assert f.__name__ == "sin"
    assert {"f:f", "d:d", "g:g"} <= {*f.signatures}
    assert f(0.5) == np.sin(0.5)
    assert f["f:f"](0.5) == np.sin(np.float32(0.5))
    assert f(1j) == np.sin(1j)
    jv = nc.wrap(scipy.special.jv, "d:dd")
    assert jv(1.0, 2.5) == scipy.special.jv(1.0, 2.5)
    modf = nc.wrap(np.modf)["v:d&d&d"]
    assert modf(2.25) == (0.25, 2.0)
    assert modf.entries[0].out[0].index == 1
    assert nc.wrap(np.add, "q:qq")(2, 3) == 5


def test_loops_over_dates_are_asked_for(fails):
    """As counts they would take what means something else: `md->m` is 1 * 2.5 == 2."""
    f = nc.wrap(np.multiply)
    assert f(1, 2.5) == 2.5
    assert "q:qd" not in f
    assert nc.wrap(np.divide)(True, False) == np.inf
    assert nc.ufunc_loop(np.multiply, "md->m")["q:qd"](3, 2.5) == 7
    with fails(
        nc.SignatureError,
        "'isnat' has no loop that is a C function of numbers: it only has loops over dates and "
        "times; nativecall.ufunc_loop() returns them, as functions of 64-bit counts",
    ):
        nc.wrap(np.isnat)


def test_c_code_calls_it():
    f = nc.wrap(np.cos)
    assert integrate.quad(f.to_scipy("d:d"), 0, 1)[0] == pytest.approx(np.sin(1))
    assert f["d:d"].convert("d:i&d")(1, np.array([0.5])) == np.cos(0.5)
    assert f["d:d"].to_ctypes()(0.5) == np.cos(0.5)


def test_what_a_loop_raises_the_call_raises():
    power = nc.wrap(np.power)
    for _ in range(3):
        with pytest.raises(ValueError, match="negative integer powers"):
            power(2, -1)
    assert power(2, 3) == 8
    strided = nc.ufunc_loop(np.power, "ll->l")["v:&&b&q&q"]
    with pytest.raises(ValueError, match="negative integer powers"):
        called(strided, [np.array([2]), np.array([-1])], [np.zeros(1, int)])
    with scipy.special.errstate(all="raise"), pytest.raises(scipy.special.SpecialFunctionError):
        nc.wrap(scipy.special.gammaln, "d:d")(-1.0)


def test_a_strided_loop_takes_arrays():
    loop = nc.ufunc_loop(np.subtract, "dd->d")
    x, y, out = np.arange(10.0), np.arange(20.0), np.zeros((10, 3))
    rows = [x, y[::2], out[:, 1]]
    args = [one.ctypes.data_as(ctypes.POINTER(ctypes.c_char)) for one in rows]
    pointers = (ctypes.POINTER(ctypes.c_char) * 3)(*args)
    steps = np.array([one.strides[0] for one in rows])
    loop["v:&&b&q&q"](pointers, np.array([10]), steps)
    assert np.array_equal(out[:, 1], x - y[::2])
    assert not out[:, ::2].any()


def test_a_generalised_loop_takes_its_dimensions():
    ufunc = np.linalg._umath_linalg.det
    loop = nc.ufunc_loop(ufunc, "d->d")
    assert loop.signatures == ("v:&&b&q&q",)
    a = np.array([[[2.0, 1], [1, 3]], [[1, 0], [0, 4]]])
    out = np.zeros(2)
    args = [one.ctypes.data_as(ctypes.POINTER(ctypes.c_char)) for one in (a, out)]
    pointers = (ctypes.POINTER(ctypes.c_char) * 2)(*args)
    loop(pointers, np.array([2, 2, 2]), np.array([32, 8, 16, 8]))
    assert out == pytest.approx([5, 4])


def test_every_generalised_loop_of_numpy_and_scipy():
    """Beside the ufunc, for matrices of two rows and columns."""
    seen = 0
    for ufunc in every():
        if ufunc.signature is None:
            continue
        cores = [
            [name.strip(" ?") for name in one.split(",") if name.strip()]
            for one in re.findall(r"\(([^()]*)\)", ufunc.signature)
        ]
        names = [*dict.fromkeys([name for core in cores for name in core])]
        for types in dict.fromkeys(ufunc.types):
            if "O" in types:
                continue
            letters = types.replace("->", "")
            inputs = [
                np.array([1e-9, [1, 2], [[3, 1], [1, 2]]][len(core)]).astype(letter)
                for core, letter in zip(cores, letters[: ufunc.nin], strict=False)
            ]
            outputs, wanted = (
                [np.zeros([2] * len(core), t) for core, t in zip(cores, letters, strict=True)][
                    ufunc.nin :
                ]
                for _ in range(2)
            )
            # Some change their inputs.
            ufunc(*[one.copy() for one in inputs], out=tuple(wanted), signature=types)
            rows = [*[one.copy() for one in inputs], *outputs]
            args = [row.ctypes.data_as(ctypes.POINTER(ctypes.c_char)) for row in rows]
            pointers = (ctypes.POINTER(ctypes.c_char) * len(rows))(*args)
            steps = [0] * len(rows) + [step for row in rows for step in row.strides]
            loop = nc.ufunc_loop(ufunc, types)
            loop(pointers, np.array([1] + [2] * len(names)), np.array(steps or [0]))
            for one, other in zip(outputs, wanted, strict=True):
                assert np.array_equal(one, other, equal_nan=True), (ufunc, types)
            assert any(one.any() for one in outputs), (ufunc, types)
            seen += 1
    assert seen > 60


@pytest.mark.skipif(not hasattr(np, "strings"), reason="NumPy is older")
def test_loops_of_the_newer_interface_are_refused_by_name():
    with pytest.raises(nc.SignatureError, match=r"'isalpha' has no loop 'U->\?' for C code"):
        nc.ufunc_loop(np.strings.isalpha, "U->?")
    with pytest.raises(nc.SignatureError, match="use NumPy's newer interface"):
        nc.wrap(np.strings.isalpha)


def test_what_numba_vectorizes():
    numba = pytest.importorskip("numba")  # some builds of CPython have no wheel

    @numba.vectorize(["float64(float64, float64)", "int64(int64, int64)"])
    def f(x, y):
        return x * y + 1

    made = nc.wrap(f)
    assert {*made.signatures} == {"d:dd", "q:qq"}
    assert "v:&&b&q&q" in nc.ufunc_loop(f, "dd->d").signatures
    assert made(2.0, 3.5) == f(2.0, 3.5) == 8.0
    assert made(2, 3) == 7
    with pytest.raises(nc.SignatureError, match="'f' has no loop that is 'f:ff'; it has"):
        nc.wrap(f, "f:ff")


def test_numba_compiles_a_loop_that_is_asked_for():
    numba = pytest.importorskip("numba")  # some builds of CPython have no wheel
    lazy = numba.vectorize(lambda x: x + x)
    made = nc.wrap(lazy)
    assert made.signatures == ()
    assert made["d:d"](1.5) == 3.0
    assert nc.wrap(lazy, "f:f")(0.5) == 1.0
    assert nc.wrap(lazy).signatures == ("d:d", "f:f")
    with pytest.raises(nc.SignatureError, match="has no loop that is 'd:dd'"):
        nc.wrap(lazy, "d:dd")


@pytest.mark.parametrize(
    ("ufunc", "message"),
    [
        (np.frompyfunc(lambda x: x, 1, 1), "only has loops over Python objects"),
        (np.matmul, "it is generalised"),
    ],
)
def test_ufuncs_without_such_loops_are_refused_by_name(ufunc, message):
    with pytest.raises(nc.SignatureError, match=message) as caught:
        nc.wrap(ufunc)
    assert ufunc.__name__ in str(caught.value)


def test_loops_that_are_not_there():
    with pytest.raises(nc.SignatureError, match="it has e->e, f->f, d->d"):
        nc.ufunc_loop(np.sin, "i->i")
    with pytest.raises(nc.SignatureError, match="'sin' has no loop that is 'd:i'; it has"):
        nc.wrap(np.sin, "d:i")
    with pytest.raises(TypeError, match="'ufunc' must be a NumPy ufunc"):
        nc.ufunc_loop(abs, "d->d")
    with pytest.raises(TypeError, match="'types' must be a str"):
        nc.ufunc_loop(np.sin, 1)


def test_a_struct_that_is_not_as_it_should_be_is_not_read(monkeypatch):
    monkeypatch.setattr(np, "__version__", "2.99.0")
    with pytest.raises(TypeError, match=r"does not know the C structs of NumPy 2\.99\.0"):
        nc.wrap(np.sin)
    monkeypatch.undo()

    fields = structure._Fields._fields_
    kind = type("Moved", (ctypes.Structure,), {"_fields_": [fields[1], fields[0], *fields[2:]]})
    monkeypatch.setattr(structure, "_Fields", kind)
    with pytest.raises(TypeError, match="does not match the memory layout in NumPy's headers"):
        nc.wrap(np.add)


def test_it_is_made_again_elsewhere():
    for made in (nc.wrap(np.exp)["d:d"], nc.ufunc_loop(np.modf, "d->dd")["v:d&d&d"]):
        again = pickle.loads(pickle.dumps(made))
        assert again.signatures == made.signatures
        assert again(1.5) == made(1.5)
    strided = pickle.loads(pickle.dumps(nc.ufunc_loop(np.exp, "d->d")["v:&&b&q&q"]))
    out = np.zeros(1)
    called(strided, [np.ones(1)], [out])
    assert out[0] == np.exp(1)


def test_they_are_ufuncs_again():
    made = nc.wrap(np.hypot).to_ufunc()
    assert made([3.0, 5], 12.0).tolist() == np.hypot([3.0, 5], 12.0).tolist()
    both = nc.wrap(np.modf)["v:d&d&d"].to_ufunc()
    assert both.types == ["d->dd"]
    assert [one.tolist() for one in both([1.5, 2.25])] == [[0.5, 0.25], [1, 2]]


def test_memory_is_level():
    def make():
        assert nc.wrap(np.tan, "d:d")(0.0) == 0

    for _ in range(300):
        make()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(300):
        make()
    gc.collect()
    assert len(gc.get_objects()) < before + 100


def test_what_is_shared_is_kept_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(loops, "_specs", Fifo())
    monkeypatch.setattr(Fifo, "limit", 4)
    made = nc.wrap(np.add)
    assert len(made.signatures) > 8
    assert len(loops._specs) == (4 if engine.lasts() else 0)
    assert made(1.0, 2.0) == 3.0
    assert nc.wrap(np.add, "q:qq")(1, 2) == 3


def test_a_ufunc_passed_for_a_function_of_c_is_one():
    call = nc.callback("d:X{d:d}d")(lambda g, x: g(x))
    assert call(np.cos, 0.5) == np.cos(0.5)
    assert call(np.frompyfunc(lambda x: x + 1, 1, 1), 0.5) == 1.5
    of_integer = nc.callback("d:X{d:q}q")(lambda g, x: g(x))
    assert of_integer(np.sin, 1 << 40) == np.sin(2.0**40), "by the loop that loses least"
    with pytest.raises(TypeError, match="'sin' has no loop that is 'P:P'; it has"):
        nc.callback("P:X{P:P}P")(lambda g, x: g(x))(np.sin, None)
