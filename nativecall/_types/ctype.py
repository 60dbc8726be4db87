"""C types as Python objects, from which signatures are built.

A `CType` is immutable and hashable. It has a canonical text, a size and alignment on this platform,
and a C spelling. Two types are equal if their canonical texts are equal, that is, if this
platform's C ABI does not distinguish them. For example, ``l`` and ``q`` are equal where `long` has
64 bits. This file defines the scalar types and `void`; derived.py defines the types built from
other types.

Types are interned, but equal types may still be different objects, so compare them with ``==``.
Constructors raise `SignatureError` for what C forbids, such as an array argument or a `void` field.
"""

from __future__ import annotations

import sys

from .. import _ext
from .._errors import TYPE_CHECKING, SignatureError, refuse_reload
from .._fifo import Cache

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

#: The hint in errors about values that cannot be passed.
WRAP_IT: Final = "call it through a C function of your own that takes a pointer"
MAX_DEPTH: Final = 64  # levels of nesting in one type
MAX_TEXT: Final = 4096  # characters in the canonical text of one type or signature
_MAX_NAMED: Final = 16 * MAX_TEXT
MAX_NDIM: Final = 64  # dimensions of an array or a view; NumPy's limit
WORD: Final = 8 if sys.maxsize > 2**32 else 4


class Single:
    """An object whose copy is itself."""

    __module__ = "nativecall"
    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Immutable(Single):
    """An object whose attributes `_fill` sets once. `_shown` names the object in messages."""

    __module__ = "nativecall"
    __slots__ = ()
    _shown: str

    def _fill(self, **attributes: object) -> None:
        if hasattr(self, next(iter(attributes))):
            raise AttributeError(f"{self._shown} is immutable; it is already initialised")
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
        Canonical text with the names of fields and pointer targets.
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

    #: Parser of `named` texts; grammar.py sets this attribute.
    _read: Callable[[str], CType]

    def __init_subclass__(cls) -> None:
        # Reject other subclasses, since they could claim any memory layout.
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
        # Drop the numbers of owners, which are valid only in this process.
        parts = [part.partition(":") for part in self.named.split("<")]
        names = [last if head.isdigit() else head + colon + last for head, colon, last in parts]
        return self._read, ("<".join(names),)

    def __repr__(self) -> str:
        return f"<C type {self.named!r}>"

    def __str__(self) -> str:
        return self.text

    def c_declaration(self, name: str = "") -> str:
        """Return the type in C, or a declaration of `name` with this type, for display.

        Examples
        --------
        >>> from nativecall._cdecl.spelling import parse_type
        >>> parse_type("X{d:i&d}").c_declaration("integrand")
        'double (*integrand)(int32_t, double *)'
        """
        return self.declare(name)

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        """Return a C declaration of `declarator` with this type.

        `spell` returns the C name of any type except pointers, arrays and functions. Without
        `spell`, the names are for display, and other C parsers may not accept them.
        """
        raise TypeError(f"{type(self).__name__} is not a C type by itself")


# The cache may drop a type at any time: `==` compares texts, not identity.
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
    """Return the interned type for `named`, or create it; the default is a pointer's size."""
    found = _interned.get(named)
    if found is not None:
        return found  # type: ignore[return-value]  # the text determines the class
    if depth > MAX_DEPTH:
        raise SignatureError(f"a type is nested more than {MAX_DEPTH} levels deep")
    # The limit applies to a function's signature, without the pointer's 'X{' and '}'.
    check_length(len(text) - (3 if kind == "function" else 0), len(named))
    if size > sys.maxsize:
        raise SignatureError("a type is larger than the address space")
    self = object.__new__(cls)
    attributes |= {"kind": kind, "text": text, "named": named, "depth": depth}
    self._fill(size=size, alignment=alignment, **attributes)
    return _interned.keep(named, self)  # type: ignore[return-value]  # made of cls


def known(named: str) -> CType | None:
    """Return the type with this `named` text if it is cached."""
    return _interned.get(named)


def check_length(text: int, named: int) -> None:
    """Raise if the texts of a type would be too long; the lengths may be partial sums.

    Types share their parts, so a few lines of C can describe a text of any length. Constructors
    therefore call this function before they build the text.
    """
    if text > MAX_TEXT:
        raise SignatureError(f"a type takes more than {MAX_TEXT} characters to write")
    if named > _MAX_NAMED:
        raise SignatureError(f"a type takes more than {_MAX_NAMED} characters with its field names")


