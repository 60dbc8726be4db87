"""Builds what the benchmark compiles: each peer from its own package, and the C programs.

A target is built once for its inputs: the sources, this file, the headers it includes, the versions
of the packages that generate its code, Python, and the compiler with its flags. The result is kept
in a cache directory (``$NATIVECALL_BENCH_CACHE``, else ``nativecall-bench`` under the user's cache
directory). A build runs in a process of its own, so that what compilers print can be shown when it
fails and nothing is left behind in the process that measures.

All C and C++ is compiled with Python's own flags followed by ``-O2``.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from bench import installed, machine

HERE = Path(__file__).resolve().parent
C_PROGRAMS = HERE.parent / "c"
PROGRAMS = HERE.parent / "programs"
WINDOWS = sys.platform == "win32"
OPTIMISE = ["/O2"] if WINDOWS else ["-O2", "-g"]
CXX17 = ["/std:c++17", "/EHsc"] if WINDOWS else ["-std=c++17", "-fvisibility=hidden"]


class BuildError(Exception):
    """A target could not be built; the message ends with the last lines of the output."""


@dataclass(frozen=True)
class Target:
    """Something that is built: how, and from what."""

    make: Callable[[Path], None]
    inputs: tuple[Path, ...]
    distributions: tuple[str, ...] = ()
    uses_headers: bool = False


def include_directory() -> Path:
    """Return the include directory of the installed nativecall."""
    return Path(installed.import_nativecall().get_include())


def extension(
    directory: Path,
    name: str,
    sources: Sequence[str | Path],
    *,
    cython: bool = False,
    compile_args: Sequence[str] = (),
    **options: Any,
) -> None:
    """Compile an extension module into `directory` with setuptools."""
    setuptools = importlib.import_module("setuptools")
    module = setuptools.Extension(
        name,
        [str(source) for source in sources],
        extra_compile_args=[*OPTIMISE, *compile_args],
        **options,
    )
    modules = [module]
    if cython:
        cython_build = importlib.import_module("Cython.Build")
        modules = cython_build.cythonize(modules, build_dir=str(directory / "cython"), quiet=True)
    distribution = setuptools.Distribution({"name": name, "ext_modules": modules})
    command = distribution.get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(directory), str(directory / "objects")
    command.ensure_finalized()
    command.run()


def library_name(name: str) -> str:
    """Return the file name of a shared library."""
    if WINDOWS:
        return f"{name}.dll"
    return f"lib{name}.dylib" if sys.platform == "darwin" else f"lib{name}.so"


def make_library(source: str, directory: Path) -> None:
    """Compile a C file that lies here into a shared library."""
    importlib.import_module("setuptools")  # provides distutils from Python 3.12 on
    new_compiler = importlib.import_module("distutils.ccompiler").new_compiler
    customize_compiler = importlib.import_module("distutils.sysconfig").customize_compiler

    compiler = new_compiler()
    customize_compiler(compiler)
    objects = compiler.compile(
        [str(HERE / f"{source}.c")],
        output_dir=str(directory / "objects"),
        extra_preargs=OPTIMISE,
    )
    libraries = [] if WINDOWS else ["m"]
    target = str(directory / library_name(f"bench_{source}"))
    compiler.link_shared_object(objects, target, libraries=libraries)


def make_builtin(directory: Path) -> None:
    """Compile the hand-written built-in functions."""
    extension(directory, "bench_builtin", [HERE / "builtin.c"])


def make_cython(directory: Path) -> None:
    """Compile the Cython module, from a copy, because cythonize writes beside its source."""
    source = shutil.copy(HERE / "cython_peer.pyx", directory / "bench_cython.pyx")
    extension(directory, "bench_cython", [source], cython=True)


def make_nanobind(directory: Path) -> None:
    """Compile the nanobind module together with nanobind's own library, as its CMake code does."""
    nanobind = importlib.import_module("nanobind")
    package = Path(nanobind.include_dir()).parent
    extension(
        directory,
        "bench_nanobind",
        [HERE / "nanobind_peer.cpp", Path(nanobind.source_dir()) / "nb_combined.cpp"],
        language="c++",
        include_dirs=[nanobind.include_dir(), str(package / "ext" / "robin_map" / "include")],
        define_macros=[("NDEBUG", None), ("NB_COMPACT_ASSERTIONS", None)],
        compile_args=[*CXX17, *([] if WINDOWS else ["-fno-strict-aliasing"])],
    )


def make_pybind11(directory: Path) -> None:
    """Compile the pybind11 module."""
    pybind11 = importlib.import_module("pybind11")
    extension(
        directory,
        "bench_pybind11",
        [HERE / "pybind11_peer.cpp"],
        language="c++",
        include_dirs=[pybind11.get_include()],
        define_macros=[("NDEBUG", None)],
        compile_args=CXX17,
    )


