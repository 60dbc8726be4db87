"""Cache object files and parsed declarations, in memory and on disk.

All processes and versions of nativecall share one cache directory. It is:

1. ``$NATIVECALL_CACHE_DIR`` if set; if set but empty, the cache stays in memory;
2. otherwise the user's cache directory, as platformdirs names it.

Guarantees:

- A file appears whole or not at all. Its length and BLAKE2b hash are checked when it is read. A
  file that fails the check is ignored and replaced.
- If the total size exceeds the bound, the least recently used files are deleted. A process checks
  the total at its first write, and again whenever it has written a sixteenth of the bound.
- New files and directories, including missing parents, are accessible only to their owner.
  Permissions of existing files and directories are not changed.
- If the directory is missing, it is created. If it cannot be created, or is full, read-only or
  writable by others, the cache works in memory only, without an error.
- There are no locks: you may use a `Cache` from any thread, from finalizers and after a fork.

The files hold machine code that will be executed. A directory or file is therefore not used if it
belongs to another user (except root), or if its group or others may write to it. Only regular files
are read.
"""

from __future__ import annotations

import itertools
import os
import stat
import sys
import time
from collections import namedtuple

from . import _fileheader
from ._errors import TYPE_CHECKING
from ._fileheader import hashed as hashed

if TYPE_CHECKING:
    from collections.abc import Iterator

BOUND = 64 << 20  # default maximum total size of a directory's files, in bytes
_IN_MEMORY = 1024  # maximum number of files kept in memory
_LARGE = 1 << 16  # maximum bytes of a file kept in memory; all together have at most 64 MB
_RECENT = 3600.0  # seconds; a file's time of use is updated at most this often
_ABANDONED = 3600.0  # seconds after which a partial file counts as abandoned

_SUFFIX = ".ncobj"
_PARTIAL = ".ncpart"
_TEXT_MODE_OFF: int = getattr(os, "O_BINARY", 0)
# Don't block on opening a pipe, and don't follow links.
_READING: int = (
    os.O_RDONLY | _TEXT_MODE_OFF | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
)


def directory() -> str | None:
    """Return the absolute path of the cache directory, which need not exist.

    The module's docstring states the rule. Return None if the cache stays in memory, or if the path
    is relative and the current directory was deleted.
    """
    chosen = os.environ.get("NATIVECALL_CACHE_DIR")
    if chosen is not None:
        try:
            return os.path.abspath(chosen) if chosen else None
        except OSError:
            return None  # the path is relative, and the current directory was deleted
    usual = sys.platform == "linux" and "ANDROID_ROOT" not in os.environ
    if usual and "platformdirs" not in sys.modules:
        # Compute the same path as platformdirs, whose import takes as long as the rest of a load.
        home = os.environ.get("XDG_CACHE_HOME", "")
        home = home if home.strip() else os.path.expanduser("~/.cache")
        if os.path.isabs(home):
            return os.path.join(home, "nativecall")
    from platformdirs import user_cache_dir

    return user_cache_dir("nativecall", appauthor=False)


#: The contents of a directory: number of files, total bytes, and the `time.time` when the least
#: recently used file was last used (None without files).
Usage = namedtuple("Usage", ["files", "size", "oldest"])


