"""The `nativecall` command: what it prints, and its exit status."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import nativecall
from nativecall._cli import main, output
from nativecall._codegen import engine

SCIPY = importlib.util.find_spec("scipy") is not None

# Objects to inspect.
THINGS = """
import ctypes
import cffi
import nativecall as nc

m = nc.load("m", "double cos(double x); float cosf(float); double pow(double, double);")
cos = nc.wrap({"d:d": m.cos, "f:f": m.cosf}, name="cos")
view = m.cos.builtin
careful = m.function("pow", errno=True)
many = nc.wrap(m.cos.address(), "i:" + "i" * 256)
c_cos = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(m.cos.address())
untold = ctypes.CDLL(None).labs
null = ctypes.CFUNCTYPE(None)(0)
capsule = m.cos.to_capsule()
array = cffi.FFI().new("double[2]")
number = 5
place = m.cos.address()
overloads = {"d:d": m.cos, "f:f": m.cosf}
unlike = {"d:d": 5.0}

class Bits(ctypes.Structure):
    _fields_ = [("low", ctypes.c_int, 3)]

bits = ctypes.CFUNCTYPE(ctypes.c_int, Bits)(1)

class Shape(metaclass=nc.extensibletype):
    __customslots__ = {"area": 0x1000, 8: 9}

shape = Shape()

class Doubled(nc.NativeCallable):
    def __call__(self, x):
        return 2 * x

doubled = Doubled(m.cos)

class Broken:
    @property
    def part(self):
        return 1 / 0

broken = Broken()
"""


def command(*arguments, cwd, **environment):
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "nativecall", *arguments],
        capture_output=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONUTF8": "1", **environment},
        timeout=60,
    )


def text(printed):
    """Lines of output without the padding inside tables."""
    return [re.sub(r" {2,}", "  ", line).strip() for line in printed.splitlines()]


# -- options --------------------------------------------------------------------------------------


def test_version(capsys):
    with pytest.raises(SystemExit) as info:
        main(["--version"])
    assert info.value.code == 0
    assert capsys.readouterr().out == f"nativecall {nativecall.__version__}\n"


def test_cflags_name_the_headers(capsys):
    assert main(["--cflags"]) == 0
    printed = capsys.readouterr().out
    (option,) = shlex.split(printed)
    assert printed.count("\n") == 1
    assert option.startswith("-I")
    assert Path(option[2:], "nativecall", "customslots.h").is_file()


def test_cflags_are_quoted_for_a_shell(capsys, monkeypatch):
    monkeypatch.setattr("nativecall._cli.get_include", lambda: "/a place/in'clude")
    assert main(["--cflags"]) == 0
    assert shlex.split(capsys.readouterr().out) == ["-I/a place/in'clude"]


def test_without_arguments_it_says_what_it_can_do(capsys):
    assert main([]) == 0
    printed = capsys.readouterr().out
    for word in ("demo", "inspect", "--cflags", "--version"):
        assert word in printed


def test_an_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit) as info:
        main(["demmo"])
    assert info.value.code == 2
    assert "invalid choice: 'demmo'" in capsys.readouterr().err


def test_the_installed_command_is_the_same(tmp_path):
    script = Path(sys.executable).with_name("nativecall")
    printed = subprocess.check_output([script, "--version"], text=True, cwd=tmp_path)
    assert printed == f"nativecall {nativecall.__version__}\n"


# -- demo -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo's output."""
    done = command("demo", cwd=tmp_path_factory.mktemp("demo"))
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_demo_shows_the_call_table_and_the_slots(demo):
    lines = text(demo)
    for name, signature in (("cos", "d:d"), ("pow", "d:dd"), ("ldexp", "d:di")):
        row = rf"{name}  {signature}  0x0  0x[0-9a-f]+  ahead of time  {name} of libm\.\S+"
        assert any(re.fullmatch(row, line) for line in lines), name
    assert any(re.fullmatch(r"f:f  0x0  0x[0-9a-f]+  ahead of time  cosf of .*", x) for x in lines)
    assert any(line.startswith("0  0x04000001  0x0  ") for line in lines)


