"""The README keeps its word: sessions print what they show, the C code compiles and runs."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import nativecall as nc
from support import build
from support.printed import Checker

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

static PyMethodDef functions[] = {{"midpoint", py_midpoint, METH_VARARGS, NULL},
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
    assert len(test.examples) >= 10
    told: list[str] = []
    runner = doctest.DocTestRunner(Checker(), verbose=False)
    runner.run(test, out=told.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(told)


def test_c_consumer(builder, include):
    if build.compiler() is None:
        pytest.skip("no C compiler")
    (code,) = blocks("c")
    source = builder.directory / "nc_readme.c"
    source.write_text(code + MODULE, encoding="utf-8")
    made = build.load_extension(builder.extension(str(source), "nc_readme", include=include))
    cos = nc.load("m", "double cos(double);").cos
    assert made.midpoint(cos, 0.0, 1.0, 1000) == pytest.approx(0.8414709848, abs=1e-6)
    assert made.midpoint(cos.builtin, 0.0, 1.0, 1000) == made.midpoint(cos, 0.0, 1.0, 1000)
    assert made.midpoint(len, 0.0, 1.0, 1000) is None
    failing = nc.load("m").function("log", "d:d", errors="errno")
    assert made.midpoint(failing, -1.0, 0.0, 1000) is None, "it does not look for failures"


def test_it_is_short():
    assert README.count("\n") <= 150


def test_links_lead_somewhere():
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)#]+)\)", prose)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_commands_are_there():
    assert 'pip install ".[all]" && nativecall demo' in README
    assert 'pip install ".[test]" && pytest' in README
