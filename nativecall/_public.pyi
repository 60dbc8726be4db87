# The public names as type checkers see them: callables by what they take and give. All else is
# what the modules say of themselves. tests/typing holds what must pass and what must not.
#
# A NativeCallable[[float], float] takes a float and gives one; NativeCallable alone is one of which
# no more is known. `wrap` with a literal signature knows; tests/typing/overloads.py writes these.
# What it gives is called with whatever C takes for a float or an int, which is more.

from collections.abc import Callable
from typing import Any, Concatenate, Generic, Literal, TypedDict, overload

from typing_extensions import ParamSpec, TypeVar, Unpack

from ._callable.callable import NativeCallable as _NativeCallable
from ._callable.entry import Entry as Entry
from ._callable.entry import Gil as _Gil
from ._callback import Callback as _Callback
from ._errors import AbiError as AbiError
from ._errors import LibraryError as LibraryError
from ._errors import NativeCallError as NativeCallError
from ._errors import NativeFailure as NativeFailure
from ._errors import NoEntryError as NoEntryError
from ._errors import SignatureError as SignatureError
from ._errors import SymbolError as SymbolError
from ._hints import Complex, Integer, Real
from ._library import load as load
from ._objects import NativeObject as NativeObject
from ._objects import ObjectArray as ObjectArray
from ._public_library import Library as Library
from ._reraise import reraise as reraise
from ._signature.signature import Signature as Signature
from ._slots import Slot as Slot
from ._slots import customslots as customslots
from ._slots import extensibletype as extensibletype
from ._slots import get_include as get_include
from ._types import Field as _FieldDescriptor
from ._types import Foreign as _Foreign
from ._types import Method as _MethodDescriptor
from ._ufuncloop import ufunc_loop as ufunc_loop
from ._values.boxes import register_box as register_box
from ._values.failure import Errors as _Errors
from ._values.policies import Said as _Said

_P = ParamSpec("_P", default=...)
_R = TypeVar("_R", default=Any)
_N = TypeVar("_N", bound=NativeObject, default=NativeObject)
_V = TypeVar("_V")
_S = TypeVar("_S")

class NativeCallable(_NativeCallable, Generic[_P, _R]):
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @property
    def builtin(self) -> Callable[_P, _R]: ...
    def __getitem__(self, signature: str | Signature, /) -> NativeCallable: ...
    def bind(self, *values: object, **named: object) -> NativeCallable: ...
    def convert(
        self,
        signature: str | Signature,
        *,
        errors: _Errors | None = None,
        name: str | None = None,
    ) -> NativeCallable: ...

class Callback(_Callback, NativeCallable[_P, _R]): ...

class _Plain(TypedDict, total=False):
    # Options that change nothing of what Python passes and gets.
    name: str | None
    doc: str | None
    owner: object
    gil: _Gil
    errno: bool

class _Options(_Plain, _Said, total=False):
    errors: _Errors
    types: object

# ---- by arguments
class _Takes_d(NativeCallable[[float], _R]):
    def __call__(self, x0: Real, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Real], _R]: ...

class _Takes_q(NativeCallable[[int], _R]):
    def __call__(self, x0: Integer, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Integer], _R]: ...

class _Takes_dd(NativeCallable[[float, float], _R]):
    def __call__(self, x0: Real, x1: Real, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Real, Real], _R]: ...

class _Takes_dq(NativeCallable[[float, int], _R]):
    def __call__(self, x0: Real, x1: Integer, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Real, Integer], _R]: ...

class _Takes_qd(NativeCallable[[int, float], _R]):
    def __call__(self, x0: Integer, x1: Real, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Integer, Real], _R]: ...

class _Takes_qq(NativeCallable[[int, int], _R]):
    def __call__(self, x0: Integer, x1: Integer, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Integer, Integer], _R]: ...

class _Takes_ddd(NativeCallable[[float, float, float], _R]):
    def __call__(self, x0: Real, x1: Real, x2: Real, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Real, Real, Real], _R]: ...

class _Takes_ddq(NativeCallable[[float, float, int], _R]):
    def __call__(self, x0: Real, x1: Real, x2: Integer, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Real, Real, Integer], _R]: ...

class _Takes_dqd(NativeCallable[[float, int, float], _R]):
    def __call__(self, x0: Real, x1: Integer, x2: Real, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Real, Integer, Real], _R]: ...

class _Takes_dqq(NativeCallable[[float, int, int], _R]):
    def __call__(self, x0: Real, x1: Integer, x2: Integer, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Real, Integer, Integer], _R]: ...

class _Takes_qdd(NativeCallable[[int, float, float], _R]):
    def __call__(self, x0: Integer, x1: Real, x2: Real, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Integer, Real, Real], _R]: ...

