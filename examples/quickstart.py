"""Load a library, call its functions, wrap others, read structs, and see the errors."""

from __future__ import annotations

import array
import ctypes

import nativecall as nc

# A library by name, and C declarations of what is wanted from it.
m = nc.load(
    "m",
    """
    double cos(double x);
    double pow(double base, double exponent);
    double frexp(double x, int *exponent);
    """,
)
print("cos(0.0)          ", m.cos(0.0))
print("pow(2, 10)        ", m.pow(2, 10))
print("by name           ", m.pow(exponent=3, base=2))

# Pointers take buffers and write into them: no copy is made.
exponent = array.array("i", [0])
print("frexp(40.0)       ", m.frexp(40.0, exponent), exponent[0])

# What it is: a table of signature, flags and address that native code reads.
row = m.cos.entries[0]
print("entry             ", row.signature, hex(row.flags), row.address == m.cos.address("d:d"))

# Any box that holds a C function will do: an address, ctypes, cffi, a capsule.
by_address = nc.wrap(m.cos.address(), "d:d", owner=m.cos)
by_ctypes = nc.wrap(ctypes.CDLL(None).labs, "long (long)")
print("wrapped           ", by_address(0.0), by_ctypes(-5))

# The built-in view: the same callable in the form that CPython calls fastest.
cos = m.cos.builtin
print("built-in view     ", cos(0.0), nc.wrap(cos) is m.cos)

# Structs by value come back as Records, with C's names; variadic functions take what C takes.
c = nc.load(None, "typedef struct { int quot; int rem; } div_t; div_t div(int, int);")
print("div(17, 5)        ", c.div(17, 5))
text = bytearray(32)
snprintf = c.function("snprintf", "int (char *, size_t, const char *, ...)")
length = snprintf(text, len(text), b"%d apples, %g kg", 3, 0.5)
print("snprintf          ", text[:length].decode())

# A function that fails says so in errno: ask for it, and it is an exception.
close = c.function("close", "int (int)", errors="errno")
try:
    close(-1)
except OSError as error:
    print("close(-1)         ", type(error).__name__, error.errno)

# Mistakes are told in words.
for mistake in (lambda: m.cos("1"), lambda: m.cos(1, 2), lambda: m.coz, lambda: m.cos["f:f"]):
    try:
        mistake()
    except Exception as error:
        print(f"{type(error).__name__ + ':':<18}", error)
