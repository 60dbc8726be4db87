"""How `pickle` takes the built-in views of native callables. The core imports this before it makes
the first one (csrc/callable/builtinview.c).
"""

from __future__ import annotations

import copyreg
from types import BuiltinFunctionType

from .. import _ext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._ext import Foreign


def _reduced(function: BuiltinFunctionType) -> Foreign:
    """A view as the attribute of its callable, all others as ever, which for a view would be the
    attribute of the callable's name.
    """
    viewed = _ext.viewed(function)
    return function.__reduce__() if viewed is None else (getattr, (viewed, "builtin"))


copyreg.pickle(BuiltinFunctionType, _reduced)
