"""Run compilers, and keep what they make between runs of the tests.

An entry is found by the words of its command, the contents of its sources and the compiler's
identity. It lists the headers that the compiler read, and serves only while all of them have the
same contents. Folders of sources and headers are not part of the key, so a fresh clone and a fresh
environment find what another one built.

Entries are immutable: each is written beside its place and renamed into it. A lock per key, where
the system has `flock`, keeps two processes from compiling the same thing at once. A failed
compilation is never kept. Entries that no run used for thirty days are deleted.

The cache is in the user's cache folder, or in `$NATIVECALL_TEST_CACHE`; where that is empty,
nothing is kept. `python tests/support/compilecache.py --clear` empties it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import platformdirs

try:
    import fcntl
except ImportError:  # Windows: a rename is atomic there too
    fcntl = None  # type: ignore[assignment]

DAYS = 30
#: Sets of headers that one key may have, as branches of the project do.
VARIANTS = 8
Header = tuple[int, str, str]  # index of its root or -1, its path there, digest


def folder() -> Path | None:
    """Where entries are, or None."""
    default = platformdirs.user_cache_dir("nativecall-tests")
    given = os.environ.get("NATIVECALL_TEST_CACHE", default)
    return Path(given) if given else None


def prune() -> None:
    """Delete the entries that no run used for `DAYS` days."""
    root, limit = folder(), time.time() - DAYS * 86_400
    for lock in root.glob("*/lock") if root is not None else ():  # each use opens it for writing
        with contextlib.suppress(OSError):  # another process may have deleted it
            if lock.stat().st_mtime < limit:
                shutil.rmtree(lock.parent)


def run(command: Sequence[str], cwd: Path | None = None) -> None:
    """Run a command, whose failure fails the test with all it printed."""
    done = _done(command, cwd)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")


def _done(command: Sequence[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a compiler without the sanitizers' runtime, which is preloaded for Python."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
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
        Left out for ``-fsyntax-only``: a success is kept then.

    Raises
    ------
    AssertionError
        When the compiler fails, with its messages.
    """
    words, roots = _normalized(command, output)

    def make(into: Path) -> list[Path]:
        dependencies = into / "dependencies"
        made = [str(into / "product") if word == str(output) else word for word in command]
        run([*made, "-MD", "-MF", str(dependencies)])
        return listed(dependencies) if dependencies.exists() else []  # assembly includes nothing

    kept([command[0], *words], output, make, roots)


def messages(command: Sequence[str]) -> str:
    """What a compiler that writes no file says against the sources of a command, or nothing.

    Messages are kept as products are, unless a source cannot even be preprocessed.
    """
    words, roots = _normalized(command, None)

    def make(into: Path) -> list[Path]:
        done = _done(command)
        told = f"{shlex.join(command)}\n{done.stdout}{done.stderr}" if done.returncode else ""
        (into / "product").write_text(told)
        dependencies = into / "dependencies"
        run([*command, "-M", "-MF", str(dependencies)])  # -MD writes no file beside errors
        return listed(dependencies)

    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch, "messages")
        try:
            kept([command[0], "messages", *words], output, make, roots)
        except AssertionError as error:
            return str(error)
        return output.read_text()


def kept(
    key: Sequence[str],
    output: Path | None,
    make: Callable[[Path], Sequence[Path]],
    roots: Sequence[str] = (),
) -> None:
    """Copy a product from the cache to `output`, made first where it is not there.

    Parameters
    ----------
    key : sequence of str
        A command's name, whose file is part of the key, and what else the product depends on.
    output : Path or None
        Where the product goes; a folder if `make` made one.
    make : callable
        Write the product to ``product`` in a folder; return the headers that were read.
    roots : sequence of str
        Folders that headers are in. Their own paths do not matter.
    """
    cache = folder()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        if cache is not None:
            name = hashlib.sha256("\0".join([_identity(key[0]), *key]).encode()).hexdigest()
            place = cache / name
            place.mkdir(parents=True, exist_ok=True)
        with _locked(place):
            entry = _found(place, roots) or _made(place, make, roots)
            if output is not None and (entry / "product").is_dir():
                shutil.copytree(entry / "product", output)
            elif output is not None:
                # A new file: what is there may be loaded.
                made = output.with_name(f"{output.name}.new")
                shutil.copy2(entry / "product", made)
                made.replace(output)


def _made(place: Path, make: Callable[[Path], Sequence[Path]], roots: Sequence[str]) -> Path:
    """A new entry."""
    into = Path(tempfile.mkdtemp(prefix="new-", dir=place))
    try:
        headers = [_described(path, roots) for path in make(into)]
        (into / "headers.json").write_text(json.dumps(headers))
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


def _found(place: Path, roots: Sequence[str]) -> Path | None:
    """The entry whose headers are as they were."""
    for entry in _entries(place):
        headers = json.loads((entry / "headers.json").read_text())
        if all([_same(header, roots) for header in headers]):
            os.utime(entry)  # the entry used last is deleted last
            return entry
    return None


def _same(header: Header, roots: Sequence[str]) -> bool:
    root, name, digest = header
    try:
        return _digest(os.path.join(roots[root], name) if root >= 0 else name) == digest
    except OSError:
        return False


def _described(path: Path, roots: Sequence[str]) -> Header:
    for number, root in enumerate(roots):
        if path.is_relative_to(root):
            return number, str(path.relative_to(root)), _digest(str(path))
    return -1, str(path), _digest(str(path))


def _digest(path: str) -> str:
    status = os.stat(path)
    return _digest_of(path, status.st_mtime_ns, status.st_size)


@functools.cache
def _digest_of(path: str, _time: int, _size: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@functools.cache
def _identity(command: str) -> str:
    """A compiler's file: its path, size and time."""
    path = os.path.realpath(shutil.which(command) or command)
    status = os.stat(path)
    searched = [os.environ.get(name, "") for name in ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH")]
    return repr((path, status.st_size, status.st_mtime_ns, searched))


def _normalized(command: Sequence[str], output: Path | None) -> tuple[list[str], list[str]]:
    """The words that a key has for a command, and the folders that its headers may be in."""
    words: list[str] = []
    roots: list[str] = []
    before = ""
    for word in command[1:]:
        if word == str(output):
            words.append("the output")
        elif word.startswith("-I") or before == "-isystem":
            words.append("-I")
            roots.append(word.removeprefix("-I"))
        elif not word.startswith("-") and os.path.isfile(word):
            words.append(_digest(word))
            roots.append(os.path.dirname(word))
        else:
            words.append(word)
        before = word
    return words, roots


def listed(dependencies: Path) -> list[Path]:
    """The files that a rule of make depends on; the sources among them do no harm."""
    text = dependencies.read_text().partition(":")[2].replace("\\\n", " ")
    return [Path(word) for word in text.split()]


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    with open(place / "lock", "w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)  # closing the file gives it back
        yield


if __name__ == "__main__":
    root = folder()
    if sys.argv[1:] != ["--clear"]:
        sys.exit(f"usage: {sys.argv[0]} --clear")
    if root is not None:
        shutil.rmtree(root, ignore_errors=True)
