"""Every example runs from any directory, prints what it promises, writes nothing to stderr
and leaves no file behind.

Figures of time differ between runs; `{ns}` and the like stand for them.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support import build
from support.levels import sweep, where

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GIL = "on" if getattr(sys, "_is_gil_enabled", lambda: True)() else "off"
PYTHON = re.escape(f"Python {platform.python_version()}, GIL {GIL}")

EXPECTED = {
    "cluster.py": """
J0 from 0 to 200   0.945774000539, SciPy has 0.945774000539
by the workers     20 pieces, none here: True
""",
    "pipeline/run.py": """
SciPy's quad       0.615690344193, 135 calls
exact              0.615690344193
NumPy's ufunc      0.615690, 100001 calls
calls with objects 0
after one          1, which Python made
""",
    "pipeline/over_dask.py": """
8 pieces           0.615690344193
exact              0.615690344193
calls with objects 0, none here: True
""",
    "quickstart.py": """
cos(0.0)           1.0
pow(2, 10)         1024.0
by name            8.0
frexp(40.0)        0.625 6
entry              d:d 0x0 True
wrapped            1.0 5
built-in view      1.0 True
div(17, 5)         div_t(quot=3, rem=2)
snprintf           3 apples, 0.5 kg
close(-1)          OSError 9
TypeError:         argument 1 of 'cos' must be a real number (got str)
TypeError:         'cos' takes exactly 1 argument (2 given)
SymbolError:       no symbol 'coz' in 'm'; did you mean 'cos'?
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
ValueError:        'sqrt' has an entry 'd:d' already; pass replace=True to replace its function
NoEntryError:      no native entry for 'i:i'; 'sqrt' offers 'd:d', 'f:f', 'Zd:Zd'
TypeError:         no entry of 'sqrt' takes (str); it offers 'd:d', 'f:f', 'Zd:Zd'
ValueError:        'target' has 'd:d' and 'double (double)', the same signature here: 'd:d'
""",
    "quad.py": """
cos from 0 to 1    0.841470984808, sin(1) is 0.841470984808
erfc from 0 to inf 0.564189583548, 1/sqrt(pi) is 0.564189583548
f.to_scipy()           0.841470984808 {time} microseconds
f                      0.841470984808 {time} microseconds
a Python function      0.841470984808 {time} microseconds
""",
    "numba_both_ways.py": """
bell from 0 to inf 0.886226925453, sqrt(pi)/2 is 0.886226925453
compiled for       d:d
the loop           4532.838159808, NumPy's is 4532.838159808
as an argument     24.000000000 0.778800783
""",
    "ufunc.py": """
distance           [5.0, 13.0, 17.0]
to a point         [4.0, 4.47213595499958, 6.4031242374328485]
the kind           ufunc ['dd->d']
columns stay       True
broadcast          (3, 3) [5.0, 12.369, 15.297]
reduced            9.899495
where              [5.0, 0.0, 17.0]
two results        [0.75, 0.625, 0.5] [2, 3, 4] ['d->di']
ValueError:        -1.0 is below zero
a ufunc's loop     1.0 True
""",
    "cpp_numerics/run.py": """
the integral of cos from 0 to 1; sin(1) is 0.841470985
native callable    0.841470985 called natively
capsule            0.841470985 called natively
ctypes, wrapped    0.841470985 called natively
cffi, wrapped      0.841470985 called natively
Python function    0.841470985 called through Python
a root of cos      1.570796327 called natively; pi/2 is 1.570796327
y' = y - t         4.718281828 called through Python; e + 2 is 4.718281828
y' = fdim(t, y)    2.000000000 called natively
ZeroDivisionError: {division}
ValueError:        the function has the same sign at both ends
TypeError:         a callback must be a callable, a LowLevelCallable or a capsule with a function \
for 'double (double)', 'double (double, void *)' (got 'cos')
nativecall there   False
ctypes function    0.841470985 called through Python
Python function    0.841470985 called through Python
""",
    "cython_numerics/run.py": """
