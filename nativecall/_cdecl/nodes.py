"""Nodes: the C types that the parser builds from declarations, laid out by gcc's rules.

Nodes have the attributes of cffi's types (`kind`, `item`, `args`, `fields`, …). They also store the
requested alignment, and the reason why values of a type cannot be passed. `Converter` converts
nodes to `CType` objects; cffi types are first converted to nodes (cffitype.py).
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING, SignatureError, refuse_reload
from .._types.ctype import (
    CHAR,
    MAX_DEPTH,
    MAX_TEXT,
    PY_OBJECT,
    SCALARS,
    VOID,
    VOIDPTR,
    WORD,
    WRAP_IT,
    CType,
    Scalar,
)
from .._types.derived import (
    Array,
    Field,
    FunctionPointer,
    Handle,
    Pointer,
    Struct,
    aligned,
    lay_out,
    pointer,
)
from .._types.grammar import from_row
from .._types.signature import BYTES, Signature
from .lexer import CODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self, TypeVar

    from .._ext import FFIType, Foreign
    from .._types.derived import Owner
    from .._types.grammar import Row

    Made = TypeVar("Made")

refuse_reload(globals(), "Converter")

# The struct that stands in for complex long double, which cffi lacks.
STAND_IN = "struct __nc_Zg"
WIDE = ("wchar_t", "char16_t", "char32_t")
ANONYMOUS = "__nc_unnamed_"  # prefix of generated tags of unnamed structs
# Maximum number of scalars that a function may pass by value. When cffi creates the function's
# type, it describes every scalar of the arguments and the result, also in arrays and structs.
MAX_SCALARS = 16384
_SHOWN = 4  # field names that a message shows at each end of a long path
_MAX_SPELLED = 4 * MAX_TEXT  # maximum number of characters of a type in C


def copied(one: Made) -> Made:
    """Return a shallow copy. The module `copy` would take as long to import as this module."""
    made = object.__new__(type(one))
    made.__dict__.update(one.__dict__)
    return made


class Node:
    """A type. `size` is None if the type has no size, or if the size is unknown.

    Typedefs can build on each other, so a few lines can declare a type of any depth and length.
    Both are therefore limited.
    """

    kind = "void"
    size: int | None = None
    alignment = 1
    const = False  # whether it is a pointer to `const`
    cname = "void"
    is_kept = False  # whether it is cached or in use elsewhere; a later body must not change it
    depth: int = 0
    length_in_c: int = 8  # approximate number of characters in C, with typedefs expanded
    scalars = 1  # scalars in a value, capped at MAX_SCALARS + 1
    typedef = ""  # name of a type without a tag, or of a variant with a requested alignment
    main: Node | None = None  # for such a variant: the type without the requested alignment
    ffi: Foreign = None  # the complete cffi type
    reason: str = ""  # why no value can be passed, or why the layout is unknown

    def spell(self, declarator: str) -> str:
        """Return the C declaration of `declarator`, with the names of structs and typedefs."""
        return f"{self.typedef or self.cname} {declarator}".rstrip()

    def realigned(self, alignment: int, typedef: str = "") -> Self:
        """Return a variant with a requested alignment; GCC and Clang pass it like the original."""
        made = copied(self)
        made.main, made.alignment, made.typedef = self.main or self, alignment, typedef
        made.__dict__.pop("_pointers", None)
        if typedef:
            made.__dict__["spell"] = lambda declarator: f"{typedef} {declarator}".rstrip()
        return made

    def pointer(self, const: bool = False) -> Node:
        """Return a pointer to the type, or to the `const` type."""
        known: dict[bool, Node] = self.__dict__.setdefault("_pointers", {})
        return known.get(const) or known.setdefault(const, PointerTo(self, const))

    def _bound(self, *parts: Node) -> None:
        """Compute depth and length from the parts of a type, and check their limits."""
        self.depth = 1 + max([part.depth for part in parts])
        self.length_in_c = sum([part.length_in_c + 2 for part in parts])
        if self.depth > MAX_DEPTH:
            raise SignatureError(f"nested more than {MAX_DEPTH} levels deep, with typedefs")
        if self.length_in_c > _MAX_SPELLED:
            reason = f"a type takes more than {_MAX_SPELLED} characters with its typedefs written"
            raise SignatureError(f"{reason} out")


class Number(Node):
    """A scalar. A nonzero `alignment` replaces the scalar's usual alignment."""

    kind = "primitive"
    is_byte = False  # a character type under a typedef without 'char' in its name

    def __init__(self, scalar: Scalar, alignment: int = 0, cname: str = "") -> None:
        self.scalar = scalar
        self.size = scalar.size
        self.alignment = alignment or scalar.alignment
        self.cname = cname or scalar.c_name


