"""dispatch.h: calls whose signature stands in the source, the three ways of CEP 1000."""

import ctypes
import itertools
import math
import os
import subprocess
import sys
import sysconfig

import pytest

import nativecall as nc
from support import build
from support.headers import REFUSED, compiler, events
from support.levels import sweep
from support.threads import WITHOUT_GIL

REPEAT = 10_000


# -- the headers ---------------------------------------------------------------------------------


def compiled(include, folder, command, standard, flags, sources):
    """A compiler's messages for each of several sources it refuses, else an empty text."""
    language = "c++" if standard.startswith("c++") else "c"
    words = [compiler(command), f"-std={standard}", "-x", language, *build.WARNINGS]
    words += [f"-I{include}", "-isystem", sysconfig.get_path("include"), *flags]
    paths = [folder / f"source{n}.c" for n in range(len(sources))]
    for path, source in zip(paths, sources, strict=True):
        path.write_text(source)
    return [build.refusal([*words, str(path)]) for path in paths]


GOOD = [
    "NC_DISPATCH(f, double, (nothing));",
    "NC_DISPATCH(f, nothing, (double));",
    "NC_DISPATCH(f, int8, (short, short, long, size, ssize, ulong, longdouble, float));",
    "NC_DISPATCH_PROMOTED(f, double, (float), NC_PROMOTED(double, (double)));",
    "NC_DISPATCH_PROMOTED(f, double, (nothing), NC_PROMOTED(float, (nothing)));",
    "NC_DISPATCH_PROMOTED(f, nothing, (float), NC_PROMOTED(nothing, (double)));",
]
BAD = [
    "NC_DISPATCH(f, int8, (short, short, short, short, short, short, short, short, float));",
    "NC_DISPATCH(f, double, (double, nothing));",
    "NC_DISPATCH(f, double, (nothing, nothing));",
    "NC_DISPATCH(f, double, (quadruple));",
    "NC_DISPATCH(f, double, (double))",
    "NC_DISPATCH_PROMOTED(f, double, (float), NC_PROMOTED(double, (double, double)));",
    "NC_DISPATCH_PROMOTED(f, double, (float, float), NC_PROMOTED(double, (double)));",
    "NC_DISPATCH_PROMOTED(f, double, (float), NC_PROMOTED(double, (nothing)));",
    "NC_DISPATCH_PROMOTED(f, double, (nothing), NC_PROMOTED(double, (double)));",
    "NC_DISPATCH_PROMOTED(f, double, (float), NC_PROMOTED(nothing, (double)));",
    "NC_DISPATCH_PROMOTED(f, nothing, (float), NC_PROMOTED(double, (double)));",
    # A promotion that loses something is -Wconversion's to tell.
    "NC_DISPATCH_PROMOTED(f, double, (double), NC_PROMOTED(double, (float)));",
    "NC_DISPATCH_PROMOTED(f, float, (float), NC_PROMOTED(double, (float)));",
]


@pytest.mark.compiler
@pytest.mark.parametrize("standard", ["c99", "c++11"])
@pytest.mark.parametrize("command", ["gcc", "clang"])
def test_what_does_not_compile(include, tmp_path, command, standard):
    renamed = [line.replace("(f,", f"(f{n},") for n, line in enumerate(GOOD)]
    lines = ["\n".join(renamed), *BAD]
    sources = [f"#include <nativecall/dispatch.h>\n{line}\nextern int last;\n" for line in lines]
    all_done = compiled(include, tmp_path, command, standard, ["-fsyntax-only"], sources)
    for line, message in zip(lines, all_done, strict=True):
        assert (message == "") is (line not in BAD), f"{line}\n{message}"


