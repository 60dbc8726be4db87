"""Look up declared types by name, and parse C text that uses these names.

`TypeNames` builds the nodes (nodes.py) of structs, unions, enums and typedefs on first use. It also
parses types (``"gsl_function *[2]"``) and functions (``"int (sqlite3 *)"``) that use them. An
unknown name raises a SignatureError that lists close matches.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING, SignatureError, closest, did_you_mean
from .._types.ctype import SCALARS
from .._types.derived import Field
from .._types.signature import Signature
from .._types.written import KEYWORDS
from .lexer import tokenizer
from .nodes import (
    ANONYMOUS,
    CHARACTERS,
    UNUSABLE,
    Converter,
    Enumeration,
    Node,
    Record,
    Unusable,
    called,
)
from .parser import OTHER_TYPES, Parser, Unknown, common_types, of_int
from .source import CSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .._ext import Foreign
    from .._types.derived import Owner
    from .declarations import Declarations
    from .parser import DeclSpecifiers, Value

_UNUSABLE = (UNUSABLE, *OTHER_TYPES)
_KINDS = ("struct", "union", "enum")


class Found(dict[str, "Foreign"]):
    """A dict that looks up missing items with a function. Iteration omits such items."""

    def __init__(self, find: Callable[[str], Foreign], own: Mapping[str, Foreign] = {}) -> None:
        super().__init__(own)
        self._find = find
        self._found: dict[str, Foreign] = {}

    def __missing__(self, name: str) -> Foreign:
        found = self._found.get(name)
        if found is None:
            found = self._find(name)
            if found is None:
                raise KeyError(name)
            found = self._found.setdefault(name, found)
        return found

    def __contains__(self, name: object) -> bool:
        return self.get(name) is not None

    def get(self, name: Foreign, default: Foreign = None) -> Foreign:
        try:
            return self[name]
        except KeyError:
            return default


class TypeNames:
    """The types of a set of declarations and of its base declarations.

    Attributes
    ----------
    typedefs : mapping of str to (Node, bool)
        Keys are names, such as ``"gsl_function"``. The bool is true for a `const` type.
    tags : mapping of str to Node
        Keys are tags with their keyword, such as ``"struct sqlite3"``.
    """

    def __init__(
        self, declarations: Declarations, base: TypeNames | None = None, owner: Owner | None = None
    ) -> None:
        self._declarations = declarations
        self._base = base
        self.typedefs: dict[str, tuple[Node, bool]] = Found(self._typedef)
        self.tags: dict[str, Node] = Found(self._tag)
        self._opaque = frozenset(declarations.opaque)
        self._convert = Converter(owner)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of all types; tags come without their keyword."""
        known = self._declarations
        seen: dict[str, None] = {}
        usable = [name for name, text in known.types.items() if not text.startswith(_UNUSABLE)]
        for names in (usable, known.layouts, known.enums, known.opaque):
            for name in names:
                short = name.rpartition(" ")[2]
                if ANONYMOUS not in name and short.isidentifier():
                    seen[short] = None
        if self._base is not None:
            seen |= dict.fromkeys(self._base)
        return iter(seen)

    def find(self, name: str) -> Node | None:
        """Return the type of a name.

        The name is a typedef, a tag with or without its keyword, or a type that C defines.
        """
        first, _, tag = name.partition(" ")
        if first in _KINDS and tag.isidentifier():
            return self.tags.get(name)
        if not name.isidentifier():
            return None
        found = self.typedefs.get(name)
        if found is not None:
            return found[0]
        tags = [f"{kind} {name}" for kind in _KINDS]
        return next((self.tags[tag] for tag in tags if tag in self.tags), None)

    def reason(self, name: str) -> str | None:
        """Return why the layout of a struct or union is unknown; None if it was never defined."""
        found = self._declarations.skipped.get(name)
        return found if found is not None or self._base is None else self._base.reason(name)

    def lend(self, parser: Parser) -> None:
        """Let a parser use these types, in addition to the types that it parses itself."""
        parser.typedefs = Found(self.typedefs.get, parser.typedefs)
        parser.tags = Found(self.tags.get, parser.tags)

    # -- cached declarations ----------------------------------------------------------------------

    def _kept(self, name: str) -> Record:
        """Return a struct or union from the cached data."""
        kind, _, _ = name.rpartition(" ")
        row: Foreign = self._declarations.layouts.get(name)

        def members() -> list[Foreign] | None:
            return row and [Field(one[0], self._declared(one[1]), *one[2:]) for one in row[3]]

        made = Record(row[0] if row is not None else kind or "struct", name, members)
        made.typedef = "" if kind else name
        made.is_kept = True
        if row is not None:
            made.size, made.alignment = row[1:3]
        return made

    def _typedef(self, name: str) -> tuple[Node, bool] | None:
        known = self._declarations
        if name in known.layouts:
            return self._kept(name), False
        if name in known.enums:
            return self._enum(name), False
        if name in OTHER_TYPES:
            return OTHER_TYPES[name], False
        if name in CHARACTERS:
            return common_types().get(name)
        text = known.types.get(name)
        if text is not None and text != f"{name} {name}":
            return called(self._declared(text), name), False
        if name in self._opaque:
            return self._kept(name), False
        if name.startswith(UNUSABLE):
            size, alignment = map(int, name.removeprefix(UNUSABLE).split("_"))
            what = "a vector type" if size else "its type"
            return Unusable(f"{what} cannot be passed", size or None, alignment), False
        if self._base is not None:
            return self._base.typedefs.get(name)
        return common_types().get(name)

    def _tag(self, name: str) -> Node | None:
        known = self._declarations
        if name in known.layouts or name in self._opaque:
            return self._kept(name)
        if name in known.enums:
            return self._enum(name)
        return None if self._base is None else self._base.tags.get(name)

    def _enum(self, name: str) -> Enumeration:
        code, values = self._declarations.enums[name]
        made = Enumeration(name, SCALARS[code], values)
        made.typedef = "" if " " in name else name
        made.is_kept = True
        return made

    def _declared(self, text: str) -> Node:
        """Parse a cached declaration of a typedef or member; return the type."""
        parser = _TextParser(tokenizer()(text), self)
        try:
            said, name, node = parser.single()
            return said.realigned(node, name or "")
        except Unknown as error:
            raise SignatureError(error.reason, text) from None

    # -- declarations by users --------------------------------------------------------------------

    def function(self, text: str) -> Signature:
        """Return the signature of a function from its declaration or the name of its type."""
        node = self.node(text, is_function=True)
        return self.signature(node, node.spell("") if text.isidentifier() else text)

    def signature(self, node: Foreign, written: str) -> Signature:
        """Return the signature of a function type; `written` is its text in error messages."""
        try:
            return self._convert.signature(node, written)
        except SignatureError as error:
            raise SignatureError(error.reason, written, hint=error.hint) from None

    def node(self, text: str, is_function: bool = False) -> Node:
        """Return the type that a text describes; for a function type, this is a `FunctionOf`.

        With `is_function`, the text must describe a function.
        """
        source = CSource(text)
        source.check_brackets()
        parser = _WrittenParser(source.tokens, self)
        try:
            if "{" in parser.tokens:
                raise Unknown("a body cannot be declared here")
            return parser.function() if is_function else parser.whole()
        except (SignatureError, RecursionError) as error:
            quoted = str(getattr(error, "reason", "")).partition("'")[2].rpartition("'")[0]
            known = not quoted.isidentifier() or quoted in KEYWORDS
            raise source.placed(error, parser.at, None if known else self.like(quoted)) from None

    def like(self, name: str) -> str | None:
        """Return a hint that lists types with similar names."""
        known = self._declarations
        tags = [f"{kind} {name}" for kind in _KINDS]
        found = [tag for tag in tags if tag in {*known.layouts, *known.enums, *known.opaque}]
        return did_you_mean(found or closest(name, self)).removeprefix("; ") or None


class _TextParser(Parser):
    """A parser of a single type; the text may use the types of the declarations."""

    def __init__(self, tokens: list[str], names: TypeNames) -> None:
        super().__init__(tokens)
        self.typedefs = names.typedefs
        self.tags = names.tags
        self.values = Found(lambda name: _constant(names, name))


class _WrittenParser(_TextParser):
    """A parser of user input. Unlike its base, it also rejects unknown tags."""

    def _tagged(self, said: DeclSpecifiers, kind: str) -> str:
        tag = super()._tagged(said, kind)
        if f"{kind} {tag}" not in self.tags:
            raise Unknown(f"unknown {kind} {tag!r}", self.at - 1)
        return tag


def _constant(names: TypeNames, name: str) -> Value | None:
    """Return the value of an integer constant of the declarations, for use in array lengths."""
    value = names._declarations.constants.get(name)
    if value is None and names._base is not None:
        return _constant(names._base, name)
    return of_int(value) if isinstance(value, int) else None
