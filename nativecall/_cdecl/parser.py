"""Parse C declarations: convert tokens to nodes (nodes.py) of the declared names.

The parser accepts the C of real headers: GNU attributes and keywords, `__asm__` names, inline
functions, ``#pragma pack``, C11 and C23 keywords. It skips function bodies.

In headers, the parser skips declarations that it cannot parse, and those that depend on them. It
records the reasons. In declarations that users write (`strict`), it stops at the first error.

The file is ordered bottom-up: errors, numbers, declaration words and attributes, then `Parser`.
Numbers have the types, widths and signs that gcc uses. `Parser` reads constant expressions,
specifiers and tags, declarators, and whole declarations.
"""

from __future__ import annotations

import functools
import operator
import re
from itertools import pairwise
from math import copysign
from struct import pack, unpack

from .._errors import TYPE_CHECKING, SignatureError, did_you_mean
from .._types.ctype import MAX_DEPTH, SCALARS, WORD, Scalar, integer
from .._types.grammar import shown
from .._types.written import KEYWORDS
from .cffitype import of_c
from .lexer import BASIC, Unexpanded, basic_type, fit, tokenizer, typed_integer
from .nodes import (
    ANONYMOUS,
    BASICS,
    CHARACTERS,
    VA_LIST,
    ArrayOf,
    Enumeration,
    FunctionOf,
    Node,
    Number,
    PointerTo,
    Record,
    Unusable,
    agree,
    called,
    copied,
    function_of,
    name_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .lexer import Integer

    #: An integer with its type, or another value with its code (`"f"`, `"d"`, `"g"`, `"bytes"`), or
    #: a pointer with its node.
    Value = Integer | tuple[float | bytes, str] | tuple[int, Node]


class Unknown(SignatureError):
    """Raised for text that cannot be parsed, and for values that cannot be computed.

    Attributes
    ----------
    at : int or None
        Index of the wrong token; None for the next token of the parser.
    """

    def __init__(self, reason: str, at: int | None = None, hint: str | None = None) -> None:
        super().__init__(reason, hint=hint)
        self.at = at


def fault(error: Exception, tokens: Sequence[str], at: int) -> tuple[str, int]:
    """Return the message of a parser error and the index of the wrong token.

    The index is `at`, unless the error has its own.
    """
    named = getattr(error, "at", None)
    at = at if named is None else named
    token = tokens[at] if at < len(tokens) else ""
    if isinstance(token, Unexpanded):
        reason = "has parameters and is not expanded in declarations given as text"
        return f"macro {token.rstrip()!r} {reason}", at
    return getattr(error, "reason", "nested too deeply"), at


# -- numbers ---------------------------------------------------------------------------------------

INT = typed_integer("0")[1]  # bits of an int
_LEVELS = {
    word: level
    for level, words in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"), 1
    )
    for word in words.split()
}
_COMPARED = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_COMPUTED = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
_ESCAPES = dict(zip("abefnrtv", b"\a\b\x1b\f\n\r\t\v", strict=True))
_ESCAPE = rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]+)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))"
_BUILTINS = {
    f"__builtin_{name}{suffix}": (float(value), code)
    for name, value in (("inf", "inf"), ("huge_val", "inf"), ("nan", "nan"))
    for suffix, code in (("f", "f"), ("", "d"), ("l", "g"))
}


def of_int(value: int) -> Integer:
    """Return an enumerator's value with its type: int, or the first longer type that can hold it.

    A value of 2**63 or more has an unsigned type.
    """
    try:
        _, bits, signed = typed_integer(f"{max(value, -1 - value)}{'u' * (value >= 2**63)}")
    except OverflowError as error:
        raise Unknown(str(error)) from None
    return value, bits, signed


def _common(left: Integer, right: Integer) -> tuple[int, bool]:
    """Return the common type of two operands."""
    bits = max(left[1], right[1])
    return bits, all([one[2] for one in (left, right) if one[1] == bits])


def _promoted(value: Integer) -> Integer:
    return value if value[1] >= INT else (value[0], INT, True)


def _fitting(value: int, bits: int, signed: bool) -> Integer:
    found = fit(value, bits, signed)
    if signed and found != value:
        raise Unknown("a constant overflows its type")
    return found, bits, signed


def _is_number(value: Value) -> bool:
    return len(value) == 3 or isinstance(value[0], float)


def _binary(op: str, left: Value, right: Value) -> Value:
    """Return the result of a binary operator."""
    if not (_is_number(left) and _is_number(right)):
        raise Unknown("arithmetic with a value that is not a number")
    if op in ("&&", "||"):
        both = bool(left[0]), bool(right[0])
        return int(all(both) if op == "&&" else any(both)), INT, True
    if len(left) == 3 and len(right) == 3:
        return _of_integers(op, _promoted(left), _promoted(right))
    a, b = float(left[0]), float(right[0])
    if op in _COMPARED:
        return int(_COMPARED[op](a, b)), INT, True
    code = max(["f" if len(one) == 3 else str(one[1]) for one in (left, right)], key="fdg".index)
    if code == "g":
        raise Unknown("arithmetic on long double is not supported")
    if op == "/" and b == 0:
        is_nan = a == 0 or a != a
        return float("nan") if is_nan else copysign(float("inf"), a * copysign(1, b)), code
    if op not in ("+", "-", "*", "/"):
        raise Unknown(f"{op!r} on floats is not supported")
    return _float(a / b if op == "/" else _COMPUTED[op](a, b), code)


def _of_integers(op: str, left: Integer, right: Integer) -> Integer:
    if op in ("<<", ">>"):
        value, bits, signed = left
        if not 0 <= right[0] < bits:
            raise Unknown("a constant is shifted by more than its width")
        return fit(value << right[0] if op == "<<" else value >> right[0], bits, signed), *left[1:]
    bits, signed = _common(left, right)
    a, b = fit(left[0], bits, signed), fit(right[0], bits, signed)
    if op in _COMPARED:
        return int(_COMPARED[op](a, b)), INT, True
    if op in _COMPUTED:
        return _fitting(_COMPUTED[op](a, b), bits, signed)
    if b == 0:
        raise Unknown("a constant is divided by zero")
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return _fitting(quotient if op == "/" else a - quotient * b, bits, signed)


def _float(value: float, code: str) -> Value:
    if code == "f":
        try:
            value = unpack("f", pack("f", value))[0]
        except OverflowError:
            value = copysign(float("inf"), value)
    return value, code


