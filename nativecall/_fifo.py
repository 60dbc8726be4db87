"""Dicts that keep a bounded number of things alive, which can be made again.

Guarantee: any thread may use one at any time; threads that put at once may exceed the
bound by one each.
"""

from __future__ import annotations

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


class Cache(dict["Key", "Value"]):
    """A dict that forgets everything when a key comes to `limit` others."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def keep(self, key: Key, value: Value) -> Value:
        """Set an item, unless another thread has done so meanwhile; what is set now."""
        if len(self) >= self.limit:
            self.clear()
        return self.setdefault(key, value)
