/* nativecall/detail/objectclass.h: what native code knows of a class of native objects: its order
 * of bases, where each class's fields lie, which function a method is. No Python.
 *
 * Idea:       a class is made once, from its bases and what it defines itself (NcClass, "own"
 *             below), and never changes. Making it linearises the bases (C3, as Python does), lays
 *             the fields out and builds one slot table, in which native code finds, by one probe
 *             each:
 *
 *                 address of a class          that is a base; data.objoffset leads from the
 *                                             object to the fields that it defines
 *                 interned "name signature"   a method: its function (NULL: abstract), the flags
 *                                             of its entry, what to add to the object for self
 *                 NC_SLOT_NATIVECLASS_ID      the NcClass itself
 *
 *             So a cast to a base and the question whether there is one are one lookup, and a
 *             method is the same through every base, because a cast never changes the object.
 * Invariants: a class keeps the places of its first base's fields, and puts those of further bases
 *             and its own below; so they only move for a second base. Every class along the order
 *             has its fields once, also when it is reached by several ways.
 *             One name is one method with one signature, or one field, in all classes of an order.
 * Threads:    making and clearing touch only what they are given; a made class is read only, but
 *             for `lasting`, which is the GIL's.
 * Errors:     NC_E_*, and an NcClassProblem that names both sides; the class is then as it was.
 * Ownership:  names, fields and methods are borrowed and must live as long as the class, and so
 *             must its bases; nc_class_copy makes a class that owns them. nc_class_clear frees what
 *             nc_class_make has allocated. */
#ifndef NATIVECALL_OBJECTCLASS_H
#define NATIVECALL_OBJECTCLASS_H

#include <stdio.h>

#include "core/slottable.h"

NC_C_BEGIN

/* The key of the row that leads from a type to its NcClass (data.pointer). */
#define NC_SLOT_NATIVECLASS_ID ((uintptr_t)0x04000201)

/* What lies before an object, nearest last: the fields of its classes, this, four words for
 * CPython. */
typedef struct {
    size_t count;              /* atomic: native references; that Python has it alive is one */
    const struct NcClass *cls; /* never changes */
    uintptr_t state; /* NC_OBJECT_*; holders of the GIL, then who drops the last reference */
} NcObjectHead;

/* CPython keeps up to four words before an object of a class with a __dict__ or weak references
 * (PyGC_Head, the managed dictionary). They are there for every class, so that fields stay where
 * they are when a class statement adds such a thing. */
#define NC_OBJECT_PYTHON_WORDS (4 * sizeof(void *))
#define NC_OBJECT_HEAD (NC_OBJECT_PYTHON_WORDS + sizeof(NcObjectHead))
#define NC_OBJECT_ALIGN ((size_t)16) /* malloc's; no field may need more */

enum {
    NC_CLASS_PLAIN = 1,    /* nothing is to be done when an object ends */
    NC_CLASS_ABSTRACT = 2, /* a method has no function: no objects */
    NC_CLASS_MADE = 4,     /* nc_class_make has succeeded */
    NC_CLASS_CREATES = 8,  /* a class of the order has a `create` */
    NC_CLASS_LARGE = 16,   /* more than NC_CLASS_FEW bytes lie before the head of its objects */
    NC_CLASS_FAILED = 32   /* Python's class was refused after it was made: no objects */
};

/* Bytes of fields that a new object takes no loop for: not more than the head is large. */
#define NC_CLASS_FEW (4 * sizeof(void *))

/* The place of a class's fields in objects of another. */
typedef struct {
    const struct NcClass *cls;
    intptr_t offset; /* to be added to the object's address; negative */
} NcPart;

#define NC_FIELD_SELF ((const struct NcClass *)(uintptr_t)1) /* for nc_class_define */

typedef struct {
    const char *name;
    const char *type;          /* its code (docs/abi/signatures.md); NULL: a counted reference */
    size_t offset;             /* within the class's own fields */
    const struct NcClass *cls; /* of a reference: what it may refer to; NULL: any native object;
                                * NC_FIELD_SELF: objects of the class that is being defined */
} NcField;

