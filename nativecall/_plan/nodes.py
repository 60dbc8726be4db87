"""A plan: how a function of one C signature calls one of another, as plain values.

A `Plan` says what each of the function's arguments is made of, as a `Node`, what is checked before
the call and tested after it, where results go, and how failure shows on both sides. It is immutable
and has neither native code nor addresses. `rules` makes plans; _plan/conversion.py writes one as
what the core and generated code carry out, and `messages` makes the exception for a step of it that
failed.
"""

from __future__ import annotations

from collections import namedtuple

from .. import _ext
from .._errors import refuse_reload
from .._types.ctype import CType
from .._types.derived import Pointer
from .._types.signature import Signature
from .._values.failure import Convention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

refuse_reload(globals(), "Plan")

#: Bytes at the start of a Thunk that bound values follow (csrc/call/thunkobject.h).
HEADER: Final = _ext.code_layout()["thunk_values"]


class Argument(namedtuple("Argument", ["index", "type"])):
    """Argument `index` of the wanted signature."""

    __slots__ = ()
    index: int
    type: CType


class Load(namedtuple("Load", ["pointer", "offset", "type"])):
    """What is `offset` bytes behind a pointer, which is not NULL."""

    __slots__ = ()
    pointer: Argument
    offset: int
    type: CType


class Convert(namedtuple("Convert", ["value", "type", "step", "exact"], defaults=(False,))):
    """A number as another type.

    `step` says which check of it may fail, -1 none. What is checked is for floats `exact`: whether
    one must be equal to the number it is made of, or may be rounded, though never to an infinity.
    An integer must always be equal.
    """

    __slots__ = ()
    value: Node
    type: CType
    step: int
    exact: bool


class Memory(namedtuple("Memory", ["values", "type"])):
    """A pointer to fresh memory that holds values, one after the other; of `type` each."""

    __slots__ = ()
    values: tuple[Node, ...]
    type: CType


class Constant(namedtuple("Constant", ["value", "type"])):
    """An integer; for a pointer NULL."""

    __slots__ = ()
    value: int
    type: CType


class Bound(namedtuple("Bound", ["offset", "type"])):
    """A value at an offset in the Thunk."""

    __slots__ = ()
    offset: int
    type: CType


class _Node(namedtuple("_Node", ["type"])):
    __slots__ = ()
    type: CType


class OutSlot(_Node):
    """A pointer to fresh memory, zeros, for the function to write a `type`."""


class Result(_Node):
    """What the function returned."""


class OutValue(_Node):
    """What the function wrote to the `OutSlot`."""


class ErrorOut(_Node):
    """A pointer to a fresh int, 0, for the function to say that it failed: its last argument."""


Node = (
    Argument | Load | Convert | Memory | Constant | Bound | OutSlot | Result | OutValue | ErrorOut
)


def type_of(node: Node) -> CType:
    return Pointer(node.type) if isinstance(node, (Memory, OutSlot, ErrorOut)) else node.type


class Step(namedtuple("Step", ["kind", "subject", "source", "target", "count"], defaults=(0,))):
    """Something that may fail in a call, for messages."""

    __slots__ = ()
    kind: str  # "value", "null", "count" or "failure", that of the function itself
    subject: str  # what the message is about; {} stands for the function's name
    source: CType  # of the value that did not pass
    target: CType  # what it should have become
    count: int  # how many items there must be, for "count"


class Plan(
    namedtuple(
        "Plan",
        "outer inner arguments result before after flags "
        "checks stores tested steps size takes_gil settles",
        defaults=((), (), -1, (), HEADER, False, False),
    )
):
    """How a function of one signature calls one of another."""

    __slots__ = ()
    outer: Signature  # the wanted one
    inner: Signature  # the function's own
    arguments: tuple[Node, ...]  # the function's, those after its fixed ones included
    result: Node | None
    before: Convention  # the error convention of the function
    after: Convention  # of the thunk
    flags: int  # of the thunk's entry
    # Made first, in this order: a wanted argument, and the step, of the kind "null" or "count".
    checks: tuple[tuple[int, int], ...]
    stores: tuple[tuple[int, Node], ...]  # after the call: to which wanted argument goes what
    tested: int  # the step that is the function's own failure; -1 where none is tested for
    steps: tuple[Step, ...]
    size: int  # bytes of the Thunk
    takes_gil: bool  # around the call
    settles: bool  # an exception that the function left finds a place

    def follows_call(self, step: int) -> bool:
        """Whether a step is taken when the function has returned."""
        nodes = [self.result, *[node for _, node in self.stores]]
        return step == self.tested or any(
            [isinstance(node, Convert) and node.step == step for node in nodes]
        )
