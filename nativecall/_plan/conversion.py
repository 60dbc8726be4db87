"""Makes conversions: plans of `_adapt`, as the ops that the core carries out.

csrc/call/plan.h says what a conversion is, and what a loop of a ufunc, and has the structs that are
packed here. _codegen/thunkcode.py and loopcode.py compile the same plans.
"""

from __future__ import annotations

import struct
import sys
from collections import namedtuple

from .._adapt import plan as nodes
from .._adapt import ufunc
from .._types.ctype import VOID, VOIDPTR, CType, scalar
from .._values import callspec, storage
from .._values.failure import CONVENTIONS
from . import callplan, steps
from .abi import Call, Passing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._adapt.ufunc import LoopPlan
    from .._values.failure import Convention

# Structs NcConversion, NcOp, NcLoop, NcLoopArray and NcLoopLength.
_CONVERSION = struct.Struct("=12I")
_OP = struct.Struct("=4B2cH4I")
_LOOP = struct.Struct("=8I")
_ARRAY = struct.Struct("=9I")
_LENGTH = struct.Struct("=Ic3x")
_NOWHERE = 2**32 - 1
_FRAME, _BLOCK, _BOUND, _DATA = range(4)
_POINTER = 4
(
    _COPY,
    _SIGNED,
    _UNSIGNED,
    _TRUTH,
    _ADDRESS,
    _CLEAR,
    _NUMBER,
    _WIDEN,
    _NARROW,
    _INTEGER,
    _EQUAL,
    _OTHER,
    _ERRNO,
    _RAISED,
) = range(14)
_CLEARS_BEFORE, _CLEARS_AFTER, _TAKES_GIL, _KEEPS, _SETS_ERRNO, _REACHES_C = [
    1 << bit for bit in range(6)
]
_TELLS, _BY_CODE, _SETTLES = 64, 128, 256
_WORD = 8
#: Conversions of numbers that have an op of their own.
_DIRECT = {("f", "d"): _WIDEN, ("i", "d"): _INTEGER, ("d", "f"): _NARROW}


class _At(namedtuple("_At", ["base", "at", "offset"], defaults=(0,))):
    """Where a value is: so many bytes from a base, or behind the pointer that is there."""

    __slots__ = ()
    base: int
    at: int
    offset: int


#: The target of an op that only checks.
_NO_TARGET = _At(_FRAME, 0)


def conversion(plan: nodes.Plan) -> bytes:
    """The conversion of a plan.

    Raises
    ------
    SignatureError
        For types whose passing is not known, and more bytes than fit on a stack.
    """
    more = [_type_of(node) for node in plan.arguments[len(plan.inner.args) :]]
    outer = steps.place(plan.outer)
    writer = _Writer(outer, steps.place(plan.inner, plan.variadic, more))
    for check in plan.checks:
        writer.check(check)
    writer.arguments(plan.arguments)
    before = len(writer.ops)
    writer.gather()
    told = outer.args[-1].places[0] if plan.after.hidden else _NOWHERE
    if plan.tested >= 0:
        writer.test(plan.before, plan.tested, told)
    # Nothing is written unless all has passed; the result may lie where the pointers are.
    stores = [(index, writer.ready(node), node) for index, node in plan.stores]
    given = None if plan.result is None else writer.ready(plan.result)
    for index, at, node in stores:
        writer.store(index, at, _type_of(node).size)
    if given is not None:
        writer.give(given)
    after = len(writer.ops) - before
    if plan.outer.result.kind != "void":
        bits = storage.sentinel_of(plan.outer.result, plan.after.sentinel)
        writer.give(writer.constant(bits))
    tested = plan.tested if plan.tested >= 0 else _NOWHERE
    return writer.packed(before, after, _flags(plan), plan.before, tested, told)


def _flags(plan: nodes.Plan) -> int:
    return sum(
        [
            flag
            for flag, holds in (
                (_CLEARS_BEFORE, plan.clears_errno_before),
                (_CLEARS_AFTER, plan.clears_errno_after),
                (_TAKES_GIL, plan.takes_gil),
                (_KEEPS, plan.after.shown_by == "exception"),
                (_SETS_ERRNO, plan.after.shown_by == "errno"),
                (_REACHES_C, plan.after.reaches_c),
                (_TELLS, plan.tells),
                (_BY_CODE, plan.before.is_code),
                (_SETTLES, plan.settles),
            )
            if holds
        ]
    )


