"""Thunks: C functions that call a function of another signature, generated once for each shape.

A shape is both signatures with every pointer written ``P``, and what the plan does. A thunk is
entered through a stub, whose context is the Thunk (csrc/callable/thunkobject.h): it has what is
called, and the values that `bind` gave. So one piece of code serves all functions of a shape. What
the code does is told in thunkcode.py, which is imported, with llvmlite, only where no object file
of the shape is kept. Without llvmlite the core carries out the same plan (_plan/conversion.py).
"""

from __future__ import annotations

from .. import _cache
from .._adapt import plan as nodes
from .._plan.abi import Unsupported
from .._plan.conversion import conversion
from .._types.signature import Signature
from . import engine
from .shape import made, shape

_EXPORT = "thunk"


def _shapes(signature: Signature) -> str:
    return f"{shape(signature.result)}:{''.join(map(shape, signature.args))}"


def thunk(plan: nodes.Plan) -> tuple[tuple[int, engine.Code] | bytes, bool]:
    """The address of generated code for a plan, and what keeps it, or the conversion that the core
    carries out where none can be generated; and whether another time would give the same.
    """

    def text() -> str:
        from .thunkcode import written

        return written(plan, _EXPORT)

    by_core = conversion(plan)
    # What both carry out is all that determines the code.
    key = f"thunk {_shapes(plan.outer)} {_shapes(plan.inner)} {_cache.hashed(by_core).hexdigest()}"
    try:
        code = made(key, text, _EXPORT, 2)
    except engine.NoRoom:
        return by_core, False
    except (Unsupported, engine.Unloadable):
        # The latter also for what LLVM leaves to a library that is not there: quadruple precision.
        code = None
    if code is None:
        return by_core, engine.lasts()
    return (code.address(_EXPORT), code), True
