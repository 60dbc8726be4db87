"""C types and the types of cffi, both ways.

    from_ffi(cffi type) -> CType or Signature
    to_ffi(CType or Signature) -> cffi type of `ffi()`, an in-line FFI that all share

C declarations pass through the same `Converter`, so there is one mapping. Importing this module
does not import cffi; calling it does.

An FFI never frees what it was told of, 1 to 4 KB for each type. Hence it is told of a limited
number of types, and then another one takes its place. Types and objects of the first do not need
it, so it is freed. A C type that both were told of is two types to cffi; here one is taken for the
other everywhere.
"""

from __future__ import annotations

from _thread import RLock, allocate_lock
from itertools import count

from .. import _lib
from .._errors import SignatureError
from .clexer import KEYWORDS
from .ctype import CHAR, PY_OBJECT, SCALARS, VOID, VOIDPTR, CType, Scalar, integer
from .derived import Array, FunctionPointer, Handle, Pointer, Struct, inner_types, pointer
from .signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cffi import FFI

    # cffi's description of a type, and an object that it makes.
    from .._types import FFIData, FFIType
    from .derived import Owner

# A struct stands in for the complex long double that cffi lacks.
_STAND_IN = "struct __nc_Zg"
WIDE = ("wchar_t", "char16_t", "char32_t")
BITS = "struct __nc_bits_"  # begins structs that stand for a bit-field (ffitypes.py)
ANONYMOUS = "__nc_unnamed_"  # begins the tags that unnamed structs are given
#: What can be done about a value that nothing passes.
WRAP_IT = "call it through a C function of your own that takes a pointer"
# Scalars that a function of cffi takes and returns by value. It describes every one for a call,
# those of arrays and nested structs too, as soon as it makes the type.
MAX_SCALARS = 16384
_SHOWN = 4  # names at either end of a path of fields that a message shows


