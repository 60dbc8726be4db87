"""Names of capsules: C declarations of the functions in them, as Cython and others write these.

Cython names its own types by their modules. What such a type is, the .pxd file beside the module
says, where the module is imported and there is one; of SciPy's and NumPy's the names are known. A
pointer to a type that nobody knows is an opaque one. A type that is passed by value and not known
leaves a gap, which the caller can fill.

Read as something else than a declaration of a function are Pythran's names, which have no result,
and those of variables that Cython exports beside functions.
"""

from __future__ import annotations

import re
from collections import namedtuple

from .._errors import SignatureError
from .ctype import CType
from .derived import Array, FunctionPointer, Pointer, Struct
from .pxd import COMPLEX, SIZED, absolute, of_module, unmangled
from .signature import Signature
from .spelling import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types import Foreign


class Name(namedtuple("Name", ["signature", "partial", "reason", "is_data"])):
    """What a capsule's name says.

    Attributes
    ----------
    signature : Signature or None
    partial : tuple of (CType or None), or None
        The result and the arguments, None for each that is not known, where there is no signature.
    reason : str or None
        Why there is none, and how to tell it.
    is_data : bool
        Whether the name says that no function is in the capsule.
    """

    __slots__ = ()
    signature: Signature | None
    partial: tuple[CType | None, ...] | None
    reason: str | None
    is_data: bool


_NUMPY = {
    "byte": "signed char",
    "ubyte": "unsigned char",
    "bool": "unsigned char",
    "longlong": "long long",
    "ulonglong": "unsigned long long",
    "longdouble": "long double",
    "cfloat": "float _Complex",
    "cdouble": "double _Complex",
    **{name: name for name in ("short", "int", "long", "float", "double")},
    **{f"u{name}": f"unsigned {name}" for name in ("short", "int", "long")},
}
_LAPACK = {"s": "float", "d": "double", "c": "float _Complex", "z": "double _Complex"}
_MACROS = {"PY_LONG_LONG": "long long", "Py_UCS4": "uint32_t", "Py_hash_t": "Py_ssize_t"}
_NAME = re.compile(
    r"\b(?:(?:struct|union|enum)\s+\w+|npy_\w+|__pyx_(?:t|ctuple)_\w+|" + "|".join(_MACROS) + r")\b"
)
# The last parameter of a `cpdef` function, which that of a module does not look at; and one more
# that has those that may be left out, NULL where all are.
_SKIP_DISPATCH = re.compile(r",?\s*\bint __pyx_skip_dispatch\s*\)\s*;?\s*$")
_OPTIONAL = re.compile(
    r",?\s*(?:\b(int __pyx_skip_dispatch)\s*,\s*)?"
    r"\bstruct \w+\s*\*\s*__pyx_optional_args\s*\)\s*;?\s*$"
)
_TAG = re.compile(r"\b(?:struct|union) (\w+)")
_WORD = re.compile(r"[A-Za-z_]\w*")
# What is no type by itself, and no name of one.
_WORDS = {"void", "struct", "union", "enum", "const", "volatile", "restrict", "nc_function"}
_UNKNOWN = re.compile(r"unknown type name '(\w+)'")
_CTUPLE = {"int", "long", "float", "double", "Py_ssize_t", "char", "short", "size_t"}
_MEMORYVIEW = "__Pyx_memviewslice"
_MOST_GAPS = 8
_OF = "__of_"  # before the module in the name that declarations have for a type of it
_GAP = "nc_gap_"  # begins the only member of structs that stand for what is not known
_PYTHRAN = re.compile(r"(\w+)\((.*)\)$")
_PYTHRAN_TYPES = {
    "int": "l",
    "float": "d",
    "bool": "?",
    "bool_": "?",
    "complex": "Zd",
    "float64": "d",
    "float32": "f",
    "float128": "g",
    "longdouble": "g",
    "complex128": "Zd",
    "complex64": "Zf",
    "intc": "i",
    "uintc": "I",
    "intp": "n",
    "uintp": "N",
    **{f"int{size}": code for size, code in ((8, "b"), (16, "h"), (32, "i"), (64, "q"))},
    **{f"uint{size}": code for size, code in ((8, "B"), (16, "H"), (32, "I"), (64, "Q"))},
}
#: What capsules of these names hold, which is no function.
_DATA = {
    "dltensor": "an array by DLPack's protocol",
    "dltensor_versioned": "an array by DLPack's protocol",
    "used_dltensor": "an array by DLPack's protocol that was taken",
    "used_dltensor_versioned": "an array by DLPack's protocol that was taken",
    "arrow_schema": "a type of Arrow's",
    "arrow_array": "an array of Arrow's",
    "arrow_array_stream": "a stream of Arrow's",
    "arrow_device_array": "an array of Arrow's",
}


