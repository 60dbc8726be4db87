"""Headers to declarations: what a library's headers declare, read leniently and kept on disk.

`read` asks the cache first, which has what was read under the same compiler, options and
environment as long as every file that was included is as it was. Else the headers go through the
preprocessor and the parser; what cannot be offered has its reason in the table's `skipped`. Texts
of declarations can be read in the same way.
"""

from __future__ import annotations

import marshal
import os
from itertools import pairwise

from .. import _cache
from .._errors import SignatureError, SymbolError
from .cffitype import ANONYMOUS
from .declared import Declarations, edition
from .preprocessor import Wanted, compiler, identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .._types import Foreign
    from .cexpression import Value
    from .cnodes import FunctionOf, Node, Record
    from .cparser import Parser
    from .declared import Table
    from .grammar import Row
    from .preprocessor import Macro, Scanned
    from .typenames import TypeNames

_OF_MACROS = "a macro "  # begins the reasons of macros
TEXT = "declarations"  # the file of what is given as text
_MOST_TOKENS = 4096  # of one macro, expanded


def wanted(
    header: object, include: object, define: Mapping[str, object], text: str | None = None
) -> Wanted:
    """What `load` was given, as plain data; TypeError and ValueError for what it cannot be."""
    headers = [] if header is None else _several(header, "header")
    if not headers and header is not None:
        raise ValueError("'header' must name at least one header")
    names = []
    for one in headers:
        path = os.fspath(one)
        is_path = not isinstance(one, str) or path.startswith((".", os.sep))
        if not path or any([mark in path for mark in '\n\r\0">']):
            raise ValueError(f"'header' must be the name or path of a header (got {path!r})")
        names.append(os.path.abspath(path) if is_path else path)
    folders = [os.path.abspath(os.fspath(one)) for one in _several(include, "include")]
    defines = []
    for name, value in define.items():
        if not isinstance(name, str) or not name.partition("(")[0].isidentifier():
            raise ValueError(f"'define' must name macros (got {name!r})")
        if value is not None and not isinstance(value, (str, int)):
            raise TypeError(
                "'define' must give text, integers or None "
                f"(got {type(value).__name__} for {name!r})"
            )
        defines.append((name, str(int(value)) if isinstance(value, int) else value))
    return Wanted(tuple(names), tuple(folders), tuple(defines), text)


def _several(given: Foreign, name: str) -> list[str | os.PathLike[str]]:
    """One or a sequence of names or paths."""
    found = [given] if isinstance(given, (str, os.PathLike)) else given
    try:
        made = [*found]
    except TypeError:
        made = [found]
    for one in made:
        if not isinstance(one, (str, os.PathLike)):
            raise TypeError(f"{name!r} must be a str, a path or several (got {type(one).__name__})")
    return made


def read(
    wanted: Wanted,
    only: Sequence[str] | str | None = None,
    skip: bool = True,
    names: TypeNames | None = None,
) -> Declarations:
    """What headers declare.

    Parameters
    ----------
    wanted : Wanted
    only : str or sequence of str, optional
        Names, or fnmatch patterns of names, to which it is limited.
    skip : bool
        Whether what cannot be offered is left out, and not an error.
    names : TypeNames, optional
        Other types that a text knows.
    """
    command = compiler()
    told = repr(("headers", edition(), identity(command), wanted))
    key = _cache.hashed(told.encode(errors="backslashreplace")).digest()
    if names is not None and wanted.text is not None:
        # What it says depends on them, too.
        stamps, table = _read(wanted, names)
        key = _cache.hashed(marshal.dumps({**table})).digest()
    else:
        kept = _kept(key)
        if kept is None:
            stamps, kept = _read(wanted)
            _cache.shared().put(key, marshal.dumps((stamps, {**kept})))
        table = kept
    if only is not None:
        _restrict(table, _names(only))
    if not skip:
        for name, reason in table["skipped"].items():
            if not reason.startswith(_OF_MACROS):
                raise SignatureError(
                    f"{name!r} cannot be offered: {reason}",
                    hint="leave 'skip' out to go without it, or name what is wanted with 'only'",
                )
    made = Declarations(table, wanted.text, wanted)
    made.key = key
    return made


