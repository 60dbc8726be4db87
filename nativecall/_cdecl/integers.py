"""Integer constants of C, computed as a compiler does: by type, width and sign."""

from __future__ import annotations

from .lexer import Integer, Unexpanded, fit, typed_integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

INT = typed_integer("0")[1]  # its bits


class Unknown(Exception):
    """What cannot be read, or has no value that is known here; it says what is wrong.

    Attributes
    ----------
    reason : str
    at : int or None
        The token that it is about, by its index; None for the next one.
    hint : str or None
        What would work.
    """

    def __init__(self, reason: str, at: int | None = None, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at
        self.hint = hint


class Unclosed(Unknown):
    """A bracket is never closed, so that what follows it cannot be told from what is in it.

    Attributes
    ----------
    at : int
        The token's index.
    """

    at: int

    def __init__(self, at: int, bracket: str) -> None:
        super().__init__(f"{bracket!r} is never closed", at)


def fault(error: Exception, tokens: Sequence[str], at: int) -> tuple[str, int]:
    """What an error of a parser says, and the token that it is about: the one at `at` unless it
    names another.
    """
    named = getattr(error, "at", None)
    at = at if named is None else named
    token = tokens[at] if at < len(tokens) else ""
    if isinstance(token, Unexpanded):
        return f"macro {token.rstrip()!r} has parameters, and is not expanded in a text", at
    return getattr(error, "reason", "nested too deeply"), at


def of_int(value: int) -> Integer:
    """An enumerator's value with its type: int, or the first longer type that has it, of which the
    last has no sign.
    """
    try:
        _, bits, signed = typed_integer(f"{max(value, -1 - value)}{'u' * (value >= 2**63)}")
    except OverflowError as error:
        raise Unknown(str(error)) from None
    return value, bits, signed


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
