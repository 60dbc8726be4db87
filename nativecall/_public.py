"""The public names of the package and the modules that define them, imported on first use."""

from __future__ import annotations

from . import _ext

_NAMES = {
    "_bridges.numpy": "ufunc_loop",
    "_callable.callable": "NativeCallable",
    "_callable.entry": "Entry",
    "_callable.wrap": "wrap",
    "_callback": "Callback callback",
    "_cdecl.spelling": "Signature",
    "_errors": "AbiError LibraryError NativeCallError NativeFailure NoEntryError SignatureError "
    "SymbolError",
    "_library": "Library load",
    "_native_objects": "NativeObject ObjectArray field method native_object",
    "_public": "get_errno set_errno",
    "_reraise": "reraise",
    "_slots": "Slot customslots extensibletype get_include",
    "_values.foreign": "register_box",
    "_values.handles": "handle",
    "_values.storage": "Record",
    "_values.text": "string",
}
_PLACES = {name: place for place, names in _NAMES.items() for name in names.split()}


def found(name: str) -> object:
    """Return the value of a public name; None for any other name."""
    if name == "__all__":
        return sorted(_PLACES)
    place = _PLACES.get(name)
    if place is None:
        return None
    # Do not use importlib.import_module: importlib imports more modules.
    value = getattr(__import__(f"{__package__}.{place}", fromlist=[name]), name)
    # For `help`; classes set it themselves.
    classes = value.__mro__[:-1] if isinstance(value, type) else ()
    for member in (value, *[one for cls in classes for one in vars(cls).values()]):
        function = getattr(member, "__func__", member)  # of a class method
        if isinstance(function, type(found)):
            function.__module__ = "nativecall"
    return value


def get_errno() -> int:
    """Return errno from this thread's last call of a function with ``errno=True``; initially 0."""
    return int(_ext.saved_errno())


def set_errno(number: int) -> None:
    """Set errno for `get_errno`, and for the C code that called the running callback.

    A callback that does not call `set_errno` leaves C's errno unchanged. A number that does not fit
    a C int raises OverflowError.
    """
    _ext.set_errno(number)
