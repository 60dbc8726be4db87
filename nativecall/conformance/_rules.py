"""Rules, and how the rules of a role are run.

A rule is a function of the thing under test. It returns if the thing conforms. It raises `Broken`,
with what was found, if not, and `Absent` if the thing has nothing that the rule covers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import TextIO, TypeVar

    #: An object under test, or memory as cffi sees it: what attributes it has is what is checked.
    from .._ext import Foreign

    Check = TypeVar("Check", bound=Callable[[Foreign], object])


class Broken(Exception):
    """What was found where a rule is broken."""


class Absent(Exception):
    """Why a rule has nothing to say about the thing under test."""


@dataclass(frozen=True)
class Rule:
    """One rule of the specification."""

    role: str  # "provider", "consumer" or "runtime"
    name: str
    document: str  # that has it
    heading: str  # of the section
    says: str  # in a few words
    check: Callable[[Foreign], object]

    def told(self, status: str, found: str) -> dict[str, str]:
        """What came of it, for JSON."""
        told = {"rule": self.name, "says": self.says, "status": status, "found": found}
        return {**told, "document": self.document, "heading": self.heading}


#: All rules, in the order in which they are checked.
RULES: list[Rule] = []


def rules_of(
    role: str, part: Callable[[Foreign], Foreign] | None = None
) -> Callable[..., Callable[[Check], Check]]:
    """The decorator by which functions become rules of a role: `@rule("document, heading", says)`.

    A rule has the name of its function, which is given the thing under test, or the `part` of it.
    """

    def rule(where: str, says: str) -> Callable[[Check], Check]:
        def make(check: Check) -> Check:
            whole = check if part is None else lambda it: check(part(it))
            name = check.__name__.replace("_", "-")
            document, _, heading = where.partition(", ")
            RULES.append(Rule(role, name, f"docs/{document}", heading, says, whole))
            return check

        return make

    return rule


def of(role: str) -> list[Rule]:
    """The rules of a role."""
    return [one for one in RULES if one.role == role]


def check(condition: object, found: str) -> None:
    """Raise `Broken` unless a condition holds."""
    if not condition:
        raise Broken(found)


def same(found: object, wanted: object, what: str) -> None:
    """Raise `Broken` unless two things are equal."""
    if found != wanted:
        raise Broken(f"{what} is {_shown(found)}, not {_shown(wanted)}")


def a(name: str) -> str:
    """A name with its article."""
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"


_report: TextIO | None = None
_rule = ""


def about(what: str) -> None:
    """Tell the report what is looked at now: a message names it where the process ends there."""
    if _report is not None:
        print(json.dumps({"rule": _rule, "about": what}), file=_report, flush=True)


def _shown(value: object) -> str:
    return hex(value) if type(value) is int and abs(value) > 65535 else repr(value)


def go_through(role: str, thing: Foreign, skip: Collection[str], report: TextIO) -> None:
    """Check the rules of a role, but for those in `skip`, which have their verdict.

    The report has a line of JSON before and after each: `__main__` reads it, also when this process
    ends in a crash.
    """
    global _report, _rule
    _report = report
    for one in of(role):
        if one.name in skip:
            continue
        print(json.dumps({"rule": one.name}), file=report, flush=True)
        status, found, _rule = "kept", "", one.name
        try:
            one.check(thing)
        except Broken as error:
            status, found = "broken", str(error)
        except Absent as error:
            status, found = "absent", str(error)
        except Exception as error:
            status, found = "broken", f"{type(error).__name__}: {error}"
        verdict = {"rule": one.name, "status": status, "found": found}
        print(json.dumps(verdict), file=report, flush=True)
