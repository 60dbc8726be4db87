"""The layers: no module imports what stands above it, and no unit of C includes what includes it.

`LAYERS` and `C_LAYERS` are the lists, bottom to top; folders form no circle, and stand on eight
levels (`pytest -s` prints them). An import
counts wherever it stands, also in a function or under TYPE_CHECKING, but for stubs (`.pyi`), which
only type checkers read.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "nativecall"

#: Bottom to top: a module may import what stands below its layer. In a layer the modules have
#: their own order: one may import another, but never in a circle. A folder, with all that is in
#: it, is written with a slash.
LAYERS: list[tuple[str, str]] = [
    # errors, the compiled core, and what needs neither
    (
        "ground",
        "_cache _core _errors _ext _fileheader _hints _lib _fifo _locate _output _rows "
        "_singleflight _version",
    ),
    # C types, signatures, and above them declarations; no native code
    ("signatures", "_types/ _cdecl/"),
    # single values between Python and C memory, and whose boxes hold them
    ("values", "_values/"),
    # plans: how one signature becomes another; how a call is made, and where C has its values
    ("plans", "_plan/"),
    # generated native code
    ("code", "_codegen/"),
    # the one object, and what it is asked for
    ("callable", "_callable/"),
    # what users call
    ("verbs", "__init__ _callback _library/ _native_objects/ _public _reraise _slots"),
    # other libraries' boxes, and the command line
    ("outside", "__main__ _bridges/ _cli/ _numba _ufunc/ conformance/"),
]
MOST_LEVELS = 8
#: The modules that import others by a name that they compute, and what.
BY_NAME = {
    "_errors": "the package of an extra",
    "_public": "the module of a public name",
    "_callable.pickled": "the module that a function was pickled as an attribute of",
    "_bridges.PyCapsule": "the module that a capsule was pickled as one of",
    "_values.foreign": "a bridge, by the type whose box it is asked about",
    "_cli": "the module of a command",
    "_cli.doctor": "the packages that it tries",
    "_cli.place": "what the user names",
    "conformance._child": "the same, and the package",
    "conformance._consumer": "the same",
    "conformance._runtime": "the same",
}

#: The same for units of C, by their places in `csrc`: x.c and x.h are one unit.
C_LAYERS: list[tuple[str, str]] = [
    ("headers, the core's first", "include/ core/"),
    ("exceptions that cross C, the C stack, executable stubs", "platform/"),
    ("the structs that generated code reads", "layout"),
    ("conversions between objects and memory", "values/"),
    ("calls, both ways; the callable", "call/ callable/"),
    ("what generated code calls", "codegen/"),
    ("objects of both worlds", "native_objects/"),
    ("the module and its commands", "cli/ module"),
    ("the conformance kit's own, which includes none of these", "conformance/"),
]
_IMPORTS = (ast.Import, ast.ImportFrom)


# -- Python --------------------------------------------------------------------------------------


def modules(root: Path) -> dict[str, Path]:
    """The modules of the package by their names without it; the package itself is `__init__`."""
    found = {path.stem: path for path in root.glob("*.pyi")}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[-1] == "__init__" and len(parts) > 1:
            parts = parts[:-1]
        found[".".join(parts)] = path
    return found


@functools.cache
def statements(text: str) -> list[ast.Import | ast.ImportFrom]:
    """The import statements of a module, wherever they stand."""
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, _IMPORTS)]


def imports(
    name: str, path: Path, known: set[str], text: str | None = None
) -> Iterator[tuple[int, str]]:
    """The modules of the package that a module imports, each with the line."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    package = [part for part in package if part != "__init__"]

    def nearest(parts: list[str]) -> str:
        while parts and ".".join(parts) not in known:
            parts = parts[:-1]
        return ".".join(parts) or "__init__"

    for node in statements(path.read_text() if text is None else text):
        if isinstance(node, ast.Import):
            for one in node.names:
                head, *rest = one.name.split(".")
                if head == PACKAGE:
                    yield node.lineno, nearest(rest)
        else:
            base = (node.module or "").split(".") if node.module else []
            if node.level:
                base = package[: len(package) - node.level + 1] + base
            elif not base or base.pop(0) != PACKAGE:
                continue
            for one in node.names:
                yield node.lineno, nearest([*base, one.name])


def layer_of(name: str) -> int:
    """The place of a module in `LAYERS`."""
    for level, (_, members) in enumerate(LAYERS):
        for member in members.split():
            inside = member.endswith("/") and f"{name}.".startswith(f"{member[:-1]}.")
            if name == member or inside:
                return level
    raise AssertionError(
        f"{PACKAGE}/{name.replace('.', '/')}.py stands in no layer; add it to LAYERS in {__file__}"
    )


