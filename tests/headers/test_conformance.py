"""The conformance matrix: every consumer meets every provider, in every order of imports.

    consumer    one source in C, as C99 and as C++11, and one in Cython; each against the installed
                headers and against a vendored copy
    provider    a callable of the package, its built-in view, an extension built with the installed
                headers or with a vendored copy, a static type and a Python class of tier 2
    order       consumer before provider or after it; the package first, in the middle, last, absent

Every cell is a process of its own (tests/ext/conformance_cell.py). In each, all that a consumer can
do is done: each way of finding a function, refused flags, misses, calls without the GIL, callbacks;
and the object must be referenced as often as before, and live as long as a callback holds it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from support import build
from support.levels import sweep

CONSUMERS = (
    *("c99-installed", "c99-vendored", "c++11-installed", "c++11-vendored"),
    *("cython-installed", "cython-vendored"),
)
PROVIDERS = ("callable", "view", "installed", "vendored", "tier2-static", "tier2-python")
ORDERS = (
    *("consumer provider", "provider consumer"),
    *("package consumer provider", "package provider consumer"),
    *("consumer package provider", "provider package consumer"),
    *("consumer provider package", "provider consumer package"),
)
CELLS = list(product(CONSUMERS, PROVIDERS, ORDERS))
#: Cells of the default level: each consumer meets each provider in two orders, and over these each
#: consumer and each provider meets every order.
KEPT = [
    (consumer, provider, ORDERS[(i + k + place) % 8])
    for i, consumer in enumerate(CONSUMERS)
    for k, provider in enumerate(PROVIDERS)
    for place in (0, 4)
]


def cell_id(cell: tuple[str, str, str]) -> str:
    consumer, provider, order = cell
    return f"{consumer}/{provider}/{order.replace(' ', '-')}"


def exists(provider: str, order: str) -> bool:
    """Where the package is absent, what the package provides is so too."""
    return "package" in order or provider not in ("callable", "view")


# -- what is built ---------------------------------------------------------------------------------


def module_name(consumer: str) -> str:
    return f"consumer_{consumer}".replace("-", "_").replace("+", "p")


@pytest.fixture(scope="module")
def modules(builder, include, vendored) -> Path:
    """A folder with all modules of the matrix."""
    headers = {"installed": include, "vendored": vendored}
    folder = builder.directory / "conformance"
    folder.mkdir()

    def make(cell: tuple[str, str]) -> Path:
        kind, which = cell
        if kind == "cython":
            name = module_name(f"cython-{which}")
            return builder.cython(
                build.EXT / "conformance_consumer.pyx",
                name,
                include=headers[which],
                flags=("-O0",),
                directory="conformance",
            )
        source, name, language = {
            "c99": ("conformance_consumer.c", module_name(f"c99-{which}"), "c"),
            "c++11": ("conformance_consumer.c", module_name(f"c++11-{which}"), "c++"),
            "provider": ("conformance_provider.c", f"provider_{which}", "c"),
            "tier2": ("conformance_tier2.c", "tier2", "c"),
        }[kind]
        return builder.extension(
            source, name, include=headers[which], language=language, directory="conformance"
        )

    sysconfig.get_config_vars()  # filled in at the first use, and not by two threads
    kinds = [*product(("cython", "c++11", "c99", "provider"), headers), ("tier2", "installed")]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for path in pool.map(make, kinds):
            assert path.parent == folder
            assert path.name.endswith(sysconfig.get_config_var("EXT_SUFFIX"))
    return folder


@pytest.fixture(scope="module")
def library(builder) -> Path:
    """The functions, for the package to wrap."""
    return builder.library(
        f'#define CONFORMANCE_LINKAGE\n#include "{build.EXT / "conformance_functions.h"}"\n',
        "conformance_functions",
    )


class Server:
    """A process that forks one for each cell."""

    def __init__(self, script: Path, *arguments: object) -> None:
        words = [sys.executable, "-I", "-S", "-W", "error", script, *arguments]
        self._process = subprocess.Popen(
            list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, **cell: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(cell) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the server ended with {self._process.wait()}"
        return json.loads(line)

    def close(self) -> None:
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0


@pytest.fixture(scope="module")
def servers(modules, library):
    """Servers without and with the package on their path."""
    paths = [path for path in sys.path if "site-packages" in path or "dist-packages" in path]
    made = {
        present: Server(build.EXT / "conformance_cell.py", modules, library, *paths[: 99 * present])
        for present in (False, True)
    }
    yield made
    for server in made.values():
        server.close()


# -- what is expected ------------------------------------------------------------------------------

FLAGS = {"d:d": 0, "d:dddddddddddddddd": 0, "q:q": 1, "i:i": 0x20}
SIGNATURE_16 = "d:dddddddddddddddd"
BY_ENTRY = ("offset", "slot", "next", "api")  # these tell flags
WAYS = (*BY_ENTRY, "function", "function_by_slot", "word", "words")
ABSENT = ("f:f", "d:dd", "v:", "q:qqqqqqqqqqqqqqqq", "no signature at all")


def expected(provider: str) -> dict[str, Any]:
    """What any consumer sees of a provider's object.

    Types of tier 2 have no call table, so every way but `api` finds nothing in them. That one finds
    nothing in the others, but for the package's callables, which have it for their specialize hook.
    """
    tier2 = provider.startswith("tier2")
    native = {way: tier2 or provider == "callable" if way == "api" else not tier2 for way in WAYS}

    def found(way: str, signature: str, refuse: int = 0) -> list[Any] | None:
        if not native[way] or FLAGS[signature] & refuse:
            return None
        return [FLAGS[signature] if way in BY_ENTRY else None, signature]

    def asked(way: str) -> list[str]:
        return [s for s in FLAGS if way != "word" or s != SIGNATURE_16]

    def absent(way: str) -> list[str]:
        if way == "word":
            return ["f:f", "d:dd", "v:"]
        return [s for s in ABSENT if way != "words" or ":" in s]

    return {
        "metatypes": 1,
        "found": {
            way: {s: found(way, s) for s in asked(way)} | dict.fromkeys(absent(way)) for way in WAYS
        },
        "refused": {
            way: {
                f"{s} {mask:#x}": found(way, s, mask)
                for s in asked(way)
                for mask in (1, 0x70, 0xFFFFFF)
            }
            for way in WAYS
        },
        "strays": [],
        "entries": [] if tier2 else [[s, flags, s] for s, flags in FLAGS.items()],
        "total": {way: 14.0 if native[way] else None for way in WAYS},
        "total16": {way: 96.0 if native[way] else None for way in WAYS if way != "word"},
        "negated": {way: -(2**62) if native[way] else None for way in WAYS},
        "python": 9.0,
        # value, native, the accepted signature
        "integrate": [[14.0, True, 0]] * 2,
        # Of the callback functions, the one with user_data is preferred.
        "a lambda": [[14.0, False, 1]] * 2,
        "raised": ["of the callback", True],
        "references": [0, 0, 0, 0],
        # while it is held: it lives, and is called; afterwards it is gone
        "lifetime": [True, 9.0, False],
    }


def test_the_matrix_is_whole():
    """288 cells; of 24 of them the only answer is that the provider is absent."""
    ids = {cell_id(cell) for cell in CELLS}
    assert len(ids) == len(CELLS) == 6 * 6 * 8
    pairs = [(one[a], one[b]) for one in KEPT for a, b in ((0, 1), (0, 2), (1, 2))]
    assert len(set(pairs)) == 6 * 6 + 6 * 8 + 6 * 8
    missing = [cell for cell in CELLS if not exists(*cell[1:])]
    assert len(missing) == 24
    assert {cell[1:] for cell in missing} == {
        ("callable", "consumer provider"),
        ("callable", "provider consumer"),
        ("view", "consumer provider"),
        ("view", "provider consumer"),
    }


@pytest.mark.parametrize(
    ("consumer", "provider", "order"), sweep(CELLS, *KEPT), ids=map(cell_id, CELLS)
)
def test_cell(servers, consumer, provider, order):
    server = servers["package" in order]
    seen = server(consumer=consumer, provider=provider, order=order.split())
    if not exists(provider, order):
        assert seen == {"missing": ["provider", "No module named 'nativecall'"]}
        return
    assert "metatypes" in seen, "\n".join(map(str, seen.values()))
    assert seen.pop("package") == ("package" in order)
    assert seen == expected(provider)