class Enumeration(Number):
    """An enum and its integer type. `values` is None if the enumerators are unknown."""

    kind = "enum"

    def __init__(
        self, tag: str, scalar: Scalar, values: Sequence[tuple[str, int]] | None = None
    ) -> None:
        super().__init__(scalar, cname=tag)
        self.values = values


#: Prefix of the name of a type with a known size and alignment only; both numbers follow.
UNUSABLE = "__nc_unusable_"
VA_LIST = "__builtin_va_list"


class Unusable(Node):
    """A type whose values cannot be passed; `reason` states why."""

    kind = "unusable"

    def __init__(
        self, reason: str, size: int | None = None, alignment: int = 1, cname: str = ""
    ) -> None:
        self.reason = reason
        self.size = size
        self.alignment = alignment
        self.cname = cname or f"{UNUSABLE}{size or 0}_{alignment}"


class PointerTo(Node):
    kind = "pointer"
    size = alignment = WORD

    def __init__(self, item: Node, const: bool) -> None:
        self._bound(item)
        # A function pointer counts as one level, as in signatures.
        self.depth -= item.kind == "function"
        self.item = item
        self.const = const

    def spell(self, declarator: str) -> str:
        star = f"*{declarator}"
        return self.item.spell(f"({star})" if self.item.kind in ("array", "function") else star)


class ArrayOf(Node):
    kind = "array"

    def __init__(self, item: Node, length: int | None, written: str = "") -> None:
        if item.kind == "function":
            raise SignatureError("an array cannot have functions as elements")
        if length is not None and length < 0:
            raise SignatureError(f"an array cannot have {length} elements")
        self._bound(item)
        self.item = item
        self.length = length
        self.written = written  # a parameter's length as C text, if it is not constant
        self.alignment = item.alignment
        if length is not None and item.size is not None:
            self.size = length * item.size
            self.scalars = min(length * item.scalars, MAX_SCALARS + 1)

    def spell(self, declarator: str) -> str:
        return self.item.spell(f"{declarator}[{'' if self.length is None else self.length}]")


class FunctionOf(Node):
    kind = "function"

    def __init__(
        self,
        result: Node,
        args: Sequence[Node],
        ellipsis: bool,
        names: tuple[str | None, ...] = (),
        lengths: tuple[int | str | None, ...] = (),
        reason: str = "",
        places: Sequence[int] = (),
    ) -> None:
        if result.kind == "function":
            raise SignatureError("a function cannot return a function")
        self._bound(result, *args)
        self.result = result
        self.args = args
        self.ellipsis = ellipsis
        self.names = names
        self.lengths = lengths  # as in `Signature.lengths`
        self.reason = reason  # why the function cannot be called
        self.places = places  # the token index of each parameter, for errors

    @property
    def is_large(self) -> bool:
        """Return whether the function passes more than MAX_SCALARS scalars by value."""
        return sum([part.scalars for part in (self.result, *self.args)]) > MAX_SCALARS

    def pointer(self, const: bool = False) -> Node:
        return super().pointer()

    def spell(self, declarator: str) -> str:
        args = [arg.spell("") for arg in self.args] + ["..."] * self.ellipsis
        nothing = "" if self.reason else "void"
        return self.result.spell(f"{declarator}({', '.join(args) or nothing})")


