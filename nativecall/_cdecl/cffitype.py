"""Convert C types to cffi types and back.

    from_ffi(cffi type) -> CType or Signature
    to_ffi(CType or Signature) -> cffi type
    ffi_type(node) -> cffi type

Both cffi types and declarations are first converted to nodes. So only one conversion, from nodes,
creates C types.

Types are cached in bounded caches and rebuilt after eviction. If a struct is built twice, cffi has
two types for it. nativecall accepts either type wherever the other is expected.
"""

from __future__ import annotations

from _thread import RLock
from itertools import count

import _cffi_backend

from .. import _ext, _lib
from .._errors import TYPE_CHECKING, SignatureError
from .._fifo import Cache
from .._types.ctype import SCALARS, VOID, VOIDPTR, WRAP_IT, CType, Scalar, integer
from .._types.derived import Array, Field, FunctionPointer, Handle, Pointer, Struct
from .._types.signature import Signature
from .lexer import CODES, NAMES
from .nodes import (
    MAX_SCALARS,
    STAND_IN,
    WIDE,
    ArrayOf,
    Converter,
    Enumeration,
    FunctionOf,
    Node,
    Number,
    PointerTo,
    Record,
    c_name_of,
    function_of,
    parts,
    postorder,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    # FFIType is a cffi type, FFIData a cffi object.
    from .._ext import FFIData, FFIType, Foreign
    from .._types.derived import Owner

BITS = "struct __nc_bits_"  # prefix of structs that stand in for a bit-field


# The errors that cffi raises for an unsupported type: an invalid part, a layout or function that
# libffi does not support, or a size that does not fit. The declaration causes all of them.
_REFUSALS = (TypeError, NotImplementedError, ValueError)


def is_whole(ctype: FFIType) -> bool:
    """Return whether a type refers only to complete types, not to an opaque struct."""
    found = postorder(node_of(ctype, {}), parts)
    return all([not isinstance(one, Record) or one.fields is not None for one in found])


def is_same_name(one: str, other: str, owner: Owner | None = None) -> bool:
    """Return whether two names denote the same struct or union.

    Types from headers are named by their tag. A cffi FFI may use the name of a typedef instead;
    `owner` may know the tag for that name.
    """
    if one == other or one.rpartition(" ")[2] == other.rpartition(" ")[2]:
        return True
    return owner is not None and owner.tag(one) == other


def disagreement(ctype: CType, foreign: FFIType) -> str | None:
    """Compare the struct names in a C pointer type and in a cffi pointer or array type.

    Return the expected name if the cffi type points to something else, "" if the names agree, and
    None if there is nothing to compare.
    """
    while isinstance(ctype, (Pointer, Handle)) and foreign.kind in ("pointer", "array"):
        item = foreign.item
        if ctype.name:
            if item.kind in ("struct", "union"):
                given = c_name_of(item)
                if not given:
                    return None
                return "" if is_same_name(given, ctype.name, ctype.owner) else ctype.name
            return ctype.name if isinstance(ctype, Handle) and item.kind != "void" else None
        if not isinstance(ctype, Pointer):
            return None
        ctype, foreign = ctype.pointee, item
    return None


DEFAULT_ABI: int = _cffi_backend.FFI_DEFAULT_ABI

#: The names of C types that cffi spells differently.
_NAMES = {
    "unsigned": "unsigned int",
    "float _Complex": "_cffi_float_complex_t",
    "double _Complex": "_cffi_double_complex_t",
}
_IN_C = {other: name for name, other in _NAMES.items()}


def scalar_of(ctype: FFIType) -> Scalar:
    code = CODES.get(_IN_C.get(ctype.cname, ctype.cname))
    if code is not None:
        return SCALARS[code]
    # Casting -1 shows whether an enum, wchar_t or a typedef of <stdint.h> is signed.
    return integer(_cffi_backend.sizeof(ctype), int(_cffi_backend.cast(ctype, -1)) < 0)


def of_c(name: str) -> Scalar:
    """Return the platform's integer type for a C name, even if a header redefines the name."""
    return scalar_of(_cffi_backend.new_primitive_type(name))


def node_of(ctype: FFIType, known: dict[FFIType, Node]) -> Node:
    """Return the node of a cffi type; `known` caches the nodes of types already converted."""
    return known.get(ctype) or known.setdefault(ctype, _node_of(ctype, known))


def _node_of(ctype: FFIType, known: dict[FFIType, Node]) -> Node:
    match ctype.kind:
        case "primitive":
            return Number(scalar_of(ctype), cname=ctype.cname)
        case "enum":
            return Enumeration(ctype.cname, scalar_of(ctype))
        case "pointer":
            return PointerTo(node_of(ctype.item, known), False)
        case "array":
            return ArrayOf(node_of(ctype.item, known), ctype.length)
        case "function":
            args = [node_of(arg, known) for arg in ctype.args]
            usual = ctype.abi == DEFAULT_ABI
            reason = "" if usual else "the calling convention is not the platform's usual one"
            result = node_of(ctype.result, known)
            # cffi also sets `ellipsis` for functions that libffi cannot call, such as functions
            # with complex numbers.
            shown = ", ".join([arg.cname for arg in ctype.args])
            variadic = ctype.ellipsis and f"(*)({shown}, ...)" in ctype.cname
            return FunctionOf(result, args, variadic, reason=reason).pointer()
        case "struct" | "union":
            is_stand_in = ctype.cname == STAND_IN
            return Number(SCALARS["Zg"]) if is_stand_in else _told(ctype, known)
    return Node()


def _told(ctype: FFIType, known: dict[FFIType, Node]) -> Record:
    """Return the node of a cffi struct or union."""

    def members() -> list[Foreign] | None:
        return ctype.fields and [
            Field(name, node_of(one.type, known), one.offset, one.bitsize, one.bitshift)
            if one.bitsize >= 0
            else Field(name, node_of(one.type, known), one.offset)
            for name, one in ctype.fields
        ]

    made = Record(ctype.kind, ctype.cname, members)
    if ctype.fields is not None:
        made.size, made.alignment = _lib.ffi.sizeof(ctype), _lib.ffi.alignof(ctype)
    return made


def from_ffi(ctype: FFIType, owner: Owner | None = None) -> CType | Signature:
    """Return the C type of a cffi type; a `Signature` for a function pointer type.

    With an owner, pointers record the C names of the structs that they point to. Raise
    SignatureError if no C type fits, as for an incomplete or explicitly aligned struct.

    Examples
    --------
    >>> import cffi
    >>> from_ffi(cffi.FFI().typeof("double(*)(unsigned short, void *)")).text
    'd:HP'
    """
    convert = Converter(owner, naming=owner is not None)
    node = node_of(ctype, {})
    called = function_of(node)
    if called is None:
        return convert.type(node)
    function = convert.function(called)
    return Signature(function.result, function.args, function.variadic, written=ctype.cname)


#: Held while cffi types are created. Without the lock, two threads could create two types for one
#: struct.
naming = RLock()
_nodes: Cache[str, Node] = Cache(1024)  # of C types, by `CType.named`
_numbers = count()  # of structs


def to_ffi(ctype: CType | Signature) -> FFIType:
    """Return the cffi type of a C type; for a signature, the type of its function pointers.

    A struct or union that a library declares keeps the library's cffi type. Other structs get
    generated tags. Both keep their field names. A type that cffi cannot express has a stand-in of
    the same size: `uint16_t` for ``e``, a struct of two `long double` for ``Zg``, and `void *` for
    views and Python objects. Raise SignatureError if a function passes more than 16384 scalars by
    value. Each element of an array in a struct counts as one scalar.

    Examples
    --------
    >>> from nativecall._cdecl.spelling import parse
    >>> to_ffi(parse("i:&d"))
    <ctype 'int32_t(*)(double *)'>
    """
    return ffi_type(_node_for(ctype.function if isinstance(ctype, Signature) else ctype))


def _node_for(ctype: Foreign) -> Node:
    """Return the node for a C type.

    The library keeps the nodes of the types that it declares; other nodes are cached.
    """
    owner: Owner | None = getattr(ctype, "owner", None)
    declared: Node | None = None if owner is None else owner.node(ctype.name)
    if declared is not None:
        return declared if isinstance(ctype, Struct) else declared.pointer()
    return _nodes.get(ctype.named) or _nodes.keep(ctype.named, _made_for(ctype))


def _made_for(ctype: CType) -> Node:
    if isinstance(ctype, Scalar):
        if ctype.text == "Zg":
            return _node_for(Struct([("re", SCALARS["g"]), ("im", SCALARS["g"])], name=STAND_IN))
        return Number(ctype if ctype.native else integer(ctype.size, False))
    if isinstance(ctype, Array):
        made = _node_for(ctype.item)
        for length in reversed(ctype.shape):
            made = ArrayOf(made, length)
        return made
    if isinstance(ctype, FunctionPointer):
        result, args = _node_for(ctype.result), [*map(_node_for, ctype.args)]
        function = FunctionOf(result, args, ctype.variadic)
        if function.is_large:
            raise SignatureError(
                "a function passes too many scalars by value: cffi describes at most "
                f"{MAX_SCALARS}",
                hint=WRAP_IT,
            )
        return function.pointer()
    if isinstance(ctype, Struct):
        own = f"{ctype.kind} nc_{next(_numbers)}"
        record = Record(ctype.kind, STAND_IN if ctype.name == STAND_IN else own)
        record.fields = [
            Field(name, _node_for(one.type), one.offset, one.width, one.shift)
            for name, one in zip(ctype.field_names, ctype.fields, strict=True)
            if one.width != 0
        ]
        record.size, record.alignment = ctype.size, ctype.alignment
        record.scalars = min(sum([one.type.scalars for one in record.fields]), MAX_SCALARS + 1)
        return record
    if ctype.kind == "void":
        return Node()
    return PointerTo(_node_for(ctype.pointee if isinstance(ctype, Pointer) else VOID), False)


def primitive(name: str, scalar: Scalar) -> FFIType | None:
    """Return cffi's number type with a C name; None if cffi has no such type."""
    if name not in CODES and name not in WIDE:
        is_whole = scalar.kind == "int" and scalar.size <= 8
        sized = f"{'' if scalar.signed else 'u'}int{8 * scalar.size}_t"
        name = sized if is_whole else NAMES.get(scalar.text, "")
    if not name or name == "long double _Complex":
        return None
    return _cffi_backend.new_primitive_type(_NAMES.get(name, name))


def pointer_from(ctype: CType, address: int, *, owner: object = None) -> FFIData:
    """Return a cffi pointer of the pointer type `ctype` to `address`.

    The pointer keeps `owner` alive, but does not own the memory.
    """
    made = _lib.ffi.cast(to_ffi(ctype), address)
    return made if owner is None else _lib.ffi.gc(made, _ext.Destructor(owner))


# -- nodes ---------------------------------------------------------------------------------------
#
# By default, cffi computes layouts itself. It does not support requested alignment, unnamed
# members, or bit-fields that share bytes in a packed struct. So we pass it gcc's offset for every
# member (nodes.py). A type that cffi does not support (complex long double, 128-bit integers,
# functions that cannot be called) becomes bytes of the same size, or `void *`.
#
# Creating a type also creates the structs behind its pointers, so that all pointers can be
# dereferenced.


def ffi_type(node: Node) -> FFIType:
    """Return the cffi type of a node; a function becomes a pointer to it."""
    if node.ffi is not None:
        return node.ffi
    with naming:
        try:
            pending: list[Record] = []
            for record in _by_value(node):
                _complete(record, pending)
            made = _type(node, pending)
            while pending:
                _complete(pending.pop(), pending)
            node.ffi = node.ffi or made
            return node.ffi
        except RecursionError:
            raise SignatureError("nested too deeply") from None


def _type(node: Node, pending: list[Record]) -> FFIType:
    """Return the cffi type of a node; the structs that it contains by value must be complete.

    Append other structs that it uses to `pending`.
    """
    node = node.main or node
    if isinstance(node, Enumeration):
        return _enum(node)
    if isinstance(node, Number):
        return primitive(node.cname, node.scalar) or _bytes(node.scalar.size)
    if isinstance(node, Record):
        return _record(node, pending)
    if isinstance(node, PointerTo):
        item = node.item
        if isinstance(item, FunctionOf):
            return _function(item, pending)
        if item.kind == "unusable":
            return to_ffi(VOIDPTR)
        return _cffi_backend.new_pointer_type(_type(item, pending))
    if isinstance(node, ArrayOf):
        if node.length is not None and (node.size or 0) > _MOST:
            raise SignatureError(
                f"{node.spell('')!r} has {node.size} bytes, more than the address space"
            )
        item = _type(node.item, pending)
        if isinstance(node.item, Record) and node.item.size is None:
            raise SignatureError(
                f"an array must have items of known size, but {item.cname!r} is incomplete: "
                + (node.item.reason or "it is not declared in full")
            )
        item_pointer = _cffi_backend.new_pointer_type(item)
        return _cffi_backend.new_array_type(item_pointer, node.length)
    if isinstance(node, FunctionOf):
        return _function(node, pending)
    if node.kind == "unusable":
        return _bytes(node.size or 0)
    return _cffi_backend.new_void_type()


_MOST = 2**63 - 1


def _bytes(size: int) -> FFIType:
    byte = _cffi_backend.new_primitive_type("unsigned char")
    return _cffi_backend.new_array_type(_cffi_backend.new_pointer_type(byte), size)


def _enum(node: Enumeration) -> FFIType:
    if node.ffi is None:
        word = "int" if node.scalar.signed else "unsigned"
        base = primitive(word if node.scalar.size == 4 else "", node.scalar)
        values = dict(node.values or ())
        name = node.typedef or node.cname
        node.ffi = _cffi_backend.new_enum_type(name, tuple(values), tuple(values.values()), base)
    return node.ffi


def _function(node: FunctionOf, pending: list[Record]) -> FFIType:
    """Return the type of pointers to a function; `void *` if cffi has no such type."""
    parts = (node.result, *node.args)
    if node.reason or node.is_large or any([part.kind == "unusable" for part in parts]):
        return to_ffi(VOIDPTR)
    args = tuple([_type(arg, pending) for arg in node.args])
    result = _type(node.result, pending)
    try:
        return _cffi_backend.new_function_type(args, result, node.ellipsis, DEFAULT_ABI)
    except _REFUSALS:
        return to_ffi(VOIDPTR)  # a struct passed by value has no size, or is not complete yet


# -- structs and unions --------------------------------------------------------------------------


def _record(node: Record, pending: list[Record]) -> FFIType:
    if node.made is None:
        make = getattr(_cffi_backend, f"new_{node.kind}_type")
        node.made = make(node.typedef or node.cname)
    if not node.is_whole and node.size is not None:
        pending.append(node)
    return node.made


def _by_value(node: Node) -> Iterator[Record]:
    """Yield the structs and unions that must exist before a type is created."""
    node = node.main or node
    while isinstance(node, (ArrayOf, PointerTo)):
        behind = isinstance(node, PointerTo)
        node = node.item.main or node.item
        if behind and isinstance(node, Record):
            return
    if isinstance(node, FunctionOf):
        for part in (node.result, *node.args):
            yield from _by_value(part)
    elif isinstance(node, Record) and node.size is not None and not node.is_whole:
        yield node


def _held(record: Record) -> Iterator[Record]:
    """Yield the structs and unions that must exist before `record` gets its members."""
    for member in record.fields or ():
        yield from _by_value(member.type)


def _complete(record: Record, pending: list[Record]) -> None:
    """Set the members of the structs that a struct contains, and then its own members."""
    for one in postorder(record, _held):
        if not one.is_whole and one.fields is not None:
            _fill(one, pending)


def _fill(record: Foreign, pending: list[Record]) -> None:
    """Set the members of a struct whose fields and size are known."""
    made = _record(record, pending)
    fields = []
    for member in record.fields:
        name = member.name or ""
        if member.width is None:
            fields.append((name, _type(member.type, pending), -1, member.offset))
        elif (unit := unit_of(member, record.size)) is None:
            continue
        elif member.width == 8 * unit[0].size == 8 * member.type.scalar.size:
            # The bit-field fills its integer. Pass it as an ordinary member, since cffi cannot
            # shift by 64 bits.
            fields.append((name, _type(member.type, pending), -1, unit[1]))
        else:
            fields.append(("", _bit_field(name, member, *unit), -1, unit[1]))
    record.is_whole = True
    try:
        _cffi_backend.complete_struct_or_union(made, fields, None, record.size, record.alignment)
    except _REFUSALS as error:
        record.reason = f"cffi has no such type: {error}"


def unit_of(member: Foreign, size: int) -> tuple[Scalar, int] | None:
    """Return the integer that contains a bit-field, and its offset; None if there is none.

    Prefer the declared type if it fits within the struct.
    """
    scalar = member.type.scalar
    first = member.first_bit
    end = first + member.width
    sizes = [scalar.size, *[other for other in (1, 2, 4, 8) if other != scalar.size]]
    for wide in sizes:
        unit = scalar if wide == scalar.size else integer(wide, scalar.signed)
        for at in (first // (8 * wide) * wide, first // 8, size - wide):
            if 0 <= at <= first // 8 and at + wide <= size and end <= 8 * (at + wide):
                return unit, at
    return None


def _bit_field(name: str, member: Foreign, unit: Scalar, at: int) -> FFIType:
    """Return a struct of one unit that contains only the bit-field."""
    integer = to_ffi(unit)
    shift = member.first_bit - 8 * at
    made = _cffi_backend.new_struct_type(f"{BITS}{name}")
    before = [("", integer, shift, -1)] if shift else []
    _cffi_backend.complete_struct_or_union(made, [*before, (name, integer, member.width, -1)])
    return made
