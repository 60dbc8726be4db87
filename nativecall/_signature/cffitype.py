"""C types and the types of cffi, both ways.

    from_ffi(cffi type) -> CType or Signature
    to_ffi(CType or Signature) -> cffi type

C declarations pass through the same `Converter`, so there is one mapping. Importing this module
does not import cffi; calling it does.

Types are kept up to a limit, and then made again. A struct that was made twice is two types to
cffi; here one is taken for the other everywhere.
"""

from __future__ import annotations

from _thread import RLock
from itertools import count

from .. import _lib
from .._errors import SignatureError
from .._fifo import Cache
from .ctype import CHAR, PY_OBJECT, SCALARS, VOID, VOIDPTR, CType, Scalar, integer
from .derived import Array, FunctionPointer, Handle, Pointer, Struct, inner_types, pointer
from .signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        return _lib.ffi.sizeof(ctype), _lib.ffi.alignof(ctype)

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
    """What C calls a struct or union of cffi, or a node; "" for others and without a name."""
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
    >>> import cffi
    >>> from_ffi(cffi.FFI().typeof("double(*)(unsigned short, void *)")).text
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


#: Held while cffi's types are made: two of one struct would be two types.
naming = RLock()
_made: Cache[str, FFIType] = Cache(1024)  # by `CType.named`
_numbers = count()  # of structs


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
    found = _made.get(ctype.named)
    if found is None:
        _check_by_value(ctype)
        with naming:
            found = _made.get(ctype.named) or _made.keep(ctype.named, _make(ctype))
    return found


def _make(ctype: CType) -> FFIType:
    import _cffi_backend

    if isinstance(ctype, Struct):
        return _make_struct(ctype)
    if isinstance(ctype, Scalar):
        if ctype.code == "Zg":
            return to_ffi(Struct([("re", SCALARS["g"]), ("im", SCALARS["g"])], name=_STAND_IN))
        number = ctype if ctype.native else integer(ctype.size, False)
        return primitive(number.c_name, number)
    if isinstance(ctype, Array):
        made = to_ffi(ctype.item)
        for length in reversed(ctype.shape):
            made = _cffi_backend.new_array_type(_cffi_backend.new_pointer_type(made), length)
        return made
    if isinstance(ctype, FunctionPointer):
        args = tuple(map(to_ffi, ctype.args))
        result = to_ffi(ctype.result)
        return _cffi_backend.new_function_type(args, result, ctype.variadic, default_abi())
    if ctype.kind == "void":
        return _cffi_backend.new_void_type()
    pointee = ctype.pointee if isinstance(ctype, Pointer) else VOID
    return _cffi_backend.new_pointer_type(to_ffi(pointee))


def _make_struct(struct: Struct) -> FFIType:
    import _cffi_backend

    union = struct.kind == "union"
    make = _cffi_backend.new_union_type if union else _cffi_backend.new_struct_type
    made = make(_STAND_IN if struct.name == _STAND_IN else f"{struct.kind} nc_{next(_numbers)}")
    fields = [
        ("" if one.width == 0 else name, to_ffi(one.type), -1 if one.width is None else one.width)
        for name, one in zip(struct.field_names, struct.fields, strict=True)
    ]
    natural = struct.alignment
    try:
        _cffi_backend.complete_struct_or_union(made, fields, None, -1, -1, *[8] * struct.packed)
        if struct.named.startswith("@"):
            natural = _cffi_backend.alignof(made)
        same = (_cffi_backend.sizeof(made), _cffi_backend.alignof(made)) == (struct.size, natural)
    except NotImplementedError:  # as of bit-fields in packed structs
        same = False
    if not same:
        raise SignatureError(f"cffi has no type {struct.c_declaration()!r}")
    return made


#: The types of numbers that cffi has by other names, and those of C itself.
_NAMES = {
    "Zf": "_cffi_float_complex_t",
    "Zd": "_cffi_double_complex_t",
    "g": "long double",
    "?": "_Bool",
    "c": "char",
    "f": "float",
    "d": "double",
}
_WORDS = frozenset(
    ("char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned int")
    + ("long", "unsigned long", "long long", "unsigned long long", "wchar_t", "char16_t")
    + ("char32_t",)
)


def primitive(name: str, scalar: Scalar) -> FFIType | None:
    """The type of numbers that C calls by a name; None where cffi has none."""
    import _cffi_backend

    found = "unsigned int" if name == "unsigned" else name if name in _WORDS else None
    found = found or _NAMES.get(scalar.text)
    if found is None and scalar.kind == "int" and scalar.size <= 8:
        found = f"{'' if scalar.signed else 'u'}int{8 * scalar.size}_t"
    return None if found is None else _cffi_backend.new_primitive_type(found)


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
    made = _lib.ffi.cast(pointer_type(ctype), address)
    return made if owner is None else _lib.ffi.gc(made, _lib.types.Keep(owner))
