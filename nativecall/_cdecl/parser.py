"""A parser of C declarations: tokens to the nodes of what they declare.

It reads what compilers and libraries write: GNU attributes and words, `__asm__` names, inline
functions, ``#pragma pack``, C11's and C23's words. Of headers, a declaration that it cannot read is
left out with its reason, and what depends on it has that reason, too; the rest is read. Bodies of
functions are passed over. `strict`, for what people write, it stops at the first fault.
"""

from __future__ import annotations

import copy

from .._errors import SignatureError
from .._types.ctype import MAX_DEPTH
from .._types.grammar import shown
from .cffitype import of_c
from .characters import CHARACTERS
from .expression import cast
from .integers import Unclosed, Unknown, fault
from .nodes import (
    ANONYMOUS,
    ArrayOf,
    Enumeration,
    FunctionOf,
    Node,
    Number,
    PointerTo,
    Record,
    Unusable,
    agree,
)
from .specifiers import ASM, OTHER_TYPES, TRANSPARENT, UNWRITTEN, WORDS, DeclSpecifiers, Specifiers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .expression import Value

# What stands in expressions beside words and numbers.
_OPERATORS = frozenset("_+-*/%&|^~!<>=?:().[],'\"")
_SPACING = (
    *((" ( ", "("), ("( ", "("), (" (", "("), (" )", ")"), (" ,", ",")),
    *((" [ ", "["), (" [", "["), (" ]", "]")),
)
_NO_OPERATORS = frozenset(["...", "="])
#: Why the type of a function that is declared so takes no call: a pointer to it is generic.
NO_PROTOTYPE = "'()' says nothing about the arguments"


def _has_variable_length(node: Node) -> bool:
    """Whether an array, or one in it, has a length that only calls know; parameters may."""
    while isinstance(node, ArrayOf):
        if node.written:
            return True
        node = node.item
    return False


def _elements(node: Node) -> Node:
    """What an array of variable length has for elements; other types themselves."""
    while isinstance(node, ArrayOf) and _has_variable_length(node):
        node = node.item
    return node


