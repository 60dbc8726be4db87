"""Text of LLVM IR, and conversions of numbers in it, for trampolines and for callbacks.

The text is written in the form that it keeps, because LLVM is told not to optimize it: that would
take most of the time of a first call, and change little in code without loops. No call is marked
``tail``: LLVM's fast instruction selection leaves those to the slow one.

Code that is written here holds neither addresses nor Python objects, so that its object file serves
any process of the same Python. Offsets come from the core (csrc/codegen/symbols.c), addresses from
a table of the core, ``%symbols``. What inline conversions do not take goes to the block ``slow``.
"""

from __future__ import annotations

from .._signature.ctype import Scalar, is_native
from .._values.callspec import letter
from .shape import layout, symbols

TYPE_CHECKING = False
if TYPE_CHECKING:
    from llvmlite import ir

    from .._signature.ctype import CType

WORD = 8  # bytes of a pointer, wherever a convention is known
#: Where in the core's table each address is.
PLACES = {name: index * WORD for index, name in enumerate(symbols)}
#: The type of which objects are converted inline, by kind.
EXACT = {"float": "PyFloat_Type", "int": "PyLong_Type"}


def is_inline(ctype: CType) -> bool:
    """Whether the code here converts a number; the core converts the others."""
    is_float = ctype.kind == "float" and is_native(ctype) and ctype.size <= WORD
    return is_float or ctype.kind in ("bool", "int")


class Operand:
    """A value of the text, as a `Lowering` takes one."""

    __slots__ = ("reference", "type")
    is_opaque = True

    def __init__(self, type: ir.Type, reference: str) -> None:
        self.type = type
        self.reference = reference

    def get_reference(self) -> str:
        return self.reference


