"""Fortran's ways: the lengths of texts, which follow the arguments, and the names of symbols.

A compiler of Fortran passes the length of each ``character`` argument by value, after all others
and in their order, as `size_t`. Where a signature has these arguments, calls from Python do not
pass them: they are what `lengths` tells of. Its C callers do.
"""

from __future__ import annotations

from .._types.ctype import SCALARS
from .._types.derived import Pointer
from .._types.signature import Signature, with_more

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types.ctype import CType

_SIZE = SCALARS["N"]
_CHARACTER = SCALARS["c"]


def _is_text(arg: CType) -> bool:
    return isinstance(arg, Pointer) and arg.pointee == _CHARACTER


def lengths(signature: Signature) -> tuple[int, ...]:
    """Of which arguments the lengths are the last arguments; of none where they are not there.

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
    """How many arguments may be texts."""
    return len([arg for arg in signature.args if _is_text(arg)])


def with_lengths(signature: Signature) -> Signature:
    """The signature with the lengths of texts, which it may have already."""
    return signature if lengths(signature) else _extended(signature)


def with_wide_lengths(signature: Signature) -> Signature:
    """The same, where integers of another size than `size_t` are no lengths."""
    last = signature.args[len(signature.args) - len(lengths(signature)) :]
    has = last and all([arg.size == _SIZE.size for arg in last])
    return signature if has else _extended(signature)


def _extended(signature: Signature) -> Signature:
    """The signature and the lengths of texts after it."""
    count = texts(signature)
    if not count or signature.variadic:
        return signature
    return with_more(signature, [_SIZE] * count, False)


def symbols(name: str) -> tuple[str, ...]:
    """What compilers of Fortran may call a procedure."""
    lower = name.lower()
    return tuple(dict.fromkeys([name, f"{name}_", lower, f"{lower}_"]))
