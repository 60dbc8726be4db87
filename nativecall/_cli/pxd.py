"""``nativecall pxd LIB``: a library's functions, types and constants for `cimport` in Cython.

What is written is one ``cdef extern`` block: Cython code calls the C functions themselves, linked
as in C. The text is made of what `load` has read, as C wrote it, so that types keep their names.
What Cython has no words for is left out, with the reason in a comment.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from keyword import kwlist

from .._signature.cffitype import ANONYMOUS
from .output import CommandError
from .place import functions, library
from .writing import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .._library import Library
    from .._signature.declared import Declarations

_TOKEN = re.compile(r'"[^"]*"|\w+|\.\.\.|[^\s\w]')
_WORD = re.compile(r"[A-Za-z_]\w*\Z")
#: C's words for types that Cython reads as C does.
_BASIC = {"void", "char", "short", "int", "long", "float", "double", "signed", "unsigned"}
_BASIC |= {"const", "volatile", "size_t", "ssize_t", "Py_ssize_t", "Py_hash_t", "complex"}
_OTHER = {"_Bool": "bint", "bool": "bint", "_Complex": "complex"}
_TAGS = ("struct", "union", "enum")
_DROPPED = {"restrict", "__restrict", "_Noreturn", "volatile"}
_RESERVED = {*kwlist, "cdef", "cpdef", "ctypedef", "cimport", "nogil", "gil", "include", "extern"}
_RESERVED |= {"api", "by", "DEF", "IF", "ELIF", "ELSE", "NULL", "print", "exec", "object", "bint"}
_RESERVED |= {"sizeof", "public", "readonly", "inline", "packed", "type", "match", "case", "None"}


class Unsaid(Exception):
    """What Cython has no words for."""


def run(
    place: str,
    *,
    headers: Sequence[str] = (),
    only: Sequence[str] = (),
    output: str | None = None,
    force: bool = False,
) -> int:
    """Write the ``.pxd`` of a library, to standard output or a file."""
    if only and not headers:
        raise CommandError(
            "--only chooses names of headers, and none is given: say --header, or give only= to "
            f"the nativecall.load of {place!r}"
        )
    text = made(library(place, headers, only), place)
    return write(text, output, "# Made by `nativecall pxd`", force)


def made(found: Library, place: str) -> str:
    """The text of the ``.pxd``."""
    return _Writer(found, place).text()


def _renamed(name: str) -> str:
    """A name of C's, with C's own after it where Cython cannot have it."""
    return f'{name}_ "{name}"' if name in _RESERVED else name


class _Writer:
    """Writes one library; types are written where the first use needs them."""

    def __init__(self, found: Library, place: str) -> None:
        self._library = found
        self._place = place
        declared = found.declarations
        assert declared is not None
        self._declared: Declarations = declared
        self._known: Declarations = declared
        self._functions = functions(found)
        self._types: list[str] = []
        self._bodies: list[str] = []
        self._names: dict[str, str] = {}
        self._left_out: list[tuple[str, str]] = []
        self._words: set[str] | None = None

    def text(self) -> str:
        with_gil, without = self._prototypes()
        self._own_types()
        constants = [*self._constants()]
        variables = [*self._variables()]
        types = self._types + self._bodies
        header, *others = [*self._headers(), "*"]
        lines = [
            f"# Made by `nativecall pxd` of {self._place}: do not edit, make it again.",
            *self._linking(),
            "",
        ]
        whole = "\n".join([*types, *variables, *without, *with_gil])
        used = sorted({*re.findall(r"\bu?int(?:8|16|32|64|ptr|max)_t\b", whole)})
        if used:
            lines += [f"from libc.stdint cimport {', '.join(used)}", ""]
        for one in others[:-1]:
            lines += [f"cdef extern from {one}:", "    pass", ""]
        lines.append(f"cdef extern from {header} nogil:")
        text = self._text()
        if text:
            lines += [f"    {line}" for line in ('"""', *text, '"""')]
        lines += [f"    {line}" for line in [*types, *constants, *variables, *without] or ["pass"]]
        lines.append("")
        if with_gil:
            lines += [f"cdef extern from {header}:", *[f"    {line}" for line in with_gil], ""]
        if self._left_out:
            lines.append("# Left out, because Cython has no words for them:")
            lines += [f"#   {name}: {reason}" for name, reason in self._left_out]
            lines.append("")
        return "\n".join(lines)

    # -- the whole -------------------------------------------------------------------------------

    def _headers(self) -> Iterator[str]:
        """What C code includes, as Cython names it: the last first, before which all others are."""
        wanted = self._declared.wanted
        if wanted is not None and not self._text():
            for one in reversed(wanted.headers):
                yield f'"{one}"' if os.path.isabs(one) or one[0] == "." else f'"<{one}>"'

    def _text(self) -> list[str]:
        """C that is declared in no header, after those that it builds on."""
        wanted = self._declared.wanted
        text = self._declared.text if wanted is None else wanted.text
        if not text:
            return []
        lines = ["#include <stddef.h>", "#include <stdint.h>"]
        if re.search(r"\bcomplex\b", text):
            lines.append("#include <complex.h>")
        lines += [
            f"#include {_included(one)}" for one in (() if wanted is None else wanted.headers)
        ]
        return [*lines, *text.strip().splitlines()]

    def _linking(self) -> Iterator[str]:
        """What cythonize says to the linker; a comment that `cythonize` reads."""
        path, name = self._library.path, self._library.name
        if name is None or path is None:
            return
        found = re.fullmatch(r"lib(.+?)\.(?:so|dylib)[.\d]*", os.path.basename(path))
        if found and os.sep not in name:
            yield f"# distutils: libraries = {found[1]}"
        else:
            yield f"# distutils: extra_link_args = {os.path.abspath(path)}"

    def _prototypes(self) -> tuple[list[str], list[str]]:
        """Functions that need the GIL, and others."""
        with_gil: list[str] = []
        without: list[str] = []
        for name, one in self._functions.items():
            row = self._declared.rows[name]
            try:
                line = self._declaration(self._by_name(row[-1], name), name, row[1])
            except Unsaid as error:
                self._left_out.append((name, str(error)))
                continue
            needs = any([entry.gil == "need" for entry in one.entries])
            (with_gil if needs else without).append(line)
        return with_gil, without

    def _by_name(self, text: str, name: str) -> str:
        """A function's declaration with this name, which may be a macro that stands for another."""
        symbol = self._declared.symbols.get(name)
        if symbol is None or re.search(rf"\b{name}\b", text):
            return text
        return re.sub(rf"\b{symbol}\b(?=\s*[()])", name, text, count=1)

    def _own_types(self) -> None:
        """Write the types that the library's own files name, also those of no function."""
        for name in [*self._known.types, *self._known.layouts, *self._known.enums]:
            if self._is_own(name.rpartition(" ")[2]) and ANONYMOUS not in name:
                with suppress(Unsaid):
                    self._type(name)

    def _variables(self) -> Iterator[str]:
        for name, (text, _) in self._known.declared.items():
            if name in self._declared.variables and self._is_own(name):
                yield from self._variable(name, text)
        for name, ctype in self._declared.variables.items():
            if name not in self._known.declared and self._is_own(name):
                yield from self._variable(name, ctype.c_declaration(name))

    def _variable(self, name: str, text: str) -> Iterator[str]:
        try:
            yield self._declaration(_declaring(text, name), name)
        except Unsaid as error:
            self._left_out.append((name, str(error)))

    def _constants(self) -> Iterator[str]:
        """Numbers and text by name, those that the files of the functions name."""
        known = self._declared.constants
        chosen = [name for name in known if self._is_own(name) and name not in _RESERVED]
        said = self._names.keys()
        whole = [name for name in chosen if isinstance(known[name], int) and name not in said]
        if whole:
            yield "enum:"
            yield from [f"    {name}" for name in whole]
        for name in chosen:
            if isinstance(known[name], float):
                yield f"double {name}"
            elif isinstance(known[name], bytes):
                yield f"const char *{name}"

    def _is_own(self, name: str) -> bool:
        """Whether a name is in a file that declares one of the functions, or in the text."""
        if self._words is None:
            declared = self._declared
            texts = [self._known.text or ""]
            if declared.wanted is not None:
                texts.append(declared.wanted.text or "")
            places = declared.places
            for index in {places[one][0] for one in self._functions.keys() & places}:
                with open(declared.files[index], encoding="utf-8", errors="replace") as file:
                    texts.append(file.read())
            self._words = set(re.findall(r"\w+", "\n".join(texts)))
        return not name.startswith("__") and name in self._words

    # -- types -----------------------------------------------------------------------------------

    def _declaration(self, text: str, name: str, names: Sequence[str | None] = ()) -> str:
        """A declaration of C's in Cython's words; the types that it needs are written before.

        Raises
        ------
        Unsaid
            When Cython has no words for it.
        """
        if ANONYMOUS in text:
            raise Unsaid("a type without a name")
        tokens: list[str] = _TOKEN.findall(text.replace(f"({name})", f" {name} "))
        said: list[str] = []
        is_named = False
        own = {*names} - {None}
        skip = False
        for at, token in enumerate(tokens):
            if skip:
                skip = False
            elif token in _DROPPED or (token == "const" and said[-1:] == ["*"]):
                pass
            elif token == "const" and said and _WORD.match(said[-1]):
                # As in `char const *`: Cython has it before the type.
                start = len(said)
                while start and _WORD.match(said[start - 1]):
                    start -= 1
                said.insert(start, token)
            elif token in _TAGS:
                said.append(self._type(f"{token} {tokens[at + 1]}"))
                skip = True
            elif not _WORD.match(token):
                said.append(token)
            elif token == name and not is_named and at > 0:
                said.append(_renamed(name))
                is_named = True
            elif token in own and tokens[at + 1 : at + 2] != ["*"] and self._ends(tokens, at):
                said.append(f"{token}_" if token in _RESERVED else token)
            else:
                said.append(self._type(token))
        if not is_named:
            raise Unsaid("a declaration that is not read")
        return _joined(_with_noexcept(said))

    @staticmethod
    def _ends(tokens: Sequence[str], at: int) -> bool:
        """Whether a word may be the name of a parameter, by what follows."""
        return tokens[at + 1 : at + 2] in ([","], [")"], ["["])

    def _type(self, name: str) -> str:
        """Cython's word for a type, which is written if it is not yet."""
        if name in _BASIC:
            return name
        if name in _OTHER:
            return _OTHER[name]
        if name in self._names:
            return self._names[name]
        if re.fullmatch(r"u?int(8|16|32|64|ptr|max)_t", name):
            return name
        if name == "wchar_t":
            raise Unsaid("wide characters")
        kind, _, tag = name.rpartition(" ")
        if kind:
            return self._tagged(name, kind, tag, tag)
        text = self._known.types.get(name)
        if name in self._known.layouts or name in self._known.opaque:
            row = self._known.layouts.get(name)
            return self._tagged(name, "struct" if row is None else str(row[0]), name, name)
        if name in self._known.enums:
            return self._tagged(name, "enum", name, name)
        if text is None or text == f"{name} {name}":
            raise Unsaid(f"the type {name!r}")
        same = re.fullmatch(r"(struct|union|enum) (\w+) (\w+)", text)
        if same and same[2] == same[3] == name:
            return self._tagged(f"{same[1]} {name}", same[1], name, name, typedef=True)
        if ANONYMOUS in text:
            found = re.match(r"(enum|struct|union) ", text)
            if found and found[1] == "enum":
                self._names[name] = name
                self._types.append(f"ctypedef int {name}")
                return name
            raise Unsaid(f"the type {name!r}")
        self._names[name] = name
        try:
            line = self._declaration(text, name)
        except Unsaid:
            del self._names[name]
            raise
        # An array needs its elements whole.
        (self._bodies if "[" in line else self._types).append(f"ctypedef {line}")
        return name

    def _tagged(self, key: str, kind: str, tag: str, name: str, typedef: bool = False) -> str:
        """A struct, a union or an enum: what it is called; its members are written at the end."""
        has_typedef = self._known.types.get(tag, "") == f"{kind} {tag} {tag}"
        typedef = typedef or has_typedef or " " not in key
        spelt = name
        taken = not typedef and (tag in self._functions or tag in self._known.types)
        if taken or tag in _RESERVED:
            spelt = f"{tag}_{kind}"
        self._names[key] = spelt
        if typedef:
            self._names[tag] = spelt
        word = "ctypedef" if typedef else "cdef"
        cname = "" if spelt == tag else f' "{kind} {tag}"' if not typedef else f' "{tag}"'
        if kind == "enum":
            self._types.append(f"{word} enum {spelt}{cname}:")
            _, values = self._known.enums.get(key) or ("i", None)
            members = [one for one, _ in values or ()]
            self._types += [f"    {one}" for one in members] or ["    pass"]
            self._names |= {one: one for one in members}
            return spelt
        row = self._known.layouts.get(key)
        self._types.append(f"{word} {kind} {spelt}{cname}")
        self._bodies.append(f"{word} {kind} {spelt}{cname}:")
        at = len(self._bodies)
        members = []
        for member, text, *_ in () if row is None else row[3]:  # type: ignore[attr-defined]  # of a row
            try:
                if member:
                    members.append(f"    {self._declaration(text, member)}")
            except Unsaid:
                pass  # structs of C's need not be told whole
        # What the members needed has been written behind the heading meanwhile.
        self._bodies[at - 1 : at] = []
        self._bodies += [f"{word} {kind} {spelt}{cname}:", *(members or ["    pass"])]
        return spelt


