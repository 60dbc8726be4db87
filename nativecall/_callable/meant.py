"""Which entry of a callable a consumer's own function type means.

A consumer says less of pointers than an entry does: `void *` where the entry has `double *`, or a
struct that no signature describes. What it does say must agree: an `int *` is no `double *`.
"""

from __future__ import annotations

from .._errors import NoEntryError
from .._signature.derived import Array, FunctionPointer, Pointer, Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._signature.ctype import CType
    from .._signature.signature import Signature
    from .callable import NativeCallable

_POINTERS = ("pointer", "voidptr", "function", "view")
_WHOLE = ("bool", "int")


def _agree(one: CType, other: CType) -> bool:
    """Whether two types are passed alike, and neither says what the other contradicts."""
    if one.kind not in _POINTERS or other.kind not in _POINTERS:
        return one.text == other.text
    if isinstance(one, Pointer) and isinstance(other, Pointer):
        return _agree_in_memory(one.pointee, other.pointee)
    if isinstance(one, FunctionPointer) and isinstance(other, FunctionPointer):
        return _called_alike(one, other)
    return "voidptr" in (one.kind, other.kind) or "view" in (one.kind, other.kind)


def _agree_in_memory(one: CType, other: CType) -> bool:
    """The same for what pointers lead to: integers without their signs, arrays by their items."""
    one, other = [kind.item if isinstance(kind, Array) else kind for kind in (one, other)]
    if one.kind in _WHOLE and other.kind in _WHOLE:
        return one.size == other.size
    if not (isinstance(one, Struct) and isinstance(other, Struct)):
        return _agree(one, other)
    if len(one.fields) != len(other.fields):
        return False
    pairs = zip(one.fields, other.fields, strict=True)
    return all([a.offset == b.offset and _agree_in_memory(a.type, b.type) for a, b in pairs])


def _called_alike(one: Signature | FunctionPointer, other: Signature | FunctionPointer) -> bool:
    """Whether calls by two types of functions agree."""
    if one.variadic != other.variadic or len(one.args) != len(other.args):
        return False
    pairs = zip((one.result, *one.args), (other.result, *other.args), strict=True)
    return all([_agree(a, b) for a, b in pairs])


def entry_meant(callable: NativeCallable, signature: Signature) -> NativeCallable:
    """The callable of the entry with a signature, or of the only one that agrees with it.

    Raises
    ------
    NoEntryError
        When there is none, or several that only pointers tell apart.
    """
    try:
        return callable[signature]
    except NoEntryError:
        alike = [one for one, own, _, _ in callable._resolved() if _called_alike(own, signature)]
        if not alike:
            raise
    if len(alike) > 1:
        several = [one.signatures[0] for one in alike]
        raise NoEntryError(
            f"{callable.__name__!r} has {len(alike)} entries that agree with {signature.text!r}, "
            f"{', '.join(map(repr, several))}: choose one first, as in f[{several[0]!r}]",
            signature.text,
            several,
        )
    return alike[0]
