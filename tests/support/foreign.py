"""C++ and Fortran modules bound by other libraries, compiled for the tests."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

from . import build, compilecache


class Missing(Exception):
    """A requirement of a module is not installed; the message names it."""


def _needed(name: str) -> ModuleType:
    import importlib
    import importlib.util

    if importlib.util.find_spec(name.partition(".")[0]) is None:
        raise Missing(name)
    return importlib.import_module(name)


def _cpp(builder: build.Builder, source: str, name: str, includes: list[Path], *more: Path) -> Path:
    """Build a C++ module, without warnings from a library's headers."""
    output = builder.directory / "modules" / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = build.compiler("c++")
    if compiler is None:
        raise Missing("a C++ compiler")
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        headers = [sysconfig.get_path("include"), *includes]
        command = [*compiler, "-std=c++17", "-O0", "-w", *build.SHARED, f"-DMODULE={name}"]
        command += [f"-I{one}" for one in headers]
        sources = [str(build.EXT / source), *map(str, more)]
        compilecache.compiled([*command, *sources, "-o", str(output)], output)
    return output


def pybind11(builder: build.Builder) -> ModuleType:
    """Build tests/ext/pybind11_boxes.cpp."""
    include = Path(_needed("pybind11").get_include())
    return build.load_extension(_cpp(builder, "pybind11_boxes.cpp", "pybind_boxes", [include]))


def nanobind(builder: build.Builder) -> ModuleType:
    """Build tests/ext/nanobind_boxes.cpp."""
    root = Path(_needed("nanobind").__file__ or "").parent
    includes = [root / "include", root / "ext" / "robin_map" / "include"]
    combined = root / "src" / "nb_combined.cpp"
    made = _cpp(builder, "nanobind_boxes.cpp", "nano_boxes", includes, combined)
    return build.load_extension(made)


def f2py(builder: build.Builder) -> ModuleType:
    """Build tests/ext/f2py_boxes.f90."""
    name = "f2py_boxes"
    folder = builder.directory / "f2py"
    output = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = build.compiler()
    if compiler is None or shutil.which("gfortran") is None:
        raise Missing("gfortran")
    if not output.exists():
        library, numpy = _needed("numpy.f2py"), _needed("numpy")
        source = build.EXT / f"{name}.f90"
        includes = [numpy.get_include(), library.get_include(), sysconfig.get_path("include")]

        def make(into: Path) -> list[Path]:
            words = [sys.executable, "-m", "numpy.f2py", "-m", name, str(source), "--lower"]
            compilecache.run([*words, "--quiet"], into)
            compiled = [*compiler, "-c", "-O0", "-w", "-fPIC", *[f"-I{one}" for one in includes]]
            sources = [f"{name}module.c", f"{library.get_include()}/fortranobject.c"]
            compilecache.run([*compiled, *sources], into)
            wrappers = [str(one) for one in into.glob("*f2pywrappers*")]
            objects = [str(one) for one in into.glob("*.o")]
            linked = ["gfortran", *build.SHARED, "-O0", str(source), *wrappers, *objects]
            compilecache.run([*linked, "-o", str(into / "product")], into)
            return []

        folder.mkdir(exist_ok=True)
        key = [
            *compiler,
            "gfortran",
            sys.version,
            numpy.__version__,
            source.read_text(encoding="utf-8"),
        ]
        compilecache.kept(key, output, make)
    return build.load_extension(output)
