"""C types as values: the parts of a signature.

A `CType` is immutable and hashable. It has a canonical text, a size and alignment on this platform,
and a C spelling. Two types are equal if their canonical texts are equal, that is, if they are one
type in this platform's C ABI: ``l`` and ``q`` are equal where `long` has 64 bits. This file has the
scalar types and `void`; derived.py has the types built from others.

Types are interned, so equal ones usually share one object; compare them with ``==`` nevertheless.
Types that C forbids (an array as an argument, a `void` field) cannot be constructed: the
constructors raise `SignatureError`.
"""

from __future__ import annotations

import sys

from .. import _ext
from .._errors import SignatureError, refuse_reload
from .._fifo import Cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final, Literal, Self, TypeVar

    Kind = Literal[
        "void",
        "bool",
        "int",
        "float",
        "complex",
        "voidptr",
        "pointer",
        "function",
        "struct",
        "union",
        "record",
        "array",
        "view",
        "object",
    ]
    Made = TypeVar("Made", bound="CType")

refuse_reload(globals(), "CType")

#: What can be done about a value that nothing passes.
WRAP_IT: Final = "call it through a C function of your own that takes a pointer"
MAX_DEPTH: Final = 64  # levels of nesting in one type
MAX_TEXT: Final = 4096  # characters in the canonical text of one type or signature
_MAX_NAMED: Final = 16 * MAX_TEXT
MAX_NDIM: Final = 64  # dimensions of an array or a view, NumPy's own limit
WORD: Final = 8 if sys.maxsize > 2**32 else 4


class Single:
    """What is its own copy."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Immutable(Single):
    """A value that is made once, by `_fill`; `_shown` is what messages call it."""

    __slots__ = ()
    _shown: str

    def _fill(self, **attributes: object) -> None:
        if hasattr(self, next(iter(attributes))):
            raise AttributeError(f"{self._shown} is immutable; it has been made already")
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self._shown} is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self._shown} is immutable; cannot delete {name!r}")


class CType(Immutable):
    """A C type.

    Attributes
    ----------
    kind : str
        ``"void"``, ``"bool"``, ``"int"``, ``"float"``, ``"complex"``, ``"voidptr"``, ``"pointer"``,
        ``"function"``, ``"struct"``, ``"union"``, ``"record"``, ``"array"``, ``"view"`` or
        ``"object"``.
    text : str
        Canonical text, the type's identity.
    named : str
        The same with the names of fields.
    size, alignment : int
        In bytes, as an argument, a result or a field on this platform; 0 and 1 for `void`.
    """

    __slots__ = ("alignment", "depth", "kind", "named", "size", "text")

    _shown = "a CType"
    kind: Kind
    text: str
    named: str
    size: int
    alignment: int
    depth: int

    #: What reads `named`; grammar.py sets it.
    _read: Callable[[str], CType]

    def __init_subclass__(cls) -> None:
        # Others could say anything of memory.
        if cls.__module__ not in (__name__, f"{__package__}.derived"):
            raise TypeError(f"{cls.__name__!r} cannot be a subclass of a CType")
        cls._shown = f"a {cls.__name__}"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, CType):
            return NotImplemented
        return self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[object, ...]:
        # What has the types that pointers name is of this process.
        parts = [part.partition(":") for part in self.named.split("<")]
        names = [last if head.isdigit() else head + colon + last for head, colon, last in parts]
        return self._read, ("<".join(names),)

    def __repr__(self) -> str:
        return f"<C type {self.named!r}>"

    def __str__(self) -> str:
        return self.text

    def c_declaration(self, name: str = "") -> str:
        """Spell the type in C, or declare `name` with it, for people to read.

        Examples
        --------
        >>> from nativecall._cdecl.spelling import parse_type
        >>> parse_type("X{d:i&d}").c_declaration("integrand")
        'double (*integrand)(int32_t, double *)'
        """
        return self.declare(name)

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        """Declare `declarator` with the type; `spell` names what is no pointer, array or function.

        `c_declaration` is this with names for people; other readers of C may need others.
        """
        raise TypeError(f"{type(self).__name__} is not a C type by itself")


# Equality never depends on identity.
_interned: Cache[str, CType] = Cache(4096)


def intern(
    cls: type[Made],
    kind: Kind,
    text: str,
    named: str,
    depth: int,
    size: int = WORD,
    alignment: int = WORD,
    **attributes: object,
) -> Made:
    """The one object for `named`, made if need be; of a pointer's size unless another is given."""
    found = _interned.get(named)
    if found is not None:
        return found  # type: ignore[return-value]  # a text says what class its type is of
    if depth > MAX_DEPTH:
        raise SignatureError(f"a type is nested more than {MAX_DEPTH} levels deep")
    # 'X{' and '}' are no part of the signature that a function pointer's text embeds.
    check_length(len(text) - (3 if kind == "function" else 0), len(named))
    if size > sys.maxsize:
        raise SignatureError("a type is larger than the address space")
    self = object.__new__(cls)
    attributes |= {"kind": kind, "text": text, "named": named, "depth": depth}
    self._fill(size=size, alignment=alignment, **attributes)
    return _interned.keep(named, self)  # type: ignore[return-value]  # as above


