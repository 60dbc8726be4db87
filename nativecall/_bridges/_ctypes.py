"""Convert function pointers, data pointers and arrays of ctypes to nativecall and back."""

from __future__ import annotations

import ctypes
import sys
from _ctypes import FUNCFLAG_PYTHONAPI, FUNCFLAG_USE_ERRNO, _cast_addr  # type: ignore[attr-defined]  # ctypes' own

from .. import _ext, _lib
from .._cdecl.nodes import postorder
from .._errors import TYPE_CHECKING, SignatureError
from .._types.ctype import CHAR, PY_OBJECT, VOID, VOIDPTR, CType, integer, scalar
from .._types.derived import Array, Field, Struct
from .._types.derived import pointer as pointer_to
from .._types.signature import Signature
from .._values.foreign import Function, Pointer, beneath, holds_entry
from .._values.foreign import Struct as FoundStruct

if TYPE_CHECKING:
    from .._ext import Foreign

    _Known = dict[tuple[int, int], tuple[object, CType | SignatureError]]

    from .._callable.callable import NativeCallable

_CData: Foreign = ctypes.Structure.__mro__[1]
_CFuncPtr: Foreign = ctypes.CFUNCTYPE(None).__mro__[1]
_Pointer: Foreign = ctypes.POINTER(ctypes.c_int).__mro__[1]
_SimpleCData: Foreign = ctypes.c_int.__mro__[1]
_FORTRAN = 2  # NumPy's flag for Fortran order; C order is 1
_POINTER, _BYREF = 2, 3  # how the core reads the address: csrc/values/ctypespointers.c
_MOST_KEPT = 1000  # maximum number of objects that are searched for a pointer's entry
_CArgObject: Foreign = type(ctypes.byref(ctypes.c_int()))
# Read these without attribute lookup, which a user's class may override.
_base_of: Foreign = _CData.__dict__["_b_base_"].__get__
_objects_of: Foreign = _CData.__dict__["_objects"].__get__
_ext.know_ctypes(_CData.__dict__["_b_base_"], _CData.__dict__["_objects"])


def ctype_of(kind: Foreign, holder: Foreign = None, known: _Known | None = None) -> CType:
    """Return the C type of a ctypes type, inside the Structure `holder` if given.

    A pointer back to the struct that contains it becomes `void *`, as in `cffitype`. `known` caches
    the results, so that types that occur several times are converted once.

    Raises
    ------
    SignatureError
        For types whose values cannot be passed to C functions.
    """
    known = {} if known is None else known
    # Compare by identity, since a class may claim to equal another. `known` also keeps `kind`
    # alive, so that its id stays unique.
    key = id(kind), id(holder)
    if key not in known:
        try:
            known[key] = kind, _made_of(kind, holder, known)
        except SignatureError as error:
            known[key] = kind, error
    found = known[key][1]
    if isinstance(found, SignatureError):
        raise SignatureError(found.reason, hint=found.hint)
    return found


def _made_of(kind: Foreign, holder: Foreign, known: _Known) -> CType:
    if kind is None:
        return VOID
    is_type = isinstance(kind, type)
    if not is_type:
        raise SignatureError(f"{kind!r} is not a ctypes type")
    if hasattr(kind, "_swappedbytes_") or _is_swapped(kind):
        raise SignatureError(f"{kind.__name__} does not have this machine's byte order")
    if issubclass(kind, _SimpleCData):
        code = kind._type_
        if code == "P" and (elements := _elements(kind)) is not None:
            return pointer_to(elements)
        if code in _SIMPLE:
            return _SIMPLE[code]
    elif issubclass(kind, _CFuncPtr):
        function = _signature(
            kind.__dict__.get("_argtypes_"), kind.__dict__.get("_restype_"), holder, known
        )
        return pointer_to(VOID) if function is None else function.function
    elif issubclass(kind, _Pointer):
        if holder is not None and holder in postorder(kind, _parts):
            return pointer_to(VOID)
        try:
            return pointer_to(ctype_of(kind._type_, holder, known))
        except SignatureError:
            return pointer_to(VOID)
    elif issubclass(kind, (ctypes.Structure, ctypes.Union)):
        fields = [
            (name, ctype_of(field, kind, known), width[0] if width else None)
            for name, field, *width in _all_fields(kind)
        ]
        packed = getattr(kind, "_pack_", 0) == 1
        name = kind.__name__ if kind.__name__.isidentifier() else ""
        for way in (packed, not packed):
            made = Struct(fields, way, name, union=issubclass(kind, ctypes.Union))
            if _same_layout(made, kind):
                return made
        raise SignatureError(f"{kind.__name__} has a layout that no signature describes")
    elif issubclass(kind, ctypes.Array):
        item = CHAR if kind._type_ is ctypes.c_char else ctype_of(kind._type_, holder, known)
        return Array(item, (kind._length_,))
    raise SignatureError(f"a {kind.__name__} of ctypes cannot be passed by value")


