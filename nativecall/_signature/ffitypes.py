"""Nodes to cffi's types: structs, unions and enums of a library as an FFI of cffi has them.

cffi lays members out itself and has no word for alignment that is asked for, for members without a
name, or for bit-fields that share bytes in a packed struct. So every member is put where gcc has it
(cnodes.py), and what cffi made of it is compared. What no type of cffi can be (complex long double,
128-bit integers, functions that cannot be called) is bytes of the same size, or `void *`.

Structs that others point to are made along with them, so that all pointers can be followed.
"""

from __future__ import annotations

from .._errors import SignatureError
from .cffitype import BITS, default_abi, naming, primitive, to_ffi
from .cnodes import ArrayOf, Enumeration, FunctionOf, Node, Number, PointerTo, Raw, Record
from .ctype import Scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._types import FFIType
    from .cnodes import Member


def ffi_type(node: Node) -> FFIType:
    """The type of cffi that a node is; a function is a pointer to it."""
    with naming:
        try:
            pending: list[Record] = []
            for record in _by_value(node):
                _complete(record, pending)
            made = _type(node, pending)
            while pending:
                _complete(pending.pop(), pending)
            return made
        except RecursionError:
            raise SignatureError("nested too deeply") from None


def _type(node: Node, pending: list[Record]) -> FFIType:
    """A type, of which all that it holds by value is there; what else it leads to is pending."""
    import _cffi_backend

    node = node.main or node
    if isinstance(node, Enumeration):
        return _enum(node)
    if isinstance(node, Number):
        return primitive(node.cname, node.scalar) or _bytes(node.scalar.size)
    if isinstance(node, Record):
        return _record(node, pending)
    if isinstance(node, PointerTo):
        item = node.item
        if item.kind == "unusable":
            return _pointer_to_void()
        return _cffi_backend.new_pointer_type(_type(item, pending))
    if isinstance(node, ArrayOf):
        if node.length is not None and (node.size or 0) > _MOST:
            raise SignatureError(
                f"{node.spell('')!r} has {node.size} bytes, more than the address space"
            )
        item = _type(node.item, pending)
        if isinstance(node.item, Record) and node.item.size is None:
            raise SignatureError(
                f"an array has items of a known size, and {item.cname!r} is incomplete: "
                + (node.item.reason or "it is not declared in full")
            )
        item_pointer = _cffi_backend.new_pointer_type(item)
        return _cffi_backend.new_array_type(item_pointer, node.length)
    if isinstance(node, (Raw, FunctionOf)):
        return _function(node.function if isinstance(node, Raw) else node, pending)
    if node.kind == "unusable":
        return _bytes(node.size or 0)
    return _cffi_backend.new_void_type()


_MOST = 2**63 - 1


def _pointer_to_void() -> FFIType:
    import _cffi_backend

    return _cffi_backend.new_pointer_type(_cffi_backend.new_void_type())


def _bytes(size: int) -> FFIType:
    import _cffi_backend

    byte = _cffi_backend.new_primitive_type("unsigned char")
    return _cffi_backend.new_array_type(_cffi_backend.new_pointer_type(byte), size)


def _enum(node: Enumeration) -> FFIType:
    import _cffi_backend

    if node.made is None:
        words = {("int", 4): "int", ("I", 4): "unsigned int"}
        scalar = node.scalar
        base = words.get(("int" if scalar.signed else "I", scalar.size))
        base_type = to_ffi(scalar) if base is None else _cffi_backend.new_primitive_type(base)
        values = dict(node.values or ())
        name = node.typedef or node.cname
        node.made = _cffi_backend.new_enum_type(
            name, tuple(values), tuple(values.values()), base_type
        )
    return node.made


def _function(node: FunctionOf, pending: list[Record]) -> FFIType:
    """A function pointer; `void *` where cffi has no type for it."""
    import _cffi_backend

    parts = (node.result, *node.args)
    if node.reason or any([part.kind == "unusable" for part in parts]):
        return _pointer_to_void()
    args = tuple([_type(arg, pending) for arg in node.args])
    result = _type(node.result, pending)
    try:
        return _cffi_backend.new_function_type(args, result, node.ellipsis, default_abi())
    except (TypeError, NotImplementedError, ValueError):
        return _pointer_to_void()  # a struct by value that has no size, or is not done yet


