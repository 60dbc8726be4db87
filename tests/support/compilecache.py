"""Run compilers, and cache their output between test runs.

The key of an entry is the words of its command, the contents of its sources and the compiler's
identity. An entry lists the headers that the compiler read. It is valid only while all of them have
the same contents and no new file shadows an include. Directory names are not part of the key, so
fresh clones and environments share entries.

Entries are immutable: each is written to a temporary file and renamed into place. An unreadable
entry is rebuilt. Where the system has `flock`, a lock per key keeps two processes from compiling
the same thing at once. A failed compilation is never cached. Entries unused for thirty days are
deleted. Libraries given with `-l` are assumed unchanged.

The cache is the folder `nativecall-tests` in the user's cache folder, or the one in
`$NATIVECALL_TEST_CACHE`. If that variable is empty or the folder cannot be written, nothing is
cached. `python tests/support/compilecache.py --clear` empties it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import platformdirs

try:
    import fcntl
except ImportError:  # Windows: a rename is atomic there too
    fcntl = None  # type: ignore[assignment]

DAYS = 30
#: Maximum number of header sets per key, for example of several branches.
VARIANTS = 8
Header = tuple[int, str, str]  # index of its root or -1, its path there, digest
#: Other variables that determine the headers, libraries and programs of a compiler.
VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_RUN_PATH")
VARIABLES += ("COMPILER_PATH", "GCC_EXEC_PREFIX", "SOURCE_DATE_EPOCH")
_STARTED = Path.cwd()  # tests change the directory
_NANOSECONDS = 1_000_000_000


def folder() -> Path | None:
    """Return the directory of the entries, or None. It is ours, and may be deleted as a whole."""
    given = os.environ.get("NATIVECALL_TEST_CACHE", platformdirs.user_cache_dir())
    return _STARTED / given / "nativecall-tests" if given else None


def prune() -> None:
    """Delete entries unused for `DAYS` days."""
    root, limit = folder(), time.time() - DAYS * 86_400
    for lock in root.glob("*/lock") if root is not None else ():  # each use opens it for writing
        with contextlib.suppress(OSError):  # another process may have deleted it
            if lock.stat().st_mtime < limit:
                with _locked(lock.parent, "r"):
                    shutil.rmtree(lock.parent)


def run(command: Sequence[str], cwd: Path | None = None) -> None:
    """Run a command; its failure fails the test with all its output."""
    done = _done(command, cwd)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")


def _done(command: Sequence[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a compiler in English, without the sanitizers' runtime, which is preloaded for Python."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    environment["LC_ALL"] = "C"
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, env=environment
    )


def compiled(command: Sequence[str], output: Path | None = None) -> None:
    """Run a C or C++ compiler that writes `output`, or take the file from the cache.

    Parameters
    ----------
    command : sequence of str
        With ``-o`` and `output`, if there is one. Files among its words are sources.
    output : Path, optional
        Omitted for ``-fsyntax-only``: then success is cached.

    Raises
    ------
    AssertionError
        If the compiler fails, with its messages.
    """
    words, roots, sources = _normalized(command, output)

    def make(into: Path) -> list[Path]:
        dependencies = into / "dependencies"
        made = [str(into / "product") if word == str(output) else word for word in command]
        run([*made, "-MD", "-MF", str(dependencies), "-MT", "product"])
        read = listed(dependencies) if dependencies.exists() else []  # assembly includes nothing
        # The file lists what the last source includes.
        made = [word for word in made if word not in ("-o", str(into / "product"), *sources)]
        for source in sources[:-1]:
            run([*made, source, "-M", "-MF", str(dependencies), "-MT", "product"])
            read += listed(dependencies)
        return read

    kept(words, output, make, roots)


def messages(command: Sequence[str]) -> str:
    """Return the errors of a compiler that writes no file, or "".

    Messages are cached as well, unless a source cannot even be preprocessed.
    """
    words, roots, _ = _normalized(command, None)

    def make(into: Path) -> list[Path]:
        done = _done(command)
        told = f"{shlex.join(command)}\n{done.stdout}{done.stderr}" if done.returncode else ""
        (into / "product").write_text(told)
        dependencies = into / "dependencies"
        # -MD writes no file if there are errors.
        run([*command, "-M", "-MF", str(dependencies), "-MT", "product"])
        return listed(dependencies)

    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch, "messages")
        try:
            kept([*words, "messages"], output, make, roots)
        except AssertionError as error:
            return str(error)
        return output.read_text()


def kept(
    key: Sequence[str],
    output: Path | None,
    make: Callable[[Path], Sequence[Path]],
    roots: Sequence[str] = (),
) -> None:
    """Copy a product from the cache to `output`; make it first if it is missing.

    Parameters
    ----------
    key : sequence of str
        The programs that make it, whose files are part of the key, and its other dependencies.
    output : Path or None
        Destination of the product; a directory if `make` makes one.
    make : callable
        Writes the product to ``product`` in a directory; returns the headers that were read.
    roots : sequence of str
        Directories of headers. Their own paths do not matter.
    """
    cache = folder()
    with contextlib.ExitStack() as stack:
        place = None
        if cache is not None:
            place = cache / hashlib.sha256("\0".join(_identified(key)).encode()).hexdigest()
            try:
                place.mkdir(parents=True, exist_ok=True)
                stack.enter_context(_locked(place))
            except OSError:  # the cache cannot be written, or another process has just cleared it
                place = None
        if place is None:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        entry = _found(place, roots, output is not None) or _made(place, make, roots)
        if output is not None and (entry / "product").is_dir():
            shutil.copytree(entry / "product", output)
        elif output is not None:
            # A new file, because the existing one may be loaded.
            made = output.with_name(f"{output.name}.new")
            shutil.copy2(entry / "product", made)
            made.replace(output)


def _made(place: Path, make: Callable[[Path], Sequence[Path]], roots: Sequence[str]) -> Path:
    """Make a new entry."""
    for left in place.glob("new-*") if fcntl is not None else ():  # from a process that was killed
        shutil.rmtree(left)
    into = Path(tempfile.mkdtemp(prefix="new-", dir=place))
    try:
        read = make(into)
        asked = {name for path in read for name in _ASKED.findall(path.read_bytes())}
        names = sorted(name.decode(errors="replace") for name in asked)
        headers = [_described(path, roots) for path in read]
        found = [headers, names, _findable(headers, names, roots)]
        (into / "headers.json").write_text(json.dumps(found))
    except BaseException:
        shutil.rmtree(into)
        raise
    for old in sorted(_entries(place), key=os.path.getmtime)[: 1 - VARIANTS]:
        shutil.rmtree(old)
    entry = place / into.name.removeprefix("new-")
    into.rename(entry)
    return entry


def _entries(place: Path) -> list[Path]:
    return [one for one in place.iterdir() if one.is_dir() and not one.name.startswith("new-")]


def _found(place: Path, roots: Sequence[str], product: bool) -> Path | None:
    """Return the entry whose headers are unchanged."""
    for entry in _entries(place):
        try:
            if product:
                (entry / "product").stat()
            headers, asked, found = json.loads((entry / "headers.json").read_text())
        except (OSError, ValueError):  # another program deleted a file, or the system crashed
            shutil.rmtree(entry)
            continue
        same = all([_same(header, roots) for header in headers])
        if same and _findable(headers, asked, roots) == found:
            os.utime(entry)  # the most recently used entry is deleted last
            return entry
    return None


#: Names that a source tests for with __has_include.
_ASKED = re.compile(rb"""__has_include(?:_next)?\s*\(\s*[<"]([^>"\n]+)""")


def _findable(headers: Sequence[Header], asked: Sequence[str], roots: Sequence[str]) -> list[str]:
    """Return the directories with a file that could satisfy an include.

    A new file may be found before the one that was read. An include gives the end of a path, so
    each suffix of a header's path is tested in each directory.
    """
    ends: dict[str, set[str]] = {}
    for name in [*asked, *[name for _, name, _ in headers]]:
        parts = [part for part in name.split("/") if part]
        for start, part in enumerate(parts):
            ends.setdefault(part, set()).add("/".join(parts[start:]))
    used = [os.path.dirname(_path(header, roots)) for header in headers]
    folders = dict.fromkeys([*roots, "/usr/local/include", *used])
    return [
        f"{number} {end}"
        for number, folder in enumerate(folders)
        for first in sorted(ends.keys() & _listing(folder))
        for end in sorted(ends[first])
        if os.path.isfile(os.path.join(folder, end))
    ]


def _path(header: Header, roots: Sequence[str]) -> str:
    root, name, _ = header
    return os.path.join(roots[root], name) if root >= 0 else name


def _same(header: Header, roots: Sequence[str]) -> bool:
    try:
        return _digest(_path(header, roots)) == header[2]
    except OSError:
        return False


def _described(path: Path, roots: Sequence[str]) -> Header:
    for number, root in enumerate(roots):
        if path.is_relative_to(root):
            return number, str(path.relative_to(root)), _digest(str(path))
    return -1, str(path), _digest(str(path))


def _digest(path: str) -> str:
    return str(_remembered(_digest_of, path))


def _listing(folder: str) -> frozenset[str]:
    try:
        return frozenset(_remembered(_listing_of, folder or "."))
    except OSError:
        return frozenset()


def _remembered(function: Any, path: str) -> Any:
    """Return a cached function's result for a file, if changes would show in its time."""
    status = os.stat(path)
    if time.time_ns() - status.st_mtime_ns < _NANOSECONDS:
        function = function.__wrapped__
    return function(path, status.st_mtime_ns, status.st_size)