def known(named: str) -> CType | None:
    """The type whose `named` text this is, if it has been made before and is remembered."""
    return _interned.get(named)


def check_length(text: int, named: int) -> None:
    """Refuse a type by the lengths of its texts, or of the part of them that is known so far.

    Types share what they are made of, so that a few lines can describe a text of any length:
    constructors ask before they write it.
    """
    if text > MAX_TEXT:
        raise SignatureError(f"a type takes more than {MAX_TEXT} characters to write")
    if named > _MAX_NAMED:
        raise SignatureError(f"a type takes more than {_MAX_NAMED} characters with its field names")


class Plain(CType):
    """A type that is not made of others: `void`, ``P``, ``O``, or a `Scalar`; one object for each.

    Attributes
    ----------
    c_name : str
        Name in C, from ``<stdint.h>`` where that has one.
    """

    __slots__ = ("c_name",)

    c_name: str

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        return join(self.c_name if spell is None else spell(self), declarator)


class Scalar(Plain):
    """A truth value, an integer, a floating-point or a complex number.

    Made by `scalar`, one object for each type.

    Attributes
    ----------
    code : str
        Canonical code, the same as `text`.
    signed : bool
        Whether it can be negative; false for `bool`.
    digits : int
        Bits of the largest integer up to which it has them all, without a sign.
    exponent : int
        The least power of two beyond all numbers that it has.
    greatest : str
        The greatest number of a float.
    native : bool
        Whether C computes with it; numbers of other types are converted by the core.
    letter : str
        The core's code, which is one letter for complex types, too.
    """

    __slots__ = ("digits", "exponent", "greatest", "letter", "native", "signed")

    digits: int
    exponent: int
    greatest: str
    letter: str
    native: bool
    signed: bool

    @property
    def code(self) -> str:
        """Canonical code."""
        return self.text


def join(base: str, declarator: str) -> str:
    """A declaration from its specifiers and its declarator."""
    return base + declarator if not declarator or base.endswith("*") else f"{base} {declarator}"


# Where a type of some kind cannot stand: why, and what to write instead.
_NO_VOID = ("'v' is the result of a function that returns nothing", "a pointer to void is 'P'")
_VIEW_ELSEWHERE = "it stands for an argument of a function and nothing else"
_REFUSALS: dict[str, dict[str, tuple[str, str]]] = {
    "argument": {
        "void": ("'v' cannot be an argument", "an empty argument list is written 'd:'"),
        "array": ("an array cannot be an argument", "write a pointer to its element, as in '&d'"),
    },
    "result": {
        "array": ("an array cannot be a result", "wrap it in a struct, as in 'T{(3)d}'"),
        "view": ("a strided view cannot be a result", _VIEW_ELSEWHERE),
    },
    "field": {
        "void": _NO_VOID,
        "view": ("a strided view cannot be a field", _VIEW_ELSEWHERE),
    },
    "pointee": {
        "void": _NO_VOID,
        "view": ("a strided view cannot stand behind '&'", "it is passed as a pointer already"),
    },
    "array": {
        "void": _NO_VOID,
        "view": ("a strided view cannot be an element of an array", _VIEW_ELSEWHERE),
    },
    "view": {
        "void": _NO_VOID,
        "array": (
            "an array cannot be an element of a strided view",
            "give the view more dimensions",
        ),
        "view": (
            "a strided view cannot be an element of another",
            "give the outer one more dimensions",
        ),
    },
}


