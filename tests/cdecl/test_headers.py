"""Headers as they are on disk, against gcc: which functions are offered, layouts, constants.

Each header of a Debian package is read, and gcc is asked three things: what functions it sees
declared (``-aux-info``), whether every struct has the size, the alignment and the offsets that were
read, and whether every constant has the value. A header whose package is not installed is skipped.
"""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path

import pytest

from nativecall._cdecl import header
from support import compilecache
from support.levels import sweep

GCC = shutil.which("gcc")
pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(GCC is None, reason="gcc is what they are compared with"),
]

#: Headers by the names that the tests have, with include paths, defines and Debian's packages.
HEADERS: dict[str, tuple[list[str], list[str], dict[str, str], str]] = {
    "stdio": (["stdio.h"], [], {}, "libc6-dev"),
    "stdlib": (["stdlib.h"], [], {}, "libc6-dev"),
    "math": (["math.h"], [], {}, "libc6-dev"),
    "time": (["time.h"], [], {}, "libc6-dev"),
    "string": (["string.h"], [], {}, "libc6-dev"),
    "unistd": (["unistd.h", "sys/stat.h", "dirent.h"], [], {"_GNU_SOURCE": "1"}, "libc6-dev"),
    "sockets": (["sys/socket.h", "netdb.h", "sys/epoll.h"], [], {"_GNU_SOURCE": "1"}, "libc6-dev"),
    "zlib": (["zlib.h"], [], {}, "zlib1g-dev"),
    "sqlite3": (["sqlite3.h"], [], {}, "libsqlite3-dev"),
    "gsl_integration": (["gsl/gsl_integration.h"], [], {}, "libgsl-dev"),
    "gsl_sf": (["gsl/gsl_sf.h"], [], {}, "libgsl-dev"),
    "fftw3": (["fftw3.h"], [], {}, "libfftw3-dev"),
    "cblas": (["cblas.h"], [], {}, "libopenblas-dev"),
    "lapacke": (["lapacke.h"], [], {}, "liblapacke-dev"),
    "curl": (["curl/curl.h"], [], {}, "libcurl4-openssl-dev"),
    "hdf5": (["hdf5.h"], ["/usr/include/hdf5/serial"], {}, "libhdf5-dev"),
    "png": (["png.h"], [], {}, "libpng-dev"),
    "xml2": (["libxml/tree.h", "libxml/xpath.h"], ["/usr/include/libxml2"], {}, "libxml2-dev"),
    "uv": (["uv.h"], [], {}, "libuv1-dev"),
    "git2": (["git2.h"], [], {}, "libgit2-dev"),
    "evp": (["openssl/evp.h"], [], {}, "libssl-dev"),
    "jpeg": (["stdio.h", "jpeglib.h"], [], {}, "libjpeg-dev"),
    # ten that nothing was made for
    "expat": (["expat.h"], [], {}, "libexpat1-dev"),
    "lzma": (["lzma.h"], [], {}, "liblzma-dev"),
    "zstd": (["zstd.h"], [], {}, "libzstd-dev"),
    "bzip2": (["bzlib.h"], [], {}, "libbz2-dev"),
    "gmp": (["gmp.h"], [], {}, "libgmp-dev"),
    "mpfr": (["mpfr.h"], [], {}, "libmpfr-dev"),
    "pcre2": (["pcre2.h"], [], {"PCRE2_CODE_UNIT_WIDTH": "8"}, "libpcre2-dev"),
    "archive": (["archive.h", "archive_entry.h"], [], {}, "libarchive-dev"),
    "event": (["event2/event.h", "event2/http.h"], [], {}, "libevent-dev"),
    "sodium": (["sodium.h"], [], {}, "libsodium-dev"),
    "tiff": (["tiffio.h"], [], {}, "libtiff-dev"),
    "freetype": (
        ["ft2build.h", "freetype/freetype.h"],
        ["/usr/include/freetype2"],
        {},
        "libfreetype-dev",
    ),
    "brotli": (["brotli/encode.h", "brotli/decode.h"], [], {}, "libbrotli-dev"),
    "uuid": (["uuid/uuid.h"], [], {}, "uuid-dev"),
    "nettle": (["nettle/sha2.h"], [], {}, "nettle-dev"),
    "z3": (["z3.h"], [], {}, "libz3-dev"),
    "magic": (["magic.h"], [], {}, "libmagic-dev"),
    "gnutls": (["gnutls/gnutls.h"], [], {}, "libgnutls28-dev"),
    "cholmod": (["cholmod.h"], ["/usr/include/suitesparse"], {}, "libsuitesparse-dev"),
}
VA_LIST = "a 'va_list' cannot be made outside C"


