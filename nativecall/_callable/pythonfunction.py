"""Describe C function pointers that run Python functions.

The core executes the closure plan of the signature: it acquires the GIL if necessary, converts the
arguments to Python objects, calls the function, and converts the result
(csrc/callable/pycallback.h). This module decides how each argument and the result are converted.
`callback` (_callback.py) uses it, and so do function-pointer arguments (arguments.py).
"""

from __future__ import annotations

from .. import _ext, _lib
from .._errors import TYPE_CHECKING
from .._fifo import Fifo
from .._plan import callplan
from .._types.ctype import VOID, CType, Scalar
from .._types.derived import Array, Pointer, View, buffer_format, object_offsets
from .._types.signature import Signature
from .._values import callinterface
from .._values.calloptions import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from .._ext import CallbackSpec, CallInterface, Memory

    #: How an argument is converted to a Python object.
    Reader: TypeAlias = Callable[[int], object] | CallInterface | str

#: The reader of an argument that is a Python object.
_OBJECT = "O"


# -- arguments -----------------------------------------------------------------------------------


def reader(
    ctype: CType, readonly: bool, text: str = "", encoding: str | None = None
) -> Reader | None:
    """Return how an argument is converted to a Python object.

    Parameters
    ----------
    ctype : CType
    readonly : bool
        Whether the function promises not to write through a pointer.
    text : str
        The character type of text behind the pointer, ``""`` for none.
    encoding : str or None
        The encoding of such text. With None, the argument stays a pointer.

    Returns
    -------
    CallInterface, callable, str or None
        For structs and pointers, the call interface of a function that returns such a value. For
        arrays and views, a function that takes the address and is not called for NULL. ``"O"`` for
        Python objects; None for numbers.
    """
    if isinstance(ctype, Scalar):
        return None
    if ctype.kind == "object":
        return _OBJECT
    if isinstance(ctype, View):
        return _view_reader(ctype, readonly)
    if isinstance(ctype, Pointer) and isinstance(ctype.pointee, Array):
        array = ctype.pointee
        return _array_reader(array.item, array.shape, readonly)
    if text[:1] in ("(", "*") or encoding is None:
        text = ""
    return callinterface.of(
        Signature(ctype, characters=(text,)), 0, DEFAULT._replace(encoding=encoding)
    )


def _as_array(memory: Memory, ndim: int) -> object:
    """Return a NumPy array over memory; a memoryview without NumPy."""
    try:
        from numpy import asarray
    except ImportError:
        return memoryview(memory)
    made = asarray(memory)
    if made.ndim != ndim:
        # If memory is short, NumPy wraps the buffer as a single object.
        raise MemoryError
    return made


def _array_reader(item: CType, shape: tuple[int, ...], readonly: bool) -> Reader:
    form, size, ndim = buffer_format(item).encode(), item.size, len(shape)

    def read(address: int) -> object:
        return _as_array(_ext.Memory(address, form, size, shape, None, readonly), ndim)

    return read


def _view_reader(view: View, readonly: bool) -> Reader:
    form, size, ndim = buffer_format(view.item).encode(), view.item.size, view.ndim

    def read(address: int) -> object:
        words = _lib.ffi.unpack(_lib.ffi.cast("intptr_t *", address), 1 + 2 * ndim)
        shape, strides = tuple(words[1 : 1 + ndim]), tuple(words[1 + ndim :])
        start = words[0] % 2 ** (8 * _lib.ffi.sizeof("void *"))
        return _as_array(_ext.Memory(start, form, size, shape, strides, readonly), ndim)

    return read


# -- callbacks -----------------------------------------------------------------------------------


def _result_cif(signature: Signature, kept: bool, encoding: str | None) -> CallInterface | None:
    """Return a call interface that converts a result: it takes the result as its only argument.

    Return None for `void` and for Python objects.
    """
    result = signature.result
    if result.kind in ("void", "object"):
        return None
    if kept and result.kind == "function":
        keeping = DEFAULT._replace(encoding=encoding, keep="process")
        return callinterface.of(Signature(VOID, (result,)), 0, keeping)
    text = signature.characters[-1] if signature.characters and encoding is not None else ""
    if not text or text[0] in "(*":
        return callinterface.of_argument(result, DEFAULT._replace(encoding=encoding))
    taking = Signature(VOID, (result,), readonly=(True,), characters=(text, ""))
    return callinterface.of(taking, 0, DEFAULT._replace(encoding=encoding))


_specs: Fifo[object, CallbackSpec] = Fifo()


def spec_of(
    signature: Signature,
    sentinel: bytes,
    *,
    keep: object = None,
    tells_last: bool = False,
    encoding: str | None = None,
    **how: bool,
) -> CallbackSpec:
    """Return the spec that all callbacks of a signature with the same options share.

    Parameters
    ----------
    signature : Signature
    sentinel : bytes
        The bytes that C gets if there is no result.
    keep : object
        The objects that the sentinel points to.
    tells_last : bool
        Whether the last argument is an ``int *`` that is set to 1 on failure. The Python functions
        do not get this argument.
    encoding : str or None
        The encoding of text in arguments and results; with None, text is passed as pointers.
    has_gil : bool
        Whether C code always holds the GIL when it calls.
    python_errors : bool
        Whether C code that holds the GIL checks for exceptions.
    passed : bool
        Whether the functions are arguments of a call, which raises their exceptions.
    kept : bool
        Whether C stores the functions, and also the functions that they return.
    sets_errno : bool
        Whether a failure sets errno.

    Raises
    ------
    SignatureError
        For types that the ABI does not support.
    """
    result = signature.result
    types = (result.named, *[arg.named for arg in signature.args])
    texts = encoding and (signature.characters, encoding)
    wanted = types, signature.readonly, texts, sentinel, tells_last, tuple(how.items())
    known = _specs.get(wanted) if not keep else None
    if known is not None:
        return known
    count = len(signature.args) - tells_last
    text = (signature.characters or ("",) * count)[:count]
    told = zip(signature.args[:count], signature.readonly[:count], text, strict=True)
    made = _ext.CallbackSpec(
        tuple([reader(*one, encoding) for one in told]),
        object_offsets(result),
        callinterface.letter(result),
        _result_cif(signature, how.get("kept", False), encoding),
        callplan.closure(signature, tells_last=tells_last),
        sentinel,
        keep=keep or None,
        **how,
    )
    if not keep:
        _specs.put(wanted, made)
    return made
