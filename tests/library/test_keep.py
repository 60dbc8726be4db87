"""`keep=`: how long C keeps functions that are passed to it."""

import ctypes
import gc
import math
import sys
import weakref
from pathlib import Path

import cffi
import numpy as np
import pytest
from scipy import LowLevelCallable

import nativecall as nc
from support import matrix
from support.capsules import capsule

SOURCE = """
typedef double (*function)(double);
typedef struct holder { function f; } holder;
static function kept;
static holder holders[4];
void keep(function f) { kept = f; }
double use(double x) { return kept ? kept(x) : -1; }
holder *make(int i) { return &holders[i]; }
void attach(holder *h, function f) { h->f = f; }
double call(holder *h, double x) { return h->f(x); }
int both(function f, int *made, function g) { *made = f == g; kept = g; return 0; }
"""
DECLARED = (
    "typedef struct holder holder; void keep(double (*f)(double)); double use(double);"
    "holder *make(int); void attach(holder *h, double (*f)(double));"
    "double call(holder *h, double);"
    "int both(double (*f)(double), int *made, double (*g)(double));"
)


@pytest.fixture(scope="module")
def path(builder):
    return builder.library(SOURCE, "keeping")


class Double:
    """A callable that can be watched."""

    def __call__(self, x):
        return 2 * x


def test_for_the_life_of_the_process(path):
    lib = nc.load(path, DECLARED, keep={"keep": "process"})
    double = Double()
    gone = weakref.ref(double)
    lib.keep(double)
    del double
    gc.collect()
    assert gone() is not None
    assert lib.use(4.0) == 8.0


def test_for_the_life_of_the_library(path):
    lib = nc.load(path, DECLARED, keep="library")
    double = Double()
    gone = weakref.ref(double)
    lib.keep(double)
    lib.keep(double)
    del double
    gc.collect()
    use = lib.use
    assert use(4.0) == 8.0
    lib.close()
    del lib
    gc.collect()
    assert use(4.0) == 8.0  # which keeps the library open
    del use
    gc.collect()
    assert gone() is None


def test_a_cycle_through_the_library_ends(path):
    lib = nc.load(path, DECLARED, keep="library")
    double = Double()
    double.library = lib
    gone = weakref.ref(double)
    lib.keep(double)
    lib.keep(None)
    del double, lib
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("which", ["h", 0])
def test_for_the_life_of_an_object(path, which):
    lib = nc.load(path, DECLARED, keep={"attach": which})
    holder = lib.make(1)
    double = Double()
    gone = weakref.ref(double)
    lib.attach(holder, double)
    lib.attach(h=holder, f=double)
    del double
    gc.collect()
    assert lib.call(holder, 4.0) == 8.0
    assert gone() is not None
    del holder
    gc.collect()
    assert gone() is None


def test_a_function_is_made_once_and_goes_with_other_options(path):
    lib = nc.load(path, DECLARED, keep="process", out={"both": ["made"]}, errors="nonzero")

    def half(x):
        return x / 2

    assert lib.both(half, half) == 1
    assert lib.use(3.0) == 1.5
    assert lib.both(half, nc.callback("d:d", half)) == 0
    gc.collect()
    assert lib.use(3.0) == 1.5
    assert lib.keep.entries[0].keep == "process"
    assert lib.use.entries[0].keep == "call"


def test_native_functions_are_kept(path):
    lib = nc.load(path, DECLARED, keep="process")
    function = nc.load("m", "double pow(double, double);").pow.bind(2.0)
    lib.keep(function)
    del function
    gc.collect()
    assert lib.use(3.0) == 8.0
    lib.keep(None)
    assert lib.use(3.0) == -1.0


