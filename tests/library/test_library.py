"""`nativecall.load`: libraries, their functions, constants and variables, and how they close."""

from __future__ import annotations

import copy
import ctypes
import gc
import math
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import nativecall as nc
from nativecall import _locate

DECLARATIONS = """
    typedef struct { double x, y; } Point;
    enum color { RED, GREEN = 5, BLUE };
    #define LIMIT 42
    double square(double x);
    Point add_points(Point a, Point b);
    extern int counter;
    extern const char greeting[6];
"""
SOURCE = """
    typedef struct { double x, y; } Point;
    double square(double x); Point add_points(Point a, Point b);
    int counter = 3; const char greeting[6] = "hello";
    double square(double x) { return x * x; }
    Point add_points(Point a, Point b) { return (Point){a.x + b.x, a.y + b.y}; }
    double square_root(double x) { return x / 2; }
"""


@pytest.fixture(scope="module")
def path(builder) -> Path:
    return builder.library(SOURCE, "small")


@pytest.fixture
def small(path):
    return nc.load(path, DECLARATIONS)


def test_a_name_as_a_linker_takes_it():
    m = nc.load("m", "double cos(double);")
    assert m.cos(0.5) == math.cos(0.5)
    assert m.name == "m"
    assert "libm" in m.path
    assert repr(m) == f"<library 'm' at {m.path!r}>"
    assert repr(nc.load(None)) == "<library of the process>"
    assert nc.load(None).name is None


@pytest.mark.parametrize("spell", [str, Path])
def test_paths(path, spell):
    assert nc.load(spell(path), "double square(double);").square(3) == 9.0


def test_declared_names_are_attributes(small):
    assert small.square(3.0) == 9.0
    assert small.square is small.square
    assert small.add_points((1, 2), (3, 4)) == (4.0, 6.0)
    assert (small.RED, small.GREEN, small.BLUE, small.LIMIT) == (0, 5, 6, 42)
    assert small.counter == 3
    assert small.greeting == b"hello"
    assert {"square", "add_points", "GREEN", "LIMIT", "counter", "function"} <= set(dir(small))


def test_declared_functions_know_their_declaration(small):
    assert small.square.__name__ == "square"
    assert small.square.__doc__ == "double square(double x)"
    assert small.square(x=2.0) == 4.0
    assert repr(small.square) == "<native callable double square(double x)>"
    assert repr(small.square.entries[0].owner).startswith("<symbol 'square' of ")


def test_function_with_a_signature(path):
    small = nc.load(path)
    f = small.function("square", "d:d", name="sq", doc="x squared", gil="release", errno=True)
    assert f(3) == 9.0
    assert (f.__name__, f.__doc__) == ("sq", "x squared")
    assert f.entries[0].gil == "release"
    assert small.function("square", "double (double)").signatures == ("d:d",)


def test_a_function_without_options_is_as_one_with_them(path):
    """The core makes the one, Python code the other."""
    library = nc.load(path)
    for text in ("d:d", "double (double x)", nc.wrap(1, "d:d")._cif.signature):
        plain, said = (library.function("square", text, **how) for how in ({}, {"gil": "hold"}))
        assert plain.entries == said.entries
        assert plain.__name__ == said.__name__ == "square"
        assert plain.__doc__ == said.__doc__
        assert plain.__signature__ == said.__signature__
        assert plain(3.0) == pickle.loads(pickle.dumps(plain))(3.0) == 9.0
        (owner,) = plain._owners
        assert (type(owner), owner.name) == (type(said._owners[0]), "square")
    process = nc.load(None)
    objects = process.function("PyNumber_Negative", "O:O")
    assert objects(3) == -3
    assert objects.entries[0].gil == "need", "what has Python objects is left to Python code"


def test_function_needs_a_signature(small, fails):
    assert small.function("square")(2) == 4.0
    with fails(TypeError, "'signature' must be given: 'square_root' is not declared"):
        small.function("square_root")
    assert small.function("square_root", "d:d")(8) == 4.0


