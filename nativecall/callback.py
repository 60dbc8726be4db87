"""Callbacks: Python functions as C function pointers.

`callback` makes a native callable of a Python function and a signature. Its C pointer is called by
C code in any thread; generated code takes the GIL where that is needed, makes Python objects of the
arguments, and converts what the function returns (csrc/closure.h, nativecall/jit/closure.py).
Without generated code, ctypes makes the pointer (libffi.py).

Guarantees: no exception is lost, and none reaches C code as a wrong result without being raised or
reported (csrc/closure.h says where each goes); a pointer stays valid as long as its callback, also
after `close`, when calls give the sentinel and RuntimeError.

What a Python function gets and may return is decided here for both ways, also for Python functions
that are passed as function-pointer arguments.
"""

from __future__ import annotations

import sys

from . import _lib, bufferformat, convert
from .callable import Doc, NativeCallable
from .ctype import VOID, Array, CType, Pointer, Struct, View, object_offsets
from .entry import Found, Options
from .errors import SignatureError
from .failure import check_errors
from .signature import Signature
from .spelling import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

_types = _lib.types
#: Marks a Python object among the readers of arguments.
_OBJECT = "O"
_MOST_PARTS = 256  # of a struct or array that is described part by part
_CONVENTIONS = ("nonzero", "zero", "null", "python")


# -- arguments -----------------------------------------------------------------------------------


def reader(ctype: CType, readonly: bool) -> Any:
    """What makes a Python object of an argument that is no number.

    Parameters
    ----------
    ctype : CType
    readonly : bool
        Whether the function promises not to write through a pointer.

    Returns
    -------
    callable, str or None
        A function of the pointer's value, or of the address of a struct; None for numbers, and a
        mark for Python objects. NULL is None without it.
    """
    if ctype.kind in ("bool", "int", "float", "complex"):
        return None
    if ctype.kind == "object":
        return _OBJECT
    if isinstance(ctype, View):
        return _view_reader(ctype, readonly)
    if isinstance(ctype, Pointer) and isinstance(ctype.pointee, Array):
        array = ctype.pointee
        return _array_reader(array.item, array.shape, readonly)
    if ctype.kind in ("pointer", "voidptr", "function"):
        return _types.PointerReader(ctype)
    return _record(ctype) or (lambda address: convert.load(ctype, address))


def _record(ctype: CType) -> Any:
    """What reads and writes a struct, or an array in one, of nothing but numbers; else None."""
    if isinstance(ctype, Struct):
        made: Any = convert.named_tuple(ctype)
        parts = [(field.offset, field.type) for field in ctype.fields]
    elif isinstance(ctype, Array):
        made = None
        item = ctype.item if len(ctype.shape) == 1 else Array(ctype.item, ctype.shape[1:])
        parts = [(place * item.size, item) for place in range(ctype.shape[0])]
    else:
        return convert.letter(ctype) if ctype.kind in ("bool", "int", "float", "complex") else None
    if len(parts) > _MOST_PARTS:
        return None
    members = tuple([(offset, _record(part)) for offset, part in parts])
    return None if any([one is None for _, one in members]) else _types.Record(made, members)


def _as_array(memory: Any, ndim: int) -> Any:
    """A NumPy array over memory; a memoryview where there is no NumPy."""
    try:
        from numpy import asarray
    except ImportError:
        return memoryview(memory)
    made = asarray(memory)
    if made.ndim != ndim:
        # NumPy takes what it had no memory to look into for a single object.
        raise MemoryError
    return made


def _array_reader(item: CType, shape: tuple[int, ...], readonly: bool) -> Any:
    form, size, ndim = bufferformat.spell(item).encode(), item.size, len(shape)

    def read(address: int) -> object:
        return _as_array(_types.Memory(address, form, size, shape, None, readonly), ndim)

    return read


def _view_reader(view: View, readonly: bool) -> Any:
    form, size, ndim = bufferformat.spell(view.item).encode(), view.item.size, view.ndim

    def read(address: int) -> object:
        words = _lib.ffi.unpack(_lib.ffi.cast("intptr_t *", address), 1 + 2 * ndim)
        shape, strides = tuple(words[1 : 1 + ndim]), tuple(words[1 + ndim :])
        start = words[0] % 2 ** (8 * _lib.ffi.sizeof("void *"))
        return _as_array(_types.Memory(start, form, size, shape, strides, readonly), ndim)

    return read


# -- closures ------------------------------------------------------------------------------------