def _elements(kind: Foreign) -> CType | None:
    """Return the element type of an ``ndpointer``, NumPy's array type for argtypes.

    Return None for other types, and for numbers in foreign byte order.
    """
    dtype: Foreign = getattr(kind, "_dtype_", None)
    if not getattr(dtype, "isnative", False) or dtype.kind not in "biufc":
        return None
    if dtype.kind in "iu":
        item = integer(dtype.itemsize, dtype.kind == "i")
    else:
        item = scalar(f"Z{dtype.char.lower()}" if dtype.kind == "c" else dtype.char)
    return Array(item, kind._shape_) if kind._shape_ else item


def _is_swapped(kind: Foreign) -> bool:
    """Return whether a simple ctypes type is the byte-swapped variant of another type.

    A type of one byte is its own variant.
    """
    orders = [getattr(kind, name, None) for name in ("__ctype_le__", "__ctype_be__")]
    native, other = orders if sys.byteorder == "little" else reversed(orders)
    return other is kind and native is not kind


def _same_layout(struct: Struct, kind: Foreign) -> bool:
    """Return whether a ctypes Structure has the same memory layout as `struct`."""
    if (struct.size, struct.alignment) != (ctypes.sizeof(kind), ctypes.alignment(kind)):
        return False
    return all([_first_bit(kind, field) == field.first_bit for field in struct.fields])


def _first_bit(kind: Foreign, field: Field) -> int:
    """Return the first bit of a Structure member; negative if there is no such member."""
    found = getattr(kind, field.name or "")
    bits = 0 if field.width is None else getattr(found, "size", 0) & 0xFFFF  # width << 16 | shift
    return 8 * int(getattr(found, "offset", -1)) + bits


def _wide() -> str:
    """Return the code of wchar_t: unsigned on AArch64 and Windows, signed on x86-64 Linux."""
    code = {2: "h", 4: "i"}[ctypes.sizeof(ctypes.c_wchar)]
    return code if int(_lib.ffi.cast("wchar_t", -1)) < 0 else code.upper()


#: C types of ctypes' simple types, by their letters; most letters equal nativecall's codes.
_SIMPLE: dict[str, CType] = {
    **{letter: scalar(letter) for letter in "?bBhHiIlLqQfdgc"},
    **{letter: scalar(f"Z{part}") for letter, part in zip("CDEFG", "ddffg", strict=True)},
    "P": VOIDPTR,
    "z": pointer_to(CHAR),
    "Z": pointer_to(scalar(_wide())),
    "O": PY_OBJECT,
}


def _all_fields(kind: Foreign) -> list[Foreign]:
    """Return the fields of a Structure, base classes first."""
    return [one for cls in reversed(kind.__mro__) for one in cls.__dict__.get("_fields_", ())]


def _parts(kind: Foreign) -> list[Foreign]:
    """Return the ctypes types that a type refers to directly: members, items, arguments, result."""
    own = kind.__dict__
    parts = [field[1] for field in _all_fields(kind)]
    parts += [getattr(kind, "_type_", None), own.get("_restype_"), *(own.get("_argtypes_") or ())]
    return [part for part in parts if isinstance(part, type)]


