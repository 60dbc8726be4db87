"""Without llvmlite and NumPy nearly everything works; what does not says which extra brings it."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["numpy"] = sys.modules["llvmlite"] = sys.modules["rich"] = None
import nativecall as nc

m = nc.load("m", "double pow(double, double); double frexp(double x, int *e);", out=["e"])
assert m.pow(2, 3) == 8 and m.frexp(40.0) == (0.625, 6)
assert m.pow.convert("f:ff")(2, 3) == 8 and m.pow.bind(2.0)(3) == 8
libc = nc.load(None, "typedef struct { int quot, rem; } div_t; div_t div(int, int);"
    "void qsort(void *, size_t, size_t, int (*)(const void *, const void *));")
assert (*libc.div(7, 2),) == (3, 1)
data = bytearray(b"cab")
libc.qsort(data, 3, 1, lambda a, b: nc.string(a)[0] - nc.string(b)[0])
assert data == b"abc"
assert nc.load("m", "double cabs(double _Complex);").cabs(3 + 4j) == 5
text = bytearray(4)
print_to = nc.load(None, "int snprintf(char *, size_t, const char *, ...);").snprintf
assert print_to(text, 4, b"%d", 3) == 1
assert nc.callback("d:[1]d", lambda view: sum(view)).signatures == ("d:[1]d",)


def field_of_an_array():
    class Vector(nc.NativeObject):
        several = nc.field("(3)d")

    return Vector().several


for call in (
    lambda: libc.asarray(libc.new("int[3]"), 3),
    lambda: m.pow.to_ufunc(),
    field_of_an_array,
):
    try:
        call()
    except ImportError as error:
        assert str(error).endswith(
            " needs the package 'numpy'; pip install 'nativecall[numpy]' installs it"
        ), error
    else:
        raise AssertionError(call)
"""


def test_without_any(tmp_path):
    subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, check=True, timeout=60)
