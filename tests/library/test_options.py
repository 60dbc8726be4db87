"""Options of whole libraries: one value for all functions, or values by names and patterns."""

import gc
import pickle
import weakref

import pytest

import nativecall as nc

DECLARATIONS = """
double cos(double);
double fabs(double);
int ilogb(double);
int isalpha(int);
int atoi(const char *);
long strtol(const char *, char **, int);
int snprintf(char *, unsigned long, const char *, ...);
"""


def load(**options):
    return nc.load("m", DECLARATIONS, **options)


def kinds(lib, what, names=("cos", "fabs", "ilogb", "atoi")):
    return [getattr(getattr(lib, name).entries[0], what) for name in names]


def test_one_value_is_for_all_functions_that_it_suits():
    assert kinds(load(gil="release"), "gil") == ["release"] * 4
    assert kinds(load(errno=True), "flags") == [load(errno=True).cos.entries[0].flags] * 4
    assert kinds(load(errors="nonzero"), "errors") == ["none", "none", "nonzero", "nonzero"]
    assert kinds(load(order="F"), "order") == ["F"] * 4
    assert kinds(load(encoding="UTF8"), "encoding") == ["utf-8"] * 4
    assert kinds(load(), "gil") == ["hold"] * 4


def test_names_go_before_patterns_and_these_by_their_order():
    lib = load(gil={"*o*": "need", "cos": "hold", "?abs": "release", "f*": "need"})
    assert kinds(lib, "gil") == ["hold", "release", "need", "need"]
    assert lib.function("cos").entries[0].gil == "hold"
    assert lib.function("cos", gil="release").entries[0].gil == "release"
    assert lib.function("sin", "d:d").entries[0].gil == "hold"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"out": {"strtoll_": 1}},
            "'out' names 'strtoll_', which is neither declared nor exported by the library; did "
            "you mean 'strtol'?",
        ),
        (
            {"gil": {"COS": "release"}},
            "'gil' names 'COS', which is neither declared nor exported by the library",
        ),
        (
            {"errors": {"ato*": "zero", "ilogg*": "zero"}},
            "'errors' names 'ilogg*', which matches no declared name; did you mean 'ilogb'?",
        ),
        (
            {"close": {"strtol": ["cos", "coz"]}},
            "'close' names 'coz', which is neither declared nor exported by the library; did you "
            "mean 'cos'?",
        ),
        ({"free": "a\0b"}, None),
        ({"fortran": "ilogbb"}, None),
        ({"version": {"c?": "GLIBC_2.2.5"}}, None),
        ({"check": {"": print}}, None),
    ],
)
def test_names_that_nothing_has_are_refused(fails, options, message):
    with pytest.raises(ValueError, match=r" names .*, which ") as info:
        load(**options)
    assert message is None or str(info.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"out": {"strtol": ["end"]}},
            "'out' names 'end', no argument of 'long (const char *s, char **last, int "
            "base)'; its arguments are 's', 'last', 'base' "
            "(for 'strtol')",
        ),
        (
            {"out": {"strtol": 9}},
            "'out' names 9, no argument of 'long (const char *s, char **last, int "
            "base)'; its arguments are 's', 'last', 'base' "
            "(for 'strtol')",
        ),
        (
            {"out": ["lust"]},
            "'out' names 'lust', which is not an argument of any function; did you mean 'last'? "
            "(for all functions)",
        ),
        (
            {"out": [9]},
            "'out' names 9, which is not an argument of any function; none has more than 4 (for "
            "all functions)",
        ),
        (
            {"out": {"str*": ["last", "room"]}},
            "'out' names 'room', which is not an argument of any function (for 'str*')",
        ),
        (
            {"out": ["last", "room"]},
            "'out' names 'last' and 'room', but no function has all of them (for all functions)",
        ),
        (
            {"out": {"str*": ["base"]}},
            "'out' names 'base', a 'int', which does not point to a type of known "
            "size (for 'str*')",
        ),
        ({"out": {"strtol": {"last": "count"}}}, None),
        ({"keep": "bass"}, None),
        ({"keep": {"q*": 4}}, None),
        (
            {"keep": {"strtol": "library"}},
            "keep='library' is for functions that are passed, but the signature is "
            "'long (const char *s, char **last, int base)' "
            "(for 'strtol')",
        ),
    ],
)
def test_arguments_that_no_function_has_are_refused(fails, options, message):
    declared = """
        long strtol(const char *s, char **last, int base);
        double frexp(double x, int *room);
        void qsort(void *base, unsigned long n, unsigned long size,
                   int (*order)(const void *, const void *));
    """
    with pytest.raises(ValueError, match=r"\(for ") as info:
        nc.load(None, declared, **options)
    assert message is None or str(info.value) == message
    assert nc.load(None, declared, out=["last"], keep={"*": "base"}).strtol(b"7x", 10)[0] == 7