def test_a_signature_that_contradicts_the_declaration(small, fails):
    with fails(nc.SignatureError, "'signature' is 'f:f', but 'square' is declared as 'd:d'"):
        small.function("square", "f:f")
    assert small.function("square", "double(double)")(2) == 4.0


@pytest.mark.parametrize(
    ("arguments", "options", "exception", "end"),
    [
        (("libm", "double cos(double);"), {}, nc.LibraryError, "; did you mean 'm'?"),
        (("libno_such.so",), {}, nc.LibraryError, "No such file or directory"),
        (
            ("double cos(double);", "m"),
            {},
            nc.SignatureError,
            "'m' declares nothing; the library comes first, as in load('m', 'double cos(double);')",
        ),
        (
            ("m", "double cos(dubl);"),
            {},
            nc.SignatureError,
            "declare it with typedef first; did you mean 'double'?",
        ),
        (
            ("m", "typedef int count_t; double cos(coun_t);"),
            {},
            nc.SignatureError,
            "declare it with typedef first; did you mean 'count_t'?",
        ),
        (
            ("m", "double cos(double); double sin(double);"),
            {"only": ["cos"]},
            nc.SymbolError,
            "'sin' of library 'm' has no declaration among those that only= names; "
            "add 'sin' there, or use function('sin', signature)",
        ),
    ],
)
def test_mistakes_in_loading_say_what_was_meant(arguments, options, exception, end):
    with pytest.raises(exception) as info:
        nc.load(*arguments, **options).sin
    assert str(info.value).endswith(end)


STRUCTS = """
typedef struct { unsigned char id[20]; } oid;
int memcmp(const oid *a, const void *b, size_t n);
void *memset(oid *a, int c, size_t n);
"""


@pytest.mark.parametrize(
    ("declarations", "call", "message"),
    [
        (
            STRUCTS,
            lambda lib: lib.memcmp((bytes(20),), None, 1),
            "argument 1 of 'memcmp' must be a 'const oid *' pointer: a buffer, a ctypes or cffi "
            "pointer, or None (got tuple); new('oid *', value) of the library allocates one",
        ),
        (
            STRUCTS,
            lambda lib: lib.memset({"id": bytes(20)}, 0, 1),
            "argument 1 of 'memset' must be a 'oid *' pointer: a buffer, a ctypes or cffi pointer, "
            "or None (got dict); new('oid *', value) of the library allocates one",
        ),
        (
            "double cos(double);",
            lambda lib: lib.cos(np.arange(3.0)),
            "argument 1 of 'cos' must be a real number (got an array of 1 dimension); "
            "to_ufunc() takes arrays if all arguments are numbers",
        ),
        (
            "int abs(int);",
            lambda lib: lib.abs(np.arange(3)),
            "argument 1 of 'abs' must be an integer (got an array of 1 dimension); "
            "to_ufunc() takes arrays if all arguments are numbers",
        ),
        (
            STRUCTS,
            lambda lib: lib.memset("text", 0, 1),
            "argument 1 of 'memset' must be a 'oid *' pointer: a buffer, a ctypes or cffi "
            "pointer, or None (got str)",
        ),
        (
            "void qsort(void *, size_t, size_t, int (*)(const void *, const void *));",
            lambda lib: lib.qsort("text", 1, 1, None),
            "argument 1 of 'qsort' must be a 'void *' pointer: a buffer, a ctypes or cffi pointer, "
            "or None (got str); a str is not a buffer, pass bytearray(s.encode())",
        ),
        (
            "void qsort(void *, size_t, size_t, int (*)(const void *, const void *));",
            lambda lib: lib.qsort(None, 0, 1, lib.new("int *")),
            "argument 4 of 'qsort' must be a function (got __CDataOwn)",
        ),
        (
            "wchar_t *wcscpy(wchar_t *, const wchar_t *);",
            lambda lib: lib.wcscpy("text", "text"),
            "argument 1 of 'wcscpy' must be a 'wchar_t *' pointer: a buffer, a ctypes or cffi "
            "pointer, or None (got str); new('wchar_t[]', value) of the library allocates one",
        ),
        (
            "wchar_t *wcscpy(wchar_t *, const wchar_t *);",
            lambda lib: lib.wcscpy({"a": 1}, "text"),
            "argument 1 of 'wcscpy' must be a 'wchar_t *' pointer: a buffer, a ctypes or cffi "
            "pointer, or None (got dict)",
        ),
        (
            "double _Complex csqrt(double _Complex);",
            lambda lib: lib.csqrt(np.zeros((2, 2))),
            "argument 1 of 'csqrt' must be a complex number (got an array of 2 dimensions); "
            "to_ufunc() takes arrays if all arguments are numbers",
        ),
    ],
)
def test_mistakes_in_calls_say_what_works(declarations, call, message, fails):
    lib = nc.load("m", declarations)
    with fails(TypeError, message):
        call(lib)


