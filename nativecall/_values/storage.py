"""Conversions of structs, arrays and strided views between Python objects and C memory.

The core converts scalars and buffers itself (csrc/values/scalars.c, csrc/values/pointers.c);
arguments.py converts other objects to pointers. A struct accepts a Record, a tuple, a mapping, a
struct of ctypes or cffi, or a NumPy record. If the memory layouts agree, all bytes are copied at
once. Otherwise each field is converted. Structs come back as Records.

Guarantees: a failed conversion raises TypeError, ValueError or OverflowError and keeps nothing
alive. The message begins with what was converted: ``argument 1 of 'f'``, or ``field 'x' of argument
1 of 'f'``.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from collections import namedtuple
from itertools import islice
from struct import pack

from .. import _ext, _lib
from .._errors import TYPE_CHECKING, extra, refuse_reload, wrong_type
from .._fifo import Cache
from .._types.ctype import WORD, CType, Scalar, part_of, same_bytes
from .._types.derived import (
    Array,
    Field,
    Struct,
    View,
    buffer_format,
    is_plain,
    leads_on,
    object_offsets,
)
from . import callinterface
from .calloptions import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import ClassVar

    from .._ext import FFIData, Foreign, Layout, Pin, RecordBase
    from . import foreign
    from .calloptions import Policies

refuse_reload(globals(), "store")


# -- into memory ---------------------------------------------------------------------------------


def store(
    ctype: CType,
    value: object,
    address: int,
    who: str,
    keep: list[object],
    readonly: bool = False,
    policies: Policies = DEFAULT,
    spelled: str = "",
) -> None:
    """Write `value` as a `ctype` at `address`; append objects that must outlive the call to `keep`.

    Every message begins with `who`. `readonly`: the callee promises not to write to the elements of
    a view. `spelled`: the C declaration of a pointer, or of the pointers in an array.
    """
    if isinstance(ctype, Scalar):
        _ext.store_scalar(ctype.letter, value, address, who)
    elif isinstance(ctype, Struct):
        _store_struct(ctype, value, address, who, keep, policies)
    elif isinstance(ctype, Array):
        given = _encoded(ctype, value, who, policies)
        store_items(ctype.row, ctype.shape[0], given, address, who, keep, policies, spelled)
    elif isinstance(ctype, View):
        _store_word(_view(ctype, value, who, keep, readonly), address)
    elif ctype.kind == "object":
        keep.append(value)
        _store_word(id(value), address)
    else:
        cif = callinterface.of_argument(ctype, policies, spelled=spelled)
        held = _ext.pin(cif, who, -1, value)
        keep.append(held)
        _store_word(held.address, address)


def store_whole(
    ctype: CType, value: object, address: int, who: str, keep: list[object], *how: Foreign
) -> None:
    """Call `store`; if it fails, clear `keep`, so that the traceback keeps no buffer exported."""
    try:
        store(ctype, value, address, who, keep, *how)
    except BaseException:
        keep.clear()
        raise


def replace(
    ctype: CType,
    value: object,
    address: int,
    who: str,
    keep: list[object],
    policies: Policies,
    spelled: str = "",
) -> None:
    """Store in scratch memory, then copy, so that a failed conversion changes nothing."""
    _, place = _scratch(ctype)
    start = int(_lib.ffi.cast("uintptr_t", place))
    store_whole(ctype, value, start, who, keep, False, policies, spelled)
    _lib.ffi.memmove(_lib.ffi.cast("char *", address), place, ctype.size)


def _scratch(ctype: CType) -> tuple[FFIData, FFIData]:
    """Return memory for a value, and a pointer to the first aligned byte in it."""
    memory = _lib.ffi.new("char[]", ctype.size + 16)
    return memory, memory + -int(_lib.ffi.cast("uintptr_t", memory)) % 16


def _store_word(value: int, address: int) -> None:
    _lib.ffi.cast("uintptr_t *", address)[0] = value


def _store_struct(
    struct: Struct,
    value: object,
    address: int,
    who: str,
    keep: list[object],
    policies: Policies,
) -> None:
    if copy_same_bytes(struct, value, address, who, keep):
        return
    given = None if isinstance(value, (tuple, list)) else by_name(value)
    union = struct.kind == "union"
    names = [*struct.members][: 1 if union else None]
    places = struct.places
    if given is not None:
        unknown = [name for name in given if name not in places]
        missing = [] if union else [name for name in names if not _is_given(struct, name, given)]
        if missing or unknown or (union and len(given) != 1):
            what = f"has no field {unknown[0]!r}" if unknown else "must have one member"
            what = f"lacks {missing[0]!r}" if missing else what
            raise TypeError(f"{who} {what}; its fields are {', '.join(map(repr, places))}")
        names, values = [*given], tuple(given.values())
    elif isinstance(value, (tuple, list)):
        # Copy the items, since conversions may run code that changes a list. The iterator of a
        # subclass may disagree with `len`.
        values = tuple(islice(value, len(names) + 1))
        if not len(values) == len(value) == len(names):
            count: object = len(values) if len(values) < len(names) else "more"
            count = len(value) if len(value) != len(names) else count
            shown = ", ".join(map(repr, names))
            raise TypeError(f"{who} must have {len(names)} fields ({shown}), not {count}")
    else:
        shown = repr(struct.name) if struct.name else f"{struct.kind} of {struct.size} bytes"
        shown += f" with the fields {', '.join(map(repr, names))}"
        raise wrong_type(who, f"a tuple, a mapping or a {shown}", value)
    if not struct.is_plain:
        _lib.ffi.memmove(_lib.ffi.cast("char *", address), bytes(struct.size), struct.size)
    for name, item in zip(names, values, strict=True):
        field, start = places[name]
        part, place = f"field {name!r} of {who}", address + start + field.offset
        if field.width is None:
            spelled = _spelled(struct, name)
            store(field.type, item, place, part, keep, False, policies, spelled)
        else:
            _store_bits(field, item, place, part)


def _spelled(struct: Struct, name: str) -> str:
    """Return the C declaration of a member that is a pointer or an array of pointers.

    The declaration omits `const`. Return ``""`` for other members, and for structs without a known
    declaration.
    """
    if struct.owner is None or not leads_on(struct):
        return ""
    node = struct.owner.node(struct.name)
    node = node and dict(node.members()).get(name)
    while node and node.kind == "array":
        node = node.item
    return node.spell("") if node and node.kind == "pointer" else ""


def _is_given(struct: Struct, name: str, given: Mapping[str, object]) -> bool:
    """Return whether a mapping contains a field, or any field of an anonymous struct."""
    field = struct.members[name]
    if name in given or field.name is not None or not isinstance(field.type, Struct):
        return name in given
    return not field.type.places.keys().isdisjoint(given)


# Reads and writes of a bit-field access whole bytes, but do not change their other bits.

_changing = allocate_lock()  # held during read-modify-write on the memory or state of a Record


def _bits_of(field: Field, address: int) -> tuple[Foreign, Scalar, int]:
    """Return the bytes that contain a bit-field, and the bit-field's type and width."""
    ctype, width = field.type, field.width
    assert isinstance(ctype, Scalar)
    assert width is not None
    size = (field.shift + width + 7) // 8
    return _lib.ffi.buffer(_lib.ffi.cast("char *", address), size), ctype, width


