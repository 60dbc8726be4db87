"""nftw walks through a tree of files and calls a Python function for each: with cffi."""

import os
import tempfile
from pathlib import Path

from cffi import FFI

ffi = FFI()
ffi.cdef("""
    struct stat {
        unsigned long st_dev, st_ino, st_nlink; unsigned st_mode, st_uid, st_gid; int pad;
        unsigned long st_rdev; long st_size, st_blksize, st_blocks, times[6], reserved[3];
    };
    struct FTW { int base; int level; };
    typedef int VISIT(const char *, const struct stat *, int, struct FTW *);
    int nftw(const char *, VISIT *, int, int);
""")
c = ffi.dlopen(None)
FTW_F, FTW_D, FTW_PHYS = 0, 1, 1
raised = []


def note(kind, error, traceback):
    raised.append(error)


def walk(root, visit):
    """Call a function with path, size, level and kind of all that is below a folder."""
    raised.clear()

    @ffi.callback("VISIT", error=-1, onerror=note)
    def call(path, status, kind, place):
        return visit(ffi.string(path).decode(), status.st_size, place.level, kind) or 0

    ffi.errno = 0
    found = c.nftw(root.encode(), call, 8, FTW_PHYS)
    if raised:
        raise raised[0]
    if found == -1:
        raise OSError(ffi.errno, os.strerror(ffi.errno))
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
