"""Write LLVM IR of conversions: thunks, and the loops of elementwise ufuncs.

The generated code executes the ops of a conversion (_plan/conversion.py), which
csrc/call/convert.c interprets. Ops read and write places. A place is an IR value until its address
is needed, so moves cost nothing.

A thunk is entered through a stub, whose context is the Thunk (csrc/call/thunkobject.h).

A loop is called as ``void (char **args, intptr_t *dimensions, intptr_t *steps, void *data)``. The
address of the function that it calls is at the start of `data` (csrc/call/convert.h). If the IR of
this function is linked in, the loop calls it by name instead, and LLVM inlines it. Such a loop is
written twice, so that LLVM can vectorize the copy for contiguous operands.

Guarantees:

- The common path takes no lock, allocates nothing and calls only the function itself. Code that
  takes the GIL, accesses errno, or converts numbers other than integers, floats and doubles, also
  calls C functions of the core.
- If an argument cannot be converted, the function is not called. If the result cannot be converted,
  nothing is written.
- The code contains no names or messages. It reports a failure as the number of the failed step.
- A loop only reads its inputs. Outputs may share memory with inputs, element by element.
"""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Final

from llvmlite import ir

from .. import _ext
from .._errors import TYPE_CHECKING
from .._plan import conversion as ops
from .._plan.abi import Passing
from .._plan.conversion import BLOCK, BOUND, DATA, FRAME, At, Conversion, LoopPlan, Op
from .._plan.steps import NOWHERE
from .._types.ctype import CType, integer_range
from .._values.callinterface import letter
from . import abi
from .abi import POINTER, at_bytes, reserve, width_of

if TYPE_CHECKING:
    from collections.abc import Callable

    _Require = Callable[[ir.Value], None]

_WORD: Final = 8  # bytes of a pointer on all supported platforms
#: Offsets of the fields that generated code reads in the core's objects. Generated code finds the
#: core's functions in the table `nc_symbols`; `_PLACES` has their offsets in this table.
_LAYOUT: Final = _ext.code_layout()
_PLACES: Final = {name: index * _WORD for index, name in enumerate(_ext.code_symbols())}
_BYTE: Final = ir.IntType(8)
_INT: Final = ir.IntType(32)
_LONG: Final = ir.IntType(64)
_VOID: Final = ir.VoidType()
# Aligns loops. A loop is a few instructions around a call. If they cross a 32-byte boundary,
# processors fetch them more slowly: the loop of a function that only adds takes a fifth longer.
_ALIGNED: Final = """
!32 = distinct !{!32, !33}
!33 = !{!"llvm.loop.align", i32 32}
"""


def thunk(made: Conversion, export: str) -> str:
    """Return the LLVM IR of a thunk with the symbol `export`.

    Raises `Unsupported` if the C ABI of this machine is unknown.
    """
    return _Thunk(made, export).text()


def loop(
    plan: LoopPlan,
    name: str,
    callee: str | None = None,
    module: ir.Module | None = None,
) -> str:
    """Return the LLVM IR of a loop.

    Parameters
    ----------
    plan : LoopPlan
    name : str
        The symbol of the loop.
    callee : str, optional
        The symbol by which the linker finds the function. By default, the loop reads the function's
        address from `data`.
    module : llvmlite.ir.Module, optional
        The module to write to; a new one by default.
    """
    written = _Loop(plan, name, callee, ir.Module() if module is None else module).text()
    return written + _ALIGNED if callee is None else written


@dataclass
class _Slot:
    """A place: a value, or memory once its address is needed."""

    size: int
    value: ir.Value | None = None
    memory: ir.Value | None = None
    is_copied: bool = False  # whether the call itself copies the object


