"""Native objects of other providers: they carry a call table or `__nativecall_api__`.

This bridge reads them through the ABI, like every consumer (docs/abi). It does not matter which
module created the object or defined its metaclass. Such an object keeps its functions alive. An
entry cannot be called if its error convention is unknown, or if its result cannot represent an
error: `signatures` skips it, and `instance` raises SignatureError for it.
"""

from __future__ import annotations

from .. import _ext, _lib
from .._cdecl.spelling import parse
from .._errors import SignatureError
from .._types.signature import Signature
from .._values.failure import check_errors, convention
from .._values.foreign import Function


def _refusal(signature: Signature, flags: int) -> str | None:
    """Return why an entry cannot be called, or None if it can be called."""
    try:
        check_errors(signature, convention(flags).name)
    except ValueError as error:
        return str(error)
    return None


def signatures(obj: object) -> list[Signature] | None:
    """Return the signatures that an object lists, each once.

    The object may have more entries, which it creates on request.
    """
    offer = _ext.native_offer(obj)
    if offer is None:
        return None
    found: dict[str, Signature] = {}
    for text, _, flags in offer[1]:
        try:
            signature = parse(text, hint="native")
        except SignatureError:
            continue
        if signature.text == text and _refusal(signature, flags) is None:
            found.setdefault(text, signature)
    return [*found.values()]


def instance(obj: object, signature: Signature, errors: str) -> Function | None:
    """Return the entry of a signature. Raise SignatureError if no such entry can be called.

    The provider's exceptions propagate.
    """
    offer = _ext.native_offer(obj)
    if offer is None:
        return None
    told = next((row for row in offer[1] if row[0] == signature.text), None)
    entry = told or _ext.native_entry(obj, signature.text)
    if entry is None:
        known = ", ".join([repr(text) for text, _, _ in offer[1]]) or "nothing now"
        raise SignatureError(
            f"a {type(obj).__name__} has no entry for {signature.text!r}", hint=f"it offers {known}"
        )
    _, address, flags = entry
    refusal = _refusal(signature, flags)
    if refusal is not None:
        raise SignatureError(
            f"the entry {signature.text!r} of a {type(obj).__name__} cannot be called: {refusal}"
        )
    if convention(flags).needs_gil or "O" in signature.text:
        flags &= ~_lib.FLAG_RELEASE_GIL  # only a request, which we may ignore
    return Function(address, signature, obj, None, flags)
