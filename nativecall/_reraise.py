"""`reraise`: raise the original exception of a callback instead of CPython's SystemError.

C code that does not check for exceptions returns a result although an exception is set. CPython
then raises SystemError with that exception as its cause.
"""

from __future__ import annotations

from . import _ext

_CHECK = "returned a result with an exception set"  # CPython's words


class reraise:  # a verb, like contextlib.suppress
    """Raise the original exceptions of callbacks that C code called within the block.

    Callers such as SciPy's `quad`, and function pointers of ctypes and cffi, cannot report failure.
    They return a result although the callback failed. CPython then raises SystemError, whose
    ``__cause__`` is the exception. This context manager raises the cause instead, with its
    traceback. If an exception is still pending at the end of the block, as in threads of Python
    3.11, it is raised there. All other exceptions, including other SystemErrors, propagate
    unchanged.

    The block affects only its own thread. You may nest blocks, and use one object in several
    threads.

    Examples
    --------
    >>> import nativecall as nc
    >>> from scipy.integrate import quad
    >>> f = nc.callback("d:d", lambda x: 1 / (x - 0.5))
    >>> with nc.reraise():
    ...     quad(f.to_scipy(), 0, 1)
    Traceback (most recent call last):
    ZeroDivisionError: float division by zero
    """

    __module__ = "nativecall"
    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            _ext.raise_left(None, None, ())
            return
        found = error
        while type(found) is SystemError and _CHECK in str(found) and found.__cause__ is not None:
            found = found.__cause__
        if found is error:
            return
        context = found.__context__
        try:
            raise found
        finally:
            found.__context__ = context  # `raise` set it to the SystemError
