# csrc/conformance/providers.c
from collections.abc import Callable

functions: tuple[int, ...]
api: dict[str, int]
words: int

def make_type(
    name: str,
    is_ready: bool,
    array: int,
    room: int,
    offset: int,
    bases: tuple[type, ...],
    call: str,
    /,
) -> type: ...
def behind(object: object, /) -> object: ...
def view(object: object, /) -> Callable[..., object]: ...
def finds_alone(find: int, object: object, signature: str, seconds: int, /) -> bool: ...
