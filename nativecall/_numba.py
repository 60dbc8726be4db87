"""Numba's entry point `numba_extensions`, which Numba calls before it first compiles.

It makes Numba recognise built-in views (`NativeCallable.builtin`). Native callables have the
attribute `_numba_type_`, but built-in functions cannot have it. The bridge is imported only when
Numba first gets a view.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType


def init() -> None:
    """Register a `typeof` for built-in functions with Numba."""
    typeof_impl = sys.modules["numba.core.typing.typeof"].typeof_impl  # Numba has imported it
    known = typeof_impl.dispatch(BuiltinFunctionType)

    def typeof(obj: object, context: object) -> object:
        core = sys.modules.get("nativecall._ext")
        if core is not None and core.callable_of(obj) is not None:
            from ._values.foreign import bridge

            return bridge("numba").type_of(obj)
        return known(obj, context)

    typeof_impl.register(BuiltinFunctionType)(typeof)
