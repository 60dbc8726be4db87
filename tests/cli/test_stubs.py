"""`nativecall stubs`: wrong calls are errors to mypy and pyright, and right ones are not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nativecall._cli import main
from support import compilecache

MODULE = '''
"""Has libraries."""
from __future__ import annotations

from typing import Any, Callable, Final, Generic, List, NewType, TypeAlias, TypeVar

import nativecall as nc

m = nc.load(
    "m",
    "typedef struct { int quot, rem; } div_t; double cos(double x); float cosf(float);"
    "double frexp(double x, int *e); double _Complex csqrt(double _Complex z);",
)
c = nc.load(
    None,
    "typedef struct { int quot, rem; } div_t; div_t div(int a, int b); enum { LIMIT = 7, Any = 8 };"
    "int snprintf(char *s, unsigned long n, const char *f, ...); extern char **environ;"
    "void qsort(void *base, unsigned long n, unsigned long size,"
    "           int (*compare)(const void *, const void *));"
    "const char *getenv(const char *name); int abs(int);",
)
both = nc.wrap({"d:d": m.cos, "i:i": nc.load(None, "int abs(int);").abs}, name="both")
split = m.function("frexp", out=["e"])
coded = c.function("getenv", encoding="utf-8")
half = nc.callback("d:d", lambda x: x / 2)


@nc.callback("d:d")
def third(x: float) -> float:
    return x / 3


limit, name = 5, "things"
T = TypeVar("T")
Id = NewType("Id", int)
Ints = List[int]
Few: TypeAlias = "int | None"
Most: Final = 9
if limit:
    Maker = Callable[[T], Any]


class Box(Generic[T]):
    def __init__(self, inside: T) -> None:
        self.put = inside

    def get(self) -> T:
        return self.put


def first(ids: Ints, id: Id, few: Few = None) -> Maker[int]:
    return lambda x: ids[id]


class Kept:
    """A class of the user's."""

    x: int = 5

    def half(self, y: int) -> str:
        return str(y / 2)


def doubled(x: float, *, n: int = 3) -> float:
    return 2 * x
