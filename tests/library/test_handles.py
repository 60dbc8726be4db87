"""`free=` and `close=`: what functions give for the caller to free or close."""

import gc
import pickle

import pytest

import nativecall as nc
from support.threads import each

DECLARED = """
typedef struct box box;
box *box_open(int);
int box_close(box *);
int box_close_later(box *, int);
int box_number(box *);
int box_open_into(box **, int);
int box_open_badly(box **, int);
int box_close_quietly(box *);
int closings(void);
int text_copy_badly(char **, const char *);
box *box_same(box *);
char *text_copy(const char *);
const char *text_constant(void);
void text_free(void *);
int freed(void);
int add(int, int);
char *text_errno(const char *, int);
box *box_errno(int, int);
char *text_argument(const char *, int, int *);
char *text_through(const char *, int (*)(int), int);
char *text_and_number(const char *, int (*)(int), int, int *);
box *box_through(int (*)(int), int);
box *box_again(box *, int (*)(int));
"""
SOURCE = """
#include <errno.h>
#include <stdlib.h>
#include <string.h>
typedef struct box { int number; } box;
static int count;
box *box_open(int n) { box *b = malloc(sizeof *b); b->number = n; return n ? b : (free(b), NULL); }
int box_close(box *b) { int n = b->number; if (n < 0) return 5; free(b); return 0; }
int box_close_later(box *b, int when) { return box_close(b) + when; }
int box_number(box *b) { return b->number; }
int box_open_into(box **out, int n) { *out = box_open(n); return n ? 0 : 7; }
static int closed;
int box_close_quietly(box *b) { closed++; free(b); return 0; }
int closings(void) { return closed; }
int box_open_badly(box **out, int n) { *out = n ? box_open(n) : NULL; return 14; }
int text_copy_badly(char **out, const char *t) { *out = strdup(t); return 1; }
box *box_same(box *b) { return b; }
char *text_copy(const char *t) { return strdup(t); }
const char *text_constant(void) { return "constant"; }
void text_free(void *t) { count++; free(t); }
int freed(void) { return count; }
int add(int a, int b) { return a + b; }
char *text_errno(const char *t, int e) { char *s = strdup(t); errno = e; return s; }
box *box_errno(int n, int e) { box *b = box_open(n); errno = e; return b; }
char *text_argument(const char *t, int e, int *how) { *how = e; return strdup(t); }
char *text_through(const char *t, int (*f)(int), int n) { f(n); return strdup(t); }
char *text_and_number(const char *t, int (*f)(int), int n, int *out)
{ *out = 7; f(n); return strdup(t); }
box *box_through(int (*f)(int), int n) { f(n); return box_open(n); }
box *box_again(box *b, int (*f)(int)) { int n = b->number; free(b); f(n); return box_open(n); }
"""
CLOSED = r"^argument {} of '{}' was already freed or closed by '{}'$"


@pytest.fixture(scope="module")
def path(builder):
    return builder.library(SOURCE, "handles")


@pytest.fixture
def lib(path):
    return nc.load(
        path,
        DECLARED,
        free={"text_copy": "text_free"},
        close={"box_open*": ["box_close", "box_close_later"]},
    )


def refused(place, function, closer):
    return pytest.raises(ValueError, match=CLOSED.format(place, function, closer))


# -- free ----------------------------------------------------------------------------------------


def test_what_is_returned_is_freed_with_its_object(lib):
    before = lib.freed()
    text = lib.text_copy(b"some text")
    assert lib.ffi.string(text) == b"some text"
    assert lib.freed() == before
    same = lib.ffi.cast("char *", text)
    del text
    gc.collect()
    assert lib.freed() == before + 1
    del same
    for _ in range(100):
        lib.text_copy(b"more")
    assert lib.freed() == before + 101


