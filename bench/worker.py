"""A process that measures one section and prints it as JSON; started by `bench.__main__`.

    python -m bench.worker SECTION QUICK SEED
    python -m bench.worker counted               the loops to be counted by callgrind
    python -m bench.worker calls-once            first calls of many signatures
    python -m bench.worker alone PATH QUICK SEED misses without nativecall

Where the operating system can, a section runs pinned to the last CPU it may use.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from bench import installed
from bench.rows import Effort

SECTIONS = ("calls", "values", "first", "making", "programs", "lookup")


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
    if arguments == ["calls-once"]:
        json.dump(importlib.import_module("bench.rows.first").run_first(), sys.stdout)
        return
    pin()
    if arguments[0] == "alone":
        json.dump(
            importlib.import_module("bench.rows.lookup").run_alone(*arguments[1:]), sys.stdout
        )
        return
    name, quick, seed = arguments
    module = importlib.import_module(f"bench.rows.{name}")
    section = module.measure(Effort(quick == "quick", int(seed)))
    json.dump(section.to_raw(), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
