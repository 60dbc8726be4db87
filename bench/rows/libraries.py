"""A whole library: its declarations read, every function looked up, some called, beside the peers.

The library is generated: 954 functions with the parameters that numerical libraries have, of 40
kinds, among typedefs, structs and enums. Every sample is a process of its own.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from functools import partial
from pathlib import Path

from bench import timing
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "Libraries: ms in a fresh process, once what does it is imported; 954 declarations are read as "
    "text, each function is looked up, and 50 are called, of 10 shapes. Whole processes: ms from "
    "start to end. Kept is what an earlier process left in the cache on disk."
)
COUNT = 954
TYPES = """
typedef struct { double val; double err; } result_t;
typedef struct { double re, im; } complex_t;
typedef struct vector { size_t size; size_t stride; double *data; int owner; } vector;
typedef struct matrix { size_t size1, size2, tda; double *data; int owner; } matrix;
typedef struct workspace workspace;
typedef struct rng rng;
typedef double (*integrand)(double x, void *params);
typedef int (*compare)(const void *a, const void *b);
typedef struct { integrand function; void *params; } function_t;
typedef enum { PREC_DOUBLE = 0, PREC_SINGLE = 1, PREC_APPROX = 2 } precision;
enum status { SUCCESS = 0, FAILURE = -1, CONTINUE = -2, DOMAIN_ = 1, RANGE_ = 2 };
typedef unsigned long count_t;
"""
#: With the values of a call where it is among the 50.
KINDS: tuple[tuple[str, str], ...] = (
    ("double %s(const double x)", "0.5"),
    ("int %s(const double x, result_t *result)", "0.5, null"),
    ("double %s(const double x, const double y)", "0.5, 1.5"),
    ("int %s(const double x, const double y, result_t * result)", "0.5, 1.5, null"),
    ("double %s(const int n, const double x)", "3, 0.5"),
    ("int %s(const int n, const double x, result_t * result)", ""),
    ("int %s(int nmin, int nmax, const double x, double * values)", ""),
    ("double %s(double x, precision mode)", ""),
    ("int %s(double x, precision mode, result_t * result)", ""),
    ("double %s(const double a, const double b, const double x)", "0.5, 1.5, 2.5"),
    ("int %s(double a, double b, double x, result_t * result)", "0.5, 1.5, 2.5, null"),
    ("double %s(double a, double b, double c, double d)", "0.5, 1.5, 2.5, 3.5"),
    ("vector * %s(const size_t n)", ""),
    ("void %s(vector * v)", ""),
    ("double %s(const vector * v, const size_t i)", ""),
    ("void %s(vector * v, const size_t i, double x)", ""),
    ("int %s(vector * dest, const vector * src)", ""),
    ("matrix * %s(const size_t n1, const size_t n2)", ""),
    ("double %s(const matrix * m, const size_t i, const size_t j)", ""),
    ("int %s(matrix * m, const double x)", ""),
    ("const char * %s(const int status)", ""),
    ("unsigned long int %s(const rng * r)", ""),
    ("double %s(rng * r, const double sigma)", ""),
    ("unsigned int %s(const rng * r, double p, unsigned int n)", ""),
    ("workspace * %s(const size_t n)", ""),
    ("void %s(workspace * w)", ""),
    (
        "int %s(const function_t * f, double a, double b, double epsabs, double epsrel, "
        "size_t limit, workspace * w, double *result, double *abserr)",
        "",
    ),
    ("complex_t %s(complex_t a, complex_t b)", ""),
    ("double %s(complex_t z)", ""),
    ("complex_t %s(complex_t z, double x)", ""),
    ("double %s(const double data[], const size_t stride, const size_t n)", ""),
    (
        "double %s(const double data1[], const size_t stride1, const double data2[], "
        "const size_t stride2, const size_t n)",
        "",
    ),
    ("void %s(double *base, size_t n, compare cmp)", ""),
    ("int %s(const float *x, float *y, int n)", ""),
    ("float %s(float x)", "0.5"),
    ("long %s(long a, long b)", "3, 4"),
    ("count_t %s(count_t n)", ""),
    (
        "int %s(int matrix_layout, int n, int nrhs, double* a, int lda, int* ipiv, double* b, "
        "int ldb)",
        "",
    ),
    (
        "int %s(int matrix_layout, char trans, int m, int n, int nrhs, const double* a, int lda, "
        "double* b, int ldb, double *work, int lwork)",
        "",
    ),
    ("void %s(const char *reason, const char *file, int line, int err)", ""),
)
NAMES = tuple(f"nl_{('bessel', 'gamma', 'stat')[at % 3]}_{at}" for at in range(COUNT))


def declarations() -> str:
    """Return the declarations of the library, as a header has them."""
    lines = [f"{KINDS[at % len(KINDS)][0] % name};" for at, name in enumerate(NAMES)]
    return TYPES + "\n".join(lines) + "\n"


def source() -> str:
    """Return the library in C: each function gives zeros."""
    lines = ["#include <stddef.h>", TYPES]
    for at, name in enumerate(NAMES):
        declared = KINDS[at % len(KINDS)][0] % name
        result = declared.partition(" nl_")[0]
        body = "" if result == "void" else "static complex_t zero; return zero;"
        if result not in ("void", "complex_t"):
            body = "return 0;"
        lines.append(f"{declared} {{ {body} }}")
    return "\n".join(lines) + "\n"


def compiled(directory: Path) -> Path:
    """Compile the library into `directory` and return its path."""
    importlib.import_module("setuptools")  # provides distutils from Python 3.12 on
    compiler = importlib.import_module("distutils.ccompiler").new_compiler()
    importlib.import_module("distutils.sysconfig").customize_compiler(compiler)
    text = directory / "library.c"
    text.write_text(source())
    objects = compiler.compile([str(text)], output_dir=str(directory), extra_preargs=["-O1"])
    library = directory / f"library{sysconfig.get_config_var('SHLIB_SUFFIX') or '.so'}"
    compiler.link_shared_object(objects, str(library))
    return library


def calls() -> str:
    """Return statements that call 50 functions, of 10 shapes."""
    chosen = [at for at, (_, values) in enumerate(KINDS) if values][:10]
    places = [at + row * len(KINDS) for row in range(5) for at in chosen]
    return "; ".join([f"lib.{NAMES[at]}({KINDS[at % len(KINDS)][1]})" for at in places])


def timed(before: str, work: str, path: Path) -> str:
    """Return a program that prints how many ms `work` takes after `before`."""
    text = path.parent / "library.h"
    return (
        f"import time\npath = {str(path)!r}\ntext = open({str(text)!r}).read()\n"
        f"names = {NAMES!r}\n{before}\nstart = time.perf_counter()\n{work}\n"
        "print((time.perf_counter() - start) * 1e3)\n"
    )


def run(code: str, cache: str) -> float:
    """Run a program in a fresh process and return the number that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tempfile.gettempdir(),
        env={**os.environ, "NATIVECALL_CACHE_DIR": cache},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout)


