"""C declarations: text to signatures and types by way of cffi's parser, and types back to cffi.

    parse_function("double (double x, const float *)")     -> Signature
    parse_declarations("typedef struct {…} p; p f(p);")    -> Declarations
    from_ffi(cffi type) -> CType or Signature              the one mapping, which both of these use
    to_ffi(CType or Signature) -> cffi type                of an FFI that all share, `ffi()`

A declaration passes three stages. `CSource` blanks what has no bearing on types without moving a
column. pycparser's tree gives the order, the names, `const` and the places for messages. cffi
resolves the types, from text generated off that tree. Nothing of cffi's or pycparser's own errors
gets through: all is `SignatureError` with a line and a column of the text that was given.

cffi and pycparser are imported by the functions that need them.
"""

from __future__ import annotations

from .._errors import SignatureError
from .cconstant import Unknown, evaluate, of_int
from .cffitype import (
    ANONYMOUS,
    MAX_SCALARS,
    STAND_INS,
    Converter,
    ffi,
    from_ffi,
    is_variadic,
    to_ffi,
)
from .csource import INTEGER, KEYWORDS, CSource, integer
from .ctype import MAX_DEPTH, MAX_TEXT, CType, Struct
from .signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Declarations", "ffi", "from_ffi", "parse_declarations", "parse_function", "to_ffi"]

# Names that C code for Python takes for granted, beyond <stdint.h>, <stddef.h> and <stdio.h>.
_KNOWN_TYPEDEFS = {
    "PyObject": "struct _object",
    "Py_ssize_t": "ssize_t",
    "npy_intp": "intptr_t",
    "npy_uintp": "uintptr_t",
    "char8_t": "unsigned char",
    "_Float32": "float",
    "_Float64": "double",
    "__nc_Zf": "float _Complex",
    "__nc_Zd": "double _Complex",
    "__nc_Zg": STAND_INS["__nc_Zg"][1],
    "__nc_e": STAND_INS["__nc_e"][1],
}
# What the words that stand for other types mean, for messages.
_SPELLINGS = {
    "__nc_Zf": "float _Complex",
    "__nc_Zd": "double _Complex",
    "__nc_Zg": "long double _Complex",
    "__nc_e": "_Float16",
}
_ALL = "__nc_all"
_MAX_LEVELS = 2 * MAX_DEPTH  # in C, where a typedef is one of its own
_MAX_SPELLED = 4 * MAX_TEXT  # characters of a type in C


class Declarations:
    """What a text of C declarations declares, in its order.

    Attributes
    ----------
    functions : dict of str to Signature
    variables : dict of str to CType
    readonly : frozenset of str
        Those of the variables that are `const`.
    typedefs : dict of str to CType
        Typedefs of complete types; a typedef of a function is a `FunctionPointer`.
    structs : dict of str to Struct
        Structs by tag.
    opaque : tuple of str
        Incomplete types, unions and the like, which are usable behind pointers only, as C calls
        them: ``"handle_t"``, ``"union value"``.
    constants : dict of str to int
        Enumerators, integer macros and initialised constants.
    refused : dict of str to SignatureError
        Why there is nothing of a function, or of a pointer to one, that takes or returns too much
        by value.
    """

    __slots__ = (
        "constants",
        "functions",
        "opaque",
        "readonly",
        "refused",
        "structs",
        "typedefs",
        "variables",
    )

    def __init__(self) -> None:
        self.functions: dict[str, Signature] = {}
        self.variables: dict[str, CType] = {}
        self.readonly: frozenset[str] = frozenset()
        self.typedefs: dict[str, CType] = {}
        self.structs: dict[str, Struct] = {}
        self.opaque: tuple[str, ...] = ()
        self.constants: dict[str, int] = {}
        self.refused: dict[str, SignatureError] = {}

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{len(getattr(self, kind))} {kind}"
            for kind in self.__slots__
            if kind != "readonly" and getattr(self, kind)
        )
        return f"<Declarations: {counts or 'none'}>"


