"""Integer constant expressions of C, computed as a compiler does: by type, width and sign.

`evaluate` takes a node of pycparser's tree: what stands between an array's brackets, after an
enumerator or after a bit-field's colon. Sizes of types and casts are nothing that is known here.
"""

from __future__ import annotations

from .csource import Integer, fit, typed_integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .csyntax import Node

INT = typed_integer("0")[1]  # its bits


class Unknown(Exception):
    """An expression is none, or one whose value is not known here; it says what is wrong, or ""."""


class Unclosed(Unknown):
    """A bracket is never closed, so that what follows it cannot be told from what is in it.

    Attributes
    ----------
    at : int
        The token's index.
    """

    def __init__(self, at: int, bracket: str) -> None:
        super().__init__(f"{bracket!r} is never closed")
        self.at = at


def of_int(value: int) -> Integer:
    """An enumerator's value with its type: int, or the first longer type that has it."""
    _, bits, signed = typed_integer(str(abs(value)))
    return value, bits, signed


def evaluate(node: Node, known: Mapping[str, Integer]) -> Integer:
    """The value of a constant expression, the bits of its type, and its signedness, with the
    constants that are `known`; `Unknown` where there is none.
    """
    kind = type(node).__name__
    if kind == "Constant" and "int" in node.type and "'" not in node.value:
        try:
            return typed_integer(node.value)
        except (OverflowError, ValueError) as error:
            raise Unknown(str(error)) from None
    if kind == "ID" and node.name in known:
        return known[node.name]
    if kind == "UnaryOp" and node.op in ("+", "-", "~", "!"):
        return unary(node.op, evaluate(node.expr, known))
    if kind == "TernaryOp":
        condition = evaluate(node.cond, known)[0]
        yes, no = evaluate(node.iftrue, known), evaluate(node.iffalse, known)
        return converted(yes if condition else no, *common(yes, no))
    if kind == "BinaryOp":
        return binary(node.op, evaluate(node.left, known), evaluate(node.right, known))
    raise Unknown("")


def unary(op: str, operand: Integer) -> Integer:
    value, bits, signed = operand
    if op == "!":
        return int(not value), INT, True
    return fitting({"+": value, "-": -value, "~": ~value}[op], bits, signed)


def common(left: Integer, right: Integer) -> tuple[int, bool]:
    """The type that both operands are converted to."""
    bits = max(left[1], right[1])
    return bits, all([one[2] for one in (left, right) if one[1] == bits])


def converted(number: Integer, bits: int, signed: bool) -> Integer:
    return fit(number[0], bits, signed), bits, signed


def fitting(value: int, bits: int, signed: bool) -> Integer:
    found = fit(value, bits, signed)
    if signed and found != value:
        raise Unknown("a constant overflows its type")
    return found, bits, signed


def binary(op: str, left: Integer, right: Integer) -> Integer:
    if op in ("<<", ">>"):
        value, bits, signed = left
        if not 0 <= right[0] < bits:
            raise Unknown("a constant is shifted by more than its bits")
        return fit(value << right[0] if op == "<<" else value >> right[0], bits, signed), *left[1:]
    if op in ("&&", "||"):
        both = (left[0] != 0, right[0] != 0)
        return int(all(both) if op == "&&" else any(both)), INT, True
    bits, signed = common(left, right)
    a, b = converted(left, bits, signed)[0], converted(right, bits, signed)[0]
    compared = {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "==": a == b, "!=": a != b}
    if op in compared:
        return int(compared[op]), INT, True
    if op in ("/", "%"):
        if b == 0:
            raise Unknown("a constant is divided by zero")
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return fitting(quotient if op == "/" else a - quotient * b, bits, signed)
    simple = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}
    if op not in simple:
        raise Unknown("")
    return fitting(simple[op], bits, signed)