def test_freeing_it_oneself_takes_it_from_the_object(lib):
    before = lib.freed()
    text = lib.text_copy(b"text")
    lib.text_free(text)
    assert lib.freed() == before + 1
    for _ in range(3):
        with refused(1, "text_free", "text_free"):
            lib.text_free(text)
    with refused(1, "text_copy", "text_free"):
        lib.text_copy(text)
    del text
    gc.collect()
    assert lib.freed() == before + 1
    released = lib.text_copy(b"text")
    lib.ffi.release(released)
    assert lib.freed() == before + 2
    with refused(1, "text_free", "ffi.release"):
        lib.text_free(released)
    del released
    gc.collect()
    assert lib.freed() == before + 2


def test_a_callable_frees(path):
    seen = []
    lib = nc.load(path, DECLARED, free={"text_copy": seen.append})
    text = lib.text_copy(b"a")
    address = int(lib.ffi.cast("intptr_t", text))
    del text
    gc.collect()
    assert [int(lib.ffi.cast("intptr_t", one)) for one in seen] == [address]
    lib.text_free(seen.pop())
    free = lib.text_free
    before = lib.freed()
    nc.load(path, DECLARED).function("text_copy", free=free)(b"b")
    gc.collect()
    assert lib.freed() == before + 1


def test_only_null_is_not_freed(path):
    seen = []
    lib = nc.load(path, DECLARED, free={"box_open": seen.append})
    assert lib.box_open(0) is None
    assert seen == []


# -- close ---------------------------------------------------------------------------------------


def test_a_handle_is_refused_after_it_was_closed(lib):
    box = lib.box_open(3)
    assert lib.box_number(box) == 3
    assert lib.box_close(box) == 0
    for _ in range(3):
        with refused(1, "box_number", "box_close"):
            lib.box_number(box)
    with refused(1, "box_close", "box_close"):
        lib.box_close(box)
    with refused(1, "box_close_later", "box_close"):
        lib.box_close_later(box, 1)
    other = lib.box_open(4)
    assert lib.box_number(other) == 4
    assert lib.box_close_later(other, 2) == 2
    with refused(1, "box_number", "box_close_later"):
        lib.box_number(other)


def test_memory_takes_no_handle_that_was_closed(lib):
    box = lib.box_open(3)
    assert lib.box_number(lib.new("box *[1]", [box])[0]) == 3
    lib.box_close(box)
    message = "^item 0 of 'struct box \\*.1.' was already freed or closed by 'box_close'$"
    with pytest.raises(ValueError, match=message):
        lib.new("box *[1]", [box])
    held = nc.load(None, "typedef struct { void *held; } holder;")
    with pytest.raises(
        ValueError, match=r"^field 'held' of 'holder' was already freed or closed by 'box_close'"
    ):
        held.new("holder", {"held": box})


def test_what_was_freed_or_closed_is_not_read(lib):
    text, box = lib.text_copy(b"text"), lib.box_open(3)
    assert (nc.string(text), lib.asarray(text, 4)[0]) == (b"text", ord("t"))
    lib.text_free(text)
    lib.box_close(box)
    for read in (nc.string, lambda text: nc.string(text, "utf-8")):
        with pytest.raises(
            ValueError, match=r"^'pointer' was already freed or closed by 'text_free'"
        ):
            read(text)
    for closed in (text, box):
        with pytest.raises(
            ValueError, match=r"^'value' was already freed or closed by '(text_free|box_close)'"
        ):
            lib.asarray(closed)


def test_other_objects_of_the_address_are_not_known(lib):
    boxes = [lib.box_open(number) for number in range(1, 50)]
    for box in boxes:
        assert lib.box_close(box) == 0
    again = [lib.box_open(number) for number in range(1, 50)]
    assert [lib.box_number(box) for box in again] == [*range(1, 50)]
    for box in boxes:
        with refused(1, "box_number", "box_close"):
            lib.box_number(box)
    for box in again:
        lib.box_close(box)


def test_a_call_that_raises_closes_nothing(path):
    lib = nc.load(
        path,
        DECLARED,
        close={"box_open": "box_close"},
        errors={"box_close": "nonzero"},
    )
    box = lib.box_open(-3)
    with pytest.raises(nc.NativeFailure):
        lib.box_close(box)
    assert lib.box_number(box) == -3
    fine = lib.box_open(3)
    assert lib.box_close(fine) == 0
    with refused(1, "box_number", "box_close"):
        lib.box_number(fine)
    lib.text_free(box)


