"""Values: between Python objects and C memory, for what the compiled core leaves to Python.

The core converts scalars and buffers itself (csrc/convert.c). Here are the aggregates, structs,
arrays and strided views, and pointers that live in foreign boxes. Structs take tuples, mappings,
and anything that exports a buffer of the struct's size (ctypes structs, NumPy records); cffi
structs too. They come back as named tuples, nested ones and arrays as tuples.

Guarantees: a failed conversion raises TypeError, ValueError or OverflowError that begins with what
was being converted (``argument 1 of 'f'``, ``field 'x' of argument 1 of 'f'``), and keeps nothing.
"""

from __future__ import annotations

from collections import namedtuple

from . import _lib, foreign
from .ctype import VOID, Array, CType, FunctionPointer, Pointer, Struct, View
from .signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_types = _lib.types
# The core's letters for complex types, which have two letters in a signature.
_LETTERS = {"Zf": "z", "Zd": "Z", "Zg": "Y"}
# Costs of an overload's argument, in the core's measure (csrc/convert.c).
_EXACT, _PLAUSIBLE, _NO = 0, 1, -1


def letter(ctype: CType) -> str:
    """The core's letter for a type: a scalar's code, or what the argument is to a trampoline."""
    if ctype.kind in ("bool", "int", "float", "complex"):
        return _LETTERS.get(ctype.text, ctype.text)
    return {
        "void": "v",
        "voidptr": "P",
        "pointer": "P",
        "function": "P",
        "struct": "T",
        "view": "V",
        "object": "O",
    }[ctype.kind]


_plans: dict[object, Any] = {}
_PLAN_LIMIT = 4096


def plan(signature: Signature) -> Any:
    """The core's plan for a signature: one for equal types, names and promises."""
    key = (signature.function.named, signature.names, signature.readonly)
    found = _plans.get(key)
    if found is None:
        pointees, sizes = [], []
        for arg in signature.args:
            code, size = " ", 0
            if arg.kind == "voidptr":
                code = "v"
            elif isinstance(arg, Pointer):
                pointee = arg.pointee
                if isinstance(pointee, Array):
                    pointee = pointee.item
                size = pointee.size
                code = letter(pointee)
                if code not in "?bBhHiIqQefdgzZYT":
                    code = " "
            pointees.append(code)
            sizes.append(size)
        found = _types.Plan(
            signature,
            signature.text,
            letter(signature.result) + ":" + "".join(map(letter, signature.args)),
            (*signature.args, signature.result),
            "".join(pointees),
            tuple(sizes),
            signature.readonly,
            signature.names if any(signature.names) else None,
            signature.variadic,
        )
        if len(_plans) >= _PLAN_LIMIT:
            _plans.clear()
        _plans[key] = found
    return found


# -- into memory ---------------------------------------------------------------------------------


def store(ctype: CType, value: Any, address: int, who: str, keep: list[object]) -> None:
    """Write `value` as a `ctype` at `address`; what must outlive the call goes to `keep`.

    Parameters
    ----------
    ctype : CType
    value : object
    address : int
        Of `ctype.size` bytes.
    who : str
        Begins every message.
    keep : list
        Collects the owners of what pointers point to.
    """
    kind = ctype.kind
    if kind in ("bool", "int", "float", "complex"):
        _types.store_scalar(letter(ctype), value, address, who)
    elif isinstance(ctype, Struct):
        _store_struct(ctype, value, address, who, keep)
    elif isinstance(ctype, Array):
        _store_array(ctype, value, address, who, keep)
    elif isinstance(ctype, View):
        _store_word(_view(ctype, value, who, keep), address)
    elif kind == "object":
        keep.append(value)
        _store_word(id(value), address)
    else:
        held = _types.pin(plan(Signature(VOID, (ctype,))), who, -1, value)
        keep.append(held)
        _store_word(held.address, address)


def _store_word(value: int, address: int) -> None:
    _lib.ffi.cast("uintptr_t *", address)[0] = value


def _store_struct(struct: Struct, value: Any, address: int, who: str, keep: list[object]) -> None:
    names = struct.field_names
    if _copy_same_bytes(struct, value, address, who):
        return
    if hasattr(value, "keys"):
        given = {str(key): value[key] for key in value.keys()}  # noqa: SIM118 - any mapping
        missing = [name for name in names if name not in given]
        unknown = [name for name in given if name not in names]
        if missing or unknown:
            what = f"lacks {missing[0]!r}" if missing else f"has no field {unknown[0]!r}"
            raise TypeError(f"{who} {what}; its fields are {', '.join(map(repr, names))}")
        values: Sequence[Any] = [given[name] for name in names]
    elif isinstance(value, (tuple, list)):
        if len(value) != len(names):
            raise TypeError(
                f"{who} must have {len(names)} fields ({', '.join(map(repr, names))}), "
                f"not {len(value)}"
            )
        values = value
    else:
        raise TypeError(
            f"{who} must be a tuple, a mapping or a struct of {struct.size} bytes with the fields "
            f"{', '.join(map(repr, names))} (got {type(value).__name__})"
        )
    for field, name, item in zip(struct.fields, names, values, strict=True):
        store(field.type, item, address + field.offset, f"field {name!r} of {who}", keep)


