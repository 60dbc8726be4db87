"""The call options, which `wrap` and similar functions accept as ``**options``.

`CallOptions` declares the type of each option, and `CHECKS` contains its check. `DEFAULTS` and
`Policies` contain the defaults. The docstring of `wrap` documents the options. None means that an
option is not given. `Policies`, a part of the call interface, stores the options that affect only
calls from Python.
"""

from __future__ import annotations

import codecs

from .. import _lib
from .._errors import TYPE_CHECKING, closest, did_you_mean, require, wrong_type
from .._rows import NamedTuple
from .failure import CONVENTIONS
from .outparameters import check_out, visible

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
    #: Memory layout of multidimensional arrays: C order, Fortran order, or either.
    Order = Literal["C", "F", "A"]
    #: Called with a result, the function and the arguments; its return value replaces the result.
    Check = Callable[[object, Callable[..., object], tuple[object, ...]], object]

    #: Names or positions of arguments; or a mapping of names or positions to "inout", to a number
    #: of items, or to the name of the argument that passes the number of items.
    Outs = str | int | Sequence[str | int | Out] | Mapping[str | int, str | int | None]

    class CallOptions(TypedDict, total=False):
        """The options of calls through an entry."""

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
        """The call options of a library: one value for all its functions, or values by name."""

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
        """The call options, and the object that keeps the function alive."""

        owner: object

    class WrapOptions(EntryOptions, total=False):
        """The options of an entry, and the name and docstring of the callable."""

        name: str | None
        doc: str | None

    class AnyWrapOptions(WrapOptions, total=False):
        """The options of `wrap`, and the library that declares the types of the signature."""

        types: object


class Policies(NamedTuple):
    """The options of a function that affect only calls from Python.

    Attributes
    ----------
    order : {"C", "F", "A"}
        The memory layout of multidimensional arrays behind pointers.
    encoding : str or None
        The encoding of text behind pointers to const char; None for bytes.
    check : callable or None
        Called with each result before it is returned.
    fortran : bool
        Whether Python may pass numbers for pointers to numbers. Calls then also append the lengths
        of text arguments.
    out : tuple
        The out-parameters: as given, or as `Out` once the signature is known.
    keep : str or int
        How long C keeps functions passed to it: ``"call"``, ``"library"``, ``"process"``, or as
        long as the argument with this name or position lives. Once the signature is known, a name
        is replaced by the argument's position.
    """

    order: Order = "C"
    encoding: str | None = None
    check: Check | None = None
    fortran: bool = False
    out: tuple[Out, ...] = ()
    keep: str | int = "call"

    @property
    def steps(self) -> list[str]:
        """The names of the given options that call plans support, but trampolines do not."""
        has = {"check": self.check is not None, "out": bool(self.out), "keep": self.keep != "call"}
        return [name for name, is_given in has.items() if is_given]

    def spelled(self, signature: Signature, index: int) -> str:
        """Return the C type of an argument; `index` counts only arguments that Python passes."""
        return signature.spelled(visible(signature, 0, self.out)[max(index, 0)][0])


DEFAULT = Policies()


#: The entry flag for each value of the option `gil`.
GIL = {"hold": 0, "release": _lib.FLAG_RELEASE_GIL, "need": _lib.FLAG_NEEDS_GIL}


def of_type(option: str, kinds: type | tuple[type, ...], wanted: str) -> Callable[[object], object]:
    """Return a function that checks an option's type, and rejects null characters in a str."""

    def checked(value: object) -> object:
        require(repr(option), value, kinds, wanted)
        if isinstance(value, str) and "\0" in value:
            raise ValueError(f"{option!r} must not contain a null character")
        return value

    return checked


def _check_name(name: object) -> object:
    if name == "":
        raise ValueError("'name' must not be empty; None keeps the function's own name")
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
        "".encode(encoding)  # codecs.lookup also finds codecs that do not encode text
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise ValueError(
            f"'encoding' must be a text encoding that Python supports (got {encoding!r})"
        ) from None


def _check_check(check: object) -> object:
    if not callable(check):
        raise wrong_type("'check'", "a function that takes result, function and arguments", check)
    return check


_KEEP = "'call', 'library', 'process', or the name or position of an argument"
_PYTHON_CHECK = "; 'check' accepts a Python function that tests for any other failure"
#: For each option, a function that checks a value and returns its stored form. It raises an error
#: if the value is invalid for every C function.
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
#: The defaults that are not None.
DEFAULTS = {"gil": "hold", "errors": "none", "errno": False}


def checked(
    options: Mapping[str, object], checks: Mapping[str, Callable[[object], object]] = CHECKS
) -> dict[str, Foreign]:
    """Check the options that are not None; return their stored forms.

    Raises
    ------
    ValueError, TypeError
        If a value is invalid for every C function.
    TypeError
        If a name is not an option.
    """
    refuse_unknown(options, checks)
    return {name: checks[name](value) for name, value in options.items() if value is not None}


def refuse_unknown(options: Iterable[str], known: Collection[str]) -> None:
    """Raise TypeError for a name that is not an option."""
    for name in options:
        if name not in known:
            close = did_you_mean(closest(name, known, 1))
            raise TypeError(f"there is no option {name!r}{close}")


class _Spelled:
    """A wrapper that shows each option of a function as a keyword parameter in `inspect`."""

    def __init__(self, function: Callable[..., object], names: Iterable[str]) -> None:
        self._function = function
        self._names = names

    def __get__(self, obj: object, owner: object) -> object:
        return self  # so that doctest treats it as a function

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
    """Decorate a function with ``**options`` so that `inspect` shows these options."""

    def decorated(function: Function) -> Function:
        function.__wrapped__ = _Spelled(function, names)  # type: ignore[attr-defined]  # functions have any
        return function

    return decorated


WRAP = tuple(CHECKS)
ENTRY = WRAP[2:]
CALL = WRAP[3:]
