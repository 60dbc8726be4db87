"""What the documents name is there."""

from __future__ import annotations

import pydoc
import re
from pathlib import Path

import pytest

import nativecall as nc
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


#: The pages with numbered requirements, by the letter of their numbers.
NUMBERED = {
    "A": "abi/README",
    "C": "conformance",
    "F": "abi/find",
    "P": "abi/provide",
    "R": "abi/runtime",
    "S": "abi/signatures",
}


def numbers_of(letter: str) -> list[int]:
    """The numbers that a page gives, in its order: in bold or in pseudocode."""
    text = (ROOT / "docs" / f"{NUMBERED[letter]}.md").read_text(encoding="utf-8")
    told = rf"\*\*{letter}(\d+)\*\*|^    \w+\([\w, ]*\): +{letter}(\d+)\b|\b{letter}(\d+): "
    return [int("".join(found)) for found in re.findall(told, text, re.MULTILINE)]


def test_requirements_are_numbered_and_those_of_the_conformance_kit_exist() -> None:
    numbers = {letter: numbers_of(letter) for letter in NUMBERED}
    for letter, found in numbers.items():
        assert len(set(found)) == len(found) > 0, letter
    assert len({(rule.role, rule.name) for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.requirements
        assert all(int(one[1:]) in numbers[one[0]] for one in rule.requirements), rule.name


def test_messages_that_are_explained_occur_in_the_product() -> None:
    sources = [*(ROOT / "nativecall").rglob("*.py"), *(ROOT / "csrc").rglob("*.[ch]")]
    text = "\n".join([path.read_text(encoding="utf-8") for path in sources])
    text = re.sub(r'"\s*f?"', "", text)  # a string that goes on in the next line
    page = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `(.*?)` \|", page, re.MULTILINE)
    assert len(shown) > 20
    parts = [part.strip() for one in shown if "SystemError" not in one for part in one.split("…")]
    assert [part for part in parts if part not in text] == []


@pytest.mark.parametrize("name", nc.__all__)
def test_help_names_no_private_module(name: str) -> None:
    text = pydoc.plain(pydoc.render_doc(getattr(nc, name)))
    assert re.findall(r"nativecall[./]_[a-z][\w.]*", text) == []
