"""dynamiccall.h: calls whose signature is known at run time, and providers that are wrong."""

import ctypes
import functools
import gc
import importlib
import math
import operator
import struct
import sys
import weakref
from pathlib import Path

import pytest

import nativecall as nc
from nativecall import _ext
from nativecall._types.ctype import SCALARS, part_of
from support import packed
from support.capsules import capsule
from support.headers import REFUSED, events
from support.threads import each
from support.vectors import Api, Entry

REPEAT = 10_000


def d(x):
    return struct.pack("d", x)


def i(n):
    return struct.pack("i", n)


def q(n):
    return struct.pack("q", n)


def p(address):
    return struct.pack("P", address)


def f4(x):
    return struct.pack("f", x)


def ask(c, f, signature, *values, **options):
    """The way of a call, and its result."""
    prepared = c.prepare(f, signature)
    return c.way(prepared), c.call(prepared, values, *options.values())


# -- signatures at run time ----------------------------------------------------------------------


def test_exact_promoted_and_boxed(c, functions):
    f = functions.function("d_qd", "d:qd")
    assert ask(c, f, "d:qd", q(-(2**40)), d(0.5)) == ("exact", d(0.5 - 2**40))
    assert ask(c, f.builtin, "d:qd", q(3), d(0.5)) == ("exact", d(3.5))
    # An entry of int64 is there for int32, unsigned and boolean alike.
    assert ask(c, f, "d:id", i(-3), d(0.5)) == ("promoted", d(-2.5))
    assert ask(c, f, "d:Id", struct.pack("I", 2**32 - 1), d(0.5)) == ("promoted", d(2**32 - 0.5))
    assert ask(c, f, "d:?f", b"\1", f4(0.25)) == ("promoted", d(1.25))
    assert ask(c, f, "Zd:bd", struct.pack("b", -3), d(0.5)) == ("promoted", d(-2.5) + d(0.0))
    # int64 is no double, uint64 no int64, and a double no float.
    assert ask(c, functions.function("d_d", "d:d"), "d:q", q(3)) == ("boxed", d(4.0))
    assert ask(c, f, "d:Qd", struct.pack("Q", 3), d(0.5)) == ("boxed", d(3.5))
    assert ask(c, f, "f:qd", q(3), d(0.5)) == ("boxed", f4(3.5))
    assert ask(c, functions.function("d_d", "d:d"), "d:i", i(3)) == ("promoted", d(4.0))
    # Any spelling of a signature.
    long = "q" if ctypes.sizeof(ctypes.c_long) == 8 else "i"
    assert ask(c, f, " d : l d ", struct.pack(long, 3), d(0.5))[0] in ("exact", "promoted")


def test_the_nearest_entry_counts_then_the_first(c, functions):
    address = functions.address

    def way(signature, *entries):
        table = nc.wrap({s: address(name) for s, name in entries})
        values = [bytes(struct.calcsize(code)) for code in signature.partition(":")[2]]
        prepared = c.prepare(table, signature)
        return c.way(prepared), c.call(prepared, tuple(values))

    one = ("d:q", "d_q"), ("d:d", "d_d")
    # An integer is nearer to an integer, however wide; 0 tells d_q from d_d.
    assert way("d:i", *one) == ("promoted", d(0.0))
    assert way("d:i", *reversed(one)) == ("promoted", d(0.0))
    assert way("d:f", *one) == ("promoted", d(1.0))
    # d:d and f:d are exact for the argument; the first result that fits, d, is the same type.
    two = ("f:d", "f_d"), ("d:d", "d_d")
    assert way("d:d", *two) == ("exact", d(1.0))
    assert way("d:d", two[0]) == ("promoted", d(2.0))
    assert way("Zd:d", *two)[1] == d(1.0) + d(0.0)
    assert way("f:d", *two) == ("exact", f4(2.0))


def test_void_takes_any_result_but_an_object(c, functions):
    take = functions.function("take", "d:")
    assert ask(c, functions.function("v_d", "v:d"), "v:d", d(2.0)) == ("exact", None)
    assert take() == -2.0
    assert ask(c, functions.function("v_d", "v:d"), "v:f", f4(2.0)) == ("promoted", None)
    assert take() == -2.0
    assert ask(c, functions.function("d_d", "d:d"), "v:d", d(2.0)) == ("promoted", None)
    assert ask(c, take, "v:") == ("promoted", None)
    assert ask(c, lambda x: "text", "v:d", d(2.0)) == ("boxed", None)
    address = ctypes.cast(ctypes.pythonapi.PyObject_Repr, ctypes.c_void_p).value
    assert ask(c, nc.wrap(address, "O:O", errors="python"), "v:O", 3) == ("boxed", None)
    # Who wants a result gets none from a function without one.
    f = functions.function("v_d", "v:d")
    assert c.way(c.prepare(f, "d:d")) == "boxed"


