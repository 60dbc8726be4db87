"""Values: between Python objects and C memory, for what the compiled core leaves to Python.

The core converts scalars and buffers itself (csrc/convert.c). Here are the aggregates, structs,
arrays and strided views, pointers that live in foreign boxes, and Python functions for C to call.
Structs take tuples, mappings, structs of ctypes and cffi, and NumPy records: as bytes where these
are laid out alike, else field by field. They come back as named tuples, nested ones and arrays as
tuples.

Guarantees: a failed conversion raises TypeError, ValueError or OverflowError that begins with what
was being converted (``argument 1 of 'f'``, ``field 'x' of argument 1 of 'f'``), and keeps nothing.
"""

from __future__ import annotations

from collections import namedtuple
from itertools import islice

from . import _lib, bufferformat, foreign
from .ctype import (
    VOID,
    Array,
    CType,
    FunctionPointer,
    Pointer,
    Struct,
    View,
    object_offsets,
)
from .errors import SignatureError, refuse_reload
from .signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

refuse_reload(globals(), "store")

_types = _lib.types
# The core's letters for complex types, which have two letters in a signature.
_LETTERS = {"Zf": "z", "Zd": "Z", "Zg": "Y"}
# Costs of an overload's argument, in the core's measure (csrc/overload.c).
_EXACT, _PLAUSIBLE, _OBJECT, _NARROW, _REFUSED, _NO = 0, 1, 50, 100, 10000, -1


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
        found = _types.plan(signature)
        if len(_plans) >= _PLAN_LIMIT:
            _plans.clear()
        _plans[key] = found
    return found


def _described(signature: Signature) -> tuple[Any, ...]:
    """The parts of a plan; the core asks, and relies on what they say of memory."""
    if type(signature) is not Signature:
        raise TypeError(f"a plan is made of a Signature (got {type(signature).__name__})")
    pointees, sizes, counts, alignments = [], [], [], []
    for arg in signature.args:
        code, size, count = " ", arg.size if isinstance(arg, Struct) else 0, 0
        alignment = 1
        if arg.kind == "voidptr":
            code = "v"
        elif isinstance(arg, View):
            code, size = letter(arg.item), arg.item.alignment
        elif isinstance(arg, Pointer):
            pointee = arg.pointee
            if isinstance(pointee, Array):
                count = pointee.length
                pointee = pointee.item
            size, alignment = pointee.size, pointee.alignment
            code = letter(pointee)
        # Structs in views and what holds pointers are looked at in Python.
        known = "?bBhHiIqQefdgzZY" if isinstance(arg, View) else "?bBhHiIqQefdgzZYTv"
        pointees.append(code if code in known else " ")
        sizes.append(size)
        counts.append(count)
        alignments.append(alignment)
    return (
        signature,
        signature.text,
        letter(signature.result) + ":" + "".join(map(letter, signature.args)),
        (*signature.args, signature.result),
        "".join(pointees),
        tuple(sizes),
        tuple(counts),
        tuple(alignments),
        signature.readonly,
        signature.names if any(signature.names) else None,
        signature.variadic,
    )


_single_plans: dict[str, Any] = {}


def _plan_of(ctype: CType) -> Any:
    """The plan of one argument."""
    found = _single_plans.get(ctype.named)
    if found is None:
        found = plan(Signature(VOID, (ctype,)))
        if len(_single_plans) >= _PLAN_LIMIT:
            _single_plans.clear()
        _single_plans[ctype.named] = found
    return found


# -- into memory ---------------------------------------------------------------------------------


