"""C types as values: what a signature is made of.

A `CType` is immutable, hashable and knows its canonical text, its size and alignment on this
platform, and how a person writes it in C. Two types are equal when their canonical texts are, that
is when they are one type to this platform's C ABI: ``l`` and ``q`` are equal where `long` has 64
bits. Field names are kept for people and are no part of a type's identity.

Types are interned, so equal ones usually share one object; compare them with ``==`` all the same.
What C forbids (an array as an argument, a `void` field) cannot be constructed: the constructors
raise `SignatureError`.
"""

from __future__ import annotations

import sys

from .. import _lib
from .._errors import SignatureError, refuse_reload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Final, Literal

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
        "array",
        "view",
        "object",
    ]

refuse_reload(globals(), "CType")

__all__ = [
    "MAX_DEPTH",
    "MAX_TEXT",
    "SCALARS",
    "VOID",
    "VOIDPTR",
    "Array",
    "CType",
    "Field",
    "FunctionPointer",
    "Pointer",
    "PyObjectPointer",
    "Scalar",
    "Struct",
    "View",
    "Void",
    "VoidPointer",
    "pointer",
    "promoted",
    "refusal",
    "scalar",
]

MAX_DEPTH: Final = 64  # levels of nesting in one type
MAX_TEXT: Final = 4096  # characters in the canonical text of one type or signature
_MAX_NAMED: Final = 16 * MAX_TEXT
MAX_NDIM: Final = 64  # dimensions of an array or a view, NumPy's own limit

_WORD = 8 if sys.maxsize > 2**32 else 4
_DEFAULT_NAME = "f"  # unnamed fields are shown as f0, f1, …


class CType:
    """A C type.

    Attributes
    ----------
    kind : str
        ``"void"``, ``"bool"``, ``"int"``, ``"float"``, ``"complex"``, ``"voidptr"``, ``"pointer"``,
        ``"function"``, ``"struct"``, ``"array"``, ``"view"`` or ``"object"``.
    text : str
        Canonical text, the type's identity.
    named : str
        The same with the names of fields.
    size, alignment : int
        In bytes, as an argument, a result or a field on this platform; 0 and 1 for `void`.
    """

    __slots__ = ("alignment", "depth", "kind", "named", "size", "text")

    kind: Kind
    text: str
    named: str
    size: int
    alignment: int
    depth: int

    def __init_subclass__(cls) -> None:
        # Others could say anything of memory.
        if cls.__module__ != __name__:
            raise TypeError(f"{cls.__name__!r} cannot be a subclass of a CType")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; cannot delete {name!r}")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, CType):
            return NotImplemented
        return self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"<C type {self.named!r}>"

    def __str__(self) -> str:
        return self.text

    def __copy__(self) -> CType:
        return self

    def __deepcopy__(self, memo: object) -> CType:
        return self

    def c_declaration(self, name: str = "") -> str:
        """Spell the type in C, or declare `name` with it, for people to read.

        Examples
        --------
        >>> from nativecall._signature.spelling import parse_type
        >>> parse_type("X{d:i&d}").c_declaration("integrand")
        'double (*integrand)(int32_t, double *)'
        """
        return self.declare(name)

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        """Declare `declarator` with the type; `spell` names what is no pointer, array or function.

        `c_declaration` is this with names for people; other readers of C may need others.
        """
        raise TypeError(f"{type(self).__name__} is not a C type by itself")


_SPELT_WITH_STAR = ("pointer", "voidptr", "function", "object")

_interned: dict[str, CType] = {}
_INTERN_LIMIT = 4096  # forgotten all at once beyond; equality never depends on identity


def _intern(
    cls: type[CType],
    kind: Kind,
    text: str,
    named: str,
    size: int,
    alignment: int,
    depth: int,
    **attributes: Any,
) -> Any:
    """The one object for `named`, made if need be."""
    found = _interned.get(named)
    if found is not None:
        return found
    if depth > MAX_DEPTH:
        raise SignatureError(f"a type is nested more than {MAX_DEPTH} levels deep")
    # 'X{' and '}' are no part of the signature that a function pointer's text embeds.
    _check_length(len(text) - (3 if kind == "function" else 0), len(named))
    if size > sys.maxsize:
        raise SignatureError("a type is larger than the address space")
    self = object.__new__(cls)
    attributes.update(
        kind=kind, text=text, named=named, size=size, alignment=alignment, depth=depth
    )
    for attribute, value in attributes.items():
        object.__setattr__(self, attribute, value)
    if len(_interned) >= _INTERN_LIMIT:
        _interned.clear()
    return _interned.setdefault(named, self)


