"""A module that is built against nativecall's headers, by setuptools."""

from setuptools import Extension, setup

import nativecall

setup(
    ext_modules=[Extension("nc_ends", ["ends.c"], include_dirs=[nativecall.get_include()])],
    py_modules=[],
)
