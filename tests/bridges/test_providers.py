"""Objects of other providers as functions: with the metaclass, their built-in views, and tier 2.

The provider is tests/foreign/provider.c, which shares no header with the product. Its entries are
f(x) = 10 x + 1 (`d:d`), 10 x + 2 (`i:i`), (x, x) (`O:O`) and 10 x + y (`d:dd`)."""

import ctypes
import gc
import mmap
import operator
import struct
import sys

import pytest

import nativecall as nc
from nativecall._cli import main
from support import build
from support.capsules import capsule

NAMES = ("callable", "view", "tier2", "tier2.view")
SIGNATURES = ("d:d", "i:i", "O:O", "d:dd")
HIGHER = """
double twice(double (*f)(double), double x) { return f(f(x)); }
int ints(int (*f)(int), int x) { return f(x); }
"""


@pytest.fixture(scope="module")
def provider(foreign):
    folder = foreign("provider", "foreign_provider")
    return build.load_extension(next(folder.glob("foreign_provider.*.so")))


@pytest.fixture(scope="module")
def hostile():
    from nativecall.conformance import _hostile

    return _hostile


@pytest.fixture(scope="module")
def higher(builder):
    declared = "double twice(double (*f)(double), double x); int ints(int (*f)(int), int x);"
    return nc.load(builder.library(HIGHER, "higher"), declared)


@pytest.fixture(params=NAMES)
def obj(request, provider):
    return named(provider, request.param)


def named(provider, name):
    return operator.attrgetter(name)(provider)


# -- wrap ------------------------------------------------------------------------------------------


def test_wrap_has_all_entries(obj):
    f = nc.wrap(obj)
    assert f.signatures == SIGNATURES
    assert f["d:d"](2.0) == 21.0
    assert f["i:i"](2) == 22
    assert f["O:O"]("x") == ("x", "x")
    assert f(2.0, 3.0) == 23.0
    assert [(entry.flags, entry.errors, entry.gil) for entry in f.entries] == [
        (0, "none", "hold"),
        (0, "none", "hold"),
        (0x11, "python", "need"),
        (0, "none", "hold"),
    ]


def test_what_needs_the_gil_keeps_it(builder, include):
    """Even where its provider asks for the GIL to be dropped."""
    own = build.load_extension(builder.extension("provider.c", "nc_provider", include=include))
    offers = own.Both()
    held = ctypes.cast(ctypes.pythonapi.PyGILState_Check, ctypes.c_void_p).value
    offers.add("i:", 5, held)  # needs the GIL, and releases it
    offers.add("i:i", 4, held)
    f = nc.wrap(offers)
    assert [(entry.flags, entry.gil) for entry in f.entries] == [(1, "need"), (4, "release")]
    assert f["i:"]() == f["i:"].builtin() == 1
    assert f["i:i"](0) == 0


def test_the_wrapped_callable_keeps_the_object(provider):
    kind = type(provider.callable)
    for made in (kind(), kind().view):
        f = nc.wrap(made)
        before = sys.getrefcount(made)
        g = nc.wrap(made)
        assert sys.getrefcount(made) > before
        del g
        gc.collect()
        assert sys.getrefcount(made) == before
        del made
        assert f["d:d"](1.0) == 11.0


def test_options_go_before_what_the_entry_says(obj):
    assert nc.wrap(obj, "i:i", errors="zero").entries[0].errors == "zero"
    assert nc.wrap(obj, "d:d", gil="release").entries[0].gil == "release"
    with pytest.raises(ValueError, match="the target needs the GIL"):
        nc.wrap(obj, "O:O", gil="release")


def test_a_signature_that_is_not_there(obj, fails):
    kind = type(obj).__name__
    message = f"a {kind} has no entry for 'f:f'; it offers 'd:d', 'i:i', 'O:O', 'd:dd'"
    with fails(nc.SignatureError, message):
        nc.wrap(obj, "f:f")
    with pytest.raises(nc.NoEntryError, match="'f:f'"):
        nc.wrap(obj)["f:f"]


