"""Build C for the tests: shared libraries and extension modules, through the compile cache.

The compiler is the one that built this Python, or `$CC` / `$CXX`, with `$NATIVECALL_TEST_CFLAGS`
before all other arguments. Warnings are errors, because other projects compile our headers that
way.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from support import compilecache

EXT = Path(__file__).resolve().parents[1] / "ext"
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror")
# Cython suppresses its other warnings in generated code; C++ rejects these by itself.
MISMATCHES = ("-Werror=incompatible-pointer-types", "-Werror=int-conversion")
STANDARDS = {"c": "c99", "c++": "c++11"}
SHARED = ["-shared", "-fPIC"]
if sys.platform == "darwin":
    SHARED = ["-bundle", "-undefined", "dynamic_lookup"]


def compiler(language: str = "c") -> list[str] | None:
    """Return the command of the C or C++ compiler, None if there is none."""
    variable, names = {"c": ("CC", ("cc", "gcc", "clang")), "c++": ("CXX", ("c++", "g++"))}[
        language
    ]
    for command in (os.environ.get(variable), sysconfig.get_config_var(variable), *names):
        words = shlex.split(command or "")
        if words and shutil.which(words[0]):
            # The rest of the configured command is flags for Python's own build.
            return words if command == os.environ.get(variable) else words[:1]
    return None


def refusal(command: Sequence[str]) -> str:
    """Return a compiler's errors for a command; "" if it accepts the sources.

    The command has ``-fsyntax-only``, or ``-S`` and no output.
    """
    return compilecache.messages(command)


class Builder:
    """Compiles into one directory.

    Parameters
    ----------
    directory : Path
        Directory for the output; the caller creates it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._made: dict[tuple[object, ...], Path] = {}

    def _compile(
        self, source: Path, output: Path, language: str, standard: str, flags: Sequence[str]
    ) -> Path:
        key = (source, source.read_bytes(), output, language, standard, tuple(flags))
        if key not in self._made:
            command = compiler(language)
            if command is None:
                raise FileNotFoundError(f"no {language} compiler")
            output.parent.mkdir(parents=True, exist_ok=True)
            others = os.environ.get("NATIVECALL_TEST_CFLAGS", "").split()
            # Libraries follow the objects that need them.
            libraries = [flag for flag in flags if flag.startswith("-l")]
            others += [flag for flag in flags if not flag.startswith("-l")]
            compilecache.compiled(
                [*command, f"-std={standard}", "-x", language, *WARNINGS, *others]
                + [str(source), "-o", str(output), *SHARED, "-x", "none", *libraries],
                output,
            )
            self._made[key] = output
        return output

    def library(
        self,
        source: str | Path,
        name: str,
        *,
        flags: Sequence[str] = ("-O1",),
        language: str = "c",
    ) -> Path:
        """Build a shared library from a file in tests/ext, or from text.

        Parameters
        ----------
        source : str or Path
            A path, or C code.
        name : str
            The library's name; its file is `<name>.so`.
        flags : sequence of str
            More arguments for the compiler.
        language : {'c', 'c++'}
            C is compiled as C11, C++ as C++11. Without a C++ compiler the test is skipped.
        """
        if compiler(language) is None and language == "c++":
            pytest.skip("there is no C++ compiler")
        if isinstance(source, str):
            path = self.directory / f"{name}.{ {'c': 'c', 'c++': 'cpp'}[language] }"
            path.write_text(source, encoding="utf-8")
            source = path
        standard = {"c": "gnu11", "c++": "gnu++11"}[language]
        return self._compile(source, self.directory / f"{name}.so", language, standard, flags)

    def extension(
        self,
        source: str,
        name: str,
        *,
        include: Path,
        defines: Sequence[str] = (),
        language: str = "c",
        flags: Sequence[str] = ("-O2",),
        directory: str = "modules",
        standard: str | None = None,
    ) -> Path:
        """Build an extension module from `source` in tests/ext, with `MODULE` defined as its name.

        Parameters
        ----------
        source : str
            File name in tests/ext.
        name : str
            The module's name.
        include : Path
            The directory that holds `nativecall/*.h`.
        defines : sequence of str
            Macros as ``NAME`` or ``NAME=value``.
        language : {'c', 'c++'}
            C is compiled as C99, C++ as C++11.
        flags : sequence of str
            More arguments for the compiler.
        directory : str
            Subdirectory of the builder's own for the module.
        standard : str, optional
            Another standard of the language.
        """
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        arguments = [
            *flags,
            f"-I{include}",
            # Suppress warnings in Python's own headers.
            "-isystem",
            sysconfig.get_path("include"),
            f"-DMODULE={name}",
            *[f"-D{define}" for define in defines],
        ]
        return self._compile(
            EXT / source,
            self.directory / directory / f"{name}{suffix}",
            language,
            standard or STANDARDS[language],
            arguments,
        )

    def cython(
        self,
        source: Path,
        name: str,
        *,
        include: Path,
        language: str = "c",
        flags: Sequence[str] = ("-O2",),
        directory: str = "modules",
    ) -> Path:
        """Build an extension module with Cython, beside the generated C and its assembly.

        Parameters
        ----------
        source : Path
            The .pyx file.
        name : str
            The module's name.
        include : Path
            The directory that holds `nativecall/*.h`; the .pxd is the installed one.
        language : {'c', 'c++'}
            The language that Cython generates, compiled as C99 or C++11.
        flags : sequence of str
            More arguments for the compiler.
        directory : str
            Subdirectory of the builder's own for the module.
        """
        command = compiler(language)
        if command is None:
            raise FileNotFoundError(f"no {language} compiler")
        folder = self.directory / directory
        folder.mkdir(parents=True, exist_ok=True)
        generated = folder / f"{name}.{ {'c': 'c', 'c++': 'cpp'}[language] }"
        output = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        mode = ["--cplus"] if language == "c++" else []
        cython = [sys.executable, "-m", "cython", "-3", "-Werror", *mode]
        # From this directory, Cython finds only the installed .pxd; that of an editable
        # installation is passed to it.
        import nativecall

        cython += ["-I", str(Path(nativecall.__file__).parents[1])]
        cython += ["--module-name", name]
        self._translate(cython, source, generated)
        headers = [f"-I{include}", "-isystem", sysconfig.get_path("include")]
        mismatches = MISMATCHES if language == "c" else ()
        arguments = [f"-std={STANDARDS[language]}", "-fPIC", *headers, *mismatches, *flags]
        assembly = generated.with_suffix(".s")
        compilecache.compiled(
            [*command, *arguments, "-S", str(generated), "-o", str(assembly)], assembly
        )
        compilecache.compiled([*command, *SHARED, str(assembly), "-o", str(output)], output)
        return output

    def _translate(self, command: Sequence[str], source: Path, output: Path) -> None:
        """Run Cython."""
        import Cython

        words = [word for word in command[1:] if not os.path.isabs(word)]
        roots = [word for word in command if os.path.isabs(word)][1:] + [str(source.parent)]
        roots.append(str(Path(Cython.__file__).parent))

        def make(into: Path) -> list[Path]:
            made = into / output.name  # Cython writes this name into the file
            compilecache.run([*command, "--depfile", str(source), "-o", str(made)], into)
            read = compilecache.listed(made.with_name(f"{made.name}.dep"))
            made.rename(into / "product")
            return [(into / path).resolve() for path in read]

        key = [command[0], *words, Cython.__version__, source.read_text(encoding="utf-8")]
        compilecache.kept(key, output, make, roots)


def load_extension(path: Path) -> ModuleType:
    """Import an extension module from its file."""
    name = path.name.partition(".")[0]
    found = sys.modules.get(name)
    if found is not None:
        assert found.__file__ == str(path), f"{name} is another module: {found.__file__}"
        return found
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module
