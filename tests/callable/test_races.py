"""What threads share and change at once: caches, tables, hooks, callbacks, handles and classes.

Without the GIL, these threads run at the same time. The session `threads` runs the tests under
ThreadSanitizer.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import weakref

import pytest

import nativecall as nc
from nativecall._fifo import Fifo
from support.callbacks import threads_left
from support.threads import HAS_GIL, each, together, turns

THREADS = 4
TURNS = 40
SAME = "#include <stddef.h>\nsize_t same(double (*f)(double)) { return (size_t)f; }"
DECLARATIONS = """
void *malloc(size_t size);
int abs(int x); long labs(long x); int snprintf(char *text, size_t size, const char *format, ...);
void qsort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *));
"""


@pytest.fixture(autouse=True)
def often():
    with turns(1e-6):
        yield


def at_once(task):
    """Call a function in each of some threads; return the results."""
    return each(lambda _: task(), *range(THREADS))


def again(task):
    """Call a function often, in one thread."""

    def run():
        for i in range(TURNS):
            task(i)

    return run


def test_a_new_signature_is_described_once(lib):
    """Call interfaces, plans, names, trampolines and foreign callables are made on first use."""
    for letters in itertools.islice(itertools.product("hHbB", repeat=3), TURNS // 4):
        text = f"d:d{''.join(letters)}"
        f = nc.wrap(lib.address("square"), text)

        def use(f=f, text=text):
            assert f(3.0, 1, 1, 1) == f.builtin(3.0, 1, 1, 1) == 9.0
            assert f.to_ctypes()(3.0, 1, 1, 1) == f.to_cffi()(3.0, 1, 1, 1) == 9.0
            part = f[text] if HAS_GIL else None  # without the GIL, each thread has its own
            return part, f[text].signatures, f.builtin.__name__, f.to_ctypes(), f.to_capsule()

        assert len({tuple(map(id, row[:1])) + row[1:3] for row in at_once(use)}) == 1


def test_attributes_of_libraries_are_made_once():
    for _ in range(TURNS // 4):
        library = nc.load("c", DECLARATIONS)
        found = at_once(lambda library=library: (library.abs, library.qsort, library["labs"]))
        assert len({tuple(map(id, row)) for row in found}) == 1


def test_functions_that_threads_pass_raise_in_their_own_call():
    qsort = nc.load("c", DECLARATIONS).qsort

    def sort(number):
        items = nc.load("c", DECLARATIONS).new("int[]", [3, 1, 2])

        def compare(a, b):
            raise LookupError(number)

        for _ in range(TURNS):
            with pytest.raises(LookupError, match=f"^{number}$"):
                qsort(items, 3, 4, compare)

    each(sort, *range(THREADS))
    assert threads_left() == 0


def test_exceptions_that_threads_leave_are_their_own():
    """No call stands between the callback and Python code that waits for C."""

    def fail(x):
        raise LookupError(x)

    def call(number):
        f = nc.callback("d:d", fail)
        call = nc.wrap(f.address(), "d:d")
        for _ in range(TURNS):
            with pytest.raises(LookupError, match=f"^{number:.1f}$"):
                call(number)

    each(call, *range(THREADS))
    assert threads_left() == 0


def test_a_thread_that_ends_leaves_no_exception():
    def leave(_):
        f = nc.callback("d:d", lambda x: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            nc.wrap(f.address(), "d:d")(1.0)

    for _ in range(3):
        each(leave, *range(THREADS))
    assert threads_left() == 0


def test_callbacks_are_closed_while_they_are_called():
    """A call runs the function, or raises; close() releases the function."""
    for _ in range(TURNS // 4):

        def function(x, _more=None):
            return x + 1

        f = nc.callback("d:d", function)
        call, gone, answers = nc.wrap(f.address(), "d:d"), weakref.ref(function), []
        del function

        def run(call=call, answers=answers):
            for _ in range(TURNS):
                try:
                    answers.append(call(1.0))
                except RuntimeError as error:
                    answers.append(str(error))

        together(run, run, f.close)
        assert {*answers} <= {2.0, "callback 'function' is closed"}
        for _ in range(3):  # without the GIL, the collector frees some functions
            gc.collect()
        assert gone() is None


def test_results_of_a_callback_that_threads_call_are_kept(lib):
    texts = [f"text {i}".encode() for i in range(TURNS)]
    f = nc.callback("&b:i", lambda i: texts[i])
    call = nc.wrap(f.address(), "&b:i")
    together(*[again(call)] * THREADS)
    assert nc.string(call(3)) == b"text 3"


def test_hooks_are_set_while_overloads_are_called(lib):
    square, same = lib.address("square"), lib.address("same_i32")
    f = nc.wrap({"d:d": square, "i:i": same})

    def hook(_f, text):
        return {"f:f": lib.address("same_f32")}.get(text)

    def set_hook(i):
        f.specialize = hook if i % 2 else None

    def call(i):
        assert (f(3.0), f(i), f.builtin(3.0)) == (9.0, i, 9.0)

    def look(i):
        assert "d:d" in f
        assert f.specialize in (hook, None)

    together(*[again(task) for task in (set_hook, call, call, look)])


def test_views_are_made_while_entries_are_added(lib):
    square, same = lib.address("square"), lib.address("same_i32")
    for _ in range(TURNS // 4):
        f = nc.wrap(square, "d:d")

        def view(f=f):
            assert [f.builtin(3.0) for _ in range(3)] == [9.0] * 3
            assert f.builtin.__name__ == f.__name__ == "square"

        together(view, lambda f=f: f.add("i:i", same), view, lambda f=f: f.convert("f:f")(3.0))
        assert (f(3), f.builtin(3)) == (3, 3)


def test_variadic_functions_learn_types_in_threads():
    library = nc.load("c", DECLARATIONS)

    def write(i):
        text = bytearray(64)
        length = library.snprintf(text, 64, b"%d %s %.1f", i, b"x", 0.5)
        assert text[:length] == b"%d x 0.5" % i

    together(*[again(write)] * THREADS)


def test_equal_functions_that_threads_keep_share_a_pointer(builder):
    library = nc.load(
        builder.library(
            "#include <stddef.h>\nsize_t same(double (*f)(double)) { return (size_t)f; }",
            "shared_kept",
        ),
        "size_t same(double (*f)(double));",
        keep={"same": "process"},
    )
    for _ in range(TURNS // 4):

        def function(x):
            return x

        found = at_once(lambda function=function: library.same(function))
        assert len({*found}) == 1


def test_one_of_several_threads_closes_a_handle(builder):
    source = """
    #include <stdlib.h>
    int ended;
    int *make(void) { return malloc(sizeof(int)); }
    int end(int *handle)
    {
        __atomic_add_fetch(&ended, 1, __ATOMIC_RELAXED);
        free(handle);
        return 0;
    }
    """
    library = nc.load(
        builder.library(source, "shared_handles"),
        "int ended; int *make(void); int end(int *handle);",
        close={"make": "end"},
    )
    refused = []

    def end(handle):
        try:
            library.end(handle)
        except ValueError as error:
            refused.append(str(error))

    for _ in range(TURNS // 4):
        handle = library.make()
        at_once(lambda handle=handle: end(handle))
    assert library.ended == TURNS // 4
    assert len(refused) == TURNS // 4 * (THREADS - 1)


def test_the_last_change_of_a_class_counts(lib, consumer):
    """Tables are rebuilt in the order of the changes."""
    square = lib.address("square")

    class Sub(nc.NativeCallable):
        pass

    f = Sub(square, "d:d")

    def override(i):
        Sub.__call__ = lambda self, x: -x
        assert f(3.0) in (9.0, -3.0)

    def restore(i):
        with contextlib.suppress(AttributeError):
            del Sub.__call__
        assert consumer.total(f, 3.0, 1)[0] in (9.0, -3.0)

    together(*[again(task) for task in (override, restore, override, restore)])
    override(0)
    assert (f(3.0), len(f.entries)) == (-3.0, 0)
    restore(0)
    assert (f(3.0), len(f.entries)) == (9.0, 1)


def test_a_bounded_cache_is_filled_by_threads():
    cache = Fifo(1000)

    def fill(first):
        for key in range(first, first + 3000):
            assert cache.keep(key, key) == key

    each(fill, 0, 10_000, 20_000, 30_000)
    assert len(cache) <= 1000 + 3  # what others store meanwhile
