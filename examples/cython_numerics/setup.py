"""Builds the extension module `numerics`; of nativecall it needs the headers and the .pxd file."""

from Cython.Distutils import build_ext
from setuptools import Extension, setup

import nativecall

setup(
    name="numerics",
    version="1",
    py_modules=[],
    cmdclass={"build_ext": build_ext},
    ext_modules=[
        Extension("numerics", ["numerics.pyx"], include_dirs=[nativecall.get_include()]),
    ],
)
