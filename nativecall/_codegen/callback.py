"""Callback code: generated functions that C calls, which call a Python function.

Callback code is what a C programmer would write by hand for one signature: a C function that enters
Python, makes an object of each argument, calls the Python function, and converts what that returns.
Entering Python, the call, its result and every error are the core's (csrc/callback/pycallback.h,
which shows the code as C).

Guarantees:

- One piece of it serves all Python functions and all signatures of a shape: a signature with every
  pointer written ``P`` and without names. C calls it through stubs, one for each Python function.
- Code that no function uses any more is unmapped only when many other shapes have come after it.
- What no convention of `abi` describes is left to libffi; so are machines without stubs.
"""

from __future__ import annotations

from .. import _lib
from .._fifo import Fifo, Shared
from .._plan.abi import Unsupported
from .._values.callspec import letter
from . import engine
from .shape import layout, made, shape
from .writer import WORD, Operand, Writer, is_inline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from llvmlite import ir

    from .._signature.ctype import CType
    from .._signature.signature import Signature
    from .abi import Lowering, Prologue

_EXPORT = "callback"
_made: Shared[str, engine.Code] = Shared()
#: Those that stay when no function uses them.
_recent: Fifo[str, engine.Code] = Fifo()


def key(signature: Signature, tells_last: bool = False) -> str:
    """What determines the code of a callback; see `code`."""
    args = "".join([shape(arg) for arg in signature.args])
    return f"{shape(signature.result)}:{args}{' tells' * tells_last}"


def code(
    signature: Signature, wanted: str | None = None, tells_last: bool = False
) -> tuple[int, engine.Code] | None:
    """The address of the callback code of a shape, to be reached through stubs, and its owner.

    None where callbacks are left to libffi. Shapes that are used again soon are not made again.
    `wanted` is the signature's `key`, where that is known. With `tells_last` the Python function
    does not get the last argument, the address of an int which is made 1 when it fails.
    """
    if signature.variadic or _lib.types.stubs_refused():
        return None
    wanted = key(signature, tells_last) if wanted is None else wanted
    found = _made.find(wanted)
    if found is not None:
        return found.address(_EXPORT), found

    def text() -> str:
        from .abi import known

        lowering = known().lower(signature.result, signature.args)
        return _CallbackCode(signature, lowering, tells_last).text()

    try:
        found = made(f"callback {wanted}", text, _EXPORT, 0)
    except (Unsupported, engine.Unloadable):
        # Nothing else: an error in the code here must not pass for a signature without code.
        return None
    if found is None:
        return None
    found = _made.share(wanted, found)
    _recent.put(wanted, found)
    return found.address(_EXPORT), found


class _CallbackCode(Writer):
    """Writes the code of a callback."""

    def __init__(self, signature: Signature, lowering: Lowering, tells_last: bool) -> None:
        super().__init__()
        self.tells_last = tells_last
        self.signature = signature
        self.lowering = lowering

    def text(self) -> str:
        """The module's text."""
        from llvmlite import ir

        module = ir.Module()
        function = self.lowering.define(module, _EXPORT, nest=True)
        for attribute in ("nounwind", "noinline", "optnone"):
            function.attributes.add(attribute)
        first = function.append_basic_block("start")
        last = function.append_basic_block("last")
        prologue = self.lowering.emit_prologue(ir.IRBuilder(first), function)
        slot = function.args[0].get_reference()
        self.lines += [f"  {instruction}" for instruction in first.instructions]
        self.body(slot, prologue, last)
        prototype: list[str] = []
        function.descr_prototype(prototype)
        declared = [str(one).strip() for one in module.globals.values() if one is not function]
        return "\n".join(
            [
                *declared,
                f"{''.join(prototype).strip()} {{",
                "start:",
                *self.lines,
                "}",
                '!0 = !{!"branch_weights", i32 1000, i32 1}',
                "",
            ]
        )

    def body(self, slot: str, prologue: Prologue, last: ir.Block) -> None:
        count = len(self.signature.args) - self.tells_last
        self.line(f"%call = alloca [{layout['pycallback_call_bytes']} x i8], align 16")
        self.line(f"%args = alloca [{count + 1} x ptr], align 16")
        where = self.result_memory(prologue)
        self.line(f"%self_at = getelementptr i8, ptr {slot}, i64 {layout['stub_context']}")
        self.line("%self = load ptr, ptr %self_at, align 8")
        self.line(f"%symbols_at = getelementptr i8, ptr %self, i64 {layout['pycallback_symbols']}")
        self.line("%symbols = load ptr, ptr %symbols_at, align 8")
        spec = self.load("ptr", "%self", layout["pycallback_spec"])
        enter = self.load("ptr", spec, layout["callbackspec_enter"])
        entered = self.call_at(enter, "i32", "ptr %self", "ptr %call", f"ptr {where}")
        failed = "failed" if self.tells_last else "return"
        self.require(self.new(f"icmp ne i32 {entered}, 0"), failed)
        for index, ctype in enumerate(self.signature.args[:count]):
            value = self.argument(index, ctype, str(prologue.arguments[index].get_reference()))
            self.store("ptr", value, "%args", (index + 1) * WORD)
        values = ("ptr %self", "ptr %call", "ptr %args", f"i64 {count}", f"ptr {where}")
        self.call("nc_pycallback_run", "void", *values)
        if self.tells_last:
            ending = self.load("i32", "%call", layout["pycallback_call_ending"], 4)
            ending = self.new(f"and i32 {ending}, {layout['pycallback_failed']}")
            self.require(self.new(f"icmp eq i32 {ending}, 0"), failed)
            self.go("return")
            self.begin(failed)
            self.store("i32", "1", str(prologue.arguments[count].get_reference()), 0, 4)
        self.go("return")
        self.begin("return")
        self.give(prologue, last, where)

    def argument(self, index: int, ctype: CType, given: str) -> str:
        """A new reference to the object for an argument, or NULL with an exception."""
        from .abi import in_memory

        code = letter(ctype)
        if code in "PTVO":
            values = ("ptr %self", f"i64 {index}", f"ptr {given}")
            return self.call("nc_pycallback_argument", "ptr", *values)
        if ctype.kind == "float" and is_inline(ctype):
            wide = self.doubled(ctype, given)
            return self.call("nc_pycallback_float", "ptr", f"double {wide}")
        return self.boxed(code, given) if in_memory(ctype) else self.to_python(ctype, given)

    def result_memory(self, prologue: Prologue) -> str:
        """Where the result is put together."""
        if prologue.result_memory is not None:
            return str(prologue.result_memory.get_reference())
        size = max(self.signature.result.size, WORD)
        self.line(f"%result = alloca [{size} x i8], align 16")
        return "%result"

    def give(self, prologue: Prologue, last: ir.Block, where: str) -> None:
        """The return."""
        from llvmlite import ir

        from .abi import in_memory, value_type

        result = self.signature.result
        value = None
        if result.kind != "void" and not in_memory(result):
            type = value_type(result)
            value = Operand(type, self.new(f"load {type}, ptr {where}, align 1"))
        self.lowering.emit_return(ir.IRBuilder(last), prologue, value)
        self.lines += [f"  {instruction}" for instruction in last.instructions]