@functools.cache
def _digest_of(path: str, _time: int, _size: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@functools.cache
def _listing_of(path: str, _time: int, _size: int) -> frozenset[str]:
    return frozenset(os.listdir(path))


def forget() -> None:
    """Free this process's caches of files and directories, for tests that measure memory."""
    _digest_of.cache_clear()
    _listing_of.cache_clear()


def _programs(words: Sequence[str]) -> list[str]:
    """Return the files of a command's programs: ``ccache gcc`` has two."""
    found = itertools.takewhile(lambda file: file is not None, map(shutil.which, words))
    return [os.path.realpath(str(file)) for file in found]


def _identified(key: Sequence[str]) -> list[str]:
    """Return a key with program paths replaced by their files, sizes and times."""
    words = [f"{name}={os.environ.get(name, '')}" for name in VARIABLES]
    programs = _programs(key)
    for word, path in zip(key, programs, strict=False):
        status = os.stat(path)
        words += [os.path.basename(word), path, str(status.st_size), str(status.st_mtime_ns)]
    return [*words, *key[len(programs) :]]


def _normalized(
    command: Sequence[str], output: Path | None
) -> tuple[list[str], list[str], list[str]]:
    """Return the words of a command for its key, its header directories, and its sources."""
    start = len(_programs(command))
    words = [*command[:start]]
    roots: list[str] = []
    sources: list[str] = []
    before = ""
    for word in command[start:]:
        if word == str(output):
            words.append("the output")
        elif word == "-I":
            pass  # the directory follows
        elif before in ("-I", "-isystem") or word.startswith("-I"):
            words.append("-I")
            roots.append(word.removeprefix("-I"))
        elif not word.startswith("-") and os.path.isfile(word):
            # The suffix determines the language.
            words.append(_digest(word) + os.path.splitext(word)[1])
            roots.append(os.path.dirname(word))
            if before != "-include" and not word.endswith((".s", ".o", ".a", ".so")):
                sources.append(word)
        else:
            words.append(word)
        before = word
    return words, roots, sources


def listed(dependencies: Path) -> list[Path]:
    """Return the dependencies of a make rule; they may include the sources."""
    text = dependencies.read_text().partition(":")[2].replace("\\\n", " ")
    words = re.findall(r"(?:\\[ #]|\S)+", text)
    return [Path(re.sub(r"\\([ #])|\$(\$)", r"\1\2", word)) for word in words]


@contextlib.contextmanager
def _locked(place: Path, mode: str = "w") -> Iterator[None]:
    """Hold a lock; raise OSError if it is unavailable, or was deleted during the wait."""
    with open(place / "lock", mode) as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)  # closing the file releases it
            if not os.path.samestat(os.fstat(file.fileno()), os.stat(place / "lock")):
                raise FileNotFoundError(place)
        yield


if __name__ == "__main__":
    root = folder()
    if sys.argv[1:] != ["--clear"]:
        sys.exit(f"usage: {sys.argv[0]} --clear")
    if root is not None and root.exists():
        shutil.rmtree(root)
