"""The loops of ufuncs, as LLVM IR: functions of NumPy's that call a C function for each element.

A loop is called as ``void (char **args, intptr_t *dimensions, intptr_t *steps, void *data)``. What
it calls is at the start of `data`, after which come the addresses of `NEEDED`; or it is named, for
a linker that has its IR, and then LLVM sees the function inside of the loop. For that the loop is
there twice: operands without gaps are in one that can be vectorized. The function's callable, which
makes exceptions of its failures, follows its address in `data`.

Guarantees: the usual way allocates nothing and takes no lock. A generalised operand that C code
must have without gaps is copied where it has some; without memory for that, MemoryError is set.
Inputs are only read; outputs may be the same memory as inputs, element by element.
"""

from __future__ import annotations

import hashlib
from typing import Final

from llvmlite import ir

from .._adapt.ufunc import Address, Length, LoopPlan, Passed, Reference, Told, Value, Viewed
from .._signature.ctype import CType, integer_range, scalar
from .._values.failure import CONVENTIONS
from . import abi, engine
from .abi.lowering import POINTER, reserve
from .failurecode import failed
from .loop import EXPORT, NEEDED, key, lengths
from .shape import WORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PLACES: Final = {name: (index + 2) * WORD for index, name in enumerate(NEEDED)}
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

    def __init__(self, type: CType, base: ir.Value, step: ir.Value, steps: list[ir.Value]) -> None:
        self.type = type
        self.base = base
        self.step = step
        self.steps = steps  # of the core dimensions
        self.size = type.size
        self.at: ir.Value = None  # of the element
        self.lengths: list[ir.Value] = []
        self.has_gaps: ir.Value = None
        self.copy: ir.Value = None  # memory for it without gaps, NULL where it has none


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
        self.lengths = [self.word(dimensions, 1 + one) for one in range(plan.dimensions)]
        self.operands = [
            self.operand(index, type, args, steps) for index, type in enumerate(plan.operands)
        ]
        self.pointer = self.named
        if self.pointer is None:
            self.pointer = builder.load(data, align=WORD, typ=POINTER)
        self.end = builder.append_basic_block("end")
        if plan.needs_gil:
            state = self.serve("PyGILState_Ensure", _INT)
        if plan.core is not None:
            self.prepare_copies()
            self.check_lengths(count)
        unit = None
        if self.named is not None and plan.core is None:
            unit = self.is_unit()
        if unit is not None:
            fast, slow = builder.append_basic_block("fast"), builder.append_basic_block("slow")
            builder.cbranch(unit, fast, slow)
            builder.position_at_end(fast)
            self.loop(count, unit=True)
            builder.position_at_end(slow)
        self.loop(count, unit=False)
        builder.position_at_end(self.end)
        for one in self.operands:
            if one.copy is not None:
                self.serve("PyMem_RawFree", _VOID, one.copy)
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
        """A call of one of `NEEDED`."""
        pointer = self.builder.load(self.at(self.data, _PLACES[name]), align=WORD, typ=POINTER)
        function = ir.FunctionType(result, [value.type for value in values])
        return self.builder.call(abi.Callee(pointer, function), values)

    def operand(self, index: int, type: CType, args: ir.Value, steps: ir.Value) -> _Operand:
        plan = self.plan
        core = []
        if plan.core is not None:
            first = plan.steps_of(index)
            core = [self.word(steps, first + axis) for axis in range(len(plan.core[index]))]
        made = _Operand(type, self.word(args, index, POINTER), self.word(steps, index), core)
        if plan.core is not None:
            made.lengths = [self.lengths[one] for one in plan.core[index]]
        return made

    def is_unit(self) -> ir.Value:
        """Whether no operand has gaps."""
        found = ir.IntType(1)(1)
        for one in self.operands:
            same = self.builder.icmp_signed("==", one.step, _LONG(one.size))
            found = self.builder.and_(found, same)
        return found

    def count_to(
        self,
        count: ir.Value,
        body: Callable[[ir.Value], None],
        leave: ir.Block | None = None,
    ) -> None:
        """Write a loop from 0 to `count`, with `body` called with the number; go on after it."""
        builder = self.builder
        before = builder.block
        begin = builder.append_basic_block()
        after = builder.append_basic_block() if leave is None else leave
        builder.cbranch(builder.icmp_signed(">", count, _LONG(0)), begin, after)
        builder.position_at_end(begin)
        index = builder.phi(_LONG)
        index.add_incoming(_LONG(0), before)
        body(index)
        following = builder.add(index, _LONG(1), flags=["nuw", "nsw"])
        index.add_incoming(following, builder.block)
        back = builder.cbranch(builder.icmp_signed("==", following, count), after, begin)
        if leave is not None and self.named is None:
            back.set_metadata("llvm.loop", _Aligned())
        if leave is None:
            builder.position_at_end(after)

    def loop(self, count: ir.Value, *, unit: bool) -> None:
        """The loop over all elements, to the end of the function."""

        def element(index: ir.Value) -> None:
            for one in self.operands:
                step = _LONG(one.size) if unit else one.step
                one.at = self.at(one.base, self.builder.mul(index, step))
            self.element()

        self.count_to(count, element, self.end)

    # -- an element ------------------------------------------------------------------------------

    def element(self) -> None:
        """Call the function for one element."""
        plan, builder = self.plan, self.builder
        for one in self.operands:
            if one.copy is not None:
                self.copied(one, into=True)
        given = [self.argument(how, index) for index, how in enumerate(plan.arguments)]
        # After all values are read: an output may be the memory of an input.
        for how in plan.arguments:
            if isinstance(how, (Address, Viewed)) and self.has_core(how.operand):
                self.begin_array(how)
            elif isinstance(how, Address) and how.is_output:
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
        for index, one in enumerate(self.operands):
            if one.copy is not None and index >= len(plan.inputs):
                self.copied(one, into=False)

    def look(self, answer: ir.Value, given: list[ir.Value]) -> None:
        """Go on after a call that has not failed; else raise what its convention means, and end."""
        builder, errors = self.builder, self.errors
        code: ir.Value = _INT(0)
        value: ir.Value = _LONG(0)
        if errors.shown_by == "nothing":
            return
        if errors.shown_by == "exception":
            occurred = self.serve("PyErr_Occurred", POINTER)
            passed = builder.icmp_unsigned("==", occurred, ir.Constant(POINTER, None))
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

    def has_core(self, operand: int) -> bool:
        core = self.plan.core
        return core is not None and bool(core[operand])

    def argument(self, how: Passed, index: int) -> ir.Value:
        match how:
            case Value(operand):
                return self.value(self.operands[operand])
            case Reference(operand):
                one = self.operands[operand]
                slot = reserve(self.builder, one.size, max(one.type.alignment, 8))
                self.copy_bytes(slot, one.at, one.type)
                return slot
            case Address(operand, _, _):
                return self.memory(self.operands[operand])
            case Viewed(operand, _):
                return self.descriptor(self.operands[operand])
            case Length(dimension):
                ctype = self.plan.signature.args[index]
                return self.builder.trunc(self.lengths[dimension], ir.IntType(8 * ctype.size))
            case Told():
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

    def begin_array(self, how: Address | Viewed) -> None:
        """Let an output that the function changes in place have what its input has."""
        if how.given is None:
            return
        one, before = self.operands[how.operand], self.operands[how.given]
        if isinstance(how, Viewed):
            self.move(one, one.at, one.steps, before.at, before.steps)
        else:
            self.move(one, self.memory(one), self.dense(one), before.at, before.steps)

    def store(self, operand: int, offset: int, answer: ir.Value, memory: ir.Value) -> None:
        one = self.operands[operand]
        if memory is None:
            self.builder.store(answer, one.at, align=one.type.alignment)
        else:
            self.copy_bytes(one.at, self.at(memory, offset), one.type)

    def descriptor(self, one: _Operand) -> ir.Value:
        """A strided view: data, lengths, steps."""
        builder = self.builder
        count = 1 + 2 * len(one.lengths)
        slot = reserve(builder, count * WORD, WORD)
        builder.store(one.at, slot, align=WORD)
        for index, word in enumerate((*one.lengths, *one.steps)):
            builder.store(word, self.at(slot, (index + 1) * WORD), align=WORD)
        return slot

    # -- operands with gaps ----------------------------------------------------------------------

    def prepare_copies(self) -> None:
        """Get memory for the operands that C code must have without gaps, and that have some."""
        plan, builder = self.plan, self.builder
        wanted = {one.operand for one in plan.arguments if isinstance(one, Address)}
        copies = [one for index, one in enumerate(self.operands) if index in wanted and one.steps]
        if not copies:
            return
        null = ir.Constant(POINTER, None)
        short = ir.IntType(1)(0)
        for one in copies:
            size: ir.Value = _LONG(one.size)
            one.has_gaps = ir.IntType(1)(0)
            for length, step in zip(reversed(one.lengths), reversed(one.steps), strict=True):
                differs = builder.icmp_signed("!=", step, size)
                longer = builder.icmp_signed(">", length, _LONG(1))
                one.has_gaps = builder.or_(one.has_gaps, builder.and_(differs, longer))
                size = builder.mul(size, length)
            before = builder.block
            make, after = builder.append_basic_block(), builder.append_basic_block()
            builder.cbranch(one.has_gaps, make, after)
            builder.position_at_end(make)
            got = self.serve("PyMem_RawMalloc", POINTER, size)
            builder.branch(after)
            builder.position_at_end(after)
            one.copy = builder.phi(POINTER)
            one.copy.add_incoming(null, before)
            one.copy.add_incoming(got, make)
            missing = builder.icmp_unsigned("==", one.copy, null)
            short = builder.or_(short, builder.and_(one.has_gaps, missing))
        enough, fails = builder.append_basic_block(), builder.append_basic_block()
        builder.cbranch(short, fails, enough)
        builder.position_at_end(fails)
        state = self.serve("PyGILState_Ensure", _INT)
        self.serve("PyErr_NoMemory", POINTER)
        self.serve("PyGILState_Release", _VOID, state)
        builder.branch(self.end)
        builder.position_at_end(enough)

    def check_lengths(self, count: ir.Value) -> None:
        """End where a dimension is too long for the integer that the function gets it as."""
        builder = self.builder
        for dimension, letter in lengths(self.plan):
            _, most = integer_range(scalar(letter))
            if most >= 2**63 - 1:
                continue
            length = self.lengths[dimension]
            longer = builder.icmp_signed(">", length, _LONG(most))
            some = builder.icmp_signed(">", count, _LONG(0))
            with builder.if_then(builder.and_(longer, some), likely=False):
                state = self.serve("PyGILState_Ensure", _INT)
                function = self.word(self.data, 1, POINTER)
                self.serve("nc_fail_length", _VOID, function, length, _INT(ord(letter)))
                self.serve("PyGILState_Release", _VOID, state)
                builder.branch(self.end)

    def memory(self, one: _Operand) -> ir.Value:
        """Where an operand is without gaps."""
        if one.copy is None:
            return one.at
        return self.builder.select(one.has_gaps, one.copy, one.at)

    def copied(self, one: _Operand, *, into: bool) -> None:
        """Copy an operand with gaps to its other memory, or back."""
        builder = self.builder
        work, after = builder.append_basic_block(), builder.append_basic_block()
        builder.cbranch(one.has_gaps, work, after)
        builder.position_at_end(work)

        ours, theirs = (one.copy, self.dense(one)), (one.at, one.steps)
        self.move(one, *(ours if into else theirs), *(theirs if into else ours))
        self.builder.branch(after)
        builder.position_at_end(after)

    def dense(self, one: _Operand) -> list[ir.Value]:
        """The steps of an operand without gaps."""
        steps = [_LONG(one.size)]
        for length in reversed(one.lengths[1:]):
            steps.insert(0, self.builder.mul(steps[0], length))
        return steps

    def move(
        self,
        one: _Operand,
        target: ir.Value,
        target_steps: list[ir.Value],
        source: ir.Value,
        source_steps: list[ir.Value],
    ) -> None:
        """Copy all that an operand has from one place to another."""

        def axis(level: int, to: ir.Value, of: ir.Value) -> None:
            if level == len(one.lengths):
                self.copy_bytes(to, of, one.type)
                return

            def item(index: ir.Value) -> None:
                multiply = self.builder.mul
                further = self.at(to, multiply(index, target_steps[level]))
                axis(level + 1, further, self.at(of, multiply(index, source_steps[level])))

            self.count_to(one.lengths[level], item)

        axis(0, target, source)


def _plain(type: CType) -> ir.Type:
    """A type of IR to move values in memory by, with all their bytes."""
    if type.kind in ("struct", "complex") or type.size > 8:
        width = min(8, type.alignment)
        return ir.ArrayType(ir.IntType(8 * width), type.size // width)
    return ir.IntType(8 * type.size)
