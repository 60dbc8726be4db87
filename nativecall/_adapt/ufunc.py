"""The plan of a ufunc's loop: what a C function gets of each element, and where its results go.

A loop of NumPy's is called with the addresses of its operands, inputs first, how many elements
there are, and the steps from one to the next. For each element it calls a C function once. A plan
says what each argument of that call is: the element itself, a pointer to a copy of it, a pointer to
the operand's memory, a view of it or a length; and which operands have the function's result.

Operands of a generalised loop have dimensions of their own besides (`core`), as numbers of the
names in NumPy's signature: ``(n),(n)->()`` is ``((0,), (0,), ())``.
"""

from __future__ import annotations

from collections import namedtuple

from .._types.ctype import CType
from .._types.signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from .._values.failure import Errors


class Value(namedtuple("Value", ["operand"])):
    """An operand's element."""

    __slots__ = ()
    operand: int


class Reference(namedtuple("Reference", ["operand"])):
    """A pointer to a copy of an operand's element, as Fortran takes numbers."""

    __slots__ = ()
    operand: int


class Address(namedtuple("Address", ["operand", "given", "is_output"], defaults=(None, False))):
    """A pointer to the memory of an operand, in C's order without gaps.

    An output has what the input `given` has before the call; else its element is zero, and that of
    one with dimensions is as it is.
    """

    __slots__ = ()
    operand: int
    given: int | None
    is_output: bool


class Viewed(namedtuple("Viewed", ["operand", "given"], defaults=(None,))):
    """A strided view of an operand; an output has what the input `given` has before the call."""

    __slots__ = ()
    operand: int
    given: int | None


class Length(namedtuple("Length", ["dimension"])):
    """The length of a core dimension."""

    __slots__ = ()
    dimension: int


class ErrorOut(namedtuple("ErrorOut", [])):
    """An int of the loop's own, where the function says that it failed."""

    __slots__ = ()


Passed: TypeAlias = Value | Reference | Address | Viewed | Length | ErrorOut


class LoopPlan(
    namedtuple(
        "LoopPlan",
        "signature inputs outputs arguments results core needs_gil errors",
        defaults=(None, False, "none"),
    )
):
    """A loop around one C function.

    Attributes
    ----------
    signature : Signature
        Of the function.
    inputs, outputs : tuple of CType
        Elements of the operands.
    arguments : tuple of Passed
        One for each argument of the function.
    results : tuple of (int, int)
        Operands that have the function's result: each the number of the operand, and where in a
        struct it is.
    core : tuple of tuple of int, or None
        The core dimensions of each operand; None for a loop that is not generalised.
    needs_gil : bool
        Whether the loop takes the GIL.
    errors : str
        The function's error convention; the loop ends at the first failure.
    """

    __slots__ = ()
    signature: Signature
    inputs: tuple[CType, ...]
    outputs: tuple[CType, ...]
    arguments: tuple[Passed, ...]
    results: tuple[tuple[int, int], ...]
    core: tuple[tuple[int, ...], ...] | None
    needs_gil: bool
    errors: Errors

    @property
    def operands(self) -> tuple[CType, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def dimensions(self) -> int:
        """How many names the core dimensions have."""
        return max([-1, *[one for row in self.core or () for one in row]]) + 1

    def steps_of(self, operand: int) -> int:
        """Where the steps of an operand's core dimensions begin among all steps."""
        assert self.core is not None
        return len(self.operands) + sum([len(row) for row in self.core[:operand]])
