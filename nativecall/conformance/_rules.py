"""What a rule is, and how the rules of a role are gone through.

A rule is a function of the thing under test. It returns when the rule is kept, and raises `Broken`
with what was found when it is not, `Absent` when the thing has nothing that the rule is about.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any, TextIO, TypeAlias

    #: An object under test, or memory as cffi sees it: what attributes it has is what is checked.
    Foreign: TypeAlias = Any

#: Where the specification has the sections that rules name.
DOCUMENTS = {
    "docs/abi/README.md": ["Words"],
    "docs/abi/find.md": [
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


class Rule:
    """One rule of the specification.

    Attributes
    ----------
    role : str
        ``"provider"``, ``"consumer"`` or ``"runtime"``.
    name : str
    heading : str
        Of the section that has it.
    says : str
        The rule in a few words.
    check : callable
        Of the thing under test.
    """

    __slots__ = ("check", "heading", "name", "role", "says")

    def __init__(
        self, role: str, name: str, heading: str, says: str, check: Callable[[Foreign], None]
    ) -> None:
        self.role = role
        self.name = name
        self.heading = heading
        self.says = says
        self.check = check

    @property
    def document(self) -> str:
        return _DOCUMENT[self.heading]


#: All rules, in the order in which they are checked.
RULES: list[Rule] = []


def rule(
    role: str, name: str, heading: str, says: str
) -> Callable[[Callable[[Foreign], None]], Callable[[Foreign], None]]:
    """Make a rule of a function."""

    def make(check: Callable[[Foreign], None]) -> Callable[[Foreign], None]:
        RULES.append(Rule(role, name, heading, says, check))
        return check

    return make


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


def _shown(value: object) -> str:
    return hex(value) if type(value) is int and abs(value) > 65535 else repr(value)


def go_through(role: str, thing: Foreign, skip: Collection[str], report: TextIO) -> None:
    """Check the rules of a role, a line of JSON before and after each.

    Parameters
    ----------
    role : str
    thing : object
        What the rules' functions get.
    skip : collection of str
        Rules that have their verdict already.
    report : file
        Read by the parent process (`__main__`), also when this one ends in a crash.
    """
    for one in of(role):
        if one.name in skip:
            continue
        print(json.dumps({"rule": one.name}), file=report, flush=True)
        status, found = "kept", ""
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
