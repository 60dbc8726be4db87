"""NumPy's C interface to ufuncs: the struct `PyUFuncObject`, and the function that creates one.

This module uses NumPy's C API like code compiled with NumPy's headers. The capsule `_UFUNC_API`
contains the functions, numbered as in `__ufunc_api.h`. `ufuncobject.h` declares the struct. Both
have been stable since NumPy 1.7, except for later fields of the struct.

Guarantees: this module reads a ufunc only if NumPy's version is in `KNOWN`, and if the struct's
fields agree with the ufunc's Python attributes. Otherwise, the module raises `Unknown` with the
reason. The memory that a new ufunc points to lives as long as the ufunc.
"""

from __future__ import annotations

import ctypes
import sys

from .._errors import TYPE_CHECKING
from .._values.capsules import get_pointer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy

    from .._ext import Foreign

#: The versions whose headers were checked.
KNOWN = ((1, 26), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5))
_FROM_FUNC_AND_DATA = 31  # PyUFunc_FromFuncAndDataAndSignature
_NO_IDENTITY = -1

_take = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))


class Unknown(TypeError):
    """Raised for an unknown version of NumPy, or for a ufunc with an unexpected memory layout."""


class _Fields(ctypes.Structure):
    """The fields of PyUFuncObject that all versions share, without the object header."""

    _fields_ = [
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.c_void_p),
        ("doc", ctypes.c_void_p),
        ("ptr", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
    ]


def _require_known(module: Foreign) -> None:
    """Refuse a NumPy whose headers were not checked."""
    text = str(module.__version__)
    parts = text.split(".")
    version = tuple([int(part) if part.isdigit() else -1 for part in parts[:2]])
    if version not in KNOWN:
        raise Unknown(
            f"nativecall does not know the C structs of NumPy {text}, only those of "
            f"{'.'.join(map(str, KNOWN[0]))} to {'.'.join(map(str, KNOWN[-1]))}"
        )


def fields(ufunc: numpy.ufunc) -> Foreign:
    """Return the struct of a ufunc; the caller must keep the ufunc alive.

    Raises
    ------
    Unknown
    """
    numpy = sys.modules["numpy"]
    _require_known(numpy)
    if not issubclass(type(ufunc), numpy.ufunc):
        raise Unknown(f"{ufunc!r} is not a ufunc")
    found = _Fields.from_address(id(ufunc) + object.__basicsize__)
    own = (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes)
    there = (found.nin, found.nout, found.nargs, found.ntypes)
    agrees = own == there and (found.name or b"").decode("utf-8", "replace") == ufunc.__name__
    if not agrees:
        raise Unknown(
            f"the ufunc {ufunc.__name__!r} does not match the memory layout in NumPy's headers: "
            f"(nin, nout, nargs, ntypes) is {own}, but {there} was found"
        )
    return found


def new(
    functions: Sequence[int],
    data: Sequence[int],
    types: Sequence[Sequence[int]],
    nin: int,
    name: str,
    doc: str,
    signature: str | None,
    keep: Foreign,
) -> numpy.ufunc:
    """Create a ufunc around loops.

    Parameters
    ----------
    functions, data : sequence of int
        The address of each loop, and the last argument that NumPy passes to that loop.
    types : sequence of sequence of int
        NumPy's type numbers of each loop, inputs first.
    nin : int
    name, doc : str
    signature : str, optional
        For a generalised ufunc.
    keep : object
        An object that owns the memory at these addresses, and lives as long as the ufunc. This
        function sets its attribute `arrays`.
    """
    import numpy

    _require_known(numpy)
    # NumPy 1 calls the package numpy.core.
    package = "numpy._core" if "numpy._core" in sys.modules else "numpy.core"
    capsule = sys.modules[f"{package}._multiarray_umath"]._UFUNC_API
    table = ctypes.cast(get_pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    count, nargs = len(functions), len(types[0])
    arrays = (
        (ctypes.c_void_p * count)(*functions),
        (ctypes.c_void_p * count)(*data),
        ctypes.create_string_buffer(bytes([one for row in types for one in row])),
        ctypes.create_string_buffer(name.encode()),
        ctypes.create_string_buffer(doc.encode()),
    )
    keep.arrays = arrays
    # ctypes passes an int as a C int; an array, bytes and None as a pointer.
    make = ctypes.PYFUNCTYPE(ctypes.py_object)(table[_FROM_FUNC_AND_DATA])
    made: numpy.ufunc = make(
        *arrays[:3],
        count,
        nin,
        nargs - nin,
        _NO_IDENTITY,
        *arrays[3:],
        0,
        None if signature is None else signature.encode(),
    )
    # If the ufunc is refused below, `keep` leaks, since other code may still call the ufunc.
    _take(keep)
    found = fields(made)
    where = [ctypes.addressof(one) for one in arrays[:2]]
    there = [ctypes.cast(one, ctypes.c_void_p).value for one in (found.functions, found.data)]
    if there != where or found.obj is not None:
        raise Unknown(
            f"cannot create a ufunc: NumPy {numpy.__version__} stores loops in an unexpected "
            "memory layout"
        )
    found.obj = id(keep)
    return made
