"""Time one operation in one thread and in two: without the GIL, two do up to twice the work.

Figures are medians of short runs, in turn with one thread and with two, while the garbage collector
is off. `--seconds 60` is steadier, and `--picture FILE` draws an SVG.
"""

from __future__ import annotations

import argparse
import gc
import math  # noqa: F401  # named in the text of the operations
import platform
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

import nativecall as nc
from nativecall import callback, string, wrap  # noqa: F401  # named in the text of the operations

HERE = Path(__file__).resolve().parent
THREADS = 2
SHORT = 0.01  # seconds that a run takes at least

lib = nc.load(None, header=HERE / "threads.h")
f = lib.half
address = f.address()
ufunc = f.to_ufunc()
arrays = [np.linspace(0, 1, 10_000) for _ in range(THREADS)]


class Point(nc.NativeObject):
    __slots__ = ()
    x = nc.field("d")
    next = nc.field("Point")
    move = nc.method(lib.move, "d:&dd")


@nc.callback("d:d")
def shared(x: float) -> float:
    return x


REFERENCES = {"an empty loop": ("", "pass"), "math.cos(x)": ("", "math.cos(x)")}
#: By name, what a thread prepares and what it repeats.
OPERATIONS = REFERENCES | {
    "f(x), one function": ("", "f(x)"),
    "f(x), two functions": ("g = (f, lib.twice)[i]", "g(x)"),
    "f.builtin(x), f.builtin read once": ("g = f.builtin", "g(x)"),
    'f["d:d"]': ("", 'f["d:d"]'),
    "lib.half(x)": ("", "lib.half(x)"),
    'wrap(address, "d:d")': ("a = address + 0", 'wrap(a, "d:d")'),
    'callback("d:d", function)': ("g = lambda x: x", 'callback("d:d", g)'),
    "one callback, 100 calls from C": ("", "lib.total(shared, 100)"),
    "two callbacks, 100 calls from C": ("g = callback('d:d', lambda x: x)", "lib.total(g, 100)"),
    "ufunc(array of 10,000)": ("array = arrays[i]", "ufunc(array)"),
    "string(pointer)": ('pointer = lib.new("char[]", b"hello")', "string(pointer)"),
    "Point()": ("", "Point()"),
    "point.x": ("point = Point()", "point.x"),
    "point.next": ("point = Point(next=Point())", "point.next"),
    "point.move(x)": ("point = Point()", "point.move(x)"),
}
# Two threads that count references to one object slow each other down. So each thread makes its
# own numbers and functions. CPython also counts at each `nc.wrap`, but not at an imported `wrap`.
LOOP = """
def loop(n, i):
    x = i + 0.5
    {prepare}
    for _ in range(n):
        {repeat}
"""

Loop = Callable[[int, int], None]


def loop(prepare: str, repeat: str) -> Loop:
    """Return a function that repeats an operation n times in thread i."""
    scope: dict[str, Loop] = {}
    exec(LOOP.format(prepare=prepare, repeat=repeat), globals(), scope)
    return scope["loop"]


def run(loop: Loop, n: int, threads: int) -> float:
    """Return the seconds from when all threads are ready to when the last one has ended."""
    started: list[float] = []
    ended: list[float] = []
    ready = threading.Barrier(threads, action=lambda: started.append(time.perf_counter()))

    def work(i: int) -> None:
        loop(100, i)
        ready.wait()
        loop(n, i)
        ended.append(time.perf_counter())

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return max(ended) - started[0]


def measure(loop: Loop, seconds: float) -> tuple[float, float]:
    """Return the nanoseconds of one operation, and the work of two threads over that of one."""
    end = time.perf_counter() + seconds
    n = 100
    while run(loop, n, 1) < SHORT:
        n *= 2
    ones, ratios = [], []
    while len(ones) < 3 or time.perf_counter() < end:
        gc.collect()  # without the GIL, what wrap() returns stays until then
        one, two = run(loop, n, 1), run(loop, n, THREADS)
        ones.append(one / n * 1e9)
        ratios.append(THREADS * one / two)
    return median(ones), median(ratios)


def draw(ratios: dict[str, float], about: str) -> str:
    """Return the ratios as an SVG with bars."""
    sys.path.append(str(HERE.parent))
    from bench import machine, svg

    y, names = 20, 220
    parts = [svg.text(0, y, "Work of two threads over that of one", "title")]
    for name, ratio in ratios.items():
        y += svg.LINE
        ours = name not in REFERENCES
        parts += svg.bar(y, name, ratio / THREADS, f"{ratio:.2f}", ours=ours, names=names)
    y += 2 * svg.LINE
    parts.append(svg.text(0, y, f"{about}; {machine.cpu_model()}", "quiet"))
    return svg.picture("The work of two threads over that of one", parts, y + svg.LINE)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seconds", type=float, default=5.0, help="how long it takes, about")
parser.add_argument("--picture", type=Path, metavar="FILE", help="where to draw the ratios")
options = parser.parse_args()

gil = getattr(sys, "_is_gil_enabled", lambda: True)()
about = f"Python {platform.python_version()}, GIL {'on' if gil else 'off'}, garbage collector off"
print(about)
print("operation                                ns  two threads")
gc.disable()
ratios = {}
for name, operation in OPERATIONS.items():
    ns, ratios[name] = measure(loop(*operation), options.seconds / len(OPERATIONS))
    print(f"{name:<34} {ns:10.1f}  {ratios[name]:.2f}")
if options.picture:
    options.picture.write_text(draw(ratios, about), encoding="utf-8")
