/* nativecall/detail/declaration.h: the C declarations by which boxes name their functions, as
 * signatures.
 *
 * Idea:       SciPy and Cython name a capsule by the declaration of the function in it,
 *             "double (double, void *)"; cffi and Numba name single types so. One reader turns them
 *             into signature text, which signaturetext.h makes canonical.
 * Reads:      type words in any order, `const` and its like, pointers, arrays as parameters,
 *             pointers to functions as "R (*)(A)", names of functions and of parameters, the
 *             typedefs of <stdint.h>, <stddef.h>, Python, NumPy, cffi and Numba, and Cython's
 *             mangled typedefs ("__pyx_t_double_complex", "__pyx_t_5numpy_float64_t",
 *             "__pyx_t_5scipy_6linalg_11cython_blas_d").
 *             A pointer to an unknown type, or to a struct, is "P".
 *             "int __pyx_skip_dispatch", which Cython appends to a `cpdef` function, is left out:
 *             functions of a module do not look at it, and a caller that leaves out the last
 *             argument does no harm where callers clean up, which all ABIs that we know do.
 * Errors:     NC_E_FORMAT for what is no declaration of a function, NC_E_MISSING for a type that
 *             is passed by value and not known, NC_E_TOOLONG.
 * Ownership:  nothing is allocated.
 * Threads:    pure functions. */
#ifndef NATIVECALL_DECLARATION_H
#define NATIVECALL_DECLARATION_H

#include "typenames.h"

NC_C_BEGIN

/* ---- words ----------------------------------------------------------------------------------- */

typedef struct {
    const char *at; /* the next character */
    const char *end;
} NcDeclarationReader;

#define NC_DECLARATION_HIDDEN 2 /* Cython's "int __pyx_skip_dispatch" */

/* What the words of a type add up to. */
typedef struct {
    const char *code; /* of a typedef, NULL for the built-in types below */
    int is_void, is_bool, is_char, is_int, is_float, is_double, is_complex;
    int is_short, longs, is_signed, is_unsigned;
    int opaque; /* a struct, a union, or an unknown name */
    int object; /* PyObject */
    int words;  /* how many told the type */
} NcDeclaredType;

NC_STATIC_INLINE int nc_declaration_is_word(char c, int first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

NC_STATIC void nc_declaration_space(NcDeclarationReader *reader)
{
    while (reader->at < reader->end && nc_signature_is_space(*reader->at)) {
        reader->at++;
    }
}

/* The length of the word that comes next, 0 if there is none. */
NC_STATIC size_t nc_declaration_word(NcDeclarationReader *reader)
{
    const char *at;
    nc_declaration_space(reader);
    at = reader->at;
    while (at < reader->end && nc_declaration_is_word(*at, at == reader->at)) {
        at++;
    }
    return (size_t)(at - reader->at);
}

/* Takes a character if it comes next. */
NC_STATIC int nc_declaration_accept(NcDeclarationReader *reader, char c)
{
    nc_declaration_space(reader);
    if (reader->at < reader->end && *reader->at == c) {
        reader->at++;
        return 1;
    }
    return 0;
}

NC_STATIC_INLINE int nc_word_is(const char *word, size_t length, const char *other)
{
    return strlen(other) == length && memcmp(word, other, length) == 0;
}

/* Takes words that say nothing about the ABI. */
NC_STATIC int nc_declaration_qualifier(const char *word, size_t length)
{
    static const char *const names[] = {"const",      "volatile",     "restrict",
                                        "__restrict", "__restrict__", "register",
                                        "extern",     "static",       "inline"};
    size_t i;
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (nc_word_is(word, length, names[i])) {
            return 1;
        }
    }
    return 0;
}

/* ---- types ----------------------------------------------------------------------------------- */

/* Reads the words of a type; 0 when the next word is the name of what is declared. */
NC_STATIC int nc_declaration_take(NcDeclaredType *type, const char *word, size_t length)
{
    if (nc_word_is(word, length, "void")) {
        type->is_void++;
    } else if (nc_word_is(word, length, "_Bool") || nc_word_is(word, length, "bool")) {
        type->is_bool++;
    } else if (nc_word_is(word, length, "char")) {
        type->is_char++;
    } else if (nc_word_is(word, length, "int")) {
        type->is_int++;
    } else if (nc_word_is(word, length, "short")) {
        type->is_short++;
    } else if (nc_word_is(word, length, "long")) {
        type->longs++;
    } else if (nc_word_is(word, length, "signed")) {
        type->is_signed++;
    } else if (nc_word_is(word, length, "unsigned")) {
        type->is_unsigned++;
    } else if (nc_word_is(word, length, "float")) {
        type->is_float++;
    } else if (nc_word_is(word, length, "double")) {
        type->is_double++;
    } else if (nc_word_is(word, length, "_Complex") || nc_word_is(word, length, "complex")) {
        type->is_complex++;
    } else if (type->words > 0) {
        return 0;
    } else {
        type->code = nc_declaration_typedef(word, length);
        if (type->code == NULL) {
            type->code = nc_declaration_mangled(word, length);
        }
        type->object = nc_word_is(word, length, "PyObject");
        type->opaque = type->code == NULL && !type->object;
    }
    type->words++;
    return 1;
}