def _check_length(text: int, named: int) -> None:
    """Refuse a type by the lengths of its texts, or of the part of them that is known so far.

    Types share what they are made of, so that a few lines can describe a text of any length:
    constructors ask before they write it.
    """
    if text > MAX_TEXT:
        raise SignatureError(f"a type takes more than {MAX_TEXT} characters to write")
    if named > _MAX_NAMED:
        raise SignatureError(f"a type takes more than {_MAX_NAMED} characters with its field names")


class Void(CType):
    """`void`: the result of a function that returns nothing."""

    __slots__ = ()

    def __new__(cls) -> Void:
        void: Void = _intern(cls, "void", "v", "v", 0, 1, 0)
        return void

    def __reduce__(self) -> tuple[object, ...]:
        return Void, ()

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        return _join("void" if spell is None else spell(self), declarator)


class Scalar(CType):
    """A truth value, an integer, a floating-point or a complex number.

    Made by `scalar`, one object for each type.

    Attributes
    ----------
    code : str
        Canonical code, the same as `text`.
    signed : bool
        Whether it can be negative; false for `bool`.
    c_name : str
        Name in C, from ``<stdint.h>`` where that has one.
    digits : int
        Bits of the largest integer up to which it has them all, without a sign.
    letter : str
        The core's code, which is one letter for complex types, too.
    """

    __slots__ = ("c_name", "digits", "letter", "signed")

    c_name: str
    digits: int
    letter: str
    signed: bool

    def __reduce__(self) -> tuple[object, ...]:
        return scalar, (self.text,)

    @property
    def code(self) -> str:
        """Canonical code."""
        return self.text

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        return _join(self.c_name if spell is None else spell(self), declarator)


class VoidPointer(CType):
    """``P``, `void *`."""

    __slots__ = ()

    def __new__(cls) -> VoidPointer:
        voidptr: VoidPointer = _intern(cls, "voidptr", "P", "P", _WORD, _WORD, 0)
        return voidptr

    def __reduce__(self) -> tuple[object, ...]:
        return VoidPointer, ()

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        return _join("void *" if spell is None else spell(self), declarator)


class PyObjectPointer(CType):
    """``O``, `PyObject *`."""

    __slots__ = ()

    def __new__(cls) -> PyObjectPointer:
        self: PyObjectPointer = _intern(cls, "object", "O", "O", _WORD, _WORD, 0)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return PyObjectPointer, ()

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        return _join("PyObject *" if spell is None else spell(self), declarator)


class Pointer(CType):
    """``&T``, a pointer to data of a known type; see `pointer` for one that may be `void *`.

    Attributes
    ----------
    pointee : CType
        What it points to.
    """

    __slots__ = ("pointee",)

    pointee: CType

    def __new__(cls, pointee: CType) -> Pointer:
        _admit(pointee, "pointee")
        self: Pointer = _intern(
            cls,
            "pointer",
            "&" + pointee.text,
            "&" + pointee.named,
            _WORD,
            _WORD,
            pointee.depth + 1,
            pointee=pointee,
        )
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return Pointer, (self.pointee,)

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        star = "*" + declarator
        return self.pointee.declare(f"({star})" if self.pointee.kind == "array" else star, spell)