def _signature(
    argtypes: Foreign, restype: Foreign, holder: Foreign = None, known: _Known | None = None
) -> Signature | None:
    """Return the signature of argtypes and restype; None if they do not determine one."""
    is_told = restype is None or isinstance(restype, type)
    if argtypes is None or not is_told or _untold(argtypes) is not None:
        return None
    known = {} if known is None else known
    result = ctype_of(restype, holder, known)
    return Signature(result, [_argument(argtype, holder, known) for argtype in argtypes])


def _untold(argtypes: Foreign) -> int | None:
    """Return the index of the first argtype that does not determine the C type.

    Such an argtype is not a ctypes type, or converts arguments itself.
    """
    told = [
        isinstance(one, type) and issubclass(one, _CData) and not _converts(one) for one in argtypes
    ]
    return None if all(told) else told.index(False)


def _converts(kind: Foreign) -> bool:
    """Return whether a ctypes type, or its metaclass, has a `from_param` written in Python.

    A NumPy `ndpointer` type counts only if it requires Fortran order for arrays that are not
    one-dimensional, since nativecall implements its other checks.
    """
    if type(kind.from_param) is type(ctypes.c_double.from_param):
        return False
    is_line = getattr(kind, "_ndim_", None) == 1
    return not hasattr(kind, "_dtype_") or (not is_line and (kind._flags_ or 0) & 3 == _FORTRAN)


def _argument(kind: Foreign, holder: Foreign, known: _Known) -> CType:
    """Return the C type of an argtype; an array becomes a pointer to its first element."""
    if issubclass(kind, ctypes.Array):
        return pointer_to(ctype_of(kind._type_, holder, known))
    return ctype_of(kind, holder, known)


def function(obj: Foreign) -> Function | None:
    """Return the function of a ctypes function pointer, with its signature if argtypes are set."""
    if not isinstance(obj, _CFuncPtr):
        return None
    check = _check_of(obj)
    if check is not None:
        raise SignatureError(
            f"ctypes calls {check} with the results of {obj!r}",
            hint="to call it without that check, pass its address and a signature",
        )
    signature = _signature(obj.argtypes, obj.restype)
    name = getattr(obj, "__name__", None)
    flags = 0
    if type(obj)._flags_ & FUNCFLAG_PYTHONAPI:
        # ctypes holds the GIL while it calls such a function, and raises the exception that the
        # function sets.
        flags = _lib.FLAG_NEEDS_GIL | _lib.ERRORS["python"]
    if type(obj)._flags_ & FUNCFLAG_USE_ERRNO:
        flags |= _lib.FLAG_ERRNO
    return Function(_address(obj), signature, obj, name if isinstance(name, str) else None, flags)


def reason(obj: Foreign) -> str | None:
    """Return why a ctypes object has no C function, and what to pass instead."""
    if isinstance(obj, type) and issubclass(obj, _CFuncPtr):
        return f"{obj.__name__} is a class of ctypes function pointers; pass an instance of it"
    if isinstance(obj, ctypes.c_void_p):
        return (
            "a ctypes c_void_p has no type; if it is a function, pass the address and a "
            "signature: wrap(it.value, 'd:d')"
        )
    if not isinstance(obj, _CFuncPtr):
        return None
    if obj.argtypes is None:
        return "its argtypes are not set"
    untold = _untold(obj.argtypes)
    if untold is None:
        return "its restype is a Python function"
    kind = obj.argtypes[untold]
    name = getattr(kind, "__name__", type(kind).__name__)
    what = "is a Python class without a C type"
    if isinstance(kind, type) and issubclass(kind, _CData):
        what = "converts arguments itself (from_param), which C does not"
    return f"{name}, argument {untold + 1} of its argtypes, {what}"


def _address(obj: Foreign) -> int:
    """Return the pointer that an object stores. ctypes.cast() would create a reference cycle."""
    return ctypes.c_void_p.from_address(ctypes.addressof(obj)).value or 0


def _check_of(obj: Foreign) -> str | None:
    """Return the name of the Python code to which ctypes passes the function's results, or None."""
    if hasattr(obj.restype, "_check_retval_"):
        return f"{obj.restype.__name__}._check_retval_"
    return None if getattr(obj, "errcheck", None) is None else "its errcheck"


