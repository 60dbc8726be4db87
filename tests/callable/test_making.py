"""Making callables and looking up their entries: what is kept, what is checked, what it weighs."""

import gc
import inspect
import os
import sys

import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._cdecl import spelling
from nativecall._cdecl.spelling import parse
from support.modes import DEBUG, generated
from support.threads import HAS_GIL

libm = nc.load("m")
hypot, pow_ = libm.address("hypot"), libm.address("pow")
NAME = _lib.address_origin(hypot)[1]  # glibc has other names for it
MOST_TEXTS = 2048  # callinterface.c


class Text(str):
    """What equals every text, and nothing it should."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other):
        return True


# -- lookups -------------------------------------------------------------------------------------


def test_every_spelling_finds_the_one_entry():
    f = nc.wrap({"d:d": libm.address("cos"), "d:dd": hypot})
    written = ("d:dd", " d : dd ", "double (double x, double)", "dd->d", "dd)d", parse("d:dd"))
    for _ in range(3):
        for one in written:
            assert f[one] is f["d:dd"]
            assert one in f
            assert f.address(one) == f.address(signature=one) == hypot
    assert f[Text("d:dd")] is f["d:dd"]
    assert f["d:d"] is not f["d:dd"]


@pytest.mark.parametrize("count", [1, 2, 8, 9, 60])
def test_as_many_entries_as_one_likes(count):
    """Entries are found by a dict where there are many, which grows with them."""
    texts = ["d:" + "d" * n for n in range(1, count + 1)]
    f = nc.wrap({text: hypot + n for n, text in enumerate(texts)}, name="f")
    assert f.signatures == tuple(texts)
    assert f.signatures is f.signatures
    assert [f.address(text) - hypot for text in texts] == list(range(count))
    assert "f:f" not in f
    f.add("f:f", pow_)
    assert f.signatures == (*texts, "f:f")
    assert f["f:f"].address() == f.address("f:f") == pow_
    for text in texts:
        assert f[text].signatures == (text,)
    f.add("f:f", hypot, replace=True)
    assert f.address("f:f") == f["f:f"].address() == hypot


def test_an_entry_that_was_restricted_is_replaced():
    f = nc.wrap(hypot, "d:dd")
    only = f["d:dd"]
    assert only is f["d:dd"]
    assert only is not f
    f.add("d:dd", pow_, replace=True)
    assert only(3, 4) == f(3, 4) == f["d:dd"](3, 4) == 81.0


def test_what_is_refused():
    f = nc.wrap({"d:d": hypot, "f:f": pow_}, name="f")
    for look in (f.__getitem__, f.address):
        with pytest.raises(nc.NoEntryError, match="'q:q'; 'f' offers 'd:d', 'f:f'"):
            look("q:q")
        with pytest.raises(nc.SignatureError, match="unknown type 'w'"):
            look("d:w")
        for wrong in (b"d:d", 5):
            with pytest.raises(TypeError, match="a signature must be str"):
                look(wrong)
    for wrong in ("q:q", "d:w", "", "\ud800", b"d:d", 5, None, []):
        assert wrong not in f
    with pytest.raises(TypeError, match="takes at most 1 argument"):
        f.address("d:d", "d:d")
    with pytest.raises(TypeError, match="no argument named 'text'"):
        f.address(text="d:d")
    empty = nc.NativeCallable.__new__(nc.NativeCallable)
    assert empty.signatures == ()
    assert "d:d" not in empty
    for look in (empty.address, lambda: empty.address("d:d"), lambda: empty["d:d"]):
        with pytest.raises(nc.NoEntryError, match="no entries"):
            look()


def test_a_class_with_a_call_of_its_own_offers_nothing():
    own = type("Own", (nc.NativeCallable,), {"__call__": lambda self: 5})
    f = own(hypot, "d:dd")
    assert f.signatures == ()
    assert "d:dd" not in f
    with pytest.raises(nc.NoEntryError):
        f["d:dd"]
    with pytest.raises(nc.NoEntryError):
        f.address()


def test_texts_are_kept_up_to_a_bound(monkeypatch):
    """Then all are dropped, and read again when they come again."""
    read = []
    monkeypatch.setattr(spelling, "parse", lambda source: read.append(source) or parse(source))
    f = nc.wrap(hypot, "d:dd")

    def look(number):
        before = len(read)
        assert f.address(" " * (number // 50) + "d:" + " " * (number % 50 + 1) + "dd") == hypot
        return len(read) - before

    for number in range(MOST_TEXTS):
        look(number)  # drops what other tests left
    dropped = [number for number in range(MOST_TEXTS) if look(number)]
    assert not dropped or dropped == list(range(len(dropped)))
    assert [look(number) for number in range(MOST_TEXTS - 100, MOST_TEXTS)] == [0] * 100
    del read[:]
    for _ in range(3):
        assert f.address(Text("d: dd")) == hypot
        f.address(parse("d:dd"))
    assert len(read) == 6  # no text of its own, so nothing is kept


# -- making --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"name": "f"}], ids=["unnamed", "named"])
def test_addresses_are_checked(options):
    class Number(int):
        pass

    assert nc.wrap(Number(hypot), "d:dd", **options)(3, 4) == 5.0
    assert nc.wrap(hypot, Text("d:dd"), **options)(3, 4) == 5.0
    for wrong in (0, -1, -(2**63), 2**64, 2**200):
        with pytest.raises(ValueError, match="'target' must be the address of a C function"):
            nc.wrap(wrong, "d:d", **options)
    with pytest.raises(nc.SignatureError, match="unknown type 'w'"):
        nc.wrap(hypot, "d:w", **options)
    with pytest.raises(nc.SignatureError, match="unknown type 'w'"):
        nc.wrap(0, "d:w", **options)


def test_names_are_checked():
    with pytest.raises(ValueError, match="'name' must not be empty"):
        nc.wrap(hypot, "d:dd", name="")
    named = type("Named", (str,), {})("a")
    assert nc.wrap(hypot, "d:dd", name=named).__name__ is named


def test_the_name_is_the_symbols_when_it_is_asked_for():
    f = nc.wrap(hypot, "d:dd")
    only = f["d:dd"]
    assert only.__name__ == f.__name__ == f.__qualname__ == f["d:dd"].__name__ == NAME
    with pytest.raises(TypeError, match=f"argument 2 of '{NAME}' must be a real number"):
        nc.wrap(hypot, "d:dd")(1.0, "x")
    with pytest.raises(TypeError, match=f"'{NAME}' takes exactly 2 arguments"):
        nc.wrap(hypot, "d:dd")()
    assert nc.wrap(hypot + 1, "d:dd").__name__ == "function"


def test_the_first_functions_name_stays():
    f = nc.wrap(hypot, "d:dd")
    f.add("d:dd", pow_, replace=True)
    assert (f.__name__, f["d:dd"].__name__) == (NAME, NAME)
    g = nc.wrap(hypot, "d:dd")
    g.add("f:f", pow_)
    assert (g.__name__, g["f:f"].__name__) == (NAME, NAME)
    h = nc.wrap(hypot, "d:dd")
    assert h.bind(3.0).__name__.startswith(NAME)


def test_a_view_takes_what_entries_take_that_are_added_later():
    for signature, arguments in (("d:", ()), ("d:d", (0.0,)), ("d:dd", (3.0, 4.0))):
        f = nc.wrap(hypot, signature)
        view = f.builtin
        for _ in range(50):  # the interpreter knows the call by now
            f.add("d:ddddd", hypot) if "d:ddddd" not in f and _ == 40 else view(*arguments)
        assert f.builtin is view
        assert view(3.0, 4.0, 0.0, 0.0, 0.0) == 5.0
        with pytest.raises(TypeError, match=f"no entry of '{NAME}' takes"):
            view("x")
        assert nc.wrap(view) is f


def test_a_view_before_and_after_readers_of_the_table():
    f = nc.wrap(hypot, "d:dd", doc="text")
    before = nc.customslots(f)
    assert f.builtin.__doc__ == "text"
    assert (f.signatures, f.address(), nc.customslots(f)) == (("d:dd",), hypot, before)
    f.add("d:dd", pow_, replace=True)
    assert (f.address(), f(2, 3), f.builtin(2, 3)) == (pow_, 8.0, 8.0)


def test_long_signatures_have_their_words_apart():
    texts = ["d:" + "dfqihZd" * 8, "d:" + "P" * 40]
    f = nc.wrap(hypot, texts[0])
    assert f.signatures == (texts[0],)
    f.add(texts[0], pow_, replace=True)
    f.add(texts[1], hypot)
    assert [f.address(text) for text in texts] == [pow_, hypot]


# -- memory --------------------------------------------------------------------------------------

PAGE = 4096
# So many in each round in place of 3,000 or less: 100,000 makes 10^6 of each.
GIVEN = os.environ.get("NATIVECALL_TEST_MAKE")
WEIGHT = """
import gc, sys
gc.freeze()
import nativecall as nc
address, count = nc.load("m").address("hypot"), int(sys.argv[1])
make = {make}
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
power = nc.load("m", "double pow(double x, double y);").pow
kept = [0] * (2 * count)
for i in range(count):
    kept[i] = make(i)
