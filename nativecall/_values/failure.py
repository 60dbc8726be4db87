"""Error conventions: how a C function reports failure, and which exception that becomes.

The names are those of `wrap`; an entry has its convention in its flags (docs/abi/find.md).
"""

from __future__ import annotations

from .. import _lib
from .._errors import NativeFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from .._signature.signature import Signature

    Errors = Literal["none", "python", "nonzero", "zero", "null", "errno"]

#: The name of each convention, by the flags that spell it.
ERROR_NAMES: dict[int, Errors] = {
    flags: name  # type: ignore[misc]  # the names of _lib.ERRORS are those of Errors
    for name, flags in _lib.ERRORS.items()
}


def check_errors(signature: Signature, errors: str) -> None:
    """Whether a result can show what an error convention says."""
    kind = signature.result.kind
    if errors in ("nonzero", "zero") and kind not in ("int", "bool"):
        wanted = "an integer"
    elif errors == "null" and kind not in ("pointer", "voidptr", "function", "object"):
        wanted = "a pointer"
    else:
        return
    raise ValueError(
        f"errors={errors!r} needs {wanted} as the result, but the signature is {signature.text!r}"
    )


def raise_failure(name: str, convention: int, result: object, code: int) -> None:
    """Turn what a call returned, or errno, into the exception that its error convention means.

    The convention "python" needs nothing here: what was set is raised by the call itself.

    Parameters
    ----------
    name : str
        The callable's.
    convention : int
        As flags spell it.
    result : object
    code : int
        errno after the call.
    """
    if convention == _lib.ERRORS["errno"] and code != 0:
        import os

        raise OSError(code, f"{os.strerror(code)} (from '{name}')")
    if convention == _lib.ERRORS["nonzero"] and result != 0:
        raise NativeFailure(f"'{name}' failed: it returned {result}, not 0", result)
    if convention == _lib.ERRORS["zero"] and not result:
        raise NativeFailure(f"'{name}' failed: it returned 0", result)
    if convention == _lib.ERRORS["null"] and result is None:
        raise NativeFailure(f"'{name}' failed: it returned NULL", result)
