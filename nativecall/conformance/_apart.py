"""Start the child processes of the kit, with a time limit."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

#: Code for `python -c` that loads the core and the kit without the package (see __init__.py).
LOAD = """
import importlib.util as util, os, sys
sys.path.insert(0, os.getcwd())  # as `python -m` does
core, *folders = sys.argv[1].split("\\n")
kit = folders[0] + "/__init__.py"
needed = ("nativecall._core", core, None), ("nativecall_conformance", kit, folders)
for name, file, inside in needed:
    if name not in sys.modules:
        spec = util.spec_from_file_location(name, file, submodule_search_locations=inside)
        module = sys.modules[name] = util.module_from_spec(spec)
        spec.loader.exec_module(module)
"""


_SPECS = map(importlib.util.find_spec, ("nativecall._core", f"{__package__}._providers"))
_CORE, _PROVIDERS = [one.origin if one is not None and one.origin else "" for one in _SPECS]
#: The first argument of a child process: the core's file, the kit's directory and its C providers'
#: directory, one per line. In an editable installation, these two directories differ.
FOLDER = "\n".join(dict.fromkeys([_CORE, *map(os.path.dirname, (__file__, _PROVIDERS))]))
#: Time limit of a process, in seconds.
LIMIT = 120


def run(module: str, place: str) -> tuple[str, str]:
    """Run `main(place)` of a kit module in a new process.

    Return how the process failed (``""`` if it succeeded), and the last line that it printed.
    """
    code = f"{LOAD}from nativecall_conformance import {module}\n{module}.main(sys.argv[2])\n"
    command = [sys.executable, "-c", code, FOLDER, place]
    limit = LIMIT // 2  # the parent process has a limit, too
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"it takes more than {limit} seconds", ""
    ended = f"the process ended with {done.returncode}: {done.stderr[-200:]}"
    return ended if done.returncode else "", (done.stdout.splitlines() or [""])[-1]