before = resident()
for i in range(count, 2 * count):
    kept[i] = make(i)
print((resident() - before) / count)
"""


@pytest.mark.allocator
@pytest.mark.skipif(DEBUG, reason="objects of a debug build of Python are larger")
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is told by /proc")
@pytest.mark.parametrize(
    ("make", "most"),
    [
        ("lambda i: nc.wrap(address, 'd:dd')", 200),
        ("lambda i: nc.wrap(address, 'd:dd', name='hypot')", 200),
        ("lambda i: nc.wrap(address, 'd:dd', owner=gc)", 200),
        pytest.param("lambda i: power.bind(2.0)", 320, marks=generated),
        pytest.param("lambda i: power.bind(i / 2)", 320, marks=generated),
        pytest.param("lambda i: power.convert('f:ff')", 320, marks=generated),
        pytest.param("lambda i: nc.callback('d:d', resident)", 320, marks=generated),
    ],
    ids=["unnamed", "named", "owned", "bound", "bound anew", "converted", "callback"],
)
def test_what_a_callable_weighs(make, most, forked):
    count = int(GIVEN or 10_000)
    if not HAS_GIL:  # its allocator gets memory by 64 KiB; callbacks count their calls
        most += 65_536 / count + 40
    assert float(forked(WEIGHT.format(make=make), count)) <= most


LEVEL = """
import gc, sys
gc.freeze()
import nativecall as nc
address, count = nc.load("m").address("hypot"), int(sys.argv[1])
f = nc.wrap({{"d:d": address, "d:dd": address}})
single = nc.wrap(address, "d:dd")
power = nc.load("m", "double pow(double x, double y);").pow
libm, search = nc.load("m"), nc.load("c").function("bsearch", "P:PPNNX{{i:PP}}")
def make():
    {make}
