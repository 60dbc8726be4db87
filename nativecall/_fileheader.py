"""The header of cache files and frozen files: a key, and the hash of the content after it."""

from __future__ import annotations

from ._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    # Do not import hashlib: it loads OpenSSL, which takes longer than the hashing. Without OpenSSL,
    # BLAKE2 is five times as fast as SHA-256.
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b

_MAGIC = b"ncobj\x00\x00\x02"
# Magic, key, length of the content, hash of the content. The content follows.
HEADER = 8 + 32 + 8 + 32  # bytes


def hashed(data: bytes) -> blake2b:
    """Return a 32-byte BLAKE2b hash object, for keys and contents."""
    return blake2b(data, digest_size=32)


def header(key: bytes, data: bytes) -> bytes:
    """Return the header of a file with this content."""
    return _MAGIC + key + len(data).to_bytes(8, "little") + hashed(data).digest()


def read(file: bytes) -> tuple[bytes, bytes] | None:
    """Return the key and the content of a file; None if it is damaged or not one of ours."""
    key, data = file[8:40], file[HEADER:]
    return (key, data) if file[:HEADER] == header(key, data) else None
