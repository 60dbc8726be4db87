"""The types of headers while they are read: what C says of them, and how gcc lays them out.

Nodes have the attributes of cffi's types (`kind`, `item`, `args`, `fields`, …), so that one
`Converter` makes ours of both, and what cffi does not tell: alignments that were asked for,
bit-fields, and the reason where no value of a type can be passed.
"""

from __future__ import annotations

import copy
from collections import namedtuple

from .._errors import SignatureError
from .cffitype import MAX_SCALARS, WRAP_IT, Converter, default_abi, name_of
from .characters import texts
from .clexer import CODES
from .ctype import MAX_DEPTH, MAX_TEXT, SCALARS, WORD, CType, Scalar
from .derived import FunctionPointer, Pointer, Struct, aligned, lay_out
from .grammar import from_row
from .signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

    from .._types import Foreign
    from .grammar import Row

_MAX_SPELLED = 4 * MAX_TEXT  # characters of a type in C

#: A member: its name ("" for one without), its type, byte offset, width in bits (-1 for none), and
#: the bit of the byte where it begins.
Member = namedtuple("Member", ["name", "type", "offset", "bitsize", "bitshift"])


class Node:
    """A type. `size` is None for what has none. Typedefs share what they are made of, so that a few
    lines can describe a type of any depth and length: both have a bound.
    """

    kind = "void"
    size: int | None = None
    alignment = 1
    cname = "void"
    is_kept = False  # whether others use it, so that no body may change it
    depth: int = 0
    length_in_c: int = 8  # about how many characters C takes for it, with typedefs written out
    is_large: bool = False  # whether it is, or leads to, a function with too many of these by value
    scalars = 1  # that a value consists of, or one more than functions may have
    typedef = ""  # what names it that has no tag, or has another alignment by that
    main: Node | None = None  # the type without that alignment

    def __init__(self) -> None:
        self._pointers: dict[bool, Node] = {}

    def spell(self, declarator: str) -> str:
        """C that declares `declarator` with the type, which knows structs and typedefs by name."""
        return f"{self.typedef} {declarator}".rstrip() if self.typedef else self._spell(declarator)

    def _spell(self, declarator: str) -> str:
        return f"{self.cname} {declarator}".rstrip()

    def realigned(self, alignment: int, typedef: str = "") -> Self:
        """The type with an alignment that is asked for. It is passed as any other (GCC, Clang)."""
        made = copy.copy(self)
        made.main, made.alignment, made.typedef = self.main or self, alignment, typedef
        made._pointers = {}
        return made

    def pointer(self, const: bool = False) -> Node:
        """A pointer to the type, to a `const` one perhaps."""
        found = self._pointers.get(const)
        if found is None:
            found = self._pointers[const] = PointerTo(self, const)
        return found

    def _bound(self, *parts: Node) -> None:
        """Take depth and length from the parts of a type."""
        self.is_large = any([part.is_large for part in parts])
        self.depth = 1 + max([part.depth for part in parts])
        self.length_in_c = sum([part.length_in_c + 2 for part in parts])
        if self.depth > MAX_DEPTH:
            raise SignatureError(f"nested more than {MAX_DEPTH} levels deep, with typedefs")
        if self.length_in_c > _MAX_SPELLED:
            reason = f"a type takes more than {_MAX_SPELLED} characters with its typedefs written"
            raise SignatureError(f"{reason} out")


class Number(Node):
    """A scalar; a pointer's size and alignment may be asked of others."""

    kind = "primitive"

    def __init__(self, scalar: Scalar, alignment: int = 0, cname: str = "") -> None:
        super().__init__()
        self.scalar = scalar
        self.size = scalar.size
        self.alignment = alignment or scalar.alignment
        self.cname = cname or scalar.c_name


