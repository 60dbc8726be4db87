"""Options of a library: one value for all its functions, or values by name.

The keys of a mapping are names of functions or patterns such as ``"sqlite3_*"`` (`fnmatch`,
case-sensitive). A name takes precedence over patterns, and the first matching pattern over later
ones. If macros give a function several names, its options apply to all of them. A value for all
functions, or for a pattern, applies only where it makes sense; a value for a single name must fit
that function. A name or pattern that matches no declaration raises an error. An option that names
arguments raises an error if none of its functions has these arguments.
"""

from __future__ import annotations

from _collections_abc import Mapping

from .._errors import TYPE_CHECKING, closest, did_you_mean, require, wrong_type
from .._types.derived import inner_types
from .._types.signature import BYTES
from .._values.calloptions import (
    CALL,
    CHECKS,
    DEFAULT,
    DEFAULTS,
    checked,
)
from .._values.failure import CONVENTIONS
from .._values.outparameters import arguments, place, pointee, resolved

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from .._cdecl.declarations import Declarations
    from .._ext import Foreign
    from .._types.grammar import Row
    from .._types.signature import Signature
    from .._values.calloptions import CallOptions, CallOptionsByName

    Free = str | Callable[[object], object]

    class FunctionOptions(CallOptions, total=False):
        """The options of `Library.function`."""

        name: str | None
        doc: str | None
        version: str | None
        free: Free | None
        close: str | Sequence[str] | None

    class LoadOptions(CallOptionsByName, total=False):
        """The options of `load`, for all functions or by name."""

        version: str | Mapping[str, str] | None
        free: Free | Mapping[str, Free] | None
        close: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None


#: An empty `types.MappingProxyType`, made without the cost of importing `types`.
NOTHING: Mapping[str, Foreign] = type(type.__dict__)({})


class ByName:
    """Values of an option by function names.

    Parameters
    ----------
    option : str
        The option's name, for messages.
    given : object
        A value, or a mapping of names and patterns to values.
    """

    def __init__(self, option: str, given: object) -> None:
        self.option = option
        self.given = given
        self._everything: object = None
        self.named: dict[str, object] = {}
        self._patterns: dict[str, object] = {}
        if not isinstance(given, Mapping):
            self._everything = _kept(option, given)
            return
        self.given = {**given}
        for name, value in self.given.items():
            if not isinstance(name, str):
                raise TypeError(
                    f"{option!r} maps names of functions to values "
                    f"(got {type(name).__name__} {name!r})"
                )
            try:
                kept = _kept(option, value)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{error} for {name!r}") from None
            (self._patterns if _is_pattern(name) else self.named)[name] = kept

    def of(self, *names: str) -> tuple[object, bool]:
        """Return the value for a function's names, or None, and whether it was set by name."""
        for name in names:
            if name in self.named:
                return self.named[name], True
        if self._patterns:
            from fnmatch import fnmatchcase  # imports `re`

            for name in names:
                for pattern, value in self._patterns.items():
                    if fnmatchcase(name, pattern):
                        return value, False
        return self._everything, False

    @property
    def tells_names(self) -> bool:
        """Whether the option is set for some functions only, or its value names functions."""
        everything = names_of(self._everything) if self.option in ("free", "close") else ()
        return bool(self.named or self._patterns or everything)

    def unmatched(self, known: Collection[str], has: Callable[[str], bool]) -> str | None:
        """Return the first unknown name, or the first pattern without a `known` match."""
        names = [*self.named]
        if self.option in ("free", "close"):
            names += sorted({name for value in self.values() for name in names_of(value)})
        for name in names:
            if not has(name):
                return name
        if self._patterns:
            from fnmatch import filter as matching

            for pattern in self._patterns:
                if not matching(known, pattern):
                    return pattern
        return None

    def values(self) -> list[object]:
        """Return all values."""
        return [self._everything, *self.named.values(), *self._patterns.values()]

    def of_several(self, known: Iterable[str]) -> list[tuple[str, object, list[str]]]:
        """Return the values for all functions or for a pattern.

        Each item has the subject for messages, the value, and the `known` names to which it
        applies.
        """
        if self._everything is not None:
            return [("all functions", self._everything, [*known])]
        if not self._patterns:
            return []
        from fnmatch import filter as matching

        return [(repr(one), value, matching(known, one)) for one, value in self._patterns.items()]


def _is_pattern(name: str) -> bool:
    return any([mark in name for mark in "*?["])


