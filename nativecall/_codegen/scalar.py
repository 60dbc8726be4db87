"""Thunks that call a loop of a ufunc, for one element or as it is; one for each shape.

What the code does is told in scalarcode.py, which is imported, with llvmlite, only where no object
file of the shape is kept.
"""

from __future__ import annotations

from .. import _lib
from .._plan.abi import Unsupported
from .._signature.ctype import CType
from .._signature.signature import Signature
from . import engine
from .shape import made, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_EXPORT = "scalar"


def scalar(
    signature: Signature, operands: tuple[CType, ...], inputs: int
) -> tuple[int, engine.Code] | None:
    """The address of the code for such calls, and what keeps it; None where none can be generated.

    Parameters
    ----------
    signature : Signature
        Of the thunk.
    operands : tuple of CType
        Of the loop, inputs first.
    inputs : int
        How many of them are.
    """

    def text() -> str:
        from .scalarcode import scalar_text

        return scalar_text(_EXPORT, signature, operands, inputs)

    return _compiled(f"scalar {inputs} {''.join(map(shape, operands))}", text)


def strided() -> tuple[int, engine.Code] | None:
    """The same for calls of a loop as it is."""

    def text() -> str:
        from .scalarcode import strided_text

        return strided_text(_EXPORT)

    return _compiled("strided", text)


def _compiled(key: str, text: Callable[[], str]) -> tuple[int, engine.Code] | None:
    try:
        code = None if _lib.types.stubs_refused() else made(f"ufunc {key}", text, _EXPORT, 1)
    except (Unsupported, engine.Unloadable):
        return None
    return None if code is None else (code.address(_EXPORT), code)
