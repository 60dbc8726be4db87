"""Lower C function types to LLVM IR: emit calls of C functions, and functions that C can call.

    lower(result, args, fixed) -> Lowering
    spell(call, fixed) -> Lowering

LLVM IR has no C types. LLVM passes scalars by the target's rules, but the front end must lower
structs, complex numbers and small integers. An `ABI` (_plan/abi.py) decides how the arguments and
the result of one signature are passed. A `Lowering` expresses that decision in IR. If code is
generated for another machine, the ABI is that machine's. A Lowering has emitters for both
directions:

    emit_call                call a C function
    define, emit_prologue, emit_return
                             define a function that C calls

Only the C type determines how the emitters represent a value (`in_memory`):

- Numbers and pointers are IR values (`value_type`). A `bool` is an ``i8`` of 0 or 1.
- All other values are pointers to memory with C's layout and alignment: structs, complex numbers,
  a `long double` wider than `double`, and numbers without a C type.

The emitted code never reads padding as part of a value, and never accesses memory outside the
object. Types that the ABI does not describe raise `Unsupported`. LLVM calls memcpy to copy large
structs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir

from .._plan import steps
from .._plan.abi import ABI, Call, Passing, Piece, Unsupported, in_memory
from .._rows import NamedTuple
from .._types.ctype import CType

__all__ = ["Call", "Unsupported", "in_memory"]

#: Maximum number of arguments; with more, LLVM takes too long.
MAX_ARGUMENTS: Final = 255
#: Maximum total bytes of the arguments, and maximum bytes of the result. LLVM copies them to the
#: stack without probing it.
MAX_BY_VALUE: Final = 1 << 16

POINTER: Final = ir.PointerType()
_BYTE: Final = ir.IntType(8)
_INT32: Final = ir.IntType(32)
_INT64: Final = ir.IntType(64)


class _NamedFloat(ir.Type):  # type: ignore[misc]  # llvmlite has no types
    """An LLVM floating-point type for which llvmlite has no class."""

    null = "0xK00000000000000000000"

    def __init__(self, name: str) -> None:
        self.name = name

    def _to_string(self) -> str:
        return self.name


X86_FP80: Final = _NamedFloat("x86_fp80")
FP128: Final = _NamedFloat("fp128")


def value_type(ctype: CType) -> ir.Type:
    """Return the IR type of a C type that is not `in_memory`; ``void`` for `void`."""
    match ctype.kind:
        case "void":
            return ir.VoidType()
        case "bool" | "int":
            return ir.IntType(8 * ctype.size)
        case "float":
            return float_type(ctype.size)
        case "voidptr" | "pointer" | "function" | "view" | "object":
            return POINTER
    raise TypeError(f"{ctype.named!r} is given in memory")


def float_type(size: int) -> ir.Type:
    """Return the IR type of a float of 2, 4 or 8 bytes; every 2-byte format is passed as half."""
    return {2: ir.HalfType(), 4: ir.FloatType(), 8: ir.DoubleType()}[size]


class Part(NamedTuple):
    """One IR parameter that carries `size` bytes of an object, from `offset` on.

    `type` may be larger than `size`. The extra bits are passed as zero and ignored when received.
    """

    type: ir.Type
    offset: int
    size: int

    # Pieces of a packed struct may be unaligned. Unaligned accesses cost nothing on the supported
    # machines, so every access declares alignment 1.

    def load(self, builder: ir.IRBuilder, memory: ir.Value) -> ir.Value:
        """Load the part of the object at `memory`."""
        type = self.type
        if isinstance(type, ir.ArrayType):
            return _join(builder, type, [one.load(builder, memory) for one in self.elements])
        address = at_bytes(builder, memory, self.offset)
        if self.size >= width_of(type):
            return builder.load(address, align=1, typ=type)
        bits = builder.load(address, align=1, typ=ir.IntType(8 * self.size))
        bits = builder.zext(bits, ir.IntType(8 * width_of(type)))
        return bits if isinstance(type, ir.IntType) else builder.bitcast(bits, type)

    def store(self, builder: ir.IRBuilder, value: ir.Value, memory: ir.Value) -> None:
        """Store the part `value` in the object at `memory`."""
        if isinstance(self.type, ir.ArrayType):
            for index, one in enumerate(self.elements):
                one.store(builder, builder.extract_value(value, index), memory)
            return
        if self.size < width_of(self.type):
            if not isinstance(self.type, ir.IntType):
                value = builder.bitcast(value, ir.IntType(8 * width_of(self.type)))
            value = builder.trunc(value, ir.IntType(8 * self.size))
        builder.store(value, at_bytes(builder, memory, self.offset), align=1)

    @property
    def elements(self) -> list[Part]:
        """The elements of a part whose type is an array, each as a part."""
        type, each = self.type.element, width_of(self.type.element)
        starts = range(0, self.size, each)
        return [Part(type, self.offset + at, min(each, self.size - at)) for at in starts]


class Spelled(NamedTuple):
    """How one argument or the result is passed, in IR.

    `how` has the same values as `Passing.how`. ``"value"`` means a single IR value. ``"pieces"``
    means IR parameters or results that hold parts of the object's memory. ``"stack"`` and
    ``"reference"`` mean a pointer. `attributes` are the attributes of each IR parameter, as IR
    text.
    """

    ctype: CType
    how: str
    parts: tuple[Part, ...] = ()
    attributes: tuple[str, ...] = ()

    @property
    def types(self) -> tuple[ir.Type, ...]:
        """The types of the IR parameters."""
        match self.how:
            case "value":
                return (value_type(self.ctype),)
            case "pieces":
                return tuple([part.type for part in self.parts])
            case "stack" | "reference":
                return (POINTER,)
        return ()


def _extension(ctype: CType) -> tuple[str, ...]:
    """Return the attribute that makes the caller extend a small integer to 32 bits."""
    if ctype.kind not in ("bool", "int") or ctype.size >= 4:
        return ()
    return ("signext",) if getattr(ctype, "signed", False) else ("zeroext",)


def _number(piece: Piece) -> ir.Type:
    """Return the IR type for the piece of an object that one register holds."""
    if piece.kind == "x87":
        return X86_FP80
    if piece.kind == "general":
        return _INT64
    if piece.size == 16:
        return FP128
    return float_type(piece.size) if piece.size in (2, 4) else ir.DoubleType()


def _spelled(abi: ABI, passing: Passing, argument: bool) -> Spelled:
    ctype, how, pieces = passing.ctype, passing.how, passing.pieces
    if how == "value":
        return Spelled(ctype, how, (), _extension(ctype) if abi.extends else ())
    if how == "stack" and ctype.kind == "float" and ctype.size > 8:
        return Spelled(ctype, "pieces", (Part(X86_FP80, 0, ctype.size),))
    if how == "stack":
        # Only byval makes LLVM pass an object on the stack while registers are free.
        place = f"byval([{ctype.size} x i8])", f"align {max(8, ctype.alignment)}"
        return Spelled(ctype, how, (), place)
    if how == "reference" and not argument:  # a hidden first argument
        place = f"sret([{ctype.size} x i8])", f"align {ctype.alignment}"
        return Spelled(ctype, how, (), place)
    if how != "pieces":
        return Spelled(ctype, how)
    if not abi.joined:
        # On Windows, an object is passed as an integer of its size.
        kinds = [ir.IntType(8 * one.size) if abi.by_place else _number(one) for one in pieces]
        parts = [Part(kind, *one[1:]) for kind, one in zip(kinds, pieces, strict=True)]
        return Spelled(ctype, how, tuple(parts))
    type: ir.Type = _number(pieces[0])
    attributes: tuple[str, ...] = ()
    if pieces[0].kind == "vector" and ctype.kind != "float":
        type = ir.ArrayType(type, len(pieces))
        # On the stack, aggregates are padded to a multiple of 8 bytes, except in Apple's ABI.
        if argument and not abi.packs:
            attributes = (f"alignstack({16 if ctype.alignment >= 16 else 8})",)
    elif len(pieces) > 1:
        type = ir.IntType(128) if ctype.alignment >= 16 else ir.ArrayType(type, len(pieces))
    return Spelled(ctype, how, (Part(type, 0, ctype.size),), attributes)


def lower(
    result: CType,
    args: Sequence[CType],
    fixed: int | None = None,
    abi: ABI = steps.ABI,
    keyword: str = "",
) -> Lowering:
    """Return the lowering of a signature.

    For a variadic function, `fixed` is the number of fixed arguments; the variadic arguments must
    have promoted types. `keyword` is LLVM's name of the calling convention; an empty one means the
    target's C convention. Raises `Unsupported` for types that the ABI does not describe, for too
    many arguments, and for too many bytes.
    """
    return spell(abi.place(result, args, fixed), fixed, abi, keyword)


def spell(
    call: Call, fixed: int | None = None, abi: ABI = steps.ABI, keyword: str = ""
) -> Lowering:
    """Return the lowering of a call after `ABI.place` has placed its arguments and result."""
    if len(call.args) > MAX_ARGUMENTS:
        raise Unsupported(
            f"{len(call.args)} arguments are more than the {MAX_ARGUMENTS} that generated code "
            "supports"
        )
    size = max(sum([one.ctype.size for one in call.args]), call.result.ctype.size)
    if size > MAX_BY_VALUE:
        raise Unsupported(f"{size} bytes are passed by value, but the limit is {MAX_BY_VALUE}")
    passed = tuple([_spelled(abi, one, True) for one in call.args])
    return Lowering(_spelled(abi, call.result, False), passed, fixed, keyword)


class Lowering(NamedTuple):
    """How the arguments and the result of one signature are passed; created by `lower`."""

    result: Spelled
    arguments: tuple[Spelled, ...]
    fixed: int | None
    keyword: str

    @property
    def function_type(self) -> ir.FunctionType:
        """The IR type of the C function."""
        passed = self.arguments if self.fixed is None else self.arguments[: self.fixed]
        parameters = [type for argument in passed for type in argument.types]
        if self.result.how == "reference":
            parameters.insert(0, POINTER)
        return ir.FunctionType(self._result_type, parameters, var_arg=self.fixed is not None)

    @property
    def _result_type(self) -> ir.Type:
        if self.result.how in ("void", "reference"):
            return ir.VoidType()
        types = self.result.types
        return types[0] if len(types) == 1 else ir.LiteralStructType(types)

    def _parameters(self) -> list[tuple[str, ...]]:
        """Return the attributes of each IR argument."""
        hidden = [self.result.attributes] if self.result.how == "reference" else []
        return hidden + [arg.attributes for arg in self.arguments for _ in arg.types]

    def emit_call(
        self,
        builder: ir.IRBuilder,
        pointer: ir.Value,
        arguments: Sequence[ir.Value],
        result_memory: ir.Value | None = None,
    ) -> ir.Value:
        """Emit a call of the C function at `pointer`; return its result, unless `in_memory`.

        For an `in_memory` argument, give a pointer to memory that the callee may modify. If this
        argument is passed by reference, align the memory to 16 bytes. An `in_memory` result is
        stored in `result_memory`. This memory must not overlap an argument, or memory that the
        callee can access in another way.
        """
        values = [result_memory] if self.result.how == "reference" else []
        for passing, given in zip(self.arguments, arguments, strict=True):
            if passing.how == "pieces":
                values += [part.load(builder, given) for part in passing.parts]
            else:
                values.append(given)
        callee = Callee(pointer, self.function_type)
        call = builder.call(callee, values, cconv=self.keyword or None)
        for index, attributes in enumerate(self._parameters()):
            if attributes:
                call.arg_attributes[index] = _Attributes(attributes)
        if self.result.how == "value":
            return call
        parts = self.result.parts
        for index, part in enumerate(parts):
            value = call if len(parts) == 1 else builder.extract_value(call, index)
            part.store(builder, value, result_memory)
        return None

    def define(self, module: ir.Module, name: str, *, nest: bool = False) -> ir.Function:
        """Add a C function of this type, without basic blocks, to `module`.

        With `nest`, C enters the function through a stub (csrc/platform/stub.h). The first
        parameter is then the stub's slot, in the static chain register, which no C argument uses.
        Raises `Unsupported` for a variadic function, since generated functions take only fixed
        arguments.
        """
        if self.fixed is not None:
            raise Unsupported("a variadic function can be called, not generated")
        type = self.function_type
        if nest:
            type = ir.FunctionType(type.return_type, [POINTER, *type.args])
        function = ir.Function(module, type, name)
        function.calling_convention = self.keyword
        for parameter, attributes in zip(
            function.args, [("nest",)] * nest + self._parameters(), strict=True
        ):
            # Callers usually extend small integers; don't rely on it.
            kept = [text for text in attributes if text not in ("signext", "zeroext")]
            parameter.attributes = _Attributes(kept)
        if self.result.how == "value":
            function.return_value.attributes = _Attributes(self.result.attributes)
        return function

    def emit_prologue(
        self, builder: ir.IRBuilder, function: ir.Function
    ) -> tuple[list[ir.Value], ir.Value | None]:
        """Emit the start of a `function` created by `define`; return (arguments, result memory).

        Each argument is a value, or a pointer to memory that the function owns. If the result is
        `in_memory`, the function must store it in the result memory. Otherwise this memory is None.
        """
        parameters = iter(function.args)
        if len(function.args) > len(self.function_type.args):
            next(parameters)  # the slot
        memory = None
        if self.result.how == "reference":
            memory = next(parameters)
        elif self.result.how == "pieces":
            ctype = self.result.ctype
            memory = reserve(builder, ctype.size, ctype.alignment)
        arguments = []
        for passing in self.arguments:
            if passing.how != "pieces":
                arguments.append(next(parameters))
                continue
            given = reserve(builder, passing.ctype.size, passing.ctype.alignment)
            for part in passing.parts:
                part.store(builder, next(parameters), given)
            arguments.append(given)
        return arguments, memory

    def emit_return(
        self, builder: ir.IRBuilder, memory: ir.Value | None, value: ir.Value | None = None
    ) -> None:
        """Emit the return of `value`, or of the result memory if the result is `in_memory`."""
        match self.result.how:
            case "value":
                builder.ret(value)
            case "pieces":
                values = [part.load(builder, memory) for part in self.result.parts]
                whole = values[0] if len(values) == 1 else _join(builder, self._result_type, values)
                builder.ret(whole)
            case _:
                builder.ret_void()


class Callee:
    """A function pointer and its type, in the form that llvmlite's `call` requires."""

    def __init__(self, pointer: ir.Value, function_type: ir.FunctionType) -> None:
        self.type = POINTER
        self.function_type = function_type
        self._pointer = pointer

    def get_reference(self) -> str:
        return str(self._pointer.get_reference())


