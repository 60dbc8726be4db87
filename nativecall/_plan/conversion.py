"""Translate plans of rules.py to conversions, which call a C function through another signature.

A `Conversion` lists operations (ops) in order, with the place of each value. A conversion is either
packed as structs of csrc/call/plan.h, which the core executes, or compiled by
_codegen/conversioncode.py.
The body of a ufunc loop is also a conversion.
"""

from __future__ import annotations

import struct
import sys

from .._errors import TYPE_CHECKING
from .._rows import NamedTuple
from .._types.ctype import VOID, VOIDPTR, CType, scalar
from .._values import callinterface, storage
from .._values.failure import CONVENTIONS
from . import callplan, steps
from . import conversionplan as plans
from .abi import Call, Passing
from .steps import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from .._types.signature import Signature
    from .._values.failure import Convention, Errors

# Structs NcConversion, NcOp, NcLoop, NcLoopArray and NcLoopLength.
_CONVERSION = struct.Struct("=11I")
_OP = struct.Struct("=4B2cH4I")
_LOOP = struct.Struct("=8I")
_ARRAY = struct.Struct("=9I")
_LENGTH = struct.Struct("=Ic3x")
FRAME, BLOCK, BOUND, DATA = range(4)
POINTER = 4
COPY, SIGNED, UNSIGNED, TRUTH, ADDRESS, CLEAR = range(6)
NUMBER, _WIDEN, _NARROW, _INTEGER = range(6, 10)
EQUAL, OTHER, ERRNO, RAISED = range(10, 14)
CALL, NO_ERRNO, TAKE_GIL, DROP_GIL, SETTLE = range(14, 19)
KEEPS, SETS_ERRNO, REACHES_C, TELLS, BY_CODE = [1 << bit for bit in range(5)]
_WORD = 8
#: Number conversions with dedicated op codes in the core.
_DIRECT = {("f", "d"): _WIDEN, ("i", "d"): _INTEGER, ("d", "f"): _NARROW}


class At(NamedTuple):
    """The place of a value: `at` bytes from a base.

    If the base includes `POINTER`, a pointer is stored there, and the value is at that pointer plus
    `offset` bytes.
    """

    base: int
    at: int
    offset: int = 0


#: For ops without a source or target.
_NO_PLACE = At(FRAME, 0)


class Op(NamedTuple):
    """One operation (NC_OP_* of plan.h).

    Attributes
    ----------
    code : int
    source, to : At
    size : int
        The number of bytes to copy, read or clear. For a comparison, the value to compare with.
    width : int
        For an extended integer, the number of bytes to fill. The core always fills a word.
    types : (CType, CType)
        The types of a number before and after conversion.
    step : int
        The step of the plan that fails if this op fails; -1 for none.
    exact : bool
        Whether rounding is an error.
    """

    code: int
    source: At = _NO_PLACE
    to: At = _NO_PLACE
    size: int = 0
    width: int = 0
    types: tuple[CType, CType] = (VOID, VOID)
    step: int = -1
    exact: bool = False

    @property
    def packed(self) -> bytes:
        letters = callinterface.letter(self.types[0]), callinterface.letter(self.types[1])
        code = self.code
        if code == NUMBER and not self.exact:
            code = _DIRECT.get(letters, code)
        one, other = [letter.encode() for letter in letters]
        bases = self.source.base, self.to.base
        places = self.source.at, self.source.offset, self.to.at, self.size
        return _OP.pack(code, *bases, self.exact, one, other, max(self.step, 0), *places)


