"""Callbacks: Python functions as C function pointers.

`callback` makes a native callable of a Python function and a signature. Its C pointer is called by
C code in any thread (pythonfunction.py says how).

Guarantees: no exception is lost, and none reaches C code as a wrong result without being raised or
reported (csrc/platform/exceptions.h says where each goes); a pointer stays valid as long as its
callback, also after `close`, when calls give the sentinel and RuntimeError.
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
from ._errors import SignatureError
from ._fifo import Fifo
from ._types.signature import Signature
from ._values import storage
from ._values.calloptions import DEFAULT, checked, refuse_unknown, spelled
from ._values.failure import CONVENTIONS, check_errors, convention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Self, TypedDict, Unpack

    from ._ext import CallbackSpec, CallInterface, PyCallback
    from ._values.failure import Errors

    class CallbackOptions(TypedDict, total=False):
        """What `Callback` takes by name."""

        gil: Literal["take", "need"]
        errors: object
        name: str | None
        doc: str | None
        encoding: str | None

    class AnyCallbackOptions(CallbackOptions, total=False):
        """The same, and what has the types of the signature."""

        types: object


#: What callbacks without options share, by their signatures as written.
_plans: Fifo[str, tuple[CallInterface, int, CallbackSpec]] = Fifo()
_called = _ext.called
_OPTIONS = ("gil", "errors", "name", "doc", "encoding")
#: The conventions by which C code can be told that a Python function failed.
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
        gil, errors = given.pop("gil", "take"), given.pop("errors", None)
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
        """The core's object, which is an owner."""
        for owner in self._owners:
            if isinstance(owner, _ext.PyCallback):
                return owner
        raise AttributeError("a Callback that was never initialised has no function")

    @property
    def function(self) -> Callable[..., object] | None:
        """The Python function; None once closed."""
        found: Callable[..., object] | None = self._made.function
        return found

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._made.function is None

    def close(self) -> None:
        """Let go of the function.

        Calls that are under way end as they would. Later ones, from Python or through the C
        pointer, which stays valid as long as this object lives, are RuntimeError; C gets what it
        gets when the function raises. Closing again does nothing.
        """
        self._made.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        """By the name of the module's attribute that it is, or of its function."""
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
                        f"cannot pickle {self!r}: its function {qualname!r} is not what the module "
                        f"{module!r} has by that name; define it there, or pickle with cloudpickle"
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
        return partial(Callback, **how), (signature, function)  # type: ignore[arg-type]  # as given


def _text_of(function: object, attribute: str) -> str | None:
    """What C can have of an attribute that is text."""
    found = getattr(function, attribute, None)
    return found if isinstance(found, str) and "\0" not in found else None


def _sentinel(signature: Signature, errors: object) -> tuple[Errors, bytes, list[object]]:
    """Error convention, sentinel, and what that points to."""
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
        which = f", which is no {result.text!r}" if no_value else ""
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
    _ext.settle(keep, None)  # no call waits for what Python functions among them raise
    return "none", bytes(_lib.ffi.buffer(memory, result.size)), keep


def _annotated(function: Callable[..., object]) -> str:
    """What the annotations of a function say in C."""
    import re
    from inspect import Parameter, signature

    def spelled(annotation: object, what: str) -> str:
        if is_ffi_type(annotation):
            return str(annotation.cname)  # type: ignore[attr-defined]  # cffi's types have one
        if annotation is None:
            return "void"
        if isinstance(annotation, str):
            # As text, where annotations are put off, the types of a library have its name before.
            text = re.sub(r"[\w.]+\.(\w+)", r"\1", annotation.strip("'\""))
            return "void" if text == "None" else text
        raise TypeError(
            f"{what} of {function!r} must have a type in C for an annotation, or one of the "
            f"types of a library (got {annotation!r})"
        )

    known = signature(function)
    args = []
    for name, parameter in known.parameters.items():
        if parameter.kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            raise TypeError(f"parameter {name!r} of {function!r} cannot be one of a C function")
        if parameter.annotation is Parameter.empty:
            raise TypeError(f"parameter {name!r} of {function!r} has no annotation")
        args.append(spelled(parameter.annotation, f"parameter {name!r}"))
    if known.return_annotation is Parameter.empty:
        raise TypeError(f"{function!r} has no annotation of its result")
    return f"{spelled(known.return_annotation, 'the result')} ({', '.join(args) or 'void'})"


