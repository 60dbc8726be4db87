"""Which entry of a callable a consumer's own function type means.

A consumer says less of pointers than an entry does: `void *` where the entry has `double *`, or a
struct that no signature describes. What it does say must agree: an `int *` is no `double *`.
"""

from __future__ import annotations

from .._errors import NoEntryError
from .._types.agreement import Agreement, agreement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types.signature import Signature
    from .callable import NativeCallable


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
        alike = [
            one
            for one, own, _, _ in callable._resolved()
            if agreement(own, signature) >= Agreement.OPAQUE
        ]
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