def _names(only: object) -> list[str]:
    """The names and patterns that `only` has."""
    if isinstance(only, str):
        return [only]
    try:
        names: list[str] = list(only)  # type: ignore[call-overload]  # else it raises TypeError
    except TypeError:
        names = [only]  # type: ignore[list-item]  # which is refused next
    for one in names:
        if not isinstance(one, str):
            raise TypeError(f"'only' must be names or patterns (got {type(one).__name__})")
    return names


def _restrict(table: Table, only: list[str]) -> None:
    """Leave of a table what the names and patterns match."""
    names = {name for name in only if not any([mark in name for mark in "*?["])}
    patterns = [one for one in only if one not in names]
    chosen = {*names}
    tables: list[dict[str, Foreign]] = [
        *(table["functions"], table["variables"], table["constants"], table["pointers"]),
        table["skipped"],
    ]
    known = [name for kind in tables for name in kind]
    if patterns:
        from fnmatch import filter as matching

        for pattern in patterns:
            found = matching(known, pattern)
            if not found:
                raise SignatureError(f"'only' has {pattern!r}, which nothing declared matches")
            chosen.update(found)
    if missing := names.difference(known):
        raise SymbolError.missing(min(missing), "the declarations", known)
    for kind in tables:
        for name in kind.keys() - chosen:
            del kind[name]


def _kept(key: bytes) -> Table | None:
    found = _cache.shared().get(key)
    if found is None:
        return None
    try:
        read: tuple[dict[str, object], Table] = marshal.loads(found)
        stamps, table = read
        if all([_stamp(path) == stamp for path, stamp in stamps.items()]):
            return table
    except (ValueError, EOFError, TypeError, AttributeError):
        pass
    return None


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _read(
    wanted: Wanted, names: TypeNames | None = None
) -> tuple[dict[str, tuple[int, int] | None], Table]:
    from .cconstant import Unclosed
    from .cparser import Parser
    from .plaintext import common_types, without_comments
    from .preprocessor import Scanned, check_machine, preprocess

    if wanted.text is None or _has_directives(wanted.text):
        text = preprocess(wanted)
        check_machine(text)
    else:
        text = f'# 1 "{TEXT}"\n{without_comments(wanted.text)}'
    scanned = Scanned(text)
    parser = Parser(scanned.tokens)
    if names is not None:
        names.lend(parser)  # which know the common ones
    elif wanted.text is not None:
        parser.typedefs |= common_types()
    try:
        parser.read()
    except Unclosed as error:
        file, line = scanned.place(error.at)
        where = f", at line {line} of {scanned.files[file]!r}" if file >= 0 else ""
        raise SignatureError(f"{error}{where}") from None
    # A file that is added to a folder may come before one that was included.
    stamps = {path: _stamp(path) for path in (*scanned.files, *wanted.include) if path != TEXT}
    return stamps, _Tables(parser, scanned, wanted).table()


def _has_directives(text: str) -> bool:
    import re

    return re.search(r"^\s*#\s*(?:if|include)", text, re.MULTILINE) is not None


