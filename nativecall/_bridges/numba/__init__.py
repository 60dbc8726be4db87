"""Numba bridge: wrap cfuncs, and compile jitted functions to C functions of a given signature.

A function made by `numba.njit` is compiled for the argument types of a signature. A generated C
function calls the compiled one. It takes arguments and returns results by the platform's C calling
convention: numbers and structs by value, pointers, and array views. The jitted function receives
the views as NumPy arrays.

    C                           in the jitted function
    ``? b … Q f d``             a truth value, an integer, a floating-point number
    ``Zf Zd``                   a complex number
    ``&T``, ``P``               a pointer to T, for `numba.carray`, and a pointer to anything
    ``T{…}``                    a record; a result may also be a tuple of the fields
    ``[n]T``                    an array of n dimensions over the caller's memory; `const` if the
                                function does not write to it

Returned numbers are converted to the result type as in C, except in two cases. Complex and
floating-point numbers are never converted to integers. If an integer does not fit a result type
narrower than 64 bits, the call raises OverflowError. Other values must already have the result
type. A function that always raises may have any result type.

Exceptions. If a Numba cfunc raises, it prints the exception and returns zeros; `wrap` cannot change
that. If a jitted function that `wrap` compiled raises, C gets NaN, 0, NULL or zeros. The exception
then propagates to the Python call that entered C in this thread. Without such a call, it goes to
`sys.unraisablehook` (csrc/platform/exceptions.h). With an error convention, C gets the convention's
error value instead. With ``errors="python"``, the exception stays set for the C caller to check.

In the other direction, jitted functions call native callables as values: see `callables.py`. Numba
finds native callables through the attribute `_numba_type_`, and built-in views through the Numba
entry point in `_numba.py`.

Memory. Numba never unmaps machine code. So a C function is compiled only once for each compiled
function, signature and error convention, however often you wrap it. Everything else is
garbage-collected with the jitted function.

This module never imports Numba: it only handles Numba objects, and those exist only after Numba was
imported.
"""

from __future__ import annotations

import sys

from ..._errors import TYPE_CHECKING, SignatureError
from ..._types.ctype import VOID
from ..._types.signature import Signature
from ..._values import foreign
from ..._values.foreign import Function
from . import jitted
from .types import check_version, core, ctype_of, numba_type, passed, result_of

if TYPE_CHECKING:
    import inspect

    from ..._callable.callable import NativeCallable
    from ..._types.ctype import CType
    from .types import NumbaObject, NumbaType

_STARRED = 0x04 | 0x08  # flags of code objects for *args and **kwargs


def _is_const(kind: NumbaType) -> bool:
    """Return whether a type is a read-only array type."""
    return isinstance(kind, core("types").Array) and not kind.mutable


def _is_vectorized(obj: object) -> bool:
    """Return whether an object comes from `numba.vectorize`, and so has a NumPy ufunc."""
    return type(obj).__name__ in ("DUFunc", "GUFunc") and hasattr(obj, "ufunc")


def loops(obj: object) -> bool | None:
    """Return whether a vectorized function has loops over C numbers; None for other objects."""
    return bool(foreign.bridge("numpy").loops(obj)) if _is_vectorized(obj) else None


def _loop(obj: NumbaObject, wanted: str, args: tuple[CType, ...]) -> Signature | None:
    """Return the signature of the loop for these arguments, compiling it if necessary.

    Return None if there is no such loop and Numba cannot add it to this ufunc.
    """
    bridge = foreign.bridge("numpy")
    if any([one.kind not in ("bool", "int", "float", "complex") for one in args]):
        # Numba would keep such a loop, although nothing could call it.
        raise SignatureError("its loops take numbers; the ufunc itself takes arrays")
    for is_there in (False, True):
        loops: list[Signature] = bridge.signatures(obj) if obj.ufunc.types else []
        for one in loops:
            if one.args == args:
                return one
        if is_there or getattr(obj, "_frozen", True) or obj.ufunc.signature is not None:
            return None
        try:
            obj.add(tuple(map(numba_type, args)))
        except core("errors").NumbaError as error:
            raise jitted.refusal(obj.ufunc.__name__, wanted, error) from error
    return None


