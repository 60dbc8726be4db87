# Argument types of native functions, for type checkers only. The stubs that `nativecall stubs`
# writes import these names and no other module of the package. It does not exist at run time.
from _ctypes import CFuncPtr, _CArgObject
from collections.abc import Callable
from typing import Any, Protocol, SupportsComplex, SupportsFloat, SupportsIndex, TypeAlias

from typing_extensions import Buffer

from ._library.types import Types as Types

class _CffiData(Protocol):
    # cffi's pointers, as types-cffi declares them. Without those stubs, cffi's pointers are Any.
    def __complex__(self) -> complex: ...
    def __enter__(self) -> Any: ...
    def __getitem__(self, index: Any, /) -> Any: ...

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...

class _DLPack(Protocol):
    def __dlpack__(self, *args: Any, **named: Any) -> Any: ...
    def __dlpack_device__(self) -> Any: ...

class _ArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

class _Column(Protocol):
    # A pandas column, or anything else that converts to a NumPy array.
    def to_numpy(self) -> Any: ...

#: A floating-point number: anything with ``__float__``, and integers.
Real: TypeAlias = SupportsFloat | SupportsIndex
#: A complex number.
Complex: TypeAlias = SupportsComplex | SupportsFloat | SupportsIndex
#: An integer or a bool: anything with ``__index__``.
Integer: TypeAlias = SupportsIndex
#: Arguments for array views.
Array: TypeAlias = Buffer | _ArrowArray | _DLPack | _ArrayInterface | _Column | None
#: Arguments that convert to a pointer.
Pointer: TypeAlias = Array | _CffiData | _CArgObject | CFuncPtr
#: Arguments for ``const char *`` text.
Text: TypeAlias = Pointer
#: Arguments for ``const char *`` text with an encoding.
Encoded: TypeAlias = str | Pointer
#: Arguments for function pointers: a Python function, or a native or foreign callable.
Function: TypeAlias = Callable[..., Any] | _CffiData | tuple[Any, ...] | None
#: A pointer or text returned by C; None for NULL.
FromC: TypeAlias = Any
