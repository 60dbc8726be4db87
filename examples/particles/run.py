"""Create, link and release a million objects in threads without the GIL, while Python watches.

Where matplotlib is, it plots what it saw: particles.svg in the current directory.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import built

HERE = Path(__file__).resolve().parent
THREADS, STEPS, PLOT = 4, 12_500, "particles.svg"


def chain(particle: Any) -> list[tuple[float, float]]:
    """Height and speed of a particle and of those behind it, which no thread changes any more."""
    found = []
    while particle is not None:
        found.append((particle.height, particle.speed))
        particle = particle.next
    return found


def plot(particles: list[tuple[float, float]]) -> str:
    """Draw a chain, and return where it is drawn or why it is not."""
    try:
        import matplotlib
    except ImportError:
        return 'not plotted: needs matplotlib; pip install "nativecall[examples]"'
    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(layout="constrained")
    axis.plot(*zip(*particles, strict=True), ".")
    axis.set(title=f"{len(particles)} of the particles", xlabel="height", ylabel="speed")
    figure.savefig(PLOT)
    pyplot.close(figure)
    return f"plotted: {PLOT}"


with built(HERE):
    import particles

    class Watched(particles.Particle):
        """A Python class of the same objects."""

    simulation = threading.Thread(target=particles.simulate, args=(THREADS, STEPS))
    simulation.start()
    seen = []
    while simulation.is_alive():
        if (particle := particles.watch()) is not None:
            seen.append(particle)
    simulation.join()
    while (particle := particles.watch()) is not None:
        seen.append(particle)

    made, living = particles.counts()
    print(f"made               {made}")
    print(f"watched            {len(seen) > 0}")
    print(f"all in the air     {all(particle.height >= 0 for particle in seen)}")
    print(f"in the first chain {len(chain(seen[0]))}")
    print(plot(chain(seen[-1])))
    particle = seen[0]
    height = particle.height
    particle.fall(0.1)
    print(f"a method           {particle.height != height}")
    del seen, particle
    print(f"living             {particles.counts()[1]}")
    watched = Watched()
    watched.height = 2.0
    watched.fall(0.1)
    print(f"a subclass         {watched.height:.4f}")
    print(f"living             {particles.counts()[1]}")