def test_demo_checks_every_value_every_way(demo):
    lines = text(demo)
    for call, signature in (
        (f"cos(1) = {math.cos(1):.12g}", "d:d"),
        (f"exp(1) = {math.exp(1):.12g}", "d:d"),
        ("cbrt(27) = 3", "d:d"),
        ("fabs(-1.5) = 1.5", "d:d"),
        (f"pow(2, 0.5) = {math.sqrt(2):.12g}", "d:dd"),
        (f"atan2(1, 1) = {math.pi / 4:.12g}", "d:dd"),
        ("ldexp(0.75, 4) = 12", "d:di"),
    ):
        (line,) = [line for line in lines if line.startswith(f"{call}  {signature}  ")]
        assert line.count("✓") == 4, line
    assert "✗" not in demo
    assert lines[-1] == "Every value is right."


def test_demo_times_every_way(demo):
    lines = text(demo)
    for way in (
        "f.builtin(x)",
        "f(x)",
        "a Python function",
        "a cffi function pointer",
        "a ctypes function",
        "a plain function pointer",
        "f, found by offset at each call",
        "f, found by slot at each call",
        "a Python function, boxed",
        "a ctypes function, boxed",
    ):
        row = rf"{re.escape(way)}  \d+\.\d  \d+\.\dx  [█▏▎▍▌▋▊▉]+"
        assert any(re.fullmatch(row, line) for line in lines), way


@pytest.mark.skipif(not SCIPY, reason="SciPy is not installed")
def test_demo_runs_quad(demo):
    lines = text(demo)
    for way in ("f.to_scipy()", "a LowLevelCallable made by hand", "a Python function"):
        row = rf"{re.escape(way)}  ✓ \S+  \d+\.\d  \d+\.\dx  [█▏▎▍▌▋▊▉]+"
        assert any(re.fullmatch(row, line) for line in lines), way


def test_demo_needs_neither_rich_nor_scipy(python):
    printed = python(
        "import sys; sys.modules.update({'rich': None, 'rich.console': None, 'scipy': None})\n"
        "sys.stdout.reconfigure(encoding='utf-8')\n"
        "from nativecall._cli import main; sys.exit(main(['demo']))"
    )
    assert "SciPy is not installed; 'pip install scipy' and run this again to see it" in printed
    assert printed.endswith("Every value is right.\n")


def test_demo_is_readable_in_ascii(tmp_path):
    done = command("demo", cwd=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, b"")
    printed = done.stdout.decode("ascii")
    assert "ok equal" in printed
    assert "####" in printed
    assert "\\" not in printed


def test_demo_fits_a_terminal_and_is_coloured(tmp_path):
    done = command("demo", cwd=tmp_path, FORCE_COLOR="1", COLUMNS="80", TERM="xterm-256color")
    assert done.returncode == 0
    printed = done.stdout.decode()
    assert "\x1b[32m✓ equal\x1b[0m" in printed
    assert "…" not in printed


@pytest.mark.parametrize("wrong", [0.25, math.nan, math.inf])
def test_demo_tells_of_a_wrong_value(monkeypatch, capsys, wrong):
    monkeypatch.setattr(math, "cbrt", lambda x: wrong)
    assert main(["demo"]) == 1
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if "cbrt(27)" in line]
    assert line.count("✗") == 4
    assert printed.endswith("There are wrong values: see above.\n")


@pytest.mark.skipif(not SCIPY, reason="SciPy is not installed")
def test_demo_tells_of_a_wrong_integral(monkeypatch, capsys):
    monkeypatch.setattr(math, "sin", lambda x: 0.5)
    assert main(["demo"]) == 1
    assert capsys.readouterr().out.count("✗ wrong by") == 5


def test_demo_without_a_math_library(monkeypatch, capsys):
    def load(name, declarations):
        raise nativecall.LibraryError("library 'm' cannot be loaded: gone")

    monkeypatch.setattr("nativecall._cli.demo.load", load)
    assert main(["demo"]) == 2
    assert capsys.readouterr().err == (
        "nativecall demo: the system's math library cannot be used: "
        "library 'm' cannot be loaded: gone\n"
    )


