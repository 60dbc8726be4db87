"""The tests' compile cache gives what the compiler would give, and what it keeps can be lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support import build, compilecache

COMPILER = build.compiler()
pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(COMPILER is None or sys.platform == "win32", reason="no C compiler"),
]
Preprocess = Callable[..., str]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own: where its entries are."""
    monkeypatch.setenv("NATIVECALL_TEST_CACHE", str(tmp_path / "kept: here"))
    return tmp_path / "kept: here" / "nativecall-tests"


@pytest.fixture
def preprocess(tmp_path: Path) -> Preprocess:
    """The last line that the preprocessor prints of sources, through the cache."""
    output = tmp_path / "output"

    def preprocess(*words: object, command: str = "") -> str:
        compiler = [command] if command else [*(COMPILER or [])]
        compilecache.compiled([*compiler, "-E", "-P", *map(str, words), "-o", str(output)], output)
        return output.read_text().split("\n")[-2]

    return preprocess


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def counting(path: Path, *more: str) -> str:
    """A compiler that writes a line for each time it runs."""
    words = [*(COMPILER or []), *more]
    write(path, f'#!/bin/sh\necho >>"{path.parent}/times"\nexec {" ".join(words)} "$@"\n')
    path.chmod(0o755)
    return str(path)


def times(compiler: str) -> int:
    return Path(compiler).with_name("times").read_text().count("\n")


def test_another_clone_finds_what_was_compiled(tmp_path, preprocess):
    compiler = counting(tmp_path / "bin" / "cc")
    for clone in ("one", "two"):
        write(tmp_path / clone / "include" / "h.h", "found\n")
        source = write(tmp_path / clone / "a.c", '#include "h.h"\n')
        assert preprocess(f"-I{source.parent}/include", source, command=compiler) == "found"
    assert times(compiler) == 1


@pytest.mark.parametrize("name", ["h.h", "with a space #, $ and: so on.h"])
def test_a_header_that_was_changed(name, tmp_path, preprocess):
    source = write(tmp_path / "in a folder" / "a.c", f'#include "{name}"\n')
    for text in ("one", "two", "one"):
        write(tmp_path / "in a folder" / name, f"{text}\n")
        assert preprocess(source) == text


def test_a_header_of_the_first_of_two_sources(tmp_path, preprocess):
    first = write(tmp_path / "a.c", '#include "h.h"\n')
    second = write(tmp_path / "b.c", "int unused;\n")
    output = tmp_path / "made"
    for number in (3, 4):
        write(tmp_path / "h.h", f"int main(void) {{ return {number}; }}\n")
        words = [*(COMPILER or []), str(first), str(second), "-o", str(output)]
        compilecache.compiled(words, output)
        assert subprocess.run([output], check=False).returncode == number


@pytest.mark.parametrize(
    ("text", "appears"),
    [
        ('#include "h.h"\n', "before/h.h"),
        ('#include "h.h"\n', "beside/h.h"),
        ('#include "inner/one.h"\n', "include/inner/h.h"),
        ("#include <float.h>\nold\n", "before/float.h"),
        ("#include <sys/types.h>\nold\n", "before/sys/types.h"),
        ('#if __has_include("new.h")\n#include "new.h"\n#else\nold\n#endif\n', "include/new.h"),
    ],
)
def test_a_header_that_is_found_first_from_now_on(text, appears, tmp_path, preprocess):
    source = write(tmp_path / "beside" / "a.c", text)
    write(tmp_path / "include" / "h.h", "old\n")
    write(tmp_path / "include" / "inner" / "one.h", '#include "h.h"\n')
    (tmp_path / "before").mkdir()
    words = [f"-I{tmp_path / folder}" for folder in ("before", "include")]
    assert preprocess(*words, source) == "old"
    write(tmp_path / appears, "new\n")
    preprocess(*words, source)
    assert "new" in (tmp_path / "output").read_text()


def test_folders_that_change_places(tmp_path, preprocess):
    source = write(tmp_path / "source" / "a.c", "#include <h.h>\n")
    folders = [write(tmp_path / text / "h.h", f"{text}\n").parent for text in ("one", "two")]
    assert preprocess(*[f"-I{one}" for one in folders], source) == "one"
    assert preprocess(*[word for one in folders[::-1] for word in ("-I", one)], source) == "two"


def test_compilers_of_one_name(tmp_path, preprocess, monkeypatch):
    source = write(tmp_path / "a.c", "SAID\n")
    compilers = [counting(tmp_path / text / "some-cc", f"-DSAID={text}") for text in ("one", "two")]
    for compiler in compilers:
        monkeypatch.setenv("PATH", str(Path(compiler).parent), prepend=":")
        assert preprocess(source, command="some-cc") == Path(compiler).parent.name
    # Behind a launcher, too.
    write(tmp_path / "a.c", "SAID twice\n")
    for compiler in compilers:
        shutil.copy(compiler, tmp_path / "other-cc")
        output = tmp_path / "output"
        words = ["env", str(tmp_path / "other-cc"), "-E", "-P", str(source), "-o", str(output)]
        compilecache.compiled(words, output)
        assert output.read_text().strip() == f"{Path(compiler).parent.name} twice"


def test_folders_that_the_environment_names(tmp_path, preprocess, monkeypatch):
    source = write(tmp_path / "a.c", "#include <h.h>\n")
    for text in ("one", "two"):
        monkeypatch.setenv("CPATH", str(write(tmp_path / text / "h.h", f"{text}\n").parent))
        assert preprocess(source) == text


@pytest.mark.parametrize("lost", ["headers.json", "product"])
def test_what_is_left_of_an_entry_is_no_entry(lost, tmp_path, preprocess, cache):
    source = write(tmp_path / "a.c", "text\n")
    compiler = counting(tmp_path / "bin" / "cc")
    assert preprocess(source, command=compiler) == "text"
    [entry] = cache.glob("*/*/")
    (entry / lost).unlink()
    write(entry.parent / "new-of-a-killed-process" / "product", "half of it")
    assert preprocess(source, command=compiler) == "text"
    assert times(compiler) == 2
    assert len([*cache.glob("*/*/")]) == 1


def test_a_cache_that_cannot_be_written(tmp_path, preprocess, monkeypatch):
    source = write(tmp_path / "a.c", "text\n")
    monkeypatch.setenv("NATIVECALL_TEST_CACHE", str(write(tmp_path / "file", "")))
    assert preprocess(source) == "text"
    monkeypatch.setenv("NATIVECALL_TEST_CACHE", "")
    assert preprocess(source) == "text"
    compilecache.prune()
    assert not (tmp_path / "kept: here").exists()


def test_it_is_cleared_alone(tmp_path, preprocess, cache):
    precious = write(cache.parent / "precious", "mine")
    preprocess(write(tmp_path / "a.c", "text\n"))
    assert cache.exists()
    for _ in range(2):
        subprocess.run([sys.executable, compilecache.__file__, "--clear"], check=True)
        assert not cache.exists()
    assert precious.read_text() == "mine"


def test_another_text_of_the_same_name_is_another_library(tmp_path):
    builder = build.Builder(tmp_path)
    for name in ("first", "second"):
        made = builder.library(f"int {name}(void); int {name}(void) {{ return 1; }}\n", "same")
        assert name.encode() in made.read_bytes()