def _writer(ctype: CType, who: str) -> Any:
    def write(value: object, address: int, keep: list[object]) -> None:
        convert.store_whole(ctype, value, address, who, keep, False)

    return write


def sentinel_of(ctype: CType) -> bytes:
    """What C gets for want of a result: NaN for floating-point numbers, else zeros."""
    size = 0 if ctype.kind == "void" else ctype.size
    memory = _lib.ffi.new("char[]", size + 16)
    if ctype.kind in ("float", "complex"):
        address = int(_lib.ffi.cast("uintptr_t", memory))
        nan = float("nan")
        value = complex(nan, nan) if ctype.kind == "complex" else nan
        _types.store_scalar(convert.letter(ctype), value, address, "the sentinel")
    return bytes(_lib.ffi.buffer(memory, size))


_PREPARED_LIMIT = 1024
_prepared: dict[object, tuple[tuple[Any, ...], Any, Any, str, tuple[int, ...], str]] = {}


def _prepare(
    signature: Signature,
) -> tuple[tuple[Any, ...], Any, Any, str, tuple[int, ...], str]:
    """What all Python functions of a signature share.

    The readers of its arguments, the record, the plan, the letter and the Python objects of its
    result, and the key of its code.
    """
    from .jit.closure import key

    result = signature.result
    wanted = (result.named, *[arg.named for arg in signature.args], signature.readonly)
    found = _prepared.get(wanted)
    if found is None:
        pairs = zip(signature.args, signature.readonly, strict=True)
        plan = None
        if result.kind not in ("void", "object"):
            plan = convert.plan(Signature(VOID, (result,)))
        readers = tuple([reader(arg, readonly) for arg, readonly in pairs])
        record = _record(result) if result.kind == "struct" else None
        objects = object_offsets(result)
        found = readers, record, plan, convert.letter(result), objects, key(signature)
        if len(_prepared) >= _PREPARED_LIMIT:
            _prepared.clear()
        _prepared[wanted] = found
    return found


def closure(
    signature: Signature,
    function: Callable[..., object],
    name: str,
    who: str,
    *,
    sentinel: bytes,
    keep: object = None,
    stash: Any = None,
    holding: bool = False,
    stays: bool = False,
) -> tuple[int, Any, object]:
    """C code of a signature that runs a Python function.

    Parameters
    ----------
    signature : Signature
    function : callable
    name : str
        Of the function, for messages.
    who : str
        Begins messages on the result.
    sentinel : bytes
        What C gets when there is no result.
    keep : object
        Lives as long.
    stash : Stash, optional
        Where exceptions go, of the call that the function is passed to.
    holding : bool
        Whether C code is known to have the GIL.
    stays : bool
        Whether C code that has it looks for exceptions.

    Returns
    -------
    tuple of int, Closure and object
        The C function pointer, the core's object, and what keeps both.

    Raises
    ------
    SignatureError
        When only libffi could make it, and cannot.
    """
    from .jit.closure import code

    readers, record, plan, letter, objects, wanted = _prepare(signature)
    found = code(signature, wanted)
    if found is None:
        from . import libffi

        return libffi.closure(
            signature,
            function,
            name,
            who,
            readers,
            plan,
            sentinel,
            objects,
            stash,
            holding,
            stays,
            keep,
        )
    address, owner = found
    writer = _writer(signature.result, who) if letter == "T" else None
    made = _types.Closure(
        function,
        name,
        who,
        readers,
        record,
        writer,
        None,
        plan,
        letter,
        sentinel,
        objects,
        stash,
        holding,
        stays,
        address,
        owner,
        keep,
    )
    return made.address, made, made


