"""`native_object`: convert a pointer from a C function back to its native object."""

from __future__ import annotations

from .. import _ext, _lib
from .._errors import TYPE_CHECKING
from .describing import classes_by_address

if TYPE_CHECKING:
    from .._ext import Foreign


def native_object(pointer: object, cls: type = _ext.NativeObject, *, owned: bool = False) -> object:
    """Return the native object at an address, which is an ``NcObject *`` in native code.

    Parameters
    ----------
    pointer : cffi ``void *`` or int
        The address of a live object: other code must hold a reference, or `owned` must be true.
        To check that it is an object, the function reads one word of memory before the address.
    cls : type
        The class of the object, or a base class.
    owned : bool
        Whether the pointer carries a native reference, as for a new object. That reference is
        released, since the Python object replaces it.

    Returns
    -------
    NativeObject
        The object itself. If Python already has a reference to it, this is the same Python object.

    Raises
    ------
    TypeError
        If there is no object of `cls` at the address, `cls` is not a class of native objects, or
        `pointer` is neither a ``void *`` nor an int.
    ValueError
        If `pointer` is NULL or None. (Native callables return None for NULL.)

    Notes
    -----
    Nothing can check that the memory is readable, or that an object there is still alive. A pointer
    to an object's fields is not a pointer to the object.
    """
    if not isinstance(cls, _ext.nativeobjecttype):
        raise TypeError(f"{cls!r} is not a class of native objects")
    address = _address(pointer)
    found = _ext.object_with_class(address, classes_by_address.get, cls, owned)
    if found is None:
        raise TypeError(f"there is no object of class {cls.__name__!r} at {address:#x}")
    return found


def _address(pointer: Foreign) -> int:
    """Return the address of a ``void *`` or an int; refuse pointers of other types."""
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