def _store_bits(field: Field, value: object, address: int, who: str) -> None:
    memory, ctype, width = _bits_of(field, address)
    box = _lib.ffi.new("char[8]")
    _ext.store_scalar(ctype.letter, value, int(_lib.ffi.cast("uintptr_t", box)), who)
    number = int.from_bytes(_lib.ffi.buffer(box, ctype.size), sys.byteorder, signed=ctype.signed)
    least = -(1 << width - 1) if ctype.signed else 0
    if not least <= number <= least + (1 << width) - 1:
        raise OverflowError(f"{who} is {number}, out of range for its {width} bits")
    mask = (1 << width) - 1
    with _changing:
        rest = int.from_bytes(memory, "little") & ~(mask << field.shift)
        memory[:] = (rest | (number & mask) << field.shift).to_bytes(len(memory), "little")


def copy_same_bytes(
    struct: Struct, value: object, address: int, who: str, keep: list[object]
) -> bool:
    """Copy a struct from a foreign object or a NumPy record; return False for other values.

    Append the objects behind the struct's pointers to `keep`, since later assignments to `value`
    could free them.
    """
    if isinstance(value, (tuple, list, dict, bytes, bytearray, str)):
        return False
    from . import foreign

    held: Pin | None = None
    data: Foreign = None
    found = foreign.struct(value)
    if found is not None:
        if found.type != struct and not (found.type is None and _is_named(found, struct)):
            names = ", ".join(map(repr, filter(None, struct.field_names)))
            what = f"with the fields {names}" if names else repr(struct.text)
            wanted = repr(struct.name) if struct.name else f"{struct.kind} {what}"
            raise TypeError(f"{who} must be a {wanted} (got {found.shown})")
        if isinstance(value, Record):
            keep += value._copy_to(address, value._kept)
        else:
            data = _lib.ffi.cast("char *", found.address)
            keep += found.kept
    elif struct.is_plain and _record_names(value) == struct.field_names:
        try:
            held, _, form, itemsize, shape, _, _ = _ext.export(value)
        except (BufferError, TypeError, ValueError):
            return False  # NumPy cannot describe some memory layouts
        from .._types.bufferformat import suits

        if shape or not suits(struct, form, itemsize):
            return False
        data = _lib.ffi.cast("char *", held.address)
    else:
        return False
    if data is not None:
        _lib.ffi.memmove(_lib.ffi.cast("char *", address), data, struct.size)
    objects = object_offsets(struct)
    if found is not None and found.foreign is not None and not objects:
        _ext.take_cffi(struct, value, found.foreign, 1)
    held = found = None  # otherwise a traceback would keep the buffer exported
    for offset in objects:
        word = int(_lib.ffi.cast("uintptr_t *", address + offset)[0])
        if word == 0:
            raise ValueError(f"{who} holds NULL where an object must be")
        keep.append(_ext.object_at(word, False))
    return True


