"""Types of signatures by the names that declarations have for them."""

from __future__ import annotations

from nativecall._errors import SignatureError
from nativecall._signature.cnodes import Converter
from nativecall._signature.ctype import CType
from nativecall._signature.declared import Declarations
from nativecall._signature.typenames import TypeNames


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
