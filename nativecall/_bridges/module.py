"""Built-in functions of modules: `cpdef` functions compiled with ``binding=False``.

``binding=False`` was the default before Cython 3.
"""

from ._cython import function, native

__all__ = ["function", "native"]