class Plain(CType):
    """A type without parts, such as `void`, ``P``, ``O`` or a `Scalar`.

    Attributes
    ----------
    c_name : str
        C name, from ``<stdint.h>`` where possible.
    """

    __slots__ = ("c_name",)

    c_name: str

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        return join(self.c_name if spell is None else spell(self), declarator)


class Scalar(Plain):
    """A boolean, integer, floating-point or complex type.

    Use `scalar` to get one; there is one object for each type.

    Attributes
    ----------
    code : str
        Canonical code, the same as `text`.
    signed : bool
        Whether values can be negative; false for `bool`.
    digits : int
        All integers of at most this many bits, without the sign, are represented exactly.
    exponent : int
        The least ``n`` such that ``2**n`` exceeds all values.
    greatest : str
        For messages: the largest value of a floating-point type.
    native : bool
        Whether C has this type. The core converts numbers of other types, such as ``e``.
    letter : str
        The core's code, a single letter even for complex types.
    """

    __slots__ = ("digits", "exponent", "greatest", "letter", "native", "signed")

    digits: int
    exponent: int
    greatest: str
    letter: str
    native: bool
    signed: bool


def join(base: str, declarator: str) -> str:
    """Return a declaration from its specifiers and its declarator."""
    return base + declarator if not declarator or base.endswith("*") else f"{base} {declarator}"


# For each position, the kinds of types that are not allowed, why, and what to write instead.
_NO_VOID = ("'v' is the result of a function that returns nothing", "a pointer to void is 'P'")
_VIEW_ELSEWHERE = "it can only be an argument of a function"
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
        "view": ("a strided view cannot follow '&'", "it is passed as a pointer already"),
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
    """Raise for a type that is not allowed at `place`, a key of `_REFUSALS`.

    The places "array" and "view" mean an element of an array or a view.
    """
    if not isinstance(ctype, CType):
        raise TypeError(f"a {place} must be a CType (got {type(ctype).__name__})")
    refused = _REFUSALS[place].get(ctype.kind)
    if refused is not None:
        raise SignatureError(refused[0], hint=refused[1])


def _scalars() -> dict[str, Scalar]:
    """Return the canonical type of every scalar code on this platform."""
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
#: C's `char`, whose arrays are text. It equals ``b`` if C's `char` is signed, otherwise ``B``.
CHAR: Final = _char()
VOID: Final = intern(Plain, "void", "v", "v", 0, 0, 1, c_name="void")
VOIDPTR: Final = intern(Plain, "voidptr", "P", "P", 0, c_name="void *")
PY_OBJECT: Final = intern(Plain, "object", "O", "O", 0, c_name="PyObject *")


def scalar(code: str) -> Scalar:
    """Return the scalar type of `code`, one of `SCALARS`, on this platform.

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
    """Return the integer type of 1, 2, 4 or 8 bytes."""
    code = {1: "b", 2: "h", 4: "i", 8: "q"}[size]
    return SCALARS[code if signed else code.upper()]


def is_native(ctype: CType) -> bool:
    """Return False for a scalar type that C lacks, and True for all other types."""
    return not isinstance(ctype, Scalar) or ctype.native


def same_bytes(one: str, other: str) -> bool:
    """Return whether both codes denote a signed or unsigned byte."""
    return one in ("b", "B") and other in ("b", "B")


def part_of(ctype: CType) -> Scalar:
    """Return the type of a complex number's parts. Return other number types unchanged."""
    return SCALARS[ctype.text.removeprefix("Z")]


def integer_range(ctype: CType) -> tuple[int, int]:
    """Return the least and the greatest value of an integer or boolean type."""
    if ctype.kind == "bool":
        return 0, 1
    assert isinstance(ctype, Scalar)
    bits = 8 * ctype.size
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if ctype.signed else (0, (1 << bits) - 1)


def promoted(ctype: CType) -> CType:
    """Return the type that a variadic argument is promoted to (C99 6.5.2.2).

    Examples
    --------
    >>> [promoted(scalar(code)).text for code in "?Hifqe"]
    ['i', 'i', 'i', 'd', 'q', 'e']
    """
    if ctype.kind in ("bool", "int") and ctype.size < SCALARS["i"].size:
        return SCALARS["i"]
    return SCALARS["d"] if ctype.text == "f" else ctype