class _Attributes:
    """Parameter attributes as IR text; llvmlite's own class needs typed pointers for ``byval``."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    def _to_list(self, type: ir.Type) -> list[str]:
        return list(self.texts)


def _join(builder: ir.IRBuilder, type: ir.Type, parts: Sequence[ir.Value]) -> ir.Value:
    """Build a struct or an array from IR values."""
    whole = ir.Constant(type, ir.Undefined)
    for index, part in enumerate(parts):
        whole = builder.insert_value(whole, part, index)
    return whole


def at_bytes(builder: ir.IRBuilder, memory: ir.Value, offset: int) -> ir.Value:
    """Return the address `offset` bytes into `memory`."""
    if offset == 0 and memory.type.is_opaque:
        return memory
    address = builder.gep(memory, [_INT32(offset)], inbounds=True, source_etype=_BYTE)
    address.type = POINTER
    return address


def width_of(type: ir.Type) -> int:
    """Return the size of an IR number in bytes."""
    if isinstance(type, ir.IntType):
        return int(type.width) // 8
    widths: dict[str, int] = {"half": 2, "float": 4, "double": 8, "ptr": 8}
    return widths.get(str(type), 16)


def reserve(builder: ir.IRBuilder, size: int, alignment: int) -> ir.Value:
    """Emit an allocation of stack memory in the entry block, so that loops don't repeat it."""
    first = builder.function.entry_basic_block
    if builder.block is not first:
        builder = ir.IRBuilder(first)
        if first.is_terminated:
            builder.position_before(first.terminator)
    memory = builder.alloca(ir.ArrayType(_BYTE, size))
    memory.align = alignment
    memory.type = POINTER
    return memory