#: Names by which modules export a table of functions to C, for PyCapsule_Import.
_TABLE = re.compile(r"^\w+(?:\.\w+)*\._?\w*C_?API_?$")

#: The functions of XLA's that capsules of this name hold; neither XLA nor JAX tells which.
XLA = "xla._CUSTOM_CALL_TARGET"
XLA_SIGNATURES = ("P:P", "v:PP", "v:PPPN")
_XLA_FORMS = (
    "'P:P' for XLA's FFI (XLA_FFI_Error *(XLA_FFI_CallFrame *)), 'v:PP' for a custom call of a CPU "
    "(void (void *, const void **)), 'v:PPPN' for one of a GPU"
)


def read(name: str) -> Name:
    """What a capsule's name says; never raises."""
    if name == XLA:
        reason = f"a custom call of XLA's does not tell which kind it is: write {_XLA_FORMS}"
        return Name(None, None, reason, False)
    if _TABLE.search(name):
        return Name(None, None, "it is the table of a module's C API, with many functions", True)
    if name in _DATA:
        return Name(None, None, f"it holds {_DATA[name]}", True)
    pythran = _pythran(name)
    if pythran is not None:
        return pythran
    if "(" not in name and _is_type(name):
        reason = f"its name declares a variable, {name!r}, not a function"
        return Name(None, None, reason, True)
    return _declaration(name)


def optional(name: str) -> str:
    """The types, as codes, of what a function takes behind its signature: zero and NULL.

    A pointer for the arguments that may be left out; before it an int, if the function is `cpdef`.
    """
    found = _OPTIONAL.search(name)
    return "" if found is None else "iP" if found[1] else "P"


def in_c(name: str, names: Foreign = None) -> str:
    """A name as a declaration in C, with Cython's types by their own names, or by the tags that
    `names` (TypeNames) has for these.
    """

    def own(found: re.Match[str]) -> str:
        text = _own(found[0])
        node = None if names is None or text in names.typedefs else names.find(text)
        return text if node is None else str(node.cname)

    return _plain(_NAME.sub(own, name))


def _declaration(name: str) -> Name:
    """What a declaration of a function says."""
    needed: dict[str, str] = {}
    text = _plain(_NAME.sub(lambda found: _resolved(found[0], needed), name))
    # Structs that only their tags tell are types that nobody knows, which may leave a gap.
    text = _TAG.sub(lambda found: found[0] if _is_type(found[1]) else found[1], text)
    gaps: list[str] = []
    declares = bool(needed)
    signature = None
    while signature is None:
        try:
            signature = _parsed(text, needed)
        except SignatureError as error:
            unknown = _unknown_type(error.reason, text, needed)
            if unknown is None or len(gaps) == _MOST_GAPS:
                return Name(None, None, _unread(name, error) if declares else None, False)
            gaps.append(unknown)
            # By value at first, so that it shows where. Members may be of the type, too.
            member = f"unsigned char {_GAP}{unknown};"
            needed = {unknown: f"typedef struct {{ {member} }} {unknown}; ", **needed}
    types = signature.result, *signature.args
    missing = [gap for gap in gaps if any([_passes(one, gap) for one in types])]
    if not missing:
        try:
            return Name(_opaque(text, needed, gaps) if gaps else signature, None, None, False)
        except SignatureError as error:
            return Name(None, None, _unread(name, error), False)
    # A gap that is a struct, as its tag says, stands for itself.
    tag = r"\b(?:struct|union) (?:__pyx_t_\w+_)?"
    structs = {gap for gap in gaps if re.search(rf"{tag}{gap}\b", name)} | {_MEMORYVIEW}
    partial = tuple([_known(one, structs) for one in types])
    outer = {gap: _holder(gap, text, needed) for gap in missing}
    return Name(None, partial, _unknown(name, outer), False)


def _parsed(text: str, needed: dict[str, str]) -> Signature:
    """The signature that a declaration without a name has, after those that it needs."""
    if needed:
        text = "".join(needed.values()) + text.replace("(", " nc_function(", 1).rstrip("; ") + ";"
    found = parse(text, hint="c")
    written = re.sub(rf"{_OF}\w+", "", found.written)
    parts = found.names, found.readonly, found.characters, found.lengths, written
    return Signature._of(found.function, *parts)


