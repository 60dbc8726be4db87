"""Run methods of native classes as a compiler would emit them, with C and Python subclasses."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import built

with built(Path(__file__).resolve().parent):
    import emitted

    class Tripling(emitted.Counter):
        """Overrides a native method; native callers run the override."""

        def add(self, n: int) -> int:
            return super().add(3 * n)

    class Limited(emitted.Counter):
        """Raises in a native loop."""

        def add(self, n: int) -> int:
            if self.count == 5:
                raise ValueError("five is the most")
            return super().add(n)

    for cls in (emitted.Counter, emitted.Doubling, Tripling):
        print(f"{cls.__name__:<18} {emitted.total(cls(), 10)}")
    try:
        emitted.total(Limited(), 10)
    except ValueError as error:
        print(f"Limited            ValueError: {error}")
