"""The grammar of signatures, and its parser.

    signature = result ":" { argument } [ "." ]        "." marks a variadic function
    result    = "v" | type
    type      = a code of `SCALARS`, as "d", "i" or "Zd"
              | "P"                                    void *
              | "&" type                               pointer to
              | "X{" signature "}"                     pointer to function
              | "T{" { field } "}"                     struct by value; "=T{" packed
              | "U{" { field } "}"                     union by value; "=U{" packed
              | "(" n { "," n } ")" type               array, inside structs and behind "&"
              | "[" n "]" type                         strided view of n dimensions, as an argument
              | "O"                                    PyObject *
    field     = type [ "#" n ] [ ":" name ":" ]        with "#" a bit-field of n bits

White space may separate any two tokens. A malformed text raises a `SignatureError` that names the
column. Signatures are cached as plain data (`Row`); `_KeptReader` parses the cached texts.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING, SignatureError
from .ctype import CHAR, MAX_DEPTH, PY_OBJECT, SCALARS, VOID, VOIDPTR, CType, admit, known
from .derived import (
    Array,
    FunctionPointer,
    Handle,
    Pointer,
    Struct,
    View,
    aligned,
    check_bits,
    pointer,
)
from .signature import Signature

if TYPE_CHECKING:
    from _weakref import ReferenceType
    from collections.abc import Callable
    from typing import TypeVar

    from .derived import Owner

    Made = TypeVar("Made")

    Names = tuple[str | None, ...]
    Lengths = tuple[int | str | None, ...]
    #: A signature as plain data: the `named` text of its type, then the attributes `names`,
    #: `readonly`, `characters`, `lengths` and `written` of `Signature`.
    Row = tuple[str, Names, tuple[bool, ...], tuple[str, ...], Lengths, str]

SPACE = " \t\n\r\f\v"
DIGITS = "0123456789"
NO_RESULT = "a function that returns nothing has the result 'v'"

# Hints for a character that does not begin a type, or that begins an unfinished type.
_MEANT = {
    "F": "a complex float is 'Zf'",
    "D": "a complex double is 'Zd'",
    "G": "a complex long double is 'Zg'",
    "s": "a string is '&c'",
    "z": "a string is '&c'",
    "p": "void * is 'P'",
    "*": "a pointer is '&' and the type that it points to",
    "{": "a struct begins with 'T{', a function pointer with 'X{'",
    "T": "a struct begins with 'T{'",
    "U": "a union begins with 'U{'",
    "X": "a function pointer begins with 'X{'",
    "=": "a packed struct begins with '=T{', a packed union with '=U{'",
    "Z": "complex numbers are 'Zf', 'Zd' and 'Zg'",
}


class Reader:
    """A recursive-descent parser of one source text; errors give the column in that text."""

    __slots__ = ("at", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0

    def error(self, reason: str, at: int, hint: str | None = None) -> SignatureError:
        """Return the error for the text at index `at` of the source."""
        line = self.source.count("\n", 0, at) + 1
        column = at - (self.source.rfind("\n", 0, at) + 1) + 1
        return SignatureError(
            reason, self.source, column, line if "\n" in self.source else None, hint
        )

    def peek(self) -> str:
        """Return the next character that is not white space, or ``""`` at the end."""
        source = self.source
        while self.at < len(source) and source[self.at] in SPACE:
            self.at += 1
        return source[self.at : self.at + 1]

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str, what: str) -> None:
        if not self.accept(token):
            found = self.peek()
            raise self.error(f"expected {token!r} {what}, found {shown(found)}", self.at)

    def build(self, at: int, make: Callable[..., Made], *parts: object) -> Made:
        """Return `make(*parts)`. Errors are reported at index `at` of the source."""
        try:
            return make(*parts)
        except SignatureError as error:
            raise self.error(error.reason, at, error.hint) from None

    def admitted(self, place: str, depth: int) -> CType:
        """Parse a type that is allowed at `place`."""
        self.peek()
        at = self.at
        ctype = self.type(depth)
        self.build(at, admit, ctype, place)
        return ctype

    def type(self, depth: int) -> CType:
        code = self.peek()
        at = self.at
        if depth > MAX_DEPTH:
            raise self.error(f"a type is nested more than {MAX_DEPTH} levels deep", at)
        self.at += 1
        found = SCALARS.get(code)
        if found is not None:
            return found
        match code:
            case "v":
                return VOID
            case "P":
                return VOIDPTR
            case "O":
                return PY_OBJECT
            case "Z":
                found = SCALARS.get("Z" + self.peek())
                if found is not None:
                    self.at += 1
                    return found
            case "&":
                if self.peek() == "v":
                    self.at += 1
                    return VOIDPTR
                return self.build(at, pointer, self.admitted("pointee", depth + 1))
            case "X":
                if self.accept("{"):
                    result, args, variadic = self.signature(depth + 1, "}")
                    self.expect("}", "to end the function pointer")
                    return self.build(at, FunctionPointer, result, args, variadic)
            case "T" | "U" | "=":
                union = self.accept("U") if code == "=" else code == "U"
                if union or code == "T" or self.accept("T"):
                    called = self.called()
                    if self.accept("{"):
                        return self.struct(at, depth, code == "=", union, *called)
            case "(":
                shape = [self.length("an array's length")]
                while self.accept(","):
                    shape.append(self.length("an array's length"))
                self.expect(")", "or ',' after an array's length")
                item = CHAR if self.accept("c") else self.admitted("array", depth + 1)
                return self.build(at, Array, item, shape)
            case "[":
                ndim = self.length("the number of dimensions")
                self.expect("]", "after the number of dimensions")
                return self.build(at, View, self.admitted("view", depth + 1), ndim)
        raise self.unknown(code, at)

    def unknown(self, code: str, at: int) -> SignatureError:
        """Return the error for `code` where a type is expected."""
        if not code:
            return self.error("expected a type, found the end", at)
        if code in "})],:.>#":
            return self.error(f"expected a type, found {code!r}", at)
        hint = "an array is written '(3)d'" if code in DIGITS else _MEANT.get(code)
        return self.error(f"unknown type {code!r}", at, hint)

    def length(self, what: str, least: int = 1) -> int:
        self.peek()
        start = self.at
        while self.at < len(self.source) and self.source[self.at] in DIGITS:
            self.at += 1
        digits = self.source[start : self.at]
        if not digits:
            found = shown(self.peek())
            raise self.error(
                f"expected {what}, a {'positive ' * least}number, found {found}", start
            )
        if len(digits) > 18:
            raise self.error(f"{what} is too large", start)
        number = int(digits)
        if number < least:
            raise self.error(f"{what} must be at least 1", start)
        return number

    def called(self) -> tuple[str, Owner | None]:
        """Parse a struct's C name and owner, which only cached texts contain."""
        return "", None

    def struct(
        self, at: int, depth: int, packed: bool, union: bool, name: str, owner: Owner | None
    ) -> CType:
        fields: list[tuple[str | None, CType, int | None]] = []
        seen: set[str] = set()
        while not self.accept("}"):
            if not self.peek():
                raise self.error("expected a field or '}', found the end", self.at)
            ctype, start = self.admitted("field", depth + 1), self.at
            width = self.length("the width of a bit-field", 0) if self.accept("#") else None
            label = self.field_name(seen) if self.accept(":") else None
            if width is not None:
                self.build(start, check_bits, ctype, width, label)
            fields.append((label, ctype, width))
        return self.build(at, Struct, fields, packed, name, union, owner)

    def field_name(self, seen: set[str]) -> str:
        """Parse the name after its opening colon."""
        self.peek()
        start = self.at
        end = self.source.find(":", start)
        name = self.source[start:end].rstrip(SPACE) if end >= 0 else ""
        if not name:
            raise self.error("expected the name of a field and ':' after it", start)
        if not name.isidentifier():
            raise self.error(f"{name!r} is not a valid name for a field in C", start)
        if name in seen:
            raise self.error(f"a struct has two fields called {name!r}", start)
        seen.add(name)
        self.at = end + 1
        return name

    def arguments(self, depth: int, end: str) -> tuple[list[CType], bool]:
        """Parse arguments up to, but not including, the character `end`.

        If `end` is ``""``, parse to the end of the text.
        """
        args: list[CType] = []
        while True:
            found = self.peek()
            if found == end or not found:
                return args, False
            if found == ".":
                if not args:
                    raise self.error("expected at least one argument before '.'", self.at)
                self.at += 1
                if self.peek() != end:
                    found = shown(self.peek())
                    raise self.error(f"'.' ends the arguments, found {found}", self.at)
                return args, True
            args.append(self.admitted("argument", depth))

    def signature(self, depth: int, end: str) -> tuple[CType, list[CType], bool]:
        """Parse a result, a colon and arguments up to, but not including, the character `end`."""
        if self.peek() == ":":
            raise self.error("expected a result before ':'", self.at, NO_RESULT)
        result = self.admitted("result", depth)
        self.expect(":", "after the type of the result")
        return result, *self.arguments(depth, end)

    def finish(self, what: str) -> None:
        if self.peek():
            raise self.error(f"expected the end of {what}, found {shown(self.peek())}", self.at)

    def signed(self, result: CType, args: list[CType], variadic: bool) -> Signature:
        """Return the signature made from the parts; errors are reported at the first column."""
        return self.build(0, lambda: Signature(result, args, variadic, written=self.source))


