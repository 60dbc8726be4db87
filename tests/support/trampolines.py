"""One function called both ways, through generated code and through libffi."""

from __future__ import annotations


def both(lib, name, signature, **options):
    """A function through generated code, and through libffi."""
    made = []
    for way in ("generated", "libffi"):
        f = lib.function(name, signature, **options)
        f._choose(way)
        assert f._trampoline_kind() == way == f.entries[0].trampoline
        made.append(f)
    return made


def outcome(call, *values):
    """What comes of a call, in a form that compares."""
    try:
        found = call(*values)
    except Exception as error:
        return type(error), str(error)
    return type(found).__name__, getattr(found, "_fields", None), repr(found)


def broken_function(x):
    raise LookupError("the cause")
