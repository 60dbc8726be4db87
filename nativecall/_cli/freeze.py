"""``nativecall freeze HEADER -o FILE``: write the declarations of headers to a file to ship."""

from __future__ import annotations

import os

from .._errors import TYPE_CHECKING, NativeCallError
from .._library import load
from .._output import CommandError

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(
    header: Sequence[str],
    *,
    output: str,
    include: Sequence[str],
    define: Sequence[str],
    only: Sequence[str] | None,
    library: str | None,
) -> int:
    """Write the file."""
    headers = [os.path.abspath(one) if os.path.exists(one) else one for one in header]
    given = [one.partition("=") for one in define]
    macros = {name: value if equals else None for name, equals, value in given}
    try:
        found = load(library, header=headers, include=include, define=macros, only=only)
        found.freeze(output)
    except (NativeCallError, OSError, ValueError) as error:
        raise CommandError(str(error)) from None
    print(f"wrote {output}")
    return 0
