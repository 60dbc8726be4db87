"""Numba: jitted functions as C functions, instances on demand, cfuncs, and what is refused.

What C passes is compared with ctypes, which calls through libffi, wherever ctypes has the types;
complex numbers go through trampolines that tests/codegen/test_abi.py compares with C compilers.
"""

import array
import collections
import copy
import ctypes
import gc
import math
import pickle
import sys
import weakref

import numpy as np
import pytest

import nativecall as nc
from support.levels import sweep
from support.threads import each

numba = pytest.importorskip("numba")

Pair = collections.namedtuple("Pair", ["low", "high"])


@numba.njit
def twice(x):
    """The double of a number."""
    return 2 * x


@numba.njit
def plus(x):
    return x + 1


@numba.njit
def same(x):
    return x


@numba.njit
def positive(x):
    return x > 0


@numba.njit
def checked(x):
    if x > 1:
        raise ValueError("too large", x)
    return x


@numba.njit
def picky(x):
    if x > 1:
        raise KeyError("constant")
    return 1, x


@numba.njit
def nothing(xs, n):
    for i in range(n):
        xs[i] += 1


@numba.njit
def fill(pointer, n):
    xs = numba.carray(pointer, n)
    for i in range(n):
        xs[i] *= 2
    return pointer


@numba.njit
def norm(p):
    return math.sqrt(p.x * p.x + p.y * p.y)


@numba.njit
def bounds(a, b):
    return Pair(min(a, b), max(a, b))


@numba.njit
def nested(a, b, c):
    return (a, (b, c))


@numba.njit
def weighted(xs, ys):
    total = 0.0
    for i in range(xs.shape[0]):
        for j in range(xs.shape[1]):
            total += xs[i, j] * ys[j]
    return total


@numba.njit
def many(a, b, c, d, e, f, g, z, h, w):
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * z + 9 * h + 10 * w


@numba.njit("float64(float64)")
def explicit(x):
    return x - 1


def python(obj):
    """The Python function of a jitted one."""
    return obj.py_func


# -- values ----------------------------------------------------------------------------------------

OWN = {"b": "signed char", "I": "unsigned int"}
OWN |= {"B": "unsigned char", "h": "short", "H": "unsigned short", "i": "int"}
INTEGERS = {"b": 8, "B": -8, "h": 16, "H": -16, "i": 32, "I": -32, "q": 64, "Q": -64}


@pytest.mark.parametrize("letter", sweep(INTEGERS, "b", "I", "q", "Q"))
def test_integers_are_not_cut_off(letter, fails):
    """Numba computes in 64 bits, signed ones whatever the argument is."""
    width = abs(INTEGERS[letter])
    signed = INTEGERS[letter] > 0
    last = 2 ** (width - signed) - 1
    f = nc.wrap(plus, f"{letter}:{letter}")
    assert (f.signatures, f.specialize) == ((f"{letter}:{letter}",), None)
    assert (f(0), f(last - 1)) == (1, last)
    assert f.to_ctypes()(last - 1) == last
    if width == 64:
        assert f(last) == (-last - 1 if signed else 0)
        return
    least = -last - 1 if signed else 0
    with fails(
        OverflowError,
        f"the result of 'plus' is {last + 1}, out of range for '{OWN[letter]}' ({least} to {last})",
    ):
        f(last)


@pytest.mark.parametrize("letter", ["f", "d", "Zf", "Zd"])
def test_numbers(letter):
    f = nc.wrap(twice, f"{letter}:{letter}")
    value = 1.25 - 0.5j if letter[0] == "Z" else 1.25
    assert f(value) == 2 * value
    if letter[0] != "Z":
        assert f.to_ctypes()(value) == 2 * value


def test_truth_values():
    f = nc.wrap(positive, "?:d")
    assert (f(1.0), f(-1.0)) == (True, False)
    g = nc.wrap(same, "?:?").to_ctypes()
    assert (g(True), g(False)) == (True, False)
    h = nc.wrap(same, "i:?")
    assert (h(True), h(False)) == (1, 0)


