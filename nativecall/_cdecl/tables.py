"""Convert parsed headers and texts to tables of plain data (declarations.py).

If a declaration cannot be used, the table records the reason. If a text is parsed strictly, such a
declaration raises an error with its position instead. A macro becomes a constant if it is a
constant expression, or an alias if it names a declared function or variable. Other macros, if
not empty, are skipped, and the table records the reasons.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING, SignatureError
from .._types.ctype import VOIDPTR
from .cffitype import unit_of
from .lexer import Unexpanded, tokenizer
from .nodes import (
    ANONYMOUS,
    CHARACTERS,
    UNUSABLE,
    Converter,
    Enumeration,
    Record,
    characters,
    element,
    function_of,
)
from .parser import Parser, Unknown, common_types, fault
from .preprocessor import expansions, preprocess
from .source import CSource, Expansion

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._ext import Foreign
    from .._types.grammar import Row
    from .declarations import Table
    from .nodes import FunctionOf, Node
    from .parser import Value
    from .preprocessor import Scanned, Wanted
    from .typenames import TypeNames


def parser_of(source: CSource | Scanned, strict: bool, names: TypeNames | None = None) -> Parser:
    """Return a parser of `source`, with the types of `names` or else the predefined types."""
    if strict and isinstance(source, CSource):
        source.check_brackets()
    parser = Parser(source.tokens, strict)
    if names is not None:
        names.lend(parser)
    else:
        parser.typedefs |= common_types()
        parser.granted = {**parser.typedefs}
    return parser


def table(
    source: CSource | Scanned,
    strict: bool = True,
    names: TypeNames | None = None,
    wanted: Wanted | None = None,
) -> Table:
    """Return the table of a source's declarations; `wanted` names its headers, if any."""
    parser = parser_of(source, strict, names)
    try:
        parser.read()
    except (SignatureError, RecursionError) as error:
        raise source.placed(error, parser.at) from None
    return _Tables(parser, source, wanted).table()