def function(obj: NumbaObject) -> Function | None:
    """Return the C function of a cfunc; None for other objects."""
    module = sys.modules.get("numba.core.ccallback")
    if module is None or not isinstance(obj, module.CFunc):
        return None
    check_version()
    args = [ctype_of(one) for one in obj._sig.args]
    signature = Signature(ctype_of(obj._sig.return_type), args)
    _check_cfunc(signature)
    return Function(obj.address, signature, obj, obj.__name__)


def _check_cfunc(signature: Signature) -> None:
    """Raise SignatureError for types that a cfunc passes differently from C.

    A cfunc passes a complex number as two numbers, and a record as a pointer. On x86-64 System V, C
    also passes a ``double _Complex`` as two numbers unless only one register is left. All other
    complex numbers are rejected.
    """
    from ..._plan import steps
    from ..._plan.sysv import SYSV_X86_64

    taken = 0
    for at, ctype in enumerate((signature.result, *signature.args)):
        what = repr(ctype.text) if ctype.kind in ("struct", "view") else ""
        if ctype.kind == "complex":
            whole = steps.ABI is SYSV_X86_64 and ctype.text == "Zd"
            if not whole or (at and taken == 7):
                what = f"one of the complex numbers in {signature.text!r}"
            taken += 2 if at and taken < 8 else 0
        elif ctype.kind == "float" and at:
            taken += taken < 8
        if what:
            raise SignatureError(
                f"Numba's cfunc does not pass {what} as C does",
                hint="wrap a function made by numba.njit instead",
            )


# -- jitted functions ------------------------------------------------------------------------------


def instance(obj: NumbaObject, signature: Signature, errors: str) -> Function | None:
    """Return the C function that a jitted function compiles to for a signature.

    Raise SignatureError if Numba cannot compile `obj` for these arguments, or if the result type
    differs.
    """
    if _is_vectorized(obj):
        if len(signature.args) == obj.ufunc.nin:
            _loop(obj, repr(signature.text), signature.args)
        found: Function | None = foreign.bridge("numpy").instance(obj, signature, errors)
        return found
    return jitted.instance(obj, signature, errors) if jitted.is_jitted(obj) else None


def called(obj: NumbaObject, arguments: tuple[object, ...]) -> Signature | None:
    """Compile a jitted function, or a loop of a ufunc, for a call; return its signature.

    Return None for other objects, or if a ufunc has no such loop. Raise TypeError, with the reason,
    if the call cannot be compiled.
    """
    is_vectorized = _is_vectorized(obj)
    if not is_vectorized and not jitted.is_jitted(obj):
        return None
    name = (obj.ufunc if is_vectorized else obj.py_func).__name__
    shown = ", ".join([type(one).__name__ for one in arguments])
    try:
        given = [*map(_typeof, arguments)]
        kinds = tuple(map(ctype_of, given))
        if VOID in kinds:
            raise SignatureError("C has no type for an argument that is None")
        if is_vectorized:
            return _loop(obj, f"({shown})", kinds) if len(kinds) == obj.ufunc.nin else None
        jitted.check(obj)
        readonly = tuple(map(_is_const, given))
        with core("compiler_lock").global_compiler_lock:
            compiled, _ = jitted.compiled_for(obj, f"({shown})", kinds, readonly)
        return Signature(result_of(compiled.signature.return_type), kinds)
    except (SignatureError, ValueError, TypeError) as error:
        raise TypeError(f"{name!r} cannot be called with ({shown}): {error}") from None