def function_of(node: Node) -> FunctionOf | None:
    """Return a function type, or the one that a pointer points to; None for other types."""
    node = node.item if isinstance(node, PointerTo) else node
    return node if isinstance(node, FunctionOf) else None


def agree(one: Foreign, other: Foreign) -> bool:
    """Return whether C accepts two declarations of one name with these types."""
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
    if one.kind == "function":
        if one.reason or other.reason:  # the arguments of at least one function are unknown
            return agree(one.result, other.result)
        alike = (len(one.args), one.ellipsis) == (len(other.args), other.ellipsis)
        pairs = zip((one.result, *one.args), (other.result, *other.args), strict=False)
        return alike and all([agree(*pair) for pair in pairs])
    return bool(one.cname == other.cname)


class Record(Node):
    """A struct or union; `fields` is None until its body has been read.

    If the type comes from other declarations, the first use of `fields` calls `read` to get them.
    """

    def __init__(
        self, kind: str, cname: str, read: Callable[[], list[Foreign] | None] | None = None
    ) -> None:
        self.kind = kind
        self.cname = cname
        #: The members, or a function that reads them.
        self._fields: list[Foreign] | Callable[[], list[Foreign] | None] | None = read
        self.transparent = False  # a union that is passed as its first member
        self.made: object = None  # cffi's type, complete or not
        self.is_whole = False

    @property
    def fields(self) -> list[Foreign] | None:
        """The members, each a Field."""
        found = self._fields
        if callable(found):
            found = self._fields = found()
        return found

    @fields.setter
    def fields(self, value: list[Foreign] | None) -> None:
        self._fields = value

    def members(self) -> Iterator[tuple[str, Node]]:
        """Yield the names and types of the members, including those of unnamed structs."""
        for member in self.fields or ():
            if member.name:
                yield member.name, member.type
            elif isinstance(member.type, Record):
                yield from member.type.members()

    def lay_out(
        self,
        members: Sequence[tuple[str | None, Node, int | None, int, bool]],
        aligned: int,
        pack: int,
    ) -> None:
        """Place `members` as gcc does.

        Each member is (name, type, width in bits, requested alignment, whether it is packed).
        `pack` is the maximum alignment that ``#pragma pack`` sets; 0 without such a pragma.
        """
        parts = []
        scalars = 0
        for name, node, width, wanted, packed in members:
            scalars = min(scalars + node.scalars, MAX_SCALARS + 1)
            size = node.size
            if size is None and isinstance(node, ArrayOf) and node.item.size is not None:
                size = 0
            if size is None:
                reason = "it contains itself" if node is self else node.reason
                self.reason = f"its member {name!r} has no known size"
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
            Field(name, node, at, width, shift)
            for (name, node, width, *_), (at, shift) in zip(members, places, strict=True)
        ]


# -- text ------------------------------------------------------------------------------------------
#
# This section determines which pointers point to text (`const` characters), and which arguments of
# a callback point to arrays that the callback must not write to.

#: Character types. A pointer to `const` characters of these types points to text.
CHARACTERS = ("char", "wchar_t", "char16_t", "char32_t")
#: In `texts`, marks a pointer to a const array, in place of a character type.
CONST = "const"


def characters(node: Foreign) -> str:
    """Return the character type that a pointer points to; ``""`` if it is not text."""
    if not node.const or node.item.kind != "primitive":
        return ""
    item = node.item
    is_text = item.cname in CHARACTERS or (item.cname in BYTES and not item.is_byte)
    return str(item.cname) if is_text else ""


def called(node: Node, name: str) -> Node:
    """Return the type for a typedef; a byte type is not text if the name lacks "char"."""
    if isinstance(node, Number) and node.cname in BYTES and "char" not in name.lower():
        node = node.realigned(node.alignment)
        node.is_byte = True
    return node


