# csrc/conformance/providers.c
from collections.abc import Callable

functions: tuple[int, ...]
api: dict[str, int]
words: int

def make_type(
    name: str,
    kind: str,
    rows: list[tuple[int, int, int]],
    room: int,
    offset: int,
    base: type | None,
    /,
) -> tuple[type, int]: ...
def view(object: object, /) -> Callable[..., object]: ...
def append(table: int, entries: list[tuple[int, int, int]], /) -> None: ...
def store(address: int, value: int, /) -> None: ...
