"""For setuptools: builds the library, freezes its header and writes the stub, into the package."""

import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

NATIVECALL = [sys.executable, "-m", "nativecall"]


class Build(build_ext):
    """Builds a plain library beside the package's modules, no extension module of Python's."""

    def get_ext_filename(self, fullname: str) -> str:
        *package, name = fullname.split(".")
        return str(Path(*package, f"lib{name}{'.dll' if sys.platform == 'win32' else '.so'}"))

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []  # there is no PyInit_geometry

    def run(self) -> None:
        super().run()
        library = Path(self.get_ext_fullpath("geometry.geometry")).resolve()
        frozen = library.with_name("geometry.nc")
        freeze = ["freeze", "csrc/geometry.h", "--library", library, "-o", frozen]
        subprocess.run([*NATIVECALL, *freeze], check=True)
        stub = ["stubs", library.with_name("__init__.py"), "--force"]
        subprocess.run([*NATIVECALL, *stub], check=True)


class Wheel(bdist_wheel):
    """A wheel for every Python 3 of this platform: nothing in it is for one."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


library = Extension("geometry.geometry", ["csrc/geometry.c"], libraries=["m"])
setup(ext_modules=[library], cmdclass={"build_ext": Build, "bdist_wheel": Wheel})
