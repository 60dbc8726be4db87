"""How a C ABI passes arguments and results: the one description that calls and LLVM's code share.

An `ABI` places the values of one call. A value travels in up to four pieces, each in a register or
on the stack, or as a pointer to memory that has it. Where a piece goes is a byte offset into a
*block*, the image of a call that csrc/call/ keeps in memory: the registers of arguments, then
those of results, then the arguments on the stack. LLVM places values itself, and reads only how
they are cut.

Nothing here imports LLVM, and each ABI can be used on any machine.
"""

from __future__ import annotations

from collections import namedtuple

from .._types.ctype import CType, is_native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    How = Literal["void", "value", "pieces", "stack", "reference"]


class Unsupported(Exception):
    """A signature cannot be called or compiled; the message says what is in the way."""


_UNKNOWN = "the C ABI of this machine is not known"


class Piece(namedtuple("Piece", ["kind", "offset", "size"])):
    """Part of a value that one register holds, or would hold if one were left.

    Attributes
    ----------
    kind : {"general", "vector", "x87"}
        Which registers are for it.
    offset, size : int
        The bytes of the value that it has.
    """

    __slots__ = ()
    kind: str
    offset: int
    size: int


class Passing(namedtuple("Passing", ["ctype", "how", "pieces", "places"], defaults=((), ()))):
    """How one argument or the result is passed.

    Attributes
    ----------
    ctype : CType
    how : {"void", "value", "pieces", "stack", "reference"}
        ``"value"``: as the number or pointer that it is. ``"pieces"``: cut. ``"stack"``
        (arguments): whole, in the argument area. ``"reference"``: as a pointer, to a copy for an
        argument, to the caller's memory for a result. ``"void"``: no result.
    pieces : tuple of Piece
        What there is of a value and of pieces.
    places : tuple of int
        Where each piece is in the block; else where the object is, or the pointer to it. More than
        one for a single piece are copies of it. A second one of a result that is a reference is
        where the function returns the pointer.
    """

    __slots__ = ()
    ctype: CType
    how: How
    pieces: tuple[Piece, ...]
    places: tuple[int, ...]

    @property
    def moves(self) -> list[tuple[int, int, int]]:
        """Of each piece where it is in the value, and in the block, and its bytes."""
        pieces = self.pieces * (len(self.places) // len(self.pieces))
        return [(one.offset, at, one.size) for one, at in zip(pieces, self.places, strict=True)]


class Call(namedtuple("Call", ["result", "args", "stack", "vectors"])):
    """Where all values of one call are.

    Attributes
    ----------
    result : Passing
    args : list of Passing
    stack : int
        Where the arguments on the stack end in the block, at a multiple of 16.
    vectors : int
        How many vector registers have arguments.
    """

    __slots__ = ()
    result: Passing
    args: list[Passing]
    stack: int
    vectors: int

    @property
    def x87(self) -> int:
        """How many long doubles are the result in registers of x86-64."""
        return [piece.kind for piece in self.result.pieces].count("x87")


def in_memory(ctype: CType) -> bool:
    """Whether a value is handled as memory that has it rather than as a number or a pointer."""
    if ctype.kind == "float":
        return ctype.size > 8 or not is_native(ctype)
    return ctype.kind in ("struct", "union", "complex")


def cut(ctype: CType, kind: str, size: int = 8) -> tuple[Piece, ...]:
    """An object in registers of one kind, which have `size` bytes of it each."""
    parts = range(0, ctype.size, size)
    return tuple([Piece(kind, at, min(size, ctype.size - at)) for at in parts])


class ABI:
    """The rules of one platform: of one that is not known, unless a subclass says them.

    Attributes
    ----------
    by_place : bool
        Whether the register of an argument goes by its place among all, not among those of a kind;
        then an object in one is an integer of its size.
    extends : bool
        Whether who passes an integer narrower than 32 bits extends it to them.
    joined : bool
        Whether the pieces of an object are one array to LLVM, which must stay together.
    stack : int
        Where the arguments on the stack begin in the block.
    packs : bool
        Whether arguments on the stack have no more bytes than they need.
    results : dict of str to tuple of int
        Where the pieces of a result are, by their kinds.
    indirect : tuple of int
        Where the places of a result are that is a reference.
    """

    stack: int
    results: dict[str, tuple[int, ...]]
    indirect: tuple[int, ...]
    by_place = False
    extends = False
    joined = False
    packs = False

    def pieces(self, ctype: CType) -> tuple[Piece, ...] | None:
        """What registers hold, or would hold, of a value; None where it is in memory."""
        raise Unsupported(_UNKNOWN)

    def result(self, ctype: CType) -> Passing:
        """How a result is passed; ``"reference"`` takes a pointer that is passed like an argument,
        in its place.
        """
        pieces = self.pieces(ctype)
        if pieces is None:
            return Passing(ctype, "reference", (), self.indirect)
        places = {kind: iter(row) for kind, row in self.results.items()}
        how = "pieces" if in_memory(ctype) else "value"
        return Passing(ctype, how, pieces, tuple([next(places[one.kind]) for one in pieces]))

    def place(self, result: CType, args: Sequence[CType], fixed: int | None = None) -> Call:
        """Place the values of a call; `fixed` is how many arguments a variadic function names.

        Raises
        ------
        Unsupported
            For a type whose passing is not known here.
        """
        for one in (result, *args):
            if one.alignment > 16:
                raise Unsupported(
                    f"{one.named!r} is aligned to {one.alignment} bytes, and a stack to 16"
                )
        passed = Passing(result, "void") if result.kind == "void" else self.result(result)
        call = self.arguments(passed, args, fixed)
        return call._replace(stack=-(-call.stack // 16) * 16)

    def arguments(self, result: Passing, args: Sequence[CType], fixed: int | None) -> Call:
        """Place the arguments of a call with this result."""
        raise Unsupported(_UNKNOWN)


UNKNOWN = ABI()
