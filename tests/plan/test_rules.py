"""Plans: which rule is taken for a pair of signatures, and what is refused, for which reason."""

from __future__ import annotations

import math

import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._cdecl.spelling import both, parse, parse_type
from nativecall._plan import messages, rules
from nativecall._plan.conversionplan import (
    Argument,
    Bound,
    Constant,
    Convert,
    Load,
    Memory,
    OutSlot,
    OutValue,
    Plan,
    Result,
)
from nativecall._types.ctype import VOIDPTR

D, F, INT, LONG = (parse_type(code) for code in "dfiq")
PD = parse_type("&d")


def plan(own: str, wanted: str, before: str = "none", errors: str | None = None) -> Plan:
    return rules.convert("f", parse(own), _lib.ERRORS[before], parse(wanted), errors)


def checks_of(plan: Plan) -> list[tuple[int, str, int]]:
    """Which arguments are checked, how, and to be how many."""
    return [(at, plan.steps[step].kind, plan.steps[step].count) for at, step in plan.checks]


def refusal(own: str, wanted: str, before: str = "none", errors: str | None = None) -> str:
    with pytest.raises(nc.SignatureError) as caught:
        plan(own, wanted, before, errors)
    text = str(caught.value)
    one, other = both(parse(own), parse(wanted))
    start = f"cannot convert 'f' from {one!r} to {other!r}: "
    assert text.startswith(start)
    return text.removeprefix(start)


# -- single values --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "how"),
    [
        *[(code, code, "same") for code in "?bBhHiIqQefdg"],
        *[("?", code, "widened") for code in "bBhHiIqQefdg"],
        *[("b", code, "widened") for code in "hiqefdg"],
        *[("b", code, "exact") for code in "?BHIQ"],
        *[("I", code, "widened") for code in "qQdg"],
        *[("I", code, "exact") for code in "?bBhHief"],
        *[("q", code, "exact") for code in "?bBhHiIQefd"],
        *[("e", code, "widened") for code in "fdg"],
        *[("d", code, "exact") for code in "?bBhHiIqQ"],
        *[("d", code, "rounded") for code in "ef"],
        *[("f", code, "widened") for code in ("d", "g", "Zf", "Zd", "Zg")],
        ("d", "Zf", "rounded"),
        ("Zf", "Zd", "widened"),
        ("Zd", "Zf", "rounded"),
    ],
)
def test_numbers(source: str, target: str, how: str) -> None:
    made = plan(f"v:{target}", f"v:{source}")
    node = made.arguments[0]
    if how == "same":
        assert node == Argument(0, parse_type(source))
    else:
        assert isinstance(node, Convert)
        assert (node.step >= 0) == (how != "widened")
        assert len(made.steps) == (how != "widened")
        assert node.exact == (how == "exact")


@pytest.mark.skipif(parse_type("g").size != 16, reason="a long double of 80 bits")
def test_a_long_double_holds_every_integer_where_it_has_64_bits() -> None:
    assert not plan("v:g", "v:Q").steps


