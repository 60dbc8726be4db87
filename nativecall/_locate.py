"""The files of libraries: found by the names that linkers take, and searched for names."""

from __future__ import annotations

import os
import sys

from . import _lib
from ._errors import LibraryError, did_you_mean
from ._fifo import Cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._ext import Library as OpenLibrary

#: A file: its device, inode, size and time of change.
_File = tuple[int, int, int, int]

_NAMES_LIMIT = 64 * 2**20  # bytes of a library file that are searched for names
_SCRIPT_LIMIT = 2**12  # characters of a text for the linker that are read

#: The files of libraries that a text for the linker names, and those that only ctypes.util
#: finds, which starts other programs for that.
_located: Cache[str, str] = Cache(1024)

#: The file of each library by the loader's own name for it, None if it is unknown. Libraries are
#: never unloaded.
_mapped: dict[bytes, _File | None] = {}

#: The spelling under which the loader has the file that was last opened at a path.
_spelled: dict[str, str] = {}

#: How a shared object that is in no file calls a library that it needs and that has no name of its
#: own: linked by its path, the library would be needed at that path.
NEEDED = f"nativecall_needed_{0:016}"

#: Shared objects that were in no file, by their digests and the libraries that they need.
_objects: dict[tuple[bytes, str | None], OpenLibrary] = {}


def _candidates(name: str) -> list[str]:
    """Files that a library name may mean, the likeliest first."""
    if os.path.dirname(name) or name.endswith((".so", ".dylib", ".dll")) or ".so." in name:
        return [name]
    if sys.platform == "win32":
        return [f"{name}.dll", name]
    if sys.platform == "darwin":
        return [f"lib{name}.dylib", f"{name}.framework/{name}", name]
    return [f"lib{name}.so", name]


def find(name: str, flags: int = 0, folders: Sequence[str] = ()) -> OpenLibrary:
    """The library of a name as a linker takes it, or a path; of these folders, if one has it."""
    reasons = []
    candidates = _candidates(name)
    if not os.path.dirname(name):
        inside = [os.path.join(folder, one) for folder in folders for one in candidates]
        candidates = [path for path in inside if os.path.exists(path)] + candidates
    for candidate in candidates:
        try:
            return _opener(candidate)(candidate, flags)
        except LibraryError as error:
            reasons.append(str(error))
    # Linux often has libm.so.6 only; or libm.so is a text for the linker.
    found = None if os.path.dirname(name) else _located.get(name)
    if found is None:
        found = next(filter(None, [_for_linker(reason) for reason in reasons]), None)
    if found is None and not os.path.dirname(name):
        found = _searched(name)
    if found is not None:
        try:
            opened = _opener(name)(found, flags)
        except LibraryError as error:
            _located.pop(name, None)
            reasons.append(str(error))
        else:
            if not os.path.dirname(name):
                _located.keep(name, found)
            return opened
    said = "; ".join(dict.fromkeys(reasons))
    hint = did_you_mean(_for_linkers(name))
    raise LibraryError(f"library {name!r} cannot be loaded: {said}{hint}")


def _opener(name: str) -> Callable[[str, int], OpenLibrary]:
    """A path is that of a file; a name means the library that the process has by that name: two C
    libraries, after an upgrade of one, would end it."""
    return _current if os.path.dirname(name) else _lib.library_open


def _current(name: str, flags: int) -> OpenLibrary:
    """Open the file that is at a path now, though an older one may be loaded from there.

    A loader that knows a spelling returns the library that it opened so, whatever is there now. It
    compares device and inode, which cannot be used again while the old file is mapped, only for a
    spelling that it does not know.
    """
    key, asked = os.path.abspath(name), _file(name)
    spelling = _spelled.get(key, name)
    while True:
        library = _lib.library_open(spelling, flags)
        if library.path is None or asked is None:
            return library  # the loader gives no path, or the file was deleted
        if library.path not in _mapped:
            was_replaced = spelling == name and _replaced(_lib.library_path(library))
            _mapped[library.path] = None if was_replaced else asked
        before = _mapped[library.path]
        if before is not None and before[:2] == asked[:2]:
            break
        folder, base = os.path.split(spelling)
        # One dot alone may be the loader's own, of $ORIGIN and a library that was opened as ./x.so.
        spelling = _spelled[key] = os.path.join(folder, ".", ".", base)
    if before != asked:
        raise LibraryError(
            f"{key!r} was rewritten in place after it was loaded, and its old code may still run; "
            "write a new file: delete the old one first, or rename the new one over it"
        )
    return library


