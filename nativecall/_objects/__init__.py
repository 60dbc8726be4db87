"""Objects of both worlds: classes of native objects, as Python declares and uses them.

Importing this package tells the core how class bodies are read (`describing.py`) and gives the root
class what it has in Python (`root.py`). C code that makes a class imports it too, for descriptors.
"""

from __future__ import annotations

from .. import _lib
from . import describing as describing
from . import root as root
from .casts import native_object
from .declared import Field, Lock, Method, field, method
from .leaks import Leaks, leaks

NativeObject = _lib.types.NativeObject
ObjectArray = _lib.types.ObjectArray

__all__ = [
    "Field",
    "Leaks",
    "Lock",
    "Method",
    "NativeObject",
    "ObjectArray",
    "field",
    "leaks",
    "method",
    "native_object",
]
