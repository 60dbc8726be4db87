"""Callbacks through libffi: C function pointers, made by ctypes, that run Python functions."""

from __future__ import annotations

import ctypes
from weakref import WeakValueDictionary

from .. import _lib
from .._errors import SignatureError
from .._fifo import Cache
from .._signature.ctype import CType, Immutable
from .._signature.derived import object_offsets
from .._signature.signature import Signature
from .._values import callspec, storage
from .types import RETURN_HINT, SIMPLE, callback_type, foreign_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Unpack

    from .._types import CallbackOptions, CallbackSpec, PyCallback
    from .types import Foreign

_types = _lib.types

# What came to an end, which C code may be just about to return through; what runs still.
# The first of a ring's items says which was written last: to write needs no memory.
_ENDED = 64
_ended: list[Any] = [0, *[None] * _ENDED]
_running: list[tuple[Foreign, PyCallback]] = []
#: The core's objects of callbacks whose sentinels may be Python objects, by address.
object_callbacks: WeakValueDictionary[int, PyCallback] = WeakValueDictionary()


class Owner(Immutable):
    """Keeps a function pointer of ctypes, and the core's PyCallback that it calls."""

    __slots__ = ("__weakref__", "both", "callback", "pointer")

    _shown = "an Owner"
    pointer: Foreign
    callback: PyCallback
    both: tuple[Foreign, PyCallback]

    def __init__(self, pointer: Foreign, callback: PyCallback) -> None:
        if not isinstance(callback, _types.PyCallback):
            raise TypeError(f"'callback' must be a PyCallback (got {type(callback).__name__})")
        self._fill(callback=callback, both=(pointer, callback), pointer=pointer)

    def __del__(
        self,
        ended: list[Any] = _ended,
        running: list[tuple[Foreign, PyCallback]] = _running,
        count: int = _ENDED,
    ) -> None:
        # The lists are there even when the module is torn down.
        if not hasattr(self, "pointer"):
            return  # it was never made
        # What has ended needs no memory here, for want of which nothing could be raised.
        self.callback.close()
        if not running and not self.callback.running:
            ended[0] = at = ended[0] % count + 1
            ended[at] = self.pointer
            return
        running.append(self.both)
        others = running.copy()
        running.clear()
        for both in others:
            if both[1].running:
                running.append(both)
            else:
                ended[0] = at = ended[0] % count + 1
                ended[at] = both[0]


class _Int(int):
    """An integer for ctypes that carries a reraiser; ctypes drops it when all else is done."""

    reraiser: object


class _Float(float):
    """The same for a float."""

    reraiser: object


def for_ctypes(restype: Foreign) -> tuple[Foreign, type | None]:
    """What gives a sentinel to ctypes, and the class of a result that carries a reraiser."""
    if restype is None:
        return (lambda sentinel: None), None

    def give(sentinel: bytes) -> object:
        return restype.from_buffer_copy(sentinel).value or 0

    return give, _Float if isinstance(restype().value, float) else _Int


_specs: Cache[object, tuple[CallbackSpec, Foreign]] = Cache(1024)


def _spec(
    signature: Signature, readers: tuple[Callable[..., object], ...]
) -> tuple[CallbackSpec, Foreign]:
    """What the callbacks of a signature share, and the ctypes type of their pointers."""
    result = signature.result
    key = (signature.function.named, signature.readonly)
    found = _specs.get(key)
    if found is None:
        if result.text not in SIMPLE and result.kind in ("struct", "complex", "float"):
            raise SignatureError(f"libffi cannot return {result.text!r} to C", hint=RETURN_HINT)
        kinds = [received(arg) for arg in signature.args]
        restype = SIMPLE.get(result.text, ctypes.c_void_p) if result.kind != "void" else None
        give, carrier = for_ctypes(restype)

        def write(made: PyCallback, value: object) -> object:
            if restype is None:
                return None
            box = restype()
            made.store(value, ctypes.addressof(box))
            return 0 if box.value is None else box.value

        spec = _types.CallbackSpec(
            readers=tuple([_reader(*pair) for pair in zip(signature.args, readers, strict=True)]),
            objects=object_offsets(result),
            code=callspec.letter(result),
            result=None if result.kind in ("void", "object") else callspec.of_argument(result),
            record=None,
            writer=write,
            give=give,
            carrier=carrier,
        )
        found = _specs.keep(key, (spec, callback_type(restype, kinds)))
    return found


def callback_of(
    signature: Signature,
    readers: tuple[Callable[..., object], ...],
    function: Callable[..., object],
    name: str,
    who: str,
    sentinel: bytes,
    **options: Unpack[CallbackOptions],
) -> tuple[int, PyCallback, object]:
    """C code that runs a Python function, made by ctypes; see _callable/pythonfunction.py.

    Parameters
    ----------
    readers : tuple
        What makes Python objects of the arguments.
    options
        Those of `PyCallback`.

    Raises
    ------
    SignatureError
        For results that ctypes does not give to C, and arguments that libffi does not know.
    """
    spec, type_ = _spec(signature, readers)
    made = _types.PyCallback(spec, None, function, name, who, sentinel, **options)
    address, owner = pointer_to(made, type_)
    if "O" in signature.result.text:
        object_callbacks[address] = made
    return address, made, owner


def pointer_to(callback: PyCallback, type_: Foreign) -> tuple[int, Owner]:
    """A C function pointer of a ctypes type that calls a PyCallback, and what keeps both."""
    pointer = type_(callback)
    return ctypes.c_void_p.from_address(ctypes.addressof(pointer)).value or 0, Owner(
        pointer, callback
    )


def received(ctype: CType) -> Foreign:
    """How ctypes hands an argument from C to Python."""
    if ctype.text in SIMPLE:
        return SIMPLE[ctype.text]
    if ctype.kind in ("pointer", "voidptr", "function", "view", "object"):
        return ctypes.c_void_p
    return foreign_type(ctype)


def _reader(ctype: CType, reader: Callable[..., object]) -> Callable[..., object] | None:
    """What makes a Python object of that; None for nothing."""
    if ctype.text in SIMPLE:
        return None
    if ctype.kind == "object":
        return reader
    if ctype.kind in ("pointer", "voidptr", "function", "view"):
        return lambda address: None if address is None else reader(address)
    return lambda box: storage.load(ctype, ctypes.addressof(box))
