"""Find the object that a command-line argument names: ``MODULE:NAME`` or ``MODULE``.

Modules in the current directory are found, as with ``python -m``. A module may also be given by its
file, ``path/to/module.py``. An unknown name raises a CommandError that lists close matches.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from .. import _lib
from .._callable.callable import NativeCallable
from .._errors import (
    TYPE_CHECKING,
    LibraryError,
    SignatureError,
    SymbolError,
    closest,
    did_you_mean,
)
from .._output import CommandError

if TYPE_CHECKING:
    from types import ModuleType

    from .._ext import Foreign
    from .._library import Library


def find(place: str) -> object:
    """Return the object at ``MODULE:NAME``."""
    module, colon, name = place.partition(":")
    if not colon or not module or not name or _is_relative(module):
        raise CommandError(f"the object must be given as MODULE:NAME (got {place!r})")
    found: Foreign = imported(module)
    so_far = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            if part not in getattr(found, "__pyx_capi__", ()):
                known = [one for one in dir(found) if part[:1] == "_" or one[:1] != "_"]
                hint = did_you_mean(closest(part, known))
                raise CommandError(f"no {part!r} in {so_far!r}{hint}") from None
            found = found.__pyx_capi__[part]  # a C function that a Cython module exports
        except Exception as error:  # reading an attribute may raise anything
            reason = f"{type(error).__name__}: {error}"
            raise CommandError(f"{part!r} of {so_far!r} cannot be read: {reason}") from None
        so_far = f"{so_far}.{part}"
    return found


def _is_relative(module: str) -> bool:
    return module.startswith(".") and os.sep not in module


def imported(name: str) -> ModuleType:
    """Import a module by its name or its file."""
    if _is_relative(name):
        raise CommandError(f"a module must be given by its whole name, or its file (got {name!r})")
    is_path = os.sep in name or name.endswith(".py")
    path = os.path.realpath(name) if is_path else None
    try:
        folder = os.getcwd()
    except OSError:
        folder = ""  # the directory was deleted
    if path is not None:
        folder, name = _named(name, path)
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = import_module(name)
    except (Exception, SystemExit) as error:  # importing a module may raise anything
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            if f"{name}.".startswith(f"{error.name}."):
                raise CommandError(f"no module named {error.name!r}") from None
            reason = f"it needs {error.name!r}, which is missing"
        raise CommandError(f"module {name!r} cannot be imported: {reason}") from None
    origin = getattr(found, "__file__", None) or "elsewhere"
    if path is not None and os.path.realpath(origin) != path:
        raise CommandError(
            f"{path} cannot be imported: module {name!r} already comes from {origin}; "
            "rename one of them"
        )
    return found


def _named(place: str, path: str) -> tuple[str, str]:
    """Return the directory above a file's packages, and the module's name relative to it."""
    if os.path.isdir(path):
        raise CommandError(f"{place!r} is a folder; name a module")
    if not os.path.exists(path):
        raise CommandError(f"no file {place!r}")
    if not path.endswith(".py"):
        raise CommandError(f"{place!r} is not a Python file")
    folder, name = os.path.split(path.removesuffix(".py"))
    if name == "__init__":
        folder, name = os.path.split(folder)
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = f"{package}.{name}"
    return folder, name


def functions(found: Library) -> dict[str, NativeCallable]:
    """Return the declared functions that a library itself defines, including inline functions.

    If the library has no file (the process, or declarations alone) or defines no declared function,
    return all declared functions.
    """
    declarations: Foreign = found.declarations  # not None
    made: dict[str, NativeCallable] = {}
    own: dict[str, NativeCallable] = {}
    path = None if found.path is None else os.path.realpath(found.path)
    for name in declarations.functions:
        try:
            one = found[name]
        except (SymbolError, SignatureError, LibraryError):
            continue  # the name has no symbol, or the function is rejected
        if not isinstance(one, NativeCallable):
            continue
        made[name] = one
        origin = _lib.address_origin(one.address())
        inlined = name in declarations.inlines and not name.startswith("_")
        if inlined or (origin is not None and os.path.realpath(origin[0]) == path):
            own[name] = one
    return own if own and path is not None else made
