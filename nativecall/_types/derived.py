"""C types built from other types: pointers, functions, structs, arrays and views.

Like the types in ctype.py, they are immutable, interned `CType`s. They also store the layout of
their parts. Constructors raise `SignatureError` for types that C forbids.
"""

from __future__ import annotations

import os
import sys
from collections import namedtuple

from .._errors import TYPE_CHECKING, SignatureError, refuse_reload
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Literal, Protocol

    from .._ext import Foreign

    class Owner(Protocol):
        """The library that owns the named types."""

        serial: int

        @property
        def structs(self) -> dict[Foreign, Foreign]:
            """Data for assigning to members of structs, by cffi type."""
            ...

        def pointer(self, name: str) -> object:
            """Return cffi's pointer type to a named type or function; None if there is none."""
            ...

        def node(self, name: str) -> Foreign:
            """Return the declared type (a node) of a name; None if there is none."""
            ...

        def tag(self, name: str) -> str:
            """Return the tag of a typedef's struct or union; return other names unchanged."""
            ...


refuse_reload(globals(), "Pointer")

_SPELT_WITH_STAR = ("pointer", "voidptr", "function", "object")

# In 64-bit ARM's ABI, unnamed bit-fields contribute to the alignment of the struct. Unnamed
# bit-fields of 0 bits do so even in packed structs. The compilers of Apple and Microsoft follow the
# x86 rules.
_UNNAMED_ALIGN = sys.platform not in ("win32", "darwin", "ios") and os.uname().machine in (
    "aarch64",
    "arm64",
)

_DEFAULT_NAME = "f"  # unnamed fields are shown as f0, f1, …


def _mark(name: str, owner: Owner | None) -> str:
    """Return the text that stands for a pointer target's C name and owner in `CType.named`."""
    return f"<{name}>" if owner is None else f"<{owner.serial}:{name}>"


class Pointer(CType):
    """``&T``, a pointer to data of a known type. The function `pointer` also accepts `void`.

    Attributes
    ----------
    pointee : CType
        Type of the target.
    name : str
        C name of the target if it is a struct, such as ``"struct point"``; "" if the struct has no
        name. The name is not part of the type's identity, but calls check it.
    owner : Owner or None
        Owner of the cffi type with that name.
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
    """Return a pointee type with the alignment that a declaration requests.

    The alignment is not part of the type's identity. Values are passed as if they had the type's
    natural alignment.
    """
    classes: Foreign = type(ctype).__mro__[:-1]
    parts = {name: getattr(ctype, name) for cls in classes for name in cls.__slots__}
    return intern(
        type(ctype), **{**parts, "alignment": alignment, "named": f"@{alignment}{ctype.named}"}
    )


class Handle(Plain):
    """``P``, a pointer to a named type that signatures cannot describe.

    Attributes
    ----------
    name : str
        C name of the target, such as ``"struct sqlite3"``.
    owner : Owner or None
        Owner of the cffi type with that name.
    opaque : bool
        Whether the size of the target is unknown.
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
    """The target of a named pointer: a struct or union that signatures cannot describe.

    Only cffi can access its members.
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
        """Declare a function of this type in C, with argument names and `const`."""
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
    """Declare a pointer argument with a const target."""
    if isinstance(arg, Pointer) and arg.pointee.kind in _SPELT_WITH_STAR:
        # The target of `arg` is itself a pointer, and 'const' applies to this inner pointer.
        return arg.pointee.declare("const *" + name, spell)
    if isinstance(arg, View) and spell is None:
        # Only the elements are declared const; C never writes to the descriptor.
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
        Bytes from the start of the struct to the first byte of the field.
    width : int or None
        Bits of a bit-field; None for other fields. An unnamed bit-field is padding. If its width is
        0, the next bit-field starts at a multiple of the alignment of `type`.
    shift : int
        Position of a bit-field's first bit within its first byte.
    """

    __slots__ = ()
    name: str | None
    type: CType
    offset: int
    width: int | None
    shift: int

    @property
    def is_padding(self) -> bool:
        """Whether the field is an unnamed bit-field, which has no value."""
        return self.width is not None and not self.name

    @property
    def first_bit(self) -> int:
        """Position of the field's first bit in the struct."""
        return 8 * self.offset + self.shift

    def __repr__(self) -> str:
        bits = "" if self.width is None else f", width={self.width}, shift={self.shift}"
        return f"Field({self.name!r}, {self.type.named!r}, offset={self.offset}{bits})"