def test_many_arguments(c, functions):
    f = functions.function("many", "d:" + 10 * "di")
    values = [d(k + 0.5) if k % 2 == 0 else i(-k) for k in range(20)]
    expected = sum((k + 1) * (k + 0.5 if k % 2 == 0 else -k) for k in range(20))
    assert ask(c, f, "d:" + 10 * "di", *values) == ("exact", d(expected))
    narrow = [f4(k + 0.5) if k % 2 == 0 else struct.pack("h", -k) for k in range(20)]
    assert ask(c, f, "d:" + 10 * "fh", *narrow) == ("promoted", d(expected))
    assert ask(c, lambda *x: len(x), "i:" + 32 * "b", *(32 * [b"\0"])) == ("boxed", i(32))


def test_the_rest_of_python(c):
    numpy = importlib.import_module("numpy")

    def python(x):
        return x + 1

    for f in (python, functools.partial(python), numpy.vectorize(python), math.exp):
        prepared = c.prepare(f, "d:d")
        assert c.way(prepared) == "boxed"
        assert c.call(prepared, (d(0.0),)) == d(1.0)
        assert c.call(prepared, (d(0.0),), True) == REFUSED
        assert c.call(prepared, (d(0.0),), False, False) is None
    assert ask(c, operator.add, "q:ii", i(2), i(-5)) == ("boxed", q(-3))
    assert ask(c, numpy.exp, "d:d", d(0.0)) == ("boxed", d(1.0))
    few = events(lambda: c.call(prepared, (d(0.0),)))
    prepared = c.prepare(python, "d:d")
    assert events(lambda: c.call(prepared, (d(0.0),), False, True, 100)) >= few + 100


def test_flags(c, functions, fails):
    address = functions.address
    need = c.prepare(nc.wrap(address("holds"), "d:d", gil="need"), "d:d")
    assert c.way(need) == "exact"
    assert c.call(need, (d(1.0),)) == d(1.0)
    assert c.call(need, (d(1.0),), True) == REFUSED
    # Dropped around the call, exact and promoted alike.
    for signature, value in (("d:d", d(1.0)), ("d:f", f4(1.0))):
        release = c.prepare(nc.wrap(address("holds"), "d:d", gil="release"), signature)
        assert c.way(release) != "boxed"
        assert c.call(release, (value,)) == d(-1.0)
        assert c.call(release, (value,), True) == d(-1.0)
    hold = c.prepare(nc.wrap(address("holds"), "d:d"), "d:d")
    assert (c.call(hold, (d(1.0),)), c.call(hold, (d(1.0),), True)) == (d(1.0), d(-1.0))


@pytest.mark.parametrize(
    ("name", "signature", "errors", "good", "bad", "exception"),
    [
        ("same_i", "i:i", "nonzero", i(0), i(3), nc.NativeFailure),
        ("same_i", "i:i", "zero", i(3), i(0), nc.NativeFailure),
        ("sets_errno", "i:i", "errno", i(0), i(2), FileNotFoundError),
    ],
)
def test_error_conventions(c, functions, name, signature, errors, good, bad, exception):
    prepared = c.prepare(nc.wrap(functions.address(name), signature, errors=errors), signature)
    assert c.way(prepared) == "boxed"
    assert c.call(prepared, (good,), True) == REFUSED
    assert c.call(prepared, (good,)) == good
    with pytest.raises(exception):
        c.call(prepared, (bad,))
    with pytest.raises(exception):
        c.call(prepared, (bad,), False, False)


def test_null_results(c, functions, fails):
    prepared = c.prepare(nc.wrap(functions.address("same_P"), "P:q", errors="null"), "P:q")
    assert c.way(prepared) == "boxed"
    with pytest.raises(nc.NativeFailure):
        c.call(prepared, (q(0),))
    # The package's own pointers are cffi's, not integers.
    with fails(TypeError, "an integer is required"):
        c.call(prepared, (q(8),))
    assert c.call(prepared, (q(8),), False, False) is None