def _copy_same_bytes(struct: Struct, value: Any, address: int, who: str) -> bool:
    """Copy a struct that exists in memory already: a ctypes or cffi struct, a NumPy record."""
    if isinstance(value, (tuple, list, dict, bytes, bytearray, str)):
        return False
    if type(value).__module__ == "_cffi_backend":
        from . import ffitype

        ffi = ffitype.ffi()
        kind = ffi.typeof(value)
        if kind.kind == "pointer" and kind.item.kind == "struct":
            kind, value = kind.item, value[0]
        if kind.kind != "struct":
            return False
        if ffitype.from_ffi(kind) != struct:
            raise TypeError(f"{who} must be a struct {struct.text!r} (got cffi's {kind.cname!r})")
        data = ffi.buffer(ffi.addressof(value))
    elif hasattr(type(value), "_fields_") and hasattr(type(value), "_b_base_"):
        from .bridges.ctypes import ctype_of

        if ctype_of(type(value)) != struct:
            raise TypeError(
                f"{who} must be a struct {struct.text!r} "
                f"(got ctypes' {type(value).__name__}, {ctype_of(type(value)).text!r})"
            )
        data = memoryview(value).cast("B")
    elif hasattr(value, "dtype") and getattr(value.dtype, "fields", None) is not None:
        if value.dtype.itemsize != struct.size or tuple(value.dtype.names) != struct.field_names:
            return False
        data = value.tobytes()
    else:
        return False
    _lib.ffi.memmove(_lib.ffi.cast("char *", address), data, struct.size)
    return True


def _store_array(array: Array, value: Any, address: int, who: str, keep: list[object]) -> None:
    item = array.item
    if len(array.shape) > 1:
        item = Array(array.item, array.shape[1:])
    try:
        values = list(value)
    except TypeError:
        raise TypeError(
            f"{who} must be a sequence of {array.shape[0]} items (got {type(value).__name__})"
        ) from None
    if len(values) != array.shape[0]:
        raise ValueError(f"{who} must have {array.shape[0]} items (got {len(values)})")
    for i, one in enumerate(values):
        store(item, one, address + i * item.size, f"item {i} of {who}", keep)


def _view(view: View, value: Any, who: str, keep: list[object]) -> int:
    """A descriptor (`View.descriptor`) of an object with a buffer; its address."""
    if value is None:
        return 0
    try:
        memory = memoryview(value)
    except TypeError:
        raise TypeError(
            f"{who} must be an array or another object with a buffer (got {type(value).__name__})"
        ) from None
    if memory.ndim != view.ndim:
        raise ValueError(f"{who} must have {view.ndim} dimensions (got {memory.ndim})")
    found = _element_text(memory)
    if found != view.item.text:
        raise TypeError(f"{who} must have {view.item.text!r} elements (got {memory.format!r})")
    if memory.readonly:
        raise ValueError(f"{who} must be writable, this {type(value).__name__} is read-only")
    # The address of the first element, whatever the strides: cffi wants contiguous memory.
    data = _data_address(value, memory)
    words = _lib.ffi.new("intptr_t[]", 1 + 2 * view.ndim)
    words[0] = data
    for i, extent in enumerate((*(memory.shape or ()), *(memory.strides or ()))):
        words[1 + i] = extent
    keep += [memory, words]
    return int(_lib.ffi.cast("uintptr_t", words))


def _data_address(value: Any, memory: memoryview) -> int:
    """Where element (0, …, 0) of a buffer is; 0 for a buffer without elements."""
    import ctypes

    interface = getattr(value, "__array_interface__", None)
    if interface is not None:
        return int(interface["data"][0])
    if memory.nbytes == 0:
        return 0
    # A one-element slice is contiguous in every direction.
    one = memory
    if memory.ndim == 1:
        one = memory[:1]
        return ctypes.addressof((ctypes.c_char * one.nbytes).from_buffer(one))
    if memory.c_contiguous:
        return ctypes.addressof((ctypes.c_char * memory.nbytes).from_buffer(memory))
    raise ValueError("only NumPy arrays and contiguous buffers can have several dimensions here")


def _element_text(memory: memoryview) -> str:
    """Canonical text of a buffer's element type; its raw format when that is no scalar."""
    from .ctype import SCALARS

    text = memory.format.lstrip("@=<" if _little_endian() else "@=>")
    found = SCALARS.get(text)
    if found is None:
        return memory.format
    if found.kind == "int" and found.size != memory.itemsize:
        return {1: "b", 2: "h", 4: "i", 8: "q"}[memory.itemsize]
    return found.text


def _little_endian() -> bool:
    import sys

    return sys.byteorder == "little"


# -- pointers ------------------------------------------------------------------------------------


