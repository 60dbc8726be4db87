"""Object files in memory and on disk, whatever happens to the directory."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from nativecall import _cache as cache
from nativecall import _fileheader
from nativecall._cache import Cache
from nativecall._cli import main

POSIX = os.name == "posix"


def key(text: object) -> bytes:
    return hashlib.sha256(repr(text).encode()).digest()


def files(where: Path) -> list[Path]:
    return sorted(where.iterdir())


def test_the_directory(monkeypatch, tmp_path):
    import platformdirs

    monkeypatch.delenv("NATIVECALL_CACHE_DIR", raising=False)
    assert cache.directory() == platformdirs.user_cache_dir("nativecall", appauthor=False)
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", str(tmp_path))
    assert cache.directory() == str(tmp_path)
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", "")
    assert cache.directory() is None


DIRECTORIES = """
import sys
from nativecall import _cache
assert "platformdirs" not in sys.modules
ours = _cache.directory()
from platformdirs import user_cache_dir
print(ours == user_cache_dir("nativecall", appauthor=False) == _cache.directory())
"""


@pytest.mark.parametrize("home", [None, "", " ", "/x/y", "/x/y/", " /x ", "relative", "~/x"])
def test_the_directory_is_that_of_platformdirs_whether_it_is_imported_or_not(home, tmp_path):
    kept = ("NATIVECALL_CACHE_DIR", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in kept}
    if home is not None:
        environment["XDG_CACHE_HOME"] = home
    done = subprocess.run(
        [sys.executable, "-c", DIRECTORIES],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"


def test_what_is_put_is_got_by_all(tmp_path):
    where = tmp_path / "made" / "above" / "here"
    first, second = Cache(str(where)), Cache(str(where))
    assert first.get(key(1)) is None
    first.put(key(1), b"code")
    assert first.get(key(1)) == second.get(key(1)) == b"code"
    assert second.get(key(2)) is None
    assert [path.name for path in files(where)] == [key(1).hex() + ".ncobj"]
    if POSIX:
        assert stat.S_IMODE(files(where)[0].stat().st_mode) == 0o600


@pytest.mark.skipif(not POSIX, reason="needs the rights of POSIX")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_all_folders_that_are_made_are_the_owners_alone(tmp_path, umask):
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    before = os.umask(umask)
    try:
        Cache(str(there / "made" / "above" / "here")).put(key(1), b"code")
    finally:
        os.umask(before)
    made = [there / "made", there / "made" / "above", there / "made" / "above" / "here"]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in made] == [0o700] * 3
    assert stat.S_IMODE(files(made[-1])[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(there.stat().st_mode) == 0o755


def test_what_is_for_memory_alone_makes_no_file(tmp_path):
    kept = Cache(str(tmp_path / "none"))
    kept.put(key(1), b"code", file=False)
    assert kept.get(key(1)) == b"code"
    assert not (tmp_path / "none").exists()


def test_memory_serves_alone():
    kept = Cache(None)
    kept.put(key(1), b"code")
    assert kept.get(key(1)) == b"code"
    kept.forget()
    assert kept.get(key(1)) is None


def test_memory_is_bounded_and_keeps_what_is_used():
    kept = Cache(None)
    kept.put(key("used"), b"code")
    for n in range(3 * cache._IN_MEMORY):
        kept.put(key(n), b"code")
        assert kept.get(key("used")) == b"code"
    assert len(kept._memory) == cache._IN_MEMORY
    kept.put(key("large"), bytes(cache._LARGE + 1))
    assert kept.get(key("large")) is None


HEADER = _fileheader.HEADER
DAMAGE = {
    "empty": lambda good: b"",
    "half a header": lambda good: good[: HEADER // 2],
    "header only": lambda good: good[:HEADER],
    "truncated": lambda good: good[:-1],
    "longer": lambda good: good + b"\0",
    "foreign": lambda good: b"\x7fELF" + bytes(200),
    "one bit": lambda good: good[:-1] + bytes([good[-1] ^ 1]),
    "another version": lambda good: b"ncobj\0\0\1" + good[8:],
    "another key": lambda good: good[:8] + key("another") + good[40:],
    "another digest": lambda good: good[:48] + bytes(32) + good[80:],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_bad_files_are_ignored_and_replaced(tmp_path, damage):
    Cache(str(tmp_path)).put(key(1), b"right code")
    (path,) = files(tmp_path)
    good = path.read_bytes()
    path.write_bytes(damage(good))
    kept = Cache(str(tmp_path))
    assert kept.get(key(1)) is None
    kept.put(key(1), b"right code")
    assert path.read_bytes() == good
    assert Cache(str(tmp_path)).get(key(1)) == b"right code"


def test_a_file_under_another_name_is_foreign(tmp_path):
    Cache(str(tmp_path)).put(key(1), b"code")
    (path,) = files(tmp_path)
    path.rename(tmp_path / (key(2).hex() + ".ncobj"))
    assert Cache(str(tmp_path)).get(key(2)) is None


def test_discarding(tmp_path):
    kept = Cache(str(tmp_path))
    kept.put(key(1), b"code")
    kept.discard(key(1))
    kept.discard(key(1))
    assert kept.get(key(1)) is None
    assert files(tmp_path) == []


def test_a_directory_in_the_place_of_a_file(tmp_path):
    (tmp_path / (key(1).hex() + ".ncobj")).mkdir()
    kept = Cache(str(tmp_path))
    kept.put(key(1), b"code")
    assert kept.get(key(1)) == b"code"
    assert [path.name for path in files(tmp_path)] == [key(1).hex() + ".ncobj"], "no partial file"
    assert kept.usage().files == 0


def pipe(path: Path) -> None:
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(1 << 42)


def link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    elsewhere.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(elsewhere)


def shared(path: Path) -> None:
    path.chmod(0o666)


def foreign(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(path, 12345, 12345)


@pytest.mark.skipif(os.name != "posix", reason="what POSIX has in directories")
@pytest.mark.parametrize("put", [pipe, zeros, huge, link, shared, foreign])
def test_what_others_may_have_put_there_is_not_read(tmp_path, forked, put):
    Cache(str(tmp_path)).put(key(1), b"right code")
    (path,) = files(tmp_path)
    if put in (pipe, zeros):
        path.unlink()
    put(path)
    # In a process of its own, which may hang.
    code = (
        "import sys; from nativecall._cache import Cache; kept = Cache(sys.argv[1])\n"
        f"print(kept.get({key(1)!r})); kept.put({key(1)!r}, b'right code')\n"
        f"print(Cache(sys.argv[1]).get({key(1)!r}))\n"
    )
    assert forked(code, tmp_path, timeout=20) == "None\nb'right code'\n"
    assert stat.S_ISREG(path.lstat().st_mode), "it was replaced"


def test_a_large_file_is_not_read(tmp_path):
    Cache(str(tmp_path)).put(key(1), bytes(5000))
    assert Cache(str(tmp_path)).get(key(1)) == bytes(5000)
    assert Cache(str(tmp_path), bound=5000).get(key(1)) is None, "larger than all may be"


@pytest.mark.skipif(os.name != "posix", reason="needs a directory that is deleted while in use")
def test_a_relative_directory_that_leads_nowhere(forked, tmp_path, monkeypatch):
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", "relative")
    code = (
        "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
        "from nativecall import _cache\n"
        "print(_cache.directory(), _cache.shared().where)\n"
    )
    assert forked(code) == "None None\n"


def serves_from_memory(kept: Cache) -> None:
    kept.put(key(1), b"code")
    assert kept.get(key(1)) == b"code"
    kept.forget()
    assert kept.get(key(1)) is None
    kept.discard(key(1))
    assert kept.usage().files == 0
    assert kept.clear() == 0


def test_no_directory_can_be_made(tmp_path):
    (tmp_path / "file").touch()
    kept = Cache(str(tmp_path / "file"))
    assert kept.refusal() == "it is not a directory"
    serves_from_memory(kept)
    serves_from_memory(Cache(str(tmp_path / "file" / "below")))


def test_a_directory_that_vanishes(tmp_path):
    where = tmp_path / "cache"
    kept = Cache(str(where))
    kept.put(key(1), b"code")
    files(where)[0].unlink()
    where.rmdir()
    assert kept.get(key(1)) == b"code"
    kept.put(key(2), b"code")
    assert len(files(where)) == 1, "made again"


UNPRIVILEGED = """
import ctypes, hashlib, os, sys
from nativecall._cache import Cache
where = sys.argv[1]
key = hashlib.sha256(b"old").digest()
Cache(where).put(key, b"old code")
os.chmod(where, 0o555)
if os.geteuid() == 0:
    # Root may write anywhere; what counts for files is the file system's user ID.
    ctypes.CDLL(None).setfsuid(65534)
