"""Policies: what calls from Python do with arguments and results beyond what the C types say.

They live in the call spec, for one function as for a whole library: a signature's text, the
trampolines and C code that looks do not know them. A further one is a field of `Policies` with its
values in `_CHOICES`, and an argument of `wrap`, `Library.function` and `load`.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, TypedDict

    #: Order of arrays of several dimensions in memory: C's, Fortran's, or either.
    Order = Literal["C", "F", "A"]

    class Said(TypedDict, total=False):
        """Policies as options: None leaves one as it is."""

        order: Order | None


class Policies(namedtuple("Policies", ["order"], defaults=["C"])):
    """All policies of a function."""

    __slots__ = ()
    order: Order


_CHOICES = {"order": ("C", "F", "A")}
DEFAULT = Policies()


def check(**said: Any) -> dict[str, Any]:
    """The options that are not None.

    Raises
    ------
    ValueError
        When one is none of its choices.
    TypeError
        When there is no such option.
    """
    for name, value in said.items():
        if name not in _CHOICES:
            raise TypeError(f"there is no option {name!r}")
        choices = _CHOICES[name]
        if value is not None and (not isinstance(value, str) or value not in choices):
            *most, last = map(repr, choices)
            raise ValueError(f"{name!r} must be {', '.join(most)} or {last} (got {value!r})")
    return {name: value for name, value in said.items() if value is not None}
