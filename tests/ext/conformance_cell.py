"""Tries single cells of the conformance matrix, each in a process of its own.

    python -I -S conformance_cell.py FOLDER LIBRARY [PATH ...]

reads a cell from each line of its input, as JSON: the consumer, the provider, and what is imported
in which order. It forks; the child imports the modules from FOLDER, tries everything that the
consumer can do with the provider's object, and reports what it saw, as JSON too. The parent has
imported nothing but what stands below, so what the child imports first is first in its process.

Without PATHs the package cannot be imported. LIBRARY exports the functions that the package wraps.
Nothing is judged here: test_conformance.py says what is expected.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import traceback
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

SIGNATURES = {"d:d": "square", "d:dddddddddddddddd": "add16", "q:q": "negate", "i:i": "is_odd"}
LITERALS = ("d:d", "q:q", "i:i", "f:f", "d:dd", "v:")  # what the consumers have a literal of
ABSENT = ("f:f", "d:dd", "v:", "q:qqqqqqqqqqqqqqqq", "no signature at all")
WAYS = ("offset", "slot", "function", "function_by_slot", "next", "word", "words", "api")
NEEDS_GIL, ERRORS, ALL = 1, 0x70, 0xFFFFFF
HOLDS_GIL = 1
SECONDS = 60  # after which a child is given up


def can_ask(way: str, signature: str) -> bool:
    """Whether a way can express a signature."""
    if way == "word":
        return signature in LITERALS
    return way != "words" or ":" in signature


class Provided:
    """The object of a provider.

    Parameters
    ----------
    module : ModuleType
        Of the provider, or the package.
    name : str
        Of the provider.
    library : str
        Path of the library with the functions.
    """

    def __init__(self, module: ModuleType, name: str, library: str) -> None:
        self.addresses: dict[str, int] = {}
        self.alive: Callable[[], bool]
        if name in ("callable", "view"):
            opened = module.load(library)
            functions = {s: opened.function(name, s) for s, name in SIGNATURES.items()}
            self.addresses = {s: f.address() for s, f in functions.items()}
            made = module.wrap({s: functions[s] for s in list(SIGNATURES)[:2]})
            made.add("q:q", functions["q:q"], gil="need")
            made.add("i:i", functions["i:i"], errors="nonzero")
            del opened, functions  # the callable keeps what it needs
            reference = weakref.ref(made)
            self.alive = lambda: reference() is not None
            self.object = made.builtin if name == "view" else made
            return
        self.addresses = module.ADDRESSES
        if name == "tier2-python":
            offers = {"__nativecall_api__": module.CAPSULE, "__call__": lambda self, x: x * x}
            self.object = type("Function", (), offers)()
            found = weakref.ref(self.object)
            self.alive = lambda: found() is not None
        else:
            self.object = module.Function()
            self.alive = lambda: module.live() > 0


def observe(consumer: ModuleType, provided: Provided) -> dict[str, Any]:
    """What a consumer sees of an object, addresses replaced by the signatures they belong to."""
    obj = provided.object
    names = {address: signature for signature, address in provided.addresses.items()}

    def find(way: str, signature: str, refuse: int, what: object = obj) -> Any:
        found = consumer.find(what, way, signature, refuse)
        return None if found is None else [found[0], names.get(found[1], "a stranger")]

    found = {
        way: {s: find(way, s, 0) for s in SIGNATURES if can_ask(way, s)}
        | {s: find(way, s, 0) for s in ABSENT if can_ask(way, s)}
        for way in WAYS
    }
    refused = {
        way: {
            f"{s} {mask:#x}": find(way, s, mask)
            for s in SIGNATURES
            for mask in (NEEDS_GIL, ERRORS, ALL)
            if can_ask(way, s)
        }
        for way in WAYS
    }
    others = (None, 1, "x", object(), type, type(obj), consumer, print, [].append, lambda x: x)
    strays = [
        [way, s, repr(other)]
        for way in WAYS
        for s in SIGNATURES
        for other in others
        if can_ask(way, s) and find(way, s, 0, other) is not None
    ]
    rows = consumer.entries(obj)
    return {
        "found": found,
        "refused": refused,
        "strays": strays + [repr(other) for other in others if consumer.entries(other) != []],
        "entries": [[s, flags, names.get(at, "a stranger")] for s, flags, at in rows],
        "total": {way: consumer.total(obj, way, 1.0, 3) for way in WAYS},
        "total16": {way: consumer.total16(obj, way, 1.0, 3) for way in WAYS if way != "word"},
        "negated": {way: consumer.negated(obj, way, 2**62) for way in WAYS},
        "python": obj(3.0),
        "integrate": [consumer.integrate(obj, 1.0, 3, options) for options in (0, HOLDS_GIL)],
        "a lambda": [
            consumer.integrate(lambda x: x * x, 1.0, 3, options) for options in (0, HOLDS_GIL)
        ],
    }


def raised(consumer: ModuleType) -> list[Any]:
    """The exception of a Python callback, and whether it is the one that was raised."""
    error = LookupError("of the callback")

    def f(x: float) -> float:
        raise error

    try:
        consumer.integrate(f, 1.0, 3, 0)
    except LookupError as caught:
        return [str(caught), caught is error]
    return []


def lifetime(consumer: ModuleType, provided: Provided) -> list[Any]:
    """Whether a callback keeps the object for as long as it is held, and no longer."""
    consumer.hold(provided.object)
    del provided.object
    gc.collect()
    seen = [provided.alive(), consumer.call_held(3.0)]
    consumer.let_go()
    gc.collect()
    return [*seen, provided.alive()]


def try_cell(consumer: str, provider: str, order: list[str], library: str) -> dict[str, Any]:
    """Import in the order given, and report."""
    source = {"callable": "nativecall", "view": "nativecall", "tier2-python": "tier2"}.get(provider)
    source = source or {"tier2-static": "tier2"}.get(provider, f"provider_{provider}")
    names = {
        "consumer": f"consumer_{consumer}".replace("-", "_").replace("+", "p"),
        "provider": source,
        "package": "nativecall",
    }
    modules = {}
    for step in order:
        try:
            modules[step] = importlib.import_module(names[step])
        except ModuleNotFoundError as error:
            return {"missing": [step, str(error)]}
    agreed = {id(modules["consumer"].metatype())}
    # None where nobody has brought a runtime: who only looks does not, nor does tier 2.
    agreed.add(id(getattr(sys.modules.get("_extensibletype"), "extensibletype_v1", None)))
    if "nativecall" in sys.modules:
        agreed.add(id(sys.modules["nativecall"].extensibletype))
    if hasattr(modules["provider"], "METATYPE"):
        agreed.add(id(modules["provider"].METATYPE))
    imported = "nativecall" in sys.modules
    if not imported:
        try:
            importlib.import_module("nativecall")
        except ModuleNotFoundError:
            pass
        else:
            return {"missing": ["nothing", "the package is there"]}

    provided = Provided(modules["provider"], provider, library)
    watched = [provided.object, type(provided.object), modules["consumer"], modules["provider"]]
    observe(modules["consumer"], provided)  # what is made once is made
    gc.collect()
    before = [sys.getrefcount(thing) for thing in watched]
    seen = observe(modules["consumer"], provided)
    gc.collect()
    after = [sys.getrefcount(thing) for thing in watched]
    del watched
    return {
        "package": imported,
        "metatypes": len(agreed),
        **seen,
        "raised": raised(modules["consumer"]),
        "references": [b - a for a, b in zip(before, after, strict=True)],
        "lifetime": lifetime(modules["consumer"], provided),
    }


def main() -> None:
    """Serve cells until the input ends."""
    folder, library, *paths = sys.argv[1:]
    sys.path[:0] = [folder, *paths]
    while line := sys.stdin.buffer.raw.readline():
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            signal.alarm(SECONDS)
            try:
                report = try_cell(**json.loads(line), library=library)
            except BaseException:
                report = {"exception": traceback.format_exc()}
            with open(writer, "w", encoding="utf-8") as file:
                json.dump(report, file)
            os._exit(0)
        os.close(writer)
        with open(reader, encoding="utf-8") as file:
            text = file.read()
        status = os.waitpid(child, 0)[1]
        if status != 0:
            text = json.dumps({"exit status": os.waitstatus_to_exitcode(status)})
        print(text, flush=True)


if __name__ == "__main__":
    main()
