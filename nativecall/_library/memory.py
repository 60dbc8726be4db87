"""Memory of a library's types: `lib.new`, and NumPy's views of it. What owns it is cffi's.

What pointers in the memory lead to since it was made lives as long as the memory: functions, text,
buffers, arrays and structs that were made of lists and mappings. cffi's own assignments to members
keep nothing alive.

A value that does not fit is an error that names the member, before anybody has the memory.
"""

from __future__ import annotations

import operator
import sys

import _cffi_backend

from .. import _lib
from .._errors import SignatureError, extra
from .._signature.cffitype import from_ffi, is_same_name
from .._signature.cnodes import c_name_of, element
from .._signature.ctype import CType
from .._signature.signature import Signature
from .._signature.spelling import is_ffi_type
from .._values import boxes, callspec, handles
from .._values.storage import Record
from .memoryplan import (
    CFFI_ALIGNS,
    CHARACTERS,
    IGNORED,
    RECORDS,
    alignment_of,
    array_of,
    plan_of,
    pointer_to,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy import ndarray
    from numpy.typing import DTypeLike

    from .._callable.callable import NativeCallable
    from .._types import FFIData, FFIType, Foreign
    from .types import Owner

    NDArray = ndarray[Foreign, Foreign]

_types = _lib.types


def new(owner: Owner, given: object, init: object) -> FFIData:
    """What `Library.new` makes."""

    def of_text(text: str) -> tuple[FFIType, int]:
        return _checked(owner, owner.type(text)), owner.alignment(text)

    alignment = 1
    if isinstance(given, str):
        text = str.__str__(given)
        ctype, alignment = owner.plan(text, of_text)
        made = owner.plans.keep(text, plan_of(owner, ctype, alignment))(init)
        if made is not None:
            return made
    elif is_ffi_type(given):
        ctype = _checked(owner, given)
    else:
        raise TypeError(
            f"'ctype' must be a type in C or one of cffi's types (got {type(given).__name__})"
        )
    try:
        return _made(owner, ctype, init, alignment)
    except MemoryError:
        if ctype.kind != "array" and ctype.item.kind == "struct" and _flexible(ctype.item):
            raise MemoryError(
                f"there is no memory for {ctype.item.cname!r} and its items"
            ) from None
        count, what = 1, ctype.item
        if ctype.kind == "array":
            count, what = ctype.length, ctype
        if count is None:
            count = init if isinstance(init, int) else len(init)
        size = count * _lib.ffi.sizeof(ctype.item)
        raise MemoryError(f"there is no memory for {what.cname!r}, {size} bytes") from None


def _made(owner: Owner, ctype: FFIType, init: object, alignment: int) -> FFIData:
    """Memory of a pointer or array type that is complete."""
    maker = _Maker(owner, alignment)
    if init is None:
        if ctype.kind == "array" and ctype.length is None:
            raise TypeError(f"{ctype.cname!r} has no length; give one, or items")
        if max(alignment, owner.plan(ctype.item, alignment_of)[0]) <= CFFI_ALIGNS:
            return _lib.ffi.new(ctype)  # it leads to nothing
        return maker.allocate(ctype, None)
    if ctype.kind == "array":
        return maker.array(ctype, init, repr(ctype.cname))
    if ctype.item.kind in RECORDS:
        return maker.record(ctype, init, repr(ctype.item.cname))
    made = maker.allocate(ctype, None)
    maker.fill(made, 0, ctype.item, init, repr(ctype.item.cname))
    return made


def _unsuited(error: Exception, value: object) -> str:
    """What cffi says against a value, and which value that is where cffi does not say."""
    text, found = str(error), type(value).__name__
    if isinstance(value, bytes) and "of length 1" in text:
        return f"one character is bytes of length 1 (got {len(value)}); text is 'char[]'"
    if not isinstance(error, TypeError) or found in text or handles.is_cdata(value):
        return text
    return f"{text} (got {found})"


def _checked(owner: Owner, ctype: FFIType) -> FFIType:
    """The pointer or array type for what is made of a type."""
    if ctype.kind not in ("pointer", "array"):
        if ctype.kind == "void":
            raise TypeError("'void' has no size; nothing of it can be made")
        ctype = pointer_to(ctype)
    if ctype.kind == "pointer" and ctype.item.kind == "array" and ctype.item.length is None:
        sized = ctype.item.cname.replace("[]", "[n]", 1)
        raise TypeError(f"{ctype.item.cname!r} has no length; make {sized!r} instead")
    item = element(ctype.item)
    if item.kind in RECORDS and item.fields is None:
        reason = owner.names.reason(item.cname)
        if reason is not None:
            raise TypeError(f"the layout of {item.cname!r} is not known: {reason}")
        raise TypeError(
            f"{item.cname!r} is incomplete: it is not declared in full, so none can be made here; "
            f"a function of the library may make one, and '{item.cname} *[1]' has room for a "
            "pointer to it"
        )
    if item.kind == "void":
        raise TypeError("'void' has no size; make 'char[n]' instead")
    return ctype


def assign(owner: Owner, ctype: FFIType, address: int, init: object, who: str) -> list[object]:
    """Write a whole array, struct or union at an address; what it leads to has to be kept.

    A value that does not fit changes nothing.
    """
    maker = _Maker(owner)
    if ctype.kind != "array":
        made = plan_of(owner, pointer_to(ctype))(init)
        if made is not None:
            maker.kept.append(made)
        else:
            made = maker.record(pointer_to(ctype), init, who)
    else:
        if ctype.length is None:
            raise TypeError(f"{who} has no length that is known; write to the items that it gives")
        _check_counts(ctype, init, who)
        made = maker.array(ctype, init, who)
    maker.ffi.memmove(maker.ffi.cast("char *", address), made, maker.ffi.sizeof(ctype))
    return maker.kept


def _check_counts(ctype: FFIType, init: object, who: str) -> None:
    """ValueError unless a whole array is given, in all dimensions; text may be shorter."""
    if isinstance(init, (bytes, str)):
        items: Sequence[object] = ()
        count, fits = len(init), len(init) <= ctype.length
    else:
        items = _items(init, who)
        count = len(items)
        fits = count == ctype.length
    if not fits:
        raise ValueError(f"{who} has {ctype.length} items (got {count})")
    if ctype.item.kind == "array":
        for index, item in enumerate(items):
            _check_counts(ctype.item, item, f"item {index} of {who}")


class _Maker:
    """Makes one piece of memory, with all that it leads to."""

    def __init__(self, owner: Owner, alignment: int = 1) -> None:
        self.owner = owner
        self.alignment = alignment
        self.ffi = _lib.ffi  # takes types of any FFI, and needs no Python code for them
        self.kept: list[object] = []

    def allocate(self, ctype: FFIType, init: object) -> FFIData:
        """Zeroed memory that keeps what is kept."""
        alignment, leads_on = self.owner.plan(ctype.item, alignment_of)
        alignment = max(alignment, self.alignment)
        if not leads_on and alignment <= CFFI_ALIGNS:
            return self.ffi.new(ctype, init)
        ffi, kept = self.ffi, self.kept

        def room(size: int) -> FFIData:
            if alignment <= CFFI_ALIGNS:
                return ffi.gc(ffi.new("char[]", size), _types.Destructor(kept))
            raw = ffi.new("char[]", size + alignment)
            start = int(ffi.cast("uintptr_t", raw))
            aligned = ffi.cast("char *", -(-start // alignment) * alignment)
            return ffi.gc(aligned, _types.Destructor((raw, kept)))

        return ffi.new_allocator(room, None, False)(ctype, init)

    # -- arrays and structs ----------------------------------------------------------------------

    def array(self, ctype: FFIType, init: Foreign, who: str) -> FFIData:
        """An array of its items, or of a buffer of these, or of a length."""
        item = ctype.item
        if isinstance(init, int) and not isinstance(init, bool) and ctype.length is None:
            if init < 0:
                raise ValueError(f"{who} must have a length of 0 or more (got {init})")
            size = init * self.ffi.sizeof(item)
            if size > sys.maxsize:
                raise OverflowError(f"{who} of {init} items has {size} bytes, more than memory has")
            return self.allocate(ctype, init)
        if isinstance(init, (bytes, str)) and item.kind == "primitive":
            try:
                return self.ffi.new(ctype, init)
            except (TypeError, IndexError) as error:
                raise type(error)(f"{who}: {_unsuited(error, init)}") from None
        found = self._copied(ctype, init, who)
        if found is not None:
            return found
        values = _items(init, who)
        if ctype.length is not None and len(values) > ctype.length:
            raise IndexError(f"{who} has {ctype.length} items (got {len(values)})")
        if item.kind == "primitive":
            try:
                return self.ffi.new(ctype, values)
            except (TypeError, OverflowError):
                pass  # said of the item
        made = self.allocate(ctype, len(values) if ctype.length is None else None)
        for index, value in enumerate(values):
            self.fill(made, index, item, value, f"item {index} of {who}")
        return made

    def _copied(self, ctype: FFIType, init: object, who: str) -> FFIData | None:
        """An array that is a copy of a buffer; None where `init` has no such buffer."""
        if isinstance(init, (list, tuple, dict, bytes)) or handles.is_cdata(init):
            return None
        try:
            view = memoryview(init)  # type: ignore[arg-type]  # what has no buffer raises TypeError
        except (TypeError, BufferError, ValueError):
            return None
        ffi = self.ffi
        with view:
            size, count = view.nbytes, view.nbytes // max(ffi.sizeof(ctype.item), 1)
        wanted = self._type(pointer_to(element(ctype)))
        held = _types.pin(callspec.of_argument(wanted, readonly=True), who, -1, init)
        if ctype.length is not None and count > ctype.length:
            raise IndexError(f"{who} has {ctype.length} items (got {count})")
        made = self.allocate(ctype, count if ctype.length is None else None)
        ffi.memmove(made, ffi.cast("char *", held.address), size)
        return made

    def record(self, ctype: FFIType, init: object, who: str) -> FFIData:
        """A struct or union, and a pointer to it."""
        struct = ctype.item
        if handles.is_cdata(init):
            made = self.allocate(ctype, None)
            self._assign(made, 0, _whole(struct, init), who)
            return made
        values = self._members(struct, init, who)
        last = self.owner.plan(struct, _flexible)
        sized = None
        if last:
            given = values.get(last[0])
            if given is not None:
                what = f"field {last[0]!r} of {who}"
                length = given if isinstance(given, int) else len(_items(given, what))
                _refuse_length(struct, last[0], length, what)
                sized = {last[0]: length}
                if isinstance(given, int):
                    del values[last[0]]
        made = self.allocate(ctype, sized)
        self._fill_record(made, struct, values, who)
        return made

    def _members(self, struct: FFIType, value: Foreign, who: str) -> dict[str, object]:
        """What is said of members, by name."""
        if isinstance(value, Record):
            self.kept += value._kept.values()
            encoding = value._layout.about.encoding or "utf-8"
            value = {
                name: one.encode(encoding) if isinstance(one, str) else one
                for name, one in value._asdict().items()
            }
        return _members(self.owner, struct, value, who)

    def _fill_record(
        self, place: FFIData, struct: FFIType, values: Mapping[str, object], who: str
    ) -> None:
        types = self.owner.plan(struct, _types_of_members)
        for name, value in values.items():
            self.fill(place, name, types[name], value, f"field {name!r} of {who}")

    # -- members ---------------------------------------------------------------------------------

    def fill(self, place: FFIData, key: str | int, ctype: FFIType, value: object, who: str) -> None:
        """Write a value as a member or an item."""
        if ctype.kind in ("pointer", "function"):
            value = self._pointer(ctype, value, who)
        elif ctype.kind in RECORDS and handles.is_cdata(value):
            value = _whole(ctype, value)
        elif ctype.kind in RECORDS:
            inner = getattr(place, key) if isinstance(key, str) else place[key]
            self._fill_record(inner, ctype, self._members(ctype, value, who), who)
            return
        elif ctype.kind == "array" and not (
            handles.is_cdata(value)
            or (isinstance(value, (bytes, str)) and ctype.item.kind == "primitive")
        ):
            self._fill_array(place, key, ctype, value, who)
            return
        self._assign(place, key, value, who)

    def _fill_array(
        self, place: FFIData, key: str | int, ctype: FFIType, value: object, who: str
    ) -> None:
        inner = getattr(place, key) if isinstance(key, str) else place[key]
        values = _items(value, who)
        if ctype.length is not None and len(values) > ctype.length:
            raise IndexError(f"{who} has {ctype.length} items (got {len(values)})")
        for index, one in enumerate(values):
            self.fill(inner, index, ctype.item, one, f"item {index} of {who}")

    def _assign(self, place: FFIData, key: str | int, value: object, who: str) -> None:
        """Have cffi write a value, and say of what what it says."""
        try:
            if isinstance(key, str):
                setattr(place, key, value)
            else:
                place[key] = value
        except (TypeError, OverflowError, ValueError, IndexError) as error:
            raise type(error)(f"{who}: {_unsuited(error, value)}") from None

    # -- pointers --------------------------------------------------------------------------------

    def _pointer(self, ctype: FFIType, value: Foreign, who: str) -> FFIData:
        """The pointer that a value is, or that leads to one; what it leads to is kept."""
        ffi = self.ffi
        if value is None:
            return ffi.NULL
        if handles.is_cdata(value):
            handles.check_open(value, who)
            return self._cdata(ctype, value)
        if ctype.kind == "function":
            return self._function(ctype, value, who)
        if isinstance(value, bytes) and ctype.item.cname in CHARACTERS:
            made = ffi.new("char[]", value)
            self.kept.append(made)
            return ffi.cast(ctype, made)
        is_record = ctype.item.kind in RECORDS
        if isinstance(value, list) or (isinstance(value, tuple) and not is_record):
            kind = array_of(ctype)
            return self._kept(_Maker(self.owner).array(kind, value, who), ctype)
        if isinstance(value, (dict, tuple)) and is_record:
            return self._kept(_Maker(self.owner).record(ctype, value, who), ctype)
        wanted = self._type(ctype)
        held = _types.pin(callspec.of_argument(wanted), who, -1, value)
        self.kept.append(held)
        return ffi.cast(ctype, held.address)

    def _kept(self, made: FFIData, ctype: FFIType) -> FFIData:
        self.kept.append(made)
        return self.ffi.cast(ctype, made)

    def _cdata(self, ctype: FFIType, value: FFIData) -> FFIData:
        """A pointer of cffi's; one of another FFI by the name of what it points to."""
        self.kept.append(value)
        given = _cffi_backend.typeof(value)
        if given.kind in ("pointer", "array") and ctype.kind == "pointer":
            name, wanted = c_name_of(given.item), c_name_of(ctype.item)
            if name and wanted and is_same_name(name, wanted, self.owner):
                return self.ffi.cast(ctype, value)
        return value

    def _function(self, ctype: FFIType, value: Foreign, who: str) -> FFIData:
        signature = self.owner.plan(ctype, self._converted)
        assert isinstance(signature, Signature)
        if boxes.is_python_function(value):
            from .._callback import Callback

            try:
                made = self._made(signature, value) or Callback(signature, value)
            except SignatureError as error:
                raise TypeError(f"{who} cannot be a Python function: {error}") from None
            self.kept.append(made)
            return self.ffi.cast(ctype, made.address())
        held = _types.pin(callspec.of_argument(signature.function), who, -1, value)
        self.kept.append(held)
        return self.ffi.cast(ctype, held.address)

    def _made(self, signature: Signature, function: Foreign) -> NativeCallable | None:
        """A callback made in the core, where the text alone says all of the signature."""
        from .._callback import callback

        text = signature.function.named[2:-1]
        if any(signature.readonly) or signature.characters or "<" in text:
            return None
        made: NativeCallable = callback(text, function)
        return made

    def _type(self, ctype: FFIType) -> CType:
        found = self.owner.plan(ctype, self._converted)
        assert isinstance(found, CType)
        return found

    def _converted(self, ctype: FFIType) -> object:
        return from_ffi(ctype, self.owner)


def _whole(struct: FFIType, value: FFIData) -> FFIData:
    """The struct that a pointer to such a one, as `new` and variables give, points to; any other
    data as it is.
    """
    found = _cffi_backend.typeof(value)
    is_pointer = found.kind == "pointer" and found.item is struct and value
    return value[0] if is_pointer else value


def _types_of_members(struct: FFIType) -> dict[str, FFIType]:
    return {name: field.type for name, field in struct.fields}


def _flexible(struct: FFIType) -> tuple[str, ...]:
    """The name of the last member where that is an array of any length."""
    last = struct.fields[-1:]
    is_flexible = last and last[0][1].type.kind == "array" and last[0][1].type.length is None
    return (last[0][0],) if is_flexible else ()


def _refuse_length(struct: FFIType, name: str, length: int, who: str) -> None:
    """Refuse a length of a last member that no struct has."""
    if length < 0:
        raise ValueError(f"{who} must have a length of 0 or more (got {length})")
    size = _lib.ffi.offsetof(struct, name)
    size += length * _lib.ffi.sizeof(dict(struct.fields)[name].type.item)
    if size > sys.maxsize:
        raise OverflowError(f"{who} with {length} items needs {size} bytes, more than memory has")


def _items(value: Foreign, who: str) -> Sequence[object]:
    """The items of a sequence, as a list or tuple."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{who} must be a list, a tuple or an array (got {type(value).__name__})")
    return [*value]


def _members(owner: Owner, struct: FFIType, value: Foreign, who: str) -> dict[str, object]:
    """What an initialiser says of members, by name."""
    names = [name for name, _ in struct.fields]
    if hasattr(value, "keys"):
        given = {str(key): value[key] for key in value.keys()}  # noqa: SIM118  # a mapping without __iter__, too
        for name in given:
            if name not in names:
                reason = owner.names.reason(f"{struct.cname}.{name}")
                if reason is not None:
                    raise TypeError(f"{who} cannot be given {name!r}: {reason}")
                from difflib import get_close_matches

                close = get_close_matches(name, names, n=1)
                advice = f"did you mean {close[0]!r}? " if close else ""
                shown = ", ".join(map(repr, names))
                raise TypeError(f"{who} has no field {name!r}; {advice}its fields are {shown}")
        return given
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"{who} must be a mapping, a list, a tuple or such a {struct.kind} "
            f"(got {type(value).__name__})"
        )
    taken = [name for name, field in struct.fields if not field.flags & IGNORED]
    if struct.kind == "union":
        taken = taken[:1]
    if len(value) > len(taken):
        shown = ", ".join(map(repr, taken))
        raise TypeError(f"{who} has {len(taken)} fields ({shown}), got {len(value)} values")
    return dict(zip(taken, value, strict=False))


# -- NumPy ---------------------------------------------------------------------------------------


def asarray(owner: Owner, value: FFIData, shape: int | Sequence[int] | None) -> NDArray:
    """What `Library.asarray` gives."""
    numpy = extra("numpy", "an array of a library's memory")
    ffi = owner.ffi
    if not handles.is_cdata(value):
        raise TypeError(
            f"'value' must be a pointer or an array of cffi's (got {type(value).__name__})"
        )
    handles.check_open(value, "'value'")
    ctype = _cffi_backend.typeof(value)
    if ctype.kind not in ("pointer", "array"):
        raise TypeError(
            f"'value' must be a pointer or an array (got {ctype.cname!r}); ffi.addressof() "
            "gives a pointer to a struct"
        )
    if ctype.kind == "pointer" and value == ffi.NULL:
        raise ValueError(f"'value' is a {ctype.cname!r} that is NULL")
    element = ctype.item
    lengths: tuple[int, ...] = ()
    if shape is not None:
        try:
            given = [shape] if hasattr(shape, "__index__") else shape
            lengths = tuple([operator.index(one) for one in given])
        except TypeError:
            raise TypeError(
                f"'shape' must be an integer or several (got {type(shape).__name__})"
            ) from None
        if any([length < 0 for length in lengths]):
            raise ValueError(f"'shape' must have lengths (got {shape!r})")
    elif ctype.kind == "array":
        lengths = (len(value),)
    count = 1
    for length in lengths:
        count *= length
    if shape is not None and ctype.kind == "array" and count > len(value):
        raise ValueError(f"'shape' is {lengths}, but {ctype.cname!r} has {len(value)} items")
    while element.kind == "array":
        lengths += (element.length,)
        element = element.item
    form = numpy.dtype(dtype(element))
    size = count * ffi.sizeof(ctype.item)
    if size > sys.maxsize:
        raise OverflowError(f"'shape' is {lengths}, {size} bytes, more than memory has")
    data = ffi.buffer(value, size) if size else bytearray()
    made: NDArray = numpy.frombuffer(data, form).reshape(lengths)
    return made


def dtype(ctype: FFIType) -> DTypeLike:
    """What NumPy calls a type of cffi's: pointers are integers, bit-fields are left out."""
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
    if ctype.kind in ("pointer", "function"):
        return "P"
    if ctype.kind == "void":
        raise TypeError("'void' has no size; cast the pointer, or make 'char *' of it")
    found = from_ffi(ctype)
    assert isinstance(found, CType)
    code = found.text
    return _CODES.get(code, code)


_CODES = {"c": "S1", "Zf": "F", "Zd": "D", "Zg": "G", "b": "i1", "B": "u1", "h": "i2", "H": "u2"}
_CODES |= {"i": "i4", "I": "u4", "q": "i8", "Q": "u8"}
