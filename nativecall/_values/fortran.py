"""Fortran's calling convention: hidden lengths of text arguments, and symbol names.

Fortran compilers pass the length of each ``character`` argument by value as `size_t`, after all
other arguments and in the same order. Python code does not pass these lengths, but C code must.
`lengths` finds them in a signature.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING
from .._types.ctype import SCALARS
from .._types.derived import Pointer
from .._types.signature import Signature, with_more

if TYPE_CHECKING:
    from .._types.ctype import CType

_SIZE = SCALARS["N"]
_CHARACTER = SCALARS["c"]


def _is_text(arg: CType) -> bool:
    return isinstance(arg, Pointer) and arg.pointee == _CHARACTER


def lengths(signature: Signature) -> tuple[int, ...]:
    """Return the indices of text arguments, or () if their lengths are not the last arguments.

    Examples
    --------
    >>> from nativecall._cdecl.spelling import parse
    >>> lengths(parse("v:&b&i&b")), lengths(parse("v:&b&i&bQQ"))
    ((), (0, 2))
    """
    args = signature.args
    found = [index for index, arg in enumerate(args) if _is_text(arg)]
    last = args[len(args) - len(found) :]
    return tuple(found) if found and all([arg.kind == "int" for arg in last]) else ()


def texts(signature: Signature) -> int:
    """Return how many arguments may be text."""
    return len([arg for arg in signature.args if _is_text(arg)])


def with_lengths(signature: Signature) -> Signature:
    """Append the lengths of a signature's texts, unless the signature already has them."""
    return signature if lengths(signature) else _extended(signature)


def with_wide_lengths(signature: Signature) -> Signature:
    """Do the same as `with_lengths`, but accept only integers of `size_t`'s size as lengths."""
    last = signature.args[len(signature.args) - len(lengths(signature)) :]
    has = last and all([arg.size == _SIZE.size for arg in last])
    return signature if has else _extended(signature)


def _extended(signature: Signature) -> Signature:
    """Append the lengths of texts to a signature."""
    count = texts(signature)
    if not count or signature.variadic:
        return signature
    return with_more(signature, [_SIZE] * count, False)


def symbols(name: str) -> tuple[str, ...]:
    """Return the symbol names that Fortran compilers may give a procedure."""
    lower = name.lower()
    return tuple(dict.fromkeys([name, f"{name}_", lower, f"{lower}_"]))