# -- inspect --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    found = tmp_path_factory.mktemp("inspected")
    (found / "nc_things.py").write_text(THINGS, encoding="utf-8")
    (found / "nc_needy.py").write_text("import nc_absent", encoding="utf-8")
    (found / "nc_failing.py").write_text("raise ValueError('no luck')", encoding="utf-8")
    return found


@pytest.fixture
def inspect(directory, monkeypatch, capsys):
    """Run inspect in the directory: exit status, lines printed, errors."""
    monkeypatch.chdir(directory)
    monkeypatch.setattr(sys, "path", sys.path[:])

    def inspect(place, *options):
        status = main(["inspect", place, *options])
        printed = capsys.readouterr()
        return status, text(printed.out), printed.err

    return inspect


def rows(lines, pattern):
    return [line for line in lines if re.fullmatch(pattern, line)]


def test_inspect_a_native_callable(inspect):
    status, lines, err = inspect("nc_things:cos")
    assert (status, err) == (0, "")
    assert "nc_things:cos is a native callable with 2 entries" in lines
    assert rows(lines, r"cos  d:d  0x0  0x[0-9a-f]+  ahead of time  cos of libm\.\S+")
    assert rows(lines, r"f:f  0x0  0x[0-9a-f]+  ahead of time  cosf of libm\.\S+")
    assert rows(lines, r"call table: \d+ bytes into the object at 0x[0-9a-f]+")
    assert rows(lines, r"0  0x04000001  0x0  \d+  where objects keep their call table")


def test_inspect_a_dotted_name(inspect):
    status, lines, _ = inspect("nc_things:m.cos")
    assert status == 0
    assert "nc_things:m.cos is a native callable with 1 entry" in lines


def test_inspect_tells_how_calls_are_made_and_flags(inspect):
    _, lines, _ = inspect("nc_things:careful")
    way = "generated" if engine.available() else "libffi"
    assert rows(lines, rf"pow  d:dd  0x8  0x[0-9a-f]+  {way}  pow of libm\.\S+")


def test_inspect_shows_generated_code(inspect):
    status, lines, _ = inspect("nc_things:careful", "--llvm", "--asm")
    assert status == 0
    if engine.available():
        ir = lines.index("generated code for 'd:dd', LLVM IR")
        assembly = lines.index("generated code for 'd:dd', assembly")
        assert rows(lines[ir:assembly], r"define ptr @method\(ptr %self, ptr %args, .*")
        assert rows(lines[ir:assembly], r" *%\S+ = call double %\w+\(double %\w+, double %\w+\)")
        assert rows(lines[assembly:], r"_?method:.*")
    else:
        assert (
            "no code was generated for 'd:dd': calls go through libffi, because NATIVECALL_JIT is 0"
        ) in lines


@pytest.mark.parametrize("name", ["cos", "c_cos"])
def test_inspect_tells_what_was_not_generated(inspect, name):
    _, lines, _ = inspect(f"nc_things:{name}", "--llvm")
    assert (
        "no code was generated for 'd:d': calls go through code that was compiled ahead of time"
    ) in lines
    assert not rows(lines, "generated code.*")


@pytest.mark.skipif(not engine.available(), reason="says why single signatures have no code")
def test_inspect_tells_why_nothing_was_generated(inspect):
    _, lines, _ = inspect("nc_things:many", "--llvm")
    assert (
        f"no code was generated for 'i:{'i' * 256}': calls go through libffi, because "
        "256 arguments are more than the 255 of generated code"
    ) in lines


def test_inspect_a_view(inspect):
    status, lines, _ = inspect("nc_things:view")
    assert status == 0
    assert "nc_things:view is the built-in view of a native callable with 1 entry" in lines
    assert rows(lines, r"cos  d:d  .*")