class Converter:
    """cffi's types to ours.

    A pointer whose target has no C type of ours (an incomplete struct) becomes `void *`.
    So does one that leads back to the struct that holds it: which pointers these are depends on the
    struct alone, not on where the conversion began.

    With `naming`, pointers to structs and unions outside of structs know what C calls these, and
    `owner` is what has cffi's types of them.
    """

    def __init__(self, naming: bool = False, owner: Owner | None = None) -> None:
        self._naming = naming
        self._owner = owner
        self._structs: dict[FFIType, Struct | SignatureError] = {}
        # Of the structs that have an unusable field: the names that lead to it, and what is wrong.
        self._faults: dict[FFIType, tuple[list[str], str]] = {}
        self._reached: dict[FFIType, set[FFIType]] = {}

    def type(self, ctype: FFIType, holder: FFIType = None) -> CType:
        """Our type for cffi's `ctype`, inside the struct `holder` if that is given."""
        match ctype.kind:
            case "void":
                return VOID
            case "primitive" | "enum":
                return scalar_of(ctype)
            case "pointer":
                return self._pointer(ctype.item, holder)
            case "function":
                return self._function_pointer(ctype, holder)
            case "array":
                if ctype.length is None:
                    raise SignatureError("an array of unknown length has no size")
                is_text = ctype.item.cname == "char"
                item = CHAR if is_text else self.type(ctype.item, holder)
                return Array(item, (ctype.length,))
            case "struct" | "union":
                return self._struct(ctype)
        hint = WRAP_IT
        raise SignatureError(f"{name_of(ctype)} cannot be passed by value", hint=hint)

    def function(self, ctype: FFIType, holder: FFIType = None) -> FunctionPointer:
        """Our type for cffi's function pointer type, with what cannot be passed refused."""
        if ctype.abi != default_abi():
            raise SignatureError("the calling convention is not the platform's usual one")
        args = [self.type(arg, holder) for arg in ctype.args]
        return FunctionPointer(self.type(ctype.result, holder), args, self._variadic(ctype))

    def _pointer(self, item: FFIType, holder: FFIType) -> CType:
        if item.kind == "struct" and item.cname in ("struct _object", "PyObject"):
            return PY_OBJECT
        if holder is not None and holder in self._reaches(item):
            return VOIDPTR
        name = c_name_of(item) if self._naming and holder is None else ""
        if self._naming and item.cname in WIDE:
            name = item.cname  # or cffi's pointer were one to integers
        try:
            found = self.type(item, holder)
            return Pointer(found, name, self._owner) if name else pointer(found)
        except SignatureError:
            return Handle(name, self._owner, is_incomplete(item)) if name else VOIDPTR

    def _function_pointer(self, ctype: FFIType, holder: FFIType) -> CType:
        if holder is not None:
            for arg in (ctype.result, *ctype.args):
                if arg.kind in ("struct", "union") and holder in self._reaches(arg):
                    return VOIDPTR
        try:
            return self.function(ctype, holder)
        except SignatureError:
            return VOIDPTR

    def _struct(self, ctype: FFIType) -> CType:
        if ctype.cname == _STAND_IN:
            return SCALARS["Zg"]
        if ctype not in self._structs:
            # From the leaves up, so that a long chain of structs is not a deep recursion.
            for struct in self._postorder(ctype):
                if struct not in self._structs:
                    self._structs[struct] = self._attempt(struct)
        found = self._structs[ctype]
        if isinstance(found, SignatureError):
            raise SignatureError(found.reason, hint=found.hint)
        return found

    def _attempt(self, ctype: FFIType) -> Struct | SignatureError:
        try:
            return self._build(ctype)
        except SignatureError as error:
            return error

    def _build(self, ctype: FFIType) -> Struct:
        if ctype.fields is None:
            reason = f"{name_of(ctype)} is not declared in full and cannot be passed by value"
            raise SignatureError(reason, hint=f"declare its members, or {WRAP_IT}")
        fields: list[tuple[str | None, CType, int | None]] = []
        for name, field in self._fields(ctype):
            width = None if field.bitsize < 0 else field.bitsize
            if field.type.cname.startswith(BITS):
                raise SignatureError("its members are not as C declares them")
            if width and not name:
                fields += _padding(_first_bit(field), width)
                continue
            try:
                fields.append((name or None, self._member(field.type, ctype), width))
            except SignatureError as error:
                path, why = self._faults.get(element(field.type), ([], error.reason))
                path = [name, *path]
                if len(path) > 2 * _SHOWN:
                    path[_SHOWN : -_SHOWN + 1] = ["…"]
                self._faults[ctype] = path, why
                reason = f"{name_of(ctype)} cannot be passed by value: its field "
                reason += f"{'.'.join(path)!r}: {why}"
                raise SignatureError(reason, hint=WRAP_IT) from None
        for packed in (False, True):  # one that need not be packed is not
            struct = Struct(fields, packed, c_name_of(ctype), union=ctype.kind == "union")
            if self._same_layout(struct, ctype):
                return struct
        raise SignatureError(f"{name_of(ctype)} has a layout that no signature describes")

    def _fields(self, ctype: FFIType) -> FFIType:
        return ctype.fields

    def _member(self, ctype: FFIType, holder: FFIType) -> CType:
        # A struct by value may be in the same cycle of pointers as its holder, and come later.
        inner = element(ctype)
        if inner.kind in ("struct", "union") and inner not in self._structs:
            self._structs[inner] = self._attempt(inner)
        return self.type(ctype, holder)

    def _variadic(self, ctype: FFIType) -> bool:
        return is_variadic(ctype)

    def _layout(self, ctype: FFIType) -> tuple[int, int]:
        return ffi().sizeof(ctype), ffi().alignof(ctype)

    def _same_layout(self, struct: Struct, ctype: FFIType) -> bool:
        theirs = [
            _first_bit(field) for name, field in self._fields(ctype) if name or field.bitsize < 0
        ]
        mine = [8 * one.offset + one.shift for one in struct.fields if not one.is_padding]
        return (struct.size, struct.alignment) == self._layout(ctype) and theirs == mine

    def _postorder(self, ctype: FFIType) -> Iterator[FFIType]:
        """The structs that can be reached from `ctype`, those that others need first."""
        entered = {ctype}
        stack = [(ctype, iter(_parts(ctype)))]
        while stack:
            node, parts = stack[-1]
            for part in parts:
                if part not in entered:
                    entered.add(part)
                    stack.append((part, iter(_parts(part))))
                    break
            else:
                stack.pop()
                if node.kind in ("struct", "union") and node.cname != _STAND_IN:
                    yield node

    def _reaches(self, ctype: FFIType) -> set[FFIType]:
        """All types that `ctype` contains or leads to, itself included."""
        found = self._reached.get(ctype)
        if found is None:
            found = self._reached[ctype] = {ctype}
            pending = [ctype]
            while pending:
                for part in _parts(pending.pop()):
                    if part not in found:
                        found.add(part)
                        pending.append(part)
        return found


