"""Every example runs from any directory, prints what it promises, and writes nothing to stderr.

Figures of time differ between runs; `{ns}` and the like stand for them.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

EXPECTED = {
    "quickstart.py": """
cos(0.0)           1.0
pow(2, 10)         1024.0
by name            8.0
frexp(40.0)        0.625 6
entry              d:d 0x0 True
wrapped            1.0 5
built-in view      1.0 True
div(17, 5)         3 2
snprintf           3 apples, 0.5 kg
close(-1)          OSError 9
TypeError:         argument 1 of 'cos' must be a real number (got str)
TypeError:         'cos' takes exactly 1 argument (2 given)
SymbolError:       no symbol 'coz' in 'm'; did you mean 'cos'
NoEntryError:      no native entry for 'f:f'; 'cos' offers 'd:d'
""",
    "overloads.py": """
signatures         d:d f:f
a Python float     1.4142135623730951
a NumPy float32    1.4142135381698608
an int             1.4142135623730951
a complex          2j
one entry          1.4142135381698608 ('f:f',)
as a C pointer     1.4142135381698608
same key           ('q:q',) True
ValueError:        'sqrt' has an entry 'd:d' already; pass replace=True to put another function in \
its place
NoEntryError:      no native entry for 'i:i'; 'sqrt' offers 'd:d', 'f:f', 'Zd:Zd'
TypeError:         no entry of 'sqrt' takes (str); it offers 'd:d', 'f:f', 'Zd:Zd'
ValueError:        'target' has 'd:d' and 'double (double)', which are one signature here: 'd:d'
""",
    "quad.py": """
cos from 0 to 1    0.841470984808, sin(1) is 0.841470984808
erfc from 0 to inf 0.564189583548, 1/sqrt(pi) is 0.564189583548
f.to_scipy()           0.841470984808 {time} microseconds
f                      0.841470984808 {time} microseconds
a Python function      0.841470984808 {time} microseconds
""",
    "integrator/run.py": """
the integral of cos from 0 to 1; sin(1) is 0.841470985
native callable    0.841470985 called natively
built-in view      0.841470985 called natively
capsule            0.841470985 called natively
ctypes pointer     0.841470985 called natively
cffi pointer       0.841470985 called natively
math.cos           0.841470985 called through Python
Python function    0.841470985 called through Python
a root of cos      1.570796327 called natively; pi/2 is 1.570796327
y' = y - t         4.718281828 called through Python; e + 2 is 4.718281828
y' = fdim(t, y)    2.000000000 called natively
ZeroDivisionError: {division}
TypeError:         a callback must be a callable, a LowLevelCallable or a capsule with a function \
for 'd:d', 'd:dP' with user_data as argument 2 (got 'cos')
""",
    "cython_numerics/run.py": """
the integral of cos from 0 to 1; sin(1) is 0.841470985
native callable    0.841470985 called natively
built-in view      0.841470985 called natively
cdef function      0.841470985 called natively
ctypes pointer     0.841470985 called natively
Python function    0.841470985 called through Python
a root of cos      1.570796327 called natively; pi/2 is 1.570796327
y' = y - t         4.718281828 called through Python; e + 2 is 4.718281828
y' = fdim(t, y)    2.000000000 called natively
ZeroDivisionError: {division}
ValueError:        the function has the same sign at both ends
the mean of fabs from -0.5 to 0.5 by 100000 points
bare pointer       0.250000000 {time} ns a call
native callable    0.250000000 {time} ns a call
cdef class         0.250000000 {time} ns a call
Python function    0.250000000 {time} ns a call
""",
    "raw_consumer/run.py": """
the integral of cos from 0 to 1 by 200000 points; sin(1) is 0.841470985
cos                0.841470985 called natively        {time} ns a call
cos.builtin        0.841470985 called natively        {time} ns a call
math.cos           0.841470985 called through Python  {time} ns a call
a Python function  0.841470985 called through Python  {time} ns a call
""",
}
NEEDS = {
    "cython_numerics/run.py": ["setuptools", "Cython"],
    "integrator/run.py": ["setuptools"],
    "quad.py": ["scipy"],
    "raw_consumer/run.py": ["setuptools"],
}


def test_all_examples_are_here():
    found = {path.name for path in EXAMPLES.glob("*.py")}
    found |= {f"{path.parent.name}/run.py" for path in EXAMPLES.glob("*/run.py")}
    assert found == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name, tmp_path, build):
    for module in NEEDS.get(name, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    if name.endswith("/run.py") and build.compiler() is None:
        pytest.skip("no C compiler")
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        capture_output=True,
        check=False,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    printed, expected = done.stdout.splitlines(), EXPECTED[name].strip().splitlines()
    assert len(printed) == len(expected)
    for line, wanted in zip(printed, expected, strict=True):
        pattern = re.escape(wanted).replace(r"\{time\}", r" *\d+\.\d")
        # Python 3.14 leaves the word 'float' out.
        pattern = pattern.replace(r"\{division\}", "(float )?division by zero")
        assert re.fullmatch(pattern, line), f"{line!r} is not {wanted!r}"


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("cython_numerics", {"numerics.pyx", "run.py", "setup.py"}),
        ("integrator", {"module.c", "numerics.c", "numerics.h", "run.py", "setup.py"}),
        ("raw_consumer", {"midpoint.c", "run.py", "setup.py"}),
    ],
)
def test_examples_leave_nothing_behind(name, files):
    assert {path.name for path in (EXAMPLES / name).iterdir()} - {"__pycache__"} == files
