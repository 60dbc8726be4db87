"""`_namedtuple.NamedTuple` makes what `typing.NamedTuple` makes of the same body."""

from __future__ import annotations

import inspect
import pickle
import typing

import pytest

from nativecall import _namedtuple


def made(base: object) -> type:
    class Row(base):
        """A row."""

        name: str
        size: int = 8
        tags: tuple[str, ...] = ()

        @property
        def large(self) -> bool:
            return self.size > 8

        def __str__(self) -> str:
            return f"{self.name}!"

    return Row


def test_it_is_as_that_of_typing():
    ours, theirs = made(_namedtuple.NamedTuple), made(typing.NamedTuple)
    for row in (ours, theirs):
        one = row("a", tags=("x",))
        assert (*one,) == ("a", 8, ("x",))
        assert (one.name, one.size, one.tags, one.large, str(one)) == ("a", 8, ("x",), False, "a!")
        assert one._replace(size=9).large
        assert row._make(["b", 1, ()]) == ("b", 1, ())
        with pytest.raises(TypeError):
            row(size=1)
        with pytest.raises(AttributeError):
            one.more = 1
    for name in ("__name__", "__doc__", "__match_args__", "_fields", "_field_defaults"):
        assert getattr(ours, name) == getattr(theirs, name)
    shown = [
        [(one.name, one.kind, one.default) for one in inspect.signature(row).parameters.values()]
        for row in (ours, theirs)
    ]
    assert shown[0] == shown[1]
    assert repr(ours("a")) == repr(theirs("a")).replace(theirs.__qualname__, "Row")


def test_a_public_one_is_pickled_by_its_public_name():
    import nativecall as nc

    slot = nc.Slot(b"k", 1, 2)
    assert type(slot).__module__ == "nativecall"
    assert pickle.loads(pickle.dumps(slot)) == slot