the integral of cos from 0 to 1; sin(1) is 0.841470985
native callable    0.841470985 called natively
built-in view      0.841470985 called natively
cdef function      0.841470985 called natively
ctypes, wrapped    0.841470985 called natively
Python function    0.841470985 called through Python
a root of cos      1.570796327 called natively; pi/2 is 1.570796327
y' = y - t         4.718281828 called through Python; e + 2 is 4.718281828
y' = fdim(t, y)    2.000000000 called natively
ZeroDivisionError: {division}
ValueError:        the function has the same sign at both ends
ZeroDivisionError: {division}
the mean of fabs from -0.5 to 0.5 by 100000 points
bare pointer       0.250000000 {time} ns a call
native callable    0.250000000 {time} ns a call
cdef class         0.250000000 {time} ns a call
Python function    0.250000000 {time} ns a call
""",
    "array_vtable/run.py": """
mean of every second element, the largest, and how far apart they are
static type        1.000000 2.500000 2.000000 read natively
Python class       1.500000 2.000000 1.000000 read natively
cdef class         0.472972 0.997495 0.997495 read natively
a subclass         4.000000 4.000000 1.000000 read natively
taken back         10.000000 25.000000 20.000000 read through Python
without the slot   1.500000 2.000000 1.000000 read through Python
list               1.000000 2.500000 2.000000 read through Python
ValueError:        a mean needs an element and a step forward (got 0 and 1)
TypeError:         must be real number, not str
""",
    "generic_filter/run.py": """
capsule            [2.333, 2.667, 5.0, 4.333, 4.667] called natively
LowLevelCallable   [2.333, 2.667, 5.0, 4.333, 4.667] called natively
with user_data     [4.667, 5.333, 10.0, 8.667, 9.333] called natively
native callable    [5.0, 5.0, 8.0, 8.0, 8.0] called natively
Python function    [9.0, 9.0, 13.0, 13.0, 11.0] called through Python
ZeroDivisionError: {division}
ValueError:        the function in LowLevelCallable(<CFunctionType object at {address}>, None) is \
'double (double)'; it must be one of 'int (double *, npy_intp, double *, void *)', \
'double (const double *, npy_intp)'
""",
    "quadrature/run.py": """
with callback.h
native callable    0.746824133, 209 native calls, 0 boxed
Cython capsule     0.746824133, 209 native calls, 0 boxed
LowLevelCallable   0.746824133, 209 native calls, 0 boxed
Numba cfunc        0.746824133, 209 native calls, 0 boxed
ctypes pointer     0.746824133, 209 native calls, 0 boxed
cffi pointer       0.746824133, 209 native calls, 0 boxed
Python function    0.746824133, 0 native calls, 209 boxed
ZeroDivisionError: {division}
with args=(1.0, 0.0)
native callable    0.746824133, 209 native calls, 0 boxed
LowLevelCallable   0.746824133, 209 native calls, 0 boxed
Python function    0.746824133, 0 native calls, 209 boxed
ValueError:        the function in LowLevelCallable(<CFunctionType object at {address}>, None) is \
'double (double, double, double)'; it must be one of 'double (double)', 'double (int, double *)', \
'double (int, double *, void *)', 'double (double, void *)'
with nativecall_abi.h
native callable    0.746824133, 209 native calls, 0 boxed
Cython capsule     0.746824133, 209 native calls, 0 boxed
LowLevelCallable   0.746824133, 209 native calls, 0 boxed
Numba cfunc        0.746824133, 209 native calls, 0 boxed
ctypes pointer     0.746824133, 209 native calls, 0 boxed
cffi pointer       0.746824133, 209 native calls, 0 boxed
nc.callback        0.746824133, 209 native calls, 0 boxed
Python function    0.746824133, 0 native calls, 209 boxed
ZeroDivisionError: {division}
ZeroDivisionError: {division}
""",
    "raw_consumer/run.py": """
