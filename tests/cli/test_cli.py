"""The `nativecall` command: what it prints, and its exit status."""

import errno
import importlib.util
import io
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import nativecall
from nativecall import _cache, _output
from nativecall._cli import main
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

class Odd(ctypes.Structure):
    _pack_, _layout_ = 2, "ms"
    _fields_ = [("low", ctypes.c_char), ("high", ctypes.c_int)]

odd = ctypes.CFUNCTYPE(ctypes.c_int, Odd)(1)

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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--cflags", "--pkgconfigdir"],
            "argument --pkgconfigdir: not allowed with argument --cflags",
        ),
        (["--cflags", "demo"], "--cflags cannot be combined with the command 'demo'"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(capsys, arguments, message):
    with pytest.raises(SystemExit) as info:
        main(arguments)
    assert info.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.endswith(f"nativecall: error: {message}\n")


@pytest.mark.parametrize("option", ["--cmakedir", "--pkgconfigdir"])
def test_a_folder_without_what_is_looked_for_is_refused(capsys, monkeypatch, tmp_path, option):
    """As that of an editable installation, which has the templates."""
    monkeypatch.setattr("nativecall._cli.get_include", lambda: str(tmp_path / "include"))
    assert main([option]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "an installation creates it, except an editable one" in printed.err


@pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX reads the example")
def test_the_printed_example_bears_a_blank(capsys, monkeypatch):
    monkeypatch.setattr("nativecall._cli.get_include", lambda: "/a place/include")
    assert main([]) == 0
    (example,) = re.findall(r'eval ".*?"', " ".join(capsys.readouterr().out.split()))
    assert main(["--cflags"]) == 0
    flags = f"printf %s {shlex.quote(capsys.readouterr().out)}"
    told = example.replace("nativecall --cflags", flags).replace("gcc", "printf '%s\\n'")
    words = subprocess.check_output(["sh", "-c", told], text=True).splitlines()
    assert words == ["-shared", "-fPIC", "-I/a place/include", "consumer.c"]


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
        row = rf"{re.escape(way)}  \d+\.\d  \d+\.\dx"
        assert any(re.fullmatch(row, line) for line in lines), way


@pytest.mark.skipif(not SCIPY, reason="SciPy is not installed")
def test_demo_runs_quad(demo):
    lines = text(demo)
    for way in ("f.to_scipy()", "a LowLevelCallable made by hand", "a Python function"):
        row = rf"{re.escape(way)}  ✓ \S+  \d+\.\d  \d+\.\dx"
        assert any(re.fullmatch(row, line) for line in lines), way


def test_demo_needs_neither_rich_nor_scipy(forked):
    printed = forked(
        "import sys; sys.modules.update({'rich': None, 'rich.console': None, 'scipy': None})\n"
        "sys.stdout.reconfigure(encoding='utf-8')\n"
        "from nativecall._cli import main; sys.exit(main(['demo']))"
    )
    assert "SciPy is not installed; 'pip install scipy' and run this again to see it" in printed
    assert printed.endswith("Every value is right.\n")


@pytest.fixture
def brief(monkeypatch):
    """The demo in this process takes the time once, and does not import SciPy."""
    monkeypatch.setattr("nativecall._cli.demo._ROUNDS", 1)
    monkeypatch.setitem(sys.modules, "scipy", None)


@pytest.mark.usefixtures("brief")
def test_demo_is_readable_in_ascii(monkeypatch):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="ascii"))
    assert main(["demo"]) == 0
    sys.stdout.flush()
    text = printed.getvalue().decode("ascii")
    assert "ok equal" in text
    assert "\\" not in text


