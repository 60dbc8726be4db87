"""Macros of headers, and the table of what headers declare with them, and where.

A macro that is a constant expression is a constant, one that is another name of something declared
is that; others have their reasons.
"""

from __future__ import annotations

from .integers import Unknown
from .lexer import Unexpanded, tokenizer
from .preprocessor import expansions, preprocess
from .source import Expansion
from .tables import Tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._ext import Foreign
    from .declarations import Table
    from .parser import Parser
    from .preprocessor import Scanned, Wanted
    from .source import CSource


class MacroTables(Tables):
    """The table of what headers or a text declare, with their macros."""

    def __init__(self, parser: Parser, scanned: Scanned | CSource) -> None:
        super().__init__(parser)
        self.scanned = scanned
        self.split = tokenizer()
        self.symbols = parser.symbols

    def table(self) -> Table:
        parser = self.parser
        for name, (reason, start) in parser.skipped.items():
            file, line = self.scanned.place(start)
            where = f"{self.scanned.files[file] if file >= 0 else ''}:{line}"
            self.skipped[name or where] = reason
        table = super().table()
        self._macros()
        for known in (self.functions, self.variables, self.constants, self.pointers):
            for name in known:
                self.skipped.pop(name, None)
        table["symbols"] = self.symbols
        table["inlines"] = sorted(parser.inlines & self.functions.keys())
        return table

    def expansions(self, names: list[str]) -> list[list[str] | None]:
        """The tokens of macros that use macros with parameters, or each other; None for what is
        not known.
        """
        return [None] * len(names)

    def _macros(self) -> None:
        macros = self.scanned.macros
        constants: dict[str, list[str]] = {}
        beyond: list[str] = []
        expansion = Expansion(macros)
        for name, macro in macros.items():
            if macro.file < 0:
                continue
            if macro.parameters is not None:
                if name not in self.functions and name not in self.variables:
                    self.skipped.setdefault(name, "a macro with parameters is no function")
            elif macro.text:
                try:
                    found = [token for token, _ in expansion.of([(name, 0)])]
                except Unknown as error:
                    self.skipped.setdefault(name, f"a macro that is no constant: {error}")
                    continue
                if any([isinstance(token, Unexpanded) for token in found]):
                    beyond.append(name)
                else:
                    constants[name] = found
        for name, made in zip(beyond, self.expansions(beyond) if beyond else (), strict=True):
            if made is None:
                self.skipped.setdefault(name, "a macro that only a C compiler expands")
            else:
                constants[name] = made
        for name, tokens in constants.items():
            try:
                self._macro(name, tokens)
            except Unknown as error:
                self.skipped.setdefault(name, f"a macro that is no constant: {error}")

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
        self.constant(name, value)


class HeaderTables(MacroTables):
    """The table of what headers declare, with the places of functions."""

    def __init__(self, parser: Parser, scanned: Scanned, wanted: Wanted) -> None:
        super().__init__(parser, scanned)
        self.wanted = wanted

    def table(self) -> Table:
        table = super().table()
        table["files"] = self.scanned.files
        parser = self.parser
        starts = {name: start for name, (_, start) in parser.skipped.items()}
        starts |= {name: row[2] for name, row in parser.variables.items()}
        starts |= {name: row[1] for name, row in parser.functions.items()}
        table["places"] = {
            name: self.scanned.place(start)
            for name, start in starts.items()
            if name in self.functions or name in self.skipped
        }
        return table

    def expansions(self, names: list[str]) -> list[list[str] | None]:
        found = expansions(preprocess(self.wanted, names))
        return [self.split(found[at]) if at in found else None for at in range(len(names))]
