"""`nativecall inspect`: what it says as JSON, boxes of every kind, and modules by their files.

What it shows of single objects, and how, is in test_cli.py.
"""

from __future__ import annotations

import json
import os
import sys

import pytest

import nativecall as nc
from nativecall._cli import main
from support import build, matrix

compiled = pytest.mark.skipif(build.compiler() is None, reason="no C compiler")


@pytest.fixture
def inspect(capsys):
    """Run inspect: its exit status, and what it found, or the lines that it printed."""

    def inspect(place, table=False):
        status = main(["inspect", place, *(() if table else ("--json",))])
        said = capsys.readouterr()
        assert said.err == ""
        return status, said.out.splitlines() if table else json.loads(said.out)

    return inspect


def signatures(found) -> dict[str, str | None]:
    return {row["name"]: row["signature"] for row in found["entries"]}


# -- JSON ------------------------------------------------------------------------------------------


def test_a_function_of_a_cython_module(inspect) -> None:
    pytest.importorskip("scipy")
    status, found = inspect("scipy.linalg.cython_blas:ddot")
    assert (status, signatures(found)) == (0, {"ddot": "d:&i&d&i&d&i"})


def test_objects_of_a_module(inspect, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "inspected_module.py").write_text(
        "import ctypes, nativecall as nc\n"
        "m = nc.load('m', 'double cos(double x); double frexp(double x, int *e);')\n"
        "strict = m.function('cos', errno=True, gil='release')\n"
        "untold = ctypes.CDLL(None).labs\n"
        "number = 5\n"
        "def python(x): return x\n"
    )
    status, found = inspect("inspected_module:strict")
    assert status == 0
    (row,) = found["entries"]
    assert row["c"] == "double cos(double x)"
    assert (row["signature"], row["gil"], row["errno"]) == ("d:d", "release", True)
    assert row["accepted"][:5] == ["Python", "C", "ctypes", "cffi", "capsule"]
    assert row["address"] == nc.load("m").address("cos")
    _, found = inspect("inspected_module:m.frexp")
    assert signatures(found) == {"frexp": "d:d&i"}
    assert "SciPy" in found["entries"][0]["refused"]
    status, found = inspect("inspected_module:untold")
    assert (status, found["entries"][0]["signature"]) == (0, None)
    assert found["note"].startswith("'signature' must be given")
    status, lines = inspect("inspected_module:strict", table=True)
    assert status == 0
    assert any(
        line.split()[:5] == ["d:d", "double", "cos(double", "x)", "dropped"] for line in lines
    )
    for name in ("number", "python", "m"):
        status, found = inspect(f"inspected_module:{name}")
        assert (status, found["entries"]) == (1, [])


# -- boxes -----------------------------------------------------------------------------------------


@compiled
@pytest.mark.parametrize("row", matrix.ROWS, ids=[row.name for row in matrix.ROWS])
def test_what_wrap_takes_is_never_nothing(row, boxes, inspect, monkeypatch) -> None:
    pytest.importorskip("Cython")
    try:
        box = row.make(boxes)
    except matrix.Missing as error:
        pytest.skip(f"{error} is not installed")
    monkeypatch.setitem(sys.modules, "inspected_boxes", type(sys)("inspected_boxes"))
    sys.modules["inspected_boxes"].box = box
    status, found = inspect("inspected_boxes:box")
    assert status == 0
    if row.signature is None:
        assert "d:d" in [one["signature"] for one in found["entries"]]
    status, lines = inspect("inspected_boxes:box", table=True)
    assert status == 0
    assert "native code finds nothing" not in "".join(lines)


@compiled
def test_boxes_of_every_kind(inspect, monkeypatch) -> None:
    numba = pytest.importorskip("numba")
    scipy = pytest.importorskip("scipy")
    special = pytest.importorskip("scipy.special")
    module = type(sys)("inspected_kinds")
    module.low = nc.load("m").function("cos", "d:d").to_scipy()
    module.foreign = scipy.LowLevelCallable(nc.load("m").function("cos", "d:d").to_ctypes())
    module.in_object_mode = numba.jit(forceobj=True)(lambda x: x)
    module.generalised = numba.guvectorize("(n)->(n)")(lambda x, y: None)
    module.vectorized = numba.vectorize(lambda x: x)
    module.gamma = special.gamma
    module.chosen = special.sph_legendre_p
    monkeypatch.setitem(sys.modules, "inspected_kinds", module)
    _, lines = inspect("inspected_kinds:gamma", table=True)
    assert "find a function for each of its loops" in " ".join(lines)
    for name in ("low", "foreign"):
        status, found = inspect(f"inspected_kinds:{name}")
        assert (status, [*signatures(found).values()]) == (0, ["d:d"])
    for name, told in (
        ("in_object_mode", "is compiled in object mode, which no C function can call"),
        ("generalised", "it is generalised, (n)->(n), and nothing was compiled yet"),
        ("vectorized", "compiles one for each"),
        ("chosen", "is not a ufunc: SciPy chooses one by keyword arguments"),
    ):
        status, lines = inspect(f"inspected_kinds:{name}", table=True)
        assert status == (0 if name == "vectorized" else 1)
        assert told in " ".join(" ".join(lines).split())


# -- modules by their files ------------------------------------------------------------------------


MODULE_BY_PATH = """
import nativecall as nc
from . import beside
cos = nc.load("m", "double cos(double);").cos
"""


def test_a_module_by_its_file(tmp_path, monkeypatch, capsys) -> None:
    """Of no package, of one, and an object of it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    package = tmp_path / "nc_tests_outer" / "nc_tests_inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package / "beside.py").write_text("")
    (package / "nc_tests_by_path.py").write_text(MODULE_BY_PATH)
    plain = MODULE_BY_PATH.replace("from . import beside", "")
    (tmp_path / "nc_tests_by_path.py").write_text(plain)
    monkeypatch.chdir(package.parent)
    here = os.path.join("nc_tests_inner", "nc_tests_by_path.py")
    try:
        for place in (
            here,
            str(tmp_path / "nc_tests_by_path.py"),
            f"{package}/../../nc_tests_by_path.py",
        ):
            assert main(["inspect", "--json", f"{place}:cos"]) == 0
            found = json.loads(capsys.readouterr().out)["entries"]
            assert [(one["name"], one["signature"]) for one in found] == [("cos", "d:d")]
        assert main(["inspect", f".{os.sep}{here}:cos"]) == 0
        assert "d:d" in capsys.readouterr().out
        assert sys.modules["nc_tests_outer.nc_tests_inner.nc_tests_by_path"].cos(0.0) == 1.0
        package.with_name("json.py").write_text("")
        assert main(["inspect", f"{package.with_name('__init__.py')}:nc_tests_inner"]) == 1
    finally:
        for name in [name for name in sys.modules if name.startswith("nc_tests_")]:
            del sys.modules[name]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nosuch/module.py", "no file 'nosuch/module.py'"),
        ("folder/", "'folder/' is a folder; name a module"),
        ("./text.txt", "'./text.txt' is not a Python file"),
        ("json.py", f"already comes from {json.__file__}; rename one of them"),
    ],
)
def test_files_that_are_no_module(place, message, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.txt").write_text("")
    (tmp_path / "json.py").write_text("")
    assert main(["inspect", f"{place}:name"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err


def test_what_wrap_refuses_says_why(capsys) -> None:
    assert main(["inspect", "numpy:matmul"]) == 1
    assert "nativecall.wrap refuses it: 'matmul' has no loop" in " ".join(
        capsys.readouterr().out.split()
    )
