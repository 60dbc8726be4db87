"""The programs of examples/libraries: each with nativecall, cffi and ctypes, which print the same.

The one with nativecall has the fewest lines, all formatted by the same formatter. Where few have
the header, each declares what it uses as text, and the one with nativecall has no more lines.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import io
import tokenize
from pathlib import Path

import pytest

import nativecall as nc
from nativecall._cdecl.preprocessor import compiler
from support.levels import sweep

PROGRAMS = Path(__file__).resolve().parents[2] / "examples" / "libraries"
#: The library and the header of each, None where it declares functions as text, and what it prints.
EXPECTED = {
    "cbor": (
        "cbor",
        None,
        "9f 1b 00 00 00 00 00 00 00 01 67 47 72 c3 bc c3 9f 65 f6 9f 1b 00 00 01 00 00 00 00 00 ff "
        "ff\n(30, 1)\n",
    ),
    "event_loop": ("uv", "uv.h", "True 1\ndivision by zero\n"),
    "fourier": ("fftw3", "fftw3.h", "[(50, 1.0), (120, 0.5)]\nno plan\n"),
    "images": ("webp", None, "b'RIFF' b'WEBPVP8 ' True\nno such quality\n"),
    "linear_algebra": (
        "lapack",
        "lapack.h",
        "True [[0.222222, 1.111111], [0.111111, 0.555556], [1.444444, 3.222222]]\nrefused\n"
        "refused\n",
    ),
    "osc": ("lo", None, "/tone 440 hören\n"),
    "projection": (
        "proj",
        None,
        "691875.632 6098907.825\nTrue True\ninf\nInvalid coordinate\nno such projection\n",
    ),
    "quadrature": (
        "gsl",
        "gsl/gsl_integration.h",
        "-4.000000000 True\ndivision by zero\nexceeded max number of iterations\n",
    ),
    "sorting": (
        None,
        "stdlib.h",
        "['Perth', 'Quito', 'Oslo']\n['Perth', 'Quito', 'Oslo']\n['Oslo', 'Perth', 'Quito']\n"
        "division by zero\n",
    ),
    "sqlite": (
        "sqlite3",
        "sqlite3.h",
        "1 1.0\n2 8.0\n3 27.0\nNone 0.0\n-1.0\ndivision by zero\nno such column: y\n-1.0\n"
        "division by zero\n",
    ),
    "sqlite_text": (
        "sqlite3",
        "sqlite3.h",
        "['Grüße', '1.5', None] ['日本', 'A', '']\nnear \"nothing\": syntax error\n",
    ),
    "subtitles": (
        "ass",
        None,
        "Warning: no style named 'Grün' found, using 'Default'\nBad timestamp\nBad timestamp\n",
    ),
    "walking": (
        None,
        "ftw.h",
        "0 [('a/b/three', 300, 3), ('a/two', 200, 2), ('one', 100, 1)] [0, 1, 2]\n7\n"
        "ZeroDivisionError\nFileNotFoundError\n",
    ),
    "zlib_streams": ("z", "zlib.h", "22427 24 {256}\nTrue\nincorrect header check\nno end\n"),
}
_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}
RUN = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
WAYS = ("nativecall", "cffi", "ctypes")


def lines(path):
    """How many lines have code: neither blank ones nor comments and docstrings."""
    source = path.read_text(encoding="utf-8")
    counted = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            counted.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(
            node
        ):
            text = node.body[0]
            counted -= set(range(text.lineno, text.end_lineno + 1))
    return len(counted)


def test_all_programs_are_here():
    found = {path.name for path in PROGRAMS.iterdir() if path.is_dir()}
    assert found == set(EXPECTED)
    for name in EXPECTED:
        files = {path.name for path in (PROGRAMS / name).iterdir()} - {"__pycache__"}
        assert files == {f"by_{way}.py" for way in WAYS}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_program_with_nativecall_is_the_shortest(name):
    counts = {way: lines(PROGRAMS / name / f"by_{way}.py") for way in WAYS}
    least = min(counts["cffi"], counts["ctypes"])
    if EXPECTED[name][1] is None:
        assert counts["nativecall"] <= least, counts
    else:
        assert counts["nativecall"] < least, counts


@functools.cache
def missing(library: str | None, header: str | None) -> str | None:
    """Why a library is not here."""
    try:
        nc.load(library, header=header)
    except nc.LibraryError as error:
        return str(error).splitlines()[0]
    return None


# The other ways show no fault of this package.
@pytest.mark.parametrize("way", sweep(WAYS, "nativecall"))
@pytest.mark.parametrize("name", EXPECTED)
def test_all_ways_print_the_same(name, way, forked):
    library, header, expected = EXPECTED[name]
    for module in ("cffi", "numpy"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    if header is not None and compiler() is None:
        pytest.skip("there is no C compiler")
    if why := missing(library, header):
        pytest.skip(why)
    printed = forked(RUN, PROGRAMS / name / f"by_{way}.py", timeout=120)
    # Python 3.14 leaves the word out.
    assert printed.replace("float division", "division") == expected
