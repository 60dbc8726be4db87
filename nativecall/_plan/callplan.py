"""Create call plans and closure plans: the steps by which the core executes a call.

A call plan is for calls from Python to C, a closure plan for calls from C to Python.
This module packs the structs that csrc/call/plan.h defines. At the first call through a call
interface, the core requests the call plan and caches it. All callbacks of a signature share one
closure plan.
"""

from __future__ import annotations

import struct

from .. import _ext
from .._errors import TYPE_CHECKING
from .._types.ctype import SCALARS, VOIDPTR, CType
from .._types.derived import View, inner_types, leads_on
from .._types.signature import Signature, with_more
from .._values import callinterface
from .._values.outparameters import VALUE, kind_of, offsets, pointee
from . import steps as row
from .abi import Call, Passing, in_memory

if TYPE_CHECKING:
    from .._ext import CallInterface

_POINTER: int = _ext.code_layout()["pointer_bytes"]
# Formats of the structs NcPlan and NcClosurePlan.
_PLAN = struct.Struct("=12I")
_CLOSURE = struct.Struct("=4I")


class _Writer:
    """Writes the steps of one plan; `end` is the current end of the frame."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.moves: list[tuple[int, int, int]] = []
        self.before: list[tuple[int, int, int]] = []  # moves that do not depend on an argument
        self.owners = 0
        self.owned = 0

    def room(self, size: int, alignment: int = 16) -> int:
        """Reserve memory in the frame, after the block; return its offset."""
        start = -(-self.end // alignment) * alignment
        self.end = start + size
        return start

    def owner(self) -> int:
        self.owners += 1
        return self.owned + (self.owners - 1) * _POINTER

    def cut(self, passing: Passing) -> tuple[int, int]:
        """Add the moves from memory to the block; return the range of their indices."""
        first = len(self.moves)
        if passing.how == "reference":
            self.moves += [(0, place, 0) for place in passing.places]
        else:
            self.moves += passing.moves
        return first, len(self.moves)

    def argument(self, ctype: CType, passing: Passing, packs: bool, keeps: bool) -> bytes:
        """Return the step that converts an argument from Python.

        `keeps`: whether C may store a function passed to it.
        """
        letter, size, at = callinterface.letter(ctype), ctype.size, passing.places[0]
        if letter == "T":
            owner = self.owner() if leads_on(ctype) else 0
            plain = 0 if owner else row.PIECES if passing.how == "pieces" else row.WHOLE
            moved = 0, 0
            if passing.how != "stack":
                at, moved = self.room(size), self.cut(passing)
            return row.step(row.STRUCT, plain, letter, at, owner=owner, memory=size, moves=moved)
        if isinstance(ctype, View):
            memory = self.room((1 + 2 * ctype.ndim) * 8)
            return row.step(row.VIEW, ctype.ndim, letter, at, owner=self.owner(), memory=memory)
        if letter == "P":
            if keeps and ctype.kind in ("function", "voidptr"):
                kind = "X" if ctype.kind == "function" else letter
                return row.step(row.FUNCTION, size, kind, at, owner=self.owner())
            return row.step(row.POINTER, size, letter, at, owner=self.owner())
        clear = 8 if size < 8 and not packs else 0
        if passing.how == "reference" or len(passing.places) > 1:
            memory, moved = self.room(max(size, 16)), self.cut(passing)
            return row.step(row.SCALAR, clear, letter, memory, moves=moved)
        if letter in row.PLAIN and (clear or size == 8):
            return row.step(row.PLAIN[letter], size, letter, at)
        return row.step(row.SCALAR, clear, letter, at)

    def result(self, ctype: CType, passing: Passing) -> bytes:
        """Return the step of the result."""
        letter, size = callinterface.letter(ctype), ctype.size
        owner = int(letter == "T" and leads_on(ctype))
        if passing.how == "void":
            return row.step(row.VOID, 0, letter, 0)
        if passing.how == "reference":
            # The function writes to the memory of a Record, not to the frame. Enlarge the frame
            # anyway: the core checks for free stack in proportion to the frame's size, and the
            # function may need as much stack itself.
            memory = self.room(size)
            if letter == "T":
                return row.step(row.STRUCT, 0, letter, passing.places[0], owner=owner)
            self.before.append((memory, passing.places[0], 0))
            return row.step(row.SCALAR, 0, letter, memory)
        code = row.STRUCT if letter == "T" else row.PLAIN.get(letter, row.SCALAR)
        if letter != "T" and len(passing.places) == 1:
            return row.step(code, size, letter, passing.places[0])
        memory = self.room(max(size, 16))
        first = len(self.moves)
        self.moves += [(place, at, size) for at, place, size in passing.moves]
        moved = first, len(self.moves)
        return row.step(code, 0, letter, memory, owner=owner, moves=moved)


def plan(cif: CallInterface, fixed: int | None = None) -> bytes:
    """Return the plan of a call interface.

    `fixed` is the number of fixed arguments if the interface includes variadic arguments.
    """
    signature: Signature = cif.signature
    args, policies = signature.args, cif.policies
    texts = callinterface.text_lengths(signature, policies)
    outs = {out.index: out for out in policies.out}
    if signature.variadic:
        fixed = len(args)
    call = row.place(signature, fixed)
    writer = _Writer(call.stack)
    places, out_bytes = offsets(signature, policies.out)
    area = writer.room(out_bytes)
    where = {out.index: area + at for out, at in zip(policies.out, places, strict=True)}
    numbers = {out.index: number for number, out in enumerate(policies.out)}
    passed = len(cif.types) - 1
    hidden = len(args) - len(texts) - passed - sum([not out.given for out in policies.out])
    kinds = [callinterface.letter(arg) for arg in args]
    most = sum([kind in "PVT" for kind in kinds])
    writer.owned = writer.room(most * _POINTER)

    keeps = policies.keep != "call"
    steps: list[bytes] = []
    made: list[bytes] = []  # steps of out-parameters
    owners: dict[int, tuple[int, int]] = {}  # argument -> index of its step, its owner
    told = 0
    last = len(args) - hidden - len(texts)
    for index, (ctype, passing) in enumerate(zip(args, call.args, strict=True)):
        if index >= last:
            continue
        if index in outs:
            out, place = outs[index], passing.places[0]
            owners[index] = numbers[index], 0
            is_value = kind_of(signature, out) == VALUE
            if is_value:
                writer.before.append((where[index], place, 0))
            else:
                made.append(row.step(row.OUT, 0, "P", place, memory=numbers[index]))
            if out.given:  # outside the frame, the initial value is stored at allocation
                kind = callinterface.letter(pointee(signature, out)) if is_value else "P"
                code = row.SCALAR if is_value else row.VOID
                steps.append(row.step(code, 0, kind, where[index]))
            continue
        owners[index] = len(steps), writer.owned + writer.owners * _POINTER
        steps.append(writer.argument(ctype, passing, row.is_packed(passing.places[0]), keeps))
    lengths: list[bytes] = []
    for index, number in zip(texts, range(last, len(args)), strict=False):
        which, owner = owners[index]
        at = call.args[number].places[0]
        length = row.step(row.LENGTH, args[number].size, "q", at, owner=owner, memory=which)
        lengths.append(length)
    if hidden:
        told = writer.room(8)
        writer.before.append((told, call.args[-1].places[0], 0))
    result = writer.result(signature.result, call.result)
    first = len(writer.moves)
    writer.moves += writer.before
    always = row.step(row.VOID, 0, "v", 0, moves=(first, len(writer.moves)))
    header = _PLAN.pack(
        passed,
        len(made),
        len(lengths),
        bool(writer.owners or policies.steps or writer.before),
        (call.stack - row.ABI.stack) // 8,
        how(call),
        -(-writer.end // 16) * 16,
        writer.owners,
        writer.owned,
        area,
        out_bytes,
        told,
    )
    return row.joined(header, [always, result, *steps, *made, *lengths], writer.moves)


def how(call: Call) -> int:
    """Return the registers that a call uses, in the form that nc_invoke takes (invoke.h)."""
    wide = row.ABI.joined and any([_is_wide(one.ctype) for one in call.args])
    return int(call.vectors | (call.x87 or int(wide)) << 8)


def _is_wide(ctype: CType) -> bool:
    """Return whether a type contains a number that fills a whole vector register of 64-bit ARM."""
    inner = inner_types(ctype)
    return any(map(_is_wide, inner)) if inner else "g" in ctype.text and in_memory(ctype)


# -- variadic functions --------------------------------------------------------------------------


def extended(cif: CallInterface, types: tuple[CType | str, ...]) -> CallInterface:
    """Return the call interface for a call of a variadic function with variadic arguments.

    `types` are the types of the variadic arguments, or the letters of those types.
    """
    plain = {**SCALARS, "P": VOIDPTR}
    more = [plain[one] if isinstance(one, str) else one for one in types]
    # C cannot declare const for variadic arguments, so read-only memory is accepted.
    return callinterface.of(with_more(cif.signature, more, True), 0, cif.policies)


# -- closures ------------------------------------------------------------------------------------


def closure(signature: Signature, *, tells_last: bool = False) -> bytes:
    """Return the closure plan for callbacks of a signature.

    Parameters
    ----------
    signature : Signature
    tells_last : bool
        Whether the last argument is an ``int *`` that reports failure. The Python function does not
        receive that argument.

    Raises
    ------
    SignatureError
        If a type is not supported on this ABI, or if the values are too large for the stack.
    """
    call = row.place(signature)
    moves: list[tuple[int, int, int]] = []
    last = len(signature.args) - tells_last
    arguments = [_taken(passing, moves) for passing in call.args[:last]]
    result = _returned(call.result, moves)
    reference = call.result.places[0] if call.result.how == "reference" else row.NOWHERE
    told = call.args[-1].places[0] if tells_last else row.NOWHERE
    header = _CLOSURE.pack(last, reference, told, call.x87)
    return row.joined(header, [result, *arguments], moves)


def _taken(passing: Passing, moves: list[tuple[int, int, int]]) -> bytes:
    """Return the step that converts an argument for the Python function."""
    ctype, places = passing.ctype, passing.places
    letter, size, first = callinterface.letter(ctype), ctype.size, len(moves)
    at = places[0]
    if passing.how == "pieces" and len(places) > 1:
        at = 0
        moves += [(place, offset, size) for offset, place, size in passing.moves]
    code = row.PLAIN.get(letter, row.SCALAR)
    if letter == "T":
        code = row.STRUCT
    elif letter in "PVO":
        code = row.POINTER
    elif passing.how != "value" or (size < 8 and row.is_packed(at)):
        code = row.BOOL if letter == "?" else row.SCALAR
    owner = int(passing.how == "reference")
    return row.step(code, size & 0xFF, letter, at, owner=owner, moves=(first, len(moves)))


def _returned(passing: Passing, moves: list[tuple[int, int, int]]) -> bytes:
    """Return the step that converts the Python function's result."""
    ctype, first = passing.ctype, len(moves)
    letter = callinterface.letter(ctype)
    if passing.how == "void":
        return row.step(row.VOID, 0, letter, 0)
    if passing.how == "reference":
        return row.step(row.STRUCT, 0, letter, (*passing.places, row.NOWHERE)[1])
    if passing.how == "value":
        code = row.SIGNED if row.PLAIN.get(letter) == row.SIGNED else row.UNSIGNED
        return row.step(code, ctype.size, letter, passing.places[0])
    moves += passing.moves
    return row.step(row.SCALAR, 0, letter, 0, moves=(first, len(moves)))
