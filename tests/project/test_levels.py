"""Tests marked `nightly` are left out of the default level unless one is named by its id."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
OTHER = "test_program_under_address_and_undefined"


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["./core/test_c.py::test_program"], {"test_program"}),
        (["core/test_c.py", f"core/test_c.py::{OTHER}", "-k", "test_program"], {OTHER}),
    ],
    ids=["named, from another folder", "left out"],
)
def test_nightly_tests(arguments, expected):
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*words, *arguments], capture_output=True, text=True, cwd=TESTS, check=False
    )
    lines = [line for line in done.stdout.splitlines() if "::" in line]
    found = {line.partition("::")[2].partition("[")[0] for line in lines}
    assert {name for name in found if name in ("test_program", OTHER)} == expected, done.stderr
