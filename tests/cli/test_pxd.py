"""`nativecall pxd`: what it writes compiles, and Cython code that cimports it gets what C gives."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path

import pytest

import nativecall as nc
from nativecall._cli import main
from support import build

pytest.importorskip("Cython")
pytestmark = pytest.mark.compiler

SOURCE = """
#include <complex.h>
#include <stdint.h>
#include <stdlib.h>
#include "shapes.h"

struct point { double x, y; };
double lambda(double x) { return 2 * x; }
double reach(struct point p, const struct point *q) { return p.x + (q ? q->x : 0); }
int64_t total(const int64_t *in, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += in[i];
    return sum;
}
double apply(double (*f)(double, void *), double x, void *data) { return f(x, data); }
visitor twice(visitor f) { return f; }
enum colour next(enum colour c) { return c == RED ? GREEN : RED; }
double complex turn(double complex z) { return z * I; }
void fill(double values[3]) { for (int i = 0; i < 3; i++) values[i] = i; }
int shape(shape_t *s) { return s->kind.number + s->sides[1]; }
int level = 7;
const char *const label = "level";
"""
HEADER = """
#ifndef SHAPES_H
#define SHAPES_H
#include <stddef.h>
#include <stdint.h>
#define SHAPE_LIMIT 12
#define SHAPE_RATIO 0.5
#define SHAPE_NAME "shape"
#define sum_up total
struct point;
enum colour { RED, GREEN = 5 };
typedef double (*visitor)(double);
typedef struct { union { int number; float other; } kind; int sides[2]; unsigned low : 3; } shape_t;
double lambda(double x);
double reach(struct point p, const struct point *q);
int64_t total(const int64_t *in, size_t n);
double apply(double (*f)(double, void *), double x, void *data);
visitor twice(visitor f);
enum colour next(enum colour c);
double _Complex turn(double _Complex z);
void fill(double values[3]);
int shape(shape_t *s);
extern int level;
#endif
"""
CONSUMER = """
from libc.stdint cimport int64_t
from cshapes cimport (
    apply, total, twice, next, turn, fill, visitor, RED, GREEN, SHAPE_LIMIT, SHAPE_RATIO,
    SHAPE_NAME, level, lambda_, shape, shape_t, colour, sum_up,
)
from cz cimport crc32, deflateBound, z_stream, Z_OK, zlibVersion, Bytef
from cm cimport hypot, pair_t, frexp, cabs, conjf, csqrtl, wave_t

cdef double scaled(double x, void *data) noexcept nogil:
    return x * (<double *>data)[0]

cdef double plain(double x) noexcept nogil:
    return x + 1

def run(bytes data):
    cdef double factor = 3
    cdef double[3] values
    cdef int64_t[3] numbers
    cdef visitor visit = twice(plain)
    cdef z_stream stream
    cdef shape_t s
    cdef int exponent
    cdef wave_t wave
    cdef colour c = next(RED)
    numbers[:] = [1, 2, 4]
    with nogil:
        found = apply(scaled, 2, &factor)
        fill(values)
    stream.zalloc = NULL
    s.sides[1] = 5
    wave.w[1] = 1 + 2j
    checksum = crc32(0, <const Bytef *><char *>data, <unsigned>len(data))
    return dict(
        apply=found, total=total(numbers, 3), visit=visit(1), next=c, turn=turn(2),
        same=sum_up(numbers, 3),
        fill=[values[0], values[2]], limit=SHAPE_LIMIT, ratio=SHAPE_RATIO, name=SHAPE_NAME,
        level=level, twice=lambda_(4), green=GREEN, crc=checksum, ok=Z_OK, version=zlibVersion(),
        hypot=hypot(3, 4), frexp=(frexp(40, &exponent), exponent), size=sizeof(pair_t),
        sides=s.sides[1], cabs=cabs(3 + 4j), conjf=conjf(wave.w[1]), csqrtl=csqrtl(-4),
        wave=sizeof(wave_t),
    )
"""
MODULE = """
import nativecall as nc