class _Takes_qdq(NativeCallable[[int, float, int], _R]):
    def __call__(self, x0: Integer, x1: Real, x2: Integer, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Integer, Real, Integer], _R]: ...

class _Takes_qqd(NativeCallable[[int, int, float], _R]):
    def __call__(self, x0: Integer, x1: Integer, x2: Real, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Integer, Integer, Real], _R]: ...

class _Takes_qqq(NativeCallable[[int, int, int], _R]):
    def __call__(self, x0: Integer, x1: Integer, x2: Integer, /) -> _R: ...
    @property
    def builtin(self) -> Callable[[Integer, Integer, Integer], _R]: ...

# ---- by signature
@overload
def wrap(
    target: object, signature: Literal["d:d"], **options: Unpack[_Plain]
) -> _Takes_d[float]: ...
@overload
def wrap(
    target: object, signature: Literal["q:d", "i:d"], **options: Unpack[_Plain]
) -> _Takes_d[int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:d"], **options: Unpack[_Plain]
) -> _Takes_d[bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:d"], **options: Unpack[_Plain]
) -> _Takes_d[None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:q", "d:i"], **options: Unpack[_Plain]
) -> _Takes_q[float]: ...
@overload
def wrap(
    target: object, signature: Literal["q:q", "q:i", "i:q", "i:i"], **options: Unpack[_Plain]
) -> _Takes_q[int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:q", "?:i"], **options: Unpack[_Plain]
) -> _Takes_q[bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:q", "v:i"], **options: Unpack[_Plain]
) -> _Takes_q[None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:dd"], **options: Unpack[_Plain]
) -> _Takes_dd[float]: ...
@overload
def wrap(
    target: object, signature: Literal["q:dd", "i:dd"], **options: Unpack[_Plain]
) -> _Takes_dd[int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:dd"], **options: Unpack[_Plain]
) -> _Takes_dd[bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:dd"], **options: Unpack[_Plain]
) -> _Takes_dd[None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:dq", "d:di"], **options: Unpack[_Plain]
) -> _Takes_dq[float]: ...
@overload
def wrap(
    target: object, signature: Literal["q:dq", "q:di", "i:dq", "i:di"], **options: Unpack[_Plain]
) -> _Takes_dq[int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:dq", "?:di"], **options: Unpack[_Plain]
) -> _Takes_dq[bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:dq", "v:di"], **options: Unpack[_Plain]
) -> _Takes_dq[None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:qd", "d:id"], **options: Unpack[_Plain]
) -> _Takes_qd[float]: ...
@overload
def wrap(
    target: object, signature: Literal["q:qd", "q:id", "i:qd", "i:id"], **options: Unpack[_Plain]
) -> _Takes_qd[int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:qd", "?:id"], **options: Unpack[_Plain]
) -> _Takes_qd[bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:qd", "v:id"], **options: Unpack[_Plain]
) -> _Takes_qd[None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:qq", "d:qi", "d:iq", "d:ii"], **options: Unpack[_Plain]
) -> _Takes_qq[float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:qq", "q:qi", "q:iq", "q:ii", "i:qq", "i:qi", "i:iq", "i:ii"],
    **options: Unpack[_Plain],
) -> _Takes_qq[int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:qq", "?:qi", "?:iq", "?:ii"], **options: Unpack[_Plain]
) -> _Takes_qq[bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:qq", "v:qi", "v:iq", "v:ii"], **options: Unpack[_Plain]
) -> _Takes_qq[None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:ddd"], **options: Unpack[_Plain]
) -> _Takes_ddd[float]: ...
@overload
def wrap(
    target: object, signature: Literal["q:ddd", "i:ddd"], **options: Unpack[_Plain]
) -> _Takes_ddd[int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:ddd"], **options: Unpack[_Plain]
) -> _Takes_ddd[bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:ddd"], **options: Unpack[_Plain]
) -> _Takes_ddd[None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:ddq", "d:ddi"], **options: Unpack[_Plain]
) -> _Takes_ddq[float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:ddq", "q:ddi", "i:ddq", "i:ddi"],
    **options: Unpack[_Plain],
) -> _Takes_ddq[int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:ddq", "?:ddi"], **options: Unpack[_Plain]
) -> _Takes_ddq[bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:ddq", "v:ddi"], **options: Unpack[_Plain]
) -> _Takes_ddq[None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:dqd", "d:did"], **options: Unpack[_Plain]
) -> _Takes_dqd[float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:dqd", "q:did", "i:dqd", "i:did"],
    **options: Unpack[_Plain],
) -> _Takes_dqd[int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:dqd", "?:did"], **options: Unpack[_Plain]
) -> _Takes_dqd[bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:dqd", "v:did"], **options: Unpack[_Plain]
) -> _Takes_dqd[None]: ...
@overload
def wrap(
    target: object,
    signature: Literal["d:dqq", "d:dqi", "d:diq", "d:dii"],
    **options: Unpack[_Plain],
) -> _Takes_dqq[float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:dqq", "q:dqi", "q:diq", "q:dii", "i:dqq", "i:dqi", "i:diq", "i:dii"],
    **options: Unpack[_Plain],
) -> _Takes_dqq[int]: ...
@overload
def wrap(
    target: object,
    signature: Literal["?:dqq", "?:dqi", "?:diq", "?:dii"],
    **options: Unpack[_Plain],
) -> _Takes_dqq[bool]: ...
@overload
def wrap(
    target: object,
    signature: Literal["v:dqq", "v:dqi", "v:diq", "v:dii"],
    **options: Unpack[_Plain],
) -> _Takes_dqq[None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:qdd", "d:idd"], **options: Unpack[_Plain]
) -> _Takes_qdd[float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:qdd", "q:idd", "i:qdd", "i:idd"],
    **options: Unpack[_Plain],
) -> _Takes_qdd[int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:qdd", "?:idd"], **options: Unpack[_Plain]
) -> _Takes_qdd[bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:qdd", "v:idd"], **options: Unpack[_Plain]
) -> _Takes_qdd[None]: ...
@overload
def wrap(
    target: object,
    signature: Literal["d:qdq", "d:qdi", "d:idq", "d:idi"],
    **options: Unpack[_Plain],
) -> _Takes_qdq[float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:qdq", "q:qdi", "q:idq", "q:idi", "i:qdq", "i:qdi", "i:idq", "i:idi"],
    **options: Unpack[_Plain],
) -> _Takes_qdq[int]: ...
@overload
def wrap(
    target: object,
    signature: Literal["?:qdq", "?:qdi", "?:idq", "?:idi"],
    **options: Unpack[_Plain],
) -> _Takes_qdq[bool]: ...
@overload
def wrap(
    target: object,
    signature: Literal["v:qdq", "v:qdi", "v:idq", "v:idi"],
    **options: Unpack[_Plain],
) -> _Takes_qdq[None]: ...
@overload
def wrap(
    target: object,
    signature: Literal["d:qqd", "d:qid", "d:iqd", "d:iid"],
    **options: Unpack[_Plain],
) -> _Takes_qqd[float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:qqd", "q:qid", "q:iqd", "q:iid", "i:qqd", "i:qid", "i:iqd", "i:iid"],
    **options: Unpack[_Plain],
) -> _Takes_qqd[int]: ...
@overload
def wrap(
    target: object,
    signature: Literal["?:qqd", "?:qid", "?:iqd", "?:iid"],
    **options: Unpack[_Plain],
) -> _Takes_qqd[bool]: ...
@overload
def wrap(
    target: object,
    signature: Literal["v:qqd", "v:qid", "v:iqd", "v:iid"],
    **options: Unpack[_Plain],
) -> _Takes_qqd[None]: ...
@overload
def wrap(
    target: object,
    signature: Literal["d:qqq", "d:qqi", "d:qiq", "d:qii", "d:iqq", "d:iqi", "d:iiq", "d:iii"],
    **options: Unpack[_Plain],
) -> _Takes_qqq[float]: ...
@overload
def wrap(
    target: object,
    signature: Literal[
        "q:qqq",
        "q:qqi",
        "q:qiq",
        "q:qii",
        "q:iqq",
        "q:iqi",
        "q:iiq",
        "q:iii",
        "i:qqq",
        "i:qqi",
        "i:qiq",
        "i:qii",
        "i:iqq",
        "i:iqi",
        "i:iiq",
        "i:iii",
    ],
    **options: Unpack[_Plain],
) -> _Takes_qqq[int]: ...
@overload
def wrap(
    target: object,
    signature: Literal["?:qqq", "?:qqi", "?:qiq", "?:qii", "?:iqq", "?:iqi", "?:iiq", "?:iii"],
    **options: Unpack[_Plain],
) -> _Takes_qqq[bool]: ...
@overload
def wrap(
    target: object,
    signature: Literal["v:qqq", "v:qqi", "v:qiq", "v:qii", "v:iqq", "v:iqi", "v:iiq", "v:iii"],
    **options: Unpack[_Plain],
) -> _Takes_qqq[None]: ...

