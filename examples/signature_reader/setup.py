"""Builds the extension module `signature_reader`; of nativecall it needs the headers only."""

from setuptools import Extension, setup

import nativecall

setup(
    name="signature_reader",
    version="1",
    py_modules=[],
    ext_modules=[
        Extension(
            "signature_reader",
            ["module.c", "choice.c", "registers.c"],
            include_dirs=[nativecall.get_include()],
            depends=["choice.h", "registers.h"],
        )
    ],
)
