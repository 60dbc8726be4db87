"""``python -m nativecall.conformance``: checks a module against the specification.

Exit status: 0 when no rule is broken, 1 when one is, 2 for arguments that cannot be used.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .._cli import guarded
from .._cli.output import CommandError, Output
from . import _consumer, _looks, _provider, _rules, _runtime, _types, _unfit  # noqa: F401  # they register rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    Verdicts = dict[str, tuple[str, str]]

# Ctrl-C is told of by the process that waits for this one.
_QUIET = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
_CHILD = (
    _QUIET + _unfit.LOAD + "from nativecall_conformance import _child\n_child.main(*sys.argv[2:])\n"
)
_TICK = 0.1  # seconds between looks at the report
_SIGNS = {"kept": "✓", "broken": "✗", "absent": "·"}
_STYLES = {"kept": "good", "broken": "bad", "absent": "dim"}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m nativecall.conformance",
        description="Checks a module against the specification of the ABI (docs/abi): says of "
        "each rule whether it is kept, and where the specification has it. Exit status 1 when one "
        "is broken.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--provider",
        metavar="MODULE:OBJECT",
        help="check what an object, or an extensible type, offers native code",
    )
    what.add_argument(
        "--consumer",
        metavar="MODULE:FUNCTION",
        help="check what find(obj, signature, refuse), which gives an address or None, finds in "
        "providers of every kind",
    )
    what.add_argument(
        "--runtime",
        metavar="MODULE",
        help="import a module first, check the runtime that it brings, and what it does with "
        "others' runtimes",
    )
    parser.add_argument(
        "--rule",
        action="append",
        metavar="NAME",
        help="check this rule only; may be given several times",
    )
    parser.add_argument(
        "--on",
        metavar="MODULE",
        default="",
        help="of a provider or consumer: import this module first, and check on its runtime",
    )
    parser.add_argument(
        "--tier2",
        action="store_true",
        help="of a consumer: it finds by '__nativecall_api__' only, and reads no call table",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _status_of(command: Sequence[str], report: Path, done: Callable[[], None]) -> int:
    """Run a process, and call `done` for each verdict that comes into its report; its exit status.

    Raises
    ------
    subprocess.TimeoutExpired
        Where the process takes more than the limit; it is ended.
    """
    seen = 0
    deadline = time.monotonic() + _unfit.LIMIT
    # What the module prints is no part of the report.
    with subprocess.Popen(command, stdout=2) as process:
        try:
            while True:
                left = deadline - time.monotonic()
                try:
                    return process.wait(max(0.0, min(_TICK, left)))
                except subprocess.TimeoutExpired:
                    if left <= 0:
                        raise
                count = report.read_bytes().count(b'"status"')
                for _ in range(seen, count):
                    done()
                seen = count
        except BaseException:
            process.kill()
            raise


def _run(
    role: str, place: str, given: str, skip: Collection[str], done: Callable[[], None]
) -> tuple[Verdicts, str]:
    """What came of each rule, and whose runtime it was checked on; a rule during which the process
    ended is broken by that. `done` is called for each verdict while others are awaited.
    """
    found: Verdicts = {}
    runtime = ""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        while True:
            report.write_text("")
            command = [sys.executable, "-c", _CHILD, _unfit.FOLDER, role, place, given]
            ended = ""
            try:
                words = [*command, str(report), *skip, *found]
                code = _status_of(words, report, done)
                if code:
                    ended = f"the process ended with {_status(code)}"
            except subprocess.TimeoutExpired:
                ended = f"it takes more than {_unfit.LIMIT} seconds"
            started = about = ""
            for line in report.read_text(encoding="utf-8").splitlines():
                told = json.loads(line)
                if "fault" in told:
                    raise CommandError(told["fault"])
                runtime = told.get("runtime", runtime)
                about = told.get("about", "")
                if "rule" not in told:
                    continue
                started = told["rule"] if "status" not in told else ""
                if not started:
                    found[told["rule"]] = told["status"], told["found"]
            if not ended:
                return found, runtime
            if not started:
                raise CommandError(f"{place!r} cannot be checked: {ended}")
            more = next(one.meanwhile for one in _rules.of(role) if one.name == started)
            found[started] = (
                "broken",
                f"{ended} while this was checked{more}{about and ', '}{about}",
            )


def _skipped(role: str, wanted: list[str] | None) -> list[str]:
    """The rules of a role that are not asked for."""
    names = [one.name for one in _rules.of(role)]
    unknown = [name for name in wanted or () if name not in names]
    if unknown:
        raise CommandError(f"a {role} has no rule {unknown[0]!r}; it has {', '.join(names)}")
    return [name for name in names if wanted and name not in wanted]


def _status(code: int) -> str:
    if code < 0:
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            pass
    return f"status {code}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    return guarded("python -m nativecall.conformance", lambda said: _checked(argv))


def _checked(argv: Sequence[str] | None) -> int:
    options = _parser().parse_args(argv)
    role = next(one for one in ("provider", "consumer", "runtime") if getattr(options, one))
    place = getattr(options, role)
    output = Output()
    if (options.on and role == "runtime") or (options.tier2 and role != "consumer"):
        raise CommandError(f"a {role} has no option {'--on' if options.on else '--tier2'}")
    given = json.dumps({"on": options.on, "tier2": options.tier2})
    skip = _skipped(role, options.rule)
    with output.working(f"checking {place}", len(_rules.of(role)) - len(skip)) as done:
        verdicts, runtime = _run(role, place, given, skip, done)
    rules = [(one, *verdicts[one.name]) for one in _rules.of(role) if one.name in verdicts]
    broken = len([status for _, status, _ in rules if status == "broken"])
    if options.json:
        told = [
            {
                "rule": one.name,
                "says": one.says,
                "status": status,
                "found": found,
                "document": one.document,
                "heading": one.heading,
            }
            for one, status, found in rules
        ]
        report = {role: place, "on": runtime, "broken": broken, "rules": told}
        print(json.dumps(report, indent=1))
        return 1 if broken else 0
    output.heading(f"{place} as a {role}" + (f", on the runtime of {runtime}" if runtime else ""))
    shown = rules
    if broken == 1 and all([status != "kept" for _, status, _ in rules]):
        shown = [one for one in rules if one[1] == "broken"]  # the others have nothing to look at
    width = max([len(one.name) for one, _, _ in shown])
    for one, status, found in shown:
        where = f"({one.document}, {one.heading!r})"
        output.text(f"{_SIGNS[status]} {one.name:{width}}  {one.says} {where}", _STYLES[status])
        if found:
            output.text(f"  {'':{width}}  {found}", _STYLES[status])
    if len(shown) < len(rules):
        text = f"{_SIGNS['absent']} the other {len(rules) - len(shown)} have nothing to check"
        output.text(text, _STYLES["absent"])
    output.space()
    kept = len([status for _, status, _ in rules if status == "kept"])
    verdict = f"{broken} broken" if broken else "none is broken"
    output.text(f"{kept} of {len(rules)} rules are kept, {verdict}", "bad" if broken else "good")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