def _opaque(text: str, needed: dict[str, str], gaps: list[str]) -> Signature:
    """The signature of a declaration where types that nobody knows are behind pointers only."""
    needed |= {gap: f"typedef struct {gap} {gap}; " for gap in gaps}
    try:
        return _parsed(text, needed)
    except SignatureError:  # a struct behind a pointer has such a type by value
        for name, declared in needed.items():
            if declared.startswith("typedef struct ") and {*_WORD.findall(declared)} & {*gaps}:
                gaps.append(name)
                needed[name] = f"typedef struct {name} {name}; "
        # An array that is an argument is a pointer.
        for gap in gaps:
            text = re.sub(rf"\b{gap}\s+(\w*)\s*\[\w*\]", rf"{gap} *\1", text)
        return _parsed(text, needed)


def _unknown_type(reason: str, text: str, needed: dict[str, str]) -> str | None:
    """The name of a type that nobody knows, for which a declaration cannot be read."""
    found = _UNKNOWN.match(reason)
    # Alone, or first of all, it is taken for a name.
    for name in [found[1]] if found is not None else _WORD.findall(text):
        if name not in needed and name not in _WORDS and not _is_type(name):
            return name
    return None


def _plain(text: str) -> str:
    text = _OPTIONAL.sub(")", text)
    return re.sub(r"\(\s*\)", "(void)", _SKIP_DISPATCH.sub(")", text))


def _is_type(name: str) -> bool:
    """Whether a name is that of a type that can be a variable's."""
    name = re.sub(r"\[\w*\]", "", _NAME.sub(lambda found: _resolved(found[0], {}), name))
    if name.strip() in ("", "void"):
        return False
    if _TAG.fullmatch(name.strip()):
        return True
    try:
        parse(f"void ({name})", hint="c")
    except SignatureError:
        return name.strip() == "PyThread_type_lock"
    return True


def _own(name: str) -> str:
    """The name of a type without its module, or C's for it."""
    if name.startswith("enum"):
        module, own = unmangled(name.rpartition(" ")[2], "__pyx_t_")
        return _declared(module).get(own, "int").partition(" @")[0]
    if name in _MACROS:
        return _MACROS[name]
    if name.startswith("npy_"):
        return SIZED.get(name[4:]) or _NUMPY.get(name[4:], name)
    mangled = name.rpartition(" ")[2]
    if not mangled.startswith("__pyx_t_"):
        return name
    module, own = unmangled(mangled, "__pyx_t_")
    lapack = _LAPACK if module.startswith("scipy.linalg.") else {}
    return lapack.get(own) or COMPLEX.get(own) or SIZED.get(own.removesuffix("_t")) or own or name


def _resolved(name: str, needed: dict[str, str]) -> str:
    """The name of a type as the declarations in `needed` have it, to which its own are added."""
    mangled = name.rpartition(" ")[2]
    if mangled.startswith("__pyx_ctuple_"):
        return _ctuple(mangled, needed)
    if mangled.startswith("__pyx_t_") and not name.startswith("enum"):
        module, own = unmangled(mangled, "__pyx_t_")
        if name.startswith("union"):
            return own  # which nothing passes by value
        known = _declared(module)
        if own in known and own.removesuffix("_t") not in SIZED:
            return _declare(module, own, known, needed)
        return own if name != mangled and own == _own(name) else _own(name)
    return _own(name)


def _declared(module: str) -> dict[str, str]:
    """The types that the .pxd of a module declares."""
    found = of_module(module) if module else None
    return {} if found is None else found.types


def _declare(module: str, own: str, known: dict[str, str], needed: dict[str, str]) -> str:
    """Add the declaration of a type, after those that it uses; its name there."""
    unique = f"{own}{_OF}{module.replace('.', '_')}"
    if own not in known:
        return own
    if unique not in needed:
        needed[unique] = ""  # while it is made

        def inner(match: re.Match[str]) -> str:
            if match[1] == own:
                return unique
            if "." not in match[1]:
                return _declare(module, match[1], known, needed)
            other, name = absolute(match[1], module)
            return _declare(other, name, _declared(other), needed)

        # What leads to the type itself is opaque.
        text = re.sub(rf"@{own}@(?=\s*\*)", "void", known[own])
        text = re.sub(r"@([\w.]+)@", inner, text)
        text = _NAME.sub(lambda found: _own(found[0]), text)
        del needed[unique]
        needed[unique] = f"typedef {text}; "
    return unique if needed[unique] else "void"


