/* csrc/values/text.c: implements text.h. */
#include "text.h"

#include "core/cffipointer.h"
#include "structpointer.h"

#include <string.h>
#include <wchar.h>

/* Return whether an encoding has this name. Called for each text argument and result, mostly with
 * "utf-8" or "ascii". */
static int is_named(PyObject *encoding, const char *name, size_t length)
{
    return PyUnicode_IS_COMPACT_ASCII(encoding) &&
           (size_t)PyUnicode_GET_LENGTH(encoding) == length &&
           memcmp(PyUnicode_1BYTE_DATA(encoding), name, length) == 0;
}

static int is_utf8(PyObject *encoding)
{
    return is_named(encoding, "utf-8", 5);
}

const char *nc_text_itself(const NcCallInterface *cif, Py_ssize_t index, PyObject *value)
{
    const NcArgument *argument = &cif->arguments[index];
    if (PyBytes_CheckExact(value)) {
        int is_text = (argument->pointee == 'b' || argument->pointee == 'B') &&
                      argument->count == 0 && !cif->fortran;
        return is_text ? PyBytes_AS_STRING(value) : NULL;
    }
    if (!PyUnicode_CheckExact(value) || argument->text != 'c' || cif->encoding == NULL ||
        cif->fortran || !PyUnicode_IS_COMPACT_ASCII(value) || !is_utf8(cif->encoding)) {
        return NULL;
    }
    const char *text = (const char *)PyUnicode_1BYTE_DATA(value);
    return strlen(text) == (size_t)PyUnicode_GET_LENGTH(value) ? text : NULL;
}

/* Return the size of a character in bytes, for a letter other than 'c'. */
static size_t wide_size(char text)
{
    return text == 'w' ? sizeof(wchar_t) : text == 'u' ? 2 : 4;
}

/* ---- results --------------------------------------------------------------------------------- */

Py_ssize_t nc_wide_length(const void *text, size_t size, size_t most)
{
    size_t count = 0;
    while (count < most && (size == 2 ? ((const uint16_t *)text)[count] != 0
                                      : ((const uint32_t *)text)[count] != 0)) {
        count++;
    }
    return (Py_ssize_t)count;
}

PyObject *nc_decode_wide(const void *text, size_t size, Py_ssize_t length)
{
    int order = PY_LITTLE_ENDIAN ? -1 : 1;
    length *= (Py_ssize_t)size;
    return size == 2 ? PyUnicode_DecodeUTF16(text, length, "strict", &order)
                     : PyUnicode_DecodeUTF32(text, length, "strict", &order);
}

PyObject *nc_decode_text(const char *text, Py_ssize_t length, PyObject *encoding)
{
    if (is_utf8(encoding)) {
        return PyUnicode_DecodeUTF8(text, length, "strict");
    }
    if (is_named(encoding, "ascii", 5)) {
        return PyUnicode_DecodeASCII(text, length, "strict");
    }
    /* PyUnicode_Decode would pass the codec a view of C's memory, and a codec may keep that
     * view. */
    const char *name = PyUnicode_AsUTF8(encoding);
    PyObject *copy = name != NULL ? PyBytes_FromStringAndSize(text, length) : NULL;
    PyObject *found = copy != NULL ? PyCodec_Decode(copy, name, "strict") : NULL;
    Py_XDECREF(copy);
    if (found != NULL && !PyUnicode_Check(found)) {
        PyErr_Format(PyExc_LookupError, "%R is not a text encoding: it decodes to %.200s", encoding,
                     Py_TYPE(found)->tp_name);
        Py_CLEAR(found);
    }
    return found;
}

/* Decode the text at an address that C code passed; the address is not NULL. Return a new
 * reference, or NULL with UnicodeDecodeError, ValueError for an invalid character, or
 * MemoryError. */
