"""Which instance of a jitted function is used: by calls, conversions, SciPy, other jitted code.

A jitted function was compiled for what the program happened to call first. That is never taken for
arguments of other types while Numba can compile for these; and it is collected with its callables.
"""

import array
import ctypes
import gc
import inspect
import weakref

import numpy as np
import pytest

import nativecall as nc
from nativecall._cdecl.spelling import parse
from support.levels import sweep
from support.threads import each

numba = pytest.importorskip("numba")

njit = numba.njit


def fresh(function=lambda x: 2 * x, **options):
    return nc.wrap(njit(function, **options), name="f")


def single(x):
    """A function whose result shows the precision of its argument."""
    return x * x


def test_filters_are_compiled_for_scipy():
    """What takes no numbers may take views."""
    ndimage = pytest.importorskip("scipy.ndimage")
    image = np.arange(12.0).reshape(3, 4)
    found = ndimage.generic_filter(image, fresh(lambda values: values.max()).to_scipy(), 3)
    assert (found == ndimage.maximum_filter(image, 3)).all()

    def copied(line, out):
        out[:] = line[1:-1]

    assert (ndimage.generic_filter1d(image, fresh(copied).to_scipy(), 3) == image).all()
    with pytest.raises(nc.SignatureError, match=r"cannot be passed to SciPy: .* for 'd:d'"):
        fresh(lambda x: x.missing).to_scipy()


# -- exact ones are compiled -----------------------------------------------------------------------


@pytest.mark.parametrize("align", [False, True])
def test_a_record_of_a_call_has_its_names(align):
    f = fresh(lambda s: s["a"] * 10 + s["b"])
    for fields in ([("a", "i4"), ("b", "f8")], [("a", "f8"), ("b", "f8")]):
        records = np.array([(1, 2.5)], np.dtype(fields, align=align))
        assert f(records[0]) == 12.5
    mirrored = np.array([(1.0, 2.5)], [("b", "f8"), ("a", "f8")])
    assert f(mirrored[0]) == 26.0
    assert len(f.signatures) == 2


def test_records_are_compiled_for_after_a_look_without_names():
    f = fresh(lambda s: s["a"] - s["b"])
    with pytest.raises(nc.NoEntryError):
        f["d:T{dd}"]
    assert f(np.array([(1.0, 2.5)], [("a", "f8"), ("b", "f8")])[0]) == -1.5


def test_arrays_of_records_never_have_their_fields_mixed_up():
    f = fresh(lambda s: s["a"][0] * 10 + s["b"][0])
    records = np.array([(1.0, 2.5)], [("a", "f8"), ("b", "f8")])
    assert f(records) == 12.5
    with pytest.raises(TypeError, match=r"must have 'T\{d:a:d:b:\}' elements \(got 'T\{d:b:d:a:"):
        f(np.array([(1.0, 2.5)], [("b", "f8"), ("a", "f8")]))
    assert f(records) == 12.5


def test_a_call_never_takes_a_narrower_entry():
    f = fresh(single)
    tenth = np.float32(0.1)
    assert (f(tenth), f.signatures) == (float(tenth * tenth), ("f:f",))
    for call in (f, f.builtin, lambda x: f(*[x])):
        assert call(0.1) == 0.1 * 0.1
    assert f.signatures == ("f:f", "d:d")
    # The new entry does not stand in the way of the old one, nor of others.
    assert (f(tenth), f(1 << 40), f(2j)) == (float(tenth * tenth), 1 << 80 & (1 << 64) - 1, -4)
    assert f.signatures == ("f:f", "d:d", "q:q", "Zd:Zd")


def test_each_number_has_its_own_instance():
    """What Numba's dispatcher compiles for, in any order."""
    values = [True, 3, 2.5, 1j, np.int8(3), np.uint16(4), np.float32(0.5), np.complex64(1j)]
    letters = ["?", "q", "d", "Zd", "b", "H", "f", "Zf"]
    for order in (slice(None), slice(2, None, -1), slice(6, 1, -4)):
        jitted = njit(lambda x: (x, x))
        f = nc.wrap(jitted)
        for value in values[order] * 2:
            assert tuple(f(value)) == jitted(value)
        assert {text.partition(":")[2] for text in f.signatures} == {*letters[order]}


