"""What begins declarations: types by their words, tags with bodies, attributes.

`Specifiers` is the part of the parser (parser.py) that reads them.
"""

from __future__ import annotations

import re
from abc import abstractmethod

from .._errors import SignatureError, did_you_mean
from .._types.ctype import SCALARS, WORD, Scalar, integer
from .._types.grammar import shown
from .._types.written import KEYWORDS
from .expression import Expressions
from .integers import Unclosed, Unknown, converted, of_int
from .lexer import BASIC, basic_type, tokenizer, typed_integer
from .nodes import (
    ANONYMOUS,
    BASICS,
    ArrayOf,
    Enumeration,
    FunctionOf,
    Node,
    Number,
    Record,
    Unusable,
    name_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_GREATEST_ALIGNMENT = 1 << 28  # that compilers take
_MAX_ALIGNMENT = 16  # what 'aligned' without a number asks for

# The words that can begin a declaration: what kind of word each is, and what it stands for.
WORDS: dict[str, tuple[str, str]] = {word: ("basic", word) for word in BASIC}
for _kind, _meant, _spelled in (
    ("basic", "signed", "__signed __signed__"),
    ("basic", "_Complex", "__complex __complex__"),
    ("const", "", "const __const __const__"),
    ("ignored", "", "volatile __volatile __volatile__ restrict __restrict __restrict__ auto"),
    ("ignored", "", "__extension__ register _Noreturn _Thread_local __thread thread_local"),
    ("ignored", "", "__cdecl __stdcall _Nonnull _Nullable constexpr"),
    ("inline", "", "inline __inline __inline__"),
    ("storage", "typedef", "typedef"),
    ("storage", "extern", "extern"),
    ("storage", "static", "static"),
    ("record", "", "struct union"),
    ("enum", "", "enum"),
    ("typeof", "", "typeof __typeof __typeof__ typeof_unqual"),
    ("attribute", "", "__attribute__ __attribute __declspec"),
    ("alignas", "", "_Alignas alignas"),
    ("atomic", "", "_Atomic"),
):
    WORDS |= dict.fromkeys(_spelled.split(), (_kind, _meant))
ASM = ("__asm__", "__asm", "asm")
UNWRITTEN = {word for word, (kind, _) in WORDS.items() if kind in ("ignored", "inline")}
UNWRITTEN |= {"extern", "static"}
_RESERVED = {*WORDS, *KEYWORDS} - {"bool", "complex"}
# Attributes that change how a function is called, or a struct laid out, in ways not known here.
_ODD = frozenset(
    ("ms_abi", "sysv_abi", "stdcall", "fastcall", "thiscall", "vectorcall", "regparm", "pcs")
    + ("aarch64_vector_pcs", "scalar_storage_order", "ms_struct", "interrupt", "transparent_union")
)
TRANSPARENT = "transparent_union"  # passed as its first member
_MODES = {"QI": 1, "byte": 1, "HI": 2, "SI": 4, "DI": 8, "word": WORD, "pointer": WORD}
OTHER_TYPES: dict[str, Node] = {
    "_Float16": Number(SCALARS["e"], cname="_Float16"),
    "__fp16": Number(SCALARS["e"], cname="_Float16"),
    "_Float32": BASICS["float"],
    "_Float64": BASICS["double"],
    "_Float32x": BASICS["double"],
    "_Float64x": BASICS["long double"],
    "__builtin_va_list": Unusable(
        "a 'va_list' cannot be made outside C",
        24 if WORD == 8 else None,
        WORD,
        "__builtin_va_list",
    ),
    **{
        name: Unusable(f"type {name!r} is not supported", size, size, name)
        for size, names in (
            (2, "__bf16"),
            (4, "_Decimal32"),
            (8, "_Decimal64"),
            (16, "_Float128 __float128 _Decimal128 __int128 __int128_t __uint128_t _Float128x"),
        )
        for name in names.split()
    },
}


def _alignment(word: str) -> int:
    """The number that a word is, -1 where it is none."""
    try:
        return typed_integer(word)[0]
    except (ValueError, OverflowError):
        return -1


def _has_no_length(node: Node) -> bool:
    return isinstance(node, ArrayOf) and node.length is None


class DeclSpecifiers:
    """What specifiers and attributes say beside the type."""

    const = packed = False
    storage = asm = mode = odd = ""
    aligned = vector = 0

    def copy(self) -> DeclSpecifiers:
        made = DeclSpecifiers()
        made.__dict__.update(self.__dict__)
        return made

    def type(self, node: Node) -> Node:
        """The type with the attributes that make another one of it."""
        if self.mode:
            size = _MODES.get(self.mode)
            if not isinstance(node, Number) or node.scalar.kind != "int" or size is None:
                raise Unknown(f"mode {self.mode!r} is not known")
            return Number(integer(size, node.scalar.signed))
        if self.vector:
            return Unusable("a vector type cannot be passed", self.vector, self.vector)
        return node

    def realigned(self, node: Node, name: str) -> Node:
        """The type that a typedef with these attributes names."""
        node = self.type(node)
        if self.aligned and self.aligned != node.alignment and node.kind != "function":
            node = node.realigned(self.aligned, name)
        return node


class Specifiers(Expressions):
    """What reads what begins declarations.

    `strict`: what C forbids, and what a text may not say, is `Unknown`; else C is taken to be as a
    compiler takes it, and what is odd is left out.
    """

    strict = False
    functions: dict[str, tuple[FunctionOf, int, int]]
    variables: dict[str, tuple[Node, bool, int]]
    typedefs: dict[str, tuple[Node, bool]]
    tags: dict[str, Node]
    _declared: dict[str, tuple[str, Node, bool]]
    skipped: dict[str, tuple[str, int]]
    at: int  # the token that is next
    named: int  # the token that the last declarator names
    _unnamed = 0
    _pack = 0  # what '#pragma pack' says

    def __init__(self) -> None:
        self._open: list[Record] = []  # whose bodies are being read
        self._packs: list[tuple[str, int]] = []

    @abstractmethod
    def declarator(self, node: Node, const: bool) -> tuple[str | None, Node, bool]:
        """A name, if there is one, and what it is declared as, and whether that is `const`."""

    def closing(self, at: int) -> int:
        """The index after the bracket that closes the one at `at`."""
        tokens, opening = self.tokens, at
        depth = 0
        while True:
            token = tokens[at]
            if token in ("(", "[", "{"):
                depth += 1
            elif token in (")", "]", "}"):
                depth -= 1
            elif not token:
                raise Unclosed(opening, tokens[opening])
            at += 1
            if depth <= 0:
                return at

    def pragma(self) -> None:
        """Take ``#pragma pack(…)`` as gcc does, which ignores what it cannot read; leave others."""
        words = tokenizer()(self.tokens[self.at])
        self.at += 1
        if words[2:4] != ["pack", "("] or words[-1] != ")":
            return
        action, *given = [word for word in words[4:-1] if word != ","] or ["0"]
        commas = words[4:-1].count(",")
        label, number = "", -1
        for word in given:
            if word[0].isalpha() and not label:
                label = word
            elif word[0].isdigit() and action == "push" and number < 0:
                number = _alignment(word)
            else:
                return
        if commas != len(given) or (action not in ("push", "pop") and given):
            return
        if action == "pop":
            known = label and label in [one for one, _ in self._packs]
            while self._packs:
                found, self._pack = self._packs.pop()
                if not known or found == label:
                    break
            return
        is_push = action == "push"
        number = number if is_push else _alignment(action)
        number = self._pack if is_push and len(given) == bool(label) else number
        if number not in (0, 1, 2, 4, 8, 16):
            return  # compilers warn of it
        if is_push:
            self._packs.append((label, self._pack))
        self._pack = number

    def specifiers(self) -> tuple[DeclSpecifiers, Node]:
        """The type that words name, and what they say beside it."""
        tokens = self.tokens
        said = DeclSpecifiers()
        basic: list[str] = []
        node: Node | None = None
        start = first = self.at
        while True:
            token = tokens[self.at]
            word = WORDS.get(token)
            if word is None:
                if node is None and not basic and token in self.typedefs:
                    node, const = self.typedefs[token]
                    if node.main is not None and node.size is None:  # its body may have come since
                        node = node.main.realigned(node.alignment, node.typedef)
                    said.const = said.const or const
                    self.at += 1
                    continue
                if token == "[" and tokens[self.at + 1] == "[":
                    self.at = self.closing(self.at)
                    continue
                break
            kind, meant = word
            if kind == "attribute":
                self.attribute(said)
                continue
            self.at += 1
            if kind == "basic":
                first = first if basic else self.at - 1
                basic.append(meant)
            elif kind == "const":
                said.const = True
            elif kind == "storage":
                if said.storage:
                    both = f"'{said.storage} {meant}'"
                    raise Unknown(f"{both} cannot be said of one thing", self.at - 1)
                said.storage = meant
            elif kind == "record":
                node = self._record(token)
            elif kind == "enum":
                node = self._enum()
            elif kind == "typeof":
                node = self._typeof()
            elif kind == "alignas":
                said.aligned = max(said.aligned, self._alignas())
            elif kind == "atomic" and self.accept("("):
                node = self.type_name()
                self.expect(")")
        if basic:
            found = basic_type(basic)
            if node is not None and basic == ["_Complex"]:
                raise Unknown("a complex type that is not known")
            if node is not None:
                raise Unknown(f"C has no type {' '.join(tokens[start : self.at])!r}", start)
            if found is None:
                raise Unknown(f"C has no type {' '.join(basic)!r}", first)
            node = BASICS[found]
        if node is None:
            raise self.no_type(start)
        node = said.type(node)
        said.mode, said.vector = "", 0
        return said, node

    def no_type(self, start: int) -> Unknown:
        """The error where a type should be, after words that begin at `start`."""
        token = self.tokens[self.at]
        if token.isidentifier() and token not in KEYWORDS:
            hint = "declare it with typedef first"
            if self.strict:  # a header has many such names, and nobody asks for most of them
                from difflib import get_close_matches

                known = sorted({*BASIC, *self.typedefs})
                hint += did_you_mean(get_close_matches(token, known, n=2, cutoff=0.76))
            return Unknown(f"unknown type name {token!r}", self.at, hint)
        if self.at > start:
            return Unknown(f"expected a type after {self.tokens[self.at - 1]!r}", start)
        return Unknown(f"expected a type, found {shown(token)}", self.at)

    def _typeof(self) -> Node:
        self.expect("(")
        token = self.tokens[self.at]
        if self.starts_type(token):
            node = self.type_name()
        elif self.tokens[self.at + 1] == ")" and token in self.functions:
            node = self.functions[token][0]
            self.at += 1
        elif self.tokens[self.at + 1] == ")" and token in self.variables:
            node = self.variables[token][0]
            self.at += 1
        else:
            raise Unknown("the type of an expression is not known")
        self.expect(")")
        return node

    def _alignas(self) -> int:
        self.expect("(")
        if self.starts_type(self.tokens[self.at]):
            found = self.type_name().alignment
        else:
            found = self.alignment()
        self.expect(")")
        return found

    def alignment(self) -> int:
        """The alignment that is written next."""
        start = self.at
        found = self.integer()
        if found < 0 or found & (found - 1) or found > _GREATEST_ALIGNMENT:
            raise Unknown(f"an alignment is a power of two, at most 2**28 (found {found})", start)
        return found

    def attribute(self, said: DeclSpecifiers) -> None:
        """Take one ``__attribute__((…))``."""
        tokens, start = self.tokens, self.at
        if tokens[start + 1] != "(":
            raise Unknown("expected '(…)' after an attribute", start)
        end = self.closing(start + 1)
        self.at = start + (3 if tokens[start + 2] == "(" else 2)
        while self.at < end:
            name = tokens[self.at].strip("_")
            self.at += 1
            given = tokens[self.at] == "("
            after = self.closing(self.at) if given else self.at
            if name == "packed":
                said.packed = True
            elif name == "aligned":
                self.at += 1
                said.aligned = max(said.aligned, self.alignment() if given else _MAX_ALIGNMENT)
            elif name == "mode" and given:
                said.mode = tokens[self.at + 1].strip("_")
            elif name == "vector_size":
                self.at += 1
                said.vector = self.integer()
            elif name in _ODD:
                said.odd = name
            self.at = after
        self.at = end

    def trailing(self, said: DeclSpecifiers) -> None:
        """Take attributes and an `__asm__` name after a declarator."""
        tokens = self.tokens
        while True:
            token = tokens[self.at]
            if token in ("__attribute__", "__attribute"):
                self.attribute(said)
            elif token in ASM and tokens[self.at + 1] == "(":
                self.at += 2
                name = ""
                while not self.accept(")"):
                    name += tokens[self.at].strip('"')
                    self.at += 1 if tokens[self.at] else self._end()
                said.asm = name
            elif token == "[" and tokens[self.at + 1] == "[":
                self.at = self.closing(self.at)
            elif token in ("__extension__", "_Noreturn"):
                self.at += 1
            else:
                return

    def names(self, token: str) -> bool:
        """Whether a token is a name, and no word of C's."""
        return token.isidentifier() and token not in _RESERVED

    def assertion(self) -> bool:
        """Take a ``_Static_assert``, if one is next: what it asserts must hold where it is known
        here.
        """
        start = self.at
        if self.tokens[start] not in ("_Static_assert", "static_assert"):
            return False
        self.at += 1
        self.expect("(")
        end = self.closing(start + 1)
        try:
            holds = bool(self.expression()[0])
        except Unknown:
            holds = True
        if not holds:
            said = self.tokens[self.at + 1] if self.tokens[self.at] == "," else ""
            raise Unknown(f"a static assertion fails{': ' * bool(said)}{said}", start)
        self.at = end
        self.expect(";")
        return True

    def _tagged(self, said: DeclSpecifiers, kind: str) -> str:
        """The tag after `struct`, `union` or `enum`, and attributes; a made one without a tag."""
        self.trailing(said)
        while self.tokens[self.at] == "__declspec":
            self.attribute(said)
        token = self.tokens[self.at]
        if self.names(token):
            for other in {"struct", "union", "enum"} - {kind}:
                found = self.tags.get(f"{other} {token}")
                if found is not None and not found.is_kept:
                    raise Unknown(f"{other} {token!r} is declared before", self.at)
            self.at += 1
            return token
        if token != "{" and (kind, token) != ("enum", ":"):
            raise Unknown(f"expected a name or '{{', found {shown(token)}", self.at)
        self._unnamed += 1
        return f"{ANONYMOUS}{self._unnamed}_"

    def call(self, node: Node, name: str | None) -> None:
        """Have messages call a struct or union without a tag by what is declared with it."""
        if name and ANONYMOUS in node.cname and node.cname[-1] == "_" and node.kind != "enum":
            node.cname += name

    def _record(self, kind: str) -> Node:
        said = DeclSpecifiers()
        tag = self._tagged(said, kind)
        named = self.at - 1
        record = self.tags.get(f"{kind} {tag}")
        if not isinstance(record, Record):
            record = Record(kind, tag)
            self.tags[record.cname] = record
        if self.tokens[self.at] != "{":
            return record
        if not record.is_kept and (record.fields is not None or record in self._open):
            raise Unknown(f"{kind} {tag!r} has another body before", named)
        if record.is_kept:
            record = self.tags[f"{kind} {tag}"] = Record(kind, tag)
        end = self.closing(self.at)
        self._open.append(record)
        try:
            members = self._members(kind)
            self.trailing(said)
            record.transparent = said.odd == TRANSPARENT
            if said.odd and not record.transparent:
                raise Unknown(f"attribute {said.odd!r} is not known here")
            if said.packed:
                members = [(*one[:4], True) for one in members]
            record.lay_out(members, said.aligned, self._pack)  # what is said at its end
            if self.strict and record.reason:
                raise Unknown(f"{name_of(record)} has no size: {record.reason}", named)
        except (Unknown, SignatureError) as error:
            if self.strict:
                raise
            record.reason = error.reason
            record.size = record.fields = None
            self.at = end
            self.trailing(said)
        self._open.pop()
        return record

    def _members(self, kind: str) -> list[tuple[str | None, Node, int | None, int, bool]]:
        tokens = self.tokens
        members: list[tuple[str | None, Node, int | None, int, bool]] = []
        seen: set[str] = set()
        self.expect("{")
        while not self.accept("}"):
            token = tokens[self.at]
            if token[:1] == "#":
                self.pragma()
                continue
            if token == ";":
                self.at += 1
                continue
            if self.assertion():
                continue
            start = self.at
            said, node = self.specifiers()
            if said.storage:
                raise Unknown(f"{said.storage!r} says nothing of a member", start)
            if members and _has_no_length(members[-1][1]) and kind == "struct":
                raise Unknown("an array of unknown length ends a struct", start)
            if tokens[self.at] == ";":
                if isinstance(node, Record) and ANONYMOUS in node.cname:
                    self._once(node.names(), seen, start)
                    members.append((None, node, None, said.aligned, said.packed))
                continue
            while True:
                one = said.copy()
                name, found = None, node
                if tokens[self.at] != ":":
                    name, found, _ = self.declarator(node, said.const)
                    self.call(node, name)
                    if name is None:
                        raise Unknown(f"expected a member, found {shown(tokens[self.at])}", self.at)
                    self._once([name], seen, self.named)
                width = self.integer() if self.accept(":") else None
                what = found.scalar.kind if isinstance(found, Number) else ""
                if width is not None and what not in ("int", "bool"):
                    raise Unknown("a bit-field is an integer")
                if (width == 0 and name is not None) or (what == "bool" and (width or 0) > 1):
                    raise Unknown(f"the bit-field {name!r} has {width} bits")
                self.trailing(one)
                members.append((name, one.type(found), width, one.aligned, one.packed))
                if not self.accept(","):
                    break
            self.expect(";")
        return members

    def _once(self, names: Iterable[str], seen: set[str], at: int) -> None:
        """Take the names of members; the same one again is refused."""
        for name in names:
            if name in seen:
                raise Unknown(f"there is a member {name!r} before", at)
            seen.add(name)

    def _enum(self) -> Node:
        said = DeclSpecifiers()
        tag = f"enum {self._tagged(said, 'enum')}"
        named = self.at - 1
        fixed: Scalar | None = None
        # What is no type is the width of a bit-field without a name.
        if self.tokens[self.at] == ":" and not re.match(r"[\d(]", self.tokens[self.at + 1]):
            self.at += 1
            start = self.at
            _, node = self.specifiers()
            fixed = node.scalar if isinstance(node, Number) else None
            if fixed is None or fixed.kind not in ("int", "bool"):
                raise Unknown("the type of an enum is an integer", start)
        if self.tokens[self.at] != "{":
            known = self.tags.get(tag)
            return known or self.tags.setdefault(tag, Enumeration(tag, fixed or SCALARS["I"]))
        before = self.tags.get(tag)
        if isinstance(before, Enumeration) and before.values is not None and not before.is_kept:
            raise Unknown(f"{tag!r} has another body before", named)
        self.at += 1
        least = greatest = 0
        value = -1
        values: list[tuple[str, int]] = []
        unknown = missing = ""  # the last enumerator without a value, and why the first has none
        first = self.at
        while self.at == first or not self.accept("}"):
            name, begun = self.tokens[self.at], self.at
            if not self.names(name):
                raise Unknown(f"expected an enumerator, found {shown(name)}", self.at)
            self.at += 1
            self.trailing(DeclSpecifiers())
            start = self.at
            try:
                if name in self.values or name in self._declared:
                    for kind in (self.values, self.functions, self.variables):
                        kind.pop(name, None)
                    raise Unknown(f"{name!r} is declared before", begun)
                if not self.accept("=") and unknown:
                    raise Unknown(f"it follows {unknown!r}")
                value = self.integer() if self.at > start else value + 1
                made = of_int(value)
                if fixed is not None:
                    fits = converted(made, 8 * fixed.size, fixed.signed)[0] == value
                else:
                    fits = self.at > start or value != 2**63
                if not fits:
                    raise Unknown(f"{value} is beyond the type of the enum", start)
                if self.tokens[self.at] not in (",", "}"):
                    found = shown(self.tokens[self.at])
                    raise Unknown(f"expected ',' or '}}', found {found}", self.at)
            except (Unknown, SignatureError) as error:
                if self.strict:
                    raise
                unknown = name
                missing = missing or (
                    f"the value of its enumerator {name!r} is not known: {error.reason}"
                )
                self.skipped[name] = f"an enumerator without a value: {error.reason}", start - 1
                self.at = start
                while self.tokens[self.at] not in (",", "}"):
                    self.at = self.closing(self.at)
            else:
                unknown = ""
                least, greatest = min(least, value), max(greatest, value)
                self.values[name] = made
                values.append((name, value))
            self.accept(",")
        self.trailing(said)
        if missing and fixed is None:
            self.tags[tag] = Unusable(missing)
            return self.tags[tag]
        if fixed is None:
            signed = least < 0
            sizes = [
                size
                for size in ((1, 2, 4) if said.packed else (4,))
                if greatest < 2 ** (8 * size - signed) and -least <= 2 ** (8 * size - 1)
            ]
            fixed = integer(sizes[0] if sizes else 8, signed)
        enumeration = Enumeration(tag, fixed, values)
        before = self.tags.get(tag)
        if isinstance(before, Enumeration) and not before.is_kept:
            # Pointers to it may have been made before.
            vars(before).update(vars(enumeration), _pointers=before._pointers)
            enumeration = before
        self.tags[tag] = enumeration
        return enumeration