def _first_bit(field: FFIType) -> int:
    """Where a member of cffi's begins, in bits."""
    return int(8 * field.offset + (field.bitshift if field.bitsize >= 0 else 0))


def _padding(first: int, width: int) -> Iterator[tuple[None, CType, int]]:
    """Bit-fields of bytes, which align nothing, in place of one without a name."""
    while width:
        bits = min(width, 8 - first % 8)
        yield None, SCALARS["B"], bits
        first, width = first + bits, width - bits


def is_variadic(ctype: FFIType) -> bool:
    """Whether a function pointer type of cffi ends in '...'.

    cffi's own `ellipsis` is also true of functions that its libffi cannot call, such as those with
    complex numbers.
    """
    if not ctype.ellipsis:
        return False
    args = ", ".join([arg.cname for arg in ctype.args])
    return f"(*)({args}, ...)" in ctype.cname


def _parts(ctype: FFIType) -> Sequence[FFIType]:
    """The types that a type of cffi is made of."""
    if ctype.kind in ("pointer", "array"):
        return (ctype.item,)
    if ctype.kind == "function":
        return (ctype.result, *ctype.args)
    if ctype.kind in ("struct", "union"):
        return [field.type for _, field in ctype.fields or ()]
    return ()


def is_whole(ctype: FFIType) -> bool:
    """Whether nothing that a type leads to is yet to be declared, as an opaque struct is."""
    found = Converter()._reaches(ctype)
    return all([one.kind not in ("struct", "union") or one.fields is not None for one in found])


def element(ctype: FFIType) -> FFIType:
    """What an array of cffi consists of in the end; other types are their own."""
    while ctype.kind == "array":
        ctype = ctype.item
    return ctype


def c_name_of(ctype: FFIType) -> str:
    """What C calls a struct or union of cffi, or a node; "" for others, and where it has no name.

    >>> c_name_of(ffi().typeof("struct timeval"))
    'struct timeval'
    """
    if ctype.kind not in ("struct", "union"):
        return ""
    name: str = getattr(ctype, "typedef", "") or ctype.cname
    tag = name.removeprefix(f"{ctype.kind} ")
    if not tag.isidentifier() or tag.startswith(ANONYMOUS) or name == _STAND_IN:
        return ""
    if tag.removeprefix("nc_").isdigit():
        return ""  # of a signature's struct, below
    return _SAME.get(name, name)


def is_same_name(one: str, other: str, owner: Owner | None = None) -> bool:
    """Whether two names are of one struct or union. An FFI of cffi may call it by a typedef, which
    `owner` may know, and headers are read by the tag.
    """
    if one == other or one.rpartition(" ")[2] == other.rpartition(" ")[2]:
        return True
    return owner is not None and owner.tag(one) == other


def name_of_type(ctype: FFIType) -> str:
    """How a message names a type of cffi."""
    return str(ctype.cname)


def disagreement(ctype: CType, foreign: FFIType) -> str | None:
    """What a pointer type of ours points to by name, where `foreign`, a pointer or array of cffi's,
    leads to something else; "" where both have the name, None where there is nothing to compare.
    """
    while isinstance(ctype, (Pointer, Handle)) and foreign.kind in ("pointer", "array"):
        item = foreign.item
        if ctype.name:
            if item.kind in ("struct", "union"):
                given = c_name_of(item)
                if not given:
                    return None
                return "" if is_same_name(given, ctype.name, ctype.owner) else ctype.name
            return ctype.name if isinstance(ctype, Handle) and item.kind != "void" else None
        if not isinstance(ctype, Pointer):
            return None
        ctype, foreign = ctype.pointee, item
    return None


#: What has another name in the FFIs of cffi than in C.
_SAME = {"FILE": "struct _IO_FILE"}


def is_incomplete(ctype: FFIType) -> bool:
    """Whether a struct or union of cffi, or a node, has no size that is known."""
    size = getattr(ctype, "size", 0)
    return size is None or (size == 0 and ctype.fields is None)