def _number(token: str) -> Value:
    text = token.replace("'", "").lower()
    is_hex = text[:2] == "0x"
    has_exponent = "p" in text or ("e" in text and text[:2] not in ("0x", "0b"))
    try:
        if not (has_exponent or "." in text):
            if not text.isalnum():
                raise ValueError
            return typed_integer(text)
        decimal = r"(.*?[0-9.])(f(?:16|32x?|64x?|128)?|l|)"
        match = re.fullmatch(r"(.*p[-+]?[0-9]+)(f|l|)" if is_hex else decimal, text)
        if match is None or "_" in text:
            raise ValueError
        digits, suffix = match.groups()
        value = float.fromhex(digits) if is_hex else float(digits)
        code = {"": "d", "f": "f", "l": "g", "f32": "f", "f64": "d", "f32x": "d"}.get(suffix)
    except OverflowError as error:
        raise Unknown(str(error)) from None
    except ValueError:
        raise Unknown(f"{token!r} is not a number") from None
    if code is None:
        raise Unknown(f"{token!r} has an unsupported type")
    if code == "g" and (
        value == float("inf") or (value == 0 and re.search("[1-9]", digits.split("e")[0]))
    ):
        raise Unknown(f"{token!r} is out of range for a double")
    return _float(value, code)


def _bytes(token: str) -> bytes:
    """Return the bytes of a string or character literal."""

    def escaped(match: re.Match[bytes]) -> bytes:
        octal, hexadecimal, short, long, other = match.groups()
        if octal or hexadecimal:
            number = int(octal, 8) if octal else int(hexadecimal, 16)
            if number > 255:
                raise Unknown("an escape sequence is out of range")
            return bytes([number])
        if short or long:
            return chr(int(short or long, 16)).encode()
        return bytes([_ESCAPES.get(chr(other[0]), other[0])])

    return re.sub(_ESCAPE, escaped, token[1:-1].encode(errors="surrogateescape"), flags=re.DOTALL)


def _character(token: str, prefix: str) -> Value:
    found = _bytes(token)
    if prefix:
        text = found.decode(errors="replace")
        code = {"L": "i", "u": "H", "U": "I", "u8": "B"}[prefix]
        if len(text) != 1:
            raise Unknown(f"{token} is not a single character")
        return ord(text), 8 * SCALARS[code].size, SCALARS[code].signed
    if len(found) > INT // 8:
        raise Unknown(f"{token} has too many characters")
    signed = len(found) == 1 and SCALARS["c"].signed
    return fit(int.from_bytes(found, "big", signed=signed), INT, True), INT, True


def cast(value: Value, node: Node) -> Value:
    number = value[0]
    if isinstance(number, bytes):
        if isinstance(node, PointerTo) and node.item.size == 1:
            return value
        raise Unknown("the address of a string is not a constant")
    if isinstance(node, PointerTo):
        if isinstance(number, float):
            raise Unknown("a float is not an address")
        return number % 2 ** (8 * WORD), node
    if not isinstance(node, Number):
        raise Unknown("a cast to a type that a constant cannot have")
    scalar = node.scalar
    if scalar.kind == "bool":
        return int(number != 0), 8, False
    if scalar.kind == "int":
        if isinstance(number, float) and not abs(number) < 2.0 ** (8 * scalar.size - scalar.signed):
            raise Unknown("a float is out of range for an integer type")
        bits = 8 * scalar.size
        return fit(int(number), bits, scalar.signed), bits, scalar.signed
    if scalar.kind == "float" and scalar.native:
        return _float(float(number), scalar.text)
    raise Unknown("a cast to a type that a constant cannot have")


# -- words and attributes --------------------------------------------------------------------------

_PACK = re.compile(
    r"#pragma pack\s*\(\s*"
    r"(?:(\d\w*)|(push|pop)(?:\s*,\s*([^\W\d]\w*))?(?:\s*,\s*(\d\w*))?)?\s*\)"
)
_GREATEST_ALIGNMENT = 1 << 28  # limit of compilers
_MAX_ALIGNMENT = 16  # the alignment for 'aligned' without a number

_ATTRIBUTES = ("__attribute__", "__attribute", "__declspec")
# The words that can begin a declaration, with their kinds and meanings.
WORDS: dict[str, tuple[str, str]] = {word: ("basic", word) for word in BASIC}
for _kind, _meant, _spelled in (
    ("basic", "signed", "__signed __signed__"),
    ("basic", "_Complex", "__complex __complex__"),
    ("const", "", "const __const __const__"),
    ("ignored", "", "volatile __volatile __volatile__ restrict __restrict __restrict__ auto"),
    ("ignored", "", "__extension__ register _Noreturn _Thread_local __thread thread_local"),
    ("ignored", "", "__cdecl __stdcall _Nonnull _Nullable constexpr"),
    ("inline", "", "inline __inline __inline__"),
    ("storage", "typedef", "typedef"),
    ("storage", "extern", "extern"),
    ("storage", "static", "static"),
    ("record", "", "struct union"),
    ("enum", "", "enum"),
    ("typeof", "", "typeof __typeof __typeof__ typeof_unqual"),
    ("attribute", "", " ".join(_ATTRIBUTES)),
    ("alignas", "", "_Alignas alignas"),
    ("atomic", "", "_Atomic"),
):
    WORDS |= dict.fromkeys(_spelled.split(), (_kind, _meant))
ASM = ("__asm__", "__asm", "asm")
_TRAILING = {*_ATTRIBUTES, *ASM, "[", "__extension__", "_Noreturn"}  # can follow a name
UNWRITTEN = {word for word, (kind, _) in WORDS.items() if kind in ("ignored", "inline")}
UNWRITTEN |= {"extern", "static", *_ATTRIBUTES}
_RESERVED = {*WORDS, *KEYWORDS} - {"bool", "complex"}
# Attributes that affect calls or layouts in ways that nativecall does not support.
_ODD = frozenset(
    ("ms_abi", "sysv_abi", "stdcall", "fastcall", "thiscall", "vectorcall", "regparm", "pcs")
    + ("aarch64_vector_pcs", "scalar_storage_order", "ms_struct", "interrupt", "transparent_union")
)
TRANSPARENT = "transparent_union"  # a union that is passed as its first member
_MODES = {"QI": 1, "byte": 1, "HI": 2, "SI": 4, "DI": 8, "word": WORD, "pointer": WORD}
OTHER_TYPES: dict[str, Node] = {
    "_Float16": Number(SCALARS["e"], cname="_Float16"),
    "__fp16": Number(SCALARS["e"], cname="_Float16"),
    "_Float32": BASICS["float"],
    "_Float64": BASICS["double"],
    "_Float32x": BASICS["double"],
    "_Float64x": BASICS["long double"],
    VA_LIST: Unusable(
        "a 'va_list' cannot be made outside C",
        24 if WORD == 8 else None,
        WORD,
        VA_LIST,
    ),
    **{
        name: Unusable(f"type {name!r} is not supported", size, size, name)
        for size, names in (
            (2, "__bf16"),
            (4, "_Decimal32"),
            (8, "_Decimal64"),
            (16, "_Float128 __float128 _Decimal128 __int128 __int128_t __uint128_t _Float128x"),
        )
        for name in names.split()
    },
}


def _alignment(word: str) -> int:
    """Return the number in a word, or -1 if the word is not a number."""
    try:
        return typed_integer(word)[0]
    except (ValueError, OverflowError):
        return -1


