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
    bases: tuple[type, ...],
    call: str,
    /,
) -> tuple[type, int]: ...
def view(object: object, /) -> Callable[..., object]: ...
def finds_alone(find: int, object: object, signature: str, seconds: int, /) -> bool: ...
