"""Built-in functions of modules: `cpdef` functions that Cython was told to compile as such
(``binding=False``), which is what it did before Cython 3.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._callable.callable import NativeCallable
    from .._ext import Foreign
    from .._values.boxes import Function


def _is_exported(obj: Foreign) -> bool:
    """Whether it is a function of a module that exports C functions."""
    return "__pyx_capi__" in getattr(getattr(obj, "__self__", None), "__dict__", ())


def function(obj: Foreign) -> Function | None:
    """The C function of a `cpdef` function; None for modules, and all other functions."""
    if not _is_exported(obj):
        return None
    from . import _cython

    return _cython.function(obj)


def native(obj: Foreign) -> NativeCallable | None:
    """The C functions of a `cpdef` function that has several."""
    if not _is_exported(obj):
        return None
    from . import _cython

    return _cython.native(obj)
