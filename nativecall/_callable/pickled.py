"""Pickle native callables, so that another process can recreate them.

Addresses are meaningless in another process. A function is pickled by library and symbol, by the
object it was created from, or by its name in a module. Other functions are refused, with a hint.
Native code is never pickled: the other process links or generates its own.
"""

from __future__ import annotations

import sys
from copyreg import dispatch_table
from importlib import import_module

from .. import _ext, _lib
from .._errors import TYPE_CHECKING
from .._values import foreign
from .._values.failure import convention
from .entry import gil_name

if TYPE_CHECKING:
    from types import FrameType

    from .._ext import Foreign
    from .._types.signature import Signature
    from .._values.calloptions import CallOptions, EntryOptions

    # The class of native callables, which this module must not import.
    Kind = type[Foreign]
    #: The result of `__reduce__`: a function and its arguments.
    Recipe = tuple[object, ...]

_WAY_OUT = (
    "only functions found by nativecall.load and attributes of modules that the other process can "
    "import can be pickled"
)


def recipe(callable: Foreign, kind: Kind) -> Recipe:
    """Return how another process recreates a callable of class `kind`.

    Raises
    ------
    TypeError
        If the callable cannot be recreated; the message says why, and what can be pickled.
    """
    try:
        return _made_of(callable, kind)
    except TypeError:
        named = by_name(callable)
        if named is None:
            raise
        return named


def _made_of(callable: Foreign, kind: Kind) -> Recipe:
    specializer = callable._specializer
    if specializer is not None:
        again = getattr(specializer.hook, "again", None)
        if again is None:
            raise TypeError(
                f"cannot pickle {callable!r}: it has a specialize hook, which would be lost; "
                "set 'specialize' to None first"
            )
        target, *rest = again(callable.__name__, callable._doc)
        made_by: Foreign = type(target)
        if made_by.__reduce__ is object.__reduce__ and made_by not in dispatch_table:
            # Objects such as f2py's can be pickled only by name.
            place = _place(target)
            if place is not None:
                return wrapped_there, (kind, *place, *rest)
        return wrapped, (kind, target, *rest)
    entries = callable._listed()
    if len(entries) > 1:
        parts = tuple([one for one, *_ in entries])
        for part in parts:
            part.__reduce__()  # raises an error that names a part which cannot be pickled
        return _together, (kind, callable.__name__, callable._doc, parts)
    if not entries:
        raise TypeError(f"cannot pickle {callable!r}: it has no entries")
    ((one, _, address, flags, owner),) = entries
    cif = one._entry()[0]
    options: CallOptions = {
        "gil": gil_name(flags),
        "errors": convention(flags).name,
        "errno": bool(flags & _lib.FLAG_ERRNO),
        **cif.policies._asdict(),  # type: ignore[typeddict-item]  # the fields are CallOptions' keys
    }
    how = cif.signature, callable.__name__, callable._doc, options
    pickled: Foreign = getattr(owner, "pickled", None)
    made: Recipe | None = None
    if type(owner) is foreign.Passing:
        owner = owner.foreign
    if pickled is not None:
        made = pickled(*how)
    elif (entry := _entry_of(owner)) is not None:
        # The owner is a native callable that was wrapped with other options, or a foreign callable
        # from `f.to_*`.
        if foreign.holds_entry(entry, address):
            made = wrapped, (kind, entry, *how)
    elif owner is not None:
        made = foreign.pickled(owner, *how)
        if made is None and (place := _place(owner)) is not None:
            made = wrapped_there, (kind, *place, *how)
    if made is None:
        raise TypeError(f"cannot pickle {callable!r}: it is known by its address only; {_WAY_OUT}")
    return made


def _entry_of(owner: object) -> Foreign:
    """Return `owner` if it is a native callable, otherwise the native callable behind it."""
    found = foreign.native(owner)
    return foreign.own_entry(owner) if found is None else found


# -- by name -------------------------------------------------------------------------------------


def by_name(callable: object) -> Recipe | None:
    """Return the recipe for a callable that is an attribute of a module; None for others."""
    place = _place(callable)
    return None if place is None else (imported, place)


def _place(obj: object) -> tuple[str, str] | None:
    """Return the names of the module and the attribute that hold an object, or None.

    Names in ``__main__`` are often rebound, so only the object's own name counts there. Under
    cloudpickle, no name in ``__main__`` counts, because the other process may run a different
    program.
    """
    found: list[tuple[str, str]] = []
    for module, loaded in [*sys.modules.items()]:
        # getattr on a module may run code; reading its dict does not.
        namespace = getattr(loaded, "__dict__", None)
        if type(namespace) is dict:
            names = [name for name, value in [*namespace.items()] if value is obj]
            if module == "__main__":
                names = [name for name in names if name == getattr(obj, "__name__", None)]
            found += [(module, name) for name in names if isinstance(name, str)]
    found = [one for one in found if one[0] != "__mp_main__"]
    found.sort(key=lambda one: one[0] == "__main__")
    if not found or (found[0][0] == "__main__" and takes_code_along()):
        return None
    return found[0]


def lookup(module: str, qualname: str) -> object:
    """Return the object with a qualified name in an imported module, or None."""
    found: Foreign = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def takes_code_along() -> bool:
    """Return whether cloudpickle is pickling, as in loky and Dask.

    cloudpickle pickles functions by value if they have no importable name. Since cloudpickle is
    Python code, its frames are on the stack.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if "cloudpickle" in str(frame.f_globals.get("__name__")):
            return True
        frame = frame.f_back
    return False


def imported(module: str, qualname: str) -> object:
    """Restore a callable that was pickled by its name in a module."""
    found = _found_there(module, qualname)
    if foreign.native(found) is None:
        raise TypeError(
            f"{module}.{qualname} was pickled as a native callable, but is a "
            f"{type(found).__name__} here"
        )
    return found


def _found_there(module: str, qualname: str) -> object:
    try:
        found: Foreign = import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise type(error)(
            f"a native callable was pickled as {module}.{qualname}, which does not exist here: "
            f"{error}"
        ) from error
    return found


# -- by origin -----------------------------------------------------------------------------------


def wrapped(
    kind: Kind,
    target: object,
    signature: Signature | None,
    name: str,
    doc: str | None,
    options: EntryOptions,
) -> object:
    """Restore a callable by wrapping its target again."""
    return kind(target, signature, name=name, doc=doc, **options)


def wrapped_there(kind: Kind, module: str, qualname: str, *how: Foreign) -> object:
    """Restore a callable by wrapping a foreign callable in a module again."""
    return wrapped(kind, _found_there(module, qualname), *how)


def _together(kind: Kind, name: str, doc: str | None, parts: tuple[Foreign, ...]) -> object:
    """Restore a callable of several entries."""
    made = _ext.CallableBase.__new__(kind)
    made._describe(name, doc)
    made._set_overloads(parts)
    return made
