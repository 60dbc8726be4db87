"""The code of thunks that call a loop of a ufunc, for one element or as it is, as LLVM IR.

A thunk is entered through a stub whose context is a Thunk: that has the address of the loop as what
is called, and as values what the loop gets as its last argument, and `nc_thunk_settle`, which finds
a place for an exception that the loop has left. One for an element is called with a number for each
input, and a pointer for each output where there are several; the only one is its result. One for
the loop as it is gets what that gets, but for its last argument.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from .._signature.ctype import VOID, VOIDPTR, CType
from .._signature.signature import Signature
from . import abi
from .abi.lowering import POINTER, reserve
from .shape import WORD, layout

#: Where a Thunk has the values that are bound.
DATA: Final = layout["thunk_values"]
SETTLE: Final = DATA + WORD
_BYTE: Final = ir.IntType(8)
_LONG: Final = ir.IntType(64)


def scalar_text(export: str, signature: Signature, operands: tuple[CType, ...], inputs: int) -> str:
    """The module of a thunk for one element; `export` is the name of its function."""
    module = ir.Module()
    lowering = abi.known().lower(signature.result, signature.args)
    function = lowering.define(module, export, nest=True)
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block())
    prologue = lowering.emit_prologue(builder, function)
    count = len(operands)

    memories = []
    for index, ctype in enumerate(operands):
        if index >= inputs and count - inputs > 1:
            memories.append(prologue.arguments[index])
            continue
        if index < inputs and abi.in_memory(ctype):
            memories.append(prologue.arguments[index])
            continue
        if index >= inputs and prologue.result_memory is not None:
            memories.append(prologue.result_memory)
            continue
        slot = reserve(builder, ctype.size, max(ctype.alignment, 8))
        if index < inputs:
            builder.store(prologue.arguments[index], slot, align=ctype.alignment)
        memories.append(slot)
    args = reserve(builder, count * WORD, WORD)
    steps = reserve(builder, count * WORD, WORD)
    number = reserve(builder, WORD, WORD)
    for index, memory in enumerate(memories):
        builder.store(memory, _at(builder, args, index * WORD), align=WORD)
        # As in an array of them: loops look for those without gaps.
        size = _LONG(operands[index].size)
        builder.store(size, _at(builder, steps, index * WORD), align=WORD)
    builder.store(_LONG(1), number, align=WORD)
    _call(builder, function.args[0], [args, number, steps])
    value = None
    if count - inputs == 1 and prologue.result_memory is None:
        result = operands[-1]
        value = builder.load(memories[-1], align=result.alignment, typ=abi.value_type(result))
    lowering.emit_return(builder, prologue, value)
    return _shown(module)


def strided_text(export: str) -> str:
    """The module of a thunk that calls a loop as it is; `export` is the name of its function."""
    module = ir.Module()
    platform = abi.known()
    lowering = platform.lower(VOID, [VOIDPTR] * 3)
    function = lowering.define(module, export, nest=True)
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block())
    prologue = lowering.emit_prologue(builder, function)
    _call(builder, function.args[0], list(prologue.arguments))
    lowering.emit_return(builder, prologue)
    return _shown(module)


def _at(builder: ir.IRBuilder, address: ir.Value, offset: int) -> ir.Value:
    found = builder.gep(address, [_LONG(offset)], inbounds=True, source_etype=_BYTE)
    found.type = POINTER
    return found


def _call(builder: ir.IRBuilder, slot: ir.Value, given: list[ir.Value]) -> None:
    """Call the loop with its last argument, and look whether it has left an exception."""

    def load(address: ir.Value, offset: int) -> ir.Value:
        return builder.load(_at(builder, address, offset), align=WORD, typ=POINTER)

    keyword = abi.known().keyword or None
    thunk = load(slot, layout["stub_context"])
    loop = ir.FunctionType(ir.VoidType(), [POINTER] * 4)
    target = abi.Callee(load(thunk, layout["thunk_target"]), loop)
    builder.call(target, [*given, load(thunk, DATA)], cconv=keyword)
    settle = ir.FunctionType(ir.VoidType(), [POINTER])
    builder.call(abi.Callee(load(thunk, SETTLE), settle), [thunk], cconv=keyword)


def _shown(module: ir.Module) -> str:
    text: str = str(module)
    return text.replace('target triple = "unknown-unknown-unknown"\n', "")
