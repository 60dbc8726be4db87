"""A cache of object files and parsed declarations, in memory and on disk.

Processes and versions share the directory.

The directory is, by one rule:

1. ``$NATIVECALL_CACHE_DIR``, if that is set; if it is set and empty, there is none;
2. the user's cache directory, as platformdirs names it.

Guarantees: a file appears whole or not at all; what is read is what was written under that key, by
length and BLAKE2b; any other file is ignored and replaced. Files not used for longest are deleted
when all take more than the bound: a process looks at its first write, and after each sixteenth of
the bound that it has written. Files and folders that are made, the folders above them included,
are for their owner alone; the rights of those that exist stay as they are. A directory that is
missing, full, read-only, or that others could write to, is no error: then the memory serves. No
lock is held or taken; the methods of a `Cache` may be called from any thread, from finalizers and
after a fork.

The files hold machine code that will be executed. Therefore a directory or a file that belongs to
another user, or that a group or everybody may write to, is not used; nor is what is no plain file.
"""

from __future__ import annotations

import itertools
import os
import stat
import sys
import time
from collections import namedtuple

from ._sealed import HEADER, hashed, sealed, unsealed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Cache", "Usage", "directory", "hashed", "sealed", "shared", "unsealed"]

BOUND = 64 << 20  # bytes that the files of a directory may take
_IN_MEMORY = 1024  # files
_LARGE = 1 << 16  # bytes; larger files are not kept in memory, so 64 MB are the most
_RECENT = 3600.0  # seconds for which a use is not noted again
_ABANDONED = 3600.0  # seconds after which a file that is still being written has no writer

_SUFFIX = ".ncobj"
_PARTIAL = ".ncpart"
_TEXT_MODE_OFF: int = getattr(os, "O_BINARY", 0)
# Opening a pipe does not wait for a writer, and links are not followed.
_READING: int = (
    os.O_RDONLY | _TEXT_MODE_OFF | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
)


def directory() -> str | None:
    """The directory of the cache by the rule above, an absolute path; it need not exist. None for
    memory only, also where a relative path leads nowhere.
    """
    chosen = os.environ.get("NATIVECALL_CACHE_DIR")
    if chosen is not None:
        try:
            return os.path.abspath(chosen) if chosen else None
        except OSError:
            return None  # relative to a directory that was deleted
    usual = sys.platform == "linux" and "ANDROID_ROOT" not in os.environ
    if usual and "platformdirs" not in sys.modules:
        # What it says there, without what it imports, which takes as long as all else of a load.
        home = os.environ.get("XDG_CACHE_HOME", "")
        home = home if home.strip() else os.path.expanduser("~/.cache")
        if os.path.isabs(home):
            return os.path.join(home, "nativecall")
    from platformdirs import user_cache_dir

    return user_cache_dir("nativecall", appauthor=False)


#: What a directory holds: how many files, of how many bytes, and when the one that was not used for
#: longest was used, as `time.time` counts; None without files.
Usage = namedtuple("Usage", ["files", "size", "oldest"])