class DeclSpecifiers:
    """The specifiers and attributes of a declaration, without the type."""

    const = packed = False
    storage = asm = mode = odd = ""
    aligned = vector = odd_at = 0

    def refuse_odd(self) -> None:
        """Reject an unsupported attribute that changes a function or a type."""
        if self.odd:
            raise Unknown(f"attribute {self.odd!r} is not supported", self.odd_at)

    def type(self, node: Node) -> Node:
        """Return a type with the attributes applied."""
        if self.mode:
            size = _MODES.get(self.mode)
            if not isinstance(node, Number) or node.scalar.kind != "int" or size is None:
                raise Unknown(f"mode {self.mode!r} is not supported")
            return Number(integer(size, node.scalar.signed))
        if self.vector:
            return Unusable("a vector type cannot be passed", self.vector, self.vector)
        return node

    def realigned(self, node: Node, name: str) -> Node:
        """Return the type of a typedef with these attributes."""
        node = self.type(node)
        if self.aligned and self.aligned != node.alignment and node.kind != "function":
            node = node.realigned(self.aligned, name)
        return node


# First characters of tokens that expressions may contain besides words and numbers.
_OPERATORS = frozenset("_+-*/%&|^~!<>=?:().[],'\"")
_SPACING = (
    *((" ( ", "("), ("( ", "("), (" (", "("), (" )", ")"), (" ,", ",")),
    *((" [ ", "["), (" [", "["), (" ]", "]")),
)
_NO_OPERATORS = frozenset(["...", "="])
#: Why a pointer to a function declared with ``()`` cannot be called.
NO_PROTOTYPE = "'()' does not declare the arguments"


def _elements(node: Node) -> Node:
    """Return the element type of a parameter's innermost array without a constant length.

    Return types without such an array unchanged.
    """
    inner = node
    while isinstance(inner, ArrayOf):
        if inner.written:
            node = inner.item
        inner = inner.item
    return node