static PyObject *text_to_python(const NcCallInterface *cif, char text, const void *address)
{
    if (text != 'c') {
        const size_t size = wide_size(text);
        return nc_decode_wide(address, size, nc_wide_length(address, size, SIZE_MAX));
    }
    const char *found = (const char *)address;
    if (cif->encoding == NULL) {
        return PyBytes_FromString(found);
    }
    return nc_decode_text(found, (Py_ssize_t)strlen(found), cif->encoding);
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Return the encoding of wide characters of `size` bytes, in native byte order. */
static const char *wide_encoding(size_t size)
{
    if (size == 2) {
        return PY_LITTLE_ENDIAN ? "utf-16-le" : "utf-16-be";
    }
    return PY_LITTLE_ENDIAN ? "utf-32-le" : "utf-32-be";
}

/* encode_wide for Latin-1 characters: each becomes one wide character. */
static PyObject *widen(const unsigned char *characters, size_t count, size_t size)
{
    PyObject *encoded = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((count + 1) * size));
    if (encoded == NULL) {
        return NULL;
    }
    void *memory = PyBytes_AS_STRING(encoded);
    for (size_t i = 0; i <= count; i++) { /* includes Python's own NUL terminator */
        if (size == 2) {
            ((uint16_t *)memory)[i] = characters[i];
        } else {
            ((uint32_t *)memory)[i] = characters[i];
        }
    }
    return encoded;
}

/* Return a str as wide characters with a NUL terminator, in a bytes object. */
static PyObject *encode_wide(char text, PyObject *value)
{
    if (PyUnicode_KIND(value) == PyUnicode_1BYTE_KIND) {
        return widen(PyUnicode_1BYTE_DATA(value), (size_t)PyUnicode_GET_LENGTH(value),
                     wide_size(text));
    }
    PyObject *end = PyUnicode_FromStringAndSize("", 1);
    PyObject *whole = end != NULL ? PyUnicode_Concat(value, end) : NULL;
    PyObject *encoded =
        whole != NULL ? PyUnicode_AsEncodedString(whole, wide_encoding(wide_size(text)), "strict")
                      : NULL;
    Py_XDECREF(end);
    Py_XDECREF(whole);
    return encoded;
}

static PyObject *refuse_null(PyObject *name, Py_ssize_t place, const char *where)
{
    nc_conversion_error(PyExc_ValueError, name, place,
                        "must not contain a null character%s, which ends a string in C", where);
    return NULL;
}

PyObject *nc_encode_text(const NcCallInterface *cif, PyObject *name, Py_ssize_t place,
                         PyObject *value, const char **address)
{
    char text = cif->arguments[place < 0 ? 0 : place].text;
    Py_ssize_t nulls = PyUnicode_FindChar(value, 0, 0, PyUnicode_GET_LENGTH(value), 1);
    if (nulls != -1) {
        return nulls == -2 ? NULL : refuse_null(name, place, "");
    }
    if (text == 'c' && is_utf8(cif->encoding)) {
        *address = PyUnicode_AsUTF8(value); /* cached in the str */
        if (*address == NULL) {
            nc_conversion_note(name, place);
            return NULL;
        }
        return Py_NewRef(value);
    }
    PyObject *encoded =
        text != 'c' ? encode_wide(text, value)
                    : PyUnicode_AsEncodedString(value, PyUnicode_AsUTF8(cif->encoding), "strict");
    if (encoded == NULL) {
        nc_conversion_note(name, place);
        return NULL;
    }
    *address = PyBytes_AS_STRING(encoded);
    if (text == 'c' && strlen(*address) != (size_t)PyBytes_GET_SIZE(encoded)) {
        Py_DECREF(encoded);
        return refuse_null(name, place, " once it is encoded");
    }
    return encoded;
}

PyObject *nc_given_pointer(const NcCallInterface *cif, char text, PyObject *ctype,
                           PyObject **foreign, void *address)
{
    if (address == NULL) {
        Py_RETURN_NONE;
    }
    if (text != '\0') {
        return text_to_python(cif, text, address);
    }
    PyObject *type = nc_kept(foreign);
    if (type == NULL) {
        type = nc_keep_first(foreign, PyObject_CallOneArg(NC_HOOK(pointer_type), ctype));
        if (type == NULL) {
            return NULL;
        }
    }
    return PyTuple_CheckExact(type)
               ? nc_struct_pointer(nc_cffi_pointer(address, PyTuple_GET_ITEM(type, 0)),
                                   PyTuple_GET_ITEM(type, 1), NULL)
               : nc_cffi_pointer(address, type);
}
