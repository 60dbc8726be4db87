"""C declarations given as text: to signatures and tables, and types back to cffi.

    parse_function("double (double x, const float *)")     -> Signature
    parse_declarations("typedef struct {…} p; p f(p);")    -> Declarations
    read("typedef struct {…} p; p f(p);")                  -> the same, and in the cache
    from_ffi(cffi type) -> CType or Signature              the one mapping, which both of these use
    to_ffi(CType or Signature) -> cffi type

`CSource` gives the tokens of a text, the parser that headers have, here strict (parser.py), the
nodes of what they declare, and `Tables` what is kept of these. All that is wrong is a
`SignatureError` with a line and a column of the text that was given.
"""

from __future__ import annotations

from .._errors import SignatureError
from .._types.signature import Signature
from .cffitype import from_ffi, to_ffi
from .declarations import Declarations, keep
from .integers import Unknown
from .macros import MacroTables
from .nodes import Converter, Record, TooLarge, function_of
from .parser import Parser
from .plaintext import know
from .source import CSource

__all__ = ["Declarations", "from_ffi", "parse_declarations", "parse_function", "to_ffi"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .declarations import Table
    from .typenames import TypeNames


def parse_function(text: str) -> Signature:
    """Read the declaration of one function, with a name or without.

    Parameters
    ----------
    text : str
        Such as ``"double (double, const float *)"`` or ``"int printf(const char *format, ...);"``.
        Typedefs and structs that it needs may stand before it.

    Raises
    ------
    SignatureError
        If the text does not declare one function, or one that cannot be called from outside C.

    Examples
    --------
    >>> parse_function("double f(double x, const float *y)").readonly
    (False, True)
    """
    source = CSource(text)
    if not source.tokens or source.tokens == [";"]:
        raise source.error("no declaration found", 0, "write 'double (double)'")
    ends = [index for token, index in source.outermost() if token == ";"]
    if ends[:1] in ([], [len(source.tokens) - 1]) and source.tokens[-1] != "}":
        return _only_declaration(source)
    if source.tokens[-1] not in (";", "}"):
        source.tokens.append(";")
    declared = Declarations(table(source), source.text)
    for error in declared.refused.values():
        raise error
    functions = declared.functions
    if len(functions) != 1:
        raise source.error(f"expected one function, found {len(functions)}", 0)
    return next(iter(functions.values()))


def _only_declaration(source: CSource) -> Signature:
    """The signature of a text that is one declaration, of which the name may be left out."""
    parser = _parser(source)
    convert = Converter()
    try:
        if parser.tokens[1][:1] == '"' and parser.accept("extern"):
            parser.at += 1
        said, node = parser.specifiers()
        start = parser.at
        name, node, _ = parser.declarator(node, said.const)
        named = parser.named
        behind = parser.at
        parser.trailing(said)
        if said.odd:
            raise Unknown(f"attribute {said.odd!r} is not known here", behind)
        if parser.tokens[parser.at] == ",":
            raise Unknown("expected one function, found ','")
        if not parser.accept(";") and parser.tokens[parser.at]:
            raise Unknown(f"unexpected {parser.tokens[parser.at]!r}")
        if said.storage == "typedef":
            raise Unknown("a typedef is no function", 0)
        function = function_of(node)
        if function is None:
            raise parser.no_function()
        parser.at = start if name is None else named
        return convert.signature(function, source.text, name or "")
    except (Unknown, SignatureError, RecursionError) as error:
        raise source.placed(error, parser.at if convert.at is None else convert.at) from None


def parse_declarations(text: str) -> Declarations:
    """Read C declarations: functions, typedefs, structs, enums, integer macros and variables.

    Comments, attributes that do not change the ABI, ``extern "C"``, `inline`, `restrict` and
    ``#include`` lines beside declarations are read over. The names of ``<stdint.h>``,
    ``<stddef.h>`` and ``<stdbool.h>``, `FILE`, `PyObject` and `npy_intp` are known.

    Raises
    ------
    SignatureError
        If the text is no C, or if a function takes or returns what cannot be passed from outside C.
        One that takes and returns more than 16384 scalars by value is `Declarations.refused`: those
        of structs in structs, and of arrays in them, are counted one by one. Declarators nest at
        most 64 levels deep, with their typedefs, and have at most 16384 characters.

    Examples
    --------
    >>> d = parse_declarations("enum side { LEFT, RIGHT }; double norm(int n, const double *x);")
    >>> d.functions["norm"].text, d.constants
    ('d:i&d', {'LEFT': 0, 'RIGHT': 1})
    """
    return Declarations(table(CSource(text)), str.__str__(text))


def read(text: str) -> Declarations:
    """`parse_declarations`, and keep what was read for `kept`."""
    found = table(CSource(text))
    keep(text, found)
    return Declarations(found, str.__str__(text))


def table(source: CSource, names: TypeNames | None = None) -> Table:
    """What a text declares, without a fault."""
    parser = _parser(source, names)
    try:
        parser.read()
    except (Unknown, SignatureError, RecursionError) as error:
        raise source.placed(error, parser.at) from None
    return _TextTables(parser, source).table()


def _parser(source: CSource, names: TypeNames | None = None) -> Parser:
    source.check_brackets()
    parser = Parser(source.tokens, strict=True)
    know(parser, names)
    return parser


class _TextTables(MacroTables):
    """The table of a text: what cannot be offered is an error at its place."""

    def __init__(self, parser: Parser, source: CSource) -> None:
        super().__init__(parser, source)
        self.source = source
        self.refused: dict[str, tuple[str, int | None, int | None, str | None]] = {}

    def table(self) -> Table:
        table = super().table()
        self._check_types()
        table["refused"] = self.refused
        return table

    def _check_types(self) -> None:
        """Refuse types that lead to functions with too much by value."""
        parts = [(name, node) for name, (node, _) in self.own_types()]
        for tag in self.parser.tags.values():
            if isinstance(tag, Record):
                parts += [(member.name or "", member.type) for member in tag.fields or ()]
        for name, node in parts:
            try:
                self.convert.check_by_value(node, name)
            except TooLarge as error:
                raise self.source.placed(error, self.convert.at or 0) from None

    def attempt(self, name: str, take: Callable[..., None], *given: object) -> None:
        try:
            take(*given)
        except (SignatureError, RecursionError) as error:
            if isinstance(error, SignatureError) and error.text is not None:
                raise
            at = self.parser.places[name] if self.convert.at is None else self.convert.at
            placed = self.source.placed(error, at)
            if not isinstance(error, TooLarge):
                raise placed from None
            self.refused[name] = placed.reason, placed.position, placed.line, placed.hint
