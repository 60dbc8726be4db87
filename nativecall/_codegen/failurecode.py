"""Whether a call has failed by its error convention, in the IR of thunks, loops and jitted code."""

from __future__ import annotations

from llvmlite import ir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._values.failure import Convention


def failed(
    builder: ir.IRBuilder, errors: Convention, answer: ir.Value, code: ir.Value | None
) -> ir.Value:
    """A bit that is set after a failure, by the result or by the number beside it."""
    if errors.is_code:
        assert code is not None
        return builder.icmp_signed("!=", code, code.type(0))
    return builder.icmp_signed(
        errors.relation, answer, ir.Constant(answer.type, errors.value or None)
    )