def _known_names(source: CSource) -> list[str]:
    """The names in `source` that are types without being declared there."""
    from cffi.commontypes import COMMON_TYPES

    words = {token for token, _ in source.tokens}
    known = (COMMON_TYPES.keys() | _KNOWN_TYPEDEFS.keys()) - KEYWORDS | {"bool"}
    return sorted(words & known)


def _syntax_tree(source: CSource, before: str = "", after: str = "") -> list[Any]:
    """pycparser's nodes for `before` + `source` + `after`, without those of known names."""
    import pycparser

    known = _known_names(source)
    lines = [f"typedef int {name};" for name in known]
    lines += [f'{before}\n# 1 "c"', f"{source.clean}\n{after}\n"]
    try:
        tree = pycparser.CParser().parse("\n".join(lines), "before")
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        # Whatever another parser raises on a malformed text, the text is at fault.
        raise _syntax_error(source, str(error), known) from None
    return list(tree.ext[len(known) :])


def _syntax_error(source: CSource, message: str, known: Sequence[str]) -> SignatureError:
    """pycparser's complaint in our words, at its place in the source."""
    import re

    tokens = source.tokens
    match = re.match(r"c:(\d+):(\d+): ", message)
    if match is not None:
        at = source.index(int(match.group(1)), int(match.group(2)))
        index = max([i for i, (_, start) in enumerate(tokens) if start <= at], default=0)
        if tokens and at <= tokens[-1][1]:
            for i in (index - 1, index):
                if i >= 0 and _looks_unknown(source, i, known):
                    return _unknown_type(source, *tokens[i])
            found, start = tokens[index]
            return source.error(f"unexpected {_SPELLINGS.get(found, found)!r}", start)
    elif "end of input" not in message.lower():
        # pycparser does not say where, so the commonest mistakes are looked for.
        for i in range(len(tokens)):
            if _looks_unknown(source, i, known):
                return _unknown_type(source, *tokens[i])
            if tokens[i][0] == "," and (i == 0 or tokens[i - 1][0] in ("(", ",", "{", ";")):
                return source.error("unexpected ','", tokens[i][1])
        return source.error("not a C declaration", source.first())
    return source.error("unexpected end of the declaration", source.end())


def _looks_unknown(source: CSource, index: int, known: Sequence[str]) -> bool:
    """Whether a token stands like the name of a type that nothing before it declares."""
    tokens = source.tokens
    word = tokens[index][0]
    before = tokens[index - 1][0] if index else ";"
    after = tokens[index + 1][0] if index + 1 < len(tokens) else ""
    if not _is_name(word) or word in KEYWORDS or word in known:
        return False
    if before not in (";", "(", ",", "{", "}", "const", "extern", "static", "typedef"):
        return False
    if after != "*" and not _is_name(after):
        return False
    return not any(
        [tokens[i][0] == word and tokens[i + 1][0] in (";", ",", ")") for i in range(index)]
    )


def _is_name(token: str) -> bool:
    return token[:1].isalpha() or token[:1] == "_"


def _unknown_type(source: CSource, name: str, at: int) -> SignatureError:
    return source.error(f"unknown type name {name!r}", at, "declare it with typedef first")


