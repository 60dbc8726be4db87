"""Hooks that the core calls: call plans, wrappers, missing entries, thunks, exceptions.

The core imports this module when it first needs one of these hooks. Functions of numbers need no
hook if they have an ahead-of-time trampoline. Each hook imports its implementation on first use.
The hooks that convert values are in arguments.py.
"""

from __future__ import annotations

from .. import _ext
from .._errors import TYPE_CHECKING, refuse_reload
from .._fifo import Fifo
from .._plan.callplan import extended, plan
from .._values.failure import raise_failure

if TYPE_CHECKING:
    from .._ext import Native, ThunkSpec
    from .._types.ctype import CType
    from .._values.calloptions import Policies

refuse_reload(globals(), "_make_wrapper")


def _make_wrapper(callable: Native) -> object:
    """Return a Python function that calls `callable`, for calls that no plan executes."""
    if _ext.calls_traced:
        from .trace import traced

        return traced(callable)
    from . import elsewhere

    return elsewhere.function(callable)


def _extra_argument(
    value: object, index: int, name: str, policies: Policies
) -> tuple[CType, object]:
    from .._values.variadic import extra_argument

    return extra_argument(value, index, name, policies.encoding)


def _specialize(callable: Native, signature: str) -> None:
    """Call a callable's `specialize` hook for a signature that C code looks up."""
    from . import specialize

    specialize.ask_for_native(callable, signature)


def _no_entry(callable: Native, signature: str | None) -> None:
    """Raise the error for a missing entry, or for a callable without exactly one entry."""
    callable._refuse(signature)


def _no_overload(callable: Native, *values: object) -> None:
    """Raise TypeError: no overload accepts the arguments of a call."""
    types = ", ".join([type(value).__name__ for value in values])
    offers = ", ".join(map(repr, callable.signatures))
    raise TypeError(f"no entry of {callable.__name__!r} takes ({types}); it offers {offers}")


#: Specs of thunks; each keeps its generated code. Specs without thunks are kept for later thunks.
_thunk_specs: Fifo[bytes, ThunkSpec] = Fifo()


_made = (_make_wrapper, plan, extended, _extra_argument, raise_failure)
_missing = (_specialize, _no_entry, _no_overload)
_ext.set_hooks("calls", _thunk_specs, *_made, *_missing)
