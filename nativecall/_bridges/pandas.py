"""pandas bridge: find the memory of columns, indexes and extension arrays.

Memory that pandas marks as read-only stays read-only: pandas shares the memory of columns until it
sees a write, and it cannot see writes by C code. Elements with a mask are read-only, too.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from .._ext import Foreign


def array(obj: Foreign) -> Foreign:
    """Return the NumPy or Arrow array of a column's elements, or None for other objects.

    Raises
    ------
    TypeError, ValueError
        If there is no such array, or elements are missing.
    """
    if getattr(obj, "ndim", None) == 2:
        raise TypeError("a table has many columns; pass one of them")
    dtype = getattr(obj, "dtype", None)
    if dtype is None:
        return None
    if "RangeIndex" in [cls.__name__ for cls in type(obj).__mro__]:
        raise TypeError("a range has no memory buffer; pass its to_numpy()")
    held: Foreign = getattr(obj, "array", obj)
    if hasattr(dtype, "pyarrow_dtype"):
        return held.__arrow_array__()
    is_numpy = hasattr(dtype, "newbyteorder")
    if not is_numpy and not hasattr(dtype, "numpy_dtype"):
        raise TypeError(
            f"its elements, of dtype {str(dtype)!r}, are not stored as numbers in memory"
        )
    # Among pandas' own number types, only masked types use pandas.NA for missing values.
    if is_numpy or type(dtype.na_value).__name__ != "NAType":
        return obj.to_numpy(copy=False)
    missing = int(obj.isna().sum())
    if missing:
        raise ValueError(f"{missing} of its {len(obj)} elements are missing")
    found: Foreign = held.to_numpy(dtype=dtype.numpy_dtype, copy=False)[:]
    found.flags.writeable = False
    return found
