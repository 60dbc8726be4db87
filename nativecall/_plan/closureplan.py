"""Makes closure plans: the placement of a signature's values, as what the core does when C calls.

csrc/call/plan.h says what a plan is. All callbacks of a signature share one.
"""

from __future__ import annotations

import struct

from .._values import callspec
from . import steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types.signature import Signature
    from .abi import Passing

# Of struct NcClosurePlan.
_CLOSURE = struct.Struct("=4I")
_NOWHERE = 2**32 - 1


def plan(signature: Signature, *, tells_last: bool = False) -> bytes:
    """The plan of callbacks of a signature.

    Parameters
    ----------
    signature : Signature
    tells_last : bool
        Whether the last argument, an int's address, is what a failure is told by: the function
        does not get it.

    Raises
    ------
    SignatureError
        For types whose passing is not known, and more bytes than fit on a stack.
    """
    call = steps.place(signature)
    moves: list[tuple[int, int, int]] = []
    last = len(signature.args) - tells_last
    arguments = [_argument(passing, moves) for passing in call.args[:last]]
    result = _result(call.result, moves)
    x87 = [piece.kind for piece in call.result.pieces].count("x87")
    reference = call.result.places[0] if call.result.how == "reference" else _NOWHERE
    told = call.args[-1].places[0] if tells_last else _NOWHERE
    header = _CLOSURE.pack(last, reference, told, x87)
    return steps.joined(header, [result, *arguments], moves)


def _argument(passing: Passing, moves: list[tuple[int, int, int]]) -> bytes:
    """The step of an argument."""
    ctype, places = passing.ctype, passing.places
    letter, size, first = callspec.letter(ctype), ctype.size, len(moves)
    at = places[0]
    if passing.how == "pieces" and len(places) > 1:
        at = 0
        for piece, place in zip(passing.pieces, places, strict=True):
            moves.append((place, piece.offset, piece.size))
    code = steps.PLAIN.get(letter, steps.SCALAR)
    if letter == "T":
        code = steps.STRUCT
    elif letter in "PVO":
        code = steps.POINTER
    elif passing.how != "value" or (size < 8 and steps.is_packed(at)):
        code = steps.BOOL if letter == "?" else steps.SCALAR
    owner = int(passing.how == "reference")
    return steps.step(code, size & 0xFF, letter, at, owner=owner, moves=(first, len(moves)))


def _result(passing: Passing, moves: list[tuple[int, int, int]]) -> bytes:
    """The step of the result."""
    ctype, first = passing.ctype, len(moves)
    letter = callspec.letter(ctype)
    if passing.how == "void":
        return steps.step(steps.VOID, 0, letter, 0)
    if passing.how == "reference":
        return steps.step(steps.STRUCT, 0, letter, (*passing.places, _NOWHERE)[1])
    if passing.how == "value":
        code = steps.SIGNED if steps.PLAIN.get(letter) == steps.SIGNED else steps.UNSIGNED
        return steps.step(code, ctype.size, letter, passing.places[0])
    for piece, place in zip(passing.pieces, passing.places, strict=True):
        moves.append((piece.offset, place, piece.size))
    return steps.step(steps.SCALAR, 0, letter, 0, moves=(first, len(moves)))