# ---- otherwise
@overload
def wrap(  # type: ignore[overload-overlap]  # what is known of the target stays known
    target: NativeCallable[_P, _R], signature: None = None, **options: Unpack[_Plain]
) -> NativeCallable[_P, _R]: ...
@overload
def wrap(
    target: object, signature: str | Signature | None = None, **options: Unpack[_Options]
) -> NativeCallable: ...

class _CallbackOptions(TypedDict, total=False):
    gil: Literal["take", "need"]
    errors: object
    name: str | None
    doc: str | None
    encoding: str | None

class _TypedCallbackOptions(_CallbackOptions):
    # With the types of a library: the annotations of the function say its signature.
    types: object

class _Decorator:
    def __call__(self, function: Callable[_P, _R], /) -> Callback[_P, _R]: ...

@overload
def callback(
    signature: str | Signature,
    function: Callable[_P, _R],
    *,
    types: object = None,
    **options: Unpack[_CallbackOptions],
) -> Callback[_P, _R]: ...
@overload
def callback(  # type: ignore[overload-cannot-match]  # for lambdas where any Callback is wanted
    signature: str | Signature,
    function: Callable[..., _R],
    *,
    types: object = None,
    **options: Unpack[_CallbackOptions],
) -> Callback[..., _R]: ...
@overload
def callback(
    signature: str | Signature,
    function: None = None,
    *,
    types: object = None,
    **options: Unpack[_CallbackOptions],
) -> _Decorator: ...
@overload
def callback(
    signature: None,
    function: Callable[_P, _R],
    **options: Unpack[_TypedCallbackOptions],
) -> Callback[_P, _R]: ...
@overload
def callback(
    signature: Callable[_P, _R],
    function: None = None,
    **options: Unpack[_TypedCallbackOptions],
) -> Callback[_P, _R]: ...
@overload
def callback(
    signature: None = None,
    function: None = None,
    **options: Unpack[_TypedCallbackOptions],
) -> _Decorator: ...

