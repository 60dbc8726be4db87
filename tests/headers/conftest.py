"""What tests of several headers share: a copy of the headers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def vendored(include, tmp_path_factory) -> Path:
    """A copy of the headers, as a project that bundles them would have it."""
    copy = tmp_path_factory.mktemp("vendored")
    shutil.copytree(include / "nativecall", copy / "nativecall")
    return copy
