"""The README keeps its word: sessions print what they show, the C code compiles and runs."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import nativecall as nc
from support import build

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# What turns the C code of the README into a module.
MODULE = r"""
static PyObject *py_midpoint(PyObject *self, PyObject *args)
{
    PyObject *f;
    double a, b, sum;
    int n;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oddi", &f, &a, &b, &n)) return NULL;
    if (d_d == NULL && nc_signature_intern("d:d", &d_d) < 0) return NULL;
    if (midpoint(f, a, b, n, &sum) < 0) Py_RETURN_NONE;
    return PyFloat_FromDouble(sum);
}

static PyObject *py_mean_of_ends(PyObject *self, PyObject *args)
{
    PyObject *f;
    double a, b;
    (void)self;
    return PyArg_ParseTuple(args, "Odd", &f, &a, &b) ? mean_of_ends(f, a, b) : NULL;
}

static PyObject *py_twice(PyObject *self, PyObject *args)
{
    PyObject *f;
    double x;
    int n;
    (void)self;
    return PyArg_ParseTuple(args, "Odi", &f, &x, &n) ? twice(f, x, n) : NULL;
}

static PyMethodDef functions[] = {{"midpoint", py_midpoint, METH_VARARGS, NULL},
                                  {"mean_of_ends", py_mean_of_ends, METH_VARARGS, NULL},
                                  {"twice", py_twice, METH_VARARGS, NULL},
                                  {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "nc_readme", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_nc_readme(void)
{
    return PyModule_Create(&definition);
}
"""


def blocks(language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_sessions():
    sessions = "\n".join(blocks("pycon"))
    test = doctest.DocTestParser().get_doctest(sessions, {}, "README.md", "README.md", 0)
    assert len(test.examples) >= 15
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL, verbose=False)
    runner.run(test, out=told.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(told)


def test_messages_in_sessions_are_exact(fails):
    m = nc.load("m", "double cos(double x);")
    close = nc.load(None).function("close", "int (int)", errors="errno")
    for call, kind in (
        (lambda: m.cos("1"), TypeError),
        (lambda: m.coz, nc.SymbolError),
        (lambda: close(-1), OSError),
    ):
        with pytest.raises(kind) as info:
            call()
        assert f": {info.value}\n" in README


@pytest.fixture
def consumers(builder, include):
    """The C code of the README as a module."""
    if build.compiler() is None:
        pytest.skip("no C compiler")
    found = blocks("c")
    assert len(found) == 3
    source = builder.directory / "nc_readme.c"
    source.write_text("\n".join([*found, MODULE]), encoding="utf-8")
    return build.load_extension(builder.extension(str(source), "nc_readme", include=include))


def test_c_consumer_of_entries(consumers):
    cos = nc.load("m", "double cos(double);").cos
    assert consumers.midpoint(cos, 0.0, 1.0, 1000) == pytest.approx(0.8414709848, abs=1e-6)
    assert consumers.midpoint(cos.builtin, 0.0, 1.0, 1000) == consumers.midpoint(
        cos, 0.0, 1.0, 1000
    )
    assert consumers.midpoint(len, 0.0, 1.0, 1000) is None


def test_c_consumer_of_callbacks(consumers):
    cos = nc.load("m", "double cos(double);").cos
    assert consumers.mean_of_ends(cos, 0.0, 0.0) == 1.0
    assert consumers.mean_of_ends(lambda x: x * x, 1.0, 3.0) == 5.0
    with pytest.raises(ZeroDivisionError):
        consumers.mean_of_ends(lambda x: 1 / x, 0.0, 1.0)


def test_c_dispatch(consumers):
    m = nc.load("m", "double ldexp(double, int); double pow(double, double);")
    assert consumers.twice(m.ldexp, 3.0, 2) == 24.0
    assert consumers.twice(m.pow, 3.0, 2) == 18.0
    assert consumers.twice(lambda x, n: x - n, 3.0, 2) == 2.0
    with pytest.raises(TypeError):
        consumers.twice(3, 3.0, 2)


def test_links_lead_somewhere():
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)#]+)\)", prose)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_commands_are_there():
    assert 'pip install ".[cli]" && nativecall demo' in README
    assert 'pip install ".[test]" && pytest' in README