def below(level: int) -> str:
    """What may be imported by a layer, for messages."""
    return "; ".join([f"{label}: {members}" for label, members in LAYERS[: level + 1]])


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of nodes of which each reaches all others, where there is more than one (Tarjan)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = lowest[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], index[other])
        if lowest[node] == index[node]:
            place = stack.index(node)
            circle = stack[place:]
            del stack[place:]
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def problems(root: Path, changed: dict[str, str] | None = None) -> list[str]:
    """Every import that the layers do not allow, with what may be imported instead.

    `changed` has the texts that modules would have.
    """
    known = modules(root)
    found = []
    graph: dict[str, set[str]] = {}
    rooms: dict[str, set[str]] = {}  # folders, and the modules beside them
    where: dict[tuple[str, str], str] = {}
    for name, path in known.items():
        if path.suffix == ".pyi":
            continue  # a stub for type checkers
        level = layer_of(name)
        graph[name] = set()
        for line, other in imports(name, path, set(known), (changed or {}).get(name)):
            place = f"{path.relative_to(root.parent)}:{line}"
            if other == name:
                continue
            if layer_of(other) > level:
                found.append(
                    f"{place} imports {other}, which is in the layer "
                    f"{LAYERS[layer_of(other)][0]!r}, above {LAYERS[level][0]!r}; "
                    f"{name} may import {below(level)}"
                )
            else:
                graph[name].add(other)
                where.setdefault((name, other), place)
                room, another = name.split(".")[0], other.split(".")[0]
                if room != another:
                    rooms.setdefault(room, set()).add(another)
                    where.setdefault((room, another), place)
    for circle in circles(graph) or circles(rooms):
        steps = [
            f"{place} imports {other}"
            for (name, other), place in where.items()
            if name in circle and other in circle
        ]
        found.append(f"a circle of {len(circle)} modules ({', '.join(circle)}): {'; '.join(steps)}")
    return found


def test_no_module_imports_what_stands_above_it():
    assert not problems(ROOT / PACKAGE), "\n".join(problems(ROOT / PACKAGE))


def test_each_module_has_a_layer():
    members = [member for _, row in LAYERS for member in row.split()]
    assert len(members) == len(set(members))
    known = modules(ROOT / PACKAGE)
    for member in members:
        assert member.rstrip("/") in known, f"{member} of LAYERS is no module"


def test_modules_are_imported_by_name_where_that_is_said():
    by_name = {
        name
        for name, path in modules(ROOT / PACKAGE).items()
        if re.search(r"\b(import_module|__import__)\(", path.read_text())
    }
    assert by_name == set(BY_NAME)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "from nativecall._callable.callable import wrap\n",
            "ctype.py:1 imports _callable.callable, which is in the layer",
        ),
        (
            "def f():\n    from .._callable import entry\n",
            "ctype.py:2 imports _callable.entry, which is in the layer",
        ),
        (
            "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from .._codegen.engine import Code\n",
            "ctype.py:3 imports _codegen.engine, which is in the layer 'code', above 'signatures'; "
            "_types.ctype may import ground: _cache _core _errors _ext",
        ),
        ("import nativecall._library\n", "ctype.py:1 imports _library"),
        ("from nativecall import wrap\n", "ctype.py:1 imports __init__"),
        (
            "from .signature import Signature\n",
            "a circle of 3 modules (_types.ctype, _types.derived, _types.signature): ",
        ),
        (
            "from .. import _cdecl\n",
            "a circle of 2 modules (_cdecl, _types): ",
        ),
    ],
)
def test_what_is_not_allowed_is_found(text, message):
    found = problems(ROOT / PACKAGE, {"_types.ctype": text})
    assert len(found) == 1, found
    assert message in found[0]


# -- C -------------------------------------------------------------------------------------------


def units(root: Path) -> dict[str, list[Path]]:
    """The files of each unit: x.c and x.h are one, and so is a header of its own."""
    found: dict[str, list[Path]] = {}
    for path in sorted([*root.rglob("*.c"), *root.rglob("*.h")]):
        found.setdefault(str(path.relative_to(root).with_suffix("")), []).append(path)
    return found


def included(root: Path, path: Path) -> Iterator[tuple[int, str]]:
    """The units that a file includes by their names in quotes, each with the line."""
    for line, text in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', text)
        if match is None:
            continue
        # As the compiler looks: beside the file, then in the directories that it is told of.
        for folder in (path.parent, root, root / "include"):
            target = folder / match.group(1)
            if target.exists():
                yield line, str(target.resolve().relative_to(root.resolve()).with_suffix(""))
                break
        else:
            raise AssertionError(f"{path}:{line} includes {match.group(1)}, which is nowhere")


def c_layer_of(unit: str) -> int:
    """The place of a unit in `C_LAYERS`."""
    for level, (_, members) in enumerate(C_LAYERS):
        for member in members.split():
            if unit == member or (member.endswith("/") and unit.startswith(member)):
                return level
    raise AssertionError(f"{unit} is in no layer")


