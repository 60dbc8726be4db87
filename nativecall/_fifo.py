"""Dicts that keep a bounded number of things alive: first in, first out.

Guarantee: any thread may use one at any time; the bound may be passed by as many as put at once.
"""

from __future__ import annotations

__all__ = ["Fifo"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Key = TypeVar("Key")
    Value = TypeVar("Value")


class Fifo(dict["Key", "Value"]):
    """A dict of the last `limit` keys that were put."""

    limit = 256

    def put(self, key: Key, value: Value) -> None:
        """Set an item, in the place of the oldest ones where there are too many."""
        while len(self) >= self.limit:
            # A copy is made at once, whatever other threads do; the iterator of a dict is not.
            self.pop(next(iter([*self])), None)
        self[key] = value