def test_callables_with_the_same_entries_decide_for_themselves():
    """Choices are remembered for callables with the same signatures, but not for these."""
    plain = nc.wrap({"f:f": njit(lambda x: x + 1), "q:q": njit(lambda x: x + 1)})
    assert plain(0.1) == np.float32(0.1) + np.float32(1)
    f = fresh(lambda x: x + 1)
    f["f:f"], f["q:q"]
    assert (f(0.1), f.signatures) == (1.1, ("f:f", "q:q", "d:d"))
    assert plain(0.1) == np.float32(0.1) + np.float32(1)
    assert plain.signatures == ("f:f", "q:q")


def test_what_cannot_be_compiled_is_converted():
    """As Numba does it: explicit signatures, and values that it does not know."""
    explicit = nc.wrap(njit("float32(float32)")(lambda x: x))
    for _ in range(3):
        assert explicit(0.1) == np.float32(0.1)
    assert explicit.signatures == ("f:f",)

    class Number:
        def __float__(self):
            return 0.5

    f = fresh()
    f["d:d"]
    for _ in range(3):
        assert (f(Number()), f(np.float16(0.5)), f.signatures) == (1.0, 1.0, ("d:d",))
    g = fresh(lambda p, n: p is None)
    g["?:Pq"]
    assert g(None, 3) is False  # a pointer that is NULL, and not None


def test_a_hook_that_is_taken_away():
    f = fresh(single)
    f(np.float32(1))
    assert f(0.1) == 0.1 * 0.1
    g = fresh(single)
    g["f:f"]
    g.specialize = None
    assert (g(0.1), g.signatures) == (np.float32(0.1) * np.float32(0.1), ("f:f",))
    g.specialize = f.specialize
    assert (g(0.1), g.signatures) == (0.1 * 0.1, ("f:f", "d:d"))


def test_ufuncs_of_numba_too():
    f = nc.wrap(numba.vectorize(single))
    f["f:f"]
    assert (f(0.1), f.signatures) == (0.1 * 0.1, ("f:f", "d:d"))
    assert (f(3), f.signatures) == (9, ("f:f", "d:d", "q:q"))
    assert (f(2j), f.signatures[3]) == (-4, "Zd:Zd")
    closed = nc.wrap(numba.vectorize(["float32(float32)"])(single))
    assert closed(0.1) == np.float32(0.1) * np.float32(0.1)
    with pytest.raises(TypeError, match=r"no entry of 'single' takes \(complex\)"):
        closed(1j)


def test_threads_call_with_other_types_at_once():
    f = fresh(single)
    f(np.float32(1))
    values = [0.1, 3, 1j, np.float32(0.5)] * 2
    assert each(f, *values) == [value * value for value in values]


@pytest.mark.parametrize(
    ("wanted", "call"),
    [
        ("d:d", lambda f: f(0.1)),
        ("d:dP", lambda f: f(0.1, None)),
        ("d:&d", lambda f: f(np.array([0.1]))),
        ("d:i&d", lambda f: f(1, np.array([0.1]))),
        ("d:i&dP", lambda f: f(1, np.array([0.1]), None)),
    ],
)
@pytest.mark.parametrize("compiled", sweep([[], ["f:f"], ["q:q", "f:f"]], [], ["q:q", "f:f"]))
def test_conversions_start_from_an_exact_instance(wanted, call, compiled):
    f = fresh(single)
    for text in compiled:
        f[text]
    assert call(f.convert(wanted)) == 0.1 * 0.1
    assert f.signatures in ((*compiled, "d:d"), (*compiled, wanted))


def test_conversions_to_several_numbers():
    f = fresh(lambda x, y: x * y)
    f["f:ff"]
    assert f.convert("d:i&d")(2, np.array([0.1, 0.3])) == 0.1 * 0.3
    assert f.signatures == ("f:ff", "d:dd")
    # Where an exact one cannot be compiled, what there is must do.
    explicit = nc.wrap(njit("float32(float32)")(single))
    assert explicit.convert("d:d")(0.1) == pytest.approx(0.01, rel=1e-6)


def test_scipy_gets_doubles():
    integrate = pytest.importorskip("scipy.integrate")
    f = fresh(lambda x: x / 3)
    f(np.float32(1))
    assert f.signatures == ("f:f",) or f.signatures == ("d:f",)
    integral = integrate.quad(f.to_scipy(), 0, 0.1)[0]
    assert integral == pytest.approx(0.1**2 / 6, rel=1e-14)
    assert "d:d" in f.signatures
    g = fresh(lambda x, y: x * y)
    g["f:ff"]
    integral = integrate.nquad(g.to_scipy(), [[0, 0.1], [0, 0.3]])[0]
    assert integral == pytest.approx(0.1**2 / 2 * 0.3**2 / 2, rel=1e-14)
    h = fresh(lambda x, data: x * numba.carray(data, 1, np.float64)[0])
    h["f:fP"]
    box = h.to_scipy(user_data=np.array([0.1]))
    assert integrate.quad(box, 0, 0.1)[0] == pytest.approx(0.1**3 / 2, rel=1e-14)


