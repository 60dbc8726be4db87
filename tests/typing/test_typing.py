"""Type checkers know what callables take and give: mypy and pyright, where they are installed.

Pyright is run as the package basedpyright has it, which needs nothing but itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MARKED = {
    number
    for number, line in enumerate((HERE / "refused.py").read_text().splitlines(), 1)
    if line.endswith("# refused")
}


def mypy(file: str) -> list[tuple[int, str]]:
    options = ["--strict", "--no-error-summary", "--show-error-codes", "--no-incremental"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, file],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [
        (int(line), text)
        for line, text in re.findall(rf"^{file}:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    ]


def pyright(file: str) -> list[tuple[int, str]]:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "basedpyright",
            "--outputjson",
            "--pythonpath",
            sys.executable,
            file,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [
        (one["range"]["start"]["line"] + 1, one["message"])
        for one in json.loads(done.stdout)["generalDiagnostics"]
        if one["severity"] == "error"
    ]


CHECKERS = {"mypy": mypy, "basedpyright": pyright}


@pytest.fixture(params=CHECKERS)
def checker(request):
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return CHECKERS[request.param]


def test_what_is_right_is_accepted(checker):
    assert checker("accepted.py") == []


def test_what_is_wrong_is_refused_and_nothing_else(checker):
    assert {line for line, _ in checker("refused.py")} == MARKED
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


def test_the_overloads_are_those_that_the_script_writes():
    spec = importlib.util.spec_from_file_location("overloads", HERE / "overloads.py")
    overloads = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(overloads)
    for one in (overloads.PUBLIC, overloads.LIBRARY):
        stub = one.read_text(encoding="utf-8")
        literals = re.findall(r'signature: Literal\[\s*"', stub)
        assert len(literals) == (2 + 4 + 8) * 4
        formatted = re.sub(r"\s+|,(?=\s*[\])])", "", stub)
        assert formatted == re.sub(r"\s+|,(?=\s*[\])])", "", overloads.with_overloads(one))


def test_the_stub_has_every_public_name():
    import nativecall as nc

    stub = (Path(__file__).parents[2] / "nativecall" / "_public.pyi").read_text(encoding="utf-8")
    listed = re.findall(r'^    "(\w+)",$', stub[stub.index("__all__") :], re.MULTILINE)
    assert sorted(listed) == sorted(nc.__all__)