def test_missing_symbols_name_close_matches(path, small, fails):
    message = f"no symbol 'squar' in {str(path)!r}; did you mean 'square'?"
    with fails(nc.SymbolError, message) as info:
        nc.load(path, "double squar(double);")
    assert isinstance(info.value, AttributeError)
    assert (info.value.symbol, info.value.matches) == ("squar", ("square",))
    with pytest.raises(nc.SymbolError, match=r"^no symbol 'squar' in '.*'; did you mean 'square'"):
        small.function("squar", "d:d")
    with pytest.raises(nc.SymbolError, match=r"^no symbol 'squar' in '.*'; did you mean 'square'"):
        small.address("squar")
    with fails(nc.SymbolError, message):
        small.squar
    with fails(nc.SymbolError, f"no symbol 'zzzzz' in {str(path)!r}"):
        small.address("zzzzz")
    with fails(nc.SymbolError, "no symbol 'zzzzz_zzzzz' in the process"):
        nc.load(None).address("zzzzz_zzzzz")
    assert small.square(2) == 4.0


ALIKE = "double square(double x); double square_root(double x);"


def test_functions_that_are_declared_alike_share_what_is_known_of_them(path, fails):
    """The core makes the second one, without a step of Python code."""
    alike = nc.load(path, ALIKE)
    assert "square_root" not in vars(alike)
    assert alike.square(3) == 9.0
    assert alike.square_root(3) == 1.5
    assert alike.square._cif is alike.square_root._cif
    assert vars(alike)["square_root"] is alike.square_root is alike["square_root"]
    assert alike.square_root.__name__ == "square_root"
    assert alike.square_root._owners[0].name == "square_root"
    other = nc.load(path, ALIKE)
    assert other.square(3) == 9.0
    other.close()
    with fails(nc.LibraryError, f"library {str(path)!r} is closed; load it again"):
        other.square_root
    assert other.square(3) == 9.0


def test_symbols_without_declaration_say_what_to_do(small, path, fails):
    with fails(
        nc.SymbolError,
        f"'square_root' of library {str(path)!r} has no declaration; "
        "use function('square_root', signature)",
    ):
        small.square_root
    assert not hasattr(small, "square_root")
    assert not hasattr(small, "__array__")
    assert small.square(2) == 4.0


@pytest.mark.parametrize("symbol", ["", "square\0", "na\u00efve", "a b"])
def test_odd_symbols(small, symbol):
    with pytest.raises(nc.SymbolError, match=r"^no symbol "):
        small.address(symbol)
    assert small.square(2) == 4.0


@pytest.mark.parametrize("symbol", [None, 5, b"square"])
def test_symbols_are_text(small, fails, symbol):
    with fails(TypeError, f"'symbol' must be a str (got {type(symbol).__name__})"):
        small.address(symbol)
    with pytest.raises(TypeError):
        small.function(symbol, "d:d")
    assert small.square(2) == 4.0


