"""Builds `arrays` and `moments` in C and `waves` in Cython; the slot is all that they share."""

from Cython.Distutils import build_ext
from setuptools import Extension, setup

import nativecall

INCLUDE = [nativecall.get_include(), "."]

setup(
    name="array_vtable",
    version="1",
    py_modules=[],
    cmdclass={"build_ext": build_ext},
    ext_modules=[
        Extension("arrays", ["arrays.c"], include_dirs=INCLUDE, depends=["vtable.h"]),
        Extension("moments", ["moments.c"], include_dirs=INCLUDE, depends=["vtable.h"]),
        Extension("waves", ["waves.pyx"], include_dirs=INCLUDE, depends=["vtable.h"]),
    ],
)