@pytest.mark.usefixtures("brief")
def test_demo_fits_a_terminal_and_is_coloured(monkeypatch, capsys):
    pytest.importorskip("rich")
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "80"), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, value)
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b[32m✓ equal\x1b[0m" in printed
    assert "…" not in printed


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("wrong", [0.25, math.nan, math.inf])
def test_demo_tells_of_a_wrong_value(monkeypatch, capsys, wrong):
    monkeypatch.setattr(math, "cbrt", lambda x: wrong)
    assert main(["demo"]) == 1
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if "cbrt(27)" in line]
    assert line.count("✗") == 4
    assert printed.endswith("Some values are wrong: see above.\n")


@pytest.mark.skipif(not SCIPY, reason="SciPy is not installed")
def test_demo_tells_of_a_wrong_integral(monkeypatch, capsys):
    monkeypatch.setattr("nativecall._cli.demo._ROUNDS", 1)
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
    (found / "nc_leaving.py").write_text("raise SystemExit(3)", encoding="utf-8")
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


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it cannot be deleted")
def test_inspect_in_a_directory_that_was_deleted(inspect, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    status, lines, err = inspect("nativecall:wrap")
    assert (status, err) == (1, "")
    assert "native code finds nothing in it" in lines


def test_inspect_a_native_callable(inspect):
    status, lines, err = inspect("nc_things:cos")
    assert (status, err) == (0, "")
    assert "nc_things:cos is a native callable with 2 entries" in lines
    assert rows(lines, r"cos  d:d  0x0  0x[0-9a-f]+  ahead of time  cos of libm\.\S+")
    assert rows(lines, r"f:f  0x0  0x[0-9a-f]+  ahead of time  cosf of libm\.\S+")
    assert rows(lines, r"call table: \d+ bytes into the object at 0x[0-9a-f]+")
    assert rows(lines, r"0  0x04000001  0x0  \d+  where objects keep their call table")


NEEDS = r"nativecall\.wrap needs a signature for it: wrap\(obj, 'd:d'\), for example"
BOX = (
    *(r"a C function at  0x[0-9a-f]+", "signature  d:d", r"nativecall\.wrap turns it into:"),
    r"\S+  d:d  0x0  0x[0-9a-f]+  ahead of time  .*",
)
SLOTS = (
    r"slots of the type nc_things\.Shape:",
    r"0  'area'  0x0  0x1000  an interned key",
    r"1  0x8  0x0  0x9  an address as a key",
)
#: Lines, as patterns, by what is inspected.
SAID = {
    "m.cos": ["nc_things:m.cos is a native callable with 1 entry"],
    "careful": [r"pow  d:dd  0x8  0x[0-9a-f]+  plan  pow of libm\.\S+"],
    "view": [
        "nc_things:view is the built-in view of a native callable with 1 entry",
        r"cos  d:d  .*",
    ],
    "c_cos": [r"nc_things:c_cos is a ctypes\.CFunctionType", *BOX],
    "capsule": ["nc_things:capsule is a PyCapsule", *BOX],
    "untold": ["signature  unknown", NEEDS],
    "null": [r"nativecall\.wrap refuses it: 'target' must hold a C function; .* is NULL"],
    "array": ["to  d", "for  arguments of native calls; it is not a function"],
    "shape": SLOTS,
    "Shape": SLOTS,
    "place": [r"an address in  \S*libm\.\S+", NEEDS],
    "overloads": [r"nativecall\.wrap turns it into:", r"cos  d:d  .*"],
}


@pytest.mark.parametrize("name", SAID)
def test_inspect_says(inspect, name):
    status, lines, _ = inspect(f"nc_things:{name}")
    assert status == 0
    for pattern in SAID[name]:
        assert rows(lines, pattern), pattern


def test_inspect_tells_what_wrap_takes(tmp_path):
    pytest.importorskip("numba")
    (tmp_path / "nc_jitted.py").write_text("import numba\ntwice = numba.njit(lambda x: 2 * x)\n")
    done = command("inspect", "nc_jitted:twice", cwd=tmp_path)
    assert done.returncode == 0
    assert b"signature that is asked for: wrap(obj, 'd:d'), for example" in done.stdout
    assert b"finds nothing" not in done.stdout


@pytest.mark.parametrize("name", ["number", "odd", "doubled", "unlike"])
def test_inspect_finds_nothing(inspect, name):
    status, lines, err = inspect(f"nc_things:{name}")
    assert (status, err) == (1, "")
    assert lines[-1] == "native code finds nothing in it"


def test_inspect_says_why_there_is_nothing(inspect):
    _, lines, _ = inspect("nc_things:odd")
    assert "nativecall.wrap refuses it: Odd has a layout that no signature describes" in lines
    _, lines, _ = inspect("nc_things:doubled")
    assert "call table: none, because Doubled overrides __call__" in lines


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nc_things", "the object must be given as MODULE:NAME (got 'nc_things')"),
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
        ("nc_leaving:x", "module 'nc_leaving' cannot be imported: SystemExit: 3"),
        ("nc_things:cos.entries_", "no 'entries_' in 'nc_things.cos'; did you mean 'entries'?"),
        ("nc_things:cos.overloads", "no 'overloads' in 'nc_things.cos'"),
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
    _output.Output().table(
        ["name", ">ns"], [_output.Row("a", "1.5"), _output.Row("long one", "10.25")]
    )
    assert capsys.readouterr().out.splitlines() == [
        "  name         ns",
        "  --------  -----",
        "  a           1.5",
        "  long one  10.25",
    ]


@pytest.mark.parametrize("width", [80, 50])
def test_tables_of_a_narrow_terminal_lose_nothing(width):
    """Signs and short columns stay whole, long cells wrap."""
    console = pytest.importorskip("rich.console")
    file = io.StringIO()
    printer = _output.Output(
        console.Console(file=file, width=width, force_terminal=True, color_system=None)
    )
    rows = [
        _output.Row("✓", "interpreter", "CPython 3.11.7", "/usr/local/" + "long/" * 12 + "python"),
        _output.Row("✗", "cache", "in memory", "because there is a word " * 4 + "too many"),
    ]
    printer.table(["", "what", "found", "means"], rows)
    printed = file.getvalue()
    assert "…" not in printed
    for row in rows:
        (line,) = [line for line in printed.splitlines() if row.cells[0] in line]
        assert row.cells[1] in line
        assert row.cells[2] in line
        assert max(map(len, printed.splitlines())) <= width
        for cell in row.cells:
            letters = iter(printed)
            assert all(one in letters for one in cell.replace(" ", "")), cell


@pytest.mark.parametrize("command", ["demo", "inspect math:cos", "--cflags"])
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
    name = f"nativecall {command.split()[0]}".partition(" -")[0]
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                call, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False
            )
        assert done.returncode == 1
        assert done.stderr == f"{name}: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("options", [["--cflags"], ["cache"]])
def test_output_that_is_closed_is_told(options, monkeypatch, capsys):
    """What `nativecall doctor >&-` does: Python has no standard output then."""
    monkeypatch.setattr(sys, "stdout", None)
    assert main(options) == 1
    message = f"nativecall: [Errno {errno.EBADF}] standard output is closed\n"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("options", "interrupted"),
    [
        (["demo"], "nativecall._cli.demo.load"),
        (["doctor"], "nativecall._cli.doctor.metadata.version"),
        (["inspect", "math:cos"], "nativecall._cli.place.imported"),
    ],
)
def test_an_interruption_is_one_line(options, interrupted, monkeypatch, capsys, tmp_path):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setenv("NATIVECALL_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(interrupted, interrupt)
    assert main(options) == 130
    assert capsys.readouterr().err == f"nativecall {options[0]}: interrupted\n"


def test_a_check_that_is_interrupted_says_so(monkeypatch, capsys):
    from nativecall.conformance import __main__ as kit

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(kit, "_run", interrupt)
    assert kit.main(["--runtime", "nativecall"]) == 130
    assert capsys.readouterr().err == "python -m nativecall.conformance: interrupted\n"


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
    carried = "generated code" if engine.available() else "plans"
    for way in ("calls", "callbacks", "conversions"):
        by = carried if way == "conversions" else "plans"
        assert re.search(rf"^ +\S+ +{way} +{by}", told, re.MULTILINE)
    assert re.search(r"^ +\S+ +cache +in memory +compiled again", told, re.MULTILINE)
    assert "does not work" not in told


def test_doctor_says_what_does_not_work(capsys, monkeypatch):
    """An installed package is asked for by its metadata."""
    from nativecall._cli import doctor

    monkeypatch.setattr(doctor, "_REQUIRED", {"no-such-package"})
    monkeypatch.setattr(doctor, "_PACKAGES", {"no-such-package": "nothing"})
    monkeypatch.setenv("CC", "no-such-cc -m64")
    assert main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "does not work: no-such-package" in told
    assert "C compiler       CC=no-such-cc -m64 is not found" in told


def doctored(capsys, status):
    """The lines of the doctor's table by what they are about."""
    from nativecall._cli import doctor

    assert doctor.run() == status
    printed = text(capsys.readouterr().out)
    return {line.split("  ")[1]: line for line in printed if line[:3] in ("✓  ", "·  ", "✗  ")}


def test_doctor_tries_what_it_tells_of(capsys, monkeypatch, tmp_path):
    """A compiler, a setting, packages and a cache that are there, and do not work."""
    from nativecall._cli import doctor

    (tmp_path / "nc_failing_package.py").write_text("raise ValueError('no luck\\nat all')")
    monkeypatch.syspath_prepend(tmp_path)
    failing = tmp_path / "cc"
    failing.write_text("#!/bin/sh\necho no licence >&2\nexit 3\n")
    failing.chmod(0o755)
    monkeypatch.setattr(doctor, "_PACKAGES", {"nc_failing_package": "luck"})
    monkeypatch.setattr(doctor.metadata, "version", lambda package: "1.0")
    monkeypatch.setenv("CC", str(failing))
    monkeypatch.setenv("NATIVECALL_JIT", "maybe")
    monkeypatch.setenv("NATIVECALL_TRACE", "0")
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", str(tmp_path / ("long" * 100)))
    lines = doctored(capsys, 0)
    assert lines["settings"] == (
        "·  settings  NATIVECALL_JIT=maybe  unknown and ignored; 0 means no generated code"
    )
    assert lines["C compiler"] == (
        f"·  C compiler  {failing}  header= fails: it exits with status 3, no licence; set CC to "
        "another"
    )
    assert lines["nc_failing_package"] == (
        "·  nc_failing_package  1.0, broken  luck: ValueError: no luck at all"
    )
    assert lines["cache"].startswith("·  cache  ")
    assert lines["cache"].endswith("not used: File name too long")
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(doctor, "_REQUIRED", {"nc_failing_package"})
    monkeypatch.delenv("NATIVECALL_JIT")
    monkeypatch.setenv("NATIVECALL_TRACE", "1")
    lines = doctored(capsys, 1)
    assert lines["settings"].startswith("✓  settings  NATIVECALL_TRACE=1  calls in frames ")
    assert lines["cache"] == f"✓  cache  {tmp_path / 'kept'}  kept between processes"
    assert lines["nc_failing_package"][0] == "✗"
    assert os.listdir(tmp_path / "kept") == []


def test_doctor_without_cffi(python):
    """What needs it cannot be tried then, and the table is there."""
    printed = python(
        "import sys; sys.modules.update(cffi=None, _cffi_backend=None, rich=None)\n"
        "sys.stdout.reconfigure(encoding='utf-8')\n"
        "from nativecall._cli import doctor, main\n"
        "doctor._PACKAGES = {'cffi': 'declarations'}; print(main(['doctor']))"
    )
    for what in ("calls", "callbacks", "conversions"):
        assert re.search(rf"✗ +{what} +ModuleNotFoundError: .*_cffi_backend", printed)
    assert re.search(r"✗ +cffi +\S+, broken ", printed)
    assert printed.endswith("does not work: calls, callbacks, conversions, cffi\n1\n")


@pytest.fixture
def unchanging(tmp_path, monkeypatch):
    """A cache with two files in a directory that takes and gives none, for whoever runs this."""
    where = tmp_path / "kept"
    kept = _cache.Cache(str(where))
    for name in (b"one", b"two"):
        kept.put(_cache.hashed(name).digest(), name)

    def refuse(*arguments, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(_cache.Cache, "_create", refuse)
    monkeypatch.setattr(_cache, "_remove", lambda path: False)
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", str(where))
    return where


def test_cache_that_cannot_be_written_says_why(unchanging, capsys):
    assert main(["cache"]) == 0
    assert "keeps  nothing more: Permission denied" in text(capsys.readouterr().out)
    assert main(["cache", "clear"]) == 1
    assert text(capsys.readouterr().out) == [
        f"directory  {unchanging}",
        "deleted  0 files",
        "kept  2 files, which cannot be deleted: Permission denied",
    ]
    line = doctored(capsys, 0)["cache"]
    assert line == f"·  cache  {unchanging}  nothing more is kept: Permission denied"


def test_cache_says_what_gives_one(monkeypatch, capsys):
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", "")
    assert main(["cache"]) == 0
    assert text(capsys.readouterr().out)[1] == (
        "to keep it on disk: unset NATIVECALL_CACHE_DIR, which is empty, or set it to a directory"
    )
