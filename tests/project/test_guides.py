"""Guides keep their word: sessions print what they show, programs run."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from nativecall._signature import preprocessor

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUIDES = ["libraries.md"]


def blocks(guide: str, language: str) -> list[str]:
    """The code blocks of one language."""
    text = (DOCS / guide).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(preprocessor.compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("guide", GUIDES)
def test_sessions(guide):
    sessions = "\n".join(blocks(guide, "pycon"))
    test = doctest.DocTestParser().get_doctest(sessions, {}, guide, guide, 0)
    assert test.examples
    told: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test, out=told.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(told)


@pytest.mark.parametrize(
    ("guide", "word", "header", "printed"),
    [
        ("libraries.md", "sqlite3", "/usr/include/sqlite3.h", "42 naïve\n"),
        ("libraries.md", "lapack", "/usr/include/lapacke.h", "0 2.0 3.0\n"),
    ],
)
def test_programs(guide, word, header, printed, tmp_path, python):
    if not Path(header).exists():
        pytest.skip(f"{header} is not installed")
    (program,) = [block for block in blocks(guide, "python") if f'"{word}"' in block]
    assert python(program) == printed


@pytest.mark.parametrize("guide", GUIDES)
def test_every_block_is_run(guide):
    assert len(blocks(guide, "python")) == 2
    assert set(re.findall(r"^```(\w+)", (DOCS / guide).read_text(encoding="utf-8"), re.M)) == {
        "python",
        "pycon",
    }
