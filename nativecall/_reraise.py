"""`reraise`: exceptions of callbacks as they were, out of C code that knows of none.

C code that looks for no exceptions returns a number all the same, and CPython, which finds the
exception set, raises SystemError with it as the cause. Who called can say that it wants the cause.
"""

from __future__ import annotations

from . import _ext

_CHECK = "returned a result with an exception set"  # CPython's words


class reraise:  # a verb, as contextlib.suppress
    """Within the block, exceptions that callbacks raised below C code come out as themselves.

    SciPy's `quad`, ctypes' and cffi's function pointers and other callers that have no way to
    fail return what the callback gave C; CPython then raises SystemError, whose ``__cause__`` is
    the exception. This context manager raises that instead, with its traceback. One that nobody
    has looked for by the end of the block, as in threads of Python 3.11, is raised there. Nothing
    else is changed: other exceptions go on, also a SystemError of another kind.

    Threads: that of the block. It may be entered again, and by several threads.

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
            found.__context__ = context  # not the SystemError that it is the cause of