def lived(code: str, cache: str) -> float:
    """Return how many ms a process lives that runs a program."""
    timer = importlib.import_module("time").perf_counter
    start = timer()
    run(code + "\nprint(0)", cache)
    return float(timer() - start) * 1e3


BEFORE = "import nativecall as nc; nc.load; null = None"
BEFORE_CFFI = "import cffi; ffi = cffi.FFI(); null = ffi.NULL"
ROW = f"{COUNT} declarations"
PROCESS = "a process: import, load, one call"
CFFI, FIRST, KEPT = "cffi", "load(…), first", "load(…), kept"
#: Row, subject, peer, and how many times what the peer takes it may take.
GOALS = (
    (ROW, FIRST, CFFI, 1.0),
    (ROW, KEPT, CFFI, 0.05),
    (PROCESS, FIRST, CFFI, 1.0),
    (PROCESS, KEPT, CFFI, 1.0),
)


def add(section: Section, effort: Effort) -> None:
    """Add the rows of whole libraries to a section."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        path = compiled(where)
        (where / "library.h").write_text(declarations())
        look = "for name in names: getattr(lib, name)\n"
        ours = timed(BEFORE, "lib = nc.load(path, text)\n" + look + calls(), path)
        parsed = "ffi = cffi.FFI(); ffi.cdef(text); lib = ffi.dlopen(path)\n"
        theirs = timed(BEFORE_CFFI, parsed + look + calls(), path)
        one = f"double {NAMES[0]}(const double x);"
        alone = f"import nativecall as nc; nc.load({str(path)!r}, {one!r}).{NAMES[0]}(0.5)"
        alone_cffi = (
            f"import cffi; ffi = cffi.FFI(); ffi.cdef({one!r}); ffi.dlopen({str(path)!r})."
            f"{NAMES[0]}(0.5)"
        )
        kept = str(where / "cache")
        rows = {
            ROW: {
                CFFI: partial(run, theirs, ""),
                FIRST: partial(run, ours, ""),
                KEPT: partial(run, ours, kept),
            },
            PROCESS: {
                CFFI: partial(lived, alone_cffi, ""),
                FIRST: partial(lived, alone, ""),
                KEPT: partial(lived, alone, kept),
            },
        }
        for row, subjects in rows.items():
            for sample in subjects.values():
                sample()  # fills what is kept
            rounds = effort.choose(40, 15) if row == PROCESS else effort.choose(15, 5)
            samples = timing.interleave(subjects, rounds, effort.seed)
            section.groups.append(Group(row, "ms", CFFI, samples))
