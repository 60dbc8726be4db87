"""`nativecall inspect` of modules, shared libraries and headers, and what it says as JSON.

What it shows of single objects is in test_cli.py.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import nativecall as nc
from nativecall._cli import debuginfo, main
from support import build, matrix

compiled = pytest.mark.skipif(build.compiler() is None, reason="no C compiler")

SOURCE = """
#include <complex.h>
#include <stdint.h>
typedef struct { double x; int n[3]; struct { float a; } in; } S;
struct node { struct node *next; int v; };
struct bits { unsigned low : 3; };
enum E { A, B };
union U { int i; float f; };
double square(double x) { return x * x; }
double square_too(double x) __attribute__((alias("square")));
S mixed(const S *s, enum E e, S t) { return e ? *s : t; }
int walk(struct node *n, int (*f)(int, void *), void *d) { return f(n->v, d); }
long double wide(long double x, float complex z, double complex w) { return x + creal(z + w); }
int variadic(const char *format, ...) { return *format; }
uint64_t array(double v[3], unsigned char c, _Bool b) { return (uint64_t)v[0] + c + b; }
int of_union(union U u) { return u.i; }
int of_bits(struct bits b) { return b.low; }
void nothing(void) { }
static int hidden(void) { return 1; }
int shows(void) { return hidden(); }
int variable = 5;
"""
HEADER = """
double square(double x);
long double wide(long double x, float _Complex z, double _Complex w);
void nothing(void);
#define LIMIT 5
"""
SIGNATURES = {
    "array": "Q:&dB?",
    "mixed": "T{d(3)iT{f}}:&T{d(3)iT{f}}IT{d(3)iT{f}}",
    "nothing": "v:",
    "of_bits": None,
    "of_union": None,
    "shows": "i:",
    "square": "d:d",
    "square_too": "d:d",
    "variadic": "i:&b.",
    "walk": "i:&T{&T{Pi}i}X{i:iP}P",
    "wide": "g:gZfZd",
}


@pytest.fixture(scope="module")
def library(builder) -> Path:
    """A shared library with debug information."""
    return builder.library(SOURCE, "inspected", flags=("-g", "-O1"))


@pytest.fixture
def inspect(capsys):
    """Run inspect: its exit status, and what it found, or the lines that it printed."""

    def inspect(*arguments, table=False):
        status = main(["inspect", *map(str, arguments), *(() if table else ("--json",))])
        said = capsys.readouterr()
        assert said.err == ""
        return status, said.out.splitlines() if table else json.loads(said.out)

    return inspect


def signatures(found) -> dict[str, str | None]:
    return {row["name"]: row["signature"] for row in found["entries"]}


# -- shared libraries ------------------------------------------------------------------------------


@compiled
def test_a_library_by_its_debug_information(library, inspect) -> None:
    pytest.importorskip("elftools")
    status, found = inspect(library)
    assert status == 0
    assert signatures(found) == SIGNATURES
    rows = {row["name"]: row for row in found["entries"]}
    assert rows["square"]["c"] == "double square(double x)"
    assert rows["square"]["accepted"][:5] == ["Python", "C", "ctypes", "cffi", "capsule"]
    assert rows["of_union"]["reason"] == "a union has no code in signatures"
    assert rows["of_bits"]["reason"] == "a struct with bit-fields has no code in signatures"
    assert rows["square"]["address"] == rows["square_too"]["address"] > 0
    assert "9 of 11 signatures by the debug information of" in found["note"]


@compiled
@pytest.mark.skipif(platform.machine() != "x86_64", reason="compilers name other floats elsewhere")
def test_floats_as_large_as_others_are_not_they(builder, inspect) -> None:
    pytest.importorskip("elftools")
    source = """
        __extension__ typedef _Float128 quads;
        __extension__ typedef _Complex _Float128 pairs;
        quads quad(quads x) { return x; }
        pairs pair(pairs x) { return x; }
        long double wide(long double x) { return x; }
    """
    status, found = inspect(builder.library(source, "inspected_floats", flags=("-g",)))
    assert (status, signatures(found)) == (0, {"pair": None, "quad": None, "wide": "g:g"})
    rows = {row["name"]: row for row in found["entries"]}
    assert rows["quad"]["reason"] == "'_Float128' has no code in signatures"


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("unspecified", b"decltype(nullptr)", "'decltype(nullptr)' has no code in signatures"),
        ("unspecified", None, "an unspecified has no code in signatures"),
        ("array", None, "an array has no code in signatures"),
        ("class", b"Thing", "a class has no code in signatures"),
    ],
)
def test_types_without_a_code_are_named(kind, name, reason) -> None:
    attributes = {} if name is None else {"DW_AT_name": SimpleNamespace(value=name)}
    die = SimpleNamespace(tag=f"DW_TAG_{kind}_type", attributes=attributes)
    holder = SimpleNamespace(
        attributes={"DW_AT_type": None}, get_DIE_from_attribute=lambda link: die
    )
    with pytest.raises(debuginfo._Untold, match=re.escape(reason)):
        debuginfo._type(holder, 0)


@compiled
def test_what_debug_information_says_is_what_the_header_says(library, inspect, tmp_path) -> None:
    header = tmp_path / "inspected.h"
    header.write_text(HEADER)
    status, found = inspect(library, "--header", header)
    assert status == 0
    assert signatures(found) == {name: SIGNATURES[name] for name in ("square", "wide", "nothing")}
    for row in found["entries"]:
        assert row["gil"] == "hold"
        assert row["errors"] == "none"
        assert nc.load(library).address(row["name"]) == row["address"]


@compiled
def test_a_library_that_tells_names_alone(builder, inspect, monkeypatch) -> None:
    bare = builder.library("int one(int x) { return x; }", "inspected_bare")
    status, found = inspect(bare)
    assert (status, signatures(found)) == (0, {"one": None})
    assert "--header" in found["note"]
    monkeypatch.setitem(sys.modules, "elftools", None)
    monkeypatch.setitem(sys.modules, "elftools.elf.elffile", None)
    monkeypatch.setitem(sys.modules, "elftools.common.exceptions", None)
    status, found = inspect(bare)
    assert (status, signatures(found)) == (0, {"one": None})
    assert "pip install 'nativecall[inspect]'" in found["note"]


def test_a_library_by_its_name_is_a_table(inspect) -> None:
    try:
        nc.load("libz.so.1")
    except nc.LibraryError:
        pytest.skip("no libz.so.1")
    status, lines = inspect("libz.so.1", table=True)
    assert status == 0
    assert lines[1].startswith("libz.so.1 is a shared library, ")
    names = [line.split()[0] for line in lines[3:] if line.strip()]
    assert {"crc32", "inflate", "zlibVersion"} <= {*names}


# -- headers and modules ---------------------------------------------------------------------------


@compiled
def test_a_header(inspect, tmp_path) -> None:
    header = tmp_path / "inspected.h"
    header.write_text("#include <stdlib.h>\n" + HEADER)
    status, found = inspect(header)
    assert status == 0
    assert signatures(found) == {name: SIGNATURES[name] for name in ("square", "wide", "nothing")}
    status, lines = inspect(header, table=True)
    assert status == 0
    assert lines[1] == f"{header} is a header: 3 entries, 3 with signatures"
    header.write_text("_Float128 f(_Float128);\n")
    status, found = inspect(header)
    assert (status, found["entries"]) == (1, [])
    reason = "there is no '_Float128' here"
    told = f"1 name of the header cannot be offered, 'f' first: {reason}; Library.skipped has all"
    assert found["note"].endswith(told)


def test_a_header_that_includes_what_it_declares(inspect) -> None:
    status, found = inspect("/usr/include/math.h")
    assert status == 0
    assert signatures(found)["cos"] == "d:d"


def test_a_module_of_cython(inspect) -> None:
    pytest.importorskip("scipy")
    status, found = inspect("scipy.linalg.cython_blas")
    assert status == 0
    known = signatures(found)
    assert known["ddot"] == "d:&i&d&i&d&i"
    module = sys.modules["scipy.linalg.cython_blas"]
    assert None not in [known[name] for name in module.__pyx_capi__]
    # Functions of Python's own there, which have none that native code can call.
    reasons = {row["name"]: row.get("reason") for row in found["entries"]}
    assert all([reasons[name] for name, signature in known.items() if signature is None])
    status, found = inspect("scipy.linalg.cython_blas:ddot")
    assert (status, signatures(found)) == (0, {"ddot": "d:&i&d&i&d&i"})


def test_a_module_with_libraries_and_boxes(inspect, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "inspected_module.py").write_text(
        "import ctypes, math, nativecall as nc\n"
        "m = nc.load('m', 'double cos(double x); double frexp(double x, int *e);')\n"
        "strict = m.function('cos', errno=True, gil='release')\n"
        "double = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(m.cos.address())\n"
        "untold = ctypes.CDLL(None).labs\n"
        "number, text, function = 5, 'x', math.cos\n"
        "def python(x): return x\n"
    )
    status, found = inspect("inspected_module")
    assert status == 0
    assert signatures(found) == {
        "m.cos": "d:d",
        "m.frexp": "d:d&i",
        "strict": "d:d",
        "double": "d:d",
        "untold": None,
    }
    rows = {row["name"]: row for row in found["entries"]}
    assert (rows["strict"]["gil"], rows["strict"]["errno"]) == ("release", True)
    assert "SciPy" in rows["m.frexp"]["refused"]
    assert rows["untold"]["reason"].startswith("'signature' must be given")
    status, found = inspect("inspected_module:m")
    assert signatures(found) == {"cos": "d:d", "frexp": "d:d&i"}
    status, lines = inspect("inspected_module:strict", table=True)
    assert status == 0
    assert any(
        line.split()[:5] == ["d:d", "double", "cos(double", "x)", "dropped"] for line in lines
    )
    for place in ("inspected_module:number", "inspected_module:python", "json"):
        status, found = inspect(place)
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
def test_boxes_of_every_kind_in_a_module(inspect, monkeypatch) -> None:
    """No box is left out, and none ends the command."""
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
    status, found = inspect("inspected_kinds")
    rows = {row["name"]: row for row in found["entries"]}
    _, lines = inspect("inspected_kinds:gamma", table=True)
    assert "find a function for each of its loops" in " ".join(lines)
    assert (status, rows["low"]["signature"], rows["foreign"]["signature"]) == (0, "d:d", "d:d")
    for name, reason in (
        ("in_object_mode", "is compiled in object mode, which no C function can call"),
        ("generalised", "it is generalised, (n)->(n), and nothing was compiled yet"),
        ("vectorized", "compiled on demand, for each signature"),
        ("chosen", "is no ufunc: SciPy chooses one by keyword arguments"),
    ):
        assert reason in rows[name]["reason"]
        status, lines = inspect(f"inspected_kinds:{name}", table=True)
        assert status == (0 if name == "vectorized" else 1)
        told = "compiles one for each" if name == "vectorized" else reason
        assert " ".join(told.split()) in " ".join(" ".join(lines).split())


# -- bad input -------------------------------------------------------------------------------------


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
            assert main(["inspect", "--json", place]) == 0
            found = json.loads(capsys.readouterr().out)["entries"]
            assert [(one["name"], one["signature"]) for one in found] == [("cos", "d:d")]
        assert main(["inspect", f".{os.sep}{here}:cos"]) == 0
        assert "d:d" in capsys.readouterr().out
        assert sys.modules["nc_tests_outer.nc_tests_inner.nc_tests_by_path"].cos(0.0) == 1.0
        package.with_name("json.py").write_text("")
        assert main(["inspect", str(package.with_name("__init__.py"))]) == 1
    finally:
        for name in [name for name in sys.modules if name.startswith("nc_tests_")]:
            del sys.modules[name]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nosuch/module.py", "no file 'nosuch/module.py'"),
        ("folder/", "'folder/' is a folder; name a module, a library or a header"),
        (
            "./text.txt",
            "'./text.txt' is no file of Python's, no shared library and no header",
        ),
        ("json.py", f"is that of {json.__file__}; rename one of them"),
    ],
)
def test_files_that_are_no_module(place, message, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.txt").write_text("")
    (tmp_path / "json.py").write_text("")
    for form in ("{}", "{}:name"):
        assert main(["inspect", form.format(place)]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert message in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_module"], "no module named 'no_such_module'"),
        (["no/such.h"], "'no/such.h' cannot be read: "),
        (["text.so"], "'text.so' is no shared library"),
        (["libnosuch.so.7"], "libnosuch.so.7: cannot open shared object file"),
        (["broken.so"], "'broken.so' cannot be read: "),
        (["nosuch", "--header", "math.h"], "'nosuch' cannot be loaded: "),
    ],
)
def test_what_cannot_be_inspected(arguments, message, tmp_path, monkeypatch, capsys) -> None:
    if arguments == ["broken.so"]:
        pytest.importorskip("elftools")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.so").write_text("INPUT(-lm)")
    (tmp_path / "broken.so").write_bytes(b"\x7fELF" + b"\x02\x01\x01" + bytes(40))
    assert main(["inspect", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert said.err.startswith("nativecall inspect: ")


@compiled
def test_nothing_of_a_library_is_run(builder) -> None:
    pytest.importorskip("elftools")
    source = "#include <stdlib.h>\n__attribute__((constructor)) void start(void) { abort(); }"
    path = builder.library(source, "inspected_aborts")
    done = subprocess.run(
        [sys.executable, "-m", "nativecall", "inspect", path],
        capture_output=True,
        check=False,
        cwd=path.parent,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert [one.name for one in debuginfo.exported(str(path))[0]] == ["start"]


def test_what_wrap_refuses_says_why(capsys) -> None:
    assert main(["inspect", "numpy:matmul"]) == 1
    assert "nativecall.wrap refuses it: 'matmul' has no loop" in " ".join(
        capsys.readouterr().out.split()
    )
