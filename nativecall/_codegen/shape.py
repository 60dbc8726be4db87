"""What code is looked up by: the shape of a signature, and what all code of a kind shares.

A process that finds its code in the cache needs no more than this; what writes code is imported
where some has to be made.
"""

from __future__ import annotations

from .. import _lib
from .._types.derived import Array, Struct, View
from .._values.callspec import letter
from . import engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._types.ctype import CType

#: Where the core's objects have what code reads, and the addresses of what it refers to.
layout: dict[str, int] = _lib.types.code_layout()
symbols: dict[str, int] = _lib.types.code_symbols()
WORD = 8  # bytes of a pointer, wherever a convention is known
#: Where in the core's table, `nc_symbols`, each address is.
PLACES = {name: index * WORD for index, name in enumerate(symbols)}
#: What LLVM itself refers to.
LINKED = {"memcpy": symbols["memcpy"]}


def made(
    called: str, text: Callable[[], str], export: str, effort: engine.Effort
) -> engine.Code | None:
    """The code of a shape, as it is kept or by its text; None where none can be generated."""
    code = engine.kept(called, LINKED, (export,), effort=effort)
    if code is None and engine.available():
        code = engine.compile(called, text, LINKED, (export,), effort=effort)
    return code


def shape(ctype: CType) -> str:
    """A type's text with every pointer written ``P``."""
    if isinstance(ctype, Struct):
        if not ctype.is_plain:
            return ctype.text
        return f"{'=' if ctype.packed else ''}T{{{''.join([shape(f.type) for f in ctype.fields])}}}"
    if isinstance(ctype, Array):
        return f"({','.join(map(str, ctype.shape))}){shape(ctype.item)}"
    if isinstance(ctype, View):
        return f"[{ctype.ndim}]"
    return "P" if letter(ctype) == "P" else ctype.text
