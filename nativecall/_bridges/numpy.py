"""NumPy bridge: convert ufuncs to and from callables; read bit generators and masked arrays.

nativecall/_ufunc/ converts the ufuncs.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING, require, wrong_type
from .._values.foreign import Function

if TYPE_CHECKING:
    import numpy

    from .._ext import Foreign, Native
    from .._public import NativeCallable
    from .._types.signature import Signature


def native(obj: Foreign) -> Native | None:
    """Return the native callable from which a ufunc was made, or a bit generator's callable."""
    import numpy

    if not isinstance(obj, numpy.ufunc):
        from . import BitGenerator

        return BitGenerator.native(obj)
    from .._ufunc.make import keeper_of

    keeper = keeper_of(obj)
    return None if keeper is None else keeper.callable


def array(obj: Foreign) -> Foreign:
    """Return the data of a masked array; None for other objects.

    Raises
    ------
    ValueError
        If elements are masked, because C code would ignore the mask.
    """
    import numpy

    if not isinstance(obj, numpy.ma.MaskedArray):
        return None
    masked = int(numpy.ma.getmaskarray(obj).sum())
    if masked:
        raise ValueError(f"{masked} of its {obj.size} elements are masked")
    return obj.data


def _ufunc_of(obj: Foreign) -> numpy.ufunc | None:
    """Return an object if it is a ufunc, or the ufunc of a Numba object."""
    import numpy

    if type(obj).__module__.partition(".")[0] == "numba":
        obj = getattr(obj, "ufunc", None)
    return obj if isinstance(obj, numpy.ufunc) else None


def signatures(obj: Foreign) -> list[Signature] | None:
    """Return the signatures of a ufunc's loops as C functions of numbers, without duplicates.

    Raises
    ------
    SignatureError
        If the ufunc has no such loops.
    """
    found = _ufunc_of(obj)
    if found is None:
        return None
    from .._ufunc import loops

    return [*loops.scalars(found)]


def instance(obj: Foreign, signature: Signature, errors: str) -> Function | None:
    """Return the C function of a ufunc's loop; raise SignatureError if there is none."""
    ufunc = _ufunc_of(obj)
    if ufunc is None:
        return None
    from .._ufunc import loops

    found = loops.entry(ufunc, signature)
    cif, address, flags = found._entry()
    owner: Foreign = found._owners[-1]
    return Function(address, cif.signature, owner, found.__name__, flags, cif.policies)


def count(obj: Foreign) -> int | None:
    """Return the number of arguments that a ufunc's loops take as C functions.

    Return None if no loop can be a C function. Such a ufunc is called as a Python function.
    """
    found = _ufunc_of(obj)
    if found is None or found.signature is not None:
        return None
    if all(["O" in types for types in found.types]) and type(obj) is type(found):
        return None
    return int(found.nin if found.nout == 1 else found.nargs)


def loops(obj: Foreign) -> bool | None:
    """Return whether a ufunc has loops yet, or None if no loop can be a C function."""
    found: Foreign = _ufunc_of(obj)
    return None if count(obj) is None else bool(found.types)


def ufunc_loop(ufunc: numpy.ufunc, types: str) -> NativeCallable:
    """Return a callable for one loop of a NumPy ufunc.

    The callable has one entry for single elements and one for arrays.

    `wrap` converts every loop of a ufunc to a C function of numbers. C code that has arrays can
    call the loop itself. Its type is ``void (char **args, const intptr_t *dimensions, const
    intptr_t *steps)``, on most machines ``v:&&b&q&q``. That is NumPy's `PyUFuncGenericFunction`
    with the last argument, `void *data`, bound.

    `args` has the address of each operand, inputs first. `dimensions` has the number of elements
    and then, for generalised ufuncs, the lengths of the core dimensions. `steps` has the stride in
    bytes between elements for each operand, and then the strides of the core dimensions.

    Parameters
    ----------
    ufunc : numpy.ufunc
        Kept alive by the callable.
    types : str
        The types of the loop, as in `numpy.ufunc.types`: ``"dd->d"``. Dates and times, ``M`` and
        ``m``, are 64-bit counts in C.

    Returns
    -------
    NativeCallable
        For ``"dd->d"``, its entries are ``d:dd`` (single elements) and ``v:&&b&q&q`` (arrays). The
        first is missing for generalised ufuncs, and for types that cannot be passed by value. NumPy
        calls loops without the GIL. If a loop sets an exception, C code is not notified, but the
        Python call in progress raises it.

    Raises
    ------
    SignatureError
        If there is no such loop, or it operates on Python objects, text or records.
    TypeError
        If `ufunc` is not a ufunc, or if the C structs of this NumPy version are unknown.

    Examples
    --------
    >>> import ctypes, nativecall, numpy
    >>> add = nativecall.ufunc_loop(numpy.add, "dd->d")
    >>> add.signatures, add(1.0, 2.0)
    (('d:dd', 'v:&&b&q&q'), 3.0)
    >>> x, out = numpy.arange(3.0), numpy.zeros(3)
    >>> pointers = [one.ctypes.data_as(ctypes.POINTER(ctypes.c_char)) for one in (x, x, out)]
    >>> args = (ctypes.POINTER(ctypes.c_char) * 3)(*pointers)
    >>> add["v:&&b&q&q"](args, numpy.array([3]), numpy.array([8, 8, 8]))
    >>> out.tolist()
    [0.0, 2.0, 4.0]
    """
    from .._ufunc import loops

    found = _ufunc_of(ufunc)
    if found is None:
        raise wrong_type("'ufunc'", "a NumPy ufunc", ufunc)
    require("'types'", types, str, "a str, as in ufunc.types")
    return loops.both(found, types)  # type: ignore[return-value]  # typed by the public stub


def from_callable(
    f: Native, name: str | None, doc: str | None, signature: str | None
) -> numpy.ufunc:
    """Implement `f.to_ufunc`."""
    from .._ufunc.make import ufunc

    return ufunc(f, name, doc, signature)
