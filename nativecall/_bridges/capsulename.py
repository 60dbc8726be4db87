"""Parse capsule names: C declarations of functions, as Cython and others write them.

Cython mangles the name of a type together with its module. If the module has a .pxd file beside it,
that file defines the type. The names that SciPy and NumPy use are built in. A pointer to an unknown
type is opaque. An unknown type passed by value leaves a gap that the caller can fill in.

Some names are not declarations of functions: Pythran's names, which omit the result; names of
variables that Cython exports; and the fixed names of XLA, DLPack, Arrow and tables of C APIs.
"""

from __future__ import annotations

import re

from .._cdecl.nodes import (
    BASICS,
    ArrayOf,
    Converter,
    Node,
    Record,
    Unusable,
    function_of,
)
from .._cdecl.parser import Parser, common_types
from .._cdecl.source import CSource
from .._cdecl.spelling import parse
from .._cdecl.typenames import Found
from .._errors import TYPE_CHECKING, SignatureError
from .._rows import NamedTuple
from .._types.ctype import MAX_TEXT, CType
from .._types.signature import Signature
from .pxd import COMPLEX, SIZED, absolute, of_module, unmangled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._ext import Foreign
    from .._values.foreign import Part


class Name(NamedTuple):
    """Content of a capsule's name.

    Attributes
    ----------
    signature : Signature or None
    partial : tuple of Part, or None
        The types of the result and the arguments if there is no signature. An unknown struct passed
        by value is a pair (its name, what to use instead or None). Other unknown types are None.
    reason : str or None
        Why there is no signature, and how to supply it.
    is_data : bool
        Whether the name says that the capsule holds no function.
    """

    signature: Signature | None
    partial: tuple[Part, ...] | None
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
_MACROS["PyThread_type_lock"] = "void *"
_NAME = re.compile(r"\b(?:(?:struct|union|enum)\s+\w+|npy_\w+|__pyx_(?:t|ctuple)_\w+)\b")
_MACRO = re.compile(rf"\b(?:{'|'.join(_MACROS)})\b")
# `_SKIP_DISPATCH` matches the last parameter of a `cpdef` function, which module-level functions
# ignore. `_OPTIONAL` matches a last parameter that points to the optional arguments, or is NULL if
# all are omitted.
_SKIP_DISPATCH = re.compile(r",?\s*\bint __pyx_skip_dispatch\s*\)\s*;?\s*$")
_OPTIONAL = re.compile(
    r",?\s*(?:\b(int __pyx_skip_dispatch)\s*,\s*)?"
    r"\bstruct \w+\s*\*\s*__pyx_optional_args\s*\)\s*;?\s*$"
)
_CTUPLE = {"int", "long", "float", "double", "Py_ssize_t", "char", "short", "size_t"}
_MEMORYVIEW = "__Pyx_memviewslice"
#: Message: what a function can take instead of a memoryview.
_WAY_OUT = (
    "a typed memoryview is Cython's own struct; write a function that takes 'const NcView *' and "
    "converts it to a memoryview with NC_SLICE_OF_VIEW (nativecall.pxd)"
)
_PYTHRAN = re.compile(r"(\w+)\((.*)\)$")
#: Pythran's names for types, in addition to NumPy's names for sized types.
_PYTHRAN_TYPES = {
    "int": "long",
    "float": "double",
    "bool": "_Bool",
    "bool_": "_Bool",
    "complex": "double _Complex",
    "float128": "long double",
    "longdouble": "long double",
    "intc": "int",
    "uintc": "unsigned",
    **SIZED,
}
#: Capsules with these names hold no function.
_DATA = {
    "dltensor": "a DLPack array",
    "dltensor_versioned": "a DLPack array",
    "used_dltensor": "a DLPack array that was consumed",
    "used_dltensor_versioned": "a DLPack array that was consumed",
    "arrow_schema": "an Arrow type",
    "arrow_array": "an Arrow array",
    "arrow_array_stream": "an Arrow stream",
    "arrow_device_array": "an Arrow array",
}


#: Names under which modules export their C API table for PyCapsule_Import.
_TABLE = re.compile(r"^\w+(?:\.\w+)*\._?\w*C_?API_?$")

#: XLA's capsules all have this name. Their functions have one of these signatures, but neither XLA
#: nor JAX records which one.
XLA = "xla._CUSTOM_CALL_TARGET"
XLA_SIGNATURES = ("P:P", "v:PP", "v:PPPN")
_XLA_FORMS = (
    "'P:P' for XLA's FFI (XLA_FFI_Error *(XLA_FFI_CallFrame *)), 'v:PP' for a custom call of a CPU "
    "(void (void *, const void **)), 'v:PPPN' for one of a GPU"
)