def python_address(name):
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value


def test_exceptions_that_an_entry_sets(c, fails):
    as_long = nc.wrap(python_address("PyLong_AsLongLong"), "q:O", errors="python")
    prepared = c.prepare(as_long, "q:O")
    assert c.way(prepared) == "exact"
    assert c.call(prepared, (-7,)) == q(-7)
    assert c.call(prepared, (-1,)) == q(-1)
    assert c.call(prepared, (-7,), True) == REFUSED
    for wanted in (True, False):
        with pytest.raises(OverflowError):
            c.call(prepared, (2**70,), False, wanted)
    assert ask(c, as_long, "g:O", -7)[0] == "promoted"

    class Fails:
        def __repr__(self):
            raise LookupError("from the callee")

    shows = c.prepare(nc.wrap(python_address("PyObject_Repr"), "O:O", errors="python"), "O:O")
    assert c.way(shows) == "exact"
    for wanted in (True, False):
        with fails(LookupError, "from the callee"):
            c.call(shows, (Fails(),), False, wanted)


def test_an_object_that_is_null(c, functions):
    f = nc.wrap(functions.address("null_object"), "O:O")
    prepared = c.prepare(f, "O:O")
    assert c.way(prepared) == "exact"
    message = rf"the function of {f!r} returned a NULL object without setting an exception"
    for wanted in (True, False):
        with pytest.raises(SystemError) as info:
            c.call(prepared, (3,), False, wanted)
        assert str(info.value) == message
    # What sets one without saying so is believed all the same.
    f = nc.wrap(python_address("PyObject_Length"), "q:O")
    shows = c.prepare(nc.wrap(python_address("PyNumber_Negative"), "O:O"), "O:O")
    with pytest.raises(TypeError, match=r"^bad operand type for unary -: 'str'$"):
        c.call(shows, ("text",))
    # A NULL argument cannot become a Python object.
    with pytest.raises(ValueError, match=r"^an object argument must not be NULL$"):
        c.call(c.prepare(repr, "O:O"), (...,))


