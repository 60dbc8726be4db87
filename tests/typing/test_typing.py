"""Type checkers know what callables take and give: mypy and pyright, where they are installed.

Pyright is run as the package basedpyright has it, which needs nothing but itself.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import compilecache

HERE = Path(__file__).parent
MARKED = {
    number
    for number, line in enumerate((HERE / "refused.py").read_text().splitlines(), 1)
    if line.endswith("# refused")
}


FILES = ("accepted.py", "refused.py")
Errors = list[tuple[str, int, str]]  # of a file, in a line


def said(*words: str) -> str:
    """What a checker prints about both files."""
    done = subprocess.run(
        [sys.executable, "-m", *words, *FILES],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def mypy() -> Errors:
    cache = compilecache.folder()
    options = ["--strict", "--no-error-summary", "--show-error-codes", "--cache-dir"]
    printed = said("mypy", *options, os.devnull if cache is None else str(cache / "typing"))
    found = re.findall(r"^(\w+\.py):(\d+): error: (.*)$", printed, re.MULTILINE)
    return [(file, int(line), text) for file, line, text in found]


def pyright() -> Errors:
    printed = said("basedpyright", "--outputjson", "--pythonpath", sys.executable)
    return [
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["message"])
        for one in json.loads(printed)["generalDiagnostics"]
        if one["severity"] == "error"
    ]


CHECKERS = {"mypy": mypy, "basedpyright": pyright}


@pytest.mark.parametrize("checker", CHECKERS)
def test_what_is_wrong_is_refused_and_nothing_else(checker):
    pytest.importorskip(checker)
    errors = CHECKERS[checker]()
    assert [one for one in errors if one[0] == "accepted.py"] == []
    assert {line for _, line, _ in errors} == MARKED
    assert len(MARKED) > 10


def test_the_type_of_every_public_name_is_known(tmp_path):
    pytest.importorskip("basedpyright")
    options = ["--outputjson", "--ignoreexternal"]
    # It looks in the folders of the first Python there, whatever --pythonpath says.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--verifytypes", "nativecall", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
    )
    found = json.loads(done.stdout)["typeCompleteness"]
    unknown = [
        (one["name"], one["diagnostics"]) for one in found["symbols"] if not one["isTypeKnown"]
    ]
    assert (found["completenessScore"], unknown) == (1, []), done.stderr


def test_the_stub_has_every_public_name():
    import nativecall as nc

    stub = (Path(__file__).parents[2] / "nativecall" / "_public.pyi").read_text(encoding="utf-8")
    names = {*re.findall(r"^from .* import (\w+) as \1$", stub, re.MULTILINE)}
    names.update(re.findall(r"^(?:class|def) (\w+)", stub, re.MULTILINE))
    assert sorted([name for name in names if name[0] != "_"]) == sorted(nc.__all__)


@pytest.mark.parametrize("stub", ["_ext", "_public"])
def test_docstrings_in_stubs_are_the_first_lines_of_the_real_ones(stub):
    import nativecall as nc

    module = nc._ext if stub == "_ext" else nc
    text = (Path(__file__).parents[2] / "nativecall" / f"{stub}.pyi").read_text(encoding="utf-8")
    told = 0
    for node in ast.parse(text).body:
        members = node.body if isinstance(node, ast.ClassDef) else []
        for one in [node, *members]:
            if isinstance(one, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(one):
                real = getattr(module, node.name)
                real = real if one is node else getattr(real, one.name)
                assert ast.get_docstring(one) == inspect.getdoc(real).splitlines()[0], one.name
                told += 1
    assert told >= 10
