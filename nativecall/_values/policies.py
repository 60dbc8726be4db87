"""Policies: what calls from Python do with arguments and results beyond what the C types say.

They live in the call spec, for one function as for a whole library: a signature's text, the
trampolines' machine code and C code that looks do not know them. A further one is a field of
`Policies`, a check in `_CHECKS`, and an argument of `wrap`, `Library.function` and `load`.
"""

from __future__ import annotations

import codecs
from collections import namedtuple

from .outs import check_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal, TypedDict

    from .._types import Foreign
    from .outs import Out

    #: Order of arrays of several dimensions in memory: C's, Fortran's, or either.
    Order = Literal["C", "F", "A"]
    #: Called with a result, the function and the arguments; returns what the call returns.
    Check = Callable[[object, Callable[..., object], tuple[object, ...]], object]

    #: Names or positions of arguments; or a mapping of these to "inout", to a number of items, or
    #: to the name of the argument that has it.
    Outs = str | int | Sequence[str | int | Out] | Mapping[str | int, str | int | None]

    class Said(TypedDict, total=False):
        """Policies as options: None leaves one as it is."""

        order: Order | None
        encoding: str | None
        check: Check | None
        fortran: bool | None
        out: Outs | None
        keep: str | int | None


if TYPE_CHECKING:
    from typing import NamedTuple

    class _Row(NamedTuple):
        order: Order = "C"
        encoding: str | None = None
        check: Check | None = None
        fortran: bool = False
        out: tuple[Out, ...] = ()
        keep: str | int = "call"

else:  # without typing, which a load does not import
    _Row = namedtuple(
        "Policies",
        ["order", "encoding", "check", "fortran", "out", "keep"],
        defaults=("C", None, None, False, (), "call"),
    )


class Policies(_Row):
    """All policies of a function.

    Attributes
    ----------
    order : {"C", "F", "A"}
        Of arrays of several dimensions behind pointers.
    encoding : str or None
        Of text behind pointers to const char; None for bytes.
    check : callable or None
        What sees each result before the caller does.
    fortran : bool
        Whether numbers stand for pointers to them, and lengths of texts follow the arguments.
    out : tuple
        Out-parameters: what was said of them, or `Out` once the signature is known.
    keep : str or int
        How long C keeps functions that are passed: ``"call"``, ``"library"``, ``"process"``, or as
        long as an argument, by name or position, and by position once the signature is known.
    """

    __slots__ = ()

    def options(self) -> dict[str, Foreign]:
        """What `wrap` takes for them."""
        return self._asdict()


DEFAULT = Policies()


def _check_order(order: object) -> object:
    if not isinstance(order, str) or order not in ("C", "F", "A"):
        raise ValueError(f"'order' must be 'C', 'F' or 'A' (got {order!r})")
    return order


def _check_encoding(encoding: object) -> object:
    if not isinstance(encoding, str):
        raise TypeError(f"'encoding' must be a str (got {type(encoding).__name__})")
    try:
        "".encode(encoding)  # codecs.lookup finds what encodes no text, too
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise ValueError(
            f"'encoding' must be an encoding of text that Python has (got {encoding!r})"
        ) from None


def _check_check(check: object) -> object:
    if not callable(check):
        raise TypeError(
            "'check' must be a function of result, function and arguments "
            f"(got {type(check).__name__})"
        )
    return check


def _check_fortran(fortran: object) -> object:
    if not isinstance(fortran, bool):
        raise TypeError(f"'fortran' must be True or False (got {type(fortran).__name__})")
    return fortran


def _check_keep(keep: object) -> object:
    if isinstance(keep, bool) or not isinstance(keep, (str, int)):
        raise TypeError(
            "'keep' must be 'call', 'library', 'process', or the name or position of an argument "
            f"(got {type(keep).__name__})"
        )
    return keep


_CHECKS: dict[str, Callable[[object], object]] = {
    "order": _check_order,
    "encoding": _check_encoding,
    "check": _check_check,
    "fortran": _check_fortran,
    "out": check_out,
    "keep": _check_keep,
}


def check(**said: object) -> dict[str, Foreign]:
    """The options that are not None, as they are kept.

    Raises
    ------
    ValueError, TypeError
        When one can never be right.
    TypeError
        When there is no such option.
    """
    for name in said:
        if name not in _CHECKS:
            raise TypeError(f"there is no option {name!r}")
    return {name: _CHECKS[name](value) for name, value in said.items() if value is not None}
