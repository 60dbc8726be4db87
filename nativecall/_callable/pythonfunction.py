"""C function pointers that run Python functions: what every callback is made by.

Generated code takes the GIL where that is needed, makes Python objects of the arguments, and
converts what the function returns (csrc/callback/pycallback.h, nativecall/_codegen/callback.py).
Without generated code, ctypes makes the pointer (_libffi/callback.py). What a Python function gets
and may return is decided here for both ways: for the callbacks that people make (_callback.py), and
for Python functions that are passed as function-pointer arguments (arguments.py).
"""

from __future__ import annotations

from .. import _lib
from .._fifo import Cache
from .._signature import bufferformat
from .._signature.ctype import CType, Scalar
from .._signature.derived import Array, Pointer, Struct, View, object_offsets
from .._signature.signature import Signature
from .._values import callspec, storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from .._types import CallbackOptions as Options
    from .._types import CallbackSpec, Memory, PyCallback, Record, Stash

    #: Makes a Python object of what is at an address; of a scalar, the core's letter.
    Reader: TypeAlias = Callable[[int], object] | str

_types = _lib.types
#: Marks a Python object among the readers of arguments.
_OBJECT = "O"
_MOST_PARTS = 256  # of a struct or array that is described part by part


# -- arguments -----------------------------------------------------------------------------------


def reader(ctype: CType, readonly: bool) -> Reader | None:
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
    if isinstance(ctype, Scalar):
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
    return _record(ctype) or (lambda address: storage.load(ctype, address))


def _record(ctype: CType) -> Record | str | None:
    """What reads and writes a struct, or an array in one, of nothing but numbers; else None."""
    if isinstance(ctype, Struct):
        made = storage.named_tuple(ctype)
        parts = [(field.offset, field.type) for field in ctype.fields]
    elif isinstance(ctype, Array):
        made = None
        item = ctype.item if len(ctype.shape) == 1 else Array(ctype.item, ctype.shape[1:])
        parts = [(place * item.size, item) for place in range(ctype.shape[0])]
    else:
        return ctype.letter if isinstance(ctype, Scalar) else None
    if len(parts) > _MOST_PARTS:
        return None
    members = tuple([(offset, _record(part)) for offset, part in parts])
    return None if any([one is None for _, one in members]) else _types.Record(made, members)


def _as_array(memory: Memory, ndim: int) -> object:
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


def _array_reader(item: CType, shape: tuple[int, ...], readonly: bool) -> Reader:
    form, size, ndim = bufferformat.spell(item).encode(), item.size, len(shape)

    def read(address: int) -> object:
        return _as_array(_types.Memory(address, form, size, shape, None, readonly), ndim)

    return read


def _view_reader(view: View, readonly: bool) -> Reader:
    form, size, ndim = bufferformat.spell(view.item).encode(), view.item.size, view.ndim

    def read(address: int) -> object:
        words = _lib.ffi.unpack(_lib.ffi.cast("intptr_t *", address), 1 + 2 * ndim)
        shape, strides = tuple(words[1 : 1 + ndim]), tuple(words[1 + ndim :])
        start = words[0] % 2 ** (8 * _lib.ffi.sizeof("void *"))
        return _as_array(_types.Memory(start, form, size, shape, strides, readonly), ndim)

    return read


# -- callbacks -----------------------------------------------------------------------------------

_specs: Cache[object, tuple[CallbackSpec, str]] = Cache(1024)


def _spec(signature: Signature) -> tuple[CallbackSpec, str]:
    """What all Python functions of a signature share, and the key of its code."""
    from .._codegen.callback import key

    result = signature.result
    wanted = (result.named, *[arg.named for arg in signature.args], signature.readonly)
    found = _specs.get(wanted)
    if found is None:
        pairs = zip(signature.args, signature.readonly, strict=True)

        def write(value: object, address: int, who: str, keep: list[object]) -> None:
            storage.store_whole(result, value, address, who, keep, False)

        is_struct = result.kind == "struct"
        made = _types.CallbackSpec(
            readers=tuple([reader(arg, readonly) for arg, readonly in pairs]),
            objects=object_offsets(result),
            code=callspec.letter(result),
            result=None if result.kind in ("void", "object") else callspec.of_argument(result),
            record=_record(result) if is_struct else None,
            writer=write if is_struct else None,
        )
        found = _specs.keep(wanted, (made, key(signature)))
    return found


def callback_of(
    signature: Signature,
    function: Callable[..., object],
    name: str,
    who: str,
    *,
    sentinel: bytes,
    keep: object = None,
    stash: Stash | None = None,
    has_gil: bool = False,
    python_errors: bool = False,
) -> tuple[int, PyCallback, object]:
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
    has_gil : bool
        Whether C code is known to have the GIL.
    python_errors : bool
        Whether C code that has it looks for exceptions.

    Returns
    -------
    tuple of int, PyCallback and object
        The C function pointer, the core's object, and what keeps both.

    Raises
    ------
    SignatureError
        When only libffi could make it, and cannot.
    """
    from .._codegen.callback import code

    spec, wanted = _spec(signature)
    found = code(signature, wanted)
    options: Options = {
        "stash": stash,
        "keep": keep,
        "has_gil": has_gil,
        "python_errors": python_errors,
    }
    if found is None:
        from .._libffi import callback

        return callback.callback_of(
            signature, spec.readers, function, name, who, sentinel, **options
        )
    made = _types.PyCallback(spec, found, function, name, who, sentinel, **options)
    return made.address, made, made
