"""`nativecall.wrap` and the native callable: what it takes, refuses and tells about itself."""

import array
import collections.abc
import copy
import ctypes
import gc
import inspect
import math
import pickle
import pydoc
import weakref

import pytest

import nativecall as nc
from support.threads import HAS_GIL, each

LIBM = nc.load("m")
COS = LIBM.address("cos")
COSF = LIBM.address("cosf")
SIN = LIBM.address("sin")
POW = LIBM.address("pow")
LLABS = nc.load(None).address("llabs")
TARGETS = (
    "'target' must be an address, a native callable, a function pointer or function of ctypes, "
    "cffi, Cython, Numba, f2py, pybind11 or llvmlite, a ufunc, a PyCapsule, a LowLevelCallable, "
    "an object with a registered reader or a mapping"
)
HIGHEST = hex(2 ** (8 * ctypes.sizeof(ctypes.c_void_p)) - 1)


POLICIES = "C", None, None, False, (), "call"  # those of an entry without options


class Owner:
    """Something that can be watched."""


# -- making --------------------------------------------------------------------------------------


def test_wraps_an_address():
    f = nc.wrap(COS, "d:d")
    assert f(0.5) == math.cos(0.5)
    assert f.signatures == ("d:d",)
    assert f.address() == f.address("double (double)") == COS
    assert f.entries == (nc.Entry("d:d", COS, 0, "none", "hold", None, "ahead of time", *POLICIES),)
    assert isinstance(f, nc.NativeCallable)


def test_doc_and_name_reach_the_object():
    f = nc.wrap(COS, "d:d", name="c", doc="The cosine.")
    assert (f.__doc__, f.__name__, f.__qualname__) == ("The cosine.", "c", "c")
    assert repr(f) == "<native callable c 'd:d'>"
    assert nc.wrap(COS, "d:d").__doc__ is None
    assert nc.NativeCallable.__doc__.startswith("A Python callable of one or several C functions")


def test_wrapping_a_native_callable_gives_it_back():
    f = nc.wrap(COS, "d:d")
    assert nc.wrap(f) is f
    assert nc.wrap(f.builtin) is f
    assert nc.wrap(f, "double (double)") is f["d:d"]


def test_wrapping_a_native_callable_with_options_makes_another_that_keeps_it():
    f = nc.wrap(COS, "d:d")
    g = nc.wrap(f, name="other")
    assert g is not f
    assert g(0.5) == math.cos(0.5)
    assert g.entries[0].owner is f


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (0, "got 0x0"),
        (-1, "got -0x1"),
        (2**64, "got 0x10000000000000000"),
        (-(2**200), f"got {-(2**200):#x}"),
    ],
)
def test_addresses_out_of_range_are_refused(fails, target, reason):
    message = f"'target' must be the address of a C function, from 1 to {HIGHEST} ({reason})"
    with fails(ValueError, message):
        nc.wrap(target, "d:d")


@pytest.mark.parametrize("target", [True, 1.5, None, "cos", b"cos", object()])
def test_what_holds_no_c_function_is_refused(fails, target):
    way = "; nativecall.load finds functions by their names" if target == "cos" else ""
    with fails(TypeError, f"{TARGETS} (got {type(target).__name__}{way})"):
        nc.wrap(target, "d:d")


@pytest.mark.parametrize("target", [print, math.cos, lambda x: x, Owner, [].append])
@pytest.mark.parametrize("signature", [None, "d:d"])
def test_what_python_calls_is_told_where_to_go(fails, target, signature):
    way = "nativecall.callback makes C functions from Python functions"
    with fails(TypeError, f"{TARGETS} (got {type(target).__name__}; {way})"):
        nc.wrap(target, signature)


def test_an_address_needs_a_signature(fails):
    with fails(TypeError, "'signature' must be given: an address does not have one"):
        nc.wrap(COS)


@pytest.mark.parametrize(
    ("signature", "exception", "message"),
    [
        ("d:w", nc.SignatureError, "unknown type 'w' at column 3 in 'd:w'"),
        (b"d:d", TypeError, "a signature must be str (got bytes; decode it first)"),
        (5, TypeError, "a signature must be str or Signature (got int)"),
    ],
)
def test_a_malformed_signature_says_where(fails, signature, exception, message):
    with fails(exception, message):
        nc.wrap(COS, signature)