the integral of cos from 0 to 1 by 200000 points; sin(1) is 0.841470985
cos                0.841470985 called natively        {time} ns a call
cos.builtin        0.841470985 called natively        {time} ns a call
math.cos           0.841470985 called through Python  {time} ns a call
a Python function  0.841470985 called through Python  {time} ns a call
ZeroDivisionError: {division}
""",
    "rust_consumer/run.py": """
the integral of cos from 0 to 1 by 200000 points; sin(1) is 0.841470985
cos                0.841470985 called natively        {time} ns a call
cos.builtin        0.841470985 called natively        {time} ns a call
math.cos           0.841470985 called through Python  {time} ns a call
a Python function  0.841470985 called through Python  {time} ns a call
ZeroDivisionError: {division}
""",
    "shipping/run.py": """
wheel              geometry/__init__.py geometry/__init__.pyi geometry/geometry.nc \
geometry/libgeometry.so geometry/py.typed
distance           5.0
perimeter          12.0
box                (1, struct geo_point(x=1.0, y=2.0), struct geo_point(x=4.0, y=5.0))
dimensions         2
""",
    "signature_reader/run.py": """
what objects offer
sqrt               d:d by table, f:f by table
sqrt.builtin       d:d by table, f:f by table
hypotenuse         d:dd by __nativecall_api__, f:ff by __nativecall_api__
libm.cabs          d:Zd by table
math.sqrt          nothing

lldiv, T{qq}:qq
result: struct, size 16, alignment 8, in rax, rdx
  byte 0: int64, size 8
  byte 8: int64, size 8
argument 1: int64, size 8, in rdi
argument 2: int64, size 8, in rsi

inet_lnaof, I:T{I}
result: uint32, size 4, in rax
argument 1: struct, size 4, in rdi
  byte 0: uint32, size 4

qsort, v:PQQX{i:PP}
result: void
argument 1: pointer, size 8, in rdi
argument 2: uint64, size 8, in rsi
argument 3: uint64, size 8, in rdx
argument 4: function pointer, size 8, in rcx
  result: int32, size 4
  argument 1: pointer, size 8
  argument 2: pointer, size 8

no function, T{ddd}:T{di}&T{f(2)i}[2]d=T{bi}
result: struct, size 24, alignment 8, in memory at rdi
  byte 0: float64, size 8
  byte 8: float64, size 8
  byte 16: float64, size 8
argument 1: struct, size 16, alignment 8, in xmm0, rsi
  byte 0: float64, size 8
  byte 8: int32, size 4
argument 2: pointer, size 8, in rdx
  to: struct, size 12, alignment 4
    byte 0: float32, size 4
    byte 4: array of 2, size 8, alignment 4
      element: int32, size 4
argument 3: view in 2 dimensions, size 8, in rcx
  item: float64, size 8
argument 4: packed struct, size 5, alignment 1, on the stack
  byte 0: int8, size 1
  byte 1: int32, size 4

what calls take
sqrt of d          1.414213562 d:d, 0 widened
sqrt of f          1.414213538 f:f, 0 widened
sqrt of i          1.414213562 d:d, 1 widened
sqrt of q          1.414213562 through Python
hypotenuse of ff   5.000000000 f:ff, 0 widened
hypotenuse of fi   5.000000000 d:dd, 2 widened
ldexp of fi        6.000000000 d:di, 1 widened
fma of ddd         10.000000000 d:ddd, 0 widened
math.sqrt of d     1.414213562 through Python
ValueError:        'signature' must be a canonical signature, like 'd:dd' (got 'double (double)')
OverflowError:     an argument of type 'i' must fit int32 (got 1099511627776)
ValueError:        'types' must consist of 'i', 'q', 'f' and 'd' (got 'Z')
ZeroDivisionError: {division}
""",
    "object_compiler/run.py": """
Counter            10
Doubling           20
Tripling           30
Limited            ValueError: five is the most
""",
    "particles/run.py": """