def gcc(folder: Path, source: str, wanted, *options: str) -> str:
    """What gcc says against a file; "" if nothing."""
    path = folder / "asked.c"
    path.write_text(source)
    given = [f"-I{one}" for one in wanted.include]
    given += [f"-D{name}={text}" for name, text in wanted.define]
    assert GCC is not None
    output = Path(options[-1]) if options else None
    command = [GCC, "-w", "-fsyntax-only", "-fmax-errors=0", *given, *options, str(path)]
    try:
        compilecache.compiled(command, output)
    except AssertionError as error:
        return str(error)
    return ""


def includes(names: list[str]) -> str:
    return "".join(f"#include <{name}>\n" for name in names)


#: Those of the default level: of every size but the largest, and odd in every way.
KEPT = ("stdio", "unistd", "sockets", "sqlite3", "gsl_integration", "fftw3", "cblas", "hdf5", "png")
KEPT += ("xml2", "jpeg", "gmp", "pcre2", "event", "tiff")


@pytest.fixture(scope="module", params=sweep(HEADERS, *KEPT))
def read(request):
    """A header that is installed: its names, what was asked for, and what was read."""
    names, include, define, package = HEADERS[request.param]
    folders = ["/usr/include", "/usr/include/x86_64-linux-gnu", *include]
    if not all(any(Path(folder, name).exists() for folder in folders) for name in names):
        pytest.skip(f"{package} is not installed")
    wanted = header.wanted(names, include, define)
    return names, wanted, header.read(wanted)


def test_functions_are_offered_or_have_a_reason(read, tmp_path):
    names, wanted, found = read
    out = tmp_path / "prototypes"
    assert gcc(tmp_path, includes(names), wanted, "-aux-info", str(out)) == ""
    declared = set()
    for line in out.read_text().splitlines():
        if match := re.search(r"\b(\w+) \((?!\*)", line.partition("*/")[2]):
            declared.add(match[1])
    assert len(declared) >= 8
    unexplained = [name for name in declared - found.functions.keys() if name not in found.skipped]
    assert unexplained == []
    without = {name for name in declared if found.skipped.get(name) == VA_LIST}
    offered = declared & found.functions.keys()
    assert len(offered) >= 0.98 * len(declared - without)


def test_layouts_are_those_of_gcc(read, tmp_path):
    names, wanted, found = read
    lines = [includes(names)]
    for name, (_, size, alignment, members) in found.layouts.items():
        if "__nc_" in name:
            continue
        lines.append(f'_Static_assert(sizeof({name}) == {size}, "size of {name}");')
        lines.append(f'_Static_assert(_Alignof({name}) == {alignment}, "alignment of {name}");')
        for member, _, offset, bits, _ in members:
            if member and bits is None:
                lines.append(f"#undef {member}")
                asked = f"__builtin_offsetof({name}, {member}) == {offset}"
                lines.append(f'_Static_assert({asked}, "offset of {member} in {name}");')
    assert gcc(tmp_path, "\n".join(lines), wanted) == ""


def asserted(name: str, value: object) -> str:
    """What gcc must find true of a constant."""
    if isinstance(value, bytes):
        text = "".join(f"\\{byte:03o}" for byte in value)
        return f'__builtin_memcmp({name}, "{text}", {len(value) + 1}) == 0'
    if isinstance(value, float):
        if math.isnan(value):
            return f"__builtin_isnan({name})"
        text = "__builtin_inf()" if math.isinf(value) else float(abs(value)).hex()
        return f"(double)({name}) == {'-' * (value < 0)}{text}"
    assert isinstance(value, int)
    high, low = divmod(value, 2**64)
    return f"(__int128)({name}) == (((__int128)({high}) << 64) | {low}ull)"


def test_constants_are_those_of_gcc(read, tmp_path):
    names, wanted, found = read
    lines = [includes(names)]
    for name, value in found.constants.items():
        lines.append(f'_Static_assert({asserted(name, value)}, "{name}");')
    for name, (_, address) in found.pointers.items():
        lines.append(f'_Static_assert((unsigned long)({name}) == {address}ull, "{name}");')
    assert len(found.constants) > 0
    assert gcc(tmp_path, "\n".join(lines), wanted) == ""
