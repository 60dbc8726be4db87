"""Types of ctypes for people, and what libffi cannot pass."""

import ctypes
import itertools

import pytest

import nativecall as nc
from nativecall._bridges import ctypestype, libffi
from nativecall._cdecl.spelling import parse
from nativecall._fifo import Cache
from nativecall._plan import steps
from nativecall._plan.aapcs64 import AAPCS64


@pytest.mark.skipif(
    ctypes.sizeof(ctypes.c_longdouble) != 16, reason="long double has no 16 bytes here"
)
def test_structs_on_64_bit_arm(monkeypatch):
    """libffi aligns on the stack the pointer to a struct as the struct, ctypes hides arrays."""
    monkeypatch.setattr(steps, "ABI", AAPCS64)
    where = "it aligns a pointer to a struct on the stack like the struct itself"
    for text, reason in {
        "v:qqqqqqqqT{dg}": where,
        "v:qqqqqqqT{qq}T{dg}": where,
        "v:qqqqqqqT{dg}": None,
        "v:qqqqqqqqT{ddddd}": None,
        "v:ddddddddddT{dg}": None,
    }.items():
        assert libffi.gap(parse(text), flattened=True) == reason, text
    hidden = "it mistakes the array in a struct of long doubles for a pointer"
    assert libffi.gap(parse("v:T{(3)g}"), flattened=False) == hidden
    assert libffi.gap(parse("v:T{(3)g}"), flattened=True) is None
    assert libffi.gap(parse("v:T{ggg}"), flattened=False) is None


def test_prototypes_are_kept_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(ctypestype, "_prototypes", Cache(32))
    theirs = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int16, ctypes.c_int16)
    for n, one in enumerate(itertools.islice(itertools.product("?bhiqf", repeat=4), 80)):
        signature = parse(f"v:X{{d:{''.join(one)}}}&T{{d:x{n}:}}X{{d:hh}}")
        f = ctypestype.prototype(signature, hold=True)
        # Whatever was forgotten: a type of theirs is the one that is taken.
        assert f._argtypes_[2] is theirs
        assert len(ctypestype._prototypes) <= 32


def test_types_that_a_program_has_stay_those_of_ctypes(monkeypatch):
    monkeypatch.setattr(ctypestype, "_prototypes", Cache(8))
    cos = nc.load("m").address("cos")
    f = nc.wrap(cos, "i:hbhb&&h")
    made = f.to_ctypes()
    theirs = ctypes.CFUNCTYPE(
        ctypes.c_int,
        *(ctypes.c_short, ctypes.c_byte, ctypes.c_short, ctypes.c_byte),
        ctypes.POINTER(ctypes.POINTER(ctypes.c_short)),
    )
    pointer = ctypes.POINTER(ctypes.POINTER(ctypes.c_short))
    assert isinstance(made, theirs)
    for one in itertools.islice(itertools.product("hbqf", repeat=4), 40):
        nc.wrap(cos, f"i:{''.join(one)}").to_ctypes()
    assert isinstance(f.to_ctypes(), theirs)
    assert isinstance(nc.wrap(cos, "i:hbhb&&h").to_ctypes(), theirs)
    assert ctypes.POINTER(ctypes.POINTER(ctypes.c_short)) is pointer
    assert ctypes.CFUNCTYPE(theirs._restype_, *theirs._argtypes_) is theirs
