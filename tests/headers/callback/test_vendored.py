"""callback.h, dispatch.h and dynamiccall.h: each header alone; copies of callback.h beside each
other, in processes where the package is absent.
"""

import subprocess
import sys
import sysconfig

import pytest

from support import build
from support.headers import compiler
from support.threads import WITHOUT_GIL

HEADERS = [
    *("callback.h", "detail/prototype.h", "detail/values.h", "nativeapi.h", "dispatch.h"),
    *("dynamiccall.h", "detail/registercall.h", "detail/promotion.h"),
]


# -- the headers ---------------------------------------------------------------------------------


# Not C23: CPython 3.13 needs `nullptr` there, which GCC 12 does not have.
@pytest.mark.parametrize("standard", ["c99", "c17", "c++11", "c++20"])
@pytest.mark.parametrize("command", ["gcc", "clang"])
def test_every_header_alone_and_twice(include, tmp_path, command, standard):
    language = "c++" if standard.startswith("c++") else "c"
    found = compiler(command)
    for header in HEADERS:
        source = tmp_path / "alone.c"
        line = f"#include <nativecall/{header}>\n"
        source.write_text(line + line)
        includes = [f"-I{include}", "-isystem", sysconfig.get_path("include")]
        warnings = [*build.WARNINGS, "-Wsign-conversion", "-Wcast-qual", "-Wshadow"]
        options = [f"-std={standard}", "-x", language, *warnings, *includes]
        assert build.refusal([found, *options, "-fsyntax-only", str(source)]) == "", header
        lines = (include / "nativecall" / header).read_text().splitlines()
        assert len(lines) < 500, header


# -- bundles ------------------------------------------------------------------------------------

ALONE = """
import ctypes, ctypes.util, datetime, functools, math, sys
sys.path.insert(0, sys.argv[1])
first, second = (__import__(name) for name in sys.argv[2].split())
assert "nativecall" not in sys.modules
try:
    import nativecall
except ImportError:
    pass
else:
    raise AssertionError("the package is there")
kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
erf = kind(("erf", ctypes.CDLL(ctypes.util.find_library("m"))))
for c in (first, second):
    for f in (erf, math.erf, lambda x: math.erf(x), functools.partial(math.erf)):
        value, was, _ = c.integrate(f)
        assert abs(value - 0.4860679301150624) < 1e-15 and was is False, (f, value, was)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    name = ctypes.c_char_p(b"double (double)")
    capsule = make(ctypes.cast(erf, ctypes.c_void_p), ctypes.cast(name, ctypes.c_void_p), None)
    for box in (capsule, type("LowLevelCallable", (tuple,), {})((capsule, None, None))):
        value, was, _ = c.integrate(box)
        assert abs(value - 0.4860679301150624) < 1e-15 and was is True, (box, value, was)
    try:
        c.integrate(datetime.datetime_CAPI)
    except ValueError as error:
        assert "is 'datetime.datetime_CAPI'; it must be one of" in str(error), error
    else:
        raise AssertionError("a box was read")
    for wrong in (None, 1.5, (1, 2)):
        try:
            c.integrate(wrong)
        except TypeError as error:
            assert str(error).startswith("a callback must be a callable,"), error
        else:
            raise AssertionError("no function was called")
    offers = type("T", (), {"__nativecall_api__": c.api(1), "__call__": lambda self, x: 3.0})
    # A provider of one module is a provider for all.
    for d in (first, second):
        assert d.integrate(offers()) == (0.25, True, 0)
    try:
        c.integrate(lambda x: 1 / 0, 0, 1, 10, "p")
    except ZeroDivisionError as error:
        assert error.__traceback__.tb_next.tb_frame.f_code.co_name == "<lambda>"
    def nested(x):
        return second.nested(lambda y: first.nested(lambda z: 5.0, y), x)
    assert first.nested(nested, 0.0) == 5.0
print("alone")
"""


@pytest.mark.parametrize("order", ["bundled_c bundled_cpp", "bundled_cpp bundled_c"])
def test_with_the_package_absent(bundles, tmp_path, order):
    done = subprocess.run(
        [sys.executable, *WITHOUT_GIL, "-I", "-S", "-W", "error", "-c", ALONE, str(bundles), order],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "alone\n")


def test_linked_from_two_source_files(builder, include):
    path = builder.library(
        build.EXT / "callback_consumer.c",
        "callback_linked",
        flags=[
            "-O0",
            f"-I{include}",
            "-isystem",
            sysconfig.get_path("include"),
            "-DMODULE=callback_linked",
            "-DSECOND_FILE",
            str(build.EXT / "callback_second.c"),
        ],
    )
    linked = build.load_extension(path)
    # What the second file finds is the callback of the first.
    assert linked.nested(lambda x: linked.nested(abs, x) + 1, -1.0) == 2.0