def test_a_signature_that_contradicts_the_target_is_refused(fails):
    f = nc.wrap(COS, "d:d", name="cos")
    with fails(nc.NoEntryError, "no native entry for 'f:f'; 'cos' offers 'd:d'"):
        nc.wrap(f, "f:f")
    with fails(nc.NoEntryError, "no native entry for 'f:f'; 'cos' offers 'd:d'"):
        nc.wrap(f.builtin, "f:f", name="other")
    assert f(0.0) == 1.0


OPTIONS = [
    ({"name": 3}, TypeError, "'name' must be a str or None (got int)"),
    ({"doc": 3}, TypeError, "'doc' must be a str or None (got int)"),
    ({"name": "a\0b"}, ValueError, "'name' must not contain a null character"),
    ({"doc": "a\0b"}, ValueError, "'doc' must not contain a null character"),
    ({"gil": "drop"}, ValueError, "'gil' must be one of 'hold', 'release', 'need' (got 'drop')"),
    ({"gil": True}, ValueError, "'gil' must be one of 'hold', 'release', 'need' (got True)"),
    ({"erors": "zero"}, TypeError, "there is no option 'erors'; did you mean 'errors'?"),
    (
        {"errors": "raise"},
        ValueError,
        "'errors' must be one of 'none', 'python', 'nonzero', 'zero', 'null', 'errno', 'argument' "
        "(got 'raise'); 'check' accepts a Python function that tests for any other failure",
    ),
    ({"errno": 1}, TypeError, "'errno' must be True or False (got int)"),
    (
        {"errors": "python", "gil": "release"},
        ValueError,
        "a function with errors='python' sets exceptions, so gil='release' cannot be right; "
        "use gil='need'",
    ),
    (
        {"errors": "nonzero"},
        ValueError,
        "errors='nonzero' needs an integer as the result, but the signature is 'd:d'",
    ),
    (
        {"errors": "zero"},
        ValueError,
        "errors='zero' needs an integer as the result, but the signature is 'd:d'",
    ),
    (
        {"errors": "null"},
        ValueError,
        "errors='null' needs a pointer as the result, but the signature is 'd:d'",
    ),
]


@pytest.mark.parametrize(("options", "exception", "message"), OPTIONS)
def test_options_are_checked(fails, options, exception, message):
    with fails(exception, message):
        nc.wrap(COS, "d:d", **options)


@pytest.mark.parametrize(
    ("options", "exception", "message"),
    [row for row in OPTIONS if not row[0].keys() & {"name", "doc"}],
)
def test_a_refused_add_changes_nothing(fails, options, exception, message):
    f = nc.wrap(COSF, "f:f")
    with fails(exception, message):
        f.add("d:d", COS, **options)
    assert f.signatures == ("f:f",)
    assert f(0.0) == 1.0


def test_none_says_nothing():
    f = nc.wrap(COS, "d:d", gil=None, errors=None, errno=None, order=None)
    assert f.entries[0][2:5] == (0, "none", "hold")
    assert nc.wrap(f, gil=None) is f


@pytest.mark.parametrize("takes", [nc.wrap, nc.load, nc.NativeCallable, nc.Library.function])
def test_inspect_is_told_every_option(takes):
    parameters = inspect.signature(takes).parameters
    assert {"gil", "errors", "errno", "order", "encoding", "check", "out", "keep"} <= {*parameters}
    assert all([one.kind is not one.VAR_KEYWORD for one in parameters.values()])
    assert "encoding=None" in pydoc.render_doc(takes)


# -- entries -------------------------------------------------------------------------------------


def test_a_mapping_makes_overloads():
    f = nc.wrap({"d:d": COS, "float (float)": COSF}, name="cos")
    assert f.signatures == ("d:d", "f:f")
    assert [row.address for row in f.entries] == [COS, COSF]
    assert f.address("f:f") == COSF
    assert repr(f) == "<native callable cos 'd:d', 'f:f'>"


def test_mapping_errors(fails):
    with fails(ValueError, "'target' must map at least one signature to a target"):
        nc.wrap({})
    message = "'signature' must be None when 'target' maps signatures to targets"
    with fails(TypeError, message):
        nc.wrap({"d:d": COS}, "d:d")
    message = "'target' has 'long long (long long)' and 'q:q', the same signature here: 'q:q'"
    with fails(ValueError, message):
        nc.wrap({"long long (long long)": LLABS, "q:q": LLABS})
    with fails(TypeError, f"{TARGETS} (got dict)"):
        nc.wrap({"d:d": {"d:d": COS}})

    class Full(dict):
        def __len__(self):
            return 3

    with fails(ValueError, "'target' must map at least one signature to a target"):
        nc.wrap(Full())


