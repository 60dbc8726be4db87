# The public names as type checkers see them: callables by what they take and give. All else is
# what the modules say of themselves. tests/typing holds what must pass and what must not.
#
# A NativeCallable[[float], float] takes a float and gives one; NativeCallable alone is one of which
# no more is known. `wrap` with a literal signature knows; tests/typing/overloads.py writes these.

from collections.abc import Callable
from typing import Any, Generic, Literal, TypedDict, overload

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
from ._library import Library as Library
from ._library import load as load
from ._objects import Leaks as Leaks
from ._objects import Lock as Lock
from ._objects import NativeObject as NativeObject
from ._objects import ObjectArray as ObjectArray
from ._objects import field as field
from ._objects import leaks as leaks
from ._objects import method as method
from ._reraise import reraise as reraise
from ._signature.signature import Signature as Signature
from ._slots import Slot as Slot
from ._slots import customslots as customslots
from ._slots import extensibletype as extensibletype
from ._slots import get_include as get_include
from ._ufuncloop import ufunc_loop as ufunc_loop
from ._values.boxes import register_box as register_box
from ._values.failure import Errors as _Errors
from ._values.policies import Said as _Said
from ._values.text import string as string

_P = ParamSpec("_P", default=...)
_R = TypeVar("_R", default=Any)
_N = TypeVar("_N", bound=NativeObject, default=NativeObject)

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

