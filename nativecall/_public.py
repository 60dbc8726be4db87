"""The public names of the package and the modules that define them, imported on first use."""

from __future__ import annotations

from . import _ext

_PLACES = {
    "AbiError": "_errors",
    "Callback": "_callback",
    "Entry": "_callable.entry",
    "Library": "_library",
    "LibraryError": "_errors",
    "NativeCallError": "_errors",
    "NativeCallable": "_callable.callable",
    "NativeFailure": "_errors",
    "NativeObject": "_native_objects",
    "NoEntryError": "_errors",
    "ObjectArray": "_native_objects",
    "Record": "_values.storage",
    "Signature": "_cdecl.spelling",
    "SignatureError": "_errors",
    "Slot": "_slots",
    "SymbolError": "_errors",
    "callback": "_callback",
    "customslots": "_slots",
    "extensibletype": "_slots",
    "field": "_native_objects",
    "get_errno": "_public",
    "get_include": "_slots",
    "handle": "_values.handles",
    "load": "_library",
    "method": "_native_objects",
    "native_object": "_native_objects",
    "register_box": "_values.foreign",
    "reraise": "_reraise",
    "set_errno": "_public",
    "string": "_values.text",
    "ufunc_loop": "_bridges.numpy",
    "wrap": "_callable.wrap",
}


def found(name: str) -> object:
    """Return the value of a public name; None for any other name."""
    if name == "__all__":
        return [*_PLACES]
    place = _PLACES.get(name)
    if place is None:
        return None
    # Do not use importlib.import_module: importlib imports more modules.
    value = getattr(__import__(f"{__package__}.{place}", fromlist=[name]), name)
    if isinstance(value, type(found)):
        value.__module__ = "nativecall"  # for `help`; classes set it themselves
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
