"""Builds `by_callback` and `by_lookup`, each of one header of nativecall's, and `bell` for them."""

from Cython.Distutils import build_ext
from setuptools import Extension, setup

import nativecall

INCLUDE = [nativecall.get_include()]

setup(
    name="quadrature",
    version="1",
    py_modules=[],
    cmdclass={"build_ext": build_ext},
    ext_modules=[
        Extension("by_callback", ["by_callback.c"], include_dirs=INCLUDE, depends=["simpson.h"]),
        Extension("by_lookup", ["by_lookup.c"], include_dirs=INCLUDE, depends=["simpson.h"]),
        Extension("bell", ["bell.pyx"]),
    ],
)
