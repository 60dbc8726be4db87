"""Builds the extension module `midpoint`; of nativecall it needs the headers only."""

import sysconfig

from setuptools import Extension, setup

import nativecall

# Free-threaded builds refuse this limited API.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    name="midpoint",
    version="1",
    py_modules=[],
    ext_modules=[
        Extension(
            "midpoint",
            ["midpoint.c"],
            include_dirs=[nativecall.get_include()],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED else [],
            py_limited_api=LIMITED,
        )
    ],
)
