"""The README keeps its word: sessions print what they show, links and commands work."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from nativecall._cdecl import preprocessor
from support.printed import Checker

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(preprocessor.compiler() is None, reason="there is no C compiler")
def test_sessions():
    for library in ("numba", "numpy", "scipy"):
        pytest.importorskip(library)  # the extra test has them, some builds of CPython do not
    sessions = "\n".join(blocks("pycon"))
    test = doctest.DocTestParser().get_doctest(sessions, {}, "README.md", "README.md", 0)
    assert len(test.examples) >= 10
    told: list[str] = []
    runner = doctest.DocTestRunner(Checker(), verbose=False)
    runner.run(test, out=told.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(told)


def test_it_is_short():
    assert README.count("\n") <= 120


def test_links_lead_somewhere():
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)#]+)\)", prose)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_commands_are_there():
    assert 'pip install ".[all]" && nativecall demo' in README
    assert 'pip install ".[test]" && pytest' in README
