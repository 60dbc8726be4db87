"""The rule by which an array and its length become the view that a function takes: ``(T *x, n)``
or ``(n, T *x)`` wanted of ``[1]T``.

The thunk has the view's descriptor, with the items next to each other. Other arguments become their
counterparts.
"""

from __future__ import annotations

from .._types.ctype import scalar
from .._types.derived import Pointer, View
from .draft import Draft, Refused, of_argument
from .messages import own_text
from .plan import Argument, Constant, Memory, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .draft import Own

_LENGTH = scalar("q")  # of intptr_t


def viewed(draft: Draft, own: Sequence[Own], given: Sequence[Argument]) -> list[Node]:
    """Nodes for the function's arguments; `Refused` where this is not what they are."""
    if not any([_is_vector(one) for one in own]):
        raise Refused("", None, -2)
    nodes: list[Node] = []
    rest = [*given]
    for index, one in enumerate(own):
        if _is_vector(one):
            nodes.append(_descriptor(draft, one, rest[:2], index))
            del rest[:2]
        elif rest:
            nodes.append(draft.argument(rest.pop(0), one, own_text(index)))
        else:
            raise Refused("", None, -2)
    if rest:
        raise Refused("", None, -2)
    return nodes


def _is_vector(own: Own) -> bool:
    return isinstance(own.type, View) and own.type.ndim == 1


def _descriptor(draft: Draft, own: Own, pair: Sequence[Argument], index: int) -> Node:
    """A pointer to the view's descriptor."""
    assert isinstance(own.type, View)
    item = own.type.item
    wanted = Pointer(item)
    for at, n in ((0, 1), (1, 0)):
        if len(pair) == 2 and pair[at].type == wanted and pair[n].type.kind == "int":
            try:
                draft.promised(pair[at], own)
                length = draft.value(pair[n], _LENGTH, own_text(index))
            except Refused as refused:
                raise of_argument(pair[at], refused, 0) from None
            return Memory((pair[at], length, Constant(item.size, _LENGTH)), _LENGTH)
    raise Refused("", None, -2)
