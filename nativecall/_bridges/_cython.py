"""Cython: the C functions that modules export by name, and those behind `cpdef` functions.

A module's `__pyx_capi__` maps the name of each exported C function to a capsule. Functions are
exported if they are declared in a .pxd or marked `api`. A `cpdef` function is also a Python object,
whose type belongs to a module such as ``_cython_3_2_4``. Each variant of a function with fused
types has its own capsule: ``__pyx_fuse_1name`` and, since Cython 3.3, ``name[double]``.

The module does not record whether a C function needs the GIL or sets exceptions. The .pxd file
beside the module records both (``noexcept nogil``); other Cython modules are compiled against that
file. Without a .pxd, entries need the GIL, and calls from Python check for an exception.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from types import ModuleType

from .. import _lib
from .._callable.wrap import wrap
from .._errors import TYPE_CHECKING, SignatureError, SymbolError
from .._values import foreign
from . import pxd

if TYPE_CHECKING:
    from .._callable.callable import NativeCallable
    from .._ext import Foreign
    from .._values.foreign import Function

# Cython's prefix or suffix in the name of a variant of a function with fused types.
_VARIANT = re.compile(r"__pyx_fuse_(?:\d+_)*\d+|\[.*\]$")
_BEFORE = re.compile(r"(__pyx_fuse_(?:\d+_)*\d+)(.+)$")


def table(module: object) -> dict[str, object]:
    """Return the capsules that a module exports, by name; empty if it exports none."""
    found = getattr(module, "__dict__", {}).get("__pyx_capi__")
    return found if isinstance(found, dict) else {}


def plain_name(key: str) -> str:
    """Return the name of a function without the mark of its variant."""
    return _VARIANT.sub("", key, count=1)


def _variants(capsules: dict[str, object], name: str) -> list[str]:
    """Return the capsule names of the variants of a function with fused types."""
    # Keys that are not of type str are deprecated aliases.
    names = [key for key in capsules if isinstance(key, str) and name in key]
    return [key for key in names if plain_name(key) == name]


def _inside(package: ModuleType) -> list[str]:
    """Return the modules of a package that have a .pxd beside them."""
    import pkgutil

    folders = [one for one in getattr(package, "__path__", ()) if isinstance(one, str)]
    return [
        f"{package.__name__}.{name}"
        for folder in folders
        for _, name, _ in pkgutil.iter_modules([folder])
        if os.path.exists(os.path.join(folder, f"{name}.pxd"))
    ]


def exported(module: ModuleType, name: str) -> list[object]:
    """Return the capsules of a function that a Cython module exports to C.

    A function with fused types has one capsule per variant.

    Raises
    ------
    TypeError
        If the module exports no C functions.
    SymbolError
        If there is no such function; the message lists close matches.
    """
    capsules = table(module)
    if not capsules:
        hint = ""
        if name.isidentifier() and callable(module.__dict__.get(name)):
            hint = f"; for its own {name!r} write wrap({module.__name__}.{name})"
        elif inner := _inside(module):
            hint = f"; modules in it may: {', '.join(inner)}"
        raise TypeError(
            f"module {module.__name__!r} exports no C functions: it has no '__pyx_capi__', where "
            f"Cython lists them{hint}"
        )
    names = [name] if name in capsules else _variants(capsules, name)
    if not names:
        known = dict.fromkeys([plain_name(key) for key in capsules if isinstance(key, str)])
        raise SymbolError.missing(name, module.__name__, [*known])
    found = [capsules[key] for key in names]
    for one in found:
        if type(one).__name__ != "PyCapsule":
            raise TypeError(
                f"{name!r} in the '__pyx_capi__' of module {module.__name__!r} must be a PyCapsule "
                f"(got {type(one).__name__})"
            )
    return found


# -- call behaviour ------------------------------------------------------------------------------

# Maps a capsule's address to the exporting module and the capsule's name there. `_looked` holds the
# number of modules and the name of the last module at the last search. An import changes both.
_places: dict[int, tuple[str, str]] = {}
_looked: tuple[int, str] = 0, ""


def place(capsule: object) -> tuple[ModuleType, str] | None:
    """Return the module that exports a capsule, and the capsule's name there."""
    global _looked, _places
    found = _known(capsule)
    modules = [*sys.modules.items()]
    seen = len(modules), modules[-1][0]
    if found is None and seen != _looked:
        _places = {
            id(one): (name, key if type(key) is str else "")  # other keys are deprecated aliases
            for name, module in reversed(modules)  # the first module wins
            if isinstance(module, ModuleType)
            for key, one in table(module).items()
        }
        _looked = seen
        found = _known(capsule)
    return found