def c_problems(root: Path) -> list[str]:
    """Every include that the layers do not allow."""
    found = []
    graph: dict[str, set[str]] = {}
    rooms: dict[str, set[str]] = {}  # folders, and the units beside them
    where: dict[tuple[str, str], str] = {}
    for unit, paths in units(root).items():
        graph[unit] = set()
        for path in paths:
            for line, other in included(root, path):
                text = f"{path.relative_to(root.parent)}:{line} includes {other}"
                if c_layer_of(other) > c_layer_of(unit):
                    found.append(f"{text}, which is above it")
                elif other != unit:
                    graph[unit].add(other)
                    where[unit, other] = text
                    room, another = unit.split("/")[0], other.split("/")[0]
                    if room != another:
                        rooms.setdefault(room, set()).add(another)
                        where.setdefault((room, another), text)
    for circle in circles(graph) or circles(rooms):
        found.append("; ".join([text for pair, text in where.items() if {*pair} <= {*circle}]))
    return found


def test_no_unit_of_c_includes_what_stands_above_it():
    assert not c_problems(ROOT / "csrc"), "\n".join(c_problems(ROOT / "csrc"))


def test_public_headers_include_public_headers_only():
    include = ROOT / "csrc" / "include"
    for path in sorted(include.rglob("*.h")):
        for line, other in included(include, path):
            assert other.startswith(PACKAGE), f"{path}:{line}"


@pytest.mark.parametrize(
    ("header", "most"), [("nativecall_abi", 250), ("nativecallable", 950), ("callback", 1430)]
)
def test_a_public_header_brings_few_lines(header, most):
    """What somebody reads, and vendors, who looks, who consumes and who takes callbacks."""
    root = ROOT / "csrc"
    brought, left = set(), {f"include/{PACKAGE}/{header}"}
    while left:
        unit = left.pop()
        brought.add(root / f"{unit}.h")
        left |= {other for _, other in included(root, root / f"{unit}.h")} - {
            str(path.relative_to(root).with_suffix("")) for path in brought
        }
    brought.discard(root / f"include/{PACKAGE}/nativecall_abi3.h")  # for Py_LIMITED_API only
    assert sum(len(path.read_text().splitlines()) for path in brought) <= most


def test_lines_of_c_have_100_columns_at_most():
    """Comments, too, which clang-format leaves as they are."""
    for path in sorted((ROOT / "csrc").rglob("*.[ch]")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert len(line) <= 100, f"{path.relative_to(ROOT)}:{number}"


def test_what_is_not_allowed_in_c_is_found(tmp_path):
    root = tmp_path / "csrc"
    (root / "include" / PACKAGE).mkdir(parents=True)
    (root / "values").mkdir()
    (root / "values" / "a.h").write_text("")
    (root / "values" / "a.c").write_text('#include "a.h"\n# include "values/b.h"\n')
    (root / "values" / "b.h").write_text('#include "nativecall/c.h"\n')
    (root / "values" / "b.c").write_text('#include "b.h"\n')
    (root / "include" / PACKAGE / "c.h").write_text('#include "d.h"\n')
    (root / "include" / PACKAGE / "d.h").write_text("#include <stdint.h>\n")
    assert c_problems(root) == []
    (root / "values" / "b.c").write_text('#include "b.h"\n#include "a.h"\n')
    circle = "csrc/values/a.c:2 includes values/b; csrc/values/b.c:2 includes values/a"
    assert c_problems(root) == [circle]
    (root / "values" / "b.c").write_text('#include "module.h"\n')
    (root / "module.h").write_text("")
    assert c_problems(root) == ["csrc/values/b.c:1 includes module, which is above it"]


# -- levels --------------------------------------------------------------------------------------


def needs() -> dict[str, set[str]]:
    """The folders of both languages, and the files beside them, with those that each needs."""
    known = modules(ROOT / PACKAGE)
    found: dict[str, set[str]] = {}

    def place(root: str, parts: list[str]) -> str:
        return f"{root}/{parts[0]}{'/' * (ROOT / root / parts[0]).is_dir()}"

    for name, path in known.items():
        if path.suffix != ".pyi":  # a stub for type checkers
            here = found.setdefault(place(PACKAGE, name.split(".")), set())
            for _, other in imports(name, path, set(known)):
                here.add(place(PACKAGE, other.split(".")))
    for unit, paths in units(ROOT / "csrc").items():
        here = found.setdefault(place("csrc", unit.split("/")), set())
        for path in paths:
            here |= {place("csrc", b.split("/")) for _, b in included(ROOT / "csrc", path)}
    return {name: others - {name} for name, others in found.items()}


def test_folders_stand_on_few_levels():
    """A folder stands above all that it needs; a file beside folders takes no level of its own."""
    needed = needs()
    assert not circles(needed)

    @functools.cache
    def level(name: str) -> int:
        return name.endswith("/") + max([level(one) for one in needed.get(name, ())], default=0)

    rows: dict[int, list[str]] = {}
    for name in filter(lambda name: name.endswith("/"), needed):
        rows.setdefault(level(name), []).append(name)
    for number, row in sorted(rows.items(), reverse=True):
        print(f"{number}  {'  '.join(sorted(row))}")
    assert max(rows) <= MOST_LEVELS
