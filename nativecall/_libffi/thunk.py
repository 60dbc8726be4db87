"""Thunks where no code can be generated: callbacks that carry out a plan in Python, which calls the
function through libffi.

Values stay in memory as C has them, so that nothing is lost on the way. The results and the
exceptions are those of generated thunks (_codegen/thunk.py). Every call takes the GIL.
"""

from __future__ import annotations

import ctypes
import sys
from _ctypes import get_errno, set_errno

from .. import _lib
from .._adapt import plan as nodes
from .._plan import closureplan
from .._signature.ctype import VOIDPTR, CType
from .._values import callspec, storage
from . import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from .._types import Foreign

    class Maker(Protocol):
        """What makes the exceptions of a thunk."""

        @property
        def name(self) -> str: ...
        def make(self, step: int, value: Foreign) -> BaseException: ...


_WORD = VOIDPTR.size
#: The core's letter for a result whose bytes the function returns.
_RAW = "y"
_types = _lib.types


def _foreign_function(type_: Foreign, address: int) -> Foreign:
    """A function of ctypes that raises what a Python function left, however ctypes calls it."""
    function = type_(address)
    function.errcheck = _types.raise_left
    return function


def _called(function: Foreign, arguments: Sequence[object]) -> Foreign:
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


class _Failed(Exception):
    """A step failed; the exception for that is made and reported by who catches this."""

    def __init__(self, step: int, value: Foreign) -> None:
        super().__init__(step)
        self.step = step
        self.value = value


def interpreted(
    plan: nodes.Plan, target: int, maker: Maker, data: bytes, kept: object
) -> tuple[int, object]:
    """The address of a callback that carries out a plan, and what keeps it.

    It calls the function at `target`. `data` are the bound values, as they follow the header of a
    generated thunk's data; `kept` lives as long as the callback. SignatureError when C passes an
    argument or the result in no way that is known here.
    """
    types.check_result(plan.inner)
    outer = plan.outer
    spec = _types.CallbackSpec(
        (None,) * len(outer.args),
        (),
        _RAW,
        None,
        closureplan.plan(outer, tells_last=bool(plan.after.hidden), raw=True),
        storage.sentinel_of(outer.result, plan.after.sentinel),
        has_gil=bool(plan.flags & _lib.FLAG_NEEDS_GIL),
        python_errors=plan.after.shown_by == "exception",
    )
    made = _types.PyCallback(spec, _Run(plan, target, maker, data, kept), maker.name, "")
    return made.address, made


class _Run:
    """What the callback runs, with the bytes of each argument: it raises, or returns the bytes of
    the result, None for the sentinel.
    """

    def __init__(
        self, plan: nodes.Plan, target: int, maker: Maker, data: bytes, kept: object
    ) -> None:
        self.kept = kept
        self.plan = plan
        self.maker = maker
        self.data = ctypes.create_string_buffer(nodes.HEADER + len(data) + 16)
        self.base = (ctypes.addressof(self.data) + 15) & ~15
        _write(self.base + nodes.HEADER, data)
        by_errno = "errno" in (plan.before.shown_by, plan.after.shown_by)
        self.uses_errno = by_errno or bool(plan.flags & _lib.FLAG_ERRNO)
        self.inner = plan.inner.result
        hold = not plan.flags & _lib.FLAG_RELEASE_GIL
        prototype = types.prototype(plan.inner, hold=hold, errno=self.uses_errno)
        self.function = _foreign_function(prototype, target)
        declared = list(prototype._argtypes_)
        # A struct may travel as its two words (_libffi/types.py).
        halved = types.overrunning(plan.inner)
        self.types: list[list[Foreign]] = []
        for index in range(len(plan.inner.args)):
            self.types.append([declared.pop(0) for _ in range(2 if index in halved else 1)])
        for node in plan.arguments[len(plan.inner.args) :]:
            self.types.append([types.foreign_type(_type_of(node))])

    def __repr__(self) -> str:
        return repr(self.maker)

    def __call__(self, *given: bytes) -> bytes | None:
        if not self.uses_errno:
            return self.run(given)
        own = get_errno()
        set_errno(_types.swap_errno(0))
        try:
            return self.run(given)
        finally:
            _types.swap_errno(get_errno())
            set_errno(own)

    def run(self, given: tuple[bytes, ...]) -> bytes | None:
        memory: list[object] = []
        plan = self.plan
        call = _Call(self, given, memory)
        try:
            return call.go()
        except _Failed as failed:
            if failed.step == plan.tested and plan.after.reaches_c:
                if plan.after.shown_by == "errno":
                    set_errno(get_errno() or nodes.INPUT_OUTPUT_ERROR)
                elif plan.tells:
                    told = ctypes.c_int.from_address(_word(call.argument(-1)))
                    told.value = failed.value if plan.before.is_code else 1
                return None
            error = self.maker.make(failed.step, failed.value)
        if plan.after.shown_by == "errno":
            set_errno(nodes.OUT_OF_RANGE)
        raise error


