"""What the documents name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nativecall.conformance._rules import DOCUMENTS, RULES

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


@pytest.mark.parametrize("document", DOCUMENTS)
def test_sections_that_the_conformance_kit_names_exist(document: str) -> None:
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    found = {line.lstrip("# ") for line in lines if line.startswith("#")}
    assert not set(DOCUMENTS[document]) - found


def test_the_kit_names_no_section_for_nothing() -> None:
    from nativecall.conformance import __main__  # noqa: F401  # has all rules

    assert {rule.heading for rule in RULES} == {one for all in DOCUMENTS.values() for one in all}
    assert len({(rule.role, rule.name) for rule in RULES}) == len(RULES)
    assert all([(ROOT / rule.document).exists() for rule in RULES])