def _checked_free(free: object) -> object:
    if not callable(free) and not (isinstance(free, str) and free):
        raise wrong_type("'free'", "the name of a function or a callable", free)
    return free


def _checked_close(close: object) -> object:
    names = (close,) if isinstance(close, str) else close
    if not isinstance(names, (tuple, list)) or not names:
        raise wrong_type("'close'", "the name of a function, or several", close)
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"'close' must be the names of functions (got {name!r})")
    return tuple(names)


def _checked_version(version: object) -> object:
    require("'version'", version, str, "a str")
    return version


_OWN = {"version": _checked_version, "free": _checked_free, "close": _checked_close}
_CHECKS = {option: CHECKS[option] for option in CALL} | _OWN
_OF_ONE = {option: CHECKS[option] for option in ("name", "doc")} | _CHECKS
LIBRARY, FUNCTION = tuple(_CHECKS), tuple(_OF_ONE)
POINTERS = ("pointer", "voidptr")
_DEFAULTS: dict[str, object] = {**DEFAULTS, **DEFAULT._asdict()}


class LibraryOptions:
    """The options that a library sets for its functions, by option name."""

    # Defaults for uninitialised instances.
    _by_name: Mapping[str, ByName] = NOTHING
    _alike: Callable[[str], tuple[str, ...]] = staticmethod(lambda name: ())

    def __init__(self, **given: object) -> None:
        self._by_name = found = {}
        for option, value in given.items():
            if value is None or (isinstance(value, Mapping) and not value):
                continue
            made = ByName(option, value)
            if isinstance(value, Mapping) or value != _DEFAULTS.get(option):
                found[option] = made

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def __contains__(self, option: str) -> bool:
        return option in self._by_name

    def encoding(self, name: str) -> str | None:
        """Return the encoding of text in a variable, if set."""
        found = self.of("encoding", name)[0]
        return found if isinstance(found, str) else None

    def of(self, option: str, name: str) -> tuple[object, bool]:
        """Return an option's value for a function, and whether it was set by name."""
        one = self._by_name.get(option)
        if one is None:
            return None, False
        value, by_name = one.of(name, *self._alike(name))
        if not by_name and name.endswith("_") and "fortran" in self._by_name:
            bare, is_named = one.of(name[:-1])
            if is_named or value is None:
                return bare, is_named
        return value, by_name

    def ending(self) -> set[str]:
        """Return the names of functions that free or close the results of other functions."""
        found: set[str] = set()
        for option in ("free", "close"):
            one = self._by_name.get(option)
            for value in () if one is None else one.values():
                found |= self.all_names(names_of(value))
        return found

    def all_names(self, names: Iterable[str]) -> set[str]:
        """Return these names and all other names of the same functions."""
        return {other for name in names for other in (name, *self._alike(name))}

    def apply_to(self, declarations: Declarations, exports: Callable[[str], bool]) -> None:
        """Check the names in options against the declarations and the library's exports.

        Raises
        ------
        ValueError
            If a name or a pattern matches nothing; the message lists similar names.
        """
        self._alike = declarations.alike
        if not any([one.tells_names for one in self._by_name.values()]):
            return
        known = {*declarations.rows, *declarations.variables, *declarations.skipped}

        def has(name: str) -> bool:
            return any([one in known or exports(one) for one in self._spellings(name)])

        for option, one in self._by_name.items():
            missing = one.unmatched(known, has)
            if missing is not None:
                close = closest(missing.strip("*?"), sorted(known))
                nothing = "which is neither declared nor exported by the library"
                if _is_pattern(missing):
                    nothing = "which matches no declared name"
                raise ValueError(f"{option!r} names {missing!r}, {nothing}{did_you_mean(close)}")

    def refuse_unknown_arguments(self, declarations: Declarations) -> None:
        """Reject options for arguments if none of the functions concerned has these arguments.

        This creates signatures, so the owner of the declared types must be set first.
        """
        rows, signatures = declarations.rows, declarations.functions
        for option in ("out", "keep"):
            one = self._by_name.get(option)
            if one is None:
                continue
            for name, value in one.named.items():
                there = [each for each in self._spellings(name) if each in rows][:1]
                problem = "".join([_problem(option, value, signatures[each]) for each in there])
                if problem:
                    raise ValueError(f"{problem} (for {name!r})")
            for whose, value, some in one.of_several(rows):
                wanted = _arguments(option, value)
                having = [each for each in some if wanted and _has(rows[each], wanted)]
                problem = ""
                for each in having:  # one match is enough
                    problem = _problem(option, value, signatures[each])
                    if not problem:
                        break
                if wanted and some and not having:
                    problem = _nothing_has(option, wanted, {each: rows[each] for each in some})
                if problem:
                    raise ValueError(f"{problem} (for {whose})")

    def _spellings(self, name: str) -> tuple[str, ...]:
        """Return the possible symbols of a function with this name."""
        if "fortran" not in self._by_name:
            return (name,)
        from .._values.fortran import symbols

        return symbols(name)

    @property
    def given(self) -> dict[str, object]:
        """The original values, for `pickle`."""
        return {option: one.given for option, one in self._by_name.items()}

    @property
    def order(self) -> Foreign:
        """The memory layout of arrays in variables."""
        one = self._by_name.get("order")
        return "C" if one is None else one.of("")[0] or "C"

    def said(self, name: str, signature: Signature) -> dict[str, object]:
        """Return the options of a function; skip general options that do not fit it."""
        found: dict[str, object] = {}
        for option in self._by_name:
            value, by_name = self.of(option, name)
            if value is not None and (by_name or _suits(option, value, signature, found)):
                found[option] = value
        return found


