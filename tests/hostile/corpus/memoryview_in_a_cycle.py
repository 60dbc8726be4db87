"""A callback keeps a memoryview that refers to nothing, in a cycle that the collector frees.

Before CPython 3.13 the collector cleared the memoryview while it was exported, and the end of that
export crashed.
"""

import gc

import nativecall as nc

gc.disable()


class Cycle:
    pass


for _ in range(50):
    one = Cycle()
    one.itself = one
    one.view = memoryview(bytearray(64))
    one.f = nc.callback("P:i", lambda i, one=one: one.view)
    one.f(1)
    del one
    gc.collect()
