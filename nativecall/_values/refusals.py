"""Error messages for buffers that a pointer argument refuses.

The core decides which buffers to refuse (csrc/values/exporters.c), and calls this module to raise
the exception.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING
from .storage import Record, misaligned

if TYPE_CHECKING:
    from .._ext import CallInterface, Foreign

#: The NumPy dtype of a pointer's elements, by letter.
_DTYPES = {"b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32"}
_DTYPES |= {"q": "int64", "Q": "uint64", "f": "float32", "d": "float64"}
_DTYPES |= {"z": "complex64", "Z": "complex128"}
#: NumPy kinds, from narrow to wide. Conversion to an earlier kind drops fractions or imaginary
#: parts. Signed and unsigned integers count as equal.
_KINDS = "buifc"


def refuse(
    cif: CallInterface,
    index: int,
    value: Foreign,
    shown: object,
    found: str,
    who: str,
    why: str,
    letter: str,
) -> None:
    """Raise the exception for the buffer of `value` as argument `index` of a call interface.

    Messages describe the object `shown`; `found` is the name of its type. `why` is the core's
    reason: ``"short"``; ``"alignment"``; ``"suits"`` if only the memory layout or writability is
    wrong; ``"rows"``; or ``""`` for any other reason. For ``"rows"``, raise an exception only if
    the rows have the wrong shape.
    """
    wanted = cif.policies.spelled(cif.signature, index)
    record = value._layout.about.name if type(value) is Record else None
    try:
        view = memoryview(value)
    except (TypeError, ValueError, BufferError) as error:
        problem = f"buffer that suits '{wanted}' ({found} has none: {error})"
        if record is not None:
            problem = f"'{wanted}' (got a '{record}')"
        raise TypeError(f"{who} must be a {problem}") from None
    with view:
        if why == "rows":
            _check_rows(cif, index, view, who)
        elif why == "short":
            array: Foreign = cif.types[index]
            row, item = array.pointee, array.pointee.item
            raise ValueError(
                f"{who} must be a buffer of at least {row.size // item.size} items of '{item}' "
                f"(got {view.nbytes // item.size})"
            )
        elif why == "alignment":
            pointer: Foreign = cif.types[index]
            raise ValueError(f"{who} must {misaligned(pointer.pointee, found)}")
        elif why == "suits":
            _refuse_memory(cif, view, found, who)
        elif record is not None:
            raise TypeError(f"{who} must be a '{wanted}' (got a '{record}')")
        else:
            raise TypeError(
                f"{who} must be a buffer that suits '{wanted}' (got '{view.format}' elements in "
                f"{found}){_dtype_hint(letter, shown)}"
            )


def _check_rows(cif: CallInterface, index: int, view: memoryview, who: str) -> None:
    """Raise ValueError unless the rows of a buffer match the arrays that a pointer points to.

    Rows match if all lengths except the first agree. If the pointer points to one-dimensional
    arrays, the rows also match if some of the buffer's last dimensions multiply to the array's
    length.
    """
    array: Foreign = cif.types[index]
    lengths, shape = array.pointee.shape, view.shape or ()
    together = 1
    for length in reversed(shape):
        if together < lengths[0]:
            together *= length
    is_line = len(lengths) == 1 and together == lengths[0]
    last = min(len(lengths), len(shape) - 1)
    if not is_line and lengths[-last:] != shape[-last:]:
        raise ValueError(
            f"{who} must have rows of shape {lengths} (got an array of shape {shape}); reshape it, "
            "or pass a one-dimensional array"
        )


def _refuse_memory(cif: CallInterface, view: memoryview, found: str, who: str) -> None:
    """Raise ValueError for a buffer that is read-only, has gaps, or has the wrong memory layout."""
    order = cif.policies.order
    is_fortran = order == "F"
    if {"C": view.c_contiguous, "F": view.f_contiguous, "A": view.contiguous}[order]:
        raise ValueError(
            f"{who} must be writable, this {found} is read-only; a C declaration with const makes "
            "the argument read-only"
        )
    if view.contiguous:
        own, other = ("Fortran", "C") if is_fortran else ("C", "Fortran")
        advice = "pass numpy.asfortranarray() of it, or " if is_fortran else ""
        raise ValueError(
            f"{who} must be in {own} order, this {found} is in {other} order; {advice}load the "
            f'function with order="{other[0]}" or order="A" if C expects that'
        )
    must = {"C": "C-contiguous", "F": "contiguous in Fortran order", "A": "contiguous"}[order]
    advice = ", as numpy.asfortranarray() makes one" if is_fortran else ""
    raise ValueError(f"{who} must be {must}, this {found} is not; pass a contiguous copy{advice}")


def _dtype_hint(letter: str, array: Foreign) -> str:
    """Return the end of a message: the array's dtype, and ``astype`` unless it loses values."""
    wanted = _DTYPES.get(letter)
    if wanted is None or not hasattr(array, "astype"):
        return ""
    dtype = getattr(array, "dtype", None)
    kind = getattr(dtype, "kind", None)
    if not kind:
        return ""
    most = "i" if wanted[0] == "u" else wanted[0]
    if kind in _KINDS[: _KINDS.index(most) + 1]:
        return f"; its dtype is {dtype}, astype('{wanted}') of it is a copy that suits"
    return f"; its dtype is {dtype}"
