"""PyCapsules: function pointers named by a C declaration, as Cython and SciPy exchange them.

Consumers compare the names character by character, so a name is spelt as Cython spells it: plain C
types, no argument names, one space after each comma. A strided view, which C has no name for, is
``void *`` in it, and no name says whether a function needs the GIL; so capsules that are made here
have their entry with them as well.
"""

from __future__ import annotations

import ctypes
import re

from .. import _lib
from .._errors import SignatureError, SymbolError
from .._signature.ctype import CType
from .._signature.signature import Signature
from .._signature.spelling import parse
from .._values.boxes import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from .._callable.callable import NativeCallable

# Prototypes of our own: the argtypes of ctypes.pythonapi's functions belong to the whole process.
_get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_get_context = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(
    ("PyCapsule_GetContext", ctypes.pythonapi)
)
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def own_entry(obj: object) -> NativeCallable | None:
    """The entry that a capsule of ours was made of."""
    found: NativeCallable | None = _lib.types.capsule_entry(obj)
    return found


def function(obj: object) -> Function | None:
    """The function in a capsule: its name is its signature, if it reads as one."""
    name = _get_name(obj)
    address = _get_pointer(obj, name)
    signature = None if name is None else _read(name.decode("utf-8", "replace"))
    return Function(address or 0, signature, obj)


# What Cython puts before the name of a variant of a function with fused types.
_VARIANT = re.compile(r"__pyx_fuse_(?:\d+_)*\d+")


def exported(module: ModuleType, name: str) -> list[object]:
    """The capsules of a function that a module of Cython's exports to C: one, or one a variant of a
    function with fused types.

    Raises
    ------
    TypeError
        For a module that exports none.
    SymbolError
        When there is no such function; close matches are named.
    """
    table = getattr(module, "__pyx_capi__", None)
    if not isinstance(table, dict) or not table:
        raise TypeError(
            f"module {module.__name__!r} exports no C functions: it has no '__pyx_capi__', in "
            "which Cython puts them"
        )
    found = [
        capsule
        for key, capsule in table.items()
        if key == name or _VARIANT.sub("", key, count=1) == name
    ]
    if not found:
        known = dict.fromkeys([_VARIANT.sub("", key, count=1) for key in table])
        raise SymbolError.missing(name, module.__name__, [*known])
    return found


def context(obj: object) -> int:
    """The address in a capsule's context; 0 for NULL."""
    return _get_context(obj) or 0


# Types by the names that NumPy and Cython have for them, beyond those that C declarations may have.
_SIZED = {
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "intp": "intptr_t",
    "uintp": "uintptr_t",
    "float32": "float",
    "float64": "double",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}
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
_CYTHON = {f"{name}_complex": f"{name} _Complex" for name in ("float", "double")}
_CYTHON["long_double_complex"] = "long double _Complex"
_LAPACK = {"s": "float", "d": "double", "c": "float _Complex", "z": "double _Complex"}
_NAME = re.compile(r"\b(?:(?:struct|union|enum)\s+\w+|npy_\w+|__pyx_t_\w+)")
# The last parameter of a `cpdef` function, which that of a module does not look at.
_SKIP_DISPATCH = re.compile(r",?\s*\bint __pyx_skip_dispatch\s*\)\s*;?\s*$")
_UNKNOWN = re.compile(r"unknown type name '(\w+)'")


def _typedef(found: re.Match[str]) -> str:
    """C's name for a type: Cython's is made of the lengths and names of the packages and the module
    that declare it, and its own."""
    name = found[0]
    if name.startswith("enum"):
        return "int"
    if name.startswith("npy_"):
        return _SIZED.get(name[4:]) or _NUMPY.get(name[4:], name)
    if not name.startswith("__pyx_t_"):
        return name
    own = name[8:]
    while length := re.match(r"\d+", own):
        own = own[length.end() + int(length[0]) + 1 :]
    lapack = _LAPACK if name.startswith("__pyx_t_5scipy_6linalg_") else {}
    known = lapack.get(own) or _CYTHON.get(own) or _SIZED.get(own.removesuffix("_t"))
    return known or own or name


def _read(name: str) -> Signature | None:
    """The signature that a capsule's name declares. Types that nobody knows are opaque."""
    text = re.sub(r"\(\s*\)", "(void)", _SKIP_DISPATCH.sub(")", _NAME.sub(_typedef, name)))
    while True:
        try:
            return parse(text, hint="c")
        except SignatureError as error:
            unknown = _UNKNOWN.match(error.reason)
            if unknown is None or f"struct {unknown[1]}" in text:
                return None
            text = re.sub(rf"\b{unknown[1]}\b", f"struct {unknown[1]}", text)


_SPELLINGS = {
    "?": "_Bool",
    "b": "signed char",
    "B": "unsigned char",
    "h": "short",
    "H": "unsigned short",
    "i": "int",
    "I": "unsigned int",
    "Zf": "float complex",
    "Zd": "double complex",
    "Zg": "long double complex",
}


def spelling(signature: Signature) -> str:
    """The name of a capsule of `signature`."""
    return signature.function.declare_function("", spell=_spell).strip()


def _spell(ctype: CType) -> str:
    if ctype.text in ("q", "Q"):
        # The platform's own type of that size, as for npy_intp and Py_ssize_t.
        name = "long" if ctypes.sizeof(ctypes.c_long) == ctype.size else "long long"
        return name if ctype.text == "q" else "unsigned " + name
    if ctype.kind in ("voidptr", "view"):
        return "void *"
    return _SPELLINGS.get(ctype.text) or ctype.c_declaration().strip()


def form(entry: NativeCallable) -> tuple[bytes]:
    """What capsules of an entry are made of: the name, which is its C declaration."""
    return (spelling(entry._chosen(None)[0].signature).encode(),)
