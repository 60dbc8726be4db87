"""Nodes to the table of what declarations say (declarations.py), of headers and of texts alike.

`Tables` takes what a parser has read. What cannot be offered has its reason in the table.
"""

from __future__ import annotations

from .._errors import SignatureError
from .._types.ctype import VOIDPTR
from .characters import CHARACTERS, characters
from .nodes import ANONYMOUS, UNUSABLE, Converter, Enumeration, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._types.grammar import Row
    from .declarations import Table
    from .expression import Value
    from .nodes import FunctionOf, Node
    from .parser import Parser


class Tables:
    """The table of what a parser has read."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
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
        for name, (function, start, end) in parser.functions.items():
            self.attempt(name, self._function, name, function, start, end)
        for name, (node, const, _) in parser.variables.items():
            if name not in self.functions:
                self.attempt(name, self._variable, name, node, const)
        for name, value in parser.values.items():
            self.constant(name, value)
        return {
            "functions": self.functions,
            "variables": self.variables,
            "declared": self.declared,
            "readonly": self.readonly,
            "opaque": self._opaque(),
            "constants": self.constants,
            "refused": {},
            "pointers": self.pointers,
            "skipped": self.skipped,
            "layouts": self._layouts(),
            "types": self._types(),
            "enums": self._enums(),
        }

    def attempt(self, name: str, take: Callable[..., None], *given: object) -> None:
        """Take what is declared, or remember why it is left out."""
        try:
            take(*given)
        except SignatureError as error:
            self.skipped[name] = error.reason + (f"; {error.hint}" if error.hint else "")

    def _function(self, name: str, function: FunctionOf, start: int, end: int) -> None:
        self.functions[name] = self.convert.row(function, self.parser.written(start, end), name)

    def _variable(self, name: str, node: Node, const: bool) -> None:
        element = node
        while element.kind == "array":
            element = element.item  # type: ignore[attr-defined]  # an array has items
        self.convert.at = None
        self.convert.check_by_value(node, name)
        try:
            self.variables[name] = self.convert.type(node).named
        except SignatureError:
            unusable = element.kind == "unusable" or node.kind not in ("array", "struct", "union")
            if unusable:
                raise
            self.variables[name] = VOIDPTR.named  # no C type of ours; cffi has one
        if node.kind != "primitive":
            text = characters(node, getattr(node, "const", False))
            if const and node.kind == "array" and element.cname in CHARACTERS:
                text = element.cname
            self.declared[name] = node.spell(""), text
        if const:
            self.readonly.append(name)

    def constant(self, name: str, value: Value) -> None:
        if len(value) == 3 or isinstance(value[1], str):
            self.constants[name] = value[0]
        else:
            self.pointers[name] = self.convert.type(value[1]).named, value[0]

    # -- types ------------------------------------------------------------------------------------

    def _layouts(self) -> dict[str, tuple[object, ...]]:
        """The structs and unions whose layout is known, by how C names them."""
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

    def own_types(self) -> list[tuple[str, tuple[Node, bool]]]:
        """The typedefs that were declared."""
        granted = self.parser.granted
        found = self.parser.typedefs.items()
        return [(name, one) for name, one in found if granted.get(name) is not one]

    def _types(self) -> dict[str, str]:
        return {
            name: node.spell(name)
            if node.main is None
            else f"{node.main.spell(name)} __attribute__((aligned({node.alignment})))"
            for name, (node, _) in self.own_types()
            if not node.cname.startswith(f"{UNUSABLE}0_")
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
        """The structs and unions of which nothing but the name is known."""
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
        from .cffitype import unit_of

        for one in record.fields or ():
            if one.width is not None and one.name and unit_of(one, record.size or 0) is None:
                self.skipped[f"{record.typedef or record.cname}.{one.name}"] = (
                    f"no integer within the struct holds the {one.width} bits of the "
                    "bit-field; read and write them in its bytes, by ffi.buffer()"
                )