# One type, in memory of its own, as every argument and result; each call stands here once, so that
# the compiler may inline it and compare its branches with that memory. What finds
# the runtime knows nothing of that type, and takes most of the time to compile: once is enough.
INSTANTIATED = r"""
#ifdef ELSEWHERE
#include <nativecall/nativecallable.h>
int imported_elsewhere(void);
int interned_elsewhere(const char *signature, const char **out);
#define PyCustomSlots_Import imported_elsewhere
#define nc_signature_intern interned_elsewhere
#endif
#include <nativecall/dispatch.h>
#include <nativecall/dynamiccall.h>
#include <nativecall/detail/registercall.h>
NC_DISPATCH(exact, WORD, (WORD));
NC_DISPATCH_PROMOTED(wider, WORD, (WORD, float), NC_PROMOTED(WORD, (WORD, double)));
typedef NC_OF(TYPE, WORD) Type;
#define TEXT NC_SIGNATURE(WORD, (WORD))
#ifdef GLOBAL
static Type x, y;
#endif
int all(PyObject *f, void *function, Type given);
int all(PyObject *f, void *function, Type given)
{
    NcRegisterCall how;
    NcCall call;
    const void *args[1];
    int status;
#ifndef GLOBAL
    Type x, y;
#endif
    x = given;
    args[0] = &x;
    status = exact(f, &y, x) | exact_nogil(f, &y, y);
    status |= wider(f, &y, x, 1.0F) | wider_nogil(f, &y, y, 1.0F);
    if (status != NC_OK || nc_call_prepare(&call, f, TEXT) < 0) {
        return -1;
    }
    status = nc_call(&call, &y, args);
    status |= nc_call_nogil(&call, &y, args);
    nc_call_release(&call);
    if (nc_registercall_prepare(TEXT, strlen(TEXT), &how) == NC_OK) {
        nc_registercall(&how, function, &y, args);
    }
    return status | (y == x);
}
"""


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("command", "standard", "words"),
    sweep(
        [
            ("gcc", "c99", "float int8"),
            ("gcc", "c99", "boolean uint16 longdouble complex64"),
            ("gcc", "c++20", "float uint32 int8"),
            ("gcc", "c++11", "boolean pointer"),
            ("clang", "c11", "float int16 complex64"),
            ("clang", "c++20", "uint8 double"),
        ],
        ("gcc", "c99", "float int8"),
        ("gcc", "c++11", "boolean pointer"),
        ("clang", "c11", "float int16 complex64"),
    ),
)
def test_no_warnings_where_everything_is_inlined(include, tmp_path, command, standard, words):
    # Clang warns before it optimises.
    flags = ["-O3", "-S", "-o", os.devnull] if command == "gcc" else ["-fsyntax-only"]
    cases = list(itertools.product(words.split(), ("", "#define GLOBAL\n")))
    sources = [place + INSTANTIATED.replace("WORD", word) for word, place in cases]
    sources[1:] = ["#define ELSEWHERE\n" + source for source in sources[1:]]
    all_done = compiled(include, tmp_path, command, standard, flags, sources)
    for case, message in zip(cases, all_done, strict=True):
        assert message == "", case


# -- signatures in the source --------------------------------------------------------------------


def test_the_exact_way_is_first(c, functions):
    f = functions.function("d_d", "d:d")
    for g in (f, f.builtin):
        for nogil in (False, True):
            assert c.dispatch("one", nogil, g, 0.5) == 1.5
    few = events(lambda: c.dispatch("one", False, f, 0.5))
    assert few == events(lambda: c.dispatch("one", True, f.builtin, 0.5))
    assert few < events(lambda: c.dispatch("one", False, lambda x: x, 0.5))


def test_promotions_are_tried_in_order(c, functions):
    def overloaded(*names):
        every = {"d:di": "d_di", "f:fq": "f_fq", "d:dd": "d_dd"}
        return nc.wrap({s: functions.address(every[s]) for s in names})

    for nogil in (False, True):
        # The order in the table is not the order of preference.
        assert c.dispatch("wider", nogil, overloaded("d:dd", "f:fq", "d:di"), 0.5, 3) == 8.0
        assert c.dispatch("wider", nogil, overloaded("d:dd", "f:fq"), 0.5, 3) == 503.0
        assert c.dispatch("wider", nogil, overloaded("d:dd"), 0.5, 3) == 53.0
        assert c.dispatch("wider", nogil, overloaded("d:dd").builtin, 0.5, 3) == 53.0
    other = functions.function("d_qd", "d:qd")
    assert c.dispatch("wider", True, other, 2.0, 3) == REFUSED
    assert c.dispatch("wider", False, lambda x, n: (x * n, type(n))[0], 2.0, 3) == 6.0


