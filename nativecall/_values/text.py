"""`string`: read the NUL-terminated text at a pointer.

The core converts results and arguments that C declares as text (csrc/values/text.c). `string`
is for other pointers: ``char *``, ``unsigned char *``, elements of arrays, arguments of callbacks.
"""

from __future__ import annotations

import operator
from _codecs import decode

from .. import _ext, _lib
from .._errors import wrong_type
from . import foreign
from .calloptions import checked
from .handles import check_open

_BYTES = ("b", "B")
_WANTED = (
    "must be a pointer to characters or bytes: a cffi or ctypes pointer, a buffer of bytes, or None"
)

# For other encodings, bytes.decode() passes the codec a memoryview, which the codec may keep.
_WITHOUT_CODEC = ("utf-8", "ascii", "latin-1")
_typeof, _string_at = _lib.ffi.typeof, _ext.string_at
# The types that the core reads itself: cffi type to pointer type and character size. cffi has one
# object per type in a process.
_texts = _ext.texts
_CHARACTERS = (
    *("char", "signed char", "int8_t", "unsigned char", "uint8_t"),
    *("wchar_t", "char16_t", "char32_t"),
)
_POINTERS = [_typeof(f"{name} *") for name in _CHARACTERS]
_KNOWN = {one: (one, _lib.ffi.sizeof(one.item)) for one in _POINTERS}
_texts.update(_KNOWN)
_MOST_TEXTS = 256


def string(
    pointer: object, encoding: str | None = None, length: int | None = None
) -> bytes | str | None:
    """Read the text at a pointer, up to the first null character or of a given length.

    Parameters
    ----------
    pointer : cffi or ctypes pointer or array, buffer of bytes, str, or None
        A pointer to characters, wide characters or bytes. **You must make sure that it is valid**:
        freed memory, or text that is not NUL-terminated, can crash the process or return unrelated
        bytes. In an array or buffer, text also ends at the last item.
    encoding : str, optional
        Decodes the bytes to a `str`. Wide characters need no encoding.
    length : int, optional
        The number of characters, or of bytes, if C passes the length beside the text. Such text may
        contain null characters and need not end in one.

    Returns
    -------
    bytes, str or None
        A copy; `str` for wide characters or with an encoding; None for None and NULL.

    Raises
    ------
    TypeError
        If `pointer` does not point to characters.
    ValueError
        If the encoding is unknown, if the length is negative or exceeds an array, or if a function
        of `free=` or `close=` has freed or closed the pointer. `UnicodeDecodeError` if the text
        does not decode.

    Examples
    --------
    >>> import nativecall
    >>> libc = nativecall.load(None, "char *strchr(const char *, int);")
    >>> text = b"name=value"
    >>> nativecall.string(libc.strchr(text, ord("=")))
    b'=value'
    """
    count = -1 if length is None else _counted(length)
    found = _string_at(pointer, encoding, count)
    if found is NotImplemented:
        found = _read(pointer, count)
    if encoding is None or (encoding == "utf-8" and type(found) is str):
        return found
    if isinstance(found, bytes) and isinstance(encoding, str):
        try:
            if encoding in _WITHOUT_CODEC:
                return found.decode(encoding)
            text: object = decode(found, encoding)
            if isinstance(text, str):
                return text
        except (LookupError, ValueError) as error:
            if isinstance(error, UnicodeError):
                raise
    checked({"encoding": encoding})
    return found


def _counted(length: int) -> int:
    try:
        count = operator.index(length)
    except TypeError:
        raise wrong_type("'length'", "an int or None", length) from None
    if count < 0:
        raise ValueError(f"'length' must be 0 or more (got {length!r})")
    return count


def encoded(text: str, encoding: str | None, who: str, without: str) -> bytes:
    """Encode text for C; refuse null characters.

    Without an encoding, raise TypeError with `without` as its message.
    """
    if encoding is None:
        raise TypeError(f"{who} {without}")
    found = text.encode(encoding)
    if b"\0" in found:
        raise ValueError(
            f"{who} must not contain a null character once it is encoded, which ends a string in C"
        )
    return found


def _read(pointer: object, length: int) -> bytes | str | None:
    ffi = _lib.ffi
    if type(pointer).__module__ == "_cffi_backend":
        return _read_cffi(pointer, length)
    if type(pointer).__name__ == "c_wchar_p" and type(pointer).__module__ == "ctypes":
        pointer = getattr(pointer, "value", None)
    if pointer is None or isinstance(pointer, str):
        return pointer if pointer is None else _cut(pointer, length)
    found = foreign.pointer(pointer)
    if found is None or found.is_memory:
        return _read_buffer(pointer, length)
    if found.pointee is not None and found.pointee.text not in _BYTES:
        raise TypeError(
            f"'pointer' {_WANTED} (got '&{found.pointee.text}' from {type(pointer).__name__})"
        )
    if not found.address:
        return None
    return _string_at(ffi.cast("char *", found.address), None, length)


def _cut(text: bytes | str, length: int) -> bytes | str:
    """Return the first `length` characters of text that Python owns."""
    if length > len(text):
        raise ValueError(f"'length' is {length}, but 'pointer' has {len(text)} items")
    return text if length < 0 else text[:length]


def _read_buffer(pointer: object, length: int) -> bytes | str:
    try:
        view = memoryview(pointer)  # type: ignore[arg-type]  # what has no buffer raises TypeError
    except TypeError:
        raise TypeError(f"'pointer' {_WANTED} (got {type(pointer).__name__})") from None
    with view:
        if view.itemsize != 1:
            shown = f"{view.format!r} elements in {type(pointer).__name__}"
            hint = "; for wide characters pass ffi.from_buffer('wchar_t[]', value)"
            hint = hint if view.itemsize in (2, 4) else ""
            raise TypeError(f"'pointer' {_WANTED} (got {shown}){hint}")
        text = view.tobytes()
        return text.partition(b"\0")[0] if length < 0 else _cut(text, length)


def _read_cffi(pointer: object, length: int) -> bytes | str | None:
    ffi = _lib.ffi
    kind = ffi.typeof(pointer)
    if kind.kind not in ("pointer", "array"):
        raise TypeError(f"'pointer' {_WANTED} (got cffi's {kind.cname!r})")
    for one, row in _KNOWN.items():
        if kind.kind == "array" and kind.item is one.item:
            if len(_texts) >= _MOST_TEXTS:
                _texts.clear()
                _texts.update(_KNOWN)
            _texts[kind] = row
    if kind.kind == "pointer" and pointer == ffi.NULL:
        return None
    check_open(pointer, "'pointer'")
    if kind.item.kind == "void":
        pointer = ffi.cast("char *", pointer)
    text = _string_at(pointer, None, length)
    if text is NotImplemented:
        wide = kind.item.kind == "primitive" and ffi.sizeof(kind.item) in (2, 4)
        hint = "; cast it to 'wchar_t *', 'char16_t *' or 'char32_t *'" if wide else ""
        raise TypeError(f"'pointer' {_WANTED} (got cffi's {kind.cname!r}){hint}") from None
    return text
