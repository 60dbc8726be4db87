# The module that cffi generates from csrc/core/core.cdef.txt: the core's functions, by their names
# in C.
from typing import Any

from cffi import FFI

ffi: FFI
lib: Any  # functions and constants, as cffi makes them
