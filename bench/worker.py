"""A process that measures one section and prints it as JSON; started by `bench.__main__`.

    python -m bench.worker SECTION QUICK SEED
    python -m bench.worker counted               the loops to be counted by callgrind
    python -m bench.worker first                 first calls of many signatures
    python -m bench.worker scaled LINE COUNT     so many items of a line of "scaling"

Where the operating system can, a section of nanoseconds runs pinned to the last CPU it may use.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from bench import installed
from bench.rows import Effort

PINNED = (
    "calls",
    "overloads",
    "generated",
    "callbacks",
    "thunks",
    "ufuncs",
    "jitted",
    "making",
    "programs",
    "lookup",
)
MODULES = {
    "calls": "calls",
    "overloads": "overloads",
    "generated": "generated",
    "callbacks": "callbacks",
    "thunks": "thunks",
    "ufuncs": "ufuncs",
    "jitted": "jitted",
    "making": "making",
    "programs": "programs",
    "clibraries": "clibraries",
    "scaling": "scaling",
    "lookup": "lookup",
    "objects": "objects",
    "build": "building",
    "intern": "interning",
    "import": "importing",
    "headers": "headers",
}


def pin() -> None:
    """Pin this process to one CPU, the last of those it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main(arguments: list[str]) -> None:
    """Measure what the arguments name."""
    installed.leave_source_tree()
    if arguments == ["counted"]:
        importlib.import_module("bench.rows.lookup").run_counted()
        return
    if arguments == ["first"]:
        json.dump(importlib.import_module("bench.rows.generated").run_first(), sys.stdout)
        return
    if arguments[0] == "scaled":
        importlib.import_module("bench.rows.scaling").run(arguments[1], int(arguments[2]))
        return
    name, quick, seed = arguments
    if name in PINNED:
        pin()
    module = importlib.import_module(f"bench.rows.{MODULES[name]}")
    section = module.measure(Effort(quick == "quick", int(seed)))
    json.dump(section.to_raw(), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
