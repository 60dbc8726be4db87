"""A callback that waits for the GIL in a thread of C: the hang says why, once."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial

import pytest

import nativecall as nc
from support.threads import needs_gil

pytestmark = [
    needs_gil,
    pytest.mark.skipif(os.name != "posix", reason="the C code uses pthreads"),
]

SOURCE = """
#include <pthread.h>
#include <unistd.h>
typedef int (*function)(int);
typedef struct { function f; int n, result; } work;
static void *run(void *given)
{
    work *one = given;
    for (int i = 0; i < one->n; i++) one->result += one->f(i);
    return NULL;
}
int in_thread(int n, function f)
{
    work one = {f, n, 0};
    pthread_t thread;
    pthread_create(&thread, NULL, run, &one);
    pthread_join(thread, NULL);
    return one.result;
}
int in_threads(int count, int n, function f)
{
    work all[64];
    pthread_t threads[64];
    int sum = 0;
    for (int i = 0; i < count; i++) {
        all[i] = (work){f, n, 0};
        pthread_create(&threads[i], NULL, run, &all[i]);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        sum += all[i].result;
    }
    return sum;
}
static work kept;
int begin(function f)
{
    pthread_t thread;
    kept = (work){f, 1, 0};
    pthread_create(&thread, NULL, run, &kept);
    return pthread_detach(thread);
}
"""
DECLARED = "int in_thread(int, int (*f)(int)); int in_threads(int, int, int (*f)(int));"
DECLARED += "int begin(int (*f)(int)); unsigned sleep(unsigned);"
PROGRAM = """
import nativecall as nc
def double(x):
    return 2 * x
lib = nc.load({path!r}, {declared!r}, gil={gil!r})
lib.sleep(0)  # is ready
"""


@pytest.fixture(scope="module")
def path(builder):
    return str(builder.library(SOURCE, "waiting", flags=("-O1", "-pthread")))


@pytest.fixture
def said(path, tmp_path):
    return partial(printed, path, tmp_path)


def printed(path, folder, lines, gil=None, until="\n", limit=10.0):
    """What a program prints on stderr until some text, or its end."""
    program = PROGRAM.format(path=path, declared=DECLARED, gil=gil or {}) + lines
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        start_new_session=True,
    )
    os.set_blocking(process.stderr.fileno(), False)
    found, end = b"", time.monotonic() + limit
    try:
        while until.encode() not in found and time.monotonic() < end:
            # Not reaped yet: its group is to be ended, and no other one of the same number.
            kinds = os.WEXITED | os.WNOHANG | os.WNOWAIT
            ended = os.waitid(os.P_PID, process.pid, kinds) is not None
            found += process.stderr.read() or b""
            if ended:
                break
            time.sleep(0.02)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it has forked, too
        process.wait()
        process.stderr.close()
    return found.decode()


LINE = (
    "nativecall: the Python function 'double', an argument of 'in_thread', was called in another "
    "thread and has waited for the GIL for a second; if a C function waits for its own threads, "
    'call it with gil="release"\n'
)


def test_a_call_that_waits_for_its_threads(said):
    assert said("lib.in_thread(3, double)") == LINE


def test_a_callback_that_is_kept(said):
    line = said("kept = nc.callback('i:i', double)\nlib.begin(kept)\nlib.sleep(5)")
    assert line == LINE.replace(", an argument of 'in_thread',", "")


def test_objects_without_a_name_are_arguments_too(said):
    line = said("import functools\nlib.in_thread(3, functools.partial(double))")
    assert line == LINE.replace("'double', an argument of", "'function', argument 2 of")


def test_names_of_other_languages(said):
    line = said("double.__name__ = 'größe'\nlib.in_thread(3, double)")
    assert "function 'gr??e', an argument" in line


def test_the_line_comes_once(said):
    lines = "k = nc.callback('i:i', double)\nfor _ in range(2):\n    lib.begin(k)\n    lib.sleep(2)"
    assert said(lines + "\nimport os\nos._exit(0)", until="never").count("\n") == 1


def test_after_a_fork(said, path):
    lines = f"""
import os
free = nc.load({path!r}, {DECLARED!r}, gil="release")
assert free.in_thread(3, double) == 6
if os.fork() == 0:
    lib.in_thread(3, double)
os.wait()
"""
    assert said(lines, until='release"\n') == LINE


def test_calls_that_drop_the_gil_say_nothing(said):
    lines = "assert lib.in_threads(40, 500, double) == 40 * 499 * 500\nlib.sleep(1)"
    gil = {"in_*": "release", "sleep": "release"}
    assert said(lines, gil, until="never") == ""


def test_results_of_threads_beside_each_other(path):
    lib = nc.load(path, DECLARED, gil="release")
    for _ in range(20):
        assert lib.in_threads(48, 5, lambda x: x) == 480
