"""Importing: what it pulls in, what it says where it cannot work, and where it refuses to."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import nativecall as nc

PACKAGE = Path(nc.__file__).parent
HEAVY = ["numpy", "scipy", "llvmlite", "numba", "cffi", "pycparser", "ctypes", "inspect", "typing"]


def test_importing_pulls_in_few_modules_and_no_optional_library(python):
    code = (
        "import sys; before = set(sys.modules)\n"
        "import nativecall\n"
        "print(len({*sys.modules} - before))\n"
        f"print(*[name for name in {HEAVY} if name in sys.modules and name not in before])\n"
    )
    count, *heavy = python(code).split()
    assert int(count) < 12
    assert heavy in ([], ["typing"]), "typing is cffi's own wish"


def test_working_pulls_in_no_optional_library(python):
    code = (
        "import sys, nativecall as nc\n"
        "m = nc.load('m', 'double cos(double); double frexp(double, int *);')\n"
        "assert m.cos(0) == 1 and m.frexp(8.0, memoryview(bytearray(4)).cast('i')) == 0.5\n"
        "f = nc.wrap({'d:d': m.cos, 'f:f': m.address('cosf')}); f(1.0); f.entries; f.builtin\n"
        "m.cos.to_ctypes(); m.cos.to_cffi(); m.cos.to_capsule()\n"
        "try: nc.wrap(object(), 'd:d')\n"
        "except TypeError: pass\n"
        "heavy = 'numpy', 'scipy', 'llvmlite', 'numba'\n"
        "print(*[name for name in heavy if name in sys.modules])\n"
    )
    assert python(code).split() == []


def test_a_call_of_a_new_kind_imports_no_rules_of_conversions(python):
    """The first call with a struct, which Python code fills from a tuple, takes milliseconds."""
    code = (
        "import sys, nativecall as nc\n"
        "f = nc.wrap(nc.load('m').address('fabs'), 'd:dT{dd}')\n"
        "assert f(-1.0, (1, 2)) == 1\n"
        "slow = 'dataclasses', 'inspect', 're', 'typing'\n"
        "print(*[name for name in slow if name in sys.modules])\n"
    )
    assert python(code).split() == []


def test_dir_has_what_people_use_and_nothing_else():
    assert [name for name in dir(nc) if name[:2] != "__"] == sorted(nc.__all__)


def test_names_come_when_they_are_used(python):
    code = (
        "import sys, threading, nativecall\n"
        "print('nativecall._public' in sys.modules, hasattr(nativecall, '_lip'))\n"
        "print('nativecall._public' in sys.modules, *nativecall.__all__[:2])\n"
        "print('nativecall._errors' in sys.modules, 'nativecall._library' in sys.modules)\n"
        "print('wrap' in dir(nativecall), hasattr(nativecall, 'warp'), nativecall.__doc__[:10])\n"
        "from nativecall import *\n"
        "print(load is nativecall.load)\n"
        "try: nativecall.warp\n"
        "except AttributeError as error: print(error)\n"
    )
    assert python(code).splitlines() == [
        "False False",
        "False AbiError Callback",
        "True False",
        "True False nativecall",
        "True",
        "module 'nativecall' has no attribute 'warp'",
    ]


def test_a_load_from_the_cache_imports_what_it_needs_alone(python, tmp_path):
    """What imports much, and what calls and other headers need, is put off."""
    (tmp_path / "cosine.h").write_text("double cos(double);\n#define HALF 0.5\n")
    code = (
        "import sys, os; before = set(sys.modules)\n"
        "os.environ['NATIVECALL_CACHE_DIR'] = sys.argv[1] + '/cache'\n"
        "import nativecall as nc\n"
        "lib = nc.load(None, header=sys.argv[1] + '/cosine.h')\n"
        "print(lib.cos(0.0), lib.HALF)\n"
        "print(*sorted({*sys.modules} - before))\n"
    )
    python(code, tmp_path)
    said, imported = python(code, tmp_path).splitlines()
    assert said == "1.0 0.5"
    own = {name.removeprefix("nativecall.") for name in imported.split()}
    others = {"functools", "weakref", "importlib", "inspect", "re", "subprocess", "typing"}
    assert not own & others
    assert not own & {"_callback", "_native_objects", "_callable.hooks", "_callable.arguments"}
    assert not own & {"_cdecl.parser", "_types.bufferformat", "_values.storage"}


def test_a_frozen_library_imports_what_its_calls_need_alone(python, tmp_path):
    """What ships with a package is used by short programs."""
    text = "struct d { int quot, rem; }; struct d div(int, int); double frexp(double, int *e);"
    nc.load("m", text).freeze(tmp_path / "m.nc")
    code = (
        "import sys; before = set(sys.modules)\n"
        "import nativecall as nc\n"
        "def show(): print(*{*sys.modules} - before)\n"
        "m = nc.load('m', frozen=sys.argv[1], out={'frexp': ['e']})\n"
        "assert m.div(7, 2) == (3, 1); show()\n"
        "assert m.frexp(8.0) == (0.5, 4); show()\n"
    )
    plain, more = python(code, tmp_path / "m.nc").splitlines()
    own = {name.removeprefix("nativecall.") for name in plain.split()}
    assert not own & {"_callable.entry", "_callable.arguments", "_values.foreign"}
    assert not own & {"_cdecl.header", "_cdecl.lexer", "_cdecl.spelling", "_types.written"}
    others = {"contextlib", "ctypes", "functools", "importlib", "inspect", "math", "pkgutil"}
    assert not {*more.split()} & {
        *others,
        "re",
        "subprocess",
        "typing",
        "_cffi_backend",
        "warnings",
    }


def test_threads_use_the_first_name_at_once(python):
    code = (
        "import threading, nativecall\n"
        "ready = threading.Barrier(8); found = []\n"
        "def use():\n"
        "    ready.wait(); found.append(nativecall.load('m').function('cos', 'd:d')(0.0))\n"
        "threads = [threading.Thread(target=use) for _ in range(8)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
        "print(found)\n"
    )
    assert python(code).strip() == str([1.0] * 8)


def test_public_names():
    assert sorted(nc.__all__) == list(nc.__all__)
    for name in nc.__all__:
        assert getattr(nc, name) is not None
        assert getattr(nc, name).__doc__, f"{name} has no docstring"
    from importlib.metadata import version

    assert nc.__version__ == version("nativecall")
    assert nc.NativeCallable.__module__ == "nativecall"


def test_headers_are_installed():
    include = Path(nc.get_include())
    headers = {path.name for path in (include / "nativecall").rglob("*.h")}
    assert {"customslots.h", "extensibletype.h", "nativecallable.h", "calltable.h"} <= headers


def without_core(directory: Path) -> Path:
    """A copy of the package without its compiled module."""
    copy = directory / "nativecall"
    shutil.copytree(
        PACKAGE, copy, ignore=shutil.ignore_patterns("_core*.so", "_core*.pyd", "__pycache__")
    )
    return copy


IMPORT = """
import sys
sys.path.insert(0, sys.argv[1])
try:
    import nativecall
