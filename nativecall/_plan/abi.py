"""How a C ABI passes arguments and results, for the core's calls and for generated code.

An `ABI` places the values of one call. A value is passed as a pointer to memory, or in up to four
pieces, each in a register or on the stack. The place of a piece is a byte offset into the *block*.
The block is the memory image of a call in csrc/call/: argument registers, result registers, then
stack arguments. Generated code uses only the pieces, since LLVM places the values.

Nothing here imports LLVM, and each ABI can be used on any machine.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING
from .._rows import NamedTuple
from .._types.ctype import CType, is_native

if TYPE_CHECKING:
    from collections.abc import Sequence


class Unsupported(Exception):
    """Raised for a signature that cannot be called or compiled; the message says why."""


_UNKNOWN = "the C ABI of this machine is not known"


class Piece(NamedTuple):
    """The part of a value that goes into one register, if a register is free.

    Attributes
    ----------
    kind : {"general", "vector", "x87"}
        The kind of register.
    offset, size : int
        The bytes of the value in this piece.
    """

    kind: str
    offset: int
    size: int


class Passing(NamedTuple):
    """How one argument or the result is passed.

    Attributes
    ----------
    ctype : CType
    how : {"void", "value", "pieces", "stack", "reference"}
        ``"value"``: a number or pointer. ``"pieces"``: an object cut into pieces. ``"stack"``: an
        argument that lies whole on the stack. ``"reference"``: a pointer. For an argument it points
        to a copy, for a result to the caller's memory. ``"void"``: no result.
    pieces : tuple of Piece
        The pieces for ``"value"`` and ``"pieces"``.
    places : tuple of int
        The offset of each piece in the block. Without pieces, the first place is the offset of the
        object, or of the pointer to the object. If a single piece has several places, each gets a
        copy. A reference result may have a second place, where the function returns the pointer.
    """

    ctype: CType
    how: str
    pieces: tuple[Piece, ...] = ()
    places: tuple[int, ...] = ()

    @property
    def moves(self) -> list[tuple[int, int, int]]:
        """(offset in the value, offset in the block, size) for each place of a piece."""
        pieces = self.pieces * (len(self.places) // len(self.pieces))
        return [(one.offset, at, one.size) for one, at in zip(pieces, self.places, strict=True)]


class Call(NamedTuple):
    """The places of all values of one call.

    Attributes
    ----------
    result : Passing
    args : list of Passing
    stack : int
        The end of the stack arguments in the block, a multiple of 16.
    vectors : int
        The number of vector registers that hold arguments.
    """

    result: Passing
    args: list[Passing]
    stack: int
    vectors: int

    @property
    def x87(self) -> int:
        """The number of x87 registers that hold the result."""
        return [piece.kind for piece in self.result.pieces].count("x87")


def in_memory(ctype: CType) -> bool:
    """Return whether a value is handled as memory, not as a number or a pointer."""
    if ctype.kind == "float":
        return ctype.size > 8 or not is_native(ctype)
    return ctype.kind in ("struct", "union", "complex")


def cut(ctype: CType, kind: str, size: int = 8) -> tuple[Piece, ...]:
    """Cut an object into pieces of `size` bytes for registers of one kind."""
    parts = range(0, ctype.size, size)
    return tuple([Piece(kind, at, min(size, ctype.size - at)) for at in parts])


class ABI:
    """The rules of one platform. This base class stands for an unknown platform.

    Attributes
    ----------
    by_place : bool
        Whether an argument's register depends on its position among all arguments, not among the
        arguments of the same kind. An object in a register is then an integer of the same size.
    extends : bool
        Whether the caller extends integers narrower than 32 bits to 32 bits.
    joined : bool
        Whether the pieces of an object form one LLVM array, which must stay together.
    stack : int
        The start of the stack arguments in the block.
    packs : bool
        Whether arguments on the stack are not padded.
    results : dict of str to tuple of int
        The places for pieces of a result, by kind.
    indirect : tuple of int
        The places of a reference result.
    """

    stack: int
    results: dict[str, tuple[int, ...]]
    indirect: tuple[int, ...]
    by_place = False
    extends = False
    joined = False
    packs = False

    def pieces(self, ctype: CType) -> tuple[Piece, ...] | None:
        """Return the pieces of a value that go into registers; None for a value in memory."""
        raise Unsupported(_UNKNOWN)

    def result(self, ctype: CType) -> Passing:
        """Return how a result is passed. For ``"reference"``, the pointer is a hidden argument."""
        pieces = self.pieces(ctype)
        if pieces is None:
            return Passing(ctype, "reference", (), self.indirect)
        places = {kind: iter(row) for kind, row in self.results.items()}
        how = "pieces" if in_memory(ctype) else "value"
        return Passing(ctype, how, pieces, tuple([next(places[one.kind]) for one in pieces]))

    def place(self, result: CType, args: Sequence[CType], fixed: int | None = None) -> Call:
        """Place the values of a call.

        If the function is variadic, `fixed` is the number of fixed arguments.

        Raises
        ------
        Unsupported
            For a type that is not supported on this ABI.
        """
        for one in (result, *args):
            if one.alignment > 16:
                raise Unsupported(
                    f"{one.named!r} is aligned to {one.alignment} bytes, but the stack only to 16"
                )
        passed = Passing(result, "void") if result.kind == "void" else self.result(result)
        call = self.arguments(passed, args, fixed)
        return call._replace(stack=-(-call.stack // 16) * 16)

    def arguments(self, result: Passing, args: Sequence[CType], fixed: int | None) -> Call:
        """Place the arguments of a call with this result."""
        raise Unsupported(_UNKNOWN)


UNKNOWN = ABI()
