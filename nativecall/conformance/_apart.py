"""Processes of the kit's own: what they load, how long they may take, and what they tell."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

#: `python -c` with this loads the kit without the package (see __init__.py).
LOAD = """
import importlib.util as util, sys
folders = sys.argv[1].split("\\n")
spec = util.spec_from_file_location(
    "nativecall_conformance", folders[0] + "/__init__.py", submodule_search_locations=folders
)
module = sys.modules[spec.name] = util.module_from_spec(spec)
spec.loader.exec_module(module)
"""


def _folders() -> str:
    """The folder of the kit, and that of its C providers, another one in an editable installation:
    lines."""
    compiled = importlib.util.find_spec(f"{__package__}._providers")
    files = [__file__, compiled.origin if compiled is not None else None]
    return "\n".join(dict.fromkeys([os.path.dirname(file) for file in files if file]))


#: What it is told of.
FOLDER = _folders()
#: Seconds that a process of the kit may take.
LIMIT = 120


def run(module: str, place: str) -> tuple[str, str]:
    """Run `main(place)` of a module of the kit in a process of its own: how that ended, if not
    well, and the last line that it printed."""
    code = f"{LOAD}from nativecall_conformance import {module}\n{module}.main(sys.argv[2])\n"
    command = [sys.executable, "-c", code, FOLDER, place]
    limit = LIMIT // 2  # the process that waits for it has a limit, too
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"it takes more than {limit} seconds", ""
    ended = f"the process ended with {done.returncode}: {done.stderr[-200:]}"
    return ended if done.returncode else "", (done.stdout.splitlines() or [""])[-1]