def test_what_gives_nothing(c, functions):
    take = functions.function("take", "d:")
    both = nc.wrap({"v:d": functions.address("v_d"), "v:f": functions.address("v_f")})
    for nogil in (False, True):
        assert c.dispatch("notify", nogil, both, 0.5) is None
        assert take() == 0.5
        assert c.dispatch("notify", nogil, functions.function("v_d", "v:d"), 0.5) is None
        assert take() == -0.5
        assert c.dispatch("no_more", nogil, functions.function("v_", "v:")) is None
        assert take() == 1.0
    seen = []
    assert c.dispatch("notify", False, seen.append, 0.5) is None
    assert c.dispatch("no_more", False, lambda: seen.append(2)) is None
    assert seen == [0.5, 2]
    # A result that nobody asked for is no mistake.
    assert c.dispatch("no_more", False, lambda: "text") is None


def test_no_arguments(c, functions):
    for nogil in (False, True):
        assert c.dispatch("none", nogil, functions.function("five", "d:")) == 5.0
        assert c.dispatch("none", nogil, functions.function("half", "f:")) == 0.5
        assert c.dispatch("none", nogil, functions.function("half", "f:").builtin) == 0.5
    assert c.dispatch("none", False, lambda: 7) == 7.0
    with pytest.raises(TypeError, match=r"positional argument"):
        c.dispatch("none", False, lambda x: x)


def test_eight_arguments(c, functions):
    f = functions.function("d_8", "d:dddddddd")
    expected = sum((k + 1) * (0.5 + k) for k in range(8))
    for nogil in (False, True):
        assert c.dispatch("eight", nogil, f, 0.5) == expected
    assert c.dispatch("eight", False, lambda *x: math.fsum(x), 0.5) == sum(
        0.5 + k for k in range(8)
    )


def test_words_of_the_consumer(c, functions):
    for nogil in (False, True):
        assert c.dispatch("norm", nogil, functions.function("norm", "d:T{dd}"), 3.0, 4) == 25.0
        assert c.dispatch("turn", nogil, functions.function("turn", "T{dd}:d"), 3.0) == (-3.0, 6.0)
    assert c.dispatch("norm", False, lambda p: p[0] - p[1], 3.0, 4) == -1.0
    assert c.dispatch("turn", False, lambda x: (x, x + 1), 3.0) == (3.0, 4.0)
    with pytest.raises((TypeError, SystemError)):
        c.dispatch("turn", False, lambda x: "no tuple", 3.0)


def raises(*arguments):
    raise LookupError("from Python")


def test_the_boxed_way_checks_results_and_raises(c, fails):
    assert c.dispatch("narrow", False, lambda n: n, 0.0, 127) == 127
    with fails(OverflowError, "the result 128 does not fit in 'int8_t'"):
        c.dispatch("narrow", False, lambda n: n, 0.0, 128)
    with fails(TypeError, "'float' object cannot be interpreted as an integer"):
        c.dispatch("narrow", False, float, 0.0, 1)
    with fails(LookupError, "from Python"):
        c.dispatch("narrow", False, raises, 0.0, 1)
    with fails(TypeError, "must be real number, not str"):
        c.dispatch("one", False, str, 1.0)
    with fails(TypeError, "'int' object is not callable"):
        c.dispatch("one", False, 3, 1.0)
    # An argument that cannot be boxed: nothing is called.
    assert c.dispatch("same", False, lambda x: x, 0.0, 0, "text") == "text"


