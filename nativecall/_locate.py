"""Find the file of a library by its linker name, and search the file for symbol names."""

from __future__ import annotations

import os
import sys

from . import _lib
from ._errors import TYPE_CHECKING, LibraryError, did_you_mean
from ._fifo import Cache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._ext import Library as OpenLibrary

#: Identifies a file: device, inode, size and modification time.
_File = tuple[int, int, int, int]

_NAMES_LIMIT = 64 * 2**20  # bytes of a library file that are searched for names
_SCRIPT_LIMIT = 2**12  # characters of a linker script that are read

#: Files found through linker scripts or by ctypes.util, which starts other programs to search.
_located: Cache[str, str] = Cache(1024)

#: The file of each library, by the loader's name for it; None if unknown. Libraries are never
#: unloaded.
_mapped: dict[bytes, _File | None] = {}

#: For each path, the spelling by which the loader knows the file that was last opened there.
_spelled: dict[str, str] = {}

#: A placeholder, in shared objects kept as bytes, for a needed library that has no soname. Linking
#: to such a library by its path would record that path.
NEEDED = f"nativecall_needed_{0:016}"

#: Shared objects opened from bytes, by their digests and the libraries that they need.
_objects: dict[tuple[bytes, str | None], OpenLibrary] = {}


def _candidates(name: str) -> list[str]:
    """Return the files that a library name may mean, the likeliest first."""
    if os.path.dirname(name) or name.endswith((".so", ".dylib", ".dll")) or ".so." in name:
        return [name]
    if sys.platform == "win32":
        return [f"{name}.dll", name]
    if sys.platform == "darwin":
        return [f"lib{name}.dylib", f"{name}.framework/{name}", name]
    return [f"lib{name}.so", name]


def find(name: str, flags: int = 0, folders: Sequence[str] = ()) -> OpenLibrary:
    """Open a library by its linker name or its path; search `folders` first for a name."""
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
    # On Linux, often only libm.so.6 exists, or libm.so is a linker script.
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
    import re

    # The linker name, if the library was given by its file name (``libm.so``).
    match = re.fullmatch(r"lib(.+?)(?:\.(?:so|dylib|dll|a)[.\d]*)?", name)
    hint = did_you_mean([] if match is None or _searched(match[1]) is None else [match[1]])
    raise LibraryError(f"library {name!r} cannot be loaded: {said}{hint}")


def _opener(name: str) -> Callable[[str, int], OpenLibrary]:
    """Return the function that opens a library.

    For a path, the function opens the file that is there now. For a name, it returns the library
    that the process has loaded by that name, if any. A second C library, loaded after an upgrade,
    would crash the process.
    """
    return _current if os.path.dirname(name) else _lib.library_open


def _current(name: str, flags: int) -> OpenLibrary:
    """Open the file that is at a path now, even if an older one was loaded from there.

    If a library was opened by the same spelling of the path, the loader returns that library, even
    if the file was replaced. For a new spelling, the loader compares device and inode. While the
    old file is mapped, no other file can have the same device and inode.
    """
    key, asked = os.path.abspath(name), _file(name)
    spelling = _spelled.get(key, name)
    while True:
        library = _lib.library_open(spelling, flags)
        if library.path is None or asked is None:
            return library  # the loader reports no path, or the file was deleted
        if library.path not in _mapped:
            was_replaced = spelling == name and _replaced(_lib.library_path(library))
            _mapped[library.path] = None if was_replaced else asked
        before = _mapped[library.path]
        if before is not None and before[:2] == asked[:2]:
            break
        folder, base = os.path.split(spelling)
        # Insert two dots, since the loader may already know the spelling with a single dot: if a
        # library was opened as ./x.so, the loader expands $ORIGIN to a path that ends in "/.".
        spelling = _spelled[key] = os.path.join(folder, ".", ".", base)
    if before != asked:
        raise LibraryError(
            f"{key!r} was rewritten in place after it was loaded, and its old code may still run; "
            "write a new file: delete the old one first, or rename the new one over it"
        )
    return library


def _replaced(path: str | None) -> bool:
    """Return whether a loaded file was deleted from this path; always False except on Linux."""
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
    """Return the first library in a linker script that the loader failed to open.

    An example is glibc's libm.so:
    ``GROUP ( /lib/x86_64-linux-gnu/libm.so.6  AS_NEEDED ( … ) )``. Asking ctypes.util would take
    longer than all else that a first call does, since ctypes.util starts programs.
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
    """Ask ctypes.util for a library; OSError, as for names such as libm, counts as not found."""
    from ctypes.util import find_library

    try:
        return find_library(name)
    except OSError:
        return None


def open_bytes(made: bytes, library: str | None = None) -> OpenLibrary:
    """Open a shared object from bytes; `library` replaces `NEEDED` among the needed libraries."""
    from ._fileheader import hashed

    key = hashed(made).digest(), library
    if key in _objects:
        return _objects[key]
    folder = _new_folder()
    path = os.path.join(folder, "inlines.so")
    try:
        if library is not None:
            # Each link gets a new name, or the loader would reuse a library loaded by the old name.
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
    """Create a private temporary folder; importing `tempfile` would take longer than a load."""
    folder = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"nativecall-{os.urandom(8).hex()}")
    try:
        os.mkdir(folder, 0o700)
    except OSError:
        import tempfile

        return tempfile.mkdtemp()
    return folder


def exported_like(symbol: str, handle: OpenLibrary | None, path: str | None) -> list[str]:
    """Return exported names of about the length of `symbol`, for suggestions in messages.

    Every binary format stores symbol names as NUL-terminated text. A name may be stored as the tail
    of a longer name. The loader confirms that each candidate exists.
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
