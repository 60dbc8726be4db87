"""nativecall: one Python callable for every native function.

A native callable carries a table of (signature, flags, C function pointer). Python calls it as fast
as a built-in; C, Cython, Numba and SciPy find the pointer in about a nanosecond, without the GIL,
and call it directly, without boxing.

>>> import nativecall as nc
>>> cos = nc.load("m", "double cos(double);").cos
>>> cos(0.0), cos.signatures
(1.0, ('d:d',))
"""

from . import _lib  # noqa: F401  # raises if the compiled core is missing
from ._version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._public import *  # noqa: F403  # type checkers see the names of __getattr__

    __all__: list[str]
else:

    def __getattr__(name):
        """Import the module of a public name on first use; return the name's value."""
        if name[0] != "_" or name == "__all__":
            from ._public import found

            value = found(name)
            if value is not None:
                return globals().setdefault(name, value)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        own = [name for name in globals() if name[:2] == "__"]
        return sorted({*own, *__getattr__("__all__")})