m = nc.load(
    "m",
    "typedef struct { int quot; int rem; } pair_t; double hypot(double x, double y);"
    "double frexp(double x, int *exponent); double fma(double, double, double);"
    "typedef struct { double complex z; float _Complex w[2]; } wave_t; double cabs(double complex);"
    "long double complex csqrtl(long double complex); float complex conjf(float _Complex z);",
)
loose = nc.load("m")
"""


def cythonized(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Build an extension in place, as people do."""
    return subprocess.run(
        [sys.executable, "-m", "Cython.Build.Cythonize", "-i", "-3", source],
        cwd=folder,
        env={
            **os.environ,
            "CFLAGS": f"-O0 -I{folder} {' '.join(build.MISMATCHES)}",
            "PYTHONPATH": "",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.skipif(build.compiler() is None, reason="no C compiler")
def test_a_consumer_compiles_and_calls_what_c_has(tmp_path, monkeypatch, capsys) -> None:
    try:
        nc.load("z", header="zlib.h")
    except nc.NativeCallError:
        pytest.skip("no zlib.h")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shapes.h").write_text(HEADER)
    (tmp_path / "shapes.c").write_text(SOURCE)
    (tmp_path / "pxd_things.py").write_text(MODULE)
    command = build.compiler() or []
    options = ["-shared", "-fPIC", "shapes.c", "-o", "libshapes.so"]
    subprocess.run([*command, *options], check=True, cwd=tmp_path)

    assert main(["pxd", "./libshapes.so", "--header", "./shapes.h", "--output", "cshapes.pxd"]) == 0
    assert main(["pxd", "z", "--header", "zlib.h", "--output", "cz.pxd"]) == 0
    assert main(["pxd", "pxd_things:m", "--output", "cm.pxd"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"wrote {name}.pxd" for name in ("cshapes", "cz", "cm")
    ]
    (tmp_path / "pxd_consumer.pyx").write_text(CONSUMER)
    done = cythonized(tmp_path, "pxd_consumer.pyx")
    assert done.returncode == 0, done.stdout + done.stderr
    path = tmp_path / f"pxd_consumer{sysconfig.get_config_var('EXT_SUFFIX')}"
    spec = importlib.util.spec_from_file_location("pxd_consumer", path)
    assert spec is not None
    assert spec.loader is not None
    consumer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(consumer)
    library = nc.load("./libshapes.so", header="./shapes.h")
    assert consumer.run(b"data") == {
        "apply": 6.0,
        "total": 7,
        "same": 7,
        "visit": 2.0,
        "next": library.next(0),
        "turn": 2j,
        "fill": [0.0, 2.0],
        "limit": library.SHAPE_LIMIT,
        "ratio": library.SHAPE_RATIO,
        "name": library.SHAPE_NAME,
        "level": library.level,
        "twice": library["lambda"](4),
        "green": 5,
        "crc": zlib.crc32(b"data"),
        "ok": 0,
        "version": zlib.ZLIB_RUNTIME_VERSION.encode(),
        "hypot": 5.0,
        "frexp": (0.625, 6),
        "size": 8,
        "sides": 5,
        "cabs": 5.0,
        "conjf": 1 - 2j,
        "csqrtl": 2j,
        "wave": 32,
    }


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["sqlite3", "png"])
def test_cython_reads_what_is_written_of_large_libraries(name, tmp_path, monkeypatch) -> None:
    header = f"{name}.h"
    monkeypatch.chdir(tmp_path)
    try:
        nc.load(name, header=header)
    except nc.NativeCallError:
        pytest.skip(f"no {header}")
    assert main(["pxd", name, "--header", header, "--output", f"c{name}.pxd"]) == 0
    (tmp_path / "reader.pyx").write_text(f"cimport c{name}\n")
    done = subprocess.run(
        [sys.executable, "-m", "cython", "-3", "reader.pyx"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:3000]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pxd_things:loose"], "library 'm' has no declarations; load it with declarations or"),
        (["pxd_things:nc"], "'pxd_things:nc' must be a library that nativecall.load made (got "),
        (["pxd_things:n"], "no 'n' in 'pxd_things'; did you mean 'nc'"),
        (["z"], "'z' is read with --header; a library that a module loads is given as MODULE:LIB"),
        (["nosuch", "--header", "zlib.h"], "'nosuch' cannot be loaded"),
        (["z", "--header", "nosuch.h"], "'z' cannot be loaded"),
        (["pxd_things:m", "--output", "mine.pxd"], "'mine.pxd' was not made by this command"),
        (["pxd_things:m", "--output", "no/where.pxd"], "'no/where.pxd' cannot be written"),
    ],
)
def test_what_cannot_be_written(arguments, message, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "pxd_things.py").write_text(MODULE)
    (tmp_path / "mine.pxd").write_text("cdef int x\n")
    assert main(["pxd", *arguments]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"nativecall pxd: {message}")
    assert said.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "mine.pxd",
        "pxd_things.py",
    ]
    assert (tmp_path / "mine.pxd").read_text() == "cdef int x\n"


TEXTS = {
    "strict": ("", "double sin(double x);"),
    "lenient": (
        ", skip=True",
        "double nosuch(double x); typedef struct {int a;} own; double sin(double x);",
    ),
    "conditional": (", skip=True", "#include <stddef.h>\\n#if 1\\ndouble sin(double x);\\n#endif"),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_declarations_that_are_in_no_header(kind, tmp_path, monkeypatch, capsys) -> None:
    options, text = TEXTS[kind]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = f"pxd_text_{kind}"
    (tmp_path / f"{module}.py").write_text(
        f"import nativecall as nc\nm = nc.load('m', '{text}'{options})\n"
    )
    assert main(["pxd", f"{module}:m"]) == 0
    assert "    double sin(double x)\n" in capsys.readouterr().out


def test_names_are_chosen_of_headers_alone(capsys) -> None:
    assert main(["pxd", "math:m", "--only", "cos"]) == 2
    assert capsys.readouterr() == (
        "",
        "nativecall pxd: --only chooses names of headers, and none is given: say --header, or "
        "give only= to the nativecall.load of 'math:m'\n",
    )
