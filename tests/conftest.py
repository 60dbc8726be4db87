"""Shared set-up of the tests: levels, workers, the installed package, a C compiler, exact messages.

Tests marked `nightly` are skipped unless you pass `--nightly` or name one by its id. They are slow
tests, and sweeps of which the default level runs a representative row. If pytest-xdist is
installed, a run of many files uses one worker per processor and starts the slowest files first.

The tests run against the installed package. `python -m pytest` puts the repository root, with the
package's sources, first on the module path; this file removes it before anything imports the
package.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest

# Assertions there show values, as in tests.
pytest.register_assert_rewrite("support")

from support import build, compilecache, forkserver  # noqa: E402  # after registering the rewrite

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
# Factor for the time limits of a test's processes: an emulated processor is slow.
PATIENCE = float(os.environ.get("NATIVECALL_TEST_PATIENCE", "1"))
# No test uses the user's cache; tests of the cache on disk name a directory.
os.environ["NATIVECALL_CACHE_DIR"] = ""
assert "nativecall" not in sys.modules, "nativecall was imported before the tests began"
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]

# Every run uses the same examples, however busy the machine, so a failure is due to the change.
# `pytest --hypothesis-profile=search` looks for others. Explaining a failure is disabled, because
# CPython 3.12 and 3.13 would then trace lines in all later tests.
_common = hypothesis.settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    phases=[phase for phase in hypothesis.Phase if phase is not hypothesis.Phase.explain],
)
hypothesis.settings.register_profile("search", _common, max_examples=2000)
hypothesis.settings.register_profile("repeatable", _common, derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")


#: The slowest files, slowest first: they start first, so that workers finish together.
SLOW = (
    "conformance/test_kit.py",
    "bridges/test_numba_instances.py",
    "bridges/test_numba_calls.py",
    "core/test_c.py",
    "cli/test_cli.py",
    "codegen/test_engine.py",
    "project/test_reachable.py",
    "project/test_examples.py",
    "project/test_leaks.py",
    "bridges/test_numba.py",
    "call/test_call.py",
)
#: Tests that pytest-run-parallel leaves in one thread: by an argument, their name or their file.
ALONE = {
    "compiles a file of one name": {"builder", "copies", "making"},
    "races threads itself": {"test_races.py", "test_threads.py"},
    "starts processes": {"forked", "python", "kit", "test_processes.py", "test_stubs.py"},
    "replaces a hook of the process": {
        "unraisable",
        "test_overloads.py::test_an_entry_that_is_added_while_an_array_is_looked_at",
        "test_text.py::test_a_codec_gets_a_copy",
        "test_values.py::test_what_is_callable_is_passed_as_a_function",
    },
    "all threads have one object of the fixture": {
        *("bodies", "ext", "hook", "kernels", "test_variables.py"),
        "test_characters.py::test_text",
        "test_generic.py::test_c_functions_are_taken",
        "test_record.py::test_fields_by_name_and_by_index",
        "test_record.py::test_a_record_is_taken_wherever_the_struct_is",
        "test_struct_pointers.py::test_pointers_that_are_freed",
        "test_text.py::test_functions_get_text_by_the_encoding",
        "test_types.py::test_the_ffi_is_cffis_and_has_the_types",
    },
    "counts what the process has": {
        "test_exceptions.py",
        "test_builtin.py::test_reference_counts_are_level",
        "test_fields.py::test_a_name_is_the_class_that_python_would_find",
        "test_life.py::test_what_callbacks_of_a_signature_share_is_kept_up_to_a_bound",
        "test_life.py::test_what_is_known_of_texts_is_kept_up_to_a_bound",
        "test_record.py::test_a_layout_frees_the_records_that_ended",
        "test_scalars.py::test_call_interfaces_are_kept_up_to_a_bound",
        "test_scalars.py::test_layouts_are_kept_up_to_a_bound",
        "test_scalars.py::test_plans_of_single_types_are_kept_up_to_a_bound",
    },
}
#: Fewer files than this run faster in one process than workers start.
FEW = 12


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run tests marked `nightly` too")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Use workers for many files, unless the user gave a number; lost workers are not replaced."""
    option = config.option
    # A replacement worker would receive finished files, and hang.
    option.maxworkerrestart = "0"
    worker = hasattr(config, "workerinput")
    if worker or getattr(option, "numprocesses", 0) is not None:
        return
    counted = hasattr(sys, "gettotalrefcount")  # references are counted in one process
    if option.usepdb or option.trace or option.collectonly or counted:
        return
    paths = [_named(config, argument)[0] for argument in config.args]
    files = {
        file for path in paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])
    }
    affinity = getattr(os, "sched_getaffinity", None)  # a container may have only some processors
    processors = (os.cpu_count() or 1) if affinity is None else len(affinity(0))
    if len(files) > FEW and processors > 1:
        option.numprocesses, option.dist = processors, "loadfile"
        option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Fail the run if a worker is lost, even between tests."""
    if error:
        node.config.pluginmanager.getplugin("session").testsfailed += 1


def _named(config: pytest.Config, argument: str) -> tuple[Path, str]:
    """Return the path of a pytest argument, and the test in it."""
    path, _, test = argument.partition("::")
    return Path(os.path.abspath(config.invocation_params.dir / path)), test


def _is_named(item: pytest.Item, path: Path, test: str) -> bool:
    name = item.nodeid.partition("::")[2]
    return item.path == path and (name == test or name.startswith((f"{test}[", f"{test}::")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = [_named(config, argument) for argument in config.args if "::" in argument]
    left_out = (
        []
        if config.getoption("nightly")
        else [
            item
            for item in items
            if item.get_closest_marker("nightly")
            and not any([_is_named(item, *one) for one in named])
        ]
    )
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = {*left_out}
        items[:] = [item for item in items if item not in gone]
    if config.pluginmanager.hasplugin("run-parallel"):
        for item in items:
            _leave_alone(item)
    order = {str(TESTS / name): place for place, name in enumerate(SLOW)}
    items.sort(key=lambda item: order.get(str(item.path), len(order)))


def _leave_alone(item: pytest.Item) -> None:
    """Mark a test of `ALONE`."""
    function: Callable[..., object] = item.obj  # type: ignore[attr-defined]  # all tests are functions
    file = item.path.name
    names = {file, f"{file}::{function.__name__}", *inspect.signature(function).parameters}
    for reason, alone in ALONE.items():
        if names & alone:
            item.add_marker(pytest.mark.thread_unsafe(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without garbage collections: imported modules are never freed."""
    gc.disable()
    try:
        return (yield)
    finally:
        # On first use, hypothesis asks the garbage collector about its random number generators.
        hypothesis.given(hypothesis.strategies.none())(lambda _: None)()
        gc.freeze()
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        compilecache.prune()
    if not config.getoption("nightly"):
        # Numba's optimizations take a third of the time of its tests; see `optimized`.
        os.environ.setdefault("NUMBA_OPT", "0")
    if not hasattr(sys, "gettotalrefcount"):
        return
    from support import references

    if references.PASSES > 0:
        config.pluginmanager.register(references.Levels())