def loop(plan: LoopPlan) -> bytes:
    """The loop of a ufunc, with the conversion of one element.

    Raises
    ------
    SignatureError
        As above.
    """
    core = plan.core or ((),) * len(plan.operands)
    operands, dimensions = len(plan.operands), plan.dimensions
    words = operands + dimensions + sum(map(len, core))
    block = [Passing(VOIDPTR, "value", (), (index * _WORD,)) for index in range(words)]
    inner = steps.place(plan.signature)
    writer = _Writer(Call(Passing(VOID, "void"), block, 0, 0), inner)
    given = [nodes.Argument(index, VOIDPTR) for index in range(words)]
    arguments: list[nodes.Node] = []
    arrays, lengths, axes = [], [], b""
    outputs: list[tuple[int, _At, int]] = []  # what they have before the call
    for how, ctype in zip(plan.arguments, plan.signature.args, strict=True):
        if isinstance(how, ufunc.ErrorOut):
            arguments.append(nodes.ErrorOut(scalar("i")))
            continue
        if isinstance(how, ufunc.Length):
            length = nodes.Argument(operands + how.dimension, scalar("q"))
            arguments.append(nodes.Convert(length, ctype, -1))
            lengths.append(_LENGTH.pack(how.dimension, callspec.letter(ctype).encode()))
            continue
        operand, row = how.operand, core[how.operand]
        item = plan.operands[operand]
        element = nodes.Load(given[operand], 0, item)
        if isinstance(how, ufunc.Value):
            arguments.append(element)
            continue
        if isinstance(how, ufunc.Reference):
            arguments.append(nodes.Memory((element,), item))
            continue
        is_output = isinstance(how, ufunc.Address) and how.is_output
        if row:
            first = plan.steps_of(operand)
            before = _NOWHERE if how.given is None else how.given
            before_step = 0 if how.given is None else plan.steps_of(how.given)
            numbers = operand, before, first, before_step, len(axes) // 4, len(row), item.size
            arrays.append(_ARRAY.pack(*numbers, isinstance(how, ufunc.Address), is_output))
            axes += struct.pack(f"={len(row)}I", *row)
        elif is_output and how.given is not None:
            outputs.append((operand, _At(_BLOCK | _POINTER, how.given * _WORD), item.size))
        elif is_output:
            outputs.append((operand, writer.constant(bytes(item.size)), item.size))
        if isinstance(how, ufunc.Viewed):
            last = dimensions + plan.steps_of(operand)
            words_of = [given[operand], *[given[operands + one] for one in row]]
            words_of += given[last : last + len(row)]
            arguments.append(nodes.Memory(tuple(words_of), VOIDPTR))
        else:
            arguments.append(given[operand])
    writer.arguments(arguments)
    # After all values are read: an output may be the memory of an input.
    for operand, at, size in outputs:
        writer.store(operand, at, size)
    before = len(writer.ops)
    writer.gather()
    errors = CONVENTIONS[plan.errors]
    writer.test(errors, 0, _NOWHERE)
    for operand, offset in plan.results:
        at = _At(_FRAME, writer.answer + offset)
        writer.store(operand, at, plan.operands[operand].size)
    flags = _CLEARS_BEFORE * (errors.shown_by == "errno") | _BY_CODE * errors.is_code
    made = writer.packed(before, len(writer.ops) - before, flags, errors, 0, _NOWHERE)
    tables = b"".join([*arrays, *lengths, axes])
    counts = len(arrays), len(lengths), len(axes) // 4, _LOOP.size + len(tables)
    head = operands, dimensions, words - operands - dimensions, plan.needs_gil
    return _LOOP.pack(*head, *counts) + tables + made


def changes_nothing(plan: nodes.Plan) -> bool:
    """Whether the function itself can be called in the thunk's place.

    So it is when it finds each of its arguments in the register where the caller put it, and others
    in registers that it does not look at: ``d:d`` called as ``d:dP``.
    """
    if plan.checks or plan.stores or plan.tested >= 0 or plan.variadic is not None:
        return False
    if plan.clears_errno_before or plan.clears_errno_after or plan.takes_gil or plan.settles:
        return False
    if not isinstance(plan.result, nodes.Result | None):
        return False
    outer, inner = steps.place(plan.outer), steps.place(plan.inner)
    passed = ("void", "value") if plan.result is None else ("value",)
    if outer.result.how not in passed or inner.result.how not in passed:
        return False
    assert steps.ABI is not None
    stack = steps.ABI.stack
    for node, own in zip(plan.arguments, inner.args, strict=True):
        if own.how != "value" or own.places[0] >= stack or not isinstance(node, nodes.Argument):
            return False
        given = outer.args[node.index]
        if (given.how, given.places) != (own.how, own.places):
            return False
    return True


