"""What tests of callback.h share: a module of C and one of C++, and vendored ones."""

import ctypes
import sys

import pytest

from support import build


@pytest.fixture(scope="session", params=["c99", "c++11"])
def c(request, builder, include):
    """The module of tests/ext/callback_consumer.c."""
    language = {"c99": "c", "c++11": "c++"}[request.param]
    name = {"c": "callback_c", "c++": "callback_cpp"}[language]
    return build.load_extension(
        builder.extension("callback_consumer.c", name, include=include, language=language)
    )


@pytest.fixture(scope="session")
def more(builder):
    """A library with functions that take user_data."""
    text = """
    double first(int n, double *x) { return n * x[0]; }
    double with_data(double x, void *data) { return data ? x * *(double *)data : -1.0; }
    double data_first(void *data, double x) { return data ? x * *(double *)data : -2.0; }
    """
    flags = ("-O1", "-Wno-missing-prototypes")
    return ctypes.CDLL(str(builder.library(text, "callback_callees", flags=flags)))


@pytest.fixture
def deep():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20000)
    yield
    sys.setrecursionlimit(limit)


@pytest.fixture(scope="session")
def bundles(builder, vendored):
    """Modules with copies of the headers of their own."""
    for name, language in {"bundled_c": "c", "bundled_cpp": "c++"}.items():
        path = builder.extension(
            "callback_consumer.c",
            name,
            include=vendored,
            language=language,
            flags=("-O1",),
            directory="callbacks",
        )
    return path.parent