@pytest.fixture(autouse=True)
def _path() -> Iterator[None]:
    """Let commands of tests add the current directory to the module path, as for users."""
    before = sys.path[:]
    yield
    sys.path[:] = before


@pytest.fixture(scope="module", autouse=True)
def _frozen() -> None:
    """Freeze earlier objects, so that a collection visits only those of the module's own tests.

    Otherwise the libraries' hundreds of thousands of objects would take seconds each time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Compile C; see `build.Builder`."""
    return build.Builder(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="session")
def callees(builder: Any) -> Path:
    """Return the shared library of tests/ext/callees.c."""
    return builder.library(build.EXT / "callees.c", "callees")


@pytest.fixture(scope="session")
def lib(callees: Path) -> Any:
    """Open the same library."""
    import nativecall

    return nativecall.load(callees)


@pytest.fixture(scope="session")
def include() -> Path:
    """Return the installed headers."""
    import nativecall

    return Path(nativecall.get_include())


@pytest.fixture(scope="session")
def consumer(builder: Any, include: Path) -> ModuleType:
    """Return the extension module of tests/ext/consumer.c, built with the installed headers."""
    return build.load_extension(builder.extension("consumer.c", "nc_consumer", include=include))


@pytest.fixture(scope="session")
def provider(builder: Any, include: Path) -> ModuleType:
    """Return the extension module of tests/ext/provider.c, built with the installed headers."""
    return build.load_extension(builder.extension("provider.c", "nc_provider", include=include))


