"""Run-time checks of arrays that jitted code passes to C as pointers and views.

Numba's array types record no lengths, and Numba assumes that every NumPy array is aligned. So these
checks reject arrays with too few items, rows of the wrong length or misaligned elements. Calls from
Python reject the same arrays with the same messages.

Importing this module imports Numba.
"""

from __future__ import annotations

import functools
import math

from numba.core import cgutils, types
from numba.np.arrayobj import make_array

from ..._errors import TYPE_CHECKING
from ..._types.derived import Array, Pointer, View, element_of
from ..._values.storage import misaligned

if TYPE_CHECKING:
    from llvmlite import ir

    from ..._ext import Foreign
    from ..._types.ctype import CType
    from .types import NumbaType
    from .values import Values


def suspect(
    values: Values, order: str, ctype: CType, kind: NumbaType, value: ir.Value
) -> tuple[ir.Value, ir.Value] | None:
    """Emit the check of an argument.

    Return two LLVM values: whether to reject the argument, and its length in each dimension. Return
    None if the argument needs no check.
    """
    builder = values.builder
    if isinstance(kind, types.Record) and isinstance(ctype, Pointer):
        word = values.context.get_value_type(types.intp)
        mask = word(element_of(ctype).alignment - 1)
        odd = builder.and_(builder.ptrtoint(value, word), mask)
        return builder.icmp_signed("!=", odd, word(0)), cgutils.pack_array(builder, [word(1)])
    if not isinstance(kind, types.Buffer) or not isinstance(ctype, (Pointer, View)):
        return None
    array = make_array(kind)(values.context, builder, value)
    found = []
    if isinstance(ctype, Pointer) and isinstance(ctype.pointee, Array):
        count = array.nitems.type(ctype.pointee.length)
        found.append(builder.icmp_signed("<", array.nitems, count))
        if order == "C" and kind.ndim > 1:
            found.append(_has_other_rows(builder, ctype.pointee, array.shape, kind.ndim))
    if element_of(ctype).alignment > 1:
        found.append(_is_misaligned(builder, ctype, array, kind.ndim))
    return (functools.reduce(builder.or_, found), array.shape) if found else None


def refusal(
    name: str, index: int, order: str, ctype: CType, given: str, shape: tuple[int, ...]
) -> ValueError:
    """Return the exception for a rejected argument."""
    who = f"argument {index + 1} of {name!r} must"
    if isinstance(ctype, Pointer) and isinstance(ctype.pointee, Array):
        pointee, size = ctype.pointee, math.prod(shape)
        if size < pointee.length:
            least = f"at least {pointee.length} items of '{pointee.item}' (got {size})"
            return ValueError(f"{who} be a buffer of {least}")
        if order == "C" and len(shape) > 1 and not _fits(pointee, shape):
            return ValueError(
                f"{who} have rows of shape {pointee.shape} (got an array of shape {shape}); "
                "reshape it, or pass a one-dimensional array"
            )
    return ValueError(f"{who} {misaligned(element_of(ctype), given)}")


def _is_misaligned(builder: ir.IRBuilder, ctype: CType, array: Foreign, ndim: int) -> ir.Value:
    """Emit code that computes whether an element is misaligned for C.

    C uses the strides only for a view, so only a view's strides are checked.
    """
    word = array.nitems.type
    places = builder.ptrtoint(array.data, word)
    for index in range(ndim if isinstance(ctype, View) else 0):
        length = builder.extract_value(array.shape, index)
        step = builder.extract_value(array.strides, index)
        step = builder.select(builder.icmp_signed(">", length, word(1)), step, word(0))
        places = builder.or_(places, step)
    odd = builder.and_(places, word(element_of(ctype).alignment - 1))
    return builder.and_(
        builder.icmp_signed("!=", odd, word(0)), builder.icmp_signed("!=", array.nitems, word(0))
    )


def _fits(pointee: Array, shape: tuple[int, ...]) -> bool:
    """Return whether a multidimensional array's rows match the array type that a pointer points to.

    The rows match if the array's last dimensions equal those of the pointee, or if the last
    dimension alone has as many elements as the pointee. If the pointee has one dimension, its
    length may also be the product of several last dimensions of the array.
    """
    if shape[-1] == pointee.length:
        return True
    if len(pointee.shape) == 1:
        return pointee.length in [math.prod(shape[i:]) for i in range(len(shape))]
    known = min(len(pointee.shape), len(shape) - 1)
    return shape[-known:] == pointee.shape[-known:]


def _has_other_rows(builder: ir.IRBuilder, pointee: Array, shape: ir.Value, ndim: int) -> ir.Value:
    """Emit code that computes the negation of `_fits`."""
    lengths = [builder.extract_value(shape, index) for index in range(ndim)]
    word = lengths[0].type

    def equal(found: ir.Value, wanted: int) -> ir.Value:
        return builder.icmp_signed("==", found, word(wanted))

    fits = equal(lengths[-1], pointee.length)
    if len(pointee.shape) == 1:
        together = lengths[-1]
        for length in reversed(lengths[:-1]):
            together = builder.mul(together, length)
            fits = builder.or_(fits, equal(together, pointee.length))
    else:
        known = min(len(pointee.shape), ndim - 1)
        pairs = zip(lengths[-known:], pointee.shape[-known:], strict=True)
        same = functools.reduce(builder.and_, [equal(*pair) for pair in pairs])
        fits = builder.or_(fits, same)
    return builder.not_(fits)