class Conversion(NamedTuple):
    """How a call from C is converted to a call of another C function.

    Attributes
    ----------
    outer, inner : Call
        The incoming call, whose block is `BLOCK`, and the outgoing call, whose block is `FRAME`.
    fixed : int or None
        The number of fixed arguments if the function is variadic.
    ops, failed : list of Op
        The ops of the call, and the ops that store a result in the block after a failure.
    areas : dict of int to int
        The size of each area in the frame, by offset. Areas follow the outgoing call's block.
    data : bytes
        Constants.
    flags : int
    errors : int
        The flags of the function's error convention.
    tested : int
        The step that fails if the function itself fails, or `NOWHERE`.
    told : int
        The offset in the block of the caller's pointer to its error int, or `NOWHERE`.
    """

    outer: Call
    inner: Call
    fixed: int | None
    ops: list[Op]
    failed: list[Op]
    areas: dict[int, int]
    data: bytes
    flags: int
    errors: int
    tested: int
    told: int

    @property
    def packed(self) -> bytes:
        inner = self.inner
        ops = [one.packed for one in (*self.ops, *self.failed)]
        # Reserve a word after each area, because integers are written as whole words.
        end = max([inner.stack, *[at + size + _WORD for at, size in self.areas.items()]])
        header = _CONVERSION.pack(
            len(self.ops),
            len(self.failed),
            -(-end // 16) * 16,
            (inner.stack - steps.ABI.stack) // 8,
            callplan.how(inner),
            self.outer.x87,
            self.flags,
            self.errors,
            self.tested,
            self.told,
            _CONVERSION.size + len(ops) * _OP.size,
        )
        return b"".join([header, *ops, self.data])

    @property
    def changes_nothing(self) -> bool:
        """Whether callers can call the function directly.

        They can if the result and each argument of the function are already in the right registers.
        The function ignores the registers of further arguments, as when ``d:d`` is called as
        ``d:dP``.
        """
        if self.fixed is not None or self.outer.x87 != self.inner.x87:
            return False
        return all(
            [
                one.code in (COPY, SIGNED, UNSIGNED)
                and (one.source.base, one.to.base) in ((BLOCK, FRAME), (FRAME, BLOCK))
                and one.source.at == one.to.at < steps.ABI.stack
                and one.types[0] == one.types[1]
                for one in self.ops
                if one.code != CALL
            ]
        )


def conversion(plan: plans.Plan) -> Conversion:
    """Return the conversion of a plan.

    Raises
    ------
    SignatureError
        If a type is not supported on this ABI, or if the values are too large for the stack.
    """
    more = [plans.type_of(node) for node in plan.arguments[len(plan.inner.args) :]]
    outer = steps.place(plan.outer)
    fixed = len(plan.inner.args) if plan.inner.variadic else None
    writer = _Writer(outer, steps.place(plan.inner, fixed, more), fixed)
    for index, step in plan.checks:
        writer.check(index, step, plan.steps[step])
    writer.arguments(plan.arguments, isinstance(plan.result, plans.Result))
    before, after = plan.before, plan.after
    writer.perform(NO_ERRNO, before.shown_by == "errno" != after.shown_by)
    writer.perform(TAKE_GIL, plan.takes_gil)
    writer.perform(CALL)
    writer.perform(DROP_GIL, plan.takes_gil)
    writer.perform(SETTLE, plan.settles)
    writer.gather()
    told = outer.args[-1].places[0] if after.hidden else NOWHERE
    if plan.tested >= 0:
        writer.test(before, plan.tested, told)
    # Compute all values before storing any: a check may still fail, and the result may overlap the
    # memory behind the caller's pointers.
    stores = [(index, writer.ready(node), node) for index, node in plan.stores]
    given = None if plan.result is None else writer.ready(plan.result)
    for index, at, node in stores:
        writer.store(index, at, plans.type_of(node).size)
    if given is not None:
        writer.give(given)
    # Clear errno: the call may have set it, and the caller would take it for a failure.
    writer.perform(NO_ERRNO, after.shown_by == "errno" != before.shown_by)
    ops, writer.ops = writer.ops, []
    if plan.outer.result.kind != "void":
        bits = storage.sentinel_of(plan.outer.result, after.sentinel)
        writer.give(writer.constant(bits))
    # If both sides use "argument", the function has already written to the caller's int.
    flags = (
        KEEPS * (after.shown_by == "exception")
        | SETS_ERRNO * (after.shown_by == "errno")
        | REACHES_C * after.reaches_c
        | TELLS * (after.hidden and not before.hidden)
        | BY_CODE * before.is_code
    )
    tested = plan.tested if plan.tested >= 0 else NOWHERE
    return writer.made(ops, flags, before.flags, tested, told)


class Passed(NamedTuple):
    """An argument of the C function that a loop calls.

    Attributes
    ----------
    how : {"value", "reference", "input", "output", "view", "length", "error"}
        ``"value"``: an operand's element. ``"reference"``: a pointer to a copy of the element, as
        in Fortran. ``"input"``, ``"output"``: a pointer to the C-contiguous memory of an operand.
        ``"view"``: a strided view of an operand. ``"length"``: the length of a core dimension.
        ``"error"``: the address of the loop's error int.
    number : int
        The number of the operand, or of the dimension.
    given : int or None
        The input that is copied to an output before the call. If None, an output without core
        dimensions starts as zero, and an output with core dimensions keeps its contents.
    """

    how: Literal["value", "reference", "input", "output", "view", "length", "error"]
    number: int = 0
    given: int | None = None


class LoopPlan(NamedTuple):
    """The plan of a ufunc loop: the arguments of its C function, and the destination of results.

    NumPy calls a loop with the addresses of its operands (inputs first), the number of elements,
    and the strides. The loop calls a C function once per element.

    In a generalised loop, `core` numbers the core dimensions of each operand. For NumPy's signature
    ``(n),(n)->()`` it is ``((0,), (0,), ())``.

    Attributes
    ----------
    signature : Signature
        The signature of the function.
    inputs, outputs : tuple of CType
        Element types of the operands.
    arguments : tuple of Passed
        One `Passed` for each argument of the function.
    results : tuple of (int, int)
        For each operand that receives the function's result or a field of it: the number of the
        operand, and the offset in the result.
    core : tuple of tuple of int, or None
        The core dimensions of each operand; None for a loop that is not generalised.
    needs_gil : bool
        Whether the loop takes the GIL.
    errors : str
        The function's error convention; the loop ends at the first failure.
    """

    signature: Signature
    inputs: tuple[CType, ...]
    outputs: tuple[CType, ...]
    arguments: tuple[Passed, ...]
    results: tuple[tuple[int, int], ...]
    core: tuple[tuple[int, ...], ...] | None = None
    needs_gil: bool = False
    errors: Errors = "none"

    @property
    def operands(self) -> tuple[CType, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def dimensions(self) -> int:
        """The number of distinct core dimensions."""
        return max([-1, *[one for row in self.core or () for one in row]]) + 1

    def steps_of(self, operand: int) -> int:
        """Return the index of the first core stride of an operand among all strides."""
        return len(self.operands) + sum([len(row) for row in (self.core or ())[:operand]])


def loop(plan: LoopPlan) -> tuple[bytes, Conversion]:
    """Return the loop of a ufunc, packed for the core, and the conversion of one element.

    Raises
    ------
    SignatureError
        As for `conversion`.
    """
    core = plan.core or ((),) * len(plan.operands)
    operands, dimensions = len(plan.operands), plan.dimensions
    words = operands + dimensions + sum(map(len, core))
    block = [Passing(VOIDPTR, "value", (), (index * _WORD,)) for index in range(words)]
    inner = steps.place(plan.signature)
    writer = _Writer(Call(Passing(VOID, "void"), block, 0, 0), inner)
    given = [plans.Argument(index, VOIDPTR) for index in range(words)]
    arguments: list[plans.Node] = []
    arrays, lengths, axes = [], [], b""
    outputs: list[tuple[int, At, int]] = []  # operand, initial value, size
    for (how, number, before), ctype in zip(plan.arguments, plan.signature.args, strict=True):
        if how == "error":
            arguments.append(plans.ErrorOut(scalar("i")))
            continue
        if how == "length":
            length = plans.Argument(operands + number, scalar("q"))
            arguments.append(plans.Convert(length, ctype, -1))
            lengths.append(_LENGTH.pack(number, callinterface.letter(ctype).encode()))
            continue
        item, row = plan.operands[number], core[number]
        element = plans.Load(given[number], 0, item)
        if how in ("value", "reference"):
            arguments.append(element if how == "value" else plans.Memory((element,), item))
            continue
        first = plan.steps_of(number)
        if row:
            source = NOWHERE, first, 0
            if before is not None:
                source = before, first, plan.steps_of(before)
            flags = how != "view", how == "output"
            arrays.append(_ARRAY.pack(number, *source, len(axes) // 4, len(row), item.size, *flags))
            axes += struct.pack(f"={len(row)}I", *row)
        elif how == "output":
            at = writer.constant(bytes(item.size))
            if before is not None:
                at = At(BLOCK | POINTER, before * _WORD)
            outputs.append((number, at, item.size))
        if how == "view":
            lengths_of = [given[operands + one] for one in row]
            steps_of = given[dimensions + first : dimensions + first + len(row)]
            words_of = given[number], *lengths_of, *steps_of
            arguments.append(plans.Memory(words_of, VOIDPTR))
        else:
            arguments.append(given[number])
    writer.arguments(arguments)
    # Store only after all values are read, since an output may overlap an input.
    for operand, at, size in outputs:
        writer.store(operand, at, size)
    errors = CONVENTIONS[plan.errors]
    writer.perform(NO_ERRNO, errors.shown_by == "errno")
    writer.perform(CALL)
    writer.gather()
    writer.test(errors, 0, NOWHERE)
    for operand, offset in plan.results:
        at = At(FRAME, writer.answer.at + offset)
        writer.store(operand, at, plan.operands[operand].size)
    made = writer.made(writer.ops, BY_CODE * errors.is_code, errors.flags, 0, NOWHERE)
    tables = b"".join([*arrays, *lengths, axes])
    counts = len(arrays), len(lengths), len(axes) // 4, _LOOP.size + len(tables)
    head = operands, dimensions, words - operands - dimensions, plan.needs_gil
    return _LOOP.pack(*head, *counts) + tables + made.packed, made


class _Writer:
    """Writes one conversion; `end` is the current end of the frame."""

    def __init__(self, outer: Call, inner: Call, fixed: int | None = None) -> None:
        self.outer = outer
        self.inner = inner
        self.fixed = fixed
        self.end = inner.stack
        self.areas: dict[int, int] = {}
        self.ops: list[Op] = []
        self.data = b""
        self.given: dict[int, At] = {}
        self.room = self.told = -1
        self.answer = _NO_PLACE

    def made(self, ops: list[Op], flags: int, errors: int, tested: int, told: int) -> Conversion:
        """Return the conversion of `ops`; other ops in `self.ops` run after a failure."""
        failed = [] if ops is self.ops else self.ops
        rest = self.areas, self.data, flags, errors, tested, told
        return Conversion(self.outer, self.inner, self.fixed, ops, failed, *rest)

    # -- ops -------------------------------------------------------------------------------------

    def perform(self, code: int, holds: bool = True) -> None:
        """If `holds`, add an op that needs no source or target."""
        if holds:
            self.ops.append(Op(code))

    def op(self, code: int, source: At, to: At, size: int = 0) -> None:
        self.ops.append(Op(code, source, to, size))

    def reserve(self, size: int) -> int:
        """Reserve an area behind the block; return its offset."""
        start = -(-self.end // 16) * 16
        self.areas[start] = size
        self.end = start + size + _WORD
        return start

    def constant(self, bits: bytes) -> At:
        at = len(self.data)
        self.data += bits + bytes(-len(bits) % 16)
        return At(DATA, at)

    def compare(self, code: int, at: At, number: int, ctype: CType, step: int) -> None:
        """Add a comparison of an integer or pointer with `number`.

        With `EQUAL`, the op fails with `step` if they differ. With `OTHER`, it fails if they are
        equal.
        """
        if ctype.kind not in ("bool", "int"):
            ctype = scalar("Q")
        self.ops.append(Op(code, at, size=number, types=(ctype, VOID), step=step))

    def check(self, index: int, number: int, step: plans.Step) -> None:
        """Add a check that a caller's argument is not NULL, or equals the required count.

        A failed check fails with step `number`.
        """
        code = OTHER if step.kind == "null" else EQUAL
        self.compare(code, self.taken(index), step.count, step.source, number)

    def test(self, errors: Convention, step: int, told: int) -> None:
        """Add a check that the function has not failed.

        The caller's pointer to its error int is at `told`.
        """
        if errors.shown_by == "nothing":
            return
        if errors.shown_by == "result":
            code = EQUAL if errors.is_status else OTHER
            self.compare(code, self.answer, 0, self.inner.result.ctype, step)
            return
        at = At(FRAME, self.told) if self.told >= 0 else At(BLOCK | POINTER, told)
        if errors.shown_by in ("errno", "exception"):
            at = At(FRAME, self.reserve(_WORD))
            self.op(ERRNO if errors.is_code else RAISED, at, at)
        self.compare(EQUAL, at, 0, scalar("i"), step)

    # -- values ----------------------------------------------------------------------------------

    def located(self, node: plans.Node) -> At | None:
        """Return the place of a value that exists already; None if it must be computed."""
        match node:
            case plans.Argument(index, _):
                return self.taken(index)
            case plans.Load(pointer, offset, _):
                at = self.taken(pointer.index)
                return At(at.base | POINTER, at.at, offset)
            case plans.Bound(offset, _):
                return At(BOUND, offset)
            case plans.Constant(number, ctype):
                return self.constant(number.to_bytes(ctype.size, sys.byteorder, signed=number < 0))
            case plans.OutValue(_):
                return At(FRAME, self.room)
            case plans.Result(_):
                return self.answer
        return None

    def taken(self, index: int) -> At:
        """Return the place of a caller's argument; assemble its pieces if necessary."""
        found = self.given.get(index)
        if found is None:
            passing = self.outer.args[index]
            first = passing.places[0]
            if passing.how == "reference":
                found = At(BLOCK | POINTER, first)
            elif len(passing.places) == 1:
                found = At(BLOCK, first)
            else:
                found = At(FRAME, self.reserve(passing.ctype.size))
                self.join(passing, BLOCK, found)
            self.given[index] = found
        return found

    def join(self, passing: Passing, base: int, to: At) -> None:
        """Assemble a value from its pieces."""
        for offset, place, size in passing.moves:
            self.op(COPY, At(base, place), to._replace(at=to.at + offset), size)

    def cut(self, passing: Passing, base: int, at: At) -> None:
        """Copy the pieces of a value to their places."""
        for offset, place, size in passing.moves:
            self.op(COPY, at._replace(at=at.at + offset), At(base, place), size)

    def ready(self, node: plans.Node) -> At:
        """Return the place of a value, computing it if necessary."""
        at = self.located(node)
        if at is None:
            at = At(FRAME, self.reserve(plans.type_of(node).size))
            self.write(node, at)
        return at

    def write(self, node: plans.Node, to: At, *, wide: bool = False) -> None:
        """Write a value to a place; if `wide`, extend integers to a whole word."""
        match node:
            case plans.Memory(values, item):
                at = self.reserve(len(values) * item.size)
                for index, one in enumerate(values):
                    self.write(one, At(FRAME, at + index * item.size))
                self.op(ADDRESS, At(FRAME, at), to)
            case plans.OutSlot(ctype):
                self.room = self.cleared(ctype, to)
            case plans.ErrorOut(ctype):
                self.told = self.cleared(ctype, to)
            case plans.Convert():
                self.convert(node, to, wide=wide)
            case _:
                self.move(self.ready(node), to, plans.type_of(node), wide=wide)

    def cleared(self, ctype: CType, to: At) -> int:
        at = self.reserve(ctype.size)
        self.op(CLEAR, At(FRAME, 0), At(FRAME, at), ctype.size)
        self.op(ADDRESS, At(FRAME, at), to)
        return at

    def move(self, at: At, to: At, ctype: CType, *, wide: bool) -> None:
        """Copy a value; if `wide`, extend integers to a word."""
        if wide and ctype.kind in ("int", "bool"):
            # A bool that C passes by value is 0 or 1; the byte behind a pointer may be anything.
            is_truth = ctype.kind == "bool" and at.base & POINTER
            self.extend(at, to, ctype, ctype, _WORD, is_truth=bool(is_truth))
        else:
            self.op(COPY, at, to, ctype.size)

    def extend(
        self, at: At, to: At, source: CType, target: CType, width: int, *, is_truth: bool = False
    ) -> None:
        """Extend an integer to `width` bytes."""
        least = source if source.size <= target.size else target
        code = SIGNED if getattr(least, "signed", False) else UNSIGNED
        code = TRUTH if is_truth else code
        self.ops.append(Op(code, at, to, least.size, width, (source, target)))

    def convert(self, node: plans.Convert, to: At, *, wide: bool) -> None:
        """Convert a number."""
        source, target = plans.type_of(node.value), node.type
        at = self.ready(node.value)
        width = _WORD if wide else target.size
        if node.step < 0 and source.kind in ("int", "bool") and target.kind == "int":
            self.extend(at, to, source, target, width)
            return
        types = source, target
        self.ops.append(Op(NUMBER, at, to, target.size, 0, types, node.step, node.exact))
        if wide and target.kind in ("int", "bool"):
            self.extend(to, to, target, target, width)

    # -- the call --------------------------------------------------------------------------------

    def arguments(self, arguments: Sequence[plans.Node], passes: bool = False) -> None:
        """Write all arguments of the function to their places.

        If `passes`, a result returned by reference is written directly to the caller's memory.
        """
        result, memory = self.inner.result, At(FRAME, 0)
        if result.how == "reference":
            place = At(FRAME, result.places[0])
            if passes and self.outer.result.how == "reference":
                given = At(BLOCK, self.outer.result.places[0])
                self.answer = given._replace(base=BLOCK | POINTER)
                self.op(COPY, given, place, _WORD)
            else:
                self.answer = memory._replace(at=self.reserve(result.ctype.size))
                self.op(ADDRESS, self.answer, place)
        elif len(result.places) > 1:
            self.answer = memory._replace(at=self.reserve(result.ctype.size))
        elif result.how != "void":
            self.answer = memory._replace(at=result.places[0])
        for node, passing in zip(arguments, self.inner.args, strict=True):
            self.argument(node, passing)

    def gather(self) -> None:
        """Assemble the result from its pieces."""
        result = self.inner.result
        if result.how == "pieces" and len(result.places) > 1:
            self.join(result, FRAME, self.answer)

    def store(self, index: int, at: At, size: int) -> None:
        """Write a value through a pointer argument of the caller."""
        to = self.taken(index)
        self.op(COPY, at, to._replace(base=to.base | POINTER), size)

    def argument(self, node: plans.Node, passing: Passing) -> None:
        """Write one argument of the function."""
        places = [At(FRAME, place) for place in passing.places]
        if passing.how in ("value", "stack") and len(places) == 1:
            wide = passing.how == "value" and not steps.is_packed(places[0].at)
            self.write(node, places[0], wide=wide)
            return
        at = At(FRAME, self.reserve(passing.ctype.size))
        self.write(node, at)
        if passing.how == "reference":
            for place in places:
                self.op(ADDRESS, at, place)
            return
        self.cut(passing, FRAME, at)

    def give(self, at: At) -> None:
        """Return a value to the caller."""
        result = self.outer.result
        ctype, places = result.ctype, [At(BLOCK, place) for place in result.places]
        if result.how == "reference":
            first = places[0]
            to = first._replace(base=BLOCK | POINTER)
            if at != to:
                self.op(COPY, at, to, ctype.size)
            for place in places[1:]:
                self.op(COPY, first, place, _WORD)
        elif result.how == "value":
            self.move(at, places[0], ctype, wide=True)
        else:
            self.cut(result, BLOCK, at)
