"""Convert arguments that the core leaves to Python: foreign pointers, functions and structs.

The core converts scalars and buffers itself (csrc/values/scalars.c, csrc/values/pointers.c). It
imports this module on first use, and calls it for:

- the pointer in a foreign object
- a C function pointer that calls a Python function
- a check of buffers of structs
- the cost of a value for an argument of an overload
"""

from __future__ import annotations

from itertools import islice
from types import NoneType

from .. import _ext, _lib
from .._cdecl.cffitype import disagreement, is_whole, to_ffi
from .._cdecl.nodes import CONST
from .._cdecl.spelling import parse, words
from .._errors import TYPE_CHECKING, SignatureError, refuse_reload, wrong_type
from .._rows import NamedTuple
from .._types import bufferformat
from .._types.agreement import suits
from .._types.ctype import VOIDPTR, CType, Scalar
from .._types.derived import (
    Array,
    FunctionPointer,
    Handle,
    Pointer,
    Struct,
    View,
    element_of,
    pointer,
)
from .._types.signature import Signature
from .._values import callinterface, foreign, handles, storage
from .._values.outparameters import visible
from .._values.refusals import refuse
from .entry import refuse_known_otherwise
from .pythonfunction import spec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._ext import CallbackSpec, CallInterface, Foreign, Native
    from .._values.calloptions import Policies

    #: Character types of a function's arguments and result (_cdecl/nodes.py), and the encoding.
    _Texts = tuple[tuple[str, ...], str | None]

refuse_reload(globals(), "pointer_argument")

# Overload costs of an argument (csrc/callable/overloadcost.h).
_EXACT, _WIDER, _OBJECT, _NARROW, _REFUSED = _ext.costs
_NO = -1
_STRUCTS = 1  # csrc/values/ctypespointers.c


# -- pointers ------------------------------------------------------------------------------------


class _Shown(NamedTuple):
    """The C declaration of an argument's type, for messages; falsy if the user wrote codes."""

    cif: CallInterface | None
    index: int  # type: ignore[assignment]  # a field, not the method of tuples

    def __bool__(self) -> bool:
        return self.cif is not None and self.cif.signature.in_c

    def __repr__(self) -> str:
        assert self.cif is not None
        return repr(self.cif.policies.spelled(self.cif.signature, self.index))


