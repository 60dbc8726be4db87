"""Pickle the built-in views of native callables.

The core imports this module before it creates the first view (csrc/callable/builtinview.c).
"""

from __future__ import annotations

import copyreg
from types import BuiltinFunctionType

from .. import _ext
from .._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from .._ext import Foreign


def _reduced(function: BuiltinFunctionType) -> Foreign:
    """Pickle a view as the attribute `builtin` of its callable, and other built-ins as usual.

    By default, pickle would look up the view's name in its callable.
    """
    viewed = _ext.callable_of(function)
    return function.__reduce__() if viewed is None else (getattr, (viewed, "builtin"))


copyreg.pickle(BuiltinFunctionType, _reduced)
