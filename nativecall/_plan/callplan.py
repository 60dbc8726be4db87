"""Makes call plans: the placement of a signature's values, as the steps that the core carries out.

csrc/call/plan.h says what a plan is, and has the structs that are packed here. The core asks for
one at the first call of a call spec, and keeps it.
"""

from __future__ import annotations

import struct

from .. import _lib
from .._errors import SignatureError
from .._signature.ctype import SCALARS, VOIDPTR, CType
from .._signature.derived import View, inner_types
from .._signature.signature import Signature, with_more
from .._values import callspec
from .._values.outs import offsets, pointee
from .abi import Passing, Unsupported, in_memory
from .here import here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._types import CallSpec

_types = _lib.types
_ABI = here()
_POINTER: int = _types.code_layout()["pointer_bytes"]
#: Bytes of arguments and result by value: they go on the stack of any thread.
_MOST_BYTES = 1 << 18
# Of struct NcPlan, NcStep and NcMove.
_PLAN = struct.Struct("=11I")
_STEP = struct.Struct("=BBcBIIII")
_MOVE = struct.Struct("=3I")
_VOID, _DOUBLE, _FLOAT, _SIGNED, _UNSIGNED, _BOOL = range(6)
_SCALAR, _POINTER_STEP, _OBJECT, _VIEW, _STRUCT, _LENGTH = range(6, 12)
#: The steps of what has a word of the block to itself.
_PLAIN = {"d": _DOUBLE, "f": _FLOAT, "?": _BOOL, "P": _POINTER_STEP, "O": _OBJECT}
_PLAIN |= dict.fromkeys("bhiq", _SIGNED) | dict.fromkeys("BHIQ", _UNSIGNED)