def read(name: str) -> Name:
    """Parse a capsule's name; never raises."""
    if name == XLA:
        reason = f"XLA does not record the kind of a custom call: write {_XLA_FORMS}"
        return Name(None, None, reason, False)
    if _TABLE.search(name):
        return Name(None, None, "it holds a module's C API, a table of many functions", True)
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
    """Return the codes of the arguments that a function takes after those of its signature.

    A function with optional arguments takes a pointer to them; callers pass NULL. In a `cpdef`
    function, an int comes before the pointer; callers pass 0.
    """
    found = _OPTIONAL.search(name)
    return "" if found is None else "iP" if found[1] else "P"


def in_c(name: str, names: Foreign = None) -> str:
    """Return a name as a C declaration, with the unmangled names of Cython's types.

    If `names` (TypeNames) contains such a type, the declaration uses the type's tag.
    """

    def own(found: re.Match[str]) -> str:
        text = _own(found[0])
        node = None if names is None or text in names.typedefs else names.find(text)
        return text if node is None else str(node.cname)

    return _plain(_NAME.sub(own, name))


def _declaration(name: str) -> Name:
    """Parse a declaration of a function."""
    if len(name) > MAX_TEXT:
        return Name(None, None, None, False)
    reader = _Reader(_plain(name))
    try:
        function = reader.function()
    except (SignatureError, RecursionError):
        return Name(None, None, None, False)
    convert = Converter()
    parts = function.result, *function.args
    gaps = dict([pair for part in parts for pair in _gaps(part)])
    if not gaps:
        try:
            return Name(convert.signature(function, in_c(name)), None, None, False)
        except SignatureError as error:
            reason = (
                f"the types in the capsule's name, {name!r}, cannot be read: {error.reason}; write "
                "the signature, or name a library that declares them with 'types'"
            )
            return Name(None, None, reason if reader.declares else None, False)
    partial = tuple([_known(convert, part) for part in parts])
    return Name(None, partial, _unknown(name, gaps), False)


class _Gap(Unusable):
    """An unknown type; `is_struct` is true if it is known to be a struct or union."""

    def __init__(self, name: str, is_struct: bool) -> None:
        super().__init__("the type is unknown", cname=name)
        self.is_struct = is_struct or name == _MEMORYVIEW


class _Reader(Parser):
    """A parser of one declaration. It accepts an unknown word where a type is required.

    `scope` maps words to types of .pxd files; each type is given by its module and its name there.
    """

    def __init__(
        self,
        text: str,
        scope: dict[str, tuple[str, str]] | None = None,
        outer: _Reader | None = None,
    ) -> None:
        super().__init__(CSource(text).tokens, strict=True)
        self.typedefs = Found(self._typedef, common_types())
        self.scope = scope or {}
        self.declares = False  # whether another file declares a type
        self.unknown = False
        self._made: dict[object, Node] = {} if outer is None else outer._made

    def _typedef(self, word: str) -> tuple[Node, bool] | None:
        return (self._named(word, ""), False) if self.names(word) else None

    def _record(self, kind: str) -> Node:
        word = self.tokens[self.at]
        if not self.names(word):
            return super()._record(kind)
        self.at += 1
        if word.startswith("__pyx_t_"):
            return self._named(word, kind)
        return self._made.setdefault((kind, word), Record(kind, f"{kind} {word}"))

    def _enum(self) -> Node:
        return self._named(self.step(), "enum")

    def _named(self, word: str, kind: str) -> Node:
        """Return the type that `word` names; `kind` is the keyword of a tag, or empty."""
        if word in self.scope:
            return self._from_pxd(*self.scope[word])
        if word.startswith("__pyx_ctuple_"):
            return self._ctuple(word)
        if word.startswith("__pyx_t_") and kind != "enum":
            module, own = unmangled(word, "__pyx_t_")
            if own in _declared(module) and own.removesuffix("_t") not in SIZED:
                return self._from_pxd(module, own)
        text = _own(f"{kind} {word}".strip())
        found = common_types().get(text)
        if found is not None:
            return found[0]
        if text != word and not text.isidentifier():
            return _Reader(text).type_name()
        if text in BASICS:
            return BASICS[text]
        self.unknown = True
        return self._made.setdefault(text, _Gap(text, bool(kind)))

    def _from_pxd(self, module: str, own: str) -> Node:
        """Return a type from the .pxd of a module."""
        self.declares = True
        text = _declared(module).get(own)
        if text is None:
            return self._made.setdefault(own, _Gap(own, False))
        found = self._made.get((module, own))
        if found is None:
            self._made[module, own] = _Gap(own, True)  # pointers to itself are opaque
            scope: dict[str, tuple[str, str]] = {}

            def word(match: re.Match[str]) -> str:
                place = absolute(match[1], module) if "." in match[1] else (module, match[1])
                made = own if match[1] == own else f"nc_{len(scope)}"
                scope[made] = place
                return made

            inner = _Reader(f"typedef {re.sub('@([^@]+)@', word, text)};", scope, self)
            inner.strict = False  # a struct may contain unknown types
            inner.read()
            found = self._made[module, own] = inner.typedefs[own][0]
        return found

    def _ctuple(self, word: str) -> Node:
        """Return the struct of a Cython ctuple."""
        kinds = word.removeprefix("__pyx_ctuple_").split("__and_")
        if not {*kinds} <= _CTUPLE:
            return _Gap(word, True)
        self.declares = True
        types = [_Reader(one).type_name() for one in kinds]
        made = Record("struct", f"struct {word}")
        made.lay_out([(f"f{at}", one, None, 0, False) for at, one in enumerate(types)], 0, 0)
        return made


