"""`NamedTuple` as in typing. Importing `typing` takes half as long as importing the package."""

from __future__ import annotations

from collections import namedtuple

from ._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Declaration(type):
        """Makes a named tuple from a class body: the annotated names are the fields."""

        def __new__(cls, name, bases, body):
            fields = body["__annotations__"]
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults)
            for key, value in body.items():
                setattr(made, key, value)
            return made

    NamedTuple = type.__new__(_Declaration, "NamedTuple", (), {})
