"""Walk through a tree of files with nftw, which calls a Python function for each."""

import os
import tempfile
from pathlib import Path

import nativecall as nc

c = nc.load("c", header="ftw.h", define={"_GNU_SOURCE": 1}, errno={"nftw": True}, encoding="utf-8")


def walk(root, visit):
    """Call a function with path, size, level and kind of all that is below a folder."""

    def call(path, status, kind, place):
        return visit(path, status.st_size, place.level, kind) or 0

    found = c.nftw(root, call, 8, c.FTW_PHYS)
    if found == -1:
        raise OSError(nc.get_errno(), os.strerror(nc.get_errno()))
    return found


def main():
    with tempfile.TemporaryDirectory() as root:
        for number, name in enumerate(("one", "a/two", "a/b/three"), 1):
            path = Path(root, name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(bytes(100 * number))
        files, folders = [], []

        def visit(path, size, level, kind):
            if kind == c.FTW_F:
                files.append((os.path.relpath(path, root), size, level))
            elif kind == c.FTW_D:
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
