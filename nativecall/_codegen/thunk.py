"""Thunks: C functions that call a function of another signature, generated once for each shape.

A shape is both signatures with every pointer written ``P``, and what the plan says. A thunk is
entered through a stub, whose context is the Thunk (csrc/object/thunkobject.h): it has what is
called, and the values that `bind` gave. So one piece of code serves all functions of a shape. What
the code does is told in thunkcode.py, which is imported, with llvmlite, only where no object file
of the shape is kept. Without llvmlite the core carries out the same plan (_plan/conversion.py).
"""

from __future__ import annotations

from .._adapt import plan as nodes
from .._plan.abi import Unsupported
from .._plan.conversion import conversion
from .._signature.signature import Signature
from . import engine
from .shape import made, shape

_EXPORT = "thunk"

# -- one for each shape --------------------------------------------------------------------------


def _described(node: nodes.Node | None) -> str:
    match node:
        case nodes.Given(index, _):
            return f"a{index}"
        case nodes.Load(pointer, offset, type):
            return f"l{pointer.index}+{offset}{shape(type)}"
        case nodes.Convert(value, type, step, exact):
            return f"c({_described(value)}){shape(type)}{step}{'=' * exact}"
        case nodes.Memory(values, type):
            return f"m({','.join(map(_described, values))}){shape(type)}"
        case nodes.Constant(value, type):
            return f"k{value}{shape(type)}"
        case nodes.Bound(offset, type):
            return f"b{offset}{shape(type)}"
        case nodes.Room(type):
            return f"r{type.size}/{type.alignment}"
        case nodes.Result(type):
            return f"R{shape(type)}"
        case nodes.Written(type):
            return f"W{shape(type)}"
        case nodes.Told(_):
            return "t"
    return "-"


def _shapes(signature: Signature) -> str:
    return f"{shape(signature.result)}:{''.join(map(shape, signature.args))}"


def key(plan: nodes.Plan) -> str:
    """What determines the code of a thunk."""
    return " ".join(
        [
            _shapes(plan.outer),
            _shapes(plan.inner) + ("." if plan.inner.variadic else ""),
            ";".join(map(_described, plan.arguments)),
            ";".join([f"{one.index}={one.count}/{one.step}" for one in plan.checks]),
            ";".join([f"{index}<{_described(node)}" for index, node in plan.stores]),
            _described(plan.result),
            f"{plan.before.name}>{plan.after.name}/{plan.tested}"
            f"{' gil' * plan.takes_gil}{' settles' * plan.settles}",
        ]
    )


def thunk(plan: nodes.Plan) -> tuple[tuple[int, engine.Code] | bytes, bool]:
    """The address of generated code for a plan, and what keeps it, or the conversion that the core
    carries out where none can be generated; and whether another time would give the same.
    """

    def text() -> str:
        from .thunkcode import written

        return written(plan, _EXPORT)

    try:
        code = made(f"thunk {key(plan)}", text, _EXPORT, 2)
    except engine.NoRoom:
        return conversion(plan), False
    except (Unsupported, engine.Unloadable):
        # The latter also for what LLVM leaves to a library that is not there: quadruple precision.
        code = None
    if code is None:
        return conversion(plan), engine.lasts()
    return (code.address(_EXPORT), code), True
