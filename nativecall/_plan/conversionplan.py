"""Conversion plans: plain values that describe how to call a C function through another signature.

A `Plan` describes each argument of the function as a `Node`. It lists the checks before and after
the call, the destination of results, and the error conventions of both sides. It is immutable, and
contains no native code or addresses. rules.py creates plans. conversion.py translates them for the
core and generated code. messages.py creates the exception for a failed step.
"""

from __future__ import annotations

from .. import _ext
from .._errors import TYPE_CHECKING, refuse_reload
from .._rows import NamedTuple
from .._types.ctype import CType
from .._types.derived import Pointer
from .._types.signature import Signature
from .._values.failure import Convention

if TYPE_CHECKING:
    from typing import Final

refuse_reload(globals(), "Plan")

#: Size of a Thunk's header, in bytes; bound values follow it (csrc/call/thunkobject.h).
HEADER: Final = _ext.code_layout()["thunk_values"]


class Argument(NamedTuple):
    """Argument `index` of the wanted signature."""

    index: int  # type: ignore[assignment]  # a field, not the method of tuples
    type: CType


class Load(NamedTuple):
    """The value `offset` bytes behind a pointer that is not NULL."""

    pointer: Argument
    offset: int
    type: CType


class Convert(NamedTuple):
    """A number converted to another type.

    `step` is the step that fails if the conversion fails, or -1 if it cannot fail. An integer
    result must equal its source. With `exact`, a floating-point result must also equal its source;
    otherwise it may be rounded, but not to an infinity.
    """

    value: Node
    type: CType
    step: int
    exact: bool = False


class Memory(NamedTuple):
    """A pointer to fresh memory with consecutive values of `type`."""

    values: tuple[Node, ...]
    type: CType


class Constant(NamedTuple):
    """An integer constant; NULL for pointers."""

    value: int
    type: CType


class Bound(NamedTuple):
    """A bound value, stored at an offset in the Thunk."""

    offset: int
    type: CType


class _Node(NamedTuple):
    type: CType


class OutSlot(_Node):
    """A pointer to fresh zeroed memory where the function writes a `type`."""


class Result(_Node):
    """The function's result."""


class OutValue(_Node):
    """The value that the function wrote to the `OutSlot`."""


class ErrorOut(_Node):
    """The last argument: a pointer to a fresh zero int where the function reports failure."""


Node = (
    Argument | Load | Convert | Memory | Constant | Bound | OutSlot | Result | OutValue | ErrorOut
)


def type_of(node: Node) -> CType:
    return Pointer(node.type) if isinstance(node, (Memory, OutSlot, ErrorOut)) else node.type


class Step(NamedTuple):
    """A check that may fail in a call, with the data for its message."""

    kind: str  # "value", "null" or "count"; "failure" if the function itself fails
    subject: str  # the subject of the message; {} stands for the function's name
    source: CType  # type of the refused value
    target: CType  # type that it should convert to
    # The required number of items, for "count".
    count: int = 0  # type: ignore[assignment]  # a field, not the method of tuples


class Plan(NamedTuple):
    """How a thunk with the wanted signature calls a function with its own signature."""

    outer: Signature  # the wanted signature
    inner: Signature  # the function's own signature
    arguments: tuple[Node, ...]  # of the function, including variadic arguments
    result: Node | None
    before: Convention  # error convention of the function
    after: Convention  # error convention of the thunk
    flags: int  # of the thunk's entry
    # Checks before the call, in order: (wanted argument, step of the kind "null" or "count").
    checks: tuple[tuple[int, int], ...] = ()
    stores: tuple[tuple[int, Node], ...] = ()  # after the call: (wanted argument, value to write)
    tested: int = -1  # the step for the function's own failure; -1 if it is not tested
    steps: tuple[Step, ...] = ()
    size: int = HEADER  # bytes of the Thunk
    takes_gil: bool = False  # whether the thunk takes the GIL around the call
    # Whether the thunk raises or reports an exception that the function left set.
    settles: bool = False

    def follows_call(self, step: int) -> bool:
        """Return whether a step is executed after the function has returned."""
        nodes = [self.result, *[node for _, node in self.stores]]
        return step == self.tested or any(
            [isinstance(node, Convert) and node.step == step for node in nodes]
        )