whole = nc.load("c", "int abs(int n);").abs.convert("d:d")
def refused(f, value):
    try:
        f(value)
    except ValueError:
        return
    raise AssertionError
def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
levels = []
for _ in range(10):
    for _ in range(count):
        make()
    levels.append(resident())
print(levels[-1] - levels[2])
"""


#: Each maker, and how much less often it runs, because it takes long.
MAKERS = {
    "wrap": ("nc.wrap(address, 'd:dd'); nc.wrap(address, 'd:dd', name='h')", 1),
    "look up": ("f['d:dd']; f.address('d:d'); 'd:d' in f; f.signatures; single['d:dd']", 1),
    "restrict": ("g = nc.wrap(address, 'd:dd'); g['d:dd']; g.__name__", 1),
    "add": ("nc.wrap(address, 'd:dd').add('d:d', address)", 5),
    "function": (
        "libm.function('pow', 'd:dd'); libm.function('pow', 'double (double, double)')",
        1,
    ),
    "callback": ("nc.callback('d:d', lambda x: x)(0.5)", 1),
    "function passed": ("search(None, None, 0, 8, lambda a, b: 0)", 1),
    "bind": ("power.bind(2.0)(3.0)", 1),
    "convert": ("power.convert('f:ff')(2.0, 3.0)", 1),
    "conversion that fails": ("refused(whole, 0.5)", 2),
    "box for ctypes": ("nc.wrap(address, 'd:dd').to_ctypes(); single.to_ctypes()", 3),
    "box for cffi": ("nc.wrap(address, 'd:dd').to_cffi(); single.to_cffi()", 3),
    "box for SciPy": ("nc.wrap(address, 'd:dP').to_scipy()", 3),
    "capsule": ("nc.wrap(address, 'd:dd').to_capsule(); single.to_capsule()", 3),
    "load": ("nc.load('m', 'double cos(double x); float cosf(float x);').cos(0.5)", 50),
}


@pytest.mark.allocator
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is told by /proc")
@pytest.mark.parametrize(
    "maker",
    [
        pytest.param(one, marks=generated if one.startswith(("bind", "conver")) else ())
        for one in MAKERS
    ],
)
def test_making_is_level(maker, forked):
    """Ten rounds of so many leave the resident size where it was."""
    make, seldom = MAKERS[maker]
    assert int(forked(LEVEL.format(make=make), GIVEN or 3_000 // seldom)) < 64 * PAGE


def test_cycles_through_owners_are_collected():
    class Owner:
        pass

    def alive():
        gc.collect()
        return sum(type(one) is Owner for one in gc.get_objects())

    for count in (1, 2):
        owner = Owner()
        owner.made = nc.wrap(hypot, "d:dd", owner=owner)
        if count == 2:
            owner.made.add("d:d", hypot, owner=[owner])
            owner.view, owner.part = owner.made.builtin, owner.made["d:dd"]
        assert alive() == 1
        del owner
        assert alive() == 0


def test_calls_that_are_not_the_usual_ones():
    """Options, other classes than the usual ones, and what is wrong."""
    assert nc.wrap(hypot, signature="d:dd")(3, 4) == 5.0
    assert nc.wrap(hypot, "d:dd", name=None)(3, 4) == 5.0
    assert nc.wrap(hypot, "d:dd", name="h", doc="d").__doc__ == "d"
    assert nc.wrap(hypot, "d:dd", **{"".join(["na", "me"]): "h"}).__name__ == "h"
    assert nc.callback("d:d", function=abs)(-2.0) == 2.0
    assert nc.callback("d:d", abs, name="other").__name__ == "other"
    assert {"gil", "errors", "types"} < set(inspect.signature(nc.callback).parameters)
    with pytest.raises(TypeError, match="there is no option 'nam'; did you mean 'name'"):
        nc.wrap(hypot, "d:dd", nam="h")
    with pytest.raises(TypeError, match="there is no option 'nam'; did you mean 'name'"):
        nc.callback("d:d", abs, nam="h")
    with pytest.raises(TypeError, match=r"wrap\(\) takes from 1 to 2 positional arguments"):
        nc.wrap(hypot, "d:dd", "h")
