"""Names of generated code, for debuggers and profilers.

- With NATIVECALL_TRACE=1 GDB is told, by its JIT interface: backtraces have the names.
- With NATIVECALL_PERF=1 they are written to ``/tmp/perf-PID.map``, which perf reads; a child of a
  fork writes its own, with what it inherited.

A name is what the code was compiled for: ``nativecall trampoline d:dd 0x0``.
"""

from __future__ import annotations

import os
import struct

from .. import _lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_DEBUGGER = bool(_lib.types.calls_traced)
_PROFILER = os.environ.get("NATIVECALL_PERF") == "1"

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOLS, _STRINGS, _NO_BITS = 2, 3, 8  # types of sections
_FUNCTION = 0x12  # global
_ELF64 = b"\x7fELF\x02\x01\x01"


def named(key: str, data: bytes, addresses: Mapping[str, int]) -> object:
    """Tell the names of an object file's functions, which are at these addresses.

    What is returned lives as long as the code. Nothing is told of other files than ELF's for
    little-endian machines of 64 bits.
    """
    sizes = _sizes(data)
    rows = [(at, sizes[name], name) for name, at in addresses.items() if name in sizes]
    if len(rows) == 1:
        rows = [(rows[0][0], rows[0][1], "")]
    functions = [(at, size, f"nativecall {key} {name}".rstrip()) for at, size, name in rows]
    if _PROFILER:
        _write(functions)
    if not _DEBUGGER:
        return None
    machine = _HEADER.unpack_from(data)[2] if functions else 0
    return [_lib.types.tell_debugger(_image(machine, *one)) for one in functions]


def _sizes(data: bytes) -> dict[str, int]:
    """The bytes of each function of an object file."""
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


def _image(machine: int, address: int, size: int, name: str) -> bytes:
    """An ELF file without code that names a function at an address."""
    strings = b"\0.text\0.symtab\0.strtab\0" + name.encode() + b"\0"
    of_name = strings.index(name.encode())
    symbols = bytes(_SYMBOL.size) + _SYMBOL.pack(of_name, _FUNCTION, 0, 1, 0, size)
    at = _HEADER.size
    after = at + len(symbols)
    sections = (
        bytes(_SECTION.size),
        _SECTION.pack(1, _NO_BITS, 6, address, 0, size, 0, 0, 16, 0),  # allocated, executed
        _SECTION.pack(7, _SYMBOLS, 0, 0, at, len(symbols), 3, 1, 8, _SYMBOL.size),
        _SECTION.pack(15, _STRINGS, 0, 0, after, len(strings), 0, 0, 1, 0),
    )
    padding = bytes(-(after + len(strings)) % 8)
    table = after + len(strings) + len(padding)
    header = _HEADER.pack(
        _ELF64, 1, machine, 1, 0, 0, table, 0, _HEADER.size, 0, 0, _SECTION.size, len(sections), 3
    )
    return header + symbols + strings + padding + b"".join(sections)


_process = 0  # that wrote last


def _write(functions: list[tuple[int, int, str]]) -> None:
    """Add functions to the file of this process; where it cannot be written, perf has no names."""
    global _process
    before, _process = _process, os.getpid()
    text = "".join([f"{at:x} {size:x} {name}\n" for at, size, name in functions])
    try:
        if before not in (0, _process):
            with open(f"/tmp/perf-{before}.map", encoding="utf-8") as file:
                text = file.read() + text
        # Nobody else's file, and none behind a link that another user planted.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        opened = os.open(f"/tmp/perf-{_process}.map", flags, 0o644)
        with open(opened, "a", encoding="utf-8") as file:
            if os.fstat(opened).st_uid == os.geteuid():
                file.write(text)
    except OSError:
        pass
