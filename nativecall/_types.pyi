# The second module of the core, which handles Python objects (csrc/module.c); _lib.py loads it.
import builtins
from collections.abc import Callable, Iterator
from typing import Any, Generic, Self, SupportsIndex, TypeAlias, TypedDict, TypeVar, final, overload

from numpy.typing import NDArray

from ._callable.callable import NativeCallable
from ._callable.entry import HowCalled
from ._callable.specialize import Specializer
from ._signature.ctype import CType, Kind
from ._signature.signature import Signature
from ._values.failure import Errors
from ._values.policies import Policies
from ._values.storage import About

_Function = TypeVar("_Function", bound=Callable[..., object])
_Object = TypeVar("_Object", bound=NativeObject)

#: For type checkers alone: an object of another library, or of a type that only its use tells.
Foreign: TypeAlias = Any
#: The same: cffi's memory and types.
FFIData: TypeAlias = Foreign
FFIType: TypeAlias = Foreign

abi_version: int
#: The flags of entries, and the mask of the error convention.
flags: dict[str, int]
#: Costs of an overload's argument: exact, wider, an object, narrower, refused.
costs: tuple[int, int, int, int, int]
#: The flags of each error convention by its name.
error_conventions: dict[str, int]
#: Code, canonical code, kind, size, alignment, the other attributes of a Scalar.
scalars: tuple[tuple[str, str, Kind, int, int, dict[str, object]], ...]
extensibletype: type[type]

#: Name, code (None: a reference), offset, class of a reference (None: any).
FieldRow: TypeAlias = tuple[str, str | None, int, Foreign]
#: Name, signature, address (0: abstract), flags, whether self is the fields.
MethodRow: TypeAlias = tuple[str, str, int, int, bool]

class nativeobjecttype(type):
    def mro(self) -> list[type]: ...

class NativeObject(metaclass=nativeobjecttype):
    def __init__(self, *values: object, **fields: object) -> None: ...
    def __setstate__(self, state: Foreign, /) -> None: ...

@final
class Field:
    offset: int
    size: int
    atomic: bool
    def __new__(
        cls,
        owner: type,
        name: str,
        letter: str,
        offset: int,
        size: int,
        atomic: bool,
        of: type | None,
        load: Callable[..., object] | None,
        store: Callable[..., object] | None,
        doc: str | None,
        /,
    ) -> Self: ...
    # Of atomic fields alone.
    def add(self, object: NativeObject, number: int, /) -> int: ...
    def exchange(self, object: NativeObject, value: Foreign, /) -> Foreign: ...
    def compare_exchange(
        self, object: NativeObject, expected: Foreign, desired: Foreign, /
    ) -> bool: ...

@final
class Method:
    signature: str
    def __new__(
        cls,
        owner: type,
        name: str,
        callable: NativeCallable | None,
        takes_fields: bool,
        signature: str,
        doc: str | None,
        /,
    ) -> Self: ...
    def __call__(self, object: NativeObject, /, *values: Foreign, **named: Foreign) -> Foreign: ...

@final
class ObjectArray(Generic[_Object]):
    address: int
    stride: int
    def __new__(cls, type: builtins.type[_Object], count: int) -> Self: ...
    @property
    def type(self) -> builtins.type[_Object]: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> _Object: ...
    @overload
    def __getitem__(self, field: str, /) -> NDArray[Foreign]: ...
    def __iter__(self) -> Iterator[_Object]: ...

def finish_root(methods: dict[str, Callable[..., object]], /) -> None: ...
def set_object_hooks(
    describe: Callable[..., object],
    publish: Callable[..., object],
    view: Callable[..., object],
    /,
) -> None: ...
def object_as_python(address: int, /) -> NativeObject: ...
def object_with_class(
    address: int, find: Callable[[int], type | None], cls: type, owned: bool, /
) -> NativeObject | None: ...
def native_order(type: type, /) -> tuple[type, ...]: ...
def native_parts(type: type, /) -> tuple[list[FieldRow], list[MethodRow]]: ...