def test_results_convert_as_in_c():
    assert nc.wrap(plus, "d:q")(2) == 3.0
    assert nc.wrap(same, "Zd:d")(2.5) == 2.5 + 0j
    assert nc.wrap(same, "f:d")(0.1) == ctypes.c_float(0.1).value
    assert nc.wrap(same, "?:q")(4) is True
    assert nc.wrap(same, "P:&d")(np.zeros(1)) is not None


def test_pointers_and_no_result():
    xs = np.arange(4.0)
    f = nc.wrap(fill, "&d:&dq")
    assert int(f.signatures == ("&d:&dq",))
    returned = f(xs, 3)
    assert [returned[i] for i in range(4)] == [*xs] == [0.0, 2.0, 4.0, 3.0]
    assert nc.wrap(nothing, "v:[1]iq")(np.zeros(2, np.int32), 2) is None


def test_arrays_are_views_of_the_callers_memory():
    f = nc.wrap(nothing, "v:[1]iq")
    memory = np.zeros(6, np.int32)
    f(memory[::2], 3)
    f(memory[::-1], 1)
    assert [*memory] == [1, 0, 1, 0, 1, 1]
    g = nc.wrap(weighted, "d:[2]d[1]f")
    xs = np.arange(12.0).reshape(3, 4)
    ys = np.array([1, 10, 100], np.float32)
    assert g(xs.T, ys) == python(weighted)(xs.T, ys)
    assert g(xs[:, 1:], ys) == python(weighted)(xs[:, 1:], ys)


class Point(ctypes.Structure):
    _fields_ = (("x", ctypes.c_double), ("y", ctypes.c_double))


class Large(ctypes.Structure):
    _fields_ = (("x", ctypes.c_float), ("pad", ctypes.c_int64 * 3), ("y", ctypes.c_double))


@pytest.mark.parametrize(
    ("signature", "kind"),
    [("d:T{d:x:d:y:}", Point), ("d:T{f:x:(3)q:pad:d:y:}", Large)],
    ids=["registers", "memory"],
)
def test_structs_are_records(signature, kind):
    f = nc.wrap(norm, signature)
    value = kind(x=3, y=4)
    assert ctypes.CFUNCTYPE(ctypes.c_double, kind)(f.address())(value) == 5.0


def test_a_packed_struct():
    first = numba.njit(lambda p: norm(numba.carray(p, 1)[0]))
    f = nc.wrap(first, "d:&=T{b:a:d:x:f:y:}")
    xs = np.array([(1, 3.0, 4.0)], np.dtype([("a", "i1"), ("x", "f8"), ("y", "f4")]))
    assert f(xs) == 5.0
    by_value = nc.wrap(norm, "d:=T{b:a:d:x:f:y:}")
    assert by_value((1, 3.0, 4.0)) == 5.0


def test_tuples_are_structs():
    f = nc.wrap(bounds, "T{d:low:d:high:}:dd")
    assert (f(2.0, 1.0).low, f(2.0, 1.0).high) == (1.0, 2.0)
    assert nc.wrap(nested, "T{iT{fZf}}:idZf")(7, 0.5, 1j) == (7, (0.5, 1j))
    assert nc.wrap(nested, "T{dT{qd}}:iqd")(7, 8, 9.0) == (7.0, (8, 9.0))
    assert [*nc.wrap(nested, "T{i(2)f}:iff")(7, 8.0, 9.0)[1]] == [8.0, 9.0]


def test_a_record_that_comes_back():
    f = nc.wrap(same, "T{f:x:q:n:d:y:}:T{f:x:q:n:d:y:}")
    assert f((0.5, -3, 2.0)) == (0.5, -3, 2.0)


@pytest.mark.parametrize(
    "args",
    sweep(
        ["dddddddZddd", "ddddddddZdd", "ffffffqZfdf", "qqqqqqqZddZf", "ZdZdZdddddddd"],
        "dddddddZddd",
        "qqqqqqqZddZf",
    ),
)
def test_complex_numbers_where_registers_end(args):
    """One register may be left for two halves; C then has the whole number in memory."""
    letters = [part for part in args.replace("Z", " Z").split() if part]
    kinds = []
    for part in letters:
        kinds += [part[:2], *part[2:]] if part[0] == "Z" else [*part]
    kinds = kinds[:10]
    values = [i + 1 + (0.5j if kind[0] == "Z" else 0) for i, kind in enumerate(kinds)]
    f = nc.wrap(many, f"Zd:{''.join(kinds)}")
    assert f(*values) == python(many)(*values)