def test_function_arguments_get_exact_ones(lib):
    apply = lib.function("apply", "d:X{d:d}d")
    f = fresh(single)
    f(np.float32(1))
    assert apply(f, 0.1) == 0.1 * 0.1


# -- in jitted code --------------------------------------------------------------------------------


@njit
def call_once(f, x):
    return f(x)


def test_jitted_code_compiles_for_each_call():
    f = fresh(single)
    assert call_once(f, 0.1) == 0.1 * 0.1
    assert (call_once(f, 3), call_once(f, np.float32(0.5))) == (9, 0.25)
    assert f.signatures == ()  # no C function is made
    f(np.float32(1))
    assert call_once(f, 0.1) == 0.1 * 0.1
    g = fresh(single)
    assert njit(lambda x: g(x) + 1)(0.1) == 0.1 * 0.1 + 1


def test_jitted_code_raises_what_it_raises():
    def picky(x):
        if x > 1:
            raise ValueError("too large")
        return x

    f = fresh(picky)

    @njit
    def caught(f, x):
        try:
            return f(x)
        except Exception:
            return -1.0

    with pytest.raises(ValueError, match="too large"):
        call_once(f, 2.0)
    assert (caught(f, 2.0), caught(f, 0.5)) == (-1.0, 0.5)


def test_jitted_code_gets_and_gives_the_object():
    f = fresh()
    assert njit(lambda f: f)(f) is f
    f["d:d"]
    f.add("q:q", njit(lambda x: 7))  # not of the same function: these entries are called
    assert call_once(f, 3) == 7
    assert call_once(f["d:d"], 3) == 6.0
    # A C function of a named signature is one for all.
    assert numba.typeof(f["d:d"]) == numba.typeof(fresh(single)["d:d"])


def test_jitted_code_passes_it_on(lib):
    apply = lib.function("apply", "d:X{d:d}d")
    f = fresh(single)
    f(np.float32(1))
    assert njit(lambda f, x: apply(f, x) + 1)(f, 0.1) == 0.1 * 0.1 + 1


def test_first_class_functions_name_a_signature():
    kind = numba.types.FunctionType(numba.float64(numba.float64))
    call = njit(numba.float64(kind, numba.float64))(lambda f, x: f(x))
    f = fresh(single)
    f(np.float32(1))
    with pytest.raises(TypeError, match=r"compiled for each signature, .* as in f\['d:d'\]"):
        call(f, 0.1)
    assert call(f["d:d"], 0.1) == 0.1 * 0.1


# -- fresh ones ------------------------------------------------------------------------------------


def test_what_tells_a_signature_has_it_compiled():
    cffi = pytest.importorskip("cffi")
    double = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    ffi = cffi.FFI()
    assert fresh().to_ctypes("d:d")(1.5) == 3.0
    assert fresh().to_ctypes(double)(1.5) == 3.0
    assert fresh().to_cffi("double (double)")(1.5) == 3.0
    assert fresh().to_cffi(ffi.typeof("double (*)(double)"), ffi=ffi)(1.5) == 3.0
    for capsule in (fresh().to_capsule("d:d"), fresh().to_capsule(name="double (double)")):
        assert nc.wrap(capsule)(1.5) == 3.0
    two = nc.wrap({"f:f": njit(single), "d:d": njit(single)})
    assert nc.wrap(two.to_capsule(name="double (double)"))(0.1) == 0.1 * 0.1
    with pytest.raises(nc.NoEntryError, match="'d:dd'"):
        two.to_capsule(name="double (double, double)")


@pytest.mark.parametrize(
    "ask",
    [
        lambda f: f.to_ctypes(),
        lambda f: f.to_cffi(),
        lambda f: f.to_capsule(),
        lambda f: f.to_capsule(name=""),
        lambda f: f.to_capsule(name="their_typedef *"),
        lambda f: f.to_ufunc(),
        lambda f: f.to_ufunc(signature="(n)->()"),
        lambda f: f.bind(1.0),
        lambda f: f.bind(x=1.0),
        lambda f: f.address(),
    ],
)
def test_where_nothing_tells_one_the_error_says_what_does(ask):
    says = r"'f' has no entries yet; request one by its signature, as in f\['d:d'\]"
    with pytest.raises(nc.NoEntryError, match=says):
        ask(fresh())


