"""Read objects as a compiler would: their signatures, where values go, the best entry."""

from __future__ import annotations

import ctypes
import math
import sys
from pathlib import Path

import nativecall as nc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import built, show_error

libm = nc.load(
    "m",
    """
    double sqrt(double);          float sqrtf(float);
    double hypot(double, double); float hypotf(float, float);
    double ldexp(double, int);    double fma(double, double, double);
    double cabs(double _Complex);
    """,
)
libc = nc.load(
    "c",
    """
    typedef struct { long long quot, rem; } lldiv_t;
    struct in_addr { unsigned int s_addr; };
    lldiv_t lldiv(long long, long long);
    unsigned int inet_lnaof(struct in_addr);
    void qsort(void *, size_t, size_t, int (*)(const void *, const void *));
    """,
)


# A type without nativecall's metaclass tells its entries by a struct of C functions. A C extension
# has it as a static; here it is written with ctypes.
class Entry(ctypes.Structure):
    """PyNativeCallableEntry."""

    _fields_ = (
        ("signature", ctypes.c_char_p),
        ("flags", ctypes.c_size_t),
        ("funcptr", ctypes.c_void_p),
    )


FIND = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p, ctypes.c_size_t)
TELL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_size_t)


class Api(ctypes.Structure):
    """NcNativeApi."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_uint64),
        ("release", ctypes.c_void_p),
        ("find", FIND),
        ("entry", TELL),
    )


rows = (
    Entry(b"d:dd", 0, libm.hypot.address()),
    Entry(b"f:ff", 0, libm.hypotf.address()),
)


@FIND
def find(_obj: object, signature: bytes, refuse: int) -> int | None:
    """The entry with a signature."""
    fits = (row for row in rows if row.signature == signature and not row.flags & refuse)
    return next((ctypes.addressof(row) for row in fits), None)


@TELL
def tell(_obj: object, position: int) -> int | None:
    """The entry at a position."""
    return ctypes.addressof(rows[position]) if position < len(rows) else None


api = Api(ctypes.sizeof(Api), 0x6E635F6170690001, None, find, tell)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Hypotenuse:
    """Two C functions, as an ordinary class."""

    __nativecall_api__ = new_capsule(ctypes.addressof(api), b"nativecall_api_v1", None)

    def __call__(self, x: float, y: float) -> float:
        return math.hypot(x, y)


with built(Path(__file__).resolve().parent):
    import signature_reader

    sqrt = nc.wrap({"d:d": libm.sqrt, "f:f": libm.sqrtf}, name="sqrt")
    hypotenuse = Hypotenuse()

    print("what objects offer")
    objects = {
        "sqrt": sqrt,
        "sqrt.builtin": sqrt.builtin,
        "hypotenuse": hypotenuse,
        "libm.cabs": libm.cabs,
        "math.sqrt": math.sqrt,
    }
    for name, obj in objects.items():
        offers = [f"{signature} by {where}" for signature, where in signature_reader.entries(obj)]
        print(f"{name:<18}", ", ".join(offers) or "nothing")

    for function in (libc.lldiv, libc.inet_lnaof, libc.qsort):
        ((signature, _),) = signature_reader.entries(function)
        print(f"\n{function.__name__}, {signature}")
        print(signature_reader.describe(signature), end="")
    mixed = "T{ddd}:T{di}&T{f(2)i}[2]d=T{bi}"
    print(f"\nno function, {mixed}")
    print(signature_reader.describe(mixed), end="")

    print("\nwhat calls take")
    sites = [
        ("sqrt", sqrt, "d", (2.0,)),
        ("sqrt", sqrt, "f", (2.0,)),
        ("sqrt", sqrt, "i", (2,)),
        ("sqrt", sqrt, "q", (2,)),
        ("hypotenuse", hypotenuse, "ff", (3.0, 4.0)),
        ("hypotenuse", hypotenuse, "fi", (3.0, 4)),
        ("ldexp", libm.ldexp, "fi", (0.75, 3)),
        ("fma", libm.fma, "ddd", (2.0, 3.0, 4.0)),
        ("math.sqrt", math.sqrt, "d", (2.0,)),
    ]
    for name, obj, types, args in sites:
        signature, widened, value = signature_reader.call(obj, types, args)
        how = f"{signature}, {widened} widened" if signature else "through Python"
        print(f"{name + ' of ' + types:<18} {value:.9f} {how}")

    show_error(signature_reader.describe, "double (double)")
    show_error(signature_reader.call, sqrt, "i", (1 << 40,))
    show_error(signature_reader.call, sqrt, "Z", (1.0,))
    show_error(signature_reader.call, nc.callback("d:d", lambda x: x / 0.0), "d", (1.0,))
