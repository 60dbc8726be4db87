"""How C passes every type of a signature, on each platform that generated code knows.

    convention()             the C convention of this machine; None where libffi is used instead
    known(convention)        the same, or a given one; Unsupported is raised where there is none
    convention.lower(result, args, fixed) -> Lowering
                             how one signature is passed, and the emission of calls and of entries

The conventions themselves, each from a module of its own, can be used on any machine, for code that
is meant for another. See `lowering` for how values are given.
"""

from __future__ import annotations

import os
import sys
import sysconfig

from ..engine import Unsupported
from .aapcs64 import AAPCS64, APPLE_ARM64
from .lowering import (
    MAX_ARGUMENTS,
    SYMBOLS,
    Callee,
    Convention,
    Lowering,
    Prologue,
    in_memory,
    value_type,
)
from .sysv import SYSV_X86_64
from .win64 import WIN64

__all__ = [
    "AAPCS64",
    "APPLE_ARM64",
    "MAX_ARGUMENTS",
    "SYMBOLS",
    "SYSV_X86_64",
    "WIN64",
    "Callee",
    "Convention",
    "Lowering",
    "Prologue",
    "Unsupported",
    "convention",
    "in_memory",
    "known",
    "value_type",
]


def convention() -> Convention | None:
    """The C calling convention of this process, `None` if it is none of those here.

    32-bit processes, big-endian ones and Windows on ARM have others.
    """
    if sys.maxsize < 2**32 or sys.byteorder != "little":
        return None
    if sys.platform == "win32":
        return WIN64 if sysconfig.get_platform() == "win-amd64" else None
    machine = os.uname().machine.lower()
    if machine in ("x86_64", "amd64"):
        return SYSV_X86_64
    if machine in ("aarch64", "arm64"):
        return APPLE_ARM64 if sys.platform in ("darwin", "ios") else AAPCS64
    return None


_HERE = convention()


def known(wanted: Convention | None = None) -> Convention:
    """The convention that code is generated for, this machine's unless one is `wanted`;
    `Unsupported` is raised where that is not known.
    """
    found = _HERE if wanted is None else wanted
    if found is None:
        raise Unsupported("the calling convention of this machine is not known")
    return found
