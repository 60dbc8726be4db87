"""Calls through libffi: signatures that have no trampoline, where none can be generated.

ctypes is the way to libffi, not cffi: cffi drops the GIL around every call, and an entry that says
``gil="hold"``, or takes Python objects, must be called with the GIL held. ctypes has both kinds of
call. Arguments are converted by `_values.storage`, into memory of C layout, so results are the same
as a trampoline's.
"""

from __future__ import annotations

import ctypes
from _ctypes import set_errno
from itertools import islice
from weakref import ref

from .. import _lib
from .._signature.ctype import CType
from .._signature.signature import Signature
from .._values import callspec, storage
from .._values.failure import convention, raise_failure
from .._values.fortran import lengths
from .._values.variadic import extra_argument
from . import types
from .callback import object_callbacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._types import CallSpec, Foreign
    from .._values.boxes import Native

_types = _lib.types


def foreign_function(type_: Foreign, address: int) -> Foreign:
    """A function of ctypes that raises what a Python function left, however ctypes calls it."""
    function = type_(address)
    function.errcheck = _types.raise_left
    return function


def called(function: Foreign, arguments: Sequence[object]) -> Foreign:
    """What a function of ctypes returns for arguments that are instances of its very types."""
    try:
        return function(*arguments)
    except ctypes.ArgumentError as error:
        trace = error.__traceback__
        if trace is not None and trace.tb_next is not None:
            raise  # a Python function that C called raised it
        # All that ctypes can fail to do with them is to make its own objects of them, and it
        # loses why.
        raise MemoryError from None


def lose(address: int, result: Foreign) -> None:
    """Have the core know the pointer that a function gave whose call raises."""
    word = int(_lib.ffi.cast("uintptr_t *", ctypes.addressof(result))[0])
    _types.lose_result(address, word)


def _pointer_function(type_: Foreign, address: int) -> Foreign:
    """`foreign_function` of one that gives a pointer."""
    function = foreign_function(type_, address)
    raise_left = function.errcheck

    def look(result: Foreign, called: Foreign, arguments: tuple[Foreign, ...]) -> Foreign:
        try:
            return raise_left(result, called, arguments)
        except BaseException:
            lose(address, result)
            raise

    function.errcheck = look
    return function


def make_fallback(callable: Native) -> Callable[..., object]:
    """A function of Python arguments that calls the only entry of `callable` through libffi."""
    spec, address, flags = callable._entry()
    return fallback_for(spec, callable.__name__, address, flags, ref(callable))


