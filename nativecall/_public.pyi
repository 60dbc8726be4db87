# Stub of the public names. It makes native callables generic. Other names have the types that their
# modules declare. tests/typing contains code that type checkers must accept, and code that they
# must reject.
#
# A NativeCallable[[float], float] takes a float and returns one. `wrap` returns a plain
# NativeCallable, which takes and returns anything, since type checkers cannot read signatures.
# Annotate the variable to narrow it.

from collections.abc import Callable
from typing import Any, Concatenate, Generic, Literal, TypedDict, overload

from typing_extensions import ParamSpec, TypeVar, Unpack

from ._bridges.numpy import ufunc_loop as ufunc_loop
from ._callable.callable import NativeCallable as _NativeCallable
from ._callable.entry import Entry as Entry
from ._callback import AnyCallbackOptions as _AnyCallbackOptions
from ._callback import Callback as _Callback
from ._callback import CallbackOptions as _CallbackOptions
from ._errors import AbiError as AbiError
from ._errors import LibraryError as LibraryError
from ._errors import NativeCallError as NativeCallError
from ._errors import NativeFailure as NativeFailure
from ._errors import NoEntryError as NoEntryError
from ._errors import SignatureError as SignatureError
from ._errors import SymbolError as SymbolError
from ._ext import Field as _FieldDescriptor
from ._ext import Foreign as _Foreign
from ._ext import Method as _MethodDescriptor
from ._library import Library as _Library
from ._library import load as load
from ._library.options import FunctionOptions as _FunctionOptions
from ._native_objects import NativeObject as NativeObject
from ._native_objects import ObjectArray as ObjectArray
from ._reraise import reraise as reraise
from ._slots import Slot as Slot
from ._slots import customslots as customslots
from ._slots import extensibletype as extensibletype
from ._slots import get_include as get_include
from ._types.signature import Signature as Signature
from ._values.calloptions import AnyWrapOptions as _AnyWrapOptions
from ._values.calloptions import Gil as _Gil
from ._values.failure import Errors as _Errors
from ._values.foreign import register_box as register_box
from ._values.storage import Record as Record

_P = ParamSpec("_P", default=...)
_R = TypeVar("_R", default=Any)
_N = TypeVar("_N", bound=NativeObject, default=NativeObject)
_V = TypeVar("_V")

class NativeCallable(_NativeCallable, Generic[_P, _R]):
    """A Python callable of one or several C functions, which native code can find in it."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @property
    def builtin(self) -> Callable[_P, _R]:
        """The same callable as a real built-in function, for hot loops in Python."""

class Callback(_Callback, NativeCallable[_P, _R]):
    """A Python function as a native callable; made by `nativecall.callback`."""

class _Plain(TypedDict, total=False):
    # Options that change neither arguments nor results.
    name: str | None
    doc: str | None
    owner: object
    gil: _Gil
    errno: bool

@overload
def wrap(  # type: ignore[overload-overlap]  # keeps the types of the target
    target: NativeCallable[_P, _R], signature: None = None, **options: Unpack[_Plain]
) -> NativeCallable[_P, _R]:
    """Create a native callable from a C function."""

@overload
def wrap(
    target: object, signature: str | Signature | None = None, **options: Unpack[_AnyWrapOptions]
) -> NativeCallable: ...

class Library(_Library):
    def function(
        self,
        symbol: str,
        signature: str | Signature | None = None,
        **options: Unpack[_FunctionOptions],
    ) -> NativeCallable: ...

class _TypedCallbackOptions(_CallbackOptions):
    # If `types` is a library, the function's annotations determine its signature.
    types: object

class _Decorator:
    def __call__(self, function: Callable[_P, _R], /) -> Callback[_P, _R]: ...

_Signed = str | Signature | None

@overload
def callback(
    signature: _Signed, function: Callable[_P, _R], **options: Unpack[_AnyCallbackOptions]
) -> Callback[_P, _R]:
    """Turn a Python function into a native callable: a C pointer that runs it."""

@overload
def callback(  # type: ignore[overload-cannot-match]  # for lambdas where any Callback is wanted
    signature: _Signed, function: Callable[..., _R], **options: Unpack[_AnyCallbackOptions]
) -> Callback[..., _R]: ...
@overload
def callback(
    signature: Callable[_P, _R], function: None = None, **options: Unpack[_TypedCallbackOptions]
) -> Callback[_P, _R]: ...
@overload
def callback(
    signature: str | Signature, function: None = None, **options: Unpack[_AnyCallbackOptions]
) -> _Decorator: ...
@overload
def callback(
    signature: None = None, function: None = None, **options: Unpack[_TypedCallbackOptions]
) -> _Decorator: ...

class _FieldOf(Generic[_V]):
    # A field. If its type is given as a code, type checkers cannot determine the Python type.
    @overload
    def __get__(self, object: None, type: type, /) -> _FieldDescriptor: ...
    @overload
    def __get__(self, object: object, type: type, /) -> _V: ...
    def __set__(self, object: object, value: _V, /) -> None: ...

class _MethodOf(Generic[_P, _R]):
    # A method implemented by a Python function.
    @overload
    def __get__(self, object: None, type: type, /) -> _MethodDescriptor: ...
    @overload
    def __get__(self, object: object, type: type, /) -> Callable[_P, _R]: ...

class _Method(_MethodOf[..., _Foreign]):
    # The result of `method`: a method, or a decorator that makes one from a Python function.
    def __call__(
        self, function: Callable[Concatenate[_Foreign, _P], _R], /
    ) -> _MethodOf[_P, _R]: ...

@overload
def field(type: type[_N], *, atomic: bool = False, doc: str | None = None) -> _FieldOf[_N | None]:
    """Declare a field in the body of a class of native objects."""

@overload
def field(type: object, *, atomic: bool = False, doc: str | None = None) -> _FieldOf[_Foreign]: ...
def method(
    target: object = None,
    signature: str | Signature | None = None,
    *,
    gil: Literal["hold", "release"] = "hold",
    errors: _Errors = "none",
    doc: str | None = None,
) -> _Method:
    """Declare a native method in the body of a class of native objects."""

@overload
def string(pointer: object, encoding: None = None, length: int | None = None) -> bytes | str | None:
    """Read the text at a pointer, up to the first null character or of a given length."""

@overload
def string(pointer: object, encoding: str, length: int | None = None) -> str | None: ...
def handle(obj: object) -> _Foreign:
    """Return the address of a Python object as a ``void *``: user data for C code."""

def native_object(pointer: object, cls: type[_N] = ..., *, owned: bool = False) -> _N:
    """Return the native object at an address, which is an ``NcObject *`` in native code."""

def get_errno() -> int: ...
def set_errno(number: int) -> None: ...