def pointer_argument(
    ctype: CType, value: object, who: str, index: int, cif: CallInterface | None = None
) -> tuple[object, ...]:
    """Return the address for a pointer argument, and the owner of the memory.

    The core itself handles None and buffers, and calls this function for other values. For a Python
    function that C does not keep, also return the Stash for its exceptions. For an array that
    exports no buffer, return a buffer instead of the address; the core converts the buffer. `who`
    is the name of the callable and `cif` its call interface. If `index` is negative, `who` is
    instead the subject of error messages.
    """
    value = _ext.bare(value)
    if index >= 0:
        who = f"argument {index + 1} of '{who}'"
    shown = _Shown(cif, index)
    if value is None:
        return 0, None
    if isinstance(ctype, FunctionPointer):
        keeps = cif is not None and cif.policies.keep != "call"
        return _function_argument(ctype, value, who, texts_of(cif, index), keeps, shown=shown)
    handles.check_open(value, who)
    found = foreign.pointer(value)
    if found is not None:
        wanted = ctype.pointee if isinstance(ctype, Pointer) else None
        if found.at is not None and wanted is not None and wanted.kind in _HOLDS_POINTER:
            # If C takes a pointer to a pointer, ctypes passes a pointer variable by reference, so
            # that C can fill it. The value of the variable is not the address of a pointer.
            if wanted.kind == "voidptr" and found.pointee is None:
                return found.at, _ext.hold(value)
            variable = words(wanted, named=True) if shown else wanted.text
            raise TypeError(
                f"{who} must be a pointer {shown or ctype.text!r} to a variable of {variable!r} "
                f"(got {type(value).__name__}); pass ctypes.byref() of one"
            )
        if found.kind is None and foreign.function(value) is not None:
            if isinstance(ctype, (Pointer, Handle)):
                given = type(value).__name__
                raise TypeError(f"{who} must be a pointer {shown or ctype.text!r} (got a {given})")
            return found.address, found.owner
        is_same, is_known = _named(ctype, found, who, shown)
        if wanted is not None and not is_same and not _leads_to(found, wanted):
            given = _pointer_to(found, shown)
            del found
            raise TypeError(
                f"{who} must be a pointer {shown or ctype.text!r} (got {given!r} from "
                f"{type(value).__name__})"
            )
        if found.is_memory and wanted is not None and found.address % wanted.alignment:
            del found  # otherwise the traceback would keep a buffer exported
            raise ValueError(f"{who} must {storage.misaligned(wanted, type(value).__name__)}")
        if found.kind is not None and not found.may_change and (is_known or is_whole(found.kind)):
            alignment = wanted.alignment if found.is_memory and wanted is not None else 1
            _ext.take_cffi(ctype, value, found.kind, alignment)
        if found.taken:
            _ext.take_ctypes(ctype, *found.taken)
        return found.address, found.owner
    if isinstance(ctype, Handle) and ctype.opaque:
        hint = ""
        if ctype.name.startswith("struct __pyx_obj_"):  # the struct of a Cython class
            hint = "; 'O' in the signature accepts an object of any class"
        raise TypeError(
            f"{who} must be a {(not hint and shown) or f'{ctype.name} *'!r}: a cffi or ctypes "
            f"pointer, or None (got {type(value).__name__}){hint}"
        )
    if ctype.kind == "voidptr" and callable(value) and not handles.is_cdata(value):
        return _any_function(value, who)
    leads_to_data = not isinstance(ctype, Pointer) or ctype.pointee.kind not in _HOLDS_POINTER
    if leads_to_data and type(value).__module__ != "builtins":
        from .._values import arrays

        memory = arrays.memory(value, ctype.text, who)
        if memory is not None:
            return memory
    readonly, spelled, said = False, ctype.text, ""
    passed = [] if cif is None else visible(cif.signature, 0, cif.policies.out)
    if cif is not None and max(index, 0) < len(passed):
        at = passed[max(index, 0)][0]
        readonly, spelled = cif.signature.readonly[at], cif.signature.spelled(at)
        said = cif.signature.characters[at] if cif.signature.characters else ""
    elif isinstance(ctype, Pointer) and ctype.name:
        spelled = f"{ctype.name} *"
    hint = _advice(ctype, value, index, readonly, spelled, said)
    kinds = "a buffer, a ctypes or cffi pointer, or None"
    if cif is not None and cif.policies.encoding and said and spelled.count("*") == 1:
        kinds = f"a str, {kinds}"
    if cif is not None and cif.policies.fortran and index >= 0:
        kinds = "a number, a buffer, or a ctypes or cffi pointer"
    given = type(value).__name__
    if handles.is_cdata(value):
        kind = _lib.ffi.typeof(value)
        given = f"cffi's {kind.cname!r}"
        if kind.kind in ("struct", "union"):
            hint = "; ffi.addressof() gives a pointer to it"
    raise TypeError(f"{who} must be a {spelled!r} pointer: {kinds} (got {given}){hint}")


