"""Read and write pointer, struct and array fields of native objects; NumPy views of a field."""

from __future__ import annotations

from types import SimpleNamespace

from .. import _ext, _lib
from .._cdecl.spelling import parse_type
from .._errors import TYPE_CHECKING, extra
from .._types.ctype import CType, Scalar
from .._types.derived import Array, Struct, inner_types
from .._values import callinterface, foreign
from .._values.calloptions import DEFAULT as _POLICIES
from .._values.dtypes import dtype_of
from .._values.storage import by_name, layout, load, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._ext import Foreign

_ADDRESS = parse_type("N")
_POINTERS = ("pointer", "voidptr", "function")


def loader(ctype: CType) -> Callable[[object, int], object]:
    """Return a function that reads a field, called with an object and the field's address."""
    if isinstance(ctype, Array) and isinstance(ctype.item, Scalar):
        extra("numpy", "a field that is an array")
        form, shape = dtype_of(ctype.item), ctype.shape
        return lambda object, address: _array(object, address, shape, form)
    if isinstance(ctype, (Struct, Array)) and _without_pointers(ctype) is ctype:
        made = layout(ctype)
        return lambda object, address: made(address, False, object)
    return lambda object, address: load(ctype, address)


def _array(
    keep: object, address: int, shape: tuple[int, ...], form: Foreign, strides: object = None
) -> Foreign:
    """Return a NumPy array over memory; the array keeps `keep` alive."""
    place: dict[str, object] = {"data": (address, False), "shape": shape}
    if strides is not None:  # NumPy 2.4 leaks a reference to None
        place["strides"] = strides
    interface = {"version": 3, "typestr": form.str, **place}
    memory = SimpleNamespace(object=keep, __array_interface__=interface)
    return extra("numpy", "an array").asarray(memory)


def view(array: Foreign, name: str, address: int, code: str | None, owner: type) -> object:
    """Return a NumPy array over one field of all objects in `array`; it keeps `array` alive."""
    np = extra("numpy", "a view of the fields of objects")
    who = f"field {name!r} of {owner.__name__!r}"
    if code is None:
        raise TypeError(
            f"{who} is a reference, which NumPy does not support; read it from single objects"
        )
    if owner.__dict__[name].atomic:
        raise TypeError(
            f"{who} is atomic, but NumPy's accesses are not; read it from single objects"
        )
    ctype = parse_type(code)
    item, shape = (ctype.item, ctype.shape) if isinstance(ctype, Array) else (ctype, ())
    form = np.dtype(dtype_of(item))
    whole = (len(array), *shape)
    if not len(array):
        return np.empty(whole, form)
    inner = np.empty(shape, form).strides
    return _array(array, address, whole, form, (array.stride, *inner)).view(form)


def has_address(ctype: CType, value: Foreign) -> bool:
    """Return whether a field's value holds an address, which is meaningless in another process."""
    if ctype.kind in _POINTERS:
        return value is not None
    if _without_pointers(ctype) is ctype:
        return False
    inner = inner_types(ctype)
    if isinstance(ctype, Array):
        inner = (ctype.row,) * len(value)
    elif isinstance(ctype, Struct):
        inner = tuple([field.type for field in ctype.members.values()])
    return any([has_address(one, part) for one, part in zip(inner, value, strict=True)])


def storer(ctype: CType, who: str) -> Callable[[object, Foreign, int], None]:
    """Return a function that sets a field, called with an object, a value and an address."""
    words = _without_pointers(ctype)

    def store_value(object: object, value: Foreign, address: int) -> None:
        if words is not ctype and foreign.struct(value) is None:
            replace(words, _with_addresses(ctype, value, who), address, who, [], _POLICIES)
        else:
            replace(ctype, value, address, who, [], _POLICIES)

    return store_value


# Native objects keep nothing alive for their pointer fields. So these fields refuse values that
# must be kept alive (buffers and Python functions), although arguments of calls accept them.


def _without_pointers(ctype: CType) -> CType:
    """Replace pointers in a type by integers of their size; return `ctype` if it has none."""
    if ctype.kind in _POINTERS:
        return _ADDRESS
    if not any([_without_pointers(inner) is not inner for inner in inner_types(ctype)]):
        return ctype
    if isinstance(ctype, Array):
        return Array(_without_pointers(ctype.item), ctype.shape)
    assert isinstance(ctype, Struct)
    parts = [(field.name, _without_pointers(field.type), field.width) for field in ctype.fields]
    return Struct(parts, ctype.packed, ctype.name, ctype.kind == "union")


def _with_addresses(ctype: CType, value: Foreign, who: str) -> Foreign:
    """Convert a value for `_without_pointers`; leave malformed values for the store to refuse."""
    if ctype.kind in _POINTERS:
        return _address(ctype, value, who)
    if isinstance(ctype, Struct):
        types = {name: field.type for name, field in ctype.members.items()}
        given = None if isinstance(value, (tuple, list)) else by_name(value)
        if isinstance(value, (tuple, list)) and len(value) == len(types):
            given = dict(zip(types, value, strict=True))
        if given is None:
            return value
        return {
            name: _with_addresses(types[name], one, f"field {name!r} of {who}")
            if name in types
            else one
            for name, one in given.items()
        }
    if isinstance(ctype, Array):
        item = ctype.row
        if _without_pointers(item) is not item and hasattr(value, "__len__"):
            return [_with_addresses(item, one, f"item {i} of {who}") for i, one in enumerate(value)]
    return value


def _address(ctype: CType, value: Foreign, who: str) -> int:
    """Return an int, None or a cffi pointer as an address; the user must keep the memory alive."""
    ffi = _lib.ffi
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < 2**64:
            raise OverflowError(f"{who} must be an address (got {value})")
        return value
    if isinstance(value, ffi.CData):
        if ctype.kind != "function":
            return _ext.pin(callinterface.of_argument(ctype, _POLICIES), who, -1, value).address
        given = foreign.pointer(value)
        if given is None or given.pointee not in (None, ctype):
            raise TypeError(f"{who} must be a function pointer {ctype.named!r} (got {value!r})")
        return given.address
    raise TypeError(
        f"{who} must be None, an address or a cffi pointer, which it does not keep alive (got "
        f"{type(value).__name__})"
    )