class Cache:
    """A mapping of 32-byte keys to file contents.

    A key is the hash of everything that determines the content. Without a directory, the cache
    lives in memory only.
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
        """Return the content of a key, or None."""
        found = self._memory.pop(key, None)
        if found is None:
            found = self._read(key)
        if found is not None:
            self._remember(key, found)
        return found

    def put(self, key: bytes, data: bytes, *, file: bool = True) -> None:
        """Store the content of a key, replacing any old content; in memory only if not `file`."""
        self._memory.pop(key, None)
        self._remember(key, data)
        if file:
            self._write(key, data)

    def discard(self, key: bytes) -> None:
        """Delete the content of a key from memory and from the directory."""
        self._memory.pop(key, None)
        if self.where is not None and not self.refusal():
            _remove(self._path(self.where, key))

    def forget(self) -> None:
        """Clear the memory; keep the files."""
        self._memory.clear()

    # -- the directory as a whole -----------------------------------------------------------------

    def refusal(self) -> str:
        """Return why the directory is not used; ``""`` if it may be used or does not exist yet."""
        if self.where is None:
            return "there is no directory"
        try:
            found = os.stat(self.where)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return error.strerror or str(error)
        if not stat.S_ISDIR(found.st_mode):
            return "it is not a directory"
        return _distrust(found)

    def usage(self) -> Usage:
        """Return the number, size and age of the files in the directory."""
        found = [] if self.refusal() else list(_entries(self.where))
        files = [(used, size) for used, size, path in found if path.endswith(_SUFFIX)]
        return Usage(len(files), sum(size for _, size in files), min(files)[0] if files else None)

    def clear(self) -> int:
        """Clear the memory and delete the cache's files from the directory; keep other files.

        Return the number of files deleted from the directory.
        """
        self.forget()
        if self.refusal():
            return 0
        return sum(
            _remove(path) and path.endswith(_SUFFIX) for _, _, path in list(_entries(self.where))
        )

    # -- memory -----------------------------------------------------------------------------------

    def _remember(self, key: bytes, data: bytes) -> None:
        # Single operations on a dict are atomic, but other threads may run between them.
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
            read = _fileheader.read(whole)
        except (OSError, MemoryError):
            return None
        if read is None or read[0] != key:
            return None
        # Updating the time of use writes to the disk, so do it at most once an hour.
        if abs(time.time() - found.st_mtime) > _RECENT:
            _used(path)
        return read[1]

    def _write(self, key: bytes, data: bytes) -> None:
        size = _fileheader.HEADER + len(data)
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
                if os.write(made, _fileheader.header(key, data) + data) != size:
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
        # The first check limits the files of earlier processes. Later checks limit the files of
        # this process.
        if not self._trimmed or self._written > self.bound // 16:
            self._trimmed = True
            self._written = 0
            self._trim(keep=self._path(self.where, key))

    @staticmethod
    def _create(part: str, where: str) -> int:
        """Create a file, and its directory if that is missing; return the file descriptor."""
        creating = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _TEXT_MODE_OFF
        try:
            return os.open(part, creating, 0o600)
        except FileNotFoundError:
            _make_folders(where)
            return os.open(part, creating, 0o600)

    def _trim(self, keep: str) -> None:
        """Delete abandoned partial files.

        If the total exceeds the bound, also delete the least recently used files until an eighth of
        the bound is free.
        """
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
    """Return the cache that this process uses."""
    global _shared
    if _shared is None:
        _shared = Cache(directory())
    return _shared


def _make_folders(where: str) -> None:
    """Create a directory and its missing parents, all accessible to their owner alone."""
    # os.makedirs applies the mode only to the last directory, not to its parents.
    above = os.path.dirname(where)
    if above != where and not os.path.isdir(above):
        _make_folders(above)
    try:
        os.mkdir(where, mode=0o700)
    except FileExistsError:
        return  # another process created it


def _distrust(found: os.stat_result) -> str:
    """Return why others could have written to a file or directory; ``""`` if they could not."""
    if os.name == "posix":
        if found.st_uid not in (0, os.geteuid()):
            return "it belongs to another user"
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "other users may write to it"
    return ""


def _entries(where: str | None) -> Iterator[tuple[float, int, str]]:
    """Yield (time of last use, size, path) of the cache's files in a directory."""
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


def _used(path: str) -> None:
    """Set a file's time of use to now, if possible."""
    try:
        os.utime(path)
    except OSError:
        return


def _remove(path: str) -> bool:
    """Delete a file that may be gone already; return whether this call deleted it."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
