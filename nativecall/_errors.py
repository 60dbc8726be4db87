"""The exceptions and warnings of the package.

The package's own exceptions derive from `NativeCallError` and from the built-in class that fits
best. You can catch them by either class. Wrong Python types raise plain `TypeError`, out-of-range
values plain `OverflowError`. This module imports nothing at load time.
"""

#: All modules of the package import this: importing `typing` takes half as long as importing them.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

_EXCERPT = 72  # characters of a long source that a message repeats
_MOST = 1000  # maximum characters of a reason, since it may quote a long name


def refuse_reload(module: dict[str, object], made: str) -> None:
    """Refuse to reload a module whose objects are compared by identity.

    `made` is a global variable that the module defines when it runs.
    """
    if made in module:
        raise ImportError(
            f"{module['__name__']} cannot be reloaded: it would no longer recognize objects made "
            "before; restart Python",
            name=str(module["__name__"]),
        )


refuse_reload(globals(), "NativeCallError")


def extra(module: str, who: str) -> "ModuleType":
    """Import a module; on ImportError, say that `who` needs the extra of the same name."""
    try:
        return __import__(module)
    except ImportError as error:
        raise ImportError(
            f"{who} needs the package {module!r}; pip install 'nativecall[{module}]' installs it"
        ) from error


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn at the first line outside the package on the call stack."""
    import sys
    import warnings

    package = __name__.partition(".")[0]
    level = 1
    try:
        while sys._getframe(level).f_globals.get("__name__", "").partition(".")[0] == package:
            level += 1
    except ValueError:  # no frame outside the package
        level = 1
    warnings.warn(message, category, stacklevel=level + 1)


_told: set[str] = set()


def warn_once(message: str) -> None:
    """Warn once per process."""
    if message not in _told:
        _told.add(message)
        warn(message)


class NativeCallError(Exception):
    """Base class of the exceptions that nativecall defines."""

    __module__ = "nativecall"


def did_you_mean(names: "Sequence[str]") -> str:
    """Return the end of a message that suggests names; ``""`` without names."""
    return f"; did you mean {' or '.join(map(repr, names))}?" if names else ""


def closest(name: str, known: "Iterable[str]", most: int = 3) -> list[str]:
    """Return the known names most similar to `name`, the closest first."""
    from difflib import get_close_matches

    return get_close_matches(name, [*known], n=most)


def wrong_type(who: str, wanted: str, value: object) -> TypeError:
    """Return the TypeError for a value of the wrong type."""
    return TypeError(f"{who} must be {wanted} (got {type(value).__name__})")


def require(who: str, value: object, kinds: "type | tuple[type, ...]", wanted: str) -> None:
    """Raise TypeError unless a value is of one of these types; a bool does not count as an int."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise wrong_type(who, wanted, value)


class SignatureError(NativeCallError, ValueError):
    """A text that describes no C type or function, or a type in a place where C forbids it.

    Parameters
    ----------
    reason : str
        What is wrong.
    text : str, optional
        The source that was read.
    position : int, optional
        1-based column of the error in `text`, or in line `line` of `text`.
    line : int, optional
        1-based line of the error, for sources of several lines.
    hint : str, optional
        What would work.

    Attributes
    ----------
    reason : str
        What is wrong, without the place.
    hint : str or None
        What would work.
    text : str or None
        The source that was read.
    position, line : int or None
        Where the error begins, both counted from 1.

    Examples
    --------
    >>> import nativecall
    >>> nativecall.Signature("d:w")
    Traceback (most recent call last):
    nativecall.SignatureError: unknown type 'w' at column 3 in 'd:w'
    """

    __module__ = "nativecall"

    def __init__(
        self,
        reason: str,
        text: str | None = None,
        position: int | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        if len(reason) > _MOST:
            reason = f"{reason[:_MOST]}…"
        self.reason = reason
        self.hint = hint
        self.text = text
        self.position = position
        self.line = line
        advice = f"; {hint}" if hint else ""
        super().__init__(reason + _place(text, position, line) + advice)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reason, self.text, self.position, self.line, self.hint)


