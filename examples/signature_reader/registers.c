/* registers.c: see registers.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <nativecall/signaturetext.h>

#include "registers.h"

/* ---- classes --------------------------------------------------------------------------------- */

/* What an eight-byte part of a value is passed in; of what it consists of, the last one counts. */
typedef enum { NOTHING, VECTOR, INTEGER, X87, MEMORY } Class;

/* A value's parts; whatever is larger than two is in memory. */
typedef struct {
    Class part[2];
} Classes;

static void merge(Classes *classes, size_t part, Class with)
{
    if (with > classes->part[part]) {
        classes->part[part] = with;
    }
}

/* Merges a type that lies `offset` bytes into a value of at most 16 bytes. */
static void classify(const NcSignatureType *type, size_t offset, Classes *classes)
{
    const size_t scalar = type->kind == NC_KIND_COMPLEX ? type->size / 2 : type->size;
    NcSignatureCursor inner;
    NcSignatureType within;
    size_t i;
    switch (type->kind) {
    case NC_KIND_VOID:
        break;
    case NC_KIND_STRUCT:
        (void)nc_signature_enter(type, &inner);
        while (nc_signature_next(&inner, &within) == NC_OK) {
            classify(&within, offset + within.offset, classes);
        }
        break;
    case NC_KIND_ARRAY:
        (void)nc_signature_enter(type, &inner);
        (void)nc_signature_next(&inner, &within);
        for (i = 0; i < type->count; i++) {
            classify(&within, offset + i * type->item_size, classes);
        }
        break;
    default: {
        const int is_float = type->kind == NC_KIND_FLOAT || type->kind == NC_KIND_COMPLEX;
        for (i = 0; i < type->size / scalar; i++, offset += scalar) {
            if (offset % type->alignment != 0) {
                merge(classes, 0, MEMORY); /* a field that a packed struct misplaces */
            } else if (scalar > 8) {
                merge(classes, 0, X87);
                merge(classes, 1, X87);
            } else {
                merge(classes, offset / 8, is_float ? VECTOR : INTEGER);
            }
        }
    }
    }
}

/* The classes of an argument or a result. */
static Classes classes_of(const NcSignatureType *type)
{
    Classes classes = {{NOTHING, NOTHING}};
    if (type->size > 16) {
        classes.part[0] = MEMORY;
    } else {
        classify(type, 0, &classes);
    }
    if (classes.part[0] == MEMORY || classes.part[1] == MEMORY) {
        classes.part[0] = MEMORY;
        classes.part[1] = NOTHING;
    }
    return classes;
}

/* ---- registers ------------------------------------------------------------------------------- */

static const char *const integers[] = {"rdi", "rsi", "rdx", "rcx", "r8", "r9"};
static const char *const vectors[] = {"xmm0", "xmm1", "xmm2", "xmm3",
                                      "xmm4", "xmm5", "xmm6", "xmm7"};

/* What the arguments so far have taken. */
typedef struct {
    size_t integers;
    size_t vectors;
} Taken;

static void append(char *place, size_t size, const char *name)
{
    size_t used = strlen(place);
    snprintf(place + used, size - used, "%s%s", used == 0 ? "in " : ", ", name);
}

/* An argument is in registers if all of its parts are. */
static void place_argument(const NcSignatureType *type, Taken *taken, char *place, size_t size)
{
    const Classes classes = classes_of(type);
    Taken then = *taken;
    int i;
    place[0] = '\0';
    for (i = 0; i < 2; i++) {
        switch (classes.part[i]) {
        case NOTHING:
            continue;
        case INTEGER:
            if (then.integers < 6) {
                append(place, size, integers[then.integers++]);
                continue;
            }
            break;
        case VECTOR:
            if (then.vectors < 8) {
                append(place, size, vectors[then.vectors++]);
                continue;
            }
            break;
        default:
            break;
        }
        snprintf(place, size, "on the stack");
        return;
    }
    *taken = then;
}

/* A result in memory takes the first integer register for its address. */
static void place_result(const NcSignatureType *type, Taken *taken, char *place, size_t size)
{
    static const char *const names[2][2] = {{"rax", "rdx"}, {"xmm0", "xmm1"}};
    const Classes classes = classes_of(type);
    size_t used[2] = {0, 0};
    int i;
    place[0] = '\0';
    if (type->kind == NC_KIND_COMPLEX && type->code == 'g') {
        snprintf(place, size, "in st0, st1");
    } else if (classes.part[0] == X87) {
        snprintf(place, size, "in st0");
    } else if (classes.part[0] == MEMORY) {
        snprintf(place, size, "in memory at %s", integers[taken->integers++]);
    } else {
        for (i = 0; i < 2 && classes.part[i] != NOTHING; i++) {
            const int vector = classes.part[i] == VECTOR;
            append(place, size, names[vector][used[vector]++]);
        }
    }
}