def make_cffi_of(source: str, module: str, declared: str, directory: Path) -> None:
    """Compile a cffi module in API mode, linked with the shared library of a C file."""
    library = str(built(source))
    ffi = importlib.import_module("cffi").FFI()
    ffi.cdef(declared)
    ffi.set_source(
        module,
        f'#include "{source}.h"',
        include_dirs=[str(HERE)],
        libraries=[f"bench_{source}"],
        library_dirs=[library],
        runtime_library_dirs=[] if WINDOWS else [library],
        extra_compile_args=OPTIMISE,
    )
    ffi.compile(tmpdir=str(directory))


def make_cffi(directory: Path) -> None:
    """Compile the cffi API-mode module of the kernels."""
    from bench.peers.kernels import ROWS

    declared = "\n".join(row.declaration for row in ROWS)
    make_cffi_of("kernels", "bench_cffi", declared, directory)


def make_cffi_values(directory: Path) -> None:
    """Compile the cffi API-mode module of the idioms."""
    from bench.rows.values import declarations

    declared = declarations((HERE / "values.h").read_text())
    make_cffi_of("values", "bench_cffi_values", declared, directory)


def make_cython_values(directory: Path) -> None:
    """Compile Cython's module of the idioms, from a copy as above."""
    source = shutil.copy(HERE / "values_peer.pyx", directory / "bench_cython_values.pyx")
    library = str(built("values"))
    extension(
        directory,
        "bench_cython_values",
        [source],
        cython=True,
        include_dirs=[str(HERE)],
        libraries=["bench_values"],
        library_dirs=[library],
        runtime_library_dirs=[] if WINDOWS else [library],
    )


#: What each of cffi's modules for the programs declares, for which library.
CFFI_PROGRAMS = {
    "c": (
        'extern "Python" int compare(const double *, const double *);'
        'extern "Python" double slope(double, double);'
        "double kernel_d_d(double); int64_t kernel_q_q(int64_t); float kernel_f_f(float);"
        "int32_t kernel_i_i(int32_t);"
    ),
    "gsl": 'extern "Python" double integrand(double, void *);',
    "sqlite3": 'extern "Python" void in_sql(sqlite3_context *, int, sqlite3_value **);',
    "z": "",
    "expat": (
        'extern "Python" void started(void *, const char *, const char **);'
        'extern "Python" void ended(void *, const char *);'
        'extern "Python" void said(void *, const char *, int);'
    ),
    "xml2": "",
}


def linked(name: str) -> list[str]:
    """Return the linker's arguments for a library that need not have its headers installed."""
    from bench import programs

    found = programs.library(name)
    return [f"-l:{found}"] if sys.platform == "linux" else [f"-l{name}"]


def make_cffi_programs(name: str, directory: Path) -> None:
    """Compile one of cffi's modules for the programs; no headers of the library are needed."""
    from bench import programs

    kernels = str(built("kernels"))
    declared = {
        "c": programs.SOLVER + programs.SORT,
        "gsl": programs.INTEGRATION,
        "sqlite3": programs.SQLITE,
        "z": programs.CHECKSUMS + programs.STREAM,
        "expat": programs.EXPAT,
        "xml2": programs.TREE,
    }[name]
    ffi = importlib.import_module("cffi").FFI()
    ffi.cdef(declared + CFFI_PROGRAMS[name])
    own = name == "c"
    ffi.set_source(
        f"bench_cffi_{name}",
        '#include "kernels.h"\n#include <stdlib.h>' if own else f"#include <stddef.h>\n{declared}",
        include_dirs=[str(HERE)],
        libraries=["bench_kernels"] if own else [],
        library_dirs=[kernels] if own else [],
        runtime_library_dirs=[kernels] if own and not WINDOWS else [],
        extra_link_args=[] if own else linked(name),
        extra_compile_args=OPTIMISE,
    )
    ffi.compile(tmpdir=str(directory))


def make_cython_programs(directory: Path) -> None:
    """Compile Cython's part of the programs, from a copy as above."""
    name = "bench_cython_programs"
    source = shutil.copy(PROGRAMS / "cython_programs.pyx", directory / f"{name}.pyx")
    extension(directory, name, [source], cython=True)


def make_cython_library(name: str, directory: Path) -> None:
    """Compile Cython's module of one library, from a copy as above, with the library's headers."""
    from bench import programs

    source = shutil.copy(PROGRAMS / f"cython_{name}.pyx", directory / f"bench_cython_{name}.pyx")
    include = [programs.xml_headers()] if name == "xml2" else []
    arguments = linked(name)
    extension(
        directory,
        f"bench_cython_{name}",
        [source],
        cython=True,
        include_dirs=include,
        extra_link_args=arguments,
    )


