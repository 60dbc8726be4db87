# The module that cffi generates from csrc/core.cdef.txt.
from typing import Any

ffi: Any
lib: Any
