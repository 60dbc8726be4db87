"""Build three modules whose arrays offer C functions in a slot of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import nativecall as nc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import built, show_error, way

with built(Path(__file__).resolve().parent, "--cython-c-in-temp"):
    import arrays
    import moments
    import waves

    class Ramp(arrays.Ramp, metaclass=nc.extensibletype):
        """A C type without slots, given one by a class statement."""

        __slots__ = ()
        __customslots__ = {arrays.KEY: arrays.ramp_vtable}

    class Decibels(arrays.Samples):
        """Reads its elements another way, so it takes back what C functions would read."""

        __customslots__ = {arrays.KEY: 0}

        def __getitem__(self, i: int) -> float:
            return 10.0 * super().__getitem__(i)

    def shown(name: str, array: object) -> None:
        """Print what each consumer makes of an array."""
        mean, native = moments.mean(array, 2)
        largest, _ = moments.largest(array)
        spread, same = waves.spread(array)
        assert same == native
        print(f"{name:<18} {mean:.6f} {largest:.6f} {spread:.6f} read {way(native)}")

    print("mean of every second element, the largest, and how far apart they are")
    shown("static type", arrays.Samples([0.5, 2.5, 1.5]))
    shown("Python class", Ramp(1.0, 0.25, 5))
    shown("cdef class", waves.Wave(0.5, 7))
    shown("a subclass", type("Louder", (arrays.Samples,), {})([4.0, 3.0]))
    shown("taken back", Decibels([0.5, 2.5, 1.5]))
    shown("without the slot", arrays.Ramp(1.0, 0.25, 5))
    shown("list", [0.5, 2.5, 1.5])

    show_error(moments.mean, [], 1)
    show_error(moments.largest, ["loud"])