# -- defaults, keywords, *args ---------------------------------------------------------------------


def test_defaults():
    jitted = njit(lambda x, y=2.0, z=None: x * y if z is None else x * y * z)
    f = nc.wrap(jitted)
    for args in ((1.5, 4.0, 6.0), (3, 5, 7.5)):
        for count in (1, 2, 3):
            assert f(*args[:count]) == jitted(*args[:count])
    assert {"d:d", "d:dd", "d:ddd"} <= {*f.signatures}
    assert f["d:d"].address() != f["d:dd"].address()
    assert nc.wrap(jitted, "d:d").to_ctypes()(1.5) == 3.0
    assert {"d:d", "d:dd", "d:ddd"} <= {*nc.wrap(jitted).signatures}
    for wrong in ((), (1.0,) * 4):
        with pytest.raises(TypeError, match="does not take the arguments of"):
            f(*wrong)


def test_keywords():
    jitted = njit(lambda x, y=2.0, z=3.0: x - y * z)
    f = nc.wrap(jitted, name="f")
    calls = [{"x": 1.5}, {"y": 4.0, "x": 1.5}, {"x": 1, "z": 5}, {"z": 1.0, "y": 2, "x": 3}]
    for named in calls * 2:
        assert f(**named) == jitted(**named)
    assert f(1.5, z=0.5) == jitted(1.5, z=0.5)
    for args, named, why in (
        ((), {"y": 1.0}, "missing a required argument: 'x'"),
        ((1.0,), {"x": 1.0}, "multiple values for argument 'x'"),
        ((1.0,), {"w": 1.0}, "got an unexpected keyword argument 'w'"),
    ):
        for one in (f, fresh(jitted.py_func)):
            with pytest.raises(
                TypeError, match=f"^'f' cannot be called with these arguments: .*{why}"
            ):
                one(*args, **named)


def test_a_parameter_that_has_only_a_name():
    """Numba does not call such functions either."""
    function = njit(lambda x, *, y=1.0: x + y)
    why = "^'<lambda>' has the keyword-only parameter 'y', which Numba does not pass$"
    for given in ((), ("d:d",)):
        with pytest.raises(nc.SignatureError, match=why):
            nc.wrap(function, *given)


def test_the_signature_is_that_of_the_python_function():
    f = nc.wrap(njit(lambda x, y=2.0, *more: x * y))
    assert str(inspect.signature(f)) == "(x, y=2.0, *more)"
    f(1.5)
    assert str(inspect.signature(f)) == "(x, y=2.0, *more)"
    assert len(inspect.signature(f["d:d"]).parameters) == 1


def test_more_arguments():
    def total(x, *more):
        return x + sum(more)

    jitted = njit(total)
    f = nc.wrap(jitted)
    for args in ((1.5, 2.0), (1, 2, 3)):
        assert f(*args) == jitted(*args)
    pair = nc.wrap(njit(lambda x, *more: (x, len(more), more[1:])[1]))
    for args in ((1.5,), (1.5, 2, 3.0)):
        assert pair(*args) == len(args) - 1
    assert pair(x=1.5) == 0
    assert nc.wrap(jitted).signatures  # compiled for by now
    assert nc.wrap(njit(total), "d:ddd").to_ctypes()(1.5, 2.0, 3.0) == 6.5


# -- arrays that may not be written to -------------------------------------------------------------


def lent(*values):
    xs = np.array(values)
    xs.flags.writeable = False
    return xs


def copied(xs, out):
    for i in range(len(xs)):
        out[i] = 2 * xs[i]


def swapped(out, xs):
    copied_jitted(xs, out)


copied_jitted = njit(copied)


@pytest.mark.parametrize(
    "ways", sweep(["bare", "named", "asked", "writable first"], "named", "writable first")
)
def test_arrays_that_are_only_read_may_be_read_only(ways):
    jitted = njit(lambda xs: xs.sum())
    f = nc.wrap(jitted, "d:[1]d") if ways == "named" else nc.wrap(jitted)
    if ways == "asked":
        f = f["d:[1]d"]
    if ways == "writable first":
        assert f(np.arange(3.0)) == 3.0
    assert (f(lent(1.0, 2.0)), f(np.arange(4.0)), f(lent(1.0, 2.0)[::2])) == (3.0, 6.0, 1.0)
    assert f.signatures == ("d:[1]d",)


