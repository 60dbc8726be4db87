"""Generated code of conversions: thunks and loops of ufuncs, one for each shape.

A shape is two signatures with every pointer written ``P``, and the ops between them. A thunk reads
its target and its bound values from the Thunk object of its stub; a loop reads them from its data
argument. So one piece of code serves all functions of a shape. conversioncode.py writes it; that is
imported, with llvmlite, only where no object file of the shape is kept. Without llvmlite the core
carries out the same conversion.
"""

from __future__ import annotations

from .. import _cache
from .._plan.abi import Call, Unsupported
from .._plan.conversion import Conversion, LoopPlan
from .._plan.conversion import loop as described
from .._types.derived import Array, Struct, View
from .._values.callinterface import letter
from . import engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from .._types.ctype import CType

#: The name of the function in its object file.
EXPORT = "nativecall_conversion"


def _writer() -> ModuleType:
    """What writes the code, which imports llvmlite."""
    from . import conversioncode

    return conversioncode


def _made(key: str, text: Callable[[], str]) -> engine.Code | None:
    """The code of a shape, as it is kept or by its text; None where none can be generated."""
    code = engine.kept(key, EXPORT)
    if code is None and engine.available():
        code = engine.compile(key, text, EXPORT)
    return code


def thunk(made: Conversion) -> tuple[tuple[int, engine.Code] | bytes, bool]:
    """The address of generated code for a conversion and the code's owner, or the packed ops for
    the core where no code can be generated; and whether a second try would give the same.
    """

    # What both carry out is all that determines the code.
    by_core = made.packed
    key = f"thunk {_shapes(made.outer)} {_shapes(made.inner)} {_cache.hashed(by_core).hexdigest()}"
    try:
        code = _made(key, lambda: _writer().thunk(made, EXPORT))
    except engine.NoRoom:
        return by_core, False
    except (Unsupported, engine.Unloadable):
        # The latter also for what LLVM leaves to a library that is not there: quadruple precision.
        return by_core, True
    return (by_core, engine.lasts()) if code is None else ((code.address, code), True)


def loop(plan: LoopPlan) -> tuple[int, engine.Code] | None:
    """The address of generated code for an elementwise loop, and what keeps it; None where none
    can be generated.
    """

    try:
        code = _made(loop_key(plan), lambda: _writer().loop(plan, EXPORT))
    except (Unsupported, engine.Unloadable, engine.NoRoom):
        return None
    return None if code is None else (code.address, code)


def joined(plan: LoopPlan, module: str, callee: str) -> tuple[int, engine.Code]:
    """The same for a loop that is compiled with the module that defines what it calls.

    `Unsupported`, `NoRoom` and RuntimeError as usual.
    """

    def text() -> str:
        own = _writer().loop(plan, EXPORT, callee).splitlines()
        lines = [line for line in own if not line.startswith(("declare", "target"))]
        return "\n".join([module, *lines, ""])

    key = f"{loop_key(plan)} around {callee!r} of {_cache.hashed(module.encode()).hexdigest()}"
    code = engine.compile(key, text, EXPORT)
    return code.address, code


def loop_key(plan: LoopPlan) -> str:
    """What determines the code of a loop."""
    operands = "".join(map(_shape, plan.operands))
    return f"ufunc loop {operands} {_cache.hashed(described(plan)[0]).hexdigest()}"


def _shapes(call: Call) -> str:
    return f"{_shape(call.result.ctype)}:{''.join([_shape(one.ctype) for one in call.args])}"


def _shape(ctype: CType) -> str:
    """A type's text with every pointer written ``P``."""
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