class CallableBase:
    __name__: str
    __qualname__: str
    _doc: str | None
    _spec: CallSpec | None
    _overloads: tuple[NativeCallable, ...] | None
    _target: int
    _specializer: Specializer | None
    @property
    def _only(self) -> NativeCallable: ...
    @property
    def _is_entry(self) -> bool: ...
    @property
    def signatures(self) -> tuple[str, ...]: ...
    @property
    def _owners(self) -> list[object]: ...
    @property
    def builtin(self) -> Callable[..., Any]: ...
    # As the functions that stubs describe may take other arguments than any.
    def __call__(self, *values: Any, **named: Any) -> Any: ...
    def address(self, signature: str | Signature | None = None) -> int: ...
    def to_ctypes(self, signature: str | Signature | type | None = None) -> Any: ...
    def to_cffi(self, signature: object = None, *, ffi: object = None) -> Any: ...
    def to_capsule(
        self, signature: str | Signature | None = None, *, name: str | None = None
    ) -> object: ...
    @property
    def _as_parameter_(self) -> Any: ...
    def to_scipy(
        self, signature: str | Signature | None = None, user_data: object = None
    ) -> Foreign: ...
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
    def _unwrap(self) -> None: ...
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
    names: tuple[str | None, ...] | None
    ways: dict[object, CallSpec] | None
    @property
    def trampoline(self) -> str | None: ...

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
        code: tuple[int, object] | bytes,
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
class Destructor:
    owner: object
    def __new__(cls, owner: object, /) -> Self: ...
    def __call__(self, dropped: object, /) -> None: ...

@final
class MemoryPlan:
    def __new__(
        cls,
        ctype: Foreign,
        pointer: Foreign,
        kind: str,
        leads_on: bool,
        usual: bool,
        length: int,
        size: int,
        slots: tuple[tuple[str | None, str, int, Foreign, Self | None], ...],
        make: Callable[..., object],
        allocate: Callable[..., object],
        ready: Callable[[Foreign], tuple[object, ...]],
        /,
    ) -> Self: ...
    def __call__(self, init: object, /) -> Foreign: ...

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
class Layout:
    about: About
    def __new__(cls, rows: tuple[Foreign, ...], about: About, /, *layout: int) -> Self: ...
    def __call__(self, address: int, owned: bool = ..., owner: object = ..., /) -> Foreign: ...

class RecordBase:
    _layout: Layout
    _owner: object
    _held: dict[object, object] | None
    _address: int
    def _put(self, kept: dict[object, object], key: object, keep: object, *to: int) -> None: ...
    def _copy_to(self, address: int, kept: dict[object, object], /) -> list[object]: ...
    # The fields, of any names.
    def __getattr__(self, name: str, /) -> Foreign: ...
    def __setattr__(self, name: str, value: Foreign, /) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> Foreign: ...
    def __setitem__(self, place: int, value: object, /) -> None: ...
    def __iter__(self) -> Iterator[Foreign]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def set_record_class(record: type[RecordBase], /) -> None: ...

class CallbackOptions(TypedDict):
    keep: object
    has_gil: bool
    python_errors: bool
    passed: bool
    kept: bool
    sets_errno: bool

@final
class CallbackSpec:
    objects: tuple[int, ...]
    @property
    def sentinel(self) -> bytes: ...
    def __new__(
        cls,
        readers: tuple[object, ...],
        objects: tuple[int, ...],
        letter: str,
        result: CallSpec | None,
        plan: bytes,
        sentinel: bytes,
        *,
        keep: object = ...,
        has_gil: bool = ...,
        python_errors: bool = ...,
        passed: bool = ...,
        kept: bool = ...,
        sets_errno: bool = ...,
    ) -> Self: ...

@final
class PyCallback:
    function: Callable[..., object] | None
    kept: object
    stash: Stash | None
    spec: CallbackSpec
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
class Library:
    @property
    def path(self) -> bytes | None: ...
    def function(
        self, name: str, signature: object, library: str | None, owner: type[tuple[object, ...]], /
    ) -> NativeCallable | None: ...
    def symbol(self, name: bytes, /) -> int: ...
    def missing(self, names: tuple[str, ...], /) -> str | None: ...
    def versioned(self, name: bytes, version: bytes, /) -> int: ...

calls_traced: int