@pytest.mark.parametrize(
    ("own", "wanted", "reason"),
    [
        (
            "v:&d",
            "v:&f",
            "argument 1 is '&f', which points to a different type from '&d'; write '&d'",
        ),
        ("v:&(3)d", "v:&d", "argument 1 is '&d', which points to a different type from '&(3)d'"),
        ("v:d", "v:P", "argument 1 is 'P', which cannot be converted to 'd'"),
        ("v:P", "v:d", "argument 1 is 'd', which cannot be converted to 'P'"),
        (
            "v:d",
            "v:Zd",
            "argument 1 would lose the imaginary part of 'Zd' as 'd'; take the complex",
        ),
        ("v:&d", "v:Zd", "argument 1 would lose the imaginary part"),
        ("v:T{dd}", "v:T{ff}", "argument 1 is 'T{ff}', which cannot be converted to 'T{dd}'"),
        (
            "v:X{d:d}",
            "v:X{f:f}",
            "argument 1 is 'X{f:f}', which cannot be converted to 'X{d:d}'; write 'X",
        ),
        ("v:P", "v:O", "argument 1 is 'O', which cannot be converted to 'P'"),
        ("O:", "P:", "the result is 'O', which cannot be converted to 'P'"),
        ("P:", "O:", "the result is 'P', which cannot be converted to 'O'"),
        ("v:[1]d", "v:&d", "argument 1 is '&d', which cannot be converted to '[1]d'"),
        ("v:ddd", "v:dZdd", "argument 2 would lose"),
        ("d:d", "T{dd}:d", "the result is 'd', which cannot be converted to 'T{dd}'"),
        ("Zd:d", "d:d", "the result would lose the imaginary part"),
        ("&d:", "&f:", "the result is '&d', which points to a different type from '&f'"),
        ("d:ddd", "d:dd", "it takes 3 arguments, not 2; bind() fixes arguments; a trailing 'void"),
        ("d:d", "d:", "it takes 1 argument, not 0"),
        ("v:&d", "d:d", "it takes 0 arguments, not 1, not counting its result or user data"),
        ("v:&i&d", "d:id", "it takes 1 argument, not 2, not counting its result"),
        ("d:&di", "d:i&f", "argument 2 is '&f', which points to a different type from '&d'"),
        ("d:&d&di", "d:i&d&d", "its arguments are (&d, &d, i), pointers and numbers in another"),
        ("d:&d&dq", "d:i&d&d", "its arguments are (&d, &d, q), pointers and numbers in another"),
        ("i:&i&ii", "i:i&i&i", "its arguments are (&i, &i, i), pointers and numbers in another"),
        ("d:", "d:i&d", "it takes 0 arguments, not 2"),
        ("d:d", "d:d.", "a variadic function cannot be generated; leave '.' out"),
        ("i:&b.", "i:", "it takes at least 1 argument, not 0"),
        ("O:", "v:", "its result is a reference, which would be lost"),
        ("T{d(2)T{Od}}:", "v:", "its result is references, which would be lost"),
        ("v:d", "d:d", "its result 'v' cannot become 'd'"),
        ("v:d", "i:d", "it returns nothing; errors='nonzero' or errors='zero' makes"),
    ],
)
def test_refusals(own: str, wanted: str, reason: str) -> None:
    assert refusal(own, wanted).startswith(reason)


# -- arguments as a whole -------------------------------------------------------------------------


def test_an_array_and_its_length_in_another_order() -> None:
    assert plan("d:&di", "d:i&d").arguments == (Argument(1, PD), Argument(0, INT))
    assert plan("d:i&d", "d:&di").arguments == (Argument(1, INT), Argument(0, PD))
    pointer, length = plan("v:&ib", "v:q&i").arguments
    assert pointer == Argument(1, parse_type("&i"))
    assert isinstance(length, Convert)
    assert length.step >= 0
    assert plan("d:&diP", "d:i&d").arguments == (
        Argument(1, PD),
        Argument(0, INT),
        Constant(0, VOIDPTR),
    )
    reason = refusal("double (double *, int)", "double (int, const double *)")
    assert reason.startswith("argument 2 is const, but the function does not promise")


def test_numbers_by_reference_are_packed_and_unpacked() -> None:
    made = plan("d:&d&d", "d:i&d")
    assert made.arguments == tuple([Memory((Load(Argument(1, PD), 8 * k, D),), D) for k in (0, 1)])
    assert [count for _, _, count in checks_of(made)] == [2, 0]
    made = plan("d:i&d", "d:&d&d")
    items = tuple([Load(Argument(k, PD), 0, D) for k in (0, 1)])
    assert made.arguments == (Constant(2, INT), Memory(items, D))
    assert [index for index, _, _ in checks_of(made)] == [0, 1]
    # The first integer by reference may be the length of what follows.
    made = plan("i:&i&i", "i:i&i")
    assert made.arguments == (Memory((Argument(0, INT),), INT), Argument(1, parse_type("&i")))
    assert plan("v:&i&d", "v:i&d").arguments == (Memory((Argument(0, INT),), INT), Argument(1, PD))


