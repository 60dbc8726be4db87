"""Scalars that C code gives are the same Python objects wherever they come from.

Ahead-of-time trampolines, call plans, the core's records and reads of memory, and callbacks each
have a conversion of their own. (headers/dispatch/test_dispatch.py holds
the headers' to the core's.)
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nativecall as nc
from nativecall._cdecl.spelling import parse_type
from nativecall._types.ctype import SCALARS, Scalar
from nativecall._values import storage

_FLOATS = (0.0, -0.0, 1.5, -0.1, 65504.0, 6e-8, 1e300, math.inf, -math.inf, math.nan)


def values(ctype: Scalar) -> Iterator[object]:
    """Numbers at the ends of a type, and such as tell signs and widths apart."""
    if ctype.kind == "bool":
        yield from (False, True)
    elif ctype.kind == "int":
        least = -(2**ctype.digits) if ctype.signed else 0
        yield from (least, 0, 1, 2**ctype.digits - 1)
    elif ctype.kind == "float":
        most = {"e": 65504.0, "f": 3e38}.get(ctype.text, math.inf)
        yield from [x for x in _FLOATS if abs(x) <= most or not math.isfinite(x)]
    else:
        for part in (-0.0, 1.5, math.inf):
            yield from (complex(part, -2.0), complex(-0.0, part))


def rounded(ctype: Scalar, value: object) -> object:
    """What C has of a number."""
    if ctype.text in ("e", "f"):
        return float(np.dtype(ctype.text).type(value))
    return complex(np.complex64(value)) if ctype.text == "Zf" else value


def from_memory(ctype: Scalar, value: object) -> dict[str, object]:
    """A number read back as a number and as the field of a struct."""
    memory = ctypes.create_string_buffer(ctype.size + 16)
    address = -(-ctypes.addressof(memory) // 16) * 16
    storage.store(ctype, value, address, "it", [], False)
    (field,) = storage.load(parse_type(f"T{{{ctype.text}}}"), address)
    return {"memory": storage.load(ctype, address), "field": field}


def functions(builder: Any, ctype: Scalar) -> dict[str, Any]:
    """The identity function of a type, by the trampoline that it is called through."""
    if ctype.text == "e":
        return {}  # few compilers have it
    source = (
        "#include <stdbool.h>\n#include <stdint.h>\n"
        f"{ctype.c_name} same({ctype.c_name} x) {{ return x; }}\n"
    )
    path = builder.library(source, f"same_{ctype.letter}{ord(ctype.letter)}")
    found = {}
    for way in ("default", "plan"):
        f = nc.load(str(path)).function("same", f"{ctype.text}:{ctype.text}")
        if way == "plan":
            f._unwrap()
        found[way] = f
    return found


@pytest.mark.parametrize("code", sorted({one.text for one in SCALARS.values()}))
def test_every_way_gives_the_same_number(builder: Any, code: str) -> None:
    ctype = SCALARS[code]
    ways = functions(builder, ctype)
    seen: list[object] = []
    called = nc.callback(f"v:{code}", seen.append)
    for value in values(ctype):
        found = {way: f(value) for way, f in ways.items()} | from_memory(ctype, value)
        called(value)
        found["callback"] = seen.pop()
        expected = rounded(ctype, value)
        for way, one in found.items():
            assert type(one) is type(expected), way
            assert repr(one) == repr(expected), way