def test_getitem_restricts_to_one_signature():
    f = nc.wrap({"d:d": COS, "f:f": COSF}, name="cos")
    g = f["float (float)"]
    assert g.signatures == ("f:f",)
    assert g.__name__ == "cos"
    assert g.address() == COSF
    assert g(0.5) == nc.wrap(COSF, "f:f")(0.5) != math.cos(0.5)
    assert f["f:f"] is g


def test_a_restricted_callable_stays_single():
    f = nc.wrap(COS, "d:d", name="cos")
    g = f["d:d"]
    assert f["d:d"] is g
    f.add("f:f", COSF)
    assert f["d:d"] is g
    assert (f.signatures, g.signatures) == (("d:d", "f:f"), ("d:d",))


def test_a_missing_signature_lists_what_there_is(fails):
    f = nc.wrap({"d:d": COS, "f:f": COSF}, name="g")
    message = "no native entry for 'q:q'; 'g' offers 'd:d', 'f:f'"
    for lookup in (f.__getitem__, f.address, f.to_ctypes, f.to_cffi, f.to_capsule):
        with fails(nc.NoEntryError, message) as info:
            lookup("q:q")
        assert isinstance(info.value, KeyError)
        assert info.value.signature == "q:q"
        assert info.value.available == ("d:d", "f:f")
    assert f(0.0) == 1.0


@pytest.mark.parametrize("key", [[], {}, set(), None, 5, bytearray(b"d:d")])
def test_keys_that_are_no_signatures(fails, key):
    f = nc.wrap({"d:d": COS, "f:f": COSF})
    hint = "; decode it first" if isinstance(key, bytearray) else ""
    wanted = "str" if hint else "str or Signature"
    message = f"a signature must be {wanted} (got {type(key).__name__}{hint})"
    with fails(TypeError, message):
        f[key]
    if key is not None:
        with fails(TypeError, message):
            nc.wrap(COS, key)
    assert key not in f
    assert f(0.0) == 1.0


def test_an_over_long_signature():
    f = nc.wrap(COS, "d:d")
    for use in (f.__getitem__, f.address, lambda key: f.add(key, COS)):
        with pytest.raises(nc.SignatureError, match=r"at most 4096 characters, found 5002 "):
            use("d:" + "d" * 5000)
    assert f(0.0) == 1.0


def test_an_unnamed_signature_of_several_is_refused(fails):
    f = nc.wrap({"d:d": COS, "f:f": COSF}, name="cos")
    message = "'cos' has entries 'd:d', 'f:f'; 'signature' must name one"
    for convert in (f.address, f.to_ctypes, f.to_cffi, f.to_capsule):
        with fails(TypeError, message):
            convert()


def test_a_callable_is_no_list_of_anything():
    f = nc.wrap({"d:d": COS, "f:f": COSF})
    with pytest.raises(TypeError, match="not iterable"):
        iter(f)
    assert not isinstance(f, (collections.abc.Iterable, collections.abc.Sized))
    assert not hasattr(f, "keys")


def test_add_appends():
    f = nc.wrap(COS, "d:d", name="g")
    view = f.builtin
    f.add("f:f", COSF)
    assert f.signatures == ("d:d", "f:f")
    assert f(0.0) == 1.0
    assert view(0.0) == 1.0
    f.add("d:dd", POW)
    assert f.signatures == ("d:d", "f:f", "d:dd")
    assert f(2.0, 3.0) == 8.0
    assert f["f:f"].address() == COSF


def test_add_refuses_a_duplicate(fails):
    f = nc.wrap(COS, "d:d", name="g")
    message = "'g' has an entry 'd:d' already; pass replace=True to replace its function"
    with fails(ValueError, message):
        f.add("double (double)", SIN)
    assert f(0.0) == 1.0
    assert f.address() == COS