def test_references_stay_level(c, functions):
    shows = nc.wrap(python_address("PyNumber_Positive"), "O:O", errors="python")
    obj = [2**100]
    number = obj[0]
    for f in (shows, operator.pos, lambda x: x):
        for wanted in (True, False):
            before = sys.getrefcount(number), sys.getrefcount(f)
            prepared = c.prepare(f, "O:O")
            result = c.call(prepared, (number,), False, wanted, REPEAT)
            assert (result is number) is wanted
            del result, prepared
            assert (sys.getrefcount(number), sys.getrefcount(f)) == before
    f = functions.function("d_d", "d:d")
    for g in (f, lambda x: x, ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x)):
        before = sys.getrefcount(g)
        for _ in range(REPEAT // 10):
            c.prepare(g, "d:f")
        assert sys.getrefcount(g) == before


def test_a_prepared_call_keeps_its_callable(c):
    def python(x):
        return x

    alive = weakref.ref(python)
    prepared = c.prepare(python, "d:d")
    del python
    gc.collect()
    assert alive() is not None
    assert c.call(prepared, (d(2.0),)) == d(2.0)
    del prepared
    gc.collect()
    assert alive() is None


def test_a_call_that_is_released_while_it_runs_keeps_its_callable(c, functions):
    """Until it returns; what comes after that is refused, in what ends the callable as well."""
    alive, refused, calls = [], [], []

    class Owner:
        def __del__(self):
            try:
                c.call(calls[-1], (p(0),))
            except RuntimeError as error:
                refused.append(str(error))

    def release(x):
        c.release(calls[-1])
        alive.append(last() is not None)
        return x + 1

    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    pointer = kind(release)
    address = p(ctypes.cast(pointer, ctypes.c_void_p).value)
    f = nc.wrap(functions.function("through", "d:P").address(), "d:P", owner=Owner())
    last = weakref.ref(f)
    calls.append(c.prepare(f, "d:P"))
    assert c.way(calls[-1]) == "exact"
    del f
    assert c.call(calls[-1], (address,)) == d(3.0)
    assert (alive, last()) == ([True], None)
    assert refused == ["a prepared call was used after its release"]
    # The boxed way, of an object that Python calls through a method without a reference to it.
    made = [functools.partial(release)]
    last = weakref.ref(made[0])
    calls.append(c.prepare(made.pop(), "d:d"))
    assert c.way(calls[-1]) == "boxed"
    assert c.call(calls[-1], (d(2.0),)) == d(3.0)
    assert (alive, last()) == ([True, True], None)
    with pytest.raises(RuntimeError, match=r"^a prepared call was used after its release$"):
        c.call(calls[-1], (d(2.0),))


@pytest.mark.parametrize("gil", ["take", "need"])
def test_what_python_code_behind_an_entry_raises_is_the_calls(c, gil):
    """The entry does not say that it reports failures: it gives C its sentinel."""

    def raising(x):
        raise LookupError(f"for {x:g}")

    prepared = c.prepare(nc.callback("d:d", raising, gil=gil), "d:d")
    assert c.way(prepared) == "exact"
    with pytest.raises(LookupError, match=r"^for 2$"):
        c.call(prepared, (d(2.0),))


def test_an_integer_of_many_digits_does_not_fit(c):
    """Python refuses to write it into a message."""
    many = 10**5000
    for code in "iQ":
        with pytest.raises(OverflowError, match=rf"^the result does not fit in '{code}'$"):
            c.call(c.prepare(lambda: many, f"{code}:"), ())


@pytest.mark.parametrize(
    ("code", "good", "bad"),
    [
        ("b", (-128, 127), (-129, 128)),
        ("B", (0, 255), (-1, 256)),
        ("h", (-(2**15), 2**15 - 1), (-(2**15) - 1, 2**15)),
        ("H", (0, 2**16 - 1), (-1, 2**16)),
        ("i", (-(2**31), 2**31 - 1), (-(2**31) - 1, 2**31)),
        ("I", (0, 2**32 - 1), (-1, 2**32)),
        ("q", (-(2**63), 2**63 - 1), (-(2**63) - 1, 2**63)),
        ("Q", (0, 2**64 - 1), (-1, 2**64)),
    ],
)
def test_integers_through_python(c, code, good, bad):
    prepared = c.prepare(lambda x: x, f"{code}:{code}")
    for value in good:
        packed = struct.pack(code, value)
        assert c.call(prepared, (packed,)) == packed
    for value in bad:
        prepared = c.prepare(lambda value=value: value, f"{code}:")
        with pytest.raises(OverflowError, match=rf"^the result {value} does not fit in '{code}'$"):
            c.call(prepared, ())
        assert c.call(prepared, (), False, False) is None
    with pytest.raises(TypeError, match=r"^'float' object cannot be interpreted as an integer$"):
        c.call(c.prepare(lambda: 1.0, f"{code}:"), ())


def test_scalars_become_the_objects_that_the_package_makes(c):
    """What the headers make of a number is what nativecall's own calls make of it."""

    def outcome(function, *values):
        try:
            return repr(function(*values))
        except OverflowError as error:
            return str(error)

    tried = 0
    for code, one in SCALARS.items():
        part = part_of(one)
        if code != one.text or code == "Zg":
            continue
        number = {"float": 0.1, "complex": 0.1}.get(one.kind, 1)
        stored = ctypes.create_string_buffer(32)
        _ext.store_scalar(part.letter, number, ctypes.addressof(stored), "it")
        values = [stored.raw[: part.size], bytes(part.size)]
        if one.kind == "int":
            values += [b"\xff" * part.size, b"\x80" * part.size]
        elif one.kind != "bool" and part.size <= 8:
            # The sign and the exponent: a small number, an infinity, a nan.
            values += [b"\1" * part.size, bytes(part.size - 2) + b"\x80\xff", b"\xff" * part.size]
        elif part.digits == 64:
            values.append(bytes(7) + b"\x80\xfe\x7f" + bytes(part.size - 10))
        for value in values:
            data = value * (one.size // part.size)
            seen = []
            prepared = c.prepare(seen.append, f"v:{code}")
            memory = ctypes.create_string_buffer(data, len(data))
            known = outcome(_ext.load_scalar, one.letter, ctypes.addressof(memory))
            found = outcome(lambda prepared=prepared, data=data: c.call(prepared, (data,)))
            assert (repr(seen[0]) if seen else found) == known, (code, data)
            tried += 1
    assert tried > 40


def test_other_values_through_python(c):
    def same(x):
        return x

    for code, value in (
        ("e", struct.pack("e", -0.333)),
        ("e", struct.pack("e", 6e-8)),
        ("e", struct.pack("e", math.inf)),
        ("f", f4(0.1)),
        ("d", d(0.1)),
        ("g", bytes(ctypes.c_longdouble(0.1))),
        ("Zf", f4(1.5) + f4(-2.5)),
        ("Zd", d(1.5) + d(-2.5)),
        ("?", b"\1"),
        ("?", b"\0"),
        ("P", struct.pack("P", 0)),
        ("P", struct.pack("P", 2**63 + 8)),
        ("&d", struct.pack("P", 8)),
        ("X{d:d}", struct.pack("P", 8)),
    ):
        way, result = ask(c, same, f"{code}:{code}", value)
        assert way == "boxed"
        # 10 bytes of a long double on x86 count.
        assert result[:10] == value[:10], code
    assert ask(c, lambda x: x is None, "?:P", struct.pack("P", 0))[1] == b"\1"
    assert ask(c, list, "?:")[1] == b"\0"
    assert ask(c, lambda: 3, "Zd:")[1] == d(3.0) + d(0.0)
    for code in ("f", "d", "g", "e"):
        with pytest.raises(TypeError, match=r"^must be real number, not str$"):
            c.call(c.prepare(lambda: "text", f"{code}:"), ())
    with pytest.raises(OverflowError):
        c.call(c.prepare(lambda: 1e6, "e:"), ())
    with pytest.raises(TypeError):
        c.call(c.prepare(lambda: "text", "P:"), ())
    with pytest.raises(TypeError):
        c.call(c.prepare(lambda: "text", "Zd:"), ())


def test_what_cannot_be_prepared(c, functions, fails):
    f = functions.function("d_d", "d:d")
    before = sys.getrefcount(f)
    for _ in range(100):
        with fails(ValueError, "'d:' is not a signature: malformed input".replace("d:", "d")):
            c.prepare(f, "d")
        for signature in ("d:T{dd}", "v:[1]d", "i:P.", "T{dd}:d"):
            with fails(
                ValueError,
                f"'{signature}' has a struct, a view, a complex long double or variadic "
                "arguments, which calls built at run time cannot pass; pass a pointer",
            ):
                c.prepare(f, signature)
        long = "d:" + 33 * "d"
        with fails(ValueError, f"'{long}' has more than 32 arguments"):
            c.prepare(f, long)
    assert sys.getrefcount(f) == before
    with fails(TypeError, "no function for 'd:d' in 3, which is not callable from Python either"):
        c.prepare(3, "d:d")
    with fails(SystemError, "nc_call_prepare was called with NULL as the object"):
        c.prepare_null()


def test_prepare_beside_a_struct_entry(c, functions):
    table = nc.wrap({"d:T{dd}": functions.address("norm"), "d:d": functions.address("d_d")})
    assert ask(c, table, "d:d", d(1.0)) == ("exact", d(2.0))
    assert ask(c, functions.function("Zd_Zd", "Zd:Zd"), "Zd:d", d(1.5)) == (
        "promoted",
        d(3.0) + d(0.0),
    )


def test_a_call_keeps_the_function_it_was_prepared_with(c, functions):
    f = nc.wrap(functions.address("d_d"), "d:d")
    prepared = c.prepare(f, "d:d")
    f.add("f:f", functions.address("half"))
    assert c.call(prepared, (d(1.0),)) == d(2.0)


def test_threads_share_a_call(c, functions):
    f = functions.function("d_di", "d:di")
    for signature, first in (("d:di", d(0.5)), ("d:fi", f4(0.5))):
        prepared = c.prepare(f, signature)
        assert c.in_threads(prepared, (first, i(3)), 20_000, 8.0) == 8 * 20_000
    assert c.in_threads(c.prepare(lambda x: x, "d:d"), (d(0.5),), 100, 0.5) == 0
    # With the GIL, Python's own threads: natively, with the GIL dropped, and boxed.
    for g in (
        functions.function("d_d", "d:d"),
        nc.wrap(functions.address("d_d"), "d:d", gil="release"),
        lambda x: x + 1,
    ):
        prepared = c.prepare(g, "d:d")

        def work(prepared):
            for n in range(300):
                assert c.call(prepared, (d(n),)) == d(n + 1)

        each(work, *[prepared] * 8)


# -- providers that are wrong, and entries that differ in flags only -----------------------------


FIND = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p, ctypes.c_size_t)
TELL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_size_t)
NEEDS_GIL = 1
NONZERO = 0x20


