"""``nativecall cache``: what is kept between processes, where, how much, and clearing it.

Generates no code and imports no llvmlite.
"""

from __future__ import annotations

import time

from .._cache import Cache, directory
from .output import Output


def run(*, clear: bool) -> int:
    """Show the cache, or clear it; 1 when there is a directory that cannot be used."""
    output = Output()
    kept = Cache(directory())
    if kept.where is None:
        output.text("generated code and declarations are kept in memory only")
        output.text("to keep it on disk: pip install platformdirs, or set NATIVECALL_CACHE_DIR")
        return 0
    output.text(f"directory  {kept.where}")
    refusal = kept.refusal()
    if refusal:
        output.text(f"not used   {refusal}", "bad")
        return 1
    if clear:
        output.text(f"deleted    {_count(kept.clear())}")
        return 0
    usage = kept.usage()
    output.text(f"holds      {_count(usage.files)}, {_size(usage.size)} of {_size(kept.bound)}")
    if usage.oldest is not None:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(usage.oldest))
        output.text(f"all used   since {used}")
    return 0


def _count(files: int) -> str:
    return f"{files} file" + ("" if files == 1 else "s")


def _size(size: int) -> str:
    return f"{size / 1024:.1f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MiB"