def test_two_numbers_of_one_type_are_an_array_to_a_caller_with_one() -> None:
    # Not the length as the first number, which would fit as well.
    assert checks_of(plan("d:dd", "d:i&d"))[0] == (0, "count", 2)
    # Of two types they are no array.
    assert plan("d:id", "d:i&d").arguments[0] == Argument(0, INT)
    # And equal types stay as they are.
    assert plan("d:i&d", "d:i&d").arguments == (Argument(0, INT), Argument(1, PD))


def test_a_length_must_be_able_to_be_the_number_of_items() -> None:
    assert "cannot be 200" in refusal("d:" + "d" * 200, "d:b&d")
    assert "its argument 1 cannot be 200" in refusal("d:b&d", "d:" + "d" * 200)


def test_a_variadic_function_gets_promoted_arguments() -> None:
    made = plan("i:&b.", "i:&bfbqd")
    assert [node.type.text for node in made.arguments] == ["&b", "d", "i", "q", "d"]
    assert (made.inner.variadic, len(made.inner.args)) == (True, 1)


CONST = (
    "is const, but the function does not promise not to write to it; "
    "leave const out, or declare it in the function's own signature"
)


@pytest.mark.parametrize(
    ("own", "wanted", "argument"),
    [
        ("void (double *, void *)", "void (const double *)", 1),
        ("void (double *)", "void (const double *)", 1),
        ("void (double *)", "void (const void *)", 1),
        ("void (void *)", "void (const double *)", 1),
        ("void (double, double *)", "void (float, const double *)", 2),
        ("void (double, void *)", "void (double, const void *)", 2),
        ("void (double, double, void *)", "void (int, double *, const void *)", 3),
        ("double (double *, void *)", "void (const double *)", 1),
        ("int (char *, ...)", "int (const char *, int)", 1),
        ("int (char **)", "int (const char *)", 1),
        ("double (double *, double *)", "double (const double *, double)", 1),
    ],
)
def test_no_promise_is_made_for_the_function(own: str, wanted: str, argument: int) -> None:
    assert refusal(own, wanted) == f"argument {argument} {CONST}"


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ("void (const double *, void *)", "void (const double *)"),
        ("void (const double *, void *)", "void (double *)"),
        ("void (double, const void *)", "void (float, const void *)"),
        ("void (double, void *)", "void (const double *)"),
        ("void (double, double)", "void (const double *)"),
        ("double (double, void *)", "double (double)"),
        ("void (double)", "void (double, const void *)"),
        ("int (const char *, ...)", "int (const char *, int, const char *)"),
    ],
)
def test_promises_that_are_kept(own: str, wanted: str) -> None:
    assert plan(own, wanted).outer == parse(wanted)


def test_an_array_that_is_read_only_stays_as_it_is() -> None:
    f = nc.wrap(1, "void (double *, void *)", name="f")
    data = memoryview(bytes(16)).cast("d")
    for own, wanted in ((f, "v:&d"), (f.bind(..., None), "v:&d")):
        with pytest.raises(nc.SignatureError, match="argument 1 is const"):
            own.convert("void (const double *)")
        with pytest.raises(ValueError, match="argument 1 of 'f' must be writable"):
            own.convert(wanted)(data)
    with pytest.raises(ValueError, match="argument 1 of 'f' must be writable"):
        f.bind(data)
    reads = nc.wrap(1, "void (const double *, void *)", name="f")
    assert reads.convert("void (const double *, void *)") is reads
    assert reads.convert("v:&dP") is reads
    assert reads.bind(data).signatures == ("v:P",)


