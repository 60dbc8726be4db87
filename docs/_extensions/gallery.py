"""The gallery: examples/ as one page, by the tasks of its README, with what each program prints.

The outputs are those that the tests compare with, so the site's build runs no example.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TESTS = ROOT / "tests" / "project"
#: What the tests accept in place of a word, as the page shows it.
FILLED = {"time": "…", "ratio": "…", "count": "…", "angle": "0.999999…", "address": "0x…"}
FILLED |= {"division": "division by zero", "python": "Python 3.14.7, GIL off"}


def outputs(test: str) -> dict[str, object]:
    """Return the dictionary EXPECTED of a test file, without running the file."""
    for statement in ast.parse((TESTS / test).read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "EXPECTED":
            return ast.literal_eval(statement.value)
    raise LookupError(f"{test} has no EXPECTED")


def _shown(program: Path, title: str, printed: str) -> str:
    """Return one program as Markdown: its first words, its output, its source."""
    source = program.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    opening = re.sub(r"``(.*?)``", r"`\1`", docstring.partition("\n\n")[0])
    for name, text in {**FILLED, "plotted": f"plotted: {program.parent.name}.svg"}.items():
        printed = printed.replace(f"{{{name}}}", text)
    return (
        f"### {title}\n\n{opening}\n\n```text\n{printed.strip()}\n```\n\n"
        f"<details><summary>{program.relative_to(ROOT)}</summary>\n\n"
        f"````python\n{source}````\n\n</details>\n"
    )


def gallery() -> str:
    """Return the examples as Markdown, in the order and under the headings of their README."""
    printed, libraries = outputs("test_examples.py"), outputs("test_library_programs.py")
    parts: list[str] = []
    for line in (EXAMPLES / "README.md").read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| \[`(.*?)/?`\]", line)
        if line.startswith("## "):
            parts.append(f"{line}\n")
        elif row and row[1] == "libraries":
            for name, (*_, text) in libraries.items():
                program = EXAMPLES / "libraries" / name / "by_nativecall.py"
                parts.append(_shown(program, f"libraries/{name}", text))
        elif row:
            names = [name for name in printed if name.split("/")[0] == row[1]]
            for name in names:
                title = name.replace("/run.py", "")
                parts.append(_shown(EXAMPLES / name, title, printed[name]))
    return "\n".join(parts)


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    if page == "examples":
        source[0] = source[0].replace("<!-- gallery -->", gallery())


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
