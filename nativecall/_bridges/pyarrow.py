"""pyarrow bridge: read chunked arrays. Other arrays export Arrow's C data interface themselves."""

from __future__ import annotations

from .._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from .._ext import Foreign


def array(obj: Foreign) -> object | None:
    """Return the only chunk of a chunked array; None for other objects."""
    if not hasattr(type(obj), "num_chunks"):
        return None
    if obj.num_chunks != 1:
        raise ValueError(f"it is in {obj.num_chunks} chunks; pass its combine_chunks()")
    chunk: object = obj.chunk(0)
    return chunk
