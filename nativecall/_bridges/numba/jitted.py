"""Compile a jitted function for a signature, and return its C function.

An instance is a jitted function compiled for given argument types. Omitted arguments have their
defaults, and surplus arguments go to `*args`.

Arrays. If possible, the function is compiled for read-only arrays, and the signature declares the
arguments `const`. Callers may then pass both read-only and writable arrays.
"""

from __future__ import annotations

import dis
import sys

from ... import _lib
from ..._callable.callable import NativeCallable
from ..._callable.pickled import wrapped
from ..._callable.specialize import OnDemand
from ..._errors import TYPE_CHECKING, SignatureError
from ..._types.signature import Signature
from ..._values.failure import CONVENTIONS, check_errors
from ..._values.foreign import Function
from .types import becomes, check_version, core, numba_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..._ext import Foreign
    from ..._types.ctype import CType
    from .types import NumbaObject, NumbaType


def is_jitted(obj: object) -> bool:
    """Return whether an object comes from `numba.njit`."""
    registry = sys.modules.get("numba.core.registry")
    return registry is not None and isinstance(obj, registry.CPUDispatcher)


def check(obj: NumbaObject) -> None:
    """Raise SignatureError if a jitted function can never become a C function."""
    check_version()
    if obj.targetoptions.get("forceobj"):
        raise SignatureError(
            f"{obj.py_func.__name__!r} is compiled in object mode, which no C function can call"
        )
    for name, one in obj._compiler.pysig.parameters.items():
        if one.kind is one.KEYWORD_ONLY:
            raise SignatureError(
                f"{obj.py_func.__name__!r} has the keyword-only parameter {name!r}, which Numba "
                "does not pass"
            )


class Instance:
    """An instance of a jitted function (a Numba dispatcher); it keeps the machine code alive."""

    __slots__ = ("_library", "compiled", "function", "signature")

    def __init__(self, function: NumbaObject, signature: Signature, compiled: NumbaObject) -> None:
        self.function = function
        self.signature = signature
        self.compiled = compiled
        self._library: NumbaObject = None

    def __repr__(self) -> str:
        return f"<{self.signature.text!r} of {self.function!r}>"

    def enclosed(self, errors: str) -> Function:
        """Return the compiled C function."""
        from .code import enclose

        name = self.function.py_func.__name__
        address, self._library = enclose(self, self.compiled, name, self.signature, errors)
        flags = 0
        if self.function.targetoptions.get("nogil") and not CONVENTIONS[errors].needs_gil:
            flags = _lib.FLAG_RELEASE_GIL
        return Function(address, self.signature, self, name, flags)

    def pickled(self, *how: Foreign) -> tuple[object, ...]:
        """Support `pickle`: Numba pickles the jitted function; unpickling compiles it again."""
        return wrapped, (NativeCallable, self.function, *how)


def instance(obj: NumbaObject, signature: Signature, errors: str) -> Function:
    """Return the C function that a jitted function compiles to for a signature.

    Raise SignatureError if Numba cannot compile the jitted function for these arguments, or if the
    result type differs.
    """
    check(obj)
    check_errors(signature, errors)
    args = CONVENTIONS[errors].passed(signature.args)
    if signature.variadic:
        raise SignatureError(
            f"Numba does not support variadic functions, such as {signature.text!r}"
        )
    readonly = CONVENTIONS[errors].passed(signature.readonly)
    with core("compiler_lock").global_compiler_lock:
        compiled, promised = _compile(obj, signature, args, readonly)
        # Cache on the jitted function, not on its code libraries. Numba keeps the libraries until
        # the function is collected, so a library must not refer to the function.
        known = obj.__dict__.setdefault("_nativecall", {})
        key = signature.text, errors, promised
        owner, found = known.get(key, (None, None))
        if owner is None or owner.compiled is not compiled:
            owner = Instance(obj, signature, compiled)
            found = owner.enclosed(errors)
            known[key] = owner, found
    promised += signature.readonly[len(args) :]
    rest = signature.characters, signature.lengths, signature.written
    told = Signature._of(signature.function, signature.names, promised, *rest)
    return Function(found.address, told, owner, found.name, found.flags)


