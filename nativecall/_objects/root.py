"""What the root class of native objects asks of Python: how objects show, are copied and pickled.

The class is shared by all interpreters of the process, so its methods are the core's, and each
interpreter has these functions called for it.
"""

from __future__ import annotations

from reprlib import recursive_repr

from .. import _lib
from .._errors import refuse_reload
from .declared import LOCK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types import Foreign

refuse_reload(globals(), "NativeObject")

_types = _lib.types
NativeObject = _types.NativeObject


def field_names(cls: type) -> list[str]:
    """The fields, but locks, of a class and its bases, as `__init__` takes them."""
    parts = reversed(_types.native_parts(cls))
    return [name for _, fields, _ in parts for name, code, _, _ in fields if code != LOCK]


@recursive_repr()
def _repr(self: object) -> str:
    """The class and the fields; references as what they refer to."""
    cls = type(self)
    shown = [f"{name}={getattr(self, name)!r}" for name in field_names(cls)]
    if not shown:
        return object.__repr__(self)
    return f"{cls.__name__}({', '.join(shown)})"


def _reduce(self: object, protocol: int) -> tuple[object, ...]:
    """By the class, the fields and what Python added, also of objects that refer to each other."""
    cls = type(self)
    fields = {}
    for owner, rows, _ in _types.native_parts(cls):
        for name, code, _, _ in rows:
            if code == LOCK:
                continue
            value = getattr(self, name)
            if code is not None and _has_pointer(code) and value is not None:
                raise TypeError(
                    f"cannot pickle or copy a {cls.__name__!r} object: field {name!r} of "
                    f"{owner.__name__!r} is a pointer"
                )
            fields[name] = value
    return _make, (cls,), (fields, object.__getstate__(self))


def _has_pointer(code: str) -> bool:
    return any([letter in code for letter in "&PX"])


def _make(cls: Foreign) -> object:
    return cls.__new__(cls)


def _setstate(self: object, state: object) -> None:
    """Sets what `__reduce_ex__` gave: the fields, and what `object.__getstate__` has besides."""
    fields, added = state if isinstance(state, tuple) and len(state) == 2 else (None, None)
    parts = added if isinstance(added, tuple) else (added,)
    given = [one for one in (fields, *parts) if one is not None]
    if fields is None or not all([isinstance(one, dict) for one in given]):
        raise TypeError(
            f"the state of a {type(self).__name__!r} object must be what its __reduce_ex__() "
            "gives: a tuple of a dict of fields, and None or a dict of other attributes "
            f"(got {state!r:.80})"
        )
    for one in given:
        for name, value in one.items():
            setattr(self, name, value)


_types.set_root_hooks(_repr, _reduce, _setstate)
