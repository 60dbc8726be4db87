"""Variables of libraries: values, text, and views of arrays, structs and unions; assignment."""

import array
import gc

import pytest

import nativecall as nc
from nativecall._cdecl.preprocessor import compiler

numpy = pytest.importorskip("numpy")

HEADER = """
    #include <stddef.h>
    typedef struct point { double x, y; struct point *next; const char *name; } point;
    typedef union { int i; float f; unsigned char bytes[4]; } number;
    typedef struct { number n; unsigned low : 3, high : 5; double (*f)(double); } odd;
    enum level { LOW, HIGH = 7 };
    extern int count; extern const int limit; extern enum level level;
    extern double grid[2][3]; extern const int primes[4]; extern unsigned char raw[4];
    extern enum level levels[2]; extern float _Complex wave[2];
    extern char title[8]; extern const char version[]; extern const char fixed[6];
    extern const char *message; extern char *buffer; extern const char *const names[3];
    extern const wchar_t *wide;
    extern point origin; extern point corners[2]; extern const point pole; extern point *last;
    extern number word; extern odd strange;
    extern double samples[];
    extern int (*chosen)(int); extern int close;
    extern int renamed __asm__("other_name");
    #define alias grid
    double sum(void); int letters(void); double first(void); double call(double x); int ask(int x);
"""
SOURCE = """
    #include "variables.h"
    #include <complex.h>
    #include <string.h>
    int count = 3; const int limit = 9; enum level level = HIGH;
    double grid[2][3] = {{1, 2, 3}, {4, 5, 6}}; const int primes[4] = {2, 3, 5, 7};
    unsigned char raw[4] = {1, 2, 3, 255}; enum level levels[2] = {LOW, HIGH};
    float _Complex wave[2] = {1, 2};
    char title[8] = "start"; const char version[] = "1.2.3"; const char fixed[6] = "fixed";
    const char *message = "ready"; char *buffer = title;
    const char *const names[3] = {"one", "two", NULL};
    const wchar_t *wide = L"w\\u00efde";
    point origin = {1, 2, NULL, "origin"};
    point corners[2] = {{1, 2, NULL, NULL}, {3, 4, NULL, NULL}}; point *last = &corners[1];
    const point pole = {0, 90, NULL, NULL};
    number word = {1}; odd strange;
    double samples[3] = {0.5, 1.5, 2.5};
    static int twice(int x) { return 2 * x; }
    int (*chosen)(int) = twice;
    int renamed = 11; int close = 12;
    double sum(void)
    {
        double s = 0;
        for (int i = 0; i < 6; i++) s += grid[i / 3][i % 3];
        return s;
    }
    int letters(void) { return (int)strlen(message); }
    double first(void) { return origin.next ? origin.next->x : origin.x; }
    double call(double x) { return strange.f(x); }
    int ask(int x) { return chosen(x); }
"""
#: The same as text, which is read strictly.
TEXT = """
    typedef struct point { double x, y; struct point *next; const char *name; } point;
    extern int count; extern const int limit; extern double grid[2][3]; extern const int primes[4];
    extern char title[8]; extern const char *message; extern char *buffer;
    extern const char *const names[3]; extern point origin; extern point corners[2];
    double sum(void); int letters(void); double first(void);
"""


@pytest.fixture(scope="module")
def built(builder, tmp_path_factory):
    if compiler() is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("variables")
    (folder / "variables.h").write_text(HEADER)
    flags = ["-O1", "-std=c11", f"-I{folder}"]
    return builder.library(SOURCE, "many_variables", flags=flags), folder


@pytest.fixture
def lib(built):
    path, folder = built
    return nc.load(path, header="variables.h", include=folder)


@pytest.fixture(params=["header", "text"])
def either(request, built):
    path, folder = built
    if request.param == "text":
        return nc.load(path, TEXT)
    return nc.load(path, header="variables.h", include=folder)


# -- reading ---------------------------------------------------------------------------------------


def test_numbers_and_names(lib):
    assert (lib.count, lib.limit, lib.level, lib.renamed) == (3, 9, 7, 11)
    lib.count, lib.level = 4, lib.LOW
    assert (lib.count, lib.level) == (4, 0)
    lib.count, lib.level = 3, lib.HIGH
    assert not [name for name in lib.skipped if name in HEADER]
    assert {"grid", "alias", "word", "samples"} <= set(dir(lib))


def test_arrays_of_numbers_are_numpy_arrays(either):
    grid = either.grid
    assert (grid.tolist(), grid.dtype) == ([[1, 2, 3], [4, 5, 6]], numpy.float64)
    grid[1, 2] = 60
    grid *= 2
    assert either.sum() == 150
    grid[:] = [[1, 2, 3], [4, 5, 6]]
    assert either.sum() == 21
    assert either.primes.tolist() == [2, 3, 5, 7]
    with pytest.raises(ValueError, match="read-only"):
        either.primes[0] = 1


