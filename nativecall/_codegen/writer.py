"""Text of LLVM IR for callbacks, which makes Python objects of numbers.

The text is written in the form that it keeps, because LLVM is told not to optimize it: that would
take most of the time of a first call, and change little in code without loops. No call is marked
``tail``: LLVM's fast instruction selection leaves those to the slow one.

Code that is written here holds neither addresses nor Python objects, so that its object file serves
any process of the same Python. Offsets come from the core (csrc/codegen/symbols.c), addresses from
a table of the core, ``%symbols``.
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

    @staticmethod
    def type(ctype: CType) -> str:
        """The IR type of a number."""
        if ctype.kind == "float":
            return {4: "float", 8: "double"}[ctype.size]
        return f"i{8 * ctype.size}"

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
