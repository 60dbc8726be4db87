"""`f.bind` and `f.convert` again: what is made of a known pair is what was made of it at first."""

from __future__ import annotations

import array
import gc
import pickle
import sys
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nativecall as nc
from nativecall._callable import hooks, thunk
from nativecall._cdecl.spelling import parse

specs = hooks._thunk_specs
libm = nc.load(
    "m",
    "double pow(double x, double y); double ldexp(double x, int n); float cosf(float x);"
    "double frexp(double x, int *n); double fma(double x, double y, double z);",
)
NUMBERS = array.array("i", [0])


class Odd:
    """What is a number when it likes."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def __float__(self) -> float:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[return-value]

    __index__ = __float__


values = st.one_of(
    st.just(...),
    st.floats(allow_nan=False, width=16),
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.sampled_from(
        [None, "x", b"text", 10**400, NUMBERS, Odd(2.5), Odd(2), Odd(KeyError("odd")), []]
    ),
)


def outcome(make: Any, pickles: bool = True) -> tuple[object, ...]:
    """What making it, calling it and pickling it come to; of an exception its class and text."""
    try:
        made = make()
        text = made.signatures[0]
        results = [made(*[NUMBERS if "&" in arg else 2 for arg in _args(text)]) for _ in range(2)]
    except Exception as error:
        return type(error), str(error)
    if not pickles:
        return text, results, made.__name__
    try:
        pickled = pickle.dumps(made)
    except TypeError as error:
        return text, results, made.__name__, str(error).partition("0x")[0]
    again = outcome(lambda: pickle.loads(pickled), False)
    assert again == (text, results, made.__name__)
    return *again, pickled


def _args(text: str) -> list[str]:
    return [arg.text for arg in parse(text).args]


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(["pow", "ldexp", "frexp", "fma", "cosf"]), st.lists(values, max_size=4))
def test_what_is_bound_again_is_bound_as_at_first(name, bound):
    f = getattr(libm, name)
    specs.clear()
    first = outcome(lambda: f.bind(*bound))
    assert outcome(lambda: f.bind(*bound)) == first
    names = f._cif.signature.names
    if len(bound) <= len(names):
        named = dict(zip(names, bound, strict=False))
        assert outcome(lambda: f.bind(**named)) == first


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(["pow", "ldexp", "frexp", "fma", "cosf"]),
    st.sampled_from(
        [
            "d:d",
            "f:f",
            "d:dd",
            "d:di",
            "f:ff",
            "d:&d",
            "d:i&d",
            "d:dP",
            "v:ddd&d",
            "d:d&q",
            "i:d",
            "double(double)",
        ]
    ),
    st.sampled_from([None, "none", "errno", "nonzero", "python", "no"]),
    st.sampled_from([None, "other", "", "a\0b", 5]),
)
def test_what_is_converted_again_is_converted_as_at_first(name, wanted, errors, other):
    f = getattr(libm, name)
    options = {"errors": errors, "name": other}
    specs.clear()
    first = outcome(lambda: f.convert(wanted, **options))
    assert outcome(lambda: f.convert(wanted, **options)) == first
    assert outcome(lambda: f.convert(parse(wanted), **options)) == first
    if errors is None and other is None:
        assert outcome(lambda: f.convert(wanted)) == first
        assert outcome(lambda: f.convert(signature=wanted)) == first


def test_long_doubles_are_pickled_as_they_were_given():
    numpy = pytest.importorskip("numpy")
    exact = numpy.longdouble(1) / 3
    f = libm.function("fmal", "d:ggg")
    pickled = pickle.dumps(f.bind(exact))
    (kept, *_) = pickle.loads(pickled).entries[0].owner.kept
    assert (type(kept), kept) == (numpy.longdouble, exact)


def test_values_read_back_are_those_that_were_bound():
    g = nc.wrap(nc.load("m").address("cos"), "d:?bBhHiIqQefdZfZdg", name="g")
    bound = (True, -1, 2, -3, 4, -5, 6, -(2**60), 2**64 - 1, 0.5, 0.1, 0.1, 1j, 0.1 - 2j, 0.5)
    bind, given = g.bind(*bound).entries[0].owner.pickled(None, "g", None, {})
    assert bind.__self__ is g
    again = g.bind(*given).entries[0].owner.pickled(None, "g", None, {})
    assert given == again[1]
    assert given[:10] == bound[:10]
    assert [type(one) for one in given] == [bool] + [int] * 8 + [float] * 3 + [complex] * 2 + [
        float
    ]


def test_an_entry_that_a_conversion_replaces_is_bound_as_it_was():
    f = nc.wrap(libm.pow.address(), "d:dd")
    f.bind(1.0)

    class Replaces:
        def __float__(self) -> float:
            f.add("d:dd", nc.load("m").address("atan2"), replace=True)
            return 2.0

    assert f.bind(Replaces())(3.0) == 8.0
    assert f(0.0, 1.0) == 0.0


def test_a_value_that_does_not_fit_leaves_nothing():
    kept = bytearray(8)
    f = nc.wrap(libm.pow.address(), "d:&bd", name="f")
    counted = sys.getrefcount(f)
    for wrong in ("x", Odd(KeyError("odd"))):
        for _ in range(3):
            with pytest.raises((TypeError, KeyError)):
                f.bind(kept, wrong)
    kept.append(1)
    assert sys.getrefcount(f) == counted


def test_names_that_python_uses_itself():
    f = nc.wrap(
        libm.pow.address(),
        nc.Signature(parse("d:dd").result, parse("d:dd").args, names=["self", "function"]),
    )
    assert f.bind(function=2.0)(3.0) == f.bind(self=3.0)(2.0) == 9.0


@pytest.mark.parametrize("arguments", [(), ("d:d", "d:d"), (5,), (None,)])
def test_convert_takes_one_signature(arguments):
    with pytest.raises(TypeError):
        libm.cosf.convert(*arguments)
    with pytest.raises(TypeError):
        libm.cosf.convert("d:d", other=1)


def test_methods_have_signatures_and_texts():
    import inspect

    assert str(inspect.signature(libm.pow.bind)) == "(*values, **named)"
    assert str(inspect.signature(libm.pow.convert)) == "(signature, *, errors=None, name=None)"
    assert "Parameters" in nc.NativeCallable.bind.__doc__
    assert "Parameters" in nc.NativeCallable.convert.__doc__


def test_specs_are_kept_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(specs, "limit", 16)
    f = nc.wrap(libm.pow.address(), "d:" + "d" * 12)
    specs.clear()
    for bits in range(1, specs.limit + 20):
        f.bind(*[1.0 if bits >> place & 1 else ... for place in range(12)])
    assert len(specs) == specs.limit
    last = next(reversed(specs.values()))
    made = f.bind(*[1.0 if bits >> place & 1 else ... for place in range(12)])
    assert next(reversed(specs.values())) is last
    specs.clear()
    assert made.signatures[0] == "d:" + "d" * (12 - bits.bit_count())


def test_a_spec_lives_as_long_as_its_thunks():
    """The code, too: other code may take its place as soon as it is gone."""
    made = [libm.fma.bind(..., number) for number in range(300)]
    specs.clear()
    gc.collect()
    assert [one(2.0, 1.0) for one in made] == [2.0 * number + 1.0 for number in range(300)]
    del made[1:]
    gc.collect()
    assert made[0](2.0, 1.0) == 1.0


class Check:
    """Gives with each result what it saw."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self.made: list[nc.NativeCallable] = []

    def __call__(self, result: object, function: object, values: object) -> object:
        return self, result, values


