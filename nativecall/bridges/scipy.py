"""SciPy: LowLevelCallable, both ways.

SciPy takes a C callback as a `LowLevelCallable` around a capsule, and compares the capsule's name
with the spellings that a function accepts, character by character. So the name here is spelt
as SciPy spells it: plain C types, no names, one space after each comma.
"""

from __future__ import annotations

from .. import _lib
from ..errors import SignatureError
from ..foreign import Function
from ..signature import Signature
from .capsule import spelling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..callable import NativeCallable


def function(obj: Any) -> Function | None:
    """The function inside a LowLevelCallable that was made from a capsule or a known box."""
    from scipy import LowLevelCallable

    from .. import foreign

    if not isinstance(obj, LowLevelCallable):
        return None
    inner = foreign.function(obj.function)
    if inner is None:
        inner = foreign.function(tuple.__getitem__(obj, 0))
    if inner is not None:
        inner.owner = obj
    return inner


def from_callable(
    callable: NativeCallable, signature: Signature, address: int, user_data: object
) -> Any:
    """A LowLevelCallable of one entry, which keeps the callable alive."""
    try:
        from scipy import LowLevelCallable
    except ImportError as error:
        raise ImportError("to_scipy() needs SciPy; install it with 'pip install scipy'") from error

    for ctype in (signature.result, *signature.args):
        if ctype.kind == "struct":
            raise SignatureError(f"SciPy has no spelling for {ctype.text!r}")
    capsule = _lib.types.capsule(address, spelling(signature).encode(), callable)
    if user_data is None:
        return LowLevelCallable(capsule)
    return LowLevelCallable(capsule, user_data)