class Parser:
    """Parses declarations from tokens.

    With `strict`, the parser raises `Unknown` for code that C forbids, and for code that users may
    not write in declarations. Otherwise, it accepts what compilers accept, and skips declarations
    that it does not support.

    Attributes
    ----------
    functions : dict of str to (FunctionOf, int, int)
        Each with the range of its declaration's tokens.
    inlines : set of str
        Functions with a body, which need not exist in a library.
    variables : dict of str to (Node, bool, int)
        Each with whether it is `const`, and the index of its first token.
    typedefs : dict of str to (Node, bool)
    tags : dict of str to Node
        Keys are spelled ``"struct name"``.
    values : dict of str to Value
        Enumerators and initialised constants.
    symbols : dict of str to str
        The `__asm__` names of functions and variables.
    skipped : dict of str to (str, int)
        Each with the reason, and the index of its first token.
    places : dict of str to int
        Indices of the tokens that name functions, variables and typedefs.
    """

    def __init__(self, tokens: list[str], strict: bool = False) -> None:
        self.strict = strict
        self.tokens: list[str] = [*tokens, *[""] * 8]
        self.at: int = 0  # index of the next token
        self.functions: dict[str, tuple[FunctionOf, int, int]] = {}
        self.inlines: set[str] = set()
        self.variables: dict[str, tuple[Node, bool, int]] = {}
        self.typedefs: dict[str, tuple[Node, bool]] = {
            name: (node, False) for name, node in OTHER_TYPES.items()
        }
        self.granted: dict[str, tuple[Node, bool]] = {**self.typedefs}
        self.tags: dict[str, Node] = {}
        self.values: dict[str, Value] = {}
        self.symbols: dict[str, str] = {}
        self.skipped: dict[str, tuple[str, int]] = {}
        self.places: dict[str, int] = {}
        self._linkages: list[int] = []  # indices of the '{' of open `extern "C"` blocks
        self._open: list[Record] = []  # structs whose bodies are being read
        self._packs: list[tuple[str | None, int]] = []
        self._pack = 0  # current value of '#pragma pack'
        self._unnamed = 0
        self._in_parameters = False
        self._dimensions = 0  # of the array being read
        self._ignored = False  # in an operand that C does not evaluate; it may divide by zero
        #: The index of the name in the last declarator; -1 if the declarator has no name.
        self.named: int = -1
        #: The most complete declaration of each name. Its kind is "" if another declaration
        #: contradicts it.
        self._declared: dict[str, tuple[str, Node, bool]] = {}
        self._fresh: list[str] = []  # names to withdraw if the current declaration fails

    # -- tokens -----------------------------------------------------------------------------------

    def accept(self, token: str) -> bool:
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise Unknown(f"expected {token!r}, found {shown(self.tokens[self.at])}", self.at)

    def step(self) -> str:
        """Consume and return the next token, which must exist."""
        token = self.tokens[self.at]
        if not token:
            raise Unknown("unexpected end")
        self.at += 1
        return token

    def starts_type(self, token: str) -> bool:
        return token in WORDS or token in self.typedefs

    def closing(self, at: int) -> int:
        """Return the index after the token at `at`, or after the whole bracket that it opens."""
        tokens, opening = self.tokens, at
        depth = 0
        while True:
            token = tokens[at]
            if token in ("(", "[", "{"):
                depth += 1
            elif token in (")", "]", "}"):
                depth -= 1
            elif not token:
                raise Unknown(f"{tokens[opening]!r} is never closed", opening)
            at += 1
            if depth <= 0:
                return at

    def names(self, token: str) -> bool:
        """Return whether a token is a name and not a C keyword."""
        return token.isidentifier() and token not in _RESERVED

    # -- constant expressions ---------------------------------------------------------------------

    def integer(self) -> int:
        """Parse an integer constant expression, and return its value."""
        start = self.at
        try:
            value = self.expression()
        except Unknown as error:
            error.at = start if error.at is None else error.at
            raise
        if len(value) != 3:
            raise Unknown("a constant must be an integer", start)
        return value[0]

    def expression(self, level: int = 0) -> Value:
        """Parse an expression of operators that bind tighter than `level`; return its value."""
        left = self._unary()
        while (found := _LEVELS.get(self.tokens[self.at], 0)) > level:
            op = self.step()
            decided = op in ("&&", "||") and bool(left[0]) == (op == "||")
            right = self._operand(found, decided)
            try:
                left = _binary(op, left, right)
            except Unknown:
                if not self._ignored:
                    raise
        if level == 0 and self.accept("?"):
            yes = self._operand(0, not left[0])
            self.expect(":")
            no = self._operand(0, bool(left[0]))
            if len(left) == 3 and len(yes) == 3 and len(no) == 3:
                yes, no = _promoted(yes), _promoted(no)
                bits, signed = _common(yes, no)
                return fit((yes if left[0] else no)[0], bits, signed), bits, signed
            if type(left[0]) is bytes or yes[1:] != no[1:]:
                raise Unknown("a choice between values of several types")
            return yes if left[0] else no
        return left

    def _operand(self, level: int, ignored: bool) -> Value:
        before, self._ignored = self._ignored, self._ignored or ignored
        try:
            return self.expression(level)
        finally:
            self._ignored = before

    def _unary(self) -> Value:
        token = self.tokens[self.at]
        self.at += 1
        if token[:1].isdigit() or (token[:1] == "." and token[1:2].isdigit()):
            return _number(token)
        if token == "(":
            if self.starts_type(self.tokens[self.at]):
                node = self.type_name()
                self.expect(")")
                if self.tokens[self.at] == "{":
                    raise Unknown("a compound literal is not a constant")
                return cast(self._unary(), node)
            value = self.expression()
            self.expect(")")
            if isinstance(value[0], bytes) and self.accept("["):
                return self._character_of(value[0])
            return value
        if token in ("+", "-", "~", "!"):
            value = self._unary()
            if not _is_number(value) or (token == "~" and len(value) != 3):
                raise Unknown("an operator on a value that is not a number")
            if token == "!":
                return int(not value[0]), INT, True
            if len(value) != 3:
                return (-value[0] if token == "-" else value[0]), str(value[1])  # type: ignore[operator]  # a float
            number, bits, signed = _promoted(value)
            return _fitting({"+": number, "-": -number, "~": ~number}[token], bits, signed)
        if token in ("sizeof", "_Alignof", "alignof", "__alignof__", "__alignof"):
            return self._size(token == "sizeof"), 8 * WORD, False
        if token == "__extension__":
            return self._unary()
        if token in _BUILTINS and self.accept("("):
            while not self.accept(")"):
                self.step()
            return _BUILTINS[token]
        if token == "__builtin_offsetof":
            return self._offset(), 8 * WORD, False
        if token in self.values and self.tokens[self.at] != "(":
            return self.values[token]
        prefix = token if token in ("L", "u", "U", "u8") else ""
        if prefix and self.tokens[self.at][:1] in ("'", '"'):
            token = self.step()
        if token[:1] == "'" and len(token) > 2:
            return _character(token, prefix)
        if token[:1] == '"':
            if prefix not in ("", "u8"):
                raise Unknown("a string of wide characters is not supported")
            text = _bytes(token)
            while self.tokens[self.at][:1] == '"':
                text += _bytes(self.step())
            return self._character_of(text) if self.accept("[") else (text, "bytes")
        if token.isidentifier():
            raise Unknown(f"{token!r} is not a constant", self.at - 1)
        raise Unknown(f"{token or 'nothing'!r} is not a constant expression", self.at - 1)

    def _character_of(self, text: bytes) -> Value:
        """Parse the index of a string element, after its '[', and return the element."""
        index = self.integer()
        self.expect("]")
        if not 0 <= index <= len(text):
            raise Unknown("an index is past the end of its string")
        signed = SCALARS["c"].signed
        return fit((text + b"\0")[index], 8, signed), 8, signed

    def _size(self, size: bool) -> int:
        """Parse the operand of `sizeof` or `_Alignof`, and return the result."""
        if self.tokens[self.at] == "(" and self.starts_type(self.tokens[self.at + 1]):
            self.at += 1
            node = self.type_name()
            self.expect(")")
        else:
            value = self._unary()
            if len(value) == 3:
                return value[1] // 8
            if isinstance(value[0], bytes):
                return len(value[0]) + 1
            node = Number(SCALARS[value[1]]) if isinstance(value[1], str) else value[1]
        if node.size is None:
            raise Unknown("the size of a type is not known")
        return node.size if size else node.alignment

    def _offset(self) -> int:
        self.expect("(")
        node = self.type_name()
        offset = 0
        while not self.accept(")"):
            self.step()  # ',' or '.'
            name = self.step()
            fields = (node.fields or ()) if isinstance(node, Record) else ()
            member = next((one for one in fields if one.name == name), None)
            if member is None or member.width is not None:
                raise Unknown("the offset of a member is not known")
            offset += member.offset
            node = member.type
        return offset

    # -- specifiers and attributes -----------------------------------------------------------------

    def pragma(self) -> None:
        """Apply ``#pragma pack(…)`` as gcc does; skip malformed and other pragmas."""
        match = _PACK.fullmatch(self.tokens[self.at].rstrip())
        self.at += 1
        if match is None:
            return
        alone, action, label, number = match.groups()
        if action == "pop":
            known = label is not None and label in [one for one, _ in self._packs]
            while self._packs and number is None:
                found, self._pack = self._packs.pop()
                if not known or found == label:
                    break
            return
        wanted = self._pack if action and number is None else _alignment(number or alone or "0")
        if wanted in (0, 1, 2, 4, 8, 16):  # compilers warn about other values
            if action:
                self._packs.append((label, self._pack))
            self._pack = wanted

    def specifiers(self) -> tuple[DeclSpecifiers, Node]:
        """Parse specifiers; return them, and the type that they specify."""
        tokens = self.tokens
        said = DeclSpecifiers()
        basic: list[str] = []
        node: Node | None = None
        start = first = self.at
        while True:
            token = tokens[self.at]
            word = WORDS.get(token)
            if word is None:
                if node is None and not basic and token in self.typedefs:
                    node, const = self.typedefs[token]
                    # The body of a struct may come after the typedef.
                    if node.main is not None and node.size is None:
                        node = node.main.realigned(node.alignment, node.typedef)
                    said.const = said.const or const
                    self.at += 1
                    continue
                if token == "[" and tokens[self.at + 1] == "[":
                    self.at = self.closing(self.at)
                    continue
                break
            kind, meant = word
            if kind == "attribute":
                self.attribute(said)
                continue
            self.at += 1
            if kind == "basic":
                first = first if basic else self.at - 1
                basic.append(meant)
            elif kind == "const":
                said.const = True
            elif kind == "storage":
                if said.storage:
                    both = f"'{said.storage} {meant}'"
                    raise Unknown(f"{both} cannot be combined", self.at - 1)
                said.storage = meant
            elif kind == "record":
                node = self._record(token)
            elif kind == "enum":
                node = self._enum()
            elif kind == "typeof":
                node = self._typeof()
            elif kind == "alignas":
                self.expect("(")
                is_type = self.starts_type(self.tokens[self.at])
                asked = self.type_name().alignment if is_type else self.alignment()
                said.aligned = max(said.aligned, asked)
                self.expect(")")
            elif kind == "atomic" and self.accept("("):
                node = self.type_name()
                self.expect(")")
        if basic:
            found = basic_type(basic)
            if node is not None and basic == ["_Complex"]:
                raise Unknown("an unknown complex type")
            if node is not None:
                raise Unknown(f"C has no type {' '.join(tokens[start : self.at])!r}", start)
            if found is None:
                raise Unknown(f"C has no type {' '.join(basic)!r}", first)
            node = BASICS[found]
        if node is None:
            raise self.no_type(start)
        node = said.type(node)
        said.mode, said.vector = "", 0
        return said, node

    def no_type(self, start: int) -> Unknown:
        """Return the error for a missing type, after words that begin at `start`."""
        token = self.tokens[self.at]
        if token.isidentifier() and token not in KEYWORDS:
            hint = "declare it with typedef first"
            if self.strict:  # headers have many such errors, and most are never shown
                from difflib import get_close_matches

                known = sorted({*BASIC, *self.typedefs})
                hint += did_you_mean(get_close_matches(token, known, n=2, cutoff=0.76))
            return Unknown(f"unknown type name {token!r}", self.at, hint)
        if self.at > start:
            return Unknown(f"expected a type after {self.tokens[self.at - 1]!r}", start)
        return Unknown(f"expected a type, found {shown(token)}", self.at)

    def _typeof(self) -> Node:
        self.expect("(")
        token = self.tokens[self.at]
        if self.starts_type(token):
            node = self.type_name()
        else:
            known = self.functions.get(token) or self.variables.get(token)
            if known is None or self.tokens[self.at + 1] != ")":
                raise Unknown("the type of an expression is not known")
            node = known[0]
            self.at += 1
        self.expect(")")
        return node

    def alignment(self) -> int:
        """Parse an alignment."""
        start = self.at
        found = self.integer()
        if found < 0 or found & (found - 1) or found > _GREATEST_ALIGNMENT:
            raise Unknown(
                f"an alignment must be a power of two, at most 2**28 (found {found})", start
            )
        return found

    def attribute(self, said: DeclSpecifiers) -> None:
        """Parse one ``__attribute__((…))``."""
        tokens, start = self.tokens, self.at
        if tokens[start + 1] != "(":
            raise Unknown("expected '(…)' after an attribute", start)
        end = self.closing(start + 1)
        self.at = start + (3 if tokens[start + 2] == "(" else 2)
        while self.at < end:
            name = self.step().strip("_")
            given = tokens[self.at] == "("
            after = self.closing(self.at) if given else self.at
            if name == "packed":
                said.packed = True
            elif name == "aligned":
                self.at += 1
                said.aligned = max(said.aligned, self.alignment() if given else _MAX_ALIGNMENT)
            elif name == "mode" and given:
                said.mode = tokens[self.at + 1].strip("_")
            elif name == "vector_size":
                self.at += 1
                said.vector = self.integer()
            elif name in _ODD:
                said.odd, said.odd_at = name, start
            self.at = after
        self.at = end

    def trailing(self, said: DeclSpecifiers) -> None:
        """Parse attributes and an `__asm__` name after a declarator."""
        tokens = self.tokens
        while (token := tokens[self.at]) in _TRAILING:
            if token in _ATTRIBUTES:
                self.attribute(said)
            elif token in ASM and tokens[self.at + 1] == "(":
                self.at += 2
                name = ""
                while not self.accept(")"):
                    name += self.step().strip('"')
                said.asm = name
            elif token == "[" and tokens[self.at + 1] == "[":
                self.at = self.closing(self.at)
            elif token in ("__extension__", "_Noreturn"):
                self.at += 1
            else:
                return

    def assertion(self) -> bool:
        """Parse a ``_Static_assert``; return False if there is none here.

        Raise `Unknown` if the condition can be computed and is false.
        """
        start = self.at
        if self.tokens[start] not in ("_Static_assert", "static_assert"):
            return False
        self.at += 1
        self.expect("(")
        end = self.closing(start + 1)
        try:
            holds = bool(self.expression()[0])
        except Unknown:
            holds = True
        if not holds:
            said = self.tokens[self.at + 1] if self.tokens[self.at] == "," else ""
            raise Unknown(f"a static assertion fails{': ' * bool(said)}{said}", start)
        self.at = end
        self.expect(";")
        return True

    def _tagged(self, said: DeclSpecifiers, kind: str) -> str:
        """Parse attributes and the tag after `struct`, `union` or `enum`.

        Generate a tag if there is none.
        """
        self.trailing(said)
        token = self.tokens[self.at]
        if self.names(token):
            for other in {"struct", "union", "enum"} - {kind}:
                found = self.tags.get(f"{other} {token}")
                if found is not None and not found.is_kept:
                    raise Unknown(f"{other} {token!r} is already declared", self.at)
            self.at += 1
            return token
        if token != "{" and (kind, token) != ("enum", ":"):
            raise Unknown(f"expected a name or '{{', found {shown(token)}", self.at)
        self._unnamed += 1
        return f"{ANONYMOUS}{self._unnamed}_"

    def _record(self, kind: str) -> Node:
        said = DeclSpecifiers()
        tag = self._tagged(said, kind)
        named = self.at - 1
        record = self.tags.get(f"{kind} {tag}")
        has_body = self.tokens[self.at] == "{"
        if not isinstance(record, Record) or (has_body and record.is_kept):
            record = self.tags[f"{kind} {tag}"] = Record(kind, f"{kind} {tag}")
        if not has_body:
            return record
        if record.fields is not None or record in self._open:
            raise Unknown(f"{kind} {tag!r} is already declared with a body", named)
        end = self.closing(self.at)
        self._open.append(record)
        try:
            members = self._members(kind)
            self.trailing(said)
            record.transparent = said.odd == TRANSPARENT
            if not record.transparent:
                said.refuse_odd()
            if said.packed:
                members = [(*one[:4], True) for one in members]
            record.lay_out(members, said.aligned, self._pack)  # after all attributes
            if self.strict and record.reason:
                raise Unknown(f"{name_of(record)} has no size: {record.reason}", named)
        except SignatureError as error:
            if self.strict:
                raise
            record.reason = error.reason
            record.size = record.fields = None
            self.at = end
            self.trailing(said)
        self._open.pop()
        return record

    def _members(self, kind: str) -> list[tuple[str | None, Node, int | None, int, bool]]:
        tokens = self.tokens
        members: list[tuple[str | None, Node, int | None, int, bool]] = []
        seen: set[str] = set()
        self.expect("{")
        while not self.accept("}"):
            token = tokens[self.at]
            if token[:1] == "#":
                self.pragma()
                continue
            if self.accept(";") or self.assertion():
                continue
            start = self.at
            said, node = self.specifiers()
            if said.storage:
                raise Unknown(f"{said.storage!r} does not apply to a member", start)
            last = members[-1][1] if members and kind == "struct" else None
            if isinstance(last, ArrayOf) and last.length is None:
                raise Unknown(
                    "an array of unknown length must be the last member of a struct", start
                )
            if tokens[self.at] == ";":
                if isinstance(node, Record) and ANONYMOUS in node.cname:
                    self._once([name for name, _ in node.members()], seen, start)
                    members.append((None, node, None, said.aligned, said.packed))
                continue
            while True:
                one = copied(said)
                name, found = None, node
                if tokens[self.at] != ":":
                    name, found, _ = self.declarator(node, said.const)
                    self.call(node, name)
                    if name is None:
                        raise Unknown(f"expected a member, found {shown(tokens[self.at])}", self.at)
                    self._once([name], seen, self.named)
                width = self.integer() if self.accept(":") else None
                what = found.scalar.kind if isinstance(found, Number) else ""
                if width is not None and what not in ("int", "bool"):
                    raise Unknown("a bit-field must be an integer")
                if (width == 0 and name is not None) or (what == "bool" and (width or 0) > 1):
                    raise Unknown(f"the bit-field {name!r} has {width} bits")
                self.trailing(one)
                members.append((name, one.type(found), width, one.aligned, one.packed))
                if not self.accept(","):
                    break
            self.expect(";")
        return members

    def _once(self, names: Iterable[str], seen: set[str], at: int) -> None:
        """Record the names of members; reject duplicates."""
        for name in names:
            if name in seen:
                raise Unknown(f"there is already a member {name!r}", at)
            seen.add(name)

    def _enum(self) -> Node:
        said = DeclSpecifiers()
        tag = f"enum {self._tagged(said, 'enum')}"
        named = self.at - 1
        fixed: Scalar | None = None
        # A ':' before a number begins an unnamed bit-field; the number is its width, not a type.
        if self.tokens[self.at] == ":" and not re.match(r"[\d(]", self.tokens[self.at + 1]):
            self.at += 1
            start = self.at
            _, node = self.specifiers()
            fixed = node.scalar if isinstance(node, Number) else None
            if fixed is None or fixed.kind not in ("int", "bool"):
                raise Unknown("the type of an enum must be an integer", start)
        known = self.tags.get(tag)
        has_body = self.accept("{")
        if known is None or (has_body and (known.is_kept or not isinstance(known, Enumeration))):
            known = self.tags[tag] = Enumeration(tag, fixed or SCALARS["I"])
        if not has_body:
            return known
        assert isinstance(known, Enumeration)
        if known.values is not None:
            raise Unknown(f"{tag!r} is already declared with a body", named)
        least = greatest = 0
        value = -1
        values: list[tuple[str, int]] = []
        # `unknown`: the previous enumerator if its value is not known; `missing`: the first reason.
        unknown = missing = ""
        first = self.at
        while self.at == first or not self.accept("}"):
            name, begun = self.tokens[self.at], self.at
            if not self.names(name):
                raise Unknown(f"expected an enumerator, found {shown(name)}", self.at)
            self.at += 1
            self.trailing(DeclSpecifiers())
            start = self.at
            try:
                if name in self.values or name in self._declared:
                    for kind in (self.values, self.functions, self.variables):
                        kind.pop(name, None)
                    raise Unknown(f"{name!r} is already declared", begun)
                if not self.accept("=") and unknown:
                    raise Unknown(f"it follows {unknown!r}")
                value = self.integer() if self.at > start else value + 1
                made = of_int(value)
                if fixed is not None:
                    fits = fit(value, 8 * fixed.size, fixed.signed) == value
                else:
                    fits = self.at > start or value != 2**63
                if not fits:
                    raise Unknown(f"{value} is out of range for the type of the enum", start)
                if self.tokens[self.at] not in (",", "}"):
                    found = shown(self.tokens[self.at])
                    raise Unknown(f"expected ',' or '}}', found {found}", self.at)
            except SignatureError as error:
                if self.strict:
                    raise
                unknown = name
                missing = missing or (
                    f"the value of its enumerator {name!r} is not known: {error.reason}"
                )
                self.skipped[name] = f"an enumerator without a value: {error.reason}", start - 1
                self.at = start
                while self.tokens[self.at] not in (",", "}"):
                    self.at = self.closing(self.at)
            else:
                unknown = ""
                least, greatest = min(least, value), max(greatest, value)
                self.values[name] = made
                values.append((name, value))
            self.accept(",")
        self.trailing(said)
        if missing and fixed is None:
            self.tags[tag] = Unusable(missing)
            return self.tags[tag]
        if fixed is None:
            signed = least < 0
            sizes = [
                size
                for size in ((1, 2, 4) if said.packed else (4,))
                if greatest < 2 ** (8 * size - signed) and -least <= 2 ** (8 * size - 1)
            ]
            fixed = integer(sizes[0] if sizes else 8, signed)
        known.scalar, known.values = fixed, values  # in place: pointers to the enum may exist
        known.size, known.alignment = fixed.size, fixed.alignment
        return known

    # -- declarators ------------------------------------------------------------------------------

    def declarator(self, node: Node, const: bool) -> tuple[str | None, Node, bool]:
        """Parse a declarator; return its name (or None), type, and whether the type is `const`."""
        tokens = self.tokens
        said = DeclSpecifiers()
        while True:
            token = tokens[self.at]
            if token == "*":
                node, const = node.pointer(const), False
                self.at += 1
            elif (word := WORDS.get(token, ("",))[0]) in ("const", "ignored", "atomic"):
                self.at += 1
                const = const or word == "const"
            elif token in _ATTRIBUTES:
                self.attribute(said)
            else:
                break
        said.refuse_odd()
        if token == "(" and self._nests(tokens[self.at + 1]):
            inside = self.at + 1
            self.at = self.closing(self.at)
            node = self._suffixes(node, const)
            after, self.at = self.at, inside
            const = const and node.kind == "array"
            name, node, const = self.declarator(node, const)
            self.expect(")")
            self.at = after
            return name, node, const
        name, named = None, -1
        if self.names(token):
            name, named = token, self.at
            self.at += 1
            while tokens[self.at] == "[" == tokens[self.at + 1]:
                self.at = self.closing(self.at)
        if tokens[self.at] in ("(", "["):
            node = self._suffixes(node, const)
        self.named = named
        return name, said.type(node), const

    def type_name(self) -> Node:
        said, node = self.specifiers()
        _, node, _ = self.declarator(node, said.const)
        return said.type(node)

    def single(self) -> tuple[DeclSpecifiers, str | None, Node]:
        """Parse one declaration, including attributes after its declarator."""
        said, node = self.specifiers()
        name, node, _ = self.declarator(node, said.const)
        self.trailing(said)
        return said, name, node

    def whole(self) -> Node:
        """Parse a single declaration up to the end, and return its type."""
        said, _, node = self.single()
        said.refuse_odd()
        self.accept(";")
        if self.tokens[self.at]:
            raise Unknown(f"unexpected {self.tokens[self.at]!r}")
        return said.type(node)

    def function(self) -> FunctionOf:
        """Parse a single declaration of a function or function pointer; return the function."""
        if "typedef" in self.tokens:
            raise Unknown("a typedef is not a function", 0)
        found = function_of(self.whole())
        if found is None:
            # The last "name" may be an undeclared type in parentheses.
            if self.named > 0 and self.tokens[self.named - 1 : self.named + 2 : 2] == ["(", ")"]:
                self.at = self.named
                raise self.no_type(self.named)
            raise Unknown("not a function", 0, "write 'double (double)'")
        return found

    def _nests(self, token: str) -> bool:
        """Return whether a parenthesis before `token` starts a declarator, not parameters."""
        if token in ("*", "(", "__attribute__", "__cdecl", "["):
            return True
        if not self.names(token) or self.starts_type(token):
            return False
        if self.tokens[self.at + 2] not in (")", "(", "["):
            self.at += 1
            raise self.no_type(self.at)
        return True

    def _suffixes(self, node: Node, const: bool) -> Node:
        """Parse the brackets after a name; return the array or function type made from `node`."""
        if self.tokens[self.at] == "[" and self.tokens[self.at + 1] != "[":
            self._dimensions += 1
            if self._dimensions > MAX_DEPTH:
                raise Unknown(f"nested more than {MAX_DEPTH} levels deep", self.at)
            opening = self.at
            self.at += 1
            while WORDS.get(self.tokens[self.at], ("",))[0] in ("const", "ignored", "storage"):
                self.at += 1
            length: int | None = None
            written = ""
            if self.tokens[self.at] == "*" and self.tokens[self.at + 1] == "]":
                self.at += 1
            elif self.tokens[self.at] != "]":
                closing = self.closing(opening) - 1
                begun = self.at
                try:
                    length = self.integer()
                except Unknown:
                    if not self._in_parameters:
                        raise
                    written = self._length(begun, closing)
                    self.at = closing
            self.expect("]")
            node = self._suffixes(node, const)
            self._dimensions = 0
            known = node.reason or node.is_kept  # whether the reason for a missing size is known
            if node.size is None and not known and _elements(node) is node:
                raise Unknown("an array's elements have no known size", opening)
            return ArrayOf(node, length, written)
        if self.accept("("):
            return self._function(node, const)
        return node

    def _length(self, start: int, end: int) -> str:
        """Return the text of a parameter's array length that is not constant."""
        for at in range(start, end):
            token = self.tokens[at]
            if token in _NO_OPERATORS or not (token[0].isalnum() or token[0] in _OPERATORS):
                raise Unknown(f"unexpected {token!r}", at)
        return " ".join(self.tokens[start:end])

    def _function(self, result: Node, const: bool) -> Node:
        outer, self._in_parameters = self._in_parameters, True
        self._dimensions = 0
        found: list[tuple[Node, str | None, int | str | None, int]] = []
        ellipsis = False
        reason = NO_PROTOTYPE if self.accept(")") else ""
        while not reason:
            start = self.at
            if self.accept("..."):
                ellipsis = True
                if not self.accept(")") or not found:
                    raise Unknown(
                        "'...' must come last in a function's arguments, after others", start
                    )
                break
            said, base = self.specifiers()
            name, node, constant = self.declarator(base, said.const)
            self.call(base, name)
            if said.storage:
                raise Unknown(f"{said.storage!r} does not apply to a parameter", start)
            place = start if name is None else self.named
            self.trailing(said)
            node = said.type(node)
            if name is not None and name in [one[1] for one in found]:
                raise Unknown(f"there is already a parameter {name!r}", self.named)
            length: int | str | None = None
            if isinstance(node, ArrayOf):
                length = node.written or node.length
                whole, node = node, _elements(node.item)
                if whole.alignment > node.alignment:
                    node = node.realigned(whole.alignment)
                node = node.pointer(constant)
            elif isinstance(node, PointerTo) and _elements(node.item) is not node.item:
                node = _elements(node.item).pointer(node.const)
            elif isinstance(node, FunctionOf):
                node = node.pointer()
            found.append((node, name, length, place))
            if not self.accept(","):
                self.expect(")")
                break
        if len(found) == 1 and found[0][0].kind == "void" and found[0][1] is None:
            found = []
        self._in_parameters = outer
        result = self._suffixes(result, const)
        args, names, lengths, places = zip(*found, strict=True) if found else ((),) * 4
        lengths = lengths if any(lengths) else ()
        return FunctionOf(result, args, ellipsis, names, lengths, reason, places)

    # -- declarations -----------------------------------------------------------------------------

    def call(self, node: Node, name: str | None) -> None:
        """Record the first name declared with an untagged struct or union, for messages."""
        if name and ANONYMOUS in node.cname and node.cname[-1] == "_" and node.kind != "enum":
            node.cname += name

    def _external(self) -> None:
        tokens, start = self.tokens, self.at
        token = tokens[start]
        self._fresh = []
        if token[0] == "#":
            self.pragma()
            return
        if self.accept(";") or self.assertion():
            return
        if token == "extern" and tokens[start + 1][:1] == '"':
            self.at += 2
            if self.accept("{"):
                self._linkages.append(self.at - 1)
            return
        if token == "}" and self._linkages:
            self._linkages.pop()
            self.at += 1
            return
        if token in ASM and tokens[start + 1] == "(":
            self.at = self.closing(start + 1)
            self.accept(";")
            return
        said, node = self.specifiers()
        if self.accept(";"):
            return
        alone = True
        while True:
            begun = self.at
            name, declared, const = self.declarator(node, said.const)
            end, named = self.at, self.named
            if said.storage != "typedef":
                self.call(node, name)
            one = copied(said)
            self.trailing(one)
            if name is None:
                raise Unknown(f"expected a name or ';', found {shown(tokens[self.at])}", self.at)
            if one.odd == TRANSPARENT and isinstance(declared, Record):
                declared.transparent = True
            else:
                one.refuse_odd()
            alone = alone and tokens[self.at] != ","
            place = (start, end) if alone else (begun, end)
            declared = one.type(declared)
            self._check(name, declared, const, one.storage == "typedef", named)
            self.places.setdefault(name, named)
            self._declare(name, declared, const, one, place)
            if self.accept(","):
                continue
            has_body = isinstance(declared, FunctionOf) and tokens[self.at - 1] == "}"
            if not self.accept(";") and not has_body:
                raise Unknown(f"expected ';', found {shown(tokens[self.at])}", self.at)
            return

    def _check(self, name: str, node: Node, const: bool, is_typedef: bool, named: int) -> None:
        """Reject a redeclaration that C forbids; keep the more complete declaration."""
        kind = (
            "typedef" if is_typedef else "function" if isinstance(node, FunctionOf) else "variable"
        )
        new = kind, node, const and kind != "function"
        before = self._declared.get(name)
        if before is None:
            self._declared[name] = new
            self._fresh.append(name)
            if name in self.values:
                raise Unknown(f"{name!r} is already declared as a constant", named)
            return
        old = before[1]
        if before[::2] != new[::2] or not agree(old, node):
            self._declared[name] = "", old, before[2]
            self._fresh.append(name)
            spelled = f"{'const ' * before[2]}{old.spell('')}"
            raise Unknown(f"{name!r} was declared as {spelled!r} before", named)
        if old.reason if isinstance(old, FunctionOf) else old.size is None:
            self._declared[name] = new

    def _declare(
        self, name: str, node: Node, const: bool, said: DeclSpecifiers, place: tuple[int, int]
    ) -> None:
        if said.storage == "typedef":
            plain, node = node, said.realigned(node, name)
            unnamed = ANONYMOUS in node.cname
            if unnamed and isinstance(node, (Record, Enumeration)) and not plain.typedef:
                node.typedef = name
                node.main = None
                if isinstance(node, Record) or node is not plain:
                    node.cname = f"{node.kind} {ANONYMOUS}0_{name}"
                if node is not plain:
                    self.tags[node.cname] = node
            if name in CHARACTERS and isinstance(node, Number) and node.scalar is of_c(name):
                node = Number(node.scalar, node.alignment, name)
            self.typedefs[name] = called(node, name), const
            return
        says_most = self._declared[name][1] is node
        if said.asm:
            self.symbols[name] = said.asm
        if isinstance(node, FunctionOf):
            if node.reason == NO_PROTOTYPE:
                node = copied(node)  # other uses of the type keep the reason
                node.reason = ""  # the function is called without arguments, as in C23
            if self.tokens[self.at] == "{":
                self.at = self.closing(self.at)
                if said.storage != "extern":
                    self.inlines.add(name)
            if says_most:
                self.functions[name] = (node, *place)
        elif self.accept("=") or said.storage == "static":
            self._initialised(name, node, const, said.storage == "static", place[0])
        elif says_most:
            self.variables[name] = (node, const, place[0])

    def _initialised(self, name: str, node: Node, const: bool, static: bool, start: int) -> None:
        """Parse an initialiser; a constant becomes the value of the name."""
        begun = self.at
        if const and isinstance(node, Number):
            try:
                value = cast(self.expression(), node)
                if self.tokens[self.at] in (",", ";"):
                    self.values[name] = value
                    return
            except Unknown:
                pass
        if self.strict and static:
            raise Unknown(f"{name!r} is not a constant", self.places[name], "leave it out")
        self.at = begun
        while self.tokens[self.at] not in (",", ";", ""):
            self.at = self.closing(self.at)
        if static:
            self.skipped[name] = "a static variable is not exported by any library", start
        else:
            self.variables.setdefault(name, (node, const, start))

    def _leave_out(self, start: int, reason: str) -> None:
        """Skip the declaration that begins at `start`, and record the reason."""
        tokens = self.tokens
        at = start
        name = last = ""
        record = False
        while tokens[at] and tokens[at] != ";":
            token = tokens[at]
            record = record or token in ("struct", "union", "enum")
            if token in ("(", "[", "{"):
                if token == "(" and not name and last not in ASM:
                    is_pointer = tokens[at + 1] == "*" and tokens[at + 2].isidentifier()
                    name = tokens[at + 2] if is_pointer else last
                end = self.closing(at)
                if token == "{" and name and not record:
                    at = end - 1
                    break
                at = end
                continue
            if token == "}" and at > start:
                at -= 1
                break
            if self.names(token):
                last = token
            at += 1
        self.at = at + 1
        name = name or last
        if "typedef" in tokens[start : start + 3]:
            self.typedefs[name] = Unusable(reason), False
        self.skipped[name] = reason, start
        for one in self._fresh:
            self.skipped[one] = reason, start
            self.functions.pop(one, None)
            self.variables.pop(one, None)
            self.values.pop(one, None)
            if self._declared[one][0]:
                del self._declared[one]
            if self.typedefs.pop(one, None) is not None:
                self.typedefs[one] = Unusable(reason), False

    def read(self) -> None:
        """Parse all declarations.

        With `strict`, raise the first error: `Unknown`, or a SignatureError about the next token.
        """
        while self.tokens[self.at]:
            start = self.at
            try:
                self._external()
            except (SignatureError, RecursionError) as error:
                if self.strict:
                    raise
                self._leave_out(start, fault(error, self.tokens, self.at)[0])
        if self._linkages:
            raise Unknown("'{' is never closed", self._linkages[-1])

    # -- source text ------------------------------------------------------------------------------

    def written(self, start: int, end: int) -> str:
        """Return the tokens of a declaration as one line, without parts irrelevant to callers."""
        tokens = self.tokens
        words: list[str] = []
        at = start
        while at < end:
            token = tokens[at]
            if token not in UNWRITTEN:
                words.append(token)
            at = self.closing(at + 1) if token in _ATTRIBUTES else at + 1
        text = " ".join(words)
        for found, wanted in _SPACING:
            text = text.replace(found, wanted)
        return text.replace("(*", " (*").replace("* ", "*")