def lay_out(
    members: Iterable[tuple[int, int, int | None, bool, int, bool]],
    union: bool = False,
    pack: int = 0,
) -> tuple[list[tuple[int, int]], int, int]:
    """Return where GCC places the members of a struct or union.

    Parameters
    ----------
    members : iterable of tuple
        Six values for each member: size and alignment in bytes; width in bits (None unless it is a
        bit-field); whether it has a name; requested alignment (0 for none); whether it is packed.
    union : bool
    pack : int
        The maximum alignment that ``#pragma pack`` sets; 0 without that pragma.

    Returns
    -------
    places : list of (int, int)
        For each member, its first byte and its first bit within that byte.
    end : int
        Bytes to the end of the last member, or to the end of a union's largest member.
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
                # A bit-field may not span more alignment units than an object of its type does.
                if not (packed or pack) and -(-(at % unit + width) // unit) > 8 * size // unit:
                    at = _round_up(at, unit)
                if named or _UNNAMED_ALIGN:
                    alignment = max(alignment, min(own, pack or (1 if packed else own)), place)
            places.append((at // 8, at % 8))
            at += width
        end = max(end, at)
    return places, -(-end // 8), alignment


class Struct(CType):
    """``T{…}``, a struct by value with C's layout; packed as ``=T{…}``.

    A union is ``U{…}``, or ``=U{…}`` if it is packed. A bit-field is written as an integer type,
    ``#`` and its width: ``T{I#3:a:}``.

    A packed struct has alignment 1 and no padding between its fields. Nested structs keep their own
    layout, as with GCC's ``__attribute__((packed))``.

    Parameters
    ----------
    fields : iterable of CType, of (name, CType), or of (name, CType, width)
        A name may be `None`. The width is `None` unless the field is a bit-field.
    packed, union : bool

    Attributes
    ----------
    fields : tuple of Field
    packed : bool
    field_names : tuple of str
        One name for every field. Unnamed fields are called ``f0``, ``f1``, … by their index.
    name : str
        C name of the type: ``"struct point"`` or a typedef; "" if it has no name. The name is not
        part of the type's identity.
    owner : Owner or None
        Owner of the cffi type with that name.
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
                label = str.__str__(label)  # a subclass of str may format differently
                if not label.isidentifier():
                    raise SignatureError(f"{label!r} is not a valid name for a field in C")
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
        """Whether the type is a struct (not a union) without bit-fields."""
        return self.kind == "struct" and all([field.width is None for field in self.fields])

    @property
    def members(self) -> dict[str, Field]:
        """All fields except padding, by name."""
        pairs = zip(self.field_names, self.fields, strict=True)
        return {name: field for name, field in pairs if not field.is_padding}

    @property
    def places(self) -> dict[str, tuple[Field, int]]:
        """`members`, followed by the members of unnamed structs and unions in this struct.

        C code accesses all of them as members of this struct. Each value is a field and an offset
        to add to `field.offset`; the added offset is 0 for direct members.
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
    """Raise `SignatureError` unless a bit-field can have this type and width."""
    if ctype.kind not in ("bool", "int"):
        raise SignatureError(
            f"a bit-field must be an integer, not {ctype.c_declaration()!r}",
            hint="an unsigned int of 3 bits is 'I#3'",
        )
    most = 1 if ctype.kind == "bool" else 8 * ctype.size
    who = f"the bit-field {name!r}" if name else "a bit-field"
    if width > most or width < 0:
        raise SignatureError(f"{who} has {width} bits, but its type has at most {most}")
    if name and not width:
        raise SignatureError(f"{who} has 0 bits; only an unnamed bit-field can")


class Array(CType):
    """``(n,m)T``, an array; only allowed inside structs and behind ``&``.

    An array of arrays becomes a single array with more dimensions.

    Attributes
    ----------
    item : CType
        Type of one element.
    shape : tuple of int
        Lengths, the outermost dimension first.
    length : int
        Total number of elements.
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
                raise SignatureError(f"an array must have at least one element (got {length})")
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
        """The type of one element of the outermost dimension."""
        return self.item if len(self.shape) == 1 else Array(self.item, self.shape[1:])

    def declare(self, declarator: str, spell: Callable[[CType], str] | None = None) -> str:
        return self.item.declare(declarator + "".join([f"[{n}]" for n in self.shape]), spell)


