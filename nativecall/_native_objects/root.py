"""Python methods of the root class of native objects: repr, copying and pickling."""

from __future__ import annotations

from reprlib import recursive_repr

from .. import _ext
from .._cdecl.spelling import parse_type
from .._errors import TYPE_CHECKING, refuse_reload
from .values import has_address

if TYPE_CHECKING:
    from .._ext import Foreign

refuse_reload(globals(), "NativeObject")

NativeObject = _ext.NativeObject


def field_names(cls: type) -> list[str]:
    """Return the field names of a class and its bases, in the order of `__init__`."""
    parts = [_ext.native_parts(one)[0] for one in reversed(_ext.native_order(cls))]
    return [name for fields in parts for name, *_ in fields]


@recursive_repr()
def _repr(self: object) -> str:
    """Return the class name and the fields; a field that refers to an object shows its repr."""
    cls = type(self)
    shown = [f"{name}={getattr(self, name)!r}" for name in field_names(cls)]
    if not shown:
        return object.__repr__(self)
    return f"{cls.__name__}({', '.join(shown)})"


def _getstate(self: object) -> tuple[dict[str, object], object]:
    """Return the fields, and the state that Python adds. Reference cycles are supported."""
    fields: dict[str, object] = {}
    for owner in _ext.native_order(type(self)):
        for name, code, _ in _ext.native_parts(owner)[0]:
            value = getattr(self, name)
            if code is not None and has_address(parse_type(code), value):
                raise TypeError(
                    f"cannot pickle or copy a {type(self).__name__!r} object: field {name!r} of "
                    f"{owner.__name__!r} is a pointer; define __getstate__() to leave it out"
                )
            fields[name] = value
    return fields, object.__getstate__(self)


def _setstate(self: object, state: object) -> None:
    """Restore a state from `__getstate__`: a dict of attributes, or a tuple of two such dicts."""
    given = _flat(state)
    if not given or not all([isinstance(one, dict) for one in given]):
        raise TypeError(
            f"the state of a {type(self).__name__!r} object must be what its __getstate__() "
            "returns, a dict of fields and other attributes or a tuple of two, or the class must "
            f"define __setstate__() (got {state!r:.80})"
        )
    for one in given:
        for name, value in one.items():
            setattr(self, name, value)


def _flat(state: object) -> list[Foreign]:
    """Return the parts of a state as a flat list; nested pairs are flattened and None is dropped.

    A pair holds either the fields and the other state, or the ``__dict__`` and the slots.
    """
    if isinstance(state, tuple) and len(state) == 2:
        return [one for part in state if part is not None for one in _flat(part)]
    return [state]


for _method in (_repr, _getstate, _setstate):
    setattr(NativeObject, f"_{_method.__name__}__", _method)
_ext.begin_objects()