# -- conditions ------------------------------------------------------------------------------------


def condition(tokens: list[str]) -> bool:
    """Return whether an ``#if`` expression, with macros expanded, is true.

    All integers have the longest type. Names that are not macros are 0.
    """

    def longest(token: str) -> str:
        if token[:1].isdigit():
            digits = token.rstrip("uUlL")
            return f"{digits}{'u' * ('u' in token[len(digits) :].lower())}ll"
        return "0ll" if token.isidentifier() else token

    for name, following in pairwise(tokens):
        if name.isidentifier() and following == "(":
            raise Unknown(f"{name!r} is used as a function")
    parser = Parser([*map(longest, tokens)])
    value = parser.integer()
    if parser.tokens[parser.at]:
        raise Unknown(f"unexpected {parser.tokens[parser.at]!r}")
    return value != 0


# -- predefined names of texts ---------------------------------------------------------------------

# Predefined names besides those of <stdint.h> and <stddef.h>. They include `va_list`: a function
# that takes one can be passed to C, although it cannot be called from Python.
_MEANT = {
    "bool": "_Bool",
    "FILE": "struct _IO_FILE",
    "PyObject": "struct _object",
    "Py_ssize_t": "ssize_t",
    "npy_intp": "intptr_t",
    "npy_uintp": "uintptr_t",
    "char8_t": "unsigned char",
    "va_list": VA_LIST,
}
_KNOWN = (
    *("size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t", "intmax_t", "uintmax_t"),
    *("wchar_t", "char16_t", "char32_t"),
    *[
        f"{sign}int{kind}{bits}_t"
        for sign in ("", "u")
        for kind in ("", "_least", "_fast")
        for bits in (8, 16, 32, 64)
    ],
)


@functools.cache
def common_types() -> dict[str, tuple[Node, bool]]:
    """Return the predefined types of declarations in a text, in the form of `Parser.typedefs`."""
    import _cffi_backend

    meant = {**_MEANT}
    _cffi_backend._get_common_types(meant)  # on Windows, this adds the types of Windows
    text = " ".join([f"typedef {words} {name};" for name, words in meant.items()])
    first = Parser(tokenizer()(text))
    for name in _KNOWN:
        cname = name if name in CHARACTERS else ""
        first.typedefs[name] = called(Number(of_c(name), cname=cname), name), False
    first.read()
    return first.typedefs