kept = Cache(where)
new = hashlib.sha256(b"new").digest()
try:
    open(os.path.join(where, "x"), "w")
except PermissionError:
    print("read-only")
kept.put(new, b"new code")
print(kept.get(new), len(os.listdir(where)))
kept.forget()
print(kept.get(new))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="setfsuid is Linux's")
def test_a_read_only_directory(forked):
    # Not below pytest's directory, which only its owner may enter.
    with tempfile.TemporaryDirectory() as where:
        assert forked(UNPRIVILEGED, where).splitlines() == ["read-only", "b'new code' 1", "None"]


FULL = """
import hashlib, os, resource, sys
from nativecall._cache import Cache
where = sys.argv[1]
os.mkdir(where, 0o700)
resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
kept = Cache(where)
key = hashlib.sha256(b"").digest()
kept.put(key, bytes(1000))
print(kept.get(key) == bytes(1000), os.listdir(where))
kept.forget()
print(kept.get(key))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
kept.put(key, bytes(1000))
print(Cache(where).get(key) == bytes(1000))
"""


@pytest.mark.skipif(not POSIX, reason="writes fail by a limit of POSIX")
def test_a_full_disk(forked, tmp_path):
    printed = forked(FULL, tmp_path / "cache").splitlines()
    assert printed == ["True []", "None", "True"], "no part of a file stays"


