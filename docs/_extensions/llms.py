"""Write ``llms.txt``: the site's pages with their opening words, for language models."""

import re
from pathlib import Path
from textwrap import shorten

from docutils import nodes
from sphinx.application import Sphinx


def _opening(app: Sphinx, page: str) -> str:
    found = app.env.get_doctree(page).findall(nodes.paragraph)
    texts = [one.astext() for one in found if one.parent.tagname == "section"]
    return shorten(texts[0], 200, placeholder=" …")


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        index = Path(app.srcdir, "index.md").read_text(encoding="utf-8")
        lines = ["# nativecall", "", f"> {_opening(app, 'index')}"]
        for caption, pages in re.findall(r":caption: (.+)\n(?:.+\n)+\n([^`]+)", index):
            titles = {page: app.env.titles[page].astext() for page in pages.split()}
            rows = [f"- [{titles[one]}]({one}.html): {_opening(app, one)}" for one in titles]
            lines += ["", f"## {caption}", "", *rows]
        Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