class _KeptReader(Reader):
    """A parser of cached texts, in which pointers may name their targets.

    - ``&<struct point>T{…}`` and ``P<struct sqlite3>`` name a target; ``<7:struct point>`` adds the
      number of its owner.
    - ``P=<…>`` points to a target of known size.
    - ``T<struct point>{…}`` names a struct.
    - ``@32`` precedes a target that is aligned to 32 bytes.

    Cached texts contain no white space. This parser does not check where a type is allowed, since
    the constructors do. Errors have no columns.
    """

    __slots__ = ()

    def peek(self) -> str:
        return self.source[self.at : self.at + 1]

    def admitted(self, place: str, depth: int) -> CType:
        return self.type(depth)

    def type(self, depth: int) -> CType:
        source, at = self.source, self.at
        found = SCALARS.get(source[at : at + 1])
        if found is not None:
            self.at = at + 1
            return found
        if source[at] == "@":
            self.at += 1
            alignment = self.length("an alignment")
            return aligned(self.type(depth), alignment)
        start = at + 1 + source.startswith("=", at + 1)
        if source[at] in "TU" or not source.startswith("<", start):
            return super().type(depth)
        end = source.find(">", start)
        # Another signature may already have created this type. Its text ends at '>' for a 'P',
        # otherwise at the '}' of the struct.
        till = end if source[at] == "P" else source.find("}", end)
        made = known(source[at : till + 1])
        if made is not None:
            self.at = till + 1
            return made
        self.at = start
        name, owner = self.called()
        if source[at] == "P":
            return Handle(name, owner, start == at + 1)
        return Pointer(self.admitted("pointee", depth + 1), name, owner)

    def called(self) -> tuple[str, Owner | None]:
        if not self.accept("<"):
            return "", None
        start, self.at = self.at, self.source.index(">", self.at) + 1
        number, _, name = self.source[start : self.at - 1].rpartition(":")
        owner = owners.get(int(number or -1))  # may end in another thread
        return name, None if owner is None else owner()


#: Weak references to the owners of named types, by number.
owners: dict[int, ReferenceType[Owner]] = {}


def bind(named: str, owner: Owner) -> str:
    """Return a `named` text with `owner` as the owner of all types that it names."""
    return named.replace("<", f"<{owner.serial}:")


def shown(found: str) -> str:
    return repr(found) if found else "the end"


def from_row(made: Row) -> Signature:
    """Return the signature for plain data, which another process may have cached."""
    named, *said = made
    function = known(f"X{{{named}}}")
    if not isinstance(function, FunctionPointer):
        function = FunctionPointer(*_KeptReader(named).signature(1, ""))
    return Signature._of(function, *said)


def read_type(named: str) -> CType:
    """Return the type of a cached `named` text, which may exceed the limits for written text."""
    return known(named) or _KeptReader(named).type(0)


CType._read = staticmethod(read_type)
