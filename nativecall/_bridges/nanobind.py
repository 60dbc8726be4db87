"""nanobind: its functions are recognised by the names of their types, and rejected.

A nanobind function stores the bound callee, a pointer or an object with state, as raw bytes.
Nothing records which of the two is stored, or the C++ type. The docstrings do not show the type
either: they use one word for all floating-point types.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from .._ext import Foreign


def reason(obj: Foreign) -> str | None:
    """Return why a nanobind function has no C function that can be read; None for other objects."""
    kind = type(obj).__name__
    if not kind.startswith(("nb_func", "nb_method", "nb_bound_method")):
        return None
    return (
        f"a nanobind {kind} does not record which C++ function it calls, nor its type; export "
        'the pointer as well, as in nb::capsule((void *) &f, "double (double)"), and pass that'
    )
