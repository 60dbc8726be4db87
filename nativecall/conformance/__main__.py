"""``python -m nativecall.conformance``: check a module against the specification.

Exit status: 0 if no rule is violated, 1 if a rule is violated, 2 for invalid arguments.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

from .._output import CommandError, Output, guarded
from . import _apart, _consumer, _provider, _rules, _runtime  # noqa: F401  # register rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    Verdicts = dict[str, tuple[str, str]]

# Only the parent process reports Ctrl-C.
_QUIET = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
_CHILD = (
    _QUIET + _apart.LOAD + "from nativecall_conformance import _child\n_child.main(*sys.argv[2:])\n"
)
_SIGNS = {"kept": "✓", "broken": "✗", "absent": "·"}
_STYLES = {"kept": "good", "broken": "bad", "absent": "dim"}


#: The metavariable and the help text of each role's option.
_ROLES = {
    "provider": ("MODULE:OBJECT", "check what an object, or an extensible type, offers"),
    "consumer": (
        "MODULE:FUNCTION",
        "check what find(obj, signature, refuse), which gives an address or None, finds",
    ),
    "runtime": ("MODULE", "import a module first, and check the runtime that it brings"),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m nativecall.conformance",
        description="Check a module against the ABI (docs/abi), rule by rule. Exit status 1 when "
        "one is broken.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    for role, (metavar, does) in _ROLES.items():
        what.add_argument(f"--{role}", metavar=metavar, help=does)
    only = "check this rule only; may be given several times"
    parser.add_argument("--rule", action="append", metavar="NAME", help=only)
    only = "of a consumer: it finds by '__nativecall_api__' only, and reads no call table"
    parser.add_argument("--tier2", action="store_true", help=only)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _status_of(command: Sequence[str]) -> int:
    """Run a process; return its exit status."""
    # The module's output goes to stderr, since it is not part of the report.
    return subprocess.run(command, stdout=2, timeout=_apart.LIMIT, check=False).returncode


def _run(role: str, place: str, tier2: bool, skip: Collection[str]) -> Verdicts:
    """Return the verdict on each rule; a crash counts as a violation of the current rule."""
    found: Verdicts = {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        while True:
            report.write_text("")
            command = [sys.executable, "-c", _CHILD, _apart.FOLDER, role, place]
            command += ["tier 2" if tier2 else "", str(report), *skip, *found]
            ended = ""
            try:
                code = _status_of(command)
                if code:
                    ended = f"the process ended with {_status(code)}"
            except subprocess.TimeoutExpired:
                ended = f"it takes more than {_apart.LIMIT} seconds"
            last: dict[str, str] = {}
            for line in report.read_text(encoding="utf-8").splitlines():
                last = json.loads(line)
                if "fault" in last:
                    raise CommandError(last["fault"])
                if "status" in last:
                    found[last["rule"]] = last["status"], last["found"]
            if not ended:
                return found
            if not last or "status" in last:
                raise CommandError(f"{place!r} cannot be checked: {ended}")
            about = f", {last['about']}" if "about" in last else ""
            found[last["rule"]] = "broken", f"{ended} while this was checked{about}"


def _skipped(role: str, wanted: list[str] | None) -> list[str]:
    """Return the rules of a role that were not requested."""
    names = [one.name for one in _rules.of(role)]
    unknown = [name for name in wanted or () if name not in names]
    if unknown:
        raise CommandError(f"a {role} has no rule {unknown[0]!r}; it has {', '.join(names)}")
    return [name for name in names if wanted and name not in wanted]


def _status(code: int) -> str:
    with suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"status {code}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    return guarded("python -m nativecall.conformance", lambda said: _checked(argv))


def _checked(argv: Sequence[str] | None) -> int:
    options = _parser().parse_args(argv)
    role = next(one for one in _ROLES if getattr(options, one))
    place = getattr(options, role)
    output = Output()
    if options.tier2 and role != "consumer":
        raise CommandError(f"a {role} has no option --tier2")
    skip = _skipped(role, options.rule)
    verdicts = _run(role, place, options.tier2, skip)
    rules = [one for one in _rules.of(role) if one.name in verdicts]
    count = Counter([status for status, _ in verdicts.values()])
    if options.json:
        told = [one.told(*verdicts[one.name]) for one in rules]
        print(json.dumps({role: place, "broken": count["broken"], "rules": told}, indent=1))
        return 1 if count["broken"] else 0
    output.heading(f"{place} as a {role}")
    width = max([len(one.name) for one in rules])
    for one in rules:
        status, found = verdicts[one.name]
        numbers = f"({', '.join(one.requirements)})"
        output.text(f"{_SIGNS[status]} {one.name:{width}}  {one.says} {numbers}", _STYLES[status])
        if found:
            output.text(f"  {'':{width}}  {found}", _STYLES[status])
    output.space()
    verdict = f"{count['broken']} broken" if count["broken"] else "none is broken"
    style = "bad" if count["broken"] else "good"
    output.text(f"{count['kept']} of {len(rules)} rules are kept, {verdict}", style)
    return 1 if count["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
