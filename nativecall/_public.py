"""The public names of the package: what `import nativecall` puts off until one is used."""

from ._callable import passing  # noqa: F401  # says what becomes of functions that are passed
from ._callable.callable import NativeCallable
from ._callable.entry import Entry
from ._callable.wrap import open_box as _open_box  # noqa: F401  # detail/box.h asks for it
from ._callable.wrap import wrap
from ._callback import Callback, callback
from ._errors import (
    AbiError,
    LibraryError,
    NativeCallError,
    NativeFailure,
    NoEntryError,
    SignatureError,
    SymbolError,
)
from ._lib import types as _types
from ._library import Library, load
from ._signature.signature import Signature
from ._slots import Slot, customslots, extensibletype, get_include
from ._values.boxes import register_box
from ._values.text import string

__all__ = [
    "AbiError",
    "Callback",
    "Entry",
    "Library",
    "LibraryError",
    "NativeCallError",
    "NativeCallable",
    "NativeFailure",
    "NoEntryError",
    "Signature",
    "SignatureError",
    "Slot",
    "SymbolError",
    "callback",
    "customslots",
    "extensibletype",
    "get_errno",
    "get_include",
    "load",
    "register_box",
    "string",
    "wrap",
]

# Messages, reprs and pickles name what people use where they find it. The metaclass is the
# runtime's, which may be another module's.
for _one in [globals()[_name] for _name in __all__ if _name in globals()]:
    if isinstance(_one, type) and _one is not extensibletype and _one.__module__ != __package__:
        _one.__module__ = __package__
del _one


def get_errno() -> int:
    """errno as this thread's last call of a function with ``errno=True`` left it; 0 before any."""
    return int(_types.saved_errno())


get_errno.__module__ = __package__
#: What the package has of this module.
NAMES = {name: globals()[name] for name in (*__all__, "__all__", "_open_box")}