class _Code(ABC):
    """Writes the code of one conversion into a function."""

    #: The function to call; the object that holds the address of `nc_symbols`; the offset of that
    #: address in the object.
    target: ir.Value
    data: ir.Value
    symbols: int

    def __init__(self, made: Conversion, module: ir.Module) -> None:
        self.made = made
        self.before = [*itertools.takewhile(lambda op: op.code != ops.CALL, made.ops)]
        self.module = module
        self.inner = abi.spell(made.inner, made.fixed)
        self.builder: ir.IRBuilder
        self.left: ir.Block | None = None
        self.taken: ir.Value = None  # the state of the GIL before it was taken

    def text(self) -> str:
        """Return the module's text."""
        self.write()
        return str(self.module).replace('target triple = "unknown-unknown-unknown"\n', "")

    @abstractmethod
    def write(self) -> None:
        """Write the whole function."""

    @abstractmethod
    def fail(self, step: int, bits: ir.Value) -> None:
        """Write the exit for a failed step."""

    def is_silent(self, step: int) -> bool:
        """Return whether the result alone shows the caller that a step failed."""
        shown = self.made.flags & (ops.REACHES_C | ops.TELLS | ops.SETS_ERRNO)
        return step == self.made.tested and shown == ops.REACHES_C

    def leave(self) -> ir.Block:
        """Return the block that only returns the sentinel."""
        if self.left is None:
            self.left = self.block()
        return self.left

    # -- parts of code ---------------------------------------------------------------------------

    def block(self) -> ir.Block:
        return self.builder.append_basic_block()

    def load(self, type: ir.Type, address: ir.Value, offset: int, align: int = _WORD) -> ir.Value:
        return self.builder.load(at_bytes(self.builder, address, offset), align=align, typ=type)

    def serve(self, name: str, result: ir.Type, *values: ir.Value) -> ir.Value:
        """Call a function of the core."""
        table = self.load(POINTER, self.data, self.symbols)
        pointer = self.load(POINTER, table, _PLACES[name])
        function = ir.FunctionType(result, [value.type for value in values])
        return self.builder.call(abi.Callee(pointer, function), values)

    def require(self, step: int, word: Callable[[], ir.Value], condition: ir.Value) -> None:
        """Continue if the condition holds, which is likely; else fail the step with `word()`."""
        failing = self.leave() if self.is_silent(step) else self.block()
        self.go_on(condition, failing)
        if not self.is_silent(step):
            with self.builder.goto_block(failing):
                self.fail(step, word())

    def go_on(self, condition: ir.Value, otherwise: ir.Block) -> None:
        here = self.block()
        self.builder.cbranch(condition, here, otherwise).set_weights([1000, 1])
        self.builder.position_at_end(here)

    def word(self, ctype: CType, value: ir.Value) -> ir.Value:
        """Convert a number to 64 bits for the code that creates exceptions."""
        if isinstance(value.type, ir.IntType):
            return self.extended(value, _LONG, _signed(ctype))
        return self.builder.bitcast(self.resized(value, ir.DoubleType()), _LONG)

    def extended(self, value: ir.Value, type: ir.Type, is_signed: bool) -> ir.Value:
        """Change the width of an integer."""
        if value.type.width >= type.width:
            return self.builder.trunc(value, type) if value.type != type else value
        return (self.builder.sext if is_signed else self.builder.zext)(value, type)

    def fill(self, target: ir.Value, size: int, source: ir.Value | None = None) -> None:
        """Copy or clear bytes inline.

        Calls of libc would be external references, and only LLVM could load such code.
        """
        source = _BYTE(0) if source is None else source
        kind = ir.FunctionType(_VOID, [POINTER, source.type, _LONG, ir.IntType(1)])
        name, types = "llvm.memset.inline", [POINTER, _LONG]
        if source.type == POINTER:
            name, types = "llvm.memcpy.inline", [POINTER, POINTER, _LONG]
        function = self.module.declare_intrinsic(name, types, kind)
        self.builder.call(function, [target, source, _LONG(size), ir.IntType(1)(0)])

    # -- places ----------------------------------------------------------------------------------

    def begin(self, block: dict[int, _Slot]) -> None:
        """Begin the frame of a call."""
        areas = {at: _Slot(size) for at, size in self.made.areas.items()}
        bound = {0: _Slot(0, memory=self.data)}
        self.slots = {FRAME: areas, BLOCK: block, BOUND: bound}
        self.memories = [self.lay(FRAME, one) for one in self.made.inner.args]
        if self.made.inner.result.how == "reference":
            self.lay(FRAME, self.made.inner.result)

    def lay(self, base: int, passing: Passing, given: ir.Value | None = None) -> ir.Value:
        """Create the slots of a value; `given` is the value, if it exists already.

        If the value is passed in pieces, return its memory.
        """
        slots = self.slots[base]
        if passing.how == "stack":
            slots[passing.places[0]] = _Slot(passing.ctype.size, memory=given, is_copied=True)
        elif passing.how == "pieces":
            if given is None:
                given = self.reserve(passing.ctype.size)
            for offset, place, _ in passing.moves:
                slots[place] = _Slot(0, memory=at_bytes(self.builder, given, offset))
            return given
        else:
            for place in passing.places:
                slots[place] = _Slot(_WORD, given)
        return None

    def reserve(self, size: int) -> ir.Value:
        return reserve(self.builder, size, 8 if size <= 8 else 16)

    def find(self, at: At) -> tuple[_Slot, int]:
        """Return the slot that contains a place, and the place's offset in the slot."""
        slots = self.slots[at.base]
        start = max([one for one in slots if one <= at.at])
        return slots[start], at.at - start

    def address(self, at: At) -> ir.Value:
        """Return the address of a place."""
        if at.base & ops.POINTER:
            direct = At(at.base & ~ops.POINTER, at.at)
            return at_bytes(self.builder, self.read(direct, POINTER), at.offset)
        slot, offset = self.find(at)
        if slot.memory is None:
            slot.memory = self.reserve(slot.size)
            if slot.value is not None:
                self.builder.store(slot.value, slot.memory, align=1)
                slot.value = None
        return at_bytes(self.builder, slot.memory, offset)

    def known(self, at: At) -> ir.Value | None:
        """Return the value of a slot; None if it is in memory."""
        if at.base == DATA or at.base & ops.POINTER:
            return None
        slot, offset = self.find(at)
        return slot.value if offset == 0 else None

    def constant(self, at: At, size: int) -> ir.Value:
        bits = self.made.data[at.at : at.at + size]
        return ir.IntType(8 * size)(int.from_bytes(bits, "little"))

    def read(self, at: At, type: ir.Type) -> ir.Value:
        """Return the value at a place."""
        builder, size = self.builder, width_of(type)
        value = self.constant(at, size) if at.base == DATA else self.known(at)
        if value is None or width_of(value.type) < size:
            return builder.load(self.address(at), align=1, typ=type)
        if value.type == type:
            return value
        if isinstance(value.type, ir.PointerType):
            value = builder.ptrtoint(value, _LONG)
        if width_of(value.type) > size:
            value = builder.trunc(value, ir.IntType(8 * size))
        if isinstance(type, ir.PointerType):
            return builder.inttoptr(value, type)
        return value if value.type == type else builder.bitcast(value, type)

    def put(self, at: At, value: ir.Value) -> None:
        """Write a value to a place."""
        if not at.base & ops.POINTER:
            slot, offset = self.find(at)
            if slot.memory is None and offset == 0:
                slot.value = value
                return
        self.builder.store(value, self.address(at), align=1)

    # -- ops -------------------------------------------------------------------------------------

    def run(self, what: list[Op]) -> None:
        """Write the code of ops."""
        for op in what:
            self.perform(op)

    def perform(self, op: Op) -> None:
        builder = self.builder
        keep = _INT(int(bool(self.made.flags & ops.KEEPS)))
        match op.code:
            case ops.COPY:
                self.move(op)
            case ops.SIGNED | ops.UNSIGNED | ops.TRUTH:
                value = self.read(op.source, ir.IntType(8 * op.size))
                if op.code == ops.TRUTH:
                    value = builder.icmp_unsigned("!=", value, value.type(0))
                wide = ir.IntType(8 * op.width)
                self.put(op.to, self.extended(value, wide, op.code == ops.SIGNED))
            case ops.ADDRESS:
                self.put(op.to, self.address(op.source))
            case ops.CLEAR:
                self.fill(self.address(op.to), op.size)
            case ops.NUMBER:
                self.convert(op)
            case ops.EQUAL | ops.OTHER:
                value = self.read(op.source, abi.value_type(op.types[0]))
                number = value.type(op.size)
                relation = "==" if op.code == ops.EQUAL else "!="
                holds = builder.icmp_unsigned(relation, value, number)
                self.require(op.step, partial(self.word, op.types[0], value), holds)
            case ops.ERRNO | ops.RAISED:
                asked = "nc_thunk_errno" if op.code == ops.ERRNO else "nc_thunk_raised"
                self.put(op.to, self.serve(asked, _INT))
            case ops.CALL:
                self.call()
            case ops.NO_ERRNO:
                self.serve("nc_thunk_set_errno", _VOID, _INT(0))
            case ops.TAKE_GIL:
                self.taken = self.serve("nc_thunk_take_gil", _INT)
                self.go_on(builder.icmp_signed(">=", self.taken, _INT(0)), self.leave())
            case ops.DROP_GIL:
                self.serve("nc_thunk_drop_gil", _VOID, self.data, self.taken, keep)
            case ops.SETTLE:
                self.serve("nc_thunk_settle", _VOID, self.data)

    def move(self, op: Op) -> None:
        """Write a copy of bytes."""
        size, known = op.size, self.known(op.source)
        if op.source.base == DATA:
            value = self.constant(op.source, size)
            if size <= _WORD or value.constant:
                self.put(op.to, value)
            else:
                self.fill(self.address(op.to), size)
        elif known is not None and width_of(known.type) == size:
            self.put(op.to, known)
        elif size in (1, 2, 4, 8):
            self.put(op.to, self.read(op.source, ir.IntType(8 * size)))
        elif not self.shares(op.to, size):
            self.fill(self.address(op.to), size, self.address(op.source))
        else:
            self.find(op.to)[0].memory = self.address(op.source)

    def shares(self, to: At, size: int) -> bool:
        """Return whether the copy of an object can be skipped.

        It can if the call itself copies the object, and no op before the call writes through a
        pointer.
        """
        if to.base & ops.POINTER or any([one.to.base & ops.POINTER for one in self.before]):
            return False
        slot, _ = self.find(to)
        return slot.is_copied and slot.memory is None and slot.size == size

    def call(self) -> None:
        """Write the call of the function."""
        made, result = self.made.inner, self.made.inner.result
        arguments = []
        for one, memory in zip(made.args, self.memories, strict=True):
            at = At(FRAME, one.places[0])
            if one.how == "stack":
                arguments.append(self.address(at))
            elif one.how == "pieces":
                arguments.append(memory)
            else:
                type = POINTER if one.how == "reference" else abi.value_type(one.ctype)
                arguments.append(self.read(at, type))
        if result.how == "reference":
            memory = self.read(At(FRAME, result.places[0]), POINTER)
        else:
            memory = self.lay(FRAME, result)
        answer = self.inner.emit_call(self.builder, self.target, arguments, memory)
        if result.how == "value":
            self.put(At(FRAME, result.places[0]), answer)
        if isinstance(self.target, ir.Function) and isinstance(answer, ir.CallInstr):
            answer.attributes.add("alwaysinline")

    # -- numbers ---------------------------------------------------------------------------------

    def convert(self, op: Op) -> None:
        """Write the conversion of a number."""
        source, target = op.types
        if abi.in_memory(source) or abi.in_memory(target):
            self.by_core(op)
            return
        builder, type = self.builder, abi.value_type(target)
        value = self.read(op.source, abi.value_type(source))
        require = partial(self.require, op.step, partial(self.word, source, value))
        whole = source if source.kind != "float" else target
        to_integer, to_float = builder.fptoui, builder.uitofp
        if _signed(whole):
            to_integer, to_float = builder.fptosi, builder.sitofp
        if source.kind == target.kind == "float":
            made = self.resized(value, type)
            if op.exact:
                require(builder.fcmp_unordered("==", self.resized(made, value.type), value))
            elif op.step >= 0:
                self.require_no_escape(require, made, value)
        elif source.kind == "float":
            self.require_inside(require, value, whole)
            made = to_integer(value, type)
            require(builder.fcmp_ordered("==", to_float(made, value.type), value))
        elif target.kind == "float":
            made = to_float(value, type)
            if op.exact and op.step >= 0:
                self.require_inside(require, made, whole)
                require(builder.icmp_unsigned("==", to_integer(made, value.type), value))
        else:
            least, greatest = integer_range(source)
            low, high = integer_range(target)
            compare = builder.icmp_signed if _signed(source) else builder.icmp_unsigned
            fits = [compare(">=", value, value.type(low))] * (least < low)
            fits += [compare("<=", value, value.type(high))] * (high < greatest)
            require(functools.reduce(builder.and_, fits))
            made = self.extended(value, type, _signed(source))
        self.put(op.to, made)

    def require_no_escape(self, require: _Require, made: ir.Value, value: ir.Value) -> None:
        """Fail if a finite value became infinite; the common path only tests the result."""
        builder = self.builder
        rare, usual = self.block(), self.block()
        builder.cbranch(self.infinite(made), rare, usual).set_weights([1, 1000])
        builder.position_at_end(rare)
        require(self.infinite(value))
        builder.branch(usual)
        builder.position_at_end(usual)

    def require_inside(self, require: _Require, value: ir.Value, whole: CType) -> None:
        """Require that a float is in the range of an integer type, so that it can be converted.

        Fractions inside the range pass here; the comparison after the conversion rejects them.
        """
        low, high = integer_range(whole)
        # Each bound is zero or a power of two (perhaps negative), so a float type represents the
        # bound exactly if it is in the type's range.
        least = self.builder.fcmp_ordered(">=", value, self.number(float(low), value.type))
        greatest = self.builder.fcmp_ordered("<", value, self.number(float(high + 1), value.type))
        require(self.builder.and_(least, greatest))

    def by_core(self, op: Op) -> None:
        """Call the core to convert a number larger than a register, or a half-precision float."""
        source, target = [_INT(ord(letter(one))) for one in op.types]
        bits = self.reserve(_WORD)
        values = source, self.address(op.source), target, self.address(op.to)
        fits = self.serve("nc_thunk_convert", _INT, *values, _INT(int(op.exact)), bits)
        if op.step >= 0:
            passed = self.builder.icmp_unsigned("!=", fits, _INT(0))
            self.require(op.step, partial(self.load, _LONG, bits, 0), passed)

    def number(self, number: float, type: ir.Type) -> ir.Value:
        return self.resized(ir.DoubleType()(number), type)

    def resized(self, value: ir.Value, type: ir.Type) -> ir.Value:
        """Change the width of a float."""
        if value.type == type:
            return value
        widens = type == ir.DoubleType()
        return (self.builder.fpext if widens else self.builder.fptrunc)(value, type)

    def infinite(self, value: ir.Value) -> ir.Value:
        ends = [
            self.builder.fcmp_ordered("==", value, self.number(end, value.type))
            for end in (float("inf"), float("-inf"))
        ]
        return self.builder.or_(*ends)


