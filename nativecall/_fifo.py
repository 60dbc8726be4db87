"""Caches in memory: two with a bound, and a dict that holds its values weakly.

Guarantee: any thread may use one at any time; threads that put at once may exceed the
bound by one each.
"""

from __future__ import annotations

from _weakref import ref  # weakref takes as long to import as ten of our modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Key = TypeVar("Key")
    Value = TypeVar("Value")


class Cache(dict["Key", "Value"]):
    """A dict that clears itself when it is full, with `limit` items."""

    limit: int = 256

    def __init__(self, limit: int = 0) -> None:
        super().__init__()
        if limit:
            self.limit = limit

    def put(self, key: Key, value: Value) -> None:
        """Set an item."""
        self._make_room()
        self[key] = value

    def keep(self, key: Key, value: Value) -> Value:
        """Set an item, unless another thread has done so meanwhile; what is set now."""
        self._make_room()
        return self.setdefault(key, value)

    def _make_room(self) -> None:
        if len(self) >= self.limit:
            self.clear()


class Fifo(Cache["Key", "Value"]):
    """The same, but it drops only the oldest item."""

    def _make_room(self) -> None:
        while len(self) >= self.limit:
            # A copy is made at once, whatever other threads do; the iterator of a dict is not.
            self.pop(next(iter([*self])), None)


class Shared(dict["Key", "ref[Value]"]):
    """A dict whose items disappear when nobody else holds their values."""

    def find(self, key: Key) -> Value | None:
        """What there is of a key, or None."""
        known = self.get(key)
        return None if known is None else known()

    def share(self, key: Key, made: Value) -> Value:
        """What there is of a key, which another thread may have made meanwhile, or else `made`."""

        def forget(dead: ref[Value]) -> None:
            # Two threads may do this at once; then one finds nothing.
            if self.get(key) is dead:
                self.pop(key, None)

        reference = ref(made, forget)
        while True:
            first = self.setdefault(key, reference)
            found = first()
            if found is not None:
                return found
            forget(first)
