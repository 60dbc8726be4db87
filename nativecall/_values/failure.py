"""Error conventions: how a C function reports failure, and which exception is then raised.

One table row defines each convention for calls, conversions and callbacks. The core defines the
names and flags (csrc/call/failure.c).
"""

from __future__ import annotations

import operator
from collections import namedtuple

from .. import _lib
from .._errors import TYPE_CHECKING, NativeFailure
from .._types.ctype import CType, integer_range

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
        Where a failure shows: nowhere; in a set Python exception; in the result; in errno; or in
        the int behind the last argument. Both errno and that int are 0 before the call and nonzero
        after a failure.
    needs : {"any", "integer", "pointer"}
        The required type of the result.
    relation, value : str and int
        The call failed if ``result relation value``, such as ``result != 0``, is true. For
        pointers, 0 stands for NULL.
    sentinel : int
        The integer or pointer that a callback or thunk returns after a failure.
    needs_gil : bool
        Whether checking for a failure requires the GIL.
    """

    __slots__ = ()

    @property
    def flags(self) -> int:
        """The flags of entries with this convention."""
        return _lib.ERRORS[self.name]

    @property
    def reaches_c(self) -> bool:
        """Whether C code can see a failure without Python."""
        return self.shown_by == "result" or self.is_code

    @property
    def is_code(self) -> bool:
        """Whether a failure shows as a nonzero code that is separate from the result."""
        return self.shown_by in ("errno", "argument")

    @property
    def hidden(self) -> int:
        """The number of trailing arguments that the convention adds; Python does not pass them."""
        return int(self.shown_by == "argument")

    @property
    def is_status(self) -> bool:
        """Whether the result is only a status, with the same value after every success."""
        return bool(self.relation == "!=")

    @property
    def success(self) -> int:
        """An integer result that means success."""
        return int(self.failed(0))

    def suits(self, ctype: CType) -> bool:
        """Return whether a result of this type can show a failure."""
        if self.needs == "pointer":
            return ctype.kind in ("pointer", "voidptr", "function", "object")
        if self.needs == "any":
            return True
        if ctype.kind not in ("int", "bool"):
            return False
        low, high = integer_range(ctype)
        return bool(low <= self.sentinel <= high)

    def passed(self, args: _Each) -> _Each:
        """Drop the items for hidden arguments from a sequence with one item per C argument."""
        return args[: len(args) - self.hidden]

    def fits(self, signature: Signature) -> bool:
        """Return whether functions of a signature can follow the convention."""
        last = len(signature.args) - 1
        ends = last >= 0 and signature.args[last].text == "&i" and not signature.readonly[last]
        return self.suits(signature.result) and (
            not self.hidden or (ends and not signature.variadic)
        )

    def failed(self, result: object, code: int = 0) -> bool:
        """Return whether a call failed, from its result (None for NULL) or its code."""
        if self.shown_by != "result":
            return self.is_code and code != 0
        if self.needs == "pointer":
            return result is None
        return _RELATIONS[self.relation](result, self.value)

    def failure(self, name: str, result: object, code: int) -> Exception | None:
        """Return the exception for a call's result or code; None if neither shows a failure.

        If the function set a Python exception, the call itself raises that exception.
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
    """Return the error convention in an entry's flags; raise ValueError for an unknown one."""
    found = _BY_FLAGS.get(flags & _lib.ERRORS_MASK)
    if found is None:
        known = ", ".join(map(repr, CONVENTIONS))
        raise ValueError(f"flags {flags:#x} have an unknown error convention, none of {known}")
    return found


def check_errors(signature: Signature, errors: str) -> None:
    """Raise ValueError unless functions of a signature can follow an error convention."""
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
    """Raise the exception, if any, for a call of `name` with this result and error code."""
    error = convention(flags).failure(name, result, code)
    try:
        if error is not None:
            raise error
    finally:
        del error  # breaks the cycle of traceback and frame
