"""Ufuncs of NumPy's around one function: what `f.to_ufunc` makes, beside those of others."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

from bench import installed, timing
from bench.peers.kernels import Kernels
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "ns for one call with an array of doubles and out=, by its size. The kernel x * x * 3 + x - 1 "
    "is compiled by Numba; nativecall has it in its loop, of a jitted function and of a cfunc, and "
    "numba.vectorize in its own. Then a C function that is known by its pointer alone, beside "
    "NumPy's PyUFunc_FromFuncAndData with PyUFunc_d_d over the same pointer. Interleaved in "
    "shuffled rounds, in several fresh processes pinned to one CPU."
)
TARGET_NS = 300_000.0
SIZES = tuple(10**power for power in range(7))
OURS = "nativecall"
CFUNC = "nativecall, of a cfunc"
NUMBA = "numba.vectorize"
NUMPY = "PyUFunc_d_d"
KNOWN, POINTER = "IR known", "pointer"


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(12, 1)


def row(kind: str, size: int) -> str:
    """Return the name of a row."""
    return f"{kind}, {size:,} double{'s' if size > 1 else ''}"


def _kernel(x: float) -> float:
    return x * x * 3.0 + x - 1.0


def _jitted() -> Any:
    import numba

    return installed.import_nativecall().wrap(numba.njit(_kernel), "d:d").to_ufunc()


def _cfunc() -> Any:
    import numba

    return installed.import_nativecall().wrap(numba.cfunc("float64(float64)")(_kernel)).to_ufunc()


def _vectorized() -> Any:
    import numba

    return numba.vectorize(["float64(float64)"])(_kernel)


def _of_numpy(address: int, kept: list[Any]) -> Any:
    """Return what C code makes with NumPy's headers."""
    from numpy._core._multiarray_umath import _UFUNC_API

    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    table = ctypes.cast(get(_UFUNC_API, None), ctypes.POINTER(ctypes.c_void_p))
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        *[ctypes.c_void_p] * 3,
        *[ctypes.c_int] * 4,
        *[ctypes.c_char_p] * 2,
        ctypes.c_int,
    )(table[1])
    kept += [
        (ctypes.c_void_p * 1)(table[5]),
        (ctypes.c_void_p * 1)(address),
        ctypes.create_string_buffer(bytes([12, 12])),
        b"d_d",
    ]
    return make(*kept[-4:-1], 1, 1, 1, -1, kept[-1], b"", 0)


def measure(effort: Effort) -> Section:
    """Time calls of every size."""
    section = Section("ufuncs", METHOD)
    kernels = Kernels()
    kept: list[Any] = [kernels]
    target = kernels.address_of("kernel_d_d")
    makers: dict[str, dict[str, Callable[[], Any]]] = {
        KNOWN: {OURS: _jitted, CFUNC: _cfunc, NUMBA: _vectorized},
        POINTER: {
            OURS: lambda: installed.import_nativecall().wrap(target, "d:d").to_ufunc(),
            NUMPY: lambda: _of_numpy(target, kept),
        },
    }
    for kind, subjects in makers.items():
        made = {}
        for name, make in subjects.items():
            try:
                made[name] = make()
            except Exception as error:  # a peer that is not there, or cannot
                section.absent[f"{name} '{kind}'"] = f"{type(error).__name__}: {error}"
        reference = NUMBA if kind == KNOWN else NUMPY
        for size in SIZES:
            section.groups.append(_timed(row(kind, size), size, made, reference, effort))
    return section


def _timed(name: str, size: int, made: dict[str, Any], reference: str, effort: Effort) -> Group:
    import numpy as np

    x = np.random.default_rng(effort.seed).random(size)
    wanted = next(iter(made.values()))(x)
    samplers = {}
    # A long sample is never left alone by others who want the processor.
    unroll = timing.UNROLL if size < 10**4 else 1
    for subject, ufunc in made.items():
        out = np.empty(size)
        if not np.allclose(ufunc(x, out), wanted):
            raise ValueError(f"'{subject}' gives other results")
        # All write to the same memory: where it lies decides at large sizes.
        sampler = timing.python_loop("f(x, out)", {"f": ufunc, "x": x, "out": wanted}, unroll)
        samplers[subject] = partial(sampler, timing.calibrate(sampler, unroll, TARGET_NS))
    rounds = effort.choose(20 if size < 10**5 else 40, 15)
    return Group(name, "ns", reference, timing.interleave(samplers, rounds, effort.seed))
