/* nativecall/detail/typenames.h: the codes of C types that have a name: typedefs, and Cython's
 * mangled ones.
 *
 * Knows the typedefs of <stdint.h>, <stddef.h>, Python, NumPy, cffi and Numba, and the text that
 * signatures from foreign boxes are put together in. Pure functions, nothing is allocated. */
#ifndef NATIVECALL_TYPENAMES_H
#define NATIVECALL_TYPENAMES_H

#include <string.h>
#include <wchar.h>

#include "core/base.h"
#include "core/signaturetext.h"

NC_C_BEGIN

#define NC_DECLARATION_SIZE 512     /* bytes of a signature from a box, its zero byte included */
#define NC_DECLARATION_MAX_DEPTH 16 /* function pointers in function pointers */

/* Signature text as it grows. */
typedef struct {
    char text[NC_DECLARATION_SIZE]; /* zero-terminated */
    size_t length;
    int status;      /* NC_OK, or the first thing that went wrong */
    const char *why; /* static, what that was; NULL: the status says it */
} NcSignatureText;

NC_STATIC void nc_text_init(NcSignatureText *out)
{
    out->text[0] = '\0';
    out->length = 0;
    out->status = NC_OK;
    out->why = NULL;
}

NC_STATIC int nc_text_fail(NcSignatureText *out, int status)
{
    if (out->status == NC_OK) {
        out->status = status;
    }
    return out->status;
}

/* A type that no signature describes, with the reason. */
NC_STATIC int nc_text_refuse(NcSignatureText *out, const char *why)
{
    if (out->status == NC_OK) {
        out->why = why;
    }
    return nc_text_fail(out, NC_E_MISSING);
}

NC_STATIC int nc_text_add(NcSignatureText *out, const char *text, size_t length)
{
    if (length >= NC_DECLARATION_SIZE - out->length) {
        return nc_text_fail(out, NC_E_TOOLONG);
    }
    memcpy(out->text + out->length, text, length);
    out->length += length;
    out->text[out->length] = '\0';
    return out->status;
}

NC_STATIC int nc_text_put(NcSignatureText *out, const char *text)
{
    return nc_text_add(out, text, strlen(text));
}

/* Ends a pointer that was written from `at` on, where the status was `before`: one to what has no
 * name in a signature is "P". What was wrong before the pointer stays wrong. */
NC_STATIC void nc_text_end_pointer(NcSignatureText *out, size_t at, int before)
{
    if (before == NC_OK && out->status == NC_E_MISSING) {
        out->status = NC_OK;
        out->why = NULL;
        out->length = at;
        nc_text_put(out, "P");
    }
}

/* Makes the text canonical, in place. */
NC_STATIC int nc_text_canonical(NcSignatureText *out)
{
    char canonical[NC_DECLARATION_SIZE];
    size_t length = 0;
    if (out->status == NC_OK) {
        out->status =
            nc_signature_canonical(out->text, out->length, canonical, sizeof canonical, &length);
    }
    if (out->status == NC_OK) {
        memcpy(out->text, canonical, length + 1);
        out->length = length;
    }
    return out->status;
}

/* ---- names ----------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    const char *code;
} NcDeclarationName;

#if WCHAR_MAX <= 0xFFFF
#define NC_WCHAR_CODE "H"
#elif WCHAR_MIN < 0
#define NC_WCHAR_CODE "i"
#else
#define NC_WCHAR_CODE "I"
#endif

/* The code that a table has for a name, NULL if it has none. */
NC_STATIC const char *nc_declaration_lookup(const NcDeclarationName *names, size_t count,
                                            const char *name, size_t length)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i].name) == length && memcmp(names[i].name, name, length) == 0) {
            return names[i].code;
        }
    }
    return NULL;
}

