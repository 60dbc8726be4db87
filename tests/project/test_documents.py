"""What the documents name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nativecall.conformance import __main__  # noqa: F401  # has all rules
from nativecall.conformance._rules import RULES

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "csrc" / "include" / "nativecall"
#: Where the paths in documents begin.
FOLDERS = [
    ROOT,
    ROOT / "csrc",
    INCLUDE,
    INCLUDE / "detail" / "core",
    ROOT / "nativecall",
    ROOT / "docs",
]
ELSEWHERE = {"Python.h"}


@pytest.mark.parametrize("document", ["architecture.md", "decisions.md"])
def test_files_and_folders_that_a_document_names_exist(document: str) -> None:
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./]+(?:\.(?:py|c|h|md)|/))`", text)) - ELSEWHERE
    assert len(named) > 20
    missing = [name for name in named if not any((one / name).exists() for one in FOLDERS)]
    assert not missing


def test_sections_that_the_conformance_kit_names_exist() -> None:
    assert len({(rule.role, rule.name) for rule in RULES}) == len(RULES)
    for rule in RULES:
        lines = (ROOT / rule.document).read_text(encoding="utf-8").splitlines()
        assert rule.heading in [line.lstrip("# ") for line in lines if line.startswith("#")]
