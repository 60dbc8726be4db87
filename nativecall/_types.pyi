# The second module of the core, which handles Python objects (csrc/module.c); _lib.py loads it.
from collections.abc import Callable
from typing import Any, Self, TypedDict, final

from ._callable.callable import NativeCallable
from ._callable.entry import HowCalled
from ._callable.specialize import Specializer
from ._signature.ctype import CType, Kind
from ._signature.signature import Signature
from ._values.failure import Errors
from ._values.policies import Policies

runtime_provider: str
#: Costs of an overload's argument: exact, wider, an object, narrower, refused.
costs: tuple[int, int, int, int, int]
#: The flags of each error convention by its name.
error_conventions: dict[str, int]
#: Code, canonical code, kind, size, alignment, the other attributes of a Scalar.
scalars: tuple[tuple[str, str, Kind, int, int, dict[str, object]], ...]
extensibletype: type[type]

class CallableBase:
    __name__: str
    __qualname__: str
    _doc: str | None
    _spec: CallSpec | None
    _overloads: tuple[NativeCallable, ...] | None
    _target: int
    _generated: Trampoline | None
    _specializer: Specializer | None
    @property
    def _only(self) -> NativeCallable: ...
    @property
    def signatures(self) -> tuple[str, ...]: ...
    @property
    def _owners(self) -> list[object]: ...
    @property
    def builtin(self) -> Callable[..., Any]: ...
    def __call__(self, *values: object) -> Any: ...
    def address(self, signature: str | Signature | None = None) -> int: ...
    def to_ctypes(self, signature: str | Signature | None = None) -> Any: ...
    def to_cffi(self, signature: str | Signature | None = None) -> Any: ...
    def to_capsule(self, signature: str | Signature | None = None) -> object: ...
    def to_scipy(
        self, signature: str | Signature | None = None, user_data: object = None
    ) -> object: ...
    def _alone(self, signature: str | Signature | None, /) -> NativeCallable: ...
    def __getitem__(self, signature: str | Signature, /) -> NativeCallable: ...
    def __contains__(self, signature: object, /) -> bool: ...
    def _describe(self, name: str | None, doc: str | None, /) -> None: ...
    def _set_entry(self, spec: CallSpec, address: int, flags: int, owner: object, /) -> None: ...
    def _derived(
        self, spec: CallSpec, address: int, flags: int, owner: object, /
    ) -> NativeCallable: ...
    def _set_overloads(self, overloads: tuple[CallableBase, ...], /) -> None: ...
    def _replace(self, position: int, address: int, owner: object, spec: CallSpec, /) -> None: ...
    def _position(self, spec: CallSpec, /) -> int: ...
    def _entries(self) -> list[tuple[str, int, int]]: ...
    def _entry(self) -> tuple[CallSpec, int, int]: ...
    def _table_memory(self) -> tuple[int, int]: ...
    def _trampoline_kind(self) -> str: ...
    def _choose(self, way: str | int, /) -> None: ...
    def bind(self, *values: object, **named: object) -> NativeCallable: ...
    def convert(
        self,
        signature: str | Signature,
        *,
        errors: Errors | None = None,
        name: str | None = None,
    ) -> NativeCallable: ...
    def _converted(
        self, wanted: CallSpec, errors: Errors | None, name: str | None, /
    ) -> NativeCallable | None: ...

@final
class CallSpec:
    signature: Signature
    types: tuple[CType, ...]
    policies: Policies
    @property
    def trampoline(self) -> str | None: ...

@final
class Trampoline:
    keep: object
    def __new__(cls, flags: int, address: int, keep: object, /) -> Self: ...

@final
class ThunkSpec:
    def __new__(
        cls,
        inner: CallSpec,
        wanted: CallSpec | None,
        outer: CallSpec,
        flags: int,
        stack: int,
        bytes: int,
        places: tuple[tuple[int, int], ...],
        helper: object,
        code: tuple[int, object] | None,
        lasts: bool,
        /,
    ) -> Self: ...

@final
class Thunk:
    function: NativeCallable
    kept: tuple[object, ...] | None
    def pickled(
        self, signature: Signature, name: str, doc: str | None, options: HowCalled, /
    ) -> tuple[object, ...]: ...

@final
class Pin:
    address: int

@final
class Stash:
    def put(self, exception: BaseException, /) -> None: ...

@final
class Memory:
    def __new__(
        cls,
        address: int,
        format: bytes,
        size: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        readonly: bool,
        /,
    ) -> Self: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class PointerReader:
    def __new__(cls, ctype: CType, /) -> Self: ...
    def __call__(self, address: int, /) -> object: ...

@final
class Record:
    def __new__(
        cls, made: Callable[..., object] | None, members: tuple[tuple[int, object], ...], /
    ) -> Self: ...
    def __call__(self, address: int, /) -> object: ...

class CallbackOptions(TypedDict):
    keep: object
    has_gil: bool
    python_errors: bool
    passed: bool
    tells_last: bool

