"""Read C++ functions that pybind11 3.0 or later bound as pointers: `m.def("f", &f)`.

The built-in function that Python sees is bound to a pybind11 function record. If the function has
no state, the record holds the function's pointer and C++ type. The name of the record's type
contains the version of the record's layout, "v1". The bridge reads only this version, and only if
one of the records points to the same method definition as the built-in function.

A C++ function may throw. **If the exception escapes the function, it terminates the process, as
with any C caller**. If you wrap a function, you vouch that it does not throw.

The record does not say whether a function needs the GIL, so the bridge assumes that it does.
"""

from __future__ import annotations

import builtins
import re

from .. import _lib
from .._callable.callable import NativeCallable
from .._errors import TYPE_CHECKING, SignatureError
from .._values.foreign import Function
from . import itanium
from .BitGenerator import word

if TYPE_CHECKING:
    from .._ext import Foreign
    from .._types.signature import Signature

_RECORD = "pybind11_detail_function_record_"
_VERSION = "v1"
_PLATFORM = "gxx_abi_"  # with this ABI, std::vector is three pointers; `itanium` reads type names
# The words of a record: name, doc, signature, std::vector of arguments, the function that converts
# Python objects, three words of data, a destructor, bits and counts (two words), the method
# definition, the scope, the previous function of that name, and the next overload.
_DATA, _BITS, _DEF, _NEXT = 7, 11, 13, 16
_STATELESS = 1 << (8 + 2)  # in the word of bits: the third bit after the policy, a byte
_MOST = 64  # overloads to read at most
_ADVICE = (
    "export the pointer of a C function beside it, as in "
    'py::capsule((void *) &f, "double (double)"), and pass that'
)


def _is_of_c(kind: type) -> bool:
    """Return whether a type is defined in C, and its objects have a single field, a pointer.

    Only a type defined in C has a built-in `__new__` in its namespace.
    """
    new = vars(kind).get("__new__")
    return (
        kind.__bases__ == (object,)
        and kind.__basicsize__ == object.__basicsize__ + 8
        and type(new) is type(len)
        and getattr(new, "__self__", None) is kind
    )


def _records(obj: Foreign) -> list[int] | None:
    """Return the records of a function, one per overload; None if their layout is unknown."""
    record = obj.__self__
    kind = type(record).__name__
    if not kind.startswith(_RECORD + _VERSION + "_") or _PLATFORM not in kind:
        return None
    if _lib.ffi.sizeof("void *") != 8 or not _is_of_c(type(record)):
        return None
    # An object's own fields follow the object header.
    first = word(id(record) + object.__basicsize__, 0)
    definition = word(id(obj) + object.__basicsize__, 0)
    found: list[int] = []
    while first and len(found) < _MOST:
        found.append(first)
        first = word(first, _NEXT)
    # All overloads share one built-in function, whose definition belongs to one of the records.
    return found if any([word(one, _DEF) == definition for one in found]) else None


def _read(record: int) -> tuple[int, Signature] | str:
    """Return the address and signature of a record's function, or why there is none."""
    if not word(record, _BITS) & _STATELESS:
        return (
            "it was not bound from a function pointer: it is a method, a lambda or another object"
        )
    address, kind = word(record, _DATA), word(record, _DATA + 1)
    name = _lib.ffi.string(_lib.ffi.cast("char *", word(kind, 1))).decode("ascii", "replace")
    try:
        return address, itanium.read(name.lstrip("*"))
    except SignatureError as error:
        return str(error)


def _functions(obj: Foreign) -> dict[Signature, int]:
    """Return the addresses of all functions that can be read, by signature."""
    if type(obj) is not type(len):
        return {}
    found: dict[Signature, int] = {}
    for record in _records(obj) or ():
        read = _read(record)
        if isinstance(read, tuple):
            found.setdefault(read[1], read[0])
    return found


def function(obj: Foreign) -> Function | None:
    """Return the function that is bound as a pointer, unless several can be read, or none."""
    found = _functions(obj)
    if len(found) != 1:
        return None
    ((signature, address),) = found.items()
    return Function(address, signature, obj, obj.__name__, _lib.FLAG_NEEDS_GIL, supposed=True)


def native(obj: Foreign) -> NativeCallable | None:
    """Return the functions bound as pointers under one name, if there are several."""
    found = _functions(obj)
    if len(found) < 2:
        return None
    return NativeCallable(found, name=obj.__name__, owner=obj, gil="need")


def reason(obj: Foreign) -> str | None:
    """Return why no function of the object can be read."""
    if type(obj) is not type(len):
        return None
    records = _records(obj)
    if records is None:
        kind = type(getattr(obj, "__self__", None)).__name__
        return (
            f"{obj.__name__!r} is a pybind11 function whose record, a {kind!r}, has an unknown "
            f"layout: only version {_VERSION!r} built with GCC or Clang is supported; {_ADVICE}"
        )
    why = "; ".join([one for one in map(_read, records) if isinstance(one, str)])
    return f"no C function of pybind11's {obj.__name__!r} can be read: {why}; {_ADVICE}"


def of_capsule(obj: Foreign) -> str:
    """Return why a built-in function bound to a capsule is rejected.

    Before version 3, all functions of pybind11 were bound to capsules.
    """
    known = re.search(r"__pybind11_internals_(v\d+)_", " ".join(map(str, vars(builtins))))
    if known is None and "pybind11" not in repr(obj.__self__):
        return (
            f"{obj.__name__!r} is a built-in function that is bound to {obj.__self__!r}, which "
            "does not record the C function that it calls; pass its address and a signature"
        )
    version = "" if known is None else f", with internals {known[1]}"
    return (
        f"{obj.__name__!r} is a pybind11 function from before version 3.0{version}, whose record "
        f"is not supported: build its module with 3.0 or later, or {_ADVICE}"
    )
