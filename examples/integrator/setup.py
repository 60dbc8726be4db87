"""Builds the extension module `numerics`; of nativecall it needs the headers only."""

from setuptools import Extension, setup

import nativecall

setup(
    name="numerics",
    version="1",
    py_modules=[],
    ext_modules=[
        Extension(
            "numerics",
            ["module.c", "numerics.c"],
            include_dirs=[nativecall.get_include()],
            depends=["numerics.h"],
        )
    ],
)