/* The code of what the words add up to; NULL for what cannot be passed by value. */
NC_STATIC const char *nc_declaration_code(const NcDeclaredType *type)
{
    int sign = type->is_signed || type->is_unsigned;
    int whole = type->is_int || type->is_short || type->longs || sign || type->is_char;
    int real = type->is_float + type->is_double;
    if (type->is_char > 1 || type->is_int > 1 || type->is_short > 1 || type->is_complex > 1 ||
        type->is_signed > 1 || type->is_unsigned > 1) {
        return NULL;
    }
    if (type->code != NULL || type->opaque || type->object) {
        /* A typedef stands alone. */
        return type->words == 1 && !type->opaque && !type->object ? type->code : NULL;
    }
    if (type->is_void || type->is_bool) {
        return type->words == 1 ? (type->is_void ? "v" : "?") : NULL;
    }
    if (real > 0) {
        if (real > 1 || type->longs > type->is_double || type->is_int || type->is_short || sign ||
            type->is_char) {
            return NULL;
        }
        if (type->is_complex) {
            return type->is_float ? "Zf" : type->longs ? "Zg" : "Zd";
        }
        return type->is_float ? "f" : type->longs ? "g" : "d";
    }
    if (!whole || type->is_complex || (type->is_signed && type->is_unsigned) ||
        (type->is_short && type->longs) || type->longs > 2 ||
        (type->is_char && (type->is_short || type->longs || type->is_int))) {
        return NULL;
    }
    if (type->is_char) {
        return type->is_unsigned ? "B" : type->is_signed ? "b" : "c";
    }
    if (type->is_short) {
        return type->is_unsigned ? "H" : "h";
    }
    if (type->longs == 1) {
        return type->is_unsigned ? "L" : "l";
    }
    if (type->longs == 2) {
        return type->is_unsigned ? "Q" : "q";
    }
    return type->is_unsigned ? "I" : "i";
}

/* The words and stars of a type; *code gets what is behind the stars. */
NC_STATIC int nc_declaration_specifier(NcDeclarationReader *reader, NcDeclaredType *type,
                                       int *stars)
{
    size_t length;
    memset(type, 0, sizeof *type);
    *stars = 0;
    for (;;) {
        length = nc_declaration_word(reader);
        if (length == 0) {
            if (!nc_declaration_accept(reader, '*')) {
                break;
            }
            ++*stars;
        } else if (nc_declaration_qualifier(reader->at, length)) {
            reader->at += length;
        } else if (nc_word_is(reader->at, length, "struct") ||
                   nc_word_is(reader->at, length, "union")) {
            reader->at += length;
            reader->at += nc_declaration_word(reader);
            type->opaque = 1;
            type->words++;
        } else if (nc_word_is(reader->at, length, "enum")) {
            /* An enumeration is an int in every ABI that we know, unless it says otherwise. */
            reader->at += length;
            reader->at += nc_declaration_word(reader);
            type->is_int++;
            type->words++;
        } else if (*stars == 0 && nc_declaration_take(type, reader->at, length)) {
            reader->at += length;
        } else {
            break;
        }
    }
    return type->words > 0 ? NC_OK : NC_E_FORMAT;
}

NC_STATIC int nc_declaration_write(NcSignatureText *out, const NcDeclaredType *type, int stars)
{
    const char *code = nc_declaration_code(type);
    if (type->object && stars == 1) {
        return nc_text_put(out, "O");
    }
    if (code == NULL && stars == 0) {
        return nc_text_fail(out, type->opaque || type->object ? NC_E_MISSING : NC_E_FORMAT);
    }
    for (; stars > 1; stars--) {
        nc_text_put(out, "&");
    }
    if (stars == 1) {
        return code == NULL || *code == 'v' ? nc_text_put(out, "P")
                                            : (nc_text_put(out, "&"), nc_text_put(out, code));
    }
    return nc_text_put(out, code);
}

NC_STATIC int nc_declaration_parameters(NcDeclarationReader *reader, NcSignatureText *out,
                                        int depth);