# -- structs and unions --------------------------------------------------------------------------


def _record(node: Record, pending: list[Record]) -> FFIType:
    import _cffi_backend

    if node.made is None:
        make = _cffi_backend.new_union_type if node.kind == "union" else None
        node.made = (make or _cffi_backend.new_struct_type)(node.typedef or node.cname)
    if not node.is_whole and node.size is not None:
        pending.append(node)
    return node.made


def _by_value(node: Node) -> Iterator[Record]:
    """The structs and unions that must be there before a type is made."""
    node = node.main or node
    while isinstance(node, (ArrayOf, PointerTo)):
        behind = isinstance(node, PointerTo)
        node = node.item.main or node.item
        if behind and isinstance(node, Record):
            return
    if isinstance(node, Raw):
        node = node.function
    if isinstance(node, FunctionOf):
        for part in (node.result, *node.args):
            yield from _by_value(part)
    elif isinstance(node, Record) and node.size is not None and not node.is_whole:
        yield node


def _complete(record: Record, pending: list[Record]) -> None:
    """Give a struct its members, after those that it holds have theirs."""
    stack = [record]
    entered: set[Record] = set()
    while stack:
        one = stack[-1]
        if one.is_whole or one.fields is None:
            stack.pop()
        elif one not in entered:
            entered.add(one)
            inner = [held for _, member in one.fields for held in _by_value(member.type)]
            stack += [held for held in inner if held not in entered]
        else:
            stack.pop()
            _fill(one, pending)


def _fill(record: Record, pending: list[Record]) -> None:
    import _cffi_backend

    made = _record(record, pending)
    assert record.fields is not None
    assert record.size is not None
    fields = []
    for name, member in record.fields:
        if member.bitsize < 0:
            fields.append((name, _type(member.type, pending), -1, member.offset))
        elif (unit := unit_of(member, record.size)) is None:
            continue
        elif member.bitsize == 8 * unit[0].size == 8 * member.type.scalar.size:
            # It is an integer like any other, and cffi cannot shift by 64 bits.
            fields.append((name, _type(member.type, pending), -1, unit[1]))
        else:
            fields.append(("", _bit_field(name, member, *unit), -1, unit[1]))
    record.is_whole = True
    try:
        _cffi_backend.complete_struct_or_union(made, fields, None, record.size, record.alignment)
    except (TypeError, NotImplementedError, ValueError) as error:
        record.reason = f"cffi has no such type: {error}"


def unit_of(member: Member, size: int) -> tuple[Scalar, int] | None:
    """The integer that has a bit-field in it, and where it lies; None where none does.

    It is the one that C declares wherever that is in the struct.
    """
    from .ctype import integer

    scalar = member.type.scalar
    first = 8 * member.offset + member.bitshift
    end = first + member.bitsize
    sizes = [scalar.size, *[other for other in (1, 2, 4, 8) if other != scalar.size]]
    for wide in sizes:
        unit = scalar if wide == scalar.size else integer(wide, scalar.signed)
        for at in (first // (8 * wide) * wide, first // 8, size - wide):
            if 0 <= at <= first // 8 and at + wide <= size and end <= 8 * (at + wide):
                return unit, at
    return None


def _bit_field(name: str, member: Member, unit: Scalar, at: int) -> FFIType:
    """A struct of the unit that has a bit-field in it, and nothing else."""
    import _cffi_backend

    integer = to_ffi(unit)
    shift = 8 * (member.offset - at) + member.bitshift
    made = _cffi_backend.new_struct_type(f"{BITS}{name}")
    before = [("", integer, shift, -1)] if shift else []
    _cffi_backend.complete_struct_or_union(made, [*before, (name, integer, member.bitsize, -1)])
    return made
