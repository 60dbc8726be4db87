"""Provide generated code for thunks and ufunc loops, once per shape.

A shape is two signatures with every pointer written ``P``, and the ops that convert between them. A
thunk reads its target and bound values from the Thunk object of its stub; a loop reads them from
its data argument. So all functions of a shape share the same code. conversioncode.py generates the
code. That module and llvmlite are imported only if no object file of the shape is cached. Without
llvmlite, the core interprets the same conversion.
"""

from __future__ import annotations

from .. import _cache
from .._errors import TYPE_CHECKING
from .._plan.abi import Call, Unsupported
from .._plan.conversion import Conversion, LoopPlan
from .._plan.conversion import loop as described
from .._types.derived import Array, Struct, View
from .._values.callinterface import letter
from . import engine

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from .._types.ctype import CType

#: The name of the function in its object file.
EXPORT = "nativecall_conversion"


def _writer() -> ModuleType:
    """Import the module that writes the code, and with it llvmlite."""
    from . import conversioncode

    return conversioncode


def _made(key: str, text: Callable[[], str]) -> engine.Code | None:
    """Return the code of a shape, cached or compiled; None if no code can be generated."""
    code = engine.kept(key, EXPORT)
    if code is None and engine.available():
        code = engine.compile(key, text, EXPORT)
    return code


def thunk(made: Conversion) -> tuple[tuple[int, engine.Code] | bytes, bool]:
    """Return (address, owner) of the code for a conversion, and whether this answer is final.

    If no code can be generated, return the packed ops for the core in place of the pair.
    """

    # Generated code and the core execute the same ops, so the ops determine the code.
    by_core = made.packed
    key = f"thunk {_shapes(made.outer)} {_shapes(made.inner)} {_cache.hashed(by_core).hexdigest()}"
    try:
        code = _made(key, lambda: _writer().thunk(made, EXPORT))
    except engine.NoRoom:
        return by_core, False
    except (Unsupported, engine.Unloadable):
        # `Unloadable` also means that a support library (as for quadruple precision) is missing.
        return by_core, True
    return (by_core, engine.lasts()) if code is None else ((code.address, code), True)


def loop(plan: LoopPlan) -> tuple[int, engine.Code] | None:
    """Return (address, owner) of generated code for an elementwise loop; None if there is none."""

    try:
        code = _made(loop_key(plan), lambda: _writer().loop(plan, EXPORT))
    except (Unsupported, engine.Unloadable, engine.NoRoom):
        return None
    return None if code is None else (code.address, code)


def joined(plan: LoopPlan, module: str, callee: str) -> tuple[int, engine.Code]:
    """Compile a loop together with the module that defines its function; return (address, owner).

    Raises `Unsupported` and the errors of `engine.compile`.
    """

    def text() -> str:
        own = _writer().loop(plan, EXPORT, callee).splitlines()
        lines = [line for line in own if not line.startswith(("declare", "target"))]
        return "\n".join([module, *lines, ""])

    key = f"{loop_key(plan)} around {callee!r} of {_cache.hashed(module.encode()).hexdigest()}"
    code = engine.compile(key, text, EXPORT)
    return code.address, code


def loop_key(plan: LoopPlan) -> str:
    """Return a key for everything that determines the code of a loop."""
    operands = "".join(map(_shape, plan.operands))
    return f"ufunc loop {operands} {_cache.hashed(described(plan)[0]).hexdigest()}"


def _shapes(call: Call) -> str:
    return f"{_shape(call.result.ctype)}:{''.join([_shape(one.ctype) for one in call.args])}"


def _shape(ctype: CType) -> str:
    """Return a type's text with every pointer written ``P``."""
    if isinstance(ctype, Struct):
        if not ctype.is_plain:
            return ctype.text
        fields = "".join([_shape(field.type) for field in ctype.fields])
        return f"{'=' if ctype.packed else ''}T{{{fields}}}"
    if isinstance(ctype, Array):
        return f"({','.join(map(str, ctype.shape))}){_shape(ctype.item)}"
    if isinstance(ctype, View):
        return f"[{ctype.ndim}]"
    return "P" if letter(ctype) == "P" else ctype.text