@pytest.mark.parametrize(
    ("name", "kind"), [("c_cos", "ctypes.CFunctionType"), ("capsule", "PyCapsule")]
)
def test_inspect_a_box_of_another_library(inspect, name, kind):
    status, lines, _ = inspect(f"nc_things:{name}")
    assert status == 0
    assert f"nc_things:{name} is a {kind}" in lines
    assert rows(lines, r"a C function at  0x[0-9a-f]+")
    assert "signature  d:d" in lines
    assert "nativecall.wrap makes of it:" in lines
    assert rows(lines, r"\S+  d:d  0x0  0x[0-9a-f]+  ahead of time  .*")


def test_inspect_a_box_that_knows_no_signature(inspect):
    status, lines, _ = inspect("nc_things:untold")
    assert status == 0
    assert "signature  unknown" in lines
    assert "nativecall.wrap needs a signature for it: wrap(obj, 'd:d'), for example" in lines


def test_inspect_a_null_pointer(inspect):
    status, lines, _ = inspect("nc_things:null")
    assert status == 0
    assert rows(lines, r"nativecall\.wrap refuses it: 'target' must hold a C function; .* is NULL")


def test_inspect_a_pointer_to_data(inspect):
    status, lines, _ = inspect("nc_things:array")
    assert status == 0
    assert "to  d" in lines
    assert "it can be an argument of a native call, but is no function" in lines


@pytest.mark.parametrize("name", ["shape", "Shape"])
def test_inspect_slots(inspect, name):
    status, lines, _ = inspect(f"nc_things:{name}")
    assert status == 0
    assert "slots of the type nc_things.Shape:" in lines
    assert "0  'area'  0x0  0x1000  an interned key" in lines
    assert "1  0x8  0x0  0x9  an address as a key" in lines


def test_inspect_tells_what_wrap_takes(inspect, tmp_path):
    status, lines, _ = inspect("nc_things:place")
    assert status == 0
    assert rows(lines, r"an address in \S*libm\.\S+")
    assert "nativecall.wrap needs a signature for it: wrap(obj, 'd:d'), for example" in lines
    status, lines, _ = inspect("nc_things:overloads")
    assert status == 0
    assert "nativecall.wrap makes of it:" in lines
    assert rows(lines, r"cos  d:d  .*")
    pytest.importorskip("numba")
    (tmp_path / "nc_jitted.py").write_text("import numba\ntwice = numba.njit(lambda x: 2 * x)\n")
    done = command("inspect", "nc_jitted:twice", cwd=tmp_path)
    assert done.returncode == 0
    assert b"signature that is asked for: wrap(obj, 'd:d'), for example" in done.stdout
    assert b"finds nothing" not in done.stdout


@pytest.mark.parametrize("name", ["number", "bits", "doubled", "unlike"])
def test_inspect_finds_nothing(inspect, name):
    status, lines, err = inspect(f"nc_things:{name}")
    assert (status, err) == (1, "")
    assert lines[-1] == "native code finds nothing in it"


def test_inspect_says_why_there_is_nothing(inspect):
    _, lines, _ = inspect("nc_things:bits")
    assert "nativecall cannot use it: field 'low' of Bits is a bit-field" in lines
    _, lines, _ = inspect("nc_things:doubled")
    assert "call table: none, because Doubled overrides __call__" in lines


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nc_things:", "the object must be given as MODULE:NAME (got 'nc_things:')"),
        (":cos", "the object must be given as MODULE:NAME (got ':cos')"),
        ("nc_absent:cos", "no module named 'nc_absent'"),
        ("nc_things.sub:cos", "no module named 'nc_things.sub'"),
        ("nc_things:coss", "no 'coss' in 'nc_things'; did you mean 'cos' or 'c_cos'?"),
        ("nc_things:cos.zzz", "no 'zzz' in 'nc_things.cos'"),
        (
            "nc_things:broken.part",
            "'part' of 'nc_things.broken' cannot be read: ZeroDivisionError: division by zero",
        ),
        (
            "nc_needy:x",
            "module 'nc_needy' cannot be imported: it needs 'nc_absent', which is missing",
        ),
        ("nc_failing:x", "module 'nc_failing' cannot be imported: ValueError: no luck"),
        (".cos:x", "the object must be given as MODULE:NAME (got '.cos:x')"),
    ],
)
def test_inspect_errors(inspect, place, message):
    assert inspect(place) == (2, [], f"nativecall inspect: {message}\n")


