"""What the core asks Python for: trampolines, fallbacks, missing entries, thunks, exceptions.

The core imports this module when it first asks for one of them: functions of numbers with an
ahead-of-time trampoline need none. What makes them is imported when the core asks for it: a
trampoline whose code is kept needs little of it. What the core asks of values is in arguments.py.
"""

from __future__ import annotations

from .. import _lib
from .._errors import refuse_reload
from .._fifo import Fifo
from .._values import boxes
from .._values.failure import raise_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from .._types import ThunkSpec
    from .._values.boxes import Native

refuse_reload(globals(), "_generate")

__all__: list[str] = []


def _generate(callable: Native, fixed: int | None = None) -> object:
    """A generated trampoline, or None to make calls through libffi.

    The core asks at the first call, or view, without an ahead-of-time trampoline.
    """
    policies = callable._entry()[0].policies
    if policies.check is not None or policies.keep != "call":
        return None
    if _lib.types.calls_traced:
        from .trace import hides

        if hides(callable):
            return None
    from .._codegen.trampoline import trampoline

    return trampoline(callable, fixed)


def _make_fallback(callable: Native) -> object:
    """The core asks for this at the first call that no trampoline takes.

    A callable with a trampoline is a variadic one with more than its fixed arguments.
    """
    policies = callable._entry()[0].policies
    if policies.check is not None or policies.keep != "call" or policies.out:
        from . import composed

        if policies.check is not None:
            return composed.checked(callable)
        if policies.keep != "call":
            return composed.keeping(callable)
        return composed.with_outs(callable)
    if _lib.types.calls_traced:
        from .trace import traced

        return traced(callable)
    from .._libffi import call

    if callable._generated is not None:
        from .._codegen.trampoline import variadic

        return variadic(callable, call.fallback_for)
    return call.make_fallback(callable)


def _specialize(callable: Native, signature: str) -> None:
    """Ask the hook of a callable for an entry that C code looks for."""
    from . import specialize

    specialize.ask_for_native(callable, signature)


def _no_entry(callable: Native, signature: str | None) -> None:
    """Raise what is wrong where an entry, or the only one, was looked for and is not there."""
    callable._refuse(signature)


#: What thunks share, with its code, also when no thunk uses it.
_thunk_specs: Fifo[bytes, ThunkSpec] = Fifo()


def _thunks() -> ModuleType:
    """The module that `bind` and `convert` leave to what they have not seen yet."""
    from . import thunk

    return thunk


_lib.types.set_call_hooks(
    _generate,
    _make_fallback,
    raise_failure,
    _specialize,
    _no_entry,
    boxes.bridge,
    _thunks,
    _thunk_specs,
)