def test_names_may_be_those_of_what_a_library_exports(fails):
    lib = load(gil={"sinh": "release"}, fortran=["SINH"])
    assert lib.function("sinh", "d:d", fortran=False).entries[0].gil == "release"


ALIASES = """
#define open_box make_box
#define close_box end_box
typedef struct box box;
box *make_box(int n, int *status);
int end_box(box *b);
int count(void);
"""
BOXES = """
#include <stdlib.h>
static int open;
void *make_box(int n, int *status) { *status = n; open++; return malloc(1); }
int end_box(void *b) { free(b); return --open; }
int count(void) { return open; }
"""


@pytest.mark.parametrize("opened", ["open_box", "make_box", "make*", "o*_box"])
@pytest.mark.parametrize("closes", ["close_box", "end_box"])
def test_what_is_said_of_a_function_holds_by_all_its_names(
    builder, tmp_path, fails, opened, closes
):
    """Macros give functions other names."""
    path = builder.library(BOXES, "boxes")
    header = tmp_path / "boxes.h"
    header.write_text(ALIASES)
    out, close = {opened: ["status"]}, {opened: closes}
    lib = nc.load(path, header=header, out=out, close=close, gil={"open_box": "release"})
    for make in (lib.open_box, lib.make_box, lib.function("open_box")):
        assert make.entries[0].gil == "release"
        for end in (lib.close_box, lib.end_box):
            box, status = make(3)
            assert status == 3
            end(box)
            with pytest.raises(ValueError, match="was already freed or closed by"):
                end(box)
    assert lib.count() == 0


def test_its_own_name_goes_before_others(builder, tmp_path):
    header = tmp_path / "boxes.h"
    header.write_text(ALIASES)
    gil = {"close_box": "release", "end_box": "need", "end*": "hold"}
    lib = nc.load(builder.library(BOXES, "boxes"), header=header, gil=gil)
    assert (lib.close_box.entries[0].gil, lib.end_box.entries[0].gil) == ("release", "need")


def test_names_that_are_not_declared_are_found_by_patterns():
    lib = nc.load("m", gil={"*f": "release"})
    assert lib.function("cosf", "f:f").entries[0].gil == "release"
    assert lib.function("cos", "d:d").entries[0].gil == "hold"


def test_what_is_said_of_one_function_must_suit_it(fails):
    lib = load(errors={"cos": "nonzero", "il*": "null"})
    assert lib.ilogb.entries[0].errors == "none"
    with fails(
        ValueError,
        "errors='nonzero' needs an integer as the result, but the signature is 'double (double)'",
    ):
        lib.cos
    lib = load(gil={"cos": "release"}, errors={"cos": "python"})
    with fails(
        ValueError,
        "a function with errors='python' sets exceptions, so gil='release' cannot be right; "
        "use gil='need'",
    ):
        lib.cos


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"gil": "keep"},
            ValueError,
            "'gil' must be one of 'hold', 'release', 'need' (got 'keep')",
        ),
        (
            {"gil": {"a*": 1}},
            ValueError,
            "'gil' must be one of 'hold', 'release', 'need' (got 1) for 'a*'",
        ),
        ({"errno": 1}, TypeError, "'errno' must be True or False (got int)"),
        ({"errno": {1: True}}, TypeError, "'errno' maps names of functions to values (got int 1)"),
        (
            {"order": {"cos": "D"}},
            ValueError,
            "'order' must be one of 'C', 'F', 'A' (got 'D') for 'cos'",
        ),
        (
            {"encoding": "utf-9"},
            ValueError,
            "'encoding' must be a text encoding that Python supports (got 'utf-9')",
        ),
        (
            {"encoding": "hex"},
            ValueError,
            "'encoding' must be a text encoding that Python supports (got 'hex')",
        ),
        ({"encoding": 8}, TypeError, "'encoding' must be a str (got int)"),
        (
            {"check": {"cos": 8}},
            TypeError,
            "'check' must be a function that takes result, function and arguments (got int) for "
            "'cos'",
        ),
    ],
)
def test_what_cannot_be_right_is_refused_at_once(fails, options, error, message):
    with fails(error, message):
        load(**options)


