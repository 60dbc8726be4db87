"""NATIVECALL_TRACE=1: calls from Python run in a frame that is named after what is called.

So faulthandler, tracebacks, profilers and debuggers of Python say which C function it was; without
this a call has no frame of its own. The frame's function calls another callable of the same entry,
through the trampoline that the call would have had.
"""

from __future__ import annotations

import builtins
from types import FunctionType

from .. import _lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._values.boxes import Native

#: Those that calls are passed on to, while it is decided how they are called.
_passed_to: set[int] = set()


def hides(callable: Native) -> bool:
    """Whether a callable's trampoline is kept from it, so that its calls get a frame."""
    return id(callable) not in _passed_to


def traced(callable: Native) -> Callable[..., object]:
    """What calls the only entry of `callable` in a frame of its name, signature and file."""
    spec, address, flags = callable._entry()
    from .._codegen.trampoline import trampoline

    call: Callable[..., object]
    if spec.signature.variadic or trampoline(callable) is None:
        from .._libffi.call import make_fallback

        call = make_fallback(callable)
    else:
        inner = callable._derived(spec, address, flags, None)
        _passed_to.add(id(inner))
        try:
            inner._choose("generated")
        finally:
            _passed_to.discard(id(inner))
        call = inner

    def frame(*values: object) -> object:
        return call(*values)

    origin = _lib.address_origin(address)
    name = f"{callable.__name__} {spec.signature.text!r}" + (f" of {origin[0]}" if origin else "")
    code = frame.__code__.replace(co_name=name, co_qualname=name, co_filename="<native callable>")
    # C code that imports does so by what the innermost frame has for that.
    named = {"__builtins__": builtins}
    return FunctionType(code, named, callable.__name__, None, frame.__closure__)