class Provider:
    """Makes an object whose type has ``__nativecall_api__``, and keeps what it consists of."""

    def __init__(self, told, found=None, endless=False):
        def address(rows, n):
            return ctypes.addressof(rows) + n * ctypes.sizeof(Entry)

        def find(_obj, signature, refuse):
            for n, row in enumerate(self.found):
                if found is not None or (row.signature == signature and not row.flags & refuse):
                    return address(self.found, n)
            return None

        def tell(_obj, position):
            self.asked.append(position)
            return (
                address(self.told, 0 if endless else position)
                if (endless or position < len(told))
                else None
            )

        self.asked = []
        self.told = (Entry * len(told))(*told)
        self.found = self.told if found is None else (Entry * len(found))(*found)
        self.functions = FIND(find), TELL(tell)
        addresses = [ctypes.cast(one, ctypes.c_void_p) for one in self.functions]
        self.api = Api(ctypes.sizeof(Api), 0x6E635F6170690001, None, *addresses)
        api = capsule(b"nativecall_api_v1", ctypes.addressof(self.api))
        members = {"__nativecall_api__": api, "__call__": lambda self, x: 7.0}
        self.obj = type("Made", (), members)()


def test_types_with_nativecall_api(c, functions, fails):
    names = {"d:d": "d_d", "d:dddddddd": "d_8", "q:q": "same_P", "i:i": "same_i"}
    flags = {"q:q": NEEDS_GIL, "i:i": NONZERO}
    made = Provider(
        [(s.encode(), flags.get(s, 0), functions.address(name)) for s, name in names.items()]
    )
    assert ask(c, made.obj, "d:d", d(3.0)) == ("exact", d(4.0))
    assert ask(c, made.obj, "d:i", i(3)) == ("promoted", d(4.0))
    assert ask(c, made.obj, "d:dddddddd", *(8 * [d(0.5)])) == ("exact", d(18.0))
    assert ask(c, made.obj, "q:q", q(-3)) == ("exact", q(-3))
    assert c.call(c.prepare(made.obj, "q:q"), (q(3),), True) == REFUSED
    # An entry that reports failures is Python's to call, and Python gives a float.
    prepared = c.prepare(made.obj, "i:i")
    assert c.way(prepared) == "boxed"
    with fails(TypeError, "'float' object cannot be interpreted as an integer"):
        c.call(prepared, (i(3),))
    # Of entries that are not enumerated, the exact one is found.
    made.api.entry = None
    del type(made.obj).__call__
    assert ask(c, made.obj, "d:d", d(3.0)) == ("exact", d(4.0))
    with pytest.raises(
        TypeError, match=r"^no function for 'd:i' in .*, which is not callable from Python either$"
    ):
        c.prepare(made.obj, "d:i")
    bad = type("Bad", (), {"__nativecall_api__": 3})
    with pytest.raises(TypeError, match=r"^'__nativecall_api__' of Bad must be a capsule"):
        c.prepare(bad(), "d:d")