/* ---- the tree -------------------------------------------------------------------------------- */

typedef struct {
    char *text;
    size_t size;
    size_t length;
} Output;

static void put(Output *output, const char *format, ...)
{
    const size_t left = output->length < output->size ? output->size - output->length : 0;
    va_list values;
    int written;
    va_start(values, format);
    written = vsnprintf(left != 0 ? output->text + output->length : NULL, left, format, values);
    va_end(values);
    output->length += written > 0 ? (size_t)written : 0;
}

/* The name of a type without what is within it. */
static void name_of(const NcSignatureType *type, char *name, size_t size)
{
    const unsigned bits = (unsigned)type->size * 8;
    switch (type->kind) {
    case NC_KIND_VOID:
        snprintf(name, size, "void");
        break;
    case NC_KIND_BOOL:
        snprintf(name, size, "bool");
        break;
    case NC_KIND_INT:
        snprintf(name, size, "%sint%u", strchr("BHIQ", type->code) != NULL ? "u" : "", bits);
        break;
    case NC_KIND_FLOAT:
        snprintf(name, size, type->code == 'g' ? "long double" : "float%u", bits);
        break;
    case NC_KIND_COMPLEX:
        snprintf(name, size, type->code == 'g' ? "long double complex" : "complex%u", bits);
        break;
    case NC_KIND_VOIDPTR:
    case NC_KIND_POINTER:
        snprintf(name, size, "pointer");
        break;
    case NC_KIND_FUNCTION:
        snprintf(name, size, "function pointer");
        break;
    case NC_KIND_STRUCT:
        snprintf(name, size, type->text[0] == '=' ? "packed struct" : "struct");
        break;
    case NC_KIND_ARRAY:
        snprintf(name, size, "array of %zu", type->count);
        break;
    case NC_KIND_VIEW:
        snprintf(name, size, "view in %zu dimension%s", type->ndim, type->ndim == 1 ? "" : "s");
        break;
    default:
        snprintf(name, size, "Python object");
        break;
    }
}

/* The types of one level. Only a call has values in registers: what is behind a pointer has not. */
static void put_level(Output *output, NcSignatureCursor cursor, int indent, int is_call)
{
    static const char *const labels[] = {"result", "argument", "byte", "to", "element", "item"};
    Taken taken = {0, 0};
    NcSignatureType type;
    NcSignatureCursor inner;
    size_t number = 0;
    while (nc_signature_next(&cursor, &type) == NC_OK) {
        char label[32];
        char name[32];
        char place[32];
        name_of(&type, name, sizeof name);
        if (type.place == NC_PLACE_ARGUMENT) {
            snprintf(label, sizeof label, "%s %zu", labels[type.place], ++number);
        } else if (type.place == NC_PLACE_FIELD) {
            snprintf(label, sizeof label, "%s %zu", labels[type.place], type.offset);
        } else {
            snprintf(label, sizeof label, "%s", labels[type.place]);
        }
        put(output, "%*s%s: %s", indent, "", label, name);
        if (type.kind != NC_KIND_VOID) {
            put(output, ", size %zu", type.size);
            if (type.alignment != type.size) {
                put(output, ", alignment %zu", type.alignment);
            }
        }
        if (is_call && type.kind != NC_KIND_VOID) {
            if (type.place == NC_PLACE_RESULT) {
                place_result(&type, &taken, place, sizeof place);
            } else {
                place_argument(&type, &taken, place, sizeof place);
            }
            put(output, ", %s", place);
        }
        put(output, "\n");
        if (nc_signature_enter(&type, &inner) == NC_OK) {
            put_level(output, inner, indent + 2, 0);
        }
    }
    if (cursor.variadic) {
        put(output, "%*smore arguments; al is the number of vector registers\n", indent, "");
    }
}

size_t describe(const char *signature, char *out, size_t size)
{
    Output output = {out, size, 0};
    NcSignatureCursor cursor;
    if (nc_signature_open(signature, strlen(signature), &cursor) == NC_OK) {
        put_level(&output, cursor, 0, 1);
    }
    return output.length;
}