def test_nothing_is_closed_with_the_object(lib):
    box = lib.box_open(5)
    address = int(lib.ffi.cast("intptr_t", box))
    del box
    gc.collect()
    bare = lib.ffi.cast("box *", address)
    assert lib.box_number(bare) == 5
    assert lib.box_close(bare) == 0  # an object that no function gave is not known


def test_handles_among_results(path):
    lib = nc.load(
        path,
        DECLARED,
        out={"box_open_into": [0]},
        close={"box_open_into": "box_close"},
    )
    status, box = lib.box_open_into(6)
    assert (status, lib.box_number(box)) == (0, 6)
    assert lib.ffi.typeof(box) is lib.ffi.typeof("box *")
    assert lib.box_close(box) == 0
    with refused(1, "box_number", "box_close"):
        lib.box_number(box)
    assert lib.box_open_into(0) == (7, None)


def test_checks_see_handles(path):
    seen = []

    def check(result, function, values):
        seen.append((function.__name__, values))
        return result

    lib = nc.load(path, DECLARED, close={"box_open": "box_close"}, check={"box_*": check})
    box = lib.box_open(7)
    assert lib.box_close(box) == 0
    assert [name for name, _ in seen] == ["box_open", "box_close"]
    with refused(1, "box_number", "box_close"):
        lib.box_number(box)


def test_one_function_says_so(path):
    lib = nc.load(path, DECLARED)
    before = lib.box_close
    opened = lib.function("box_open", close="box_close")
    box = opened(8)
    assert lib.box_close(box) == 0
    assert lib.box_close is not before
    with refused(1, "box_number", "box_close"):
        lib.box_number(box)
    count = lib.freed()
    copied = lib.function("text_copy", free="text_free")
    text = copied(b"x")
    lib.text_free(text)
    del text
    gc.collect()
    assert lib.freed() == count + 1
    bare = nc.load(path)
    text = bare.function("text_copy", "char *(const char *)", free="text_free")(b"y")
    bare.function("text_free", "void (void *)")(text)
    with refused(1, "text_free", "text_free"):
        bare.function("text_free", "void (void *)")(text)
    assert bare.function("freed", "int (void)")() == count + 2


def test_all_that_return_pointers(path):
    seen = []
    lib = nc.load(path, DECLARED, free=seen.append)
    assert lib.add(1, 2) == 3
    assert lib.text_constant() == b"constant"
    box = lib.box_open(9)
    del box
    gc.collect()
    assert len(seen) == 1
    lib.box_close(seen[0])


def test_threads_close_once(lib):
    for _ in range(20):
        box = lib.box_open(10)

        def close(box):
            try:
                return lib.box_close(box)
            except ValueError:
                return None

        assert sorted(each(close, *[box] * 4), key=str) == [0, None, None, None]


def test_libraries_and_functions_are_pickled_with_it(lib):
    again = pickle.loads(pickle.dumps(lib))
    box = again.box_open(3)
    again.box_close(box)
    with refused(1, "box_number", "box_close"):
        again.box_number(box)
    opened = pickle.loads(pickle.dumps(lib.box_open))
    box = opened(4)
    lib.box_close(box)
    with refused(1, "box_number", "box_close"):
        lib.box_number(box)


# -- what is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        (
            {"free": 5},
            TypeError,
            r"^'free' must be the name .* callable \(got int\)$",
        ),
        ({"free": {"a": ""}}, TypeError, "^'free' must be .* for 'a'$"),
        (
            {"close": 5},
            TypeError,
            r"^'close' must be the name .* several \(got int\)$",
        ),
        ({"close": []}, TypeError, "^'close' must be"),
        ({"close": [5]}, TypeError, r"^'close' must be the names of functions \(got 5\)$"),
        ({"close": {5: "box_close"}}, TypeError, "^'close' maps names of functions to values"),
    ],
)
def test_values_that_are_wrong(path, how, error, message):
    with pytest.raises(error, match=message):
        nc.load(path, DECLARED, **how)
    if not isinstance(next(iter(how.values())), dict):
        with pytest.raises(error, match=message):
            nc.load(path, DECLARED).function("box_open", **how)


