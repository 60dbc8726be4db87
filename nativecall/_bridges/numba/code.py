"""The C function around a jitted function that was compiled for a signature.

It passes arguments and result as C does on this machine, and says what becomes of exceptions: see
the package.

Importing this module imports Numba.
"""

from __future__ import annotations

import itertools

from llvmlite import ir
from numba.core import types
from numba.core.registry import cpu_target

from ... import _lib
from ..._cdecl.spelling import words
from ..._codegen import abi
from ..._codegen.abi import POINTER, Lowering
from ..._errors import SignatureError
from ..._types.ctype import integer_range
from ..._values.failure import CONVENTIONS
from ..._values.storage import sentinel_of
from .values import Values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..._types.ctype import CType
    from ..._types.signature import Signature
    from ..._values.failure import Convention
    from .types import NumbaObject, NumbaType

_number = itertools.count()  # symbols are the process's


def enclose(
    owner: object, compiled: NumbaObject, name: str, signature: Signature, errors: str
) -> tuple[int, NumbaObject]:
    """Compile the C function around what Numba compiled, in a library of Numba's that is made for
    it: its address, and the library. `owner` is shown where an exception is reported.
    """
    platform = abi.convention()
    if platform is None:
        raise SignatureError("jitted functions have no C functions on this machine")
    try:
        lowering = platform.lower(signature.result, signature.args)
    except abi.Unsupported as error:
        raise SignatureError(f"{signature.text!r} cannot be made a C function: {error}") from error
    context = cpu_target.target_context
    symbol = f"nativecall_{next(_number)}_{name}"
    symbol = "".join([letter if letter.isalnum() else "_" for letter in symbol])
    library = context.codegen().create_library(symbol)
    module = context.create_module(symbol)
    with context.push_code_library(library):
        function = lowering.define(module, symbol)
        convention = CONVENTIONS[errors]
        _write(context, lowering, function, owner, name, compiled.fndesc, signature, convention)
    library.add_ir_module(module)
    library.add_linking_library(compiled.library)
    library.finalize()
    return library.get_pointer_to_function(symbol), library


def _write(
    context: NumbaObject,
    lowering: Lowering,
    function: ir.Function,
    owner: object,
    name: str,
    described: NumbaObject,
    signature: Signature,
    errors: Convention,
) -> None:
    """Write the C function around a compiled one."""
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    writer = _Writer(context, builder)
    prologue = lowering.emit_prologue(builder, function)
    given = writer.arguments(errors.passed(signature.args), described.argtypes, prologue.arguments)
    callee = ir.Function(
        function.module,
        context.call_conv.get_function_type(described.restype, described.argtypes),
        described.llvm_func_name,
    )
    status, returned = context.call_conv.call_function(
        builder, callee, described.restype, described.argtypes, given
    )

    def fail(raised: Callable[[NumbaObject], None]) -> None:
        """Write what C gets when there is no result; `raised` writes what raises the exception."""
        writer.keep_exception(raised, owner, errors)
        if errors.hidden:
            builder.store(ir.IntType(32)(1), prologue.arguments[-1], align=4)
        lowering.emit_return(
            builder, prologue, writer.sentinel(signature.result, errors, prologue.result_memory)
        )

    def out_of_range(ctype: CType, value: ir.Value, signed: bool) -> None:
        low, high = integer_range(ctype)
        shown = name.replace("%", "%%")  # it is a format
        text = f"the result of '{shown}' is %ll{'d' if signed else 'u'}, out of range for "
        text += f"{words(ctype)!r} ({low} to {high})"
        fail(lambda python: python.err_format("PyExc_OverflowError", text, value))

    with builder.if_then(status.is_error, likely=False):
        fail(lambda python: context.call_conv.raise_error(builder, python, status))
    if signature.result.kind != "void" and described.restype == types.none:
        # It only raises.
        none = writer.sentinel(signature.result, errors, prologue.result_memory)
        lowering.emit_return(builder, prologue, none)
        return
    writer.refuse = out_of_range
    value = None
    if signature.result.kind != "void":
        memory = prologue.result_memory
        value = writer.given(signature.result, described.restype, returned, memory)
    lowering.emit_return(builder, prologue, value)


class _Writer(Values):
    """Writes what becomes of arguments and exceptions, too."""

    def arguments(
        self,
        args: Sequence[CType],
        kinds: Sequence[NumbaType],
        passed: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """What a jitted function gets of the arguments that C passes: nothing for those that have
        their defaults, and a tuple for `*args`."""
        rest = iter(zip(args, passed, strict=False))
        found = []
        for kind in kinds:
            if isinstance(kind, types.Omitted):
                found.append(ir.Constant(self.context.get_value_type(kind), []))
            elif isinstance(kind, (types.StarArgTuple, types.StarArgUniTuple)):
                items = [
                    self.from_c(ctype, one, value)
                    for one, (ctype, value) in zip(kind, rest, strict=False)
                ]
                found.append(self.context.make_tuple(self.builder, kind, items))
            else:
                ctype, value = next(rest)
                found.append(self.from_c(ctype, kind, value))
        return found

    def keep_exception(
        self, raised: Callable[[NumbaObject], None], owner: object, errors: Convention
    ) -> None:
        """Raise what `raised` writes, unless an earlier one is still to be noticed."""
        builder = self.builder
        python = self.context.get_python_api(builder)
        state = python.gil_ensure()
        before = python.err_occurred()
        with builder.if_then(builder.icmp_unsigned("==", before, before.type(None))):
            raised(python)
            if errors.shown_by != "exception":
                settle, given = [
                    builder.inttoptr(ir.IntType(64)(address), POINTER)
                    for address in (_lib.types.code_symbols()["nc_exception_settle"], id(owner))
                ]
                kind = ir.FunctionType(ir.VoidType(), [POINTER])
                builder.call(abi.Callee(settle, kind), [given])
        python.gil_release(state)

    def sentinel(self, ctype: CType, errors: Convention, memory: ir.Value) -> ir.Value:
        """What C gets when the function raises."""
        if ctype.kind == "void":
            return None
        bits = sentinel_of(ctype, errors.sentinel)
        if abi.in_memory(ctype):
            kind = ir.ArrayType(ir.IntType(8), ctype.size)
            self.builder.store(ir.Constant(kind, bytearray(bits)), memory, align=1)
            return None
        kind, number = abi.value_type(ctype), int.from_bytes(bits, "little")
        if ctype.kind == "float":
            return self.builder.bitcast(ir.IntType(8 * ctype.size)(number), kind)
        return ir.Constant(kind, number or None)
