"""Bars and texts of an SVG that suits light and dark pages; y is the line that text stands on."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, NAMES, BARS = 720, 156, 500
LINE = 17
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.quiet { fill: #59636e; font-size: 11px }
.ours { fill: #0969da }
.peer { fill: #afb8c1 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .quiet { fill: #9198a1 }
  .ours { fill: #4493f8 }
  .peer { fill: #545d68 }
}
"""


def text(x: float, y: float, content: str, kind: str = "") -> str:
    """Return a text; `kind` is a class of `STYLE`."""
    attribute = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{attribute}>{escape(content)}</text>'


def bar(
    y: float, name: str, share: float, said: str, *, ours: bool, names: float = NAMES
) -> list[str]:
    """Return a name, a bar that takes a share of the room behind the names, and a text after it."""
    length = max((NAMES + BARS - names) * share, 2.0)
    rectangle = (
        f'<rect x="{names:g}" y="{y - 11:g}" width="{length:.1f}" height="13" rx="2" '
        f'class="{"ours" if ours else "peer"}"/>'
    )
    return [text(12, y, name), rectangle, text(names + length + 6, y, said, "quiet")]


def picture(title: str, parts: Sequence[str], height: float) -> str:
    """Return the whole SVG; screen readers read the title."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" '
        f'viewBox="0 0 {WIDTH} {height:g}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )
