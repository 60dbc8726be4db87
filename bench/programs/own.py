"""The programs with Python's own modules: C that was written for one library alone."""

from __future__ import annotations

import sqlite3
import zlib

from bench import programs
from bench.programs import Run


def sqlite() -> Run:
    """``create_function`` of the module sqlite3."""
    database = sqlite3.connect(":memory:")
    database.create_function("f", 1, programs.user)
    for text in programs.FILL:
        database.execute(text)

    def run() -> float:
        total: float = database.execute(programs.SELECT).fetchone()[0]
        return total

    return run


def checksums() -> Run:
    """The functions of the module zlib."""
    crc32, adler32 = zlib.crc32, zlib.adler32

    def run() -> float:
        total = 0
        for buffer in programs.BUFFERS:
            total += crc32(buffer) + adler32(buffer)
        return total

    return run
