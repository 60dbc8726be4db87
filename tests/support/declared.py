"""Types of signatures, by their names in declarations."""

from __future__ import annotations

from nativecall._cdecl.declarations import Declarations
from nativecall._cdecl.nodes import Converter
from nativecall._cdecl.typenames import TypeNames
from nativecall._errors import SignatureError
from nativecall._types.ctype import CType


def type_of(declared: Declarations, name: str) -> CType | None:
    """The type that a typedef or a tag names, of a function a pointer to it; None for what is no
    type of a signature.
    """
    node = TypeNames(declared).find(name)
    assert node is not None, name
    try:
        return Converter().type(node.pointer() if node.kind == "function" else node)
    except SignatureError:
        return None
