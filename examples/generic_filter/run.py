"""Build SciPy's `generic_filter` with `callback.h`, and pass it C and Python functions."""

from __future__ import annotations

import ctypes
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path

from scipy import LowLevelCallable

import nativecall as nc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import built, show_error, way

SIGNAL = array("d", [1, 5, 2, 8, 3])
DOUBLED = ctypes.c_double(2.0)


def spread(values: Sequence[float], scale: float, *, plus: float = 0.0) -> float:
    """The range of the values, for Python."""
    return (max(values) - min(values)) * scale + plus


def broken(values: Sequence[float]) -> float:
    """A function that raises in the middle of the work."""
    return 1.0 / (values[1] - 2.0)


with built(Path(__file__).resolve().parent):
    import filters

    data = ctypes.cast(ctypes.pointer(DOUBLED), ctypes.c_void_p)
    boxes = {
        "capsule": filters.mean,
        "LowLevelCallable": LowLevelCallable(filters.mean),
        "with user_data": LowLevelCallable(filters.mean, data),
        "native callable": nc.wrap(filters.peak),
    }
    output = array("d", SIGNAL)
    for name, box in boxes.items():
        native = filters.generic_filter(SIGNAL, box, 3, output)
        print(f"{name:<18} {[round(value, 3) for value in output]} called {way(native)}")
    native = filters.generic_filter(
        SIGNAL, spread, 3, output, extra_arguments=(2.0,), extra_keywords={"plus": 1.0}
    )
    print(f"{'Python function':<18} {output.tolist()} called {way(native)}")
    show_error(filters.generic_filter, SIGNAL, broken, 3, output)
    other = LowLevelCallable(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(float))
    show_error(lambda: filters.generic_filter(SIGNAL, other, 3, output))