class Enumeration(Number):
    """An enum, as the integer that it is; of one that is only named nothing else is known."""

    kind = "enum"

    def __init__(
        self, tag: str, scalar: Scalar, values: Sequence[tuple[str, int]] | None = None
    ) -> None:
        super().__init__(scalar, cname=tag)
        self.values = values
        self.made: object = None  # cffi's type (ffitypes.py)


#: Begins the names of types whose size and alignment, which follow, are all that is known.
UNUSABLE = "__nc_unusable_"


class Unusable(Node):
    """A type of which no value can be passed, and why."""

    kind = "unusable"

    def __init__(
        self, reason: str, size: int | None = None, alignment: int = 1, cname: str = ""
    ) -> None:
        super().__init__()
        self.reason = reason
        self.size = size
        self.alignment = alignment
        self.cname = cname or f"{UNUSABLE}{size or 0}_{alignment}"


class PointerTo(Node):
    kind = "pointer"
    size = alignment = WORD

    def __init__(self, item: Node, const: bool) -> None:
        super().__init__()
        self._bound(item)
        self.item = item
        self.const = const

    def _spell(self, declarator: str) -> str:
        star = f"*{declarator}"
        return self.item.spell(f"({star})" if self.item.kind == "array" else star)


class ArrayOf(Node):
    kind = "array"

    def __init__(self, item: Node, length: int | None, written: str = "") -> None:
        super().__init__()
        if item.kind == "raw":
            raise SignatureError("an array of functions is none")
        if length is not None and length < 0:
            raise SignatureError(f"an array of {length} elements is none")
        self._bound(item)
        self.item = item
        self.length = length
        self.written = written  # the length of a parameter that is no constant
        self.alignment = item.alignment
        if length is not None and item.size is not None:
            self.size = length * item.size
            self.scalars = min(length * item.scalars, MAX_SCALARS + 1)

    def _spell(self, declarator: str) -> str:
        return self.item.spell(f"{declarator}[{'' if self.length is None else self.length}]")


class FunctionOf(Node):
    """A pointer to a function, as cffi has it; `Raw` is the function."""

    kind = "function"
    size: int = WORD
    alignment: int = WORD

    def __init__(
        self,
        result: Node,
        args: Sequence[Node],
        ellipsis: bool,
        names: Sequence[str | None],
        readonly: Sequence[bool],
        lengths: Sequence[int | str | None] = (),
        reason: str = "",
        places: Sequence[int] = (),
    ) -> None:
        super().__init__()
        if result.kind == "raw":
            raise SignatureError("a function cannot return a function")
        self._bound(result, *args)
        by_value = sum([part.scalars for part in (result, *args)])
        self.is_large: bool = self.is_large or by_value > MAX_SCALARS
        self.result = result
        self.args = args
        self.ellipsis = ellipsis
        self.names = names
        self.readonly = readonly
        self.lengths = lengths  # as a signature has them
        self.reason = reason  # why it cannot be called
        self.places = places  # the tokens that parameters are told by
        self.abi: int = default_abi()

    def _spell(self, declarator: str) -> str:
        return self.spell_function(f"(*{declarator})")

    def spell_function(self, declarator: str) -> str:
        args = [arg.spell("") for arg in self.args] + ["..."] * self.ellipsis
        nothing = "" if self.reason else "void"
        return self.result.spell(f"{declarator}({', '.join(args) or nothing})")


class Raw(Node):
    kind = "raw"

    def __init__(self, function: FunctionOf) -> None:
        super().__init__()
        self.function = function
        self.depth, self.length_in_c = function.depth, function.length_in_c
        self.is_large = function.is_large

    def pointer(self, const: bool = False) -> Node:
        return self.function

    def _spell(self, declarator: str) -> str:
        return self.function.spell_function(declarator)


