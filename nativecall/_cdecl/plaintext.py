"""The types that declarations given as text take for granted."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._ext import Foreign
    from .nodes import Node
    from .parser import Parser

# Names that C code for Python takes for granted, beyond <stdint.h>, <stddef.h> and <stdbool.h>.
_MEANT = {
    "bool": "_Bool",
    "FILE": "struct _IO_FILE",
    "PyObject": "struct _object",
    "Py_ssize_t": "ssize_t",
    "npy_intp": "intptr_t",
    "npy_uintp": "uintptr_t",
    "char8_t": "unsigned char",
}
_KNOWN = (
    *("size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t", "intmax_t", "uintmax_t"),
    *("wchar_t", "char16_t", "char32_t"),
    *[
        f"{sign}int{kind}{bits}_t"
        for sign in ("", "u")
        for kind in ("", "_least", "_fast")
        for bits in (8, 16, 32, 64)
    ],
)


def know(parser: Parser, names: Foreign = None) -> None:
    """Have a parser know other types: those of a library, which know these, else these."""
    if names is not None:
        names.lend(parser)
    else:
        parser.typedefs |= common_types()
        parser.granted = {**parser.typedefs}


_common: list[dict[str, tuple[Node, bool]]] = []


def common_types() -> dict[str, tuple[Node, bool]]:
    """These types, as the typedefs of a parser."""
    if _common:
        return _common[0]
    import _cffi_backend

    from .cffitype import of_c
    from .characters import CHARACTERS
    from .lexer import tokenizer
    from .nodes import Number
    from .parser import Parser

    meant = {**_MEANT}
    _cffi_backend._get_common_types(meant)  # those of Windows, there
    first = Parser([])
    for name in _KNOWN:
        cname = name if name in CHARACTERS else ""
        first.typedefs[name] = Number(of_c(name), cname=cname), False
    text = " ".join([f"typedef {words} {name};" for name, words in meant.items()])
    first.tokens[:0] = tokenizer()(text)
    first.read()
    _common.append(first.typedefs)
    return first.typedefs