def test_what_a_kept_function_raises_is_raised_by_the_call_under_way(path):
    lib = nc.load(path, DECLARED, keep="process")
    lib.keep(lambda x: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        lib.use(3.0)
    lib.keep(None)


class Equal:
    """Equals others by its number; with one below 0 the comparison raises, below -1 the hash."""

    def __init__(self, number):
        self.number = number

    def __call__(self, x):
        return x + self.number

    def __eq__(self, other):
        if self.number < 0:
            raise LookupError("not equal")
        return self.number == other.number

    def __hash__(self):
        if self.number < -1:
            raise LookupError("no hash")
        return 1

    def method(self, x):
        return x * self.number


def test_equal_functions_are_one(path):
    lib = nc.load(path, DECLARED, keep="library", out={"both": ["made"]}, errors="nonzero")
    three, one = Equal(3), Equal(1)
    for left, right, same in (
        (three.method, three.method, True),
        (three.method, one.method, False),
        (three, Equal(3), True),
        (three, one, False),
        (Equal(-1), Equal(-1), False),
        (Equal(-2), Equal(-2), False),
        ([].append, {}.get, False),
    ):
        assert lib.both(left, right) == same
    for raising in (Equal(-1), Equal(-2)):
        assert lib.both(raising, raising)
        gc.collect()
        assert lib.use(4.0) == 4.0 + raising.number


LABS = "long labs(long);"


@pytest.mark.parametrize(
    ("make", "right"),
    [
        (lambda: nc.load("m", "float cosf(float);").cosf, math.cos(2.0)),  # converted
        (lambda: nc.load("m", "double pow(double, double);").pow.bind(2.0), 4.0),
        (lambda: nc.callback("q:q", lambda x: -x), -2.0),
        (lambda: nc.callback("d:d", lambda x: -x), -2.0),
        (lambda: nc.wrap(nc.load(None, LABS).labs.to_ctypes()), 2.0),
        (lambda: ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: -x), -2.0),
        (lambda: nc.callback("d:d", lambda x: -x).to_cffi(), -2.0),
        (lambda: nc.callback("d:d", lambda x: -x).to_capsule(), -2.0),
        (lambda: LowLevelCallable(nc.callback("d:d", lambda x: -x).to_ctypes()), -2.0),
    ],
)
@pytest.mark.parametrize("keep", ["library", "process"])
def test_foreign_functions_are_kept_in_the_form_that_c_got(path, keep, make, right):
    lib = nc.load(path, DECLARED, keep=keep)
    lib.keep(make())
    gc.collect()
    others = [make() for _ in range(20)]  # where it was, something else is
    assert lib.use(2.0) == pytest.approx(right, rel=1e-6)
    del others


@pytest.mark.parametrize("row", matrix.ROWS, ids=[row.name for row in matrix.ROWS])
def test_every_box_is_kept(path, boxes, row):
    lib = nc.load(path, DECLARED, keep="process")

    def make():
        try:
            made = row.make(boxes)
        except matrix.Missing as error:
            pytest.skip(f"{error} is not installed")
        known = nc.wrap(made, row.signature)
        if known.entries[0].gil == "need":  # unless somebody says otherwise
            return nc.wrap(made, row.signature, gil="release")
        return known if row.signature else made

    lib.keep(make())
    gc.collect()
    others = [make() for _ in range(20)]
    assert lib.use(0.5) == pytest.approx(row.function(0.5))
    del others


#: Kinds of docs/foreign-callables.md whose functions are of other types: of random bits, of XLA's
#: older calls.
OTHERS = """
static double (*state)(void);
static void (*custom)(void *, const void **);
void keep_state(double (*f)(void)) { state = f; }
double use_state(void) { return state(); }
void keep_custom(void (*f)(void *, const void **)) { custom = f; }
float use_custom(float a, float b)
{
    const void *in[] = {&a, &b};
    float out;
    custom(&out, in);
    return out;
}
void add(float *out, const float **in) { *out = *in[0] + *in[1]; }
double half(double x) { return x / 2; }
"""
OTHERS_DECLARED = (
    "void keep_state(double (*f)(void)); double use_state(void);"
    "void keep_custom(void (*f)(void *, const void **)); float use_custom(float a, float b);"
)


@pytest.fixture(scope="module")
def others(builder):
    return builder.library(OTHERS, "keeping_others")


def test_a_generator_is_kept_with_its_random_bits(others):
    lib = nc.load(others, OTHERS_DECLARED, keep="process")
    lib.keep_state(nc.wrap(np.random.PCG64(5), "d:"))
    gc.collect()
    more = [nc.wrap(np.random.PCG64(n), "d:") for n in range(20)]
    assert lib.use_state() == np.random.Generator(np.random.PCG64(5)).random()
    del more


