"""Bridge for `ctypes.byref()`: before Python 3.12, the type of its results names no module."""

from ._ctypes import pointer as pointer
