"""Builds the extension module `emitted`."""

from setuptools import Extension, setup

import nativecall

setup(
    name="emitted",
    version="1",
    py_modules=[],
    ext_modules=[Extension("emitted", ["emitted.c"], include_dirs=[nativecall.get_include()])],
)
