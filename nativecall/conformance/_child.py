"""Run in the child process: load the module under test, check rules, and write the report."""

from __future__ import annotations

import importlib
import json
import pkgutil

from . import _rules


def main(role: str, place: str, tier2: str, report: str, *skip: str) -> None:
    """Check the rules of a role, and write the verdicts to the file `report`.

    Rules in `skip` already have a verdict, or were not requested. If `tier2` is not empty, the
    consumer under test reads only tier 2, not call tables.
    """
    with open(report, "a", encoding="utf-8") as file:
        try:
            thing = _load(role, place, bool(tier2))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            print(json.dumps({"fault": f"{place!r} cannot be loaded: {reason}"}), file=file)
            return
        _rules.go_through(role, thing, skip, file)


def _load(role: str, place: str, only_tier2: bool) -> object:
    """Return the object that the rules of a role check."""
    if role == "runtime":
        importlib.import_module(place)
        from . import _runtime

        return _runtime.Runtime(place)
    importlib.import_module("nativecall")  # first, so that it provides the runtime
    if ":" not in place[1:-1]:
        raise ValueError(f"the object must be given as MODULE:NAME (got {place!r})")
    found = pkgutil.resolve_name(place)
    if role == "provider":
        from . import _provider

        return _provider.Provider(found)
    from . import _consumer

    if not callable(found):
        raise TypeError(f"it must be a function (got {type(found).__name__})")
    return _consumer.Consumer(found, place, only_tier2=only_tier2)
