"""What `ctypes.byref()` makes: the name of its type, which names no module before Python 3.12."""

from ._ctypes import pointer as pointer