@spelled(*_OPTIONS, "types")
def callback(
    signature: str | Signature | None = None,
    function: Callable[..., object] | None = None,
    **options: Unpack[AnyCallbackOptions],
) -> Any:
    """Make a native callable of a Python function: a C pointer that runs it.

    With a function, or as a decorator. The pointer is valid as long as the callback lives; what
    `to_ctypes` and its like make keeps it.

    Parameters
    ----------
    signature : str or Signature
        Of the C function. Numbers arrive as Python numbers, structs as `Record`, pointers as
        cffi pointers and None for NULL, views ``[n]T`` and pointers to arrays of known length
        ``&(n)T`` as NumPy arrays over the caller's memory, which is **valid until the function
        returns** (memoryviews where there is no NumPy). The result is converted by the rules for
        arguments of native callables; what a pointer result points to is kept until the next call
        returns another, or `close`. Python objects are borrowed from C in arguments, and C gets a
        new reference to each one in a result, also where a struct holds it.
    function : callable, optional
        Left out in the form of a decorator.
    gil : {"take", "need"}
        ``"take"``: any thread may call, and the GIL is taken where it is not held. ``"need"``: C
        code holds the GIL whenever it calls, which saves looking; native callers are told.
    errors : object
        What C gets when the function raises, or returns what does not convert. None is NaN for
        floating-point numbers and complex ones, else zeros or NULL. Or a value that converts to
        the result type, with new references to its Python objects each time. Or the name of an
        error convention that C code knows, and native callers are told (see `wrap`): C gets a
        result that means failure, 1 for ``"nonzero"``, or finds the exception set, for
        ``"python"``, or 1 where the last argument points to, for ``"argument"``: the Python
        function does not get that one. With ``"errno"`` an `OSError` gives C its `errno`, and is
        raised nowhere; any other exception gives C EIO, and is raised or reported as usual. C gets
        -1 for an integer then.
    name, doc : str, optional
        The function's own by default.
    encoding : str, optional
        With it, arguments that C declares as ``const char *`` arrive as `str`, and None for NULL;
        text in ``const wchar_t *`` and the like, too. Without, they are pointers, which
        `nativecall.string` reads. A result that C declares so may be `str`; C may use it until the
        next call.
    types : Library or its types, optional
        What has the structs, unions, enums and typedefs that `signature` names in C; pointers to
        them arrive as pointers of that library's `ffi`. With it `signature` may be left out, and
        is what the function's annotations say: types in C, or types of the library.

    Returns
    -------
    Callback
        Or the decorator, without a function.

    Raises
    ------
    SignatureError
        A signature that no C code can be made for.
    TypeError, ValueError, OverflowError
        Options that are wrong; an `errors` that does not convert.

    Notes
    -----
    An exception is raised when the call from Python that led to the C code returns. Where there is
    no such call, in a thread of C code, it goes to `sys.unraisablehook`. While one is on its way,
    callbacks in that thread give C their sentinels at once. On Python 3.11, in threads other than
    the main one, built-in functions of other modules that do not look for exceptions may let it
    come out of a later instruction.

    Recursion through C code is RecursionError before it has used up the C stack of its thread.

    Examples
    --------
    >>> import ctypes, nativecall
    >>> @nativecall.callback("d:d")
    ... def square(x):
    ...     return x * x
    >>> square.to_ctypes()(3.0)
    9.0
    """
    if not options:
        made = _called(Callback, _plans, signature, function)
        if made is not None:
            return made
    return _callback(signature, function, **options)


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
        parse(signature)  # a wrong one is told where it stands
        return partial(Callback, signature, **options)
    return Callback(signature, function, **options)