class _FieldOf(Generic[_V, _S]):
    # A field whose code, or class, says what it gives and takes.
    @overload
    def __get__(self, object: None, type: type, /) -> _FieldDescriptor: ...
    @overload
    def __get__(self, object: object, type: type, /) -> _V: ...
    def __set__(self, object: object, value: _S, /) -> None: ...

class _MethodOf(Generic[_P, _R]):
    # A method that is a function of Python's.
    @overload
    def __get__(self, object: None, type: type, /) -> _MethodDescriptor: ...
    @overload
    def __get__(self, object: object, type: type, /) -> Callable[_P, _R]: ...

class _Method(_MethodOf[..., _Foreign]):
    # Any other method, and a decorator of such a function.
    def __call__(
        self, function: Callable[Concatenate[_Foreign, _P], _R], /
    ) -> _MethodOf[_P, _R]: ...

@overload
def field(
    type: Literal["e", "f", "d", "g"], *, atomic: bool = False, doc: str | None = None
) -> _FieldOf[float, Real]: ...
@overload
def field(
    type: Literal["b", "B", "h", "H", "i", "I", "q", "Q", "c", "l", "L", "n", "N"],
    *,
    atomic: bool = False,
    doc: str | None = None,
) -> _FieldOf[int, Integer]: ...
@overload
def field(
    type: Literal["?"], *, atomic: bool = False, doc: str | None = None
) -> _FieldOf[bool, Integer]: ...
@overload
def field(
    type: Literal["Zf", "Zd"], *, atomic: bool = False, doc: str | None = None
) -> _FieldOf[complex, Complex]: ...
@overload
def field(
    type: type[_N], *, atomic: bool = False, doc: str | None = None
) -> _FieldOf[_N | None, _N | None]: ...
@overload
def field(
    type: object, *, atomic: bool = False, doc: str | None = None
) -> _FieldOf[_Foreign, _Foreign]: ...
def method(
    target: object = None,
    signature: str | Signature | None = None,
    *,
    gil: Literal["hold", "release"] = "hold",
    errors: _Errors = "none",
    doc: str | None = None,
) -> _Method: ...
@overload
def string(pointer: object, encoding: None = None) -> bytes | str | None: ...
@overload
def string(pointer: object, encoding: str) -> str | None: ...
def native_object(pointer: object, cls: type[_N] = ..., *, owned: bool = False) -> _N: ...
def get_errno() -> int: ...
def set_errno(number: int) -> None: ...

__all__ = [
    "AbiError",
    "Callback",
    "Entry",
    "Library",
    "LibraryError",
    "NativeCallError",
    "NativeCallable",
    "NativeFailure",
    "NativeObject",
    "NoEntryError",
    "ObjectArray",
    "Signature",
    "SignatureError",
    "Slot",
    "SymbolError",
    "callback",
    "customslots",
    "extensibletype",
    "field",
    "get_errno",
    "get_include",
    "load",
    "method",
    "native_object",
    "register_box",
    "reraise",
    "set_errno",
    "string",
    "ufunc_loop",
    "wrap",
]
