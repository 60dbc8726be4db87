"""The types of headers while they are read: what C says of them, and how gcc lays them out.

Nodes have the attributes of cffi's types (`kind`, `item`, `args`, `fields`, …), so that one
`Converter` makes ours of both, and what cffi does not tell: alignments that were asked for,
bit-fields, and the reason where no value of a type can be passed.
"""

from __future__ import annotations

from collections import namedtuple

from .._errors import SignatureError
from .cffitype import Converter, default_abi, name_of
from .characters import texts
from .csource import CODES
from .ctype import SCALARS, WORD, CType, Scalar
from .derived import FunctionPointer
from .signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._types import Foreign


#: A member: its name ("" for one without), its type, byte offset, width in bits (-1 for none), and
#: the bit of the byte where it begins.
Member = namedtuple("Member", ["name", "type", "offset", "bitsize", "bitshift"])


class Node:
    """A type. `size` is None for what has none."""

    kind = "void"
    size: int | None = None
    alignment = 1
    cname = "void"
    is_kept = False  # whether others use it, so that no body may change it

    def __init__(self) -> None:
        self._pointers: dict[bool, Node] = {}

    def spell(self, declarator: str) -> str:
        """C that declares `declarator` with the type, which knows structs and typedefs by name."""
        return f"{self.cname} {declarator}".rstrip()

    def pointer(self, const: bool = False) -> Node:
        """A pointer to the type, to a `const` one perhaps."""
        found = self._pointers.get(const)
        if found is None:
            found = self._pointers[const] = PointerTo(self, const)
        return found


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
        self.typedef = ""  # what names it that has no tag
        self.made: object = None  # cffi's type (ffitypes.py)

    def spell(self, declarator: str) -> str:
        return f"{self.typedef or self.cname} {declarator}".rstrip()


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
        self.item = item
        self.const = const

    def spell(self, declarator: str) -> str:
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
        self.item = item
        self.length = length
        self.written = written  # the length of a parameter that is no constant
        self.alignment = item.alignment
        if length is not None and item.size is not None:
            self.size = length * item.size

    def spell(self, declarator: str) -> str:
        return self.item.spell(f"{declarator}[{'' if self.length is None else self.length}]")


class FunctionOf(Node):
    """A pointer to a function, as cffi has it; `Raw` is the function."""

    kind = "function"
    size = alignment = WORD

    def __init__(
        self,
        result: Node,
        args: Sequence[Node],
        ellipsis: bool,
        names: Sequence[str | None],
        readonly: Sequence[bool],
        lengths: Sequence[int | str | None] = (),
        reason: str = "",
    ) -> None:
        super().__init__()
        self.result = result
        self.args = args
        self.ellipsis = ellipsis
        self.names = names
        self.readonly = readonly
        self.lengths = lengths  # as a signature has them
        self.reason = reason  # why it cannot be called
        self.abi = default_abi()

    def spell(self, declarator: str) -> str:
        return self.spell_function(f"(*{declarator})")

    def spell_function(self, declarator: str) -> str:
        args = [arg.spell("") for arg in self.args] + ["..."] * self.ellipsis
        return self.result.spell(f"{declarator}({', '.join(args) or 'void'})")


class Raw(Node):
    kind = "raw"

    def __init__(self, function: FunctionOf) -> None:
        super().__init__()
        self.function = function

    def pointer(self, const: bool = False) -> Node:
        return self.function

    def spell(self, declarator: str) -> str:
        return self.function.spell_function(declarator)