class FunctionPointer(CType):
    """``X{result:arguments}``, a pointer to a function.

    Attributes
    ----------
    result : CType
    args : tuple of CType
        The fixed arguments.
    variadic : bool
        Whether more arguments may follow.
    """

    __slots__ = ("args", "result", "variadic")

    result: CType
    args: tuple[CType, ...]
    variadic: bool

    def __new__(
        cls, result: CType, args: Iterable[CType] = (), variadic: bool = False
    ) -> FunctionPointer:
        args = tuple(args)
        variadic = bool(variadic)
        _admit(result, "result")
        length, longer = len(result.text), len(result.named)
        for arg in args:
            _admit(arg, "argument")
            length += len(arg.text)
            longer += len(arg.named)
            _check_length(length, longer)
        if variadic and not args:
            raise SignatureError("a variadic function needs at least one argument before '.'")
        end = "." if variadic else ""
        text = f"X{{{result.text}:{''.join([arg.text for arg in args])}{end}}}"
        named = f"X{{{result.named}:{''.join([arg.named for arg in args])}{end}}}"
        self: FunctionPointer = _intern(
            cls,
            "function",
            text,
            named,
            _WORD,
            _WORD,
            1 + max([result.depth, *[arg.depth for arg in args]]),
            result=result,
            args=args,
            variadic=variadic,
        )
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return FunctionPointer, (self.result, self.args, self.variadic)

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        return self.declare_function(f"(*{declarator})", spell=spell)

    def declare_function(
        self,
        declarator: str,
        names: Sequence[str | None] = (),
        readonly: Sequence[bool] = (),
        spell: Callable[[CType], str] | None = None,
    ) -> str:
        """Declare a function of this type in C, with names for its arguments and with `const`."""
        args = []
        for index, arg in enumerate(self.args):
            name = (names[index] if index < len(names) else None) or ""
            if index >= len(readonly) or not readonly[index]:
                args.append(arg.declare(name, spell))
            else:
                args.append(_declare_const(arg, name, spell))
        if self.variadic:
            args.append("...")
        return self.result.declare(f"{declarator}({', '.join(args) or 'void'})", spell)


def _declare_const(arg: CType, name: str, spell: Callable[[CType], str] | None = None) -> str:
    """Declare an argument whose callee does not write to what it points to."""
    if isinstance(arg, Pointer) and arg.pointee.kind in _SPELT_WITH_STAR:
        # 'const' belongs to what `arg` points to, which is a pointer itself.
        return arg.pointee.declare("const *" + name, spell)
    if isinstance(arg, View) and spell is None:
        # The elements are const; nobody writes to the descriptor in any case.
        data, *extents = arg.descriptor.fields
        declared = [field.type.declare(str(field.name)) for field in extents]
        members = "; ".join([_declare_const(data.type, "data"), *declared])
        return f"struct {{ {members}; }} *{name}"
    return "const " + arg.declare(name, spell)


class Field:
    """One field of a `Struct`.

    Attributes
    ----------
    name : str or None
    type : CType
    offset : int
        In bytes from the start of the struct.
    """

    __slots__ = ("name", "offset", "type")

    name: str | None
    type: CType
    offset: int

    def __init__(self, name: str | None, type: CType, offset: int) -> None:
        if hasattr(self, "offset"):
            raise AttributeError("a Field is immutable; it has been made already")
        for attribute, value in (("name", name), ("type", type), ("offset", offset)):
            object.__setattr__(self, attribute, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Field is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Field is immutable; cannot delete {name!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Field):
            return NotImplemented
        return (self.name, self.type, self.offset) == (other.name, other.type, other.offset)

    def __hash__(self) -> int:
        return hash((self.name, self.type, self.offset))

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.type.named!r}, offset={self.offset})"

    def __reduce__(self) -> tuple[object, ...]:
        return Field, (self.name, self.type, self.offset)


