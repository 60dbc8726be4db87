"""Write the names of generated code to ``/tmp/perf-PID.map``, which perf reads.

NATIVECALL_PERF=1 enables this. After a fork, the child process writes its own file, which begins
with the inherited names. A name contains the key for which the code was compiled.
"""

from __future__ import annotations

import os
import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOLS = 2  # section type of a symbol table
_FUNCTION = 0x12  # binding and type of a global function symbol
_ELF64 = b"\x7fELF\x02\x01\x01"

_process = 0  # the process that last wrote


def write(key: str, data: bytes, name: str, address: int) -> None:
    """Add the function `name` of an object file, loaded at `address`, to this process's map.

    Object files other than ELF for 64-bit little-endian machines are ignored. If the map cannot be
    written, perf shows no names.
    """
    global _process
    size = _sizes(data).get(name)
    if size is None:
        return
    text = f"{address:x} {size:x} nativecall {key}\n"
    before, _process = _process, os.getpid()
    try:
        if before not in (0, _process):
            with open(f"/tmp/perf-{before}.map", encoding="utf-8") as file:
                text = file.read() + text
        # Don't write to another user's file, and don't follow a symbolic link.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        opened = os.open(f"/tmp/perf-{_process}.map", flags, 0o644)
        with open(opened, "a", encoding="utf-8") as file:
            if os.fstat(opened).st_uid == os.geteuid():
                file.write(text)
    except OSError:
        pass


def _sizes(data: bytes) -> dict[str, int]:
    """Return the size of each function in an object file."""
    found: dict[str, int] = {}
    if not data.startswith(_ELF64):
        return found
    header = _HEADER.unpack_from(data)
    sections = [
        _SECTION.unpack_from(data, header[6] + i * _SECTION.size) for i in range(header[12])
    ]
    for section in sections:
        if section[1] != _SYMBOLS:
            continue
        names = sections[section[6]]
        for at in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, info, _, _, _, size = _SYMBOL.unpack_from(data, at)
            if info == _FUNCTION and size:
                start = names[4] + name
                found[data[start : data.index(b"\0", start)].decode()] = size
    return found