def test_missing_libraries(fails):
    with pytest.raises(
        nc.LibraryError, match=r"^library 'no_such_library' cannot be loaded: .*no_such_library"
    ) as info:
        nc.load("no_such_library")
    assert isinstance(info.value, OSError)
    with pytest.raises(
        nc.LibraryError, match=r"^library '/nowhere/libx.so' cannot be loaded: .*/nowhere/libx.so"
    ):
        nc.load("/nowhere/libx.so", "double f(double);")
    with fails(nc.LibraryError, "'name' must be the name of a library (got '')"):
        nc.load("")
    with fails(nc.LibraryError, r"'name' must be the name of a library (got 'm\x00')"):
        nc.load("m\0")


def test_a_file_that_is_no_library(tmp_path):
    path = tmp_path / "text.so"
    path.write_text("not a library")
    with pytest.raises(nc.LibraryError, match=r"cannot be loaded: .*text\.so"):
        nc.load(path)


@pytest.mark.parametrize("name", [5, b"m", ["m"]])
def test_names_are_text_or_paths(name):
    with pytest.raises(TypeError):
        nc.load(name)


@pytest.mark.parametrize("declarations", [5, b"double cos(double);", ["double cos(double);"]])
def test_declarations_are_text(fails, declarations):
    with fails(TypeError, f"'declarations' must be a str (got {type(declarations).__name__})"):
        nc.load("m", declarations)


def test_closed_libraries(path, fails):
    small = nc.load(path, DECLARATIONS)
    square = small.square
    with small as same:
        assert same is small
        assert not small.closed
    assert small.closed
    message = f"library {str(path)!r} is closed; load it again"
    for use in (
        lambda: small.function("square", "d:d"),
        lambda: small.address("square"),
        lambda: small.add_points,
        lambda: small.counter,
    ):
        with fails(nc.LibraryError, message):
            use()
    assert square(3) == small.square(3) == 9.0, "what was found stays usable"
    assert small.GREEN == 5
    assert repr(small).startswith("<closed library ")
    small.close()
    assert nc.load(path, DECLARATIONS).add_points((1, 2), (3, 4)) == (4.0, 6.0)


THREAD = """
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static void handler(int number) { (void)number; }
static void *work(void *data) { usleep(100000); return data; }
int begin(void)
{
    pthread_t thread;
    signal(SIGUSR1, handler);
    return pthread_create(&thread, NULL, work, NULL) == 0 && pthread_detach(thread) == 0;
}
"""


def test_a_library_is_never_unloaded(builder, forked):
    """Its threads and signal handlers run on."""
    path = builder.library(THREAD, "threaded", flags=("-O1", "-pthread"))
    code = """
import gc, os, signal, sys, time
import nativecall as nc
nc.load(sys.argv[1], "int begin(void);").begin()
gc.collect()
os.kill(os.getpid(), signal.SIGUSR1)
time.sleep(0.2)
print("alive")
"""
    assert forked(code, path) == "alive\n"


def test_interpreter_exit_with_open_libraries(forked, path):
    code = (
        "import sys, nativecall as nc\n"
        "small = nc.load(sys.argv[1], 'double square(double);')\n"
        "f = small.square; g = f.builtin; sys.f = f; sys.g = nc.load('m').function('cos', 'd:d')\n"
        "print(f(3), g(2))\n"
    )
    assert forked(code, path) == "9.0 4.0\n"


