"""C types of variadic arguments: the arguments that follow a function's fixed arguments.

C does not declare these types. The value determines the type, after C's default argument
promotions.
"""

from __future__ import annotations

import operator

from .. import _ext, _lib
from .._errors import TYPE_CHECKING
from .._types.ctype import SCALARS, VOIDPTR, CType, promoted, scalar
from . import callinterface, foreign
from .text import encoded

if TYPE_CHECKING:
    from .._ext import Foreign

_DOUBLE = scalar("d")


def extra_argument(
    value: Foreign, index: int, name: str, encoding: str | None = None
) -> tuple[CType, object]:
    """Return the C type (C99 6.5.2.2) of a variadic argument, and the value to convert to it.

    Numbers of NumPy, ctypes and cffi keep their C type, promoted. Structs of ctypes and cffi, and
    Records, keep their C type. An object with one C function is passed as a function pointer with
    the signature of that function. Text requires `encoding`. The function's `name` and the
    argument's `index` (from 0) are for messages.
    """
    kind = type(value)
    # Fast path with the same results as the rules below.
    if kind is float:
        return _DOUBLE, value
    if kind is int:
        return _integer_type(value), value
    if kind is bytes:
        return VOIDPTR, value
    code, given = "", kind.__name__
    # A Record is passed by value. A Record of an array is passed as a pointer, as in C.
    record = foreign.struct(value) if isinstance(value, _ext.RecordBase) else None
    if record is not None and record.type is not None:
        return record.type, value
    if value is None or foreign.pointer(value) is not None:
        return VOIDPTR, value
    if type(value).__module__ == "_cffi_backend":
        code, value = _cffi_number(value)
    elif isinstance(value, (int, float)):
        code = "" if isinstance(value, int) else "d"
    else:
        code = _ext.value_letter(value)
        try:
            held, _, _, _, shape, _, _ = _ext.export(value)
        except (BufferError, TypeError, ValueError):
            if code == "q":
                value, code = operator.index(value), ""
        else:
            if shape:
                return VOIDPTR, value
            # Python's float cannot hold every long double.
            whole = code == "g" and hasattr(value, "__float__")
            value = value if whole or not code else _ext.load_scalar(code, held.address)
            del held  # otherwise a traceback would keep the buffer exported
    if code in SCALARS:
        # C has no half-precision varargs; pass a double.
        return promoted(SCALARS[code]) if SCALARS[code].native else _DOUBLE, value
    if isinstance(value, int):
        return _integer_type(value), value
    who = f"argument {index + 1} of '{name}'"
    if isinstance(value, str):
        return VOIDPTR, encoded(value, encoding, who, _NO_ENCODING)
    struct = foreign.struct(value)
    if struct is not None and struct.type is not None:
        return struct.type, value
    found = _function_type(value, who)
    if found is not None:
        return found, value
    raise TypeError(
        f"{who} has no default C type (got {given}); pass an int, a float, bytes, a buffer, a "
        "native callable, or a ctypes or cffi value"
    )


_NO_ENCODING = (
    "is a str, which is not a buffer; pass s.encode(), or load the function with an encoding, "
    'such as encoding="utf-8"'
)


def _function_type(value: Foreign, who: str) -> CType | None:
    """Return the function-pointer type of the C function in an object; None if not callable.

    For a Python function, raise TypeError, since its signature is unknown.
    """
    native = foreign.native(value)
    if native is not None:
        entries = native._resolved()
        if len(entries) == 1:
            return entries[0][1].function
        raise TypeError(
            f"{who} must be a function of one signature, but this has {len(entries)}; pass one of "
            "them, as f[signature]"
        )
    found = foreign.function(value)
    if found is not None and found.signature is not None:
        return found.signature.function
    if callable(value):
        raise TypeError(
            f"{who} is a Python callable ({type(value).__name__}), for which no type is declared "
            "after the fixed arguments; pass nativecall.callback(signature, it), and keep that "
            "alive as long as C may call it"
        )
    return None


def _integer_type(value: int) -> CType:
    return scalar("i" if -(2**31) <= value < 2**31 else "q" if value < 2**63 else "Q")


def _cffi_number(value: Foreign) -> tuple[str, object]:
    """Return the letter and the Python value of a cffi number; ``""`` for other cffi objects."""
    from .._cdecl import cffitype

    kind = _lib.ffi.typeof(value)
    if kind.kind not in ("primitive", "enum"):
        return "", value
    ctype = cffitype.from_ffi(kind)
    assert isinstance(ctype, CType)
    if ctype.kind == "complex":
        return "", value
    return callinterface.letter(ctype), float(value) if ctype.kind == "float" else int(value)
