"""The loops of elementwise ufuncs, as LLVM IR: functions of NumPy's that call a C function for each
element.

A loop is called as ``void (char **args, intptr_t *dimensions, intptr_t *steps, void *data)``. What
it calls is at the start of `data` (csrc/call/convert.h); or it is named, for a linker that has its
IR, and then LLVM sees the function inside of the loop. For that the loop is there twice: operands
without gaps are in one that can be vectorized. The function's callable, which makes exceptions of
its failures, and the core's symbols follow its address in `data`.

Guarantees: the usual way allocates nothing and takes no lock. Inputs are only read; outputs may be
the same memory as inputs, element by element.
"""

from __future__ import annotations

import hashlib
from typing import Final

from llvmlite import ir

from .._adapt.ufunc import Address, ErrorOut, LoopPlan, Passed, Reference, Value
from .._types.ctype import CType
from .._values.failure import CONVENTIONS
from . import abi, engine
from .abi.lowering import POINTER, reserve
from .failurecode import failed
from .loop import EXPORT, key
from .shape import PLACES, WORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_BYTE: Final = ir.IntType(8)
_INT: Final = ir.IntType(32)
_LONG: Final = ir.IntType(64)
_VOID: Final = ir.VoidType()


# A few instructions around a call: where they cross a border of 32 bytes, processors fetch them
# slower, by a fifth of the time for a function that only adds.
_ALIGNED: Final = """
!32 = distinct !{!32, !33}
!33 = !{!"llvm.loop.align", i32 32}
"""


class _Aligned:
    """A reference to that."""

    def get_reference(self) -> str:
        return "!32"


def joined(plan: LoopPlan, module: str, callee: str, symbols: Mapping[str, int]) -> engine.Code:
    """A loop as `EXPORT`, compiled with the module that defines what it calls.

    `symbols` are the addresses of what that needs. `Unsupported` and RuntimeError as usual.
    """

    def text() -> str:
        own = LoopCode(plan, EXPORT, callee).text()
        lines = [line for line in own.splitlines() if not line.startswith(("declare", "target"))]
        return "\n".join([module, *lines, ""])

    hashed = hashlib.sha256(module.encode()).hexdigest()
    return engine.compile(
        f"{key(plan)} around {callee!r} of {hashed}", text, symbols, (EXPORT,), effort=2
    )


class _Operand:
    """An operand while code is written: its memory, and how it goes on."""

    def __init__(self, type: CType, base: ir.Value, step: ir.Value) -> None:
        self.type = type
        self.base = base
        self.step = step
        self.at: ir.Value = None  # of the element


