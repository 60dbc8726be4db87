"""Compile the C function around a jitted function that was compiled for a signature.

The C function follows the platform's C calling convention. The package docstring describes what
happens if the jitted function raises.

Importing this module imports Numba.
"""

from __future__ import annotations

import itertools

from llvmlite import ir
from numba.core import types
from numba.core.registry import cpu_target

from ... import _ext
from ..._cdecl.spelling import words
from ..._codegen import abi
from ..._codegen.abi import POINTER
from ..._errors import TYPE_CHECKING
from ..._types.ctype import integer_range
from ..._values.failure import CONVENTIONS
from ..._values.storage import sentinel_of
from .values import Values, lowered

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..._types.ctype import CType
    from ..._types.signature import Signature
    from .types import NumbaObject

_number = itertools.count()  # symbol names are global to the process


def enclose(
    owner: object, compiled: NumbaObject, name: str, signature: Signature, errors: str
) -> tuple[int, NumbaObject]:
    """Compile the C function around a compiled function, in a separate Numba library.

    Return its address and the library. Unraisable reports show `owner`.
    """
    context = cpu_target.target_context
    symbol = f"nativecall_{next(_number)}_{name}"
    symbol = "".join([letter if letter.isalnum() else "_" for letter in symbol])
    library = context.codegen().create_library(symbol)
    module = context.create_module(symbol)
    with context.push_code_library(library):
        _Writer(context, module, symbol, signature, errors).write(compiled.fndesc, owner, name)
    library.add_ir_module(module)
    library.add_linking_library(compiled.library)
    library.finalize()
    return library.get_pointer_to_function(symbol), library


class _Writer(Values):
    """Emits the C function around a compiled one."""

    def __init__(
        self,
        context: NumbaObject,
        module: ir.Module,
        symbol: str,
        signature: Signature,
        errors: str,
    ) -> None:
        self.lowering = lowered(signature, "cannot be made a C function")
        function = self.lowering.define(module, symbol)
        super().__init__(context, ir.IRBuilder(function.append_basic_block("entry")))
        self.signature = signature
        self.errors = CONVENTIONS[errors]
        self.passed, self.memory = self.lowering.emit_prologue(self.builder, function)

    def write(self, described: NumbaObject, owner: object, name: str) -> None:
        """Emit the whole function."""
        builder, calls, result = self.builder, self.context.call_conv, self.signature.result
        kinds, returns = described.argtypes, described.restype
        kind = calls.get_function_type(returns, kinds)
        callee = ir.Function(builder.module, kind, described.llvm_func_name)
        status, returned = calls.call_function(
            builder, callee, returns, kinds, self.arguments(kinds)
        )

        def fail(raised: Callable[[NumbaObject], None]) -> None:
            """Emit the exit of a failed call; `raised` emits code that raises the exception."""
            self.keep_exception(raised, owner)
            if self.errors.hidden:
                builder.store(ir.IntType(32)(1), self.passed[-1], align=4)
            self.give(self.sentinel())

        def out_of_range(ctype: CType, value: ir.Value, signed: bool) -> None:
            low, high = integer_range(ctype)
            shown = name.replace("%", "%%")  # `text` is a format string
            text = f"the result of '{shown}' is %ll{'d' if signed else 'u'}, out of range for "
            text += f"{words(ctype)!r} ({low} to {high})"
            fail(lambda python: python.err_format("PyExc_OverflowError", text, value))

        with builder.if_then(status.is_error, likely=False):
            fail(lambda python: calls.raise_error(builder, python, status))
        if result.kind == "void":
            self.give(None)
        elif returns == types.none:  # the function only raises
            self.give(self.sentinel())
        else:
            self.refuse = out_of_range
            self.give(self.given(result, returns, returned, self.memory))

    def give(self, value: ir.Value) -> None:
        self.lowering.emit_return(self.builder, self.memory, value)

    def arguments(self, kinds: tuple[NumbaObject, ...]) -> list[ir.Value]:
        """Convert the arguments that C passes to the arguments of the jitted function.

        C does not pass omitted arguments: the jitted function uses their defaults. The arguments
        for `*args` become a tuple.
        """
        args = self.errors.passed(self.signature.args)
        rest = iter(zip(args, self.passed, strict=False))
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

    def keep_exception(self, raised: Callable[[NumbaObject], None], owner: object) -> None:
        """Emit code that raises the exception of `raised`, unless another exception is set."""
        builder = self.builder
        python = self.context.get_python_api(builder)
        state = python.gil_ensure()
        before = python.err_occurred()
        with builder.if_then(builder.icmp_unsigned("==", before, before.type(None))):
            raised(python)
            if self.errors.shown_by != "exception":
                settle, given = [
                    builder.inttoptr(ir.IntType(64)(address), POINTER)
                    for address in (_ext.code_symbols()["nc_exception_settle"], id(owner))
                ]
                kind = ir.FunctionType(ir.VoidType(), [POINTER])
                builder.call(abi.Callee(settle, kind), [given])
        python.gil_release(state)

    def sentinel(self) -> ir.Value:
        """Return the value that C gets when the function raises."""
        ctype, memory = self.signature.result, self.memory
        if ctype.kind == "void":
            return None
        bits = sentinel_of(ctype, self.errors.sentinel)
        if abi.in_memory(ctype):
            kind = ir.ArrayType(ir.IntType(8), ctype.size)
            self.builder.store(ir.Constant(kind, bytearray(bits)), memory, align=1)
            return None
        kind, number = abi.value_type(ctype), int.from_bytes(bits, "little")
        if ctype.kind == "float":
            return self.builder.bitcast(ir.IntType(8 * ctype.size)(number), kind)
        return ir.Constant(kind, number or None)
