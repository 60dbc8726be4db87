"""What tests of callback.h share: a module of C and one of C++, and vendored ones."""

import ctypes
import re
import shutil
import sys
from pathlib import Path

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
def bundles(builder, include, tmp_path_factory):
    """Modules with copies of their own of the headers that docs/callbacks.md lists."""
    page = (Path(__file__).parents[3] / "docs" / "callbacks.md").read_text()
    listed = re.search(r"headers that it includes: (.*?)\.\n", page, re.DOTALL).group(1)
    vendored = tmp_path_factory.mktemp("copied")
    for header in ["callback.h", *re.findall(r"`([\w/.]+)`", listed)]:
        (vendored / "nativecall" / header).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(include / "nativecall" / header, vendored / "nativecall" / header)
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
