"""The compiled core, as the rest of the package sees it: the only module that imports it.

One shared object holds two modules. cffi's, `_core`, is the control plane: functions that touch no
Python object and return status codes, which become exceptions here. The other, loaded from the same
file by its own init function, has the Python types and the functions that handle Python objects;
they raise exceptions of their own.
"""

from __future__ import annotations

import os
import sys

# What importlib.machinery has; that imports more.
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader

from ._errors import AbiError, LibraryError, NativeCallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def _without_core(reason: ImportError) -> ImportError:
    """What to say when there is no compiled core beside this file."""
    if "subinterpreter" in str(reason):
        return ImportError(
            "nativecall cannot be imported in a subinterpreter: its types are static and shared by "
            "the process; import it in the main interpreter",
            name=reason.name,
        )
    here = os.path.dirname(os.path.abspath(__file__))
    if os.path.exists(os.path.join(os.path.dirname(here), "meson.build")):
        return ImportError(
            f"{here} is a source tree without its compiled core, and hides an installed nativecall "
            "because Python started here; run 'pip install .' and start Python in another "
            "directory (or use the 'nativecall' and 'pytest' commands, which work here), or work "
            "on the sources with 'pip install --no-build-isolation -e .'",
            name=reason.name,
            path=here,
        )
    return ImportError(
        f"nativecall's compiled core is missing from {here} or does not load ({reason}); "
        "install nativecall again for this Python",
        name=reason.name,
        path=here,
    )


def _load_types(path: str) -> ModuleType:
    """The second module in the core's shared object."""
    name = f"{__package__}._types"
    loader = ExtensionFileLoader(name, path)
    spec = ModuleSpec(name, loader, origin=path)
    spec.has_location = True
    module = loader.create_module(spec)
    try:
        loader.exec_module(module)
    except ImportError as error:
        if "ABI" in str(error):
            raise AbiError(str(error)) from None
        raise
    sys.modules[name] = module
    return module


try:
    from . import _core
except ImportError as _error:
    raise _without_core(_error) from None

FILE = str(_core.__file__)
ffi = _core.ffi
_lib = _core.lib
if TYPE_CHECKING:
    import nativecall._types as _stub  # what _types.pyi says of it

    types = _stub
else:
    types = _load_types(FILE)

ABI_VERSION: int = _lib.NC_ABI_VERSION
FLAG_NEEDS_GIL: int = _lib.NC_FLAG_NEEDS_GIL
FLAG_TAKES_GIL: int = _lib.NC_FLAG_TAKES_GIL
FLAG_RELEASE_GIL: int = _lib.NC_FLAG_RELEASE_GIL
FLAG_ERRNO: int = _lib.NC_FLAG_ERRNO
ERRORS_MASK: int = _lib.NC_ERRORS_MASK
# The error conventions by name, as the flags of an entry spell them; what they mean is in
# _values/failure.py.
ERRORS: dict[str, int] = types.error_conventions

_TEXT = 4096  # bytes for a path or a loader's message


def _check(status: int) -> None:
    """Raise what a status code means."""
    if status == _lib.NC_OK:
        return
    if status == _lib.NC_E_NOMEM:
        raise MemoryError
    text = ffi.string(_lib.nc_core_status_text(status)).decode()
    if status in (_lib.NC_E_RANGE, _lib.NC_E_TOOLONG, _lib.NC_E_FORMAT, _lib.NC_E_DUPLICATE):
        raise ValueError(text)
    raise NativeCallError(text)


def hash_bytes(data: bytes) -> int:
    """The frozen 64-bit hash of a key."""
    return int(_lib.nc_core_hash(data, len(data)))


def intern(data: bytes) -> int:
    """The address of the interned copy of `data`, stable for the life of the process."""
    if len(data) > _lib.NC_INTERN_MAX_LENGTH:
        raise ValueError(
            f"a key of {len(data)} bytes is too long to intern; "
            f"the limit is {_lib.NC_INTERN_MAX_LENGTH}"
        )
    out = ffi.new("uintptr_t *")
    _check(_lib.nc_core_intern(data, len(data), out))
    return int(out[0])


def interned(address: int) -> bytes | None:
    """The interned key at `address`, None when none is there."""
    length = ffi.new("size_t *")
    prehash = ffi.new("uint64_t *")
    if _lib.nc_core_interned(address, length, prehash) != _lib.NC_OK:
        return None
    return bytes(ffi.buffer(ffi.cast("char *", address), length[0]))


def library_open(path: str | None, flags: int = 0) -> types.Library:
    """Open a shared library, the process itself for None; it is closed with the last reference.

    `flags` are the loader's (``RTLD_*``), 0 for the usual ones.
    """
    try:
        name = None if path is None else os.fsencode(path)
    except UnicodeEncodeError:
        raise LibraryError(f"{path!r} is no file name") from None
    try:
        return types.open_library(name, flags)
    except OSError as error:
        raise LibraryError(str(error).strip()) from None


def library_symbol(library: types.Library, name: str, version: str | None = None) -> int:
    """The address of a symbol, or of a version of it, 0 when there is none."""
    encoded = name.encode(errors="replace")  # lone surrogates are in no symbol
    if version is None:
        return int(types.Library.symbol(library, encoded))
    return int(types.Library.versioned(library, encoded, version.encode(errors="replace")))


def library_path(library: types.Library) -> str | None:
    """The file that a library was loaded from, as far as the loader tells, in the folder that was
    this process's then.
    """
    path = None if library.path is None else os.fsdecode(library.path)
    return os.path.abspath(path) if path is not None and os.path.dirname(path) else path


def address_origin(address: int) -> tuple[str, str | None] | None:
    """The file that `address` lies in, and the symbol that begins exactly there."""
    path, symbol = ffi.new("char[]", _TEXT), ffi.new("char[]", _TEXT)
    start = ffi.new("uintptr_t *")
    pointer = ffi.cast("void *", address)
    if _lib.nc_core_address_origin(pointer, path, symbol, _TEXT, start) != _lib.NC_OK:
        return None
    name = ffi.string(symbol).decode(errors="replace") if start[0] == address else ""
    return os.fsdecode(ffi.string(path)), name or None
