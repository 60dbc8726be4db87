"""What a rule is, and how the rules of a role are gone through.

A rule is a function of the thing under test. It returns when the rule is kept, and raises `Broken`
with what was found when it is not, `Absent` when the thing has nothing that the rule is about.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import TextIO, TypeVar

    #: An object under test, or memory as cffi sees it: what attributes it has is what is checked.
    from .._types import Foreign

    Check = TypeVar("Check", bound=Callable[[Foreign], object])

#: Where the specification has the sections that rules name.
DOCUMENTS = {
    "docs/conformance.md": ["Consumers"],
    "docs/abi/README.md": ["Words"],
    "docs/abi/find.md": [
        "Step 1: the runtime",
        "Step 2: extensible types",
        "Step 3: the call table",
        "Step 4: the entry",
        "Step 6: built-in views",
        'Step 7: types without the metaclass ("tier 2")',
        "What stays valid",
    ],
    "docs/abi/provide.md": [
        "Tier 2",
        "Keys",
        "Static types",
        "Heap types",
        "Python classes",
        "Call tables",
        "Flags",
        "Packed tables",
        "Built-in views",
        "Slots of single objects",
    ],
    "docs/abi/signatures.md": ["Canonical form", "The hash", "Interned strings"],
    "docs/abi/runtime.md": [
        "The handshake",
        "The registry",
        "Building a slot table",
        "Types",
        "Inheritance",
        "Changes of classes",
        "Threads and memory",
    ],
}
_DOCUMENT = {heading: document for document, names in DOCUMENTS.items() for heading in names}


class Broken(Exception):
    """What was found where a rule is broken."""


class Absent(Exception):
    """Why a rule has nothing to say about the thing under test."""


@dataclass(frozen=True)
class Rule:
    """One rule of the specification."""

    role: str  # "provider", "consumer" or "runtime"
    name: str
    heading: str  # of the section that has it
    says: str  # in a few words
    check: Callable[[Foreign], object]
    meanwhile: str  # what a message says of a process that ended during the check

    @property
    def document(self) -> str:
        return _DOCUMENT[self.heading]


#: All rules, in the order in which they are checked.
RULES: list[Rule] = []


def rules_of(
    role: str, part: Callable[[Foreign], Foreign] | None = None
) -> Callable[..., Callable[[Check], Check]]:
    """The decorator by which functions become rules of a role: `@rule(heading, says)`, and what
    a message says of a process that ended meanwhile.

    A rule has the name of its function, which is given the thing under test, or the `part` of it.
    """

    def rule(heading: str, says: str, meanwhile: str = "") -> Callable[[Check], Check]:
        def make(check: Check) -> Check:
            whole = check if part is None else lambda it: check(part(it))
            name = check.__name__.replace("_", "-")
            RULES.append(Rule(role, name, heading, says, whole, meanwhile))
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
_told = ""


def about(what: str) -> None:
    """Tell the report what is looked at now: a message names it where the process ends there."""
    global _told
    if _report is not None and what != _told:
        _told = what
        print(json.dumps({"about": what}), file=_report, flush=True)


def _shown(value: object) -> str:
    return hex(value) if type(value) is int and abs(value) > 65535 else repr(value)


def go_through(role: str, thing: Foreign, skip: Collection[str], report: TextIO) -> None:
    """Check the rules of a role, but for those in `skip`, which have their verdict.

    The report has a line of JSON before and after each: `__main__` reads it, also when this process
    ends in a crash.
    """
    global _report, _told
    _report = report
    for one in of(role):
        if one.name in skip:
            continue
        print(json.dumps({"rule": one.name}), file=report, flush=True)
        status, found, _told = "kept", "", ""
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


def attribute(obj: object, name: str) -> object:
    """An attribute of somebody's object, which may raise whatever it likes: None then."""
    try:
        return getattr(obj, name)
    except Exception:  # it is theirs
        return None
