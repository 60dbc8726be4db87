"""What the commands print: headings, text and tables; in colour by rich on a terminal.

Files, pipes and systems without rich (it is the extra `cli`) get the same words and numbers as
aligned text. Signs that the encoding of standard output lacks are replaced by plain ones. Nothing
is cut off: where a terminal is too narrow, the cells of a table wrap.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Literal

    from rich.console import Console


_GAP = "  "
_INDENT = "  "
# What stands for a sign where it cannot be shown.
_PLAIN = {"✓": "ok", "✗": "X", "·": "-", "µ": "u", "█": "#"}
_PLAIN |= {**dict.fromkeys("▏▎▍", ""), **dict.fromkeys("▌▋▊▉", "#")}
_BAR = 24  # characters of a bar of progress
_STYLES = {"good": "green", "bad": "bold red", "ours": "bold cyan", "": ""}


class CommandError(Exception):
    """What keeps a command from being carried out, in one line for a person."""


class Row:
    """A row of a table; ``"ours"`` is for what nativecall does, ``"bad"`` for results."""

    def __init__(self, *cells: str, style: str = "") -> None:
        self.cells = cells
        self.style = style


class _Text:
    """Plain text on standard output."""

    def line(self, text: str, style: str) -> None:
        print(_shown(text))

    def table(self, titles: Sequence[str], rows: Sequence[Row]) -> None:
        lines = [tuple([title.lstrip(">") for title in titles]), *[row.cells for row in rows]]
        shown = [[_shown(cell) for cell in cells] for cells in lines]
        widths = [max(map(len, cells)) for cells in zip(*shown, strict=True)]
        shown.insert(1, ["-" * width for width in widths])
        for cells in shown:
            aligned = [
                cell.rjust(width) if title[:1] == ">" else cell.ljust(width)
                for cell, width, title in zip(cells, widths, titles, strict=True)
            ]
            print((_INDENT + _GAP.join(aligned)).rstrip())

    def working(self, title: str, total: int | None) -> AbstractContextManager[Callable[[], None]]:
        return nullcontext(lambda: None)


class _Rich:
    """Text and tables on a terminal, in colour unless NO_COLOR says otherwise."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, text: str, style: str) -> None:
        self._console.print(
            _shown(text), style=style or None, markup=False, highlight=False, soft_wrap=True
        )

    @contextmanager
    def working(self, title: str, total: int | None) -> Iterator[Callable[[], None]]:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            SpinnerColumn,
        )

        # Without a total the bar moves to and fro.
        columns: list[str | ProgressColumn] = [
            SpinnerColumn("dots" if self._console.encoding.startswith("utf") else "line"),
            "{task.description}",
            BarColumn(_BAR),
        ]
        if total is not None:
            columns.append(MofNCompleteColumn())
        # What is written to stderr meanwhile goes above the bar if it comes here, too.
        both = sys.stderr is not None and sys.stderr.isatty()
        showing = Progress(*columns, console=self._console, transient=True, redirect_stderr=both)
        with showing as progress:
            task = progress.add_task(_shown(title).replace("[", r"\["), total=total)
            yield lambda: progress.advance(task)

    def table(self, titles: Sequence[str], rows: Sequence[Row]) -> None:
        from rich import box
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        table = Table(
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
            header_style="dim",
            border_style="dim",
        )
        for title in titles:
            justify: Literal["left", "right"] = "right" if title[:1] == ">" else "left"
            table.add_column(Text(_shown(title.lstrip(">"))), justify=justify, overflow="fold")
        for row in rows:
            texts = [Text(_shown(cell), style=_cell_style(cell)) for cell in row.cells]
            table.add_row(*texts, style=_STYLES[row.style])
        self._console.print(Padding(table, (0, 0, 0, len(_INDENT))))


def _cell_style(cell: str) -> str:
    """Verdicts are green or red."""
    return {"✓": _STYLES["good"], "✗": _STYLES["bad"]}.get(cell[:1], "")


def _shown(text: str) -> str:
    """The text with signs that standard output can encode."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        for sign, plain in _PLAIN.items():
            text = text.replace(sign, plain)
        text = text.encode("ascii", "backslashreplace").decode()
    return text


class Output:
    """Where a command prints."""

    def __init__(self) -> None:
        self._way: _Text | _Rich = _Text()
        try:
            from rich.console import Console
        except ImportError:
            return
        console = Console(highlight=False)
        if console.is_terminal:
            self._way = _Rich(console)

    def space(self) -> None:
        """An empty line."""
        self._way.line("", "")

    def heading(self, text: str) -> None:
        """A line that begins a part."""
        self.space()
        self._way.line(text, "bold")

    def text(self, text: str, style: str = "") -> None:
        """A line of text; styles as for `Row`, and ``"dim"``."""
        self._way.line(f"{_INDENT}{text}", _STYLES.get(style, style))

    def working(
        self, title: str, total: int | None = None
    ) -> AbstractContextManager[Callable[[], None]]:
        """Show on a terminal, while the block runs, that work is done, and how far it is: the
        block calls what it is given after each of `total` pieces. Blocks do not nest.
        """
        return self._way.working(title, total)

    def table(self, titles: Sequence[str], rows: Sequence[Row]) -> None:
        """A table with a heading row; columns whose titles begin with ``>`` end at the right."""
        self._way.table(titles, rows)
