"""The public names of the package and their modules, imported when a name is first used."""

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
    """What the package has by a name; None for what is no public name."""
    if name == "__all__":
        return [*_PLACES]
    place = _PLACES.get(name)
    if place is None:
        return None
    # importlib imports more.
    found: object = getattr(__import__(f"{__package__}.{place}", fromlist=[name]), name)
    return found


def get_errno() -> int:
    """errno as this thread's last call of a function with ``errno=True`` left it; 0 before any."""
    return int(_ext.saved_errno())


def set_errno(number: int) -> None:
    """Set errno: for `get_errno`, and for the C code that called the callback that runs.

    Callbacks leave errno as C had it, unless they call this. OverflowError for what is no int of C.
    """
    _ext.set_errno(number)


get_errno.__module__ = set_errno.__module__ = __package__
