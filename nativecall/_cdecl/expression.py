"""Constant expressions of C from tokens: integers, floats, characters, strings and pointers.

`Expressions` is the part of a parser of headers that computes them, as gcc does: by type, width and
sign, with casts and `sizeof`. `Unknown` says why an expression is no constant, or none that is
known here.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from itertools import pairwise
from math import copysign
from struct import pack, unpack

from .._types.ctype import SCALARS, WORD
from .._types.grammar import shown
from .integers import INT, Unknown, binary, common, converted, unary
from .lexer import fit, typed_integer
from .nodes import BASICS, Node, Number, PointerTo, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .lexer import Integer

    #: An integer with its type, or another value with its code (`"f"`, `"d"`, `"g"`, `"bytes"`),
    #: or a pointer with its node.
    Value = Integer | tuple[float | bytes, str] | tuple[int, Node]

_LEVELS = {
    word: level
    for level, words in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"), 1
    )
    for word in words.split()
}
_ESCAPES = dict(zip("abefnrtv", b"\a\b\x1b\f\n\r\t\v", strict=True))
_ESCAPE = rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]+)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))"
_BUILTINS = {
    "__builtin_inff": (float("inf"), "f"),
    "__builtin_inf": (float("inf"), "d"),
    "__builtin_huge_valf": (float("inf"), "f"),
    "__builtin_huge_val": (float("inf"), "d"),
    "__builtin_huge_vall": (float("inf"), "g"),
    "__builtin_nanf": (float("nan"), "f"),
    "__builtin_nan": (float("nan"), "d"),
}


class Expressions(ABC):
    """What computes expressions from `tokens`, of which the one at `at` is next."""

    tokens: list[str]
    at: int
    values: dict[str, Value]

    @abstractmethod
    def starts_type(self, token: str) -> bool:
        """Whether a token begins the name of a type."""

    @abstractmethod
    def type_name(self) -> Node:
        """The type that is named next."""

    def accept(self, token: str) -> bool:
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise Unknown(f"expected {token!r}, found {shown(self.tokens[self.at])}", self.at)

    def integer(self) -> int:
        """The value of an integer constant expression."""
        start = self.at
        try:
            value = self.expression()
        except Unknown as error:
            error.at = start if error.at is None else error.at
            raise
        if len(value) != 3:
            raise Unknown("a constant is no integer", start)
        return value[0]

    def expression(self, level: int = 0) -> Value:
        """The value of what comes next, up to an operator that binds less than `level`."""
        left = self._unary()
        while (found := _LEVELS.get(self.tokens[self.at], 0)) > level:
            op = self.tokens[self.at]
            self.at += 1
            decided = op in ("&&", "||") and bool(left[0]) == (op == "||")
            right = self._operand(found, decided)
            try:
                left = _operate(op, left, right)
            except Unknown:
                if not self._ignored:
                    raise
        if level == 0 and self.accept("?"):
            yes = self._operand(0, not left[0])
            self.expect(":")
            no = self._operand(0, bool(left[0]))
            if len(left) == 3 and len(yes) == 3 and len(no) == 3:
                yes, no = _promoted(yes), _promoted(no)
                return converted(yes if left[0] else no, *common(yes, no))
            if type(left[0]) is bytes or yes[1:] != no[1:]:
                raise Unknown("a choice between values of several types")
            return yes if left[0] else no
        return left

    _ignored = False  # whether what is read is not evaluated, so that it may divide by zero

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
                    raise Unknown("a compound literal is no constant")
                return cast(self._unary(), node)
            value = self.expression()
            self.expect(")")
            if isinstance(value[0], bytes) and self.accept("["):
                return self._character_of(value[0])
            return value
        if token in ("+", "-", "~", "!"):
            value = self._unary()
            if len(value) == 3:
                return unary(token, _promoted(value))
            if not isinstance(value[0], float) or token == "~":
                raise Unknown("an operator on what is no number")
            if token == "!":
                return int(not value[0]), INT, True
            return (-value[0] if token == "-" else value[0]), str(value[1])
        if token in ("sizeof", "_Alignof", "alignof", "__alignof__", "__alignof"):
            return self._size(token == "sizeof"), 8 * WORD, False
        if token == "__extension__":
            return self._unary()
        if token in _BUILTINS and self.accept("("):
            while not self.accept(")"):
                self.at += 1 if self.tokens[self.at] else self._end()
            return _BUILTINS[token]
        if token == "__builtin_offsetof":
            return self._offset(), 8 * WORD, False
        if token in self.values and self.tokens[self.at] != "(":
            return self.values[token]
        prefix = token if token in ("L", "u", "U", "u8") else ""
        if prefix and self.tokens[self.at][:1] in ("'", '"'):
            token = self.tokens[self.at]
            self.at += 1
        if token[:1] == "'" and len(token) > 2:
            return _character(token, prefix)
        if token[:1] == '"':
            if prefix not in ("", "u8"):
                raise Unknown("a string of wide characters is not offered")
            text = _bytes(token)
            while self.tokens[self.at][:1] == '"':
                text += _bytes(self.tokens[self.at])
                self.at += 1
            return self._character_of(text) if self.accept("[") else (text, "bytes")
        if token.isidentifier():
            raise Unknown(f"{token!r} is no constant", self.at - 1)
        raise Unknown(f"{token or 'nothing'!r} is no constant expression", self.at - 1)

    def _character_of(self, text: bytes) -> Value:
        """An element of a string, after its '['."""
        index = self.integer()
        self.expect("]")
        if not 0 <= index <= len(text):
            raise Unknown("an index is beyond its string")
        signed = BASICS["char"].scalar.signed  # type: ignore[attr-defined]  # it is a Number
        return fit((text + b"\0")[index], 8, signed), 8, signed

    def _end(self) -> int:
        raise Unknown("unexpected end")

    def _size(self, size: bool) -> int:
        """What `sizeof`, or `_Alignof`, says of what comes next."""
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
            self.at += 1 if self.tokens[self.at] else self._end()  # ',' or '.'
            name = self.tokens[self.at]
            self.at += 1
            fields = (node.fields or ()) if isinstance(node, Record) else ()
            member = next((one for one in fields if one.name == name), None)
            if member is None or member.width is not None:
                raise Unknown("the offset of a member is not known")
            offset += member.offset
            node = member.type
        return offset


class _Condition(Expressions):
    """The expression of an ``#if``: all of its integers have the longest type."""

    def __init__(self, tokens: list[str]) -> None:
        self.at = 0
        self.values = {}
        self.tokens = [*map(self._longest, tokens), "", ""]

    def _longest(self, token: str) -> str:
        if token[:1].isdigit():
            digits = token.rstrip("uUlL")
            return f"{digits}{'u' * ('u' in token[len(digits) :].lower())}ll"
        return "0ll" if token.isidentifier() else token

    def starts_type(self, token: str) -> bool:
        return False

    def type_name(self) -> Node:
        raise Unknown("it has no types")