def test_copies_of_a_library_are_the_library(callees, forked):
    lib = nc.load(callees, "double square(double);")
    assert copy.copy(lib) is lib
    assert copy.deepcopy(lib) is lib
    entries = copy.deepcopy(lib.square.entries)
    assert entries == lib.square.entries
    # A second handle would close the library under the first one.
    out = forked(
        """
import copy, gc, pickle, sys, nativecall as nc
lib = nc.load(sys.argv[1], "double square(double);")
f = lib.square
others = [copy.copy(lib), copy.deepcopy(lib), copy.deepcopy(f.entries)]
others.append(pickle.loads(pickle.dumps(lib)))
while others:
    others.pop()
    gc.collect()
print(f(3.0))
""",
        callees,
    )
    assert out == "9.0\n"


def test_a_library_travels_by_name(callees, fails):
    lib = pickle.loads(pickle.dumps(nc.load(callees, "double square(double);")))
    assert lib.square(2.0) == 4.0
    symbol = lib.square.entries[0].owner
    with fails(TypeError, f"cannot pickle {symbol!r}; pickle the function that it owns"):
        pickle.dumps(symbol)
    lib.close()
    with fails(nc.LibraryError, f"library {str(callees)!r} is closed; load it again"):
        pickle.dumps(lib)


def test_finalisers_of_a_cycle_may_still_call(callees, forked):
    out = forked(
        """
import gc, sys, nativecall as nc
class Last:
    def __del__(self):
        print(self.f(2.0))
        kept.append(self.f)
kept = []
def make():
    last = Last()
    last.f = nc.load(sys.argv[1]).function("square", "d:d")
    last.me = last
make()
gc.collect()
print(kept[0](3.0))
""",
        callees,
    )
    assert out == "4.0\n9.0\n"


VARIABLES = """
    typedef double fn(double);
    extern double *xs; extern fn *hook;
    double use(double x); double first(void);
"""
WITH_VARIABLES = """
    double *xs; double (*hook)(double);
    double use(double x) { return hook ? hook(x) : -1; }
    double first(void) { return xs ? xs[0] : -1; }
"""


@pytest.fixture
def variables(builder):
    return nc.load(builder.library(WITH_VARIABLES, "variables"), VARIABLES)


def test_pointers_that_are_c_variables(variables):
    import array

    variables.xs = array.array("d", [4.5, 1.0])
    gc.collect()
    assert variables.first() == 4.5
    assert variables.xs[1] == 1.0
    variables.xs = None
    assert (variables.first(), variables.xs) == (-1.0, None)


def test_functions_that_are_c_variables(variables, fails):
    variables.hook = nc.load("m", "double sqrt(double);").sqrt
    gc.collect()
    assert variables.use(4.0) == 2.0
    variables.hook = nc.callback("d:d", lambda x: x + 1)
    gc.collect()
    assert variables.use(4.0) == 5.0
    with fails(
        TypeError,
        "variable 'hook' must be a C function that stays alive (got function); make one with "
        "nativecall.callback('d:d', function)",
    ):
        variables.hook = lambda x: x
    with pytest.raises(TypeError, match=r"^variable 'hook' must be a function 'd:d'"):
        variables.hook = nc.load("m", "double pow(double, double);").pow
    assert variables.use(4.0) == 5.0
    variables.hook = nc.load("m", "float sqrtf(float);").sqrtf
    gc.collect()
    assert variables.use(4.0) == 2.0
    variables.hook = None
    assert variables.use(4.0) == -1.0


def test_an_assignment_without_a_declaration_is_refused(path, fails):
    lib = nc.load(path)
    with fails(
        AttributeError,
        f"library {str(path)!r} has no declared variable 'counter'; only C variables can be set, "
        "declare 'extern int x;'",
    ):
        lib.counter = 7
    with fails(AttributeError, "'close' of a Library cannot be deleted"):
        del lib.close
    lib.close()
    with fails(nc.LibraryError, f"library {str(path)!r} is closed; load it again"):
        lib.counter = 7


def test_only_load_makes_libraries(fails):
    for handle in (5, None, ctypes.c_int(5), object()):
        with fails(TypeError, "a Library is made by nativecall.load(name, declarations)"):
            nc.Library("x", handle, None, None, None)
    with fails(TypeError, "a Library is made by nativecall.load(name, declarations)"):
        nc.Library("x")


