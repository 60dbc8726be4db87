"""NumPy: ufuncs, both ways (nativecall/_ufunc/), bit generators, and masked arrays."""

from __future__ import annotations

from .._errors import require, wrong_type
from .._values.foreign import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy

    from .._callable.callable import NativeCallable
    from .._ext import Foreign
    from .._public import NativeCallable as PublicCallable
    from .._types.signature import Signature


def native(obj: Foreign) -> NativeCallable | None:
    """The native callable that a ufunc of ours was made of, or the functions of a generator."""
    import numpy

    if not isinstance(obj, numpy.ufunc):
        from . import BitGenerator

        return BitGenerator.native(obj)
    from .._ufunc.make import keeper_of

    keeper = keeper_of(obj)
    return None if keeper is None else keeper.callable


def array(obj: Foreign) -> Foreign:
    """The array that a masked array is without its mask; None for what is none.

    Raises
    ------
    ValueError
        When elements are masked, of which C code would know nothing.
    """
    import numpy

    if not isinstance(obj, numpy.ma.MaskedArray):
        return None
    masked = int(numpy.ma.getmaskarray(obj).sum())
    if masked:
        raise ValueError(f"{masked} of its {obj.size} elements are masked")
    return obj.data


def _ufunc_of(obj: Foreign) -> numpy.ufunc | None:
    """The ufunc that an object is, or that one of Numba's has."""
    import numpy

    if type(obj).__module__.partition(".")[0] == "numba":
        obj = getattr(obj, "ufunc", None)
    return obj if isinstance(obj, numpy.ufunc) else None


def signatures(obj: Foreign) -> list[Signature] | None:
    """What the loops of a ufunc are as C functions of numbers, each once.

    Raises
    ------
    SignatureError
        When it has none.
    """
    found = _ufunc_of(obj)
    if found is None:
        return None
    from .._ufunc import loops

    return [*loops.scalars(found)]


def instance(obj: Foreign, signature: Signature, errors: str) -> Function | None:
    """The C function that a loop of a ufunc is; SignatureError when there is none."""
    ufunc = _ufunc_of(obj)
    if ufunc is None:
        return None
    from .._ufunc import loops

    found = loops.entry(ufunc, signature)
    cif, address, flags = found._entry()
    owner: Foreign = found._owners[-1]
    return Function(address, cif.signature, owner, found.__name__, flags, cif.policies)


def count(obj: Foreign) -> int | None:
    """How many arguments a ufunc's loops take as C functions; None for one that has none such,
    which is called as a Python function.
    """
    found = _ufunc_of(obj)
    if found is None or found.signature is not None:
        return None
    if all(["O" in types for types in found.types]) and type(obj) is type(found):
        return None
    return int(found.nin if found.nout == 1 else found.nargs)


def loops(obj: Foreign) -> bool | None:
    """Whether a ufunc has C functions of numbers."""
    if count(obj) is None:
        return None
    found = _ufunc_of(obj)
    return found is not None and bool(found.types)


def ufunc_loop(ufunc: numpy.ufunc, types: str) -> PublicCallable:
    """The C function of one loop of a NumPy ufunc, as it is, and as one of its elements.

    `wrap` of a ufunc makes every loop a C function of numbers. C code that has arrays wants the
    loops themselves: ``void (char **args, const intptr_t *dimensions, const intptr_t *steps)``,
    ``v:&&b&q&q`` on most machines, NumPy's `PyUFuncGenericFunction` with its last argument bound.
    `args` has the address of each operand, inputs first, `dimensions` how many elements there are
    and then, for generalised ufuncs, the lengths of the core dimensions, and `steps` the bytes from
    an element to the next, for each operand, and then those of its core dimensions.

    Parameters
    ----------
    ufunc : numpy.ufunc
        Kept as long as the callable.
    types : str
        Of the loop, as in `numpy.ufunc.types`: ``"dd->d"``. Dates and times, ``M`` and ``m``, are
        counts of 64 bits for C.

    Returns
    -------
    NativeCallable
        With the entries ``d:dd``, but for generalised ufuncs, and ``v:&&b&q&q``. NumPy calls loops
        without the GIL. C code gets no word of an exception that a loop sets; the call from Python
        that is under way raises it.

    Raises
    ------
    SignatureError
        When there is no such loop, or it is one over Python objects, text or records.
    TypeError
        When it is no ufunc, or one of a NumPy whose C structs are not known.

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
        raise wrong_type("'ufunc'", "a ufunc of NumPy's", ufunc)
    require("'types'", types, str, "a str, as in ufunc.types")
    made: Foreign = loops.both(found, types)
    return made  # type: ignore[no-any-return]  # checkers know it by another name


def from_callable(
    f: NativeCallable, name: str | None, doc: str | None, signature: str | None
) -> numpy.ufunc:
    """`f.to_ufunc`."""
    from .._ufunc.make import ufunc

    return ufunc(f, name, doc, signature)