def test_a_custom_call_of_xla_is_kept(others):
    lib = nc.load(others, OTHERS_DECLARED, keep="process")
    add = lib.address("add")
    for name, signature in ((b"xla._CUSTOM_CALL_TARGET", "v:PP"), (None, "v:P&P")):
        lib.keep_custom(nc.wrap(capsule(name, add), signature))
        gc.collect()
        more = [nc.wrap(capsule(name, add + 1), signature) for _ in range(20)]
        assert lib.use_custom(1.5, 2.0) == 3.5
        del more


class Kernel:
    """A box of a library that `register_box` was told of."""

    __module__ = "nc_tests_kept"

    def __init__(self, address):
        self.address = address


nc.register_box("nc_tests_kept", lambda one: nc.wrap(one.address, "d:d", owner=one))


@pytest.mark.parametrize(
    "make",
    [lambda address: nc.wrap(capsule(b"half(float64)", address), "d:d"), Kernel],
    ids=["Pythran", "register_box"],
)
def test_a_box_without_a_tool_is_kept(path, others, make):
    lib = nc.load(path, DECLARED, keep="process")
    half = nc.load(others).address("half")
    lib.keep(make(half))
    gc.collect()
    more = [nc.wrap(make(half + 1)) for _ in range(20)]
    assert lib.use(3.0) == 1.5
    del more


#: What XLA asks of a handler before all else: the version that it was compiled for.
HANDLERS = """
#include <xla/ffi/api/c_api.h>
static XLA_FFI_Handler *kept;
void keep(XLA_FFI_Handler *f) { kept = f; }
int use(void)
{
    XLA_FFI_Metadata told = {.struct_size = XLA_FFI_Metadata_STRUCT_SIZE};
    XLA_FFI_Metadata_Extension asks = {
        {XLA_FFI_Metadata_Extension_STRUCT_SIZE, XLA_FFI_Extension_Metadata, NULL}, &told};
    XLA_FFI_CallFrame frame = {
        .struct_size = XLA_FFI_CallFrame_STRUCT_SIZE, .extension_start = &asks.extension_base};
    return kept(&frame) == NULL && told.api_version.minor_version == XLA_FFI_API_MINOR;
}
"""


def test_handlers_of_jaxlib_are_kept(builder):
    lapack = pytest.importorskip("jaxlib.cpu._lapack")
    include = Path(lapack.__file__).parents[1] / "include"
    made = builder.library(HANDLERS, "keeping_handlers", flags=("-O1", "-isystem", str(include)))
    lib = nc.load(made, "void keep(void *(*f)(void *)); int use(void);", keep="process")
    names = ["lapack_dtrsm_ffi", "lapack_dgetrf_ffi", "lapack_dgeqrf_ffi"]
    for name in names:
        lib.keep(nc.wrap(lapack.registrations()[name], "P:P"))
        gc.collect()
        more = [nc.wrap(one, "P:P") for one in [*lapack.registrations().values()][:20]]
        assert lib.use()
        del more


@pytest.mark.parametrize(
    "function",
    [
        math.sin,
        np.negative,
        nc.load("m", "float cosf(float);").cosf,
        nc.callback("d:d", lambda x: -x),
        Equal(-1).method,
    ],
)
def test_what_is_kept_again_takes_no_memory(path, function):
    lib = nc.load(path, DECLARED, keep="library")
    for _ in range(20):
        lib.keep(function)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(200):
        lib.keep(function)
    gc.collect()
    assert sys.getallocatedblocks() - before < 50


def test_objects_that_functions_cannot_be_kept_with(path, fails):
    attach = nc.load(path).function("attach", "v:PX{d:d}", keep=0)
    with fails(
        TypeError,
        "argument 1 of 'attach' must support weak references, as a cffi pointer does, to keep "
        "functions alive (got NoneType); otherwise use keep='library' or keep='process'",
    ):
        attach(None, abs)
    memory = cffi.FFI().new("void *[1]")
    attach(memory, lambda x: x)


@pytest.mark.parametrize(
    ("keep", "error", "message"),
    [
        (
            "ever",
            ValueError,
            "'keep' names 'ever', no argument of 'v:PX{d:d}'; its arguments have no names; they "
            "are 0 to 1",
        ),
        (2, ValueError, None),
        (
            2.5,
            TypeError,
            "'keep' must be 'call', 'library', 'process', or the name or position of an argument "
            "(got float)",
        ),
    ],
)
def test_what_cannot_be_right_is_refused(path, keep, error, message):
    with pytest.raises(error) as info:
        nc.load(path).function("attach", "v:PX{d:d}", keep=keep)
    assert message is None or str(info.value) == message


