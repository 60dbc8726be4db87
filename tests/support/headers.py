"""Helpers for tests of headers: C and C++ compilers, and a count of calls of Python."""

import shutil
import sys

import pytest

REFUSED = "the GIL is not held"  # the text of NC_E_GIL


def events(work):
    """Count the events that a profiler sees: each call of Python or into C, and each return."""
    seen = []
    sys.setprofile(lambda frame, event, argument: seen.append(event))
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(seen)


def compiler(command):
    names = {"gcc": ["gcc"], "clang": ["clang", "clang-14"]}[command]
    found = next((name for name in names if shutil.which(name)), None)
    if found is None:
        pytest.skip(f"no {command}")  # a second opinion, where available
    return found
