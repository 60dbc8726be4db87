"""Read .pxd files: the types and functions that a Cython module declares for other modules.

The reader recognises declarations at the start of a line: `ctypedef`, `cdef struct`, `cdef enum`,
`cdef` and `cpdef` functions, and cimports. It never raises: it skips declarations that it cannot
read, and their names stay unknown.

Cython's C name of a type contains the names of the packages, the module and the type. The length of
each package or module name precedes it: ``__pyx_t_5scipy_6linalg_11cython_blas_d``.
"""

from __future__ import annotations

import os
import re
import sys

from .._cdecl.spelling import parse
from .._errors import SignatureError
from .._fifo import Cache
from .._rows import NamedTuple

MOST_BYTES = 1 << 22

#: C types by the names that NumPy and Cython use but C does not.
SIZED = {
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "intp": "intptr_t",
    "uintp": "uintptr_t",
    "float32": "float",
    "float64": "double",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}
#: C's complex types by Cython's names for them.
COMPLEX = {f"{name}_complex": f"{name} _Complex" for name in ("float", "double")}
COMPLEX["long_double_complex"] = "long double _Complex"


class Pxd(NamedTuple):
    """The declarations of a .pxd file.

    Attributes
    ----------
    functions : dict of str to Promise
        The guarantees of each function, by name.
    types : dict of str to str
        The C declaration of each type, by name. In a declaration, names of types from .pxd files
        are enclosed in ``@``. Cimported names include the module: ``@package.module.name@``.
    """

    functions: dict[str, Promise]
    types: dict[str, str]


class Promise(NamedTuple):
    """The guarantees that a declaration gives to callers.

    Attributes
    ----------
    nogil : bool
        Whether the function may be called without the GIL.
    raises : bool or None
        Whether the function may set an exception; False with ``noexcept``. None if the declaration
        has no exception clause, because Cython 3 changed the default.
    """

    nogil: bool
    raises: bool | None


_COMMENT = re.compile(r'"""(?:.|\n)*?"""|\'\'\'(?:.|\n)*?\'\'\'|#[^\n]*')
_FUNCTION = re.compile(
    r"^cp?def\s+(?!class\b|struct\b|union\b|enum\b|extern\b)[^(\n]*?\b(\w+)\s*"
    r"\(([^()]*(?:\([^()]*\)[^()]*)*)\)([^\n:(]*(?:\([^()]*\))?[^\n:(]*)$",
    re.M,
)
_TYPE = re.compile(
    r"^(?:ctypedef|cdef|cpdef)\s+((?:packed\s+)?struct|enum)(?:\s+class)?\s+(\w+)\s*:([^\n]*)"
    r"((?:\n(?:[ \t]+[^\n]*|[ \t]*(?=\n)))*)",
    re.M,
)
_ALIAS = re.compile(
    r"^ctypedef\s+(?!struct\b|enum\b|union\b|fused\b|class\b|extern\b|packed\b)([^\n:]+)$", re.M
)
_CIMPORT = re.compile(r"^(?:from\s+([\w.]+)\s+)?cimport\s+(?:\(([^)]*)\)|([^\n(]+))", re.M)
_CLAUSES = re.compile(r"\)\s*(?:noexcept|nogil|with\s+gil|except\b[^,)]*|\s)+$")
_WORD = re.compile(r"(?:\w+\.)*\w+")
_OF_CYTHON = {"bint": "int", "object": "PyObject *"}
_OF_CYTHON |= {name: meant for name, meant in SIZED.items() if not name.startswith(("int", "uint"))}


def read(text: str) -> Pxd:
    """Parse the text of a .pxd file."""
    text = _COMMENT.sub("", text.replace("\\\n", " ").replace("\r\n", "\n"))
    found = Pxd({}, {})
    for name, _, clauses in _FUNCTION.findall(text):
        raises: bool | None = "except" in clauses.split("noexcept")[-1] or None
        if re.search(r"\bnoexcept\b", clauses):
            raises = False
        found.functions[name] = Promise(re.search(r"\bnogil\b", clauses) is not None, raises)
    records = _TYPE.findall(text)
    named = {alias: name for alias in _ALIAS.findall(text) if (name := _declared(alias))}
    names = _cimported(text)
    for own in (*[name for _, name, _, _ in records], *named.values()):
        names[own] = own
    for kind, name, rest, body in records:
        members = [
            line.strip() for line in (rest + body).split("\n") if line.strip() not in ("", "pass")
        ]
        if kind == "enum":
            found.types[name] = f"{_integer(members)} @{name}@"
        elif members:
            fields = "; ".join([_in_c(member, names) for member in members])
            packed = " __attribute__((packed))" if kind != "struct" else ""
            found.types[name] = f"struct{packed} {{ {fields}; }} @{name}@"
    for alias, name in named.items():
        found.types[name] = _in_c(_CLAUSES.sub(")", alias.strip()), names)
    return found


