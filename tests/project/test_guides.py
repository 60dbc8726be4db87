"""Guides keep their word: each page is followed from top to bottom, in a directory of its own.

What a page shows is done as a reader would do it:

- ``pycon`` sessions run in one interpreter, and print what they show;
- ``python`` programs run in a process, and print the ``text`` block that follows, if one does;
- ``c``, ``cython`` and ``python`` blocks that begin with a file's name in a comment are saved;
- ``console`` blocks are commands behind ``$``, and print what they show; ``...`` is anything.

A block behind ``<!-- needs: sqlite3.h scipy -->`` is left out where that header or module is
missing, and the page is a skip that says so, after the rest was followed.
"""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import nativecall as nc
from nativecall._cdecl import preprocessor
from support import build
from support.levels import where
from support.printed import Checker

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
BLOCK = re.compile(
    r"^(?:<!-- needs: (?P<needs>.*?) -->\n+)?```(?P<language>\w+)\n(?P<code>.*?)^```$"
    r"(?:\n+```text\n(?P<printed>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
NAMED = re.compile(r"\A(?:# |/\* |// )(?P<name>[\w./]+\.\w+)(?: \*/)?\n")
#: What is shown and not done: a form, a picture, somebody else's configuration, a message.
SHOWN = {"text", "mermaid", "bibtex", "cmake", "meson", "toml"}
#: Pages that take longest: `--nightly` follows them.
SLOW = {
    *(
        "callbacks.md",
        "consumers.md",
        "cython.md",
        "libraries.md",
        "numba.md",
        "objects.md",
        "processes.md",
    ),
    "providers.md",
}
#: As sessions show them.
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def missing(needs: str | None) -> list[str]:
    """Headers and modules of a block's needs that this machine does not have."""
    return [
        word
        for word in (needs or "").split()
        if not (
            Path("/usr/include", word).exists()
            if word.endswith(".h")
            else importlib.util.find_spec(word) is not None
        )
    ]


def same(printed: str, shown: str) -> bool:
    """Whether a program printed what the page shows."""
    return Checker().check_output(shown.strip(), printed.strip(), FLAGS)


class Reader:
    """Does what a page says, in one directory."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.names: dict[str, object] = {}

    def pycon(self, code: str, printed: str | None) -> None:
        test = doctest.DocTestParser().get_doctest(code, self.names, self.page, self.page, 0)
        assert test.examples
        told: list[str] = []
        runner = doctest.DocTestRunner(Checker(), optionflags=FLAGS, verbose=False)
        runner.run(test, out=told.append, clear_globs=False)
        assert runner.summarize(verbose=False).failed == 0, "".join(told)
        self.names.update(test.globs)

    def python(self, code: str, printed: str | None) -> None:
        told = self.command([sys.executable, "-c", code])
        assert printed is None or same(told, printed), told

    def console(self, code: str, printed: str | None) -> None:
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", code, re.MULTILINE):
            told = self.command(["bash", "-euc", command])
            assert same(told, shown), told

    def save(self, code: str, printed: str | None) -> None:
        named = NAMED.match(code)
        assert named, f"this block names no file: {code[:60]!r}"
        path = Path(named["name"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")

    def command(self, words: list[str]) -> str:
        scripts = sysconfig.get_path("scripts")
        environment = os.environ | {
            "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
            "PYTHONWARNINGS": "error",
        }
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, f"{words[-1]}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.mark.skipif(
    preprocessor.compiler() is None or build.compiler() is None, reason="there is no C compiler"
)
@pytest.mark.parametrize("page", where(PAGES, lambda page: page not in SLOW))
def test_a_page_is_followed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    reader = Reader(page)
    left_out: list[str] = []
    for block in BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
        language, code = block["language"], block["code"]
        if language in SHOWN:
            continue
        if absent := missing(block["needs"]):
            left_out += absent
            continue
        file = language in ("c", "cpp", "cython") or (language == "python" and NAMED.match(code))
        do = reader.save if file else getattr(reader, language)
        do(code, block["printed"])
    if left_out:
        pytest.skip(f"not there: {', '.join(dict.fromkeys(left_out))}; the rest was followed")


def prose(path: Path) -> str:
    """A page without its code."""
    return re.sub(
        r"^```.*?^```|`[^`\n]+`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.M
    )


def anchors(path: Path) -> set[str]:
    """What links to a page's headings have behind `#`, as the site and code hosts make them."""
    code = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    headings = re.findall(r"^#+ (.*)$", code, re.MULTILINE)
    words = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w -]", "", one).strip().replace(" ", "-") for one in words}


def test_anchors_are_those_of_headings(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# `a.b`: One, two\n\n```\n# none\n```\n## Ctrl-C [there](x.md)\n")
    assert anchors(page) == {"ab-one-two", "ctrl-c-there"}


@pytest.mark.parametrize(
    "path", [*DOCS.rglob("*.md"), *ROOT.glob("*.md")], ids=lambda path: path.stem
)
def test_links_between_pages_lead_somewhere(path):
    for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", prose(path)):
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), f"{path.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{path.name}: {link}"


@pytest.mark.parametrize(
    "path", [*DOCS.rglob("*.md"), *ROOT.glob("*.md")], ids=lambda path: path.stem
)
def test_every_row_belongs_to_a_table(path):
    for block in re.split(r"\n\s*\n", prose(path)):
        if block.startswith("|"):
            assert re.match(r"\|.*\n\|[-:| ]+\|(\n|$)", block), block


def test_the_reference_names_every_public_name():
    reference = (DOCS / "reference.md").read_text(encoding="utf-8")
    public = {name for name in dir(nc) if not name.startswith("_")}
    assert public == set(
        re.findall(r"^\.\. auto\w+:: nativecall\.(\w+)(?:\(\))?$", reference, re.M)
    )


def test_the_reference_has_what_public_classes_inherit():
    reference = (DOCS / "reference.md").read_text(encoding="utf-8")
    public = {name: getattr(nc, name) for name in nc.__all__}
    for name, cls in public.items():
        bases = getattr(cls, "__mro__", (object,))[1:]
        ours = [one for one in bases if one.__module__.partition(".")[0] == "nativecall"]
        hidden = [one for one in ours if one not in public.values()]
        fields = getattr(cls, "_fields", ()) if tuple in bases else ()  # its docstring has them
        members = {member for one in hidden for member in vars(one)} - {*fields}
        if any([not member.startswith("_") for member in members]):
            options = reference.partition(f":: nativecall.{name}\n")[2].partition("..")[0]
            assert ":inherited-members:" in options or cls.__base__ not in hidden, name


def test_every_page_is_in_the_site():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([\w/-]+)$", index, re.MULTILINE))
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert listed == pages - {"index"}