class Struct(CType):
    """``T{…}``, a struct by value, laid out by the rules of C; packed as ``=T{…}``.

    A packed struct has no padding between its fields and alignment 1; structs nested in it keep a
    layout of their own, as with GCC's ``__attribute__((packed))``.

    Parameters
    ----------
    fields : iterable of CType or of (name, CType)
        A name may be `None`.
    packed : bool

    Attributes
    ----------
    fields : tuple of Field
    packed : bool
    field_names : tuple of str
        One name for every field; the unnamed ones are called ``f0``, ``f1``, … after their index.
    """

    __slots__ = ("field_names", "fields", "packed")

    fields: tuple[Field, ...]
    packed: bool
    field_names: tuple[str, ...]

    def __new__(
        cls, fields: Iterable[CType | tuple[str | None, CType]], packed: bool = False
    ) -> Struct:
        packed = bool(packed)
        laid_out: list[Field] = []
        seen: set[str] = set()
        offset = length = named = 0
        alignment = 1
        for item in fields:
            name, ctype = (None, item) if isinstance(item, CType) else item
            _admit(ctype, "field")
            if name is not None:
                name = str.__str__(name)  # a subclass may format as another text
                if not (name.isascii() and name.isidentifier()):
                    raise SignatureError(f"{name!r} is not a name that a field can have in C")
                if name in seen:
                    raise SignatureError(f"a struct has two fields called {name!r}")
                seen.add(name)
            if not packed:
                offset = _round_up(offset, ctype.alignment)
                alignment = max(alignment, ctype.alignment)
            laid_out.append(Field(name, ctype, offset))
            offset += ctype.size
            length += len(ctype.text)
            named += len(ctype.named) + (len(name) + 2 if name else 0)
            _check_length(length, named)
        if not laid_out:
            raise SignatureError("a struct needs at least one field")
        start = "=T{" if packed else "T{"
        self: Struct = _intern(
            cls,
            "struct",
            start + "".join([field.type.text for field in laid_out]) + "}",
            start
            + "".join([f.type.named + (f":{f.name}:" if f.name else "") for f in laid_out])
            + "}",
            _round_up(offset, alignment),
            alignment,
            1 + max([field.type.depth for field in laid_out]),
            fields=tuple(laid_out),
            packed=packed,
            field_names=tuple(_complete_names([field.name for field in laid_out])),
        )
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return Struct, (tuple([(field.name, field.type) for field in self.fields]), self.packed)

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        if spell is not None:
            return _join(spell(self), declarator)
        packed = " __attribute__((packed))" if self.packed else ""
        return _join(f"struct{packed} {{ {self.members()} }}", declarator)

    def members(
        self, names: Sequence[str] | None = None, spell: Callable[[CType], str] | None = None
    ) -> str:
        """Declarations of the fields in C, under `names` if these are given."""
        names = self.field_names if names is None else names
        pairs = zip(self.fields, names, strict=True)
        return " ".join([field.type.declare(name, spell) + ";" for field, name in pairs])


class Array(CType):
    """``(n,m)T``, an array; only inside structs and behind ``&``.

    An array of arrays is one array of more dimensions.

    Attributes
    ----------
    item : CType
        Type of one element.
    shape : tuple of int
        Lengths, the outermost dimension first.
    length : int
        Number of elements in all.
    """

    __slots__ = ("item", "length", "shape")

    item: CType
    shape: tuple[int, ...]
    length: int

    def __new__(cls, item: CType, shape: Sequence[int]) -> Array:
        shape = tuple(shape)
        _admit(item, "array")
        for length in shape:
            if length < 1:
                raise SignatureError(f"an array has at least one element (got {length})")
        if isinstance(item, Array):
            shape += item.shape
            item = item.item
        if not 1 <= len(shape) <= MAX_NDIM:
            raise SignatureError(f"an array has 1 to {MAX_NDIM} dimensions (got {len(shape)})")
        count = 1
        for length in shape:
            count *= length
            if count > sys.maxsize:
                raise SignatureError("an array is larger than the address space")
        lengths = ",".join(map(str, shape))
        self: Array = _intern(
            cls,
            "array",
            f"({lengths}){item.text}",
            f"({lengths}){item.named}",
            count * item.size,
            item.alignment,
            item.depth + 1,
            item=item,
            shape=shape,
            length=count,
        )
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return Array, (self.item, self.shape)

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        return self.item.declare(declarator + "".join([f"[{n}]" for n in self.shape]), spell)