def store(
    ctype: CType,
    value: Any,
    address: int,
    who: str,
    keep: list[object],
    readonly: bool = False,
) -> None:
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
    readonly : bool
        Whether the callee promises not to write to the elements of a view.
    """
    kind = ctype.kind
    if kind in ("bool", "int", "float", "complex"):
        _types.store_scalar(letter(ctype), value, address, who)
    elif isinstance(ctype, Struct):
        _store_struct(ctype, value, address, who, keep)
    elif isinstance(ctype, Array):
        _store_array(ctype, value, address, who, keep)
    elif isinstance(ctype, View):
        _store_word(_view(ctype, value, who, keep, readonly), address)
    elif kind == "object":
        keep.append(value)
        _store_word(id(value), address)
    else:
        held = _types.pin(_plan_of(ctype), who, -1, value)
        keep.append(held)
        _store_word(held.address, address)


def store_whole(
    ctype: CType, value: Any, address: int, who: str, keep: list[object], readonly: bool
) -> None:
    """`store`; when it fails, no traceback keeps a buffer exported."""
    try:
        store(ctype, value, address, who, keep, readonly)
    except BaseException:
        keep.clear()
        raise


def _store_word(value: int, address: int) -> None:
    _lib.ffi.cast("uintptr_t *", address)[0] = value


def _store_struct(struct: Struct, value: Any, address: int, who: str, keep: list[object]) -> None:
    names = struct.field_names
    if _copy_same_bytes(struct, value, address, who, keep):
        return
    given = None if isinstance(value, (tuple, list)) else _by_name(value)
    if given is not None:
        missing = [name for name in names if name not in given]
        unknown = [name for name in given if name not in names]
        if missing or unknown:
            what = f"lacks {missing[0]!r}" if missing else f"has no field {unknown[0]!r}"
            raise TypeError(f"{who} {what}; its fields are {', '.join(map(repr, names))}")
        values: Sequence[Any] = [given[name] for name in names]
    elif isinstance(value, (tuple, list)):
        if len(value) != len(names):
            raise TypeError(_wrong_count(who, names, len(value)))
        # Conversions may run code that changes a list. A subclass may give what it does not count.
        values = tuple(islice(value, len(names) + 1))
        if len(values) != len(names):
            count = len(values) if len(values) < len(names) else "more"
            raise TypeError(_wrong_count(who, names, count))
    else:
        raise TypeError(
            f"{who} must be a tuple, a mapping or a struct of {struct.size} bytes with the fields "
            f"{', '.join(map(repr, names))} (got {type(value).__name__})"
        )
    for field, name, item in zip(struct.fields, names, values, strict=True):
        store(field.type, item, address + field.offset, f"field {name!r} of {who}", keep)


def _wrong_count(who: str, names: Sequence[str], count: int | str) -> str:
    return f"{who} must have {len(names)} fields ({', '.join(map(repr, names))}), not {count}"


def _copy_same_bytes(
    struct: Struct, value: Any, address: int, who: str, keep: list[object]
) -> bool:
    """Copy a struct that exists in memory already: a foreign box's, a NumPy record.

    What it leads to goes to `keep`, whatever the struct is set to later.
    """
    if isinstance(value, (tuple, list, dict, bytes, bytearray, str)):
        return False
    found = foreign.struct(value)
    if found is not None:
        if found.type != struct:
            raise TypeError(f"{who} must be a struct {struct.text!r} (got {found.shown})")
        data = _lib.ffi.cast("char *", found.address)
        keep += found.kept
    elif _record_names(value) == struct.field_names:
        try:
            held, _, form, itemsize, shape, _, _ = _types.export(value)
        except (BufferError, TypeError, ValueError):
            return False  # NumPy has no format for some layouts
        if shape or not bufferformat.suits(struct, form, itemsize):
            return False
        data = _lib.ffi.cast("char *", held.address)
    else:
        return False
    _lib.ffi.memmove(_lib.ffi.cast("char *", address), data, struct.size)
    for offset in object_offsets(struct):
        word = int(_lib.ffi.cast("uintptr_t *", address + offset)[0])
        if word == 0:
            raise ValueError(f"{who} holds NULL where an object must be")
        keep.append(_types.object_at(word, False))
    return True


def _by_name(value: Any) -> dict[str, Any] | None:
    """The items of a mapping or of a NumPy record, None for anything else."""
    if hasattr(value, "keys"):
        return {str(key): value[key] for key in value.keys()}  # noqa: SIM118 - any mapping
    names = _record_names(value)
    return None if names is None else {name: value[name] for name in names}


def _record_names(value: Any) -> tuple[str, ...] | None:
    """The fields of one NumPy record, as a scalar or an array without dimensions."""
    names = getattr(getattr(value, "dtype", None), "names", None)
    return tuple(names) if names and getattr(value, "ndim", None) == 0 else None


def _store_array(array: Array, value: Any, address: int, who: str, keep: list[object]) -> None:
    item = array.item
    if len(array.shape) > 1:
        item = Array(array.item, array.shape[1:])
    # Nothing is built before the number of items is known.
    try:
        count = len(value)
        values = iter(value)
    except TypeError:
        raise TypeError(
            f"{who} must be a sequence of {array.shape[0]} items (got {type(value).__name__})"
        ) from None
    if count != array.shape[0]:
        raise ValueError(f"{who} must have {array.shape[0]} items (got {count})")
    stored = 0
    for i, one in zip(range(count), values, strict=False):
        stored = i + 1
        store(item, one, address + i * item.size, f"item {i} of {who}", keep)
    if stored != count:
        raise ValueError(f"{who} must have {count} items (got {stored})")


def _view(view: View, value: Any, who: str, keep: list[object], readonly: bool) -> int:
    """A descriptor (`View.descriptor`) of an object with a buffer; its address."""
    if value is None:
        return 0
    given = type(value).__name__
    try:
        held, *found = _types.export(value)
    except TypeError:
        raise TypeError(
            f"{who} must be an array or another object with a buffer (got {given})"
        ) from None
    except (BufferError, ValueError) as error:
        hint = "; pass a copy" if _is_indirect(value) else ""
        failure = BufferError if isinstance(error, BufferError) else ValueError
        raise failure(f"{who} cannot be seen as an array with strides: {error}{hint}") from error
    problem = _view_problem(view, given, readonly, held.address, *found)
    if problem is not None:
        del held  # or the traceback would keep the buffer exported
        raise type(problem)(f"{who} must {problem}")
    _, _, _, shape, strides, _ = found
    words = _lib.ffi.new("intptr_t[]", [held.address, *shape, *strides])
    keep += [held, words]
    return int(_lib.ffi.cast("uintptr_t", words))


def _view_problem(
    view: View,
    given: str,
    readonly: bool,
    address: int,
    code: str,
    form: str,
    itemsize: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    locked: bool,
) -> Exception | None:
    """Why a buffer cannot be passed as a view, as what it must do."""
    item = view.item
    if len(shape) != view.ndim:
        plural = "" if view.ndim == 1 else "s"
        return ValueError(f"have {view.ndim} dimension{plural} (got {len(shape)})")
    if not _is_element(item, code, form, itemsize):
        swapped = "; pass a copy in this machine's byte order"
        hint = swapped if bufferformat.is_swapped(form) else ""
        return TypeError(f"have {item.text!r} elements (got {form!r}){hint}")
    if not _is_aligned(item.alignment, address, shape, strides):
        return ValueError(_astray(item, given))
    if locked and not readonly:
        return ValueError(
            f"be writable, this {given} is read-only; pass a copy, or a Signature with 'readonly' "
            "if the callee does not write"
        )
    return None


def _astray(item: CType, given: str) -> str:
    return (
        f"have its elements at multiples of {item.alignment} bytes, those of this {given} are "
        "not; pass an aligned copy, as numpy.require(a, requirements='A') makes one of an array"
    )


def _is_indirect(value: Any) -> bool:
    """Whether a buffer has pointers to its rows instead of strides."""
    try:
        with memoryview(value) as whole:
            return any([offset >= 0 for offset in whole.suboffsets or ()])
    except (BufferError, TypeError, ValueError):
        return False


def _is_aligned(alignment: int, address: int, shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether C may access every element as what it is."""
    if 0 in shape:
        return True
    steps = [step for length, step in zip(shape, strides, strict=True) if length > 1]
    return not any([place % alignment for place in (address, *steps)])