def test_inspect_as_a_process_has_no_traceback(directory):
    done = command("inspect", "nc_failing:x", cwd=directory)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode().splitlines() == [
        "nativecall inspect: module 'nc_failing' cannot be imported: ValueError: no luck"
    ]


# -- output ---------------------------------------------------------------------------------------


def test_plain_tables_are_aligned(capsys):
    output.Output().table(
        ["name", ">ns"], [output.Row("a", "1.5"), output.Row("long one", "10.25")]
    )
    assert capsys.readouterr().out.splitlines() == [
        "  name         ns",
        "  --------  -----",
        "  a           1.5",
        "  long one  10.25",
    ]


@pytest.mark.parametrize("command", ["demo", "inspect math:cos"])
def test_output_that_nobody_takes_is_no_crash(command, tmp_path):
    """What `nativecall demo | head -1` does, and a full disk."""
    reading, writing = os.pipe()
    os.close(reading)
    call = [sys.executable, "-m", "nativecall", *command.split()]
    done = subprocess.run(
        call, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                call, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False
            )
        assert done.returncode == 1
        message = f"nativecall {command.split()[0]}: [Errno 28] No space left on device\n"
        assert done.stderr == message


def test_inspect_an_object_that_answers_nothing(tmp_path):
    (tmp_path / "silent.py").write_text(
        "class Silent:\n    def __getattr__(self, name): raise RuntimeError\nsilent = Silent()\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "nativecall", "inspect", "silent:silent"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "native code finds nothing in it" in done.stdout


def test_doctor_says_what_carries_calls_out(capsys, monkeypatch):
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", "")
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    carried = "generated code" if engine.available() else "libffi"
    for way in ("calls", "callbacks", "conversions"):
        assert re.search(rf"^ +\S+ +{way} +{carried}", told, re.MULTILINE)
    assert re.search(r"^ +\S+ +cache +in memory +compiled again", told, re.MULTILINE)
    assert "does not work" not in told


def test_doctor_says_what_does_not_work(capsys, monkeypatch):
    """An installed package is asked for by its metadata."""
    from nativecall._cli import doctor

    monkeypatch.setattr(doctor, "_REQUIRED", {"no-such-package"})
    monkeypatch.setattr(doctor, "_PACKAGES", {"no-such-package": "nothing"})
    assert main(["doctor"]) == 1
    assert "does not work: no-such-package" in capsys.readouterr().out


def test_cache_is_warmed(tmp_path, monkeypatch, capsys):
    """By a process of its own: the cache of this one was decided before."""
    (tmp_path / "warmed.py").write_text(
        "import nativecall as nc\n"
        "struct = 'typedef struct { int quot; int rem; } div_t; '\n"
        "lib = nc.load(None, struct + 'div_t div(int, int); int abs(int);')\n"
        "one = nc.wrap(lib.address('abs'), 'h:hbq')\n"
    )
    environment = os.environ | {"NATIVECALL_CACHE_DIR": str(tmp_path / "kept")}

    def command(*words):
        done = subprocess.run(
            [sys.executable, "-m", "nativecall", "cache", *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment,
        )
        return done.returncode, done.stdout + done.stderr

    status, told = command("warm", "warmed")
    assert status == 0, told
    if engine.available():
        assert re.search(r"generated +2 entries", told)
        assert re.search(r"ahead of time +1 entry", told)
        assert re.search(r"written +[2-9] files", told)
        assert re.search(r"written +0 files", command("warm", "warmed:lib", "warmed:one")[1])
    else:
        assert re.search(r"libffi +2 entries", told)
    assert command("warm", "warmed:struct") == (
        2,
        "nativecall cache: 'warmed:struct' is no library, no native callable, and has none\n",
    )
    environment["NATIVECALL_CACHE_DIR"] = ""
    assert command("warm", "warmed") == (1, "  not used   kept in memory only\n")
