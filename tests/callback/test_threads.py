"""Callbacks in threads of C: each keeps one thread state until it ends."""

import gc
import threading
import weakref

import pytest

import nativecall as nc

SOURCE = r"""
#include <pthread.h>
typedef int (*function)(int);
struct run { function f; int count; };
static void *calls(void *data)
{
    struct run *run = data;
    for (int i = 0; i < run->count; i++) run->f(i);
    return 0;
}
/* A thread that calls f so often, and ends. */
void in_thread(function f, int count)
{
    pthread_t thread;
    struct run run = {f, count};
    pthread_create(&thread, 0, calls, &run);
    pthread_join(thread, 0);
}
"""
DECLARED = "void in_thread(int (*f)(int), int count);"


@pytest.fixture(scope="module")
def path(builder):
    return builder.library(SOURCE, "inthread", flags=("-O1", "-w", "-pthread"))


@pytest.fixture
def in_thread(path):
    return nc.load(path, DECLARED, gil="release").in_thread


def test_a_thread_keeps_what_is_local_to_it(in_thread):
    local = threading.local()
    seen = []

    def f(i):
        local.count = getattr(local, "count", 0) + 1
        seen.append((threading.get_ident(), local.count))
        return 0

    in_thread(f, 5)
    idents, counts = zip(*seen, strict=True)
    assert counts == (1, 2, 3, 4, 5)
    assert len({*idents}) == 1
    assert threading.get_ident() not in idents
    in_thread(f, 2)
    assert [count for _, count in seen[5:]] == [1, 2]  # another thread


def test_states_of_threads_that_ended_are_deleted(in_thread):
    """By the next thread that gets one."""

    class Value:
        pass

    local = threading.local()
    values = []

    def f(i):
        local.value = Value()
        values.append(weakref.ref(local.value))
        return 0

    for _ in range(20):
        in_thread(f, 1)
    in_thread(lambda i: 0, 1)
    gc.collect()
    assert [one() for one in values] == [None] * 20


def test_threads_that_come_and_go_at_once(in_thread):
    counts = []

    def run():
        for _ in range(50):
            in_thread(lambda i: counts.append(i) or 0, 3)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(counts) == 4 * 50 * 3
