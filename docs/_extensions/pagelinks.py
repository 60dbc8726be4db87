"""Links to pages in docstrings: ``docs/errors.md``, as `help` shows it, is a link on the site."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def linked(text: str) -> str:
    """A line of a docstring with links for the names of pages."""
    return re.sub(r"\bdocs/([\w/-]+)\.md\b", r":doc:`\1 </\1>`", text)


def _process(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    lines[:] = map(linked, lines)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