@pytest.mark.skipif(not POSIX, reason="modes and owners are POSIX's")
def test_a_directory_that_others_may_write_to_is_not_used(tmp_path, monkeypatch):
    Cache(str(tmp_path)).put(key(1), b"code")
    for mode in (0o777, 0o770, 0o702):
        tmp_path.chmod(mode)
        kept = Cache(str(tmp_path))
        assert kept.refusal() == "other users may write to it"
        assert kept.get(key(1)) is None
        serves_from_memory(kept)
    tmp_path.chmod(0o755)
    assert Cache(str(tmp_path)).get(key(1)) == b"code"
    owner = os.stat(tmp_path).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    expected = "" if owner == 0 else "it belongs to another user"
    assert Cache(str(tmp_path)).refusal() == expected


@pytest.mark.skipif(not POSIX or os.geteuid() != 0, reason="only root gives files away")
def test_a_directory_of_another_user_is_not_used(tmp_path):
    Cache(str(tmp_path)).put(key(1), b"code")
    os.chown(tmp_path, 65534, 65534)
    kept = Cache(str(tmp_path))
    assert kept.refusal() == "it belongs to another user"
    assert kept.get(key(1)) is None


def test_the_bound_and_the_order_of_use(tmp_path):
    bound = 40 * (HEADER + 1000)
    kept = Cache(str(tmp_path), bound)
    for n in range(40):
        kept.put(key(n), bytes(1000))
        os.utime(tmp_path / (key(n).hex() + ".ncobj"), (1e9 + n, 1e9 + n))
    foreign = tmp_path / "notes.txt"
    foreign.write_bytes(bytes(2 * bound))
    os.utime(foreign, (1, 1))
    assert Cache(str(tmp_path)).get(key(0)) is not None, "used now"
    assert Cache(str(tmp_path)).get(key(2)) is not None
    Cache(str(tmp_path), bound).put(key("new"), bytes(1000))
    left = Cache(str(tmp_path), bound)
    assert left.usage().size <= bound - bound // 8
    held = [n for n in [*range(40), "new"] if left.get(key(n)) is not None]
    assert held == [0, 2, *range(held[2], 40), "new"], "the last used stay"
    assert len(held) == 35
    assert foreign.exists()


def test_the_bound_holds_while_one_process_writes(tmp_path):
    bound = 100_000
    kept = Cache(str(tmp_path), bound)
    for n in range(300):
        kept.put(key(n), bytes(1000))
        assert kept.usage().size <= bound + bound // 8
    kept.put(key("too large"), bytes(bound))
    assert kept.usage().size <= bound + bound // 8
    assert kept.get(key(299)) is not None