class _Tables:
    """Builds the table of a parser's declarations."""

    def __init__(self, parser: Parser, source: CSource | Scanned, wanted: Wanted | None) -> None:
        self.parser = parser
        self.source = source
        self.wanted = wanted
        self.convert = Converter(remember=True)
        self.skipped: dict[str, str] = {}
        self.functions: dict[str, Row] = {}
        self.variables: dict[str, str] = {}
        self.declared: dict[str, tuple[str, str]] = {}
        self.constants: dict[str, int | float | bytes] = {}
        self.pointers: dict[str, tuple[str, int]] = {}
        self.readonly: list[str] = []

    def table(self) -> Table:
        parser = self.parser
        for name, (reason, start) in parser.skipped.items():
            file, line = self.source.place(start)
            where = f"{self.source.files[file] if file >= 0 else ''}:{line}"
            self.skipped[name or where] = reason
        for name, (function, start, end) in parser.functions.items():
            self._attempt(name, self._function, name, function, start, end)
        for name, (node, const, _) in parser.variables.items():
            if name not in self.functions:
                self._attempt(name, self._variable, name, node, const)
        for name, value in parser.values.items():
            self._constant(name, value)
        found: Table = {
            "functions": self.functions,
            "variables": self.variables,
            "declared": self.declared,
            "readonly": self.readonly,
            "opaque": self._opaque(),
            "constants": self.constants,
            "pointers": self.pointers,
            "skipped": self.skipped,
            "layouts": self._layouts(),
            "types": self._types(),
            "enums": self._enums(),
            "symbols": parser.symbols,
        }
        self._macros()
        for known in (self.functions, self.variables, self.constants, self.pointers):
            for name in known:
                self.skipped.pop(name, None)
        found["inlines"] = sorted(parser.inlines & self.functions.keys())
        if self.wanted is not None:
            found["files"] = self.source.files
            found["places"] = self._places()
        return found

    def _attempt(self, name: str, take: Callable[..., None], *given: object) -> None:
        """Add a declaration, or record why it is skipped."""
        try:
            take(*given)
        except (SignatureError, RecursionError) as error:
            if self.parser.strict:
                at = self.parser.places[name] if self.convert.at is None else self.convert.at
                raise self.source.placed(error, at) from None
            hint = getattr(error, "hint", None)
            reason, _ = fault(error, (), 0)
            self.skipped[name] = reason + (f"; {hint}" if hint else "")

    def _function(self, name: str, function: FunctionOf, start: int, end: int) -> None:
        self.functions[name] = self.convert.row(function, self.parser.written(start, end))
        for index, arg in enumerate(function.args):
            named = function.names[index] if function.names else None
            self._callback(f"{name}({named or index + 1})", arg)

    def _callback(self, name: str, node: Node) -> None:
        """For a pointer to a function, record why Python cannot implement the function, if so."""
        function = function_of(node)
        try:
            if function is not None:
                self.convert.function(function)
        except SignatureError as error:
            self.skipped[name] = f"Python cannot implement this function: {error.reason}"

    def _variable(self, name: str, node: Node, const: bool) -> None:
        item = element(node)
        self.convert.at = None
        try:
            self.variables[name] = self.convert.type(node).named
        except SignatureError:
            if item.kind == "unusable" or node.kind not in ("array", "struct", "union"):
                raise
            self.variables[name] = VOIDPTR.named  # only cffi can describe the type
        if node.kind != "primitive":
            text = characters(node)
            if const and node.kind == "array" and item.cname in CHARACTERS:
                text = item.cname
            self.declared[name] = node.spell(""), text
        if const:
            self.readonly.append(name)

    def _constant(self, name: str, value: Value) -> None:
        if len(value) == 3 or isinstance(value[1], str):
            self.constants[name] = value[0]
        else:
            self.pointers[name] = self.convert.type(value[1]).named, value[0]

    def _places(self) -> dict[str, tuple[int, int]]:
        """Return the file index and the line of each function and skipped declaration."""
        parser = self.parser
        starts = {name: start for name, (_, start) in parser.skipped.items()}
        starts |= {name: row[2] for name, row in parser.variables.items()}
        starts |= {name: row[1] for name, row in parser.functions.items()}
        return {
            name: self.source.place(start)
            for name, start in starts.items()
            if name in self.functions or name in self.skipped
        }

    # -- types ------------------------------------------------------------------------------------

    def _layouts(self) -> dict[str, tuple[object, ...]]:
        """Return the structs and unions with known layout, by C name."""
        return {
            record.typedef or record.cname: (
                record.kind,
                record.size,
                record.alignment,
                tuple(
                    (one.name, one.type.spell(one.name or ""), *one[2:]) for one in record.fields
                ),
            )
            for record in self.parser.tags.values()
            if isinstance(record, Record) and record.fields is not None and record.size is not None
        }

    def _types(self) -> dict[str, str]:
        """Return the typedefs that the source itself declares."""
        granted = self.parser.granted
        return {
            name: node.spell(name)
            if node.main is None
            else f"{node.main.spell(name)} __attribute__((aligned({node.alignment})))"
            for name, row in self.parser.typedefs.items()
            for node in row[:1]
            if granted.get(name) is not row and not node.cname.startswith(f"{UNUSABLE}0_")
        }

    def _enums(self) -> dict[str, tuple[str, tuple[tuple[str, int], ...] | None]]:
        return {
            node.typedef or node.cname: (
                node.scalar.text,
                None if node.values is None else tuple(node.values),
            )
            for node in self.parser.tags.values()
            if isinstance(node, Enumeration)
        }

    def _opaque(self) -> list[str]:
        """Return the structs and unions whose layout is unknown."""
        found = []
        for node in self.parser.tags.values():
            if isinstance(node, Record) and node.size is None:
                name = node.typedef or node.cname
                found.append(name)
                if node.reason and ANONYMOUS not in name:
                    self.skipped.setdefault(name, node.reason)
            elif isinstance(node, Record):
                self._members(node)
        return found

    def _members(self, record: Record) -> None:
        """Record the reasons for pointers to functions, and for bit-fields that cffi's type lacks.

        cffi's type lacks a bit-field if no integer within the struct can hold it. Only packed
        structs have such bit-fields.
        """
        for one in record.fields or ():
            name = f"{record.typedef or record.cname}.{one.name}"
            self._callback(name, one.type)
            if one.width is not None and one.name and unit_of(one, record.size or 0) is None:
                self.skipped[name] = (
                    f"no integer within the struct holds the {one.width} bits of the bit-field; "
                    "access its bytes with ffi.buffer()"
                )

    # -- macros -----------------------------------------------------------------------------------

    def _macros(self) -> None:
        macros = self.source.macros
        constants: dict[str, list[str]] = {}
        beyond: list[str] = []  # macros that use macros with parameters, also indirectly
        expansion = Expansion(macros)
        for name, macro in macros.items():
            if macro.file < 0:
                continue
            if macro.parameters is not None:
                if name not in self.functions and name not in self.variables:
                    self.skipped.setdefault(name, "a macro with parameters is not a function")
            elif macro.text:
                try:
                    constants[name] = [token for token, _ in expansion.of([(name, 0)])]
                except Unknown as error:
                    self._no_constant(name, error)
                    continue
                if any([isinstance(token, Unexpanded) for token in constants[name]]):
                    beyond.append(name)
                    del constants[name]
        expanded: dict[int, str] = {}
        if beyond and self.wanted is not None:
            expanded = expansions(preprocess(self.wanted, beyond))
        split = tokenizer()
        for at, name in enumerate(beyond):
            if at in expanded:
                constants[name] = split(expanded[at])
            else:
                self.skipped.setdefault(name, "a macro that only a C compiler expands")
        for name, tokens in constants.items():
            try:
                self._macro(name, tokens)
            except Unknown as error:
                self._no_constant(name, error)

    def _no_constant(self, name: str, error: Unknown) -> None:
        self.skipped.setdefault(name, f"a macro that is not a constant: {error.reason}")

    def _macro(self, name: str, tokens: list[str]) -> None:
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
                        parser.symbols[name] = parser.symbols.get(first, first)
                        if first in parser.inlines:
                            parser.inlines.add(name)
                    return
            if first in self.skipped:
                self.skipped.setdefault(name, self.skipped[first])
                return
        if parser.starts_type(first):
            raise Unknown("it is a type or a keyword")
        parser.tokens = [*tokens, *[""] * 8]
        parser.at = 0
        try:
            value = parser.expression()
        except RecursionError:
            raise Unknown("nested too deeply") from None
        if parser.tokens[parser.at]:
            raise Unknown(f"{parser.tokens[parser.at]!r} follows an expression")
        self._constant(name, value)
