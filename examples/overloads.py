"""Combine several C functions, one for each type, in one callable."""

from __future__ import annotations

import ctypes

import numpy as np

import nativecall as nc

m = nc.load("m", "double sqrt(double); float sqrtf(float); double _Complex csqrt(double _Complex);")
sqrt = nc.wrap({"d:d": m.sqrt, "f:f": m.sqrtf}, name="sqrt")
print("signatures        ", *sqrt.signatures)

# Python calls choose by the types of the arguments: an exact match first, then safe promotion.
print("a Python float    ", sqrt(2.0))
print("a NumPy float32   ", sqrt(np.float32(2.0)))
print("an int            ", sqrt(2))

# Another entry at any time; callers that run meanwhile see the old table or the new one.
sqrt.add("Zd:Zd", m.csqrt)
print("a complex         ", sqrt(-4 + 0j))

# One entry by itself, in any spelling of its signature.
single = sqrt["float (float)"]
print("one entry         ", single(2.0), single.signatures)

# Native callers ask for the signature that they need, and get a plain C function pointer.
address = sqrt.address("f:f")
print("as a C pointer    ", ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(address)(2.0))

# Two spellings of one signature are one key here: `long` and `int64_t` never fail to match.
labs = nc.wrap(ctypes.CDLL(None).labs, "long (long)")
print("same key          ", labs.signatures, "int64_t (int64_t)" in labs)

for mistake in (
    lambda: sqrt.add("d:d", m.sqrt),
    lambda: sqrt["i:i"],
    lambda: sqrt("text"),
    lambda: nc.wrap({"d:d": m.sqrt, "double (double)": m.sqrt}),
):
    try:
        mistake()
    except Exception as error:
        print(f"{type(error).__name__ + ':':<18}", error)