@final
class CallbackSpec:
    objects: tuple[int, ...]
    pointer_type: Any
    def __new__(
        cls,
        readers: tuple[object, ...],
        objects: tuple[int, ...],
        letter: str,
        result: CallSpec | None,
        record: object,
        writer: object,
        sentinel: bytes,
        *,
        code: tuple[int, object] | None = ...,
        keep: object = ...,
        has_gil: bool = ...,
        python_errors: bool = ...,
        passed: bool = ...,
        tells_last: bool = ...,
        foreign: object = ...,
        carrier: object = ...,
        pointer_type: object = ...,
    ) -> Self: ...

class PyCallback:
    function: Callable[..., object] | None
    kept: object
    stash: Stash | None
    address: int
    def __new__(
        cls,
        spec: CallbackSpec,
        function: Callable[..., object],
        name: str,
        who: str | tuple[str, int] | None,
        /,
    ) -> Self: ...
    def close(self) -> object: ...

@final
class CtypesCallback(PyCallback):
    running: int
    def __call__(self, *values: object) -> object: ...
    def store(self, value: object, address: int, /) -> None: ...
    def release_sentinel(self) -> None: ...
    def forget_sentinels(self) -> None: ...

@final
class Library:
    @property
    def path(self) -> bytes | None: ...
    def symbol(self, name: bytes, /) -> int: ...
    def versioned(self, name: bytes, version: bytes, /) -> int: ...

def set_call_hooks(
    generate: Callable[..., object],
    make_fallback: Callable[..., object],
    failure: Callable[..., object],
    specialize: Callable[..., object],
    spec_of: Callable[..., object],
    no_entry: Callable[..., object],
    bridge: Callable[..., object],
    thunks: Callable[..., object],
    thunk_specs: dict[bytes, ThunkSpec],
    /,
) -> None: ...
def set_callable_class(type: type[NativeCallable], /) -> None: ...
def wrap_address(
    target: object, signature: object, name: str | None, /
) -> NativeCallable | None: ...
def make_callback(
    type: type[NativeCallable],
    plans: dict[str, tuple[CallSpec, int, CallbackSpec]],
    signature: object,
    function: object,
    /,
) -> NativeCallable | None: ...
def set_value_hooks(
    pointer_argument: Callable[..., object],
    pointer_type: Callable[..., object],
    match: Callable[..., object],
    struct_buffer: Callable[..., object],
    store: Callable[..., object],
    load: Callable[..., object],
    record_class: Callable[..., object],
    describe: Callable[..., object],
    passed: Callable[..., object],
    /,
) -> None: ...
def callspec(signature: Signature, hidden: int, policies: Policies, /) -> CallSpec: ...
def viewed(obj: object, /) -> NativeCallable | None: ...
def store_scalar(letter: str, value: object, address: int, who: str, /) -> None: ...
def load_scalar(letter: str, address: int, /) -> object: ...
def match(spec: CallSpec, value: object, /) -> int: ...
def pin(spec: CallSpec, name: str, index: int, value: object, /) -> Pin: ...
def hold(obj: object, /) -> Pin: ...
def check_unmoved(pins: list[object], name: str, /) -> None: ...
def export(obj: object, /) -> tuple[Pin, str, str, int, tuple[int, ...], tuple[int, ...], bool]: ...
def settle(pins: list[object], raised: BaseException | None, /) -> None: ...
def take_pointers(ctype: CType, value: object, pointer: object, alignment: int, /) -> None: ...
def stack_require(name: str, bytes: int, /) -> None: ...
def value_letter(value: object, /) -> str: ...
def slots(type: object, /) -> list[tuple[int, int, int]]: ...
def object_slots(object: object, /) -> list[tuple[int, int, int]]: ...
def call_table_offset(type: object, /) -> int: ...
def native_offer(object: object, /) -> tuple[int | None, list[tuple[str, int, int]]] | None: ...
def native_entry(object: object, signature: str, /) -> tuple[int, int] | None: ...
def capsule(address: int, name: bytes, owner: object, /) -> object: ...
def scipy_box(form: tuple[type, bytes], entry: NativeCallable, /) -> Any: ...
def capsule_entry(capsule: object, /) -> NativeCallable | None: ...
def open_library(path: bytes | None, flags: int, /) -> Library: ...
def call_loop(
    callable: object,
    signature: str,
    way: str,
    repeats: int,
    results: object,
    x: object,
    y: object = ...,
    /,
) -> None: ...
def save_errno(code: int, /) -> None: ...
def saved_errno() -> int: ...
def object_at(address: int, owned: bool, /) -> object: ...
def take_object(name: str, address: int, errors: int, code: int, /) -> object: ...
def raise_left(result: object, function: object, arguments: object, /) -> object: ...
def code_layout() -> dict[str, int]: ...
def code_symbols() -> dict[str, int]: ...
def stubs_refused() -> str: ...
def convert_number(source: str, at: int, target: str, made: int, exact: bool, /) -> bool: ...
