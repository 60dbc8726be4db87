"""Error conventions: how a C function reports failure, and which exception that becomes.

The table has all there is to know of each. What calls functions, converts them or reports failure
to C obeys its row; names and flags are the core's (csrc/call/failure.c).
"""

from __future__ import annotations

import operator
from collections import namedtuple

from .. import _lib
from .._errors import NativeFailure
from .._types.ctype import CType, integer_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal, TypeVar

    from .._ext import Foreign
    from .._types.signature import Signature

    _Each = TypeVar("_Each", list[Foreign], tuple[Foreign, ...])
    Errors = Literal["none", "python", "nonzero", "zero", "null", "errno", "argument"]

_RELATIONS: dict[str, Callable[[object, int], bool]] = {"==": operator.eq, "!=": operator.ne}


class Convention(
    namedtuple(
        "Convention",
        ["name", "shown_by", "needs", "relation", "value", "sentinel", "needs_gil"],
        defaults=("any", "", 0, 0, False),
    )
):
    """An error convention.

    Attributes
    ----------
    name : str
    shown_by : {"nothing", "exception", "result", "errno", "argument"}
        Where a caller sees a failure: nowhere, or in a Python exception that is set, in the result,
        or in errno or the int that the last argument points to, 0 before the call and not after it.
    needs : {"any", "integer", "pointer"}
        What the result must be.
    relation, value : str and int
        A result that is so related to the value, 0 for NULL, shows a failure.
    sentinel : int
        What code that fails returns where it returns an integer, or a pointer.
    needs_gil : bool
        Whether it takes the GIL to see a failure.
    """

    __slots__ = ()

    @property
    def flags(self) -> int:
        """What an entry has for it."""
        return _lib.ERRORS[self.name]

    @property
    def reaches_c(self) -> bool:
        """Whether C code without Python sees a failure."""
        return self.shown_by == "result" or self.is_code

    @property
    def is_code(self) -> bool:
        """Whether a number beside the result, not 0, shows a failure."""
        return self.shown_by in ("errno", "argument")

    @property
    def hidden(self) -> int:
        """How many arguments, the last ones, are the convention's: Python passes one less."""
        return int(self.shown_by == "argument")

    @property
    def exception(self) -> type[Exception] | None:
        """The class of what is raised for a failure, where the convention makes that."""
        return (OSError if self.shown_by == "errno" else NativeFailure) if self.reaches_c else None

    @property
    def is_status(self) -> bool:
        """Whether all results after success are the same, so that they are no values."""
        return bool(self.relation == "!=")

    @property
    def success(self) -> int:
        """An integer that says that nothing failed."""
        return int(self.failed(0))

    def suits(self, ctype: CType) -> bool:
        """Whether a result of this type can show a failure."""
        if self.needs == "pointer":
            return ctype.kind in ("pointer", "voidptr", "function", "object")
        if self.needs == "any":
            return True
        if ctype.kind not in ("int", "bool"):
            return False
        low, high = integer_range(ctype)
        return bool(low <= self.sentinel <= high)

    def passed(self, args: _Each) -> _Each:
        """What there is of each argument of a C function, for those that Python passes."""
        return args[: len(args) - self.hidden]

    def fits(self, signature: Signature) -> bool:
        """Whether functions of a signature can have it."""
        last = len(signature.args) - 1
        ends = last >= 0 and signature.args[last].text == "&i" and not signature.readonly[last]
        return self.suits(signature.result) and (
            not self.hidden or (ends and not signature.variadic)
        )

    def failed(self, result: object, code: int = 0) -> bool:
        """Whether a result, where NULL is None, or the code beside it shows a failure."""
        if self.shown_by != "result":
            return self.is_code and code != 0
        if self.needs == "pointer":
            return result is None
        return _RELATIONS[self.relation](result, self.value)

    def failure(self, name: str, result: object, code: int) -> Exception | None:
        """The exception for what a call of `name` returned, or for its code; None for no failure.

        An exception that was set needs nothing here: the call itself raises it.
        """
        if not self.failed(result, code):
            return None
        if self.shown_by == "errno":
            import os

            return OSError(code, f"{os.strerror(code)} (from '{name}')")
        if self.shown_by == "argument":
            return NativeFailure(f"'{name}' failed: it set its last argument to {code}", code)
        null = "NULL" if result is None else self.value
        shown = {"==": null, "!=": f"{result}, not {self.value}"}.get(self.relation, result)
        return NativeFailure(f"'{name}' failed: it returned {shown}", result)


_TABLE = (
    Convention("none", "nothing"),
    Convention("python", "exception", needs_gil=True),
    Convention("nonzero", "result", "integer", "!=", 0, 1),
    Convention("zero", "result", "integer", "==", 0, 0),
    Convention("null", "result", "pointer", "==", 0, 0),
    Convention("errno", "errno"),
    Convention("argument", "argument"),
)
CONVENTIONS: dict[str, Convention] = {one.name: one for one in _TABLE}
_BY_FLAGS = {one.flags: one for one in _TABLE}


def convention(flags: int) -> Convention:
    """The error convention that an entry's flags spell; ValueError for one that is not known."""
    found = _BY_FLAGS.get(flags & _lib.ERRORS_MASK)
    if found is None:
        known = ", ".join(map(repr, CONVENTIONS))
        raise ValueError(f"flags {flags:#x} have an unknown error convention, none of {known}")
    return found


def check_errors(signature: Signature, errors: str) -> None:
    """Whether functions of a signature can show what an error convention says."""
    row = CONVENTIONS[errors]
    if not row.fits(signature):
        const = ", where that is const" if row.hidden and any(signature.readonly[-1:]) else ""
        signed = "a signed integer" if row.sentinel < 0 else "an integer"
        wanted = f"{'a pointer' if row.needs == 'pointer' else signed} as the result"
        if row.hidden:
            code = "" if signature.in_c else ", '&i',"
            wanted = f"a pointer to an int{code} as the last argument"
        shown = signature.shown("").strip()
        raise ValueError(f"errors={errors!r} needs {wanted}, but the signature is {shown!r}{const}")


def raise_failure(name: str, flags: int, result: object, code: int) -> None:
    """Raise what a call of `name` that returned `result`, with a code beside it, means."""
    error = convention(flags).failure(name, result, code)
    try:
        if error is not None:
            raise error
    finally:
        del error  # its traceback has this frame
