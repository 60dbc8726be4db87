"""``nativecall cache``: show where cached files are stored and how large they are, or delete them.

Nothing here generates code or imports llvmlite.
"""

from __future__ import annotations

import os
import time

from .._cache import Cache, directory
from .._output import Output


def run(*, action: str | None) -> int:
    """Show the cache, or ``clear`` it; return 1 if it is unusable, or not all files are deleted."""
    output = Output()
    kept = Cache(directory())
    if kept.where is None:
        output.text("generated code and declarations are kept in memory only")
        output.text(f"to keep it on disk: {none_chosen()}")
        return 0
    output.text(f"directory  {kept.where}")
    refusal = kept.refusal()
    if refusal:
        output.text(f"not used   {refusal}", "bad")
        return 1
    if action == "clear":
        output.text(f"deleted    {_count(kept.clear())}")
        left = kept.usage().files
        if left:
            why = unwritable(kept) or "only other users may delete files in their folder"
            output.text(f"kept       {_count(left)}, which cannot be deleted: {why}", "bad")
        return 1 if left else 0
    usage = kept.usage()
    output.text(f"holds      {_count(usage.files)}, {_size(usage.size)} of {_size(kept.bound)}")
    why = unwritable(kept) if os.path.isdir(kept.where) else ""  # create no directory
    if why:
        output.text(f"keeps      nothing more: {why}", "bad")
    if usage.oldest is not None:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(usage.oldest))
        output.text(f"all used   since {used}")
    return 0


def none_chosen() -> str:
    """Return what the user must do to get a cache on disk."""
    if os.environ.get("NATIVECALL_CACHE_DIR") == "":
        return "unset NATIVECALL_CACHE_DIR, which is empty, or set it to a directory"
    return "NATIVECALL_CACHE_DIR is relative to a directory that was deleted"


def unwritable(kept: Cache) -> str:
    """Return why no file can be cached in the directory; ``""`` if a trial file could be written.

    A missing directory is created, as for the first cached file.
    """
    assert kept.where is not None
    # This name marks an unfinished file, so the cache later deletes a trial file left behind.
    path = os.path.join(kept.where, f".tried.{os.getpid()}.ncpart")
    try:
        made = kept._create(path, kept.where)
        try:
            os.write(made, b"tried")
        finally:
            os.close(made)
            os.unlink(path)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _count(files: int) -> str:
    return f"{files} file" + ("" if files == 1 else "s")


def _size(size: int) -> str:
    return f"{size / 1024:.1f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MiB"
