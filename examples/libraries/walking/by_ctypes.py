"""nftw walks through a tree of files and calls a Python function for each: with ctypes."""

import ctypes as ct
import os
import tempfile
from pathlib import Path


class Status(ct.Structure):
    _fields_ = [
        ("st_dev", ct.c_ulong),
        ("st_ino", ct.c_ulong),
        ("st_nlink", ct.c_ulong),
        ("st_mode", ct.c_uint),
        ("st_uid", ct.c_uint),
        ("st_gid", ct.c_uint),
        ("pad", ct.c_int),
        ("st_rdev", ct.c_ulong),
        ("st_size", ct.c_long),
    ]


class Place(ct.Structure):
    _fields_ = [("base", ct.c_int), ("level", ct.c_int)]


VISIT = ct.CFUNCTYPE(ct.c_int, ct.c_char_p, ct.POINTER(Status), ct.c_int, ct.POINTER(Place))
c = ct.CDLL(None, use_errno=True)
c.nftw.argtypes = [ct.c_char_p, VISIT, ct.c_int, ct.c_int]
FTW_F, FTW_D, FTW_PHYS = 0, 1, 1


def walk(root, visit):
    """Call a function with path, size, level and kind of all that is below a folder."""
    raised = []

    def call(path, status, kind, place):
        try:
            return visit(path.decode(), status[0].st_size, place[0].level, kind) or 0
        except Exception as error:
            raised.append(error)
            return -1

    found = c.nftw(root.encode(), VISIT(call), 8, FTW_PHYS)
    if raised:
        raise raised[0]
    if found == -1:
        raise OSError(ct.get_errno(), os.strerror(ct.get_errno()))
    return found


def main():
    with tempfile.TemporaryDirectory() as root:
        for number, name in enumerate(("one", "a/two", "a/b/three"), 1):
            path = Path(root, name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(bytes(100 * number))
        files, folders = [], []

        def visit(path, size, level, kind):
            if kind == FTW_F:
                files.append((os.path.relpath(path, root), size, level))
            elif kind == FTW_D:
                folders.append(level)

        print(walk(root, visit), sorted(files), sorted(folders))
        print(walk(root, lambda path, size, level, kind: 7 if size == 200 else 0))
        for place, function in ((root, lambda *_: 1 / 0), (root + "/none", visit)):
            try:
                walk(place, function)
            except (OSError, ZeroDivisionError) as error:
                print(type(error).__name__)


if __name__ == "__main__":
    main()
