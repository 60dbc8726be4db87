"""Thunks: generated C functions that call a function of another signature; one for each shape.

A shape is both signatures with every pointer written ``P``, and what the plan says. A thunk is
entered through a stub, whose context is the Thunk (csrc/object/thunkobject.h): it has what is
called, and the values that `bind` gave. So one piece of code serves all functions of a shape. What
the code does is told in thunkcode.py.
"""

from __future__ import annotations

from .._adapt import plan as nodes
from .._signature.signature import Signature
from . import abi, engine
from .shape import LINKED, shape
from .thunkcode import EXPORT, ThunkCode

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
            f"{plan.before.name}>{plan.after.name}/{plan.tested}{' gil' * plan.takes_gil}",
        ]
    )


def thunk(plan: nodes.Plan) -> tuple[int, engine.Code] | None:
    """The address of the code for a plan, and what keeps it; None where none can be generated.

    `engine.NoRoom` where memory is too short for it now.
    """
    if not engine.available():
        return None

    def text() -> str:
        return ThunkCode(plan, *_lowerings(plan)).text()

    try:
        code = engine.compile(f"thunk {key(plan)}", text, LINKED, (EXPORT,), effort=2)
    except engine.NoRoom:
        raise
    except (abi.Unsupported, engine.Unloadable):
        # The latter also for what LLVM leaves to a library that is not there: quadruple precision.
        return None
    return code.address(EXPORT), code


def changes_nothing(plan: nodes.Plan, convention: abi.Convention | None = None) -> bool:
    """Whether the function itself can be called in the thunk's place.

    So it is when it finds each of its arguments in the register where the caller put it, and others
    in registers that it does not look at: ``d:d`` called as ``d:dP``.
    """
    if plan.checks or plan.stores or plan.tested >= 0 or plan.variadic is not None:
        return False
    if plan.clears_errno_before or plan.clears_errno_after or plan.takes_gil:
        return False
    try:
        outer, inner = _lowerings(plan, convention)
    except abi.Unsupported:
        return False
    passed = ("void", "value") if plan.result is None else ("value",)
    if outer.result.how not in passed or inner.result.how not in passed:
        return False
    if not isinstance(plan.result, nodes.Result | None):
        return False
    given = outer.registers()
    for node, register in zip(plan.arguments, inner.registers(), strict=True):
        if not isinstance(node, nodes.Given) or register is None or given[node.index] != register:
            return False
    return True


def intermediate(plan: nodes.Plan, convention: abi.Convention | None = None) -> str | None:
    """The LLVM IR of a plan's thunk, for this machine or by another convention; None where none
    describes it.
    """
    try:
        return ThunkCode(plan, *_lowerings(plan, convention)).text()
    except abi.Unsupported:
        return None


def _lowerings(
    plan: nodes.Plan, convention: abi.Convention | None = None
) -> tuple[abi.Lowering, abi.Lowering]:
    """How the thunk is called, and how it calls."""
    platform = abi.known(convention)
    inner = [*plan.inner.args]
    inner += [node.type for node in plan.arguments[len(inner) :]]
    return (
        platform.lower(plan.outer.result, plan.outer.args),
        platform.lower(plan.inner.result, inner, plan.variadic),
    )