def _replaced(path: str | None) -> bool:
    """Whether others loaded a file from this path that is there no longer; Linux tells."""
    try:
        with open("/proc/self/maps", errors="replace") as maps:
            return any([line.endswith(f" {path} (deleted)\n") for line in maps])
    except OSError:
        return False


def _file(path: str | None) -> _File | None:
    try:
        found = os.stat(path or "")
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _for_linker(reason: str) -> str | None:
    """The library that a text for the linker names first, where the loader found such a text.

    As glibc's libm.so: ``GROUP ( /lib/x86_64-linux-gnu/libm.so.6  AS_NEEDED ( … ) )``. To ask
    ctypes.util for it takes longer than all else of a first call, for it starts programs.
    """
    path = reason.partition(": ")[0]
    if not os.path.isabs(path):
        return None
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_SCRIPT_LIMIT)
    except OSError:
        return None
    if text.startswith("\x7fELF"):
        return None
    for command in ("GROUP", "INPUT"):
        words = text.partition(command)[2].replace("(", " ").replace(")", " ").split()
        for word in words:
            if ".so" in os.path.basename(word):
                return word
    return None


def _searched(name: str) -> str | None:
    """What ctypes.util finds; it looks into files that it may not find, for names such as libm."""
    from ctypes.util import find_library

    try:
        return find_library(name)
    except OSError:
        return None


def _for_linkers(name: str) -> list[str]:
    """The name that linkers take for a library that was named as its file is."""
    import re

    match = re.fullmatch(r"lib(.+?)(?:\.(?:so|dylib|dll|a)[.\d]*)?", name)
    return [] if match is None or _searched(match[1]) is None else [match[1]]


def open_bytes(made: bytes, library: str | None = None) -> OpenLibrary:
    """Open a shared object that is in no file; it may need a library, as `NEEDED`."""
    from ._sealed import hashed

    key = hashed(made).digest(), library
    if key in _objects:
        return _objects[key]
    folder = _new_folder()
    path = os.path.join(folder, "inlines.so")
    try:
        if library is not None:
            # Loaders take a library that they have by a name for all that are needed by that name.
            name = f"{NEEDED[:-16]}{os.urandom(8).hex()}"
            os.symlink(library, os.path.join(folder, name))
            made = made.replace(NEEDED.encode(), name.encode())
        with open(path, "wb") as file:
            file.write(made)
        return _objects.setdefault(key, _lib.library_open(path))
    finally:
        for one in os.listdir(folder):
            os.unlink(os.path.join(folder, one))
        os.rmdir(folder)


def _new_folder() -> str:
    """A folder for temporary files of this user; to import `tempfile` takes longer than a load."""
    folder = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"nativecall-{os.urandom(8).hex()}")
    try:
        os.mkdir(folder, 0o700)
    except OSError:
        import tempfile

        return tempfile.mkdtemp()
    return folder


def exported_like(symbol: str, handle: OpenLibrary | None, path: str | None) -> list[str]:
    """Names of about the length of `symbol` that a library exports: to suggest one.

    Every binary format keeps them as text that ends in a null, a name that ends another
    one sometimes within it; the loader confirms each.
    """
    if path is None or handle is None:
        return []
    import re

    try:
        with open(os.fspath(path), "rb") as file:
            content = file.read(_NAMES_LIMIT)
    except OSError:
        return []
    found = set()
    for match in re.findall(rb"[A-Za-z_]\w+(?=\0)", content):
        for length in range(len(symbol) - 2, len(symbol) + 3):
            if 1 < length <= len(match):
                found.add(match[-length:].decode("ascii", "replace"))
    return sorted(name for name in found if _lib.library_symbol(handle, name))