@pytest.mark.parametrize("others", [{}, {"f:f": COSF}])
def test_add_replaces(others):
    f = nc.wrap({"d:d": COS, **others})
    view = f.builtin
    g = f["d:d"]
    f.add("d:d", SIN, replace=True)
    assert f.address("d:d") == SIN
    assert f(0.5) == view(0.5) == g(0.5) == math.sin(0.5)
    assert f.signatures == ("d:d", *others)


def test_add_replaces_a_function_without_trampoline(lib):
    f = nc.wrap(lib.address("same_i16"), "h:h")
    assert f(-5) == -5
    f.add("h:h", nc.load(None).address("abs"), replace=True)
    assert f(-5) == 5


def test_replace_keeps_the_flags(fails):
    f = nc.wrap(COS, "d:d", name="g", gil="need")
    message = (
        "entry 'd:d' of 'g' has other flags; gil, errors and errno must be the same to replace it"
    )
    with fails(ValueError, message):
        f.add("d:d", SIN, replace=True)
    f.add("d:d", SIN, replace=True, gil="need")
    assert f(0.5) == math.sin(0.5)


def test_entries_tell_their_options():
    f = nc.wrap(LLABS, "q:q", gil="release", errors="nonzero", errno=True, owner="me")
    (row,) = f.entries
    assert (row.signature, row.errors, row.gil, row.owner) == ("q:q", "nonzero", "release", "me")
    assert row.flags != 0


# -- life ----------------------------------------------------------------------------------------


def test_owners_live_as_long_as_the_callable():
    owners = [Owner(), Owner(), Owner()]
    alive = [weakref.ref(one) for one in owners]
    f = nc.wrap(COS, "d:d", owner=owners[0])
    f.add("f:f", COSF, owner=owners[1])
    f.add("d:d", SIN, replace=True, owner=owners[2])
    del owners
    gc.collect()
    assert all(one() is not None for one in alive), "a reader may still call the replaced function"
    del f
    gc.collect()
    assert [one() for one in alive] == [None] * 3


@pytest.mark.parametrize("overloaded", [False, True])
def test_functions_that_take_turns_are_kept_once(overloaded):
    """Replacing does not retain memory for what has been there before."""
    owners = [Owner(), None, Owner(), Owner()]
    alive = [weakref.ref(one) for one in owners if one is not None]
    f = nc.wrap(COS, "d:d", owner=owners[0])
    if overloaded:
        f.add("f:f", COSF)
    sizes = set()
    for i in range(40):
        owner = owners[i % 4]
        f.add("d:d", (SIN, COS)[i % 2], replace=True, owner=owner)
        assert f.entries[0].owner is owner
        if i >= 4:
            sizes.add(len(f._owners))
    assert len(sizes) == 1
    assert {id(one) for one in owners} <= {id(one) for one in f._owners}
    del owners, owner
    gc.collect()
    assert all(one() is not None for one in alive)
    del f
    gc.collect()
    assert [one() for one in alive] == [None] * 3


def test_a_refused_wrap_keeps_no_owner():
    owner = Owner()
    alive = weakref.ref(owner)
    with pytest.raises(nc.SignatureError):
        nc.wrap(COS, "d:w", owner=owner)
    with pytest.raises(ValueError, match=r"has an entry 'd:d' already"):
        nc.wrap(COS, "d:d").add("d:d", COS, owner=owner)
    del owner
    gc.collect()
    assert alive() is None


def test_weak_references_and_hash():
    f = nc.wrap(COS, "d:d")
    alive = weakref.ref(f)
    assert {f: 1}[f] == 1
    assert f != nc.wrap(COS, "d:d")
    del f
    if not HAS_GIL:  # the object is not counted there, so the collector frees it
        gc.collect()
    assert alive() is None


# -- calls ---------------------------------------------------------------------------------------


def test_wrong_counts(fails):
    f = nc.wrap(POW, "d:dd", name="pow")
    for given in ((), (1.0,), (1.0, 2.0, 3.0)):
        for callable in (f, f.builtin):
            with fails(TypeError, f"'pow' takes exactly 2 arguments ({len(given)} given)"):
                callable(*given)
    assert f(2.0, 3.0) == 8.0