def test_a_promise_for_a_view() -> None:
    view = parse("v:[1]d")
    promised = nc.Signature(view.result, view.args, readonly=[True])
    with pytest.raises(nc.SignatureError, match="argument 1 is const"):
        rules.convert("f", parse("v:[1]dP"), 0, promised)


# -- results --------------------------------------------------------------------------------------


def test_a_last_pointer_argument_is_the_result() -> None:
    made = plan("v:d&d", "d:d")
    assert made.arguments == (Argument(0, D), OutSlot(D))
    assert made.result == OutValue(D)
    made = plan("i:d&dP", "f:dP", "nonzero")
    assert made.arguments == (Argument(0, D), OutSlot(D), Argument(1, VOIDPTR))
    assert made.result == Convert(OutValue(D), F, 1 - made.tested)
    assert made.after.name == "none"
    # Promised not to be written to, it is no result; and an integer may be a value.
    assert "cannot become" in refusal("void (double, const double *)", "d:d")
    assert "is a value, not a status; nativecall.wrap(f, errors=" in refusal("i:d&d", "d:d")


def test_a_wanted_last_pointer_argument_takes_the_result() -> None:
    made = plan("d:d", "v:d&d")
    assert made.stores == ((1, Result(D)),)
    assert made.result is None
    made = plan("d:d", "i:d&dP")
    assert (made.stores, made.result, made.after.name) == (
        ((1, Result(D)),),
        Constant(0, INT),
        "nonzero",
    )
    made = plan("d:d", "i:d&d", errors="zero")
    assert made.result == Constant(1, INT)
    # One that may not be written to is an argument.
    assert "it takes 1 argument, not 2" in refusal("d:d", "void (double, const double *)")


@pytest.mark.parametrize(
    ("own", "wanted", "before", "errors", "after", "tested"),
    [
        ("i:", "i:", "nonzero", None, "nonzero", False),
        ("i:", "q:", "nonzero", None, "nonzero", False),
        ("i:", "b:", "nonzero", None, "nonzero", True),
        ("i:", "v:", "nonzero", None, "none", True),
        ("i:", "i:", "nonzero", "zero", "zero", True),
        ("i:", "i:", "zero", "nonzero", "nonzero", True),
        ("i:", "i:", "zero", "none", "none", True),
        ("i:", "d:", "zero", None, "none", True),
        ("i:", "i:", "errno", None, "errno", False),
        ("i:", "i:", "errno", "nonzero", "nonzero", True),
        ("d:", "f:", "errno", None, "errno", True),
        ("d:", "d:", "errno", "none", "none", True),
        ("d:", "d:", "none", "errno", "errno", False),
        ("d:", "d:", "none", "python", "python", False),
        ("d:", "d:", "python", None, "python", False),
        ("d:", "d:", "python", "none", "none", True),
        ("P:", "P:", "null", None, "null", False),
        ("P:", "P:", "null", "none", "none", True),
        ("P:", "&d:", "null", "errno", "errno", True),
        ("P:", "v:&P", "null", None, "none", True),
        ("v:", "i:", "none", "zero", "zero", False),
        ("i:&d", "d:", "nonzero", "errno", "errno", True),
    ],
)
def test_error_conventions(
    own: str, wanted: str, before: str, errors: str | None, after: str, tested: bool
) -> None:
    made = plan(own, wanted, before, errors)
    assert (made.after.name, made.tested >= 0) == (after, tested)
    assert made.flags & _lib.ERRORS_MASK == _lib.ERRORS[after]
    needs = after == "python" or (before == "python" and tested)
    assert bool(made.flags & _lib.FLAG_NEEDS_GIL) == needs


