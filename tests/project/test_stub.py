"""_ext.pyi names what the core's module of types has, and the members of its classes."""

from __future__ import annotations

import ast
from pathlib import Path

from nativecall import _ext

STUB = Path(__file__).resolve().parents[2] / "nativecall" / "_ext.pyi"
#: Of the stub alone: what arguments are made of, and what is of any type.
TYPES_ALONE = {"FFIData", "FFIType", "FieldRow", "Foreign", "MethodRow", "Native"}
TYPES_ALONE |= {"CallbackOptions"}


def names(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """What a body defines, by name."""
    found: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found[node.name] = node
    return found


def test_the_stub_has_the_names_of_the_core():
    stub = names(ast.parse(STUB.read_text()).body)
    there = {name for name in vars(_ext) if not name.startswith("__")}
    # A Pin is made by functions, so the module does not name its class.
    assert stub.keys() - TYPES_ALONE - {"Pin"} == there


def test_the_stub_has_the_members_of_the_core_s_classes():
    for name, node in names(ast.parse(STUB.read_text()).body).items():
        if not isinstance(node, ast.ClassDef) or name in TYPES_ALONE or name == "Pin":
            continue
        cls = getattr(_ext, name)
        given = {one for one in names(node.body) if not one.startswith("__")}
        there = {one for one in vars(cls) if not one.startswith("__")}
        assert given == there, name