def test_arrays_of_other_numbers(lib):
    assert (lib.raw.tolist(), lib.raw.dtype) == ([1, 2, 3, 255], numpy.uint8)
    assert (lib.levels.tolist(), lib.wave.tolist()) == ([0, 7], [1 + 0j, 2 + 0j])
    assert lib.alias.shape == (2, 3)
    samples = lib.samples
    assert [samples[i] for i in range(3)] == [0.5, 1.5, 2.5]
    assert lib.asarray(samples, 3).tolist() == [0.5, 1.5, 2.5]


def test_text(either):
    assert either.message == b"ready"
    assert nc.string(either.buffer) == b"start"
    assert nc.string(either.title) == b"start"
    assert (either.title[0], len(either.title)) == (b"s", 8)
    assert [nc.string(one) for one in either.names] == [b"one", b"two", None]


def test_constant_text(lib, built):
    assert (lib.version, lib.fixed, lib.wide) == (b"1.2.3", b"fixed", "wïde")
    path, folder = built
    decoded = nc.load(path, header="variables.h", include=folder, encoding={"mess*": "utf-8"})
    assert (decoded.message, decoded.version) == ("ready", b"1.2.3")


def test_structs_and_unions_are_cffi_pointers(lib):
    origin = lib.origin
    assert (origin.x, origin.y, nc.string(origin.name)) == (1.0, 2.0, b"origin")
    origin.x = 5
    assert lib.first() == 5.0
    origin.x = 1
    assert [point.x for point in lib.corners] == [1.0, 3.0]
    assert (lib.last.y, lib.pole.y) == (4.0, 90.0)
    assert lib.ffi.typeof(origin) == lib.ffi.typeof("point *")
    assert (lib.word.i, lib.word.bytes[0]) == (1, 1)
    lib.strange.high = 21
    assert (lib.strange.high, lib.strange.low) == (21, 0)


def test_views_keep_the_library_open(built, forked):
    path, folder = built
    out = forked(
        """
import gc, sys, nativecall as nc
lib = nc.load(sys.argv[1], header="variables.h", include=sys.argv[2])
grid, title, origin, corners, last = lib.grid, lib.title, lib.origin, lib.corners, lib.last
rows, letter, at = grid[1:], title[0:2], corners[1]
del lib, grid
gc.collect()
print(rows.tolist(), letter[1], origin.y, corners[1].x, nc.string(title))
del rows, letter, at, title, origin, corners
gc.collect()
print(last.y)
""",
        path,
        folder,
    )
    assert out == "[[4.0, 5.0, 6.0]] b't' 2.0 3.0 b'start'\n4.0\n"


def test_standard_streams(forked):
    out = forked(
        """
import nativecall as nc
c = nc.load("c", header=["stdio.h", "unistd.h"])
assert c.optind == 1
c.optind = 5
assert nc.load("c", "extern int optind;").optind == 5
c.fputs(b"to the stream\\n", c.stdout)
c.fflush(c.stdout)
"""
    )
    assert out == "to the stream\n"


def test_names_that_methods_have(lib, fails):
    lib["close"] = 13
    assert (lib["close"], lib["count"]) == (13, 3)
    lib["close"] = 12
    assert not lib.closed
    with fails(
        AttributeError,
        "'close' of a Library cannot be set; library['close'] = ... sets the C variable",
    ):
        lib.close = 5
    with fails(AttributeError, f"variable 'limit' of library {lib.name!r} is const"):
        lib["limit"] = 5
    with fails(TypeError, "a name of a library must be a str (got int)"):
        lib[5] = 5


# -- assignment ------------------------------------------------------------------------------------


def test_whole_arrays_are_assigned(either):
    either.grid = [[6, 5, 4], [3, 2, 1]]
    assert (either.sum(), either.grid[0, 0]) == (21, 6)
    either.grid = numpy.ones((2, 3))
    assert either.sum() == 6
    either.grid = ((1, 2, 3), array.array("d", [4, 5, 6]))
    assert either.sum() == 21
    either.title = b"ending"
    assert nc.string(either.title) == b"ending"
    either.title = b"start"
    assert b"".join(either.title) == b"start\0\0\0"
    either.corners = [{"x": 7}, (8, 9)]
    assert [(one.x, one.y) for one in either.corners] == [(7, 0), (8, 9)]
    either.corners = [(1, 2), (3, 4)]