@pytest.mark.parametrize(
    ("own", "wanted", "before", "errors", "reason"),
    [
        (
            "i:",
            "i:",
            "none",
            "nonzero",
            "its result does not have the meaning of errors='nonzero'; ",
        ),
        ("P:", "P:", "none", "null", "its result does not have the meaning of errors='null'; "),
        ("i:", "d:", "nonzero", None, "its result is a status, not a value"),
        ("i:", "i:", "nonzero", "none", "its result is a status, not a value"),
    ],
)
def test_error_conventions_that_do_not_fit(
    own: str, wanted: str, before: str, errors: str | None, reason: str
) -> None:
    assert refusal(own, wanted, before, errors).startswith(reason)


def test_flags_are_carried_over() -> None:
    for flag in (_lib.FLAG_NEEDS_GIL, _lib.FLAG_TAKES_GIL, _lib.FLAG_RELEASE_GIL, _lib.FLAG_ERRNO):
        made = rules.convert("f", parse("d:d"), flag, parse("f:f"))
        assert made.flags == flag
    with pytest.raises(nc.SignatureError, match="needs the GIL, which its callers release"):
        rules.convert("f", parse("d:d"), _lib.FLAG_RELEASE_GIL, parse("f:f"), "python")


# -- binding --------------------------------------------------------------------------------------


def test_bound_values_lie_after_the_header_as_aligned_as_they_must_be() -> None:
    made = rules.bind(parse("d:bdiT{dd}P"), 0, [True, False, True, True, True])
    assert made.outer.text == "d:d"
    offsets = [node.offset for node in made.arguments if isinstance(node, Bound)]
    header = offsets[0]
    assert offsets == [header, header + 4, header + 8, header + 24]
    assert made.arguments[1] == Argument(0, D)
    assert made.size == header + 32


# -- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "wanted", "value", "message"),
    [
        (
            "v:i",
            "v:q",
            1 << 40,
            "O: argument 1 of 'g' is 1099511627776, out of range for 'int' (RANGE)",
        ),
        ("v:?", "v:i", 2, "O: argument 1 of 'g' is 2, out of range for '_Bool' (0 to 1)"),
        ("v:i", "v:d", 0.5, "V: argument 1 of 'g' is 0.5, not an integer"),
        ("v:i", "v:d", math.nan, "V: argument 1 of 'g' is nan, not an integer"),
        (
            "v:B",
            "v:d",
            math.inf,
            "O: argument 1 of 'g' is inf, out of range for 'unsigned char' (0 to 255)",
        ),
        ("v:f", "v:d", 1e300, "O: argument 1 of 'g' is out of range for 'float' (FLOATS)"),
        ("v:Zf", "v:Zd", 1e300, "O: argument 1 of 'g' is out of range for 'float' (FLOATS)"),
        (
            "v:e",
            "v:i",
            70000,
            "O: argument 1 of 'g' is out of range for '_Float16' (-65504 to 65504)",
        ),
        (
            "v:d",
            "v:q",
            2**53 + 1,
            "O: argument 1 of 'g' is 9007199254740993, which 'double' EXACTLY",
        ),
        (
            "i:",
            "b:",
            300,
            "O: the result of 'g' is 300, out of range for 'signed char' (-128 to 127)",
        ),
        (
            "d:&f",
            "d:ddd",
            1e300,
            "O: item 1 of argument 1 of 'g' is out of range for 'float' (FLOATS)",
        ),
        ("d:dd", "d:i&d", 3, "V: argument 1 of 'd:i&d' is 3, but 'g' has 2 items"),
        (
            "d:dd",
            "d:i&d",
            1,
            "V: argument 1 of 'd:i&d' is 1, but 'g' has 2 items; the caller passes the others "
            "(SciPy's args=), or bind() fixes them",
        ),
    ],
)
def test_messages(own: str, wanted: str, value: object, message: str) -> None:
    error = messages.failure(plan(own, wanted), 0, "g", value)
    for short, long in (
        ("RANGE", "-2147483648 to 2147483647"),
        ("FLOATS", "-3.4028235e+38 to 3.4028235e+38"),
        ("EXACTLY", "does not hold exactly"),
    ):
        message = message.replace(short, long)
    assert f"{type(error).__name__[0]}: {error}" == message
