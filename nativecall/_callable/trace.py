"""NATIVECALL_TRACE=1: run each call from Python in a frame named after the C function.

By default, a call has no Python frame. With the frame, faulthandler, tracebacks, profilers and
Python debuggers show which C function was called. The frame runs a Python function, which calls a
second callable with the same entry. The second callable executes the call plan.
"""

from __future__ import annotations

import builtins
from types import FunctionType

from .. import _lib
from .._errors import TYPE_CHECKING
from .._plan.abi import UNKNOWN
from .._plan.steps import ABI
from . import elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._ext import Native


def traced(callable: Native) -> Callable[..., object]:
    """Return a function that calls the only entry of `callable` in a named frame."""
    cif, address, flags = callable._entry()
    call: Callable[..., object]
    if ABI is UNKNOWN:
        call = elsewhere.function(callable)
    else:
        owner = next((one for one in reversed(callable._owners) if hasattr(one, "handle")), None)
        call = inner = callable._derived(cif, address, flags, owner)
        inner._unwrap()

    def frame(*values: object) -> object:
        return call(*values)

    origin = _lib.address_origin(address)
    name = f"{callable.__name__} {cif.signature.text!r}" + (f" of {origin[0]}" if origin else "")
    code = frame.__code__.replace(co_name=name, co_qualname=name, co_filename="<native callable>")
    # If the C code imports a module, CPython uses the builtins of the innermost frame.
    named = {"__builtins__": builtins}
    return FunctionType(code, named, callable.__name__, None, frame.__closure__)