def texts(function: FunctionOf) -> tuple[str, ...]:
    """Return the character types that the arguments and, last, the result point to.

    The tuple is empty if there is no text. For an argument that is a function pointer, the item is
    a list in parentheses, such as ``"(char,,)"``, for that function's arguments and result. In this
    list, ``const`` marks a pointer to a const array. The item for a pointer to pointers to text is
    ``"*char"``.
    """
    found = [*map(_text, function.args), characters(function.result)]
    return tuple(found) if any(found) else ()


def _text(arg: Foreign) -> str:
    """Return the item of `texts` for an argument."""
    if arg.kind != "pointer":
        return ""
    item = arg.item
    if item.kind == "pointer":
        found = characters(item)
        return f"*{found}" if found else ""
    if item.kind == "function":
        said = [
            CONST if one.const and one.item.kind == "array" else characters(one)
            for one in item.args
        ]
        said.append(characters(item.result))
        return f"({','.join(said)})" if any(said) else ""
    return characters(arg)


# -- C types ---------------------------------------------------------------------------------------


class Converter:
    """Converts nodes to `CType` objects.

    A pointer becomes `void *` if its target cannot be converted, such as an incomplete struct. In a
    struct, a pointer that leads back to this struct also becomes `void *`. So a struct is always
    converted alike, whichever type the conversion began with.

    With `naming`, pointers to structs and unions record the C names of their targets, except inside
    structs. `owner` provides the cffi types of the targets.
    """

    #: The token of the parameter being converted, for error messages.
    at: int | None = None

    def __init__(
        self, owner: Owner | None = None, remember: bool = False, naming: bool = True
    ) -> None:
        self._naming = naming
        self._owner = owner
        self._remember = remember  # whether to cache the C type of each node
        self._made: dict[Node, CType] = {}
        self._structs: dict[Node, Struct | SignatureError] = {}
        # For each struct with an unusable field: the path of names to the field, and the reason.
        self._faults: dict[Node, tuple[list[str], str]] = {}
        self._reached: dict[Node, set[Node]] = {}

    def type(self, node: Node, holder: Node | None = None) -> CType:
        """Return the C type of a node; `holder` is the struct that contains the node, if any."""
        if isinstance(node, Number):
            return node.scalar
        made = self._made.get(node) if holder is None else None
        if made is None:
            made = self._type(node.main or node, holder)
            if holder is None and self._remember:
                self._made[node] = made
        return made

    def _type(self, node: Foreign, holder: Node | None) -> CType:
        match node.kind:
            case "void":
                return VOID
            case "pointer":
                return self._pointer(node.item, holder)
            case "array":
                if node.length is None:
                    raise SignatureError("an array of unknown length has no size")
                is_text = node.item.cname == "char"
                item = CHAR if is_text else self.type(node.item, holder)
                return Array(item, (node.length,))
            case "struct" | "union":
                return self._struct(node)
            case "unusable":
                raise SignatureError(node.reason)
        raise SignatureError(f"{name_of(node)} cannot be passed by value", hint=WRAP_IT)

    def function(self, node: FunctionOf, holder: Node | None = None) -> FunctionPointer:
        """Return the C type of pointers to a function; reject types that cannot be passed.

        A `va_list` argument becomes an opaque pointer. In C, a `va_list` is an array on x86-64, a
        struct passed by reference on 64-bit ARM, and a pointer on Windows and macOS.
        """
        if node.reason:
            raise SignatureError(node.reason)
        args = [
            VOIDPTR if (arg.main or arg).cname == VA_LIST else self.type(arg, holder)
            for arg in node.args
        ]
        return FunctionPointer(self.type(node.result, holder), args, node.ellipsis)

    def _pointer(self, item: Node, holder: Node | None) -> CType:
        plain = item.main or item
        if plain.cname in ("struct _object", "PyObject") and plain.kind == "struct":
            return PY_OBJECT
        if isinstance(plain, FunctionOf):
            passed = [one for one in (plain.result, *plain.args) if isinstance(one, Record)]
            if holder is not None and any([holder in self._reaches(one) for one in passed]):
                return VOIDPTR
            try:
                return self.function(plain, holder)
            except SignatureError:
                return VOIDPTR
        if holder is not None and holder in self._reaches(plain):
            return VOIDPTR
        name = c_name_of(plain) if self._naming and holder is None else ""
        if self._naming and plain.cname in WIDE:
            name = plain.cname  # otherwise the cffi pointer would point to integers
        try:
            found = self.type(plain, holder)
        except SignatureError:
            return Handle(name, self._owner, plain.size is None) if name else VOIDPTR
        if item.alignment != found.alignment:
            found = aligned(found, item.alignment)
        return Pointer(found, name, self._owner) if name else pointer(found)

    def _struct(self, record: Record) -> CType:
        if record not in self._structs:
            # Bottom-up, so that a long chain of structs does not recurse deeply.
            for node in postorder(record, parts):
                if isinstance(node, Record) and node not in self._structs:
                    self._structs[node] = self._attempt(node)
        found = self._structs[record]
        if isinstance(found, SignatureError):
            raise SignatureError(found.reason, hint=found.hint)
        return found

    def _attempt(self, record: Record) -> Struct | SignatureError:
        if record.reason:
            why = f"{name_of(record)} cannot be passed by value: {record.reason}"
            return SignatureError(why)
        if record.fields is None:
            why = f"{name_of(record)} is not declared in full and cannot be passed by value"
            return SignatureError(why, hint=f"declare its members, or {WRAP_IT}")
        flat = _flat(record.fields)
        try:
            return self._build(record, flat)
        except SignatureError as error:
            if len(flat) == len(record.fields):
                return error
        try:  # without replacing unnamed structs by their members
            return self._build(record, record.fields)
        except SignatureError as error:
            return error

    def _build(self, record: Record, members: Sequence[Foreign]) -> Struct:
        fields: list[tuple[str | None, CType, int | None]] = []
        for member in members:
            if member.width and not member.name:
                fields += _padding(member.first_bit, member.width)
                continue
            try:
                kind = self._member(member.type, record)
                fields.append((member.name or None, kind, member.width))
            except SignatureError as error:
                path, why = self._faults.get(element(member.type), ([], error.reason))
                path = [member.name or "", *path]
                if len(path) > 2 * _SHOWN:
                    path[_SHOWN : -_SHOWN + 1] = ["…"]
                self._faults[record] = path, why
                reason = f"{name_of(record)} cannot be passed by value: its field "
                reason += f"{'.'.join(path)!r}: {why}"
                raise SignatureError(reason, hint=WRAP_IT) from None
        theirs = [member.first_bit for member in members if not member.is_padding]
        for packed in (False, True):  # prefer the unpacked form
            struct = Struct(fields, packed, c_name_of(record), record.kind == "union", self._owner)
            mine = [one.first_bit for one in struct.fields if not one.is_padding]
            layout = struct.size, struct.alignment
            if layout == (record.size, record.alignment) and theirs == mine:
                return struct
        raise SignatureError(f"{name_of(record)} has a layout that no signature describes")

    def _member(self, node: Node, holder: Node) -> CType:
        # A member's struct may point back to `holder`. In such a cycle, the struct may not be
        # converted yet.
        inner: Foreign = element(node)
        inner = inner.main or inner
        if isinstance(inner, Record) and inner not in self._structs:
            self._structs[inner] = self._attempt(inner)
        return self.type(node, holder)

    def _reaches(self, node: Node) -> set[Node]:
        """Return all types that a type contains or points to, including itself."""
        return self._reached.get(node) or self._reached.setdefault(node, {*postorder(node, parts)})

    def signature(self, function: FunctionOf, written: str) -> Signature:
        """Return the signature of a function; `written` is its declaration as text."""
        return from_row(self.row(function, written))

    def row(self, function: FunctionOf, written: str) -> Row:
        """Return the signature of a function as plain data."""
        if function.reason:
            raise SignatureError(function.reason)
        self.at = None
        result = self.type(function.result)
        args = []
        for index, arg in enumerate(function.args):
            self.at = function.places[index] if function.places else None
            args.append(self._argument(arg))
        self.at = None
        made = FunctionPointer(result, args, function.ellipsis)
        readonly = tuple([arg.const for arg in function.args])
        said = function.names, readonly, texts(function), function.lengths
        return made.named[2:-1], *said, written

    def _argument(self, node: Node) -> CType:
        if isinstance(node, Record) and node.transparent and node.fields:
            node = node.fields[0].type
        return self.type(node)


