"""C functions that pass scalars to a procedure by reference, as Fortran takes them.

Such a function stores each scalar in its frame and passes the address. The procedure returns the
result, or writes it to where its first argument points. Small integers, truth values and complex
numbers are passed and returned as the platform's C convention has it.
"""

from __future__ import annotations

from .._signature.ctype import VOID, VOIDPTR
from . import engine
from .shape import LINKED, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._signature.signature import Signature

_EXPORT = "nc_by_value"
_CALLED = "nc_procedure"
_WIDEST = 32  # bytes of a number, a complex one included


def code(
    address: int, signature: Signature, values: Sequence[bool], written: bool
) -> tuple[int, engine.Code] | None:
    """The address of the function, and what keeps it; None where no code can be generated.

    Parameters
    ----------
    address : int
        Of the procedure.
    signature : Signature
        Of the function. `Unsupported` is raised for types that no convention here has.
    values : sequence of bool
        Of each argument whether the procedure takes it by reference; others are passed as they are.
    written : bool
        Whether the procedure writes the result to where its first argument points.
    """
    types = [
        f"{shape(one)}{'&' * refers}" for one, refers in zip(signature.args, values, strict=True)
    ]
    key = f"by reference {shape(signature.result)}{'&' * written}:{' '.join(types)}"
    symbols = {_CALLED: address, **LINKED}
    if not engine.available():
        return None
    made = engine.compile(key, lambda: _text(signature, values, written), symbols, (_EXPORT,))
    return made.address(_EXPORT), made


def _text(signature: Signature, values: Sequence[bool], written: bool) -> str:
    """The function as LLVM IR."""
    from llvmlite import ir

    from . import abi
    from .abi.lowering import reserve

    convention, result = abi.known(), signature.result
    outer = convention.lower(result, signature.args)
    passed = [
        VOIDPTR if refers else one for one, refers in zip(signature.args, values, strict=True)
    ]
    inner = convention.lower(VOID if written else result, [VOIDPTR] * written + passed)
    module = ir.Module()
    function = outer.define(module, _EXPORT)
    procedure = ir.Function(module, inner.function_type, _CALLED)
    builder = ir.IRBuilder(function.append_basic_block())
    prologue = outer.emit_prologue(builder, function)
    memory = prologue.result_memory
    given = []
    if written:
        if outer.result.how != "reference":
            # With room for any number: of a wider one than was said the frame is not overwritten.
            memory = reserve(builder, _WIDEST, _WIDEST)
            prologue = abi.Prologue(prologue.arguments, memory)
        given.append(memory)
    for one, refers, value in zip(signature.args, values, prologue.arguments, strict=True):
        if not refers or abi.in_memory(one):
            given.append(value)
            continue
        place = reserve(builder, one.size, one.alignment)
        builder.store(value, place, align=one.alignment)
        given.append(place)
    answer = inner.emit_call(builder, procedure, given, memory)
    if written and not abi.in_memory(result):
        answer = builder.load(memory, align=result.alignment, typ=abi.value_type(result))
    outer.emit_return(builder, prologue, answer)
    return str(module).replace('target triple = "unknown-unknown-unknown"\n', "")