typedef struct {
    const char *key;  /* interned: the name, a blank, the canonical signature */
    void *function;   /* NULL: abstract */
    uintptr_t flags;  /* NC_FLAG_* and one of NC_ERRORS_*, at most 32 bits */
    int takes_fields; /* whether self is the class's own fields; else it is the object */
} NcMethod;

typedef struct NcClass {
    size_t struct_size; /* sizeof(NcClass) where it was made */
    const char *name;
    void *type;     /* PyTypeObject, or NULL in a process without Python */
    size_t type_at; /* where an object keeps its type */
    void **waiting; /* the process's list of ended objects that own a reference to their type, which
                     * takes the GIL to give back: linked through their counts (nativeobject.h) */
    /* own: what the class itself defines */
    size_t fields_size;            /* bytes, zero in a new object */
    size_t fields_align;           /* a power of two, at most NC_OBJECT_ALIGN */
    void (*create)(void *fields);  /* or NULL: called for each new object, the bases' first; where
                                   * zero bytes are no object. No GIL, and it cannot fail */
    void (*destroy)(void *fields); /* or NULL: called once, before references are released; no GIL,
                                    * no Python, in whatever thread the last reference ended. It
                                    * neither retains nor releases its own object, whose end has
                                    * begun and would begin again */
    const NcField *fields;
    size_t field_count;
    const NcMethod *methods;
    size_t method_count;
    /* made */
    uint32_t flags;           /* NC_CLASS_* */
    uint32_t lasting;         /* lives as long as the process, so objects need not keep it. No flag,
                               * because it is the one thing that changes; only with the GIL */
    size_t before;            /* bytes before the object, a multiple of NC_OBJECT_ALIGN */
    size_t after;             /* bytes from the object on: what CPython knows of */
    intptr_t offset;          /* of its own fields from its own objects */
    PyCustomSlotTable *slots; /* see on top */
    NcPart *parts;            /* the class, then its bases in their order */
    size_t part_count;
    void *owned; /* freed with free() by nc_class_clear: for who made it */
} NcClass;

/* Why a class cannot be; empty for want of memory. */
typedef struct {
    char text[600];
} NcClassProblem;

/* The row of a key in a class's table, or NULL. */
NC_HOT_INLINE const PyCustomSlot *nc_class_slot(const NcClass *cls, const void *key)
{
    return nc_slottable_find(cls->slots, (uintptr_t)key);
}

/* Where in a class's table the row of a key is, for nc_object_method_at; 0 where it is not. */
NC_STATIC_INLINE size_t nc_class_position(const NcClass *cls, const void *key)
{
    const PyCustomSlot *row = nc_class_slot(cls, key);
    return row != NULL ? (size_t)(row - nc_slottable_rows(cls->slots)) : 0;
}

/* Whether a class is another or derives from it. */
NC_STATIC_INLINE int nc_class_derives(const NcClass *cls, const NcClass *base)
{
    return cls == base || nc_class_slot(cls, base) != NULL;
}

/* Whether a class has a method that can be called, by its name and signature: structural typing is
 * this for each method that is wanted. */
NC_STATIC_INLINE int nc_class_has_method(const NcClass *cls, const char *key)
{
    const PyCustomSlot *row = nc_class_slot(cls, key);
    return row != NULL && row->data.pointer != NULL;
}

/* ---- the order of bases ---------------------------------------------------------------------- */

/* Where in a list of parts a class stands; the count if it does not. */
NC_STATIC size_t nc_parts_find(const NcPart *parts, size_t count, const NcClass *cls)
{
    size_t i = 0;
    while (i < count && parts[i].cls != cls) {
        i++;
    }
    return i;
}

/* ---- the layout ------------------------------------------------------------------------------ */

/* What the fields of an order may take in all: offsets of them are 32 bits in slot tables. */
#define NC_CLASS_MOST ((size_t)INT32_MAX / 2)

