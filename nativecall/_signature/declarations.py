"""C declarations: text to signatures and types by way of cffi's parser, and types back to cffi.

    parse_function("double (double x, const float *)")     -> Signature
    parse_declarations("typedef struct {…} p; p f(p);")    -> Declarations
    read("typedef struct {…} p; p f(p);")                  -> the same, and in the cache
    from_ffi(cffi type) -> CType or Signature              the one mapping, which both of these use
    to_ffi(CType or Signature) -> cffi type                of an FFI that all share, `ffi()`

A declaration passes three stages. `CSource` blanks what has no bearing on types without moving a
column. pycparser's tree (csyntax.py) gives the order, the names, `const` and the places for
messages; of many prototypes that are made of the same parts it sees a few (prototypes.py). cffi
resolves the types, from text that ctree.py writes off that tree. Nothing of cffi's
or pycparser's own errors gets through: all is `SignatureError` with a line and a column of the text
that was given.

cffi and pycparser are imported by the functions that need them.
"""

from __future__ import annotations

from .._errors import SignatureError
from .cffitype import ANONYMOUS, Converter, ffi, from_ffi, to_ffi
from .csource import CSource
from .csyntax import alone_in_parentheses, known_names, syntax_tree, unknown_type
from .ctree import Tree
from .declared import Declarations, keep
from .derived import Struct
from .grammar import row
from .prototypes import InDoubt, abridge, rows
from .signature import Signature

__all__ = ["Declarations", "ffi", "from_ffi", "parse_declarations", "parse_function", "to_ffi"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .declared import Table
    from .prototypes import Prototype


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
    node = syntax_tree(source, "void __nc_function(", ");")[0].type.args.params[0]
    tree = Tree(source)
    if isinstance(node, tree.ast.ID):
        raise unknown_type(source, node.name, source.first())
    tree.add(node)
    types = tree.resolve()
    for error in tree.refused.values():
        raise error
    ctype, *_ = types
    if ctype.kind == "pointer" and ctype.item.kind == "function":
        ctype = ctype.item
    if ctype.kind != "function":
        alone = alone_in_parentheses(source, known_names(source))
        if alone is not None:
            raise unknown_type(source, *alone)
        raise source.error("not a function", source.first(), "write 'double (double)'")
    return tree.signature(Converter(tree.packed, naming=True), ctype, node, source.text)


def _only_function(source: CSource) -> Signature:
    """The signature of the one function among the declarations in `source`."""
    if source.tokens[-1][0] != ";":
        source.clean += ";"
    declared = Declarations(_read(source), source.text)
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
    return Declarations(_table(text), str.__str__(text))


def read(text: str) -> Declarations:
    """`parse_declarations`, and keep what was read for `kept`."""
    table = _table(text)
    keep(text, table)
    return Declarations(table, str.__str__(text))


def _table(text: str) -> Table:
    source = CSource(text)
    try:
        try:
            # First without the prototypes that consist of parts of others.
            kept, gone = abridge(source)
            return _read(source, kept, gone) if source.tokens else _made(source, gone)
        except SignatureError:
            return _read(CSource(text))  # what is wrong is said of the whole
    except RecursionError:
        raise source.error("nested too deeply", source.first()) from None


def _made(source: CSource, gone: Sequence[Prototype]) -> Table:
    """What a text says of which nothing is left for a parser."""
    return {
        "functions": rows((), gone, {}, ()),
        "variables": {},
        "readonly": [],
        "typedefs": {},
        "structs": {},
        "opaque": [],
        "constants": {name: value for name, (value, *_) in source.macros.items()},
        "refused": {},
    }


def _read(source: CSource, kept: Sequence[Prototype] = (), gone: Sequence[Prototype] = ()) -> Table:
    """What the text says, with what `abridge` has left out; `InDoubt` where only all can tell."""
    tree = Tree(source)
    for node in syntax_tree(source):
        tree.add(node)
    functions: dict[str, Signature] = {}
    places: dict[str, int] = {}
    variables: dict[str, str] = {}
    readonly: list[str] = []
    named: dict[str, dict[str, str]] = {"typedef": {}, "tag": {}}
    opaque: list[str] = []
    constants: dict[str, int | float | bytes] = {**tree.constants}
    convert = Converter(tree.packed, naming=True)
    types = tree.resolve()
    for to, (what, name, node) in zip(types, tree.members, strict=True):
        if what == "object" and to.kind == "function":
            signature = tree.signature(convert, to, node, tree.write(node))
            if functions.setdefault(name, signature) != signature:
                before = functions[name].text
                raise tree.error(f"{name!r} was declared as {before!r} before", node)
            if name in places and gone:
                raise InDoubt(name)  # declared again, perhaps in other words
            places[name] = tree.place(node)
            continue
        ctype = to if to.kind == "function" else to.item
        if what == "object":
            variables[name] = tree.converted(convert, ctype, node).named
            if tree.is_const(node.type):
                readonly.append(name)
        elif ctype.kind == "enum" and what == "tag":
            for enumerator in node.values.enumerators:
                constants[enumerator.name] = ctype.relements[enumerator.name]
        else:
            try:
                found = convert.type(ctype)
            except SignatureError:
                if ANONYMOUS not in name:
                    opaque.append(name)
                continue
            if what == "typedef":
                named[what][name] = found.named
            elif isinstance(found, Struct) and not name.startswith(f"struct {ANONYMOUS}"):
                named[what][name.removeprefix("struct ")] = found.named
    table = {name: row(signature) for name, signature in functions.items()}
    if gone:
        if tree.refused:
            raise InDoubt("too large")
        places |= {one.name: one.start for one in gone}
        table |= rows(kept, gone, functions, tree.typedef_nodes)
        table = {name: table[name] for name in sorted(places, key=places.__getitem__)}
    return {
        "functions": table,
        "variables": variables,
        "readonly": readonly,
        "typedefs": named["typedef"],
        "structs": named["tag"],
        "opaque": opaque,
        "constants": constants,
        "refused": {
            name: (error.reason, error.position, error.line, error.hint)
            for name, error in tree.refused.items()
        },
    }
