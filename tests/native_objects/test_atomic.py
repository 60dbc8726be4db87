"""Atomic fields: each access is one operation, whoever races for it, with the GIL or without."""

import math
from collections import Counter

import pytest

import nativecall as nc
from support.threads import together

TIMES = 3000  # of each thread


class Numbers(nc.NativeObject):
    b = nc.field("b", atomic=True)
    H = nc.field("H", atomic=True)
    i = nc.field("i", atomic=True)
    Q = nc.field("Q", atomic=True)
    e = nc.field("e", atomic=True)
    f = nc.field("f", atomic=True)
    d = nc.field("d", atomic=True)
    flag = nc.field("?", atomic=True)
    plain = nc.field("q")
    array = nc.field("(2)d")


class Sub(Numbers):
    more = nc.field("q", atomic=True)


#: The least and the greatest of an integer field, and values that others hold exactly.
VALUES = {
    "b": (-(2**7), 2**7 - 1),
    "H": (0, 2**16 - 1),
    "i": (-(2**31), 2**31 - 1),
    "Q": (0, 2**64 - 1),
    "e": (-0.5, 65504.0),
    "f": (-0.5, math.inf),
    "d": (0.1, -1e300),
    "flag": (False, True),
}


@pytest.fixture(scope="module")
def counter(builder):
    """A class of one atomic integer, which C functions without the GIL race for."""
    text = """
    typedef struct { long long n; } Counter;
    void climb(Counter *self, long long times)
    {
        for (long long i = 0; i < times; i++) {
            long long was = __atomic_load_n(&self->n, __ATOMIC_SEQ_CST);
            while (!__atomic_compare_exchange_n(&self->n, &was, was + 1, 0, __ATOMIC_SEQ_CST,
                                                __ATOMIC_SEQ_CST)) {
            }
        }
    }
    /* Puts from, from + 1, ... in, and gives the sum of what it got for them. */
    long long swap(Counter *self, long long from, long long times)
    {
        long long sum = 0;
        for (long long i = 0; i < times; i++) {
            sum += __atomic_exchange_n(&self->n, from + i, __ATOMIC_SEQ_CST);
        }
        return sum;
    }
    """
    path = builder.library(text, "objects_atomic")
    library = nc.load(
        str(path),
        "typedef struct { long long n; } Counter; void climb(Counter *, long long);"
        "long long swap(Counter *, long long, long long);",
    )

    class Count(nc.NativeObject):
        n = nc.field("q", atomic=True)
        climb = nc.method(library.climb, "v:&T{q:n:}q", gil="release")
        swap = nc.method(library.swap, "q:&T{q:n:}qq", gil="release")

    return Count


@pytest.mark.parametrize("cls", [Numbers, Sub])
@pytest.mark.parametrize("name", VALUES)
def test_exchange_gives_what_it_was(cls, name):
    first, second = VALUES[name]
    field, one = getattr(Numbers, name), cls()
    before = [getattr(one, other) for other in VALUES]
    assert field.exchange(one, first) == 0
    assert getattr(one, name) == first
    assert field.exchange(one, second) == first
    found = field.exchange(one, 0)
    assert (found, type(found)) == (second, type(getattr(one, name)))
    assert [getattr(one, other) for other in VALUES] == before  # and no other field


@pytest.mark.parametrize("cls", [Numbers, Sub])
@pytest.mark.parametrize("name", VALUES)
def test_compare_exchange_sets_what_is_as_expected(cls, name):
    first, second = VALUES[name]
    field, one = getattr(Numbers, name), cls()
    before = [getattr(one, other) for other in VALUES]
    setattr(one, name, first)
    assert field.compare_exchange(one, second, 0) is False
    assert getattr(one, name) == first
    assert field.compare_exchange(one, first, second) is True
    assert getattr(one, name) == second
    assert field.compare_exchange(one, second, 0) is True
    assert [getattr(one, other) for other in VALUES] == before


def test_floats_are_compared_by_their_bytes():
    one = Numbers()
    one.d = -0.0
    assert not Numbers.d.compare_exchange(one, 0.0, 1.0)
    assert Numbers.d.compare_exchange(one, -0.0, math.nan)
    assert Numbers.d.compare_exchange(one, math.nan, 2.0)
    assert one.d == 2.0


def test_add_gives_what_it_was_and_wraps_around():
    one = Numbers()
    assert Numbers.i.add(one, 5) == 0
    assert Numbers.i.add(one, -2) == 5
    assert one.i == 3
    assert Numbers.b.add(one, 127) == 0
    assert Numbers.b.add(one, 1) == 127
    assert one.b == -128
    one.Q = 2**64 - 1
    assert Numbers.Q.add(one, 1) == 2**64 - 1
    assert one.Q == 0
    one.H, one.d = 9, 2.5
    assert (one.H, one.d) == (9, 2.5)


