"""Packed signatures: the 64-bit words of SEP 201's approach 1, equal to those of the C headers.

The first word has a start mark (bit 63), the flags (bits 62 to 56) and 14 nibbles of symbols; each
word after it has the bits 0100 and 15 nibbles. The number of words is odd. One symbol stands for
each character of the canonical text except ``:``, whose place follows from the rest: a nibble 1
to 11 for the eleven commonest, a nibble 12 to 15 and one more for the others; the nibble 0 ends a
signature. `docs/abi/signatures.md` is the specification. This was written from it, apart from the
headers, so that each tests the other; nothing here calls native code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nativecall._cdecl.spelling import parse
from nativecall._errors import SignatureError
from nativecall._types.signature import Signature

__all__ = ["FLAGS_MASK", "FLAGS_SHIFT", "START", "pack", "unpack"]

START = 1 << 63
FLAGS_SHIFT = 56
FLAGS_MASK = 0x7F << FLAGS_SHIFT
_CONTINUATION = 0b0100 << 60
_FIRST = 14  # nibbles of the first word
_NEXT = 15  # nibbles of each other word
_ALL_FLAGS = FLAGS_MASK >> FLAGS_SHIFT

_COMMON = "d&iPfZqgvbO"
_RARE = "?BhHIQeX{}T=(),[].0123456789U#"
_NIBBLES = {c: (code,) for code, c in enumerate(_COMMON, 1)} | {
    c: (12 + code // 16, code % 16) for code, c in enumerate(_RARE)
}
_CHARACTERS = {nibbles: c for c, nibbles in _NIBBLES.items()}
_WITHIN_TYPE = "&XTU=Z(),[].0123456789#"  # no type ends with one of these


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
    ValueError
        If `flags` has bits that a packed signature does not carry.

    Examples
    --------
    >>> [hex(word) for word in pack("d:dd")]
    ['0x8011100000000000']
    """
    if not 0 <= flags <= _ALL_FLAGS:
        raise ValueError(f"'flags' must be 0 to {_ALL_FLAGS} (got {flags})")
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


def unpack(words: Iterable[int]) -> tuple[Signature, int]:
    """Read packed words back; the exact inverse of `pack`.

    Parameters
    ----------
    words : iterable of int

    Returns
    -------
    signature : Signature
    flags : int

    Raises
    ------
    SignatureError
        If `pack` does not yield these words on this platform.

    Examples
    --------
    >>> unpack([0x8111100000000000])
    (Signature('d:dd'), 1)
    """
    words = tuple(words)
    for index, word in enumerate(words):
        if not 0 <= word < 1 << 64:
            raise SignatureError(f"word {index} of a packed signature is no 64-bit number: {word}")
    if not words or not words[0] & START:
        raise SignatureError("a packed signature begins with a word whose highest bit is set")
    flags = (words[0] & FLAGS_MASK) >> FLAGS_SHIFT
    try:
        signature = parse("".join(_with_colons(_symbols(words))), hint="native")
    except SignatureError as error:
        raise SignatureError(f"{_shown(words)} is no packed signature: {error}") from None
    if pack(signature, flags) != words:
        raise SignatureError(
            f"{_shown(words)} is no packed signature; {signature.text!r} is "
            f"{_shown(pack(signature, flags))}"
        )
    return signature, flags


def _number(nibbles: list[int]) -> int:
    value = 0
    for nibble in nibbles:
        value = value << 4 | nibble
    return value


def _symbols(words: tuple[int, ...]) -> Iterator[str]:
    """The characters that words stand for, up to the nibble 0."""
    shifts = [(words[0], 4 * at) for at in reversed(range(_FIRST))]
    shifts += [(word, 4 * at) for word in words[1:] for at in reversed(range(_NEXT))]
    nibbles = (word >> shift & 0xF for word, shift in shifts)
    for nibble in nibbles:
        if nibble == 0:
            return
        key = (nibble,) if nibble < 12 else (nibble, next(nibbles, -1))
        character = _CHARACTERS.get(key)
        if character is None:
            raise SignatureError(f"unknown symbol {'-'.join(f'{part:X}' for part in key)}")
        yield character
    raise SignatureError("the symbols do not end")


def _with_colons(characters: Iterator[str]) -> Iterator[str]:
    """`characters` with a colon after each result."""
    awaits = [True]  # by depth of braces: whether a result is awaited
    before = ""
    for character in characters:
        yield character
        if character == "{":
            awaits.append(before == "X")
        elif character not in _WITHIN_TYPE:
            if character == "}" and len(awaits) > 1:
                awaits.pop()
            if awaits[-1]:
                awaits[-1] = False
                yield ":"
        before = character


def _shown(words: tuple[int, ...]) -> str:
    return " ".join([f"{word:#018x}" for word in words])