def test_a_subclass_inherits_and_one_with_a_call_does_not(provider):
    for base in (type(provider.callable), type(provider.tier2)):
        inherits = type(base)("Inherits", (base,), {})
        assert nc.wrap(inherits())["d:d"](1.0) == 11.0
        overrides = type(base)("Overrides", (base,), {"__call__": lambda self, x: 0.0})
        with pytest.raises(
            TypeError, match=r"^'target' must be .* \(got Overrides; nativecall\.callback"
        ):
            nc.wrap(overrides())


# -- providers that are not as they should be, or newer than we are --------------------------------


def test_entries_that_cannot_be_called_are_left_out(hostile):
    entries = [
        ("d:d", 0x70, hostile.FUNCTIONS[0]),  # a convention of a later version
        ("f:f", 0x20, hostile.FUNCTIONS[1]),  # one that a float cannot show
        ("i:i", 1 << 24, hostile.FUNCTIONS[2]),  # an entry of a later ABI
        ("d: d", 0, hostile.FUNCTIONS[3]),  # not canonical
        ("i:ii", 0xFF00, hostile.FUNCTIONS[4]),  # flags that may be ignored
        ("i:ii", 0, hostile.FUNCTIONS[5]),  # the same again
    ]
    kinds = hostile.Types()
    for obj in (
        hostile.provider(kinds.unpacked, entries, []),
        hostile.tier2(kinds.plain, hostile.api_capsule(), entries),
    ):
        f = nc.wrap(obj)
        assert f.signatures == ("i:ii",)
        assert f.entries[0].flags == 0
        assert f.address() == hostile.FUNCTIONS[4]
        with pytest.raises(nc.SignatureError, match="flags 0x70 have an unknown error convention"):
            nc.wrap(obj, "d:d")
        with pytest.raises(nc.SignatureError, match="errors='nonzero' needs an integer"):
            nc.wrap(obj, "f:f")


def test_entries_that_come_later_are_found(hostile):
    obj = hostile.provider(hostile.Types().unpacked, [])
    f = nc.wrap(obj)
    assert f.signatures == ()
    hostile.set_word(
        obj, hostile.CALLS, hostile._abi.call_table([("d:d", 0, hostile.FUNCTIONS[3])])
    )
    assert f["d:d"](1.0) == 4.0
    assert f.signatures == ("d:d",)
    assert f(2.0) == 5.0


def test_a_wrong_interface_is_told(hostile, higher):
    obj = hostile.tier2(hostile.Types().plain, 5, [])
    message = "'__nativecall_api__' of Tier2 must be a capsule named 'nativecall_api_v1' or None"
    for call in (nc.wrap, lambda obj: higher.twice(obj, 1.0)):
        with pytest.raises(TypeError) as info:
            call(obj)
        assert message in str(info.value)


# -- arguments -------------------------------------------------------------------------------------


def test_as_a_function_pointer_argument_no_call_goes_through_python(obj, higher):
    assert higher.twice(obj, 1.0) == 111.0
    assert higher.ints(obj, 3) == 32


def test_the_only_entry_is_an_argument_where_any_function_is(hostile, builder):
    source = "void *same(void *f) { return f; }"
    same = nc.load(builder.library(source, "same"), "void *same(void *f);").same
    obj = hostile.provider(hostile.Types().unpacked, [("d:d", 4, hostile.FUNCTIONS[3])])
    assert same(obj) == nc._lib.ffi.cast("void *", hostile.FUNCTIONS[3])
    entries = [("d:d", 4, hostile.FUNCTIONS[3]), ("i:i", 4, hostile.FUNCTIONS[4])]
    obj = hostile.provider(hostile.Types().unpacked, entries)
    with pytest.raises(TypeError, match=r"must be one C function \(.* offers 'd:d', 'i:i'\)"):
        same(obj)


def test_an_argument_of_another_signature_is_converted_or_refused(obj, builder):
    source = """
        float f(float (*f)(float)) { return f(1); }
        double g(double (*f)(double, double, double)) { return f(1, 2, 3); }
    """
    library = builder.library(source, "floats")
    lib = nc.load(
        library, "float f(float (*f)(float)); double g(double (*)(double, double, double));"
    )
    assert lib.f(obj) == 11.0
    with pytest.raises(
        TypeError, match=r"must be a function 'double \(\*\)\(d.* offers 'double \(double\)'"
    ):
        lib.g(obj)


