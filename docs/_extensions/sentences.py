"""Print the average words of a sentence, without tables and code: of all pages, and the highest."""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging


def _lengths(page: nodes.Node) -> list[int]:
    texts = [one.astext() for one in page.findall(nodes.paragraph) if one.parent.tagname != "entry"]
    return [len(one.split()) for text in texts for one in re.split(r"(?<=[.!?])\s+", text)]


def _report(app: Sphinx, error: Exception | None) -> None:
    found = {page: _lengths(app.env.get_doctree(page)) for page in app.env.found_docs if not error}
    means = sorted(((sum(n) / len(n), page) for page, n in found.items() if n), reverse=True)
    total = [words for page in found.values() for words in page] or [0]
    most = ", ".join(f"{page} {mean:.1f}" for mean, page in means[:5])
    logging.getLogger(__name__).info(f"words a sentence: {sum(total) / len(total):.1f}; {most}")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", _report)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