class Parser(Specifiers):
    """What tokens declare.

    Attributes
    ----------
    functions : dict of str to (FunctionOf, int, int)
        With the tokens that declare them.
    inlines : set of str
        Functions with a body that no library need have.
    variables : dict of str to (Node, bool, int)
        And whether they are `const`, and their first token.
    typedefs : dict of str to (Node, bool)
    tags : dict of str to Node
        By ``"struct name"``.
    values : dict of str to Value
        Enumerators and initialised constants.
    symbols : dict of str to str
        What `__asm__` calls functions and variables.
    skipped : dict of str to (str, int)
        Reasons, and the first tokens.
    places : dict of str to int
        The tokens that are the names of functions, variables and typedefs.
    """

    def __init__(self, tokens: list[str], strict: bool = False) -> None:
        super().__init__()
        self.strict = strict
        self.tokens: list[str] = [*tokens, *[""] * 8]
        self.at: int = 0
        self.functions: dict[str, tuple[FunctionOf, int, int]] = {}
        self.inlines: set[str] = set()
        self.variables: dict[str, tuple[Node, bool, int]] = {}
        self.typedefs: dict[str, tuple[Node, bool]] = {
            name: (node, False) for name, node in OTHER_TYPES.items()
        }
        self.granted: dict[str, tuple[Node, bool]] = {**self.typedefs}
        self.tags: dict[str, Node] = {}
        self.values: dict[str, Value] = {}
        self.symbols: dict[str, str] = {}
        self.skipped: dict[str, tuple[str, int]] = {}
        self.places: dict[str, int] = {}
        self._linkages: list[int] = []  # the brackets of those that are open
        #: The token that the last declarator names; -1 where it names nothing.
        self.named: int = -1
        #: What names were declared as first: a kind, which is "" after a contradiction.
        self._declared: dict[str, tuple[str, Node, bool]] = {}
        self._fresh: list[str] = []  # the names that the declaration before `at` has declared

    def read(self) -> None:
        """Read all declarations. `strict`, a fault is `Unknown`, or a SignatureError at the next
        token.
        """
        while self.tokens[self.at]:
            if self.strict:
                self._external()
                continue
            start = self.at
            try:
                self._external()
            except (Unknown, SignatureError, RecursionError) as error:
                self._leave_out(start, fault(error, self.tokens, self.at)[0])
        if self._linkages:
            raise Unclosed(self._linkages[-1], "{")

    def starts_type(self, token: str) -> bool:
        return token in WORDS or token in self.typedefs

    def type_name(self) -> Node:
        said, node = self.specifiers()
        _, node, _ = self.declarator(node, said.const)
        return said.type(node)

    # -- declarations -----------------------------------------------------------------------------

    def _external(self) -> None:
        tokens, start = self.tokens, self.at
        token = tokens[start]
        self._fresh = []
        if token[0] == "#":
            self.pragma()
            return
        if self.accept(";"):
            return
        if token == "extern" and tokens[start + 1][:1] == '"':
            self.at += 2
            if self.accept("{"):
                self._linkages.append(self.at - 1)
            return
        if token == "}" and self._linkages:
            self._linkages.pop()
            self.at += 1
            return
        if self.assertion():
            return
        if token in ASM and tokens[start + 1] == "(":
            self.at = self.closing(start + 1)
            self.accept(";")
            return
        said, node = self.specifiers()
        if self.accept(";"):
            return
        alone = True
        while True:
            begun = self.at
            name, declared, const = self.declarator(node, said.const)
            end, named = self.at, self.named
            if said.storage != "typedef":
                self.call(node, name)
            one = said.copy()
            self.trailing(one)
            if name is None:
                raise Unknown(f"expected a name or ';', found {shown(tokens[self.at])}", self.at)
            if one.odd == TRANSPARENT and isinstance(declared, Record):
                declared.transparent = True
            elif one.odd:
                raise Unknown(f"attribute {one.odd!r} is not known here")
            alone = alone and tokens[self.at] != ","
            place = (start, end) if alone else (begun, end)
            declared = one.type(declared)
            self._check(name, declared, const, one.storage == "typedef", named)
            self.places.setdefault(name, named)
            self._declare(name, declared, const, one, place)
            if self.accept(","):
                continue
            has_body = isinstance(declared, FunctionOf) and tokens[self.at - 1] == "}"
            if not self.accept(";") and not has_body:
                raise Unknown(f"expected ';', found {shown(tokens[self.at])}", self.at)
            return

    def _check(self, name: str, node: Node, const: bool, is_typedef: bool, named: int) -> None:
        """Refuse what C does: another declaration of a name. The one that says more is kept."""
        kind = (
            "typedef" if is_typedef else "function" if isinstance(node, FunctionOf) else "variable"
        )
        new = kind, node, const and kind != "function"
        before = self._declared.get(name)
        if before is None:
            self._declared[name] = new
            self._fresh.append(name)
            if name in self.values:
                raise Unknown(f"{name!r} is a constant before", named)
            return
        old = before[1]
        if before[::2] != new[::2] or not agree(old, node):
            self._declared[name] = "", old, before[2]
            self._fresh.append(name)
            spelled = f"{'const ' * before[2]}{old.spell('')}"
            raise Unknown(f"{name!r} was declared as {spelled!r} before", named)
        if old.reason if isinstance(old, FunctionOf) else old.size is None:
            self._declared[name] = new

    def _declare(
        self, name: str, node: Node, const: bool, said: DeclSpecifiers, place: tuple[int, int]
    ) -> None:
        if said.storage == "typedef":
            plain, node = node, said.realigned(node, name)
            unnamed = ANONYMOUS in node.cname
            if unnamed and isinstance(node, (Record, Enumeration)) and not plain.typedef:
                node.typedef = name
                node.main = None
                if isinstance(node, Record) or node is not plain:
                    node.cname = f"{node.kind} {ANONYMOUS}0_{name}"
                if node is not plain:
                    self.tags[node.cname] = node
            if name in CHARACTERS and isinstance(node, Number) and node.scalar is of_c(name):
                node = Number(node.scalar, node.alignment, name)
            self.typedefs[name] = node, const
            return
        says_most = self._declared[name][1] is node
        if said.asm:
            self.symbols[name] = said.asm
        if isinstance(node, FunctionOf):
            if node.reason == NO_PROTOTYPE:
                node = copy.copy(node)  # pointers to the type stay generic
                node.reason = ""  # it is called without arguments, as in C23
            if self.tokens[self.at] == "{":
                self.at = self.closing(self.at)
                if said.storage != "extern":
                    self.inlines.add(name)
            if says_most:
                self.functions[name] = (node, *place)
        elif self.accept("=") or said.storage == "static":
            self._initialised(name, node, const, said.storage == "static", place[0])
        elif says_most:
            self.variables[name] = (node, const, place[0])

    def _initialised(self, name: str, node: Node, const: bool, static: bool, start: int) -> None:
        """Take what stands after '=' as the value of a constant where it is one."""
        begun = self.at
        if const and isinstance(node, Number):
            try:
                value = cast(self.expression(), node)
                if self.tokens[self.at] in (",", ";"):
                    self.values[name] = value
                    return
            except Unknown:
                pass
        if self.strict and static:
            raise Unknown(f"{name!r} is no constant", self.places[name], "leave it out")
        self.at = begun
        while self.tokens[self.at] not in (",", ";", ""):
            at_bracket = self.tokens[self.at] in ("(", "[", "{")
            self.at = self.closing(self.at) if at_bracket else self.at + 1
        if static:
            self.skipped[name] = "a static variable is in no library", start
        else:
            self.variables.setdefault(name, (node, const, start))

    def _leave_out(self, start: int, reason: str) -> None:
        """Go on after the declaration that begins at `start`, and remember why it is left out."""
        tokens = self.tokens
        at = start
        name = last = ""
        record = False
        while tokens[at] and tokens[at] != ";":
            token = tokens[at]
            if token in ("struct", "union", "enum"):
                record = True
            if token in ("(", "[", "{"):
                if token == "(" and not name and last not in WORDS and last not in ASM:
                    name = last if last != tokens[at] else ""
                    if tokens[at + 1] == "*" and tokens[at + 2].isidentifier():
                        name = tokens[at + 2]
                end = self.closing(at)
                if token == "{" and name and not record:
                    at = end - 1
                    break
                at = end
                continue
            if token == "}" and at > start:
                at -= 1
                break
            if self.names(token):
                last = token
            at += 1
        self.at = at + 1
        name = name or last
        if tokens[start] == "typedef" or "typedef" in tokens[start : start + 3]:
            self.typedefs[name] = Unusable(reason), False
        self.skipped[name] = reason, start
        for one in self._fresh:
            self.skipped[one] = reason, start
            self.functions.pop(one, None)
            self.variables.pop(one, None)
            self.values.pop(one, None)
            if self._declared[one][0]:
                del self._declared[one]
            if self.typedefs.pop(one, None) is not None:
                self.typedefs[one] = Unusable(reason), False

    # -- declarators ------------------------------------------------------------------------------

    def declarator(self, node: Node, const: bool) -> tuple[str | None, Node, bool]:
        """A name, if there is one, and what it is declared as, and whether that is `const`."""
        tokens = self.tokens
        said = DeclSpecifiers()
        while True:
            token = tokens[self.at]
            if token == "*":
                node, const = node.pointer(const), False
                self.at += 1
            elif (word := WORDS.get(token)) is not None and word[0] in (
                "const",
                "ignored",
                "atomic",
            ):
                self.at += 1
                const = const or word[0] == "const"
            elif token in ("__attribute__", "__attribute", "__declspec"):
                self.attribute(said)
            else:
                break
        if said.odd:
            raise Unknown(f"attribute {said.odd!r} is not known here")
        if token == "(" and self._nests(tokens[self.at + 1]):
            inside = self.at + 1
            self.at = self.closing(self.at)
            node = self._suffixes(node, const)
            after, self.at = self.at, inside
            const = const and node.kind == "array"
            name, node, const = self.declarator(node, const)
            self.expect(")")
            self.at = after
            return name, node, const
        name, named = None, -1
        if self.names(token):
            name, named = token, self.at
            self.at += 1
            while tokens[self.at] == "[" == tokens[self.at + 1]:
                self.at = self.closing(self.at)
        if tokens[self.at] in ("(", "["):
            node = self._suffixes(node, const)
        self.named = named
        return name, said.type(node), const

    def _nests(self, token: str) -> bool:
        """Whether a parenthesis before `token` holds a declarator and not parameters."""
        if token in ("*", "(", "__attribute__", "__cdecl", "["):
            return True
        if not self.names(token) or self.starts_type(token):
            return False
        if self.tokens[self.at + 2] not in (")", "(", "["):
            self.at += 1
            raise self.no_type(self.at)
        return True

    def _suffixes(self, node: Node, const: bool) -> Node:
        """`node` with the brackets that follow a name."""
        if self.tokens[self.at] == "[" and self.tokens[self.at + 1] != "[":
            self._dimensions += 1
            if self._dimensions > MAX_DEPTH:
                raise Unknown(f"nested more than {MAX_DEPTH} levels deep", self.at)
            opening = self.at
            self.at += 1
            while WORDS.get(self.tokens[self.at], ("",))[0] in ("const", "ignored", "storage"):
                self.at += 1
            length: int | None = None
            written = ""
            if self.tokens[self.at] == "*" and self.tokens[self.at + 1] == "]":
                self.at += 1
            elif self.tokens[self.at] != "]":
                closing = self.closing(opening) - 1
                begun = self.at
                try:
                    length = self.integer()
                except Unknown:
                    if not self._in_parameters:
                        raise
                    written = self._length(begun, closing)
                    self.at = closing
            self.expect("]")
            node = self._suffixes(node, const)
            self._dimensions = 0
            known = node.reason or node.is_kept  # why its size is not known
            if node.size is None and not known and not _has_variable_length(node):
                raise Unknown("an array's elements have no size that is known", opening)
            return ArrayOf(node, length, written)
        if self.accept("("):
            return self._function(node, const)
        return node

    _in_parameters = False
    _dimensions = 0  # of the array that is being read

    def _length(self, start: int, end: int) -> str:
        """The length of a parameter as it is written, where that is no constant."""
        for at in range(start, end):
            token = self.tokens[at]
            if token in _NO_OPERATORS or not (token[0].isalnum() or token[0] in _OPERATORS):
                raise Unknown(f"unexpected {token!r}", at)
        return " ".join(self.tokens[start:end])

    def _function(self, result: Node, const: bool) -> Node:
        outer, self._in_parameters = self._in_parameters, True
        self._dimensions = 0
        args: list[Node] = []
        names: list[str | None] = []
        readonly: list[bool] = []
        lengths: list[int | str | None] = []
        ellipsis = False
        places: list[int] = []
        reason = ""
        if self.accept(")"):
            reason = NO_PROTOTYPE
        else:
            while True:
                start = self.at
                if self.accept("..."):
                    ellipsis = True
                    if self.tokens[self.at] != ")" or not args:
                        reason = "'...' ends the arguments of a function, after others"
                        raise Unknown(reason, start)
                    self.at += 1
                    break
                said, base = self.specifiers()
                name, node, constant = self.declarator(base, said.const)
                self.call(base, name)
                if said.storage:
                    raise Unknown(f"{said.storage!r} says nothing of a parameter", start)
                places.append(start if name is None else self.named)
                self.trailing(said)
                node = said.type(node)
                if name is not None and name in names:
                    raise Unknown(f"there is a parameter {name!r} before", self.named)
                length: int | str | None = None
                if isinstance(node, ArrayOf):
                    length = node.written or node.length
                    whole, node = node, _elements(node.item)
                    if whole.alignment > node.alignment:
                        node = node.realigned(whole.alignment)
                    node = node.pointer(constant)
                elif isinstance(node, PointerTo) and _has_variable_length(node.item):
                    node = _elements(node.item).pointer(node.const)
                elif isinstance(node, FunctionOf):
                    node = node.pointer()
                args.append(node)
                names.append(name)
                readonly.append(isinstance(node, PointerTo) and node.const)
                lengths.append(length)
                if self.accept(","):
                    continue
                self.expect(")")
                break
            if len(args) == 1 and args[0].kind == "void" and names == [None]:
                args, names, readonly, lengths, places = [], [], [], [], []
        self._in_parameters = outer
        result = self._suffixes(result, const)
        lengths = lengths if any(lengths) else []
        return FunctionOf(result, args, ellipsis, names, readonly, lengths, reason, places)

    def no_function(self) -> Unknown:
        """The error where the last declarator should have been a function's: in parentheses, the
        name of a type that nobody declared is taken for its own.
        """
        if self.named > 0 and self.tokens[self.named - 1 : self.named + 2 : 2] == ["(", ")"]:
            self.at = self.named
            return self.no_type(self.named)
        return Unknown("not a function", 0, "write 'double (double)'")

    # -- what was written -------------------------------------------------------------------------

    def written(self, start: int, end: int) -> str:
        """The tokens of a declaration as one line, without what is nothing to its caller."""
        tokens = self.tokens
        words: list[str] = []
        at = start
        while at < end:
            token = tokens[at]
            if token in ("__attribute__", "__attribute", "__declspec"):
                at = self.closing(at + 1)
                continue
            if token not in UNWRITTEN:
                words.append(token)
            at += 1
        text = " ".join(words)
        for found, wanted in _SPACING:
            text = text.replace(found, wanted)
        return text.replace("(*", " (*").replace("* ", "*")