made               1000000
watched            True
all in the air     True
in the first chain 20
{plotted}
a method           True
living             0
a subclass         1.9019
living             1
""",
    "threads.py": """
{python}, garbage collector off
operation                                ns  two threads
an empty loop                      {time}  {ratio}
math.cos(x)                        {time}  {ratio}
f(x), one function                 {time}  {ratio}
f(x), two functions                {time}  {ratio}
f.builtin(x), f.builtin read once  {time}  {ratio}
f["d:d"]                           {time}  {ratio}
lib.half(x)                        {time}  {ratio}
wrap(address, "d:d")               {time}  {ratio}
callback("d:d", function)          {time}  {ratio}
one callback, 100 calls from C     {time}  {ratio}
two callbacks, 100 calls from C    {time}  {ratio}
ufunc(array of 10,000)             {time}  {ratio}
string(pointer)                    {time}  {ratio}
Point()                            {time}  {ratio}
point.x                            {time}  {ratio}
point.next                         {time}  {ratio}
point.move(x)                      {time}  {ratio}
""",
    "workqueue/run.py": """
jobs               501 jobs
primes below 100000: 9592
by jobs            46, 32, 31, ...
Python's method    10, of 'twins'
TypeError          expected a native object of class Job (got Batch)
jobspp             501 jobs
primes below 100000: 9592
by jobs            46, 32, 31, ...
Python's method    10, of 'twins'
TypeError          expected a native object of class Job (got Batch)
""",
    "solvers/run.py": """
