"""Builds `filters` against the installed headers of nativecall."""

from setuptools import Extension, setup

import nativecall

setup(
    name="filters",
    version="1",
    py_modules=[],
    ext_modules=[
        Extension("filters", ["module.c"], include_dirs=[nativecall.get_include()]),
    ],
)
