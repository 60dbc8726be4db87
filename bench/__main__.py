"""``python -m bench``: builds the peers, measures, prints the tables and writes the JSON report."""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import goals, installed, machine, picture, worker
from bench.rows import Effort
from bench.section import Section

RESULTS = Path(__file__).resolve().parent / "results"


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, one process a section")
    parser.add_argument("--only", metavar="NAMES", help=f"of {','.join(worker.SECTIONS)}")
    parser.add_argument("--list", action="store_true", help="print the sections' methods and stop")
    parser.add_argument("--json", metavar="FILE", type=Path, help="where the JSON report goes")
    parser.add_argument(
        "--picture", metavar="FILE", type=Path, help="draw the programs of the run, as an SVG"
    )
    parser.add_argument(
        "--of",
        metavar="REPORT",
        type=Path,
        help="with --picture: only draw that report",
    )
    parser.add_argument("--seed", type=int, help="seed of the shuffling; random by default")
    options = parser.parse_args(argv)
    options.sections = options.only.split(",") if options.only else list(worker.SECTIONS)
    unknown = [name for name in options.sections if name not in worker.SECTIONS]
    if options.of and not options.picture:
        parser.error("argument --of: needs --picture FILE, where the picture goes")
    if unknown:
        known = ", ".join(worker.SECTIONS)
        parser.error(f"argument --only: unknown section '{unknown[0]}'; there are {known}")
    return options


def write_picture(target: Path, report: dict[str, Any]) -> None:
    """Draw the programs of a report."""
    try:
        target.write_text(picture.draw(report), encoding="utf-8")
    except ValueError as error:
        print(f"bench: {target} was not written: {error}", file=sys.stderr)


def run_section(name: str, effort: Effort) -> Section:
    """Measure a section in fresh processes and join their rounds."""
    module = importlib.import_module(f"bench.rows.{name}")
    joined: Section | None = None
    for number in range(module.processes(effort)):
        print(f"{name}: process {number + 1}", file=sys.stderr, flush=True)
        mode, seed = "quick" if effort.quick else "full", str(effort.seed + number)
        done = subprocess.run(
            [sys.executable, "-m", "bench.worker", name, mode, seed],
            cwd=installed.ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            reason = f"its process ended with status {done.returncode}; see its output above"
            return Section(name, module.METHOD, absent={f"section '{name}'": reason})
        section = Section.from_raw(json.loads(done.stdout))
        if joined is None:
            joined = section
        else:
            joined.merge(section)
    if joined is None:
        raise ValueError(f"'{name}' was given no process")
    if hasattr(module, "finish"):
        module.finish(joined, effort)
    return joined


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; the exit status is 1 where a section has no result, 2 without rich."""
    options = arguments(argv)
    if options.of:
        write_picture(options.picture, json.loads(options.of.read_text()))
        return 0
    installed.leave_source_tree()
    try:
        from rich.console import Console

        from bench import report
    except ImportError as error:
        print(f'bench: {error}; run `pip install ".[bench]"` first', file=sys.stderr)
        return 2
    console = Console(width=None if sys.stdout.isatty() else 132, emoji=False)
    if options.list:
        for name in options.sections:
            module = importlib.import_module(f"bench.rows.{name}")
            console.print(f"[bold]{name}[/]: {module.METHOD}", highlight=False)
        return 0
    try:
        installed.import_nativecall()
    except installed.NotInstalled as error:
        print(f"bench: {error}; the peers alone are measured", file=sys.stderr)
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    effort = Effort(options.quick, seed)
    sections = [run_section(name, effort) for name in options.sections]
    judged = goals.judge(sections)
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    described = {**machine.describe(), "seed": seed}
    target = options.json or RESULTS / f"{date.replace(':', '').partition('+')[0]}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    content = report.to_json(date, described, sections, judged, options.quick)
    target.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    if options.picture:
        write_picture(options.picture, content)
    report.print_report(console, described, sections, judged)
    console.print(f"report: {target}", highlight=False, markup=False)
    return 0 if all(section.groups or section.figures for section in sections) else 1


if __name__ == "__main__":
    sys.exit(main())
