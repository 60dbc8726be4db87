"""Bridge for `ctypes.byref()` objects: before Python 3.12, their type names no module."""

from ._ctypes import pointer as pointer