def own_entry(obj: Foreign) -> NativeCallable | None:
    """Return the entry of a ctypes function pointer that nativecall created; None for others.

    The pointer keeps its entry alive. ctypes copies that reference to casts of the pointer, and to
    structs and arrays to which the pointer is assigned. So search all objects that `obj` keeps.
    """
    if not isinstance(obj, _CFuncPtr) or _check_of(obj) is not None:
        return None
    address = _address(obj)
    pending: list[Foreign] = [obj]
    seen: set[int] = set()
    while pending and len(seen) < _MOST_KEPT:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if type(one) is dict:
            pending += list(one.values())
        elif issubclass(type(one), _CData):
            pending += (one._objects, one._b_base_)
        elif holds_entry(one, address):
            return beneath(one)
    return None


def kept(obj: Foreign) -> list[object]:
    """Return objects that keep the targets of all pointers in `obj` alive, even if it changes."""
    root = obj
    while (base := _base_of(root)) is not None:
        root = base
    found: list[object] = [obj]
    seen: set[int] = set()
    pending = [_objects_of(root)]
    while pending:
        one = pending.pop()
        if type(one) is not dict:
            found.append(one)
        elif id(one) not in seen:
            # Keep the values, since ctypes modifies these dicts. It also nests the dicts.
            seen.add(id(one))
            pending += one.values()
    return found


def layout(obj: Foreign) -> CType | None:
    """Return the C type of a ctypes object's memory; None for other objects.

    The buffer format cannot be used, since ctypes omits padding from it.
    """
    return ctype_of(type(obj)) if issubclass(type(obj), _CData) else None


def struct(obj: Foreign) -> FoundStruct | None:
    """Return a Structure or Union with the memory that ctypes allocated for it.

    A ``__buffer__`` method of its class is ignored.
    """
    kind = type(obj)
    if not issubclass(kind, (ctypes.Structure, ctypes.Union)) or not hasattr(kind, "_fields_"):
        return None
    shown = f"ctypes' {kind.__name__}"
    try:
        found = ctype_of(kind)
    except SignatureError as error:
        return FoundStruct(None, f"{shown}, {error}", 0, [])
    return FoundStruct(found, f"{shown}, {found.text!r}", ctypes.addressof(obj), kept(obj))


def pointer(obj: Foreign) -> Pointer | None:
    """Return the address in a ctypes pointer, array, byref() or function pointer."""
    if isinstance(obj, _CFuncPtr):
        found: Foreign = function(obj)
        known = None if found.signature is None else found.signature.function
        return Pointer(found.address, known, kept(obj))
    if isinstance(obj, (_Pointer, ctypes.Array)):
        pointee, is_struct = _pointee(type(obj)._type_)
        if isinstance(obj, ctypes.Array):
            memory = _ext.hold(obj)
            return Pointer(memory.address, pointee, memory, is_memory=True, struct=is_struct)
        # _pointee may run user code, so read the address and the kept objects after it.
        taken = type(obj), _POINTER
        return Pointer(_address(obj), pointee, kept(obj), struct=is_struct, taken=taken)
    if isinstance(obj, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_wchar_p)):
        pointee = getattr(ctype_of(type(obj)), "pointee", None)
        return Pointer(_address(obj), pointee, kept(obj), ctypes.addressof(obj))
    if type(obj) is _CArgObject:  # byref() returns such objects; so does from_param()
        try:
            ctypes.c_void_p.from_param(obj)
        except TypeError:
            return None  # the argument is a number or text
        held = obj._obj
        pointee, is_struct = _pointee(type(held))
        address = _cast(obj, ctypes.c_void_p).value or 0
        if not isinstance(held, _CData):
            return Pointer(address, pointee, obj, struct=is_struct)
        _ext.know_byref(obj, held, address)
        taken = type(held), _BYREF
        return Pointer(address, pointee, _ext.hold(held), struct=is_struct, taken=taken)
    return None