class View(CType):
    """``[n]T``, a strided view of an n-dimensional array; only allowed as an argument.

    The argument is a pointer to a `descriptor`. The caller owns the descriptor and keeps it alive
    during the call::

        struct {
            T *data;              // the element with all indices 0
            intptr_t shape[n];    // lengths in elements
            intptr_t strides[n];  // steps in bytes
        };

    The `size` and `alignment` of a view are those of a pointer.

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


def element_of(ctype: CType) -> CType:
    """Return the type of the elements behind a pointer or in a view; other types unchanged."""
    inner: Foreign = ctype.item if isinstance(ctype, View) else getattr(ctype, "pointee", ctype)
    return inner.item if isinstance(inner, Array) else inner


def inner_types(ctype: CType) -> tuple[CType, ...]:
    """Return the field types of a struct or union, or an array's item type; () for other types."""
    if isinstance(ctype, Struct):
        return tuple([field.type for field in ctype.fields if field.width != 0])
    return (ctype.item,) if isinstance(ctype, Array) else ()


def leads_on(ctype: CType) -> bool:
    """Return whether a value contains pointers or Python objects."""
    return any([letter in "&PXO" for letter in ctype.text])


def is_plain(ctype: CType) -> bool:
    """Return whether a type contains no union and no bit-field."""
    return getattr(ctype, "is_plain", True) and all(map(is_plain, inner_types(ctype)))


def homogeneous(ctype: CType) -> list[Scalar]:
    """Return the types of the numbers in a homogeneous floating-point aggregate (HFA).

    An HFA is a struct, union or complex number of one to four floating-point numbers of one type,
    without padding. 64-bit ARM passes HFAs in vector registers. For other types, return an empty
    list.
    """
    if not isinstance(ctype, Struct) and ctype.kind != "complex":
        return []
    found = _floats(ctype) or []
    # If the sizes of the numbers add up to the object's size, there is no padding.
    alike = len(set(found)) == 1 and len(found) * found[0].size == ctype.size
    return found if alike else []


def _floats(ctype: CType) -> list[Scalar] | None:
    """Return the types of the floating-point numbers in a type.

    Return None if the type contains anything else, or more than 4 numbers.
    """
    if ctype.kind in ("float", "complex"):
        return [part_of(ctype)] * (2 if ctype.kind == "complex" else 1)
    if isinstance(ctype, Array) and ctype.length > 4:
        return None
    found: list[Scalar] = []
    inners = inner_types(ctype)
    if ctype.kind == "union":  # in unions, GCC treats bit-fields of 0 bits as integers
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


def parts_of(ctype: CType, kind: str = "", start: int = 0) -> list[tuple[int, CType]]:
    """Return the offset and type of each part of a value that is not a struct or an array.

    `kind` is the kind of these parts; ``""`` returns all.
    """
    if isinstance(ctype, Struct):
        parts = [parts_of(field.type, kind, start + field.offset) for field in ctype.fields]
    elif isinstance(ctype, Array):
        first = parts_of(ctype.item, kind)
        places = range(start, start + ctype.size, ctype.item.size) if first else ()
        parts = [[(place + at, one) for at, one in first] for place in places]
    else:
        return [(start, ctype)] if kind in ("", ctype.kind) else []
    return [one for part in parts for one in part]


def object_offsets(ctype: CType) -> tuple[int, ...]:
    """Return the offsets at which a value of this type stores references to Python objects."""
    return tuple([at for at, _ in parts_of(ctype, "object")])


def hides_object(ctype: CType) -> bool:
    """Return whether the type contains a union with a Python object.

    It is unknown whether the union currently stores the object.
    """
    if ctype.kind == "union":
        return bool(object_offsets(ctype))
    return any(map(hides_object, inner_types(ctype)))


def _round_up(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _complete_names(names: list[str | None]) -> Iterable[str]:
    """Yield `names`, with generated unique names in place of missing ones."""
    taken = {name for name in names if name}
    for index, name in enumerate(names):
        made = name or f"{_DEFAULT_NAME}{index}"
        while not name and made in taken:
            made += "_"
        yield made


def pointer(pointee: CType) -> CType:
    """Return the pointer type to `pointee`: `VOIDPTR` for `VOID`, else a `Pointer`."""
    return VOIDPTR if pointee.kind == "void" else Pointer(pointee)


# -- buffers --------------------------------------------------------------------------------------


def buffer_format(ctype: CType) -> str:
    """Return the buffer format (PEP 3118) of elements of a type. Pointers become integers.

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