def _known(capsule: object) -> tuple[ModuleType, str] | None:
    name, key = _places.get(id(capsule), ("", ""))
    module = sys.modules.get(name)
    if not isinstance(module, ModuleType):
        return None
    capsules = table(module)
    there = [capsules.get(key)] if key else capsules.values()
    return (module, key) if any([one is capsule for one in there]) else None


def promised(capsule: object) -> tuple[int, bool, str | None]:
    """Return how to call the function in a capsule: the flags of an entry, whether these are only
    the default, and the function's name.
    """
    found = place(capsule)
    if found is None:
        return 0, False, None
    module, key = found
    name = plain_name(key)
    declared = pxd.beside(getattr(module, "__file__", None))
    promise = None if declared is None else declared.functions.get(name)
    if promise is None or promise.raises is None:
        return _lib.FLAG_NEEDS_GIL, True, name
    errors = _lib.ERRORS["python"] if promise.raises else 0
    if not promise.nogil:
        return _lib.FLAG_NEEDS_GIL | errors, False, name
    return errors | (_lib.FLAG_TAKES_GIL if errors else 0), False, name


# -- Python objects ------------------------------------------------------------------------------


def _behind(obj: Foreign) -> tuple[ModuleType, str] | None:
    """Return the module and the name of the C function behind a `cpdef` function."""
    name, module = getattr(obj, "__name__", None), getattr(obj, "__module__", None)
    module = sys.modules.get(module) if isinstance(module, str) else None
    if not isinstance(name, str) or not isinstance(module, ModuleType) or not table(module):
        return None
    variant = _BEFORE.match(name)
    if variant is not None:
        own = variant[2]
        if own.startswith("__pyx_f_"):
            own = pxd.unmangled(own, "__pyx_f_")[1]
        variants: object = getattr(module.__dict__.get(own), "__signatures__", None)
        if not isinstance(variants, Mapping) or not any([one is obj for one in variants.values()]):
            return None
        name = variant[1] + own
        return (module, name) if name in table(module) else None
    if module.__dict__.get(name) is not obj:
        return None
    capsules = table(module)
    return (module, name) if name in capsules or _variants(capsules, name) else None


def function(obj: Foreign) -> Function | None:
    """Return the C function of a `cpdef` function; None if there are several or none."""
    found = _behind(obj)
    if found is None:
        return None
    capsules = exported(*found)
    made = foreign.function(capsules[0]) if len(capsules) == 1 else None
    return None if made is None or made.signature is None else made


def native(obj: Foreign) -> NativeCallable | None:
    """Return the C functions of a `cpdef` function that has several."""
    found = _behind(obj)
    if found is None or len(exported(*found)) == 1:
        return None
    try:
        return wrap(found[0], found[1], name=plain_name(found[1]))
    except (SignatureError, TypeError):
        return None  # `reason` gives the details


def reason(obj: Foreign) -> str | None:
    """Return why a Cython function has no C function that can be called."""
    if not hasattr(obj, "__name__"):
        return None
    found = _behind(obj)
    if found is not None:
        try:
            wrap(*found)
        except (SignatureError, TypeError) as error:
            return f"the C function of {obj.__name__!r} cannot be read: {error}"
    return (
        f"{obj.__name__!r} is a Python function compiled by Cython, and its module exports no C "
        "function for it; declare it as 'cpdef' in a .pxd, or make a C function with "
        "nativecall.callback"
    )
