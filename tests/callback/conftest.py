"""What tests of callbacks share: C code that calls them, from its own threads too."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

import nativecall as nc
from support import build

CALLERS = """
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
typedef double (*F)(double);
double apply(F f, double x) { return f(x); }
double twice(F f, double x) { double first = f(x); return first + f(x + 1); }

static F kept;
void keep(F f) { kept = f; }
double call_kept(double x) { return kept(x); }

typedef struct { F f; long count; long first; double sum; long sentinels; } Job;
static void *work(void *data)
{
    Job *job = data;
    for (long i = 0; i < job->count; i++) {
        double y = job->f((double)(job->first + i));
        if (y != y) job->sentinels++; else job->sum += y;
    }
    return NULL;
}
/* The number of sentinels; -1 when a thread could not be made. */
long in_threads(F f, int threads, long count, double *sum)
{
    pthread_t ids[64];
    Job jobs[64];
    long sentinels = 0;
    for (int i = 0; i < threads; i++) {
        jobs[i] = (Job){f, count, i * count, 0, 0};
        if (pthread_create(&ids[i], NULL, work, &jobs[i]) != 0) return -1;
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        *sum += jobs[i].sum;
        sentinels += jobs[i].sentinels;
    }
    return sentinels;
}

/* Threads that call for ever, and a call when the process ends. */
static void *call_on(void *data)
{
    (void)data;
    for (;;) (void)kept(1.0);
    return NULL;
}
int start(F f, int threads)
{
    kept = f;
    for (int i = 0; i < threads; i++) {
        pthread_t id;
        if (pthread_create(&id, NULL, call_on, NULL) != 0) return -1;
        pthread_detach(id);
    }
    return 0;
}
/* A call with an eighth of a thread's stack left. */
static void *call_deep(void *data)
{
    volatile char room[(2 << 20) - (160 << 10)];
    room[0] = room[sizeof(room) - 1] = 0;
    *(double *)data = kept(1.0 + room[0]);
    return NULL;
}
double deep_in_a_thread(F f)
{
    pthread_attr_t attributes;
    pthread_t id;
    double result = -1.0;
    void *stack = aligned_alloc(1 << 16, 2 << 20); /* the system would lend a larger one */
    kept = f;
    if (stack == NULL || pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstack(&attributes, stack, 2 << 20) != 0 ||
        pthread_create(&id, &attributes, call_deep, &result) != 0 ||
        pthread_join(id, NULL) != 0) return -2.0;
    free(stack);
    return result;
}

static void at_end(void) { double y = kept(1.0); if (y == y && y != 4.0) abort(); }
int call_at_end(F f) { kept = f; return atexit(at_end); }

struct wide { double numbers[512]; };
double hand_over(double (*f)(struct wide), struct wide s) { return f(s); }
typedef struct { F f; double x; } Task;
double run_task(Task task) { return task.f(task.x) + task.f(task.x + 1); }
double run_made(Task (*make)(int), int n) { return run_task(make(n)); }
double run_found(F (*find)(int), int n) { F f = find(n); return f(1.0) + f(2.0); }

typedef struct { F (*find)(int); F found; } Search;
static void *search(void *data) { Search *s = data; s->found = s->find(1); return NULL; }
F find_in_thread(F (*find)(int))
{
    Search s = {find, NULL};
    pthread_t id;
    if (pthread_create(&id, NULL, search, &s) == 0) pthread_join(id, NULL);
    return s.found;
}

typedef struct { double x; int32_t n; } Pair;
Pair paired(Pair (*f)(Pair, const Pair *), double x)
{
    Pair a = {x, 3}, b = {-x, 4};
    return f(a, &b);
}
double *passed(double *(*f)(int32_t), int32_t n) { return f(n); }
"""


@pytest.fixture(scope="module")
def library(builder):
    return builder.library(CALLERS, "callback_callers", flags=("-O1", "-pthread"))


@pytest.fixture(scope="module")
def callers(library):
    """Through ctypes, which drops the GIL."""
    found: Any = ctypes.CDLL(str(library))
    for name in ("apply", "twice"):
        getattr(found, name).restype = ctypes.c_double
        getattr(found, name).argtypes = [ctypes.c_void_p, ctypes.c_double]
    found.call_kept.restype = ctypes.c_double
    found.call_kept.argtypes = [ctypes.c_double]
    found.keep.restype = None
    found.keep.argtypes = [ctypes.c_void_p]
    found.in_threads.restype = ctypes.c_long
    found.in_threads.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_long,
        ctypes.POINTER(ctypes.c_double),
    ]
    return found


@pytest.fixture(scope="module")
def native(library):
    """Through trampolines."""
    return nc.load(library, "double apply(double (*f)(double), double x);")


@pytest.fixture(scope="module")
def handed(library):
    """What takes functions from functions and in structs."""
    lib = nc.load(library)
    return SimpleNamespace(
        apply=lib.function("apply", "d:X{d:d}d"),
        run_task=lib.function("run_task", "d:T{X{d:d}d}"),
        run_made=lib.function("run_made", "d:X{T{X{d:d}d}:i}i"),
        run_found=lib.function("run_found", "d:X{X{d:d}:i}i"),
        find_in_thread=lib.function("find_in_thread", "X{d:d}:X{X{d:d}:i}", gil="release"),
    )


@pytest.fixture(scope="module")
def consumer(builder, include):
    """The extension module of tests/ext/pointer_consumer.c."""
    path = builder.extension("pointer_consumer.c", "nc_pointer_consumer", include=include)
    return build.load_extension(path)