def _advice(
    ctype: CType, value: object, index: int, readonly: bool, spelled: str, said: str
) -> str:
    """Return the end of a message: a hint for a value that has no memory.

    `index` is the index of the argument, or negative. `spelled` is the type in C, or its code. If
    the argument is text that C does not change, `said` is its character type.
    """
    if isinstance(value, str):
        if isinstance(ctype, Pointer) and not (
            isinstance(ctype.pointee, Scalar) and ctype.pointee.size == 1
        ):
            is_wide = ctype.name in ("wchar_t", "char16_t", "char32_t")
            return f"; new('{ctype.name}[]', value) of the library allocates one" if is_wide else ""
        if ctype.kind == "voidptr" and not readonly:
            return "; a str is not a buffer, pass bytearray(s.encode())"
        hint = "; a str is not a buffer, pass s.encode()"
        if ctype.text in ("&b", "&B") and index >= 0 and spelled == ctype.text:
            hint += ", or give the function an encoding if C declares this as const char *"
        elif said and index >= 0:
            hint += ", or give the function an encoding"
        return hint
    if not isinstance(ctype, Pointer):
        if ctype != VOIDPTR or isinstance(value, (int, float)):
            return ""
        return "; to pass it as user data, use nativecall.handle(value) or a closure"
    if ctype.name:
        is_value = isinstance(ctype.pointee, Struct) and isinstance(value, (tuple, dict))
        return f"; new('{ctype.name} *', value) of the library allocates one" if is_value else ""
    item = element_of(ctype)
    if item.kind not in ("bool", "int", "float"):
        return ""
    if isinstance(value, (tuple, list)):
        first: object = value
        while isinstance(first, (tuple, list)) and first:
            first = first[0]
        is_buffer = isinstance(first, (int, float))
        return f"; numpy.array(values, {item.text!r}) makes a buffer from them" if is_buffer else ""
    if isinstance(value, (int, float)) and index >= 0 and not readonly:
        return "; if C writes a result there, use 'out'"
    return ""


def _leads_to(found: foreign.Pointer, wanted: CType) -> bool:
    """Return whether a pointer may point to the wanted type, as far as its target is known."""
    if found.pointee is not None:
        return suits(found.pointee, wanted)
    item = wanted.item if isinstance(wanted, Array) else wanted
    return not found.struct or isinstance(item, Struct)


def _pointer_to(found: foreign.Pointer, shown: object) -> str:
    """Return the type of a given pointer, for messages."""
    if found.pointee is None or (shown and found.kind is not None):
        return "struct *" if found.kind is None else str(found.kind.cname)
    return words(pointer(found.pointee), named=True) if shown else f"&{found.pointee.text}"


def _named(ctype: CType, found: foreign.Pointer, who: str, shown: object) -> tuple[bool, bool]:
    """Refuse a pointer to a type that has a different name in C.

    Return whether the pointer has exactly the wanted type, and whether pointers of its type will
    always be accepted. An incomplete struct may be completed later, and may then differ.
    """
    if found.kind is None:
        if isinstance(ctype, Handle) and not isinstance(found.pointee, (Struct, Handle, NoneType)):
            given = _pointer_to(found, shown)
            raise TypeError(f"{who} must be a {shown or f'{ctype.name} *'!r} (got a {given!r})")
        return False, False
    wanted = disagreement(ctype, found.kind)
    if wanted:
        given = str(found.kind.cname)
        raise TypeError(f"{who} must be a {shown or f'{wanted} *'!r} (got a {given!r})")
    is_same = wanted == "" and to_ffi(ctype) == found.kind
    return is_same, is_same or not isinstance(ctype, Pointer)


def _returned_type(ctype: CType) -> object:
    """Return the cffi type of returned pointers.

    The core calls this function for the first pointer of each type. For a StructPointer, also
    return the structs of its library. Finalizers may free pointers during shutdown, when nothing
    can be imported. So an exit handler converts one pointer, which imports all that is necessary.
    """
    import atexit

    found = to_ffi(ctype)
    owner: Foreign = getattr(ctype, "owner", None)
    if owner is not None and owner.structs[found]:
        return found, owner.structs
    if not _is_ready_for_end:
        _is_ready_for_end.append(True)
        atexit.register(pointer_argument, ctype, _lib.ffi.cast(found, 0), "a pointer", -1)
    return found


_is_ready_for_end: list[bool] = []
_HOLDS_POINTER = ("pointer", "voidptr", "function", "object")


