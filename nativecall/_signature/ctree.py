"""The tree of C declarations, made ready for cffi, which resolves the types.

`Tree` takes pycparser's nodes one by one. It gives bodies their tags, computes constants, checks
how large types are, and writes the text from which cffi makes its types. What cffi refuses is a
`SignatureError` at the declaration that it is about. cffi and pycparser are imported when they are
needed.
"""

from __future__ import annotations

from .._errors import SignatureError
from .cconstant import Unknown, evaluate, of_int
from .cffitype import ANONYMOUS, MAX_SCALARS, Converter, is_variadic
from .characters import characters, characters_behind, together
from .csource import INTEGER, KEYWORDS, CSource, integer
from .csyntax import KNOWN_TYPEDEFS, SPELLINGS, known_names, unknown_type
from .ctype import MAX_DEPTH, MAX_TEXT, CType
from .signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cffi.FFI import CType as FFIType

    from .csyntax import Node

_ALL = "__nc_all"
_MAX_LEVELS = 2 * MAX_DEPTH  # in C, where a typedef is one of its own
_MAX_SPELLED = 4 * MAX_TEXT  # characters of a type in C


class Tree:
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
        self.typedef_nodes: dict[str, Node] = {}
        self.tags: list[tuple[str, Node]] = []  # (cffi name, node) of bodies, in order
        self.packed: set[FFIType] = set()  # cffi's types of the packed structs, once resolved
        self.lines: list[str] = []
        self.line_nodes: list[Node] = []
        self.members: list[tuple[str, str, Node]] = []  # what, name, node
        self.member_lines: list[str] = []
        self._seen: set[int] = set()
        self._bodies = 0
        self._functions: list[tuple[Node, str]] = []  # (node, name of what it declares)
        self._member_of: dict[int, int] = {}  # by the identity of a node: what is made of it alone
        self.refused: dict[str, SignatureError] = {}  # by the name of a member that is left out
        self._spelled: dict[str, tuple[int, int]] = {}  # of typedefs
        self._packed_nodes: set[int] = set()
        self._anonymous = 0
        self._lengths: dict[int, int | str] = {}  # of parameters, by their identity
        tree = self

        # Whether pycparser has types depends on its version.
        class Generator(c_generator.CGenerator):  # type: ignore[misc,unused-ignore]  # may have none
            """Writes the body of a struct, union or enum once, and its tag from then on."""

            def visit_Struct(self, node: Node) -> str:
                return tree._record(node, "struct", super().visit_Struct)

            def visit_Union(self, node: Node) -> str:
                return tree._record(node, "union", super().visit_Union)

            def visit_Enum(self, node: Node) -> str:
                return tree._record(node, "enum", super().visit_Enum)

        self._generator = Generator()
        self._written: set[int] = set()

    def _record(self, node: Node, kind: str, visit: Callable[[Node], str]) -> str:
        if id(node) in self._written and node.name:
            return f"{kind} {node.name}"
        self._written.add(id(node))
        return str(visit(node))

    def write(self, node: Node) -> str:
        """`node` in C, on one line."""
        return _one_line(self._generator.visit(node))

    def error(self, reason: str, node: Node, hint: str | None = None) -> SignatureError:
        """The error for what `node` declares."""
        return self.source.error(reason, self.place(node), hint)

    def place(self, node: Node) -> int:
        """The index where `node` is, as far as it is known."""
        coord = getattr(node, "coord", None)
        if coord is None or coord.file != "c":
            return self.source.first()
        return self.source.index(coord.line, coord.column or 1)

    def prepare(self, node: Node, hint: str | None = None, member: bool = False) -> None:
        """Give every body a tag, note packed ones, and take the lengths of array parameters."""
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
                    raise unknown_type(self.source, parameter.name, at)
                if isinstance(getattr(parameter, "type", None), c_ast.ArrayDecl):
                    if parameter.type.dim is not None:
                        self._lengths[id(parameter)] = self._length(parameter.type.dim)
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

    def _evaluated(self, expression: Node, node: Node) -> Node:
        """A constant expression as one number; as it is where only cffi may know its value."""
        try:
            value = evaluate(expression, self._values)[0]
        except Unknown as error:
            if str(error):
                raise self.error(str(error), node) from None
            return expression
        return self.ast.Constant("int", str(value), expression.coord)

    def _length(self, dim: Node) -> int | str:
        """The length of a parameter that is an array; as it is written where it is no constant."""
        try:
            return evaluate(dim, self._values)[0]
        except Unknown:
            written = self.write(dim)
            return "" if written == "*" else written

    def _enumerators(self, enumerators: list[Node]) -> None:
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

    def _in_text_order(self, node: Node) -> list[Node]:
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

    def _check_prototype(self, node: Node) -> None:
        if node.args is None:
            reason = "'()' says nothing about the arguments"
            raise self.error(reason, node, "write '(void)' where there are none")

    def _tag(self, node: Node, hint: str | None, member: bool) -> None:
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

    def add(self, node: Node) -> None:
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

    def declare(self, what: str, name: str, type_node: Node, node: Node) -> None:
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

    def _member(self, what: str, name: str, specifier: str, node: Node) -> None:
        self.member_lines.append(f"{specifier}m{len(self.members)};")
        self.members.append((what, name, node))

    def _line(self, text: str, node: Node) -> None:
        self.lines.append(_one_line(text))
        self.line_nodes.append(node)

    def _constant(self, node: Node) -> None:
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

    def _check_spelled(self, node: Node) -> tuple[int, int]:
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

    def _spell(self, node: Node) -> tuple[int, int]:
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

        def scalars(node: Node) -> int:
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

        def fields(body: Node) -> int:
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

    def _is_array(self, node: Node) -> bool:
        while (target := self._typedef(node)) is not None:
            node = target
        return isinstance(node, self.ast.ArrayDecl)

    def packed_in_doubt(self) -> bool:
        """Whether the text and the tree disagree on how many bodies there are."""
        return bool(self.source.packed) and self._bodies != self.source.bodies

    def resolve(self) -> list[FFIType]:
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
            f"typedef {KNOWN_TYPEDEFS[name]} {name};"
            for name in known_names(self.source)
            if name in KNOWN_TYPEDEFS and name not in self.typedef_nodes
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
            words = [SPELLINGS.get(word, word) for word in match.group(1).split()]
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

    def function_node(self, node: Node) -> Node:
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

    def _typedef(self, node: Node) -> Node:
        """What the typedef name that `node` consists of stands for, or `None`."""
        if isinstance(node, self.ast.TypeDecl) and isinstance(node.type, self.ast.IdentifierType):
            found = self.typedef_nodes.get(node.type.names[-1])
            return None if found is None else found.type
        return None

    def points_to_const(self, node: Node) -> bool:
        """Whether a parameter's type is a pointer to, or an array of, `const` things."""
        const = False
        while (target := self._typedef(node)) is not None:
            const = const or "const" in node.quals
            node = target
        if isinstance(node, self.ast.ArrayDecl):
            return const or self.is_const(node)
        return isinstance(node, self.ast.PtrDecl) and self.is_const(node.type)

    def leads_to_const(self, node: Node) -> bool:
        """Whether a parameter leads to pointers to `const` things."""
        while (target := self._typedef(node)) is not None:
            node = target
        is_pointer = isinstance(node, (self.ast.PtrDecl, self.ast.ArrayDecl))
        return is_pointer and self.points_to_const(node.type)

    def length(self, parameter: Node) -> int | str | None:
        """How many items an array has that is a parameter, which a typedef may say."""
        node = parameter.type
        while (target := self._typedef(node)) is not None:
            node = target
        if isinstance(node, self.ast.ArrayDecl) and node.dim is not None:
            return self._length(node.dim)
        return self._lengths.get(id(parameter))

    def is_const(self, node: Node) -> bool:
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

    def signature(self, convert: Converter, ctype: FFIType, node: Node, written: str) -> Signature:
        """The signature of a function of cffi's type `ctype`, which `node` declares."""
        function = self.function_node(node.type)
        parameters = list(function.args.params) if function is not None and function.args else []
        parameters = parameters[: len(ctype.args)]
        const = [self.points_to_const(p.type) for p in parameters]
        const += [False] * (len(ctype.args) - len(const))
        returned = function is not None and self.points_to_const(function.type)
        types = (*ctype.args, ctype.result)
        try:
            result = convert.type(ctype.result)
            args = []
            text = list(map(characters, types, (*const, returned)))
            for index, arg in enumerate(ctype.args):
                if arg.kind == "function" and index < len(parameters):
                    text[index] = self.texts_of(arg, parameters[index])
                elif arg.kind == "pointer" and arg.item.kind == "pointer" and parameters:
                    const_behind = self.leads_to_const(parameters[index].type)
                    text[index] = characters_behind(arg, const_behind)
                place = parameters[index] if index < len(parameters) else node
                args.append(self.converted(convert, arg, place))
            return Signature(
                result,
                args,
                is_variadic(ctype),
                names=[getattr(p, "name", None) for p in parameters] or None,
                readonly=const or None,
                characters=text,
                lengths=[self.length(p) for p in parameters],
                written=written,
            )
        except SignatureError as error:
            if error.text is not None:
                raise
            raise self.error(error.reason, node, error.hint) from None

    def texts_of(self, ctype: FFIType, node: Node) -> str:
        """Which characters a function that is an argument itself takes and gives."""
        function = self.function_node(node.type)
        if function is None:
            return ""
        given = function.args.params[: len(ctype.args)] if function.args else []
        const = [self.points_to_const(one.type) for one in given]
        const += [False] * (len(ctype.args) - len(const)) + [self.points_to_const(function.type)]
        return together(list(map(characters, (*ctype.args, ctype.result), const)))

    def converted(self, convert: Converter, ctype: FFIType, node: Node) -> CType:
        """`convert.type`, with what it refuses reported at `node`."""
        try:
            return convert.type(ctype)
        except SignatureError as error:
            raise self.error(error.reason, node, error.hint) from None


def _one_line(text: str) -> str:
    return " ".join(text.split())