def test_without_the_gil_what_needs_it_is_refused(c, functions):
    calls = []
    holds = functions.address("holds")
    assert c.dispatch("one", True, calls.append, 1.0) == REFUSED
    assert calls == []
    need = nc.wrap(holds, "d:d", gil="need")
    assert c.dispatch("one", True, need, 1.0) == REFUSED
    assert c.dispatch("one", False, need, 1.0) == 1.0
    # Called without the GIL already, or by Python, which drops it.
    release = nc.wrap(holds, "d:d", gil="release")
    assert c.dispatch("one", True, release, 1.0) == -1.0
    assert c.dispatch("one", False, release, 1.0) == -1.0
    hold = nc.wrap(holds, "d:d")
    assert c.dispatch("one", True, hold, 1.0) == -1.0
    assert c.dispatch("one", False, hold, 1.0) == 1.0


def test_error_conventions_go_through_python(c, functions, fails):
    failing = functions.function("b_i", "b:i", errors="nonzero")
    assert c.dispatch("narrow", True, failing, 0.0, 0) == REFUSED
    with pytest.raises(nc.NativeFailure):
        c.dispatch("narrow", False, failing, 0.0, 3)
    assert c.dispatch("narrow", False, functions.function("b_i", "b:i", errors="zero"), 0.0, 3) == 3


def test_objects_stay_level(c):
    address = ctypes.cast(ctypes.pythonapi.PyObject_Repr, ctypes.c_void_p).value
    f = nc.wrap(address, "O:O", errors="python")
    obj = ["unique", object]
    for g in (f, repr, lambda x: x):
        counts = [sys.getrefcount(obj)]
        for _ in range(REPEAT):
            result = c.dispatch("same", False, g, 0.0, 0, obj)
        del result
        counts.append(sys.getrefcount(obj))
        assert counts[0] == counts[1]


# -- callbacks without arguments -----------------------------------------------------------------


def test_types_without_the_metaclass_are_asked(c, integrating):
    def kind(number, **more):
        members = {"__nativecall_api__": integrating.api(number), "__call__": lambda self, x: 7.0}
        return type("Offers", (), members | more)

    for _ in range(3):
        assert c.dispatch("one", False, kind(0)(), 2.0) == 8.0
        assert c.dispatch("one", True, kind(0)(), 2.0) == "the GIL is not held"
    # One that takes its offer back; one whose offer is a mistake.
    sub = type("Sub", (kind(0),), {"__nativecall_api__": None})
    assert c.dispatch("one", False, sub(), 2.0) == 7.0
    with pytest.raises(TypeError, match="'__nativecall_api__' of Offers must have size 40 or more"):
        c.dispatch("one", False, kind(3)(), 2.0)


# -- vendored, with the package absent -----------------------------------------------------------

ALONE = """
import ctypes, math, struct, sys
sys.path.insert(0, sys.argv[1])
import dispatch_cpp as c
assert "nativecall" not in sys.modules
kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
address = ctypes.cast(ctypes.CDLL(sys.argv[2]).d_d, ctypes.c_void_p).value
half = struct.pack("d", 0.5)
for f in (kind(address), lambda x: x + 1):
    prepared = c.prepare(f, "d:d")
    assert c.way(prepared) == "boxed"  # the package alone reads the boxes of others
    assert c.call(prepared, (half,)) == struct.pack("d", 1.5)
assert c.dispatch("one", False, math.sqrt, 4.0) == 2.0
assert c.dispatch("one", True, math.sqrt, 4.0) == "the GIL is not held"
assert c.dispatch("none", False, lambda: 3) == 3.0
try:
    import nativecall
except ImportError:
    print("alone")
"""


def test_with_the_package_absent(extension, library, tmp_path):
    module = extension("c++11")
    done = subprocess.run(
        [
            sys.executable,
            *WITHOUT_GIL,
            "-I",
            "-S",
            "-W",
            "error",
            "-c",
            ALONE,
            str(module.parent),
            str(library),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "alone\n")