# -- for people ----------------------------------------------------------------------------------


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
    __slots__ = ("_closure",)
    _closure: Any

    def __init__(
        self,
        signature: str | Signature,
        function: Callable[..., object],
        *,
        gil: Literal["take", "need"] = "take",
        errors: object = None,
        name: str | None = None,
        doc: str | None = None,
    ) -> None:
        if self._plan is not None or self._parts is not None:
            raise RuntimeError(f"{self!r} is initialised already")
        if not callable(function):
            raise TypeError(f"'function' must be callable (got {type(function).__name__})")
        if not isinstance(gil, str) or gil not in ("take", "need"):
            raise ValueError(f"'gil' must be 'take' or 'need' (got {gil!r})")
        wanted = parse(signature)
        if wanted.variadic:
            raise SignatureError(
                f"{wanted.text!r} is variadic, and a Python function cannot know what C passed "
                "after the fixed arguments",
                hint="write the arguments that C passes",
            )
        convention, sentinel, kept = _sentinel(wanted, errors)
        options = Options(name, doc, None, "hold", convention, False)
        check_errors(wanted, convention)
        known = getattr(function, "__name__", None)
        if options.name is None:
            name = known if isinstance(known, str) and "\0" not in known else "function"
        if options.doc is None:
            known = getattr(function, "__doc__", None)
            doc = known if isinstance(known, str) and "\0" not in known else None
        needs = gil == "need" or "O" in wanted.text
        flags = options.flags | (_lib.FLAG_NEEDS_GIL if needs else _lib.FLAG_TAKES_GIL)
        assert name is not None
        address, made, owner = closure(
            wanted,
            function,
            name,
            f"the result of '{name}'",
            sentinel=sentinel,
            keep=kept,
            holding=gil == "need",
            stays=convention == "python",
        )
        self._closure = made
        self._describe(name, doc, None)
        self._set_single(*Found(address, wanted, flags, owner, None).single())

    @property
    def function(self) -> Callable[..., object] | None:
        """The Python function; None once closed."""
        found: Callable[..., object] | None = self._closure.function
        return found

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closure.function is None

    def close(self) -> None:
        """Let go of the function.

        Calls that are under way end as they would. Later ones, from Python or through the C
        pointer, which stays valid as long as this object lives, are RuntimeError; C gets what it
        gets when the function raises. Closing again does nothing.
        """
        self._closure.close()

    def __enter__(self) -> Callback:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle {self!r}: it is a Python function with a C pointer here")


def _sentinel(signature: Signature, errors: object) -> tuple[Any, bytes, list[object]]:
    """Error convention, sentinel, and what that points to."""
    result = signature.result
    sentinel = sentinel_of(result)
    if errors is None:
        return "none", sentinel, []
    if isinstance(errors, str):
        if errors not in _CONVENTIONS:
            choices = ", ".join(map(repr, _CONVENTIONS))
            raise ValueError(
                f"'errors' must be None, a value for C, or one of {choices} (got {errors!r})"
            )
        if errors == "nonzero" and result.kind in ("int", "bool"):
            sentinel = (1).to_bytes(result.size, sys.byteorder)
        return errors, sentinel, []
    if isinstance(errors, bool) and result.kind not in ("bool", "object"):
        choices = ", ".join(map(repr, _CONVENTIONS))
        raise ValueError(
            f"'errors' must be None, a value for C, or one of {choices} (got {errors!r}, which is "
            f"no {result.text!r})"
        )
    if result.kind == "void":
        raise ValueError(
            f"'errors' cannot be a value for {signature.text!r}, which returns nothing to C"
        )
    memory = _lib.ffi.new("char[]", result.size + 16)
    keep: list[object] = []
    address = int(_lib.ffi.cast("uintptr_t", memory))
    convert.store_whole(result, errors, address, "'errors'", keep, False)
    _types.settle(keep, None)  # no call waits for what Python functions among them raise
    return "none", bytes(_lib.ffi.buffer(memory, result.size)), keep


def callback(
    signature: str | Signature,
    function: Callable[..., object] | None = None,
    *,
    gil: Literal["take", "need"] = "take",
    errors: object = None,
    name: str | None = None,
    doc: str | None = None,
) -> Any:
    """Make a native callable of a Python function: a C pointer that runs it.

    With a function, or as a decorator. The pointer is valid as long as the callback lives; boxes
    that `to_ctypes` and its like make keep it.

    Parameters
    ----------
    signature : str or Signature
        Of the C function. Numbers arrive as Python numbers, structs as named tuples, pointers as
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
        the result type, with new references to its Python objects each time. Or a convention that
        C code knows, and native callers are told: ``"nonzero"`` (C gets 1), ``"zero"``,
        ``"null"``, ``"python"`` (the exception is set).
    name, doc : str, optional
        The function's own by default.

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
    if not isinstance(signature, (str, Signature)) and callable(signature):
        fault = "comes first" if function is not None else "is missing"
        raise TypeError(
            f"'signature' {fault}: write @nativecall.callback('d:d') above the function, or "
            f"nativecall.callback('d:d', function) (got {type(signature).__name__})"
        )
    if function is not None and not callable(function):
        raise TypeError(f"'function' must be callable (got {type(function).__name__})")
    if function is None:
        parse(signature)  # a wrong one is told where it stands

        def decorate(function: Callable[..., object]) -> Callback:
            return Callback(signature, function, gil=gil, errors=errors, name=name, doc=doc)

        return decorate
    return Callback(signature, function, gil=gil, errors=errors, name=name, doc=doc)