def test_entries_that_cannot_be_used_are_passed_over(c, functions):
    good = (b"d:d", 0, functions.address("d_d"))
    for bad in (
        (None, 0, good[2]),
        (b"d:d", 0, None),
        (b"d:d", 1 << 24, good[2]),
        (b"d:d", NONZERO, good[2]),
        (b"d", 0, good[2]),
    ):
        for told, found in (([bad], None), ([bad], [bad]), ([], [bad])):
            made = Provider(told, found)
            assert ask(c, made.obj, "d:d", d(1.0)) == ("boxed", d(7.0)), (bad, told, found)
        # The next one counts.
        made = Provider([bad, good])
        assert ask(c, made.obj, "d:d", d(1.0)) == ("exact", d(2.0))
        assert ask(c, made.obj, "d:f", f4(1.0)) == ("promoted", d(2.0))
    # What find() gives is of the signature that was asked for.
    made = Provider([], [(b"f:d", 0, functions.address("f_d"))])
    assert ask(c, made.obj, "d:d", d(1.0)) == ("boxed", d(7.0))


def test_a_provider_that_never_ends(c, functions):
    made = Provider([(b"d:d", 0, functions.address("d_d"))], endless=True)
    assert ask(c, made.obj, "d:f", f4(1.0)) == ("promoted", d(2.0))
    assert ask(c, made.obj, "f:d", d(1.0)) == ("boxed", f4(7.0))
    assert made.asked == 2 * list(range(64))
    # What stands behind the last that is asked for is found by its signature.
    others = 64 * [(b"q:q", 0, functions.address("d_q"))]
    made = Provider([*others, (b"d:d", 0, functions.address("d_d"))])
    assert ask(c, made.obj, "d:d", d(1.0)) == ("exact", d(2.0))
    assert ask(c, made.obj, "d:f", f4(1.0)) == ("boxed", d(7.0))


