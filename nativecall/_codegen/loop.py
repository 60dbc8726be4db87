"""What the loops of ufuncs are looked up by, one for each shape, and what they refer to.

What the code does is told in loopcode.py, which is imported, with llvmlite, only where no object
file of the shape is kept.
"""

from __future__ import annotations

from typing import Final

from .._adapt.ufunc import Length, LoopPlan
from .shape import shape

#: The name of the function in its object file.
EXPORT: Final = "nativecall_loop"
#: What follows the addresses of the function and its callable in `data`.
NEEDED: Final = (
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyErr_Occurred",
    "PyErr_NoMemory",
    "PyMem_RawMalloc",
    "PyMem_RawFree",
    "PyLong_FromLongLong",
    "nc_fail",
    "nc_fail_length",
    "nc_thunk_errno",
    "nc_thunk_set_errno",
)


def key(plan: LoopPlan) -> str:
    """What determines the code of a loop."""
    types = [plan.signature.result, *plan.signature.args]
    parts = (
        "".join(map(shape, types)),
        "".join(map(shape, plan.inputs)),
        "".join(map(shape, plan.outputs)),
        plan.arguments,
        plan.results,
        plan.core,
        [letter for _, letter in lengths(plan)],
        plan.needs_gil,
        plan.errors,
    )
    return "ufunc loop " + " ".join(map(repr, parts))


def lengths(plan: LoopPlan) -> list[tuple[int, str]]:
    """The dimensions that the function gets as integers, which may be too long for these."""
    args = zip(plan.arguments, plan.signature.args, strict=True)
    return [(how.dimension, one.text) for how, one in args if isinstance(how, Length)]
