"""What tests of several headers share: a copy of the headers, and a provider that is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support import build


@pytest.fixture(scope="session")
def vendored(include, tmp_path_factory) -> Path:
    """A copy of the headers, as a project that bundles them would have it."""
    copy = tmp_path_factory.mktemp("vendored")
    shutil.copytree(include / "nativecall", copy / "nativecall")
    return copy


@pytest.fixture(scope="session")
def bad(builder, include):
    """The module of tests/ext/badinput.c: tables that no function of ours makes."""
    return build.load_extension(builder.extension("badinput.c", "bad_input", include=include))
