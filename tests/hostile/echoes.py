"""Random signatures called both ways: what goes in comes out, bit by bit.

Most steps make a callback of a random signature and call it, so values pass both halves of the
generated code; some compile callees with the C compiler, the oracle of the suite's own random
signatures, of which a child makes a bounded number.
"""

from __future__ import annotations

import ctypes
import random
from pathlib import Path
from typing import Any

from driver import Finding, Tools

from support import build

GROWTH = 60_000
# Each step is another signature, so caches of signatures, types and code fill, whose bounds are
# 1024 entries and more: 109 KB a step from step 150 to 300, 65 to 450, 31 to 600.
WARM = 450
COMPILED = 40  # batches of a child at most
BATCH = 12  # signatures


def missing() -> str | None:
    return None


class World:
    def __init__(self, tools: Tools) -> None:
        import nativecall as nc
        from support import randomcalls

        self.nc = nc
        self.calls = randomcalls
        self.folder = tools.folder / f"echoes{random.SystemRandom().randrange(1 << 40)}"
        self.builder = build.Builder(self.folder)
        self.compiled = 0
        self.codes = [code for code in self.calls.C_TYPES if code != "e"]


def make(tools: Tools) -> World:
    return World(tools)


def step(world: World, r: random.Random) -> None:
    if r.random() < 0.02 and world.compiled < COMPILED:
        world.compiled += 1
        _compiled(world, r)
    else:
        _callback(world, r)


def _compiled(world: World, r: random.Random) -> None:
    """Callees of random signatures, called with random values."""
    calls = world.calls
    world.folder.mkdir(exist_ok=True)
    cases = [calls.Case(r.randrange(1 << 40), world.codes) for _ in range(BATCH)]
    known: dict[str, tuple[str, str]] = {}
    bodies = [case.write(known) for case in cases]
    types = [definition for _, definition in known.values()]
    prelude = calls.PRELUDE.replace("HALF", "")
    name = f"random{world.compiled}"
    path = world.builder.library(
        "\n".join([prelude, *types, *bodies]), name, flags=("-O1", "-Wno-unused-function")
    )
    lib = world.nc.load(path)
    raw = ctypes.CDLL(str(path))
    log = (ctypes.c_char * calls.BUFFER).in_dll(raw, "nc_log")
    given = (ctypes.c_char * calls.BUFFER).in_dll(raw, "nc_given")
    for case in cases:
        for way in ("generated", "builtin", "libffi"):
            try:
                calls.check(case, way, lib.address(case.name), log, given)
            except AssertionError as error:
                raise Finding(str(error)) from None
    Path(path).unlink()


def _callback(world: World, r: random.Random) -> None:
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
    way = r.choice(["generated", "generated", "libffi", "bound", "converted"])
    target = f
    values = [value for value, _ in pairs]
    if way == "libffi":
        f._choose("libffi")
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