def _is_named(found: foreign.Struct, struct: Struct) -> bool:
    """Return whether a foreign struct without known fields has the name and size of `struct`."""
    from .._cdecl.cffitype import is_same_name

    name, size = found.named
    return bool(name) and size == struct.size and is_same_name(name, struct.name)


def by_name(value: Foreign) -> dict[str, object] | None:
    """Return the items of a mapping, a Record or a NumPy record; None for anything else."""
    if isinstance(value, Record):
        return dict(value._asdict())
    if hasattr(value, "keys"):
        return {str(key): value[key] for key in value.keys()}  # noqa: SIM118  # works without __iter__
    names = _record_names(value)
    return None if names is None else {name: value[name] for name in names}


def _record_names(value: object) -> tuple[str, ...] | None:
    """Return the field names of a NumPy record: a scalar or an array without dimensions."""
    names = getattr(getattr(value, "dtype", None), "names", None)
    return tuple(names) if names and getattr(value, "ndim", None) == 0 else None


def _encoded(array: Array, value: Foreign, who: str, policies: Policies) -> Foreign:
    """Encode a `str` for an array of characters; return any other value unchanged."""
    if not (array.is_text and len(array.shape) == 1 and isinstance(value, str)):
        return value
    if policies.encoding is None:
        raise TypeError(
            f"{who} must be bytes (got str); give the function or the library an encoding"
        )
    return value.encode(policies.encoding)


def store_items(
    item: CType,
    count: int,
    value: Foreign,
    address: int,
    who: str,
    keep: list[object],
    policies: Policies,
    spelled: str = "",
) -> None:
    """Write a sequence of `count` items from `address` on.

    Conversions may run code that changes the sequence, so never write more than `count` items.
    """
    if isinstance(value, (bytes, bytearray)) and item.text in ("b", "B"):
        if len(value) > count:
            raise ValueError(f"{who} must have at most {count} bytes (got {len(value)})")
        text = bytes(value).ljust(count, b"\0")  # as C pads a string literal
        _lib.ffi.memmove(_lib.ffi.cast("char *", address), text, count)
        return
    # Check the length before storing anything.
    try:
        if isinstance(value, memoryview) and value.ndim > 1:
            value = value.tolist()  # memoryviews cannot be indexed by row
        found = len(value)
        values = iter(value)
    except (TypeError, NotImplementedError):  # `tolist` does not support every format
        raise wrong_type(who, f"a sequence of {count} items", value) from None
    if found != count:
        raise ValueError(f"{who} must have {count} items (got {found})")
    stored = 0
    for i, one in zip(range(count), values, strict=False):
        stored = i + 1
        place, part = address + i * item.size, f"item {i} of {who}"
        store(item, one, place, part, keep, False, policies, spelled)
    if stored != count:
        raise ValueError(f"{who} must have {count} items (got {stored})")


