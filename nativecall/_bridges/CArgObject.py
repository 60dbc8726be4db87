"""Bridge for the objects of `ctypes.byref()`: before Python 3.12 their type names no module."""

from ._ctypes import pointer as pointer
