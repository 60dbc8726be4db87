"""Enumerators by name: a `str` where C declares an enum stands for the number of that name.

Only what is no number is looked at here: arguments when the core has found that they are none,
variables, and members and items of memory. What C gives back stays a number.
"""

from __future__ import annotations

from .outs import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._types import CallSpec

#: Enumerators that a message has.
_MOST_SHOWN = 12


def enumerator(enum: str, known: Mapping[str, int], name: str, who: str) -> int:
    """The value of an enumerator.

    Parameters
    ----------
    enum : str
        What C calls the enum.
    known : mapping of str to int
        Its enumerators.
    name : str
    who : str
        What messages call the value.

    Raises
    ------
    ValueError
        For a name that none has; it says which there are.

    Examples
    --------
    >>> enumerator("enum colour", {"RED": 1}, "PINK", "argument 1 of 'paint'")
    Traceback (most recent call last):
        ...
    ValueError: argument 1 of 'paint' must be an enumerator of 'enum colour' (got 'PINK'); there are
    'RED'
    """
    found = known.get(name)
    if found is not None:
        return found
    in_order = sorted(known, key=known.__getitem__)  # cffi has them in another one
    shown = ", ".join(map(repr, in_order[:_MOST_SHOWN]))
    if len(known) > _MOST_SHOWN:
        shown += f" and {len(known) - _MOST_SHOWN} others"
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    advice = f"did you mean {close[0]!r}? " if close else ""
    raise ValueError(
        f"{who} must be an enumerator of {enum!r} (got {name!r}); {advice}there are {shown}"
    )


def argument(spec: CallSpec, index: int, name: str, who: str) -> int | None:
    """The value of an enumerator that is argument `index` of a call spec, as Python passes them;
    None where that is no enum. It raises as `enumerator` does.
    """
    enums = spec.signature.enums
    if not enums:
        return None
    enum = enums[visible(spec.signature, 0, spec.policies.out)[index][0]]
    return None if enum is None else enumerator(enum[0], dict(enum[1]), name, who)