def agree(one: Foreign, other: Foreign) -> bool:
    """Whether C takes declarations with these types as some of one thing."""
    if isinstance(one, Number) and isinstance(other, Number):
        first, second = one.scalar, other.scalar
        return (first.kind, first.size, first.signed) == (second.kind, second.size, second.signed)
    if one is other or one.kind != other.kind:
        return one is other
    if one.kind == "pointer":
        return one.const == other.const and agree(one.item, other.item)
    if one.kind == "array":
        lengths = {one.length, other.length} - {None}
        return len(lengths) < 2 and agree(one.item, other.item)
    if one.kind == "raw":
        return agree(one.function, other.function)
    if one.kind == "function":
        if one.reason or other.reason:  # then one says nothing about its arguments
            return agree(one.result, other.result)
        alike = (len(one.args), one.ellipsis) == (len(other.args), other.ellipsis)
        pairs = zip((one.result, *one.args), (other.result, *other.args), strict=False)
        return alike and all([agree(*pair) for pair in pairs])
    return bool(one.cname == other.cname)


class Record(Node):
    """A struct or union; its `fields` are None until its body has been read."""

    def __init__(self, kind: str, tag: str) -> None:
        super().__init__()
        self.kind = kind
        self.cname = f"{kind} {tag}"
        self.fields: list[tuple[str, Member]] | None = None
        self.reason = ""  # why its layout is not known
        self.packed = False
        self.transparent = False  # a union that is passed as its first member
        self.made: object = None  # cffi's type (ffitypes.py), and whether it has its members
        self.is_whole = False

    def names(self) -> Iterator[str]:
        """The names of the members, with those of structs and unions without a name."""
        for name, member in self.fields or ():
            if name:
                yield name
            elif isinstance(member.type, Record):
                yield from member.type.names()

    def lay_out(
        self,
        members: Sequence[tuple[str | None, Node, int | None, int, bool]],
        aligned: int,
        pack: int,
    ) -> None:
        """Place `members`, each (name, type, width in bits, alignment that is asked for, whether
        it is packed), as gcc does; `pack` is the most that ``#pragma pack`` allows, 0 without one.
        """
        parts = []
        scalars = 0
        for name, node, width, wanted, packed in members:
            scalars = min(scalars + node.scalars, MAX_SCALARS + 1)
            size = node.size
            if size is None and isinstance(node, ArrayOf) and node.item.size is not None:
                size = 0
            if size is None:
                reason = node.reason if isinstance(node, (Record, Unusable)) else ""
                reason = "it is the one that holds it" if node is self else reason
                self.reason = f"its member {name!r} has no size that is known"
                self.reason += f": {reason}" if reason else ""
                size = 0
            if width is not None and not 0 <= width <= 8 * size:
                raise SignatureError(f"the bit-field {name!r} has {width} bits")
            parts.append((size, node.alignment, width, name is not None, wanted, packed))
        places, end, alignment = lay_out(parts, self.kind == "union", pack)
        self.alignment = max(alignment, aligned)
        self.scalars = scalars if self.kind == "struct" else 1
        if not self.reason:
            self.size = -(-end // self.alignment) * self.alignment
        self.fields = [
            (name or "", Member(name or "", node, at, -1 if width is None else width, shift))
            for (name, node, width, *_), (at, shift) in zip(members, places, strict=True)
        ]


class TooLarge(SignatureError):
    """A function takes and returns more by value than cffi should list."""


class NodeConverter(Converter):
    """`Converter` for nodes."""

    #: The token of the parameter whose type is being made, for who says what is wrong.
    at: int | None = None

    def __init__(self, owner: Foreign = None, remember: bool = False) -> None:
        super().__init__(naming=True, owner=owner)
        self._remember = remember  # which takes memory with every type
        self._made: dict[Node, CType] = {}
        self._flat: dict[Node, list[tuple[str, Member]]] = {}

    def _fields(self, ctype: Foreign) -> Foreign:
        return self._flat.get(ctype) or ctype.fields

    def _build(self, ctype: Foreign) -> Struct:
        if any([not name for name, _ in ctype.fields or ()]):
            self._flat[ctype] = _flat(ctype.fields)
            try:
                return super()._build(ctype)
            except SignatureError:
                del self._flat[ctype]  # as structs in the struct, then
        return super()._build(ctype)

    def type(self, ctype: Node, holder: Foreign = None) -> CType:
        if isinstance(ctype, Number):
            return ctype.scalar
        ctype = ctype.main or ctype
        if holder is None and ctype in self._made:
            return self._made[ctype]
        if isinstance(ctype, Unusable):
            raise SignatureError(ctype.reason)
        if isinstance(ctype, Record) and ctype.reason:
            raise SignatureError(f"{name_of(ctype)} cannot be passed by value: {ctype.reason}")
        made = super().type(ctype, holder)
        if holder is None and self._remember:
            self._made[ctype] = made
        return made

    def function(self, ctype: Foreign, holder: Foreign = None) -> Foreign:
        if ctype.reason:
            raise SignatureError(ctype.reason)
        return super().function(ctype, holder)

    def _pointer(self, item: Foreign, holder: Foreign) -> CType:
        found = super()._pointer(item.main or item, holder)
        if item.main is None or not isinstance(found, Pointer):
            return found
        return Pointer(aligned(found.pointee, item.alignment), found.name, found.owner)

    def signature(self, function: FunctionOf, written: str, name: str = "") -> Signature:
        """The signature of functions that are declared so."""
        return from_row(self.row(function, written, name))

    def row(self, function: FunctionOf, written: str, name: str = "") -> Row:
        """The same as plain data."""
        if function.reason:
            raise SignatureError(function.reason)
        self.at = None
        self.check_by_value(function, name)
        result = self.type(function.result)
        args = []
        for index, arg in enumerate(function.args):
            self.at = function.places[index] if function.places else None
            args.append(self._argument(arg))
        self.at = None
        made = FunctionPointer(result, args, function.ellipsis)
        text = texts(function.args, function.readonly, function.result)
        names, readonly = tuple(function.names), tuple(function.readonly)
        lengths = tuple(function.lengths)
        return made.named[2:-1], names, readonly, text, lengths, written

    def check_by_value(self, node: Node, name: str) -> None:
        """Refuse functions with too much by value, and pointers to such; `name` is called so."""
        if not node.is_large:
            return
        while isinstance(node, (PointerTo, ArrayOf)):
            node = node.item
        function = node.function if isinstance(node, Raw) else node
        assert isinstance(function, FunctionOf)
        total = 0
        for index, part in enumerate((function.result, *function.args)):
            total += part.scalars
            label = function.names[index - 1] if index else None
            if index and function.places:
                self.at = function.places[index - 1]
            if total > MAX_SCALARS:
                who = f"parameter {label!r}" if label else f"parameter {index}"
                raise TooLarge(
                    f"{who if index else 'the result'}{f' of {name!r}' if name else ''} has too "
                    f"many scalars by value: a function takes and returns at most {MAX_SCALARS}",
                    hint=WRAP_IT,
                )
            self.check_by_value(part, label or "")

    def _argument(self, node: Node) -> CType:
        if isinstance(node, Record) and node.transparent and node.fields:
            node = node.fields[0][1].type
        return self.type(node)

    def _variadic(self, ctype: Foreign) -> bool:
        return bool(ctype.ellipsis)

    def _layout(self, ctype: Foreign) -> tuple[int, int]:
        return ctype.size, ctype.alignment


def _flat(fields: Sequence[tuple[str, Member]], start: int = 0) -> list[tuple[str, Member]]:
    """The members of a struct, those of structs without a name in their place."""
    found = []
    for name, member in fields:
        node = member.type
        if not name and node.kind == "struct" and member.bitsize < 0 and node.fields:
            found += _flat(node.fields, start + member.offset)
        else:
            found.append((name, member._replace(offset=start + member.offset)))
    return found


#: What C calls its own types, by the words of `clexer.basic_type`.
BASICS: dict[str, Node] = {
    name: Number(SCALARS[code], cname=name) for name, code in CODES.items()
} | {"void": Node()}