def _place(text: str | None, position: int | None, line: int | None) -> str:
    """Return the place, as far as it is known: `` at column 3 in 'd:w'``."""
    place = ""
    if position is not None:
        place = f" at column {position}"
        if text is not None and "\n" in text:
            line = line or 1
            place = f" at line {line}, column {position}"
    if text is not None:
        if "\n" in text:
            text = text.split("\n")[(line or 1) - 1].rstrip("\r")
        place += f" in {_excerpt(text, position or 1)!r}"
    return place


def _excerpt(text: str, position: int) -> str:
    """Return the part of `text` around column `position`, short enough for a message."""
    if len(text) <= _EXCERPT:
        return text
    start = max(0, min(position - 1 - _EXCERPT // 2, len(text) - _EXCERPT))
    end = start + _EXCERPT
    return ("..." if start else "") + text[start:end] + ("..." if end < len(text) else "")


class NoEntryError(NativeCallError, KeyError):
    """A native callable has no entry for the requested signature.

    Attributes
    ----------
    signature : str or None
        The requested signature.
    available : tuple of str
        The signatures of the existing entries.
    """

    __module__ = "nativecall"

    def __init__(
        self, message: str, signature: str | None = None, available: "Iterable[str]" = ()
    ) -> None:
        super().__init__(message)
        self.signature = signature
        self.available: tuple[str, ...] = tuple(available)

    @classmethod
    def none(cls, name: str, hooked: bool) -> "NoEntryError":
        """Return the error for a callable `name` without any entry.

        With `hooked`, a hook of the callable creates entries on demand.
        """
        hint = " yet; request one by its signature, as in f['d:d']"
        return cls(f"{name!r} has no entries{hint if hooked else ''}")

    @classmethod
    def missing(
        cls, signature: str, name: str, available: "Iterable[str]", hooked: bool = False
    ) -> "NoEntryError":
        """Return the error for a `signature` that is not among the `available` ones of `name`.

        With `hooked`, the callable has a hook that creates entries, but the hook created none.
        """
        available = tuple(available)
        offer = "offers " + ", ".join(map(repr, available)) if available else "has no entries"
        made = ", and its specialize hook created none" if hooked else ""
        message = f"no native entry for {signature!r}; {name!r} {offer}{made}"
        return cls(message, signature, available)

    def __str__(self) -> str:
        # KeyError would show the repr of the message.
        return str(self.args[0])


class LibraryError(NativeCallError, OSError):
    """A shared library cannot be found or opened, or can no longer be used."""

    __module__ = "nativecall"


class SymbolError(NativeCallError, AttributeError):
    """A library or its declarations lack a symbol.

    Attributes
    ----------
    symbol : str or None
        The requested name.
    matches : tuple of str
        Similar names that exist, the closest first.
    """

    __module__ = "nativecall"

    def __init__(
        self, message: str, symbol: str | None = None, matches: "Iterable[str]" = ()
    ) -> None:
        super().__init__(message)
        # Leave `obj` None: otherwise CPython would append its own suggestions.
        self.name: str | None = symbol
        self.obj: object = None
        self.symbol = symbol
        self.matches: tuple[str, ...] = tuple(matches)

    @classmethod
    def missing(
        cls, symbol: str, where: "str | None", candidates: "Iterable[str]" = (), among: str = ""
    ) -> "SymbolError":
        """Return the error for a `symbol` missing in `where`; suggest the closest candidates.

        `where` is the name of a library or module. None stands for the process.
        """
        matches = tuple(closest(symbol, candidates))
        place = repr(where) if where else "the process"
        message = f"no symbol {symbol!r} in {place}{among}{did_you_mean(matches)}"
        return cls(message, symbol, matches)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.symbol, self.matches)


class NativeFailure(NativeCallError, RuntimeError):
    """A native function reported failure through its error convention.

    Attributes
    ----------
    value : object
        What the function returned.
    """

    __module__ = "nativecall"

    def __init__(self, message: str, value: object = None) -> None:
        super().__init__(message)
        self.value = value


class AbiError(NativeCallError, ImportError):
    """One process loaded two incompatible copies of the native ABI."""

    __module__ = "nativecall"
