"""The public headers with MinGW, which builds SciPy's wheels for Windows: gcc's, and zig's clang.

Nothing is run. The Python headers are those of this Python, with a pyconfig.h for 64-bit Windows.
The modules link to a library that exports the names that they import from Python.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import shutil
import struct
import sys
import sysconfig
from pathlib import Path

import pytest

from support import build, compilecache
from support.levels import sweep

pytestmark = pytest.mark.compiler
GCC = "x86_64-w64-mingw32-"
ZIG = [sys.executable, "-m", "ziglang"]
TARGET = ["-target", "x86_64-windows-gnu"]
COMPILERS = {
    "gcc": {"c": [f"{GCC}gcc"], "c++": [f"{GCC}g++"]},
    "zig": {"c": [*ZIG, "cc", *TARGET], "c++": [*ZIG, "c++", *TARGET]},
}
STANDARDS = ["c99", "c11", "c++11", "c++17"]
KEPT = [("gcc", "c99"), ("gcc", "c++17"), ("zig", "c99")]
PYCONFIG = """
#define MS_WINDOWS
#define MS_WIN64
#define NT_THREADS
#define Py_ENABLE_SHARED 1
#define HAVE_DECLSPEC_DLL
#define HAVE_PY_SSIZE_T 1
typedef long long Py_ssize_t;
#define PY_SSIZE_T_MAX 0x7fffffffffffffffLL
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_VOID_P 8
#define SIZEOF_WCHAR_T 2
"""
USES = ["consumer", "provider", "callback_consumer", "dispatch", "objects", "limited"]
LIMITED = "nativecall_abi3.h"  # nativecall_abi.h includes it for the limited API
MARK = 0x6E635F7368617265  # precedes the addresses in the module
SHARED = ["nc_abi_runtime", "nc_abi_metatype", "nc_objects"]


@pytest.fixture(scope="module")
def python_headers(tmp_path_factory) -> Path:
    copy = tmp_path_factory.mktemp("windows") / "include"
    shutil.copytree(sysconfig.get_path("include"), copy)
    (copy / "pyconfig.h").write_text(PYCONFIG)
    return copy


@pytest.mark.parametrize(
    ("compiler", "standard"), sweep(itertools.product(COMPILERS, STANDARDS), *KEPT)
)
def test_a_module_has_one_of_each_shared_variable(
    include, python_headers, tmp_path, compiler, standard
):
    """Compile the headers in two orders, one of them after windows.h, and modules that use them."""
    language = "c++" if "+" in standard else "c"
    command = COMPILERS[compiler][language]
    if compiler == "gcc" and not shutil.which(command[0]):
        pytest.skip(f"no {command[0]}")  # .ci/run installs it
    if compiler == "zig" and importlib.util.find_spec("ziglang") is None:
        pytest.skip("no ziglang")  # the extra test-all has it
    folder = include / "nativecall"
    headers = sorted(f"nativecall/{path.name}" for path in folder.glob("*.h"))
    headers.remove(f"nativecall/{LIMITED}")
    sources = [build.EXT / f"{name}.c" for name in USES]
    for name, order in (("first", ["windows.h", *headers]), ("second", headers[::-1])):
        lines = [f"#include <{header}>" for header in order]
        lines.append(f"__declspec(dllexport) const void *{name}[] = {{(const void *){MARK}ULL,")
        lines.append(f"{', '.join(f'&{variable}' for variable in SHARED)}}};\n")
        sources.append(tmp_path / f"{name}.c")
        sources[-1].write_text("\n".join(lines))
    options = [
        f"-std={standard}",
        "-x",
        language,
        "-O2",
        *build.WARNINGS,
        f"-I{include}",
        f"-I{folder}",
    ]
    options += ["-isystem", str(python_headers), "-c"]
    made = [tmp_path / f"{source.stem}.o" for source in sources]
    for source, output in zip(sources, made, strict=True):
        defines = [f"-DMODULE={source.stem}"]
        defines += ["-DPy_LIMITED_API=0x030B0000"] if source.stem == "limited" else []
        compilecache.compiled(
            [*command, *options, *defines, str(source), "-o", str(output)], output
        )

    objects = b"".join(output.read_bytes() for output in made)
    imports = sorted({*re.findall(rb"__imp_(_?Py\w+)", objects)})
    python, module = tmp_path / "python.dll", tmp_path / "module.pyd"
    stub = tmp_path / "python.c"
    stub.write_text("".join(f"__declspec(dllexport) int {one.decode()};\n" for one in imports))
    link = [*COMPILERS[compiler]["c"], "-shared"]
    compilecache.run([*link, "-w", str(stub), "-o", str(python)])
    compilecache.run([*link, *map(str, made), str(python), "-o", str(module)])
    image = module.read_bytes()
    found = [
        struct.unpack_from(f"{len(SHARED)}Q", image, mark.end())
        for mark in re.finditer(re.escape(struct.pack("Q", MARK)), image)
    ]
    assert len(found) == 2
    assert found[0] == found[1]
    assert len({*found[0]}) == len(SHARED)