# -- exceptions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"errors": "python"}, {"gil": "release"}])
def test_an_exception_is_raised_by_the_call_from_python(options):
    f = nc.wrap(checked, "d:d", **options)
    for _ in range(3):
        with pytest.raises(ValueError, match=r"^\('too large', 2\.0\)$"):
            f(2.0)
        assert f(0.5) == 0.5


@pytest.mark.parametrize(("signature", "shape"), [("T{qd}:d", 2), ("T{ddd}:d", 3)])
def test_an_exception_where_the_result_is_a_struct(signature, shape):
    @numba.njit
    def triple(x):
        if x > 1:
            raise KeyError("constant")
        return x, x, x

    f = nc.wrap(picky if shape == 2 else triple, signature)
    with pytest.raises(KeyError, match="constant"):
        f(2.0)
    assert len(f(0.5)) == shape


def test_what_numba_raises_itself():
    divide = numba.njit(lambda n: 1 // n)
    f = nc.wrap(divide, "q:q")
    with pytest.raises(ZeroDivisionError):
        f(0)
    assert f(1) == 1


def unraisable(function):
    """What a thread that Python knows nothing of reports."""
    seen = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda args: seen.append((args.exc_value, args.object))
    try:
        result = function()
    finally:
        sys.unraisablehook = before
    return result, seen


def test_threads_that_python_has_never_seen(integrating):
    f = nc.wrap(plus, "d:d")
    assert integrating.in_threads(f, 8, 1000, "p") == (8000, 0)
    g = nc.wrap(checked, "d:d")
    (good, _), seen = unraisable(lambda: integrating.in_threads(g, 2, 5, "p"))
    assert good == 0
    # Of each thread the numbers above 1.
    assert len(seen) == 3 + 5
    assert {type(error) for error, _ in seen} == {ValueError}
    assert {owner for _, owner in seen} == {g.entries[0].owner}


def test_the_first_exception_in_c_code_is_the_one(integrating):
    f = nc.wrap(checked, "d:d")
    with pytest.raises((ValueError, SystemError)) as caught:
        integrating.integrate(f, 1.0, 3.0, 2, "p")
    # CPython's own error, where the C code does not look.
    error = caught.value.__cause__ if caught.type is SystemError else caught.value
    assert (type(error), error.args) == (ValueError, ("too large", 1.5))


@pytest.mark.parametrize(
    ("errors", "value"), [("none", 0), ("nonzero", 1), ("zero", 0), ("python", 0)]
)
def test_integers_that_c_gets_instead(errors, value):
    """As the result of a thread's function."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "pthread_join"):
        pytest.skip("no pthread_create in the C library")
    f = nc.wrap(checked, "q:q", errors=errors)
    thread, result = ctypes.c_void_p(), ctypes.c_size_t(99)

    def run():
        entry, argument = ctypes.c_void_p(f.address()), ctypes.c_size_t(5)
        assert libc.pthread_create(ctypes.byref(thread), None, entry, argument) == 0
        assert libc.pthread_join(thread, ctypes.byref(result)) == 0

    _, seen = unraisable(run)
    assert result.value == value
    # Whoever says that the caller looks finds that a thread without Python does not.
    assert [type(error) for error, _ in seen] == [ValueError] * (errors != "python")


@pytest.mark.parametrize("letter", ["d", "f"])
def test_numbers_that_c_gets_instead(letter):
    call = nc.wrap(checked, f"{letter}:{letter}").to_ctypes()

    @numba.njit
    def store(xs):
        for i in range(xs.shape[0]):
            xs[i] = call(xs[i])

    xs = np.array([0.5, 2, 0.25, 3])
    with pytest.raises(ValueError, match=r"too large.*2\.0"):
        nc.wrap(store, "v:[1]d")(xs)
    assert np.array_equal(xs, [0.5, np.nan, 0.25, np.nan], equal_nan=True)


# -- instances on demand ---------------------------------------------------------------------------


def fresh(function=lambda x: 2 * x):
    return numba.njit(function)


def test_a_type_lets_go_of_the_function_that_checks_results():
    def check(result, function, values):
        return result

    seen = weakref.ref(check)
    f = nc.wrap(nc.load("m").address("cos"), "d:d", check=check)
    assert f._numba_type_ is f._numba_type_
    del f, check
    gc.collect()
    assert seen() is None


def test_wrap_takes_the_instances_that_there_are():
    jitted = fresh()
    jitted(1.5)
    jitted(3)
    jitted(np.zeros(2))  # returns an array, which no C function does
    f = nc.wrap(jitted)
    assert f.signatures == ("d:d", "q:q")
    assert (f(1.5), f(3)) == (3.0, 6)
    assert f.__name__ == "<lambda>"
    assert f.specialize is not None


def test_instances_are_added_on_demand():
    jitted = fresh()
    f = nc.wrap(jitted, name="f")
    assert f.signatures == ()
    with pytest.raises(AttributeError, match=r"^'f' has no built-in view: it has no entries yet"):
        f.builtin
    assert f["d:d"](1.5) == 3.0
    assert f["f:f"](1.5) == 3.0
    assert f["Zd:Zd"](1j) == 2j
    assert f.signatures == ("d:d", "f:f", "Zd:Zd")
    assert len(jitted.signatures) == 3
    for missing in ("d:dd", "d:", "v:d", "q:d", "d:P", "d:O", "g:g", "d:d."):
        with pytest.raises(nc.NoEntryError, match="and its specialize hook created none"):
            f[missing]
    assert len(f.signatures) == 3


def test_a_c_consumer_has_a_function_compiled(integrating):
    jitted = fresh()
    f = nc.wrap(jitted)
    value, native, matched = integrating.integrate(f, 0.0, 1.0, 10, "dp")
    assert (value, native, matched) == (pytest.approx(1.0), True, 1)
    assert f.signatures == ("d:d",)


def test_threads_ask_for_the_same_instances():
    jitted = fresh()
    f = nc.wrap(jitted)
    signatures = ["d:d", "f:f", "q:q", "i:i"] * 2
    assert each(f.address, *signatures) == [f.address(one) for one in signatures]
    assert len(f.signatures) == 4


def test_options_are_those_of_all_instances():
    f = nc.wrap(fresh(), gil="release", errors="nonzero")
    assert (f["i:i"].entries[0].gil, f["i:i"].entries[0].errors) == ("release", "nonzero")
    # A result that cannot carry the convention.
    with pytest.raises(nc.NoEntryError):
        f["d:d"]
    with pytest.raises(ValueError, match="needs an integer as the result"):
        nc.wrap(fresh(), "d:d", errors="nonzero")


def test_a_last_argument_tells_c_of_the_exception():
    f = nc.wrap(checked, "d:d&i", errors="argument")
    assert f(0.5) == 0.5
    told = np.zeros(1, np.int32)
    for call in (f, lambda x: nc.wrap(f.address(), "d:d&i")(x, told)):
        with pytest.raises(ValueError, match="too large"):
            call(2.0)
    assert told[0] == 1
    with pytest.raises(ValueError, match="errors='argument' needs a pointer to an int"):
        nc.wrap(checked, "d:d", errors="argument")


def test_a_mapping_and_add():
    f = nc.wrap({"d:d": twice, "q:q": plus})
    assert (f(1.5), f(3)) == (3.0, 4)
    f.add("f:f", twice)
    assert f["f:f"](1.5) == 3.0
    with pytest.raises(
        TypeError,
        match=r"^'signature' must be given: a CPUDispatcher has a function for each signature$",
    ):
        f.add(None, twice)


def test_an_instance_outlives_the_jitted_function():
    jitted = fresh()
    f = nc.wrap(jitted, "d:d")
    pointer = f.to_ctypes()
    owner = f.entries[0].owner
    assert owner.function is jitted
    assert repr(owner).startswith("<'d:d' of CPUDispatcher(")
    del jitted, f, owner
    gc.collect()
    assert pointer(1.5) == 3.0


def test_an_instance_is_compiled_once():
    jitted = fresh()
    first = nc.wrap(jitted, "d:d").address()
    assert nc.wrap(jitted, "double (double)").address() == first
    assert nc.wrap(jitted).address("d:d") == first
    assert nc.wrap(jitted, "d:d", errors="python").address() != first
    jitted.recompile()
    assert nc.wrap(jitted, "d:d").address() != first


def test_explicit_signatures_are_the_only_ones():
    f = nc.wrap(explicit)
    assert f.signatures == ("d:d",)
    assert f(1.5) == 0.5
    with pytest.raises(nc.NoEntryError):
        f["f:f"]
    with pytest.raises(
        nc.SignatureError,
        match=r"^'explicit' was compiled only for \(float64\), not for 'f:f'$",
    ):
        nc.wrap(explicit, "f:f")


# -- calls that compile ----------------------------------------------------------------------------


def test_a_bare_call_compiles():
    jitted = fresh()
    f = nc.wrap(jitted, name="f")
    assert (f(1.5), f.signatures) == (3.0, ("d:d",))
    # Numba's dispatcher promotes nothing, either, where it can compile.
    assert (type(f(3)), f(3), f.signatures) == (int, 6, ("d:d", "q:q"))
    assert (f(1j), f.signatures) == (2j, ("d:d", "q:q", "Zd:Zd"))
    assert nc.wrap(jitted)(1j) == 2j
    assert nc.wrap(fresh(lambda: 7))() == 7
    assert nc.wrap(fresh(lambda a, b: a * b))(2, 3) == 6
    total = nc.wrap(fresh(lambda xs: xs.sum()))
    assert (total(np.arange(4.0)), total.signatures) == (6.0, ("d:[1]d",))
    assert total(np.arange(8.0)[::2]) == 12.0


@pytest.mark.parametrize(
    ("function", "arguments", "why"),
    [
        (lambda x: x, ("text",), r"\(str\): the Numba type unicode_type has no C type"),
        (lambda x: 1.0, (None,), r"\(NoneType\): C has no type for an argument that is None"),
        (lambda x: x, (object(),), r"\(object\): .*[Cc]annot determine Numba type"),
        (lambda x: x, (), r"\(\): .* does not take the arguments of \(\): missing a required"),
        (lambda x: x, (1, 2), r"\(int, int\): .* too many positional arguments"),
        (lambda x: x.missing, (1.0,), r"Numba cannot compile .*Unknown attribute 'missing'"),
        (lambda x: undefined, (1.0,), "name 'undefined' is not defined"),  # noqa: F821
        (lambda x: np.zeros(3), (1.0,), "it returns an array, which no C function can"),
    ],
)
def test_a_call_that_does_not_compile_says_why(function, arguments, why):
    f = nc.wrap(fresh(function), name="f")
    for _ in range(2):
        with pytest.raises(TypeError, match=f"cannot be called with .*{why}"):
            f(*arguments)
    assert f.signatures == ()


def test_conventions_of_calls_that_compile():
    f = nc.wrap(fresh(), errors="argument")
    assert (f(1.5), f.signatures) == (3.0, ("d:d&i",))
    g = nc.wrap(fresh(), errors="nonzero")
    with pytest.raises(TypeError, match=r"cannot be called: errors='nonzero' needs"):
        g(1.5)


def test_scipy_has_it_compiled():
    integrate = pytest.importorskip("scipy.integrate")

    @numba.njit
    def coordinates(n, xs):
        return xs[0] * xs[n - 1]

    for function, ranges, expected, signature in (
        (lambda x: x * x, [[0, 3]], 9.0, "d:d"),
        (lambda x, y: x * y, [[0, 1], [0, 2]], 1.0, "d:dd"),
        (coordinates.py_func, [[0, 1], [0, 2]], 1.0, "d:i&d"),
    ):
        f = nc.wrap(fresh(function))
        assert integrate.nquad(f.to_scipy(), ranges)[0] == pytest.approx(expected)
        assert f.signatures == (signature,)
    scaled = nc.wrap(fresh(lambda x, data: x * numba.carray(data, 1, np.float64)[0]))
    box = scaled.to_scipy(user_data=np.array([3.0]))
    assert integrate.quad(box, 0, 2)[0] == pytest.approx(6.0)
    with pytest.raises(nc.SignatureError, match="cannot be passed to SciPy: Numba cannot comp"):
        nc.wrap(fresh(lambda x: x.missing)).to_scipy()


def test_functions_that_drop_the_gil_say_so():
    free = numba.njit(nogil=True)(lambda x: 2 * x)
    f = nc.wrap(free, "d:d")
    assert (f.entries[0].gil, f(1.5)) == ("release", 3.0)
    assert nc.wrap(free)["f:f"].entries[0].gil == "release"
    assert nc.wrap(free, "d:d", gil="need").entries[0].gil == "need"
    assert nc.wrap(free, "d:d", errors="python").entries[0].gil == "need"
    raising = nc.wrap(numba.njit(nogil=True)(checked.py_func), "d:d")
    with pytest.raises(ValueError, match="too large"):
        raising(2.0)


def test_a_jitted_function_as_an_argument(lib):
    apply = lib.function("apply", "d:X{d:d}d")
    assert apply(fresh(), 1.5) == apply(nc.wrap(fresh()), 1.5) == 3.0
    with pytest.raises(ValueError, match="too large"):
        apply(checked, 2.0)


# -- pickles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_wrapped_functions_are_copied_and_pickled(way):
    f = nc.wrap(twice, "d:d", name="f", doc="Twice.", errors="python")
    made = way(f)
    assert (made.signatures, made.__name__, made.__doc__) == (("d:d",), "f", "Twice.")
    assert (made.entries[0].errors, made(1.5)) == ("python", 3.0)
    assert made.address() == f.address()
    on_demand = nc.wrap(fresh(), name="g")
    on_demand(1.5)
    made = way(on_demand)
    assert (made.__name__, made(1j), made(1.5)) == ("g", 2j, 3.0)


# -- cfuncs ----------------------------------------------------------------------------------------


@numba.cfunc("float64(float64, intc, CPointer(float64), boolean)")
def scaled(x, n, p, flag):
    return x * n + p[0] if flag else x


def test_a_cfunc_tells_its_signature():
    f = nc.wrap(scaled)
    assert f.signatures == ("d:di&d?",)
    assert f.__name__ == "scaled"
    assert f.entries[0].owner is scaled
    assert f.address() == scaled.address
    assert (f(2.0, 3, np.array([0.5]), True), f(2.0, 3, None, False)) == (6.5, 2.0)
    assert nc.wrap(scaled, "double (double, int, double *, bool)").address() == scaled.address
    with pytest.raises(nc.SignatureError, match=r"'signature' is 'd:d', but the target is"):
        nc.wrap(scaled, "d:d")


def test_what_a_cfunc_does_not_pass_as_c_does():
    made = numba.cfunc("complex64(complex64)")(lambda z: z)
    with pytest.raises(nc.SignatureError, match="wrap a function made by numba"):
        nc.wrap(made)
    record = numba.from_dtype(np.dtype([("x", "f8")]))
    made = numba.cfunc(numba.float64(record))(lambda p: p.x)
    with pytest.raises(nc.SignatureError, match=r"'T\{d\}' as C does"):
        nc.wrap(made)


# -- refusals --------------------------------------------------------------------------------------

REFUSED = {
    "d:dd": "'twice' does not take the arguments of 'd:dd': too many positional arguments",
    "d:": "'twice' does not take the arguments of 'd:': missing a required argument: 'x'",
    "q:d": "'twice' returns float64 for the arguments of 'q:d', not 'q'",
    "d:Zd": "'twice' returns complex128 for the arguments of 'd:Zd', not 'd'",
    "v:d": "'twice' returns float64 for the arguments of 'v:d', not 'v'",
    "d:d.": "Numba does not support variadic functions, such as 'd:d.'",
    "e:e": "Numba has no type for 'e' (_Float16)",
    "g:g": "Numba has no type for 'g' (long double)",
    "O:O": "Numba has no type for 'O' (PyObject *)",
    "d:X{d:d}": "Numba has no type for 'X{d:d}' (double (*)(double))",
    "d:T{g}": "Numba has no type for 'g' (long double)",
    "d:T{dd}": "Numba cannot compile 'twice' for 'd:T{dd}': No implementation of function",
}


@pytest.mark.parametrize("signature", REFUSED)
def test_refused(signature):
    before = twice.signatures
    with pytest.raises(nc.SignatureError) as caught:
        nc.wrap(twice, signature)
    assert str(caught.value).startswith(REFUSED[signature])
    if "returns" not in REFUSED[signature]:
        assert twice.signatures == before


def test_object_mode_is_refused():
    @numba.jit(forceobj=True)
    def slow(x):
        return x

    for signature in ("d:d", None):
        with pytest.raises(nc.SignatureError, match="object mode, which no C function can call"):
            nc.wrap(slow, signature)


def test_an_optional_result_is_refused():
    @numba.njit
    def maybe(x):
        if x > 0:
            return x
        return None

    with pytest.raises(nc.SignatureError, match="returns OptionalType"):
        nc.wrap(maybe, "d:d")


def test_other_objects_of_numba():
    with pytest.raises(TypeError, match=r"^'target' must be an address"):
        nc.wrap(numba.float64, "d:d")


def test_numba_is_never_imported(forked):
    """An object that says it is Numba's proves nothing."""
    code = """
import sys
import nativecall as nc

class Dispatcher:
    __module__ = "numba.core.registry"
    def __call__(self, x):
        return x

for arguments in (("d:d",), ()):
    try:
        nc.wrap(Dispatcher(), *arguments)
    except TypeError:
        print("refused")
print(any(name.partition(".")[0] == "numba" for name in sys.modules))
"""
    assert forked(code) == "refused\nrefused\nFalse\n"


@numba.njit
def only_raises(a, b):
    raise ValueError("never equal")


@numba.njit
def one_argument(a):
    return 1


@numba.jit(forceobj=True)
def in_object_mode(a, b):
    return 0


def test_comparisons_of_qsort():
    """A comparison gets two pointers, neither of which is user data."""
    qsort = nc.load(None).function("qsort", "v:PNNX{i:PP}")
    numbers = array.array("d", [3.0, 1.0, 2.0])
    for function in (one_argument, np.cos, nc.wrap(one_argument, "i:P")):
        with pytest.raises(TypeError) as caught:
            qsort(numbers, 3, 8, function)
        assert str(caught.value).endswith(
            f"'{function.__name__}' takes 1 argument, and C passes 2; only a last 'void *' beside "
            "other arguments can be omitted, as user data"
        )
    with pytest.raises(ValueError, match="never equal"):
        qsort(numbers, 3, 8, only_raises)
    assert numbers.tolist() == [3.0, 1.0, 2.0]
    qsort(numbers, 3, 8, in_object_mode)  # a Python function
    sort = nc.load(None).function("qsort_r", "v:PNNX{i:PPP}P")
    sort(numbers, 3, 8, numba.njit(lambda a, b: 0), None)
    with pytest.raises(TypeError, match="takes 1 argument, and C passes 3"):
        sort(numbers, 3, 8, one_argument, None)


def test_a_function_that_only_raises_returns_anything(fails):
    for signature in ("d:dd", "T{dd}:dd", "v:dd"):
        with pytest.raises(ValueError, match="never equal"):
            nc.wrap(only_raises, signature)(1, 2)
    with fails(
        nc.SignatureError,
        "'<lambda>' returns none for the arguments of 'd:d', not 'd'",
    ):
        nc.wrap(numba.njit(lambda x: None), "d:d")


def test_fields_are_not_cut_off(fails):
    f = nc.wrap(numba.njit(lambda x: (x, x + 1)), "T{bB}:q")
    assert f(127) == (127, 128)
    with fails(
        OverflowError,
        "the result of '<lambda>' is 128, out of range for 'signed char' (-128 to 127)",
    ):
        f(128)
    with fails(
        OverflowError,
        "the result of '<lambda>' is -127, out of range for 'unsigned char' (0 to 255)",
    ):
        f(-128)