def postorder(node: Foreign, parts: Callable[[Foreign], Iterable[Foreign]]) -> Iterator[Foreign]:
    """Yield a type and all types reachable through its parts, dependencies first."""
    entered = {node}
    stack = [(node, iter(parts(node)))]
    while stack:
        one, left = stack[-1]
        for part in left:
            if part not in entered:
                entered.add(part)
                stack.append((part, iter(parts(part))))
                break
        else:
            stack.pop()
            yield one


def parts(node: Foreign) -> Sequence[Node]:
    """Return the direct parts of a type."""
    if node.kind in ("pointer", "array"):
        found = [node.item]
    elif node.kind == "function":
        found = [node.result, *node.args]
    else:
        found = [member.type for member in getattr(node, "fields", None) or ()]
    return [part.main or part for part in found]


def _padding(first: int, width: int) -> Iterator[tuple[None, CType, int]]:
    """Yield `unsigned char` bit-fields, which need no alignment, in place of an unnamed one."""
    while width:
        bits = min(width, 8 - first % 8)
        yield None, SCALARS["B"], bits
        first, width = first + bits, width - bits


def element(ctype: FFIType) -> FFIType:
    """Return the innermost element type of an array; other types unchanged."""
    while ctype.kind == "array":
        ctype = ctype.item
    return ctype


