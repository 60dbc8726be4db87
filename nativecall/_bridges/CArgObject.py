"""The bridge for what `ctypes.byref()` makes, whose type names no module before Python 3.12."""

from ._ctypes import pointer as pointer