def test_functions_without_a_library_or_functions(path, fails):
    with fails(ValueError, "keep='library' needs a function that nativecall.load found"):
        nc.wrap(nc.load(path).address("keep"), "v:X{d:d}", keep="library")
    with fails(
        ValueError, "keep='process' is for functions that are passed, but the signature is 'd:d'"
    ):
        nc.load(path).function("use", "d:d", keep="process")


ENDING = """
typedef struct H H;
H *h_new(void);
void h_on(H *h, void (*first)(void *), void (*second)(void *));
void h_free(H *h);
"""
ENDS = """
#include <stdlib.h>
typedef struct H { void (*first)(void *); void (*second)(void *); } H;
H *h_new(void) { return calloc(1, sizeof(H)); }
void h_on(H *h, void (*first)(void *), void (*second)(void *))
{ h->first = first; h->second = second; }
void h_free(H *h) { h->first(h); h->second(h); free(h); }
"""


@pytest.mark.parametrize("by", ["free", "gc", "call", "cycle"])
def test_what_is_kept_with_a_handle_outlives_what_ends_it(builder, by):
    """C calls the functions when it frees the object that they were kept with."""
    free = {} if by == "gc" else {"h_new": "h_free"}
    path = builder.library(ENDS, "ending")
    lib = nc.load(path, ENDING, keep={"h_on": "h"}, free=free)
    seen = []
    handle = lib.h_new()
    if by == "gc":
        handle = lib.ffi.gc(handle, lib.h_free)
    lib.h_on(handle, lambda h: seen.append(1), lambda h: seen.append(2))
    if by == "call":
        lib.h_free(handle)
    elif by == "cycle":
        holder = [handle]
        holder.append(holder)
        del holder
    del handle
    gc.collect()
    assert seen == [1, 2]


def test_a_library_is_found_behind_its_functions(path):
    lib = nc.load(path, DECLARED, keep={"keep": "library"})
    plain = nc.load(path, DECLARED)
    for made in (
        nc.wrap(lib.keep, name="other"),
        nc.wrap(lib.keep, gil="release"),
        nc.wrap(plain.keep, keep="library"),
        nc.wrap({lib.keep.signatures[0]: lib.keep}),
    ):
        double = Double()
        gone = weakref.ref(double)
        made(double)
        del double
        gc.collect()
        assert gone() is not None
        assert plain.use(4.0) == 8.0
    with pytest.raises(ValueError, match="keep='library' needs a function that"):
        nc.wrap(plain.address("keep"), "void (double (*)(double))", keep="library")


def test_a_native_function_that_others_are_kept_with_can_go(builder):
    declared = "void pair(double (*a)(double), double (*b)(double));"
    code = declared.replace(";", " { (void)a; (void)b; }")
    lib = nc.load(builder.library(code, "pair"), declared, keep={"pair": "a"})
    holder, kept = nc.callback("d:d", Double()), Double()
    gone = [weakref.ref(one) for one in (holder, kept)]
    lib.pair(holder, kept)
    del kept
    gc.collect()
    assert all(one() is not None for one in gone)
    del holder
    gc.collect()
    assert [one() for one in gone] == [None, None]


def test_a_kept_function_that_returns_none_ends_nothing(builder):
    declared = """
    typedef int (*number)(int);
    typedef number (*loader)(int);
    void set_loader(loader f);
    int load(int which);
    int run(int slot, int x);
    """
    code = f"""
    {declared}
    static loader loads;
    static number found[3];
    void set_loader(loader f) {{ loads = f; }}
    int load(int which) {{ found[which] = loads(which); return found[which] != 0; }}
    int run(int slot, int x) {{ return found[slot](x); }}
    """
    lib = nc.load(builder.library(code, "loader"), declared, keep={"set_loader": "library"})
    lib.set_loader(lambda which: None if which == 1 else lambda x: x + which)
    assert [lib.load(which) for which in (1, 0, 1, 2, 1)] == [0, 1, 0, 1, 0]
    gc.collect()
    assert (lib.run(0, 40), lib.run(2, 40)) == (40, 42)