def test_whole_structs_are_assigned(either):
    either.origin = {"x": 3, "next": {"x": 4.5}, "name": b"there"}
    gc.collect()
    assert (either.first(), either.origin.y, nc.string(either.origin.name)) == (4.5, 0, b"there")
    either.origin = either.ffi.new("point *", (6, 7))[0]
    assert (either.first(), either.origin.y) == (6.0, 7.0)
    either.origin = (1, 2, None, b"origin")
    assert (either.first(), nc.string(either.origin.name)) == (1.0, b"origin")


def test_members_that_are_functions(lib):
    lib.strange = {"n": {"f": 0.5}, "low": 5, "f": nc.callback("d:d", lambda x: x + 1)}
    gc.collect()
    assert (lib.call(2.0), lib.strange.n.f, lib.strange.low) == (3.0, 0.5, 5)
    lib.strange = {"f": lambda x: x * 10}
    gc.collect()
    assert lib.call(2.0) == 20.0


def test_function_pointers(lib):
    chosen = lib.chosen
    assert lib.ask(4) == chosen(4) == 8
    lib.chosen = nc.load("c", "int abs(int);").abs
    assert lib.ask(-4) == 4
    lib.chosen = chosen
    assert lib.ask(4) == 8


def test_pointers_to_text_are_assigned(lib, built, fails):
    lib.message = b"a longer message"
    gc.collect()
    assert (lib.letters(), lib.message) == (16, b"a longer message")
    wanted = "variable 'message' must be bytes, a pointer or None (got str); load the library with "
    with fails(TypeError, f"{wanted}an encoding for str"):
        lib.message = "text"
    path, folder = built
    encoded = nc.load(path, header="variables.h", include=folder, encoding="utf-8")
    for text in ("a\0b", "\0"):
        with pytest.raises(
            ValueError, match=r"^variable 'message' must not contain a null character, "
        ):
            encoded.message = text
    encoded.message = "größer"
    gc.collect()
    assert (encoded.message, encoded.letters(), lib.letters()) == ("größer", 8, 8)
    encoded.wide = "élan"
    gc.collect()
    assert encoded.wide == "élan"
    encoded.wide = "wïde"
    lib.message = None
    assert lib.message is None
    lib.message = b"ready"


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("limit", 1, AttributeError, "variable 'limit' of library .* is const$"),
        ("primes", [1, 2, 3, 4], AttributeError, "variable 'primes' of library .* is const$"),
        ("pole", (1, 2), AttributeError, "variable 'pole' of library .* is const$"),
        ("version", b"2", AttributeError, "variable 'version' of library .* is const$"),
        ("sum", 1, AttributeError, "'sum' is a function of library"),
        ("HIGH", 1, AttributeError, "'HIGH' is a constant of library"),
        ("nothing", 1, AttributeError, "library .* has no declared variable 'nothing'; only C"),
        ("grid", [[1, 2, 3]], ValueError, r"variable 'grid' has 2 items \(got 1\)$"),
        ("grid", [[1, 2, 3], [4]], ValueError, r"item 1 of variable 'grid' has 3 items \(got 1\)$"),
        ("grid", numpy.ones((2, 2)), ValueError, r"item 0 of variable 'grid' has 3 items"),
        ("grid", [[1, 2, 3], [4, 5, "6"]], TypeError, "item 2 of item 1 of variable 'grid'"),
        ("grid", 5, TypeError, r"variable 'grid' must be a list, a tuple or an array \(got int\)$"),
        ("raw", [1, 2, 3, 256], OverflowError, "item 3 of variable 'raw'"),
        ("title", b"much too long", ValueError, r"variable 'title' has 8 items \(got 13\)$"),
        ("origin", {"z": 1}, TypeError, "variable 'origin' has no field 'z'; "),
        ("origin", (1, 2, None, None, 5), TypeError, "variable 'origin' has 4 fields"),
        ("corners", [(1, 2), (3, "4")], TypeError, "field 'y' of item 1 of variable 'corners'"),
        (
            "samples",
            [1],
            TypeError,
            "variable 'samples' has no known length, so it cannot be assigned as a whole",
        ),
        ("count", 2**31, OverflowError, "variable 'count' is 2147483648, out of range"),
    ],
)
def test_what_does_not_fit_changes_nothing(lib, name, value, error, message):
    def state():
        title, origin = nc.string(lib.title), lib.origin
        path = [(one.x, one.y) for one in lib.corners]
        numbers = lib.count, lib.limit, lib.grid.tolist(), lib.raw.tolist(), lib.primes.tolist()
        return *numbers, title, origin.x, origin.y, path, lib.version

    before = state()
    with pytest.raises(error, match=f"^{message}"):
        setattr(lib, name, value)
    assert state() == before