Brent's method on Kepler's equation
native callable          1.120685893 {count} calls natively {time} microseconds
its built-in view        1.120685893 {count} calls natively {time} microseconds
LowLevelCallable         1.120685893 {count} calls natively {time} microseconds
the same with user_data  1.120685893 {count} calls natively {time} microseconds
cffi pointer, wrapped    1.120685893 {count} calls natively {time} microseconds
ctypes pointer, wrapped  1.120685893 {count} calls natively {time} microseconds
Numba cfunc, wrapped     1.120685893 {count} calls natively {time} microseconds
Python function          1.120685893 {count} calls through Python {time} microseconds
SciPy, native callable   1.120685893 {count} calls through Python {time} microseconds
SciPy, Python function   1.120685893 {count} calls through Python {time} microseconds
Dormand and Prince's pair on ten periods of a pendulum
native callable          {angle} {count} calls natively {time} microseconds
its built-in view        {angle} {count} calls natively {time} microseconds
LowLevelCallable         {angle} {count} calls natively {time} microseconds
the same with user_data  {angle} {count} calls natively {time} microseconds
cffi pointer, wrapped    {angle} {count} calls natively {time} microseconds
ctypes pointer, wrapped  {angle} {count} calls natively {time} microseconds
Numba cfunc, wrapped     {angle} {count} calls natively {time} microseconds
Python function          {angle} {count} calls through Python {time} microseconds
SciPy, Python function   {angle} {count} calls through Python {time} microseconds
{plotted}
ZeroDivisionError:       {division}
ValueError:              the result of f(t, y) must have 2 numbers (got 1)
ValueError:              the function has the same sign at both ends
""",
}
NEEDS = {
    "cluster.py": ["scipy", "distributed"],
    "pipeline/run.py": ["scipy", "numba"],
    "pipeline/over_dask.py": ["scipy", "numba", "distributed"],
    "array_vtable/run.py": ["setuptools", "Cython"],
    "cpp_numerics/run.py": ["setuptools"],
    "cython_numerics/run.py": ["setuptools", "Cython"],
    "generic_filter/run.py": ["setuptools", "scipy"],
    "object_compiler/run.py": ["setuptools"],
    "particles/run.py": ["setuptools"],
    "quad.py": ["scipy"],
    "quadrature/run.py": ["setuptools", "Cython", "scipy", "numba"],
    "raw_consumer/run.py": ["setuptools"],
    "shipping/run.py": ["setuptools"],
    "signature_reader/run.py": ["setuptools"],
    "solvers/run.py": ["setuptools", "scipy", "numba"],
    "workqueue/run.py": ["setuptools"],
}


def test_all_examples_are_here():
    found = {path.name for path in EXAMPLES.glob("[!_]*.py")}
    for pattern in ("*/run.py", "*/over_*.py"):
        found |= {f"{path.parent.name}/{path.name}" for path in EXAMPLES.glob(pattern)}
    assert found == set(EXPECTED)


#: What takes more than a second of one processor: `--nightly` runs them.
SLOW = {
    *("cluster.py", "numba_both_ways.py", "pipeline/run.py", "pipeline/over_dask.py"),
    *("array_vtable/run.py", "cpp_numerics/run.py", "cython_numerics/run.py", "particles/run.py"),
    *(
        "quadrature/run.py",
        "rust_consumer/run.py",
        "signature_reader/run.py",
        "solvers/run.py",
        "threads.py",
        "workqueue/run.py",
    ),
}


@pytest.mark.parametrize("backend", sweep(["scikit-build-core", "meson-python"]))
def test_shipping_by_other_build_systems(backend, tmp_path):
    for package in (backend, "pip"):
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            pytest.skip(f"{package} is not installed")
    if build.compiler() is None:
        pytest.skip("no C compiler")
    runs("shipping/run.py", tmp_path, backend)


@pytest.mark.nightly
def test_threads_draws_a_picture(tmp_path):
    if build.compiler() is None:
        pytest.skip("no C compiler")  # for the functions of threads.h
    runs("threads.py", tmp_path, "--seconds", "1", "--picture", "threads.svg")
    drawn = ElementTree.parse(tmp_path / "threads.svg").iter("{http://www.w3.org/2000/svg}rect")
    assert len(list(drawn)) == EXPECTED["threads.py"].count("{ratio}")


@pytest.mark.parametrize("name", where(EXPECTED, lambda name: name not in SLOW))
def test_example(name, tmp_path):
    for module in NEEDS.get(name, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    language = "c++" if name.startswith(("cpp_", "particles", "workqueue")) else "c"
    if name.endswith(("/run.py", "threads.py")) and build.compiler(language) is None:
        pytest.skip(f"no {language} compiler")  # the README asks for one
    if name.startswith("rust_") and shutil.which("rustc") is None:
        pytest.skip("no Rust compiler")  # no registry of Python packages has one
    runs(name, tmp_path)


def runs(name: str, tmp_path: Path, *options: str) -> None:
    """Run an example, and compare what it prints."""
    before = files_beside(name)
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *options],
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
        pattern = pattern.replace(r"\{count\}", r"\d+").replace(r"\{angle\}", r"0\.999999\d{3}")
        pattern = pattern.replace(r"\{ratio\}", r"\d+\.\d\d").replace(r"\{python\}", PYTHON)
        pattern = pattern.replace(r"\{plotted\}", r"plotted: \w+\.svg|not plotted: .*")
        pattern = pattern.replace(r"\{address\}", "0x[0-9a-f]+")
        # Python 3.14 leaves the word 'float' out.
        pattern = pattern.replace(r"\{division\}", "(float )?division by zero")
        assert re.fullmatch(pattern, line), f"{line!r} is not {wanted!r}"
    assert files_beside(name) == before


def files_beside(name: str) -> set[str]:
    """The files that an example may not change: all in its folder, except Python's own."""
    return {path.name for path in (EXAMPLES / name).parent.iterdir()} - {"__pycache__"}


def test_the_gallery_shows_every_example_once():
    place = EXAMPLES.parent / "docs" / "_extensions" / "gallery.py"
    spec = importlib.util.spec_from_file_location("gallery", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shown = re.findall(r"<summary>examples/(.*?)</summary>", module.gallery())
    libraries = [path.relative_to(EXAMPLES) for path in EXAMPLES.glob("libraries/*/by_native*.py")]
    assert sorted(shown) == sorted([*EXPECTED, *map(str, libraries)])
    assert not re.search(
        r"\{(time|ratio|count|angle|address|division|plotted|python)\}", module.gallery()
    )