class _Writer:
    """Writes one conversion; `end` is where the frame ends so far."""

    def __init__(self, outer: Call, inner: Call) -> None:
        self.outer = outer
        self.inner = inner
        self.end = inner.stack
        self.ops: list[bytes] = []
        self.data = b""
        self.given: dict[int, _At] = {}
        self.room = self.told = self.answer = -1

    def packed(
        self,
        before: int,
        after: int,
        flags: int,
        errors: Convention,
        tested: int,
        told: int,
    ) -> bytes:
        """All of it; `told` is where the caller has the address of its int."""
        inner = self.inner
        assert steps.ABI is not None
        header = _CONVERSION.pack(
            before,
            after,
            len(self.ops) - before - after,
            -(-self.end // 16) * 16,
            (inner.stack - steps.ABI.stack) // 8,
            callplan.how(inner.vectors, inner.result, [one.ctype for one in inner.args]),
            [piece.kind for piece in self.outer.result.pieces].count("x87"),
            flags,
            errors.flags,
            tested,
            told,
            _CONVERSION.size + len(self.ops) * _OP.size,
        )
        return b"".join([header, *self.ops, self.data])

    # -- ops -------------------------------------------------------------------------------------

    def op(
        self,
        code: int,
        source: _At,
        to: _At = _NO_TARGET,
        size: int = 0,
        *,
        letters: tuple[str, str] = ("v", "v"),
        step: int = 0,
        exact: bool = False,
    ) -> None:
        one, other = [letter.encode() for letter in letters]
        places = source.at, source.offset, to.at, size
        self.ops.append(
            _OP.pack(code, source.base, to.base, exact, one, other, max(step, 0), *places)
        )

    def reserve(self, size: int) -> int:
        """A place behind the block. Integers are written as words, so there is more."""
        start = -(-self.end // 16) * 16
        self.end = start + size + _WORD
        return start

    def constant(self, bits: bytes) -> _At:
        at = len(self.data)
        self.data += bits + bytes(-len(bits) % 16)
        return _At(_DATA, at)

    def check(self, check: nodes.Check) -> None:
        """Fail where a wanted argument is not what it must be."""
        code, count = (_OTHER, 0) if check.count is None else (_EQUAL, check.count)
        letter = "Q" if check.count is None else callspec.letter(self.outer.args[check.index].ctype)
        self.op(code, self.taken(check.index), size=count, letters=(letter, "v"), step=check.step)

    def test(self, errors: Convention, step: int, told: int) -> None:
        """Fail where the function did; `told` is where the caller has the address of its int."""
        result, code, letter = self.inner.result.ctype, _EQUAL, "i"
        at = _At(_FRAME, self.told) if self.told >= 0 else _At(_BLOCK | _POINTER, told)
        if errors.shown_by == "nothing":
            return
        if errors.shown_by in ("errno", "exception"):
            at = _At(_FRAME, self.reserve(_WORD))
            self.op(_ERRNO if errors.is_code else _RAISED, at, at)
        elif errors.shown_by == "result":
            code = _EQUAL if errors.is_status else _OTHER
            at = _At(_FRAME, self.answer)
            letter = "Q" if errors.needs == "pointer" else callspec.letter(result)
        self.op(code, at, letters=(letter, "v"), step=step)

    # -- values ----------------------------------------------------------------------------------

    def located(self, node: nodes.Node) -> _At | None:
        """Where a value is already, which C has somewhere; None for what has to be made."""
        match node:
            case nodes.Argument(index, _):
                return self.taken(index)
            case nodes.Load(pointer, offset, _):
                at = self.taken(pointer.index)
                return _At(at.base | _POINTER, at.at, offset)
            case nodes.Bound(offset, _):
                return _At(_BOUND, offset)
            case nodes.Constant(number, ctype):
                return self.constant(number.to_bytes(ctype.size, sys.byteorder, signed=number < 0))
            case nodes.OutValue(_):
                return _At(_FRAME, self.room)
            case nodes.Result(_):
                return _At(_FRAME, self.answer)
        return None

    def taken(self, index: int) -> _At:
        """Where an argument of the caller's is."""
        found = self.given.get(index)
        if found is None:
            passing = self.outer.args[index]
            first = passing.places[0]
            if passing.how == "reference":
                found = _At(_BLOCK | _POINTER, first)
            elif len(passing.places) == 1:
                found = _At(_BLOCK, first)
            else:
                found = _At(_FRAME, self.reserve(passing.ctype.size))
                for piece, place in zip(passing.pieces, passing.places, strict=True):
                    to = _At(_FRAME, found.at + piece.offset)
                    self.op(_COPY, _At(_BLOCK, place), to, piece.size)
            self.given[index] = found
        return found

    def ready(self, node: nodes.Node) -> _At:
        """Where a value is once it is made, outside of the block."""
        at = self.located(node)
        if at is None:
            at = _At(_FRAME, self.reserve(_type_of(node).size))
            self.write(node, at)
        return at

    def write(self, node: nodes.Node, to: _At, *, wide: bool = False) -> None:
        """Put a value somewhere; as a `wide` one into a whole word."""
        match node:
            case nodes.Memory(values, item):
                at = self.reserve(len(values) * item.size)
                for index, one in enumerate(values):
                    self.write(one, _At(_FRAME, at + index * item.size))
                self.op(_ADDRESS, _At(_FRAME, at), to)
            case nodes.OutSlot(ctype):
                self.room = self.cleared(ctype, to)
            case nodes.ErrorOut(ctype):
                self.told = self.cleared(ctype, to)
            case nodes.Convert():
                self.convert(node, to, wide=wide)
            case _:
                self.move(self.ready(node), to, _type_of(node), wide=wide)

    def cleared(self, ctype: CType, to: _At) -> int:
        at = self.reserve(ctype.size)
        self.op(_CLEAR, _At(_FRAME, 0), _At(_FRAME, at), ctype.size)
        self.op(_ADDRESS, _At(_FRAME, at), to)
        return at

    def move(self, at: _At, to: _At, ctype: CType, *, wide: bool) -> None:
        """Copy a value; an integer that is a word's becomes one."""
        code = _COPY
        if wide and ctype.kind in ("int", "bool"):
            code = _integer_code(ctype)
        self.op(code, at, to, ctype.size)

    def convert(self, node: nodes.Convert, to: _At, *, wide: bool) -> None:
        """Convert a number."""
        source, target = _type_of(node.value), node.type
        at = self.ready(node.value)
        letters = callspec.letter(source), callspec.letter(target)
        direct = _DIRECT.get(letters)
        if direct is not None and not node.exact:
            self.op(direct, at, to, step=node.step)
        elif node.step < 0 and source.kind in ("int", "bool") and target.kind == "int":
            least = source if source.size <= target.size else target
            self.op(_integer_code(least), at, to, least.size)
        else:
            size = target.size
            self.op(_NUMBER, at, to, size, letters=letters, step=node.step, exact=node.exact)
            if wide and target.kind in ("int", "bool"):
                self.op(_integer_code(target), to, to, size)

    # -- the call --------------------------------------------------------------------------------

    def arguments(self, arguments: Sequence[nodes.Node]) -> None:
        """Put all arguments of the function where it finds them."""
        result = self.inner.result
        if result.how == "reference" or len(result.places) > 1:
            self.answer = self.reserve(result.ctype.size)
        elif result.how != "void":
            self.answer = result.places[0]
        if result.how == "reference":
            self.op(_ADDRESS, _At(_FRAME, self.answer), _At(_FRAME, result.places[0]))
        for node, passing in zip(arguments, self.inner.args, strict=True):
            self.argument(node, passing)

    def gather(self) -> None:
        """Put a result in pieces together."""
        result = self.inner.result
        if result.how == "pieces" and len(result.places) > 1:
            for piece, place in zip(result.pieces, result.places, strict=True):
                to = _At(_FRAME, self.answer + piece.offset)
                self.op(_COPY, _At(_FRAME, place), to, piece.size)

    def store(self, index: int, at: _At, size: int) -> None:
        """Write a value where an argument of the caller's points to."""
        to = self.taken(index)
        self.op(_COPY, at, to._replace(base=to.base | _POINTER), size)

    def argument(self, node: nodes.Node, passing: Passing) -> None:
        """An argument of the function's."""
        places = [_At(_FRAME, place) for place in passing.places]
        if passing.how in ("value", "stack") and len(places) == 1:
            wide = passing.how == "value" and not steps.is_packed(places[0].at)
            self.write(node, places[0], wide=wide)
            return
        at = _At(_FRAME, self.reserve(passing.ctype.size))
        self.write(node, at)
        if passing.how == "reference":
            for place in places:
                self.op(_ADDRESS, at, place)
            return
        pieces = passing.pieces * (len(places) // len(passing.pieces))
        for piece, place in zip(pieces, places, strict=True):
            self.op(_COPY, at._replace(at=at.at + piece.offset), place, piece.size)

    def give(self, at: _At) -> None:
        """Return a value to the caller."""
        result = self.outer.result
        ctype, places = result.ctype, [_At(_BLOCK, place) for place in result.places]
        if result.how == "reference":
            first = places[0]
            self.op(_COPY, at, first._replace(base=_BLOCK | _POINTER), ctype.size)
            for place in places[1:]:
                self.op(_COPY, first, place, _WORD)
        elif result.how == "value":
            self.move(at, places[0], ctype, wide=True)
        else:
            for piece, place in zip(result.pieces, places, strict=True):
                self.op(_COPY, at._replace(at=at.at + piece.offset), place, piece.size)


def _integer_code(ctype: CType) -> int:
    if ctype.kind == "bool":
        return _TRUTH
    return _SIGNED if getattr(ctype, "signed", False) else _UNSIGNED


def _type_of(node: nodes.Node) -> CType:
    fresh = isinstance(node, (nodes.Memory, nodes.OutSlot, nodes.ErrorOut))
    found: CType = VOIDPTR if fresh else node.type
    return found
