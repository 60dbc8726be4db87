"""How C passes every type of a signature, in LLVM IR, by each ABI that is known.

    convention()             the C convention of this machine; None where that is not known
    known(convention)        the same, or a given one; Unsupported is raised where there is none
    convention.lower(result, args, fixed) -> Lowering
                             how one signature is passed, and the emission of calls and of entries

Each can be used on any machine, for code that is meant for another. See `lowering` for how values
are given.
"""

from __future__ import annotations

from ..._plan.aapcs64 import AAPCS64 as _AAPCS64
from ..._plan.aapcs64 import APPLE_ARM64 as _APPLE_ARM64
from ..._plan.abi import Unsupported, in_memory
from ..._plan.here import here
from ..._plan.sysv import SYSV_X86_64 as _SYSV_X86_64
from ..._plan.win64 import WIN64 as _WIN64
from .lowering import (
    MAX_ARGUMENTS,
    SYMBOLS,
    Callee,
    Convention,
    Lowering,
    Prologue,
    value_type,
)

__all__ = [
    "AAPCS64",
    "APPLE_ARM64",
    "MAX_ARGUMENTS",
    "SYMBOLS",
    "SYSV_X86_64",
    "WIN64",
    "WIN64_ELSEWHERE",
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

AAPCS64 = Convention(_AAPCS64)
APPLE_ARM64 = Convention(_APPLE_ARM64)
SYSV_X86_64 = Convention(_SYSV_X86_64)
WIN64 = Convention(_WIN64)
#: The same where it is not the target's own convention.
WIN64_ELSEWHERE = Convention(_WIN64, "win64cc")

_HERE = next((one for one in (SYSV_X86_64, AAPCS64, APPLE_ARM64, WIN64) if one.abi is here()), None)


def convention() -> Convention | None:
    """The C calling convention of this process, `None` if it is none of those here."""
    return _HERE


def known(wanted: Convention | None = None) -> Convention:
    """The convention that code is generated for, this machine's unless one is `wanted`;
    `Unsupported` is raised where that is not known.
    """
    found = convention() if wanted is None else wanted
    if found is None:
        raise Unsupported("the calling convention of this machine is not known")
    return found