def _cimported(text: str) -> dict[str, str]:
    """Return a dict from each cimported name to its full name, such as ``pkg.other.real``."""
    found: dict[str, str] = {}
    for module, several, one in _CIMPORT.findall(text):
        for name in (several or one).split(","):
            words = name.split()
            if len(words) not in (1, 3) or "*" in words:
                continue
            dot = "" if not module or module.endswith(".") else "."
            if module or len(words) == 3:
                found[words[-1]] = f"{module}{dot}{words[0]}"
            else:
                first = words[0].partition(".")[0]
                found[first] = first
    return found


def _integer(members: list[str]) -> str:
    """Return the integer type of an enum with these values; `int` if they cannot be parsed."""
    if not members:
        return "int"
    values = ", ".join([member.rstrip(", ") for member in members])
    try:
        found = parse(f"enum nc_enum {{ {values} }}; enum nc_enum nc_function(void);", hint="c")
    except SignatureError:
        return "int"
    return found.result.c_declaration().strip()


def _declared(alias: str) -> str | None:
    """Return the name that an alias defines."""
    pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", alias)
    if pointer is not None:
        return pointer[1]
    last = re.search(r"(\w+)\s*(?:\[\w*\]\s*)*$", alias)
    return None if last is None else last[1]


def _in_c(text: str, names: dict[str, str]) -> str:
    """Return a declaration in C, with the types in `names` enclosed in ``@``."""
    text = re.sub(r"\b(float|double)\s+complex\b", r"\1 _Complex", text)

    def word(match: re.Match[str]) -> str:
        first, dot, rest = match[0].partition(".")
        own = match[0].rpartition(".")[2]
        sized = own.removesuffix("_t") if own.removesuffix("_t") in SIZED else own
        if first in names and sized not in SIZED and (dot or names[first] != first):
            return f"@{names[first]}{dot}{rest}@"
        if dot or names.get(own, own) != own:
            return SIZED.get(sized, own)
        return f"@{own}@" if own in names else _OF_CYTHON.get(own, own)

    return _WORD.sub(word, text)


_read: Cache[tuple[str, int, int], Pxd] = Cache(16)


def beside(file: object) -> Pxd | None:
    """Return the declarations in the .pxd file beside an extension module; None without a file."""
    if not isinstance(file, str):
        return None
    folder, name = os.path.split(file)
    path = os.path.join(folder, name.partition(".")[0] + ".pxd")
    try:
        state = os.stat(path)
        key = path, state.st_mtime_ns, state.st_size
        found = _read.get(key)
        if found is None:
            with open(path, encoding="utf-8", errors="replace") as opened:
                found = _read.keep(key, read(opened.read(MOST_BYTES)))
    except OSError:
        return None
    return found


def of_module(name: str) -> Pxd | None:
    """Return the declarations in a module's .pxd file; None if the module has no such file.

    The module need not be imported. If it is not, search the directories where Python would look
    for the module: those of the innermost imported package.
    """
    module = sys.modules.get(name)
    if module is not None:
        return beside(getattr(module, "__file__", None))
    package, _, own = name.rpartition(".")
    inner: list[str] = []
    while package and package not in sys.modules:
        package, _, last = package.rpartition(".")
        inner.insert(0, last)
    folders = getattr(sys.modules[package], "__path__", ()) if package else sys.path
    for folder in folders:
        if isinstance(folder, str):
            found = beside(os.path.join(folder, *inner, own))
            if found is not None:
                return found
    return None


def absolute(name: str, module: str) -> tuple[str, str]:
    """Resolve a cimported name in `module`'s .pxd file to the declaring module and the name there.

    A relative name begins with dots.
    """
    path, _, own = name.rpartition(".")
    dots = len(name) - len(name.lstrip("."))
    if dots:
        path = name[dots:].rpartition(".")[0]
        up = dots - hasattr(sys.modules.get(module), "__path__")
        parent = module.rsplit(".", up)[0] if up else module
        path = f"{parent}.{path}" if path else parent
    return path, own


def unmangled(name: str, prefix: str) -> tuple[str, str]:
    """Split a mangled Cython name; return the module and the name in that module."""
    parts, own = [], name.removeprefix(prefix)
    while length := re.match(r"\d+", own):
        end = length.end() + int(length[0])
        parts.append(own[length.end() : end])
        own = own[end + 1 :]
    return ".".join(parts), own
