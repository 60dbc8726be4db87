"""Builds the extension module `solvers`, and `problems`, a plain shared library to try it on."""

from setuptools import Extension, setup

import nativecall

setup(
    name="solvers",
    version="1",
    py_modules=[],
    ext_modules=[
        Extension(
            "solvers",
            ["module.c", "brent.c", "dormand_prince.c"],
            include_dirs=[nativecall.get_include()],
            depends=["solvers.h"],
        ),
        Extension("problems", ["problems.c"]),
    ],
)
