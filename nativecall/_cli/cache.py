"""``nativecall cache``: what is kept between processes, where, how much; clearing and warming it.

To warm it is to generate now what the first calls of functions would generate. Nothing else
generates code here, or imports llvmlite.
"""

from __future__ import annotations

import os
import time

from .._cache import Cache, directory
from .output import CommandError, Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .._callable.callable import NativeCallable


def run(*, action: str | None, places: Sequence[str]) -> int:
    """Show the cache, ``clear`` or ``warm`` it; 1 when there is a directory that cannot be used."""
    if action == "warm":
        return _warm(places)
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
            why = unwritable(kept) or "their folder allows it to others alone"
            output.text(f"kept       {_count(left)}, which cannot be deleted: {why}", "bad")
        return 1 if left else 0
    usage = kept.usage()
    output.text(f"holds      {_count(usage.files)}, {_size(usage.size)} of {_size(kept.bound)}")
    why = unwritable(kept) if os.path.isdir(kept.where) else ""  # to look makes no directory
    if why:
        output.text(f"keeps      nothing more: {why}", "bad")
    if usage.oldest is not None:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(usage.oldest))
        output.text(f"all used   since {used}")
    return 0


def _warm(places: Sequence[str]) -> int:
    """Generate the code of the first calls of what is at each ``MODULE:NAME``, or in a module; 1
    when there is no cache that can keep it.

    A library's functions are those that were declared; of overload sets, every entry is warmed.
    """
    from collections import Counter

    from .place import find, imported

    output = Output()
    kept = Cache(directory())
    refusal = f"kept in memory only: {none_chosen()}"
    if kept.where is not None:
        refusal = kept.refusal()
        why = refusal or unwritable(kept)
        if why and not refusal:
            refusal = f"no file can be made in {kept.where}: {why}"
    if refusal:
        output.text(f"not used   {refusal}", "bad")
        return 1
    before = kept.usage().files
    ways: Counter[str] = Counter()
    for place in places:
        with output.working(f"reading {place}"):
            found = list(_callables(find(place) if ":" in place else imported(place)))
        if not found:
            raise CommandError(f"{place!r} is no library, no native callable, and has none")
        with output.working(place, len(found)) as done:
            for callable in found:
                ways.update([entry.trampoline for entry in callable.entries])
                done()
    for way, count in ways.most_common():
        output.text(f"{way:<14}  {count} entr{'y' if count == 1 else 'ies'}")
    output.text(f"written         {_count(max(0, kept.usage().files - before))}")
    return 0


def _callables(obj: object) -> Iterator[NativeCallable]:
    """The native callables that an object is, or has."""
    from types import ModuleType

    from .._callable.callable import NativeCallable
    from .._library import Library
    from .place import functions

    if isinstance(obj, NativeCallable):
        yield obj
    elif isinstance(obj, Library):
        if obj.declarations is not None:
            yield from functions(obj).values()
    elif isinstance(obj, ModuleType):
        for one in vars(obj).values():
            if isinstance(one, (NativeCallable, Library)):
                yield from _callables(one)


def none_chosen() -> str:
    """What gives a cache on disk where there is none."""
    if os.environ.get("NATIVECALL_CACHE_DIR") == "":
        return "unset NATIVECALL_CACHE_DIR, which is empty, or set it to a directory"
    return "NATIVECALL_CACHE_DIR is relative to a directory that was deleted"


def unwritable(kept: Cache) -> str:
    """Why no file can be kept in the directory of a cache; ``""`` when one was written and deleted.

    The directory is made if it is missing, as the first file that is kept would make it.
    """
    assert kept.where is not None
    # Were it left behind, the cache would delete it: it is named as an unfinished file.
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