def _ctuple(name: str, needed: dict[str, str]) -> str:
    """A tuple of Cython's in C, a struct."""
    if name not in needed:
        kinds = name.removeprefix("__pyx_ctuple_").split("__and_")
        if not {*kinds} <= _CTUPLE:
            return name
        fields = " ".join([f"{kind} f{index};" for index, kind in enumerate(kinds)])
        needed[name] = f"typedef struct {{ {fields} }} {name}; "
    return name


def _passes(ctype: CType, gap: str) -> bool:
    """Whether a type that is not known is passed by value, or by a function that is an argument."""
    if isinstance(ctype, FunctionPointer):
        return any([_passes(one, gap) for one in (ctype.result, *ctype.args)])
    if isinstance(ctype, Pointer):
        return isinstance(ctype.pointee, FunctionPointer) and _passes(ctype.pointee, gap)
    if isinstance(ctype, Array):
        return _passes(ctype.item, gap)
    if not isinstance(ctype, Struct):
        return False
    inner = any([_passes(field.type, gap) for field in ctype.fields])
    return inner or ctype.field_names[0] == _GAP + gap


def _known(ctype: CType, structs: set[str]) -> CType | None:
    """A type, None where it has a gap that may be anything."""
    if isinstance(ctype, Struct) and unknown_struct(ctype) in structs:
        return ctype
    return None if _GAP in ctype.named else ctype


def unknown_struct(ctype: CType) -> str | None:
    """The name of a struct by value of which a capsule's name says no more; None for others."""
    first = ctype.field_names[0] if isinstance(ctype, Struct) else ""
    return first.removeprefix(_GAP) if first.startswith(_GAP) else None


def way_out(struct: str) -> str | None:
    """What a function can take in place of a struct of Cython's own."""
    if struct != _MEMORYVIEW:
        return None
    return (
        "a typed memoryview of Cython's is a struct of its own; write a function that takes "
        "'const NcView *', and makes the memoryview of it with NC_SLICE_OF_VIEW (nativecall.pxd)"
    )


def _holder(gap: str, text: str, needed: dict[str, str]) -> str:
    """The type in a name that has a member of one that is not known; that itself where it is in
    the name.
    """
    if re.search(rf"\b{gap}\b", text):
        return gap
    for outer, declared in reversed(needed.items()):
        if outer != gap and re.search(rf"\b{gap}\b", declared):
            found = _holder(outer, text, needed)
            return found.partition(_OF)[0]
    return gap


def _unknown(name: str, outer: dict[str, str]) -> str:
    """What to say of types that nobody knows, each with the one in the name that has it."""
    if _MEMORYVIEW in outer:
        return f"in the capsule's name, {name!r}, {way_out(_MEMORYVIEW)}"
    spelt = []
    for one, holder in outer.items():
        tag = re.search(rf"\b(?:struct|union) {one}\b", name)
        shown = repr(one if tag is None else tag[0])
        spelt.append(shown if holder == one else f"{shown} (in {holder!r})")
    types = " and ".join(spelt)
    first = next(iter(outer.values()))
    tag = re.search(rf"\b(?:struct|union) {first}\b", name)
    declared = f"typedef … {first}" if tag is None else f"{tag[0]} {{ … }}"
    what = "is a type" if len(outer) == 1 else "are types"
    return (
        f"in the capsule's name, {name!r}, {types} {what} that nobody here knows; write the "
        "signature, or name a library that declares the type with 'types', as in "
        f"nativecall.load(None, '{declared};')"
    )


def _unread(name: str, error: SignatureError) -> str:
    """What to say of types that are declared, but so that they cannot be read."""
    return (
        f"the types in the capsule's name, {name!r}, cannot be read: {error.reason}; write the "
        "signature, or name a library that declares them with 'types'"
    )


def _pythran(name: str) -> Name | None:
    """What a name of Pythran's says: a function's own name, and Python's types of arguments."""
    match = _PYTHRAN.match(name)
    if match is None or not match[1].isidentifier() or _is_type(match[1]):
        return None
    found: list[CType | None] = [None]
    for one in filter(None, [part.strip() for part in match[2].split(",")]):
        stars = len(one) - len(one.rstrip("*"))
        code = _PYTHRAN_TYPES.get(one.rstrip("*"))
        if code is None:
            return None
        found.append(parse(f"v:{'&' * stars}{code}", hint="native").args[0])
    shown = "".join([one.text for one in found if one is not None])
    reason = (
        f"the capsule's name, {name!r}, tells the arguments as Pythran has them, {shown!r}, and no "
        f"result; write 'd:{shown}' where that is a double"
    )
    return Name(None, tuple(found), reason, False)
