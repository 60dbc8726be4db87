"""A whole library: its declarations read, every function looked up, some called, beside the peers.

The library is generated: 954 functions with the parameters that numerical libraries have, of 40
kinds, among typedefs, structs and enums. Every sample is a process of its own.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
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
    "text, each function is looked up, and 50 are called, of 10 shapes; one by one each is given a "
    "signature, and in a row of its own 50 are called, of 5 shapes. Whole processes: ms from "
    "start to end. sqlite3.h: the header, cffi its preprocessed text; in a row of its own with all "
    "that is imported after `import nativecall` and `import cffi`. Kept is what an earlier process "
    "left in the cache on disk."
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
AHEAD, GENERATED = "ahead of time", "generated"
KINDS: tuple[tuple[str, str, str], ...] = (
    ("double %s(const double x)", "0.5", AHEAD),
    ("int %s(const double x, result_t *result)", "0.5, null", AHEAD),
    ("double %s(const double x, const double y)", "0.5, 1.5", AHEAD),
    ("int %s(const double x, const double y, result_t * result)", "0.5, 1.5, null", AHEAD),
    ("double %s(const int n, const double x)", "3, 0.5", AHEAD),
    ("int %s(const int n, const double x, result_t * result)", "3, 0.5, null", GENERATED),
    ("int %s(int nmin, int nmax, const double x, double * values)", "1, 2, 0.5, null", GENERATED),
    ("double %s(double x, precision mode)", "0.5, 1", GENERATED),
    ("int %s(double x, precision mode, result_t * result)", "0.5, 1, null", GENERATED),
    ("double %s(const double a, const double b, const double x)", "0.5, 1.5, 2.5", AHEAD),
    ("int %s(double a, double b, double x, result_t * result)", "0.5, 1.5, 2.5, null", AHEAD),
    ("double %s(double a, double b, double c, double d)", "0.5, 1.5, 2.5, 3.5", AHEAD),
    ("vector * %s(const size_t n)", "", ""),
    ("void %s(vector * v)", "", ""),
    ("double %s(const vector * v, const size_t i)", "null, 3", GENERATED),
    ("void %s(vector * v, const size_t i, double x)", "null, 3, 0.5", GENERATED),
    ("int %s(vector * dest, const vector * src)", "", ""),
    ("matrix * %s(const size_t n1, const size_t n2)", "", ""),
    ("double %s(const matrix * m, const size_t i, const size_t j)", "null, 1, 2", GENERATED),
    ("int %s(matrix * m, const double x)", "", ""),
    ("const char * %s(const int status)", "", ""),
    ("unsigned long int %s(const rng * r)", "", ""),
    ("double %s(rng * r, const double sigma)", "", ""),
    ("unsigned int %s(const rng * r, double p, unsigned int n)", "null, 0.5, 3", GENERATED),
    ("workspace * %s(const size_t n)", "", ""),
    ("void %s(workspace * w)", "", ""),
    (
        "int %s(const function_t * f, double a, double b, double epsabs, double epsrel, "
        "size_t limit, workspace * w, double *result, double *abserr)",
        "",
        "",
    ),
    ("complex_t %s(complex_t a, complex_t b)", "", ""),
    ("double %s(complex_t z)", "", ""),
    ("complex_t %s(complex_t z, double x)", "", ""),
    ("double %s(const double data[], const size_t stride, const size_t n)", "", ""),
    (
        "double %s(const double data1[], const size_t stride1, const double data2[], "
        "const size_t stride2, const size_t n)",
        "null, 1, null, 1, 0",
        GENERATED,
    ),
    ("void %s(double *base, size_t n, compare cmp)", "", ""),
    ("int %s(const float *x, float *y, int n)", "", ""),
    ("float %s(float x)", "0.5", AHEAD),
    ("long %s(long a, long b)", "3, 4", AHEAD),
    ("count_t %s(count_t n)", "3", GENERATED),
    (
        "int %s(int matrix_layout, int n, int nrhs, double* a, int lda, int* ipiv, double* b, "
        "int ldb)",
        "",
        "",
    ),
    (
        "int %s(int matrix_layout, char trans, int m, int n, int nrhs, const double* a, int lda, "
        "double* b, int ldb, double *work, int lwork)",
        "",
        "",
    ),
    ("void %s(const char *reason, const char *file, int line, int err)", "", ""),
)
NAMES = tuple(f"nl_{('bessel', 'gamma', 'stat')[at % 3]}_{at}" for at in range(COUNT))
#: Of the functions that are given a signature one by one: ours, ctypes' result and arguments. They
#: are those of the first `KINDS`, and such functions are called.
GIVEN: tuple[tuple[str, str, str], ...] = (
    ("d:d", "d", "d,"),
    ("i:d&T{dd}", "i", "d, p"),
    ("d:dd", "d", "d, d"),
    ("i:dd&T{dd}", "i", "d, d, p"),
    ("d:id", "d", "i, d"),
)


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


def calls(kind: str) -> str:
    """Return statements that call 50 functions, of 10 shapes that have their code of this kind."""
    chosen = [at for at, one in enumerate(KINDS) if one[2] == kind][:10]
    places = [at + row * len(KINDS) for row in range(5) for at in chosen]
    return "; ".join([f"lib.{NAMES[at]}({KINDS[at % len(KINDS)][1]})" for at in places])


def calls_of_given() -> str:
    """Return statements that call 50 of the functions that are given a signature one by one."""
    places = [at + row * len(KINDS) for row in range(10) for at in range(len(GIVEN))]
    return "; ".join([f"made[{NAMES[at]!r}]({KINDS[at % len(KINDS)][1]})" for at in places])


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


def sqlite(where: Path) -> dict[str, dict[str, partial[float]]]:
    """Return what loads sqlite3.h, without imports and with them; nothing where it is missing, or a
    compiler that preprocesses.

    cffi gets the preprocessed text without what it cannot read.
    """
    cc = shutil.which("cc")
    if cc is None or importlib.import_module("ctypes.util").find_library("sqlite3") is None:
        return {}
    done = subprocess.run(
        [cc, "-E", "-P", "-x", "c", "-"],
        input=f"#include <{HEADER}>",
        stdout=-1,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return {}
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)|__extension__|__restrict", "", done.stdout)
    text = re.sub(r"typedef __\w+ (?:va_list|__gnuc_va_list);", "", text)
    where = where / "headers"  # beside the generated library
    where.mkdir()
    (where / "library.h").write_text("typedef void *__gnuc_va_list, *va_list;\n" + text)
    path, kept = where / "library.so", str(where / "cache")
    theirs = "ffi = cffi.FFI(); ffi.cdef(text); ffi.dlopen('libsqlite3.so.0').sqlite3_libversion"
    ours = f"nc.load('sqlite3', header={HEADER!r}).sqlite3_libversion"
    imported = {
        HEADER: (f"{BEFORE_CFFI}; ffi.cdef('int f(int);')", f"{BEFORE}; {MACHINERY}"),
        HEADER_IMPORTS: ("import cffi", "import nativecall as nc"),
    }
    return {
        row: {
            CFFI: partial(run, timed(before_theirs, theirs, path), ""),
            FIRST: partial(run, timed(before_ours, ours, path), ""),
            KEPT: partial(run, timed(before_ours, ours, path), kept),
        }
        for row, (before_theirs, before_ours) in imported.items()
    }


BEFORE = "import nativecall as nc; nc.load; null = None"
BEFORE_CFFI = "import cffi; ffi = cffi.FFI(); null = ffi.NULL"
#: What the first load of a header imports, as cffi's first `cdef` imports its own.
MACHINERY = "import nativecall._signature.header"
HEADER = "sqlite3.h"
HEADER_IMPORTS = "sqlite3.h, with imports"
ROW = f"{COUNT} declarations"
SYMBOLS = f"{COUNT} functions, one by one"
SYMBOLS_CALLED = f"{SYMBOLS}, 50 called"
PROCESS = "a process: import, load, one call"
START = "a process: import"
CFFI, CTYPES, FIRST, KEPT = "cffi", "ctypes", "load(…), first", "load(…), kept"
KEPT_GENERATED, CFFI_GENERATED = "load(…), kept, generated code", "cffi, the same"
ONE_BY_ONE = "lib.function(…)"
#: Row, subject, peer, and how many times what the peer takes it may take.
GOALS = (
    (ROW, FIRST, CFFI, 1.0),
    (ROW, KEPT, CFFI, 0.05),
    (ROW, KEPT_GENERATED, CFFI_GENERATED, 0.05),
    (HEADER, FIRST, CFFI, 1.0),
    (HEADER, KEPT, CFFI, 0.05),
    (HEADER_IMPORTS, FIRST, CFFI, 1.0),
    (SYMBOLS, ONE_BY_ONE, CTYPES, 1.0),
    (SYMBOLS_CALLED, ONE_BY_ONE, CTYPES, 1.0),
    (PROCESS, FIRST, CFFI, 1.0),
    (PROCESS, KEPT, CFFI, 1.0),
    (START, "nativecall", CFFI, 1.0),
)


def add(section: Section, effort: Effort) -> None:
    """Add the rows of whole libraries to a section."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        path = compiled(where)
        (where / "library.h").write_text(declarations())
        look = "for name in names: getattr(lib, name)\n"
        ours = "lib = nc.load(path, text)\n" + look
        theirs = "ffi = cffi.FFI(); ffi.cdef(text); lib = ffi.dlopen(path)\n" + look
        before, cffi = BEFORE, BEFORE_CFFI
        signatures = [(name, GIVEN[at % len(GIVEN)][0]) for at, name in enumerate(NAMES)]
        types = [f"({one[1]}, ({one[2]}))" for one in GIVEN]
        each = (
            f"lib = nc.load(path); given = {signatures!r}; made = {{}}\n"
            "for name, signature in given: made[name] = lib.function(name, signature)\n"
        )
        by_hand = (
            "lib = ctypes.CDLL(path); made = {}\n"
            "for at, name in enumerate(names):\n"
            "    f = made[name] = getattr(lib, name)\n"
            "    f.restype, f.argtypes = types[at % len(types)]\n"
        )
        prepared = (
            "import ctypes; d, i = ctypes.c_double, ctypes.c_int\n"
            "class R(ctypes.Structure): _fields_ = [('val', d), ('err', d)]\n"
            f"p = ctypes.POINTER(R); types = [{', '.join(types)}]; null = None"
        )
        one = f"double {NAMES[0]}(const double x);"
        alone = f"import nativecall as nc; nc.load({str(path)!r}, {one!r}).{NAMES[0]}(0.5)"
        alone_cffi = (
            f"import cffi; ffi = cffi.FFI(); ffi.cdef({one!r}); ffi.dlopen({str(path)!r})."
            f"{NAMES[0]}(0.5)"
        )
        kept = str(where / "cache")
        rows = {
            ROW: {
                CFFI: partial(run, timed(cffi, theirs + calls(AHEAD), path), ""),
                FIRST: partial(run, timed(before, ours + calls(AHEAD), path), ""),
                KEPT: partial(run, timed(before, ours + calls(AHEAD), path), kept),
                CFFI_GENERATED: partial(run, timed(cffi, theirs + calls(GENERATED), path), ""),
                KEPT_GENERATED: partial(run, timed(before, ours + calls(GENERATED), path), kept),
            },
            SYMBOLS: {
                CTYPES: partial(run, timed(prepared, by_hand, path), ""),
                ONE_BY_ONE: partial(run, timed(before, each, path), ""),
            },
            SYMBOLS_CALLED: {
                CTYPES: partial(run, timed(prepared, by_hand + calls_of_given(), path), ""),
                ONE_BY_ONE: partial(run, timed(before, each + calls_of_given(), path), ""),
            },
            PROCESS: {
                CFFI: partial(lived, alone_cffi, ""),
                FIRST: partial(lived, alone, ""),
                KEPT: partial(lived, alone, kept),
            },
            START: {
                CFFI: partial(lived, "import cffi", ""),
                "nativecall": partial(lived, "import nativecall", ""),
                CTYPES: partial(lived, "import ctypes", ""),
                "bare interpreter": partial(lived, "pass", ""),
            },
        }
        rows |= sqlite(where)
        for row, subjects in rows.items():
            for sample in subjects.values():
                sample()  # fills what is kept
            rounds = effort.choose(40, 15) if row in (PROCESS, START) else effort.choose(15, 5)
            samples = timing.interleave(subjects, rounds, effort.seed)
            section.groups.append(Group(row, "ms", CFFI if CFFI in samples else CTYPES, samples))
            if row == START:
                least = {name: min(values) for name, values in samples.items()}
        section.figures["import, least ms over a bare interpreter"] = {
            name: value - least["bare interpreter"] for name, value in least.items()
        }