def _function_argument(
    ctype: FunctionPointer,
    value: object,
    who: str,
    texts: _Texts | None = None,
    keeps: bool = False,
    *,
    exactly: bool = False,
    shown: object = "",
) -> tuple[object, ...]:
    """Convert a native callable, a foreign function or a Python function to a function pointer.

    With `exactly`, raise TypeError instead of converting a signature or compiling a function.
    """
    signature = ctype.text[2:-1]
    native, rows = _rows_of(value)
    entry = next((row for row in rows or () if row[0] == signature), None)
    if entry is None and native is None and rows is not None:
        entry = _ext.native_entry(value, signature)
    if entry is not None:
        holder = value if native is None else native
        _check_gil(signature, entry[2], holder, who)
        return entry[1], holder
    if rows:
        owners = () if native is None else native._owners
        if signature == "v:" and any([isinstance(one, _ext.PyCallback) for one in owners]):
            return _any_function(value, who)
        known = [words(parse(row[0])) if shown else row[0] for row in rows]
        offers = f"; {value!r} offers {', '.join(map(repr, known))}"
        return _converted(ctype, value, who, offers, exactly, shown)
    if native is not None and native._specializer is not None:
        return _converted(ctype, value, who, f"; {value!r} has no entries", exactly, shown)
    found = foreign.function(value)
    if found is not None:
        if found.signature is not None and found.signature.text != signature:
            text = words(found.signature, named=True) if shown else found.signature.text
            given = f" (got {text!r} from {type(value).__name__})"
            return _converted(ctype, value, who, given, exactly, shown)
        if found.signature is None:
            try:
                refuse_known_otherwise(parse(ctype), found)
            except SignatureError as error:
                raise TypeError(f"{who} must be another function: {error}") from None
        _check_gil(signature, found.flags, value, who)
        return found.address, found.owner
    if foreign.count(value) is not None:
        return _converted(ctype, value, who, f" (got {type(value).__name__})", exactly, shown)
    if callable(value) and not handles.is_cdata(value):
        return _python_function(ctype, value, who, texts, keeps)
    raise wrong_type(who, "a function", value)


def _rows_of(value: object) -> tuple[Native | None, list[tuple[str, int, int]] | None]:
    """Return the native callable behind a value, and its entries.

    For an object of another provider, return None and the object's entries. For other values,
    return None twice.
    """
    native = foreign.native(value)
    if native is not None:
        return native, native._offered()
    offer = _ext.native_offer(value)
    return None, None if offer is None else offer[1]


def _any_function(value: object, who: str) -> tuple[object, ...]:
    """Return the address of a C function for ``void *``, or for a function declared ``()``.

    These declarations do not specify the signature. Some C code declares ``void (*)(void)`` for the
    same purpose, so a `Callback` of any signature is passed there without conversion.
    """
    _, rows = _rows_of(value)
    if rows is not None and len(rows) == 1:
        text, address, flags = rows[0]
        _check_gil(text, flags, value, who)
        return address, value
    found = foreign.function(value) if rows is None else None
    if found is not None:
        return found.address, found.owner
    if rows:
        offers = ", ".join([repr(row[0]) for row in rows])
        raise TypeError(f"{who} must be one C function ({value!r} offers {offers}); index it")
    raise TypeError(
        f"{who} must be a pointer or a C function (got {type(value).__name__}); "
        "nativecall.callback(signature, function) makes one from a Python function"
    )


def _converted(
    ctype: FunctionPointer, value: object, who: str, given: str, exactly: bool, shown: object
) -> tuple[object, ...]:
    """Convert a function of another signature; return its address and owner."""
    signature = ctype.text[2:-1]
    wanted = words(ctype, named=True) if shown else signature
    problem = f"{who} must be a function {wanted!r}{given}"
    if exactly:
        raise TypeError(problem)
    from .passing import convert  # late: takes as long as importing this module

    made = convert(value, parse(ctype))
    if isinstance(made, str):
        if shown and made.startswith("cannot convert"):  # drop the types, which are codes
            made = made.partition("': ")[2]
        raise TypeError(f"{problem}: {made}")
    address, flags, owner = made
    _check_gil(signature, flags, value, who)
    return address, owner


