"""Find roots and solve differential equations with any callable, and compare with SciPy.

SciPy's `brentq` and `solve_ivp` call Python functions only. The solvers in C here call those as
well, and native functions in any box with no Python in between. The program builds them, checks
every answer, prints the times and, where matplotlib is, plots them: solvers.svg in the current
directory.
"""

from __future__ import annotations

import array
import ctypes
import math
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import ellipk

import nativecall as nc

HERE = Path(__file__).resolve().parent
PLOT = "solvers.svg"
DECLARATIONS = """
    double kepler(double x);
    double kepler_of(double x, void *orbit);
    void pendulum(double t, const double *y, double *dydt);
    void pendulum_of(double t, const double *y, double *dydt, void *ratio);
"""
ORBIT, RATIO = array.array("d", [0.967, 0.25]), array.array("d", [1.0])  # what the _of ones get
DOUBLES = ctypes.POINTER(ctypes.c_double)

ENDS = (0.0, 3.0)
ROOT = 1.120685892866235536  # by Newton's method in 40 decimal digits
SPAN = (0.0, 10 * 4 * ellipk(math.sin(0.5) ** 2))  # ten periods, after which it is where it was
LET_GO = (1.0, 0.0)
PRECISION = {"rtol": 1e-8, "atol": 1e-10}

# What is timed; and the same with the answer, the number of calls, and whether those are native.
Way = tuple[Callable[[], Any], Callable[[], tuple[float, int, bool]]]
Times = dict[str, tuple[float, bool]]


def kepler(x: float) -> float:
    """Kepler's equation, as problems.c has it."""
    return x - 0.967 * math.sin(x) - 0.25


def pendulum(t: float, y: Sequence[float]) -> tuple[float, float]:
    """The right side of a pendulum's equations, as problems.c has it."""
    return y[1], -math.sin(y[0])


def jitted_pendulum(t: float, y: Any, dydt: Any) -> None:
    """The same over pointers, for Numba."""
    dydt[0] = y[1]
    dydt[1] = -math.sin(y[0])


def broken(t: float, y: Sequence[float]) -> tuple[float, float]:
    """A right side that raises when the pendulum has come down."""
    return y[1], -1.0 / (y[0] > 0.5)


def build(directory: str) -> str:
    """Compile the solvers and the library of problems, and return the path of that."""
    command = [sys.executable, "setup.py", "-q", "build_ext"]
    places = ["--build-lib", directory, "--build-temp", f"{directory}/temp"]
    subprocess.run([*command, *places], cwd=HERE, check=True)
    return str(next(Path(directory).glob("problems.*")))


def boxes(
    f: nc.NativeCallable, with_data: nc.NativeCallable, data: array.array[float]
) -> dict[str, Any]:
    """Return one native function in boxes that the solvers look into."""
    return {
        "native callable": f,
        "its built-in view": f.builtin,
        "LowLevelCallable": f.to_scipy(*f.signatures),
        "the same with user_data": with_data.to_scipy(*with_data.signatures, user_data=data),
        "cffi pointer, wrapped": nc.wrap(f.to_cffi()),
    }


