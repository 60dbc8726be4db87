"""Memory for a library's types: `lib.new`, and NumPy views of it. cffi owns the memory.

The memory keeps alive the objects that are assigned to its pointers: functions, text, buffers,
arrays, and structs made from lists and mappings. It also keeps alive the structs that are copied
into it, and their objects. Assigning to a member through cffi itself keeps nothing alive.

If a value does not fit, the error names the member, and no memory is returned.
"""

from __future__ import annotations

import operator
import sys
from math import prod

import _cffi_backend

from .. import _ext, _lib
from .._callable.pythonfunction import spec_of
from .._cdecl.cffitype import from_ffi, is_same_name
from .._cdecl.nodes import c_name_of, element
from .._cdecl.spelling import is_ffi_type
from .._errors import TYPE_CHECKING, SignatureError, closest, did_you_mean, extra, wrong_type
from .._fifo import Cache
from .._types.ctype import CType
from .._types.signature import Signature
from .._values import callinterface, foreign, handles, storage
from .._values.dtypes import dtype_of
from .._values.storage import Record as Values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Protocol, Self, TypeAlias

    from numpy import ndarray
    from numpy.typing import DTypeLike

    from .._callable.callable import NativeCallable
    from .._ext import CallbackSpec, CallInterface, FFIData, FFIType, Foreign, Pin
    from .._types import derived

    class Owner(derived.Owner, Protocol):
        """The object that holds the types of a library (types.py)."""

        rows: Cache[object, Foreign]
        slots: Cache[FFIType, Foreign]

        @property
        def names(self) -> Foreign: ...
        @property
        def ffi(self) -> Foreign: ...
        def type(self, text: str) -> FFIType: ...
        def alignment(self, text: str) -> int: ...
        def encoded(self, text: str, who: str) -> bytes: ...

    NDArray = ndarray[Foreign, Foreign]
    #: A value's position, for messages: a name, or a key and its container's position.
    Who: TypeAlias = str | tuple[str | int, "Who"]
    # A tuple that the core reads; csrc/callable/cffimemory.c documents it.
    Row: TypeAlias = tuple[Foreign, ...]

RECORDS = ("struct", "union")
#: Alignment of cffi's own memory.
CFFI_ALIGNS = 16
_POINTERS = ("pointer", "function")
#: cffi's flag of members that positional initialisers skip.
IGNORED = 1
#: Pointers to these types accept `bytes`; C gets a copy.
CHARACTERS = ("char", "signed char", "unsigned char", "int8_t", "uint8_t", "void")
_newp, _typeof, _cast = _cffi_backend.newp, _cffi_backend.typeof, _cffi_backend.cast
_buffer_of, _bare = _cffi_backend.buffer, _ext.bare
_CData = _cffi_backend._CDataBase
_BYTES = _lib.ffi.typeof("char *")
_WORDS = _lib.ffi.typeof("uintptr_t")
#: cffi's errors for unsuitable initialisers, such as SystemError for structs with flexible arrays.
_MISFITS = (TypeError, ValueError, OverflowError, LookupError, SystemError)
#: Types of array initialisers that are not read as buffers.
_INITIALISERS = (list, tuple, int, bytes, str, dict, _CData, type(None))
#: cffi's `new` in memory that keeps the targets of its pointers alive.
_in_block = _lib.ffi.new_allocator(_ext.allocate_block, None, False)


# Cached, since cffi 2.1 leaks references on CPython 3.15 when asked for an existing type.
_pointer_types: Cache[FFIType, FFIType] = Cache(256)


def pointer_to(ctype: FFIType) -> FFIType:
    """Return cffi's pointer type to a type."""
    found = _pointer_types.get(ctype)
    return found or _pointer_types.keep(ctype, _cffi_backend.new_pointer_type(ctype))


def leads_on(ctype: FFIType) -> bool:
    """Return whether memory of a type contains pointers."""
    ctype = element(ctype)
    if ctype.kind in RECORDS:
        return any([leads_on(field.type) for _, field in ctype.fields or ()])
    return ctype.kind in _POINTERS


# -- allocation ----------------------------------------------------------------------------------


