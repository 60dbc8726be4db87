/* nativecall/detail/prototype.h: converts a C declaration, "double (int, double *)", to a
 * signature.
 *
 * Idea:    parses capsule names and other C declarations into the canonical text used by call
 *          tables. Accepts number types, the usual integer typedefs, PyObject * and pointers. A
 *          pointer to an unknown type becomes P. Parameter names are skipped. Parameters that are
 *          functions, structs by value and `...` are refused.
 * Threads: pure functions. */
#ifndef NATIVECALL_PROTOTYPE_H
#define NATIVECALL_PROTOTYPE_H

#include <string.h>

#include "core/base.h"

NC_C_BEGIN

#define NC_PROTOTYPE_UNKNOWN '@'

/* Combine the code of the words so far with the code of the next word, for example 'l' and 'l' to
 * 'q'. Return 0 if the word cannot follow. Each group of three letters contains both codes, then
 * the combined code. */
NC_COLD char nc_prototype_both(char code, char word)
{
    const char *group =
        "llqlilldghihicbihhilliiiIcBIhHIiIIlLLlQLiLHiHqiqQiQlILqIQhIHcIBdCZfCzgCYCdZCfz";
    for (; *group != '\0'; group += 3) {
        if (group[0] == code && group[1] == word) {
            return group[2];
        }
    }
    return code == '\0' && word != '-' ? word : '\0';
}

/* Skip blanks. Return the length of the next word, or 0. */
NC_COLD size_t nc_prototype_word(const char **at)
{
    *at += strspn(*at, " \t\n");
    return strspn(*at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
}

/* Return the code of a word. 'Z' and 'z' are complex types, 'C' is the word that makes a
 * floating-point type complex, and '-' marks a word to ignore. Return NC_PROTOTYPE_UNKNOWN for any
 * other word. */
NC_COLD char nc_prototype_code(const char *word, size_t length)
{
    static const char known[] =
        "void v char c short h int i long l signed i unsigned I float f double d _Bool ? bool ? "
        "_Complex C complex C PyObject O const - volatile - restrict - __restrict - struct - "
        "int8_t b uint8_t B int16_t h uint16_t H int32_t i uint32_t I int64_t q uint64_t Q "
        "intptr_t n uintptr_t N ptrdiff_t n ssize_t n size_t N Py_ssize_t n npy_intp n npy_uintp N "
        "__pyx_t_double_complex Z npy_cdouble Z __pyx_t_float_complex z npy_cfloat z ";
    for (const char *at = known; *at != '\0'; at += strcspn(at, " ") + 3) {
        if (strcspn(at, " ") == length && memcmp(at, word, length) == 0) {
            return at[length + 1];
        }
    }
    return NC_PROTOTYPE_UNKNOWN;
}

/* Parse a type and the optional name after it, and write the type's code. Return NC_OK, or
 * NC_E_FORMAT if a signature cannot express the type. */
NC_COLD int nc_prototype_type(const char **at, char **out)
{
    size_t stars = 0, length;
    char code = '\0';
    for (;;) {
        while ((length = nc_prototype_word(at)) != 0) {
            const char word = nc_prototype_code(*at, length);
            const char both = stars == 0 ? nc_prototype_both(code, word) : '\0';
            if (both == '\0' && word != '-' && word != NC_PROTOTYPE_UNKNOWN) {
                return NC_E_FORMAT;
            }
            *at += length;
            code = both != '\0' ? both : code;
        }
        if (**at == '[') {
            *at += strcspn(*at, "]");
        } else if (**at != '*') {
            break;
        }
        *at += **at != '\0';
        stars++;
    }
    if (code == '\0' || code == 'C' || (stars == 0 && strchr("O@", code) != NULL)) {
        return NC_E_FORMAT;
    }
    if (strchr("v@O", code) != NULL && stars > 0) {
        code = code == 'O' ? 'O' : 'P';
        stars--;
    }
    memset(*out, '&', stars);
    *out += stars;
    if (strchr("zZY", code) != NULL) {
        *(*out)++ = 'Z';
        code = code == 'z' ? 'f' : code == 'Z' ? 'd' : 'g';
    }
    *(*out)++ = nc_scalar_spelt(code);
    return NC_OK;
}

/* Write the canonical signature of a declaration. `out` needs strlen(text) + 1 bytes. Return NC_OK,
 * or NC_E_FORMAT if `text` is not a function declaration or has unsupported types. */
NC_COLD int nc_prototype_signature(const char *text, char *out)
{
    int status = nc_prototype_type(&text, &out);
    if (status != NC_OK || *text++ != '(') {
        return NC_E_FORMAT;
    }
    *out++ = ':';
    char *first = out;
    text += strspn(text, " ");
    while (*text != ')' || out != first) {
        status = nc_prototype_type(&text, &out);
        if (status != NC_OK || (*text != ',' && *text != ')') ||
            (out[-1] == 'v' && (out != first + 1 || *text == ','))) {
            return NC_E_FORMAT;
        }
        if (*text == ')') {
            break;
        }
        text++;
    }
    *(out != first && out[-1] == 'v' ? first : out) = '\0';
    text++;
    text += strspn(text, " ");
    return *text == '\0' ? NC_OK : NC_E_FORMAT;
}

NC_C_END

#endif