def _gaps(node: Foreign, holder: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name of each unknown type in `node`, and of the outermost struct that contains it.

    If no struct contains the type, both names are equal.
    If `node` is a pointer to a function, also search the function's result and arguments.
    """
    node = node.main or node
    function = function_of(node)
    if isinstance(node, _Gap) or (isinstance(node, Record) and node.fields is None):
        yield node.cname, holder or node.cname
    elif isinstance(node, Record):
        for member in node.fields or ():
            yield from _gaps(member.type, holder or node.typedef or node.cname)
    elif isinstance(node, ArrayOf):
        yield from _gaps(node.item, holder)
    elif function is not None:
        for part in (function.result, *function.args):
            yield from _gaps(part, holder)


def _known(convert: Converter, node: Node) -> Part:
    """Return the type of a node; for an unknown struct or union, its name and what to use instead.

    Return None if the type may be anything.
    """
    if isinstance(node, _Gap):
        way_out = _WAY_OUT if node.cname == _MEMORYVIEW else None
        return (node.cname, way_out) if node.is_struct else None
    if isinstance(node, Record) and node.fields is None:
        return node.cname.partition(" ")[2], None
    try:
        return None if [*_gaps(node)] else convert.type(node)
    except SignatureError:
        return None


def _plain(text: str) -> str:
    text = _OPTIONAL.sub(")", _MACRO.sub(lambda found: _MACROS[found[0]], text))
    return re.sub(r"\(\s*\)", "(void)", _SKIP_DISPATCH.sub(")", text))


def _is_type(name: str) -> bool:
    """Return whether a name is a type that a variable can have."""
    reader = _Reader(_plain(name))
    try:
        return reader.whole().kind != "void" and not reader.unknown
    except (SignatureError, RecursionError):
        return False


def _own(name: str) -> str:
    """Return the C name of a sized NumPy or Cython type; for other types, the unmangled name."""
    if name.startswith("enum"):
        module, own = unmangled(name.rpartition(" ")[2], "__pyx_t_")
        return _declared(module).get(own, "int").partition(" @")[0]
    if name.startswith("npy_"):
        return SIZED.get(name[4:]) or _NUMPY.get(name[4:], name)
    mangled = name.rpartition(" ")[2]
    if not mangled.startswith("__pyx_t_"):
        return name
    module, own = unmangled(mangled, "__pyx_t_")
    lapack = _LAPACK if module.startswith("scipy.linalg.") else {}
    return lapack.get(own) or COMPLEX.get(own) or SIZED.get(own.removesuffix("_t")) or own or name


def _declared(module: str) -> dict[str, str]:
    """Return the types that the .pxd of a module declares."""
    found = of_module(module) if module else None
    return {} if found is None else found.types


def _unknown(name: str, outer: dict[str, str]) -> str:
    """Return the message for unknown types. `outer` maps them to the types that contain them."""
    if _MEMORYVIEW in outer:
        return f"in the capsule's name, {name!r}, {_WAY_OUT}"
    spelt = [
        repr(one) if holder == one else f"{one!r} (in {holder!r})" for one, holder in outer.items()
    ]
    first = next(iter(outer.values()))
    declared = f"{first} {{ … }}" if " " in first else f"typedef … {first}"
    what = "is an unknown type" if len(outer) == 1 else "are unknown types"
    return (
        f"in the capsule's name, {name!r}, {' and '.join(spelt)} {what}; "
        "write the signature, or name a library that declares the type with 'types', as in "
        f"nativecall.load(None, '{declared};')"
    )


def _pythran(name: str) -> Name | None:
    """Parse a Pythran name: the function's own name, and Python types of the arguments."""
    match = _PYTHRAN.match(name)
    if match is None or not match[1].isidentifier() or _is_type(match[1]):
        return None
    found: list[CType | None] = [None]
    for one in filter(None, [part.strip() for part in match[2].split(",")]):
        named = _PYTHRAN_TYPES.get(one.rstrip("*"))
        if named is None:
            return None
        stars = one[len(one.rstrip("*")) :]
        found.append(parse(f"void ({named} {stars})", hint="c").args[0])
    shown = "".join([one.text for one in found if one is not None])
    reason = (
        f"the capsule's name, {name!r}, lists Pythran's argument types, {shown!r}, but no result "
        f"type; write 'd:{shown}' if it returns a double"
    )
    return Name(None, tuple(found), reason, False)
