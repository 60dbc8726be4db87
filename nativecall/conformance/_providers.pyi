# csrc/conformance/providers.c
from collections.abc import Callable

from .._types import Foreign

functions: tuple[int, ...]
api: dict[str, int]
words: int
roomy: type

def make_type(
    name: str,
    kind: str,
    rows: list[tuple[int, int, int]],
    room: int,
    offset: int,
    bases: tuple[type, ...],
    call: str,
    /,
) -> tuple[Foreign, int]: ...
def view(object: object, /) -> Callable[..., object]: ...
def method_view(object: object, /) -> Callable[..., object]: ...
def append(table: int, entries: list[tuple[int, int, int]], /) -> None: ...
def store(address: int, value: int, /) -> None: ...
def finds_alone(find: int, object: object, signature: str, seconds: int, /) -> bool: ...
def intern_many(prefix: str, count: int, /) -> int: ...
