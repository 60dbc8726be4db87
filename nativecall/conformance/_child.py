"""The process in which rules are checked: loads the module under test, and writes the report."""

from __future__ import annotations

import importlib
import json
import os
import sys

from . import _abi, _rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types import Foreign


def main(role: str, place: str, given: str, report: str, *skip: str) -> None:
    """Check the rules of a role for what the user named, but for those in `skip`, which have their
    verdict; the report goes to a file. The options `given` are JSON; docs/conformance.md has them.
    """
    # As for `python -m`, modules of the present directory count.
    sys.path.insert(0, os.getcwd())
    with open(report, "a", encoding="utf-8") as file:
        try:
            thing = _load(role, place, json.loads(given))
        except Exception as error:
            reason = str(error) if type(error).__name__ == "CommandError" else _told(error)
            print(json.dumps({"fault": f"{place!r} cannot be loaded: {reason}"}), file=file)
            return
        print(json.dumps({"runtime": _brought_by(thing)}), file=file, flush=True)
        _rules.go_through(role, thing, skip, file)


def _brought_by(thing: Foreign) -> str:
    """Whose runtime the rules are checked on; empty where there is none that can be asked."""
    if getattr(thing, "module", thing) is None:
        return ""  # the module has brought none; that of nativecall is not what is checked
    try:
        provider = _abi.runtime().provider
        return _abi.ffi.string(provider).decode() if provider else ""
    except Exception:
        return ""


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _load(role: str, place: str, given: dict[str, Foreign]) -> Foreign:
    """What the rules of a role are functions of."""
    if role == "runtime":
        importlib.import_module(place)
        from . import _runtime, _types  # noqa: F401  # `_types` registers rules

        return _runtime.Runtime(place)
    if given["on"]:
        importlib.import_module(given["on"])
    import nativecall  # noqa: F401  # its runtime, unless that module has brought one
    from nativecall._cli.place import find

    found: Foreign = find(place)
    if role == "provider":
        from . import _provider

        return _provider.Provider(found)
    from . import _consumer, _looks  # noqa: F401  # `_looks` registers rules

    if not callable(found):
        raise TypeError(f"it is no function (got {type(found).__name__})")
    return _consumer.Consumer(found, place, only_tier2=given["tier2"])
