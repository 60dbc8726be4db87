"""`ufunc_loop`, the verb: a loop of a ufunc of NumPy's as a native callable."""

from __future__ import annotations

from ._values import boxes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy

    from ._ext import Foreign
    from ._public import NativeCallable


def ufunc_loop(ufunc: numpy.ufunc, types: str) -> NativeCallable:
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
    made: Foreign = boxes.bridge("numpy").ufunc_loop(ufunc, types)
    return made  # type: ignore[no-any-return]  # a bridge is a module