def test_functions_that_do_not_fit(path):
    lib = nc.load(path, DECLARED)
    with pytest.raises(nc.SymbolError, match=r"no symbol 'text_fre' .* did you mean 'text_free'"):
        lib.function("text_copy", free="text_fre")
    with pytest.raises(ValueError, match="'free' is for functions that return pointers; 'add' is"):
        lib.function("add", free="text_free")
    shown = r"'const char \*text_constant\(void\)'"
    with pytest.raises(ValueError, match=f"'text_constant' is {shown}, which returns text"):
        lib.function("text_constant", free="text_free")
    with pytest.raises(ValueError, match="can be freed or closed, not both"):
        lib.function("box_open", free="text_free", close="box_close")
    with pytest.raises(ValueError, match="with only the pointer, but 'box_close_later' is"):
        lib.function("box_open", free="box_close_later")
    with pytest.raises(ValueError, match="and 'out' names none of its pointers to pointers"):
        nc.load("m").function("frexp", "double (double, int *e)", out=[1], free="text_free")
    lib = nc.load(path, DECLARED, out={"box_open_into": 0}, close={"box_open": "box_open_into"})
    with pytest.raises(ValueError, match=r"cannot free or close one: .* are out-parameters$"):
        lib.function("box_open_into")
    lib = nc.load(path, DECLARED, close={"box_open": "add"})
    for name in ("add", "box_open"):
        with pytest.raises(
            ValueError, match="'add' takes no pointer, so it cannot free or close on"
        ):
            getattr(lib, name)
    with pytest.raises(ValueError, match="'add' takes no pointer, so it cannot free or close one"):
        lib.function("text_copy", free="add")


# -- calls that raise ------------------------------------------------------------------------------


@pytest.fixture
def failing(path):
    return nc.load(
        path,
        DECLARED,
        errors={"*_badly": "nonzero"},
        out={"*_badly": [0]},
        free={"text_copy_badly": "text_free"},
        close={"box_open*": ["box_close_later", "box_close_quietly"]},
    )


def test_what_a_failing_call_gave_is_freed_with_the_exception(failing):
    before = failing.freed()
    with pytest.raises(nc.NativeFailure) as info:
        failing.text_copy_badly(b"text")
    assert failing.ffi.string(info.value.out) == b"text"
    assert failing.freed() == before
    del info
    gc.collect()
    assert failing.freed() == before + 1
    for _ in range(10):
        with pytest.raises(nc.NativeFailure):
            failing.text_copy_badly(b"text")
    gc.collect()
    assert failing.freed() == before + 11


def test_a_handle_of_a_failing_call_is_closed_with_the_exception(failing):
    """By the first function that takes the handle alone."""
    before = failing.closings()
    with pytest.raises(nc.NativeFailure) as info:
        failing.box_open_badly(3)
    assert failing.box_number(info.value.out) == 3
    assert failing.closings() == before
    del info
    gc.collect()
    assert failing.closings() == before + 1
    with pytest.raises(nc.NativeFailure) as info:
        failing.box_open_badly(3)
    failing.box_close_quietly(info.value.out)
    with refused(1, "box_number", "box_close_quietly"):
        failing.box_number(info.value.out)
    del info
    gc.collect()
    assert failing.closings() == before + 2


def test_what_is_called_wrongly_gives_nothing(failing):
    before = failing.closings()
    with pytest.raises(nc.NativeFailure) as info:
        failing.box_open_badly(0)
    assert info.value.out is None
    for wrong in ((), (1, 2), ("1",)):
        with pytest.raises(TypeError, match="box_open_badly"):
            failing.box_open_badly(*wrong)
    del info
    gc.collect()
    assert failing.closings() == before


class Wrong(Exception):
    """What Python code raises here."""


def wrong(*_):
    raise Wrong


