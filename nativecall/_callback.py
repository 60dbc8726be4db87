"""Create callbacks: C function pointers that run Python functions.

`callback` turns a Python function and a signature into a native callable. C code may call its
pointer from any thread; pythonfunction.py describes the call.

Guarantees:

- No exception is lost. If the function raises, C gets a sentinel, and the exception is also raised
  or reported (see csrc/platform/exceptions.h).
- The pointer stays valid as long as the callback object lives, even after `close`. Calls after
  `close` return the sentinel and raise RuntimeError.
"""

from __future__ import annotations

import sys
from functools import partial
from types import FunctionType

from . import _ext, _lib
from ._callable import pickled
from ._callable.callable import Doc, NativeCallable
from ._callable.entry import NewEntry
from ._callable.pythonfunction import spec_of
from ._cdecl.spelling import as_text, is_ffi_type, parse, parse_with
from ._errors import TYPE_CHECKING, SignatureError
from ._fifo import Fifo
from ._types.signature import Signature
from ._values import storage
from ._values.calloptions import DEFAULT, checked, refuse_unknown, spelled
from ._values.failure import CONVENTIONS, check_errors, convention

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Self, TypedDict, Unpack

    from ._ext import CallbackSpec, CallInterface, PyCallback
    from ._values.failure import Errors

    class CallbackOptions(TypedDict, total=False):
        """The keyword arguments of `Callback`."""

        gil: Literal["take", "need"] | None
        errors: object
        name: str | None
        doc: str | None
        encoding: str | None

    class AnyCallbackOptions(CallbackOptions, total=False):
        """The keyword arguments of `callback`: `types` is the library that declares the types."""

        types: object


#: The call interface, flags and spec of callbacks without options, by the signature as written.
_plans: Fifo[str, tuple[CallInterface, int, CallbackSpec]] = Fifo()
_OPTIONS = ("gil", "errors", "name", "doc", "encoding")
#: The conventions that can report the failure of a Python function to C.
_REPORTED = {name: one for name, one in CONVENTIONS.items() if one.shown_by != "nothing"}

_CLASS_DOC = """A Python function as a native callable; made by `nativecall.callback`.

Attributes
----------
function : callable or None
    The Python function; None once closed.
closed : bool
    Whether `close` was called.
"""