class _Writer:
    """Writes the steps of one plan; `end` is where the frame ends so far."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.moves: list[tuple[int, int, int]] = []
        self.owners = 0
        self.owned = 0

    def room(self, size: int, alignment: int = 16) -> int:
        """A place behind the block."""
        start = -(-self.end // alignment) * alignment
        self.end = start + size
        return start

    def owner(self) -> int:
        self.owners += 1
        return self.owned + (self.owners - 1) * _POINTER

    def cut(self, passing: Passing, at: int) -> int:
        """The moves between memory and the block; the first of them."""
        first = len(self.moves)
        places = passing.places
        if passing.how == "reference":
            self.moves += [(at, place, 0) for place in places]
        else:
            pieces = passing.pieces * (len(places) // len(passing.pieces))
            self.moves += [
                (at + piece.offset, place, piece.size)
                for piece, place in zip(pieces, places, strict=True)
            ]
        return first

    def step(
        self,
        code: int,
        size: int,
        letter: str,
        at: int,
        *,
        owner: int = 0,
        memory: int = 0,
        first: int | None = None,
    ) -> bytes:
        moves = 0 if first is None else len(self.moves) - first
        return _STEP.pack(code, size, letter.encode(), moves, at, owner, memory, first or 0)

    def argument(self, ctype: CType, passing: Passing, packs: bool) -> bytes:
        """The step of what Python passes."""
        letter, size, at = callspec.letter(ctype), ctype.size, passing.places[0]
        if letter == "T":
            owner = self.owner() if _holds_owners(ctype) else 0
            if passing.how == "stack":
                return self.step(_STRUCT, 0, letter, at, owner=owner)
            memory = self.room(size)
            first = self.cut(passing, memory)
            return self.step(_STRUCT, 0, letter, memory, owner=owner, first=first)
        if isinstance(ctype, View):
            memory = self.room((1 + 2 * ctype.ndim) * 8)
            return self.step(_VIEW, ctype.ndim, letter, at, owner=self.owner(), memory=memory)
        if letter == "P":
            return self.step(_POINTER_STEP, size, letter, at, owner=self.owner())
        clear = 8 if size < 8 and not packs else 0
        if passing.how == "reference" or len(passing.places) > 1:
            memory = self.room(max(size, 16))
            first = self.cut(passing, memory)
            return self.step(_SCALAR, clear, letter, memory, first=first)
        if letter in _PLAIN and (clear or size == 8):
            return self.step(_PLAIN[letter], size, letter, at)
        return self.step(_SCALAR, clear, letter, at)

    def result(self, ctype: CType, passing: Passing) -> tuple[bytes, list[tuple[int, int, int]]]:
        """The step of the result, and what is moved before the call."""
        letter, size = callspec.letter(ctype), ctype.size
        if passing.how == "void":
            return self.step(_VOID, 0, letter, 0), []
        if passing.how == "reference":
            memory = self.room(size)
            code = _STRUCT if letter == "T" else _SCALAR
            return self.step(code, 0, letter, memory), [(memory, passing.places[0], 0)]
        code = _STRUCT if letter == "T" else _PLAIN.get(letter, _SCALAR)
        if len(passing.places) == 1:
            return self.step(code, 0 if letter == "T" else size, letter, passing.places[0]), []
        memory = self.room(max(size, 16))
        first = self.cut(passing, memory)
        self.moves[first:] = [(place, at, n) for at, place, n in self.moves[first:]]
        return self.step(code, 0, letter, memory, first=first), []


def _holds_owners(ctype: CType) -> bool:
    """Whether a type has a part whose value must outlive the call."""
    owned = ctype.kind in ("pointer", "voidptr", "function", "view", "object")
    return owned or any(map(_holds_owners, inner_types(ctype)))


def _check(signature: Signature) -> None:
    """Refuse what would not fit on a stack, before memory is made for it."""
    size = sum([one.size for one in (*signature.args, signature.result)])
    if size > _MOST_BYTES:
        raise SignatureError(
            f"arguments and result of {size} bytes by value are more than the {_MOST_BYTES} that a "
            "call may put on the stack",
            hint="pass pointers",
        )


def plan(spec: CallSpec, fixed: int | None = None) -> bytes:
    """The plan of a call spec; `fixed` is how many arguments a variadic function names, where the
    spec has more.
    """
    signature: Signature = spec.signature
    _check(signature)
    args, policies = signature.args, spec.policies
    texts = callspec.text_lengths(signature, policies)
    outs = {out.index: out for out in policies.out}
    if signature.variadic:
        fixed = len(args)
    if _ABI is None:
        raise Unsupported("the C ABI of this machine is not known")
    try:
        call = _ABI.place(signature.result, args, fixed)
    except Unsupported as error:
        raise SignatureError(str(error)) from None
    writer = _Writer(-(-call.stack // 16) * 16)
    places, out_bytes = offsets(signature, policies.out)
    area = writer.room(out_bytes)
    where = {out.index: area + at for out, at in zip(policies.out, places, strict=True)}
    passed = len(spec.types) - 1
    hidden = len(args) - len(texts) - passed - sum([not out.given for out in policies.out])
    kinds = [callspec.letter(arg) for arg in args]
    most = sum([kind in "PVT" for kind in kinds])
    writer.owned = writer.room(most * _POINTER)

    before: list[tuple[int, int, int]] = []  # moves of no step
    steps: list[bytes] = []
    owners: dict[int, tuple[int, int]] = {}  # of each argument: which Python passes, and its owner
    told = 0
    last = len(args) - hidden - len(texts)
    for index, (ctype, passing) in enumerate(zip(args, call.args, strict=True)):
        if index >= last:
            continue
        if index in outs:
            before.append((where[index], passing.places[0], 0))
            if outs[index].given:
                inner = pointee(signature, outs[index])
                steps.append(writer.step(_SCALAR, 0, callspec.letter(inner), where[index]))
            continue
        owners[index] = len(steps), writer.owned + writer.owners * _POINTER
        steps.append(
            writer.argument(ctype, passing, _ABI.packs and passing.places[0] >= _ABI.stack)
        )
    for index, number in zip(texts, range(last, len(args)), strict=False):
        which, owner = owners[index]
        at = call.args[number].places[0]
        length = writer.step(_LENGTH, args[number].size, "q", at, owner=owner, memory=which)
        steps.append(length)
    if hidden:
        told = writer.room(8)
        before.append((told, call.args[-1].places[0], 0))
    result, first = writer.result(signature.result, call.result)
    before += first
    # Those of no step are the first.
    shift = len(before)
    header = _PLAN.pack(
        passed,
        len(texts),
        -(-(call.stack - _ABI.stack) // 8),
        _how(call.vectors, call.result, args),
        -(-writer.end // 16) * 16,
        writer.owners,
        writer.owned,
        area,
        out_bytes,
        told,
        shift,
    )
    moves = [_MOVE.pack(*one) for one in (*before, *writer.moves)]
    return b"".join([header, *[_shifted(step, shift) for step in (result, *steps)], *moves])


def _shifted(step: bytes, shift: int) -> bytes:
    """A step whose moves stand so much further on."""
    *parts, first = _STEP.unpack(step)
    return _STEP.pack(*parts, first + shift)


def _how(vectors: int, result: Passing, args: Sequence[CType]) -> int:
    """What nc_invoke is told (csrc/call/invoke.h)."""
    x87 = [piece.kind for piece in result.pieces].count("x87")
    wide = _ABI is not None and _ABI.joined and any([_is_wide(arg) for arg in args])
    return vectors | (x87 or int(wide)) << 8


def _is_wide(ctype: CType) -> bool:
    """Whether a number in a type fills a whole vector register of 64-bit ARM."""
    inner = inner_types(ctype)
    return any(map(_is_wide, inner)) if inner else "g" in ctype.text and in_memory(ctype)


# -- variadic functions --------------------------------------------------------------------------


def extended(spec: CallSpec, types: tuple[CType | str, ...]) -> CallSpec:
    """The call spec of a variadic function with arguments of these types, letters of some, after
    those that it names.
    """
    signature: Signature = spec.signature
    more = [_plain(one) if isinstance(one, str) else one for one in types]
    # const cannot be said after the fixed arguments: memory of any kind passes.
    whole = Signature(
        signature.result,
        (*signature.args, *more),
        names=(*signature.names, *[None] * len(more)),
        readonly=(*signature.readonly, *[True] * len(more)),
        characters=with_more(signature.characters, len(more)),
        written=signature.written,
    )
    return callspec.of(whole, 0, spec.policies)


def _plain(letter: str) -> CType:
    return VOIDPTR if letter == "P" else SCALARS[letter]