class _Call:
    """One call: values are addresses of memory that holds them as C does."""

    def __init__(self, run: _Run, given: tuple[bytes, ...], memory: list[object]) -> None:
        self.run = run
        self.plan = run.plan
        kept = [_lib.ffi.from_buffer(one) for one in given]
        self.given = [int(_lib.ffi.cast("uintptr_t", one)) for one in kept]
        memory += kept
        self.memory = memory  # keeps what addresses point to
        self.room = 0
        self.told = 0
        self.answer = 0

    def go(self) -> bytes | None:
        plan = self.plan
        for check in plan.checks:
            self.check(check.index, check.count, check.step)
        arguments: list[Foreign] = []
        for node, kinds in zip(plan.arguments, self.run.types, strict=True):
            at = self.value(node)
            ctype = _type_of(node)
            if types.is_referenced(ctype):
                # The copy is the callee's to change.
                copy = self.reserve(ctype.size)
                _copy(copy, at, ctype.size)
                arguments.append(types.RAW_POINTER(copy))
                continue
            arguments += [one.from_address(at + _WORD * k) for k, one in enumerate(kinds)]
        self.call(arguments)
        stores = [(index, node.type, self.value(node)) for index, node in plan.stores]
        result = None if plan.result is None else self.value(plan.result)
        for index, ctype, at in stores:
            _copy(_word(self.argument(index)), at, ctype.size)
        if plan.clears_errno_after:
            set_errno(0)
        if result is None:
            return None
        return ctypes.string_at(result, plan.outer.result.size)

    def argument(self, index: int) -> int:
        return self.given[index]

    def check(self, index: int, count: int | None, step: int) -> None:
        at = self.argument(index)
        if count is None:
            if _word(at) == 0:
                raise _Failed(step, 0)
            return
        number = storage.load(self.plan.outer.args[index], at)
        if number != count:
            raise _Failed(step, number)

    def call(self, arguments: list[Foreign]) -> None:
        plan, run = self.plan, self.run
        if plan.clears_errno_before:
            set_errno(0)
        answer = _called(run.function, arguments)
        if run.inner.kind != "void":
            self.memory.append(answer)
            self.answer = ctypes.addressof(answer)
        if plan.tested < 0:
            return
        # An exception of the function was raised by ctypes.
        value: object = None
        code = 0
        if plan.before.hidden:
            told = _word(self.argument(-1)) if plan.after.hidden else self.told
            code = ctypes.c_int.from_address(told).value
        elif plan.before.is_code:
            code = get_errno()
        if plan.before.needs == "pointer":
            value = _word(self.answer) or None
        elif plan.before.needs == "integer":
            value = storage.load(run.inner, self.answer)
        if plan.before.failed(value, code):
            raise _Failed(plan.tested, code or value)

    def reserve(self, size: int) -> int:
        """The address of fresh zeros, as aligned as any type asks for."""
        block = ctypes.create_string_buffer(size + 32)
        self.memory.append(block)
        return (ctypes.addressof(block) + 15) & ~15

    def value(self, node: nodes.Node) -> int:
        match node:
            case nodes.Given(index, _):
                return self.argument(index)
            case nodes.Load(pointer, offset, _):
                return _word(self.argument(pointer.index)) + offset
            case nodes.Convert(source, _, _, _):
                return self.converted(_type_of(source), self.value(source), node)
            case nodes.Memory(values, item):
                at = self.reserve(len(values) * item.size)
                for index, one in enumerate(values):
                    _copy(at + index * item.size, self.value(one), item.size)
                return self.pointer(at)
            case nodes.Constant(number, ctype):
                at = self.reserve(ctype.size)
                _write(at, number.to_bytes(ctype.size, sys.byteorder))
                return at
            case nodes.Bound(offset, _):
                return self.run.base + offset
            case nodes.Room(ctype):
                self.room = self.reserve(ctype.size)
                return self.pointer(self.room)
            case nodes.Written(_):
                return self.room
            case nodes.Told(ctype):
                self.told = self.reserve(ctype.size)
                return self.pointer(self.told)
            case nodes.Result(_):
                return self.answer
        raise TypeError(node)

    def pointer(self, address: int) -> int:
        at = self.reserve(_WORD)
        ctypes.c_void_p.from_address(at).value = address
        return at

    def converted(self, source: CType, at: int, node: nodes.Convert) -> int:
        made = self.reserve(node.type.size)
        letters = callspec.letter(source), callspec.letter(node.type)
        if not _lib.types.convert_number(letters[0], at, letters[1], made, node.exact):
            raise _Failed(node.step, storage.load(source, at))
        return made


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


# By cffi: without memory for its own objects ctypes.memmove() is an ArgumentError.


def _write(target: int, data: bytes) -> None:
    _lib.ffi.memmove(_lib.ffi.cast("char *", target), data, len(data))


def _copy(target: int, source: int, size: int) -> None:
    cast = _lib.ffi.cast
    _lib.ffi.memmove(cast("char *", target), cast("char *", source), size)


def _type_of(node: nodes.Node) -> CType:
    fresh = isinstance(node, (nodes.Memory, nodes.Room, nodes.Told))
    found: CType = VOIDPTR if fresh else node.type
    return found
