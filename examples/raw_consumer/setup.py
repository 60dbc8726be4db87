"""Builds the extension module `midpoint`; of nativecall it needs the headers only."""

from setuptools import Extension, setup

import nativecall

setup(
    name="midpoint",
    version="1",
    py_modules=[],
    ext_modules=[
        Extension(
            "midpoint",
            ["midpoint.c"],
            include_dirs=[nativecall.get_include()],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
        )
    ],
)
