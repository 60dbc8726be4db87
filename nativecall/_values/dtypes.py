"""Convert C types to NumPy dtypes."""

from __future__ import annotations

import math

from .._errors import TYPE_CHECKING
from .._types.derived import is_plain

if TYPE_CHECKING:
    from .._ext import Foreign
    from .._types.ctype import CType

_LETTERS = {"bool": "b", "float": "f", "complex": "c"}


def zeros(shape: tuple[int, ...], ctype: CType, alignment: int) -> Foreign:
    """Return an aligned NumPy array of zeros of a C type."""
    import numpy

    dtype = dtype_of(ctype)
    if alignment <= 16:
        return numpy.zeros(shape, dtype)
    size = math.prod(shape) * dtype.itemsize
    memory = numpy.zeros(size + alignment, "B")
    start = -memory.ctypes.data % alignment
    return memory[start : start + size].view(dtype).reshape(shape)


def dtype_of(ctype: Foreign) -> Foreign:
    """Return the dtype of a C type in memory; pointers become integers.

    Examples
    --------
    >>> from nativecall._cdecl.spelling import parse_type
    >>> str(dtype_of(parse_type("q"))), dtype_of(parse_type("T{b:a:d:x:}")).itemsize
    ('int64', 16)
    """
    import numpy

    if ctype.kind == "array":
        return numpy.dtype((dtype_of(ctype.item), ctype.shape))
    if not is_plain(ctype):
        raise TypeError(f"NumPy has no type for {ctype.c_declaration()!r}: bit-fields and unions")
    if ctype.kind == "struct":
        return numpy.dtype(
            {
                "names": list(ctype.field_names),
                "formats": [dtype_of(field.type) for field in ctype.fields],
                "offsets": [field.offset for field in ctype.fields],
                "itemsize": ctype.size,
            }
        )
    if ctype.kind in ("pointer", "voidptr", "function"):
        return numpy.dtype(numpy.uintp)
    letter = _LETTERS.get(ctype.kind) or ("i" if ctype.signed else "u")
    return numpy.dtype(f"{letter}{ctype.size}")
