"""Runs the benchmark's own C programs, each of which prints one JSON object."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from bench.peers import build


class ProgramError(Exception):
    """A program could not be built, failed, or printed no JSON; the message says which."""


def run(name: str, *arguments: int) -> dict[str, Any]:
    """Build and run ``bench/c/<name>.c``, with iterations first, and return what it printed."""
    try:
        directory = build.built(name)
    except build.BuildError as error:
        raise ProgramError(str(error)) from error
    command = [str(directory / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        printed = json.loads(done.stdout)
    except ValueError as error:
        raise ProgramError(f"{name}: exit {done.returncode}: {done.stderr.strip()}") from error
    if done.returncode != 0:
        raise ProgramError(f"{name}: exit {done.returncode}: {done.stdout.strip()}")
    return dict(printed)