def test_threads_add(counter):
    one = counter()

    def add():
        for _ in range(TIMES):
            counter.n.add(one, 1)

    together(add, add, lambda: one.climb(100 * TIMES), lambda: one.climb(100 * TIMES))
    assert one.n == 202 * TIMES


def test_threads_race_for_compare_exchange(counter):
    """Who wins counts by one; nobody's count is lost, of Python's threads and of others."""
    one = counter()

    def climb():
        for _ in range(TIMES):
            was = one.n
            while not counter.n.compare_exchange(one, was, was + 1):
                was = one.n

    together(climb, climb, lambda: one.climb(100 * TIMES), lambda: one.climb(100 * TIMES))
    assert one.n == 202 * TIMES


def test_threads_race_for_tokens(counter):
    """Of the threads that expect one value exactly one finds it, each time."""
    one = counter()
    won = []

    def take():
        while (token := one.n) < TIMES:
            if counter.n.compare_exchange(one, token, token + 1):
                won.append(token)

    together(take, take, take, take)
    assert sorted(won) == list(range(TIMES))


def test_threads_race_for_exchange(counter):
    """Every number that a thread puts in comes out once."""
    one = counter()
    got = Counter()
    sums = []
    swaps = 50 * TIMES

    def swap(first):
        mine = [counter.n.exchange(one, first + i) for i in range(TIMES)]
        got.update(mine)

    together(lambda: swap(1), lambda: swap(1 + TIMES))
    got[one.n] += 1
    assert got == Counter(range(2 * TIMES + 1))
    got.clear()
    one.n = 0
    together(
        lambda: swap(1),
        lambda: swap(1 + TIMES),
        lambda: sums.append(one.swap(10 * TIMES, swaps)),
        lambda: sums.append(one.swap(10 * TIMES + swaps, swaps)),
    )
    assert max(got.values()) == 1
    put = sum(range(2 * TIMES + 1)) + sum(range(10 * TIMES, 10 * TIMES + 2 * swaps))
    assert sum(got) + sum(sums) + one.n == put


class Index:
    """A number that looks at the field while it is converted."""

    def __init__(self, one, value):
        self.one, self.value = one, value

    def __index__(self):
        self.one.i = 7
        return self.value


def test_what_runs_while_a_number_is_converted_comes_before():
    one = Numbers()
    assert Numbers.i.exchange(one, Index(one, 3)) == 7
    assert not Numbers.i.compare_exchange(one, Index(one, 3), 5)
    assert (one.i, Numbers.i.add(one, Index(one, 1)), one.i) == (7, 7, 8)


ATOMIC = "needs nativecall.field(..., atomic=True)"
REFUSED = {
    "Numbers.plain.add(one, 1)": f"field 'plain' of 'Numbers' is not atomic; add() {ATOMIC}",
    "Numbers.plain.exchange(one, 1)": (
        f"field 'plain' of 'Numbers' is not atomic; exchange() {ATOMIC}"
    ),
    "Numbers.array.compare_exchange(one, 1, 2)": (
        f"field 'array' of 'Numbers' is not atomic; compare_exchange() {ATOMIC}"
    ),
    "Numbers.d.add(one, 1)": (
        "field 'd' of 'Numbers' is not an atomic integer; only these support add()"
    ),
    "Numbers.flag.add(one, 1)": (
        "field 'flag' of 'Numbers' is not an atomic integer; only these support add()"
    ),
    "Numbers.i.exchange(one)": (
        "exchange() of a field takes an object and a number (got 1 argument)"
    ),
    "Numbers.i.compare_exchange(one, 1)": (
        "compare_exchange() of a field takes an object and two numbers (got 2 arguments)"
    ),
    "Numbers.i.add()": "add() of a field takes an object and a number (got 0 arguments)",
    "Numbers.i.exchange(3, 1)": ("field 'i' of 'Numbers' objects does not apply to a 'int' object"),
    "Sub.more.compare_exchange(one, 1, 2)": (
        "field 'more' of 'Sub' objects does not apply to a 'Numbers' object"
    ),
    "Numbers.b.exchange(one, 128)": (
        "field 'b' of 'Numbers' is 128, out of range for 'signed char' (-128 to 127)"
    ),
    "Numbers.b.compare_exchange(one, 0, -129)": (
        "field 'b' of 'Numbers' is -129, out of range for 'signed char' (-128 to 127)"
    ),
    "Numbers.i.compare_exchange(one, 0.5, 1)": (
        "field 'i' of 'Numbers' must be an integer (got float)"
    ),
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_is_refused_changes_nothing(fails, code):
    one = Numbers()
    with fails(OverflowError if "out of range" in REFUSED[code] else TypeError, REFUSED[code]):
        eval(code)
    assert [getattr(one, name) for name in (*VALUES, "plain")] == [0] * 9