def _signed(ctype: CType) -> bool:
    return bool(getattr(ctype, "signed", False))


class _Thunk(_Code):
    """Writes a thunk."""

    symbols = _LAYOUT["thunk_values"]

    def __init__(self, made: Conversion, export: str) -> None:
        super().__init__(made, ir.Module())
        self.outer = abi.spell(made.outer)
        self.function = self.outer.define(self.module, export, nest=True)
        self.builder = ir.IRBuilder(self.function.append_basic_block())
        self.failed: ir.Function | None = None
        self.has_result = False  # whether the slots of the result exist

    def write(self) -> None:
        made = self.made
        arguments, self.memory = self.outer.emit_prologue(self.builder, self.function)
        self.data = self.load(POINTER, self.function.args[0], _LAYOUT["stub_context"])
        self.target = self.load(POINTER, self.data, _LAYOUT["thunk_target"])
        self.begin({})
        for one, value in zip(made.outer.args, arguments, strict=True):
            self.lay(BLOCK, one, value)
        if made.outer.result.how == "reference":  # the caller passed the address
            self.lay_result()
        self.run(made.ops)
        self.give()
        if self.left is not None:
            self.builder.position_at_end(self.left)
            self.give_nothing()

    def lay_result(self) -> None:
        self.has_result = True
        self.lay(BLOCK, self.made.outer.result, self.memory)

    def perform(self, op: Op) -> None:
        if op.to.base == BLOCK and not self.has_result:
            # Ops write only the result to the block, after all arguments were read. Don't create
            # the result's slots earlier: on 64-bit ARM, arguments and results share registers.
            self.lay_result()
        super().perform(op)

    def give(self) -> None:
        """Write the code that returns the result from the block."""
        result, value = self.made.outer.result, None
        if result.how == "value":
            value = self.read(At(BLOCK, result.places[0]), abi.value_type(result.ctype))
        self.outer.emit_return(self.builder, self.memory, value)

    def give_nothing(self) -> None:
        """Write the code that returns the sentinel of a failed call."""
        self.slots[BLOCK] = {}
        self.lay_result()
        self.run(self.made.failed)
        self.give()

    def fail(self, step: int, bits: ir.Value) -> None:
        made = self.made
        values = [self.data, _LONG(step), bits]
        if made.outer.result.how == "reference":
            values.append(self.memory)
        if made.told != NOWHERE:
            values.append(self.read(At(BLOCK, made.told), POINTER))
        if self.failed is None:
            self.failed = self.write_failed(values)
        # This is a tail call, so that the common path needs no frame for the call.
        value = self.builder.call(self.failed, values, tail="tail")
        if isinstance(value.type, ir.VoidType):
            self.builder.ret_void()
        else:
            self.builder.ret(value)

    def write_failed(self, values: list[ir.Value]) -> ir.Function:
        """Write the function that raises a step's exception and returns the sentinel."""
        made = self.made
        returned = self.function.function_type.return_type
        type = ir.FunctionType(returned, [value.type for value in values])
        function = ir.Function(self.module, type, "failed")
        # If it were not weak, LLVM would propagate its constant result and drop the tail call.
        function.linkage = "weak"
        function.attributes.add("noinline")
        function.attributes.add("cold")
        kept = self.builder, self.data, self.memory, self.slots[BLOCK], self.has_result
        self.builder = ir.IRBuilder(function.append_basic_block())
        self.data, step, bits, *more = function.args
        if made.outer.result.how == "reference":
            self.memory = more.pop(0)
        elif made.outer.result.how == "pieces":
            self.memory = self.reserve(made.outer.result.ctype.size)
        told = more[0] if more else ir.Constant(POINTER, None)
        numbers = _INT(made.flags), _INT(made.tested)
        self.serve("nc_thunk_failed", _VOID, self.data, step, bits, *numbers, told)
        self.give_nothing()
        self.builder, self.data, self.memory, self.slots[BLOCK], self.has_result = kept
        return function