def admit(ctype: CType, place: str) -> None:
    """Refuse a type that cannot stand at `place`, one of `_REFUSALS`, of which "array" and "view"
    stand for their elements.
    """
    if not isinstance(ctype, CType):
        raise TypeError(f"a {place} must be a CType (got {type(ctype).__name__})")
    refused = _REFUSALS[place].get(ctype.kind)
    if refused is not None:
        raise SignatureError(refused[0], hint=refused[1])


def _scalars() -> dict[str, Scalar]:
    """Every code that means a scalar, with the canonical type it means here."""
    found: dict[str, Scalar] = {}
    for code, same, kind, size, alignment, attributes in _ext.scalars:
        if code == same:
            found[code] = intern(Scalar, kind, code, code, 0, size, alignment, **attributes)
    for code, same, *_ in _ext.scalars:
        found[code] = found[same]
    return found


def _char() -> Scalar:
    same = SCALARS["c"]
    attributes = {name: getattr(same, name) for name in Scalar.__slots__}
    return intern(Scalar, "int", same.text, "c", 0, 1, 1, c_name="char", **attributes)


SCALARS: Final = _scalars()
#: The item of an array of C's `char`, which is text; equal to the integer that it is here.
CHAR: Final = _char()
VOID: Final = intern(Plain, "void", "v", "v", 0, 0, 1, c_name="void")
VOIDPTR: Final = intern(Plain, "voidptr", "P", "P", 0, c_name="void *")
PY_OBJECT: Final = intern(Plain, "object", "O", "O", 0, c_name="PyObject *")


def scalar(code: str) -> Scalar:
    """The scalar type that `code`, one of `SCALARS`, means on this platform.

    Examples
    --------
    >>> scalar("H").c_name, scalar("H").size
    ('uint16_t', 2)
    """
    try:
        return SCALARS[code]
    except KeyError:
        raise SignatureError(
            f"unknown scalar code {code!r}", hint=f"there are {' '.join(SCALARS)}"
        ) from None


def integer(size: int, signed: bool) -> Scalar:
    """The integer of 1, 2, 4 or 8 bytes."""
    code = {1: "b", 2: "h", 4: "i", 8: "q"}[size]
    return SCALARS[code if signed else code.upper()]


def is_native(ctype: CType) -> bool:
    """Whether a type is no number that C has no type for."""
    return not isinstance(ctype, Scalar) or ctype.native


def same_bytes(one: str, other: str) -> bool:
    """Whether both codes are those of a byte; bytes are bytes, signed or not."""
    return one in ("b", "B") and other in ("b", "B")


def part_of(ctype: CType) -> Scalar:
    """The type of the parts of a complex number; other numbers' own."""
    return SCALARS[ctype.text.removeprefix("Z")]


def integer_range(ctype: CType) -> tuple[int, int]:
    """The least and the greatest value of an integer or truth value."""
    if ctype.kind == "bool":
        return 0, 1
    assert isinstance(ctype, Scalar)
    bits = 8 * ctype.size
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if ctype.signed else (0, (1 << bits) - 1)


def promoted(ctype: CType) -> CType:
    """What an argument after the fixed ones of a variadic function is passed as (C99 6.5.2.2).

    Examples
    --------
    >>> [promoted(scalar(code)).text for code in "?Hifqe"]
    ['i', 'i', 'i', 'd', 'q', 'e']
    """
    if ctype.kind in ("bool", "int") and ctype.size < SCALARS["i"].size:
        return SCALARS["i"]
    return SCALARS["d"] if ctype.text == "f" else ctype