def new(owner: Owner, given: object, init: object) -> FFIData:
    """Implement `Library.new` for a type that the core has not cached yet."""
    if isinstance(given, str):
        text = str.__str__(given)
        ctype = _checked(owner, owner.type(text))
        row = owner.rows.keep(text, _row(owner, ctype, owner.alignment(text)))
    elif is_ffi_type(given):
        row = row_of(owner, _checked(owner, given))
    else:
        raise wrong_type("'ctype'", "a C type or a cffi type", given)
    return _ext.make(row, init)


def row_of(owner: Owner, ctype: FFIType) -> Row:
    """Return the row for allocating a complete pointer or array type."""
    found: Row | None = owner.rows.get(ctype)
    return owner.rows.keep(ctype, _row(owner, ctype, 1)) if found is None else found


def _row(owner: Owner, ctype: FFIType, alignment: int) -> Row:
    """Return the row for allocating a type, for the core (csrc/callable/cffimemory.c).

    `alignment` is the alignment requested by a typedef.
    """
    item, is_array = ctype.item, ctype.kind == "array"
    whole = ctype if is_array else item
    how = _how(owner, whole)  # must be first: cffi aborts for some texts that are not types
    alignment = max(alignment, _lib.ffi.alignof(item))
    is_usual = alignment <= CFFI_ALIGNS
    name, length = repr(whole.cname), ctype.length if is_array else None
    elements = (_elements(owner, item), _lib.ffi.sizeof(item)) if is_array else None

    def allocate(init: object, kept: list[Foreign]) -> FFIData:
        if is_usual:
            return _newp(ctype, init) if how is None else _ext.make_of(row, init, kept)
        return _aligned(alignment, kept)(ctype, init)

    def again(init: Foreign, kept: list[Foreign], who: Who) -> FFIData:
        """Allocate for initialisers that the core does not handle, or raise."""
        source, init = init, _text(owner, whole, _bare(init), who)
        if how is not None and isinstance(init, _CData):
            kept.append(source)
        if elements is not None and not isinstance(init, _INITIALISERS):
            held = _buffer(elements[0], init, who)
            if held is not None:
                count = -(-held.size // max(_lib.ffi.sizeof(item), 1))
                if length is not None and count > length:
                    raise IndexError(f"{_named(who)} has {length} items (got {count})")
                made = allocate(count if length is None else None, kept)
                _cffi_backend.memmove(made, _cast(_BYTES, held.address), held.size)
                return made
        room = init
        if not (is_array and _is_whole(whole, init)):
            room, init = _sized(owner, whole, init, kept, who)
        try:
            made = allocate(room, kept)
        except MemoryError:
            raise MemoryError(f"there is not enough memory for {name}") from None
        except _MISFITS as error:
            raise type(error)(f"{_named(who)}: {_unsuited(error, init)}") from None
        if is_array and init is not room:
            _fill(owner, made, whole, init, kept, who)
        elif init is not room:
            _write(owner, made, 0, whole, init, kept, who)
        return made

    in_block = _in_block if is_usual else None
    known = in_block, length, elements, how, again, name
    row = ctype, pointer_to(item), *known, owner.structs if owner.structs[ctype] else None
    return row


def _how(owner: Owner, ctype: FFIType) -> object:
    """Return how the core converts initialisers for cffi (csrc/callable/cffimemory.c), or None."""
    if ctype.kind in _POINTERS:
        return _slot(owner, ctype).parts
    if not leads_on(ctype):
        return None
    if ctype.kind == "array":
        return (_how(owner, ctype.item),)
    members = [(name, _how(owner, field.type)) for name, field in ctype.fields]
    return tuple(_by_position(ctype)), tuple([one for one in members if one[1] is not None])


def _aligned(alignment: int, kept: list[Foreign]) -> Callable[[FFIType, object], FFIData]:
    """Return cffi's `new` for memory with larger alignment; the memory keeps `kept` alive."""
    ffi = _lib.ffi

    def room(size: int) -> FFIData:
        raw = ffi.new("char[]", size + alignment)
        start = int(ffi.cast("uintptr_t", raw))
        aligned = ffi.cast("char *", -(-start // alignment) * alignment)
        return ffi.gc(aligned, _ext.Destructor((raw, kept)))

    made: Callable[[FFIType, object], FFIData] = ffi.new_allocator(room, None, False)
    return made


def _checked(owner: Owner, ctype: FFIType) -> FFIType:
    """Return the pointer or array type to allocate for a type."""
    if ctype.kind not in ("pointer", "array"):
        if ctype.kind == "void":
            raise TypeError("'void' has no size, so it cannot be allocated")
        ctype = pointer_to(ctype)
    if ctype.kind == "pointer" and ctype.item.kind == "array" and ctype.item.length is None:
        sized = ctype.item.cname.replace("[]", "[n]", 1)
        raise TypeError(f"{ctype.item.cname!r} has no length; allocate {sized!r} instead")
    item = element(ctype.item)
    if item.kind in RECORDS and item.fields is None:
        reason = owner.names.reason(item.cname)
        if reason is not None:
            raise TypeError(f"the layout of {item.cname!r} is not known: {reason}")
        raise TypeError(
            f"{item.cname!r} is incomplete: it is not declared in full, so it cannot be allocated "
            f"here; if a library function creates one, '{item.cname} *[1]' can hold a pointer to it"
        )
    if item.kind == "void":
        raise TypeError("'void' has no size; allocate 'char[n]' instead")
    return ctype


def assign(owner: Owner, ctype: FFIType, address: int, init: object, who: str) -> list[object]:
    """Write a whole array, struct or union at an address; return the objects to keep alive.

    A value that does not fit changes nothing.
    """
    if ctype.kind == "array":
        if ctype.length is None:
            raise TypeError(
                f"{who} has no known length, so it cannot be assigned as a whole; assign to its "
                "items"
            )
        _check_counts(ctype, init, who)
    row = row_of(owner, ctype if ctype.kind == "array" else pointer_to(ctype))
    made = _ext.make(row, init, who)
    _lib.ffi.memmove(_lib.ffi.cast("char *", address), made, _lib.ffi.sizeof(ctype))
    return [made] if leads_on(ctype) else []


def _check_counts(ctype: FFIType, init: object, who: str) -> None:
    """Raise ValueError unless `init` fills all dimensions of an array; text may be shorter."""
    is_text = isinstance(init, (bytes, str))
    items = init if isinstance(init, (bytes, str)) else _items(init, who)
    if len(items) > ctype.length or (len(items) < ctype.length and not is_text):
        raise ValueError(f"{who} has {ctype.length} items (got {len(items)})")
    if ctype.item.kind == "array" and not is_text:
        for index, item in enumerate(items):
            _check_counts(ctype.item, item, f"item {index} of {who}")


# -- members -------------------------------------------------------------------------------------


class StructPointer(_ext.StructPointerBase):
    """Wrap a cffi object: a pointer to a struct that contains pointers, or an array.

    `Structs` decides which cffi objects are wrapped.

    Members and items accept the same values as initialisers. Other attributes are those of the
    wrapped cffi object, `cdata`.
    """

    __slots__ = ()

    def __new__(cls, *_: object) -> Self:
        raise TypeError(f"{cls.__name__} is made by Library.new and native callables")

    def __getitem__(self, key: int | slice) -> Foreign:
        return _found(self, _bare(self)[key])

    def __setitem__(self, key: str | int | slice, value: object) -> None:
        """Assign to an item, or to a member by name."""
        data, structs = _bare(self), _structs_of(self)
        ctype = _typeof(data)
        part, name, before, size = structs.part(ctype, key)
        if part is None or isinstance(key, slice):
            _assign(data, key, value, name)  # cffi assigns it or raises
            return
        held: list[Foreign] = []
        who = key, name
        if part.kind in RECORDS or (part.kind == "array" and part.length is not None):
            changed = _newp(pointer_to(part), None)  # a copy: an error changes nothing
            changed[0] = getattr(data, key) if isinstance(key, str) else data[key]
            _write(structs.owner, changed, 0, part, value, held, who)
            _assign(data, key, changed[0], who)
        else:
            _write(structs.owner, data, key, part, value, held, who)
        if size:
            start = _lib.ffi.addressof(data) if ctype.kind in RECORDS else data
            before = before if isinstance(key, str) else key * size
            kept, where = _kept_of(self), int(_cast(_WORDS, start)) + before
            if part.kind not in _POINTERS:
                if held:  # members of a struct may need the old objects
                    kept[where, size] = held
            elif held:
                kept[where] = held
            else:
                kept.pop(where, None)

    def __len__(self) -> int:
        return len(_bare(self))

    def __iter__(self) -> Iterator[Foreign]:
        return iter([_found(self, one) for one in _bare(self)])

    def __add__(self, count: Foreign) -> Foreign:
        return _found(self, _bare(self) + count)

    __radd__ = __add__

    def __sub__(self, other: Foreign) -> Foreign:
        return _found(self, _bare(self) - _bare(other))

    def __call__(self, *args: object) -> Foreign:
        return _ext.struct_pointer(_bare(self)(*map(_ext.bare, args)), _structs_of(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        _lib.ffi.release(_bare(self))

    def __repr__(self) -> str:
        return repr(_bare(self))

    def __dir__(self) -> list[str]:
        return dir(_bare(self))


# Read the attributes through descriptors, because struct members may have the same names.
_structs_of = _ext.StructPointerBase._structs.__get__
_kept_of = _ext.StructPointerBase._kept.__get__
_ext.set_class(StructPointer)


def _found(pointer: StructPointer, value: Foreign) -> Foreign:
    """Return an object found in the pointer's memory, as a StructPointer if necessary."""
    return _ext.struct_pointer(value, _structs_of(pointer), _kept_of(pointer))


class Structs(dict["FFIType", "bool | dict[str, tuple[Foreign, ...]]"]):
    """A dict from cffi types to whether a StructPointer wraps their objects; filled on first use.

    For a pointer to a struct it contains, instead of True, what the core needs to assign to the
    members that are pointers: by name, the slot, the function that converts, and the offset.

    A StructPointer wraps structs that contain pointers, and functions with such structs in their
    signatures. It also wraps pointers to these structs and functions, arrays of them, and arrays of
    pointers.
    """

    def __init__(self, owner: Owner) -> None:
        super().__init__()
        self.owner = owner
        self._parts: Cache[object, tuple[Foreign, str, int, int]] = Cache(1024)

    def part(self, ctype: FFIType, key: str | int | slice) -> tuple[Foreign, str, int, int]:
        """Return how to assign to the member named `key`; for an index or a slice, to an item.

        The tuple contains cffi's type, or None if there is no such member or item; the container's
        name, for messages; the member's offset in bytes; and the type's size if it contains
        pointers, else 0.
        """
        asked = ctype, key if isinstance(key, str) else None
        found = self._parts.get(asked)
        if found is not None:
            return found
        struct: Foreign = ctype if ctype.kind in RECORDS else getattr(ctype, "item", ctype)
        part, before = None if asked[1] or struct is ctype else struct, 0
        for name, field in struct.fields or () if struct.kind in RECORDS else ():
            if name == key:
                part, before = field.type, field.offset
        if part is None:
            return self._parts.keep(asked, (None, repr(ctype.cname), 0, 0))
        size = _cffi_backend.sizeof(part) if leads_on(part) else 0
        named = struct if asked[1] or ctype.kind == "pointer" else ctype
        return self._parts.keep(asked, (part, repr(named.cname), before, size))

    def __missing__(self, ctype: FFIType) -> bool | dict[str, tuple[Foreign, ...]]:
        found = _is_wrapped(ctype)
        pointers = found and ctype.kind == "pointer" and self._pointers(ctype.item)
        return self.setdefault(ctype, pointers or found)

    def _pointers(self, struct: FFIType) -> dict[str, tuple[Foreign, ...]]:
        return {
            name: (_slot(self.owner, one.type).parts, _ext.convert_pointer, one.offset)
            for name, one in (struct.kind in RECORDS and struct.fields) or ()
            if one.type.kind in _POINTERS
        }


def _is_wrapped(ctype: FFIType, outer: tuple[FFIType, ...] = ()) -> bool:
    """Return whether objects of a type are wrapped; `outer` are the functions around it."""
    item = element(ctype)
    if ctype.kind == "array" and item.kind in _POINTERS:
        return True
    while item.kind == "pointer":
        item = element(item.item)
    if item.kind in RECORDS:
        return leads_on(item)
    if item.kind != "function" or item in outer:  # a function may take pointers to its own type
        return False
    return any([_is_wrapped(one, (*outer, item)) for one in (*item.args, item.result)])


# -- initialisers --------------------------------------------------------------------------------


def _write(
    owner: Owner,
    place: FFIData,
    key: str | int,
    ctype: FFIType,
    value: object,
    kept: list[Foreign],
    who: Who,
) -> None:
    """Write a value to a member or an item; add the targets of its pointers to `kept`."""
    if ctype.kind in _POINTERS:
        value = _slot(owner, ctype).convert(value, kept, who)
    elif ctype.kind in (*RECORDS, "array"):
        source, value = value, _whole(ctype, _text(owner, ctype, _bare(value), who))
        if not _is_whole(ctype, value):
            inner = getattr(place, key) if isinstance(key, str) else place[key]
            _fill(owner, inner, ctype, value, kept, who)
            return
        if leads_on(ctype):
            kept.append(source)
    _assign(place, key, value, who)


def _fill(
    owner: Owner, place: FFIData, ctype: FFIType, value: Foreign, kept: list[Foreign], who: Who
) -> None:
    """Write the members of a struct, or the items of an array."""
    if ctype.kind in RECORDS:
        types = dict(ctype.fields)
        for name, one in _members(owner, ctype, value, kept, _named(who)).items():
            _write(owner, place, name, types[name].type, one, kept, (name, who))
        return
    if ctype.length is None and _is_length(value):
        return
    items = _items(value, _named(who))
    if ctype.length is not None and len(items) > ctype.length:
        raise IndexError(f"{_named(who)} has {ctype.length} items (got {len(items)})")
    if ctype.item.kind in ("primitive", "enum"):
        try:
            place[0 : len(items)] = items
            return
        except _MISFITS:
            pass  # the search below finds the item that does not fit
    for i, one in enumerate(items):
        _write(owner, place, i, ctype.item, one, kept, (i, who))


def _sized(
    owner: Owner, ctype: FFIType, init: Foreign, kept: list[Foreign], who: Who, before: int = 0
) -> tuple[object, Foreign]:
    """Return an initialiser that makes cffi allocate enough zeros, and `init` for filling them.

    For an array type without a length, the initialiser is the length or the text. For a struct that
    ends in such an array, it is a dict from the member's name to the array's initialiser. For a
    type that has a size, it is None. `before` is the number of bytes in front of this part.
    """
    if ctype.kind == "array" and ctype.length is None:
        if init is None:
            raise TypeError(f"{_named(who)} needs a length or items")
        if isinstance(init, bytes) and ctype.item.cname in CHARACTERS:
            return init, init
        init = init if _is_length(init) else _items(init, _named(who))
        length: int = init if _is_length(init) else len(init)
        if length < 0:
            raise ValueError(f"{_named(who)} must have a length of 0 or more (got {length})")
        size = before + length * _lib.ffi.sizeof(ctype.item)
        if size > sys.maxsize:
            raise OverflowError(
                f"{_named(who)} of {length} items has {size} bytes, more than fit in memory"
            )
        return length, init
    if ctype.kind in RECORDS and ctype.fields and not isinstance(init, (_CData, type(None))):
        name, last = ctype.fields[-1]
        init = _members(owner, ctype, init, kept, _named(who))
        if name in init and last.type.kind in (*RECORDS, "array"):
            place, start = (name, who), before + last.offset
            room, init[name] = _sized(owner, last.type, init[name], kept, place, start)
            return None if room is None else {name: room}, init
    return None, init


def _is_length(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_whole(ctype: FFIType, value: object) -> bool:
    """Return whether cffi accepts a value unchanged for a whole struct or array."""
    if ctype.kind == "array" and isinstance(value, (bytes, str)):
        return bool(ctype.item.kind == "primitive")
    return isinstance(value, _CData) and (ctype.kind in RECORDS or _typeof(value) is ctype)


def _slot(owner: Owner, ctype: FFIType) -> _Slot:
    found: _Slot | None = owner.slots.get(ctype)
    return found or owner.slots.keep(ctype, _Slot(owner, ctype))


class _Slot:
    """Conversion of values to pointers of a type."""

    __slots__ = ("_owner", "_rows", "parts")

    def __init__(self, owner: Owner, ctype: FFIType) -> None:
        self._owner = owner
        #: The core reads this list (csrc/callable/cffimemory.c).
        self.parts: list[Foreign] = [ctype, None, "*", None, self.convert, None]
        kinds: tuple[type, ...] = ()
        if ctype.kind == "pointer":
            kinds = (dict, list, tuple) if ctype.item.kind in RECORDS else (list, tuple)
        self._rows: dict[type, Row | None] = dict.fromkeys(kinds)

    def _describe(self) -> None:
        """Fill in `parts` for the core, when the first value is converted."""
        ctype = self.parts[0]
        found, kind, callback = from_ffi(ctype, self._owner), "*", None
        if isinstance(found, Signature):
            kind, callback, found = "f", _called(found), found.function
        elif ctype.item.cname in CHARACTERS:
            kind = "c"
        assert isinstance(found, CType)
        self.parts[1:4] = callinterface.of_argument(found, spelled=ctype.cname), kind, callback

    def convert(self, value: object, kept: list[Foreign], who: Who) -> FFIData:
        """Return cffi's pointer for a value, or raise."""
        if self.parts[1] is None:
            self._describe()
        made = _ext.convert_pointer(self.parts, value, kept)
        if made is not None:
            return made
        ctype, cif, kind, *_ = self.parts
        text = _text(self._owner, ctype, value, who)
        if text is not value:
            return self.convert(text, kept, who)
        for one in self._rows:
            if isinstance(value, one):
                kept.append(_ext.make(self._rows[one] or self._row(one), value, who))
                return kept[-1]
        data = _bare(value)
        if isinstance(data, _CData):
            handles.check_open(data, _named(who))
            kept.append(value)
            return self._renamed(data, who)
        if kind == "f" and foreign.is_python_function(value):
            kept.append(self._callback(value, who))
            return _cast(ctype, kept[-1].address())
        kept.append(_ext.pin(cif, _named(who), -1, value))
        return _cast(ctype, kept[-1].address)

    def _row(self, kind: type) -> Row:
        """Return the row for allocating a pointer's target from lists, tuples or mappings."""
        ctype = self.parts[0]
        is_one = kind is not list and ctype.item.kind in RECORDS
        wanted = ctype if is_one else _cffi_backend.new_array_type(ctype, None)
        row = self._rows[kind] = row_of(self._owner, _checked(self._owner, wanted))
        return row

    def _callback(self, function: Callable[..., object], who: Who) -> NativeCallable:
        from .._callback import Callback

        signature = from_ffi(self.parts[0], self._owner)
        assert isinstance(signature, Signature)
        try:
            return Callback(signature, function)
        except SignatureError as error:
            raise TypeError(f"{_named(who)} cannot be a Python function: {error}") from None

    def _renamed(self, value: FFIData, who: Who) -> FFIData:
        """Return a cffi pointer; cast a pointer of another FFI if its target has the same name."""
        given, ctype = _typeof(value), self.parts[0]
        if given.kind in ("pointer", "array") and ctype.kind == "pointer":
            name, wanted = c_name_of(given.item), c_name_of(ctype.item)
            if name and wanted and is_same_name(name, wanted, self._owner):
                return _cast(ctype, value)
        _assign(_newp(pointer_to(ctype), None), 0, value, who)
        return value


def _called(signature: Signature) -> CallbackSpec | None:
    """Return the spec for callbacks of a signature; None if Python cannot implement them."""
    try:
        sentinel = storage.sentinel_of(signature.result)
        return None if signature.variadic else spec_of(signature, sentinel)
    except SignatureError:
        return None


def _elements(owner: Owner, item: FFIType) -> CallInterface:
    """Return the call interface that accepts a buffer of an array's elements."""
    pointer = pointer_to(element(item))
    wanted = from_ffi(pointer, owner)
    assert isinstance(wanted, CType)
    return callinterface.of_argument(wanted, readonly=True, spelled=pointer.cname)


def _buffer(cif: CallInterface, value: object, who: Who) -> Pin | None:
    """Return a buffer of an array's elements; None if the value is not a buffer."""
    try:
        return _ext.pin(cif, _named(who), -1, value)
    except (TypeError, BufferError, ValueError):
        try:
            memoryview(value).release()  # type: ignore[arg-type]  # raises if not a buffer
        except (TypeError, BufferError, ValueError):
            return None
        raise


def _text(owner: Owner, ctype: FFIType, value: object, who: Who) -> object:
    """Encode a str for a pointer to `char` or an array of `char`; return other values unchanged."""
    is_text = isinstance(value, str) and getattr(ctype, "item", None) is _BYTES.item
    return owner.encoded(str.__str__(value), _named(who)) if is_text else value


def _whole(ctype: FFIType, value: Foreign) -> Foreign:
    """Return the target of a pointer to the struct or array type `ctype`.

    `new` and variables return such pointers. Return any other value unchanged.
    """
    if not isinstance(value, _CData):
        return value
    found = _typeof(value)
    is_pointer = found.kind == "pointer" and found.item is ctype and value
    return value[0] if is_pointer else value


def _items(value: Foreign, who: str) -> Sequence[object]:
    """Return the items of a sequence, as a list or tuple."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__iter__"):
        raise wrong_type(who, "a list, a tuple or an array", value)
    return [*value]


def _by_position(struct: FFIType) -> list[str]:
    """Return the members that positional initialisers fill."""
    taken = [name for name, field in struct.fields if not field.flags & IGNORED]
    return taken[:1] if struct.kind == "union" else taken


def _members(
    owner: Owner, struct: FFIType, value: Foreign, kept: list[Foreign], who: str
) -> dict[str, object]:
    """Return the members that an initialiser sets, by name."""
    if isinstance(value, Values):
        kept += value._kept.values()
        encoding = value._layout.about.encoding or "utf-8"
        value = {
            name: one.encode(encoding) if isinstance(one, str) else one
            for name, one in value._asdict().items()
        }
    given = None if isinstance(value, (list, tuple)) else storage.by_name(value)
    names = [name for name, _ in struct.fields]
    if given is not None:
        for name in given:
            if name not in names:
                reason = owner.names.reason(f"{struct.cname}.{name}")
                if reason is not None:
                    raise TypeError(f"field {name!r} of {who} cannot be set: {reason}")
                advice = did_you_mean(closest(name, names, 1))
                shown = ", ".join(map(repr, names))
                raise TypeError(
                    f"{who} has no field {name!r}{advice or ';'} its fields are {shown}"
                )
        return given
    if not isinstance(value, (list, tuple)):
        raise wrong_type(who, f"a mapping, a list, a tuple or such a {struct.kind}", value)
    taken = _by_position(struct)
    if len(value) > len(taken):
        shown = ", ".join(map(repr, taken))
        raise TypeError(f"{who} has {len(taken)} fields ({shown}), got {len(value)} values")
    return dict(zip(taken, value, strict=False))


# -- errors --------------------------------------------------------------------------------------


def _named(who: Who) -> str:
    """Return a position as text, for messages."""
    if isinstance(who, str):
        return who
    kind = "item" if isinstance(who[0], int) else "field"
    return f"{kind} {who[0]!r} of {_named(who[1])}"


def _assign(place: FFIData, key: str | int | slice, value: object, who: Who) -> None:
    """Write a value through cffi; an error also names the position."""
    try:
        if isinstance(key, str):
            setattr(place, key, value)
        else:
            place[key] = value
    except (TypeError, OverflowError, ValueError, IndexError) as error:
        raise type(error)(f"{_named(who)}: {_unsuited(error, value)}") from None


def _unsuited(error: Exception, value: object) -> str:
    """Return cffi's error about a value, with the value's type if cffi omits it."""
    text, found = str(error), type(value).__name__
    if isinstance(value, bytes) and "of length 1" in text:
        return f"a character must be bytes of length 1 (got {len(value)}); for text use 'char[]'"
    if not isinstance(error, TypeError) or found in text or handles.is_cdata(value):
        return text
    return f"{text} (got {found})"


# -- NumPy ---------------------------------------------------------------------------------------


def asarray(value: FFIData, shape: int | Sequence[int] | None) -> NDArray:
    """Implement `Library.asarray`."""
    value = _bare(value)
    if not isinstance(value, _CData):
        raise wrong_type("'value'", "a cffi pointer or array", value)
    handles.check_open(value, "'value'")
    ctype = _typeof(value)
    is_array, step, rest, make, kind = _arrays.get(ctype) or _arrays.keep(ctype, _array_of(ctype))
    if not is_array and not value:
        raise ValueError(f"'value' is a {ctype.cname!r} that is NULL")
    if type(shape) is int and shape >= 0:
        lengths: tuple[int, ...] = (shape,)
        count = shape
    else:
        lengths = (len(value),) if is_array else ()
        if shape is not None:
            lengths = _lengths(shape)
        count = prod(lengths)
    if shape is not None and is_array and count > len(value):
        raise ValueError(f"'shape' is {lengths}, but {ctype.cname!r} has {len(value)} items")
    size = count * step
    if size > sys.maxsize:
        raise OverflowError(f"'shape' is {lengths}, {size} bytes, more than fit in memory")
    made: NDArray = make(lengths + rest, kind, _buffer_of(value, size))
    return made


def _lengths(shape: int | Sequence[int]) -> tuple[int, ...]:
    try:
        given = [shape] if hasattr(shape, "__index__") else shape
        lengths = tuple([operator.index(one) for one in given])
    except TypeError:
        raise wrong_type("'shape'", "an integer or several", shape) from None
    if lengths and min(lengths) < 0:
        raise ValueError(f"'shape' must contain lengths (got {shape!r})")
    return lengths


# How to view memory of a cffi type as a NumPy array: whether the type is an array, the bytes per
# item, the shape of an item (if items are arrays), NumPy's array type, and the dtype.
_arrays: Cache[FFIType, tuple[bool, int, tuple[int, ...], Foreign, Foreign]] = Cache(256)


def _array_of(ctype: FFIType) -> tuple[bool, int, tuple[int, ...], Foreign, Foreign]:
    numpy = extra("numpy", "an array of a library's memory")
    if ctype.kind not in ("pointer", "array"):
        raise TypeError(
            f"'value' must be a pointer or an array (got {ctype.cname!r}); ffi.addressof() "
            "gives a pointer to a struct"
        )
    element, rest = ctype.item, []
    while element.kind == "array":
        rest.append(element.length)
        element = element.item
    kind = numpy.dtype(dtype(element))
    step = _cffi_backend.sizeof(ctype.item)
    return ctype.kind == "array", step, (*rest,), numpy.ndarray, kind


def dtype(ctype: FFIType) -> DTypeLike:
    """Return NumPy's dtype of a cffi type: pointers are integers, bit-fields are omitted."""
    if ctype.kind in RECORDS:
        if ctype.fields is None:
            raise TypeError(f"{ctype.cname!r} is incomplete: it is not declared in full")
        fields = [
            (name, field)
            for name, field in ctype.fields
            if field.bitsize < 0 and getattr(field.type, "length", 0) is not None
        ]
        return {
            "names": [name for name, _ in fields],
            "formats": [dtype(field.type) for _, field in fields],
            "offsets": [field.offset for _, field in fields],
            "itemsize": _cffi_backend.sizeof(ctype),
        }
    if ctype.kind == "array":
        return dtype(ctype.item), (ctype.length,)
    if ctype.kind in _POINTERS:
        return "P"
    if ctype.kind == "void":
        raise TypeError("'void' has no size; cast the pointer, for example to 'char *'")
    found = from_ffi(ctype)
    assert isinstance(found, CType)
    return "S1" if found.text == "c" else dtype_of(found)