def name_of(ctype: FFIType) -> str:
    """How a message names a struct or union of cffi."""
    tag = ctype.cname.removeprefix(ctype.kind + " ")
    if tag.startswith(ANONYMOUS):
        tag = tag.removeprefix(ANONYMOUS).partition("_")[2]
    return f"{ctype.kind} {tag!r}" if tag.isidentifier() else f"an unnamed {ctype.kind}"


def default_abi() -> int:
    import _cffi_backend

    return int(_cffi_backend.FFI_DEFAULT_ABI)


_PRIMITIVES = {
    "_Bool": "?",
    "char": "c",
    "float": "f",
    "double": "d",
    "long double": "g",
    "_cffi_float_complex_t": "Zf",
    "_cffi_double_complex_t": "Zd",
}


def scalar_of(ctype: FFIType) -> Scalar:
    code = _PRIMITIVES.get(ctype.cname)
    if code is not None:
        return SCALARS[code]
    # What -1 becomes tells the sign of enums, wchar_t and all the typedefs of <stdint.h> alike.
    import _cffi_backend

    return integer(_cffi_backend.sizeof(ctype), int(_cffi_backend.cast(ctype, -1)) < 0)


def from_ffi(ctype: FFIType, owner: Owner | None = None) -> CType | Signature:
    """The C type that a type of cffi is; a `Signature` for a function pointer type. With an owner
    pointers know what C calls the structs that they lead to.

    SignatureError if there is no such C type here: an incomplete struct, one whose alignment was
    asked for.

    Examples
    --------
    >>> from_ffi(ffi().typeof("double(*)(unsigned short, void *)")).text
    'd:HP'
    """
    # That of cffi.FFI is there once one was made.
    if not isinstance(ctype, _lib.ffi.CType):
        raise TypeError(f"'ctype' must be a type of cffi (got {type(ctype).__name__})")
    convert = Converter(naming=owner is not None, owner=owner)
    if ctype.kind != "function":
        return convert.type(ctype)
    function = convert.function(ctype)
    return Signature(function.result, function.args, function.variadic, written=ctype.cname)


#: Held while types of a library become cffi's (ffitypes.py).
naming = RLock()
_lock = allocate_lock()
_MOST_TYPES = 1024  # that an FFI is told of, structs counted once more
_numbers = count()  # of structs: no two FFIs have the same tag


class _Told:
    """An FFI and what it was told of; all of a type is declared in one of these."""

    __slots__ = ("ffi", "structs", "types")

    def __init__(self, ffi: FFI) -> None:
        self.ffi = ffi
        self.ffi.cdef(f"{_STAND_IN} {{ long double re, im; }};")
        self.types: dict[str, FFIType] = {}  # by `CType.named`
        self.structs: dict[str, str] = {}

    def is_full(self) -> bool:
        return len(self.types) + len(self.structs) >= _MOST_TYPES

    def declare(self, ctype: CType) -> FFIType:
        """cffi's type, the same one in all threads."""
        made = self.ffi.typeof(ctype.declare("", self._spell))
        return self.types.setdefault(ctype.named, made)

    def _spell(self, ctype: CType) -> str:
        """How cffi spells what is no pointer, array or function, declared if it must be."""
        if isinstance(ctype, Struct):
            return self._spell_struct(ctype)
        if isinstance(ctype, Scalar):
            name = _STAND_IN if ctype.code == "Zg" else ctype.c_name
            return name if ctype.native else f"uint{8 * ctype.size}_t"
        return "void" if ctype.kind == "void" else "void *"

    def _spell_struct(self, struct: Struct) -> str:
        found = self.structs.get(struct.named)
        if found is not None:
            return found
        members = struct.declarations(_usable_names(struct.field_names), self._spell)
        with _lock:
            found = self.structs.get(struct.named)
            if found is None:
                found = f"{struct.kind} nc_{next(_numbers)}"
                try:
                    self.ffi.cdef(f"{found} {{ {members} }};", packed=struct.packed)
                    layout = self.ffi.sizeof(found), self.ffi.alignof(found)
                    same = layout == (struct.size, struct.alignment)
                except NotImplementedError:  # as of bit-fields in packed structs
                    same = False
                if not same:
                    raise SignatureError(f"cffi has no type {struct.c_declaration()!r}")
                self.structs[struct.named] = found
        return found