def test_keywords(fails):
    f = nc.wrap(POW, "double pow(double base, double exponent)", name="pow")
    assert f(2.0, exponent=3.0) == f(**{"".join(["expo", "nent"]): 3.0}, base=2.0) == 8.0
    with fails(TypeError, "'pow' has no argument named 'x'; it takes ('base', 'exponent')"):
        f(2.0, x=3.0)
    with fails(TypeError, "'pow' got multiple values for argument 'base'"):
        f(2.0, base=3.0)
    with fails(TypeError, "'pow' is missing argument 1, 'base'"):
        f(exponent=2.0)
    g = nc.wrap(POW, "d:dd", name="pow")
    with fails(
        TypeError, "'pow' takes no keyword arguments (got 'x'): its signature has no argument names"
    ):
        g(1.0, x=2.0)
    assert g(2.0, 3.0) == 8.0


def test_an_empty_callable_says_so(fails):
    f = nc.NativeCallable.__new__(nc.NativeCallable)
    message = "'function' has no entries; add one first"
    with fails(TypeError, message):
        f(1.0)
    with fails(AttributeError, message.replace("has", "has no built-in view: it has", 1)):
        f.builtin
    with fails(nc.NoEntryError, "no native entry for 'd:d'; 'function' has no entries"):
        f["d:d"]
    assert f.signatures == f.entries == ()
    f.add("d:d", COS)
    assert f(0.0) == 1.0


def test_a_callable_is_initialised_once(fails):
    f = nc.wrap(COS, "d:d", name="cos")
    message = "<native callable cos 'd:d'> is initialised already; use add() for more entries"
    with fails(RuntimeError, message):
        f.__init__(SIN, "d:d")
    assert f(0.0) == 1.0


def test_an_entry_is_not_changed_by_itself(fails):
    m = nc.load("m")
    several = nc.wrap({"d:d": m.address("cos"), "f:f": m.address("cosf")}, name="cos")
    single = nc.wrap(m.address("cos"), "d:d", name="cos")
    for f in (several, single):
        before = f.signatures
        message = (
            "f['d:d'] is an entry of 'cos' and cannot be changed by itself; change f, or a "
            "separate callable made by wrap({'d:d': f['d:d']})"
        )
        with fails(TypeError, message):
            f["d:d"].add("d:d", m.address("sin"), replace=True)
        with fails(TypeError, message):
            f["d:d"].add("d:dd", m.address("pow"))
        with fails(TypeError, message):
            f["d:d"].specialize = lambda f, signature: None
        own = nc.wrap({"d:d": f["d:d"]})
        own.add("d:d", m.address("sin"), replace=True)
        assert (own(0.0), f(0.0), f["d:d"](0.0), f.signatures) == (0.0, 1.0, 1.0, before)
        f.add("d:d", m.address("sin"), replace=True)
        assert (f(0.0), f["d:d"](0.0)) == (0.0, 0.0)


def test_attributes_are_read_only():
    f = nc.wrap(COS, "d:d")
    for name in ("signatures", "entries", "builtin", "__name__", "new"):
        with pytest.raises(AttributeError):
            setattr(f, name, None)
    assert f(0.0) == 1.0


def test_inspect():
    f = nc.wrap(POW, "double pow(double base, double exponent)")
    assert str(inspect.signature(f)) == "(base: float, exponent: float) -> float"
    assert str(inspect.signature(nc.wrap(POW, "d:dd"))) == "(x0: float, x1: float, /) -> float"
    overloads = nc.wrap({"d:d": COS, "f:f": COSF})
    assert str(inspect.signature(overloads)) == "(x0: float, /) -> float"
    assert str(inspect.signature(nc.wrap({"d:d": COS, "d:dd": POW}))) == "(*args)"
    printf = nc.load(None).function("printf", "int (const char *format, ...)")
    assert str(inspect.signature(printf)) == "(format: bytes, /, *args) -> int"
    assert callable(f)


# -- flags ---------------------------------------------------------------------------------------


def test_failures_become_exceptions(fails, lib):
    nonzero = lib.function("fail_with", "i:i", errors="nonzero")
    assert nonzero(0) == 0
    with fails(nc.NativeFailure, "'fail_with' failed: it returned 7, not 0") as info:
        nonzero(7)
    assert info.value.value == 7
    assert isinstance(info.value, RuntimeError)
    zero = lib.function("fail_with", "i:i", errors="zero")
    assert zero(7) == 7
    with fails(nc.NativeFailure, "'fail_with' failed: it returned 0"):
        zero(0)
    null = lib.function("null_unless", "&c:?", errors="null")
    assert null(True) is not None
    with fails(nc.NativeFailure, "'null_unless' failed: it returned NULL"):
        null(False)
    import errno
    import os

    code = lib.function("fail_with", "i:i", errors="errno")
    assert code(0) == 0
    with fails(
        FileNotFoundError,
        f"[Errno {errno.ENOENT}] {os.strerror(errno.ENOENT)} (from 'fail_with')",
    ):
        code(errno.ENOENT)
    assert code(0) == 0
    for f in (nonzero, code):
        assert f.builtin(0) == 0


