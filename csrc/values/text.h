/* csrc/values/text.h: text behind pointers to const characters, which ends with a null character.
 *
 * Text in char is bytes, or str where the call interface has an encoding. Wide text, in wchar_t,
 * char16_t or char32_t, is str. Python owns what it gets: the characters are copied. C gets the
 * memory of the str itself where that has the encoding (UTF-8), else an encoded copy, valid until
 * the call is over. A null character within a str is refused: C would take it for the end.
 *
 * Letters: 'c' char, 'w' wchar_t, 'u' char16_t, 'U' char32_t. All need the GIL. */
#ifndef NC_TEXT_H
#define NC_TEXT_H

#include "layout.h"
#include "scalars.h"

/* Whether argument `index` of a call interface takes a str. */
static inline int nc_takes_text(const NcCallInterface *cif, Py_ssize_t index)
{
    char text = cif->arguments[index].text;
    return text != '\0' && (text != 'c' || cif->encoding != NULL);
}

/* The characters of bytes or a str for argument `index` of a call interface, where C can have them
 * as they are, which is as long as the object lives; NULL where that takes a closer look. */
const char *nc_text_itself(const NcCallInterface *cif, Py_ssize_t index, PyObject *value);

/* A str for argument `place` of a call interface, which takes one: its address for C, and the owner
 * of what is there, a new reference, or NULL with an exception. With a negative place the first
 * argument is meant, and `name` is the whole subject of messages. */
PyObject *nc_encode_text(const NcCallInterface *cif, PyObject *name, Py_ssize_t place,
                         PyObject *value, const char **address);

/* Bytes as a str, a new reference, or NULL with an exception: UnicodeDecodeError, LookupError for
 * what is no encoding of text, or what the codec raises. Codecs that Python has not built in get a
 * copy of the bytes. */
PyObject *nc_decode_text(const char *text, Py_ssize_t length, PyObject *encoding);

/* At most so many characters of 2 or 4 bytes, up to a null character, as a str: a new reference, or
 * NULL with a UnicodeDecodeError. */
PyObject *nc_decode_wide(const void *text, size_t size, size_t most);

/* A pointer that C code gives, as a new reference: None for NULL; of a letter `text` what a call
 * interface makes of such text; else a cffi pointer of the type that the hook says for `ctype`,
 * which *foreign keeps. */
PyObject *nc_given_pointer(const NcCallInterface *cif, char text, PyObject *ctype,
                           PyObject **foreign, void *address);

#endif
