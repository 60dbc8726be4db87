"""In-memory caches: two bounded dicts and a weak-value dict.

Guarantee: any thread may use a cache at any time. Threads that store at the same moment may each
exceed the bound by one item.
"""

from __future__ import annotations

from _weakref import ref  # importing weakref takes as long as ten of our modules

from ._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeVar

    Key = TypeVar("Key")
    Value = TypeVar("Value")


class Cache(dict["Key", "Value"]):
    """A dict that clears itself when it holds `limit` items and gets another."""

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
        """Set an item unless another thread has set it; return the value now stored."""
        self._make_room()
        return self.setdefault(key, value)

    def _make_room(self) -> None:
        if len(self) >= self.limit:
            self.clear()


class Fifo(Cache["Key", "Value"]):
    """A `Cache` that drops its oldest item instead of all items."""

    def _make_room(self) -> None:
        while len(self) >= self.limit:
            # Copying a view is atomic; iterating over a dict that other threads change is not.
            self.pop(next(iter([*self.keys()])), None)


class Shared(dict["Key", "ref[Value]"]):
    """A weak-value dict: an item disappears with the last other reference to its value."""

    def find(self, key: Key) -> Value | None:
        """Return the value of a key, or None."""
        known = self.get(key)
        return None if known is None else known()

    def share(self, key: Key, made: Value) -> Value:
        """Store `made` unless the key already has a value; return the value now stored."""

        def forget(dead: ref[Value]) -> None:
            # Another thread may remove the item between these two steps.
            if self.get(key) is dead:
                self.pop(key, None)

        reference = ref(made, forget)
        while True:
            first = self.setdefault(key, reference)
            found = first()
            if found is not None:
                return found
            forget(first)
