# The module that cffi generates from csrc/core/core.cdef.txt: the core's functions by C name.
from cffi import FFI

from ._ext import Foreign

ffi: FFI
lib: Foreign  # functions and constants
