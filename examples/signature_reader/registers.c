/* registers.c: see registers.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <nativecall/detail/core/signaturecursor.h>

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

/* ---- output ---------------------------------------------------------------------------------- */

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

/* ---- registers ------------------------------------------------------------------------------- */

static const char *const integers[] = {"rdi", "rsi", "rdx", "rcx", "r8", "r9"};
static const char *const vectors[] = {"xmm0", "xmm1", "xmm2", "xmm3",
                                      "xmm4", "xmm5", "xmm6", "xmm7"};

/* What the arguments so far have taken. */
typedef struct {
    size_t integers;
    size_t vectors;
} Taken;

/* The next registers of both rows, as many as a value has parts. */
static void put_registers(Output *output, const Classes *classes, const char *const *integer,
                          const char *const *vector)
{
    const char *before = ", in ";
    int i;
    for (i = 0; i < 2 && classes->part[i] != NOTHING; i++) {
        put(output, "%s%s", before, classes->part[i] == VECTOR ? *vector++ : *integer++);
        before = ", ";
    }
}

/* An argument is in registers if all of its parts are. */
static void put_argument(Output *output, const NcSignatureType *type, Taken *taken)
{
    const Classes classes = classes_of(type);
    Taken then = *taken;
    int in_registers = 1;
    int i;
    for (i = 0; i < 2; i++) {
        then.integers += classes.part[i] == INTEGER;
        then.vectors += classes.part[i] == VECTOR;
        in_registers &= classes.part[i] <= INTEGER;
    }
    if (in_registers && then.integers <= 6 && then.vectors <= 8) {
        put_registers(output, &classes, integers + taken->integers, vectors + taken->vectors);
        *taken = then;
    } else {
        put(output, ", on the stack");
    }
}

/* A result in memory takes the first integer register for its address. */
static void put_result(Output *output, const NcSignatureType *type, Taken *taken)
{
    static const char *const integer[] = {"rax", "rdx"};
    const Classes classes = classes_of(type);
    if (type->kind == NC_KIND_COMPLEX && type->code == 'g') {
        put(output, ", in st0, st1");
    } else if (classes.part[0] == X87) {
        put(output, ", in st0");
    } else if (classes.part[0] == MEMORY) {
        put(output, ", in memory at %s", integers[taken->integers++]);
    } else {
        put_registers(output, &classes, integer, vectors);
    }
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* The name of a type without what is within it. */
static void put_name(Output *output, const NcSignatureType *type)
{
    const unsigned bits = (unsigned)type->size * 8;
    switch (type->kind) {
    case NC_KIND_VOID:
        put(output, "void");
        break;
    case NC_KIND_BOOL:
        put(output, "bool");
        break;
    case NC_KIND_INT:
        put(output, nc_scalar_is_signed(type->code) ? "int%u" : "uint%u", bits);
        break;
    case NC_KIND_FLOAT:
        put(output, type->code == 'g' ? "long double" : "float%u", bits);
        break;
    case NC_KIND_COMPLEX:
        put(output, type->code == 'g' ? "long double complex" : "complex%u", bits);
        break;
    case NC_KIND_VOIDPTR:
    case NC_KIND_POINTER:
        put(output, "pointer");
        break;
    case NC_KIND_FUNCTION:
        put(output, "function pointer");
        break;
    case NC_KIND_STRUCT:
        put(output, type->text[0] == '=' ? "packed struct" : "struct");
        break;
    case NC_KIND_ARRAY:
        put(output, "array of %zu", type->count);
        break;
    case NC_KIND_VIEW:
        put(output, "view in %zu dimension%s", type->ndim, type->ndim == 1 ? "" : "s");
        break;
    default:
        put(output, "Python object");
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
        put(output, "%*s%s", indent, "", labels[type.place]);
        if (type.place == NC_PLACE_ARGUMENT || type.place == NC_PLACE_FIELD) {
            put(output, " %zu", type.place == NC_PLACE_ARGUMENT ? ++number : type.offset);
        }
        put(output, ": ");
        put_name(output, &type);
        if (type.kind != NC_KIND_VOID) {
            put(output, ", size %zu", type.size);
            if (type.alignment != type.size) {
                put(output, ", alignment %zu", type.alignment);
            }
            if (is_call && type.place == NC_PLACE_RESULT) {
                put_result(output, &type, &taken);
            } else if (is_call) {
                put_argument(output, &type, &taken);
            }
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
