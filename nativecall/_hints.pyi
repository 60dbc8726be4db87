# What calls of native functions take, for type checkers alone: stubs that `nativecall stubs` writes
# import these names. No module of this name exists at run time.
from _ctypes import CFuncPtr, _CArgObject
from collections.abc import Callable
from typing import Any, Protocol, SupportsComplex, SupportsFloat, SupportsIndex, TypeAlias

from typing_extensions import Buffer

class _CffiData(Protocol):
    # cffi's pointers, as types-cffi has them; without these stubs they are Any.
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
    # A column of pandas, and what else is asked for a NumPy array.
    def to_numpy(self) -> Any: ...

#: A floating-point number: whatever has ``__float__``, and integers.
Real: TypeAlias = SupportsFloat | SupportsIndex
#: A complex number.
Complex: TypeAlias = SupportsComplex | SupportsFloat | SupportsIndex
#: An integer, or a truth value: whatever has ``__index__``.
Integer: TypeAlias = SupportsIndex
#: An array, for views.
Array: TypeAlias = Buffer | _ArrowArray | _DLPack | _ArrayInterface | _Column | None
#: What a pointer may be made of.
Pointer: TypeAlias = Array | _CffiData | _CArgObject | CFuncPtr
#: What text behind ``const char *`` may be made of.
Text: TypeAlias = Pointer
#: The same with an encoding.
Encoded: TypeAlias = str | Pointer
#: A function of C, native or foreign, or of Python.
Function: TypeAlias = Callable[..., Any] | _CffiData | tuple[Any, ...] | None
#: A pointer that comes from C, or what C calls text: None for NULL.
FromC: TypeAlias = Any
