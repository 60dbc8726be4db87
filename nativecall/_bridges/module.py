"""Built-in functions of modules: `cpdef` functions that Cython was told to compile as such
(``binding=False``), which is what it did before Cython 3.
"""

from ._cython import function, native

__all__ = ["function", "native"]