def _view(view: View, value: object, who: str, keep: list[object], readonly: bool) -> int:
    """Create the descriptor (`View.descriptor`) of a buffer or array; return its address."""
    if value is None:
        return 0
    given = type(value).__name__
    owner: object = None
    try:
        exported = _ext.export(value)
    except TypeError:
        found = None
        if type(value).__module__ != "builtins":
            from . import arrays

            found = arrays.memory(value, view.text, who, "array")
        if found is None:
            raise TypeError(
                f"{who} must be an array or another object with a buffer (got {given})"
            ) from None
        exported, owner = _ext.export(found[0]), found[1]
    except (BufferError, ValueError) as error:
        hint = "; pass a copy" if _is_indirect(value) else ""
        failure = BufferError if isinstance(error, BufferError) else ValueError
        raise failure(f"{who} cannot be read as a strided array: {error}{hint}") from error
    problem = view_problem(view, given, readonly, exported)
    if problem is not None:
        del exported, owner  # otherwise the traceback would keep the buffer exported
        raise type(problem)(f"{who} must {problem}")
    held, _, _, _, shape, strides, _ = exported
    words = _lib.ffi.new("intptr_t[]", [held.address, *shape, *strides])
    keep += [held, words, owner]
    return int(_lib.ffi.cast("uintptr_t", words))


def view_problem(
    view: View, given: str, readonly: bool, exported: tuple[Foreign, ...]
) -> Exception | None:
    """Return the error for a buffer that cannot be passed as a view; None if it can.

    `exported` is the buffer as `_ext.export` returned it. The message continues a sentence that
    ends with "must".
    """
    item = view.item
    held, code, form, itemsize, shape, strides, locked = exported
    if len(shape) != view.ndim:
        plural = "" if view.ndim == 1 else "s"
        return ValueError(f"have {view.ndim} dimension{plural} (got {len(shape)})")
    if not is_element(item, code, form, itemsize):
        from .._types.bufferformat import is_swapped

        swapped = "; pass a copy in this machine's byte order"
        hint = swapped if is_swapped(form) else ""
        wanted = item.text if "<" in item.named else item.named
        return TypeError(f"have {wanted!r} elements (got {form!r}){hint}")
    if not _is_aligned(item.alignment, held.address, shape, strides):
        return ValueError(misaligned(item, given))
    if locked and not readonly:
        return ValueError(
            f"be writable, this {given} is read-only; pass a copy, or write 'const' before the "
            f"array in the signature, as in 'const {view.text}', if the callee does not write"
        )
    return None


def misaligned(item: CType, given: str) -> str:
    way = "an aligned copy, as numpy.require(a, requirements='A') makes one of an array"
    way = way if item.alignment <= 16 else "memory made by the library's 'new'"
    places = f"multiples of {item.alignment} bytes"
    return f"have its elements at {places}, those of this {given} are not; pass {way}"


def _is_indirect(value: Foreign) -> bool:
    """Return whether a buffer has pointers to its rows instead of strides (PEP 3118 suboffsets)."""
    try:
        with memoryview(value) as whole:
            return any([offset >= 0 for offset in whole.suboffsets or ()])
    except (BufferError, TypeError, ValueError):
        return False


