"""Callbacks through libffi: C function pointers, made by ctypes, that run Python functions."""

from __future__ import annotations

import ctypes
from functools import partial
from weakref import WeakValueDictionary

from .. import _lib
from .._errors import SignatureError
from .._signature.ctype import CType, Immutable
from .._signature.derived import object_offsets
from .._signature.signature import Signature
from .._values import callspec, storage
from .types import RETURN_HINT, SIMPLE, callback_type, foreign_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._types import CallbackOptions, CallbackSpec, CallSpec, CtypesCallback, Foreign

_types = _lib.types

# What came to an end, which C code may be just about to return through; what runs still.
# The first of a ring's items says which was written last: to write needs no memory.
_ENDED = 64
_ended: list[Foreign] = [0, *[None] * _ENDED]
_running: list[tuple[Foreign, CtypesCallback]] = []
#: The core's objects of callbacks whose sentinels may be Python objects, by address.
object_callbacks: WeakValueDictionary[int, CtypesCallback] = WeakValueDictionary()


class Owner(Immutable):
    """Keeps a function pointer of ctypes, and the core's CtypesCallback that it calls."""

    __slots__ = ("__weakref__", "both", "callback", "pointer")

    _shown = "an Owner"
    pointer: Foreign
    callback: CtypesCallback
    both: tuple[Foreign, CtypesCallback]

    def __init__(self, pointer: Foreign, callback: CtypesCallback) -> None:
        if not isinstance(callback, _types.CtypesCallback):
            raise TypeError(f"'callback' must be a CtypesCallback (got {type(callback).__name__})")
        self._fill(callback=callback, both=(pointer, callback), pointer=pointer)

    def __del__(
        self,
        ended: list[Foreign] = _ended,
        running: list[tuple[Foreign, CtypesCallback]] = _running,
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


def spec_of(
    signature: Signature,
    readers: tuple[object, ...],
    converted: CallSpec | None,
    sentinel: bytes,
    options: CallbackOptions,
) -> CallbackSpec:
    """What the callbacks of a signature share; see _callable/pythonfunction.py.

    `readers` make Python objects of the arguments, `converted` says how results are converted.
    SignatureError for results that ctypes does
    not give to C, and arguments that libffi does not know.
    """
    result = signature.result
    if result.text not in SIMPLE and result.kind in ("struct", "complex", "float"):
        raise SignatureError(f"libffi cannot return {result.text!r} to C", hint=RETURN_HINT)
    kinds = [received(arg) for arg in signature.args]
    restype = SIMPLE.get(result.text, ctypes.c_void_p) if result.kind != "void" else None
    foreign, carrier = for_ctypes(restype)

    def write(made: CtypesCallback, value: object) -> object:
        if restype is None:
            return None
        box = restype()
        made.store(value, ctypes.addressof(box))
        return 0 if box.value is None else box.value

    return _types.CallbackSpec(
        tuple([_reader(*pair) for pair in zip(signature.args, readers, strict=False)]),
        object_offsets(result),
        callspec.letter(result),
        converted,
        write,
        sentinel,
        foreign=foreign,
        carrier=carrier,
        pointer_type=callback_type(restype, kinds),
        **options,
    )


def callback_of(
    spec: CallbackSpec,
    function: Callable[..., object],
    name: str,
    who: str | tuple[str, int] | None,
) -> tuple[int, CtypesCallback, Owner]:
    """C code that runs a Python function, made by ctypes; see _callable/pythonfunction.py.

    RuntimeError where the system lets not even libffi have executable memory, which as a rule it
    maps from its own file.
    """
    made = _types.CtypesCallback(spec, function, name, who)
    try:
        pointer = spec.pointer_type(made)
    except MemoryError:
        refused = _types.code_refused()
        if not refused:
            raise
        raise RuntimeError(
            f"{refused}, and libffi has none for a C function pointer to {name!r}; allow the "
            "process memory that is executable, or a libffi of 3.4 or newer to map its own file"
        ) from None
    address = ctypes.c_void_p.from_address(ctypes.addressof(pointer)).value or 0
    if spec.objects:
        object_callbacks[address] = made
    return address, made, Owner(pointer, made)


def received(ctype: CType) -> Foreign:
    """How ctypes hands an argument from C to Python."""
    if ctype.text in SIMPLE:
        return SIMPLE[ctype.text]
    if ctype.kind in ("pointer", "voidptr", "function", "view", "object"):
        return ctypes.c_void_p
    return foreign_type(ctype)


def _reader(ctype: CType, reader: object) -> object:
    """What makes a Python object of that; None for nothing."""
    if ctype.text in SIMPLE:
        return None
    if ctype.kind == "object":
        return reader
    read: Foreign = reader
    if isinstance(reader, _types.CallSpec):
        spec = reader
        if ctype.kind == "struct":
            policies = spec.policies
            return lambda box: storage.load(ctype, ctypes.addressof(box), policies=policies)
        is_text = spec.signature.characters
        read = (
            partial(_types.text_result, spec) if is_text else partial(storage.pointer_result, ctype)
        )
    return lambda address: None if address is None else read(address)
