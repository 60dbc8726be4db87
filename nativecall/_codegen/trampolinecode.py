"""The code of a trampoline, as LLVM IR.

A trampoline is what a C programmer would write by hand for one signature: a METH_NOARGS, METH_O or
METH_FASTCALL function that counts the arguments, converts each, calls the function that the
callable points to, and converts the result. Exact floats, ints and bools are converted inline. For
all else, and for every error, the code calls the core (csrc/codegen/symbols.h), whose functions
raise the same exceptions as calls through libffi do; they begin again with the first argument: the
inline conversions have no effects.

Guarantee: buffers and owners are released on every path. writer.py has those of all such code.
"""

from __future__ import annotations

from .. import _lib
from .._signature.ctype import Scalar
from .._signature.derived import Struct
from .._values.callspec import MOST_UNASKED, letter
from .._values.failure import convention
from .._values.outs import drops_result, offsets, visible
from .frame import Place, lay_out
from .pointercode import PointerCode
from .shape import CALL_FLAGS, METHOD, layout
from .writer import EXACT, PLACES, WORD, Operand, asking, is_inline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._signature.ctype import CType
    from .._signature.signature import Signature
    from .._values.outs import Out
    from .abi import Lowering

#: LLVM's names of relations between integers with a sign.
_RELATIONS = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}
_MAX_DIRECT = 4  # pointers whose conversions and releases are calls of their own


