"""Builds the extension module `cpp_numerics` with a copy of nativecall's headers, as vendored."""

import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

import nativecall


class BuildVendored(build_ext):
    """Copies the headers next to the objects; a project would have the copy in its repository."""

    def build_extension(self, ext: Extension) -> None:
        vendored = Path(self.build_temp) / "vendored"
        headers = Path(nativecall.get_include()) / "nativecall"
        shutil.copytree(headers, vendored / "nativecall", dirs_exist_ok=True)
        ext.include_dirs.append(str(vendored))
        super().build_extension(ext)


setup(
    name="cpp_numerics",
    version="1",
    py_modules=[],
    cmdclass={"build_ext": BuildVendored},
    ext_modules=[
        Extension(
            "cpp_numerics",
            ["module.cpp"],
            depends=["callback.hpp", "numerics.hpp"],
            language="c++",
            extra_compile_args=["-std=c++11"],
        )
    ],
)
