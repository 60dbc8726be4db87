"""A plan: how a function of one C signature calls one of another, as plain values.

A `Plan` says what each of the function's arguments is made of, as a `Node`, what is checked before
the call and tested after it, where results go, and how failure shows on both sides. It is immutable
and has neither native code nor addresses. `rules` makes plans;
_codegen/thunk.py compiles one, _plan/conversion.py writes it as what the core carries out, and
`messages` makes the exception for a step of it that failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .. import _lib
from .._signature.ctype import CType
from .._signature.signature import Signature
from .._values.failure import Convention

#: Bytes at the start of a Thunk that bound values follow (csrc/object/thunkobject.h).
HEADER: Final = _lib.types.code_layout()["thunk_values"]
# errno of thunks that fail.
INPUT_OUTPUT_ERROR: Final = 5  # EIO
OUT_OF_RANGE: Final = 34  # ERANGE


@dataclass(frozen=True, slots=True)
class Given:
    """Argument `index` of the wanted signature."""

    index: int
    type: CType


@dataclass(frozen=True, slots=True)
class Load:
    """What is `offset` bytes behind a pointer, which is not NULL."""

    pointer: Given
    offset: int
    type: CType


@dataclass(frozen=True, slots=True)
class Convert:
    """A number as another type.

    `step` says which check of it may fail, -1 none. What is checked is for floats `exact`: whether
    one must be equal to the number it is made of, or may be rounded, though never to an infinity.
    An integer must always be equal.
    """

    value: Node
    type: CType
    step: int
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """A pointer to fresh memory that holds values, one after the other; of `type` each."""

    values: tuple[Node, ...]
    type: CType


@dataclass(frozen=True, slots=True)
class Constant:
    """An integer; for a pointer NULL."""

    value: int
    type: CType


@dataclass(frozen=True, slots=True)
class Bound:
    """A value at an offset in the Thunk."""

    offset: int
    type: CType


@dataclass(frozen=True, slots=True)
class _Node:
    type: CType


class Room(_Node):
    """A pointer to fresh memory, zeros, for the function to write a `type`."""


class Result(_Node):
    """What the function returned."""


class Written(_Node):
    """What the function wrote to the `Room`."""


class Told(_Node):
    """A pointer to a fresh int, 0, for the function to say that it failed: its last argument."""


Node = Given | Load | Convert | Memory | Constant | Bound | Room | Result | Written | Told


@dataclass(frozen=True, slots=True)
class Check:
    """What must hold of a wanted argument before the call: not NULL, or equal to `count`."""

    index: int
    count: int | None
    step: int


@dataclass(frozen=True, slots=True)
class Step:
    """Something that may fail in a call, for messages."""

    kind: str  # "value", "null", "count" or "failure", that of the function itself
    subject: str  # what the message is about; {} stands for the function's name
    source: CType  # of the value that did not pass
    target: CType  # what it should have become
    count: int = 0  # how many items there must be


@dataclass(frozen=True, slots=True)
class Plan:
    """How a function of one signature calls one of another."""

    outer: Signature  # the wanted one
    inner: Signature  # the function's own
    arguments: tuple[Node, ...]  # the function's, those after its fixed ones included
    checks: tuple[Check, ...]  # made first, in this order
    stores: tuple[tuple[int, Node], ...]  # after the call: to which wanted argument goes what
    result: Node | None
    before: Convention  # the error convention of the function
    after: Convention  # of the thunk
    tested: int  # the step that is the function's own failure; -1 where none is tested for
    steps: tuple[Step, ...]
    flags: int  # of the thunk's entry
    size: int = HEADER  # bytes of the Thunk
    takes_gil: bool = False  # around the call
    settles: bool = False  # an exception that the function left finds a place

    def follows_call(self, step: int) -> bool:
        """Whether a step is taken when the function has returned."""
        nodes = [self.result, *[node for _, node in self.stores]]
        return step == self.tested or any(
            [isinstance(node, Convert) and node.step == step for node in nodes]
        )

    @property
    def tells(self) -> bool:
        """Whether the thunk says itself, by its last argument, that it failed.

        Where the function has such an argument, too, it is the same, and the function has said so.
        """
        return bool(self.after.hidden and not self.before.hidden)

    @property
    def clears_errno_before(self) -> bool:
        """Whether the thunk sets errno to 0 before the call, which its caller does not do."""
        return bool(self.before.shown_by == "errno" != self.after.shown_by)

    @property
    def clears_errno_after(self) -> bool:
        """Whether what the call leaves in errno means nothing to the thunk's caller."""
        return bool(self.after.shown_by == "errno" != self.before.shown_by)

    @property
    def variadic(self) -> int | None:
        """The number of fixed arguments of a variadic function, None for others."""
        return len(self.inner.args) if self.inner.variadic else None
