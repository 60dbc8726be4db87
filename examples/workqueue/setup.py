"""Builds the extension modules `jobs`, in C, and `jobspp`, in C++."""

from setuptools import Extension, setup

import nativecall

INCLUDE = [nativecall.get_include()]

setup(
    name="jobs",
    version="1",
    py_modules=[],
    ext_modules=[
        Extension("jobs", ["jobs.c"], include_dirs=INCLUDE, extra_compile_args=["-std=gnu11"]),
        Extension(
            "jobspp",
            ["jobs.cpp"],
            include_dirs=INCLUDE,
            extra_compile_args=["-std=c++11"],
            language="c++",
        ),
    ],
)
