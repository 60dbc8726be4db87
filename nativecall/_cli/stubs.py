"""``nativecall stubs MODULE:LIB``: write a stub with the types of a library's functions.

A type checker reads a stub instead of the module, so the stub must cover all of ``MODULE``. The
stub declares the module's native callables and the functions of its libraries, with types. All else
is copied from the module's source without function bodies. Argument types describe what calls
accept (`nativecall._hints`). Result types describe what calls return (`_callable/annotations.py`).
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
from keyword import iskeyword
from types import GenericAlias, UnionType

from .._callable.annotations import arguments, results
from .._callable.callable import NativeCallable
from .._callback import Callback
from .._cdecl.parser import common_types
from .._errors import TYPE_CHECKING
from .._library import Library
from .._output import CommandError
from .._types.derived import Array, Pointer, Struct
from .place import find, functions, imported

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

    from .._ext import CallInterface
    from .._types.ctype import CType

_MARK = "# Made by `nativecall stubs`"
_TAKES = {"bool": "Integer", "int": "Integer", "float": "Real", "complex": "Complex"}
_TAKES |= {"voidptr": "Pointer", "pointer": "Pointer", "function": "Function", "view": "Array"}
# Members that make type checkers reject names that are not declared.
_CLOSED = [
    f"{name}: None  # type: ignore[assignment]  # no others # pyright: ignore"
    for name in ("__getattr__", "__setattr__")
]
_GIVES = {"bool": "bool", "int": "int", "float": "float", "complex": "complex", "object": "Any"}


def run(place: str, *, output: str | None = None, force: bool = False) -> int:
    """Write the stub of the module that `place` names."""
    name, _, named = place.partition(":")
    module = imported(name)
    if named and not isinstance(find(place), (Library, NativeCallable)):
        raise CommandError(
            f"{place!r} must be a library that nativecall.load made, or a native callable "
            f"(got {type(find(place)).__name__})"
        )
    text = made(module)
    if output is None:
        source = getattr(module, "__file__", None)
        if source is None or not source.endswith(".py"):
            raise CommandError(f"module {name!r} has no source file to write beside; pass --output")
        output = f"{os.path.splitext(source)[0]}.pyi"
    if output == "-":
        sys.stdout.write(text)
    else:
        _write(text, output, force)
    return 0


def _write(text: str, path: str, force: bool) -> None:
    """Write a file, or replace it atomically.

    Without `force`, refuse to replace a file that is not a generated stub.
    """
    try:
        with open(path, encoding="utf-8") as file:
            begins = file.read(len(_MARK))
    except FileNotFoundError:
        begins = _MARK
    except (OSError, UnicodeError) as error:
        raise CommandError(f"{path!r} cannot be replaced: {error}") from None
    if begins != _MARK and not force:
        raise CommandError(
            f"{path!r} was not made by this command; --force replaces it, --output names another"
        )
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
    except OSError as error:
        if os.path.exists(part):
            os.unlink(part)
        raise CommandError(f"{path!r} cannot be written: {error.strerror}") from None
    print(f"wrote {path}")


def made(module: ModuleType) -> str:
    """Return the text of the stub."""
    natives = {
        name: one
        for name, one in vars(module).items()
        if isinstance(one, (Library, NativeCallable)) and name.isidentifier()
    }
    if not natives:
        raise CommandError(f"module {module.__name__!r} has no library and no native callable")
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError):
        tree = ast.Module([], [])
    writer = _Writer()
    body = []
    for name, one in natives.items():
        kind = writer.library(name, one) if isinstance(one, Library) else writer.function(name, one)
        body.append(f"{name}: {kind}")
    rest = [*_kept(tree.body, module, {*natives})]
    lines = [
        f"{_MARK} of {module.__name__}: do not edit, make it again.",
        # Overloads for C numbers overlap: the wider accepts all arguments of the narrower.
        '# mypy: disable-error-code="overload-cannot-match, overload-overlap, misc"',
        "# pyright: reportOverlappingOverload=false",
        "import builtins",
        "import typing",
        "from typing import Any, overload",
        "",
        "from nativecall import Callback, Library, NativeCallable, Record",
        "from nativecall._hints import (",
        *[f"    {one}," for one in ("Array", "Complex", "Encoded", "FromC", "Function")],
        *[f"    {one}," for one in ("Integer", "Pointer", "Real", "Text", "Types")],
        ")",
        "",
        *rest,
        "",
        *writer.classes,
        *body,
    ]
    return "\n".join(lines) + "\n"


# -- rest of the module ----------------------------------------------------------------------------


def _kept(body: Iterable[ast.stmt], module: ModuleType, natives: set[str]) -> Iterable[str]:
    """Yield the statements of a module that define names; skip all other statements."""
    seen: set[str] = set(natives)
    for one in body:
        if isinstance(one, (ast.Import, ast.ImportFrom)):
            if not (isinstance(one, ast.ImportFrom) and one.module == "__future__"):
                yield ast.unparse(one)
        elif isinstance(one, ast.If) and "TYPE_CHECKING" in ast.unparse(one.test):
            yield ast.unparse(one)
        elif (
            isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and one.name not in natives
        ) or isinstance(one, ast.ClassDef):
            yield ast.unparse(_bare(one))
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            if one.target.id not in seen:
                seen.add(one.target.id)
                said = ast.unparse(one.annotation)
                # Type checkers need the values of type aliases and Final names.
                whole = "TypeAlias" in said or "Final" in said
                yield ast.unparse(one) if whole else f"{one.target.id}: {said}"
        elif isinstance(one, (ast.Assign, ast.For, ast.With, ast.If, ast.Try)):
            types = _types_by_name(one, module)
            names = [node for node in ast.walk(one) if isinstance(node, ast.Name)]
            for name in [node.id for node in names if isinstance(node.ctx, ast.Store)]:
                if name not in seen and hasattr(module, name):
                    seen.add(name)
                    yield types.get(name) or f"{name}: {_plain_type(getattr(module, name))}"
        elif type(one).__name__ == "TypeAlias":  # Python 3.12
            yield ast.unparse(one)


def _bare(one: ast.stmt) -> ast.stmt:
    """Return a function without its body, or a class whose methods have no bodies."""
    if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
        one.body = [ast.Expr(ast.Constant(...))]
    elif isinstance(one, ast.ClassDef):
        one.body = [
            _bare(inner)
            for inner in one.body
            if not (isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Constant))
        ] or [ast.Pass()]
    return one


def _types_by_name(one: ast.stmt, module: ModuleType) -> dict[str, str]:
    """Return the assignments of types in a statement; type checkers need their values."""
    return {
        target.id: f"{target.id} = {ast.unparse(node.value)}"
        for node in ast.walk(one)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and _is_type(getattr(module, target.id, None))
    }


def _is_type(value: object) -> bool:
    """Return whether a value can be an annotation: a class, an alias or a type variable."""
    if isinstance(value, (type, GenericAlias, UnionType)):
        return True
    return type(value).__module__ in ("typing", "typing_extensions")


def _plain_type(value: object) -> str:
    """Return the type of a value of a simple built-in class; return ``Any`` for other values."""
    kind = type(value)
    return kind.__name__ if kind in (bool, int, float, complex, str, bytes) else "Any"


# -- libraries and functions -----------------------------------------------------------------------


class _Writer:
    """Writes the classes of native callables and structs, each once."""

    def __init__(self) -> None:
        self.classes: list[str] = []
        self._taken: set[str] = set()
        self._structs: dict[tuple[str, str | None], str] = {}

    def library(self, name: str, found: Library) -> str:
        """Write the class of a library; return its name."""
        members: list[str] = []
        if found.declarations is not None:
            for one, function in functions(found).items():
                if one.isidentifier() and not iskeyword(one) and not hasattr(Library, one):
                    members.append(f"{one}: {self.function(one, function)}")
            known = found.declarations
            kinds = {one: _plain_type(constant) for one, constant in known.constants.items()}
            kinds |= {one: _GIVES.get(ctype.kind, "Any") for one, ctype in known.variables.items()}
            members += [f"{one}: {kind}" for one, kind in kinds.items() if _is_public(one)]
            # The declared names, and the names that are predefined in all declarations.
            names = dict.fromkeys([*found.types, *common_types()])
            types = [f"{one}: Any" for one in names if not iskeyword(one)]
            kind = self._class(f"_{name}_types", "Types", [*types, *_CLOSED])
            members += ["@property", f"def types(self) -> {kind}: ...", *_CLOSED]
        return self._class(f"_{name}_library", "Library", members or ["..."])

    def _class(self, wanted: str, base: str, members: Sequence[str]) -> str:
        """Write a class; return its name."""
        chosen = wanted
        while chosen in self._taken:
            chosen += "_"
        self._taken.add(chosen)
        self.classes.append(f"class {chosen}({base}):")
        names = {one.partition(":")[0] for one in members}
        for one in members:
            name, _, kind = one.partition(": ")
            whole = f"{'typing' if kind.istitle() else 'builtins'}.{kind}"
            # A member such as a field 'bytes' hides the type of the same name.
            self.classes.append(f"    {name}: {whole}" if kind in names else f"    {one}")
        self.classes.append("")
        return chosen

    def function(self, name: str, found: NativeCallable) -> str:
        """Write the class of a native callable; return its name."""
        base = "Callback" if isinstance(found, Callback) else "NativeCallable"
        cifs = [one._entry()[::2] for one in found._overloads or (found,) if one._cif is not None]
        if not cifs:
            return base
        # Type checkers take the first match, so narrower overloads come first.
        calls = dict(sorted([self._call(*cif) for cif in cifs], key=lambda call: _rank(call[0])))
        members = []
        for parameters, result in calls.items():
            members += ["@overload"] * (len(calls) > 1)
            members.append(f"def __call__({', '.join(parameters)}) -> {result}: ...")
        return self._class(f"_{name}", base, members)

    def _call(self, cif: CallInterface, flags: int) -> tuple[tuple[str, ...], str]:
        """Return the parameters and the result type for calls of one entry."""
        passed = arguments(cif)
        names = [one.name for one in passed]
        parameters = [_unlike(names, "self")]
        named = bool(passed) and passed[0].named
        for one in passed:
            kind = "object" if one.is_array else self._takes(one.type, one.text, cif)
            parameters.append(f"{one.name}: {kind}")
        if not named and passed:
            parameters.append("/")
        if cif.signature.variadic:
            parameters.append(f"*{_unlike(names, 'args')}: Any")
        found = [
            "Any" if one.is_array else self._gives(one.type, one.text, cif)
            for one in results(cif, flags)
        ]
        result = "None" if not found else found[0]
        if len(found) > 1:
            result = f"tuple[{', '.join(found)}]"
        if cif.policies.check is not None:
            result = "Any"
        return tuple(parameters), result

    def _takes(self, ctype: CType, text: str, cif: CallInterface) -> str:
        if text:
            return "Encoded" if text != "char" or cif.policies.encoding else "Text"
        if cif.policies.fortran and isinstance(ctype, Pointer):
            number = _TAKES.get(ctype.pointee.kind, "Pointer")
            return "Encoded" if ctype.pointee.size == 1 else f"{number} | Pointer"
        return _TAKES.get(ctype.kind, "object")

    def _gives(self, ctype: CType, text: str, cif: CallInterface) -> str:
        if text:
            return "FromC"
        if isinstance(ctype, Struct):
            return self._struct(ctype, cif.policies.encoding)
        return _GIVES.get(ctype.kind, "FromC")

    def _struct(self, ctype: Struct, encoding: str | None) -> str:
        """Write the class of the Records that represent a returned struct; return its name."""
        key = ctype.named, encoding
        if key not in self._structs:
            wanted = "".join([one if one.isalnum() else "_" for one in ctype.name]) or "struct"
            members = [
                f"{name}: {self._member(field.type, encoding)}"
                for name, field in zip(ctype.field_names, ctype.fields, strict=True)
                if _is_public(name)
            ]
            self._structs[key] = self._class(f"_{wanted}", "Record", [*members, *_CLOSED])
        return self._structs[key]

    def _member(self, ctype: CType, encoding: str | None) -> str:
        if isinstance(ctype, Struct):
            return self._struct(ctype, encoding)
        if isinstance(ctype, Array) and ctype.is_text and len(ctype.shape) == 1:
            return "str" if encoding else "bytes"
        return _GIVES.get(ctype.kind, "Any")


def _rank(parameters: Sequence[str]) -> list[int]:
    """Return the sort key of an overload: narrower overloads sort first."""
    order = ["Integer", "Real", "Complex"]
    kinds = [one.partition(": ")[2] for one in parameters]
    return [order.index(kind) if kind in order else len(order) for kind in kinds]


def _is_public(name: str) -> bool:
    return name.isidentifier() and not iskeyword(name) and not name.startswith("_")


def _unlike(names: Sequence[str], wanted: str) -> str:
    """Return the wanted name of a parameter, with underscores if a C parameter has that name."""
    while wanted in names:
        wanted = f"_{wanted}"
    return wanted
