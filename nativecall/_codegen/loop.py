"""What the loops of elementwise ufuncs are looked up by, one for each shape.

What the code does is told in loopcode.py, which is imported, with llvmlite, only where no object
file of the shape is kept.
"""

from __future__ import annotations

from typing import Final

from .. import _cache
from .._adapt.ufunc import LoopPlan
from .._plan.conversion import loop as written
from .shape import shape

#: The name of the function in its object file.
EXPORT: Final = "nativecall_loop"


def key(plan: LoopPlan) -> str:
    """What determines the code of a loop."""
    operands = "".join(map(shape, plan.operands))
    return f"ufunc loop {operands} {_cache.hashed(written(plan)).hexdigest()}"