@pytest.mark.parametrize("function", [copied, swapped])
@pytest.mark.parametrize("is_named", sweep([True, False], False))
def test_arrays_that_are_written_to_may_not(function, is_named):
    f = nc.wrap(njit(function), *(["v:[1]d[1]d"] if is_named else []))
    in_order = (lambda *both: both) if function is copied else (lambda a, b: (b, a))
    out = np.zeros(2)
    f(*in_order(lent(1.0, 2.0), out))
    assert [*out] == [2.0, 4.0]
    for _ in range(2):
        with pytest.raises(ValueError, match="must be writable, this ndarray is read-only"):
            f(*in_order(np.zeros(2), lent(1.0, 2.0)))
    with pytest.raises(TypeError, match="with read-only arrays"):
        nc.wrap(njit(lambda xs: copied_jitted(xs, xs)))(lent(1.0))


def test_a_promise_that_is_not_kept():
    parsed = parse("v:[1]d[1]d")
    promised = nc.Signature(parsed.result, parsed.args, readonly=[True, True])
    with pytest.raises(nc.SignatureError, match="with read-only arrays: "):
        nc.wrap(copied_jitted, promised)


def test_columns_of_pandas():
    pd = pytest.importorskip("pandas")
    column = pd.DataFrame({"x": [1.0, 2.0, 4.0]})["x"]
    f = nc.wrap(njit(lambda xs: xs[1:].sum()))
    assert f(column.to_numpy()) == 6.0
    assert f["d:[1]d"](column) == 6.0


def test_a_generalised_ufunc_of_arrays():
    """What is written to are its outputs, so nothing else need be said."""
    f = nc.wrap(njit(copied), "v:[1]d[1]d")
    doubled = f.to_ufunc(signature="(n)->(n)")
    assert doubled(np.arange(6.0).reshape(2, 3)).tolist() == [[0, 2, 4], [6, 8, 10]]


# -- life ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use", [lambda f: f(1.5), lambda f: f["d:d"](1.5), call_once, None])
def test_a_jitted_function_is_collected_with_its_callables(use):
    jitted = njit(lambda x: 3 * x)
    f = nc.wrap(jitted)
    if use is call_once:
        f["d:d"]
        njit(lambda f: f(1.5))(f)
    elif use is not None:
        use(f)
    entry = f["d:d"]
    references = [weakref.ref(jitted), weakref.ref(f)]
    del jitted, f
    gc.collect()
    assert entry(1.5) == 4.5  # its entries keep the function
    assert references[0]() is not None
    del entry
    gc.collect()
    assert [one() for one in references] == [None, None]


def test_arguments_that_are_buffers():
    """Arrays for the function, whatever has the memory."""
    total = nc.wrap(numba.njit(lambda values: values[0] + values[1]), name="total")
    for values in (array.array("d", [1.0, 2.0]), memoryview(b"\1\2"), b"\1\2"):
        assert total(values) == 3
    assert total.signatures == ("d:[1]d", "Q:[1]B")


@pytest.mark.parametrize(
    ("function", "given", "said"),
    [
        (lambda x: x.sum(), np.ones(2, ">f8"), "Unsupported array dtype: >f8"),
        (lambda x: x.sum(), np.ma.array([1.0, 2.0], mask=[0, 1]), "1 of its 2 elements are masked"),
        (
            lambda x: x,
            np.ones(2),
            "it returns an array, which no C function can; pass an array for it to write to",
        ),
    ],
)
def test_arrays_that_cannot_be_passed(function, given, said):
    f = nc.wrap(numba.njit(function), name="f")
    with pytest.raises(TypeError, match=f"cannot be called with .*{said}"):
        f(given)


def test_loops_take_numbers_alone():
    """Numba compiles no loop that nothing can call."""
    more = numba.vectorize(lambda x: x + 1)
    f = nc.wrap(more)
    for _ in range(2):
        with pytest.raises(TypeError, match="its loops take numbers; the ufunc itself takes"):
            f(np.ones(2))
    with pytest.raises(nc.SignatureError, match="its loops take numbers"):
        nc.wrap(more, "d:[1]d")
    assert (f(1.5), more.ufunc.types) == (2.5, ["d->d"])
