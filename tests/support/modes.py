"""Capabilities of the Python and the package under test, and marks for tests that need them."""

from __future__ import annotations

import os
import sys

import pytest

from nativecall._codegen import engine

# A debug build of CPython needs more of the C stack. It aborts if C code returns with an unnoticed
# exception set.
DEBUG = hasattr(sys, "gettotalrefcount")
SCALE = 2 if DEBUG else 1

at_full_size = pytest.mark.skipif(
    DEBUG or "NATIVECALL_TEST_SANITIZED" in os.environ,
    reason="tables of 65,536 rows take long to fill, and other builds fill them",
)

GENERATED = engine.available()
REFUSED = f"no generated code: {engine.reason()}"

generated = pytest.mark.skipif(not GENERATED, reason=REFUSED)
generates = pytest.mark.skipif(
    os.environ.get("NATIVECALL_JIT") == "0",
    reason="generates code, which NATIVECALL_JIT=0 forbids",
)


def assembly(text: str, *, optimized: bool = True) -> str:
    """Return the assembly that LLVM generates from a module of IR."""
    machine, missing = engine._start()
    assert machine is not None, missing
    with machine.module(text, optimized) as module:
        made: str = machine.target.emit_assembly(module)
        return made