class TrampolineCode(PointerCode):
    """Writes the code of one trampoline."""

    def __init__(
        self,
        signature: Signature,
        flags: int,
        lowering: Lowering,
        texts: Sequence[int] = (),
        outs: Sequence[Out] = (),
    ) -> None:
        from .abi import in_memory

        super().__init__()
        self.in_memory = in_memory
        self.signature = signature
        self.texts = texts
        self.lowering = lowering
        self.errors = errors = convention(flags)
        passed = visible(signature, errors.hidden + len(texts), outs)
        self.places = [Place(number, ctype) for number, (_, ctype) in enumerate(passed)]
        # Which of them, or which out-parameter, each argument of the function is.
        self.numbers = {index: number for number, (index, _) in enumerate(passed)}
        places, self.out_bytes = offsets(signature, outs)
        self.outs = {out.index: at for out, at in zip(outs, places, strict=True)}
        self.drops = drops_result(signature, flags)
        self.owners, self.frame = lay_out(self.places)
        # Whether the arguments are an array, as for METH_FASTCALL.
        self.listed = len(self.places) >= 2 or lowering.fixed is not None
        self.direct = self.owners <= _MAX_DIRECT and all(
            [place.inline or place.letter in ("P", "O") for place in self.places]
        )
        self.release = bool(flags & _lib.FLAG_RELEASE_GIL)
        self.may_raise = errors.shown_by == "exception" or bool(flags & _lib.FLAG_NEEDS_GIL)
        self.errno = bool(flags & _lib.FLAG_ERRNO) or errors.shown_by == "errno"
        result = signature.result
        # Whether what makes the result's object looks for exceptions that were left.
        self.looking = result.text == "d" or (result.kind == "int" and result.text != "Q")
        self.looking |= result.kind == "struct" and "O" not in result.text
        # Whether the call is so short that the slow way has one of its own: then the usual way
        # keeps the numbers out of the frame.
        numbers = [place.ctype for place in self.places]
        if signature.result.kind != "void":
            numbers.append(signature.result)
        self.short = (
            flags & CALL_FLAGS == 0
            and all(map(is_inline, numbers))
            and all([place.inline for place in self.places])
        )
        # Whether the result is a pointer, of which the core is told where the call raises.
        self.gives_pointer = letter(result) == "P"
        self.code = "0"  # errno, or what the function wrote to the argument that says how it ended
        self.tables: list[str] = []
        self.declared: list[str] = []

    def text(self) -> str:
        """The module's text."""
        count = len(self.places)
        parameters = "ptr %self, ptr %args, i64 %given"
        if not self.listed:
            parameters = f"ptr %self, ptr {'%a0' if count else '%none'}"
        self.body()
        result = self.signature.result
        bytes = self.frame + (result.size if "T" in result.text else 0)
        export, asked = METHOD, []
        if bytes > MOST_UNASKED:
            # Once the function runs, its frame is there.
            export = f"{METHOD}_asked"
            asked = asking(METHOD, parameters, export, 3 * bytes)
        return "\n".join(
            [
                *self.tables,
                *self.declared,
                *asked,
                f"define ptr @{export}({parameters}) nounwind optnone noinline {{",
                "start:",
                *self.lines,
                *self.later,
                "}",
                '!0 = !{!"branch_weights", i32 1000, i32 1}',
                "",
            ]
        )

    # -- parts of code ---------------------------------------------------------------------------

    def fail_unless(self, condition: str) -> None:
        """Leave the trampoline, with the exception that is set."""
        self.failures.append(self.block)
        self.require(condition, "end")

    # -- the body --------------------------------------------------------------------------------

    def body(self) -> None:
        count = len(self.places)
        if self.frame:
            self.line(f"%frame = alloca [{self.frame} x i8], align 16")
        if count == 1 and not self.listed:
            self.line("%args = alloca ptr, align 8")
        if self.out_bytes:
            self.line(f"%outs = alloca [{self.out_bytes} x i8], align 16")
        if self.gives_pointer:
            self.line("%pointer = alloca ptr, align 8")
            self.store("ptr", "null", "%pointer", 0)
        entry = len(self.lines)
        self.find_symbols()
        if self.listed:
            self.require(self.new(f"icmp eq i64 %given, {count}"), "irregular")
            self.lines += [
                f"  %p{index} = getelementptr inbounds i8, ptr %args, i64 {index * WORD}\n"
                f"  %a{index} = load ptr, ptr %p{index}, align 8"
                for index, place in enumerate(self.places)
                if place.inline or self.direct or place.letter == "O"
            ]
        self.check_types()
        for index, place in enumerate(self.places):
            if place.inline:
                self.check(index, place)
        self.converted()
        answer = self.native_call(entry)
        if self.owners and self.direct:
            self.release_buffers(answer)
        elif self.failures or self.owners:
            succeeded = self.block
            self.go("end")
            self.end(answer, succeeded)
        else:
            self.give(answer)
        if self.gives_pointer:
            self.begin("lost")
            self.call(
                "nc_result_lose", "void", "ptr %self", f"ptr {self.load('ptr', '%pointer', 0)}"
            )
            self.line("ret ptr null")
        if self.listed:
            self.begin("irregular")
            values = ("ptr %self", "ptr %args", "i64 %given", "ptr null")
            self.line(f"ret ptr {self.call('nc_call_irregular', 'ptr', *values)}")
        if self.tables:
            self.begin("refused")
            self.line("ret ptr null")
        if self.short and not self.looking and self.signature.result.kind != "object":
            self.begin("left")
            self.line("ret ptr null")

    def give(self, value: str) -> None:
        """Return a value, NULL with an exception."""
        if self.gives_pointer:
            self.require(self.new(f"icmp ne ptr {value}, null"), "lost")
        self.line(f"ret ptr {value}")

    def end(self, answer: str, succeeded: str) -> None:
        """Release what the arguments hold."""
        self.begin("end")
        came = [f"[{answer}, %{succeeded}]"] + [f"[null, %{block}]" for block in self.failures]
        self.leave(self.new(f"phi ptr {', '.join(came)}"))

    def leave(self, value: str) -> None:
        """Return what is left of `value` once the core has released the owners."""
        if self.owners:
            value = self.call(
                "nc_release_and_return", "ptr", f"ptr {value}", "ptr %frame", f"i64 {self.owners}"
            )
        self.give(value)

    def release_buffers(self, value: str) -> None:
        """Return `value`; the core is asked where an argument keeps more than a buffer."""
        for owner in range(self.owners):
            keep = self.load("ptr", "%frame", self.owned(owner, "pointer_keep"))
            self.require(self.new(f"icmp eq ptr {keep}, null"), "kept")
        for place in self.places:
            if place.owner >= 0:
                self.release_buffer(place)
        self.give(value)
        self.begin("kept")
        self.leave(value)
        if self.failures:
            self.begin("end")
            self.leave("null")

    def converted(self) -> None:
        """What follows the inline conversions, with all arguments where they are wanted."""
        inline = [place for place in self.places if place.inline]
        given = [place for place in self.places if place.letter != "O"]
        others = [place for place in given if not place.inline]
        if others and self.direct:
            self.convert_pointers(others)
        elif others:
            self.convert("others", others)
        if not inline:
            return
        # The slow way goes to the end, since blocks stay in the order of the text.
        usual, self.lines = self.lines, self.later
        self.begin("slow")
        self.convert("all", given)
        if self.short:
            self.line(f"ret ptr {self.native_call(len(self.lines), framed=True)}")
            self.lines = usual
            return
        self.go("ready")
        self.lines = usual
        self.go("ready")
        self.begin("ready")

    def convert(self, table: str, places: Sequence[Place]) -> None:
        """Conversions by the core."""
        if not self.listed:
            self.line("store ptr %a0, ptr %args, align 8")
        steps = ", ".join([f"i64 {place.step}" for place in places] + ["i64 0"])
        type = f"[{len(places) + 1} x i64]"
        self.tables.append(f"@{table} = private constant {type} [{steps}]")
        values = ("ptr %self", "ptr %args", f"ptr @{table}", "ptr %frame")
        status = self.call("nc_convert_arguments", "i32", *values)
        self.require(self.new(f"icmp sge i32 {status}, 0"), "refused")

    def loaded(self, place: Place) -> str:
        """The number in the frame."""
        return self.load(self.type(place.ctype), "%frame", place.offset)

    # -- inline conversions ----------------------------------------------------------------------

    def check_types(self) -> None:
        """Require floats and ints among the arguments to be exactly that, by one branch, and the
        ints to have one digit at most, by another: only then is there a size to look at.

        Between blocks, values are on the stack; what is in objects is read again instead.
        """
        wanted: dict[str, str] = {}
        differences, offset = "", layout["object_type"]
        for index, place in enumerate(self.places):
            name = EXACT.get(place.ctype.kind)
            if not place.inline or name is None:
                continue
            if name not in wanted:
                wanted[name] = self.load("i64", "%symbols", PLACES[name])
            at = self.names + 1
            self.names += 3
            self.lines.append(
                f"  %v{at} = getelementptr inbounds i8, ptr %a{index}, i64 {offset}\n"
                f"  %v{at + 1} = load i64, ptr %v{at}, align 8\n"
                f"  %v{at + 2} = xor i64 %v{at + 1}, {wanted[name]}"
            )
            found = f"%v{at + 2}"
            differences = self.new(f"or i64 {differences}, {found}") if differences else found
        if differences:
            self.require(self.new(f"icmp eq i64 {differences}, 0"), "slow")
        longer = ""
        for index, place in enumerate(self.places):
            ctype = place.ctype
            if place.inline and ctype.kind == "int" and isinstance(ctype, Scalar):
                found = self.is_longer(self.given(index), ctype.signed)
                longer = self.new(f"or i1 {longer}, {found}") if longer else found
        if longer:
            self.refuse(longer, "slow")

    def given(self, index: int) -> str:
        """An argument, from where the caller has it."""
        return self.load("ptr", "%args", index * WORD) if self.listed else f"%a{index}"

    def check(self, index: int, place: Place) -> None:
        """Convert an argument of exactly the usual type into the frame, else go to the core."""
        place.value = self.exact(place.ctype, self.given(index), checked=True)
        if not self.short:
            self.store(self.type(place.ctype), place.value, "%frame", place.offset, 1)
            place.value = ""

    # -- the call and its result -----------------------------------------------------------------

    def native_call(self, entry: int, *, framed: bool = False) -> str:
        """The call itself and what it gives to Python; an exception is set where that is NULL.

        `entry` is the line where the frame is reserved; with `framed` all numbers are in it.
        """
        result = self.signature.result
        values = self.arguments(framed)
        values += [self.length(n, self.numbers[index]) for n, index in enumerate(self.texts)]
        target = self.load("ptr", "%self", layout["callable_target"])
        state, kept = "", "0"
        if self.errors.hidden:
            values.append("%told")
            self.lines.insert(entry, "  %told = alloca i32, align 4")
            self.store("i32", "0", "%told", 0, 4)
        if self.release:
            state = self.call("PyEval_SaveThread", "ptr")
        if self.errno:
            self.call("nc_errno_clear", "void")
        raw = self.lowered(entry, target, values)
        if self.errno:
            kept = self.call("nc_errno_keep", "i32")
        if self.gives_pointer:
            self.store("ptr", raw, "%pointer", 0)
        self.code = self.load("i32", "%told", 0, 4) if self.errors.hidden else kept
        if self.release:
            self.call("PyEval_RestoreThread", "void", f"ptr {state}")
        if self.owners and self.errors.reaches_c:
            status = self.call("nc_settle", "i32", "ptr %frame", f"i64 {self.owners}")
            self.settled(self.new(f"icmp sge i32 {status}, 0"), raw)
        if result.kind != "object" and not self.looking:
            self.look_for_left(raw)
        if self.may_raise and result.kind != "object":
            error = self.call("PyErr_Occurred", "ptr")
            self.fail_unless(self.new(f"icmp eq ptr {error}, null"))
        value = self.result(result, raw)
        if self.errors.reaches_c:
            value = self.checked(value, raw)
        if self.outs:
            given = ("ptr %self", f"ptr {value}", "ptr %outs", f"i32 {int(self.drops)}")
            value = self.call("nc_take_outs", "ptr", *given)
        return value

    def arguments(self, framed: bool) -> list[str]:
        """What the function gets, but for the convention's own argument."""
        for offset in range(0, self.out_bytes, WORD):
            self.store("i64", "0", "%outs", offset)
        values: list[str] = []
        for index in range(len(self.places) + len({*self.outs} - {*self.numbers})):
            number = self.numbers.get(index)
            place = None if number is None else self.places[number]
            if index in self.outs:
                offset = self.outs[index]
                if place is not None and self.in_memory(place.ctype):
                    memory = self.at("%frame", place.offset), f"i64 {place.ctype.size}"
                    self.call(
                        "memcpy",
                        "ptr",
                        f"ptr {self.at('%outs', offset)}",
                        f"ptr {memory[0]}",
                        memory[1],
                    )
                elif place is not None:
                    value = self.loaded(place) if framed or not place.value else place.value
                    self.store(self.type(place.ctype), value, "%outs", offset, 1)
                values.append(self.at("%outs", offset))
            elif place is not None and number is not None:
                values.append(self.passed(number, place, framed))
        return values

    def look_for_left(self, raw: str) -> None:
        """Fail where a Python function that C called left an exception in this thread."""
        left_somewhere, calm, failed = self.label(), self.label(), "left" if self.short else "end"
        # One word says whether there is one in any thread.
        left = self.load("i64", "%symbols", PLACES["left"])
        none = self.new(f"icmp eq i64 {left}, 0")
        self.line(f"br i1 {none}, label %{calm}, label %{left_somewhere}, !prof !0")
        usual, self.lines = self.lines, self.later
        self.begin(left_somewhere)
        raised = self.new(f"icmp ne i32 {self.call('nc_left_raise', 'i32')}, 0")
        if "O" in self.signature.result.text:
            self.line(f"br i1 {raised}, label %dropped_result, label %{calm}")
            self.begin("dropped_result")
            self.call("nc_drop_result", "void", "ptr %self", f"ptr {raw}")
            self.go(failed)
        else:
            self.line(f"br i1 {raised}, label %{failed}, label %{calm}")
        if not self.short:
            self.failures.append(self.block)
        self.lines = usual
        self.begin(calm)

    def settled(self, condition: str, raw: str) -> None:
        """Fail unless the condition holds, and give up the objects in the result."""
        result = self.signature.result
        if "O" not in result.text:
            self.fail_unless(condition)
            return
        self.require(condition, "unsettled")
        usual, self.lines, block = self.lines, self.later, self.block
        self.begin("unsettled")
        if result.kind == "object":
            self.call("Py_DecRef", "void", f"ptr {raw}")
        elif isinstance(result, Struct):
            self.call("nc_drop_result", "void", "ptr %self", f"ptr {raw}")
        self.failures.append("unsettled")
        self.go("end")
        self.lines, self.block = usual, block

    def passed(self, index: int, place: Place, framed: bool) -> str:
        """An argument as the lowering takes it."""
        if place.letter == "O":
            return f"%a{index}"
        if place.letter in ("P", "V"):
            # The core writes both; inline code has no address to write.
            part = "pointer_start" if self.direct else "pointer_address"
            return self.load("ptr", "%frame", self.owned(place.owner, part))
        if self.in_memory(place.ctype):
            return self.at("%frame", place.offset)
        return self.loaded(place) if framed or not place.value else place.value

    def length(self, number: int, index: int) -> str:
        """How long the text is that an argument points to."""
        last = len(self.signature.args) - self.errors.hidden
        ctype = self.signature.args[last - len(self.texts) + number]
        value = self.load("ptr", "%args", index * WORD) if self.listed else "%a0"
        pointer = self.at("%frame", self.owned(self.places[index].owner, "pointer_address"))
        values = "ptr %self", f"i64 {index}", f"ptr {value}", f"ptr {pointer}"
        length = self.call("nc_text_length", "i64", *values)
        self.fail_unless(self.new(f"icmp sge i64 {length}, 0"))
        whole = ctype.size == WORD
        return length if whole else self.new(f"trunc i64 {length} to {self.type(ctype)}")

    def lowered(self, entry: int, target: str, values: Sequence[str]) -> str:
        """The instructions of the call; the result, or ``%result``, where it is in memory."""
        result = self.signature.result
        plain = self.lowering.plain_call(target, values)
        if plain is not None and result.kind == "void":
            self.line(plain)
            return ""
        return self.new(plain) if plain is not None else self.emitted(entry, target, values)

    def emitted(self, entry: int, target: str, values: Sequence[str]) -> str:
        """The same, where the call takes several instructions."""
        from llvmlite import ir

        from .abi import value_type
        from .abi.lowering import POINTER

        result = self.signature.result
        memory = None
        first = []
        if result.kind != "void" and self.in_memory(result):
            alignment = max(result.alignment, WORD)
            first.append(f"  %result = alloca [{result.size} x i8], align {alignment}")
            memory = Operand(POINTER, "%result")
        module = ir.Module()
        scratch = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "scratch")
        frame, block = scratch.append_basic_block(), scratch.append_basic_block()
        operands = [
            Operand(POINTER if self.in_memory(ctype) else value_type(ctype), value)
            for ctype, value in zip(self.signature.args, values, strict=True)
        ]
        called = Operand(POINTER, target)
        raw = self.lowering.emit_call(ir.IRBuilder(block), called, operands, memory)
        first += [f"  {instruction}" for instruction in frame.instructions]
        made = [f"  {instruction}" for instruction in block.instructions]
        self.names += 1
        # llvmlite's names begin anew with each call.
        old, new = '%".', f'%"{self.names}.'
        self.lines += [line.replace(old, new) for line in made]
        self.lines[entry:entry] = [line.replace(old, new) for line in first]
        for value in module.globals.values():
            if value is not scratch:
                self.declared.append(str(value).strip())
        if memory is not None:
            return "%result"
        return "" if raw is None else str(raw.get_reference()).replace(old, new)

    def checked(self, value: str, raw: str) -> str:
        """The value, or NULL with the exception that an error convention makes of it."""
        errors = self.errors
        if errors.is_code:
            failed = self.new(f"icmp ne i32 {self.code}, 0")
        else:
            kind, none = self.type(self.signature.result), str(errors.value)
            if errors.needs == "pointer":
                kind, none = "ptr", "null"
            failed = self.new(f"icmp {_RELATIONS[errors.relation]} {kind} {raw}, {none}")
        came, failing, join = self.block, self.label(), self.label()
        self.line(f"br i1 {failed}, label %{failing}, label %{join}")
        self.begin(failing)
        values = ("ptr %self", f"ptr {value}", f"i64 {errors.flags}", f"i32 {self.code}")
        after = self.call("nc_fail", "ptr", *values)
        self.go(join)
        self.begin(join)
        return self.new(f"phi ptr [{value}, %{came}], [{after}, %{failing}]")

    def result(self, ctype: CType, raw: str) -> str:
        """A result as a Python object, NULL with an exception."""
        code = letter(ctype)
        if isinstance(ctype, Struct):
            return self.call("nc_load_result", "ptr", "ptr %self", f"ptr {raw}")
        if self.looking:
            if code == "d":
                return self.call("nc_result_double", "ptr", f"double {raw}")
            return self.call("nc_result_integer", "ptr", f"i64 {self.widened(ctype, raw)}")
        if code == "v":
            none = self.symbol("Py_None")
            if not layout["has_immortals"]:
                count = self.load("i64", none, layout["object_refcount"])
                more = self.new(f"add i64 {count}, 1")
                self.store("i64", more, none, layout["object_refcount"])
            return none
        if code == "O":
            how = f"i64 {self.errors.flags}", f"i32 {self.code}"
            return self.call("nc_take_object", "ptr", "ptr %self", f"ptr {raw}", *how)
        if code == "P":
            return self.call("nc_pointer_to_python", "ptr", "ptr %self", f"ptr {raw}")
        return self.boxed(code, raw) if self.in_memory(ctype) else self.to_python(ctype, raw)
