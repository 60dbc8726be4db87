"""The pure C ground: its headers compile everywhere they promise to, its unit tests pass.

Every header without ``Python.h`` is compiled alone and twice in one file, as C99, C11 and C++11,
with warnings as errors. Every program ``tests/c/test_*.c`` is built and run under the address and
undefined-behaviour sanitizers, and under the thread sanitizer where it starts threads.
A skip says which compiler or sanitizer is missing.
"""

from __future__ import annotations

import functools
import itertools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support import build, compilecache
from support.levels import sweep

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "csrc" / "include"
PROGRAMS = sorted(path.stem for path in (ROOT / "tests" / "c").glob("test_*.c"))


def needs_python(header: Path) -> bool:
    """Whether a header includes ``Python.h``, itself or through another of ours."""
    text = header.read_text(encoding="utf-8")
    included = re.findall(r'#include [<"]([^>"]+)[>"]', text)
    if "#define NC_WITHOUT_PYTHON" in text:
        included.remove("../../nativecall_abi.h")
    return "Python.h" in included or any(
        needs_python(header.parent / name) for name in included if (header.parent / name).is_file()
    )


HEADERS = sorted(
    path.relative_to(INCLUDE / "nativecall").as_posix()
    for path in (INCLUDE / "nativecall").rglob("*.h")
    if not needs_python(path)
)
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror"]
THREADED = ["test_threads", "test_race", "test_nativeobject", "test_objectmemory"]
# What each program takes as its argument under sanitizers, where the default would be slow.
SANITIZED_COUNT = {
    "test_hash": 20_000,
    "test_intern": 20_000,
    "test_slottable": 20_000,
    "test_calltable": 2_000,
    "test_nativetable": 300,
    "test_nomem": 300,
    "test_signature": 6_000,
    "test_threads": 8_000,
    "test_race": 100_000,
    "test_layout": 1_000,
    "test_registercall": 0,
    "test_nativeobject": 1_500,
    "test_objectmemory": 5_000,
    "test_numbers": 0,
}

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(sys.platform == "win32", reason="needs a cc-style compiler driver"),
]


def require_compiler(language: str) -> list[str]:
    """Return the command of a compiler, or skip the test."""
    command = build.compiler(language)
    if command is None:
        pytest.skip(f"no {language} compiler")
    return command


def build_program(source: Path, options: list[str], folder: Path) -> Path:
    """Compile a program into a folder."""
    program = folder / source.stem
    language = "c" if source.suffix == ".c" else "c++"
    command = [*require_compiler(language), *options, f"-I{INCLUDE}", str(source)]
    compilecache.compiled([*command, "-o", str(program), "-pthread", "-lm"], program)
    return program


@functools.cache
def runs_with(sanitizer: str) -> bool:
    """Whether an empty program built with this sanitizer runs here."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "empty.c")
        source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
        try:
            program = build_program(source, [f"-fsanitize={sanitizer}"], source.parent)
        except AssertionError:
            return False
        return subprocess.run([str(program)], capture_output=True, check=False).returncode == 0


def run(command: list[str]) -> str:
    """Run a program, fail the test with its output when it fails, return its output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def build_and_run(name: str, directory: Path, options: list[str], arguments: list[str]) -> None:
    """Build one of the unit tests with these compiler options and run it."""
    source = ROOT / "tests" / "c" / f"{name}.c"
    program = build_program(source, ["-std=gnu11", *WARNINGS, *options], directory)
    output = run([str(program), *arguments])
    assert " checks, 0 failed" in output
    assert "runtime error" not in output
    assert "WARNING: ThreadSanitizer" not in output


def test_nothing_is_left_out() -> None:
    core = {
        f"detail/core/{name}.h" for name in ("base", "hash", "intern", "slottable", "calltable")
    }
    assert core | {"nativetable.h"} <= set(HEADERS)
    assert set(PROGRAMS) == set(SANITIZED_COUNT)