class _Tree:
    """Declarations ready for cffi: what they declare, and the text that makes cffi know the types.

    Each declared thing becomes a member of one struct, as a pointer to it, so that cffi resolves
    all of them in one go and hands them out by position.
    """

    def __init__(self, source: CSource) -> None:
        from pycparser import c_ast, c_generator

        self.source = source
        self.ast = c_ast
        self.constants: dict[str, int] = {name: it[0] for name, it in source.macros.items()}
        self._values = dict(source.macros)  # of constants, with their types
        self.typedef_nodes: dict[str, Any] = {}
        self.tags: list[tuple[str, Any]] = []  # (cffi name, node) of bodies, in order
        self.packed: set[Any] = set()  # cffi's types of the packed structs, once resolved
        self.lines: list[str] = []
        self.line_nodes: list[Any] = []
        self.members: list[tuple[str, str, Any]] = []  # what, name, node
        self.member_lines: list[str] = []
        self._seen: set[int] = set()
        self._bodies = 0
        self._functions: list[tuple[Any, str]] = []  # (node, name of what it declares)
        self._member_of: dict[int, int] = {}  # by the identity of a node: what is made of it alone
        self.refused: dict[str, SignatureError] = {}  # by the name of a member that is left out
        self._spelled: dict[str, tuple[int, int]] = {}  # of typedefs
        self._packed_nodes: set[int] = set()
        self._anonymous = 0
        tree = self

        # Whether pycparser has types depends on its version.
        class Generator(c_generator.CGenerator):  # type: ignore[misc,unused-ignore]
            """Writes the body of a struct, union or enum once, and its tag from then on."""

            def visit_Struct(self, node: Any) -> str:
                return tree._record(node, "struct", super().visit_Struct)

            def visit_Union(self, node: Any) -> str:
                return tree._record(node, "union", super().visit_Union)

            def visit_Enum(self, node: Any) -> str:
                return tree._record(node, "enum", super().visit_Enum)

        self._generator = Generator()
        self._written: set[int] = set()

    def _record(self, node: Any, kind: str, visit: Any) -> str:
        if id(node) in self._written and node.name:
            return f"{kind} {node.name}"
        self._written.add(id(node))
        return str(visit(node))

    def write(self, node: Any) -> str:
        """`node` in C, on one line."""
        return _one_line(self._generator.visit(node))

    def error(self, reason: str, node: Any, hint: str | None = None) -> SignatureError:
        """The error for what `node` declares."""
        coord = getattr(node, "coord", None)
        if coord is None or coord.file != "c":
            return self.source.error(reason, self.source.first(), hint)
        at = self.source.index(coord.line, coord.column or 1)
        return self.source.error(reason, at, hint)

    def prepare(self, node: Any, hint: str | None = None, member: bool = False) -> None:
        """Give every body a tag, note packed ones, and forget the lengths of array parameters."""
        c_ast = self.ast
        if isinstance(node, c_ast.FuncDef):
            raise self.error("a function body is not a declaration", node, "end it with ';'")
        if isinstance(node, (c_ast.Struct, c_ast.Union, c_ast.Enum)):
            if id(node) in self._seen:
                return
            self._seen.add(id(node))
            body = node.values if isinstance(node, c_ast.Enum) else node.decls
            if body is not None:
                self._tag(node, hint, member)
            if isinstance(node, c_ast.Enum) and body is not None:
                self._enumerators(body.enumerators)
        elif isinstance(node, c_ast.ParamList):
            for parameter in node.params:
                if isinstance(parameter, c_ast.ID):
                    at = self.source.index(parameter.coord.line, parameter.coord.column)
                    raise _unknown_type(self.source, parameter.name, at)
                if isinstance(getattr(parameter, "type", None), c_ast.ArrayDecl):
                    parameter.type.dim = None
                    parameter.type.dim_quals = []
        elif isinstance(node, c_ast.FuncDecl):
            self._check_prototype(node)
            self._functions.append((node, hint or ""))
        elif isinstance(node, c_ast.ArrayDecl) and node.dim is not None:
            node.dim = self._evaluated(node.dim, node)
        if isinstance(node, (c_ast.Typedef, c_ast.Decl)):
            hint = node.name or hint
        if isinstance(node, c_ast.Decl) and node.bitsize is not None:
            node.bitsize = self._evaluated(node.bitsize, node)
        record = isinstance(node, (c_ast.Struct, c_ast.Union))
        for child in self._in_text_order(node):
            unnamed = record and isinstance(child, c_ast.Decl) and child.name is None
            self.prepare(child, hint, unnamed or (member and isinstance(node, c_ast.Decl)))

    def _evaluated(self, expression: Any, node: Any) -> Any:
        """A constant expression as one number; as it is where only cffi may know its value."""
        try:
            value = evaluate(expression, self._values)[0]
        except Unknown as error:
            if str(error):
                raise self.error(str(error), node) from None
            return expression
        return self.ast.Constant("int", str(value), expression.coord)

    def _enumerators(self, enumerators: list[Any]) -> None:
        """Compute the values of an enum."""
        value: int | None = -1
        for one in enumerators:
            if one.value is not None:
                one.value = self._evaluated(one.value, one)
                is_number = isinstance(one.value, self.ast.Constant)
                value = int(one.value.value) if is_number else None
            elif value is not None:
                value += 1
            if value is not None:
                try:
                    self._values[one.name] = of_int(value)
                except OverflowError as error:
                    raise self.error(str(error), one) from None

    def _in_text_order(self, node: Any) -> list[Any]:
        """The children of `node`, those of a function sorted as in the text."""
        if not isinstance(node, self.ast.FuncDecl):
            return [child for _, child in node.children()]
        parameters = []
        while not isinstance(node, self.ast.TypeDecl):
            if isinstance(node, self.ast.FuncDecl):
                self._check_prototype(node)
                parameters.append(node.args)
            node = node.type
        return [node, *parameters]

    def _check_prototype(self, node: Any) -> None:
        if node.args is None:
            reason = "'()' says nothing about the arguments"
            raise self.error(reason, node, "write '(void)' where there are none")

    def _tag(self, node: Any, hint: str | None, member: bool) -> None:
        enum = isinstance(node, self.ast.Enum)
        if not enum:
            if self._bodies in self.source.packed:
                self._packed_nodes.add(id(node))
            self._bodies += 1
        if node.name is None and member and not enum:
            if id(node) in self._packed_nodes:
                raise self.error("an unnamed member cannot be packed", node, "give it a name")
            return
        if node.name is None:
            node.name = f"{ANONYMOUS}{self._anonymous}_{hint or ''}"
            self._anonymous += 1
        self.tags.append((f"{type(node).__name__.lower()} {node.name}", node))

    def add(self, node: Any) -> None:
        """Take one external declaration."""
        c_ast = self.ast
        before = len(self.tags)
        functions = len(self._functions)
        self.prepare(node)
        for function, _ in self._functions[functions:]:
            self._check_spelled(function)
        if isinstance(node, c_ast.Typedef):
            self._spelled.setdefault(node.name, self._check_spelled(node))
        # Bodies first and in the order of the source: cffi wants an enum's before it is mentioned.
        for _, body in self.tags[before:]:
            if id(body) not in self._written:
                self._line(self._generator.visit(body) + ";", node)
        if isinstance(node, c_ast.Typedef):
            self.typedef_nodes.setdefault(node.name, node)
            self._line(self._generator.visit(node) + ";", node)
            self._member("typedef", node.name, f"{node.name} *", node)
        elif isinstance(node, c_ast.Decl) and node.name is None:
            self._line(self._generator.visit(node.type) + ";", node)
        elif isinstance(node, c_ast.Decl) and node.init is not None:
            self._constant(node)
        elif isinstance(node, (c_ast.Decl, c_ast.Typename)):
            if len(self.tags) == before:
                for function, _ in self._functions[functions:]:
                    self._member_of[id(function)] = len(self.members)
            self.declare("object", node.name or "", node.type, node)
        else:
            raise self.error("not a declaration of a function, type or variable", node)

    def declare(self, what: str, name: str, type_node: Any, node: Any) -> None:
        """Make a pointer to `type_node` a member."""
        import copy

        c_ast = self.ast
        pointer_to = copy.copy(type_node)
        inner = pointer_to
        while not isinstance(inner, c_ast.TypeDecl):
            inner.type = copy.copy(inner.type)
            inner = inner.type
        inner.declname = f"m{len(self.members)}"
        pointer_to = c_ast.PtrDecl([], pointer_to)
        declaration = c_ast.Decl(inner.declname, [], [], [], [], pointer_to, None, None)
        self.members.append((what, name, node))
        self.member_lines.append(_one_line(self._generator.visit(declaration)) + ";")

    def _member(self, what: str, name: str, specifier: str, node: Any) -> None:
        self.member_lines.append(f"{specifier}m{len(self.members)};")
        self.members.append((what, name, node))

    def _line(self, text: str, node: Any) -> None:
        self.lines.append(_one_line(text))
        self.line_nodes.append(node)

    def _constant(self, node: Any) -> None:
        """Take ``static const int name = 3;``."""
        import re

        literal = self._generator.visit(node.init)
        if not re.fullmatch(INTEGER, literal) or "const" not in node.quals:
            raise self.error(f"{node.name!r} is not an integer constant", node, "leave it out")
        try:
            self._values[node.name] = integer(literal)
        except OverflowError as error:
            raise self.error(str(error), node) from None
        self.constants[node.name] = self._values[node.name][0]

    def _check_spelled(self, node: Any) -> tuple[int, int]:
        """About how many characters and levels a type has with its typedefs written out.

        cffi gives every type such a name, which typedefs of typedefs can make as long as they like.
        """
        length, depth = self._spell(node)
        if depth > _MAX_LEVELS:
            reason = f"a type is nested more than {_MAX_LEVELS} levels deep with its typedefs"
            raise self.error(reason, node)
        if length > _MAX_SPELLED:
            reason = f"a type takes more than {_MAX_SPELLED} characters with its typedefs written"
            raise self.error(f"{reason} out", node)
        return length, depth

    def _spell(self, node: Any) -> tuple[int, int]:
        c_ast = self.ast
        if isinstance(node, (c_ast.Typedef, c_ast.Decl, c_ast.Typename, c_ast.TypeDecl)):
            return self._spell(node.type)
        if isinstance(node, c_ast.IdentifierType):
            length, depth = self._spelled.get(node.names[-1], (len(" ".join(node.names)), -1))
            return length, depth + 1
        if isinstance(node, c_ast.PtrDecl):
            length, depth = self._spell(node.type)
            return length + 1, depth + 1
        if isinstance(node, c_ast.ArrayDecl):
            levels = 0
            while isinstance(node, c_ast.ArrayDecl):
                node = node.type
                levels += 1
            length, depth = self._spell(node)
            return length + 8 * levels, depth + 1
        if isinstance(node, c_ast.FuncDecl):
            parts = [self._spell(part) for part in (node.type, *node.args.params)]
            return sum([n + 2 for n, _ in parts]), 1 + max([depth for _, depth in parts])
        return len(getattr(node, "name", None) or "") + len("struct "), 0

    def _check_by_value(self) -> None:
        """Leave out functions whose structs by value have more scalars than cffi should list.

        It describes every one for a call, before anything can be asked of the type. Where such a
        function is part of a type, the text is refused.
        """
        c_ast = self.ast
        bodies = {(type(node), node.name): node for _, node in reversed(self.tags)}
        found: dict[int, int] = {}  # by the identity of a body
        typedefs: dict[str, int] = {}

        def scalars(node: Any) -> int:
            """How many scalars a value consists of, or one more than there may be."""
            count = 1
            while True:
                if isinstance(node, c_ast.ArrayDecl):
                    if isinstance(node.dim, c_ast.Constant):
                        count = min(count * max(int(node.dim.value), 0), MAX_SCALARS + 1)
                elif not isinstance(node, (c_ast.Typedef, c_ast.Decl, c_ast.TypeDecl)):
                    break
                node = node.type
            if isinstance(node, c_ast.IdentifierType) and node.names[-1] in self.typedef_nodes:
                name = node.names[-1]
                if name not in typedefs:
                    typedefs[name] = scalars(self.typedef_nodes[name])
                count *= typedefs[name]
            elif isinstance(node, c_ast.Struct):
                body = node if node.decls is not None else bodies.get((type(node), node.name))
                count *= fields(body) if body is not None else 1
            return min(count, MAX_SCALARS + 1)

        def fields(body: Any) -> int:
            if id(body) not in found:
                found[id(body)] = 1  # for a struct that holds itself, which cffi refuses
                found[id(body)] = sum([scalars(field) for field in body.decls])
            return found[id(body)]

        for _, body in self.tags:
            # In the order of the text, so that a chain of structs is not a deep recursion.
            if isinstance(body, c_ast.Struct):
                fields(body)
        refused: dict[int, SignatureError] = {}
        for function, name in self._functions:
            total = 0
            of = f" of {name!r}" if name and not name.startswith(ANONYMOUS) else ""
            for index, part in enumerate((function, *function.args.params)):
                kind = getattr(part, "type", None)
                if kind is None or self._is_array(kind):
                    continue  # '...', and what is a pointer
                total += scalars(kind)
                if total > MAX_SCALARS:
                    label = getattr(part, "name", None)
                    who = f"parameter {label!r}" if label else f"parameter {index}"
                    error = self.error(
                        f"{who if index else 'the result'}{of} has too many scalars by value: "
                        f"a function takes and returns at most {MAX_SCALARS}",
                        part,
                        "pass a pointer to it",
                    )
                    if id(function) not in self._member_of:
                        raise error
                    refused.setdefault(self._member_of[id(function)], error)
                    break
        for member in sorted(refused, reverse=True):
            _, name, _ = self.members.pop(member)
            del self.member_lines[member]
            self.refused[name] = refused[member]

    def _is_array(self, node: Any) -> bool:
        while (target := self._typedef(node)) is not None:
            node = target
        return isinstance(node, self.ast.ArrayDecl)

    def packed_in_doubt(self) -> bool:
        """Whether the text and the tree disagree on how many bodies there are."""
        return bool(self.source.packed) and self._bodies != self.source.bodies

    def resolve(self) -> list[Any]:
        """cffi's types of the members, in order: pointers to what was declared."""
        import cffi

        if self.packed_in_doubt():
            raise self.source.error("cannot tell which struct is packed", self.source.first())
        for cname, node in self.tags:
            self._member("tag", cname, f"{cname} *", node)
        self._check_by_value()  # last, for the members are numbered
        if not self.members:
            return []
        lines = [f"#define {name} {value}" for name, value in self.constants.items()]
        lines += [
            f"typedef {_KNOWN_TYPEDEFS[name]} {name};"
            for name in _known_names(self.source)
            if name in _KNOWN_TYPEDEFS and name not in self.typedef_nodes
        ]
        prelude = len(lines)
        lines += self.lines
        try:
            parser = cffi.FFI()
        except RecursionError:
            raise
        except RuntimeError:
            raise MemoryError from None  # there is no room for its lock
        try:
            parser.cdef("\n".join([*lines, f"struct {_ALL} {{", *self.member_lines, "};"]))
            fields = parser.typeof(f"struct {_ALL}").fields
        except (RecursionError, MemoryError):
            raise
        except SystemError:
            raise MemoryError from None  # which cffi failed to say
        except Exception as error:
            # cffi raises half a dozen classes, some of them built-in, for what it cannot represent.
            raise self._cffi_error(error, prelude) from None
        types = [field.type for _, field in fields]
        for (what, _, node), ctype in zip(self.members, types, strict=True):
            if what == "tag" and id(node) in self._packed_nodes:
                self.packed.add(ctype.item)
        return types

    def _cffi_error(self, error: Exception, prelude: int) -> SignatureError:
        """cffi's complaint in our words, at the declaration that it is about."""
        import re

        message = str(error).split("\n")[0]
        match = re.search(r"(?:^|>):(\d+):", message)
        node = None
        if match is not None:
            line = int(match.group(1)) - 1 - prelude
            nodes = [*self.line_nodes, None, *[node for _, _, node in self.members]]
            node = nodes[line] if 0 <= line < len(nodes) else None
            message = message[match.end() :]
        hint = None
        if match := re.match(r"Unsupported type: '([^']*)'", message):
            words = [_SPELLINGS.get(word, word) for word in match.group(1).split()]
            message = f"type {' '.join(words)!r} is not supported"
        elif match := re.search(r"ctype '(?:struct |union )?(\w+)' has incomplete type", message):
            message = f"{match.group(1)!r} is not declared in full and cannot be passed by value"
            hint = "pass a pointer to it"
        else:
            message = re.sub(r"^<cdef source string>:? ?|\(for interactive.*", "", message)
            message = re.sub(rf"{ANONYMOUS}\w*|__nc_\w+", "unnamed", message).strip().rstrip(".")
            message = message[:1].lower() + message[1:]
        if node is None:
            return self.source.error(message, self._quoted_in(message), hint)
        return self.error(message, node, hint)

    def _quoted_in(self, message: str) -> int:
        """The index of the first word of the source that `message` quotes."""
        import re

        if match := re.match(r"(?:multiple|duplicate) declarations? of .*?(\w+)$", message):
            return [start for token, start in self.source.tokens if token == match.group(1)][-1]
        quoted = set(re.findall(r"\w+", " ".join(re.findall(r"'([^']*)'", message)))) - KEYWORDS
        starts = [start for token, start in self.source.tokens if token in quoted]
        return starts[0] if starts else self.source.first()

    def function_node(self, node: Any) -> Any:
        """The parameters and qualifiers of a function declared by `node`, through typedefs."""
        c_ast = self.ast
        for _ in range(MAX_DEPTH):
            if isinstance(node, c_ast.FuncDecl):
                return node
            if isinstance(node, c_ast.PtrDecl):
                node = node.type
                continue
            target = self._typedef(node)
            if target is None:
                return None
            node = target
        return None

    def _typedef(self, node: Any) -> Any:
        """What the typedef name that `node` consists of stands for, or `None`."""
        if isinstance(node, self.ast.TypeDecl) and isinstance(node.type, self.ast.IdentifierType):
            found = self.typedef_nodes.get(node.type.names[-1])
            return None if found is None else found.type
        return None

    def points_to_const(self, node: Any) -> bool:
        """Whether a parameter's type is a pointer to, or an array of, `const` things."""
        const = False
        while (target := self._typedef(node)) is not None:
            const = const or "const" in node.quals
            node = target
        if isinstance(node, self.ast.ArrayDecl):
            return const or self.is_const(node)
        return isinstance(node, self.ast.PtrDecl) and self.is_const(node.type)

    def is_const(self, node: Any) -> bool:
        """Whether what has the type `node`, or is an element of it, is const."""
        while isinstance(node, self.ast.ArrayDecl):
            node = node.type
        while isinstance(node, self.ast.TypeDecl):
            if "const" in node.quals:
                return True
            target = self._typedef(node)
            if target is None:
                return False
            node = target
        return isinstance(node, self.ast.PtrDecl) and "const" in node.quals

    def signature(self, convert: Converter, ctype: Any, node: Any, written: str) -> Signature:
        """The signature of a function of cffi's type `ctype`, which `node` declares."""
        function = self.function_node(node.type)
        parameters = list(function.args.params) if function is not None and function.args else []
        parameters = parameters[: len(ctype.args)]
        try:
            result = convert.type(ctype.result)
            args = []
            for index, arg in enumerate(ctype.args):
                place = parameters[index] if index < len(parameters) else node
                args.append(self.converted(convert, arg, place))
            return Signature(
                result,
                args,
                is_variadic(ctype),
                names=[getattr(p, "name", None) for p in parameters] or None,
                readonly=[self.points_to_const(p.type) for p in parameters] or None,
                written=written,
            )
        except SignatureError as error:
            if error.text is not None:
                raise
            raise self.error(error.reason, node, error.hint) from None

    def converted(self, convert: Converter, ctype: Any, node: Any) -> CType:
        """`convert.type`, with what it refuses reported at `node`."""
        try:
            return convert.type(ctype)
        except SignatureError as error:
            raise self.error(error.reason, node, error.hint) from None