def set_spec_hooks(describe: Callable[..., object], spec_of: Callable[..., object], /) -> None: ...
def set_call_hooks(
    make_wrapper: Callable[..., object],
    plan: Callable[..., bytes],
    extended: Callable[..., CallSpec],
    extra_argument: Callable[..., tuple[CType, object]],
    failure: Callable[..., object],
    specialize: Callable[..., object],
    no_entry: Callable[..., object],
    bridge: Callable[..., object],
    thunks: Callable[..., object],
    thunk_specs: dict[bytes, ThunkSpec],
    /,
) -> None: ...
def set_callable_class(type: type[NativeCallable], /) -> None: ...
def allocate_block(size: int, /) -> Foreign: ...
def string_shortcut(function: _Function, /) -> _Function: ...
def memory_shortcut(function: _Function, plans: dict[str, MemoryPlan], /) -> _Function: ...
def typed_shortcut(
    function: _Function, known: dict[str, Foreign], typed: Callable[..., object], /
) -> _Function: ...
def attribute_shortcut(function: _Function, owner: type, /) -> _Function: ...
def wrap_shortcut(function: _Function, /) -> _Function: ...
def callback_shortcut(
    function: _Function,
    type: type[NativeCallable],
    plans: dict[str, tuple[CallSpec, int, CallbackSpec]],
    /,
) -> _Function: ...
def set_value_hooks(
    pointer_argument: Callable[..., object],
    pointer_type: Callable[..., object],
    match: Callable[..., object],
    struct_buffer: Callable[..., object],
    store: Callable[..., object],
    load: Callable[..., object],
    layout: Callable[..., object],
    out_array: Callable[..., object],
    out_store: Callable[..., object],
    passed: Callable[..., object],
    /,
) -> None: ...
def text_result(spec: CallSpec, address: int, text: str = ..., /) -> bytes | str: ...
def callspec(signature: Signature, hidden: int, policies: Policies, /) -> CallSpec: ...
def viewed(obj: object, /) -> NativeCallable | None: ...
def callable_of(obj: object, /) -> NativeCallable | None: ...
def store_scalar(letter: str, value: object, address: int, who: str, /) -> None: ...
def load_scalar(letter: str, address: int, /) -> object: ...
def match(spec: CallSpec, value: object, /) -> int: ...
def pin(spec: CallSpec, name: str, index: int, value: object, /) -> Pin: ...
def hold(obj: object, /) -> Pin: ...
def export(obj: object, /) -> tuple[Pin, str, str, int, tuple[int, ...], tuple[int, ...], bool]: ...
def check_unmoved(pins: list[object], name: str, /) -> None: ...
def settle(pins: list[object], raised: BaseException | None, /) -> None: ...

#: The objects of cffi that were closed or freed and still live, by their addresses.
#: cffi's types that `string_at` reads text from, and the pointer types that they convert to.
texts: dict[Foreign, Foreign]

def take_pointers(ctype: CType, value: object, pointer: object, alignment: int, /) -> None: ...
def call_with_stack(address: int, bytes: int, /, *arguments: int) -> int | None: ...
def value_letter(value: object, /) -> str: ...
def slots(type: object, /) -> list[tuple[int, int, int]]: ...
def object_slots(object: object, /) -> list[tuple[int, int, int]]: ...
def call_table_offset(type: object, /) -> int: ...
def native_offer(object: object, /) -> tuple[int | None, list[tuple[str, int, int]]] | None: ...
def native_entry(object: object, signature: str, /) -> tuple[int, int] | None: ...
def capsule(address: int, name: bytes, owner: object, /) -> object: ...
def scipy_box(form: tuple[type, bytes], entry: NativeCallable, /) -> Foreign: ...
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
def set_errno(code: int, /) -> None: ...
def saved_errno() -> int: ...
def ended_by(pointer: object, /) -> str | None: ...
def object_at(address: int, owned: bool, /) -> object: ...
def raise_left(result: object, function: object, arguments: object, /) -> object: ...
def code_layout() -> dict[str, int]: ...
def code_symbols() -> dict[str, int]: ...
def symbols_address() -> int: ...
def has_room(bytes: int, /) -> bool: ...
def code_refused() -> str: ...
def load_object(
    data: bytes, names: tuple[str, ...], /
) -> tuple[object, tuple[int, ...]] | None: ...
def processor() -> bytes: ...
def make_thunk(
    callable: NativeCallable, spec: ThunkSpec, values: tuple[object, ...], /
) -> NativeCallable: ...
