"""The code of a thunk, as LLVM IR.

A thunk is what a C programmer would write by hand: it checks, converts and loads, calls, and
converts the result.

Guarantees:

- The usual way takes no lock, allocates nothing and calls nothing but the function itself. Errno,
  and numbers other than integers, floats and doubles, are calls of C functions of the core.
- Where an argument does not pass the function is not called; where the result does not, nothing is
  written.
- Names and messages are not in the code: it calls `nc_thunk_failed` with the number of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir

from .._adapt.plan import (
    INPUT_OUTPUT_ERROR,
    OUT_OF_RANGE,
    Argument,
    Bound,
    Constant,
    Convert,
    ErrorOut,
    Load,
    Memory,
    Node,
    OutSlot,
    OutValue,
    Plan,
    Result,
)
from .._types.ctype import CType, integer_range
from .._values.callspec import letter
from .._values.storage import sentinel_of
from . import abi
from .abi.lowering import POINTER, reserve
from .failurecode import failed
from .shape import PLACES, WORD, layout

_BYTE: Final = ir.IntType(8)
_INT: Final = ir.IntType(32)
_LONG: Final = ir.IntType(64)


def written(plan: Plan, export: str, convention: abi.Convention | None = None) -> str:
    """The LLVM IR of a plan's thunk, for this machine or by another convention; `export` is the
    name of its function. `Unsupported` where the convention does not describe it.
    """
    platform = abi.known(convention)
    inner = [*plan.inner.args]
    inner += [node.type for node in plan.arguments[len(inner) :]]
    outer = platform.lower(plan.outer.result, plan.outer.args)
    called = platform.lower(plan.inner.result, inner, plan.variadic)
    return _ThunkCode(plan, outer, called, export).text()


class _ThunkCode:
    """Writes the code of one thunk."""

    def __init__(self, plan: Plan, outer: abi.Lowering, inner: abi.Lowering, export: str) -> None:
        self.plan = plan
        self.outer = outer
        self.inner = inner
        self.module = ir.Module()
        self.function = outer.define(self.module, export, nest=True)
        self.builder = ir.IRBuilder(self.function.append_basic_block())
        self.leave: ir.Block | None = None  # the block that returns the sentinel
        self.failed: ir.Function | None = (
            None  # the function that raises an exception and returns it
        )
        self.room: ir.Value = None  # what the function writes to
        self.told: ir.Value = None  # the int where it says that it failed
        self.answer: ir.Value = None  # its result, or the memory that holds it

    def text(self) -> str:
        """The module's text."""
        plan, builder = self.plan, self.builder
        self.prologue = self.outer.emit_prologue(builder, self.function)
        data = self.load(POINTER, self.function.args[0], layout["stub_context"])
        self.data = data
        target = self.load(POINTER, data, layout["thunk_target"])
        for check in plan.checks:
            given = self.prologue.arguments[check.index]
            wanted = ir.Constant(given.type, check.count)
            holds = builder.icmp_unsigned("==" if check.count is not None else "!=", given, wanted)
            ctype = plan.outer.args[check.index]
            bits = _LONG(0) if check.count is None else self.word(ctype, given)
            self.require(holds, check.step, bits)
        arguments = [self.value(node) for node in plan.arguments]
        if plan.clears_errno_before:
            self.serve("nc_thunk_set_errno", ir.VoidType(), _INT(0))
        taken = self.take_gil() if plan.takes_gil else None
        self.call(target, arguments)
        if taken is not None:
            keep = _INT(int(plan.after.shown_by == "exception"))
            self.serve("nc_thunk_drop_gil", ir.VoidType(), data, taken, keep)
        if plan.settles:
            self.serve("nc_thunk_settle", ir.VoidType(), data)
        if plan.tested >= 0:
            self.test()
        values = [(index, self.value(node)) for index, node in plan.stores]
        result = None if plan.result is None else self.value(plan.result)
        for (index, value), (_, node) in zip(values, plan.stores, strict=True):
            self.put(node.type, value, self.prologue.arguments[index])
        if plan.clears_errno_after:
            self.serve("nc_thunk_set_errno", ir.VoidType(), _INT(0))
        self.give(result)
        self.finish()
        return str(self.module).replace('target triple = "unknown-unknown-unknown"\n', "")

    # -- parts of code ---------------------------------------------------------------------------

    def at(self, address: ir.Value, offset: int) -> ir.Value:
        """The address `offset` bytes on."""
        if offset == 0:
            return address
        found = self.builder.gep(address, [_LONG(offset)], inbounds=True, source_etype=_BYTE)
        found.type = POINTER
        return found

    def load(self, type: ir.Type, address: ir.Value, offset: int, align: int = WORD) -> ir.Value:
        return self.builder.load(self.at(address, offset), align=align, typ=type)

    def reserve(self, size: int, alignment: int) -> ir.Value:
        """Memory in the frame."""
        return reserve(self.builder, size, alignment)

    def serve(self, name: str, result: ir.Type, *values: ir.Value) -> ir.Value:
        """A call of a function of the core."""
        table = self.load(POINTER, self.data, layout["thunk_values"])
        pointer = self.load(POINTER, table, PLACES[name])
        function = ir.FunctionType(result, [value.type for value in values])
        return self.builder.call(abi.Callee(pointer, function), values)

    def take_gil(self) -> ir.Value:
        """Take the GIL, or return the sentinel where the function must not be called."""
        taken = self.serve("nc_thunk_take_gil", _INT)
        here = self.builder.append_basic_block()
        had = self.builder.icmp_signed(">=", taken, _INT(0))
        self.builder.cbranch(had, here, self.sentinel()).set_weights([1000, 1])
        self.builder.position_at_end(here)
        return taken

    def require(self, condition: ir.Value, step: int, bits: ir.Value) -> None:
        """Go on where the condition holds, as it nearly always does."""
        builder = self.builder
        here = builder.append_basic_block()
        failed = builder.append_basic_block()
        builder.cbranch(condition, here, failed).set_weights([1000, 1])
        builder.position_at_end(failed)
        self.fail(step, bits)
        builder.position_at_end(here)

    def fail(self, step: int, bits: ir.Value) -> None:
        """Raise the step's exception, and return the sentinel."""
        if self.failed is None:
            self.failed = self.write_failed()
        memory = ir.Constant(POINTER, None)
        if self.outer.result.how == "reference":
            memory = self.prologue.result_memory
        values = [self.data, _LONG(step), bits, memory]
        if self.plan.after.hidden:
            values.append(self.prologue.arguments[-1])
        # A tail call: so the usual way needs no frame for this.
        value = self.builder.call(self.failed, values, tail="tail")
        if isinstance(value.type, ir.VoidType):
            self.builder.ret_void()
        else:
            self.builder.ret(value)

    def write_failed(self) -> ir.Function:
        """A function that raises a step's exception and returns the sentinel."""
        hidden = self.plan.after.hidden
        type = ir.FunctionType(
            self.function.function_type.return_type,
            [POINTER, _LONG, _LONG, POINTER, *[POINTER] * hidden],
        )
        function = ir.Function(self.module, type, "failed")
        # Or LLVM sees what it returns, and returns that itself after the call.
        function.linkage = "weak"
        function.attributes.add("noinline")
        function.attributes.add("cold")
        data, step, bits, memory = function.args[:4]
        kept = self.builder, self.data
        self.builder, self.data = ir.IRBuilder(function.append_basic_block()), data
        keep = _INT(int(self.plan.after.shown_by == "exception"))
        self.serve("nc_thunk_failed", ir.VoidType(), data, step, bits, keep)
        if self.plan.after.shown_by == "errno":
            self.serve("nc_thunk_set_errno", ir.VoidType(), _INT(OUT_OF_RANGE))
        if hidden:
            self.builder.store(_INT(1), function.args[4], align=4)
        if self.outer.result.how == "pieces":
            memory = self.reserve(self.plan.outer.result.size, self.plan.outer.result.alignment)
        self.give_sentinel(abi.Prologue((), memory))
        self.builder, self.data = kept
        return function

    def sentinel(self) -> ir.Block:
        """The block that returns the sentinel, and no more."""
        if self.leave is None:
            self.leave = self.function.append_basic_block()
        return self.leave

    def finish(self) -> None:
        """Write the block of the sentinel, if there is one."""
        if self.leave is not None:
            self.builder.position_at_end(self.leave)
            self.give_sentinel(self.prologue)

    def give_sentinel(self, prologue: abi.Prologue) -> None:
        """Return what C gets for a call that failed."""
        result = self.plan.outer.result
        value = None
        if abi.in_memory(result):
            self.fill(result, prologue.result_memory)
        elif result.kind != "void":
            type = abi.value_type(result)
            none = float("nan") if result.kind == "float" else self.plan.after.sentinel
            value = ir.Constant(type, none or None)
        self.outer.emit_return(self.builder, prologue, value)

    def fill(self, ctype: CType, memory: ir.Value) -> None:
        """NaN, or zeros, as a type that is in memory."""
        if ctype.kind == "struct":
            self.clear(memory, ctype.size)
            return
        bits = sentinel_of(ctype)
        for offset in range(0, ctype.size, WORD):
            part = bits[offset : offset + WORD]
            word = ir.IntType(8 * len(part))(int.from_bytes(part, "little"))
            self.builder.store(word, self.at(memory, offset), align=1)

    # Never calls of libc's: code that refers to nothing outside is loaded without LLVM.

    def clear(self, memory: ir.Value, size: int) -> None:
        self.inline("llvm.memset.inline", [POINTER, _LONG], memory, _BYTE(0), size)

    def copy(self, target: ir.Value, source: ir.Value, size: int) -> None:
        self.inline("llvm.memcpy.inline", [POINTER, POINTER, _LONG], target, source, size)

    def inline(
        self, name: str, types: list[ir.Type], target: ir.Value, value: ir.Value, size: int
    ) -> None:
        kind = ir.FunctionType(ir.VoidType(), [POINTER, value.type, _LONG, ir.IntType(1)])
        function = self.module.declare_intrinsic(name, types, kind)
        self.builder.call(function, [target, value, _LONG(size), ir.IntType(1)(0)])

    def put(self, ctype: CType, value: ir.Value, address: ir.Value) -> None:
        """Write a value to memory."""
        if abi.in_memory(ctype):
            self.copy(address, value, ctype.size)
        else:
            self.builder.store(value, address, align=ctype.alignment)

    # -- the call --------------------------------------------------------------------------------

    def call(self, target: ir.Value, arguments: Sequence[ir.Value]) -> None:
        result = self.plan.inner.result
        memory = None
        if abi.in_memory(result):
            passed = isinstance(self.plan.result, Result)
            memory = self.prologue.result_memory if passed else None
            if memory is None:
                memory = self.reserve(result.size, result.alignment)
        answer = self.inner.emit_call(self.builder, target, arguments, memory)
        self.answer = memory if memory is not None else answer

    def give(self, result: ir.Value | None) -> None:
        """Return the thunk's result."""
        ctype = self.plan.outer.result
        if abi.in_memory(ctype):
            if result is not self.prologue.result_memory:
                self.copy(self.prologue.result_memory, result, ctype.size)
            result = None
        self.outer.emit_return(self.builder, self.prologue, result)

    def test(self) -> None:
        """Leave where the function failed."""
        plan, builder = self.plan, self.builder
        bits: ir.Value = _LONG(0)
        code: ir.Value | None = None
        match plan.before.shown_by:
            case "exception":
                raised = self.serve("nc_thunk_raised", _INT)
                passed = builder.icmp_unsigned("==", raised, _INT(0))
            case "errno" | "argument":
                if plan.before.hidden:
                    told = self.prologue.arguments[-1] if plan.after.hidden else self.told
                    code = self.load(_INT, told, 0, 4)
                else:
                    code = self.serve("nc_thunk_errno", _INT)
                bits = builder.sext(code, _LONG)
                passed = builder.not_(failed(builder, plan.before, None, code))
            case _:
                passed = builder.not_(failed(builder, plan.before, self.answer, None))
                if plan.before.needs == "integer":
                    bits = self.word(plan.inner.result, self.answer)
        if not plan.after.reaches_c:
            self.require(passed, plan.tested, bits)
            return
        here = builder.append_basic_block()
        is_told = plan.tells or plan.after.shown_by == "errno"
        failing = builder.append_basic_block() if is_told else self.sentinel()
        builder.cbranch(passed, here, failing).set_weights([1000, 1])
        if is_told:
            builder.position_at_end(failing)
            if plan.tells:
                says = _INT(1) if code is None else code
                builder.store(says, self.prologue.arguments[-1], align=4)
            else:
                # What the function left there may say why.
                code = self.serve("nc_thunk_errno", _INT)
                said = builder.icmp_unsigned("!=", code, _INT(0))
                code = builder.select(said, code, _INT(INPUT_OUTPUT_ERROR))
                self.serve("nc_thunk_set_errno", ir.VoidType(), code)
            builder.branch(self.sentinel())
        builder.position_at_end(here)

    # -- values ----------------------------------------------------------------------------------

    def value(self, node: Node) -> ir.Value:
        """An IR value, or the memory of a type that is in memory."""
        match node:
            case Argument(index, _):
                return self.prologue.arguments[index]
            case Load(pointer, offset, type):
                return self.found(self.prologue.arguments[pointer.index], offset, type)
            case Convert(source, _, _, _):
                return self.converted(source.type, self.value(source), node)
            case Memory(values, type):
                memory = self.reserve(len(values) * type.size, type.alignment)
                for index, one in enumerate(values):
                    self.put(type, self.value(one), self.at(memory, index * type.size))
                return memory
            case Constant(number, type):
                made = abi.value_type(type)
                return ir.Constant(made, None if isinstance(made, ir.PointerType) else number)
            case Bound(offset, type):
                return self.found(self.data, offset, type)
            case OutSlot(type):
                self.room = self.reserve(type.size, type.alignment)
                self.clear(self.room, type.size)
                return self.room
            case ErrorOut(_):
                self.told = self.reserve(4, 4)
                self.builder.store(_INT(0), self.told, align=4)
                return self.told
            case OutValue(type):
                return self.found(self.room, 0, type)
            case Result(_):
                return self.answer
        raise TypeError(node)

    def found(self, address: ir.Value, offset: int, ctype: CType) -> ir.Value:
        """What is in memory."""
        if abi.in_memory(ctype):
            return self.at(address, offset)
        return self.load(abi.value_type(ctype), address, offset, ctype.alignment)

    def word(self, ctype: CType, value: ir.Value) -> ir.Value:
        """A number in 64 bits, as nc_thunk_failed takes it."""
        builder = self.builder
        if isinstance(value.type, ir.IntType):
            if value.type.width == 64:
                return value
            return builder.sext(value, _LONG) if _signed(ctype) else builder.zext(value, _LONG)
        if value.type != ir.DoubleType():
            value = self.resized(value, ir.DoubleType())
        return builder.bitcast(value, _LONG)

    # -- numbers ---------------------------------------------------------------------------------

    def converted(self, source: CType, value: ir.Value, node: Convert) -> ir.Value:
        """A number as another type."""
        if abi.in_memory(source) or abi.in_memory(node.type):
            return self.by_core(source, value, node)
        return self.number(source, value, node.type, node.step, node.exact)

    def number(
        self, source: CType, value: ir.Value, target: CType, step: int, exact: bool
    ) -> ir.Value:
        """A real number as another type."""
        if target.kind in ("bool", "int"):
            if source.kind != "float":
                return self.integer(source, value, target, step)
            return self.integer_of_float(source, value, target, step)
        type = abi.value_type(target)
        if source.kind != "float":
            return self.float_of_integer(source, value, type, step if exact else -1)
        made = self.resized(value, type)
        if step >= 0 and exact:
            same = self.builder.fcmp_unordered("==", self.resized(made, value.type), value)
            self.require(same, step, self.word(source, value))
        elif step >= 0:
            self.require_no_escape(made, value, step, source)
        return made

    def require_no_escape(self, made: ir.Value, value: ir.Value, step: int, source: CType) -> None:
        """Go on unless a finite value was made an infinity; the usual way asks one question."""
        builder = self.builder
        rare = builder.append_basic_block()
        usual = builder.append_basic_block()
        builder.cbranch(self.infinite(made), rare, usual).set_weights([1, 1000])
        builder.position_at_end(rare)
        self.require(builder.not_(self.finite(value)), step, self.word(source, value))
        builder.branch(usual)
        builder.position_at_end(usual)

    def integer(self, source: CType, value: ir.Value, target: CType, step: int) -> ir.Value:
        builder = self.builder
        if step >= 0:
            least, greatest = integer_range(source)
            low, high = integer_range(target)
            fits = None
            compare = builder.icmp_signed if _signed(source) else builder.icmp_unsigned
            for sign, bound, needed in ((">=", low, least < low), ("<=", high, high < greatest)):
                if needed:
                    one = compare(sign, value, ir.Constant(value.type, bound))
                    fits = one if fits is None else builder.and_(fits, one)
            self.require(fits, step, self.word(source, value))
        type = abi.value_type(target)
        if type.width == value.type.width:
            return value
        if type.width < value.type.width:
            return builder.trunc(value, type)
        return builder.sext(value, type) if _signed(source) else builder.zext(value, type)

    def integer_of_float(
        self, source: CType, value: ir.Value, target: CType, step: int
    ) -> ir.Value:
        builder = self.builder
        type = abi.value_type(target)
        low, high = integer_range(target)
        self.inside(source, value, low, high, value, step)
        made = builder.fptosi(value, type) if _signed(target) else builder.fptoui(value, type)
        back = (builder.sitofp if _signed(target) else builder.uitofp)(made, value.type)
        whole = builder.fcmp_ordered("==", back, value)
        self.require(whole, step, self.word(source, value))
        return made

    def float_of_integer(
        self, source: CType, value: ir.Value, type: ir.Type, step: int
    ) -> ir.Value:
        builder = self.builder
        made = (builder.sitofp if _signed(source) else builder.uitofp)(value, type)
        if step < 0:
            return made
        self.inside(source, value, *integer_range(source), made, step)
        back = (builder.fptosi if _signed(source) else builder.fptoui)(made, value.type)
        self.require(builder.icmp_unsigned("==", back, value), step, self.word(source, value))
        return made

    def inside(
        self, source: CType, value: ir.Value, low: int, high: int, made: ir.Value, step: int
    ) -> None:
        """Require that a float is in the range of an integer type, so that it can be made one.

        -0.5 and the like are: they are no integers, which is seen afterwards.
        """
        builder = self.builder
        # Powers of two, or zero, so exact in any float that reaches them.
        least = builder.fcmp_ordered(">=", made, self.constant(float(low), made.type))
        greatest = builder.fcmp_ordered("<", made, self.constant(float(high + 1), made.type))
        self.require(builder.and_(least, greatest), step, self.word(source, value))

    def by_core(self, source: CType, value: ir.Value, node: Convert) -> ir.Value:
        """A number as another type, where either is more than a register has, or a half."""
        before, after = value, self.reserve(node.type.size, node.type.alignment)
        bits = self.reserve(WORD, WORD)
        if not abi.in_memory(source):
            before = self.reserve(source.size, source.alignment)
            self.builder.store(value, before, align=source.alignment)
        letters = [_INT(ord(letter(one))) for one in (source, node.type)]
        values = (letters[0], before, letters[1], after, _INT(int(node.exact)), bits)
        fits = self.serve("nc_thunk_convert", _INT, *values)
        if node.step >= 0:
            passed = self.builder.icmp_unsigned("!=", fits, _INT(0))
            self.require(passed, node.step, self.load(_LONG, bits, 0))
        return self.found(after, 0, node.type)

    def constant(self, number: float, type: ir.Type) -> ir.Value:
        return self.resized(ir.DoubleType()(number), type)

    def resized(self, value: ir.Value, type: ir.Type) -> ir.Value:
        """A float of another width."""
        if value.type == type:
            return value
        widens = type == ir.DoubleType()
        return (self.builder.fpext if widens else self.builder.fptrunc)(value, type)

    def infinite(self, value: ir.Value) -> ir.Value:
        ends = [
            self.builder.fcmp_ordered("==", value, self.constant(end, value.type))
            for end in (float("inf"), float("-inf"))
        ]
        return self.builder.or_(*ends)

    def finite(self, value: ir.Value) -> ir.Value:
        ends = [
            self.builder.fcmp_ordered("!=", value, self.constant(end, value.type))
            for end in (float("inf"), float("-inf"))
        ]
        return self.builder.and_(*ends)


def _signed(ctype: CType) -> bool:
    return bool(getattr(ctype, "signed", False))