def c_name_of(ctype: FFIType) -> str:
    """Return the C name of a cffi type or node that is a struct or union; "" for other types."""
    if ctype.kind not in ("struct", "union"):
        return ""
    name: str = getattr(ctype, "typedef", "") or ctype.cname
    tag = name.removeprefix(f"{ctype.kind} ")
    if not tag.isidentifier() or tag.startswith(ANONYMOUS) or name == STAND_IN:
        return ""
    if tag.removeprefix("nc_").isdigit():
        return ""  # a struct generated for a signature
    return "struct _IO_FILE" if name == "FILE" else name  # cffi names this struct differently


def name_of(ctype: FFIType) -> str:
    """Return the name of a cffi struct or union for messages."""
    tag = ctype.cname.removeprefix(ctype.kind + " ")
    if tag.startswith(ANONYMOUS):
        tag = tag.removeprefix(ANONYMOUS).partition("_")[2]
    return f"{ctype.kind} {tag!r}" if tag.isidentifier() else f"an unnamed {ctype.kind}"


def _flat(fields: Sequence[Foreign], start: int = 0) -> list[Foreign]:
    """Return the members of a struct, with unnamed structs replaced by their members."""
    found: list[Foreign] = []
    for member in fields:
        node = member.type
        if not member.name and node.kind == "struct" and member.width is None and node.fields:
            found += _flat(node.fields, start + member.offset)
        else:
            found.append(member._replace(offset=start + member.offset))
    return found


#: Nodes of C's own types; the keys are their names in C.
BASICS: dict[str, Node] = {
    name: Number(SCALARS[code], cname=name) for name, code in CODES.items()
} | {"void": Node()}