def _is_aligned(alignment: int, address: int, shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether every element is aligned."""
    if 0 in shape:
        return True
    steps = [step for length, step in zip(shape, strides, strict=True) if length > 1]
    return not any([place % alignment for place in (address, *steps)])


def is_element(item: CType, code: str, form: str, itemsize: int) -> bool:
    """Return whether a buffer's elements have the element type of a view."""
    if not isinstance(item, Scalar):
        from .._types.bufferformat import suits

        return suits(item, form, itemsize)
    wanted = item.letter
    return code == wanted or same_bytes(code, wanted)


def sentinel_of(ctype: CType, integer: int = 0) -> bytes:
    """Return the bytes that C gets if there is no result: NaN, `integer` or zeros, by type."""
    if ctype.kind in ("bool", "int"):
        return integer.to_bytes(ctype.size, sys.byteorder, signed=integer < 0)
    if ctype.kind not in ("float", "complex"):
        return bytes(0 if ctype.kind == "void" else ctype.size)
    part = part_of(ctype)
    memory = _lib.ffi.new("char[]", part.size)
    address = int(_lib.ffi.cast("uintptr_t", memory))
    _ext.store_scalar(callinterface.letter(part), float("nan"), address, "the sentinel")
    # The last six bytes of an x87 long double are padding with arbitrary content.
    used = _lib.ffi.buffer(memory, 10 if part.digits == 64 else part.size)
    return bytes(used).ljust(part.size, b"\0") * (ctype.size // part.size)


# -- from memory ---------------------------------------------------------------------------------


def load(
    ctype: CType, address: int, *, owned: bool = False, policies: Policies = DEFAULT
) -> object:
    """Return the Python value of a `ctype` at `address`, independent of that memory.

    `owned`: steal the references to Python objects in the memory, as for a result.
    """
    if isinstance(ctype, Scalar):
        return _ext.load_scalar(ctype.letter, address)
    if isinstance(ctype, (Struct, Array)):
        return layout(ctype, policies)(address, owned)
    word = int(_lib.ffi.cast("uintptr_t *", address)[0])
    if ctype.kind != "object":
        return pointer_result(ctype, word)
    return None if word == 0 else _ext.object_at(word, owned)


def pointer_result(ctype: CType, address: int) -> object:
    """Return a pointer result as a cffi pointer; None for NULL."""
    if address == 0:
        return None
    from .._cdecl import cffitype

    return cffitype.pointer_from(ctype, address)


def load_result(ctype: CType, address: int, policies: Policies) -> object:
    return load(ctype, address, owned=True, policies=policies)


# -- Records -------------------------------------------------------------------------------------

#: The description of a Layout; the core reads all fields except the last two, by position.
About = namedtuple(
    "About", ["type", "form", "encoding", "places", "objects", "extents", "name", "policies"]
)
_MOST_SHOWN = 16  # items of an array in its repr


class Record(_ext.RecordBase):
    """A mutable value of a C struct or union, with its own C memory.

    Calls return structs as Records, and C passes structs to Python functions as Records. You can
    pass a Record for its struct or for a pointer to it. Read and assign fields by name or by index;
    values are checked like arguments. A nested struct or array is a view: it shares the memory and
    keeps the Record alive, so ``r.inner.x = 1`` changes ``r``. `copy.copy` of a view returns
    an independent Record. An array of `char` is text: `bytes` up to the first null character, or
    `str` with ``encoding=``.

    If a field has the name of an attribute of Record, such as ``_fields`` or ``__len__``, access
    the field by its index.

    A Record equals a Record with the same names and values, and a tuple or list of the same values.
    You can copy a Record. Unless it contains pointers, you can also pickle it. It exports a buffer
    (PEP 3118), which NumPy reads as a structured array without dimensions.

    Examples
    --------
    >>> import nativecall
    >>> text = "typedef struct { int quot, rem; } div_t; div_t div(int, int);"
    >>> r = nativecall.load(None, text).div(17, 5)
    >>> r, r.quot, r[1]
    (div_t(quot=3, rem=2), 3, 2)
    >>> r.rem = 4
    >>> r._replace(quot=0)._asdict()
    {'quot': 0, 'rem': 4}
    """

    __module__ = "nativecall"
    __slots__ = ()

    @property
    def _fields(self) -> tuple[str, ...]:
        return tuple(self._layout.about.places)[: len(self)]

    def _asdict(self) -> dict[str, Foreign]:
        """Return a dict of the fields, by name."""
        return dict(zip(self._layout.about.places, self, strict=False))

    def _replace(self, **fields: object) -> Record:
        """Return a copy with some fields replaced."""
        made: Record = self.__copy__()
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    __replace__ = _replace

    def __copy__(self) -> Foreign:
        if not leads_on(self._layout.about.type):
            return self._layout(self._address)
        made = self._layout(0)
        # Keep all objects, since the offsets in a view differ from those in its owner.
        made._kept[None] = self._copy_to(made._address, self._kept)
        return made

    def __deepcopy__(self, memo: object) -> Foreign:
        return self.__copy__()

    def __reduce__(self) -> tuple[object, ...]:
        about = self._layout.about
        if not is_plain(about.type):
            if leads_on(about.type):
                raise TypeError(
                    f"cannot pickle '{about.name}', which has pointers beside unions or bit-fields"
                )
            memory = bytes(_lib.ffi.buffer(_lib.ffi.cast("char *", self._address), about.type.size))
            return _record_again, (about.type, about.encoding, memory)
        from .handles import is_cdata

        for place, value in enumerate(self):
            if is_cdata(value):
                which = repr([*about.places][place]) if about.places else place
                raise TypeError(
                    f"cannot pickle {which} of '{about.name}', a pointer, which is invalid in "
                    "another process; set it to None before"
                )
        return _record_again, (about.type, about.encoding, tuple(self))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _ext.RecordBase):
            places = self._layout.about.places
            return [*places] == [*other._layout.about.places] and [*self] == [*other]
        return [*self] == [*other] if isinstance(other, (tuple, list)) else NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # it can change

    def __repr__(self) -> str:
        about = self._layout.about
        if not about.places:
            shown = [repr(value) for value in islice(self, _MOST_SHOWN)]
            return f"[{', '.join(shown + ['...'] * (len(self) > _MOST_SHOWN))}]"
        shown = [f"{name}={value!r}" for name, value in zip(about.places, self, strict=False)]
        return f"{about.name}({', '.join(shown)})"

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._layout.about.places]

    @property
    def _root(self) -> Record:
        """The Record that owns the memory, and keeps the objects behind its pointers."""
        return self._owner if isinstance(self._owner, Record) else self

    @property
    def _kept(self) -> dict[object, object]:
        """The kept objects, by offset and size."""
        root = self._root
        with _changing:
            kept = root._held
            if kept is None:
                kept = {}
                _held.__set__(root, kept)
        return kept

    def _take_objects(self, owned: bool) -> None:
        """Keep the Python objects in the memory; if `owned`, steal the references to them."""
        for offset in self._layout.about.objects:
            word = int(_lib.ffi.cast("uintptr_t *", self._address + offset)[0])
            if word:
                self._kept[offset, WORD] = _ext.object_at(word, owned)

    def _refuse(self, name: str) -> None:
        about = self._layout.about
        names = ", ".join(map(repr, about.places))
        its = f"its fields are {names}" if names else "it is an array"
        raise AttributeError(f"{about.name!r} has no field {name!r}; {its}")

    def _bits(self, field: Field, address: int) -> int:
        """Return the value of a bit-field. Called by the core."""
        memory, ctype, width = _bits_of(field, address)
        found = int.from_bytes(memory, "little") >> field.shift & (1 << width) - 1
        if ctype.kind == "bool":
            return bool(found)
        return found - (found >> width - 1 << width) * ctype.signed

    def _assign(
        self, index: int, ctype: CType | Field, who: str, address: int, value: object
    ) -> None:
        """Store a value that is not a plain number; called by the core.

        If the conversion fails, nothing is changed.
        """
        about = self._layout.about
        if isinstance(ctype, Field):
            _store_bits(ctype, value, address, who)
            return
        _memory, start = _scratch(ctype)
        place = int(_lib.ffi.cast("uintptr_t", start))
        keep: list[object] = []
        spelled = _spelled(about.type, [*about.places][index]) if about.places else ""
        store_whole(ctype, value, place, who, keep, False, about.policies, spelled)
        _ext.settle(keep, None, who)
        if leads_on(ctype):
            key = address - self._root._address, ctype.size
            self._put(self._kept, key, keep, address, place, ctype.size)
            return
        _lib.ffi.memmove(_lib.ffi.cast("char *", address), start, ctype.size)


