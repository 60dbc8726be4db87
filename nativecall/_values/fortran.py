"""Fortran's ways: the lengths of texts, which follow the arguments, and the names of symbols.

A compiler of Fortran passes the length of each ``character`` argument by value, after all others
and in their order, as `size_t`. Where a signature has these arguments, calls from Python do not
pass them: they are what `lengths` tells of. Its C callers do.
"""

from __future__ import annotations

from .._signature.ctype import SCALARS
from .._signature.derived import Pointer
from .._signature.signature import Signature, with_more

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._signature.ctype import CType

_SIZE = SCALARS["N"]
_CHARACTER = SCALARS["c"]


def _is_text(arg: CType) -> bool:
    return isinstance(arg, Pointer) and arg.pointee == _CHARACTER


def lengths(signature: Signature) -> tuple[int, ...]:
    """Of which arguments the lengths are the last arguments; of none where they are not there.

    Examples
    --------
    >>> from nativecall._signature.spelling import parse
    >>> lengths(parse("v:&b&i&b")), lengths(parse("v:&b&i&bQQ"))
    ((), (0, 2))
    """
    args = signature.args
    texts = [index for index, arg in enumerate(args) if _is_text(arg)]
    last = args[len(args) - len(texts) :]
    return tuple(texts) if texts and all([arg.kind == "int" for arg in last]) else ()


def with_lengths(signature: Signature) -> Signature:
    """The signature with the lengths of texts, which it may have already."""
    texts = [arg for arg in signature.args if _is_text(arg)]
    if not texts or signature.variadic or lengths(signature):
        return signature
    return Signature(
        signature.result,
        (*signature.args, *[_SIZE] * len(texts)),
        names=(*signature.names, *[None] * len(texts)),
        readonly=(*signature.readonly, *[False] * len(texts)),
        characters=with_more(signature.characters, len(texts)),
        lengths=signature.lengths and (*signature.lengths, *[None] * len(texts)),
        enums=signature.enums and (*signature.enums, *[None] * len(texts)),
        written=signature.written,
    )


def symbols(name: str) -> tuple[str, ...]:
    """What compilers of Fortran may call a procedure."""
    lower = name.lower()
    return tuple(dict.fromkeys([name, f"{name}_", lower, f"{lower}_"]))