def test_what_owns_a_function_is_immutable(small):
    owner = small.square.entries[0].owner
    for name in ("handle", "library", "name"):
        with pytest.raises(AttributeError):
            setattr(owner, name, None)
        with pytest.raises(AttributeError):
            delattr(owner, name)
    with pytest.raises(TypeError, match="cannot create"):
        type(owner.handle)()
    assert small.square(3) == 9.0


def test_a_declared_name_that_a_library_hides_is_told():
    with pytest.warns(UserWarning, match=r"'close' is hidden by Library\.close; use function"):
        lib = nc.load(None, "int close(int fd);")
    assert lib.function("close", errors="none")(-1) == -1
    with pytest.warns(UserWarning, match=r"variable 'name' is hidden by Library\.name; use"):
        nc.load(None, "extern int name;")


def test_functions_with_much_by_value_are_refused_when_they_are_called():
    text = """
        typedef struct { double numbers[40000]; } Large;
        double sin(Large s);
        double tan(double (*f)(Large), double x);
        double cos(double x);
        Large *exp(Large *p);
    """
    lib = nc.load("m", text)
    assert lib.cos(0.0) == 1.0
    assert lib.exp.signatures == ("&T{(40000)d}:&T{(40000)d}",)
    with pytest.raises(nc.SignatureError, match="320008 bytes by value are more than"):
        lib.sin([[0.0] * 40000])


def test_names_that_no_file_system_has(fails):
    reason = repr("\ud800/x") + " is not a file name"
    with fails(nc.LibraryError, f"library {reason.split(' ')[0]} cannot be loaded: {reason}"):
        nc.load("\ud800/x")
    with pytest.raises(nc.SymbolError):
        nc.load("m").address("\ud800")


def test_an_uninitialised_library_has_nothing(fails):
    with fails(nc.LibraryError, "the library of the process is closed; load it again"):
        _ = nc.Library.__new__(nc.Library).x


VERSIONED = """
    int first(void); int second(void); int first(void) { return 1; } int second(void) { return 2; }
    __asm__(".symver first, answer@ONE"); __asm__(".symver second, answer@@TWO");
"""


@pytest.fixture(scope="module")
def versioned(builder, tmp_path_factory) -> nc.Library:
    """A library with two versions of a symbol."""
    if not sys.platform.startswith("linux"):
        pytest.skip("no versions of symbols")
    script = tmp_path_factory.mktemp("versioned") / "versions"
    script.write_text("ONE { global: answer; local: *; }; TWO { global: answer; } ONE;")
    path = builder.library(VERSIONED, "versioned", flags=["-O1", f"-Wl,--version-script={script}"])
    return nc.load(path, "int answer(void);")


def test_versions_of_symbols(versioned):
    assert versioned.answer() == 2
    old = versioned.function("answer", version="ONE")
    assert (old(), versioned.function("answer", version="TWO")()) == (1, 2)
    assert pickle.loads(pickle.dumps(old))() == 1
    assert versioned.address("answer", "ONE") == old.address()


def test_versions_by_name(versioned, fails):
    for said in ({"answer": "ONE"}, {"ans*": "ONE"}, "ONE"):
        old = nc.load(versioned.path, "int answer(void);", version=said)
        assert (old.answer(), old.function("answer", version="TWO")()) == (1, 2)
        assert pickle.loads(pickle.dumps(old)).answer() == 1
    with fails(TypeError, "'version' must be a str (got int) for 'answer'"):
        nc.load(versioned.path, version={"answer": 1})


@pytest.mark.parametrize("version", ["THREE", "ONE\0", ""])
def test_versions_that_are_not_there(versioned, fails, version):
    with fails(nc.SymbolError, f"symbol 'answer' of {versioned.name!r} has no version {version!r}"):
        versioned.function("answer", version=version)
    with pytest.raises(nc.SymbolError, match=r"^no symbol 'answe' in .*; did you mean 'answer'"):
        versioned.address("answe", version)


