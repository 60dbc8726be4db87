"""Load the compiled core, before any other module of the package needs it.

One shared object holds two modules. `_ext`, loaded here by its own init function, has the Python
types and the functions that handle Python objects; they raise exceptions of their own. The other
is cffi's, `_core`, the control plane: functions that touch no Python object and return status
codes. It is imported when it is first used, since cffi's own core takes as long as all else here,
and most programs need neither.
"""

import os
import sys

# What importlib.machinery has; that imports more.
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader

from ._errors import AbiError, LibraryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def _without_core(reason: ImportError) -> ImportError:
    """What to say when there is no compiled core beside this file."""
    here = os.path.dirname(os.path.abspath(__file__))
    message = (
        f"nativecall's compiled core is missing from {here} or does not load ({reason}); "
        "install nativecall again for this Python"
    )
    if os.path.exists(os.path.join(os.path.dirname(here), "meson.build")):
        message = (
            f"{here} is a source tree without its compiled core, and hides an installed nativecall "
            "because Python started here; run 'pip install .' and start Python in another "
            "directory (or use the 'nativecall' and 'pytest' commands, which work here), or work "
            "on the sources with 'pip install --no-build-isolation -e .'"
        )
    return ImportError(message, name=reason.name, path=here)


def _found() -> str:
    """The core's shared object."""
    name = f"{__package__}._core"
    for finder in sys.meta_path:
        spec = finder.find_spec(name, sys.modules[__package__].__path__)
        if spec is not None and spec.origin is not None:
            return spec.origin
    raise _without_core(ImportError(f"No module named {name!r}", name=name))


def _load_ext(path: str) -> "ModuleType":
    """Load the module `_ext` from the core's shared object, and bind it as the import system does
    a submodule.
    """
    name = f"{__package__}._ext"
    loader = ExtensionFileLoader(name, path)
    spec = ModuleSpec(name, loader, origin=path)
    spec.has_location = True
    try:
        module = loader.create_module(spec)
    except ImportError as error:
        raise _without_core(error) from None
    try:
        loader.exec_module(module)
    except ImportError as error:
        if "ABI" in str(error):
            raise AbiError(str(error)) from None
        raise
    sys.modules[name] = vars(sys.modules[__package__])["_ext"] = module
    return module


FILE = _found()
if TYPE_CHECKING:
    from . import _ext
    from ._core import ffi as ffi
else:
    _ext = _load_ext(FILE)

    def __getattr__(name):
        """`ffi`, the FFI of the control plane, when it is first used."""
        if name != "ffi":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from ._core import ffi

        return globals().setdefault(name, ffi)


ABI_VERSION: int = _ext.abi_version
FLAG_NEEDS_GIL: int = _ext.flags["needs_gil"]
FLAG_TAKES_GIL: int = _ext.flags["takes_gil"]
FLAG_RELEASE_GIL: int = _ext.flags["release_gil"]
FLAG_ERRNO: int = _ext.flags["errno"]
ERRORS_MASK: int = _ext.flags["errors_mask"]
# The error conventions by name, as the flags of an entry spell them; what they mean is in
# _values/failure.py.
ERRORS: dict[str, int] = _ext.error_conventions

_TEXT = 4096  # bytes for a path or a loader's message


def interned(address: int) -> bytes | None:
    """The interned key at `address`, None when none is there."""
    from ._core import ffi, lib

    length = ffi.new("size_t *")
    if lib.nc_core_interned(address, length) != lib.NC_OK:
        return None
    return bytes(ffi.buffer(ffi.cast("char *", address), length[0]))


def library_open(path: str | None, flags: int = 0) -> _ext.Library:
    """Open a shared library, the process itself for None. It is never unloaded.

    `flags` are the loader's (``RTLD_*``), 0 for the usual ones.
    """
    sys.audit("nativecall.load", path)
    try:
        name = None if path is None else os.fsencode(path)
    except UnicodeEncodeError:
        raise LibraryError(f"{path!r} is no file name") from None
    try:
        return _ext.open_library(name, flags)
    except OSError as error:
        raise LibraryError(str(error).strip()) from None


def library_symbol(library: _ext.Library, name: str, version: str | None = None) -> int:
    """The address of a symbol, or of a version of it, 0 when there is none."""
    encoded = name.encode(errors="replace")  # lone surrogates are in no symbol
    tag = None if version is None else version.encode(errors="replace").decode()
    return int(_ext.Library.symbol(library, encoded, tag))


def library_path(library: _ext.Library) -> str | None:
    """The file that a library was loaded from, as far as the loader tells, in the folder that was
    this process's then.
    """
    path = None if library.path is None else os.fsdecode(library.path)
    return os.path.abspath(path) if path is not None and os.path.dirname(path) else path


def address_origin(address: int) -> tuple[str, str | None] | None:
    """The file that `address` lies in, and the symbol that begins exactly there."""
    from ._core import ffi, lib

    path, symbol = ffi.new("char[]", _TEXT), ffi.new("char[]", _TEXT)
    start = ffi.new("uintptr_t *")
    pointer = ffi.cast("void *", address)
    if lib.nc_core_address_origin(pointer, path, symbol, _TEXT, start) != lib.NC_OK:
        return None
    name = ffi.string(symbol).decode(errors="replace") if start[0] == address else ""
    return os.fsdecode(ffi.string(path)), name or None
