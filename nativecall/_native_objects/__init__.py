"""Objects of both worlds: classes of native objects, as Python declares and uses them.

Importing this package tells the core how class bodies are read (`describing.py`) and gives the root
class what it has in Python (`root.py`). C code that makes a class imports it too, for descriptors.
"""

from __future__ import annotations

from .. import _ext

if not hasattr(_ext, "NativeObject"):
    raise ImportError("native objects need a build of CPython with the GIL")
from . import describing as describing
from . import root as root
from .casts import native_object as native_object
from .declared import field as field
from .declared import method as method

NativeObject = _ext.NativeObject
ObjectArray = _ext.ObjectArray