def _is_element(item: CType, code: str, form: str, itemsize: int) -> bool:
    """Whether a buffer's elements are those of a view; bytes are bytes, signed or not."""
    if item.kind not in ("bool", "int", "float", "complex"):
        return bufferformat.suits(item, form, itemsize)
    wanted = letter(item)
    return code != "" and (code == wanted or (code in "bB" and wanted in "bB"))


# -- pointers ------------------------------------------------------------------------------------


def pointer_argument(ctype: CType, value: Any, who: str, index: int) -> tuple[object, ...]:
    """The address for a pointer argument that is no buffer, and what keeps it valid.

    A Python function has a third item, the core's Stash for its exceptions. The core calls this
    after None and buffers. With an index `who` is the callable's name.
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
        if found.variable is not None and wanted is not None and wanted.kind in _HOLDS_POINTER:
            # ctypes passes such a variable by reference: the function is to fill it, and its value
            # is no place for a pointer.
            if wanted.kind == "voidptr" and found.pointee is None:
                return found.variable, _types.hold(value)
            raise TypeError(
                f"{who} must be a pointer {ctype.text!r} to a variable of {wanted.text!r} "
                f"(got {type(value).__name__}); pass ctypes.byref() of one"
            )
        if wanted is not None and found.pointee is not None and not _same(wanted, found.pointee):
            known = found.pointee.text
            del found
            raise TypeError(
                f"{who} must be a pointer {ctype.text!r} (got '&{known}' from "
                f"{type(value).__name__})"
            )
        if found.is_memory and wanted is not None and found.address % wanted.alignment:
            del found  # or the traceback would keep a buffer exported
            raise ValueError(f"{who} must {_astray(wanted, type(value).__name__)}")
        return found.address, found.owner
    hint = "; a str has no bytes of its own, pass s.encode()" if isinstance(value, str) else ""
    raise TypeError(
        f"{who} must be a {ctype.text!r} pointer: a buffer, a ctypes or cffi pointer, or None "
        f"(got {type(value).__name__}){hint}"
    )


_HOLDS_POINTER = ("pointer", "voidptr", "function", "object")


def _same(wanted: CType, found: CType) -> bool:
    """Whether a pointer to `found` is one to `wanted`; bytes are bytes, signed or not."""
    if wanted == found:
        return True
    if isinstance(found, Array):
        return _same(wanted, found.item)
    return wanted.text in "bB" and found.text in "bB"


def _function_argument(ctype: FunctionPointer, value: Any, who: str) -> tuple[object, ...]:
    """A function pointer argument: a native callable, a foreign function, or a Python function."""
    signature = ctype.text[2:-1]
    native = _types.viewed(value)
    if native is None and isinstance(value, _types.CallableBase):
        native = value
    rows = [] if native is None else native._offered()
    if rows:
        for text, address, flags in rows:
            if text == signature:
                _check_gil(signature, flags, native, who)
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
        _check_gil(signature, found.flags, value, who)
        return found.address, found.owner
    if callable(value):
        return _python_function(ctype, value, who)
    raise TypeError(f"{who} must be a function (got {type(value).__name__})")


def _check_gil(signature: str, flags: int, value: object, who: str) -> None:
    """Refuse a function that needs the GIL; C code that hands it Python objects has that."""
    if flags & _lib.FLAG_NEEDS_GIL and "O" not in signature:
        raise TypeError(
            f"{who} must be a function {signature!r} that runs without the GIL, which {value!r} "
            "needs"
        )


_callees: dict[str, Signature] = {}  # of Python functions that were arguments


def _python_function(ctype: FunctionPointer, function: Any, who: str) -> tuple[object, ...]:
    """A function pointer that runs a Python function, and the Stash for its exceptions."""
    from .callback import closure

    signature = _callees.get(ctype.named)
    if signature is None:
        signature = Signature(ctype.result, ctype.args, ctype.variadic)
        if len(_callees) >= _PLAN_LIMIT:
            _callees.clear()
        _callees[ctype.named] = signature
    size = 0 if ctype.result.kind == "void" else ctype.result.size
    name = getattr(function, "__name__", None)
    stash = _types.Stash()
    try:
        address, _, owner = closure(
            signature,
            function,
            name if isinstance(name, str) else "function",
            f"the result of {who}",
            sentinel=bytes(size),
            stash=stash,
        )
    except SignatureError as error:
        raise TypeError(f"{who} cannot be a Python function: {error}") from None
    return address, owner, stash


def struct_buffer(ctype: CType, value: Any, form: str, itemsize: int) -> bool:
    """Whether the elements of a buffer are the structs that a pointer argument points to.

    The core asks when the format is no single scalar.
    """
    assert isinstance(ctype, Pointer)
    struct = ctype.pointee
    if isinstance(struct, Array):
        struct = struct.item
    origin = value.obj if isinstance(value, memoryview) else value
    try:
        found = foreign.layout(origin)
    except SignatureError:
        return False
    if found is None:
        return bufferformat.suits(struct, form, itemsize)
    # A __buffer__ of the class may export something else.
    same = struct == (found.item if isinstance(found, Array) else found)
    return bool(same and itemsize == struct.size)


def pointer_result(ctype: CType, address: int) -> object:
    """What a pointer result becomes: a cffi pointer, None for NULL."""
    if address == 0:
        return None
    from . import ffitype

    return ffitype.pointer_from(ctype, address)


def pointer_type(ctype: CType) -> Any:
    """The cffi type that pointers of a type come back as."""
    from . import ffitype

    return ffitype.pointer_type(ctype)


def match(ctype: CType, value: Any, readonly: bool) -> int:
    """How well a value suits an overload's argument that the core leaves to Python.

    Parameters
    ----------
    ctype : CType
    value : object
    readonly : bool
        Whether the callee promises not to write to the elements of a view.
    """
    if isinstance(ctype, Struct):
        return _match_struct(ctype, value)
    if isinstance(ctype, View):
        if value is None:
            return _PLAUSIBLE
        try:
            held, *found = _types.export(value)
        except (BufferError, TypeError, ValueError):
            return _NO
        code, form, itemsize, shape, _, _ = found
        if len(shape) != ctype.ndim or not _is_element(ctype.item, code, form, itemsize):
            return _NO
        if _view_problem(ctype, "", readonly, held.address, *found) is not None:
            return _REFUSED
        return _EXACT if code in ("", letter(ctype.item)) else _PLAUSIBLE
    try:
        pointer_argument(ctype, value, "it", -1)
    except TypeError:
        return _NO
    except ValueError:
        return _REFUSED
    return _EXACT if value is not None else _PLAUSIBLE


def _match_struct(struct: Struct, value: Any) -> int:
    if not isinstance(value, (tuple, list)):
        scratch = _lib.ffi.new("char[]", struct.size + 1)
        try:
            where = int(_lib.ffi.cast("uintptr_t", scratch))
            same = _copy_same_bytes(struct, value, where, "it", [])
        except TypeError:
            return _NO
        except ValueError:
            return _REFUSED
        if same:
            return _EXACT
        given = _by_name(value)
        if given is None or given.keys() != set(struct.field_names):
            return _NO
        value = [given[name] for name in struct.field_names]
    return _match_items([field.type for field in struct.fields], value)


def _match_items(types: Sequence[CType], value: Any) -> int:
    """What a struct or an array costs: as much as its items, but not as much as a Python object
    does, unless one must be narrowed."""
    if len(value) != len(types):
        return _NO
    costs = []
    for ctype, item in zip(types, tuple(islice(value, len(types))), strict=False):
        cost = _match_item(ctype, item)
        if cost == _NO:
            return _NO
        costs.append(cost)
    most = max(costs, default=0)
    return most if most >= _NARROW else min(_PLAUSIBLE + sum(costs), _OBJECT - 1)


def _match_item(ctype: CType, value: Any) -> int:
    if not isinstance(ctype, Array):
        return int(_types.match(_plan_of(ctype), value))
    item = ctype.item if len(ctype.shape) == 1 else Array(ctype.item, ctype.shape[1:])
    if isinstance(value, (tuple, list)):
        return _match_items([item] * min(ctype.shape[0], len(value) + 1), value)
    try:
        return _PLAUSIBLE if len(value) == ctype.shape[0] else _NO
    except TypeError:
        return _NO


# -- from memory ---------------------------------------------------------------------------------


def load(ctype: CType, address: int, *, owned: bool = False) -> object:
    """The Python value of a `ctype` at `address`; nothing refers to the memory afterwards.

    Parameters
    ----------
    ctype : CType
    address : int
    owned : bool
        Whether the references to Python objects in the memory are taken from it, as from a result.
    """
    if ctype.kind in ("bool", "int", "float", "complex"):
        return _types.load_scalar(letter(ctype), address)
    if isinstance(ctype, Struct):
        values = [load(f.type, address + f.offset, owned=owned) for f in ctype.fields]
        return named_tuple(ctype)(*values)
    if isinstance(ctype, Array):
        item = ctype.item if len(ctype.shape) == 1 else Array(ctype.item, ctype.shape[1:])
        places = [address + i * item.size for i in range(ctype.shape[0])]
        return tuple([load(item, place, owned=owned) for place in places])
    word = int(_lib.ffi.cast("uintptr_t *", address)[0])
    if ctype.kind != "object":
        return pointer_result(ctype, word)
    return None if word == 0 else _types.object_at(word, owned)


def _load_result(ctype: CType, address: int) -> object:
    return load(ctype, address, owned=True)


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


_types.set_value_hooks(
    pointer_argument,
    pointer_type,
    match,
    struct_buffer,
    store_whole,
    _load_result,
    named_tuple,
    _described,
)
