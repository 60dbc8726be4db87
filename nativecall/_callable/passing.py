"""Functions as arguments, and as members of structs, whose signature is another than C asks for.

A native callable, or a foreign box that holds a C function, is converted as `f.convert` does it; a
jitted function is compiled for the signature, or for its first arguments where it takes fewer and
the others are dropped as user data is. arguments.py asks, and keeps what is made as long as C uses
it.
"""

from __future__ import annotations

from .._errors import NoEntryError, SignatureError
from .._signature.signature import Signature
from .._values import boxes
from .callable import NativeCallable
from .wrap import wrap


def convert(value: object, wanted: Signature) -> tuple[int, int, object] | str:
    """The address and the flags of a C function of a signature that is made of a value's, and what
    keeps it; or why there is none.
    """
    try:
        count = boxes.count(value)
        made = wrap(value) if count is None else _compiled(value, wanted, count)
        if made.signatures != (wanted.text,):
            made = made.convert(wanted)
    except (SignatureError, NoEntryError, ValueError, TypeError) as error:
        return str(error)
    (_, address, flags), *_ = made._entries()
    return address, flags, made


def _compiled(value: object, wanted: Signature, count: int) -> NativeCallable:
    """A jitted function for a signature, or for as many of its arguments as it takes."""
    args = wanted.args
    if not 0 <= count < len(args):
        return wrap(value, wanted)
    return wrap(value, Signature(wanted.result, args[:count], readonly=wanted.readonly[:count]))