def test_calls_with_the_gil_and_without_take_different_entries(c, functions, bad):
    plus_one, fails = functions.address("d_d"), functions.address("holds")
    fives, wide = functions.address("five_d"), functions.address("d_q")

    three = d(3.0)

    def both(rows, signature="d:d", value=three):
        """What calls with the GIL and without give, by both sorts of provider."""
        results = set()
        for obj in (
            bad.raw(rows, [], len(rows)),
            (provider := Provider([(s.encode(), *row) for s, *row in rows])).obj,
        ):
            prepared = c.prepare(obj, signature)
            results.add((c.call(prepared, (value,)), c.call(prepared, (value,), True)))
            ways = c.way(prepared), c.nogil_way(prepared)
            assert (c.call(prepared, (value,), True) == REFUSED) is (ways[1] == "boxed")
        del provider
        assert len(results) == 1
        return *results.pop(), *ways

    need, free = ("d:d", NEEDS_GIL, plus_one), ("d:d", 0, fives)
    assert both([need, free]) == (d(4.0), d(5.0), "exact", "exact")
    assert both([free, need]) == (d(5.0), d(5.0), "exact", "exact")
    # Exact with the GIL, promoted without; the nearest of each counts.
    rows = [("d:q", NEEDS_GIL, wide), ("d:d", 0, fives), ("d:i", NEEDS_GIL, fives)]
    assert both(rows[:2], "d:q", q(3)) == (d(3.0), REFUSED, "exact", "boxed")
    assert both(rows[:2], "d:i", i(3)) == (d(3.0), d(5.0), "promoted", "promoted")
    assert both([*rows[:2], rows[2]], "d:i", i(3)) == (d(5.0), d(5.0), "exact", "promoted")
    # What sets exceptions is for calls with the GIL.
    assert both([("d:d", 0x10, plus_one), free]) == (d(4.0), d(5.0), "exact", "exact")
    assert both([("d:d", 0x10, plus_one)]) == (d(4.0), REFUSED, "exact", "boxed")
    assert both([("d:d", NONZERO, fails), free]) == (d(5.0), d(5.0), "exact", "exact")


ABI = (Path(__file__).resolve().parents[3] / "docs" / "dispatch.md").read_text(encoding="utf-8")
FLAGS = {
    "none": (0,),
    "another error convention": (0x20, 0x30, 0x40, 0x50, 0x60),
    "`NC_FLAG_NEEDS_GIL`": (NEEDS_GIL,),
    "`NC_FLAG_TAKES_GIL`": (0x2,),
    "`NC_FLAG_RELEASE_GIL`": (0x4,),
    "`NC_FLAG_NEEDS_GIL` and `NC_FLAG_RELEASE_GIL`": (NEEDS_GIL | 0x4,),
    "`NC_FLAG_ERRNO`": (0x8,),
    "`NC_ERRORS_PYTHON`": (0x10 | NEEDS_GIL, 0x10 | 0x2),
}
BOXED = -1.0  # what Python gives for objects of `bad.raw`
WITH_GIL = {
    "called": {3.0},
    "called with the GIL dropped, or boxed": {-3.0, BOXED},
    "called, or boxed": {3.0, BOXED},
    "called, and the exception passed on, or boxed": {3.0, BOXED},
    "boxed": {BOXED},
}