def _check_gil(signature: str, flags: int, value: object, who: str) -> None:
    """Refuse a function that needs the GIL, unless its signature contains Python objects.

    C code that passes Python objects holds the GIL.
    """
    if flags & _lib.FLAG_NEEDS_GIL and "O" not in signature:
        raise TypeError(
            f"{who} must be a function {signature!r} that runs without the GIL, which {value!r} "
            "needs"
        )


def texts_of(cif: CallInterface | None, index: int) -> _Texts | None:
    """For functions passed as argument `index`, return which arguments and results are text.

    Also return the encoding. With an encoding, pointers to const characters are text. Read-only
    arrays are marked, too. If there is no text and no read-only array, return None. `index` counts
    the arguments that Python passes.
    """
    if cif is None or index < 0:
        return None
    signature, encoding = cif.signature, cif.policies.encoding
    place = visible(signature, 0, cif.policies.out)[index][0]
    said = signature.characters[place] if signature.characters else ""
    ctype = signature.args[place]
    if said.startswith("("):
        each = tuple(said[1:-1].split(","))
    elif encoding is not None and isinstance(ctype, FunctionPointer) and "T{" in ctype.text:
        each = ("",) * (len(ctype.args) + 1)  # structs may contain text
    else:
        return None
    return (each, encoding) if encoding is not None or CONST in each else None


def _passed_spec(ctype: FunctionPointer, texts: _Texts | None, keeps: bool) -> CallbackSpec:
    """Return the spec of Python functions passed to C.

    If a function fails, C gets 0. `keeps` is whether C keeps the functions after the call.
    """
    signature, encoding = parse(ctype), None
    if texts is not None:
        said, encoding = texts
        signature = Signature(
            signature.result,
            signature.args,
            signature.variadic,
            readonly=[one == CONST for one in said[:-1]],
            characters=["" if one == CONST else one for one in said],
        )
    size = 0 if signature.result.kind == "void" else signature.result.size
    return spec_of(signature, bytes(size), passed=not keeps, kept=keeps, encoding=encoding)


def _python_function(
    ctype: FunctionPointer,
    function: Callable[..., object],
    who: str,
    texts: _Texts | None,
    keeps: bool,
) -> tuple[object, ...]:
    """Create a function pointer that calls a Python function; return its address and owner.

    Unless C keeps the pointer, also return the Stash for the function's exceptions.
    """
    name = getattr(function, "__name__", None)
    try:
        spec = _passed_spec(ctype, texts, keeps)
    except SignatureError as error:
        raise TypeError(f"{who} cannot be a Python function: {error}") from None
    called = name if isinstance(name, str) else "function"
    made = _ext.PyCallback(spec, function, (called, f"the result of {who}"))
    return (made.address, made) if keeps else (made.address, made, made.stash)


def passed(
    ctype: CType, cif: CallInterface, index: int
) -> tuple[str, Signature, CallbackSpec | None] | None:
    """For a function pointer argument, return the signature (text and object) and the spec.

    Return None for other arguments. If a Python function cannot be passed, the spec is None, and
    `pointer_argument` raises an error with the reason.
    """
    if not isinstance(ctype, FunctionPointer):
        return None
    callee = parse(ctype)
    try:
        spec = _passed_spec(ctype, texts_of(cif, index), cif.policies.keep != "call")
    except SignatureError:
        return callee.text, callee, None
    return callee.text, callee, spec


def struct_buffer(ctype: CType, value: object, form: str, itemsize: int) -> bool:
    """Return whether the elements of a buffer are the structs that a pointer points to.

    The core calls this function if the buffer's format is not a single scalar.
    """
    struct = element_of(ctype)
    origin = value.obj if isinstance(value, memoryview) else value
    try:
        found = foreign.layout(origin)
    except SignatureError:
        return False
    if found is None:
        return bufferformat.suits(struct, form, itemsize)
    # The class may override __buffer__ and export something else, so check the size.
    same = struct == element_of(found)
    if same and type(type(origin)).__module__ == "_ctypes":
        _ext.take_ctypes(ctype, type(origin), _STRUCTS)
    return bool(same and itemsize == struct.size)


