"""NATIVECALL_TRACE=1: where a process dies in called code, faulthandler names the callable."""

import os
import subprocess
import sys

import pytest

import nativecall as nc

LENGTH = """
import nativecall as nc
c = nc.load(None, "size_t strlen(const char *s); double sqrt(double x);")
"""
#: How a C function that dies is reached, and the frame that says so.
WAYS = {
    "a function of a library": ("c.strlen(None)", "strlen 'Q:&b'"),
    "ahead of time": ("nc.wrap(c.address('strlen'), 'q:q', name='dies')(0)", "dies 'q:q'"),
    "by its plan": (
        "nc.wrap(c.address('strlen'), 'q:qqfi', name='dies')(0, 1, 2, 3)",
        "dies 'q:qqfi'",
    ),
    "bound": ("c.strlen.bind(None)()", "strlen 'Q:'"),
    "an overload": (
        "nc.wrap({'q:q': c.address('strlen'), 'd:d': c.sqrt}, name='both')(0)",
        "both 'q:q'",
    ),
    "a view": ("nc.wrap(c.address('strlen'), 'q:q', name='dies').builtin(0)", "dies 'q:q'"),
}


@pytest.fixture
def process(tmp_path):
    """Run code in a Python of its own."""

    def process(code, trace="1"):
        return subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", LENGTH + code],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"NATIVECALL_TRACE": trace},
        )

    return process


@pytest.mark.parametrize("way", WAYS)
def test_the_first_frame_is_the_callable(process, way):
    code, frame = WAYS[way]
    done = process(code)
    assert done.returncode != 0
    assert "Fatal Python error: Segmentation fault" in done.stderr
    frames = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert frames[0].startswith('  File "<native callable>", line ')
    assert f" in {frame}" in frames[0]


def test_values_and_exceptions_are_as_without_it(process, forked):
    code = """
print(c.sqrt(4.0), c.sqrt.bind(9.0)(), c.sqrt.convert("f:i")(16), c.strlen(b"abc"))
libc = nc.load(None, "int snprintf(char *s, size_t n, const char *format, ...); int puts(char *);")
text = bytearray(8)
print(libc.snprintf(text, 8, b"%d-%g", 7, 0.5), bytes(text))
m = nc.load("m", "double frexp(double x, int *exponent);", out={"frexp": ["exponent"]})
print(m.frexp(40.0))
made = nc.load("c", "typedef struct { int quot, rem; } div_t; div_t div(int a, int b); "
    "void qsort(int *at, size_t n, size_t size, int (*order)(const int *, const int *)); "
    "typedef struct lconv lconv; lconv *localeconv(void);")
at = made.new("int[3]", [3, 1, 2])
made.qsort(at, 3, 4, lambda a, b: a[0] - b[0])
print(list(at), made.div(7, 2), made.localeconv() == made.localeconv())
both = {"d:d": nc.callback("d:d", lambda x: x), "i:i": nc.callback("i:i", lambda n: n + 1)}
print(nc.wrap(both)(1), nc.wrap(both)(1.5))
try:
    c.sqrt("x")
except TypeError as error:
    print(error)
"""
    traced = process(code)
    assert (traced.returncode, traced.stderr) == (0, "")
    assert traced.stdout == forked(LENGTH + code)


def test_it_is_off_by_default(process):
    done = process("c.strlen(None)", "")
    assert "<native callable>" not in done.stderr
    assert nc.wrap(nc.load(None).address("abs"), "i:i").entries[0].trampoline == "ahead of time"
