"""Finalizers call native functions while the first call of all imports what makes calls.

The collector ran them in the middle of that import, and every call of theirs was a RuntimeError.
"""

import gc
import sys
from array import array

import nativecall as nc

libc = nc.load(None, "void qsort(int *a, size_t n, size_t size, int (*f)(int *, int *));")
called = 0


class Cycle:
    """Garbage from the start; each finalizer makes the next."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        global called
        if {"nativecall._callable.hooks", "nativecall._callable.arguments"} & {*sys.modules}:
            called += 1
            libc.qsort(array("i", [2, 1]), 2, 4, lambda a, b: a[0] - b[0])
        if called < 50:
            Cycle()


Cycle()
gc.set_threshold(1, 1, 1)
libc.qsort(array("i", [2, 1]), 2, 4, lambda a, b: a[0] - b[0])
gc.collect()
assert called > 0
