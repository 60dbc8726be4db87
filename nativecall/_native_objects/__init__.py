"""Native objects: you declare their classes in Python, and native code uses the objects directly.

Importing this package registers the hooks that read class bodies (`describing.py`), and adds the
Python methods of the root class (`root.py`). C code that creates a class imports this package for
the descriptors.
"""

from __future__ import annotations

from .. import _ext
from . import describing as describing
from . import root as root
from .casts import native_object as native_object
from .declared import field as field
from .declared import method as method

NativeObject = _ext.NativeObject
ObjectArray = _ext.ObjectArray
