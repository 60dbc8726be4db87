"""Build a numerical library in C++ that takes any callable, and pass it one of each kind."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import cffi

import nativecall as nc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import broken, built, cosine, show_error, show_numerics

# Run without site-packages, where nativecall is: the headers were compiled in.
VENDORED = """
import ctypes, importlib.util, sys
sys.path.insert(0, sys.argv[1])
import cpp_numerics
cos = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(("cos", ctypes.CDLL(None)))
installed = importlib.util.find_spec("nativecall") is not None
print("nativecall there  ", installed)
for name, f in {"ctypes function": cos, "Python function": lambda x: cos(x)}.items():
    value, native = cpp_numerics.integrate(f, 0.0, 1.0, 500)
    print(f"{name:<18} {value:.9f} called {'natively' if native else 'through Python'}")
"""

with built(Path(__file__).resolve().parent) as directory:
    import cpp_numerics

    libm = nc.load("m", "double cos(double); double fdim(double, double);")
    pointer = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(libm.cos.address())
    boxes = {
        "native callable": libm.cos,
        "capsule": libm.cos.to_capsule(),
        "ctypes, wrapped": nc.wrap(pointer),
        "cffi, wrapped": nc.wrap(cffi.FFI().cast("double(*)(double)", libm.cos.address())),
        "Python function": cosine,
    }
    show_numerics(cpp_numerics, boxes, libm.cos, libm.fdim)

    # Through C, then through C++, and it comes out as it was raised.
    show_error(cpp_numerics.integrate, broken, 0.0, 1.0, 500)
    show_error(cpp_numerics.find_root, libm.cos, 0.0, 1.0)
    show_error(cpp_numerics.integrate, "cos", 0.0, 1.0, 500)

    sys.stdout.flush()
    subprocess.run([sys.executable, "-I", "-S", "-c", VENDORED, directory], check=True)