class _Tables:
    """The table of what a parser has read, and of macros."""

    def __init__(self, parser: Parser, scanned: Scanned, wanted: Wanted) -> None:
        from .cnodes import NodeConverter
        from .preprocessor import tokenizer

        self.parser = parser
        self.scanned = scanned
        self.wanted = wanted
        self.convert = NodeConverter(naming=True)
        self.split: Callable[[str], list[str]] = tokenizer()
        self.skipped: dict[str, str] = {}
        self.functions: dict[str, Row] = {}
        self.variables: dict[str, str] = {}
        self.declared: dict[str, tuple[str, str]] = {}
        self.constants: dict[str, int | float | bytes] = {}
        self.pointers: dict[str, tuple[str, int]] = {}
        self.readonly: list[str] = []
        self.symbols = parser.symbols

    def table(self) -> Table:
        parser = self.parser
        for name, (reason, start) in parser.skipped.items():
            file, line = self.scanned.place(start)
            where = f"{self.scanned.files[file] if file >= 0 else ''}:{line}"
            self.skipped[name or where] = reason
        for name, (function, start, end) in parser.functions.items():
            self._attempt(name, self._function, name, function, start, end)
        for name, (node, const, _) in parser.variables.items():
            if name not in self.functions:
                self._attempt(name, self._variable, name, node, const)
        for name, value in parser.values.items():
            self._constant(name, value)
        self._macros()
        for known in (self.functions, self.variables, self.constants, self.pointers):
            for name in known:
                self.skipped.pop(name, None)
        places = {
            name: self.scanned.place(start)
            for name, (_, start, _) in parser.functions.items()
            if name in self.functions
        }
        return {
            "functions": self.functions,
            "variables": self.variables,
            "declared": self.declared,
            "readonly": self.readonly,
            "typedefs": {},
            "structs": {},
            "opaque": self._opaque(),
            "constants": self.constants,
            "refused": {},
            "pointers": self.pointers,
            "skipped": self.skipped,
            "symbols": self.symbols,
            "inlines": sorted(parser.inlines & self.functions.keys()),
            "places": places,
            "files": self.scanned.files,
            "layouts": self._layouts(),
            "types": self._types(),
            "enums": self._enums(),
        }

    def _attempt(self, name: str, take: Callable[..., None], *given: object) -> None:
        try:
            take(*given)
        except SignatureError as error:
            self.skipped[name] = error.reason + (f"; {error.hint}" if error.hint else "")

    def _function(self, name: str, function: FunctionOf, start: int, end: int) -> None:
        from .grammar import row

        written = self.parser.written(start, end)
        self.functions[name] = row(self.convert.signature(function, written))

    def _variable(self, name: str, node: Node, const: bool) -> None:
        from .characters import CHARACTERS, characters
        from .ctype import VOIDPTR

        element = node
        while element.kind == "array":
            element = element.item  # type: ignore[attr-defined]  # an array has items
        try:
            self.variables[name] = self.convert.type(node).named
        except SignatureError:
            if element.kind == "unusable" or node.kind not in ("array", "struct", "union"):
                raise
            self.variables[name] = VOIDPTR.named  # no C type of ours; cffi has one
        if node.kind not in ("primitive", "enum"):
            text = characters(node, getattr(node, "const", False))
            if const and node.kind == "array" and element.cname in CHARACTERS:
                text = element.cname
            self.declared[name] = node.spell(""), text
        if const:
            self.readonly.append(name)

    def _constant(self, name: str, value: Value) -> None:
        if len(value) == 3 or isinstance(value[1], str):
            self.constants[name] = value[0]
        else:
            self.pointers[name] = self.convert.type(value[1]).named, value[0]

    # -- macros -----------------------------------------------------------------------------------

    def _macros(self) -> None:
        from .cconstant import Unknown

        macros = self.scanned.macros
        expanded: dict[str, list[str]] = {}
        beyond: list[str] = []
        for name, macro in macros.items():
            if macro.file < 0:
                continue
            if macro.parameters is not None:
                if name not in self.functions and name not in self.variables:
                    self.skipped.setdefault(name, "a macro with parameters is no function")
            elif macro.text:
                try:
                    expanded[name] = self._expanded(name, macros)
                except Unknown:
                    beyond.append(name)
        if beyond:
            from .preprocessor import expansions, preprocess

            if self.wanted.text is None or _has_directives(self.wanted.text):
                found = expansions(preprocess(self.wanted, beyond))
            else:
                found = {}
            expanded |= {beyond[at]: self.split(text) for at, text in found.items()}
        for name, tokens in expanded.items():
            try:
                self._macro(name, tokens)
            except Unknown as error:
                self.skipped.setdefault(name, f"a macro that is no constant: {error}")

    def _expanded(self, name: str, macros: Mapping[str, Macro]) -> list[str]:
        """The tokens of a macro that only object-like ones are in."""
        from .cconstant import Unknown

        split = self.split

        def expand(tokens: list[str], hidden: tuple[str, ...]) -> list[str]:
            made: list[str] = []
            for token in tokens:
                macro = macros.get(token)
                if macro is None or token in hidden or macro.parameters is not None:
                    made.append(token)
                else:
                    made += expand(split(macro.text), (*hidden, token))
                if len(made) > _MOST_TOKENS:
                    raise Unknown("a macro expands to too much")
            return made

        tokens = expand(split(macros[name].text), (name,))
        for token, following in pairwise(tokens):
            if following == "(" and token in macros and macros[token].parameters is not None:
                raise Unknown(token)
        return tokens

    def _macro(self, name: str, tokens: list[str]) -> None:
        from .cconstant import Unknown

        parser = self.parser
        if not tokens:
            return
        first = tokens[0]
        if len(tokens) == 1 and first.isidentifier():
            kinds: tuple[dict[str, Foreign], ...] = (self.functions, self.variables)
            for known in kinds:
                if first in known:
                    if first != name:
                        known[name] = known[first]
                        if known is self.variables and first in self.declared:
                            self.declared[name] = self.declared[first]
                        self.symbols[name] = self.symbols.get(first, first)
                        if first in parser.inlines:
                            parser.inlines.add(name)
                    return
            if first in self.skipped:
                self.skipped.setdefault(name, self.skipped[first])
                return
        if parser.starts_type(first):
            raise Unknown("it is a type, or a word of a declaration")
        parser.tokens = [*tokens, *[""] * 8]
        parser.at = 0
        try:
            value = parser.expression()
        except RecursionError:
            raise Unknown("nested too deeply") from None
        if parser.tokens[parser.at]:
            raise Unknown(f"{parser.tokens[parser.at]!r} follows an expression")
        self._constant(name, value)

    # -- types ------------------------------------------------------------------------------------

    def _layouts(self) -> dict[str, tuple[object, ...]]:
        """The structs and unions whose layout is known, by how C names them."""
        from .cnodes import Record

        return {
            record.typedef or record.cname: (
                record.kind,
                record.size,
                record.alignment,
                tuple(
                    (name, member.type.spell(name), *member[2:]) for name, member in record.fields
                ),
            )
            for record in self.parser.tags.values()
            if isinstance(record, Record) and record.fields is not None and record.size is not None
        }

    def _types(self) -> dict[str, str]:
        from .cnodes import UNUSABLE

        return {
            name: node.spell(name)
            for name, (node, _) in self.parser.typedefs.items()
            if not node.cname.startswith(f"{UNUSABLE}0_")
        }

    def _enums(self) -> dict[str, tuple[str, tuple[tuple[str, int], ...] | None]]:
        from .cnodes import Enumeration

        return {
            node.typedef or node.cname: (
                node.scalar.text,
                None if node.values is None else tuple(node.values),
            )
            for node in self.parser.tags.values()
            if isinstance(node, Enumeration)
        }

    def _opaque(self) -> list[str]:
        """The structs and unions of which nothing but the name is known."""
        from .cnodes import Record

        found = []
        for node in self.parser.tags.values():
            if isinstance(node, Record) and node.size is None:
                name = node.typedef or node.cname
                found.append(name)
                if node.reason and ANONYMOUS not in name:
                    self.skipped.setdefault(name, node.reason)
            elif isinstance(node, Record):
                self._bit_fields(node)
        return found

    def _bit_fields(self, record: Record) -> None:
        """Say which members cffi's type of a struct has not: those that no integer of the struct's
        bytes holds, which only packed structs have.
        """
        from .ffitypes import unit_of

        for name, member in record.fields or ():
            if member.bitsize >= 0 and name and unit_of(member, record.size or 0) is None:
                self.skipped[f"{record.typedef or record.cname}.{name}"] = (
                    f"no integer within the struct holds the {member.bitsize} bits of the "
                    "bit-field; read and write them in its bytes, by ffi.buffer()"
                )


def doc(file: str, line: int) -> str | None:
    """The comment right before what is declared at a line of a header."""
    import re

    try:
        with open(os.fspath(file), encoding="utf-8", errors="replace") as opened:
            before = opened.read().split("\n")[: line - 1]
    except OSError:
        return None
    text = "\n".join(before).rstrip()
    if text.endswith("*/"):
        start = text.rfind("/*")
        lines = text[start + 2 : -2].split("\n")
        lines = [re.sub(r"^\s*[*!<]*[*!<]?(?=\s|$)\s?", "", one) for one in lines]
    else:
        match = re.search(r"(?:^[ \t]*//[^\n]*(?:\n|\Z))+\Z", text, re.MULTILINE)
        if match is None:
            return None
        lines = [re.sub(r"^\s*//[/!]?<? ?", "", one) for one in match.group().split("\n")]
    return "\n".join([one.rstrip() for one in lines]).strip() or None