def _one_line(text: str) -> str:
    return " ".join(text.split())


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
    try:
        return _read_function(source)
    except RecursionError:
        raise source.error("nested too deeply", source.first()) from None


def _read_function(source: CSource) -> Signature:
    outermost = [*source.outermost()]
    if any([token == ";" for token, _ in outermost[:-1]]):
        return _only_function(source)
    for token, start in outermost:
        if token == ",":
            raise source.error("expected one function, found ','", start)
    # What is left is one declaration without its end, which C also takes as a parameter's.
    source.without(("extern", "static", ";"))
    if not source.tokens:
        raise source.error("no declaration found", 0, "write 'double (double)'")
    node = _syntax_tree(source, "void __nc_function(", ");")[0].type.args.params[0]
    tree = _Tree(source)
    if isinstance(node, tree.ast.ID):
        raise _unknown_type(source, node.name, source.first())
    tree.add(node)
    types = tree.resolve()
    for error in tree.refused.values():
        raise error
    ctype, *_ = types
    if ctype.kind == "pointer" and ctype.item.kind == "function":
        ctype = ctype.item
    if ctype.kind != "function":
        raise source.error("not a function", source.first(), "write 'double (double)'")
    return tree.signature(Converter(tree.packed), ctype, node, source.text)


def _only_function(source: CSource) -> Signature:
    """The signature of the one function among the declarations in `source`."""
    if source.tokens[-1][0] != ";":
        source.clean += ";"
    declared = _read(source)
    for error in declared.refused.values():
        raise error
    functions = declared.functions
    if len(functions) != 1:
        raise source.error(f"expected one function, found {len(functions)}", source.first())
    return next(iter(functions.values()))