def test_libraries_with_options_can_be_pickled():
    lib = load(gil={"cos": "release"}, encoding="latin-1", order="A", errors={"a*": "zero"})
    again = pickle.loads(pickle.dumps(lib))
    for what in ("gil", "errors", "order", "encoding"):
        assert kinds(again, what) == kinds(lib, what)
    cos = pickle.loads(pickle.dumps(lib.cos))
    assert cos(0) == 1
    assert cos.entries[0].gil == "release"


# -- check ---------------------------------------------------------------------------------------


def doubled(result, function, arguments):
    return [function.__name__, result, arguments]


def test_a_check_sees_each_result_and_says_what_is_returned():
    lib = load(check=doubled)
    assert lib.cos(0) == ["cos", 1.0, (0,)]
    assert lib.cos.builtin(0.0) == ["cos", 1.0, (0.0,)]
    assert lib.atoi(b"17") == ["atoi", 17, (b"17",)]
    assert lib.cos.entries[0].check is doubled
    assert lib.cos.entries[0].trampoline == "plan"
    f = nc.wrap(lib.address("cos"), "double (double x)", check=doubled, name="f")
    assert f(x=0) == ["f", 1.0, (0,)]
    buffer = bytearray(8)
    assert lib.snprintf(buffer, 8, b"%d", 5) == ["snprintf", 1, (buffer, 8, b"%d", 5)]


def test_a_check_may_raise_and_gets_the_arguments_as_they_were_given(fails):
    def positive(result, function, arguments):
        if result < 0:
            raise ValueError(f"{function.__name__}{arguments} is {result}")
        return result

    cos = nc.load("m", "double cos(double);", check={"c*": positive}).cos
    assert cos(True) > 0.5
    with fails(ValueError, "cos(3,) is -0.9899924966004454"):
        cos(3)
    with fails(TypeError, "argument 1 of 'cos' must be a real number (got str)"):
        cos("3")
    with fails(TypeError, "'cos' takes exactly 1 argument (2 given)"):
        cos(1, 2)


def test_conventions_come_before_a_check():
    seen = []
    atoi = load(errors={"atoi": "nonzero"}, check=lambda *given: seen.append(given)).atoi
    assert atoi(b"0") is None
    with pytest.raises(nc.NativeFailure):
        atoi(b"5")
    assert [result for result, _, _ in seen] == [0]


def test_native_callers_do_not_see_a_check():
    cos = load(check=doubled).cos
    assert cos.to_cffi()(0.0) == 1.0
    assert cos.to_ctypes()(0.0) == 1.0
    assert cos.address() == nc.load("m").address("cos")


def test_overloads_have_checks_of_their_own():
    plain = nc.load("m", "double cos(double); int abs(int);")
    checked = nc.wrap(plain.address("cos"), "d:d", check=doubled, name="cos")
    f = nc.wrap({"d:d": checked, "i:i": plain.address("abs")}, name="both")
    assert f(0.0)[1] == 1.0
    assert f(-3) == 3
    assert f["d:d"](0.0)[1] == 1.0
    checked.add("d:d", plain.address("cos"), replace=True, check=doubled)
    assert checked(0)[1] == 1.0
    with pytest.raises(ValueError, match="has other policies; check must be the same"):
        checked.add("d:d", plain.address("cos"), replace=True)


def test_a_check_is_kept_as_long_as_the_callable_and_no_longer():
    class Watched:
        def __call__(self, result, function, arguments):
            return self, result

        __hash__ = None

    watched = Watched()
    f = nc.wrap(nc.load("m").address("cos"), "d:d", check=watched, name="f")
    watched.function = f  # a cycle through the call interface
    assert f(0.0)[1] == 1.0
    gone = weakref.ref(watched)
    del watched
    gc.collect()
    assert gone() is not None
    del f
    gc.collect()
    assert gone() is None


def test_bound_and_converted_callables_keep_the_check():
    pow = nc.load("m", "double pow(double, double);", check=doubled).pow
    assert pow.bind(2.0)(3.0)[1:] == [8.0, (3.0,)]
    assert pow.convert("f:ff")(2.0, 3.0)[1:] == [8.0, (2.0, 3.0)]


def test_functions_with_importable_checks_can_be_pickled():
    import operator

    f = nc.load("m", "double cos(double);", check=operator.is_).cos
    assert pickle.loads(pickle.dumps(f)).entries[0].check is operator.is_


@pytest.mark.parametrize("option", ["keep", "out", "order", "fortran"])
def test_nothing_said_of_a_function_is_no_option(option, fails):
    text = "void qsort(void *, size_t, size_t, int (*)(const void *, const void *));"
    message = f"{option!r} must not be None; omit the function for 'qsort'"
    with fails(TypeError, message):
        nc.load(None, text, **{option: {"qsort": None}})