def fallback_for(
    spec: CallSpec, name: str, address: int, flags: int, owner: Callable[[], Native | None]
) -> Callable[..., object]:
    """The same of what makes up an entry, and of a weak reference to the callable that has it."""
    signature: Signature = spec.signature
    hold = not flags & _lib.FLAG_RELEASE_GIL
    holds_objects = "O" in signature.result.text
    errors = convention(flags)
    errno = bool(flags & _lib.FLAG_ERRNO) or errors.shown_by == "errno"
    type_ = types.prototype(signature, hold=hold, errno=errno)
    types.check_result(signature)
    texts = lengths(signature) if spec.policies.fortran else ()
    fixed = errors.passed(signature.args)
    fixed, counts = fixed[: len(fixed) - len(texts)], fixed[len(fixed) - len(texts) :]
    offsets, size = types.layout(fixed)
    # The very types of the prototype: those of `foreign_type` may be made anew.
    declared = iter(type_._argtypes_)
    halved = types.overrunning(signature)
    kinds = [tuple(islice(declared, 2 if i in halved else 1)) for i in range(len(fixed))]
    result_type = signature.result
    is_text = bool(signature.characters and signature.characters[-1])
    gives_pointer = callspec.letter(result_type) == "P"
    make = _pointer_function if gives_pointer else foreign_function
    function = make(type_, address)
    # ctypes' copies, libffi's, and those of a thunk on the way.
    needed = 3 * types.bytes_passed(signature)
    asks = needed > 3 * callspec.MOST_UNASKED
    pin = _lib.types.pin
    settle = _lib.types.settle
    check_unmoved = _lib.types.check_unmoved

    def convert_one(index: int, ctype: CType, value: object, at: int, keep: list[object]) -> None:
        if ctype.kind in ("pointer", "voidptr", "function"):
            if index < len(fixed):
                held = pin(spec, name, index, value)
            else:
                # const cannot be said after the fixed arguments: memory of any kind passes.
                who = f"argument {index + 1} of '{name}'"
                held = pin(callspec.of_argument(ctype, spec.policies, True), who, -1, value)
            keep.append(held)
            _lib.ffi.cast("uintptr_t *", at)[0] = held.address
            return
        promised = index < len(fixed) and signature.readonly[index]
        who = f"argument {index + 1} of '{name}'"
        storage.store(ctype, value, at, who, keep, promised, spec.policies)

    def fallback(*values: object) -> object:
        keep: list[object] = []
        try:
            return call(values, keep)
        finally:
            # Tracebacks keep frames: nothing may stay exported in one.
            keep.clear()

    def call(values: tuple[object, ...], keep: list[object]) -> object:
        if asks:
            _types.stack_require(name, needed)
        extra: list[CType] = []
        places, total, passed = offsets, size, kinds
        if len(values) > len(fixed):
            types.check_count(len(values))
            given: list[object] = []
            for i in range(len(fixed), len(values)):
                ctype, number = extra_argument(values[i], i, name, spec.policies.encoding)
                extra.append(ctype)
                given.append(number)
            values = (*values[: len(fixed)], *given)
            places, total = types.layout(fixed + tuple(extra))
            passed = kinds + [(types.foreign_type(one),) for one in extra]
        memory = ctypes.create_string_buffer(total + 16)
        base = (ctypes.addressof(memory) + 15) & ~15
        arguments: list[object] = []
        starts: list[int] = []  # in `keep`, of what each argument keeps
        for i, value in enumerate(values):
            starts.append(len(keep))
            ctype = fixed[i] if i < len(fixed) else extra[i - len(fixed)]
            at = base + places[i]
            if ctype.kind == "object":
                arguments.append(ctypes.py_object(value))
                continue
            convert_one(i, ctype, value, at, keep)
            if types.is_referenced(ctype):
                arguments.append(types.RAW_POINTER(at))
                continue
            arguments += [one.from_address(at + types.WORD * k) for k, one in enumerate(passed[i])]
        if keep and len(values) > 1:
            check_unmoved(keep, name)
        for ctype, index in zip(counts, texts, strict=True):
            length = _types.text_length(keep[starts[index]], name, index, values[index])
            arguments.append(types.foreign_type(ctype)(length))
        told = ctypes.c_int()
        if errors.hidden:
            arguments.append(types.RAW_POINTER(ctypes.addressof(told)))
        callee = function
        entry = owner()
        target = address if entry is None else entry._target
        if target != address:
            # What an argument ran while it was converted has replaced the entry.
            callee = make(type_, target)
        code = 0
        others = set_errno(0) if errno else 0
        answer: Foreign = None
        raised: BaseException | None = None
        callback = object_callbacks.get(target) if holds_objects else None
        if callback is not None:
            callback.forget_sentinels()
        try:
            answer = called(callee, arguments)
        except BaseException as error:
            raised = error
            if callback is not None:
                # With an exception ctypes gives no result; a callback's was its sentinel.
                callback.release_sentinel()
        if errno:
            # The user's own copy is not for calls from here.
            code = set_errno(others)
            _lib.types.save_errno(code)
        if errors.hidden:
            code = told.value
        try:
            if keep or raised is not None:
                settle(keep, raised)
        except BaseException:
            if holds_objects and answer is not None:
                storage.load(result_type, ctypes.addressof(answer), owned=True)
            if gives_pointer and answer is not None:
                lose(target, answer)
            raise
        finally:
            raised = None
        if result_type.kind == "void":
            value = None
        elif result_type.kind == "object":
            value = _lib.types.take_object(name, answer.value or 0, errors.flags, code)
        elif is_text:
            value = _types.text_result(spec, answer.value) if answer.value else None
        else:
            found = ctypes.addressof(answer)
            value = storage.load(result_type, found, owned=True, policies=spec.policies)
        if errors.reaches_c:
            # What took an object has looked for NULL; None is an object.
            shown = answer if result_type.kind == "object" else value
            try:
                raise_failure(name, errors.flags, shown, code)
            except BaseException:
                if gives_pointer:
                    lose(target, answer)
                raise
        return value

    return fallback