@pytest.fixture(scope="session")
def integrating(builder: Any, include: Path) -> ModuleType:
    """Return the module of tests/ext/callback_consumer.c, which includes only callback.h."""
    path = builder.extension("callback_consumer.c", "callback_c", include=include)
    return build.load_extension(path)


@pytest.fixture(scope="session")
def dispatch(builder: Any, include: Path) -> ModuleType:
    """Return the module of tests/ext/dispatch.c, which includes dispatch.h and dynamiccall.h."""
    return build.load_extension(builder.extension("dispatch.c", "dispatch_c", include=include))


@pytest.fixture(scope="session")
def boxes(builder: Any, include: Path) -> Any:
    """Return the compiled parts of the callables and consumers in support/matrix.py."""
    from support import matrix

    return matrix.Boxes(builder, include)


@pytest.fixture(scope="session")
def foreign(builder: Any) -> Callable[..., Path]:
    """Compile a module of tests/foreign, optionally broken by macros; return its directory.

    The modules were written from the specification, and share no header with the product.
    """
    folder = build.EXT.parent / "foreign"

    def make(source: str, name: str, *broken: str) -> Path:
        made: Path = builder.extension(
            f"../foreign/{source}.c",
            name,
            include=folder,
            defines=broken,
            flags=("-O1",),
            directory="foreign",
        )
        return made.parent

    return make


@pytest.fixture
def fails() -> Callable[..., contextlib.AbstractContextManager[Any]]:
    """Return a context manager: the block must raise exactly this exception and message."""

    @contextlib.contextmanager
    def fails(exception: type[BaseException], message: str) -> Iterator[Any]:
        with pytest.raises(exception) as info:
            yield info
        assert type(info.value) is exception
        assert str(info.value) == message

    return fails


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the reports to `sys.unraisablehook`: type, text and object of each exception."""
    found: list[Any] = []

    def hook(args: Any) -> None:
        found.append((type(args.exc_value), str(args.exc_value), args.object))

    monkeypatch.setattr(sys, "unraisablehook", hook)
    return found


@pytest.fixture
def optimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use Numba's default optimizations, in one test of the default level."""
    monkeypatch.setenv("NUMBA_OPT", "3")  # read before each compilation


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., str]:
    """Run code in a new Python, which must print no error; return its output."""

    def python(code: str, *arguments: object, timeout: float = 60) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout * PATIENCE,
            cwd=tmp_path,
            check=False,
        )
        return _printed(done)

    return python


@pytest.fixture
def forked(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Do the same in a fork of a Python that has imported the package, NumPy and llvmlite."""
    if not hasattr(os, "fork"):
        made: Callable[..., str] = request.getfixturevalue("python")
        return made

    def forked(code: str, *arguments: object, timeout: float = 60) -> str:
        words = [*map(str, arguments)]
        return _printed(forkserver.shared().run(code, words, tmp_path, timeout * PATIENCE))

    return forked


def _printed(done: subprocess.CompletedProcess[str]) -> str:
    if (done.returncode, done.stderr) != (0, ""):
        pytest.fail(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout
