"""The directive ``c-names``: what a C header of the package declares, as the header itself says it.

Its argument is the header, from the folder of the public ones. Each declaration stands as C with
its comment, can be linked to by its name, and is in the index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cheaders import HEADERS, names
from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class Names(SphinxDirective):
    """See the module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        header = self.arguments[0]
        self.env.note_dependency(str(HEADERS / header))
        made: list[nodes.Node] = []
        for one in names(header):
            ids = [f"c.{name}" for name in one.names]
            entries = [("single", f"{n} (in {header})", f"c.{n}", "", None) for n in one.names]
            block = nodes.literal_block(one.text, one.text, language="c")
            made += [addnodes.index(entries=entries), nodes.container("", block, ids=ids)]
        if not made:
            raise self.error(f"{header} declares nothing")
        return made


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("c-names", Names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
