/* csrc/values/text.h: converts NUL-terminated text behind pointers to const characters, in both
 * directions.
 *
 * In Python, char text is bytes, or str if the call interface has an encoding. Wide text (wchar_t,
 * char16_t or char32_t) is str. Python gets a copy of the characters. If the encoding is UTF-8, C
 * gets the str's own UTF-8 memory. Otherwise C gets an encoded copy that is valid until the call
 * returns. A str with an embedded NUL raises ValueError, because C would stop at the NUL.
 *
 * Letters: 'c' char, 'w' wchar_t, 'u' char16_t, 'U' char32_t. All functions need the GIL. */
#pragma once

#include "layout.h"
#include "scalars.h"

/* Return whether argument `index` of a call interface accepts a str. */
static inline int nc_takes_text(const NcCallInterface *cif, Py_ssize_t index)
{
    char text = cif->arguments[index].text;
    return text != '\0' && (text != 'c' || cif->encoding != NULL);
}

/* Fast path: if C can use the characters of bytes or a str without a copy, return their address. It
 * is valid as long as the object. Return NULL in all other cases. */
const char *nc_text_itself(const NcCallInterface *cif, Py_ssize_t index, PyObject *value);

/* Convert a str for argument `place` of a call interface. Set *address to the text for C. Return a
 * new reference to the owner of that memory, or NULL with an exception. A negative `place` means
 * the first argument; messages then begin with `name` itself. */
PyObject *nc_encode_text(const NcCallInterface *cif, PyObject *name, Py_ssize_t place,
                         PyObject *value, const char **address);

/* Decode bytes to a str. Return a new reference, or NULL with an exception: UnicodeDecodeError,
 * LookupError for a codec that is no text encoding, or any exception of the codec. Codecs other
 * than UTF-8 and ASCII get a copy of the bytes. */
PyObject *nc_decode_text(const char *text, Py_ssize_t length, PyObject *encoding);

/* Return the number of characters of `size` (2 or 4) bytes before a NUL, at most `most`. */
Py_ssize_t nc_wide_length(const void *text, size_t size, size_t most);
/* Decode characters of `size` (2 or 4) bytes. Return a new str, or NULL with UnicodeDecodeError. */
PyObject *nc_decode_wide(const void *text, size_t size, Py_ssize_t length);

/* Convert a pointer from C code to Python. Return a new reference: None for NULL, decoded text if
 * `text` is a letter, otherwise a cffi pointer. *foreign caches what the hook pointer_type returns
 * for `ctype`. */
PyObject *nc_given_pointer(const NcCallInterface *cif, char text, PyObject *ctype,
                           PyObject **foreign, void *address);
