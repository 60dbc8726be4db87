"""Output of commands (headings, text, tables), and the exit status after an error.

rich (the extra `cli`) colours the output on a terminal. Without rich, and in files and pipes, the
same words and numbers are printed as aligned text. If standard output cannot encode a symbol, ASCII
text replaces it. Nothing is truncated, since table cells wrap on a narrow terminal.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import suppress

from ._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from rich.console import Console, RenderableType


_GAP = "  "
_INDENT = "  "
# Replacements for symbols that cannot be shown.
_PLAIN = {"✓": "ok", "✗": "X", "·": "-", "µ": "u"}
_STYLES = {"bad": "bold red", "ours": "bold cyan", "": ""}
_VERDICTS = {"✓": "green", "✗": "bold red"}


class CommandError(Exception):
    """An error that prevents a command from running. The message is one line."""


class Row:
    """A table row. Style ``"ours"`` marks nativecall's own rows, ``"bad"`` marks failures."""

    def __init__(self, *cells: str, style: str = "") -> None:
        self.cells = cells
        self.style = style


def _shown(text: str) -> str:
    """Return the text; replace symbols that standard output cannot encode."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        for sign, plain in _PLAIN.items():
            text = text.replace(sign, plain)
        text = text.encode("ascii", "backslashreplace").decode()
    return text


class Output:
    """Destination of a command's output: a rich console, or plain standard output."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        if console is None:
            with suppress(ImportError):
                from rich.console import Console

                found = Console(highlight=False)
                self._console = found if found.is_terminal else None

    def _line(self, text: str, style: str) -> None:
        if self._console is None:
            print(_shown(text))
            return
        self._console.print(
            _shown(text), style=style or None, markup=False, highlight=False, soft_wrap=True
        )

    def space(self) -> None:
        """Print an empty line."""
        self._line("", "")

    def heading(self, text: str) -> None:
        """Print a heading."""
        self.space()
        self._line(text, "bold")

    def text(self, text: str, style: str = "") -> None:
        """Print a line of text; styles as for `Row`, and ``"dim"``."""
        self._line(f"{_INDENT}{text}", _STYLES.get(style, style))

    def table(self, titles: Sequence[str], rows: Sequence[Row]) -> None:
        """Print a table with a heading row; a title that begins with ``>`` aligns right."""
        if self._console is not None:
            self._console.print(_rich_table(titles, rows))
            return
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


def _rich_table(titles: Sequence[str], rows: Sequence[Row]) -> RenderableType:
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
        # Verdicts are green or red.
        texts = [Text(_shown(one), style=_VERDICTS.get(one[:1], "")) for one in row.cells]
        table.add_row(*texts, style=_STYLES[row.style])
    return Padding(table, (0, 0, 0, len(_INDENT)))


def guarded(program: str, run: Callable[[list[str]], int]) -> int:
    """Run a program, flush the output, and return the exit status.

    An error is printed as one line on stderr. The line begins with the program's name and the words
    that `run` appends to its argument, such as the name of the command.
    """
    said = [program]
    status = 0
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, "standard output is closed")
        try:
            status = run(said)
        finally:
            sys.stdout.flush()
    except CommandError as error:
        print(f"{' '.join(said)}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{' '.join(said)}: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except OSError as error:
        if sys.stdout is not None:
            # Discard buffered output, so that it is not written again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"{' '.join(said)}: {error}", file=sys.stderr)
        return 1
    return status
