"""The options of calls, which `wrap` and the other makers of native callables take by ``**``.

Each has one place here: its type in `CallOptions`, its check in `CHECKS`, and its default. The
docstring of `wrap` says what each means. None is the same as not giving it. `Policies`, a part of
the call interface, has the options that calls from Python follow and C does not see.
"""

from __future__ import annotations

import codecs
from collections import namedtuple

from .. import _lib
from .._errors import closest, did_you_mean, require, wrong_type
from .failure import CONVENTIONS
from .outparameters import check_out, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Literal, TypedDict, TypeVar

    from .._ext import Foreign
    from .._types.signature import Signature
    from .failure import Errors
    from .outparameters import Out

    Function = TypeVar("Function", bound=Callable[..., object])

    Gil = Literal["hold", "release", "need"]
    #: Order of arrays of several dimensions in memory: C's, Fortran's, or either.
    Order = Literal["C", "F", "A"]
    #: Called with a result, the function and the arguments; returns what the call returns.
    Check = Callable[[object, Callable[..., object], tuple[object, ...]], object]

    #: Names or positions of arguments; or a mapping of these to "inout", to a number of items, or
    #: to the name of the argument that has it.
    Outs = str | int | Sequence[str | int | Out] | Mapping[str | int, str | int | None]

    class CallOptions(TypedDict, total=False):
        """What calls by an entry do."""

        gil: Gil | None
        errors: Errors | None
        errno: bool | None
        order: Order | None
        encoding: str | None
        check: Check | None
        fortran: bool | None
        out: Outs | None
        keep: str | int | None

    class CallOptionsByName(TypedDict, total=False):
        """The same of a library's functions: for all of them, or by their names."""

        gil: Gil | Mapping[str, Gil] | None
        errors: Errors | Mapping[str, Errors] | None
        errno: bool | Mapping[str, bool] | None
        order: Order | Mapping[str, Order] | None
        encoding: str | Mapping[str, str | None] | None
        check: Check | Mapping[str, Check | None] | None
        fortran: bool | str | Sequence[str] | None
        out: Sequence[str] | Mapping[str, Outs | None] | None
        keep: str | Mapping[str, str | int] | None

    class EntryOptions(CallOptions, total=False):
        """What calls do, and what keeps the function alive."""

        owner: object

    class WrapOptions(EntryOptions, total=False):
        """The same, and what the callable is called."""

        name: str | None
        doc: str | None


class Policies(
    namedtuple(
        "Policies",
        "order encoding check fortran out keep",
        defaults=("C", None, None, False, (), "call"),
    )
):
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
    order: Order
    encoding: str | None
    check: Check | None
    fortran: bool
    out: tuple[Out, ...]
    keep: str | int

    def options(self) -> dict[str, Foreign]:
        """What `wrap` takes for them."""
        return self._asdict()

    @property
    def steps(self) -> list[str]:
        """The options that add steps to a call: plans have these, trampolines do not."""
        has = {"check": self.check is not None, "out": bool(self.out), "keep": self.keep != "call"}
        return [name for name, is_given in has.items() if is_given]

    def spelled(self, signature: Signature, index: int) -> str:
        """The type in C of an argument, counted as Python passes them (`Signature.spelled`)."""
        return signature.spelled(visible(signature, 0, self.out)[max(index, 0)][0])


DEFAULT = Policies()


#: What the GIL's option says to native callers.
GIL = {"hold": 0, "release": _lib.FLAG_RELEASE_GIL, "need": _lib.FLAG_NEEDS_GIL}


def of_type(option: str, kinds: type | tuple[type, ...], wanted: str) -> Callable[[object], object]:
    """The check of an option that is of a type; text ends where C's would."""

    def checked(value: object) -> object:
        require(repr(option), value, kinds, wanted)
        if isinstance(value, str) and "\0" in value:
            raise ValueError(f"{option!r} must not contain a null character")
        return value

    return checked


def _check_name(name: object) -> object:
    if name == "":
        raise ValueError("'name' must not be empty; None is the function's own")
    return of_type("name", str, "a str or None")(name)


def _one_of(option: str, choices: Iterable[str], way_out: str = "") -> Callable[[object], object]:
    def checked(value: object) -> object:
        if not isinstance(value, str) or value not in choices:
            known = ", ".join(map(repr, choices))
            raise ValueError(f"{option!r} must be one of {known} (got {value!r}){way_out}")
        return value

    return checked


def _check_encoding(encoding: Foreign) -> object:
    require("'encoding'", encoding, str, "a str")
    try:
        "".encode(encoding)  # codecs.lookup finds what encodes no text, too
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise ValueError(
            f"'encoding' must be an encoding of text that Python has (got {encoding!r})"
        ) from None


def _check_check(check: object) -> object:
    if not callable(check):
        raise wrong_type("'check'", "a function of result, function and arguments", check)
    return check


_KEEP = "'call', 'library', 'process', or the name or position of an argument"
_PYTHON_CHECK = "; 'check' takes a Python function, which may look for any other sign of failure"
#: Of each option what returns the value as it is kept, or raises for what can never be right.
CHECKS: dict[str, Callable[[object], object]] = {
    "name": _check_name,
    "doc": of_type("doc", str, "a str or None"),
    "owner": lambda owner: owner,
    "gil": _one_of("gil", GIL),
    "errors": _one_of("errors", CONVENTIONS, _PYTHON_CHECK),
    "errno": of_type("errno", bool, "True or False"),
    "order": _one_of("order", ("C", "F", "A")),
    "encoding": _check_encoding,
    "check": _check_check,
    "fortran": of_type("fortran", bool, "True or False"),
    "out": check_out,
    "keep": of_type("keep", (str, int), _KEEP),
}
#: What is meant where nobody says it, but for what is None then.
DEFAULTS = {"gil": "hold", "errors": "none", "errno": False}


def checked(
    options: Mapping[str, object], checks: Mapping[str, Callable[[object], object]] = CHECKS
) -> dict[str, Foreign]:
    """The options that are not None, as they are kept.

    Raises
    ------
    ValueError, TypeError
        When one can never be right.
    TypeError
        When there is no such option.
    """
    refuse_unknown(options, checks)
    return {name: checks[name](value) for name, value in options.items() if value is not None}


def refuse_unknown(options: Iterable[str], known: Collection[str]) -> None:
    """Refuse a name that no option has."""
    for name in options:
        if name not in known:
            close = did_you_mean(closest(name, known, 1))
            raise TypeError(f"there is no option {name!r}{close}")


class _Spelled:
    """What `inspect` and `help` are told of a function: every option that it takes by its name."""

    def __init__(self, function: Callable[..., object], names: Iterable[str]) -> None:
        self._function = function
        self._names = names

    def __get__(self, obj: object, owner: object) -> object:
        return self  # so that doctest takes it for a function

    def __call__(self, *values: object, **named: object) -> object:
        return self._function(*values, **named)

    @property
    def __signature__(self) -> inspect.Signature:
        from inspect import Parameter, signature

        known = signature(self._function, follow_wrapped=False)
        *fixed, _ = known.parameters.values()
        options = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in self._names]
        return known.replace(parameters=[*fixed, *options])


def spelled(*names: str) -> Callable[[Function], Function]:
    """A decorator of functions that take these options by ``**``, and say so to `inspect`."""

    def decorated(function: Function) -> Function:
        function.__wrapped__ = _Spelled(function, names)  # type: ignore[attr-defined]  # functions have any
        return function

    return decorated


WRAP = tuple(CHECKS)
ENTRY = WRAP[2:]
CALL = WRAP[3:]