def of_function(given: Mapping[str, object]) -> dict[str, Foreign]:
    """Return the checked options of one function."""
    return checked(given, _OF_ONE)


def gives_pointer(signature: Signature, out: Foreign = ()) -> bool:
    """Return whether a function returns a non-text pointer, or has one among its out-parameters."""
    text = signature.characters[-1] if signature.characters else ""
    if signature.result.kind in POINTERS and (not text or text in BYTES):
        return True
    found = [pointee(signature, one) for one in resolved(signature, 0, out, by_reference=True)]
    parts = [inner for one in found for inner in (one, *inner_types(one))]
    return any([part.kind in POINTERS for part in parts])


def names_of(value: object) -> set[str]:
    """Return the functions that a value of `free` or `close` names."""
    if isinstance(value, str):
        return {value}
    return {*value} if isinstance(value, tuple) else set()


def _kept(option: str, value: object) -> object:
    """Return the checked value of an option."""
    # For `check` and `encoding`, None disables the option for some functions.
    if value is None and option not in ("check", "encoding"):
        raise TypeError(f"{option!r} must not be None; omit the function")
    return checked({option: value}, _CHECKS).get(option)


def _suits(option: str, value: object, signature: Signature, said: Mapping[str, object]) -> bool:
    """Return whether an option fits a signature, given its other options `said`."""
    if option == "errors":
        return CONVENTIONS[str(value)].fits(signature)
    if option in ("out", "keep"):
        return not _problem(option, value, signature)
    if option in ("free", "close"):
        return gives_pointer(signature, said.get("out") or ())
    return option != "gil" or value != "release" or "O" not in signature.text


def _problem(option: str, value: object, signature: Signature) -> str:
    """Return why an option for arguments does not fit a function; "" if it does."""
    try:
        if option == "out":
            resolved(signature, 0, value, by_reference=True)  # type: ignore[arg-type]  # CHECKS ran
        elif value != "call":
            from .._callable.entry import kept_for

            kept_for(signature, value)  # type: ignore[arg-type]  # CHECKS ran
    except ValueError as error:
        return str(error)
    return ""


def _arguments(option: str, value: object) -> list[str | int]:
    """Return the arguments, by name or index, in a value of `out` or `keep`."""
    if option == "out":
        return arguments(value)
    is_other = isinstance(value, (str, int)) and value not in ("call", "library", "process")
    return [value] if is_other else []  # type: ignore[list-item]  # is_other says so


def _has(row: Row, wanted: Iterable[str | int]) -> bool:
    """Return whether a function has all of these arguments."""
    return all([place(row[1], one) is not None for one in wanted])


def _nothing_has(option: str, wanted: list[str | int], rows: Mapping[str, Row]) -> str:
    """Return the message if no function has all of these arguments."""
    strange = [one for one in wanted if not any([_has(row, [one]) for row in rows.values()])]
    if not strange:
        names = " and ".join(map(repr, wanted))
        return f"{option!r} names {names}, but no function has all of them"
    problem = f"{option!r} names {strange[0]!r}, which is not an argument of any function"
    if isinstance(strange[0], int):
        most = max([len(row[1]) for row in rows.values()])
        return f"{problem}; none has more than {most}"
    known = sorted({name for row in rows.values() for name in row[1] if name is not None})
    return problem + did_you_mean(closest(strange[0], known))
