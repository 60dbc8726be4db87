"""Builds the extension module `particles`."""

from setuptools import Extension, setup

import nativecall

setup(
    name="particles",
    version="1",
    py_modules=[],
    ext_modules=[
        Extension(
            "particles",
            ["module.cpp"],
            include_dirs=[nativecall.get_include()],
            extra_compile_args=["-std=c++11"],
            language="c++",
        )
    ],
)