class View(CType):
    """``[n]T``, a strided view of an n-dimensional array; only as an argument.

    The argument is a pointer to a `descriptor`, which the caller owns and keeps for the call::

        struct {
            T *data;              // the element with all indices 0
            intptr_t shape[n];    // lengths in elements
            intptr_t strides[n];  // steps in bytes
        };

    so `size` and `alignment` are a pointer's.

    Attributes
    ----------
    item : CType
        Type of one element.
    ndim : int
        Number of dimensions.
    """

    __slots__ = ("item", "ndim")

    item: CType
    ndim: int

    def __new__(cls, item: CType, ndim: int) -> View:
        _admit(item, "view")
        if not 1 <= ndim <= MAX_NDIM:
            raise SignatureError(f"a strided view has 1 to {MAX_NDIM} dimensions (got {ndim})")
        self: View = _intern(
            cls,
            "view",
            f"[{ndim}]{item.text}",
            f"[{ndim}]{item.named}",
            _WORD,
            _WORD,
            item.depth + 1,
            item=item,
            ndim=ndim,
        )
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return View, (self.item, self.ndim)

    @property
    def descriptor(self) -> Struct:
        """The struct that the argument points to."""
        extents = Array(scalar("n"), (self.ndim,))
        return Struct([("data", Pointer(self.item)), ("shape", extents), ("strides", extents)])

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        if spell is not None:
            return _join(spell(self), declarator)
        return self.descriptor.declare("*" + declarator)


def _join(base: str, declarator: str) -> str:
    """A declaration from its specifiers and its declarator."""
    return base + declarator if not declarator or base.endswith("*") else f"{base} {declarator}"


def object_offsets(ctype: CType, start: int = 0) -> tuple[int, ...]:
    """Where a value in memory has references to Python objects."""
    if isinstance(ctype, Struct):
        parts = [object_offsets(field.type, start + field.offset) for field in ctype.fields]
    elif isinstance(ctype, Array):
        first = object_offsets(ctype.item)
        places = range(start, start + ctype.size, ctype.item.size) if first else ()
        parts = [tuple([place + offset for offset in first]) for place in places]
    else:
        return (start,) if ctype.kind == "object" else ()
    return tuple([offset for part in parts for offset in part])


def _round_up(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _complete_names(names: list[str | None]) -> Iterable[str]:
    """`names` with the missing ones filled in, without repeating one that is there."""
    taken = {name for name in names if name}
    for index, name in enumerate(names):
        if name:
            yield name
            continue
        made = f"{_DEFAULT_NAME}{index}"
        while made in taken:
            made += "_"
        taken.add(made)
        yield made


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


def refusal(ctype: CType, place: str) -> tuple[str, str] | None:
    """Why `ctype` cannot stand at `place` and what would work, or `None` where it can.

    Parameters
    ----------
    ctype : CType
    place : str
        ``"argument"``, ``"result"``, ``"field"``, ``"pointee"``, ``"array"`` or ``"view"``; the
        last two stand for their elements.
    """
    return _REFUSALS[place].get(ctype.kind)


def _admit(ctype: CType, place: str) -> None:
    if not isinstance(ctype, CType):
        raise TypeError(f"a {place} must be a CType (got {type(ctype).__name__})")
    refused = refusal(ctype, place)
    if refused is not None:
        raise SignatureError(refused[0], hint=refused[1])


def _scalars() -> dict[str, Scalar]:
    """Every code that means a scalar, with the canonical type it means here."""
    found: dict[str, Scalar] = {}
    for code, same, letter, kind, c_name, size, alignment, digits, signed in _lib.types.scalars:
        if code == same:
            more = {"c_name": c_name, "letter": letter, "digits": digits, "signed": signed}
            found[code] = _intern(Scalar, kind, code, code, size, alignment, 0, **more)
    for code, same, *_ in _lib.types.scalars:
        found[code] = found[same]
    return found


SCALARS: Final = _scalars()
VOID: Final = Void()
VOIDPTR: Final = VoidPointer()


def scalar(code: str) -> Scalar:
    """The scalar type that `code` means on this platform.

    Parameters
    ----------
    code : str
        One of ``? c b B h H i I l L q Q n N e f d g Zf Zd Zg``.

    Raises
    ------
    SignatureError
        If `code` is not one of them.

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


def pointer(pointee: CType) -> CType:
    """The type of a pointer to `pointee`: `VOIDPTR` for `VOID`, else a `Pointer`."""
    return VOIDPTR if pointee.kind == "void" else Pointer(pointee)
