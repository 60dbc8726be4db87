"""Results of calls, and of conversions alone, in a form that can be compared."""

from nativecall import _lib
from nativecall._values import storage


def outcome(call, *values):
    """Return the outcome of a call in a comparable form."""
    try:
        found = call(*values)
    except Exception as error:
        return type(error), str(error)
    return type(found).__name__, getattr(found, "_fields", None), repr(found)


def stored(ctype, value, name, number=1):
    """Write a value to memory as an argument of `name`, and read it again."""
    memory = _lib.ffi.new("char[]", ctype.size + 16)
    address = (int(_lib.ffi.cast("uintptr_t", memory)) + 15) & ~15
    storage.store(ctype, value, address, f"argument {number} of '{name}'", [])
    return storage.load(ctype, address)


def broken_function(x):
    raise LookupError("the cause")
