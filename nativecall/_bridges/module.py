"""Built-in functions of modules: `cpdef` functions compiled with ``binding=False``.

That was the default before Cython 3.
"""

from ._cython import function, native

__all__ = ["function", "native"]