@pytest.mark.parametrize("type", ["O", "T{O}", "T{iT{(2)O}}", "[1]O", "&O", "X{O:O}", "&T{O}"])
def test_who_handles_objects_needs_the_gil(lib, fails, type):
    texts = [f"i:{type}", f"{type}:i"] if type != "[1]O" else [f"i:{type}"]
    for text in texts:
        f = nc.wrap(lib.address("called0"), text, name="f")
        assert f.entries[0].gil == "need"
        with fails(
            ValueError,
            f"gil='release' cannot be right for {text!r}, which handles Python objects",
        ):
            nc.wrap(lib.address("called0"), text, gil="release")
    assert nc.wrap(lib.address("called0"), "i:&T{i}", gil="release").entries[0].gil == "release"


def test_errno_is_saved_for_the_caller(lib):
    f = lib.function("fail_with", "i:i", errno=True)
    assert f(13) == 13
    assert nc.get_errno() == 13
    assert f(0) == 0
    assert nc.get_errno() == 0, "errno is cleared before each call"
    f(5)
    assert each(lambda _: nc.get_errno(), None) == [0], "every thread has its own"
    assert nc.get_errno() == 5


# -- travel --------------------------------------------------------------------------------------


def test_functions_of_libraries_are_pickled():
    f = LIBM.function("cos", "double cos(double x)", gil="release", name="c", doc="text")
    g = pickle.loads(pickle.dumps(f))
    assert g(x=0.5) == math.cos(0.5)
    assert (g.__name__, g.__doc__, g.signatures) == ("c", "text", ("d:d",))
    assert g.entries[0].flags == f.entries[0].flags
    assert copy.copy(f)(0.0) == 1.0


def test_replacing_takes_the_new_owner_names_and_promises(lib, fails):
    f = lib.function("sum", "double (const double *values, ptrdiff_t n)")
    constant = memoryview(array.array("d", [1.0, 2.0])).toreadonly()
    assert f(values=constant, n=2) == 3.0
    f.add("double (double *, ptrdiff_t count)", lib.address("sum"), replace=True)
    assert f.entries[0].owner is None
    with pytest.raises(ValueError, match="must be writable"):
        f(constant, 2)
    assert f(array.array("d", [1.0, 2.0]), 2) == 3.0
    with fails(TypeError, "'sum' has no argument named 'values'; it takes (None, 'count')"):
        f(array.array("d", [1.0]), values=1)
    with pytest.raises(TypeError, match="known by its address only"):
        pickle.dumps(f)


def test_c_names_that_python_cannot_use_are_positional(lib):
    f = lib.function("square", "double (double in)")
    assert str(inspect.signature(f)) == "(x0: float, /) -> float"
    assert f(**{"in": 3.0}) == 9.0


def test_wrapping_again_keeps_what_the_first_wrap_said(lib, fails):
    needs = nc.wrap(lib.address("square"), "d:d", gil="need")
    assert nc.wrap(needs, errno=True).entries[0].gil == "need"
    with fails(ValueError, "gil='release' cannot be right: the target needs the GIL"):
        nc.wrap(needs, gil="release")
    failing = lib.function("fail_with", "i:i", errors="nonzero")
    row = nc.wrap(failing, gil="release").entries[0]
    assert (row.gil, row.errors) == ("release", "nonzero")


def test_a_function_that_ctypes_calls_with_the_gil_needs_it():
    check = ctypes.pythonapi.PyErr_CheckSignals
    row = nc.wrap(check, "i:").entries[0]
    assert (row.gil, row.errors) == ("need", "python")
    plain = nc.wrap(ctypes.CDLL(None).labs, "q:q")
    assert plain.entries[0].gil == "hold"
    assert nc.wrap(plain.to_ctypes()).entries[0].gil == "hold"