# -- loops ---------------------------------------------------------------------------------------


class _Aligned:
    """A reference to the metadata of `_ALIGNED`."""

    def get_reference(self) -> str:
        return "!32"


class _Loop(_Code):
    """Writes a loop."""

    symbols = 2 * _WORD

    def __init__(self, plan: LoopPlan, name: str, callee: str | None, module: ir.Module) -> None:
        super().__init__(ops.loop(plan)[1], module)
        self.plan = plan
        kind = ir.FunctionType(_VOID, [POINTER] * 4)
        self.function = ir.Function(module, kind, name)
        self.function.attributes.add("nounwind")
        self.builder = ir.IRBuilder(self.function.append_basic_block("start"))
        self.named = None if callee is None else self.inner.define(module, callee)

    def write(self) -> None:
        plan, builder = self.plan, self.builder
        args, dimensions, strides, self.data = self.function.args
        count = self.load(_LONG, dimensions, 0)
        places = range(0, len(plan.operands) * _WORD, _WORD)
        self.bases = [self.load(POINTER, args, at) for at in places]
        own = [self.load(_LONG, strides, at) for at in places]
        self.target = self.load(POINTER, self.data, 0) if self.named is None else self.named
        self.left = end = builder.append_basic_block("end")
        if plan.needs_gil:
            state = self.serve("PyGILState_Ensure", _INT)
        if self.named is not None:
            units = [_LONG(one.size) for one in plan.operands]
            fast, slow = builder.append_basic_block("fast"), builder.append_basic_block("slow")
            is_unit = ir.IntType(1)(1)
            for one, unit in zip(own, units, strict=True):
                is_unit = builder.and_(is_unit, builder.icmp_signed("==", one, unit))
            builder.cbranch(is_unit, fast, slow)
            builder.position_at_end(fast)
            self.elements(count, units)
            builder.position_at_end(slow)
        self.elements(count, own)
        builder.position_at_end(end)
        if plan.needs_gil:
            self.serve("PyGILState_Release", _VOID, state)
        builder.ret_void()

    def elements(self, count: ir.Value, strides: list[ir.Value]) -> None:
        """Write the loop over all elements. The loop exits to the end of the function."""
        builder = self.builder
        before = builder.block
        begin = self.block()
        builder.cbranch(builder.icmp_signed(">", count, _LONG(0)), begin, self.leave())
        builder.position_at_end(begin)
        index = builder.phi(_LONG)
        index.add_incoming(_LONG(0), before)
        block = {}
        for number, (base, stride) in enumerate(zip(self.bases, strides, strict=True)):
            element = builder.gep(base, [builder.mul(index, stride)], source_etype=_BYTE)
            element.type = POINTER
            block[number * _WORD] = _Slot(_WORD, element)
        self.begin(block)
        self.run(self.made.ops)
        following = builder.add(index, _LONG(1), flags=["nuw", "nsw"])
        index.add_incoming(following, builder.block)
        back = builder.cbranch(builder.icmp_signed("==", following, count), self.leave(), begin)
        if self.named is None:
            back.set_metadata("llvm.loop", _Aligned())

    def fail(self, step: int, bits: ir.Value) -> None:
        numbers = _INT(self.made.flags), _INT(self.made.errors)
        self.serve("nc_loop_failed", _VOID, self.data, bits, *numbers)
        self.builder.branch(self.leave())
