"""Callbacks that end while C code is about to call them: the message says whose they were."""

import os

import pytest

from support.threads import needs_gil

CODE = """
#include <pthread.h>
#include <unistd.h>
static void *run(void *f) { ((int (*)(int))f)(1); return 0; }
void go(int (*f)(int))
{
    pthread_t thread;
    pthread_create(&thread, 0, run, (void *)f);
    pthread_detach(thread);
    usleep(100000);
}
"""
WAITS = """
import os, sys, time
import nativecall as nc
lib = nc.load(sys.argv[1], "void go(int (*f)(int));", gil="hold")
os.dup2(1, 2)
child = os.fork()
if child == 0:
    sys.setswitchinterval(5)
    def first(i): return os.write(1, b"first ran")
    def other(i): return os.write(1, b"another function ran")
    lib.go(first)  # C's thread waits for the GIL, and the callback ends with the call
    made = [nc.callback("i:i", other) for _ in range(int(sys.argv[2]))]
    time.sleep(10)
    os._exit(0)
os.waitpid(child, 0)
"""


@needs_gil
@pytest.mark.skipif(not hasattr(os, "fork"), reason="threads of POSIX")
@pytest.mark.parametrize("more", [0, 4])
def test_a_function_that_ends_while_a_thread_waits_for_the_gil(builder, python, more):
    path = builder.library(CODE, "ended", flags=("-w", "-pthread"))
    found = python(WAITS, path, more)
    gone = "was called after its Python object was freed: 'first', which was"
    assert gone in found
    assert "ran" not in found