def make_program(name: str, options: Sequence[str], directory: Path) -> None:
    """Compile an extension of loops against the installed headers."""
    source, include = C_PROGRAMS / f"{name}.c", str(include_directory())
    extension(directory, f"bench_{name}", [source], include_dirs=[include], compile_args=options)


def program(name: str, *options: str) -> Target:
    """Return the target of such an extension."""
    source = C_PROGRAMS / f"{name}.c"
    return Target(partial(make_program, name, options), (source,), uses_headers=True)


KERNELS = (HERE / "kernels.c", HERE / "kernels.h")
VALUES = (HERE / "values.c", HERE / "values.h")
TARGETS = {
    "kernels": Target(partial(make_library, "kernels"), KERNELS),
    "values": Target(partial(make_library, "values"), VALUES),
    "builtin": Target(make_builtin, (HERE / "builtin.c",)),
    "cython": Target(make_cython, (HERE / "cython_peer.pyx",), ("Cython",)),
    "nanobind": Target(make_nanobind, (HERE / "nanobind_peer.cpp",), ("nanobind",)),
    "pybind11": Target(make_pybind11, (HERE / "pybind11_peer.cpp",), ("pybind11",)),
    "cffi": Target(make_cffi, (*KERNELS, HERE / "kernels.py"), ("cffi",)),
    **{
        f"cffi_{name}": Target(
            partial(make_cffi_programs, name), (*KERNELS, PROGRAMS / "__init__.py"), ("cffi",)
        )
        for name in CFFI_PROGRAMS
    },
    "cython_programs": Target(
        make_cython_programs, (PROGRAMS / "cython_programs.pyx",), ("Cython",)
    ),
    **{
        f"cython_{name}": Target(
            partial(make_cython_library, name), (PROGRAMS / f"cython_{name}.pyx",), ("Cython",)
        )
        for name in ("expat", "sqlite3", "xml2", "z")
    },
    "cffi_values": Target(make_cffi_values, VALUES, ("cffi",)),
    "cython_values": Target(make_cython_values, (*VALUES, HERE / "values_peer.pyx"), ("Cython",)),
    "lookup": program("lookup"),
    **{f"provider{number}": program("provider", f"-DWITH={number}") for number in range(3)},
}


def cache_directory() -> Path:
    """Return the directory that built targets are kept in."""
    named = os.environ.get("NATIVECALL_BENCH_CACHE")
    if named:
        return Path(named).resolve()
    base = os.environ.get("LOCALAPPDATA" if WINDOWS else "XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "nativecall-bench"


@cache
def toolchain() -> str:
    """Return what the compiled code depends on besides its own inputs."""
    compiler = machine.first_line([*machine.compiler_command(), "--version"])
    flags = (sysconfig.get_config_var("CFLAGS"), *map(os.environ.get, ("CFLAGS", "LDFLAGS")))
    return repr((sys.version, sys.prefix, compiler, flags, OPTIMISE))


def digest(target: Target) -> str:
    """Return the digest of all that the target is built from."""
    state = hashlib.sha256(toolchain().encode())
    state.update(Path(__file__).read_bytes())
    headers = sorted(include_directory().rglob("*.h")) if target.uses_headers else []
    for path in (*target.inputs, *headers):
        state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for name in target.distributions:
        state.update(f"{name} {importlib.metadata.version(name)}\0".encode())
    return state.hexdigest()[:16]


@cache
def built(name: str) -> Path:
    """Return the directory of the built target, which is built first where it is not cached.

    Raises
    ------
    BuildError
        Where a package or source is absent, or a compiler fails.
    """
    target = TARGETS[name]
    try:
        final = cache_directory() / f"{name}-{digest(target)}"
    except (importlib.metadata.PackageNotFoundError, OSError, installed.NotInstalled) as error:
        raise BuildError(f"{name}: {type(error).__name__}: {error}") from error
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=f".{name}-") as temporary:
        work = Path(temporary) / "build"
        work.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "bench.peers.build", name, str(work)],
            cwd=installed.ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            tail = "\n".join(done.stdout.strip().splitlines()[-12:])
            raise BuildError(f"{name}: the build failed:\n{tail}")
        try:
            work.rename(final)
        except OSError:
            if not final.is_dir():  # else another process has just built the same
                raise
    return final


if __name__ == "__main__":
    TARGETS[sys.argv[1]].make(Path(sys.argv[2]))
