"""Messages about conversions: why a conversion is impossible, and which step of a call failed.

Messages count arguments from 1, as the caller sees them. `failure` creates the exception for a
failed step. The other functions return parts of the reasons that rules.py raises. Reasons show
types as codes; if the signature was written in C, `reason_in_c` replaces the codes.
"""

from __future__ import annotations

import math

from .._cdecl.spelling import both, words
from .._errors import TYPE_CHECKING
from .._types.ctype import CType, integer_range, part_of
from .._types.derived import Pointer
from .conversionplan import Plan

if TYPE_CHECKING:
    from .._ext import Foreign


def counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def own_text(index: int) -> str:
    return f"argument {index + 1} of '{{}}'"


def given_text(index: int) -> str:
    return f"argument {index + 1}"


def no_way(source: CType, target: CType) -> str:
    if isinstance(source, Pointer) and isinstance(target, Pointer):
        return f"is {source.text!r}, which points to a different type from {target.text!r}"
    return f"is {source.text!r}, which cannot be converted to {target.text!r}"


def advice(source: CType, target: CType) -> str | None:
    if isinstance(source, Pointer) and isinstance(target, Pointer):
        return f"write {target.text!r}, or 'P' for a pointer to anything"
    if source.kind == "function" and target.kind == "function":
        return f"write {target.text!r}, and convert what is passed"
    return None


def failure(plan: Plan, step: int, name: str, value: Foreign) -> BaseException:
    """Return the exception for a failed step in a call of the function `name`.

    `value` is the number or count that was refused. If the function itself failed, `value` is its
    error code (from errno or the last argument), or else its result.
    """
    one = plan.steps[step]
    subject = one.subject.format(name)
    _, outer = both(plan.inner, plan.outer)
    if one.kind == "null":
        return ValueError(f"{subject} of {outer!r} is NULL, but '{name}' needs it")
    if one.kind == "count":
        hint = ""
        if value < one.count:
            hint = "; the caller passes the others (SciPy's args=), or bind() fixes them"
        return ValueError(
            f"{subject} of {outer!r} is {value}, but '{name}' has {one.count} items{hint}"
        )
    if one.kind == "failure":
        by_code = plan.before.is_code
        result = None if by_code or plan.before.needs == "pointer" else value
        made = plan.before.failure(name, result, value if by_code else 0)
        return made or SystemError(f"'{name}' failed, but reported no error")
    return _unfit(subject, one.source, one.target, value)


def _unfit(subject: str, source: CType, target: CType, value: float) -> BaseException:
    """Return the exception for a number that the wanted type cannot represent."""
    if target.kind in ("bool", "int"):
        if source.kind == "float" and not (math.isinf(value) or float(value).is_integer()):
            return ValueError(f"{subject} is {value!r}, not an integer")
        low, high, name = *integer_range(target), words(target)
        return OverflowError(f"{subject} is {value}, out of range for {name!r} ({low} to {high})")
    part, most = words(part_of(target)), part_of(target).greatest
    if abs(value) <= float(most):
        return OverflowError(f"{subject} is {value}, which '{part}' does not hold exactly")
    return OverflowError(f"{subject} is out of range for '{part}' (-{most} to {most})")