_told: _Told | None = None


def _with_room() -> _Told:
    """What may be told of another type."""
    global _told
    told = _told
    if told is None or told.is_full():
        import cffi

        with _lock:
            told = _told
            if told is None or told.is_full():
                told = _told = _Told(cffi.FFI())
    return told


def ffi() -> FFI:
    """The in-line `cffi.FFI` that `to_ffi` uses now; all know the types of all."""
    return (_told or _with_room()).ffi


def read(text: str) -> FFIType:
    """cffi's type for a text in C, which raises what cffi's parser does.

    An FFI keeps every text that it was given, and of these there is no end: one type has many.
    """
    told = _with_room()
    try:
        found = told.ffi.typeof(text)
    finally:
        getattr(told.ffi, "_parsed_types", {}).pop(text, None)
    return told.types.setdefault(found.cname, found)


def to_ffi(ctype: CType | Signature) -> FFIType:
    """The type of cffi for a C type, or for a pointer to a function of a signature.

    Structs get generated tags and keep their field names. What cffi cannot express has a stand-in
    of the same size: ``e`` is `uint16_t`, ``Zg`` a struct of two `long double`, views and Python
    objects are `void *`. SignatureError if a function takes and returns more than 16384 scalars by
    value, those of arrays in structs counted one by one.

    Examples
    --------
    >>> from nativecall._signature.spelling import parse
    >>> to_ffi(parse("i:&d"))
    <ctype 'int32_t(*)(double *)'>
    """
    if isinstance(ctype, Signature):
        ctype = ctype.function
    if not isinstance(ctype, CType):
        raise TypeError(f"'ctype' must be a CType or a Signature (got {type(ctype).__name__})")
    found = None if _told is None else _told.types.get(ctype.named)
    if found is not None:
        return found
    _check_by_value(ctype)
    return _with_room().declare(ctype)


def _check_by_value(ctype: CType) -> None:
    """Refuse a type with a function in it that has more scalars by value than cffi should list."""
    if isinstance(ctype, FunctionPointer):
        parts = [ctype.result, *ctype.args]
        if sum([_count(part) for part in parts]) > MAX_SCALARS:
            reason = f"a function of cffi takes and returns at most {MAX_SCALARS} scalars by value"
            raise SignatureError(reason, hint="pass a pointer to a struct")
    else:
        parts = [ctype.pointee] if isinstance(ctype, Pointer) else [*inner_types(ctype)]
    for part in parts:
        _check_by_value(part)


def _count(ctype: CType) -> int:
    """How many scalars a value consists of."""
    if isinstance(ctype, Struct):
        return sum([_count(field.type) for field in ctype.fields])
    return ctype.length * _count(ctype.item) if isinstance(ctype, Array) else 1


def pointer_type(ctype: CType) -> FFIType:
    """The cffi type that pointers of a type come back as."""
    found = _owned(ctype)
    if found is not None:
        return found
    return to_ffi(VOIDPTR if ctype.kind == "object" else ctype)


def _owned(ctype: CType) -> FFIType | None:
    """The type of a pointer to what a library has a type of, or of a pointer to such; else None."""
    if isinstance(ctype, (Pointer, Handle)) and ctype.name:
        return None if ctype.owner is None else ctype.owner.pointer(ctype.name)
    if isinstance(ctype, Pointer):
        found = _owned(ctype.pointee)
        if found is not None:
            import _cffi_backend

            return _cffi_backend.new_pointer_type(found)
    return None


def pointer_from(ctype: CType, address: int, *, owner: object = None) -> FFIData:
    """A cffi pointer of a pointer type; it owns nothing, but keeps `owner` alive."""
    made = ffi().cast(pointer_type(ctype), address)
    return made if owner is None else ffi().gc(made, _lib.types.Keep(owner))


def _usable_names(names: Sequence[str]) -> list[str]:
    """`names` with the keywords of C changed: PEP 3118 allows them, cffi does not."""
    taken = set(names)
    usable = []
    for name in names:
        changed = name
        while changed in KEYWORDS or (changed != name and changed in taken):
            changed += "_"
        taken.add(changed)
        usable.append(changed)
    return usable
