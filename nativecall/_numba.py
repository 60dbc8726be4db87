"""What Numba runs when it compiles for the first time: its entry point `numba_extensions`.

Nothing is imported here but what a built-in view needs to be recognised, once there is one: native
callables have `_numba_type_`, but built-in functions have no attributes of ours.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType


def init() -> None:
    """Let Numba ask about built-in functions, as it does about other objects."""
    typeof_impl = sys.modules["numba.core.typing.typeof"].typeof_impl  # Numba asks for this
    known = typeof_impl.dispatch(BuiltinFunctionType)

    def typeof(obj: object, context: object) -> object:
        core = sys.modules.get("nativecall._ext")
        if core is not None and core.viewed(obj) is not None:
            from ._values.foreign import bridge

            return bridge("numba").type_of(obj)
        return known(obj, context)

    typeof_impl.register(BuiltinFunctionType)(typeof)