def _pointee(kind: Foreign) -> tuple[CType | None, bool]:
    """Return the pointee type (None if no C type describes it) and whether it is a struct."""
    element = kind
    while issubclass(element, ctypes.Array):
        element = element._type_
        kind = kind if kind._length_ else element
    is_struct = issubclass(element, (ctypes.Structure, ctypes.Union))
    if element is ctypes.c_wchar or hasattr(element, "_swappedbytes_") or _is_swapped(element):
        # Treat numbers in foreign byte order as bytes.
        return scalar(_wide() if element is ctypes.c_wchar else "B"), is_struct
    try:
        return ctype_of(kind), is_struct
    except SignatureError:
        return None, is_struct


def _cast(obj: Foreign, kind: Foreign) -> Foreign:
    """Call `ctypes.cast` on a valid object, so an ArgumentError can only mean lack of memory."""
    try:
        return ctypes.cast(obj, kind)
    except ctypes.ArgumentError:
        raise MemoryError from None


def to_ctypes(signature: Foreign = None) -> tuple[Foreign, Foreign]:
    """Parse the arguments of `NativeCallable.to_ctypes` that the core does not parse itself."""
    return signature, None


def form(entry: NativeCallable) -> tuple[Foreign, ...]:
    """Return what the core needs to create function pointers that keep their entry alive.

    These are the function pointer class, the class of the object to cast (`c_void_p`), and the
    address of ctypes' cast function. Calls of the function pointers hold the GIL, unless the entry
    requests its release.
    """
    from .ctypestype import prototype
    from .libffi import refuse_gap

    cif, _, flags = entry._chosen(None)
    signature = cif.signature
    refuse_gap("ctypes", signature, flattened=False)
    hold = not flags & _lib.FLAG_RELEASE_GIL
    return prototype(signature, hold=hold), ctypes.c_void_p, _cast_addr


class Unfit:
    """Stand-in for a callable that ctypes cannot pass; `_as_parameter_` raises the error."""

    def __init__(self, callable: NativeCallable) -> None:
        self._callable = callable

    @property
    def _as_parameter_(self) -> Foreign:
        found = self._callable
        if len(found.signatures) < 2:
            return found.to_ctypes()
        name = found.__name__
        each = [f"{name}[{one!r}]" for one in found.signatures]
        raise TypeError(
            f"ctypes does not say which entry of {name!r} it wants; pass {', '.join(each[:-1])} "
            f"or {each[-1]}, or f.to_ctypes(CLASS), with the class in argtypes"
        )


def typed(
    callable: NativeCallable, kind: Foreign, _: None
) -> tuple[NativeCallable, tuple[Foreign, ...]]:
    """Return the entry that a function pointer class selects, and a tuple as `form` returns it."""
    name = getattr(kind, "__name__", repr(kind))
    if not issubclass(kind, _CFuncPtr):
        raise TypeError(
            "'signature' must be a signature, or a function pointer class made by ctypes.CFUNCTYPE "
            f"(got the class {name})"
        )
    signature = _signature(getattr(kind, "_argtypes_", None), getattr(kind, "_restype_", None))
    if signature is None:
        raise TypeError(
            f"'signature' must be a class whose argument types are all ctypes types (got {name})"
        )
    from .libffi import refuse_gap

    entry = callable._matching(signature)
    refuse_gap("ctypes", entry._chosen(None)[0].signature, flattened=False)
    return entry, (kind, ctypes.c_void_p, _cast_addr)


def pickled(obj: Foreign, *how: Foreign) -> tuple[object, ...] | None:
    """For `pickle`: return how to load a ``ctypes.CDLL`` function again; None for others."""
    symbol = getattr(obj, "__name__", None)
    kept = _objects_of(obj) if isinstance(obj, _CFuncPtr) else None
    loaded = kept.get("0") if isinstance(kept, dict) else None
    if not isinstance(loaded, ctypes.CDLL) or not isinstance(symbol, str):
        return None
    try:
        same = _address(loaded[symbol]) == _address(obj)
    except AttributeError:
        return None
    from .._library.symbol import restored

    return restored(loaded._name, symbol, *how) if same else None
