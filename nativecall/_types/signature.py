"""The signature of a C function: its result, its arguments, and whether it is variadic.

This file defines the class and its canonical text; _cdecl/spelling.py parses all spellings.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING, refuse_reload
from .ctype import CType, Immutable
from .derived import FunctionPointer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

refuse_reload(globals(), "Signature")


#: Byte types that are text if there is an encoding. A typedef of one is text only if its name
#: contains "char": `xmlChar` is text, `uint8_t` is not.
BYTES = ("signed char", "unsigned char")
_OF_TYPE = ("function", "text", "result", "args", "variadic")
_SAID = ("names", "readonly", "characters", "lengths", "written")


class Signature(Immutable):
    """The type of a C function: result, arguments, and whether more arguments may follow.

    Create one from codes, ``Signature("d:dd")``, or from C, ``Signature("double (double x)")``.
    Signatures are immutable and hashable. Two signatures are equal if their canonical texts are
    equal. Names and `const` do not count for equality; they are kept for display and for checks in
    calls. The signatures of a library's functions are in ``library.declarations.functions``.
    Functions that take a signature accept a `Signature` as well as text.

    Attributes
    ----------
    text : str
        Canonical form: no white space, no names, integers by width.
    written : str
        The original text.
    result : CType
    args : tuple of CType
        The fixed arguments.
    variadic : bool
        Whether more arguments may follow.
    function : FunctionPointer
        The type of a pointer to such a function.
    names : tuple of (str or None)
        Names of the arguments, from C declarations.
    readonly : tuple of bool
        For each argument, whether it is a pointer to data that C declares `const`.
    characters : tuple of str
        For each argument, then for the result: the character type if it is text, that is, a pointer
        to `const` characters; otherwise ``""``. The types are ``"char"``, ``"wchar_t"``,
        ``"char16_t"`` and ``"char32_t"``. ``"unsigned char"`` and ``"signed char"`` are text only
        if there is an encoding. For a pointer to such pointers, ``*`` precedes the type. For an
        argument that is a function, the item lists the function's own arguments and result in
        parentheses, such as ``"(char,,)"``. There, ``"const"`` marks an array that the function
        must not write to. The tuple is empty if nothing is text.
    lengths : tuple of (int, str or None)
        For each argument that C declares as an array, its length, or the expression if the length
        is not constant; None for other arguments. The tuple is empty if no argument has a length.

    Examples
    --------
    >>> import nativecall
    >>> m = nativecall.load("m", "double nan(const char *tag); double ldexp(double x, int e);")
    >>> s = m.declarations.functions["nan"]
    >>> s.text, s.names, s.readonly
    ('d:&b', ('tag',), (True,))
    >>> m.declarations.functions["ldexp"].args[1].size
    4
    """

    __module__ = "nativecall"
    __slots__ = ("__weakref__", *_OF_TYPE, *_SAID)

    _shown = "a Signature"
    text: str
    written: str
    result: CType
    args: tuple[CType, ...]
    names: tuple[str | None, ...]
    readonly: tuple[bool, ...]
    characters: tuple[str, ...]
    lengths: tuple[int | str | None, ...]
    variadic: bool
    function: FunctionPointer

    #: Parser of signatures in any spelling; spelling.py sets this attribute.
    _read: Callable[[str], Signature]

    def __init__(
        self,
        result: CType | str,
        args: Iterable[CType] = (),
        variadic: bool = False,
        *,
        names: Sequence[str | None] | None = None,
        readonly: Sequence[bool] | None = None,
        characters: Sequence[str] = (),
        lengths: Sequence[int | str | None] = (),
        written: str | None = None,
    ) -> None:
        if isinstance(result, str):
            read = Signature._read(result)
            self._fill_in(read.function, *read._said())
            return
        function = FunctionPointer(result, args, variadic)
        count = len(function.args)
        for label, given in (
            ("names", names),
            ("readonly", readonly),
            ("lengths", lengths or None),
        ):
            if given is not None and len(given) != count:
                raise ValueError(
                    f"'{label}' must have one item an argument, {count} in all (got {len(given)})"
                )
        if characters and len(characters) != count + 1:
            raise ValueError(
                "'characters' must have one item an argument and one for the result, "
                f"{count + 1} in all (got {len(characters)})"
            )
        self._fill_in(
            function,
            (None,) * count if names is None else tuple(names),
            (False,) * count if readonly is None else tuple(readonly),
            tuple(characters) if any(characters) else (),
            tuple(lengths) if any(lengths) else (),
            _shown(function) if written is None else written,
        )

    @classmethod
    def _of(cls, function: FunctionPointer, *said: object) -> Signature:
        """Return the signature for a function type; `said` are the attributes in `_SAID`."""
        self = cls.__new__(cls)
        self._fill_in(function, *said)
        return self

    def _fill_in(self, function: FunctionPointer, *said: object) -> None:
        parts = (function, function.text[2:-1], function.result, function.args, function.variadic)
        self._fill(**dict(zip((*_OF_TYPE, *_SAID), (*parts, *said), strict=True)))

    def _said(self) -> tuple[object, ...]:
        """Return the attributes that are not part of the type."""
        return tuple([getattr(self, name) for name in _SAID])

    def c_declaration(self, name: str = "") -> str:
        """Return a C declaration of a function `name`, for display. C text is kept as written.

        Examples
        --------
        >>> import nativecall
        >>> m = nativecall.load("m", "double frexp(double x, int *exponent);")
        >>> m.declarations.functions["frexp"].c_declaration("frexp")
        'double frexp(double x, int *exponent)'
        """
        found = self._around()
        if found is not None:
            before, behind = found
            gap = " " if before[-1:].isalnum() else ""
            return f"{before}{gap}{name}{behind}".rstrip("; ")
        return self.function.declare_function(name, self.names, self.readonly)

    @property
    def in_c(self) -> bool:
        """Whether the signature was written in C, not in codes."""
        return "(" in self.written and ":" not in self.written  # codes contain a colon

    def _around(self) -> tuple[str, str] | None:
        """Return the text before and after the function's name; None if not written in C."""
        from .written import around_name

        return around_name(self.written) if self.in_c else None

    def shown(self, name: str) -> str:
        """Return the declaration of function `name` if written in C, otherwise the codes."""
        return self.c_declaration(name) if self.in_c else self.text

    def spelled(self, index: int) -> str:
        """Return the C type of an argument, as declared but without the name.

        If the signature was not written in C, return ``name *`` for a pointer to a named type.
        Return the code of any other type.
        """
        found = self._around()
        given = [] if found is None else _parameters(found[1].lstrip())
        if index >= len(given):
            called: str = getattr(self.args[index], "name", "")
            constant = "const " * self.readonly[index]
            return f"{constant}{called} *" if called else self.args[index].text
        name = self.names[index]
        spaced = given[index]
        if name is not None:
            import re

            spaced = re.sub(rf"(.*)\b{re.escape(name)}\b", r"\1", spaced)
        return spaced.strip()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Signature):
            return NotImplemented
        return self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.written if self.in_c else self.text

    def __repr__(self) -> str:
        return f"Signature({self.text!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return Signature._of, (self.function, *self._said())


def _parameters(text: str) -> list[str]:
    """Return the parameters of a C function from the text after its name."""
    found = [""]
    depth = 0
    for one in text:
        depth += (one in "([{") - (one in ")]}")
        if depth == 0:
            break
        if one == "," and depth == 1:
            found.append("")
        elif depth > 1 or one != "(":
            found[-1] += one
    return [one.strip() for one in found if one.strip() != "..."]


def with_more(signature: Signature, more: Sequence[CType], readonly: bool) -> Signature:
    """Return the signature with further arguments, which have no names and are not text.

    `readonly`: whether the function promises not to write to the targets of the new arguments.
    """
    count, text = len(more), signature.characters
    return Signature(
        signature.result,
        (*signature.args, *more),
        names=(*signature.names, *[None] * count),
        readonly=(*signature.readonly, *[readonly] * count),
        characters=(*text[:-1], *[""] * count, text[-1]) if text else (),
        lengths=signature.lengths and (*signature.lengths, *[None] * count),
        written=signature.written,
    )


def _shown(function: FunctionPointer) -> str:
    named = function.named[2:-1]
    return function.text[2:-1] if "<" in named or "@" in named else named
