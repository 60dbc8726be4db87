"""HTML tables for notebooks: `_repr_html_` of callables and libraries.

All text from users and libraries is escaped.
"""

from __future__ import annotations

from html import escape

from .._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .entry import Entry

_MOST = 200  # rows shown


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], rest: str = "") -> str:
    """Return an HTML table. Its last rows show the number of omitted rows, and the text `rest`."""
    listed = [*rows]
    cells = "".join([f"<th>{escape(one)}</th>" for one in head])
    lines = [f"<table><caption>{escape(caption)}</caption>", f"<thead><tr>{cells}</tr></thead>"]
    for row in listed[:_MOST]:
        cells = "".join([f"<td>{escape(one)}</td>" for one in row])
        lines.append(f"<tr>{cells}</tr>")
    more = [f"and {len(listed) - _MOST} more"] if len(listed) > _MOST else []
    for text in more + [rest] * bool(rest):
        lines.append(f'<tr><td colspan="{len(head)}">{escape(text)}</td></tr>')
    return "\n".join([*lines, "</table>"])


def of_entries(name: str, signatures: Sequence[str], entries: Sequence[Entry]) -> str:
    """Return the table of a callable's entries."""
    rows = [
        (
            signature,
            one.trampoline,
            one.errors,
            one.gil,
            "" if one.owner is None else repr(one.owner),
        )
        for signature, one in zip(signatures, entries, strict=False)
    ]
    head = ("signature", "called by Python", "errors", "GIL", "owner")
    return table(f"native callable {name}", head, rows)
