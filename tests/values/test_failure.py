"""The table of error conventions: complete, free of contradictions, and obeyed by what writes code.

What each convention does in a call is tested where calls are: callable/test_callable.py,
callable/test_thunk_matrix.py, call/test_flags.py and callback/test_exceptions.py.
"""

import re
import sysconfig
from pathlib import Path

import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._cdecl.spelling import parse
from nativecall._plan import rules
from nativecall._values import callinterface
from nativecall._values.failure import CONVENTIONS, convention

DOCS = Path(__file__).parents[2] / "docs"
UNKNOWN = 0x70
NAMES = ", ".join(map(repr, CONVENTIONS))
MESSAGE = f"flags 0x70 have an unknown error convention, none of {NAMES}"
ROWS = CONVENTIONS.values()


def test_every_flag_of_the_header_has_a_row():
    header = Path(nc.get_include(), "nativecall/nativecall_abi.h").read_text()
    found = re.findall(r"^#define NC_ERRORS_(\w+) \(\(uintptr_t\)(\d+) << ", header, re.M)
    flags = {name.lower(): int(number) << 4 for name, number in found}
    assert len(flags) > 5
    assert flags == _lib.ERRORS == {one.name: one.flags for one in ROWS}
    assert [convention(one.flags | _lib.FLAG_ERRNO) for one in ROWS] == [*ROWS]
    table = re.findall(r"^\| (`\".*?) \|", (DOCS / "errors.md").read_text(), re.M)
    listed = [name for cell in table for name in re.findall(r'"(\w+)"', cell)]
    assert sorted(listed) == sorted(CONVENTIONS)
    assert "docs/errors.md" in nc.wrap.__doc__


@pytest.mark.parametrize("row", ROWS, ids=[*CONVENTIONS])
def test_a_row_says_one_thing(row):
    """What fails is a failure by the row's own test, and what succeeds is none."""
    assert (row.needs != "any") == (row.shown_by == "result") == bool(row.relation)
    assert row.needs_gil == (row.shown_by == "exception")
    assert row.reaches_c == (row.shown_by in ("result", "errno", "argument"))
    assert row.is_code == (row.reaches_c and row.needs == "any")
    assert row.hidden == (row.shown_by == "argument")
    assert row.success in (0, 1)
    assert row.is_status == (row.failed(-1) and row.failed(1))
    if row.needs == "integer":
        assert row.failed(row.sentinel)
        assert not row.failed(row.success)
    elif row.needs == "pointer":
        assert row.failed(row.sentinel or None)
        assert not row.failed(row.value)
    for text in ("i:", "?:", "P:", "&d:", "X{v:}:", "O:", "d:", "v:"):
        result = parse(text).result
        integer = text == "i:" or (text == "?:" and row.sentinel >= 0)
        pointer = text in ("P:", "&d:", "X{v:}:", "O:")
        suits = {"any": True, "integer": integer, "pointer": pointer}[row.needs]
        assert row.suits(result) == suits


def test_an_unknown_convention_is_none_of_the_known_ones(fails):
    """Not even where code is written, by hand or by a table, which once took it for 'zero'."""
    with fails(ValueError, MESSAGE):
        convention(UNKNOWN)
    for wanted in ("i:i", "i:iP", "v:i"):
        with fails(ValueError, MESSAGE):
            rules.convert("f", parse("i:i"), UNKNOWN, parse(wanted))
    with fails(ValueError, MESSAGE):
        rules.bind(parse("i:i"), UNKNOWN, [True])


def test_no_call_goes_by_an_unknown_convention(fails, lib):
    known = lib.function("fail_with", "i:i")
    f = known._derived(callinterface.of(parse("i:i")), known.address(), UNKNOWN, None)
    for call, value in ((f, 7), (f.convert, "v:i"), (f.bind, 7), (lambda _: f.entries, None)):
        with fails(ValueError, MESSAGE):
            call(value)


SOURCE = """
#include <Python.h>
PyObject *same(PyObject *o) { return Py_NewRef(o); }
PyObject *null(PyObject *o) { (void)o; return NULL; }
"""


@pytest.mark.parametrize("way", ["trampoline", "convert"])
def test_none_is_no_null(builder, fails, way):
    """A function of objects that returns None has not returned NULL."""
    flags = ("-O1", f"-I{sysconfig.get_path('include')}")
    objects = nc.load(builder.library(SOURCE, "failure_objects", flags=flags))
    same, null = (objects.function(name, "O:O", errors="null") for name in ("same", "null"))
    if way == "convert":
        same, null = same.convert("O:OP"), null.convert("O:OP")
    rest = () if way == "trampoline" else (None,)
    assert same(None, *rest) is None
    assert same(7, *rest) == 7
    with fails(nc.NativeFailure, "'null' failed: it returned NULL"):
        null(None, *rest)