def parse_declarations(text: str) -> Declarations:
    """Read C declarations: functions, typedefs, structs, enums, integer macros and variables.

    Comments, attributes that do not change the ABI, ``extern "C"``, `inline`, `restrict` and
    ``#include`` lines are read over. The names of ``<stdint.h>``, ``<stddef.h>`` and
    ``<stdbool.h>``, `FILE`, `PyObject` and `npy_intp` are known.

    Raises
    ------
    SignatureError
        If the text is no C, or if a function takes or returns what cannot be passed from outside C.
        One that takes and returns more than 16384 scalars by value is `Declarations.refused`, and
        in a type an error: those of structs in structs, and of arrays in them, are counted one by
        one. Declarators nest at most 64 levels deep, and with their typedefs at most
        128 levels and 16384 characters; an expression has at most 256 operators.

    Examples
    --------
    >>> d = parse_declarations("enum side { LEFT, RIGHT }; double norm(int n, const double *x);")
    >>> d.functions["norm"].text, d.constants
    ('d:i&d', {'LEFT': 0, 'RIGHT': 1})
    """
    source = CSource(text)
    try:
        return _read(source)
    except RecursionError:
        raise source.error("nested too deeply", source.first()) from None


def _read(source: CSource) -> Declarations:
    tree = _Tree(source)
    for node in _syntax_tree(source):
        tree.add(node)
    declared = Declarations()
    declared.constants.update(tree.constants)
    opaque: list[str] = []
    convert = Converter(tree.packed)
    types = tree.resolve()
    declared.refused.update(tree.refused)
    for to, (what, name, node) in zip(types, tree.members, strict=True):
        if what == "object" and to.kind == "function":
            signature = tree.signature(convert, to, node, tree.write(node))
            if declared.functions.setdefault(name, signature) != signature:
                before = declared.functions[name].text
                raise tree.error(f"{name!r} was declared as {before!r} before", node)
            continue
        ctype = to if to.kind == "function" else to.item
        if what == "object":
            declared.variables[name] = tree.converted(convert, ctype, node)
            if tree.is_const(node.type):
                declared.readonly |= {name}
        elif ctype.kind == "enum" and what == "tag":
            for enumerator in node.values.enumerators:
                declared.constants[enumerator.name] = ctype.relements[enumerator.name]
        else:
            try:
                found = convert.type(ctype)
            except SignatureError:
                if ANONYMOUS not in name:
                    opaque.append(name)
                continue
            if what == "typedef":
                declared.typedefs[name] = found
            elif isinstance(found, Struct) and not name.startswith(f"struct {ANONYMOUS}"):
                declared.structs[name.removeprefix("struct ")] = found
    declared.opaque = tuple(opaque)
    return declared
