"""The installed nativecall, not the source tree beside this package.

``python -m bench`` puts the repository root first on ``sys.path``, where ``nativecall/`` is the
source tree without its compiled core. What is to be measured is what was installed, so the root
leaves ``sys.path`` before nativecall is imported. An editable install is found either way, through
its import hook, and is named as such because it may check for a rebuild when imported.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent


class NotInstalled(Exception):
    """nativecall cannot be imported with its core; the message says why and what to do."""


def leave_source_tree() -> None:
    """Take the repository root out of ``sys.path``."""
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]


def is_editable() -> bool:
    """Say whether the installed nativecall is an editable install."""
    try:
        text = importlib.metadata.distribution("nativecall").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return False
    return text is not None and bool(json.loads(text).get("dir_info", {}).get("editable"))


def import_nativecall() -> ModuleType:
    """Import and return the installed nativecall.

    Raises
    ------
    NotInstalled
        Where there is none, or only a tree without a compiled core.
    """
    leave_source_tree()
    advice = 'run `pip install ".[bench]"` in the repository root'
    if importlib.util.find_spec("nativecall") is None:
        raise NotInstalled(
            f"nativecall is not installed in this environment; the source tree in {ROOT.name}/ "
            f"has no compiled core; {advice}"
        )
    try:
        return importlib.import_module("nativecall")
    except ImportError as error:
        raise NotInstalled(f"nativecall cannot be imported: {error}; {advice}") from error