def _declaring(text: str, name: str) -> str:
    """A declaration of a variable by its type; an array without a length is a pointer to Cython."""
    if name in text.split():
        return text
    if "(*)" in text:
        return text.replace("(*)", f"(*{name})", 1)
    base, bracket, lengths = text.partition("[")
    if lengths.startswith("]"):
        return f"{base} *{name}"
    return f"{base} {name}{bracket}{lengths}"


def _included(header: str) -> str:
    """A header as C includes it."""
    return f'"{header}"' if os.path.isabs(header) or header.startswith(".") else f"<{header}>"


def _with_noexcept(tokens: Sequence[str]) -> list[str]:
    """A declaration whose pointers to functions raise no exceptions, as those of C do not."""
    said = [*tokens]
    at = 0
    while at < len(said) - 1:
        if said[at] == "(" and said[at + 1] == "*":
            end = _closing(said, at)
            if said[end + 1 : end + 2] == ["("]:
                said.insert(_closing(said, end + 1) + 1, "noexcept")
        at += 1
    return said


def _closing(tokens: Sequence[str], at: int) -> int:
    """The place of the bracket that closes the one at a place."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place] == "(") - (tokens[place] == ")")
        if not depth:
            return place
    raise Unsaid("a declaration that is not read")


def _joined(tokens: Sequence[str]) -> str:
    """Tokens as people write them."""
    text = " ".join(tokens)
    text = re.sub(r"\( void \)", "()", text)
    text = re.sub(r" ?([(\[]) ", r"\1", text)
    text = re.sub(r" ([)\],])", r"\1", text)
    text = re.sub(r"\* (?=[\w*(])", "*", text)
    return re.sub(r"(\w)\((?=\*)", r"\1 (", text)
