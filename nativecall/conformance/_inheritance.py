"""The rules of inheritance, carried out on lists: what the table of a class must be."""

from __future__ import annotations

from . import _abi
from ._abi import CALL_KEYS

Row = tuple[int, int, int]


class Family:
    """Classes with the rows that each brings itself; the tables that follow from them.

    Attributes
    ----------
    own : dict
        By class: its own rows, and the offset of the call table that it brings; 0 for none.
    """

    def __init__(self) -> None:
        self.own: dict[type, tuple[list[Row], int]] = {}

    def add(self, kind: type, rows: list[Row], offset: int = 0) -> type:
        self.own[kind] = rows, offset
        return kind

    def _brings(self, kind: type) -> bool:
        rows, offset = self.own[kind]
        return offset != 0 or any([row[0] in CALL_KEYS for row in rows])

    def _first(self, kind: type) -> type | None:
        """The class whose call table a class has, unless that is hidden."""
        return next((one for one in kind.__mro__ if one in self.own and self._brings(one)), None)

    def hides(self, kind: type) -> bool:
        """Whether a class has an overridden call, so that it offers no call table."""
        mro = kind.__mro__
        first = self._first(kind)
        if first is None:
            return False
        before = mro[: mro.index(first)]
        # An extensible class with a __call__ of its own; one of another metaclass can get one.
        return any(["__call__" in vars(one) or one not in self.own for one in before])

    def offset(self, kind: type) -> int:
        """The direct offset of a class."""
        first = self._first(kind)
        return 0 if first is None or self.hides(kind) else self.own[first][1]

    def rows(self, kind: type) -> list[Row]:
        """The rows of a class, in their positions."""
        first = None if self.hides(kind) else self._first(kind)
        brought = [] if first is None else [row[0] for row in self.own[first][0]]
        lost = [key for key in CALL_KEYS if key not in brought]

        def offered(row: Row) -> Row:
            return (1, 0, 0) if row[0] in lost else row

        made: list[Row] = []
        behind = [one for one in kind.__mro__[1:] if one in self.own]
        for base in behind:
            for place, row in enumerate(map(offered, self.rows(base))):
                if place == len(made) if row[0] == 1 else row[0] not in [one[0] for one in made]:
                    made.append(row)
        for base in [*reversed(behind), kind]:
            for row in map(offered, self.own[base][0]):
                keys = [one[0] for one in made]
                if row[0] != 1 and row[0] in keys:
                    made[keys.index(row[0])] = row
                elif base is kind:
                    made.append(row)
        return made


def table(kind: type) -> tuple[list[Row], int]:
    """Rows and direct offset of a class, as they are."""
    return _abi.rows(kind), int(_abi.extension(kind).etp_obj_custom_slots_offset)
