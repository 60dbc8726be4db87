"""Random signatures called both ways: what goes in comes out, bit by bit.

A step makes a callback of a random signature and calls it, so values pass both halves of the
generated code. test_random_signatures.py calls compiled C functions of such signatures.
"""

from __future__ import annotations

import random
from typing import Any

from driver import Finding, Tools

GROWTH = 60_000
# Each step is another signature, so caches of signatures, types and code fill, whose bounds are
# 1024 entries and more: 109 KB a step from step 150 to 300, 65 to 450, 31 to 600.
WARM = 450


def missing() -> str | None:
    return None


class World:
    def __init__(self, tools: Tools) -> None:
        import nativecall as nc
        from support import randomcalls

        self.nc = nc
        self.calls = randomcalls
        self.codes = [code for code in self.calls.C_TYPES if code != "e"]


def make(tools: Tools) -> World:
    return World(tools)


def step(world: World, r: random.Random) -> None:
    """A callback of a random signature, called from Python."""
    nc, calls = world.nc, world.calls
    case = calls.Case(r.randrange(1 << 40), world.codes)
    if case.variadic:
        return
    args = [arg for arg in case.args if not isinstance(arg, calls.View)]
    result = case.result
    head = "v" if result is None else result.text
    text = f"{head}:{''.join(arg.text for arg in args)}"
    pairs = [arg.draw(r) for arg in args]
    answer = None if result is None else result.draw(r)[0]
    seen: list[Any] = []

    def run(*values: Any) -> Any:
        seen.append(values)
        return answer

    try:
        f = nc.callback(text, run)
    except nc.SignatureError:
        return
    way = r.choice(["called", "plan", "bound", "converted"])
    target = f
    values = [value for value, _ in pairs]
    if way == "plan":
        f._unwrap()
    try:
        if way == "bound" and values and "O" not in text:
            n = r.randrange(len(values) + 1)
            got = target.bind(*values[:n])(*values[n:])
        elif way == "converted" and "O" not in text:
            got = target.convert(text + "P")(*values, None)
        else:
            got = target(*values)
    except nc.SignatureError:
        return
    if len(seen) != 1:
        raise Finding(f"{way}: {text!r} was called {len(seen)} times")
    for arg, value, arrived in zip(args, values, seen[0], strict=True):
        if not arg.same(arrived, value):
            raise Finding(f"{way}: {text!r}: {arg.text} arrived as {arrived!r}, not {value!r}")
    right = got is None if result is None else result.same(got, answer)
    if not right:
        raise Finding(f"{way}: the result of {text!r} is {got!r}, not {answer!r}")
