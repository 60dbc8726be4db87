"""The hostile trial in small: a fixed seed, some steps of each kind, and what was found before.

`nox -s hostile` runs it for an hour under sanitizers; run.py says how to replay a step.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostile.driver import KINDS

HERE = Path(__file__).resolve().parent


def run(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, HERE / "run.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    if done.returncode != 0:
        pytest.fail(f"{done.stdout}\n{done.stderr}", pytrace=False)
    return done.stdout


def test_some_hostile_steps() -> None:
    """A few of every kind, in one run."""
    run("--share", 0.1, "--seed", "suite")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_steps(kind):
    printed = run("--kinds", kind, "--share", 1, "--seed", "suite")
    _, left_out, why = printed.partition(" all: ")
    if left_out:
        # The trial prints what this Python lacks for the kind; that is the reason shown.
        pytest.skip(why.splitlines()[0])


@pytest.mark.nightly
def test_steps_that_were_found_bad():
    run("--corpus")


@pytest.mark.parametrize(
    "program", sorted((HERE / "corpus").glob("*.py")), ids=lambda one: one.stem
)
def test_programs_that_were_found_bad(program, tmp_path):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "NATIVECALL_CACHE_DIR": ""},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