class LoopCode:
    """Writes the code of one loop.

    Parameters
    ----------
    plan : LoopPlan
    name : str
        Of the loop.
    callee : str, optional
        The symbol of the function, which the linker has; without it its address is in `data`.
    module : llvmlite.ir.Module, optional
        Where it is written; one of its own by default.
    """

    def __init__(
        self,
        plan: LoopPlan,
        name: str = EXPORT,
        callee: str | None = None,
        module: ir.Module | None = None,
    ) -> None:
        platform = abi.known()
        self.errors = CONVENTIONS[plan.errors]
        signature = plan.signature
        self.plan = plan
        self.module = ir.Module() if module is None else module
        self.inner = platform.lower(signature.result, signature.args)
        kind = ir.FunctionType(_VOID, [POINTER] * 4)
        self.function = ir.Function(self.module, kind, name)
        self.function.calling_convention = platform.keyword
        self.function.attributes.add("nounwind")
        self.builder = ir.IRBuilder(self.function.append_basic_block("start"))
        self.named: ir.Value = None
        if callee is not None:
            self.named = self.inner.define(self.module, callee)

    def text(self) -> str:
        """The module's text, with the loop."""
        self.write()
        text: str = str(self.module)
        text = text.replace('target triple = "unknown-unknown-unknown"\n', "")
        return text + _ALIGNED if self.named is None else text

    def write(self) -> None:
        """Write the loop."""
        plan, builder = self.plan, self.builder
        args, dimensions, steps, data = self.function.args
        self.data = data
        count = self.word(dimensions, 0)
        self.operands = [
            _Operand(type, self.word(args, index, POINTER), self.word(steps, index))
            for index, type in enumerate(plan.operands)
        ]
        self.pointer = self.named
        if self.pointer is None:
            self.pointer = builder.load(data, align=WORD, typ=POINTER)
        self.end = builder.append_basic_block("end")
        if plan.needs_gil:
            state = self.serve("PyGILState_Ensure", _INT)
        if self.named is not None:
            fast, slow = builder.append_basic_block("fast"), builder.append_basic_block("slow")
            builder.cbranch(self.is_unit(), fast, slow)
            builder.position_at_end(fast)
            self.loop(count, unit=True)
            builder.position_at_end(slow)
        self.loop(count, unit=False)
        builder.position_at_end(self.end)
        if plan.needs_gil:
            self.serve("PyGILState_Release", _VOID, state)
        builder.ret_void()

    # -- parts of code ---------------------------------------------------------------------------

    def at(self, address: ir.Value, offset: ir.Value | int) -> ir.Value:
        """The address `offset` bytes on."""
        if isinstance(offset, int):
            if offset == 0:
                return address
            offset = _LONG(offset)
        found = self.builder.gep(address, [offset], source_etype=_BYTE)
        found.type = POINTER
        return found

    def word(self, address: ir.Value, index: int, type: ir.Type = _LONG) -> ir.Value:
        return self.builder.load(self.at(address, index * WORD), align=WORD, typ=type)

    def serve(self, name: str, result: ir.Type, *values: ir.Value) -> ir.Value:
        """A call of a function of the core's symbols."""
        place = self.at(self.word(self.data, 2, POINTER), PLACES[name])
        pointer = self.builder.load(place, align=WORD, typ=POINTER)
        function = ir.FunctionType(result, [value.type for value in values])
        return self.builder.call(abi.Callee(pointer, function), values)

    def is_unit(self) -> ir.Value:
        """Whether no operand has gaps."""
        found = ir.IntType(1)(1)
        for one in self.operands:
            same = self.builder.icmp_signed("==", one.step, _LONG(one.type.size))
            found = self.builder.and_(found, same)
        return found

    def loop(self, count: ir.Value, *, unit: bool) -> None:
        """The loop over all elements, to the end of the function."""
        builder = self.builder
        before = builder.block
        begin = builder.append_basic_block()
        builder.cbranch(builder.icmp_signed(">", count, _LONG(0)), begin, self.end)
        builder.position_at_end(begin)
        index = builder.phi(_LONG)
        index.add_incoming(_LONG(0), before)
        for one in self.operands:
            step = _LONG(one.type.size) if unit else one.step
            one.at = self.at(one.base, builder.mul(index, step))
        self.element()
        following = builder.add(index, _LONG(1), flags=["nuw", "nsw"])
        index.add_incoming(following, builder.block)
        back = builder.cbranch(builder.icmp_signed("==", following, count), self.end, begin)
        if self.named is None:
            back.set_metadata("llvm.loop", _Aligned())

    # -- an element ------------------------------------------------------------------------------

    def element(self) -> None:
        """Call the function for one element."""
        plan, builder = self.plan, self.builder
        given = [*map(self.argument, plan.arguments)]
        # After all values are read: an output may be the memory of an input.
        for how in plan.arguments:
            if isinstance(how, Address) and how.is_output:
                self.begin_output(how)
        result = plan.signature.result
        memory = None
        if abi.in_memory(result):
            memory = reserve(builder, result.size, max(result.alignment, 1))
        if self.errors.shown_by == "errno":
            self.serve("nc_thunk_set_errno", _VOID, _INT(0))
        pointer = self.pointer if self.named is None else self.named
        answer = self.inner.emit_call(builder, pointer, given, memory)
        if self.named is not None and isinstance(answer, ir.CallInstr):
            answer.attributes.add("alwaysinline")
        self.look(answer, given)
        for operand, offset in plan.results:
            self.store(operand, offset, answer, memory)

    def look(self, answer: ir.Value, given: list[ir.Value]) -> None:
        """Go on after a call that has not failed; else raise what its convention means, and end."""
        builder, errors = self.builder, self.errors
        code: ir.Value = _INT(0)
        value: ir.Value = _LONG(0)
        if errors.shown_by == "nothing":
            return
        if errors.shown_by == "exception":
            passed = builder.icmp_unsigned("==", self.serve("nc_thunk_raised", _INT), _INT(0))
        else:
            if errors.hidden:
                code = builder.load(given[-1], align=4, typ=_INT)
            elif errors.is_code:
                code = self.serve("nc_thunk_errno", _INT)
            else:
                is_signed = getattr(self.plan.signature.result, "signed", False)
                value = (builder.sext if is_signed else builder.zext)(answer, _LONG)
            passed = builder.not_(failed(builder, errors, answer, code))
        here, failing = builder.append_basic_block(), builder.append_basic_block()
        builder.cbranch(passed, here, failing).set_weights([1000, 1])
        builder.position_at_end(failing)
        if errors.shown_by != "exception":
            state = self.serve("PyGILState_Ensure", _INT)
            number = self.serve("PyLong_FromLongLong", POINTER, value)
            function = self.word(self.data, 1, POINTER)
            self.serve("nc_fail", POINTER, function, number, _LONG(errors.flags), code)
            self.serve("PyGILState_Release", _VOID, state)
        builder.branch(self.end)
        builder.position_at_end(here)

    def argument(self, how: Passed) -> ir.Value:
        match how:
            case Value(operand):
                return self.value(self.operands[operand])
            case Reference(operand):
                one = self.operands[operand]
                slot = reserve(self.builder, one.type.size, max(one.type.alignment, 8))
                self.copy_bytes(slot, one.at, one.type)
                return slot
            case Address(operand, _, _):
                return self.operands[operand].at
            case ErrorOut():
                told = reserve(self.builder, 4, 4)
                self.builder.store(_INT(0), told, align=4)
                return told
        raise TypeError(how)

    def value(self, one: _Operand) -> ir.Value:
        """An element as the lowering takes it."""
        if abi.in_memory(one.type):
            return one.at
        found = self.builder.load(one.at, align=one.type.alignment, typ=abi.value_type(one.type))
        if one.type.kind == "bool":
            truth = self.builder.icmp_unsigned("!=", found, _BYTE(0))
            return self.builder.zext(truth, _BYTE)
        return found

    def copy_bytes(self, target: ir.Value, source: ir.Value, type: CType) -> None:
        kind = _plain(type)
        value = self.builder.load(source, align=type.alignment, typ=kind)
        self.builder.store(value, target, align=type.alignment)

    def begin_output(self, how: Address) -> None:
        one = self.operands[how.operand]
        if how.given is not None:
            self.copy_bytes(one.at, self.operands[how.given].at, one.type)
            return
        none = ir.Constant(_plain(one.type), None)
        self.builder.store(none, one.at, align=one.type.alignment)

    def store(self, operand: int, offset: int, answer: ir.Value, memory: ir.Value) -> None:
        one = self.operands[operand]
        if memory is None:
            self.builder.store(answer, one.at, align=one.type.alignment)
        else:
            self.copy_bytes(one.at, self.at(memory, offset), one.type)


def _plain(type: CType) -> ir.Type:
    """A type of IR to move values in memory by, with all their bytes."""
    if type.kind in ("struct", "complex") or type.size > 8:
        width = min(8, type.alignment)
        return ir.ArrayType(ir.IntType(8 * width), type.size // width)
    return ir.IntType(8 * type.size)