def test_a_callback_gets_and_gives_what_leads_to_it(obj):
    """A callback's function-pointer argument and result."""
    give = nc.callback("X{d:d}:d")(lambda x: obj)
    assert nc.wrap(int(nc.wrap(give.address(), "N:d")(0.0)), "d:d")(1.0) == 11.0


# -- inspect ---------------------------------------------------------------------------------------


def shown(place, capsys):
    status = main(["inspect", place])
    return status, [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_inspect(provider, capsys, monkeypatch, name):
    monkeypatch.setattr(sys, "path", sys.path[:])  # the command adds to it
    status, lines = shown(f"foreign_provider:{name}", capsys)
    assert status == 0
    table = f"call table {object.__basicsize__} bytes in"
    where = "by '__nativecall_api__'" if "tier2" in name else table
    assert f"a native callable of another provider {where}" in lines
    for signature, entry in zip(SIGNATURES, nc.wrap(named(provider, name)).entries, strict=True):
        assert f"{signature} {entry.flags:#x} {entry.address:#x}" in lines
    assert "nativecall.wrap turns it into:" in lines
    assert ("slots of the type foreign_provider.Callable:" in lines) == (name == "callable")


# -- on another's runtime --------------------------------------------------------------------------


def test_all_of_it_on_a_foreign_runtime(foreign, python, callees):
    folder = foreign("runtime", "foreign_runtime")
    foreign("provider", "foreign_provider")
    told = python(
        f"""
import sys
sys.path.insert(0, {str(folder)!r})
import foreign_runtime, foreign_provider, operator
import nativecall as nc
assert nc.extensibletype.__module__ == "foreign_runtime"
for name in {NAMES!r}:
    obj = operator.attrgetter(name)(foreign_provider)
    f = nc.wrap(obj)
    same = nc.wrap(f.builtin) is f
    print(f.signatures == {SIGNATURES!r}, f["d:d"](1.0), f.builtin(2.0, 3.0), same)
class Sub(nc.NativeCallable):
    pass
class Over(nc.NativeCallable):
    def __call__(self, x):
        return 5.0
print(Sub(f["d:d"])(1.0), Sub(f["d:d"]).signatures, Over(f["d:d"])(1.0), Over(f["d:d"]).signatures)
"""
    )
    line = "True 11.0 23.0 True\n"
    assert told == line * len(NAMES) + "11.0 ('d:d',) 5.0 ()\n"


def test_an_exception_beside_an_entry_says_nothing(hostile):
    cos = nc.load("m", "double cos(double);").cos
    entries = [("d:d", 0, cos.address("d:d"))]
    for tells in ("entry", None):
        capsule = hostile.api_capsule(find="find_and_raise", entry=tells)
        obj = hostile.tier2(hostile.Types().plain, capsule, entries)
        assert nc.wrap(obj, "d:d")(0.0) == 1.0


def test_a_request_to_drop_the_gil_yields_to_python_errors(hostile):
    cos = nc.load("m", "double cos(double);").cos
    types = hostile.Types()
    entries = [("d:d", 0, cos.address("d:d")), ("i:", 0x16, hostile.FUNCTIONS[1])]
    for obj in (
        hostile.provider(types.both, entries),
        hostile.tier2(types.plain, hostile.api_capsule(), entries),
    ):
        f = nc.wrap(obj)
        assert f["d:d"](0.0) == 1.0
        assert [(entry.signature, entry.flags) for entry in f.entries] == [
            ("d:d", 0),
            ("i:", 0x12),
        ]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mprotect"), reason="needs mprotect")
def test_an_interface_of_a_word_is_not_read_behind_it(hostile):
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    word = struct.pack("N", 8)
    memory[page - 8 : page] = word
    libc = ctypes.CDLL(None)
    protect = libc.mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(start + page, page, 0) == 0
    try:
        api = capsule(b"nativecall_api_v1", start + page - 8)
        obj = hostile.tier2(hostile.Types().plain, api, [])
        with pytest.raises(TypeError, match="must have size 40 or more"):
            nc.wrap(obj)
    finally:
        assert protect(start + page, page, 3) == 0
