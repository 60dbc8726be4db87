"""Buffer formats held against structs: what suits, what does not, and what cannot be known."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest

from nativecall._cdecl.spelling import parse_type
from nativecall._types import bufferformat
from nativecall._types.bufferformat import suits

OTHER = ">" if sys.byteorder == "little" else "<"
LONG = 8 * ctypes.sizeof(ctypes.c_long)

SUITS = [
    ("T{dd}", "T{d:x:d:y:}", 16),
    ("T{dd}", "T{dd}", 16),
    ("T{dd}", "=T{dd}", 16),
    ("T{dd}", "T{@d:x:^d:y:}", 16),
    ("T{bd}", "T{b:a:d:b:}", 16),
    ("T{d:x:d:y:}", "T{d:x:d:y:}", 16),
    ("T{d:re:d:im:}", "T{d:x:d:y:}", 16),
    ("T{d:x:d:y:}", "T{d:y:d:z:}", 16),
    ("T{bd}", "T{b:a:7xd:b:}", 16),
    ("T{bd}", "T{b:a:xxxxxxx=d:b:}", 16),
    ("=T{bd}", "T{b:a:=d:b:}", 9),
    ("=T{bd}", "^T{bd}", 9),
    ("T{db}", "T{d:a:b:b:}", 16),
    ("T{db}", "T{d:a:b:b:7x}", 16),
    ("T{d(2,3)i}", "T{d:a:(2,3)i:b:}", 32),
    ("T{(4)b}", "T{4s:text:}", 4),
    ("T{(4)B}", "T{(4)c:text:}", 4),
    ("T{dT{fh}}", "T{d:a:T{f:x:h:y:}:b:}", 16),
    ("T{(2)T{dd}}", "T{(2)T{d:x:d:y:}:a:}", 32),
    ("T{ZfZdg}", "T{Zf:a:Zd:b:8xg:c:}", 48),
    ("T{e?}", "T{e:a:?:b:}", 4),
    ("T{PP}", "T{P:a:&<d:b:}", 16),
    ("T{&d&c}", "T{&d:a:z:b:}", 16),
    ("T{X{d:d}P}", "T{X{}:f:Z:w:}", 16),
    (f"T{{{'q' if LONG == 64 else 'i'}}}", "T{l:a:}", LONG // 8),
    ("T{i}", "T{=l:a:}", 4),
]


@pytest.mark.parametrize(("struct", "form", "size"), SUITS)
def test_suits(struct, form, size):
    assert suits(parse_type(struct), form, size) is True
    # The answer is the same from the cache, and size alone decides nothing.
    assert suits(parse_type(struct), form, size) is True
    assert suits(parse_type(struct), form, size + 1) is False
    assert suits(parse_type(f"T{{({size})b}}"), form, size) is (struct in ("T{(4)b}", "T{(4)B}"))


UNSUITED = [
    ("T{dd}", f"T{{{OTHER}d:x:{OTHER}d:y:}}", 16),
    ("T{dd}", "T{!d:x:d:y:}" if sys.byteorder == "little" else "T{<d:x:d:y:}", 16),
    ("T{dd}", "T{d:x:q:y:}", 16),
    ("T{dd}", "T{2d:x:}", 16),
    ("T{dd}", "T{T{d:x:}:a:d:y:}", 16),
    ("T{dd}", "Zd", 16),
    ("T{dd}", "16s", 16),
    ("T{dd}", "16x", 16),
    ("T{dd}", "T{d:x:d:y:}T{d:x:d:y:}", 16),
    ("T{dd}", "2T{d:x:}", 16),
    ("T{iid}", "T{i:x:4xd:y:}", 16),
    # Each member has the name of another.
    ("T{d:x:d:y:}", "T{d:y:d:x:}", 16),
    ("T{dT{d:x:d:y:}}", "T{d:a:T{d:y:d:x:}:b:}", 24),
    ("T{id}", "T{4xi:x:d:y:}", 16),
    ("T{PP}", "T{O:x:O:y:}", 16),
    ("T{&d}", "T{&f:x:}", 8),
    ("T{(2)i}", "T{w:x:w:y:}", 8),
    ("T{(2,2)i}", "T{(4)i:x:}", 16),
    ("T{q}", "T{=l:x:}", 8),
    # With or without padding after each: not to be told.
    ("T{(2)T{fh}}", "T{(2)T{f:x:h:y:}:a:}", 16),
    # Not formats at all.
    ("T{d}", "", 8),
    ("T{d}", "T", 8),
    ("T{d}", "T{", 8),
    ("T{d}", "T{d", 8),
    ("T{d}", "T{d:x", 8),
    ("T{d}", "T{(d:x:}", 8),
    ("T{d}", "T{(1,)d:x:}", 8),
    ("T{d}", "T{" * 1000 + "d" + "}" * 1000, 8),
    ("T{d}", "T{" + "&" * 10000 + "d}", 8),
    ("T{d}", "T{" + "9" * 10000 + "d}", 8),
    ("T{d}", "T{y:x:}", 8),
]


@pytest.mark.parametrize(("struct", "form", "size"), UNSUITED)
def test_does_not_suit(struct, form, size):
    assert suits(parse_type(struct), form, size) is False


@pytest.mark.parametrize("align", [False, True])
def test_numpy_lays_records_out_as_c_does(align):
    """The formats that NumPy writes suit exactly the struct of the same layout."""
    fields = [("a", "b"), ("b", "f8"), ("c", "i4", (2, 3)), ("d", [("e", "f4"), ("f", "i2")])]
    dtype = np.dtype(fields, align=align)
    form = memoryview(np.zeros(2, dtype)).format
    natural, packed = parse_type("T{bd(2,3)iT{fh}}"), parse_type("=T{bd(2,3)i=T{fh}}")
    assert suits(natural, form, dtype.itemsize) is align
    assert suits(packed, form, dtype.itemsize) is not align


def test_answers_are_kept_up_to_a_bound() -> None:
    """Then all are dropped, and found again."""
    number, record = parse_type("d"), parse_type("T{di}")
    bufferformat._answers.clear()
    for size in range(bufferformat._answers.limit):
        assert suits(number, "d", size) is (size == 8)
    assert len(bufferformat._answers) == bufferformat._answers.limit
    assert suits(record, "T{d:x:i:n:}", record.size)
    assert list(bufferformat._answers.values()) == [True], "the others are gone"
    assert suits(number, "d", 8)
    assert not suits(number, "d", 9)
    assert len(bufferformat._answers) == 3
