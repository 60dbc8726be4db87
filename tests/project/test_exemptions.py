"""What is taken from the checkers is little, and says why: `Any`, ignored types, ignored rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "nativecall"
#: An exemption, and the reason behind it.
EXEMPTION = re.compile(r"# (?:type: ignore\[[\w,-]+\]|noqa: [A-Z]+\d+)(.*)")


def lines() -> Iterator[tuple[str, str]]:
    """The package's lines, each with where it is."""
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{path.relative_to(PACKAGE)}:{number}", line


def test_any_is_rare():
    found = [(where, line) for where, line in lines() if re.search(r"\bAny\b", line)]
    assert 0 < len(found) <= 40, found


def test_each_exemption_says_why():
    exempt = [(where, line) for where, line in lines() if re.search(r"type: ignore|noqa", line)]
    assert exempt
    for where, line in exempt:
        found = EXEMPTION.search(line)
        assert found is not None, f"{where} names no rule: {line}"
        assert re.match(r"  # [\w`]+", found[1]), f"{where} has no reason: {line}"


def test_nothing_is_left_to_be_implemented():
    """A method that others give is abstract, so that a class without it cannot be made."""
    assert [where for where, line in lines() if "raise NotImplementedError" in line] == []