_held: Foreign = _ext.RecordBase._held
_ext.set_class(Record)
_layouts: Cache[tuple[str, str | None], Layout] = Cache(1024)


def layout(ctype: Struct | Array, policies: Policies = DEFAULT) -> Layout:
    """Return the Layout of a type's Records; call the Layout to create a Record."""
    key = ctype.named, policies.encoding
    return _layouts.get(key) or _layouts.keep(key, _layout(ctype, policies.encoding))


def _layout(ctype: Struct | Array, encoding: str | None) -> Layout:
    policies = DEFAULT._replace(encoding=encoding)
    shape: tuple[int, ...] = ()
    places: dict[str, int] = {}
    item: CType = ctype
    if isinstance(ctype, Struct):
        name, count, step = ctype.name or ctype.kind, len(ctype.members), 0
        places = {sys.intern(one): place for place, one in enumerate(ctype.places)}
        found = [
            (start + field.offset, field, f"field {one!r} of '{name}'")
            for one, (field, start) in ctype.places.items()
        ]
    else:
        name, count, step = ctype.c_declaration(), ctype.shape[0], ctype.row.size
        found = [(0, Field(None, ctype.row, 0), f"an item of '{name}'")]
        item, shape = ctype.item, ctype.shape
        if ctype.is_text:
            item, shape = Array(item, shape[-1:]), shape[:-1]
    rows = []
    for offset, field, who in found:
        part, inner, letter = field.type, None, "s"
        if not isinstance(part, (Struct, Array)):
            letter = callinterface.letter(part)
        elif not _is_text(part):
            inner, letter = layout(part, policies), "T"
        said: object = part
        if field.width is not None:
            letter, said = "#", field
        rows.append((offset, part.size, letter, said, who, inner))
    objects = object_offsets(ctype)
    form: str | bytes = f"'{name}' has Python objects in it, which a buffer cannot hold"
    if not objects:
        refused = f"'{name}' has bit-fields or unions in it, which a buffer cannot describe"
        form = buffer_format(item).encode() if is_plain(ctype) else refused
    strides: list[int] = []
    stride = item.size
    for length in reversed(shape):
        strides.insert(0, stride)
        stride *= length
    extents = pack(f"{2 * len(shape)}n", *shape, *strides)
    about = About(ctype, form, encoding, places, objects, extents, name, policies)
    size = ctype.size, ctype.alignment
    return _ext.Layout(tuple(rows), about, *size, count, step, leads_on(ctype))


