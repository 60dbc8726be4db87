"""Convert functions passed as arguments or struct members to the signature that C declares.

A native or foreign callable is converted as by `f.convert`. A jitted function is compiled for the
signature. If the last argument of the signature is a ``void *`` (user data), and the jitted
function takes one argument fewer, it is compiled without that argument. The ``void *`` arguments of
a comparison function are not user data. arguments.py calls this module, and keeps the converted
function alive as long as C uses it.
"""

from __future__ import annotations

from .._cdecl.spelling import parse
from .._errors import NoEntryError, SignatureError
from .._plan.messages import counted
from .._plan.rules import losses
from .._types.signature import Signature
from .._values import foreign
from .callable import NativeCallable
from .wrap import wrap


def convert(value: object, wanted: Signature) -> tuple[int, int, object] | str:
    """Convert a value to a C function with a signature; return the address, flags and owner.

    If the conversion fails, return the reason.
    """
    try:
        count = foreign.count(value)
        made = wrap(value) if count is None else _made(value, wanted, count)
        few = [len(parse(text).args) < len(wanted.args) for text in made.signatures]
        if _compares(wanted) and few and all(few):
            raise _too_few(made.__name__, wanted, len(parse(made.signatures[0]).args))
        if made.signatures != (wanted.text,):
            made = made.convert(wanted)
    except (SignatureError, NoEntryError, ValueError, TypeError) as error:
        return str(error)
    (_, address, flags), *_ = made._entries()
    return address, flags, made


def _made(value: object, wanted: Signature, count: int) -> NativeCallable:
    """Compile a jitted function for the signature, or convert the loop of a ufunc to it."""
    try:
        return _compiled(value, wanted, count)
    except SignatureError as error:
        if not foreign.loops(value) or count != len(wanted.args):
            raise
        refused = error
    loops = foreign.signatures(value) or ()
    for one in sorted(loops, key=lambda loop: losses(loop, wanted)):
        try:
            return wrap(value, one).convert(wanted)
        except SignatureError:
            pass
    raise refused


def _compiled(value: object, wanted: Signature, count: int) -> NativeCallable:
    """Compile a jitted function for a signature, or for its arguments without user data."""
    args = wanted.args
    if not 0 <= count < len(args):
        return wrap(value, wanted)
    if count < len(args) - 1 or args[-1].kind != "voidptr" or _compares(wanted):
        raise _too_few(getattr(value, "__name__", "function"), wanted, count)
    return wrap(value, Signature(wanted.result, args[:-1], readonly=wanted.readonly[:-1]))


def _compares(wanted: Signature) -> bool:
    """Return whether a signature is like a comparison function of `qsort`.

    Such a signature takes two ``void *`` and returns a value. Its last pointer is not user data.
    """
    kinds = [one.kind for one in wanted.args]
    return kinds == ["voidptr", "voidptr"] and wanted.result.kind != "void"


def _too_few(name: str, wanted: Signature, count: int) -> SignatureError:
    return SignatureError(
        f"{name!r} takes {counted(count, 'argument')}, and C passes {len(wanted.args)}; only a "
        "last 'void *' beside other arguments can be omitted, as user data"
    )
