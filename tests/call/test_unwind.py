"""What walks the C stack passes through a call: C++ exceptions and debuggers."""

import ctypes
import shutil
import subprocess
import sys

import pytest

import nativecall as nc

THROWING = """
#include <Python.h>
extern "C" {
double throwing(double a, int b, double c, int d);
double throwing(double a, int b, double c, int d) { throw a + b + c + d; }
double many(double a, double b, double c, double d, double e, double f, double g, double h, int i,
            double j, int k);
double many(double a, double b, double c, double d, double e, double f, double g, double h, int i,
            double j, int k) { throw a + b + c + d + e + f + g + h + i + j + k; }
double caught(PyObject *function, PyObject *arguments);
double caught(PyObject *function, PyObject *arguments)
{
    try {
        PyObject *result = PyObject_Call(function, arguments, NULL);
        Py_XDECREF(result);
        return -1;
    } catch (double found) {
        return found;
    }
}
}
"""


@pytest.mark.compiler
def test_exceptions_of_cpp_pass_through(builder):
    import sysconfig

    include = ["-isystem", sysconfig.get_path("include")]
    path = builder.library(THROWING, "throwing", flags=("-O1", *include), language="c++")
    lib = nc.load(str(path))
    caught = ctypes.PyDLL(str(path)).caught
    caught.restype, caught.argtypes = ctypes.c_double, [ctypes.py_object] * 2
    few, many = lib.function("throwing", "d:didi"), lib.function("many", "d:ddddddddidi")
    for _ in range(100):
        assert caught(few, (0.5, 1, 2.0, 3)) == 6.5
        assert caught(many, (*range(8), 8, 9.0, 10)) == sum(range(11))
    assert caught(abs, (-1,)) == -1


@pytest.mark.compiler
@pytest.mark.parametrize("call", ["f(0.5, 1, 2.0, 3)", "apply(lambda x: f(x, 1, 2.0, 3), 0.5)"])
def test_an_exception_of_cpp_that_no_code_catches_ends_the_process(builder, call):
    source = """
extern "C" double throws(double a, int b, double c, int d) { throw a + b + c + d; }
extern "C" double apply(double (*f)(double), double x) { return f(x); }
"""
    path = builder.library(source, "uncaught", language="c++", flags=("-O1", "-w"))
    code = f"""
import nativecall as nc
lib = nc.load({str(path)!r})
f, apply = lib.function("throws", "d:didi"), lib.function("apply", "d:X{{d:d}}d")
{call}
"""
    done = subprocess.run(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, check=False, cwd=builder.directory
    )
    assert done.returncode < 0
    assert b"terminate called after throwing an instance of 'double'" in done.stderr


@pytest.mark.skipif(shutil.which("gdb") is None, reason="there is no gdb")
def test_debuggers_see_who_called(builder):
    path = builder.library(
        "#include <signal.h>\nint stops(int n, double x, int m);\n"
        "int stops(int n, double x, int m) { raise(SIGTRAP); return n + (int)x + m; }",
        "stops",
        flags=("-g", "-O0"),
    )
    code = f"import nativecall as nc; nc.load({str(path)!r}).function('stops', 'i:idi')(1, 2.0, 3)"
    done = subprocess.run(
        ["gdb", "-batch", "-ex", "run", "-ex", "bt", "--args", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=builder.directory,
    )
    frames = [line for line in done.stdout.splitlines() if line.startswith("#")]
    at = next((i for i, line in enumerate(frames) if " nc_invoke" in line), None)
    assert at is not None, done.stdout + done.stderr
    assert any(" stops " in line for line in frames[:at])
    assert any("main" in line for line in frames[at:])