except ImportError as error:
    print(type(error).__name__, error)
"""


def test_without_the_compiled_core(python, tmp_path):
    copy = without_core(tmp_path / "broken")
    line = python(IMPORT, tmp_path / "broken").strip()
    assert line.startswith(
        f"ImportError nativecall's compiled core is missing from {copy} or does not load ("
    )
    assert line.endswith("install nativecall again for this Python")


def test_in_the_source_tree(python, tmp_path):
    copy = without_core(tmp_path / "source")
    (tmp_path / "source" / "meson.build").touch()
    assert python(IMPORT, tmp_path / "source").strip() == (
        f"ImportError {copy} is a source tree without its compiled core, and hides an installed "
        "nativecall because Python started here; run 'pip install .' and start Python in another "
        "directory (or use the 'nativecall' and 'pytest' commands, which work here), or work on "
        "the sources with 'pip install --no-build-isolation -e .'"
    )


def test_a_second_import_after_the_first_was_thrown_away(python):
    code = (
        "import sys, nativecall\n"
        "cos = nativecall.load('m').function('cos', 'd:d')\n"
        "for name in list(sys.modules):\n"
        "    if name.startswith('nativecall'): del sys.modules[name]\n"
        "try: import nativecall\n"
        "except ImportError as error: print(error)\n"
        "print(cos(0.0))\n"
    )
    assert python(code) == (
        "nativecall's core cannot be loaded twice in one process; restart Python\n1.0\n"
    )


SUBINTERPRETER = """
import sys
if sys.argv[1] == "after":
    import nativecall
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
    made = interpreters.create(sys.argv[2])
else:
    import _xxsubinterpreters as interpreters
    made = interpreters.create(isolated=sys.argv[2] == "isolated")
code = '''
try:
    import nativecall
except ImportError as error:
    print(type(error).__name__, error, flush=True)
else:
    print("imported", flush=True)
'''
failure = interpreters.run_string(made, code)
assert failure is None, failure
interpreters.destroy(made)
import nativecall
print(nativecall.load("m").function("cos", "d:d")(0.0))
"""


@pytest.mark.parametrize("kind", ["legacy", "isolated"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_subinterpreters_are_refused(python, when, kind):
    """The main interpreter works on. From 3.12 on, isolated ones have a GIL of their own."""
    assert python(SUBINTERPRETER, when, kind).splitlines() == [
        "ImportError nativecall cannot be imported in a subinterpreter: its types are shared by "
        "the process; import it in the main interpreter",
        "1.0",
    ]


def test_the_first_pointer_of_cffi_that_a_process_makes(python):
    """cffi's wrapper of the core, which makes it, is imported no earlier."""
    code = """
import sys
import nativecall
lib = nativecall.load("c", "struct F; struct F *tmpfile(void); int fclose(struct F *file);")
assert "nativecall._core" not in sys.modules
print(lib.fclose(lib.tmpfile()))
"""
    assert python(code) == "0\n"


def test_tests_run_against_the_installed_package():
    assert "site-packages" in str(PACKAGE) or "build" in str(PACKAGE) or sys.flags.isolated
    root = Path(__file__).resolve().parents[2]
    assert str(root) not in [str(Path(entry or ".").resolve()) for entry in sys.path]