def condition(tokens: list[str]) -> bool:
    """Whether the expression of an ``#if`` is true, once its macros are expanded; what is no macro
    is 0.
    """
    for name, following in pairwise(tokens):
        if name.isidentifier() and following == "(":
            raise Unknown(f"{name!r} is used as a function")
    found = _Condition(tokens)
    value = found.integer()
    if found.tokens[found.at]:
        raise Unknown(f"unexpected {found.tokens[found.at]!r}")
    return value != 0


def _promoted(value: Integer) -> Integer:
    return value if value[1] >= INT else (value[0], INT, True)


def _operate(op: str, left: Value, right: Value) -> Value:
    if len(left) == 3 and len(right) == 3:
        return binary(op, _promoted(left), _promoted(right))
    if not all([len(one) == 3 or isinstance(one[0], float) for one in (left, right)]):
        raise Unknown("arithmetic with what is no number")
    a, b = float(left[0]), float(right[0])
    compared = {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "==": a == b, "!=": a != b}
    if op in compared:
        return int(compared[op]), INT, True
    if op in ("&&", "||"):
        return int(bool(a and b) if op == "&&" else bool(a or b)), INT, True
    code = max(["f" if len(one) == 3 else str(one[1]) for one in (left, right)], key="fdg".index)
    if code == "g":
        raise Unknown("arithmetic of long double is not computed")
    if op not in ("+", "-", "*", "/"):
        raise Unknown(f"{op!r} of floats is not computed")
    if op == "/" and b == 0:
        is_nan = a == 0 or a != a
        return float("nan") if is_nan else copysign(float("inf"), a * copysign(1, b)), code
    return _float(
        a + b if op == "+" else a - b if op == "-" else a * b if op == "*" else a / b, code
    )