def test_flags_decide_as_the_document_says(c, functions, bad):
    """The table of decisions, by both headers: `holds` tells whether the GIL was held."""
    heading = "| flags of the entry | with the GIL | without |\n|---|---|---|\n"
    table = ABI.split(heading)[1].split("\n\n")[0].splitlines()
    rows = {cells[0]: cells[1:] for cells in (line.strip("| ").split(" | ") for line in table)}
    assert rows.keys() == FLAGS.keys()
    holds = functions.address("holds")
    for name, (held, free) in rows.items():
        for flags in FLAGS[name]:
            words = [packed.pack("d:d")[0] | flags << 56, holds]
            obj = bad.raw([("d:d", flags, holds)], words, 1)
            prepared = c.prepare(obj, "d:d")
            for nogil, allowed in (
                (False, WITH_GIL[held]),
                (True, {"called": {-3.0}, "refused": {REFUSED}}[free]),
            ):
                assert c.dispatch("one", nogil, obj, 3.0) in allowed, (name, nogil)
                result = c.call(prepared, (d(3.0),), nogil)
                if result != REFUSED:
                    (result,) = struct.unpack("d", result)
                assert result in allowed, (name, nogil)


def test_dispatch_finds_entries_of_a_call_table_alone(provider, c, functions):
    """A packed table is not required of a provider, and none of these types has one."""
    obj = provider.Base()
    packed = functions.function("d_d", "d:d")
    few = events(lambda: c.dispatch("one", False, packed, 3.0))
    for nogil in (False, True):
        assert c.dispatch("one", nogil, obj, 3.0) == 1.5
        assert events(lambda: c.dispatch("one", nogil, obj, 3.0)) == few
        assert c.call(c.prepare(obj, "d:d"), (d(3.0),), nogil) == d(1.5)
    obj.add("d:dd", NEEDS_GIL, functions.address("d_dd"))
    assert c.dispatch("wider", False, obj, 0.5, 3) == 53.0
    assert c.dispatch("wider", True, obj, 0.5, 3) == REFUSED
    obj.add("d:dd", 0, functions.address("d_dd"))
    assert c.dispatch("wider", True, obj, 0.5, 3) == 53.0


@pytest.mark.parametrize("value", [1e300, -1e300, 3.4028236e38])
def test_floats_that_do_not_fit_are_no_infinities(c, value, fails):
    with fails(OverflowError, f"the result {value!r} does not fit in 'float'"):
        c.dispatch("single", False, lambda x: value, 1.0)
    for code in ("f", "e"):
        with fails(OverflowError, f"the result {value!r} does not fit in '{code}'"):
            c.call(c.prepare(lambda: value, f"{code}:"), ())
    for result in (complex(value, 1), complex(1, value)):
        with fails(OverflowError, f"the result {result!r} does not fit in 'Zf'"):
            c.call(c.prepare(lambda: result, "Zf:"), ())
        if hasattr(c, "complex_single"):
            with fails(OverflowError, f"the result {result!r} does not fit in 'float _Complex'"):
                c.complex_single(lambda: result)
        assert ask(c, lambda: result, "Zd:")[1] == d(result.real) + d(result.imag)
    assert ask(c, lambda: value, "d:")[1] == d(value)


def test_what_fits_a_float(c):
    assert hasattr(c, "complex_single") is (c.__name__ == "dispatch_c")
    for value in (math.inf, -math.inf, 0.1, 3.4028234663852886e38, -3.4028235e38, 1e-300, -0.0):
        narrow = struct.unpack("f", f4(value))[0]
        for got in (
            c.dispatch("single", False, lambda x: value, 1.0),
            struct.unpack("f", ask(c, lambda: value, "f:")[1])[0],
        ):
            assert (got, math.copysign(1, got)) == (narrow, math.copysign(1, value))
        pair = ask(c, lambda: complex(value, 1), "Zf:")[1]
        assert pair == f4(value) + f4(1)
        if hasattr(c, "complex_single"):
            assert c.complex_single(lambda: complex(1, value)) == complex(1, narrow)
    assert math.isnan(c.dispatch("single", False, lambda x: math.nan, 1.0))


def test_long_signatures_are_shortened_in_messages(c, fails):
    start = "d:" + 198 * "d"
    with fails(ValueError, f"'{start}...' has more than 32 arguments"):
        c.prepare(abs, "d:" + 400 * "d")
    with fails(ValueError, f"'{start}' has more than 32 arguments"):
        c.prepare(abs, start)
    for text in ("d:" + 5000 * "d", "d:" + 400 * "d" + "!"):
        with pytest.raises(ValueError, match=r"^'d:d{198}\.\.\.' is not a signature: [a-z ]+$"):
            c.prepare(abs, text)
    pointer = "d:" + 20 * "X{d:dddddddd}"
    with fails(
        TypeError,
        f"no function for '{pointer[:200]}...' in 3, which is not callable from Python either",
    ):
        c.prepare(3, pointer)
