"""Building blocks of call plans and closure plans.

`step` and `joined` pack the steps and moves of csrc/call/plan.h. `place` places the values of a
signature by this machine's ABI.
"""

from __future__ import annotations

import os
import struct
import sys

from .._errors import TYPE_CHECKING, SignatureError
from .._types.ctype import WRAP_IT
from .._types.derived import hides_object
from .abi import UNKNOWN, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .._types.ctype import CType
    from .._types.signature import Signature
    from .abi import ABI as _ABI
    from .abi import Call


def here() -> _ABI:
    """Return the C ABI of this process; `UNKNOWN` if it is not supported.

    32-bit and big-endian processes, and Windows on ARM, are not supported.
    """
    if sys.maxsize < 2**32 or sys.byteorder != "little":
        return UNKNOWN
    if sys.platform == "win32":
        import sysconfig

        if sysconfig.get_platform() != "win-amd64":
            return UNKNOWN
        from .win64 import WIN64

        return WIN64
    machine = os.uname().machine.lower()
    if machine in ("x86_64", "amd64"):
        from .sysv import SYSV_X86_64

        return SYSV_X86_64
    if machine in ("aarch64", "arm64"):
        from .aapcs64 import AAPCS64, APPLE_ARM64

        return APPLE_ARM64 if sys.platform in ("darwin", "ios") else AAPCS64
    return UNKNOWN


ABI = here()
#: Maximum total size of arguments and result. They must fit on the stack of any thread.
_MOST_BYTES = 1 << 18
# Formats of the structs NcStep and NcMove.
STEP = struct.Struct("=BBcBIIII")
MOVE = struct.Struct("=3I")
VOID, DOUBLE, FLOAT, SIGNED, UNSIGNED, BOOL = range(6)
SCALAR, POINTER, OBJECT, VIEW, STRUCT, FUNCTION, OUT, LENGTH = range(6, 14)
NOWHERE = 2**32 - 1  # NC_NOWHERE
PIECES, WHOLE = 1, 2  # NC_PIECES, NC_WHOLE
#: Step codes for values that each fill a word of the block.
PLAIN = {"d": DOUBLE, "f": FLOAT, "?": BOOL, "P": POINTER, "O": OBJECT}
PLAIN |= dict.fromkeys("bhiq", SIGNED) | dict.fromkeys("BHIQ", UNSIGNED)


def step(
    code: int,
    size: int,
    letter: str,
    at: int,
    *,
    owner: int = 0,
    memory: int = 0,
    moves: tuple[int, int] = (0, 0),
) -> bytes:
    """Pack a step; `moves` is the index range of its moves."""
    first, end = moves
    return STEP.pack(code, size, letter.encode(), end - first, at, owner, memory, first)


def joined(header: bytes, rows: Sequence[bytes], moves: Iterable[tuple[int, int, int]]) -> bytes:
    """Join header, steps and moves into a plan.

    In the plan, each step stores where its first move is, as an offset in bytes from the step.
    """
    done = [header]
    for left, row in zip(range(len(rows), 0, -1), rows, strict=True):
        *parts, first = STEP.unpack(row)
        done.append(STEP.pack(*parts, left * STEP.size + first * MOVE.size))
    return b"".join([*done, *[MOVE.pack(*one) for one in moves]])


def place(signature: Signature, fixed: int | None = None, more: Sequence[CType] = ()) -> Call:
    """Place the values of a call.

    `fixed` is the number of fixed arguments of a variadic function. `more` are the types of further
    arguments, which follow those of the signature.

    Raises
    ------
    SignatureError
        If a type is not supported on this ABI, or if the values are too large for the stack.
    """
    args = *signature.args, *more
    size = sum([one.size for one in (*args, signature.result)])
    if size > _MOST_BYTES:
        raise SignatureError(
            f"arguments and result of {size} bytes by value are more than the {_MOST_BYTES} that a "
            "call may put on the stack",
            hint=WRAP_IT,
        )
    for one in (*args, signature.result):
        if hides_object(one):
            raise SignatureError(
                f"{one.c_declaration()!r} has a Python object in a union, and nothing records "
                "whether that member is in use",
                hint=WRAP_IT,
            )
    try:
        return ABI.place(signature.result, args, fixed)
    except Unsupported as error:
        raise SignatureError(str(error)) from None


def is_packed(at: int) -> bool:
    """Return whether the argument at offset `at` in the block is not padded to a word."""
    return ABI.packs and at >= ABI.stack