def _float(value: float, code: str) -> Value:
    if code == "f":
        try:
            value = unpack("f", pack("f", value))[0]
        except OverflowError:
            value = copysign(float("inf"), value)
    return value, code


def _number(token: str) -> Value:
    text = token.replace("'", "").lower()
    if text[:2] in ("0x", "0b") and "." not in text and "p" not in text:
        floating = False
    else:
        floating = "." in text or "e" in text or "p" in text
    try:
        if not floating:
            if not text.isalnum():
                raise ValueError
            return typed_integer(text)
        match = re.fullmatch(r"(.*?[0-9.])(f(?:16|32x?|64x?|128)?|l|)", text)
        if text.startswith("0x"):
            match = re.fullmatch(r"(.*p[-+]?[0-9]+)(f|l|)", text)
        if match is None or "_" in text:
            raise ValueError
        digits, suffix = match.groups()
        value = float.fromhex(digits) if digits.startswith("0x") else float(digits)
        code = {"": "d", "f": "f", "l": "g", "f32": "f", "f64": "d", "f32x": "d"}.get(suffix)
    except OverflowError as error:
        raise Unknown(str(error)) from None
    except ValueError:
        raise Unknown(f"{token!r} is no number") from None
    if code is None:
        raise Unknown(f"{token!r} has a type that is not computed")
    if code == "g" and (
        value == float("inf") or (value == 0 and re.search("[1-9]", digits.split("e")[0]))
    ):
        raise Unknown(f"{token!r} is beyond a double")
    return _float(value, code)


def _bytes(token: str) -> bytes:
    """What a string or character literal consists of."""

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
            raise Unknown(f"{token} is no single character")
        return ord(text), 8 * SCALARS[code].size, SCALARS[code].signed
    if len(found) > INT // 8:
        raise Unknown(f"{token} has too many characters")
    char = BASICS["char"].scalar  # type: ignore[attr-defined]  # those of BASICS are Numbers
    if len(found) == 1 and char.signed:
        return int.from_bytes(found, "big", signed=True), INT, True
    return converted((int.from_bytes(found, "big"), INT, True), INT, True)


def cast(value: Value, node: Node) -> Value:
    number = value[0]
    if isinstance(number, bytes):
        if isinstance(node, PointerTo) and node.item.size == 1:
            return value
        raise Unknown("the address of a string is no constant")
    if isinstance(node, PointerTo):
        if isinstance(number, float):
            raise Unknown("a float is no address")
        return number % 2 ** (8 * WORD), node
    if not isinstance(node, Number):
        raise Unknown("a cast to a type that has no constants")
    scalar = node.scalar
    if scalar.kind == "bool":
        return int(number != 0), 8, False
    if scalar.kind == "int":
        if isinstance(number, float) and not abs(number) < 2.0 ** (8 * scalar.size - scalar.signed):
            raise Unknown("a float is beyond an integer type")
        return converted((int(number), 0, True), 8 * scalar.size, scalar.signed)
    if scalar.kind == "float" and scalar.native:
        return _float(float(number), scalar.code)
    raise Unknown("a cast to a type that has no constants")
