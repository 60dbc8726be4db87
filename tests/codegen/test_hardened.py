"""Machines that refuse executable memory: callbacks and conversions need none; that no code is
generated for conversions a warning says.

A process of each test gives up rights by a filter of Linux for its system calls (seccomp):
"written" is what systemd's MemoryDenyWriteExecute and SELinux leave, where files can be mapped with
code still; "any" leaves no way to code that was not there, "mapping" none to pages of any kind.
"""

import re
import sys

import pytest

from support import build
from support.modes import generates

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs seccomp"),
    pytest.mark.compiler,
]

BEGIN = """
import contextlib, ctypes, sys, warnings
import numpy as np
import nativecall as nc
from nativecall._codegen import engine

warnings.simplefilter("always")
lib = ctypes.CDLL(sys.argv[1])

def forbid(rights):
    if not (lib.forbid_mapping() if rights == "mapping" else lib.forbid(rights == "any")):
        print("no filter here")
        sys.exit()

def called(f, *arguments):
    # By its C pointer, as C code calls it.
    return nc.wrap(f.address(), f.signatures[0], owner=f)(*arguments)

def mixed():
    # A shape that has no trampoline of its own in the package.
    return nc.callback("d:dqfi", lambda a, b, c, d: a + b + c + d)
"""

#: Each way to C code that was not there, with what it gives.
USES = """
order = "int (*f)(const int *, const int *)"
sort = nc.load(None, f"void qsort(int *a, size_t n, size_t width, {order});")
numbers = np.array([3, 1, 2], "i")
sort.qsort(numbers, 3, 4, lambda a, b: a[0] - b[0])
print(numbers.tolist())
hypot = nc.load("m", "double hypot(double x, double y); double sqrt(double x);")
print(called(mixed(), 0.5, 1, 2.0, 3), called(hypot.hypot.bind(3.0), 4.0))
print(called(hypot.sqrt.convert("f:i"), 4), called(nc.wrap(mixed()).bind(1.0, 2), 3.0, 4))
held = [nc.callback("d:dqfi", lambda *a, n=n: n + a[0]) for n in range(600)]
print(sum(called(f, 0.5, 0, 0.0, 0) for f in held))
bound = [hypot.hypot.bind(float(n)) for n in range(600)]
print(sum(f(0.0) for f in bound))
print(hypot.hypot.to_ufunc()([3.0, 6.0], [4.0, 8.0]).tolist())
"""
USED = "[1, 2, 3]\n6.5 5.0\n2.0 10.0\n180000.0\n179700.0\n[5.0, 10.0]\n"

REFUSED = "this system refuses executable memory (Operation not permitted)"
WARNED = (
    f"RuntimeWarning: {REFUSED}: plans carry out conversions and ufunc loops instead, with the "
    "same results but slower; 'nativecall doctor' shows which\n"
)


@pytest.fixture
def hardened(builder, forked):
    """Run code in a Python that can give up rights; what it printed."""
    library = builder.library(build.EXT / "hardened.c", "hardened")

    def run(code):
        printed = forked("import sys; sys.stderr = sys.stdout\n" + BEGIN + code, library)
        if printed == "no filter here\n":
            pytest.skip("this kernel has no filters of system calls")
        # Without the place of a warning, and the line that is there.
        return re.sub(r"^.*: (RuntimeWarning: .*\n)(?:  .*\n)?", r"\1", printed, flags=re.M)

    return run


@generates
def test_from_the_start_nothing_is_generated(hardened):
    code = f"""
forbid("written")
print(engine.available(), engine.reason())
{USES}
"""
    assert hardened(code) == f"{WARNED}False {REFUSED}\n{USED}"


@generates
def test_a_process_that_gives_up_the_right_keeps_its_code(hardened):
    """A filter is set when a program has begun: LLVM, which would end the process, is not asked."""
    code = f"""
kept = mixed()
print(called(kept, 1.0, 2, 3.0, 4))
power = nc.load("m", "double pow(double x, double y);").pow
print(called(power.bind(2.0), 3.0))
forbid("written")
print(called(kept, 1.0, 2, 3.0, 4), called(mixed(), 1.0, 2, 3.0, 4))
{USES}
"""
    printed = hardened(code)
    assert WARNED in printed
    assert printed.replace(WARNED, "") == f"10.0\n8.0\n10.0 10.0\n{USED}"


@pytest.mark.parametrize("rights", ["any", "mapping"])
def test_where_no_memory_at_all_becomes_executable_it_is_said(hardened, rights):
    """Calls go on; what C would have to call is an error that names the reason and a way out."""
    code = f"""
sqrt = nc.load("m", "double sqrt(double x);").sqrt
nc.load("m", "long double hypotl(long double x, long double y);").hypotl(3.0, 4.0)
forbid({rights!r})
warnings.simplefilter("ignore")
print(sqrt(4.0))
held = []
with contextlib.suppress(RuntimeError):
    while True:  # what the extension has itself
        held.append(mixed())
print(called(held[-1], 1.0, 2, 3.0, 4))
for attempt in (
    mixed,
    lambda: sqrt.bind(4.0),
    lambda: sqrt.convert("f:f"),
):
    try:
        attempt()
    except RuntimeError as error:
        print(error)
held.pop().close()
print(called(mixed(), 1.0, 2, 3.0, 4), sqrt.bind(4.0)())
"""
    told = (
        "this system refuses more executable memory, and all C function pointers that fit in "
        "the existing memory are in use: close callbacks that C no longer calls\n"
    )
    assert hardened(code) == f"2.0\n10.0\n{told * 3}10.0 2.0\n"


@generates
def test_the_doctor_says_what_falls_back(hardened):
    code = """
from nativecall._cli.doctor import run
forbid("written")
warnings.simplefilter("ignore")
print(run())
"""
    printed = hardened(code)
    assert printed.count(REFUSED) == 1
    assert "everything works, but these could work better: conversions" in printed
    assert printed.endswith("\n0\n")