FAILING = [
    # errno, the argument that says how the call ended, and what a Python function raises
    ("text_errno", (b"text", 13), {"errors": {"text_errno": "errno"}}, PermissionError),
    ("text_argument", (b"text", 13), {"errors": {"text_argument": "argument"}}, nc.NativeFailure),
    ("text_through", (b"text", wrong, 3), {}, Wrong),
    ("text_through", (b"text", wrong, 3), {"gil": {"text_through": "release"}}, Wrong),
    ("text_through", (b"text", wrong, 3), {"errors": {"text_through": "errno"}}, Wrong),
    ("text_through", (b"text", wrong, 3), {"keep": {"text_through": "library"}}, Wrong),
    ("text_copy", (b"text",), {"check": {"text_copy": wrong}}, Wrong),
    ("text_through", (b"text", abs, 3), {"check": {"text_through": wrong}}, Wrong),
]


@pytest.mark.parametrize(("name", "values", "how", "error"), FAILING)
def test_the_result_of_a_call_that_raises_is_freed_with_the_exception(
    path, name, values, how, error
):
    lib = nc.load(path, DECLARED, free={name: "text_free"}, **how)
    before = lib.freed()
    for _ in range(3):
        with pytest.raises(error) as info:
            getattr(lib, name)(*values)
        assert lib.ffi.string(info.value.out) == b"text"
        assert lib.freed() == before
        del info
        gc.collect()
        before += 1
        assert lib.freed() == before
    with pytest.raises(error) as info:
        getattr(lib, name)(*values)
    lib.text_free(info.value.out)
    with refused(1, "text_free", "text_free"):
        lib.text_free(info.value.out)
    del info
    gc.collect()
    assert lib.freed() == before + 1


@pytest.mark.parametrize(
    ("name", "values", "how", "error"),
    [
        ("box_errno", (3, 13), {"errors": {"box_errno": "errno"}}, PermissionError),
        ("box_through", (wrong, 3), {}, Wrong),
        ("box_open", (3,), {"check": {"box_open": wrong}}, Wrong),
    ],
)
def test_a_handle_of_a_call_that_raises_is_closed_with_the_exception(
    path, name, values, how, error
):
    lib = nc.load(path, DECLARED, close={name: ["box_close_later", "box_close_quietly"]}, **how)
    before = lib.closings()
    for _ in range(3):
        with pytest.raises(error) as info:
            getattr(lib, name)(*values)
        assert lib.box_number(info.value.out) == 3
        assert lib.closings() == before
        del info
        gc.collect()
        before += 1
        assert lib.closings() == before
    with pytest.raises(error) as info:
        getattr(lib, name)(*values)
    lib.box_close_quietly(info.value.out)
    del info
    gc.collect()
    assert lib.closings() == before + 1


def test_a_check_that_raises_may_have_closed_or_kept_the_handle(path):
    kept = []

    def closes(box, *_):
        lib.box_close_quietly(box)
        raise Wrong

    def keeps(box, *_):
        kept.append(box)
        raise Wrong

    lib = nc.load(path, DECLARED)
    before = lib.closings()
    with pytest.raises(Wrong):
        lib.function("box_open", close="box_close_quietly", check=closes)(3)
    gc.collect()
    assert lib.closings() == before + 1
    with pytest.raises(Wrong):
        lib.function("box_open", close="box_close_quietly", check=keeps)(3)
    gc.collect()
    assert lib.box_number(kept[0]) == 3
    assert lib.closings() == before + 1
    kept.clear()
    gc.collect()
    assert lib.closings() == before + 2


def test_a_result_and_out_parameters_of_a_call_that_raises(path):
    lib = nc.load(
        path, DECLARED, free={"text_and_number": "text_free"}, out={"text_and_number": [3]}
    )
    text, number = lib.text_and_number(b"text", abs, 3)
    assert (lib.ffi.string(text), number) == (b"text", 7)
    del text
    gc.collect()
    before = lib.freed()
    with pytest.raises(Wrong) as info:
        lib.text_and_number(b"text", wrong, 3)
    text, number = info.value.out
    assert (lib.ffi.string(text), number) == (b"text", 7)
    del text, info
    gc.collect()
    assert lib.freed() == before + 1
    with pytest.raises(TypeError) as info:
        lib.text_and_number(b"text", abs, "3")
    assert not hasattr(info.value, "out")  # C was not called


