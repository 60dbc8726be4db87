"""`nativecall.load` of files that were replaced or rewritten after they were loaded.

Each file that is loaded stays mapped, and what is known of it stays too.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

import nativecall as nc

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs glibc's link maps")


def numbered(builder, number: int) -> bytes:
    code = f"int number(void); int number(void) {{ return {number}; }}"
    return builder.library(code, f"number{number}").read_bytes()


def test_a_file_that_was_replaced_is_loaded_anew(builder, tmp_path, monkeypatch):
    path = tmp_path / "libnumber.so"
    loaded = []
    for number in range(3):
        (tmp_path / "new").write_bytes(numbered(builder, number))
        (tmp_path / "new").rename(path)
        loaded += [nc.load(path, "int number(void);"), nc.load(str(path), "int number(void);")]
    monkeypatch.chdir(tmp_path)
    loaded.append(nc.load("./libnumber.so", "int number(void);"))
    assert [lib.number() for lib in loaded] == [0, 0, 1, 1, 2, 2, 2]


def test_other_names_of_a_file_that_was_replaced(builder, tmp_path, monkeypatch):
    """A hard link keeps the old file, a symbolic one leads elsewhere, as does another folder."""
    first, second, link = (tmp_path / f"lib{name}.so" for name in ("first", "second", "link"))
    for path, number in ((first, 1), (second, 2)):
        path.write_bytes(numbered(builder, number))
    hard = tmp_path / "libhard.so"
    hard.hardlink_to(first)
    loaded = [nc.load(path, "int number(void);") for path in (first, hard)]
    (tmp_path / "new").write_bytes(numbered(builder, 0))
    (tmp_path / "new").rename(first)
    loaded += [nc.load(path, "int number(void);") for path in (first, hard)]
    for target in (hard, second, hard, first):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        loaded.append(nc.load(link, "int number(void);"))
    assert [lib.number() for lib in loaded] == [1, 1, 0, 1, 1, 2, 1, 0]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "libhard.so").write_bytes(numbered(builder, 2))
    found = []
    for folder in (tmp_path, tmp_path / "sub", tmp_path):
        monkeypatch.chdir(folder)
        found.append(nc.load("./libhard.so", "int number(void);").number())
    assert found == [1, 2, 1]


def test_a_dependency_that_was_replaced_is_loaded_anew(builder, tmp_path):
    """The loader names it itself, from ``$ORIGIN``."""
    needed = tmp_path / "libneeded.so"
    needed.write_bytes(numbered(builder, 1))
    source = "int number(void); int through(void); int through(void) { return number(); }"
    flags = [f"-L{tmp_path}", "-lneeded", "-Wl,-rpath,$ORIGIN"]
    main = tmp_path / "libmain.so"
    (tmp_path / "main.c").write_text(source)
    command = ["gcc", "-shared", "-fPIC", str(tmp_path / "main.c"), "-o", str(main), *flags]
    subprocess.run(command, check=True)
    loaded = nc.load(main, "int through(void);")
    assert loaded.through() == 1
    found = []
    for number in (2, 0):
        (tmp_path / "new").write_bytes(numbered(builder, number))
        (tmp_path / "new").rename(needed)
        found += [
            nc.load(needed, "int number(void);"),
            nc.load("needed", "int number(void);", folders=tmp_path),
        ]
    assert [lib.number() for lib in found] == [2, 2, 0, 0]
    assert loaded.through() == 1


def test_a_file_that_ctypes_loaded_and_others_replaced(builder, tmp_path):
    path = tmp_path / "libnumber.so"
    path.write_bytes(numbered(builder, 0))
    old = ctypes.CDLL(str(path))
    path.unlink()
    path.write_bytes(numbered(builder, 1))
    assert (nc.load(path, "int number(void);").number(), old.number()) == (1, 0)


def test_a_file_that_was_rewritten_in_place_is_refused(builder, tmp_path):
    path = tmp_path / "libnumber.so"
    path.write_bytes(numbered(builder, 0))
    assert nc.load(path, "int number(void);").number() == 0
    os.utime(path, (1, 1))
    with pytest.raises(nc.LibraryError, match=r"rewritten in place after it was loaded.*new file"):
        nc.load(path)
