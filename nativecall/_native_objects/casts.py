"""The way from a bare pointer, as C functions give one, back to the native object that it is."""

from __future__ import annotations

from .. import _ext, _lib
from .describing import known_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._ext import Foreign


def native_object(
    pointer: Foreign, cls: type = _ext.NativeObject, *, owned: bool = False
) -> Foreign:
    """Return the native object at an address: what native code has as ``NcObject *``.

    Parameters
    ----------
    pointer : cffi ``void *`` or int
        The address of an object that lives: somebody else has a reference to it, or `owned` is
        given. One word of memory before it is read to see whether it is one.
    cls : type
        The class that it must be an object of, or of a subclass.
    owned : bool
        Whether the pointer brings a native reference with it, as that of a new object does, which
        is then given back: Python's own takes its place.

    Returns
    -------
    NativeObject
        The object itself, the same one that Python has had before, if it has.

    Raises
    ------
    TypeError
        There is no object of `cls` at this address, `cls` is no class of native objects, or
        `pointer` is neither a ``void *`` nor an int.
    ValueError
        `pointer` is NULL, or None, which a call gives for it.

    Notes
    -----
    That memory can be read at an address, and that an object which was there has not ended, nobody
    can see. A pointer to an object's fields is not that of the object.
    """
    if not isinstance(cls, _ext.nativeobjecttype):
        raise TypeError(f"{cls!r} is no class of native objects")
    address = _address(pointer)
    found = _ext.object_with_class(address, known_class, cls, owned)
    if found is None:
        raise TypeError(f"there is no object of class {cls.__name__!r} at {address:#x}")
    return found


def _address(pointer: Foreign) -> int:
    """The address; what points to something of a type is refused, for that is no object."""
    ffi = _lib.ffi
    address = pointer
    if isinstance(pointer, ffi.CData) and ffi.typeof(pointer).cname == "void *":
        address = int(ffi.cast("uintptr_t", pointer))
    if address is None:
        address = 0
    if not isinstance(address, int) or isinstance(address, bool):
        raise TypeError(
            f"the pointer to a native object must be a cffi 'void *' or an address (got "
            f"{pointer!r:.80})"
        )
    if address == 0:
        raise ValueError("there is no native object at NULL")
    if not 0 < address < 2**64:
        raise OverflowError(f"an address has 64 bits (got {address})")
    return address