def _compile(
    obj: NumbaObject, signature: Signature, args: tuple[CType, ...], readonly: tuple[bool, ...]
) -> tuple[NumbaObject, tuple[bool, ...]]:
    """Compile a jitted function for these arguments of a signature.

    Return the compiled function, and for each argument whether it is compiled as read-only.
    """
    compiled, promised = compiled_for(obj, repr(signature.text), args, readonly)
    returned = compiled.signature.return_type
    if not becomes(returned, signature.result) and not _only_raises(obj, returned):
        raise SignatureError(
            f"{obj.py_func.__name__!r} returns {returned} for the arguments of "
            f"{signature.text!r}, not {signature.result.text!r}"
        )
    return compiled, promised


def _only_raises(obj: NumbaObject, returned: NumbaType) -> bool:
    """Return whether a jitted function always raises; any result type is then accepted."""
    if returned != core("types").none:
        return False
    return all([not one.opname.startswith("RETURN_") for one in dis.get_instructions(obj.py_func)])


def compiled_for(
    obj: NumbaObject, wanted: str, args: tuple[CType, ...], readonly: tuple[bool, ...]
) -> tuple[NumbaObject, tuple[bool, ...]]:
    """Compile a jitted function for arguments. In error messages, `wanted` describes them.

    Return the compiled function, and for each argument whether it is compiled as read-only. The
    arguments in `readonly` always are.

    Numba has separate types for read-only arrays. Code that was compiled for a read-only array can
    also read a writable one, so the C function passes it any array.
    """
    for promised in _promises(args, readonly):
        try:
            return _instance(obj, wanted, args, promised), promised
        except SignatureError as error:
            # Other errors would occur with writable arrays, too.
            if "readonly" not in str(error.__cause__):
                break
    return _instance(obj, wanted, args, readonly), readonly


def _promises(args: tuple[CType, ...], readonly: tuple[bool, ...]) -> Iterator[tuple[bool, ...]]:
    """Yield the combinations of read-only arguments to try; each includes those in `readonly`.

    The first combination contains all arrays. The next ones leave out the last or the first arrays,
    because functions usually write to those.
    """
    views = [at for at, one in enumerate(args) if one.kind == "view" and not readonly[at]]
    for count in range(len(views)):
        for written in dict.fromkeys([(*views[len(views) - count :],), (*views[:count],)]):
            yield tuple(
                [
                    const or (one.kind == "view" and at not in written)
                    for at, (one, const) in enumerate(zip(args, readonly, strict=True))
                ]
            )


def _instance(
    obj: NumbaObject, wanted: str, args: tuple[CType, ...], readonly: tuple[bool, ...]
) -> NumbaObject:
    """Compile a jitted function with exactly the `readonly` arrays as read-only."""
    kinds = tuple([numba_type(one, const) for one, const in zip(args, readonly, strict=True)])
    name = obj.py_func.__name__
    try:  # Numba reports a wrong number of arguments in a page of text
        obj._compiler.pysig.bind(*args)
    except TypeError as error:
        raise SignatureError(f"{name!r} does not take the arguments of {wanted}: {error}") from None
    kinds = obj._compiler.fold_argument_types(kinds, {})[1]
    if kinds not in obj.overloads:
        if not obj._can_compile:
            have = ", ".join([f"({', '.join(map(str, one))})" for one in obj.overloads])
            raise SignatureError(f"{name!r} was compiled only for {have}, not for {wanted}")
        try:
            obj.compile(kinds)
        except MemoryError:
            raise
        except Exception as error:  # a NumbaError, or a failure inside the compiler
            if any(readonly):
                wanted += ", with read-only arrays"
            raise refusal(name, wanted, error) from error
    compiled = obj.overloads[kinds]
    if compiled.objectmode:
        raise SignatureError(f"{name!r} is compiled in object mode, which no C function can call")
    return compiled


def refusal(name: str, wanted: str, error: Exception) -> SignatureError:
    """Return the error for a failed compilation, with the most useful line of Numba's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith("Failed in ")]
    reason = (telling or lines or [type(error).__name__])[0].removeprefix("- ")
    return SignatureError(f"Numba cannot compile {name!r} for {wanted}: {reason}")


def wrapped_by(function: NativeCallable) -> NumbaObject | None:
    """Return the jitted function that a native callable compiles for each signature.

    Return None for other callables, and for callables with entries of another origin.
    """
    hook = function.specialize
    target = hook.target if isinstance(hook, OnDemand) else None
    if not is_jitted(target):
        return None
    for entry, _, _, _ in function._resolved():
        owner: object = entry._owners[-1] if entry._owners else None
        made = owner[-1] if isinstance(owner, tuple) else owner  # a tuple if `owner=` was given
        if not isinstance(made, Instance) or made.function is not target:
            return None
    return target