/* One parameter. *nothing is set for "void" and for Cython's own argument; neither is written. */
NC_STATIC int nc_declaration_parameter(NcDeclarationReader *reader, NcSignatureText *out, int depth,
                                       int *nothing)
{
    NcDeclaredType type;
    size_t length;
    int stars;
    *nothing = 0;
    if (nc_declaration_specifier(reader, &type, &stars) != NC_OK) {
        return nc_text_fail(out, NC_E_FORMAT);
    }
    if (nc_declaration_accept(reader, '(')) {
        /* "R (*name)(A)": a pointer to a function. */
        if (!nc_declaration_accept(reader, '*')) {
            return nc_text_fail(out, NC_E_FORMAT);
        }
        reader->at += nc_declaration_word(reader);
        if (!nc_declaration_accept(reader, ')') || !nc_declaration_accept(reader, '(')) {
            return nc_text_fail(out, NC_E_FORMAT);
        }
        nc_text_put(out, "X{");
        nc_declaration_write(out, &type, stars);
        nc_text_put(out, ":");
        nc_declaration_parameters(reader, out, depth + 1);
        return nc_text_put(out, "}");
    }
    length = nc_declaration_word(reader);
    if (nc_word_is(reader->at, length, "__pyx_skip_dispatch")) {
        *nothing = NC_DECLARATION_HIDDEN;
    } else {
        *nothing = type.is_void && type.words == 1 && stars == 0;
    }
    reader->at += length;
    if (nc_declaration_accept(reader, '[')) {
        while (reader->at < reader->end && *reader->at != ']') {
            reader->at++;
        }
        if (!nc_declaration_accept(reader, ']')) {
            return nc_text_fail(out, NC_E_FORMAT);
        }
        stars++;
    }
    return *nothing ? out->status : nc_declaration_write(out, &type, stars);
}

/* What is between parentheses, the closing one included. */
NC_STATIC int nc_declaration_parameters(NcDeclarationReader *reader, NcSignatureText *out,
                                        int depth)
{
    int nothing = 0;
    if (depth > NC_DECLARATION_MAX_DEPTH) {
        return nc_text_fail(out, NC_E_TOOLONG);
    }
    if (nc_declaration_accept(reader, ')')) {
        return out->status;
    }
    do {
        if (nothing == NC_DECLARATION_HIDDEN) {
            /* Optional arguments follow, which the function does look at. */
            nc_text_put(out, "i");
        } else if (nothing) {
            return nc_text_fail(out, NC_E_FORMAT);
        }
        nothing = 0;
        if (nc_declaration_accept(reader, '.')) {
            if (!nc_declaration_accept(reader, '.') || !nc_declaration_accept(reader, '.')) {
                return nc_text_fail(out, NC_E_FORMAT);
            }
            nc_text_put(out, ".");
            break;
        }
        if (nc_declaration_parameter(reader, out, depth, &nothing) != NC_OK) {
            return out->status;
        }
    } while (nc_declaration_accept(reader, ','));
    return nc_declaration_accept(reader, ')') ? out->status : nc_text_fail(out, NC_E_FORMAT);
}

/* Appends the type that a name of it tells ("uint32_t", "double *"), as cffi and Numba write it. */
NC_STATIC int nc_declaration_type(const char *text, size_t length, NcSignatureText *out)
{
    NcDeclarationReader reader;
    NcDeclaredType type;
    int stars;
    reader.at = text;
    reader.end = text + length;
    if (nc_declaration_specifier(&reader, &type, &stars) != NC_OK) {
        return nc_text_fail(out, NC_E_FORMAT);
    }
    nc_declaration_space(&reader);
    if (reader.at != reader.end) {
        return nc_text_fail(out, NC_E_FORMAT);
    }
    return nc_declaration_write(out, &type, stars);
}

/* The canonical signature of a declared function: "double (double)", "double (*)(double)",
 * "double cos(double x);". */
NC_STATIC int nc_declaration_function(const char *text, size_t length, NcSignatureText *out)
{
    NcDeclarationReader reader;
    NcDeclaredType type;
    int stars;
    reader.at = text;
    reader.end = text + length;
    nc_text_init(out);
    if (nc_declaration_specifier(&reader, &type, &stars) != NC_OK) {
        return nc_text_fail(out, NC_E_FORMAT);
    }
    nc_declaration_write(out, &type, stars);
    nc_text_put(out, ":");
    reader.at += nc_declaration_word(&reader);
    if (!nc_declaration_accept(&reader, '(')) {
        return nc_text_fail(out, NC_E_FORMAT);
    }
    if (nc_declaration_accept(&reader, '*')) {
        reader.at += nc_declaration_word(&reader);
        if (!nc_declaration_accept(&reader, ')') || !nc_declaration_accept(&reader, '(')) {
            return nc_text_fail(out, NC_E_FORMAT);
        }
    }
    nc_declaration_parameters(&reader, out, 0);
    (void)nc_declaration_accept(&reader, ';');
    nc_declaration_space(&reader);
    if (reader.at != reader.end) {
        return nc_text_fail(out, NC_E_FORMAT);
    }
    return nc_text_canonical(out);
}

NC_C_END

#endif