def test_a_check_is_that_of_its_function_and_ends_with_it():
    address = libm.pow.address()
    checks = [Check(), Check()]
    specs.clear()
    made = []
    for check in checks:
        function = nc.wrap(address, "d:dd", check=check)
        for _ in range(2):
            made += [
                function.bind(2.0),
                function.bind(..., 3.0),
                function.convert("f:ff").bind(2.0),
                function.convert("d:dd", name="power").bind(2.0),
                thunk.taking_gil(function).bind(2.0),
            ]
            assert [one(3.0) for one in made[-5:]] == [
                (check, result, (3.0,)) for result in (8.0, 27.0, 8.0, 8.0, 8.0)
            ]
        assert function.bind(2.0)._cif is made[-5]._cif
        check.made = [function, *made[-5:]]  # so that it leads to itself
    assert len(specs) == 7  # no more than for one of them
    gone = [weakref.ref(check) for check in checks]
    del check, checks, function, made
    gc.collect()
    assert [one() for one in gone] == [None, None]


def test_a_choice_among_entries_keeps_no_check():
    check = Check()
    function = nc.wrap(libm.pow.address(), "d:T{d:x:d:y:}", check=check)
    function.add("d:dd", libm.pow.address())
    assert function(2.0, 3.0) == 8.0
    assert function((2.0, 3.0)) == (check, 8.0, ((2.0, 3.0),))
    gone = weakref.ref(check)
    del check, function
    gc.collect()
    assert gone() is None


def test_checked_specs_are_kept_up_to_a_bound():
    function = nc.wrap(libm.pow.address(), "d:dd", check=Check())

    def spec_with(name):
        return function.convert(f"float (float {name}, float)")._cif

    seen = [spec_with(f"x{number}") for number in range(257)]
    assert spec_with("x256") is seen[256]
    assert spec_with("x0") is not seen[0]
