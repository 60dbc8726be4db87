"""Files that commands write: to standard output, or to a file that is not somebody else's."""

from __future__ import annotations

import os
import sys

from .output import CommandError


def write(text: str, where: str | None, mark: str, force: bool) -> int:
    """Write a text; a file that does not begin with `mark`, as ours do, is left alone.

    The file is replaced at once, so that nobody reads half of it.
    """
    if where is None or where == "-":
        sys.stdout.write(text)
        return 0
    try:
        with open(where, encoding="utf-8") as file:
            begins = file.read(len(mark))
    except FileNotFoundError:
        begins = mark
    except (OSError, UnicodeError) as error:
        raise CommandError(f"{where!r} cannot be replaced: {error}") from None
    if begins != mark and not force:
        raise CommandError(
            f"{where!r} was not made by this command; --force replaces it, --output names another"
        )
    part = f"{where}.{os.getpid()}.part"
    try:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, where)
    except OSError as error:
        if os.path.exists(part):
            os.unlink(part)
        raise CommandError(f"{where!r} cannot be written: {error.strerror}") from None
    print(f"wrote {where}")
    return 0