def test_versions_are_text(versioned, fails):
    with fails(TypeError, "'version' must be a str (got int)"):
        versioned.function("answer", version=1)


def test_flags_of_the_loader(builder, forked):
    lazy = builder.library(
        "int nowhere(void); int use(int x) { return x ? nowhere() : 5; }", "lazy"
    )
    user = builder.library("int shared(void); int use(void) { return shared(); }", "user")
    shared = builder.library("int shared(void) { return 7; }", "shared")
    out = forked(
        """
import os, pickle, sys, nativecall as nc
lazy, user, shared = sys.argv[1:]
with_lazy = nc.load(lazy, "int use(int);", flags=os.RTLD_LAZY)
print(with_lazy.use(0), pickle.loads(pickle.dumps(with_lazy)).use(0))
nc.load(shared)
try:
    nc.load(user)
except nc.LibraryError as error:
    print("undefined symbol: shared" in str(error))
kept = nc.load(shared, flags=os.RTLD_GLOBAL)
print(nc.load(user, "int use(void);").use())
""",
        lazy,
        user,
        shared,
    )
    assert out == "5 5\nTrue\n7\n"


@pytest.mark.parametrize(
    ("flags", "error", "message"),
    [
        ("now", TypeError, "'flags' must be an int (got str)"),
        (-1, ValueError, "'flags' must be flags of the loader, as os.RTLD_LAZY is (got -1)"),
        (
            1 << 31,
            ValueError,
            f"'flags' must be flags of the loader, as os.RTLD_LAZY is (got {1 << 31})",
        ),
    ],
)
def test_flags_that_are_none(path, fails, flags, error, message):
    with fails(error, message):
        nc.load(path, flags=flags)


def test_folders_where_libraries_are_looked_for(path, tmp_path, fails):
    (tmp_path / "libsmall.so").write_bytes(path.read_bytes())
    for folders in (tmp_path, str(tmp_path), [tmp_path / "none", tmp_path]):
        lib = nc.load("small", "double square(double);", folders=folders)
        assert (lib.square(3.0), lib.path) == (9.0, str(tmp_path / "libsmall.so"))
    assert pickle.loads(pickle.dumps(lib)).square(3.0) == 9.0
    assert "libm" in nc.load("m", folders=tmp_path).path
    for folders in (5, [5]):
        with fails(TypeError, "'folders' must be a path or several (got int)"):
            nc.load("m", folders=folders)


@pytest.mark.skipif(sys.platform != "linux", reason="texts for the linker stand for libraries")
def test_a_text_for_the_linker_leads_to_its_library(tmp_path, monkeypatch):
    file = nc.load("m").path
    script = tmp_path / "libscripted.so"
    script.write_text(
        f"/* GNU ld script */\nGROUP ( {tmp_path}/x.a {file} AS_NEEDED ( y.so.1 ) )\n"
    )
    monkeypatch.setattr(_locate, "_searched", lambda name: None)
    for name in (str(script), "scripted"):
        found = nc.load(name, "double cos(double);", folders=[tmp_path])
        assert (found.path, found.cos(0.0)) == (file, 1.0)
    script.write_text("INPUT ( -lm static.a )\n")
    with pytest.raises(nc.LibraryError, match="libscripted"):
        nc.load(str(script))


ENDING = """
import nativecall as nc

lib = nc.load(None, "typedef struct _IO_FILE FILE; FILE *tmpfile(void); int fclose(FILE *);")


class File:
    def __init__(self):
        self.pointer = lib.tmpfile()

    def __del__(self):
        lib.fclose(self.pointer)


kept = File()
kept.me = kept
"""


def test_finalizers_at_the_end_of_python_may_call(python):
    assert python(ENDING) == ""  # nothing on stderr, either
