"""C types built from other types: pointers, functions, structs, arrays and views.

Like those of ctype.py, they are immutable and interned `CType`s. They also know the layout of their
parts. Types that C forbids cannot be constructed.
"""

from __future__ import annotations

import os
import sys
from collections import namedtuple

from .._errors import SignatureError, refuse_reload
from .ctype import (
    CHAR,
    MAX_NDIM,
    VOIDPTR,
    CType,
    Plain,
    Scalar,
    admit,
    check_length,
    intern,
    join,
    part_of,
    scalar,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Literal, Protocol

    from .._ext import Foreign

    class Owner(Protocol):
        """What has the types that pointers name: a library's."""

        serial: int

        @property
        def structs(self) -> dict[Foreign, Foreign]:
            """What assigns to members of its structs, by cffi's types."""
            ...

        def pointer(self, name: str) -> object:
            """cffi's type of a pointer to what has the name; None where there is none."""
            ...

        def node(self, name: str) -> Foreign:
            """What has the name; None where there is none."""
            ...

        def tag(self, name: str) -> str:
            """What a typedef's struct or union is called; other names as they are."""
            ...


refuse_reload(globals(), "Pointer")

_SPELT_WITH_STAR = ("pointer", "voidptr", "function", "object")

# 64-bit ARM's ABI has bit-fields without a name align the struct, and those of 0 bits packed ones.
# Apple's and Microsoft's compilers do as on x86.
_UNNAMED_ALIGN = sys.platform not in ("win32", "darwin", "ios") and os.uname().machine in (
    "aarch64",
    "arm64",
)

_DEFAULT_NAME = "f"  # unnamed fields are shown as f0, f1, …


def _mark(name: str, owner: Owner | None) -> str:
    """How `named` texts say what a pointer's target is called, and whose type that is."""
    return f"<{name}>" if owner is None else f"<{owner.serial}:{name}>"


class Pointer(CType):
    """``&T``, a pointer to data of a known type; see `pointer` for one that may be `void *`.

    Attributes
    ----------
    pointee : CType
        What it points to.
    name : str
        What C calls the struct that it points to, ``"struct point"``; "" where it has no name.
        No part of the type's identity: it is for checks at the call.
    owner : Owner or None
        What has cffi's type of that name.
    """

    __slots__ = ("name", "owner", "pointee")

    name: str
    owner: Owner | None
    pointee: CType

    def __new__(cls, pointee: CType, name: str = "", owner: Owner | None = None) -> Pointer:
        admit(pointee, "pointee")
        mark = _mark(name, owner) if name else ""
        text, named = "&" + pointee.text, f"&{mark}{pointee.named}"
        return intern(
            cls,
            "pointer",
            text,
            named,
            pointee.depth + 1,
            pointee=pointee,
            name=name,
            owner=owner,
        )

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        star = "*" + declarator
        if self.name and spell is None:
            return join(self.name, star)
        return self.pointee.declare(f"({star})" if self.pointee.kind == "array" else star, spell)


def aligned(ctype: CType, alignment: int) -> CType:
    """A type as what pointers lead to, with an alignment that was asked for, which is no part of
    its identity. Values are passed like those of the type itself.
    """
    classes: Foreign = type(ctype).__mro__[:-1]
    parts = {name: getattr(ctype, name) for cls in classes for name in cls.__slots__}
    return intern(
        type(ctype), **{**parts, "alignment": alignment, "named": f"@{alignment}{ctype.named}"}
    )


class Handle(Plain):
    """``P``, a pointer to something of which no more than the name is known here.

    Attributes
    ----------
    name : str
        What C calls it, ``"struct sqlite3"``.
    owner : Owner or None
        What has cffi's type of that name.
    opaque : bool
        Whether its size is not known, either.
    """

    __slots__ = ("name", "opaque", "owner")

    name: str
    opaque: bool
    owner: Owner | None

    def __new__(cls, name: str, owner: Owner | None = None, opaque: bool = True) -> Handle:
        named = f"P{'' if opaque else '='}{_mark(name, owner)}"
        return intern(
            cls,
            "voidptr",
            "P",
            named,
            0,
            c_name=f"{name} *",
            name=name,
            owner=owner,
            opaque=opaque,
        )

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        return join(self.c_name if spell is None else spell(VOIDPTR), declarator)


class Record(Plain):
    """A struct or union whose members cffi alone knows, with unions, bit-fields or members without
    names: what a pointer leads to that has the name of it.
    """

    __slots__ = ("pointer",)

    pointer: Handle | Pointer

    def __new__(cls, pointer: Handle | Pointer, size: int, alignment: int) -> Record:
        named = f"={pointer.named}"
        return intern(
            cls, "record", "", named, 0, size, alignment, c_name=pointer.name, pointer=pointer
        )


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
        admit(result, "result")
        for arg in args:
            admit(arg, "argument")
        parts = result, *args
        check_length(sum([len(one.text) for one in parts]), sum([len(one.named) for one in parts]))
        if variadic and not args:
            raise SignatureError("a variadic function needs at least one argument before '.'")
        end = "." if variadic else ""
        text = f"X{{{result.text}:{''.join([arg.text for arg in args])}{end}}}"
        named = f"X{{{result.named}:{''.join([arg.named for arg in args])}{end}}}"
        depth = 1 + max([result.depth, *[arg.depth for arg in args]])
        return intern(
            cls, "function", text, named, depth, result=result, args=args, variadic=variadic
        )

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
        # The elements are const; C does not write to the descriptor in any case.
        data, *extents = arg.descriptor.fields
        declared = [field.type.declare(str(field.name)) for field in extents]
        members = "; ".join([_declare_const(data.type, "data"), *declared])
        return f"struct {{ {members}; }} *{name}"
    return "const " + arg.declare(name, spell)


class Field(namedtuple("Field", ["name", "type", "offset", "width", "shift"], defaults=(None, 0))):
    """One field of a `Struct`.

    Attributes
    ----------
    name : str or None
    type : CType
    offset : int
        In bytes from the start of the struct; of a bit-field the byte where it begins.
    width : int or None
        Bits of a bit-field; None for others. One without a name is padding; of 0 bits it has the
        next one begin where a value of the type could.
    shift : int
        The bit of its first byte where a bit-field begins.
    """

    __slots__ = ()
    name: str | None
    type: CType
    offset: int
    width: int | None
    shift: int

    @property
    def is_padding(self) -> bool:
        """Whether it is a bit-field without a name, of which no value is taken or given."""
        return self.width is not None and not self.name

    @property
    def first_bit(self) -> int:
        """Where it begins, in bits."""
        return 8 * self.offset + self.shift

    def __repr__(self) -> str:
        bits = "" if self.width is None else f", width={self.width}, shift={self.shift}"
        return f"Field({self.name!r}, {self.type.named!r}, offset={self.offset}{bits})"


def lay_out(
    members: Iterable[tuple[int, int, int | None, bool, int, bool]],
    union: bool = False,
    pack: int = 0,
) -> tuple[list[tuple[int, int]], int, int]:
    """Where GCC puts the members of a struct or union.

    Parameters
    ----------
    members : iterable of tuple
        Of each its size and alignment in bytes, its width in bits if it is a bit-field, whether it
        has a name, the alignment that is asked for (0 for none), and whether it is packed.
    union : bool
    pack : int
        The greatest alignment that ``#pragma pack`` allows; 0 without one.

    Returns
    -------
    places : list of (int, int)
        Of each the byte, and the bit of it, where it begins.
    end : int
        Bytes up to the end of the last one, or of the largest of a union.
    alignment : int
    """
    at = end = 0  # in bits
    alignment = 1
    places = []
    for size, own, width, named, wanted, packed in members:
        at = 0 if union else at
        if width is None:
            place = max(wanted or 1, 1 if packed else own)
            place = min(place, pack) if pack else place
            alignment = max(alignment, place)
            at = _round_up(at, 8 * place)
            places.append((at // 8, 0))
            at += 8 * size
        else:
            unit = 8 * own
            place = min(wanted, pack) if pack else wanted
            if width == 0:
                at = _round_up(at, unit)
                alignment = max(alignment, own if _UNNAMED_ALIGN else 1)
            else:
                at = _round_up(at, 8 * (place or 1)) if place else at
                # It spans no more units of its type than the type itself.
                if not (packed or pack) and -(-(at % unit + width) // unit) > 8 * size // unit:
                    at = _round_up(at, unit)
                if named or _UNNAMED_ALIGN:
                    alignment = max(alignment, min(own, pack or (1 if packed else own)), place)
            places.append((at // 8, at % 8))
            at += width
        end = max(end, at)
    return places, -(-end // 8), alignment


class Struct(CType):
    """``T{…}``, a struct by value, laid out by the rules of C; packed as ``=T{…}``. A union is
    ``U{…}``, or ``=U{…}``, and a bit-field is an integer type, ``#`` and its width: ``T{I#3:a:}``.

    A packed struct has no padding between its fields and alignment 1; structs nested in it keep a
    layout of their own, as with GCC's ``__attribute__((packed))``.

    Parameters
    ----------
    fields : iterable of CType, of (name, CType), or of (name, CType, width)
        A name may be `None`; a width is that of a bit-field, or `None`.
    packed, union : bool

    Attributes
    ----------
    fields : tuple of Field
    packed : bool
    field_names : tuple of str
        One name for every field; the unnamed ones are called ``f0``, ``f1``, … after their index.
    name : str
        What C calls it, ``"struct point"`` or the name of a typedef; "" where it has no name. No
        part of the type's identity.
    owner : Owner or None
        What has cffi's type of that name.
    """

    __slots__ = ("field_names", "fields", "name", "owner", "packed")

    fields: tuple[Field, ...]
    packed: bool
    field_names: tuple[str, ...]
    name: str
    owner: Owner | None

    def __new__(
        cls,
        fields: Iterable[CType | tuple[str | None, CType] | tuple[str | None, CType, int | None]],
        packed: bool = False,
        name: str = "",
        union: bool = False,
        owner: Owner | None = None,
    ) -> Struct:
        kind: Literal["struct", "union"] = "union" if union else "struct"
        packed = bool(packed)
        parts: list[tuple[str | None, CType, int | None]] = []
        text = named = "=" * packed + ("U{" if union else "T{")
        if name:
            named = f"{text[:-1]}{_mark(name, owner)}{{"
        seen: set[str] = set()
        for item in fields:
            label, ctype, *bits = (None, item) if isinstance(item, CType) else item
            admit(ctype, "field")
            width = bits[0] if bits else None
            if width is not None:
                check_bits(ctype, width, label)
            if label is not None:
                label = str.__str__(label)  # a subclass may format as another text
                if not label.isidentifier():
                    raise SignatureError(f"{label!r} is not a name that a field can have in C")
                if label in seen:
                    raise SignatureError(f"a {kind} has two fields called {label!r}")
                seen.add(label)
            parts.append((label, ctype, width))
            code = "" if width is None else f"#{width}"
            text += ctype.text + code
            named += ctype.named + code + (f":{label}:" if label else "")
            check_length(len(text), len(named))
        places, end, alignment = lay_out(
            [(ctype.size, ctype.alignment, width, True, 0, packed) for _, ctype, width in parts],
            union,
        )
        if not end:
            raise SignatureError(f"a {kind} needs at least one field")
        return intern(
            cls,
            kind,
            text + "}",
            named + "}",
            1 + max([ctype.depth for _, ctype, _ in parts]),
            _round_up(end, alignment),
            alignment,
            fields=tuple(
                [
                    Field(label, ctype, at, width, shift)
                    for (label, ctype, width), (at, shift) in zip(parts, places, strict=True)
                ]
            ),
            packed=packed,
            field_names=tuple(_complete_names([label for label, *_ in parts])),
            name=name,
            owner=owner,
        )

    @property
    def is_plain(self) -> bool:
        """Whether its members lie one after another, each in bytes of its own."""
        return self.kind == "struct" and all([field.width is None for field in self.fields])

    @property
    def members(self) -> dict[str, Field]:
        """The fields that have values, by name: all but padding."""
        pairs = zip(self.field_names, self.fields, strict=True)
        return {name: field for name, field in pairs if not field.is_padding}

    @property
    def places(self) -> dict[str, tuple[Field, int]]:
        """`members`, and behind them those of members without a name, which C calls as its own; of
        each what it is and where that begins, which is 0 for its own.
        """
        found = {name: (field, 0) for name, field in self.members.items()}
        for field in self.fields:
            if field.name is None and isinstance(field.type, Struct):
                for name, (inner, start) in field.type.places.items():
                    if inner.name is not None:
                        found.setdefault(name, (inner, start + field.offset))
        return found

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        if spell is not None:
            return join(spell(self), declarator)
        packed = " __attribute__((packed))" if self.packed else ""
        declared = []
        for field, name in zip(self.fields, self.field_names, strict=True):
            bits = "" if field.width is None else f" : {field.width}"
            declared.append(f"{field.type.declare('' if field.width == 0 else name)}{bits};")
        return join(f"{self.kind}{packed} {{ {' '.join(declared)} }}", declarator)


def check_bits(ctype: CType, width: int, name: str | None = None) -> None:
    """Refuse what cannot be a bit-field."""
    if ctype.kind not in ("bool", "int"):
        raise SignatureError(
            f"a bit-field is an integer, not {ctype.c_declaration()!r}",
            hint="an unsigned int of 3 bits is 'I#3'",
        )
    most = 1 if ctype.kind == "bool" else 8 * ctype.size
    who = f"the bit-field {name!r}" if name else "a bit-field"
    if width > most or width < 0:
        raise SignatureError(f"{who} has {width} bits, and its type at most {most}")
    if name and not width:
        raise SignatureError(f"{who} has 0 bits, and only one without a name can")


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
    is_text : bool
        Whether the elements are C's `char`.
    """

    __slots__ = ("item", "length", "shape")

    item: CType
    shape: tuple[int, ...]
    length: int

    def __new__(cls, item: CType, shape: Sequence[int]) -> Array:
        shape = tuple(shape)
        admit(item, "array")
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
        text, named = f"({lengths}){item.text}", f"({lengths}){item.named}"
        layout = item.depth + 1, count * item.size, item.alignment
        return intern(cls, "array", text, named, *layout, item=item, shape=shape, length=count)

    @property
    def is_text(self) -> bool:
        return self.item.named == CHAR.named

    @property
    def row(self) -> CType:
        """The type of what the outermost dimension has."""
        return self.item if len(self.shape) == 1 else Array(self.item, self.shape[1:])

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
        admit(item, "view")
        if not 1 <= ndim <= MAX_NDIM:
            raise SignatureError(f"a strided view has 1 to {MAX_NDIM} dimensions (got {ndim})")
        text, named = f"[{ndim}]{item.text}", f"[{ndim}]{item.named}"
        return intern(cls, "view", text, named, item.depth + 1, item=item, ndim=ndim)

    @property
    def descriptor(self) -> Struct:
        """The struct that the argument points to."""
        extents = Array(scalar("n"), (self.ndim,))
        return Struct([("data", Pointer(self.item)), ("shape", extents), ("strides", extents)])

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        if spell is not None:
            return join(spell(self), declarator)
        return self.descriptor.declare("*" + declarator)


def inner_types(ctype: CType) -> tuple[CType, ...]:
    """What a struct, a union or an array is made of; nothing of other types."""
    if isinstance(ctype, Struct):
        return tuple([field.type for field in ctype.fields if field.width != 0])
    return (ctype.item,) if isinstance(ctype, Array) else ()


def leads_on(ctype: CType) -> bool:
    """Whether a value has pointers or Python objects in it."""
    return any([letter in "&PXO" for letter in ctype.text])


def is_plain(ctype: CType) -> bool:
    """Whether a type has no union and no bit-field in it."""
    return getattr(ctype, "is_plain", True) and all(map(is_plain, inner_types(ctype)))


def homogeneous(ctype: CType) -> list[Scalar]:
    """The up to four floating-point numbers of one type that a struct or a complex number is.

    None for others, and where there is padding. 64-bit ARM passes them in vector registers.
    """
    if not isinstance(ctype, Struct) and ctype.kind != "complex":
        return []
    found = _floats(ctype) or []
    # Members of one type that fill the object leave no padding.
    alike = len(set(found)) == 1 and len(found) * found[0].size == ctype.size
    return found if alike else []


def _floats(ctype: CType) -> list[Scalar] | None:
    """The floating-point numbers in a type, `None` if it holds others or more than 4."""
    if ctype.kind in ("float", "complex"):
        return [part_of(ctype)] * (2 if ctype.kind == "complex" else 1)
    if isinstance(ctype, Array) and ctype.length > 4:
        return None
    found: list[Scalar] = []
    inners = inner_types(ctype)
    if ctype.kind == "union":  # GCC takes bit-fields of 0 bits for integers there
        inners = tuple([field.type for field in getattr(ctype, "fields", ())])
    for inner in inners:
        more = _floats(inner)
        if more is None:
            return None
        if ctype.kind == "union":
            if found and found[0] != more[0]:
                return None
            found = max(found, more, key=len)
            continue
        found += more * (ctype.length if isinstance(ctype, Array) else 1)
        if len(found) > 4:
            return None
    return found or None


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


def hides_object(ctype: CType) -> bool:
    """Whether a Python object is a member of a union in it: nothing says whether it is there."""
    if ctype.kind == "union":
        return bool(object_offsets(ctype))
    return any(map(hides_object, inner_types(ctype)))


def _round_up(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _complete_names(names: list[str | None]) -> Iterable[str]:
    """`names` with the missing ones filled in, without repeating one that is there."""
    taken = {name for name in names if name}
    for index, name in enumerate(names):
        made = name or f"{_DEFAULT_NAME}{index}"
        while not name and made in taken:
            made += "_"
        yield made


def pointer(pointee: CType) -> CType:
    """The type of a pointer to `pointee`: `VOIDPTR` for `VOID`, else a `Pointer`."""
    return VOIDPTR if pointee.kind == "void" else Pointer(pointee)


# -- buffers --------------------------------------------------------------------------------------


def buffer_format(ctype: CType) -> str:
    """The format of a buffer whose elements are of a type; pointers are integers there.

    Examples
    --------
    >>> from nativecall._cdecl.spelling import parse_type
    >>> buffer_format(parse_type("T{b(2)d}"))
    '^T{b:f0:7x(2)d:f1:}'
    """
    return ("^" if isinstance(ctype, Struct) else "") + _format(ctype)


def _format(ctype: CType) -> str:
    if isinstance(ctype, Struct):
        parts, at = [], 0
        for name, field in zip(ctype.field_names, ctype.fields, strict=True):
            parts.append(_padding(field.offset - at))
            parts.append(f"{_format(field.type)}:{name}:")
            at = field.offset + field.type.size
        return f"T{{{''.join(parts)}{_padding(ctype.size - at)}}}"
    if isinstance(ctype, Array):
        shape, item = ctype.shape, _format(ctype.item)
        if ctype.is_text:
            shape, item = shape[:-1], f"{shape[-1]}s"
        return f"({','.join(map(str, shape))}){item}" if shape else item
    if isinstance(ctype, Scalar):
        return ctype.text
    return "Q" if ctype.size == 8 else "I"


def _padding(count: int) -> str:
    return "" if count == 0 else f"{count}x"