def pointer_argument(ctype: CType, value: Any, who: str, index: int) -> tuple[int, object]:
    """The address for a pointer argument that is no buffer, and what keeps it valid.

    The core calls this after None and buffers. With an index `who` is the callable's name.
    """
    if index >= 0:
        who = f"argument {index + 1} of '{who}'"
    if value is None:
        return 0, None
    if isinstance(ctype, FunctionPointer):
        return _function_argument(ctype, value, who)
    found = foreign.pointer(value)
    if found is not None:
        wanted = ctype.pointee if isinstance(ctype, Pointer) else None
        if wanted is not None and found.pointee is not None and not _same(wanted, found.pointee):
            raise TypeError(
                f"{who} must be a pointer {ctype.text!r} (got '&{found.pointee.text}' from "
                f"{type(value).__name__})"
            )
        return found.address, found.owner
    hint = "; a str has no bytes of its own, pass s.encode()" if isinstance(value, str) else ""
    raise TypeError(
        f"{who} must be a {ctype.text!r} pointer: a buffer, a ctypes or cffi pointer, or None "
        f"(got {type(value).__name__}){hint}"
    )


def _same(wanted: CType, found: CType) -> bool:
    """Whether a pointer to `found` is one to `wanted`; bytes are bytes, signed or not."""
    if wanted == found:
        return True
    if isinstance(found, Array):
        return _same(wanted, found.item)
    return wanted.text in "bB" and found.text in "bB"


def _function_argument(ctype: FunctionPointer, value: Any, who: str) -> tuple[int, object]:
    """A function pointer argument: a native callable, a foreign function, or a Python function."""
    signature = ctype.text[2:-1]
    native = _types.viewed(value)
    if native is None and isinstance(value, _types.CallableBase):
        native = value
    rows = [] if native is None else native._offered()
    if rows:
        for text, address, flags in rows:
            if text == signature and not flags & _lib.FLAG_NEEDS_GIL:
                return address, native
        offers = ", ".join(repr(row[0]) for row in rows)
        raise TypeError(f"{who} must be a function {signature!r}; {value!r} offers {offers}")
    found = foreign.function(value)
    if found is not None:
        if found.signature is not None and found.signature.text != signature:
            raise TypeError(
                f"{who} must be a function {signature!r} (got {found.signature.text!r} from "
                f"{type(value).__name__})"
            )
        return found.address, found.owner
    if callable(value):
        import ctypes as _ctypes

        from .libffi import foreign_type

        thunk = foreign_type(ctype, plain=True)(value)
        return _ctypes.cast(thunk, _ctypes.c_void_p).value or 0, thunk
    raise TypeError(f"{who} must be a function (got {type(value).__name__})")


def pointer_result(ctype: CType, address: int) -> object:
    """What a pointer result becomes: a cffi pointer, None for NULL."""
    if address == 0:
        return None
    from .bridges.cffi import pointer_from

    return pointer_from(ctype, address)


def match(ctype: CType, value: Any) -> int:
    """How well a value suits an overload's argument that the core leaves to Python."""
    if isinstance(ctype, Struct):
        if isinstance(value, (tuple, list)):
            return _PLAUSIBLE if len(value) == len(ctype.fields) else _NO
        if hasattr(value, "keys"):
            return _PLAUSIBLE if set(map(str, value.keys())) == set(ctype.field_names) else _NO
        scratch = _lib.ffi.new("char[]", ctype.size + 1)
        try:
            same = _copy_same_bytes(ctype, value, int(_lib.ffi.cast("uintptr_t", scratch)), "it")
        except TypeError:
            return _NO
        return _EXACT if same else _NO
    if isinstance(ctype, View):
        try:
            memory = memoryview(value)
        except TypeError:
            return _NO
        suits = memory.ndim == ctype.ndim and _element_text(memory) == ctype.item.text
        return _EXACT if suits else _NO
    try:
        pointer_argument(ctype, value, "it", -1)
    except TypeError:
        return _NO
    return _EXACT if value is not None else _PLAUSIBLE


# -- from memory ---------------------------------------------------------------------------------


def load(ctype: CType, address: int) -> object:
    """The Python value of a `ctype` at `address`; nothing refers to the memory afterwards."""
    if ctype.kind in ("bool", "int", "float", "complex"):
        return _types.load_scalar(letter(ctype), address)
    if isinstance(ctype, Struct):
        values = [load(field.type, address + field.offset) for field in ctype.fields]
        return named_tuple(ctype)(*values)
    if isinstance(ctype, Array):
        item = ctype.item if len(ctype.shape) == 1 else Array(ctype.item, ctype.shape[1:])
        return tuple(load(item, address + i * item.size) for i in range(ctype.shape[0]))
    return pointer_result(ctype, int(_lib.ffi.cast("uintptr_t *", address)[0]))


_NAMED_LIMIT = 1024
_named_tuples: dict[str, Callable[..., object]] = {}


def named_tuple(struct: Struct) -> Callable[..., object]:
    """The class that structs of a type come back as."""
    known = _named_tuples.get(struct.named)
    if known is not None:
        return known
    make: Any = namedtuple
    made: Callable[..., object] = make("Struct", struct.field_names, rename=True)
    if len(_named_tuples) > _NAMED_LIMIT:
        _named_tuples.clear()
    _named_tuples[struct.named] = made
    return made