/* Puts the fields of each part somewhere: those of the first base where it has them, the others
 * below, in the order from the last to the first, so that the class's own come last. NC_E_RANGE for
 * more than NC_CLASS_MOST, and for an alignment that is none. */
NC_STATIC int nc_class_lay_out(NcClass *cls, const NcClass *first, NcClassProblem *problem)
{
    int fits = (cls->fields_align & (cls->fields_align - 1)) == 0 &&
               cls->fields_align <= NC_OBJECT_ALIGN && cls->fields_size <= NC_CLASS_MOST;
    size_t depth = NC_OBJECT_HEAD;
    size_t i;
    for (i = 0; i < cls->part_count; i++) {
        const size_t at =
            first != NULL ? nc_parts_find(first->parts, first->part_count, cls->parts[i].cls) : 0;
        cls->parts[i].offset = 0;
        if (first != NULL && at < first->part_count) {
            const size_t lowest = (size_t)-first->parts[at].offset;
            cls->parts[i].offset = first->parts[at].offset;
            depth = lowest > depth ? lowest : depth;
        }
    }
    for (i = cls->part_count; fits && i-- > 0;) {
        const NcClass *part = cls->parts[i].cls;
        if (cls->parts[i].offset == 0) {
            depth += part->fields_size;
            depth = (depth + part->fields_align - 1) & ~(part->fields_align - 1);
            cls->parts[i].offset = -(intptr_t)depth;
        }
        fits = depth <= NC_CLASS_MOST;
    }
    if (!fits) {
        (void)snprintf(problem->text, sizeof problem->text,
                       "class '%s' has fields of an alignment that is no power of two up to %d, "
                       "or, with those of its bases, more than a gigabyte",
                       cls->name, (int)NC_OBJECT_ALIGN);
        return NC_E_RANGE;
    }
    cls->offset = cls->parts[0].offset;
    cls->before = (depth + NC_OBJECT_ALIGN - 1) & ~(NC_OBJECT_ALIGN - 1);
    return NC_OK;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Whether a method's key begins with this name. */
NC_STATIC int nc_key_names(const char *key, const char *name, size_t length)
{
    return strncmp(key, name, length) == 0 && key[length] == ' ';
}

/* Looks for `name` among what a class defines itself, fields first: its number from 1 on, with the
 * method's key or NULL for a field in *key; 0. */
NC_STATIC size_t nc_class_defines(const NcClass *cls, const char *name, size_t length,
                                  const char **key)
{
    size_t i;
    *key = NULL;
    for (i = 0; i < cls->field_count; i++) {
        if (strncmp(cls->fields[i].name, name, length) == 0 && cls->fields[i].name[length] == 0) {
            return i + 1;
        }
    }
    for (i = 0; i < cls->method_count; i++) {
        if (nc_key_names(cls->methods[i].key, name, length)) {
            *key = cls->methods[i].key;
            return cls->field_count + i + 1;
        }
    }
    return 0;
}

/* Whether a name, the one of this number that parts[which] defines, is something else there or in a
 * part behind it. */
NC_STATIC int nc_class_check_name(const NcClass *cls, size_t which, size_t number, const char *name,
                                  const char *key, NcClassProblem *problem)
{
    const size_t length = key != NULL ? (size_t)(strchr(key, ' ') - key) : strlen(name);
    size_t i;
    for (i = which; i < cls->part_count; i++) {
        const char *other = NULL;
        const size_t found = nc_class_defines(cls->parts[i].cls, name, length, &other);
        if (i == which ? found != number : found != 0 && (key == NULL || other != key)) {
            (void)snprintf(problem->text, sizeof problem->text,
                           "class '%.100s': '%.*s' is %s%.100s in '%.100s', and %s%.100s in "
                           "'%.100s'; one name is one field, or one method with one signature",
                           cls->name, length < 100 ? (int)length : 100, name,
                           key != NULL ? "method" : "a field", key != NULL ? key + length : "",
                           cls->parts[which].cls->name, other != NULL ? "method" : "a field",
                           other != NULL ? other + length : "", cls->parts[i].cls->name);
            return NC_E_DUPLICATE;
        }
    }
    return NC_OK;
}

NC_STATIC int nc_class_check_names(const NcClass *cls, NcClassProblem *problem)
{
    size_t i, n;
    int status = NC_OK;
    /* The names of a base's own order were compared when that was made. */
    const size_t count = cls->part_count > 1 && cls->parts[1].cls->part_count == cls->part_count - 1
                             ? 1
                             : cls->part_count;
    for (i = 0; i < count && status == NC_OK; i++) {
        const NcClass *part = cls->parts[i].cls;
        for (n = 0; n < part->field_count && status == NC_OK; n++) {
            status = nc_class_check_name(cls, i, n + 1, part->fields[n].name, NULL, problem);
        }
        for (n = 0; n < part->method_count && status == NC_OK; n++) {
            const char *key = part->methods[n].key;
            status = nc_class_check_name(cls, i, part->field_count + n + 1, key, key, problem);
        }
    }
    return status;
}

/* Bytes of a field; at least 1 of what only Python reads. */
NC_STATIC size_t nc_field_size(const NcField *field)
{
    return field->type == NULL ? sizeof(void *) : 1;
}

#define NC_FIELDS_OVERLAP                                                                          \
    "class '%.200s': fields '%.100s' and '%.100s' lie over one another, and one of them is a "     \
    "reference, which needs its bytes alone"

/* Return the first other field that shares one of `size` bytes of fields[which], if one of the two
 * is a reference; otherwise NULL. Fields of other types may be those of a union. */
NC_STATIC const NcField *nc_class_field_over(const NcClass *cls, size_t which, size_t size)
{
    const NcField *field = &cls->fields[which];
    size_t i;
    for (i = 0; i < cls->field_count; i++) {
        const NcField *other = &cls->fields[i];
        const size_t own = nc_field_size(other);
        if (i != which && (nc_field_size(field) > 1 || own > 1) &&
            other->offset < field->offset + size && field->offset < other->offset + own) {
            return other;
        }
    }
    return NULL;
}

/* Whether fields lie where a class says it has some, and no other field shares the bytes of a
 * reference. Python checks the types and sizes of the fields that only it reads. */
NC_STATIC int nc_class_check_fields(const NcClass *cls, NcClassProblem *problem)
{
    size_t i;
    for (i = 0; i < cls->field_count; i++) {
        const NcField *field = &cls->fields[i];
        const NcField *over;
        const size_t size = nc_field_size(field);
        if (field->offset % size != 0 || cls->fields_align % size != 0 || cls->fields_size < size ||
            field->offset > cls->fields_size - size) {
            (void)snprintf(problem->text, sizeof problem->text,
                           "class '%.200s': field '%.100s' does not lie within the %zu bytes of "
                           "its fields, at a multiple of its alignment, which is theirs too",
                           cls->name, field->name, cls->fields_size);
            return NC_E_RANGE;
        }
        over = nc_class_field_over(cls, i, size);
        if (over != NULL) {
            (void)snprintf(problem->text, sizeof problem->text, NC_FIELDS_OVERLAP, cls->name,
                           field->name, over->name);
            return NC_E_RANGE;
        }
    }
    return NC_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The class of an order that defines a method first, from part `from` on; NULL if none does. */
NC_STATIC const NcMethod *nc_class_defined(const NcClass *cls, size_t from, const char *key,
                                           size_t *which)
{
    size_t i, n;
    for (i = from; i < cls->part_count; i++) {
        const NcClass *part = cls->parts[i].cls;
        for (n = 0; n < part->method_count; n++) {
            if (part->methods[n].key == key) {
                *which = i;
                return &part->methods[n];
            }
        }
    }
    return NULL;
}

/* The row of a key in a class that is being made. */
NC_STATIC PyCustomSlot nc_class_row(NcClass *cls, uintptr_t key)
{
    PyCustomSlot row;
    const size_t part =
        nc_parts_find(cls->parts, cls->part_count, (const NcClass *)(const void *)key);
    memset(&row, 0, sizeof row);
    row.id = key;
    if (key == NC_SLOT_NATIVECLASS_ID) {
        row.data.pointer = (void *)cls;
    } else if (part < cls->part_count) {
        row.data.objoffset = cls->parts[part].offset;
    } else {
        size_t which = 0;
        const NcMethod *method = nc_class_defined(cls, 0, (const char *)(const void *)key, &which);
        const int32_t added = method->takes_fields ? (int32_t)cls->parts[which].offset : 0;
        row.flags = (uint64_t)(uint32_t)method->flags | (uint64_t)(uint32_t)added << 32;
        row.data.pointer = method->function;
    }
    return row;
}

/* The rows of the first base at their positions, then what else there is: so that a method's
 * position in a class is that in all which derive from it along first bases. */
NC_STATIC int nc_class_build_table(NcClass *cls, const NcClass *first)
{
    const size_t inherited = first != NULL ? first->slots->count : 0;
    size_t capacity = inherited + 1 + cls->part_count;
    size_t count = 0;
    size_t i, n;
    PyCustomSlot *rows;
    int status;
    for (i = 0; i < cls->part_count; i++) {
        capacity += cls->parts[i].cls->method_count;
    }
    rows = (PyCustomSlot *)calloc(capacity, sizeof *rows);
    if (rows == NULL) {
        return NC_E_NOMEM;
    }
    for (i = 0; i < inherited; i++) {
        rows[count++] = nc_class_row(cls, nc_slottable_rows(first->slots)[i].id);
    }
    if (inherited == 0) {
        rows[count++] = nc_class_row(cls, NC_SLOT_NATIVECLASS_ID);
    }
    for (i = cls->part_count; i-- > 0;) {
        const NcClass *part = cls->parts[i].cls;
        if (inherited == 0 || nc_slottable_find(first->slots, (uintptr_t)part) == NULL) {
            rows[count++] = nc_class_row(cls, (uintptr_t)part);
        }
        for (n = 0; n < part->method_count; n++) {
            const char *key = part->methods[n].key;
            if (nc_rows_find(rows, count, (uintptr_t)key) == NULL) {
                rows[count++] = nc_class_row(cls, (uintptr_t)key);
            }
        }
    }
    for (i = 0; i < count; i++) {
        /* Only a method has no data: classes are not at address 0, nor fields at the object. */
        cls->flags |= rows[i].data.pointer == NULL ? (uint32_t)NC_CLASS_ABSTRACT : 0;
    }
    status = nc_slottable_build(rows, count, &cls->slots, NULL);
    free(rows);
    return status;
}

/* Frees what nc_class_make has allocated; the class can be made again. No object and no derived
 * class may be left. */
NC_STATIC void nc_class_clear(NcClass *cls)
{
    nc_slottable_free(cls->slots);
    free(cls->parts);
    free(cls->owned);
    cls->slots = NULL;
    cls->parts = NULL;
    cls->part_count = 0;
    cls->owned = NULL;
    cls->flags = 0;
    cls->lasting = 0;
}

NC_STATIC void nc_class_free(NcClass *cls)
{
    if (cls != NULL) {
        nc_class_clear(cls);
        free(cls);
    }
}

/* Copies a text to *at, which it moves behind it; NULL stays NULL. */
NC_STATIC const char *nc_text_copy(char **at, const char *text)
{
    const size_t length = text != NULL ? strlen(text) + 1 : 0;
    char *copy = *at;
    *at += length;
    return length != 0 ? (const char *)memcpy(copy, text, length) : NULL;
}

/* A class that is not made yet, of what another has itself: name, fields and methods are copied;
 * a field of the other class, or of NC_FIELD_SELF, is one of the copy. For nc_class_free; NULL
 * without memory. */
NC_STATIC NcClass *nc_class_copy(const NcClass *own)
{
    const size_t fields_bytes = own->field_count * sizeof(NcField);
    const size_t methods_bytes = own->method_count * sizeof(NcMethod);
    size_t bytes = fields_bytes + methods_bytes + strlen(own->name) + 1;
    NcClass *cls = (NcClass *)calloc(1, sizeof *cls);
    NcField *fields;
    char *at;
    size_t i;
    for (i = 0; i < own->field_count; i++) {
        const char *type = own->fields[i].type;
        bytes += strlen(own->fields[i].name) + 1 + (type != NULL ? strlen(type) + 1 : 0);
    }
    at = (char *)malloc(bytes);
    if (cls == NULL || at == NULL) {
        free(cls);
        free(at);
        return NULL;
    }
    cls->owned = at;
    cls->fields_size = own->fields_size;
    cls->fields_align = own->fields_align;
    cls->create = own->create;
    cls->destroy = own->destroy;
    cls->field_count = own->field_count;
    cls->method_count = own->method_count;
    cls->fields = fields = (NcField *)(void *)at;
    cls->methods = (NcMethod *)(void *)(at + fields_bytes);
    if (methods_bytes != 0) {
        memcpy(at + fields_bytes, own->methods, methods_bytes);
    }
    at += fields_bytes + methods_bytes;
    cls->name = nc_text_copy(&at, own->name);
    for (i = 0; i < own->field_count; i++) {
        fields[i] = own->fields[i];
        fields[i].name = nc_text_copy(&at, fields[i].name);
        fields[i].type = nc_text_copy(&at, fields[i].type);
        if (fields[i].cls == NC_FIELD_SELF || fields[i].cls == own) {
            fields[i].cls = cls;
        }
    }
    return cls;
}

/* Makes a class whose own part is filled in, of its first base, or NULL, and its order without
 * itself, in which all classes are made. NC_E_RANGE: the fields' alignment is none, the fields of
 * the order take more than NC_CLASS_MOST bytes, or a field lies elsewhere or over a reference;
 * NC_E_DUPLICATE: a name is defined twice, or differently by two classes; NC_E_NOMEM. */
NC_STATIC int nc_class_make(NcClass *cls, const NcClass *first, const NcClass *const *order,
                            size_t count, NcClassProblem *problem)
{
    size_t i, n;
    int status;

    problem->text[0] = 0;
    cls->struct_size = sizeof *cls;
    cls->fields_align = cls->fields_align == 0 ? 1 : cls->fields_align;
    cls->slots = NULL;
    cls->flags = 0;
    cls->parts = (NcPart *)calloc(count + 1, sizeof *cls->parts);
    if (cls->parts == NULL) {
        return NC_E_NOMEM;
    }
    cls->parts[0].cls = cls;
    cls->part_count = count + 1;
    for (i = 0; i < count; i++) {
        cls->parts[i + 1].cls = order[i];
    }
    status = nc_class_check_fields(cls, problem);
    status = status == NC_OK ? nc_class_lay_out(cls, first, problem) : status;
    status = status == NC_OK ? nc_class_check_names(cls, problem) : status;
    status = status == NC_OK ? nc_class_build_table(cls, first) : status;
    if (status != NC_OK) {
        free(cls->parts);
        cls->parts = NULL;
        cls->part_count = 0;
        return status;
    }
    cls->flags |= NC_CLASS_MADE | NC_CLASS_PLAIN;
    cls->flags |= cls->before - NC_OBJECT_HEAD > NC_CLASS_FEW ? NC_CLASS_LARGE : 0;
    for (i = 0; i < cls->part_count; i++) {
        const NcClass *part = cls->parts[i].cls;
        int plain = part->destroy == NULL;
        for (n = 0; n < part->field_count; n++) {
            plain = plain && part->fields[n].type != NULL;
        }
        cls->flags &= plain ? ~(uint32_t)0 : ~(uint32_t)NC_CLASS_PLAIN;
        cls->flags |= part->create != NULL ? NC_CLASS_CREATES : 0;
    }
    return NC_OK;
}

NC_C_END

#endif
