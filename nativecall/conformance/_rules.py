"""Register and run the conformance rules of each role.

A rule is a function of the thing under test. If the thing conforms, the rule returns; otherwise it
raises `Broken` with the finding. If the rule does not apply to the thing, it raises `Absent`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import TextIO, TypeVar

    #: An object under test, or memory read through cffi; its attributes are not known statically.
    from .._ext import Foreign

    Check = TypeVar("Check", bound=Callable[[Foreign], object])


class Broken(Exception):
    """Raised with the finding if a rule is violated."""


class Absent(Exception):
    """Raised with the reason if a rule does not apply to the thing under test."""


@dataclass(frozen=True)
class Rule:
    """One rule of the specification."""

    role: str  # "provider", "consumer" or "runtime"
    name: str
    requirements: list[str]  # the numbers of what it checks: "F17" in docs/abi/find.md
    says: str  # summary
    check: Callable[[Foreign], object]

    def told(self, status: str, found: str) -> dict[str, object]:
        """Return the verdict as plain data, for JSON."""
        told = {"rule": self.name, "says": self.says, "status": status, "found": found}
        return {**told, "requirements": self.requirements}


#: All rules, in the order of checking.
RULES: list[Rule] = []


def rules_of(
    role: str, part: Callable[[Foreign], Foreign] | None = None
) -> Callable[..., Callable[[Check], Check]]:
    """Return the decorator for the rules of a role: `@rule("F15 F17", says)`.

    A rule is named after its function. The function takes the thing under test or, with `part`, the
    result of `part(thing)`.
    """

    def rule(requirements: str, says: str) -> Callable[[Check], Check]:
        def make(check: Check) -> Check:
            whole = check if part is None else lambda it: check(part(it))
            name = check.__name__.replace("_", "-")
            RULES.append(Rule(role, name, requirements.split(), says, whole))
            return check

        return make

    return rule


def of(role: str) -> list[Rule]:
    """Return the rules of a role."""
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
    """Return a name with its indefinite article."""
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"


_report: TextIO | None = None
_rule = ""


def about(what: str) -> None:
    """Report what is being checked, so that a message can name it if the process crashes."""
    if _report is not None:
        print(json.dumps({"rule": _rule, "about": what}), file=_report, flush=True)


def _shown(value: object) -> str:
    return hex(value) if type(value) is int and abs(value) > 65535 else repr(value)


def go_through(role: str, thing: Foreign, skip: Collection[str], report: TextIO) -> None:
    """Check the rules of a role, except those in `skip`.

    This writes a line of JSON to the report before and after each rule, so that `__main__` can
    identify a rule that crashed.
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
