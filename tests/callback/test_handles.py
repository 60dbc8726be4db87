"""`handle`: Python objects as user data of C code, and callbacks that get them."""

import gc
import sys
import weakref

import pytest

import nativecall as nc

SOURCE = """
#include <pthread.h>
typedef void (*each)(int i, void *data);
static each kept;
static void *user;
static void *runs(void *argument) { kept(7, user); return argument; }
void loop(int n, each f, void *data) { for (int i = 0; i < n; i++) f(i, data); }
void keep(each f, void *data) { kept = f; user = data; }
void attach(int *holder, each f, void *data) { (void)holder; keep(f, data); }
void *swap(void *data) { void *old = user; user = data; return old; }
void use(int i) { kept(i, user); }
void use_in_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, runs, 0);
    pthread_join(thread, 0);
}
"""
DECLARED = (
    "typedef void (*each)(int i, void *data); void loop(int n, each f, void *data);"
    "void keep(each f, void *data); void attach(int *holder, each f, void *data);"
    "void *swap(void *); void use(int); void use_in_thread(void);"
    "typedef struct { each f; void *data; } hook;"
)


class Seen(list):
    """A list that can be watched."""


@pytest.fixture(scope="module")
def path(builder):
    return builder.library(SOURCE, "handles")


@pytest.fixture
def lib(path):
    keep = {"keep": "process", "attach": "holder"}
    return nc.load(path, DECLARED, keep=keep, gil={"use_in_thread": "release"})


@pytest.mark.parametrize("signature", ["void (int, PyObject *)", "v:iO"])
def test_a_callback_gets_the_object(lib, signature):
    seen = []
    lib.loop(2, nc.callback(signature, lambda i, data: data.append(i)), nc.handle(seen))
    assert seen == [0, 1]


def test_another_callback_gets_the_pointer(lib):
    seen, data = [], object()
    lib.loop(1, lambda i, pointer: seen.append(pointer), nc.handle(data))
    assert seen == [nc.handle(data)]
    assert int(lib.ffi.cast("intptr_t", seen[0])) == id(data)


def test_null_is_no_object(lib):
    with pytest.raises(ValueError, match=r"argument 2 of 'f' must be an object \(got NULL\)"):
        lib.loop(1, nc.callback("v:iO", lambda i, data: None, name="f"), None)


def test_it_is_kept_beside_the_function(lib):
    seen = Seen()
    gone = weakref.ref(seen)

    @nc.callback("void (int, PyObject *)")
    def append(i, data):
        data.append(i)

    lib.keep(append, nc.handle(seen))
    del seen, append
    gc.collect()
    lib.use(1)
    lib.use_in_thread()
    assert gone() == [1, 7]


def test_it_is_kept_as_long_as_an_argument(lib):
    seen, holder = Seen(), lib.new("int *")
    gone = weakref.ref(seen)
    lib.attach(holder, nc.callback("v:iO", lambda i, data: data.append(i)), nc.handle(seen))
    count = sys.getrefcount(seen)
    assert count > sys.getrefcount([])
    lib.attach(holder, nc.callback("v:iO", lambda i, data: None), nc.handle(seen))
    assert sys.getrefcount(seen) == count  # once
    del seen
    gc.collect()
    assert gone() == []
    lib.keep(lambda i, data: None, None)
    del holder
    gc.collect()
    assert gone() is None


def test_what_things_are_kept_with_keeps_itself_not(path):
    lib = nc.load(path, DECLARED, keep={"attach": "data"})
    seen = Seen()
    data, gone = nc.handle(seen), weakref.ref(seen)
    lib.attach(lib.new("int *"), lambda i, data: None, data)
    del data, seen
    gc.collect()
    assert gone() is None


def test_structs_keep_it(lib):
    seen = []
    hook = lib.new("hook *", {"f": lambda i, data: seen.append(data), "data": nc.handle(seen)})
    gc.collect()
    lib.loop(1, hook.f, hook.data)
    assert seen == [nc.handle(seen)]


def test_a_result_is_no_object(lib):
    with pytest.raises(nc.SignatureError, match="cannot be converted to 'PyObject"):
        lib.swap.convert("PyObject *(void *)")


def test_errors_name_it(lib):
    with pytest.raises(
        TypeError, match=r"'void \*' pointer.*got list\);.*nativecall.handle\(value\)"
    ):
        lib.loop(1, lambda i, data: None, [])
    with pytest.raises(TypeError, match=r"\(got int\)$"):
        lib.loop(1, lambda i, data: None, 5)