# -- overloads -----------------------------------------------------------------------------------


def match(ctype: CType, value: object, readonly: bool, policies: Policies) -> int:
    """Return the cost of a value for an argument of an overload.

    The core calls this function for the types that it does not handle itself.

    Parameters
    ----------
    ctype : CType
    value : object
    readonly : bool
        Whether the callee promises not to write to the elements.
    policies : Policies
        The policies of the call.
    """
    if isinstance(ctype, Struct):
        return _match_struct(ctype, value, policies)
    if isinstance(ctype, View):
        if value is None:
            return _WIDER
        try:
            exported = _ext.export(value)
        except (BufferError, TypeError, ValueError):
            return _NO
        _, code, form, itemsize, shape, _, _ = exported
        if len(shape) != ctype.ndim or not storage.is_element(ctype.item, code, form, itemsize):
            return _NO
        if storage.view_problem(ctype, "", readonly, exported) is not None:
            return _REFUSED
        return _EXACT if code in ("", callinterface.letter(ctype.item)) else _WIDER
    if isinstance(ctype, FunctionPointer):
        return _match_function(ctype, value)
    try:
        found = pointer_argument(ctype, value, "it", -1)
        if not isinstance(found[0], int):
            cif = callinterface.of_argument(ctype, policies, readonly)
            return int(_ext.match(cif, found[0]))
    except TypeError:
        return _NO
    except ValueError:
        return _REFUSED
    return _EXACT if value is not None else _WIDER


def _match_function(ctype: FunctionPointer, value: object) -> int:
    """Return the cost of a function: higher if it must be converted."""
    if value is None:
        return _WIDER
    for exactly, cost in ((True, _EXACT), (False, _NARROW)):
        try:
            _function_argument(ctype, value, "it", exactly=exactly)
        except TypeError:
            continue
        except ValueError:
            return _REFUSED
        return cost
    return _NO


def _match_struct(struct: Struct, value: object, policies: Policies) -> int:
    fields = struct.members
    if not isinstance(value, (tuple, list)):
        scratch = _lib.ffi.new("char[]", struct.size + 1)
        try:
            where = int(_lib.ffi.cast("uintptr_t", scratch))
            same = storage.copy_same_bytes(struct, value, where, "it", [])
        except TypeError:
            return _NO
        except ValueError:
            return _REFUSED
        if same:
            return _EXACT
        given = storage.by_name(value)
        one = struct.kind == "union" and len(given or ()) == 1
        if given is None or not (
            given.keys() <= fields.keys() if one else given.keys() == fields.keys()
        ):
            return _NO
        fields, value = {name: fields[name] for name in given}, [*given.values()]
    types = [field.type for field in fields.values()]
    return _match_items(types[: 1 if struct.kind == "union" else None], value, policies)


def _match_items(types: Sequence[CType], value: Sequence[object], policies: Policies) -> int:
    """Return the cost of a struct or an array from the costs of its items.

    If no item must be narrowed, the result is less than the cost of a Python object.
    """
    if len(value) != len(types):
        return _NO
    costs = []
    for ctype, item in zip(types, tuple(islice(value, len(types))), strict=False):
        cost = _match_item(ctype, item, policies)
        if cost == _NO:
            return _NO
        costs.append(cost)
    most = max(costs, default=0)
    return most if most >= _NARROW else min(_WIDER + sum(costs), _OBJECT - 1)


def _match_item(ctype: CType, value: Foreign, policies: Policies) -> int:
    if not isinstance(ctype, Array):
        return int(_ext.match(callinterface.of_argument(ctype, policies), value))
    if ctype.is_text and isinstance(value, bytes):
        return _EXACT
    if isinstance(value, (tuple, list)):
        return _match_items([ctype.row] * min(ctype.shape[0], len(value) + 1), value, policies)
    try:
        return _WIDER if len(value) == ctype.shape[0] else _NO
    except TypeError:
        return _NO


_ext.set_hooks("values", pointer_argument, _returned_type, match, struct_buffer, refuse, passed)