/* The code of a typedef, NULL if it is not known. */
NC_STATIC const char *nc_declaration_typedef(const char *name, size_t length)
{
    /* With the width in the name: C's with "_t", NumPy's with "npy_" or in Cython with "_t". */
    static const NcDeclarationName sized[] = {
        {"int8", "b"},       {"int16", "h"},       {"int32", "i"},   {"int64", "q"},
        {"uint8", "B"},      {"uint16", "H"},      {"uint32", "I"},  {"uint64", "Q"},
        {"intp", "n"},       {"uintp", "N"},       {"float32", "f"}, {"float64", "d"},
        {"complex64", "Zf"}, {"complex128", "Zd"},
    };
    static const NcDeclarationName others[] = {
        {"size_t", "N"},
        {"ssize_t", "n"},
        {"ptrdiff_t", "n"},
        {"intptr_t", "n"},
        {"uintptr_t", "N"},
        {"Py_ssize_t", "n"},
        {"Py_hash_t", "n"},
        {"npy_byte", "b"},
        {"npy_ubyte", "B"},
        {"npy_short", "h"},
        {"npy_ushort", "H"},
        {"npy_int", "i"},
        {"npy_uint", "I"},
        {"npy_long", "l"},
        {"npy_ulong", "L"},
        {"npy_longlong", "q"},
        {"npy_ulonglong", "Q"},
        {"npy_bool", "B"},
        {"npy_float", "f"},
        {"npy_double", "d"},
        {"npy_longdouble", "g"},
        {"npy_cfloat", "Zf"},
        {"npy_cdouble", "Zd"},
        {"float_complex", "Zf"},
        {"double_complex", "Zd"},
        {"long_double_complex", "Zg"},
        {"boolean", "?"},
        {"_cffi_float_complex_t", "Zf"},
        {"none", "v"},
        {"_cffi_double_complex_t", "Zd"},
        {"char16_t", "H"},
        {"char32_t", "I"},
        {"Py_UCS4", "I"},
        {"wchar_t", NC_WCHAR_CODE},
    };
    const char *code =
        nc_declaration_lookup(others, sizeof others / sizeof others[0], name, length);
    if (code != NULL) {
        return code;
    }
    if (length > 4 && memcmp(name, "npy_", 4) == 0) {
        name += 4;
        length -= 4;
    } else if (length > 2 && memcmp(name + length - 2, "_t", 2) == 0) {
        length -= 2;
    }
    return nc_declaration_lookup(sized, sizeof sized / sizeof sized[0], name, length);
}

/* The code of Cython's name for a typedef: "__pyx_t_", then the lengths and names of the packages
 * and the module that declare it, then its own name. */
NC_STATIC const char *nc_declaration_mangled(const char *name, size_t length)
{
    static const char prefix[] = "__pyx_t_";
    static const char scipy[] = "5scipy_6linalg_";
    static const NcDeclarationName lapack[] = {{"s", "f"}, {"d", "d"}, {"c", "Zf"}, {"z", "Zd"}};
    const char *end = name + length;
    const char *at = name + sizeof prefix - 1;
    if (length < sizeof prefix || memcmp(name, prefix, sizeof prefix - 1) != 0) {
        return NULL;
    }
    int of_scipy = (size_t)(end - at) > sizeof scipy && memcmp(at, scipy, sizeof scipy - 1) == 0;
    while (at < end && *at >= '0' && *at <= '9') {
        size_t skip = 0;
        while (at < end && *at >= '0' && *at <= '9' && skip < NC_DECLARATION_SIZE) {
            skip = skip * 10 + (size_t)(*at++ - '0');
        }
        /* The name, "_", and at least one more character. */
        if ((size_t)(end - at) < skip + 2) {
            return NULL;
        }
        at += skip + 1;
    }
    if (of_scipy) {
        const char *code =
            nc_declaration_lookup(lapack, sizeof lapack / sizeof lapack[0], at, (size_t)(end - at));
        if (code != NULL) {
            return code;
        }
    }
    return nc_declaration_typedef(at, (size_t)(end - at));
}

NC_C_END

#endif
