"""`namedtuple` as `collections` has it, for what every load needs.

`collections` imports five other modules and writes code for each class; that takes longer than a
load of a header that is kept. What is here has the same attributes and methods, pickles, and takes
arguments by place and by name.
"""

from __future__ import annotations

from _operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from collections import namedtuple as namedtuple
    from collections.abc import Iterable
    from typing import NamedTuple as NamedTuple
    from typing import Self
else:

    def namedtuple(name, fields, *, defaults=()):
        """A class of tuples whose items are attributes, too; `defaults` are of the last fields."""
        fields = (*fields,)
        return type(
            name, (_Named,), _members(fields, zip(fields[::-1], defaults[::-1], strict=False))
        )

    def _members(fields, defaults):
        members = {
            "__slots__": (),
            "__match_args__": fields,
            "_fields": fields,
            "_field_defaults": dict(defaults),
        }
        return members | {one: property(itemgetter(at)) for at, one in enumerate(fields)}

    class _Typed(type):
        """Makes a class of tuples of a body with annotations."""

        def __new__(cls, name, bases, body):
            fields = (*body["__annotations__"],)
            defaults = [(one, body.pop(one)) for one in fields if one in body]
            return type(name, (_Named,), {**body, **_members(fields, defaults)})

    #: As `typing` has it, for modules with ``from __future__ import annotations``: checkers know
    #: the types of its fields.
    NamedTuple = type.__new__(_Typed, "NamedTuple", (), {})


class _Arguments:
    """`__signature__` of such a class: its fields, as `inspect.signature` and `help` show them."""

    def __get__(self, obj: object, cls: type[_Named]) -> inspect.Signature:
        from inspect import Parameter, Signature

        kind, hints = Parameter.POSITIONAL_OR_KEYWORD, getattr(cls, "__annotations__", {})
        return Signature(
            [
                Parameter(
                    one,
                    kind,
                    default=cls._field_defaults.get(one, Parameter.empty),
                    annotation=hints.get(one, Parameter.empty),
                )
                for one in cls._fields
            ]
        )


class _Named(tuple[object, ...]):
    """What all such classes have."""

    __slots__ = ()
    __signature__ = _Arguments()
    _fields: tuple[str, ...] = ()
    _field_defaults: dict[str, object] = {}

    def __new__(cls, *given: object, **named: object) -> Self:
        if named or len(given) != len(cls._fields):
            given = cls._filled(given, named)
        return tuple.__new__(cls, given)

    @classmethod
    def _filled(cls, given: tuple[object, ...], named: dict[str, object]) -> tuple[object, ...]:
        """The items, of which some are given by name or left out."""
        fields, rest = cls._fields, cls._fields[len(given) :]
        if len(given) > len(fields):
            raise TypeError(f"{cls.__name__} takes {len(fields)} arguments (got {len(given)})")
        for name in named:
            if name not in rest:
                what = "has no argument" if name not in fields else "was given twice:"
                raise TypeError(f"{cls.__name__} {what} {name!r}")
        known = {**cls._field_defaults, **named}
        for name in rest:
            if name not in known:
                raise TypeError(f"{cls.__name__} is missing the argument {name!r}")
        return (*given, *[known[name] for name in rest])

    @classmethod
    def _make(cls, items: Iterable[object]) -> Self:
        return cls(*items)

    def _replace(self, **named: object) -> Self:
        if unknown := named.keys() - {*self._fields}:
            raise ValueError(f"{type(self).__name__} has no field {min(unknown)!r}")
        pairs = zip(self._fields, self, strict=True)
        return type(self)(*[named.get(name, item) for name, item in pairs])

    __replace__ = _replace

    def _asdict(self) -> dict[str, object]:
        return dict(zip(self._fields, self, strict=True))

    def __getnewargs__(self) -> tuple[object, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        pairs = zip(self._fields, self, strict=True)
        return f"{type(self).__name__}({', '.join([f'{name}={item!r}' for name, item in pairs])})"