def _typeof(value: object) -> NumbaType:
    """Return Numba's type of an argument.

    For a buffer, or an object that contains an array (such as a pandas column), return an array
    type.
    """
    typeof = sys.modules["numba.core.typing.typeof"].typeof
    types = core("types")
    try:
        kind = typeof(value)
    except (ValueError, core("errors").NumbaError) as error:
        array = foreign.array(value)
        if array is None or array is value:
            raise ValueError(str(error)) from error
        kind = typeof(array)
    if isinstance(kind, types.Buffer) and not isinstance(kind, types.Array):
        return types.Array(kind.dtype, kind.ndim, "A", readonly=not kind.mutable)
    return kind


def parameters(obj: NumbaObject) -> inspect.Signature | None:
    """Return the parameters of a jitted function's Python function."""
    return obj._compiler.pysig if jitted.is_jitted(obj) else None


def by_position(
    obj: NumbaObject, values: tuple[object, ...], named: dict[str, object]
) -> tuple[object, ...] | None:
    """Return the arguments of a call by position.

    If an argument before the last given one is missing, use its default.

    Raise TypeError for an unknown name.
    """
    if not jitted.is_jitted(obj):
        return None
    bound = obj._compiler.pysig.bind(*values, **named)
    last = [*bound.arguments][-1]
    bound.apply_defaults()
    ordered: list[object] = []
    for name, value in bound.arguments.items():
        starred = bound.signature.parameters[name].kind.name == "VAR_POSITIONAL"
        ordered.extend(value if starred else (value,))
        if name == last:
            break
    return tuple(ordered)


def count(obj: NumbaObject) -> int | None:
    """Return the number of arguments of a jitted function or loop; -1 if the number varies."""
    if _is_vectorized(obj):
        inputs: int | None = foreign.bridge("numpy").count(obj)
        return inputs
    if not jitted.is_jitted(obj) or obj.targetoptions.get("forceobj"):
        return None
    code = obj.py_func.__code__
    differs = code.co_flags & _STARRED or obj.py_func.__defaults__
    return -1 if differs else int(code.co_argcount)


def signatures(obj: NumbaObject) -> list[Signature] | None:
    """Return the compiled signatures, except those that no C function can have."""
    if _is_vectorized(obj):
        if not obj.ufunc.types and obj.ufunc.signature is not None:
            raise SignatureError(
                f"{obj.ufunc.__name__!r} has no loop that is a C function of numbers: it is "
                f"generalised, {obj.ufunc.signature}, and nothing was compiled yet"
            )
        return foreign.bridge("numpy").signatures(obj) if obj.ufunc.types else []
    if not jitted.is_jitted(obj):
        return None
    jitted.check(obj)
    found: dict[str, Signature] = {}
    for one in obj.nopython_signatures:
        try:
            given = passed(one.args)
            args, readonly = [*map(ctype_of, given)], [*map(_is_const, given)]
            made = Signature(result_of(one.return_type), args, readonly=readonly)
        except SignatureError:
            continue
        found.setdefault(made.text, made)
    return [*found.values()]


# -- native callables ------------------------------------------------------------------------------


def type_of(obj: object) -> object:
    """Return the Numba type of a native callable or its built-in view.

    Raise Numba's TypingError if jitted functions cannot call it.
    """
    try:
        from .callables import type_of
    except ModuleNotFoundError as error:
        raise AttributeError(str(error)) from None
    return type_of(obj)


def wrapper_address(function: NativeCallable) -> int:
    """Return the address of the C function that Numba calls for a first-class function.

    Raise TypeError unless the callable has exactly one entry that Numba can call.
    """
    entries = function._resolved()
    is_jitted = jitted.wrapped_by(function) is not None
    if is_jitted or len(entries) != 1:
        has = "is compiled for each signature" if is_jitted else f"has {len(entries)} entries"
        raise TypeError(
            f"{function.__name__!r} {has}, and Numba does not say which one it wants: choose one, "
            "as in f['d:d']"
        )
    from .calls import is_plain

    _, signature, address, flags = entries[0]
    if not is_plain(signature, flags):
        raise TypeError(
            f"{signature.text!r} of {function.__name__!r} cannot be a first-class function in "
            "Numba, which passes only numbers and pointers and does not check for failures"
        )
    return address
