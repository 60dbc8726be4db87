"""Which C ABI this process has."""

from __future__ import annotations

import os
import sys
import sysconfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .abi import ABI


def here() -> ABI | None:
    """The C ABI of this process, None if it is none of those that are known.

    32-bit processes, big-endian ones and Windows on ARM have others.
    """
    if sys.maxsize < 2**32 or sys.byteorder != "little":
        return None
    if sys.platform == "win32":
        if sysconfig.get_platform() != "win-amd64":
            return None
        from .win64 import WIN64

        return WIN64
    machine = os.uname().machine.lower()
    if machine in ("x86_64", "amd64"):
        from .sysv import SYSV_X86_64

        return SYSV_X86_64
    if machine in ("aarch64", "arm64"):
        from .aapcs64 import AAPCS64, APPLE_ARM64

        return APPLE_ARM64 if sys.platform in ("darwin", "ios") else AAPCS64
    return None