# ---- by signature
@overload
def wrap(
    target: object, signature: Literal["d:d"], **options: Unpack[_Plain]
) -> NativeCallable[[float], float]: ...
@overload
def wrap(
    target: object, signature: Literal["q:d", "i:d"], **options: Unpack[_Plain]
) -> NativeCallable[[float], int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:d"], **options: Unpack[_Plain]
) -> NativeCallable[[float], bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:d"], **options: Unpack[_Plain]
) -> NativeCallable[[float], None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:q", "d:i"], **options: Unpack[_Plain]
) -> NativeCallable[[int], float]: ...
@overload
def wrap(
    target: object, signature: Literal["q:q", "q:i", "i:q", "i:i"], **options: Unpack[_Plain]
) -> NativeCallable[[int], int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:q", "?:i"], **options: Unpack[_Plain]
) -> NativeCallable[[int], bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:q", "v:i"], **options: Unpack[_Plain]
) -> NativeCallable[[int], None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:dd"], **options: Unpack[_Plain]
) -> NativeCallable[[float, float], float]: ...
@overload
def wrap(
    target: object, signature: Literal["q:dd", "i:dd"], **options: Unpack[_Plain]
) -> NativeCallable[[float, float], int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:dd"], **options: Unpack[_Plain]
) -> NativeCallable[[float, float], bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:dd"], **options: Unpack[_Plain]
) -> NativeCallable[[float, float], None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:dq", "d:di"], **options: Unpack[_Plain]
) -> NativeCallable[[float, int], float]: ...
@overload
def wrap(
    target: object, signature: Literal["q:dq", "q:di", "i:dq", "i:di"], **options: Unpack[_Plain]
) -> NativeCallable[[float, int], int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:dq", "?:di"], **options: Unpack[_Plain]
) -> NativeCallable[[float, int], bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:dq", "v:di"], **options: Unpack[_Plain]
) -> NativeCallable[[float, int], None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:qd", "d:id"], **options: Unpack[_Plain]
) -> NativeCallable[[int, float], float]: ...
@overload
def wrap(
    target: object, signature: Literal["q:qd", "q:id", "i:qd", "i:id"], **options: Unpack[_Plain]
) -> NativeCallable[[int, float], int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:qd", "?:id"], **options: Unpack[_Plain]
) -> NativeCallable[[int, float], bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:qd", "v:id"], **options: Unpack[_Plain]
) -> NativeCallable[[int, float], None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:qq", "d:qi", "d:iq", "d:ii"], **options: Unpack[_Plain]
) -> NativeCallable[[int, int], float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:qq", "q:qi", "q:iq", "q:ii", "i:qq", "i:qi", "i:iq", "i:ii"],
    **options: Unpack[_Plain],
) -> NativeCallable[[int, int], int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:qq", "?:qi", "?:iq", "?:ii"], **options: Unpack[_Plain]
) -> NativeCallable[[int, int], bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:qq", "v:qi", "v:iq", "v:ii"], **options: Unpack[_Plain]
) -> NativeCallable[[int, int], None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:ddd"], **options: Unpack[_Plain]
) -> NativeCallable[[float, float, float], float]: ...
@overload
def wrap(
    target: object, signature: Literal["q:ddd", "i:ddd"], **options: Unpack[_Plain]
) -> NativeCallable[[float, float, float], int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:ddd"], **options: Unpack[_Plain]
) -> NativeCallable[[float, float, float], bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:ddd"], **options: Unpack[_Plain]
) -> NativeCallable[[float, float, float], None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:ddq", "d:ddi"], **options: Unpack[_Plain]
) -> NativeCallable[[float, float, int], float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:ddq", "q:ddi", "i:ddq", "i:ddi"],
    **options: Unpack[_Plain],
) -> NativeCallable[[float, float, int], int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:ddq", "?:ddi"], **options: Unpack[_Plain]
) -> NativeCallable[[float, float, int], bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:ddq", "v:ddi"], **options: Unpack[_Plain]
) -> NativeCallable[[float, float, int], None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:dqd", "d:did"], **options: Unpack[_Plain]
) -> NativeCallable[[float, int, float], float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:dqd", "q:did", "i:dqd", "i:did"],
    **options: Unpack[_Plain],
) -> NativeCallable[[float, int, float], int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:dqd", "?:did"], **options: Unpack[_Plain]
) -> NativeCallable[[float, int, float], bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:dqd", "v:did"], **options: Unpack[_Plain]
) -> NativeCallable[[float, int, float], None]: ...
@overload
def wrap(
    target: object,
    signature: Literal["d:dqq", "d:dqi", "d:diq", "d:dii"],
    **options: Unpack[_Plain],
) -> NativeCallable[[float, int, int], float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:dqq", "q:dqi", "q:diq", "q:dii", "i:dqq", "i:dqi", "i:diq", "i:dii"],
    **options: Unpack[_Plain],
) -> NativeCallable[[float, int, int], int]: ...
@overload
def wrap(
    target: object,
    signature: Literal["?:dqq", "?:dqi", "?:diq", "?:dii"],
    **options: Unpack[_Plain],
) -> NativeCallable[[float, int, int], bool]: ...
@overload
def wrap(
    target: object,
    signature: Literal["v:dqq", "v:dqi", "v:diq", "v:dii"],
    **options: Unpack[_Plain],
) -> NativeCallable[[float, int, int], None]: ...
@overload
def wrap(
    target: object, signature: Literal["d:qdd", "d:idd"], **options: Unpack[_Plain]
) -> NativeCallable[[int, float, float], float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:qdd", "q:idd", "i:qdd", "i:idd"],
    **options: Unpack[_Plain],
) -> NativeCallable[[int, float, float], int]: ...
@overload
def wrap(
    target: object, signature: Literal["?:qdd", "?:idd"], **options: Unpack[_Plain]
) -> NativeCallable[[int, float, float], bool]: ...
@overload
def wrap(
    target: object, signature: Literal["v:qdd", "v:idd"], **options: Unpack[_Plain]
) -> NativeCallable[[int, float, float], None]: ...
@overload
def wrap(
    target: object,
    signature: Literal["d:qdq", "d:qdi", "d:idq", "d:idi"],
    **options: Unpack[_Plain],
) -> NativeCallable[[int, float, int], float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:qdq", "q:qdi", "q:idq", "q:idi", "i:qdq", "i:qdi", "i:idq", "i:idi"],
    **options: Unpack[_Plain],
) -> NativeCallable[[int, float, int], int]: ...
@overload
def wrap(
    target: object,
    signature: Literal["?:qdq", "?:qdi", "?:idq", "?:idi"],
    **options: Unpack[_Plain],
) -> NativeCallable[[int, float, int], bool]: ...
@overload
def wrap(
    target: object,
    signature: Literal["v:qdq", "v:qdi", "v:idq", "v:idi"],
    **options: Unpack[_Plain],
) -> NativeCallable[[int, float, int], None]: ...
@overload
def wrap(
    target: object,
    signature: Literal["d:qqd", "d:qid", "d:iqd", "d:iid"],
    **options: Unpack[_Plain],
) -> NativeCallable[[int, int, float], float]: ...
@overload
def wrap(
    target: object,
    signature: Literal["q:qqd", "q:qid", "q:iqd", "q:iid", "i:qqd", "i:qid", "i:iqd", "i:iid"],
    **options: Unpack[_Plain],
) -> NativeCallable[[int, int, float], int]: ...
@overload
def wrap(
    target: object,
    signature: Literal["?:qqd", "?:qid", "?:iqd", "?:iid"],
    **options: Unpack[_Plain],
) -> NativeCallable[[int, int, float], bool]: ...
@overload
def wrap(
    target: object,
    signature: Literal["v:qqd", "v:qid", "v:iqd", "v:iid"],
    **options: Unpack[_Plain],
) -> NativeCallable[[int, int, float], None]: ...
@overload
def wrap(
    target: object,
    signature: Literal["d:qqq", "d:qqi", "d:qiq", "d:qii", "d:iqq", "d:iqi", "d:iiq", "d:iii"],
    **options: Unpack[_Plain],
) -> NativeCallable[[int, int, int], float]: ...
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
) -> NativeCallable[[int, int, int], int]: ...
@overload
def wrap(
    target: object,
    signature: Literal["?:qqq", "?:qqi", "?:qiq", "?:qii", "?:iqq", "?:iqi", "?:iiq", "?:iii"],
    **options: Unpack[_Plain],
) -> NativeCallable[[int, int, int], bool]: ...
@overload
def wrap(
    target: object,
    signature: Literal["v:qqq", "v:qqi", "v:qiq", "v:qii", "v:iqq", "v:iqi", "v:iiq", "v:iii"],
    **options: Unpack[_Plain],
) -> NativeCallable[[int, int, int], None]: ...

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
    types: object

class _Decorator:
    def __call__(self, function: Callable[_P, _R], /) -> Callback[_P, _R]: ...

@overload
def callback(
    signature: str | Signature | None,
    function: Callable[_P, _R],
    **options: Unpack[_CallbackOptions],
) -> Callback[_P, _R]: ...
@overload
def callback(
    signature: str | Signature | None = None,
    function: None = None,
    **options: Unpack[_CallbackOptions],
) -> _Decorator: ...
def native_object(pointer: object, cls: type[_N] = ..., *, owned: bool = False) -> _N: ...
def get_errno() -> int: ...

__all__ = [
    "AbiError",
    "Callback",
    "Entry",
    "Leaks",
    "Library",
    "LibraryError",
    "Lock",
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
    "leaks",
    "load",
    "method",
    "native_object",
    "register_box",
    "reraise",
    "string",
    "ufunc_loop",
    "wrap",
]
