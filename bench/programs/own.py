"""The programs with Python's own modules: C that was written for one library alone."""

from __future__ import annotations

import sqlite3
import zlib
from xml.etree import ElementTree
from xml.parsers import expat as pyexpat

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


def expat() -> Run:
    """The module xml.parsers.expat."""
    document, create = programs.document(), pyexpat.ParserCreate

    def run() -> float:
        heard, parser = programs.Heard(), create()
        parser.StartElementHandler, parser.EndElementHandler = heard.start, heard.end
        parser.CharacterDataHandler = heard.text
        parser.Parse(document, True)
        return heard.total

    return run


def rows() -> Run:
    """A cursor of the module sqlite3."""
    database = sqlite3.connect(":memory:")
    for text in programs.FILL_ITEMS:
        database.execute(text)

    def run() -> float:
        total = 0
        for name, number in database.execute(programs.SELECT_ITEMS):
            total += len(name) + number
        return total

    return run


def tree() -> Run:
    """The module xml.etree, which makes objects of all elements."""
    document, parse = programs.document(), ElementTree.fromstring

    def run() -> float:
        counts: dict[str, int] = {}
        for element in parse(document).iter():
            counts[element.tag] = counts.get(element.tag, 0) + 1
        return sum([len(name) * count for name, count in counts.items()])

    return run


def stream() -> Run:
    """The objects of the module zlib."""
    return programs.compressed(lambda: zlib.compressobj(programs.LEVEL))