class Callback(NativeCallable):
    __doc__ = Doc(_CLASS_DOC)
    __module__ = "nativecall"
    __slots__ = ()

    @spelled(*_OPTIONS)
    def __init__(
        self,
        signature: str | Signature,
        function: Callable[..., object],
        **given: Unpack[CallbackOptions],
    ) -> None:
        if self._cif is not None or self._overloads is not None:
            raise RuntimeError(f"{self!r} is initialised already")
        if not callable(function):
            raise TypeError(f"'function' must be callable (got {type(function).__name__})")
        refuse_unknown(given, _OPTIONS)
        gil, errors = given.pop("gil", None), given.pop("errors", None)
        gil = "take" if gil is None else gil
        if not isinstance(gil, str) or gil not in ("take", "need"):
            raise ValueError(f"'gil' must be 'take' or 'need' (got {gil!r})")
        wanted = parse(signature)
        sys.audit("nativecall.callback", as_text(signature), function)
        if wanted.variadic:
            raise SignatureError(
                f"{wanted.text!r} is variadic, and a Python function cannot know what C passed "
                "after the fixed arguments",
                hint="write the arguments that C passes",
            )
        options = checked(given)
        encoding = options.get("encoding")
        policies = DEFAULT._replace(encoding=encoding)
        convention, sentinel, kept = _sentinel(wanted, errors)
        check_errors(wanted, convention)
        name = options.get("name") or _text_of(function, "__name__") or "function"
        doc = options.get("doc", _text_of(function, "__doc__"))
        needs = gil == "need" or "O" in wanted.text
        flags = _lib.FLAG_NEEDS_GIL if needs else _lib.FLAG_TAKES_GIL
        flags |= CONVENTIONS[convention].flags
        spec = spec_of(
            wanted,
            sentinel,
            keep=kept,
            has_gil=gil == "need",
            python_errors=CONVENTIONS[convention].shown_by == "exception",
            tells_last=bool(CONVENTIONS[convention].hidden),
            sets_errno=CONVENTIONS[convention].shown_by == "errno",
            encoding=encoding,
        )
        made = _ext.PyCallback(spec, function, name)
        self._describe(name, doc)
        entry = NewEntry(made.address, wanted, flags, made, None, policies).arguments()
        self._set_entry(*entry)
        plain = errors is None and gil == "take" and encoding is None
        if plain and type(signature) is str:
            _plans.put(signature, (entry[0], flags, spec))

    @property
    def _made(self) -> PyCallback:
        """The core's object, found among the owners."""
        for owner in self._owners:
            if isinstance(owner, _ext.PyCallback):
                return owner
        raise AttributeError("a Callback that was never initialised has no function")

    @property
    def function(self) -> Callable[..., object] | None:
        """The Python function; None once closed."""
        return self._made.function

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._made.function is None

    def close(self) -> None:
        """Drop the reference to the function.

        Calls in progress finish normally. Later calls raise RuntimeError, both from Python and
        through the C pointer. C then gets the same sentinel as for any exception. The pointer stays
        valid as long as this object lives. Closing twice does nothing.
        """
        self._made.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by name if a module contains this callback or its function, otherwise by value."""
        function = self.function
        if function is None:
            raise TypeError(f"cannot pickle {self!r}: it is closed")
        module = getattr(function, "__module__", None)
        qualname = getattr(function, "__qualname__", None)
        if isinstance(module, str) and isinstance(qualname, str):
            there = pickled.lookup(module, qualname)
            along = pickled.takes_code_along()
            if there is self and not (along and module == "__main__"):
                return pickled.imported, (module, qualname)
            if there is not function and isinstance(function, FunctionType) and not along:
                named = pickled.by_name(self)
                if named is None:
                    raise TypeError(
                        f"cannot pickle {self!r}: its function {qualname!r} is not the one that "
                        f"module {module!r} has under that name; define it there, or pickle with "
                        "cloudpickle"
                    )
                return named
        cif, _, flags = self._chosen(None)
        signature = cif.signature
        errors: object = convention(flags).name
        if errors == "none":
            sentinel = self._made.spec.sentinel
            errors = None
            if sentinel != storage.sentinel_of(signature.result):
                memory = _lib.ffi.from_buffer(sentinel)
                errors = storage.load(signature.result, int(_lib.ffi.cast("uintptr_t", memory)))
        need = flags & _lib.FLAG_NEEDS_GIL and "O" not in signature.text
        how = {"gil": "need" if need else "take", "errors": errors, "name": self.__name__}
        how |= {"doc": self._doc, "encoding": cif.policies.encoding}
        return partial(Callback, **how), (signature, function)  # type: ignore[arg-type]  # a plain dict


def _text_of(function: object, attribute: str) -> str | None:
    """Return an attribute that is a string without null characters, or None."""
    found = getattr(function, attribute, None)
    return found if isinstance(found, str) and "\0" not in found else None


def _sentinel(signature: Signature, errors: object) -> tuple[Errors, bytes, list[object]]:
    """Return the error convention, the sentinel, and the objects that the sentinel points to."""
    result = signature.result
    if errors is None:
        return "none", storage.sentinel_of(result), []
    row = _REPORTED.get(errors) if isinstance(errors, str) else None
    if row is not None:
        told = -1 if row.shown_by == "errno" and result.kind == "int" else row.sentinel
        return row.name, storage.sentinel_of(result, told), []
    no_value = isinstance(errors, bool) and result.kind not in ("bool", "object")
    if no_value or isinstance(errors, str):
        choices = ", ".join(map(repr, _REPORTED))
        which = f", not a {result.text!r}" if no_value else ""
        raise ValueError(
            f"'errors' must be None, a value for C, or one of {choices} (got {errors!r}{which})"
        )
    if result.kind == "void":
        raise ValueError(
            f"'errors' cannot be a value for {signature.text!r}, which returns nothing to C"
        )
    memory = _lib.ffi.new("char[]", result.size + 16)
    keep: list[object] = []
    address = int(_lib.ffi.cast("uintptr_t", memory))
    storage.store_whole(result, errors, address, "'errors'", keep, False, DEFAULT)
    _ext.settle(keep, None)  # no call is in progress that could raise exceptions from `keep`
    return "none", bytes(_lib.ffi.buffer(memory, result.size)), keep


def _annotated(function: Callable[..., object]) -> str:
    """Build a C declaration from the annotations of a function."""
    import re
    from inspect import Parameter, signature

    def spelled(annotation: object, what: str) -> str:
        if is_ffi_type(annotation):
            return str(annotation.cname)  # type: ignore[attr-defined]  # cffi's types have one
        if annotation is None:
            return "void"
        if isinstance(annotation, str):
            # In postponed annotations, the library's name may precede the name of a type.
            text = re.sub(r"[\w.]+\.(\w+)", r"\1", annotation.strip("'\""))
            return "void" if text == "None" else text
        raise TypeError(
            f"{what} of {function!r} must be annotated with a C type or one of a library's types "
            f"(got {annotation!r})"
        )

    known = signature(function)
    args = []
    for name, parameter in known.parameters.items():
        if parameter.kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            raise TypeError(
                f"parameter {name!r} of {function!r} cannot be a parameter of a C function"
            )
        if parameter.annotation is Parameter.empty:
            raise TypeError(f"parameter {name!r} of {function!r} has no annotation")
        args.append(spelled(parameter.annotation, f"parameter {name!r}"))
    if known.return_annotation is Parameter.empty:
        raise TypeError(f"{function!r} has no annotation for its result")
    return f"{spelled(known.return_annotation, 'the result')} ({', '.join(args) or 'void'})"


_called = _ext.caller(Callback, _plans)  # fast path: a cached signature, no options


@spelled(*_OPTIONS, "types")
def callback(
    signature: str | Signature | None = None,
    function: Callable[..., object] | None = None,
    **options: Unpack[AnyCallbackOptions],
) -> Any:
    """Turn a Python function into a native callable: a C pointer that runs it.

    Call it with a function, or use it as a decorator. The pointer is valid as long as the callback
    lives. The objects that `to_ctypes` and similar methods return keep the callback alive.

    Parameters
    ----------
    signature : str or Signature
        The signature of the C function. The Python function gets numbers as Python numbers,
        structs as `Record`, and pointers as cffi pointers (None for NULL). Views ``[n]T`` and
        pointers to arrays of known length ``&(n)T`` arrive as NumPy arrays over the caller's
        memory, or as memoryviews without NumPy. They are **valid until the function returns**.
        The result is converted like an argument of a native callable. Memory behind a pointer
        result is kept until the next call returns another pointer, or until `close`. Python
        objects in arguments are borrowed from C. For each Python object in a result, also inside a
        struct, C gets a new reference.
    function : callable, optional
        Omit it to use `callback` as a decorator.
    gil : {"take", "need"}
        ``"take"``: any thread may call; the GIL is acquired if it is not held. ``"need"``: C code
        must hold the GIL when it calls, which saves the check. The flags of the entry tell native
        callers that they need the GIL.
    errors : object
        What C gets if the function raises, or if its result does not convert:

        - None: NaN for floating-point and complex results, otherwise zeros or NULL.
        - A value that converts to the result type. For each failure, C gets new references to the
          Python objects in the value.
        - The name of an error convention that the C code follows (see `wrap`). The flags of the
          entry record it for native callers. For ``"nonzero"``, ``"zero"`` and ``"null"`` C gets a
          result that means failure (1 for ``"nonzero"``). For ``"python"`` the exception stays
          set. For ``"argument"`` 1 is stored through the last argument, which the Python function
          does not get. For ``"errno"`` an `OSError` sets C's errno and is not raised. Other
          exceptions set EIO and are raised or reported as usual. An integer result is -1.
    name, doc : str, optional
        By default, the name and the docstring of the function.
    encoding : str, optional
        Decodes arguments that C declares as ``const char *``: they arrive as `str`, or None for
        NULL. With an encoding, ``const wchar_t *`` and the like also arrive as `str`. Without an
        encoding, all these arguments arrive as pointers, which `nativecall.string` reads. A result
        of such a type may be a `str`; C may use the text until the next call.
    types : Library or its types, optional
        Declares the structs, unions, enums and typedefs that `signature` names. `signature` may
        itself be the name of a function type or of a function pointer type. Pointers to the
        library's types arrive as pointers of its `ffi`. With `types` you may omit `signature`. It
        is then read from the function's annotations, which are C types or types of the library.

    Returns
    -------
    Callback
        If `function` is omitted, a decorator instead.

    Raises
    ------
    SignatureError
        If no C code can be generated for the signature.
    TypeError, ValueError, OverflowError
        If an option is wrong, or if the value of `errors` does not convert.

    Notes
    -----
    An exception propagates to the Python call that entered C, and is raised when that call
    returns. In a thread that C started there is no such call, and the exception goes to
    `sys.unraisablehook`. While an exception is pending, callbacks in that thread return their
    sentinels at once. On Python 3.11, in threads other than the main thread, and without the GIL, a
    built-in function of another module may not check for exceptions. A later instruction may then
    raise the exception.

    Recursion through C code raises RecursionError before it exhausts the C stack of its thread.

    Examples
    --------
    >>> import ctypes, nativecall
    >>> @nativecall.callback("d:d")
    ... def square(x):
    ...     return x * x
    >>> square.to_ctypes()(3.0)
    9.0
    """
    made = _called(signature, function, options)
    return _callback(signature, function, **options) if made is None else made


def _callback(
    signature: str | Signature | None = None,
    function: Callable[..., object] | None = None,
    *,
    types: object = None,
    **options: Unpack[CallbackOptions],
) -> Any:
    refuse_unknown(options, _OPTIONS)
    if types is not None:
        if signature is None or (callable(signature) and not is_ffi_type(signature)):
            function = function if signature is None else signature
            if function is None:
                return partial(callback, None, **options, types=types)
            signature = _annotated(function)
        signature = parse_with(signature, types)
    if is_ffi_type(signature):
        signature = parse(signature)  # type: ignore[arg-type]  # it takes these
    if signature is None or (not isinstance(signature, (str, Signature)) and callable(signature)):
        fault = "comes first" if function is not None else "is missing"
        raise TypeError(
            f"'signature' {fault}: write @nativecall.callback('d:d') above the function, or "
            f"nativecall.callback('d:d', function) (got {type(signature).__name__})"
        )
    if function is None:
        parse(signature)  # report an invalid signature at the decorator
        return partial(Callback, signature, **options)
    return Callback(signature, function, **options)
