"""nanobind: its functions expose nothing readable, so they are rejected by name.

A nanobind function stores the bound callee, a pointer or an object with state, as raw bytes.
Nothing records which of the two is stored, or its C++ type. The docstrings use one word for all
floating-point types.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._ext import Foreign


def reason(obj: Foreign) -> str | None:
    """Return why there is no C function."""
    kind = type(obj).__name__
    if not kind.startswith(("nb_func", "nb_method", "nb_bound_method")):
        return None
    return (
        f"a nanobind {kind} does not record which C++ function it calls, nor its type; export "
        'the pointer as well, as in nb::capsule((void *) &f, "double (double)"), and pass that'
    )