'''
RIGHT = """
import array, ctypes
import numpy as np
import nativecall as nc
from stub_things import Box, Id, Kept, Most, both, c, coded, doubled, first, half, limit, m, name
from stub_things import split, third

x: float = m.cos(0.5)
m.cos(1)
m.cos(x=True)
m.cos(np.float64(1))
e = ctypes.c_int()
m.frexp(40.0, ctypes.byref(e))
m.frexp(1.0, ctypes.pointer(e))
m.frexp(1.0, array.array("i", [0]))
m.frexp(1.0, np.zeros(1, np.int32))
m.frexp(1.0, None)
quot: int = c.div(7, 2).quot
pair: tuple[float, int] = split(40.0)
real: float = both(1.0)
whole: int = both(1)
text: str = Kept().half(3)
z: complex = m.csqrt(1j)
z = m.csqrt(1)
c.getenv(b"HOME")
c.abs(1) + c.abs(2)
coded("HOME")
c.snprintf(None, 0, b"%d", 5)
c.qsort(np.zeros(3), 3, 8, lambda a, b: 0)
number: int = c.LIMIT + limit
c.types.div_t.fields, c.types.int8_t, c["getenv"](b"HOME"), c.function("abs", "i:i"), c.new("div_t")
whole = Box(3).get() + Most
first([1], Id(0))(2)
with half as opened:
    opened(0.5)
kept: nc.Callback = third
third.close()
third(1) + half(0.5), half.closed, third.function
m.cos.to_scipy(), m.cos.builtin(0.5), m.cos.signatures, m.path, name.upper(), doubled(1, n=2)
"""
WRONG = """
from stub_things import Box, Kept, both, c, coded, doubled, first, half, limit, m, name, split
m.cos("x")
m.cos()
m.cos(1, 2)
m.cos(y=1)
m.cosf(x0=1)
m.cos(1j)
both("x")
split(1.0, 2)
c.div(7.5, 2)
c.getenv("HOME")
c.abs("x")
m.frexp(1.0, "e")
c.snprintf(None)
Kept().half("x")
doubled("x")
text: str = m.cos(1.0)
c.div(7, 2).qout
coded(5)
c.qsort(None, 1, 1, 5)
limit.upper()
m.nosuch
c.nosuch()
c.nosuch = 1
c.types.nosuch
half("x")
half.close(1)
text = Box(3).get()
first([1], 0)
"""
LINES = [*range(3, WRONG.count("\n") + 1)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module, its stub, and what uses it rightly and wrongly."""
    made = tmp_path_factory.mktemp("stubs")
    for name, text in (("stub_things", MODULE), ("right", RIGHT), ("wrong", WRONG)):
        (made / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "nativecall", "stubs", "stub_things:m"]
    done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"wrote {made / 'stub_things.pyi'}\n"
    return made


def run(folder: Path, *command: str) -> str:
    """What a checker says of both files: its errors alone."""
    done = subprocess.run(
        [*command, "right.py", "wrong.py", "stub_things.pyi"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.stdout + done.stderr


def wrong_lines(said: str, pattern: str) -> dict[str, list[int]]:
    """The lines with errors, by file."""
    found: dict[str, set[int]] = {}
    for one in re.finditer(pattern, said):
        found.setdefault(Path(one[1]).name, set()).add(int(one[2]))
    return {name: sorted(lines) for name, lines in found.items()}


def test_mypy(folder: Path) -> None:
    pytest.importorskip("mypy")
    kept = compilecache.folder()
    cache = os.devnull if kept is None else str(kept / "stubs")
    said = run(folder, sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache)
    assert wrong_lines(said, r"(\S+\.pyi?):(\d+): error") == {"wrong.py": LINES}, said


def test_pyright(folder: Path) -> None:
    pytest.importorskip("basedpyright")
    options = ["--level", "error", "--pythonpath", sys.executable]
    said = run(folder, sys.executable, "-m", "basedpyright", *options)
    assert wrong_lines(said, r"(\S+\.pyi?):(\d+):\d+ - error") == {"wrong.py": LINES}, said


def test_the_rest_of_the_module_is_as_its_source_says(folder: Path) -> None:
    text = (folder / "stub_things.pyi").read_text()
    assert "limit: int\nname: str\n" in text
    assert "def doubled(x: float, *, n: int=3) -> float:\n    ..." in text
    assert "return" not in text
    assert "    LIMIT: int\n" in text
    assert "    environ: " in text
    compile(text, "stub_things.pyi", "exec")


def test_it_is_made_again_but_replaces_nobody_elses(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "stub_others.py").write_text(
        "import nativecall as nc\nm = nc.load('m', 'double cos(double);')\nx = 5\n"
    )
    stub = tmp_path / "stub_others.pyi"
    for arguments in (["stub_others:m"], ["stub_others"], ["stub_others:m.cos"]):
        assert main(["stubs", *arguments]) == 0
        assert capsys.readouterr().out == f"wrote {stub}\n"
    made = stub.read_text()
    assert main(["stubs", "stub_others", "--output", "-"]) == 0
    assert capsys.readouterr().out == made
    stub.write_text("x: int\n")
    assert main(["stubs", "stub_others:m"]) == 2
    assert "was not made by this command; --force replaces it" in capsys.readouterr().err
    assert stub.read_text() == "x: int\n"
    assert main(["stubs", "stub_others:m", "--force"]) == 0
    assert stub.read_text() == made
    assert main(["stubs", "stub_others:x"]) == 2
    assert (
        "must be a library that nativecall.load made, or a native callable"
        in capsys.readouterr().err
    )
    assert main(["stubs", "stub_others", "--output", "no/where.pyi"]) == 2
    assert "'no/where.pyi' cannot be written" in capsys.readouterr().err
    assert main(["stubs", "."]) == 2
    message = "a module must be given by its whole name, or its file (got '.')"
    assert message in capsys.readouterr().err
    assert main(["stubs", "json"]) == 2
    assert "module 'json' has no library and no native callable" in capsys.readouterr().err


def test_parameters_called_as_the_stubs_own(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "int labs(int self); int printf(const char *self, int args, ...);"
    module = f"import nativecall as nc\nm = nc.load(None, {text!r})\n"
    (tmp_path / "stub_names.py").write_text(module)
    assert main(["stubs", "stub_names:m", "--output", "-"]) == 0
    made = capsys.readouterr().out
    assert "def __call__(_self, self: " in made
    assert "args: Integer, /, *_args: Any" in made
    compile(made, "stub_names.pyi", "exec")