def test_what_closes_a_handle_and_gives_another(path):
    """The one that was given is not lost; that which was passed is open by what is known."""
    lib = nc.load(
        path,
        DECLARED,
        close={"box_open": ["box_again", "box_close"], "box_again": "box_close_quietly"},
    )
    box = lib.box_open(3)
    again = lib.box_again(box, abs)
    with refused(1, "box_number", "box_again"):
        lib.box_number(box)
    before = lib.closings()
    with pytest.raises(Wrong) as info:
        lib.box_again(again, wrong)
    assert lib.box_number(info.value.out) == 3
    del info
    gc.collect()
    assert lib.closings() == before + 1


def test_a_call_that_was_not_made_gives_nothing(path):
    """Neither what another call lost, nor what the same function gave to one before it."""
    lib = nc.load(path, DECLARED, free={"text_*": "text_free"}, errors={"text_errno": "errno"})
    plain = nc.load(path, DECLARED, errors={"text_errno": "errno"})

    class Number:
        def __index__(self):
            try:
                plain.text_errno(b"other", 13)
            except PermissionError as error:
                seen.append(hasattr(error, "out"))
            raise Wrong

    seen = []
    before = lib.freed()
    with pytest.raises(PermissionError):
        plain.text_errno(b"text", 13)
    with pytest.raises(TypeError) as info:
        lib.text_errno(b"text", "13")
    assert not hasattr(info.value, "out")
    with pytest.raises(Wrong) as info:
        lib.text_through(b"text", abs, Number())
    assert not hasattr(info.value, "out")
    assert seen == [False]
    del info
    gc.collect()
    assert lib.freed() == before


def test_in_threads_each_call_has_its_own(path):
    lib = nc.load(path, DECLARED, free={"text_errno": "text_free"}, errors={"text_errno": "errno"})
    before, found = lib.freed(), []

    def run(number):
        for i in range(50):
            text = b"%d in %d" % (i, number)
            try:
                lib.text_errno(text, 13)
            except PermissionError as error:
                found.append(lib.ffi.string(error.out) == text)

    each(run, *range(4))
    gc.collect()
    assert found == [True] * 200
    assert lib.freed() == before + 200


def test_nothing_is_freed_or_printed_at_the_end_of_python(python):
    code = """
import nativecall as nc
c = nc.load(None, "char *strdup(const char *); void free(void *);", free={"strdup": "free"})
d = nc.load(None, "char *strdup(const char *); void free(void *);", close={"strdup": "free"})
p, q = c.strdup(b"x"), d.strdup(b"y")
"""
    assert python(code) == ""


def test_finalizers_at_the_end_of_python_get_pointers_to_free(python):
    code = """
import sys
import nativecall as nc
c = nc.load(None, "char *strdup(const char *); void free(void *);", free={"strdup": "free"})
kept = c.strdup(b"first")
strdup = c.strdup
class Late:
    def __del__(self):
        strdup(b"x")
sys.modules["late"] = Late()
"""
    assert python(code) == ""


def test_a_handle_that_c_has_ended_stays_so_whatever_a_python_function_raised(builder):
    declared = "typedef struct H H; H *h_new(void); int h_end(H *h, void (*f)(void *));"
    code = """
    typedef struct H H;
    static int one, ends;
    H *h_new(void) { return (H *)&one; }
    int h_end(H *h, void (*f)(void *)) { ends++; if (f) f(h); return 0; }
    int h_ends(void) { return ends; }
    """
    path = builder.library(code, "ended_handle")
    lib = nc.load(path, declared + "int h_ends(void);", close={"h_new": "h_end"})
    handle = lib.h_new()
    with pytest.raises(ZeroDivisionError):
        lib.h_end(handle, lambda h: 1 // 0)
    with pytest.raises(ValueError, match="was already freed or closed by 'h_end'"):
        lib.h_end(handle, None)
    assert lib.h_ends() == 1