def _is_text(ctype: CType) -> bool:
    return isinstance(ctype, Array) and ctype.is_text and len(ctype.shape) == 1


def _record_again(
    ctype: Struct | Array, encoding: str | None, values: tuple[object, ...] | bytes
) -> RecordBase:
    """Restore a pickled Record."""
    made: RecordBase = layout(ctype, DEFAULT._replace(encoding=encoding))(0)
    if isinstance(values, bytes):
        _lib.ffi.memmove(_lib.ffi.cast("char *", made._address), values, len(values))
        return made
    for place, value in enumerate(values):
        made[place] = value
    return made


# -- out-parameters --------------------------------------------------------------------------------


def out_array(
    ctype: CType, policies: Policies
) -> tuple[Callable[..., object], object, str, tuple[int, ...]]:
    """Return what the core needs to create arrays for an out-parameter.

    Four items: a function that takes a shape, a dtype and a memory layout; the dtype; the memory
    layout; and the shape of one item of the C type (empty for a scalar).
    """
    from .dtypes import dtype_of, zeros

    np = extra("numpy", "an array as an out-parameter")
    item, shape = (ctype.item, ctype.shape) if isinstance(ctype, Array) else (ctype, ())

    def aligned(whole: tuple[int, ...], *_: object) -> object:
        return zeros(whole, item, ctype.alignment)

    return np.zeros if ctype.alignment <= 16 else aligned, dtype_of(item), _order(policies), shape


def _order(policies: Policies) -> str:
    return "F" if policies.fortran or policies.order == "F" else "C"


def out_store(
    ctype: CType,
    length: int | None,
    value: Foreign,
    address: int,
    owner: Foreign,
    who: str,
    keep: list[object],
    policies: Policies,
) -> None:
    """Store the initial value of an out-parameter in the memory of `owner`."""
    if getattr(owner, "ndim", 0) > 1 and _order(policies) == "F":
        rows = owner.copy("C")  # makes the rows contiguous
        plain = policies._replace(order="C", fortran=False)
        out_store(ctype, length, value, rows.ctypes.data, rows, who, keep, plain)
        owner[...] = rows
    elif length is None:
        store(ctype, value, address, who, keep, False, policies)
    else:
        store_items(ctype, length, value, address, who, keep, policies)


_ext.set_hooks("memory", store_whole, load_result, layout, out_array, out_store)
