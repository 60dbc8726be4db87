"""Packed signatures: the 64-bit words of SEP 201's approach 1, equal to those of the C headers.

The first word has a start mark (bit 63), the flags (bits 62 to 56) and 14 nibbles of symbols. Each
later word has the bits 0100 and 15 nibbles. The number of words is odd. Each character of the
canonical text has one symbol, except ``:``, whose position follows from the rest. A nibble from 1
to 11 encodes one of the eleven commonest characters. A nibble from 12 to 15, with a second nibble,
encodes the others. The nibble 0 ends a signature. `docs/abi/signatures.md` is the specification.
This was written from it, independently of the headers, so that each tests the other; nothing here
calls native code.
"""

from __future__ import annotations

from nativecall._cdecl.spelling import parse
from nativecall._types.signature import Signature

START = 1 << 63
FLAGS_SHIFT = 56
_CONTINUATION = 0b0100 << 60
_FIRST = 14  # nibbles of the first word
_NEXT = 15  # nibbles of each other word

_COMMON = "d&iPfZqgvbO"
_RARE = "?BhHIQeX{}T=(),[].0123456789U#"
_NIBBLES = {c: (code,) for code, c in enumerate(_COMMON, 1)} | {
    c: (12 + code // 16, code % 16) for code, c in enumerate(_RARE)
}


def pack(signature: str | Signature, flags: int = 0) -> tuple[int, ...]:
    """Pack a signature into words.

    Parameters
    ----------
    signature : str or Signature
        In any of the spellings that `parse` reads.
    flags : int
        Flags of an entry, ``NC_FLAG_*`` and ``NC_ERRORS_*`` of the C headers: 0 to 127.

    Returns
    -------
    tuple of int
        An odd number of unsigned 64-bit integers, mostly one.

    Raises
    ------
    SignatureError
        If `signature` cannot be read.

    Examples
    --------
    >>> [hex(word) for word in pack("d:dd")]
    ['0x8011100000000000']
    """
    nibbles: list[int] = []
    for character in parse(signature).text:
        if character != ":":
            nibbles += _NIBBLES[character]
    nibbles.append(0)
    beyond = max(len(nibbles) - _FIRST, 0)
    pairs = -(-beyond // (2 * _NEXT))
    nibbles += [0] * (_FIRST + pairs * 2 * _NEXT - len(nibbles))
    words = [START | flags << FLAGS_SHIFT | _number(nibbles[:_FIRST])]
    for at in range(_FIRST, len(nibbles), _NEXT):
        words.append(_CONTINUATION | _number(nibbles[at : at + _NEXT]))
    return tuple(words)


def _number(nibbles: list[int]) -> int:
    value = 0
    for nibble in nibbles:
        value = value << 4 | nibble
    return value