class Record(Node):
    """A struct or union; its `fields` are None until its body has been read."""

    def __init__(self, kind: str, tag: str) -> None:
        super().__init__()
        self.kind = kind
        self.cname = f"{kind} {tag}"
        self.fields: list[tuple[str, Member]] | None = None
        self.reason = ""  # why its layout is not known
        self.transparent = False  # a union that is passed as its first member
        self.typedef = ""  # what names it that has no tag
        self.made: object = None  # cffi's type (ffitypes.py), and whether it has its members
        self.is_whole = False

    def spell(self, declarator: str) -> str:
        return f"{self.typedef or self.cname} {declarator}".rstrip()

    def lay_out(
        self,
        members: Sequence[tuple[str | None, Node, int | None, int, bool]],
        aligned: int,
        pack: int,
    ) -> None:
        """Place `members`, each (name, type, width in bits, alignment that is asked for, whether
        it is packed), as gcc does; `pack` is the most that ``#pragma pack`` allows, 0 without one.
        """
        at = end = 0  # in bits
        alignment = 1
        fields = []
        for name, node, width, wanted, packed in members:
            size, own = node.size, node.alignment
            if size is None and isinstance(node, ArrayOf) and node.item.size is not None:
                size = 0
            if size is None:
                reason = node.reason if isinstance(node, (Record, Unusable)) else ""
                self.reason = f"its member {name!r} has no size that is known"
                self.reason += f": {reason}" if reason else ""
                size = 0
            if self.kind == "union":
                at = 0
            if width is None:
                place = max(wanted or 1, 1 if packed else own)
                if pack:
                    place = min(place, pack)
                alignment = max(alignment, place)
                at = -(-at // (8 * place)) * 8 * place
                fields.append((name or "", Member(name or "", node, at // 8, -1, 0)))
                at += 8 * size
            else:
                if width > 8 * size or width < 0:
                    raise SignatureError(f"the bit-field {name!r} has {width} bits")
                unit = 8 * own
                if width == 0:
                    end = at = -(-at // unit) * unit
                    continue
                place = min(wanted, pack) if pack else wanted
                if place:
                    at = -(-at // (8 * place)) * 8 * place
                # It spans no more units of its type than the type itself.
                if not (packed or pack) and -(-(at % unit + width) // unit) > 8 * size // unit:
                    at = -(-at // unit) * unit
                if name is not None:
                    limit = pack or (1 if packed else own)
                    alignment = max(alignment, min(own, limit), place)
                    fields.append((name, Member(name, node, at // 8, width, at % 8)))
                at += width
            end = max(end, at)
        self.alignment = max(alignment, aligned)
        if not self.reason:
            self.size = -(-end // (8 * self.alignment)) * self.alignment
        self.fields = fields


class NodeConverter(Converter):
    """`Converter` for nodes."""

    def type(self, ctype: Node, holder: Foreign = None) -> CType:
        if isinstance(ctype, Number):
            return ctype.scalar
        if isinstance(ctype, Unusable):
            raise SignatureError(ctype.reason)
        if isinstance(ctype, Record) and ctype.reason:
            raise SignatureError(f"{name_of(ctype)} cannot be passed by value: {ctype.reason}")
        return super().type(ctype, holder)

    def function(self, ctype: Foreign, holder: Foreign = None) -> Foreign:
        if ctype.reason:
            raise SignatureError(ctype.reason)
        return super().function(ctype, holder)

    def signature(self, function: FunctionOf, written: str) -> Signature:
        """The signature of functions that are declared so."""
        if function.reason:
            raise SignatureError(function.reason)
        made = FunctionPointer(
            self.type(function.result),
            [self._argument(arg) for arg in function.args],
            function.ellipsis,
        )
        text = texts(function.args, function.readonly, function.result)
        names, readonly = tuple(function.names), tuple(function.readonly)
        return Signature.of(made, names, readonly, text, tuple(function.lengths), written)

    def _argument(self, node: Node) -> CType:
        if isinstance(node, Record) and node.transparent and node.fields:
            node = node.fields[0][1].type
        return self.type(node)

    def _variadic(self, ctype: Foreign) -> bool:
        return bool(ctype.ellipsis)

    def _layout(self, ctype: Foreign) -> tuple[int, int]:
        return ctype.size, ctype.alignment


#: What C calls its own types, by the words of `csource.basic_type`.
BASICS: dict[str, Node] = {
    name: Number(SCALARS[code], cname=name) for name, code in CODES.items()
} | {"void": Node()}
BASICS |= {f"__nc_{code}": Number(SCALARS[code]) for code in ("Zf", "Zd", "Zg")}
