"""Convert values between Numba's representation and C's, in LLVM IR.

C code passes values as `nativecall._codegen.abi` describes: numbers and pointers directly, structs
and complex numbers in memory. Numba's data models define Numba's representation.

Importing this module imports Numba.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.np.arrayobj import make_array, populate_array

from ..._codegen import abi
from ..._codegen.abi import POINTER, at_bytes, reserve
from ..._errors import TYPE_CHECKING, SignatureError
from ..._types.ctype import Scalar, integer, integer_range
from .types import numba_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..._ext import Foreign
    from ..._types.ctype import CType
    from ..._types.signature import Signature
    from .types import NumbaObject, NumbaType


def lowered(signature: Signature, refusal: str) -> abi.Lowering:
    """Return the lowering of a signature; raise SignatureError if a type is unsupported."""
    try:
        return abi.lower(signature.result, signature.args)
    except abi.Unsupported as error:
        raise SignatureError(f"{signature.text!r} {refusal}: {error}") from error


class Values:
    """Emits conversions of values at a builder's position."""

    def __init__(self, context: NumbaObject, builder: ir.IRBuilder) -> None:
        self.context = context
        self.builder = builder
        #: Emits code for an integer that does not fit its C type. The arguments are the C type, the
        #: integer extended to 64 bits, and whether the integer is signed. If None, integers are
        #: truncated.
        self.refuse: Callable[[CType, ir.Value, bool], None] | None = None

    # -- from C ----------------------------------------------------------------------------------

    def from_c(self, ctype: Foreign, kind: NumbaType, value: ir.Value) -> ir.Value:
        """Convert a C value to Numba's representation."""
        if ctype.kind == "view":
            return self._array(kind, value)
        if ctype.kind == "bool":
            return self.builder.icmp_unsigned("!=", value, value.type(0))
        if ctype.kind == "complex":
            return self.builder.load(value, align=1, typ=self.context.get_value_type(kind))
        if ctype.kind in ("int", "float"):
            return value
        return self.builder.bitcast(value, self.context.get_value_type(kind))

    def _array(self, kind: NumbaType, descriptor: ir.Value) -> ir.Value:
        """Return an array over the memory that a view's descriptor describes."""
        builder, ndim = self.builder, kind.ndim
        word = self.context.get_value_type(types.intp)
        data = builder.load(descriptor, typ=POINTER)
        words = []
        for index in range(2 * ndim):
            at = at_bytes(self.builder, descriptor, 8 * (index + 1))
            words.append(builder.load(at, typ=word))
        array = make_array(kind)(self.context, builder)
        item = self.context.get_abi_sizeof(self.context.get_data_type(kind.dtype))
        populate_array(
            array,
            data=builder.bitcast(data, array.data.type),
            shape=words[:ndim],
            strides=words[ndim:],
            itemsize=ir.Constant(word, item),
            meminfo=None,
        )
        return array._getvalue()

    def loaded(self, ctype: Foreign, kind: NumbaType, memory: ir.Value, offset: int) -> ir.Value:
        """Load a value from memory as a Numba value; a struct becomes a tuple."""
        builder = self.builder
        if isinstance(kind, types.BaseTuple):
            values = [
                self.loaded(part, inner, memory, offset + at)
                for (at, part), inner in zip(_parts(ctype), kind, strict=True)
            ]
            return self.context.make_tuple(builder, kind, values)
        at = at_bytes(self.builder, memory, offset)
        if ctype.kind == "complex":
            return self.from_c(ctype, kind, at)
        return self.from_c(ctype, kind, builder.load(at, align=1, typ=abi.value_type(ctype)))

    # -- to C ------------------------------------------------------------------------------------

    def number(self, ctype: Foreign, kind: NumbaType, value: ir.Value) -> ir.Value:
        """Convert a number or a pointer to C's representation."""
        if ctype.kind in ("voidptr", "pointer"):
            return self.builder.bitcast(value, POINTER)
        if self.refuse is not None and ctype.kind == "int":
            self._check(ctype, types.unliteral(kind), value)
        value = self.context.cast(self.builder, value, kind, numba_type(ctype))
        return self.builder.zext(value, ir.IntType(8)) if ctype.kind == "bool" else value

    def _check(self, ctype: Scalar, kind: NumbaType, value: ir.Value) -> None:
        """Emit a check that an integer fits a C type, unless its own type ensures that it fits.

        64-bit C types are not checked: in Numba, the sum of a `uint64` and a number may be `int64`,
        so a negative value may stand for a large unsigned one.
        """
        if not isinstance(kind, types.Integer) or ctype.size == 8:
            return
        low, high = integer_range(ctype)
        least, greatest = integer_range(integer(kind.bitwidth // 8, kind.signed))
        compare = self.builder.icmp_signed if kind.signed else self.builder.icmp_unsigned
        outside = []
        if least < low:
            outside.append(compare("<", value, value.type(low)))
        if greatest > high:
            outside.append(compare(">", value, value.type(high)))
        if not outside:
            return
        assert self.refuse is not None
        either = self.builder.or_(outside[0], outside[-1])
        with self.builder.if_then(either, likely=False):
            extend = self.builder.sext if kind.signed else self.builder.zext
            word = ir.IntType(64)
            wide = extend(value, word) if kind.bitwidth < 64 else value
            self.refuse(ctype, wide, kind.signed)

    def store(
        self, ctype: Foreign, kind: NumbaType, value: ir.Value, memory: ir.Value, offset: int
    ) -> None:
        """Convert a value to C's representation and store it in memory."""
        builder = self.builder
        if isinstance(kind, types.BaseTuple):
            for index, (at, part) in enumerate(_parts(ctype)):
                inner = builder.extract_value(value, index)
                self.store(part, kind[index], inner, memory, offset + at)
            return
        at = at_bytes(self.builder, memory, offset)
        if isinstance(kind, types.Record):
            bytes_ = ir.ArrayType(ir.IntType(8), ctype.size)
            source = builder.bitcast(value, POINTER)
            builder.store(builder.load(source, align=1, typ=bytes_), at, align=1)
        elif ctype.kind == "complex":
            wanted = numba_type(ctype)
            value = self.context.cast(builder, value, kind, wanted)
            builder.store(
                self.context.data_model_manager[wanted].as_data(builder, value), at, align=1
            )
        else:
            builder.store(self.number(ctype, kind, value), at, align=1)

    def given(
        self, ctype: CType, kind: NumbaType, value: ir.Value, memory: ir.Value = None
    ) -> ir.Value:
        """Convert a value to the form that a lowering expects.

        If C passes the value in memory, store it in `memory` (by default, a new stack slot).
        """
        if not abi.in_memory(ctype):
            return self.number(ctype, kind, value)
        if memory is None:
            memory = reserve(self.builder, ctype.size, 16)
        self.store(ctype, kind, value, memory, 0)
        return memory

    def described(self, kind: NumbaType, value: ir.Value) -> ir.Value:
        """Create the view descriptor of an array in the stack frame; return its address."""
        array = make_array(kind)(self.context, self.builder, value)
        memory = reserve(self.builder, 8 * (1 + 2 * kind.ndim), 8)
        self.builder.store(self.builder.bitcast(array.data, POINTER), memory, align=8)
        for index in range(kind.ndim):
            for words, at in ((array.shape, 1 + index), (array.strides, 1 + kind.ndim + index)):
                word = self.builder.extract_value(words, index)
                self.builder.store(word, at_bytes(self.builder, memory, 8 * at), align=8)
        return memory


def _parts(ctype: Foreign) -> list[tuple[int, CType]]:
    """Return the offset and type of each item of an array, or of each field of a struct."""
    if ctype.kind == "array":
        return [(i * ctype.item.size, ctype.item) for i in range(ctype.length)]
    return [(field.offset, field.type) for field in ctype.fields]