class Cache:
    """Files by 32-byte keys, hashes of everything that determines them; in memory only where there
    is no directory.
    """

    def __init__(self, where: str | None, bound: int = BOUND) -> None:
        self.where = where
        self.bound = bound
        self._memory: dict[bytes, bytes] = {}
        self._numbers = itertools.count()
        self._written = 0
        self._trimmed = False

    # -- by key -----------------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """What is kept of a key, or None."""
        found = self._memory.pop(key, None)
        if found is None:
            found = self._read(key)
        if found is not None:
            self._remember(key, found)
        return found

    def put(self, key: bytes, data: bytes, *, file: bool = True) -> None:
        """Keep the content of a key, in place of any other; in memory only without `file`."""
        self._memory.pop(key, None)
        self._remember(key, data)
        if file:
            self._write(key, data)

    def discard(self, key: bytes) -> None:
        """Forget the content of a key."""
        self._memory.pop(key, None)
        if self.where is not None and not self.refusal():
            _remove(self._path(self.where, key))

    def forget(self) -> None:
        """Drop what is kept in memory; files stay."""
        self._memory.clear()

    # -- the directory as a whole -----------------------------------------------------------------

    def refusal(self) -> str:
        """Why the directory is not used; ``""`` when it may be, and when it is yet to be made."""
        if self.where is None:
            return "there is no directory"
        try:
            found = os.stat(self.where)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return error.strerror or str(error)
        if not stat.S_ISDIR(found.st_mode):
            return "it is no directory"
        return _distrust(found)

    def usage(self) -> Usage:
        """What the directory holds."""
        found = [] if self.refusal() else list(_entries(self.where))
        files = [(used, size) for used, size, path in found if path.endswith(_SUFFIX)]
        return Usage(len(files), sum(size for _, size in files), min(files)[0] if files else None)

    def clear(self) -> int:
        """Delete our files, in memory and in the directory; files of others stay. How many files
        the directory has lost.
        """
        self.forget()
        if self.refusal():
            return 0
        return sum(
            _remove(path) and path.endswith(_SUFFIX) for _, _, path in list(_entries(self.where))
        )

    # -- memory -----------------------------------------------------------------------------------

    def _remember(self, key: bytes, data: bytes) -> None:
        # Single operations on a dict are atomic; between them other threads may do the same.
        if len(data) > _LARGE:
            return
        self._memory[key] = data
        while len(self._memory) > _IN_MEMORY:
            try:
                del self._memory[next(iter(self._memory))]
            except (KeyError, RuntimeError, StopIteration):
                continue

    # -- files ------------------------------------------------------------------------------------

    def _path(self, where: str, key: bytes) -> str:
        return f"{where}{os.sep}{key.hex()}{_SUFFIX}"

    def _read(self, key: bytes) -> bytes | None:
        if self.where is None:
            return None
        path = self._path(self.where, key)
        try:
            opened = os.open(path, _READING)
            try:
                if self.refusal():
                    return None
                found = os.fstat(opened)
                size = found.st_size
                if not stat.S_ISREG(found.st_mode) or _distrust(found) or size > self.bound:
                    return None
                whole = os.read(opened, size)
            finally:
                os.close(opened)
            read = unsealed(whole)
        except (OSError, MemoryError):
            return None
        if read is None or read[0] != key:
            return None
        # The order of use is by the hour: every note of it is a write to the directory.
        if abs(time.time() - found.st_mtime) > _RECENT:
            _used(path)
        return read[1]

    def _write(self, key: bytes, data: bytes) -> None:
        size = HEADER + len(data)
        if self.where is None or size > self.bound or self.refusal():
            return
        part = f".{key.hex()}.{os.getpid()}.{next(self._numbers)}{_PARTIAL}"
        part = f"{self.where}{os.sep}{part}"
        try:
            made = self._create(part, self.where)
        except OSError:
            return
        try:
            try:
                if os.write(made, sealed(key, data) + data) != size:
                    raise OSError("the directory is full")
            finally:
                os.close(made)
            os.replace(part, self._path(self.where, key))
        except BaseException as error:
            _remove(part)
            if not isinstance(error, OSError):
                raise
            return
        self._written += size
        # One look at the directory bounds what earlier processes left; then what this one adds.
        if not self._trimmed or self._written > self.bound // 16:
            self._trimmed = True
            self._written = 0
            self._trim(keep=self._path(self.where, key))

    @staticmethod
    def _create(part: str, where: str) -> int:
        """A new file, in a folder that is made if there is none."""
        creating = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _TEXT_MODE_OFF
        try:
            return os.open(part, creating, 0o600)
        except FileNotFoundError:
            _make_folders(where)
            return os.open(part, creating, 0o600)

    def _trim(self, keep: str) -> None:
        """Delete what was not used for longest until an eighth of the bound is free."""
        found = sorted(_entries(self.where))
        total = sum(size for _, size, _ in found)
        abandoned = time.time() - _ABANDONED
        crowded = total > self.bound
        for used, size, path in found:
            partial = path.endswith(_PARTIAL)
            if partial and used > abandoned:
                continue
            if not partial and (not crowded or total <= self.bound - self.bound // 8):
                continue
            if path != keep and _remove(path):
                total -= size


_shared: Cache | None = None


def shared() -> Cache:
    """The cache that this process uses."""
    global _shared
    if _shared is None:
        _shared = Cache(directory())
    return _shared


def _make_folders(where: str) -> None:
    """Make a folder and those above it that are missing, all of them for their owner alone."""
    # os.makedirs gives the folders above the last one what the umask allows.
    above = os.path.dirname(where)
    if above != where and not os.path.isdir(above):
        _make_folders(above)
    try:
        os.mkdir(where, mode=0o700)
    except FileExistsError:
        return  # by another process


def _distrust(found: os.stat_result) -> str:
    """Why nothing is read that others may have put there; ``""`` where they cannot have."""
    if os.name == "posix":
        if found.st_uid not in (0, os.geteuid()):
            return "it belongs to another user"
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "other users may write to it"
    return ""


def _entries(where: str | None) -> Iterator[tuple[float, int, str]]:
    """(time of last use, size, path) of our files in a directory."""
    if where is None:
        return
    try:
        with os.scandir(where) as found:
            for entry in found:
                if not entry.name.endswith((_SUFFIX, _PARTIAL)):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield status.st_mtime, status.st_size, entry.path
    except OSError:
        return


def _used(path: str) -> bool:
    """Note in the time of a file that it was used now; whether that was possible."""
    try:
        os.utime(path)
    except OSError:
        return False
    return True


def _remove(path: str) -> bool:
    """Delete a file that may be gone already; whether this call did it."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