class Writer:
    """Writes the blocks of a function, one line after the other."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names = 0
        self.block = "start"

    # -- parts of code ---------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def new(self, text: str) -> str:
        """The value of an instruction."""
        self.names += 1
        name = f"%v{self.names}"
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self) -> str:
        self.names += 1
        return f"b{self.names}"

    def go(self, block: str) -> None:
        """End the block, and go on in another."""
        self.line(f"br label %{block}")

    def begin(self, block: str) -> None:
        self.lines.append(f"{block}:")
        self.block = block

    def find_symbols(self) -> None:
        """What a trampoline refers to is found through the object that keeps it."""
        generated = self.load("ptr", "%self", layout["callable_generated"])
        at = self.new(f"getelementptr i8, ptr {generated}, i64 {layout['generated_symbols']}")
        self.line(f"%symbols = load ptr, ptr {at}, align 8")

    def symbol(self, name: str) -> str:
        """The address of a function or static object of the core or of Python."""
        return self.load("ptr", "%symbols", PLACES[name])

    def call(self, name: str, result: str, *values: str) -> str:
        """A call of the core or of Python; values are written with their types."""
        at = self.names + 1
        self.names = at + 2
        found = f"%v{at + 2} = " if result != "void" else ""
        self.lines.append(
            f"  %v{at} = getelementptr inbounds i8, ptr %symbols, i64 {PLACES[name]}\n"
            f"  %v{at + 1} = load ptr, ptr %v{at}, align {WORD}\n"
            f"  {found}call {result} %v{at + 1}({', '.join(values)})"
        )
        return f"%v{at + 2}" if found else ""

    def call_at(self, address: str, result: str, *values: str) -> str:
        """A call of what is at an address."""
        text = f"call {result} {address}({', '.join(values)})"
        if result == "void":
            self.line(text)
            return ""
        return self.new(text)

    def at(self, address: str, offset: int) -> str:
        """The address `offset` bytes on."""
        if offset == 0:
            return address
        return self.new(f"getelementptr inbounds i8, ptr {address}, i64 {offset}")

    def load(self, type: str, address: str, offset: int = 0, align: int = WORD) -> str:
        # At once what `at` and `new` would write: half of all lines come from here.
        if not offset:
            return self.new(f"load {type}, ptr {address}, align {align}")
        at = self.names + 1
        self.names = found = at + 1
        self.lines.append(
            f"  %v{at} = getelementptr inbounds i8, ptr {address}, i64 {offset}\n"
            f"  %v{found} = load {type}, ptr %v{at}, align {align}"
        )
        return f"%v{found}"

    def store(self, type: str, value: str, address: str, offset: int, align: int = WORD) -> None:
        self.line(f"store {type} {value}, ptr {self.at(address, offset)}, align {align}")

    def require(self, condition: str, otherwise: str) -> None:
        """Go on where the condition holds, as it nearly always does."""
        self.names += 1
        self.block = here = f"b{self.names}"
        self.lines.append(
            f"  br i1 {condition}, label %{here}, label %{otherwise}, !prof !0\n{here}:"
        )

    def refuse(self, condition: str, otherwise: str) -> None:
        """Go on where the condition does not hold. Of one that several were made into, code that
        is not optimized jumps twice the other way round.
        """
        self.block = here = self.label()
        self.lines.append(f"  br i1 {condition}, label %{otherwise}, label %{here}\n{here}:")

    def is_type(self, value: str, name: str) -> str:
        """Whether a Python object is of exactly the type."""
        type = self.load("ptr", value, layout["object_type"])
        return self.new(f"icmp eq ptr {type}, {self.symbol(name)}")

    @staticmethod
    def type(ctype: CType) -> str:
        """The IR type of a number."""
        if ctype.kind == "float":
            return {4: "float", 8: "double"}[ctype.size]
        return f"i{8 * ctype.size}"

    # -- from Python -----------------------------------------------------------------------------

    def exact(self, ctype: CType, value: str, checked: bool = False) -> str:
        """The number in an object, if that is of the exact type, and an int of one digit; both may
        be `checked`.
        """
        name = EXACT.get(ctype.kind)
        if name is not None and not checked:
            self.require(self.is_type(value, name), "slow")
        if ctype.kind == "float":
            found = self.load("double", value, layout["float_value"])
            return found if ctype.size == 8 else self.narrowed(found)
        if ctype.kind == "bool":
            truth = self.new(f"icmp eq ptr {value}, {self.symbol('Py_True')}")
            falsehood = self.new(f"icmp eq ptr {value}, {self.symbol('Py_False')}")
            self.require(self.new(f"or i1 {truth}, {falsehood}"), "slow")
            return self.new(f"zext i1 {truth} to i8")
        assert isinstance(ctype, Scalar)
        signed = ctype.signed
        if not checked:
            self.refuse(self.is_longer(value, signed), "slow")
        found = self.digit(value)
        bits = 8 * ctype.size
        if bits == 64:
            return found
        small = self.new(f"trunc i64 {found} to i{bits}")
        if bits - signed < layout["int_digit_bits"]:
            again = self.new(f"{'sext' if signed else 'zext'} i{bits} {small} to i64")
            self.require(self.new(f"icmp eq i64 {again}, {found}"), "slow")
        return small

    def narrowed(self, wide: str) -> str:
        """A double as a float, unless that is an infinity: there may have been none."""
        narrow = self.new(f"fptrunc double {wide} to float")
        bits = self.new(f"bitcast float {narrow} to i32")
        size = self.new(f"and i32 {bits}, {0x7FFFFFFF}")
        self.require(self.new(f"icmp ne i32 {size}, {0x7F800000}"), "slow")
        return narrow

    def is_longer(self, value: str, signed: bool) -> str:
        """Whether an int has more than one digit, or is below 0 and must be `signed` for that."""
        size = self.load("i64", value, layout["int_size"])
        if layout["int_tagged"]:
            # Bit 1 of the tag is the minus sign.
            return self.new(
                f"icmp ne i64 {self.new(f'and i64 {size}, {-16 if signed else -14}')}, 0"
            )
        if signed:
            size = self.new(f"add i64 {size}, 1")
        return self.new(f"icmp ugt i64 {size}, {1 + signed}")

    def digit(self, value: str) -> str:
        """The value of an int of at most one digit."""
        size, bits = self.load("i64", value, layout["int_size"]), 8 * layout["int_digit_bytes"]
        if layout["int_tagged"]:
            size = self.new(f"sub i64 1, {self.new(f'and i64 {size}, 3')}")
        digit = self.load(f"i{bits}", value, layout["int_digit"], bits // 8)
        return self.new(f"mul i64 {size}, {self.new(f'zext i{bits} {digit} to i64')}")

    # -- to Python -------------------------------------------------------------------------------

    def boxed(self, code: str, address: str) -> str:
        """A number in memory, through the core."""
        return self.call("nc_scalar_to_python", "ptr", f"i32 {ord(code)}", f"ptr {address}")

    def doubled(self, ctype: CType, raw: str) -> str:
        """A float as a double."""
        return raw if ctype.size == 8 else self.new(f"fpext {self.type(ctype)} {raw} to double")

    def widened(self, ctype: CType, raw: str) -> str:
        """An integer as one of 64 bits."""
        assert isinstance(ctype, Scalar)
        if ctype.size == 8:
            return raw
        extend = "sext" if ctype.signed else "zext"
        return self.new(f"{extend} i{8 * ctype.size} {raw} to i64")

    def to_python(self, ctype: CType, raw: str) -> str:
        """A number that is an IR value."""
        code = letter(ctype)
        if ctype.kind == "float":
            return self.call("PyFloat_FromDouble", "ptr", f"double {self.doubled(ctype, raw)}")
        if code == "?":
            wide = self.new(f"zext i8 {raw} to i64")
            return self.call("PyBool_FromLong", "ptr", f"i64 {wide}")
        raw = self.widened(ctype, raw)
        name = "PyLong_FromLong" if layout["long_bytes"] == 8 else "PyLong_FromLongLong"
        if code == "Q":
            name = "PyLong_FromUnsignedLongLong"
        return self.call(name, "ptr", f"i64 {raw}")


def asking(name: str, parameters: str, function: str, bytes: int) -> list[str]:
    """A trampoline that calls another one if the C stack has room for `bytes`.

    These are the arguments and the result in the other one's frame, the copies that the C function
    is given, and as much again for a thunk on the way.
    """
    writer = Writer()
    writer.find_symbols()
    status = writer.call("nc_require_stack", "i32", "ptr %self", f"i64 {bytes}")
    writer.require(writer.new(f"icmp sge i32 {status}, 0"), "short")
    writer.line(f"ret ptr {writer.new(f'call ptr @{function}({parameters})')}")
    writer.begin("short")
    writer.line("ret ptr null")
    return [
        f"define ptr @{name}({parameters}) nounwind optnone noinline {{",
        "start:",
        *writer.lines,
        "}",
    ]