@pytest.mark.parametrize(
    ("standard", "optimisation"),
    sweep([*itertools.product(["c99", "c++11", "c11"], ["-O2", "-O0", "-O3"])], ("c99", "-O2")),
)
@pytest.mark.parametrize("header", HEADERS)
def test_header_alone_and_twice(
    header: str, standard: str, optimisation: str, tmp_path: Path
) -> None:
    language = "c++" if standard.startswith("c++") else "c"
    source = tmp_path / f"twice.{'cpp' if language == 'c++' else 'c'}"
    source.write_text(
        f'#include "nativecall/{header}"\n#include "nativecall/{header}"\n'
        "int main(void) { return 0; }\n",
        encoding="utf-8",
    )
    options = [f"-std={standard}", *WARNINGS, optimisation, f"-I{INCLUDE}", "-c"]
    output = tmp_path / "twice.o"
    command = [*require_compiler(language), *options, str(source), "-o", str(output)]
    compilecache.compiled(command, output)


@pytest.mark.parametrize("standard", ["c99", "c++11"])
def test_headers_together_in_use(standard: str, tmp_path: Path) -> None:
    """Some warnings appear only where a function is called and inlined; others only in C++."""
    language = "c++" if standard.startswith("c++") else "c"
    source = tmp_path / f"uses.{'cpp' if language == 'c++' else 'c'}"
    source.write_text(
        r"""
#include <stdio.h>
#include "nativecall/detail/core/calltable.h"
#include "nativecall/detail/core/intern.h"
#include "nativecall/detail/core/slottable.h"
int main(void)
{
    NcRegistry *registry = NULL;
    const char *signature = NULL;
    NcCallTable calls;
    PyCustomSlotTable *table = NULL;
    PyCustomSlot slot;
    int ok = nc_registry_new(&registry) == NC_OK;
    ok = ok && nc_intern(registry, "d:d", 3, &signature) == NC_OK;
    nc_calltable_init(&calls);
    ok = ok && nc_calltable_append(&calls, signature, NC_FLAG_ERRNO, &calls) == NC_OK;
    ok = ok && nc_calltable_find(calls.published, signature, 0) != NULL;
    ok = ok && nc_calltable_find(calls.published, signature, NC_FLAG_ERRNO) == NULL;
    slot.id = (uintptr_t)signature;
    slot.flags = 0;
    slot.data.pointer = NULL;
    ok = ok && nc_slottable_build(&slot, 1, &table, NULL) == NC_OK;
    if (table == NULL) {
        return 2;
    }
    ok = ok && nc_slottable_find(table, (uintptr_t)signature) == nc_slottable_rows(table);
    ok = ok && nc_slottable_find_expected(table, (uintptr_t)signature, 1) != NULL;
    nc_slottable_free(table);
    nc_calltable_clear(&calls);
    puts(ok ? "good" : nc_status_text(NC_E_MISSING));
    return !ok;
}
""",
        encoding="utf-8",
    )
    program = build_program(source, [f"-std={standard}", *WARNINGS, "-O2"], tmp_path)
    assert run([str(program)]) == "good\n"


@pytest.mark.nightly
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, tmp_path: Path) -> None:
    build_and_run(name, tmp_path, ["-O2"], [])


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_under_address_and_undefined(name: str, tmp_path: Path) -> None:
    if not runs_with("address,undefined"):
        pytest.skip("no address and undefined-behaviour sanitizers with this C compiler")
    options = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    build_and_run(name, tmp_path, options, [str(SANITIZED_COUNT[name])])


@pytest.mark.parametrize("name", THREADED)
def test_program_under_thread(name: str, tmp_path: Path) -> None:
    if not runs_with("thread"):
        pytest.skip("no thread sanitizer with this C compiler")
    options = ["-O1", "-g", "-fsanitize=thread"]
    build_and_run(name, tmp_path, options, [str(SANITIZED_COUNT[name])])


def test_a_race_would_be_reported(tmp_path: Path) -> None:
    """The thread sanitizer sees what the tests rely on it to see."""
    if not runs_with("thread"):
        pytest.skip("no thread sanitizer with this C compiler")
    source = tmp_path / "race.c"
    source.write_text(
        "#include <pthread.h>\nstatic int shared;\n"
        "static void *body(void *p) { shared++; return p; }\n"
        "int main(void) { pthread_t a, b; pthread_create(&a, 0, body, 0);\n"
        "pthread_create(&b, 0, body, 0); pthread_join(a, 0); pthread_join(b, 0); return 0; }\n",
        encoding="utf-8",
    )
    program = build_program(source, ["-O1", "-g", "-fsanitize=thread"], tmp_path)
    raced = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert raced.returncode != 0
    assert "data race" in raced.stderr