def test_abandoned_partial_files_are_deleted(tmp_path):
    old, new = tmp_path / ".old.ncpart", tmp_path / ".new.ncpart"
    for path in (old, new):
        path.write_bytes(b"part")
    os.utime(old, (time.time() - 2 * cache._ABANDONED,) * 2)
    Cache(str(tmp_path)).put(key(1), b"code")
    assert not old.exists()
    assert new.exists(), "somebody may be writing it"


WRITER = """
import hashlib, sys
from nativecall._cache import Cache
for round in range(60):
    kept = Cache(sys.argv[1], 20_000)
    for n in range(10):
        key = hashlib.sha256(b"%d" % n).digest()
        data = kept.get(key)
        assert data is None or data == key * 50, (round, n)
        kept.put(key, key * 50)
        if round % 10 == n:
            kept.clear()
print("done")
"""


def test_processes_share_a_directory(tmp_path):
    writers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", WRITER, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        for _ in range(3)
    ]
    assert [writer.communicate(timeout=120)[0] for writer in writers] == ["done\n"] * 3
    assert [writer.returncode for writer in writers] == [0] * 3
    assert not list(tmp_path.glob("*.ncpart"))


def test_threads_share_a_cache(tmp_path):
    kept = Cache(str(tmp_path), 50_000)
    wrong: list[object] = []

    def work() -> None:
        try:
            for round in range(70):
                of = key(round % 7)
                data = kept.get(of)
                if data is not None and data != of * 40:
                    wrong.append(data)
                kept.put(of, of * 40)
                if round % 50 == 0:
                    kept.forget()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_clearing_leaves_what_is_not_ours(tmp_path):
    kept = Cache(str(tmp_path))
    for n in range(3):
        kept.put(key(n), b"code")
    (tmp_path / "notes.txt").touch()
    (tmp_path / "x.ncpart").touch()
    assert kept.clear() == 3
    assert [path.name for path in files(tmp_path)] == ["notes.txt"]
    assert kept.get(key(0)) is None
    assert kept.clear() == 0


# -- the command ----------------------------------------------------------------------------------


def command(capsys, *arguments: str) -> tuple[int, list[str]]:
    status = main(["cache", *arguments])
    return status, capsys.readouterr().out.splitlines()


def test_the_command_shows_and_clears(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", str(tmp_path / "cache"))
    place = f"  directory  {tmp_path / 'cache'}"
    assert command(capsys) == (0, [place, "  holds      0 files, 0.0 KiB of 64.0 MiB"])
    assert not (tmp_path / "cache").exists(), "looking makes nothing"
    kept = Cache(cache.directory())
    kept.put(key(1), bytes(2048 - HEADER))
    kept.put(key(2), bytes((1 << 20) - HEADER))
    assert kept.usage().files == 2
    os.utime(tmp_path / "cache" / (key(1).hex() + ".ncobj"), (1e9, 1e9))
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(1e9))
    assert command(capsys) == (
        0,
        [place, "  holds      2 files, 1.0 MiB of 64.0 MiB", f"  all used   since {since}"],
    )
    assert command(capsys, "clear") == (0, [place, "  deleted    2 files"])
    assert command(capsys)[1][1].startswith("  holds      0 files")


def test_the_command_without_a_usable_directory(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", "")
    assert command(capsys) == (
        0,
        [
            "  generated code and declarations are kept in memory only",
            "  to keep it on disk: unset NATIVECALL_CACHE_DIR, which is empty, or set it to a "
            "directory",
        ],
    )
    (tmp_path / "file").touch()
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", str(tmp_path / "file"))
    assert command(capsys, "clear") == (
        1,
        [f"  directory  {tmp_path / 'file'}", "  not used   it is not a directory"],
    )
    assert (tmp_path / "file").exists()


def test_the_command_imports_no_llvmlite(forked):
    code = (
        "import sys; from nativecall._cli import main\n"
        "main(['cache']); print([name for name in sys.modules if name.startswith('llvmlite')])\n"
    )
    assert forked(code).splitlines()[-1] == "[]"
