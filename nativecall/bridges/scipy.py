"""SciPy: LowLevelCallable, both ways.

SciPy takes a C callback as a `LowLevelCallable` around a capsule, and compares the capsule's name
with the spellings that a function accepts, character by character. So the name here is spelt
as SciPy spells it: plain C types, no names, one space after each comma.
"""

from __future__ import annotations

from .. import _lib
from ..ctype import CType
from ..errors import SignatureError
from ..foreign import Function
from ..signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..callable import NativeCallable

_SPELLINGS = {
    "?": "_Bool",
    "b": "signed char",
    "B": "unsigned char",
    "h": "short",
    "H": "unsigned short",
    "i": "int",
    "I": "unsigned int",
    "f": "float",
    "d": "double",
    "g": "long double",
    "Zf": "float complex",
    "Zd": "double complex",
    "Zg": "long double complex",
    "v": "void",
}


def spelling(signature: Signature) -> str:
    """The name of a capsule that SciPy takes for `signature`."""
    return signature.function.declare_function("", spell=_spell).replace(" (", " (").strip()


def _spell(ctype: CType) -> str:
    if ctype.text in _SPELLINGS:
        return _SPELLINGS[ctype.text]
    if ctype.text in ("q", "Q"):
        # SciPy spells pointer-sized integers as the platform's own type of that size.
        import ctypes

        name = "long" if ctypes.sizeof(ctypes.c_long) == ctype.size else "long long"
        return name if ctype.text == "q" else "unsigned " + name
    if ctype.kind in ("voidptr", "view", "object"):
        return "void *"
    raise SignatureError(f"SciPy has no spelling for {ctype.text!r}")


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

    capsule = _lib.types.capsule(address, spelling(signature).encode(), callable)
    if user_data is None:
        return LowLevelCallable(capsule)
    return LowLevelCallable(capsule, user_data)