def jitted(signature: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Return what Numba makes of a Python function, where Numba is."""
    try:
        import numba
    except ImportError:
        return {}
    return {"Numba cfunc, wrapped": nc.wrap(numba.cfunc(signature)(function))}


def with_brentq(f: Any) -> tuple[float, int, bool]:
    """A root by SciPy, whose C code calls Python."""
    root, report = brentq(f, *ENDS, full_output=True)
    return root, report.function_calls, False


def with_solve_ivp(f: Any) -> tuple[tuple[float, ...], int, bool]:
    """A solution by SciPy, which is all in Python."""
    solution = solve_ivp(f, SPAN, LET_GO, **PRECISION)
    return tuple(solution.y[:, -1]), solution.nfev, False


def angle(solve: Callable[[], tuple[Sequence[float], int, bool]]) -> tuple[float, int, bool]:
    """The first component of a solution."""
    y, calls, native = solve()
    return y[0], calls, native


def shortest(solve: Callable[[], Any]) -> float:
    """The shortest of five mean times, in microseconds."""
    timer, number = timeit.Timer(solve), 1
    while (once := timer.timeit(number)) < 0.005:
        number *= 4
    return min(once, *timer.repeat(repeat=4, number=number)) / number * 1e6


def show(problem: str, answer: float, error: float, ways: dict[str, Way]) -> Times:
    """Check and print what each way finds; return the times, and which ones are native."""
    print(problem)
    times = {}
    for name, (solve, look) in ways.items():
        found, calls, native = look()
        if not abs(found - answer) <= error:
            raise ValueError(f"{name} found {found!r} where {answer!r} is right")
        times[name] = shortest(solve), native
        called = f"{calls} calls {'natively' if native else 'through Python'}"
        print(f"{name:<24} {found:.9f} {called:<25} {times[name][0]:7.1f} microseconds")
    return times


def plot(problems: dict[str, Times]) -> str:
    """Draw the times, and return where they are or why they are not."""
    try:
        import matplotlib
    except ImportError:
        return 'not plotted: needs matplotlib; pip install "nativecall[examples]"'
    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(problems), layout="constrained", figsize=(8, 7))
    for axis, (problem, times) in zip(axes, problems.items(), strict=True):
        for name, (time, native) in times.items():
            axis.plot(time, name, "o", color="tab:blue" if native else "tab:orange")
            axis.annotate(f"  {time:,.1f}", (time, name), va="center")
        axis.set(title=problem, xlabel="microseconds; orange: through Python", xscale="log")
        axis.invert_yaxis()
        axis.margins(x=0.12)
        axis.grid(axis="x", alpha=0.3)
    figure.savefig(PLOT)
    pyplot.close(figure)
    return f"plotted: {PLOT}"


with tempfile.TemporaryDirectory() as built:
    path = build(built)
    sys.path.insert(0, built)
    import solvers

    problems, raw = nc.load(path, DECLARATIONS), ctypes.CDLL(path)
    functions = boxes(problems.kepler, problems.kepler_of, ORBIT)
    pointer = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(("kepler", raw))
    functions["ctypes pointer, wrapped"] = nc.wrap(pointer)
    functions |= jitted("float64(float64)", kepler)
    functions["Python function"] = kepler
    ways: dict[str, Way] = {}
    for name, f in functions.items():
        solve = partial(solvers.find_root, f, *ENDS)
        ways[name] = solve, solve
    for name, f in {"native callable": problems.kepler, "Python function": kepler}.items():
        ways[f"SciPy, {name}"] = partial(brentq, f, *ENDS), partial(with_brentq, f)
    title = "Brent's method on Kepler's equation"
    times = {title: show(title, ROOT, 1e-11, ways)}

    functions = boxes(problems.pendulum, problems.pendulum_of, RATIO)
    pointer = ctypes.CFUNCTYPE(None, ctypes.c_double, DOUBLES, DOUBLES)(("pendulum", raw))
    functions["ctypes pointer, wrapped"] = nc.wrap(pointer)
    functions |= jitted("void(float64, CPointer(float64), CPointer(float64))", jitted_pendulum)
    functions["Python function"] = pendulum
    ways = {}
    for name, f in functions.items():
        solve = partial(solvers.solve_ode, f, SPAN, LET_GO, **PRECISION)
        ways[name] = solve, partial(angle, solve)
    solve = partial(with_solve_ivp, pendulum)
    ways["SciPy, Python function"] = solve, partial(angle, solve)
    title = "Dormand and Prince's pair on ten periods of a pendulum"
    times[title] = show(title, 1.0, 1e-6, ways)
    print(plot(times))

    # What Python raises in the middle of the work comes out as it was raised.
    for solve in (
        partial(solvers.solve_ode, broken, SPAN, LET_GO),
        partial(solvers.solve_ode, lambda t, y: y[:1], SPAN, LET_GO),
        partial(solvers.find_root, problems.kepler, 2.0, 3.0),
    ):
        try:
            solve()
        except (ZeroDivisionError, ValueError) as error:
            print(f"{type(error).__name__ + ':':<24} {error}")
