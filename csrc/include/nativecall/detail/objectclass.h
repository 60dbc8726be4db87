/* nativecall/detail/objectclass.h: the native description of a class: its MRO, field layout and
 * methods. Uses no Python.
 *
 * Idea:       a class is built once, from its bases and its own members (NcClass, "own" below), and
 *             never changes. Building it lays out the fields along the MRO (C3, as in Python) and
 *             builds one slot table. Native code looks up these keys, each with one probe:
 *
 *                 address of a class          a base: data.objoffset is the offset of the
 *                                             base's fields in the object
 *                 interned "name signature"   a method: its function (NULL: abstract), the flags
 *                                             of its entry, and the offset from object to self
 *                 NC_SLOT_NATIVECLASS_ID      the NcClass itself
 *
 *             So one lookup both checks for a base and casts to that base. A method lookup gives
 *             the same result through every base, because a cast never changes the object's
 *             address.
 * Invariants: a class keeps the offsets of its first base's fields. It places the fields of its
 *             other bases, and its own fields, at lower addresses. So a field's offset can differ
 *             only in classes that inherit the field through a base other than their first. The
 *             fields of each class of the MRO exist once, even if several paths lead to the class.
 *             Across the classes of an MRO, a name denotes one method with one signature, or one
 *             field.
 * Threads:    functions that build or clear a class access only their arguments. A built class is
 *             read-only, except for `lasting`, which is atomic and written with the GIL.
 * Errors:     NC_E_*, with an NcClassProblem that describes the error; the class can then be built
 *             again.
 * Ownership:  names, fields, methods and bases are borrowed and must outlive the class.
 *             nc_class_copy returns a class that owns copies. nc_class_clear frees the memory
 *             allocated by nc_class_make. */
#ifndef NATIVECALL_OBJECTCLASS_H
#define NATIVECALL_OBJECTCLASS_H

#include <stdio.h>

#include "core/slottable.h"

NC_C_BEGIN

/* The key of the row whose data.pointer is a type's NcClass. */
#define NC_SLOT_NATIVECLASS_ID ((uintptr_t)0x04000201)

/* The head of an object. The memory before an object holds, in this order: the fields of its
 * classes, this head, and four words for CPython. */
typedef struct {
    size_t count;              /* atomic: native references; NC_OBJECT_ALIVE counts as one */
    const struct NcClass *cls; /* never changes */
    uintptr_t state;           /* NC_OBJECT_*; access with the GIL, or after the last release */
} NcObjectHead;

/* CPython uses up to four words before an object of a class with a __dict__ or weak references
 * (PyGC_Head, managed dict). Every class reserves these words, so that fields do not move if a
 * class statement adds a __dict__ or weak references. Free-threaded builds use the words for an
 * NcObjectPython (detail/objectnogil.h). */
#define NC_OBJECT_PYTHON_WORDS (4 * sizeof(void *))
#define NC_OBJECT_HEAD (NC_OBJECT_PYTHON_WORDS + sizeof(NcObjectHead))
#define NC_OBJECT_ALIGN ((size_t)16) /* malloc's alignment; no field may need more */

enum {
    NC_CLASS_PLAIN = 1,    /* destruction only frees memory */
    NC_CLASS_ABSTRACT = 2, /* a method has no function; cannot be instantiated */
    NC_CLASS_MADE = 4,     /* nc_class_make has succeeded */
    NC_CLASS_CREATES = 8,  /* a class of the MRO has a `create` */
    NC_CLASS_LARGE = 16,   /* more than NC_CLASS_FEW bytes precede the head of its objects */
    NC_CLASS_FAILED = 32   /* creating its Python class failed; cannot be instantiated */
};

/* In a new object, up to this many bytes of fields are zeroed without a loop. Must be at most
 * NC_OBJECT_HEAD, because these bytes may overlap the head. */
#define NC_CLASS_FEW (4 * sizeof(void *))

/* The offset of a class's fields in objects of another class. */
typedef struct {
    const struct NcClass *cls;
    intptr_t offset; /* add to the object's address; negative */
} NcPart;

#define NC_FIELD_SELF ((const struct NcClass *)(uintptr_t)1) /* for nc_class_define */

typedef struct {
    const char *name;
    const char *type;          /* type code (docs/abi/signatures.md); NULL: a counted reference */
    size_t offset;             /* in the class's own fields */
    const struct NcClass *cls; /* for a reference, the class of its target; NULL: any native object;
                                * NC_FIELD_SELF: the class being defined */
} NcField;

typedef struct {
    const char *key;  /* interned: name, space, canonical signature */
    void *function;   /* NULL: abstract */
    uintptr_t flags;  /* NC_FLAG_* and one of NC_ERRORS_*, at most 32 bits */
    int takes_fields; /* whether self points to the class's own fields, not to the object */
} NcMethod;

typedef struct NcClass {
    size_t struct_size; /* sizeof(NcClass) in its module */
    const char *name;
    void *type;     /* PyTypeObject, or NULL without Python */
    size_t type_at; /* offset of an object's type pointer */
    void **waiting; /* the process's list of destroyed objects whose reference to their type must be
                     * released with the GIL; linked through their counts (nativeobject.h) */
    /* own: without inherited members */
    size_t fields_size;            /* bytes, zero in a new object */
    size_t fields_align;           /* a power of two, at most NC_OBJECT_ALIGN */
    void (*create)(void *fields);  /* called for each new object, bases first; NULL if zero bytes
                                    * are a valid value. It runs without the GIL and must not
                                    * fail */
    void (*destroy)(void *fields); /* or NULL: called once, before references are released, in the
                                    * thread that drops the last reference. It runs without the GIL
                                    * and must not use Python. It must not retain or release its own
                                    * object: the object would be destroyed again */
    const NcField *fields;
    size_t field_count;
    const NcMethod *methods;
    size_t method_count;
    /* set by nc_class_make */
    size_t lasting;           /* atomic; 1: the class is immortal, so its objects need no reference
                               * to it. It may change after the class is built */
    uint32_t flags;           /* NC_CLASS_* */
    size_t before;            /* bytes before the object, a multiple of NC_OBJECT_ALIGN */
    size_t after;             /* bytes from the object's address on: its tp_basicsize */
    intptr_t offset;          /* of its own fields in its own objects */
    PyCustomSlotTable *slots; /* the table described at the top of this file */
    NcPart *parts;            /* the class, then its bases: the MRO */
    size_t part_count;
    void *owned; /* for the creator; nc_class_clear calls free() on it */
} NcClass;

/* Why a class cannot be built; empty if out of memory. */
typedef struct {
    char text[600];
} NcClassProblem;

/* Return the row of a key in a class's table, or NULL. */
NC_HOT_INLINE const PyCustomSlot *nc_class_slot(const NcClass *cls, const void *key)
{
    return nc_slottable_find(cls->slots, (uintptr_t)key);
}

/* Return the position of a key in a class's table, for nc_object_method_at, or 0 if not found. */
NC_STATIC_INLINE size_t nc_class_position(const NcClass *cls, const void *key)
{
    const PyCustomSlot *row = nc_class_slot(cls, key);
    return row != NULL ? (size_t)(row - nc_slottable_rows(cls->slots)) : 0;
}

/* Return whether a class is `base` or derives from it. */
NC_STATIC_INLINE int nc_class_derives(const NcClass *cls, const NcClass *base)
{
    return cls == base || nc_class_slot(cls, base) != NULL;
}

/* Return whether a class has a non-abstract method with this name and signature. For structural
 * typing, check each required method. */
NC_STATIC_INLINE int nc_class_has_method(const NcClass *cls, const char *key)
{
    const PyCustomSlot *row = nc_class_slot(cls, key);
    return row != NULL && row->data.pointer != NULL;
}

/* ---- the order of bases ---------------------------------------------------------------------- */

/* Return the index of a class in a list of parts, or `count` if not found. */
NC_STATIC size_t nc_parts_find(const NcPart *parts, size_t count, const NcClass *cls)
{
    size_t i = 0;
    while (i < count && parts[i].cls != cls) {
        i++;
    }
    return i;
}

/* ---- field layout ---------------------------------------------------------------------------- */

/* The maximum size of all fields of an MRO: slot tables store 32-bit offsets. */
#define NC_CLASS_MOST ((size_t)INT32_MAX / 2)

/* Lay out the fields of each part. The fields of the first base keep their offsets. The other
 * fields are placed below, from the last part to the first, so that the class's own fields come
 * last. Return NC_E_RANGE for more than NC_CLASS_MOST bytes, or for an invalid alignment. */
NC_STATIC int nc_class_lay_out(NcClass *cls, const NcClass *first, NcClassProblem *problem)
{
    int fits = (cls->fields_align & (cls->fields_align - 1)) == 0 &&
               cls->fields_align <= NC_OBJECT_ALIGN && cls->fields_size <= NC_CLASS_MOST;
    size_t depth = NC_OBJECT_HEAD;
    for (size_t i = 0; i < cls->part_count; i++) {
        const size_t at =
            first != NULL ? nc_parts_find(first->parts, first->part_count, cls->parts[i].cls) : 0;
        cls->parts[i].offset = 0;
        if (first != NULL && at < first->part_count) {
            const size_t lowest = (size_t)-first->parts[at].offset;
            cls->parts[i].offset = first->parts[at].offset;
            depth = lowest > depth ? lowest : depth;
        }
    }
    for (size_t i = cls->part_count; fits && i-- > 0;) {
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
                       "class '%s': the alignment of the fields is not a power of two up to %d, or "
                       "the fields, including inherited ones, exceed a gigabyte",
                       cls->name, (int)NC_OBJECT_ALIGN);
        return NC_E_RANGE;
    }
    cls->offset = cls->parts[0].offset;
    cls->before = (depth + NC_OBJECT_ALIGN - 1) & ~(NC_OBJECT_ALIGN - 1);
    return NC_OK;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Return whether a method's key starts with this name. */
NC_STATIC int nc_key_names(const char *key, const char *name, size_t length)
{
    return strncmp(key, name, length) == 0 && key[length] == ' ';
}

/* Look up `name` in a class's own members, fields first. Return the member's number, counted from
 * 1, or 0 if not found. Set *key to a method's key, or to NULL for a field. */
NC_STATIC size_t nc_class_defines(const NcClass *cls, const char *name, size_t length,
                                  const char **key)
{
    *key = NULL;
    for (size_t i = 0; i < cls->field_count; i++) {
        if (strncmp(cls->fields[i].name, name, length) == 0 && cls->fields[i].name[length] == 0) {
            return i + 1;
        }
    }
    for (size_t i = 0; i < cls->method_count; i++) {
        if (nc_key_names(cls->methods[i].key, name, length)) {
            *key = cls->methods[i].key;
            return cls->field_count + i + 1;
        }
    }
    return 0;
}

/* Check that the name of member `number` of parts[which] has no other meaning there or in a later
 * part. */
NC_STATIC int nc_class_check_name(const NcClass *cls, size_t which, size_t number, const char *name,
                                  const char *key, NcClassProblem *problem)
{
    const size_t length = key != NULL ? (size_t)(strchr(key, ' ') - key) : strlen(name);
    for (size_t i = which; i < cls->part_count; i++) {
        const char *other = NULL;
        const size_t found = nc_class_defines(cls->parts[i].cls, name, length, &other);
        if (i == which ? found != number : found != 0 && (key == NULL || other != key)) {
            (void)snprintf(problem->text, sizeof problem->text,
                           "class '%.100s': '%.*s' is %s%.100s in '%.100s', and %s%.100s in "
                           "'%.100s'; a name must be one field, or one method with one signature",
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
    int status = NC_OK;
    /* If the first base's MRO is the rest of this MRO, it was checked when that base was built. */
    const size_t count = cls->part_count > 1 && cls->parts[1].cls->part_count == cls->part_count - 1
                             ? 1
                             : cls->part_count;
    for (size_t i = 0; i < count && status == NC_OK; i++) {
        const NcClass *part = cls->parts[i].cls;
        for (size_t n = 0; n < part->field_count && status == NC_OK; n++) {
            status = nc_class_check_name(cls, i, n + 1, part->fields[n].name, NULL, problem);
        }
        for (size_t n = 0; n < part->method_count && status == NC_OK; n++) {
            const char *key = part->methods[n].key;
            status = nc_class_check_name(cls, i, part->field_count + n + 1, key, key, problem);
        }
    }
    return status;
}

/* Return the size of a reference field. Return 1 for any other field, because only Python code
 * knows its size. */
NC_STATIC size_t nc_field_size(const NcField *field)
{
    return field->type == NULL ? sizeof(void *) : 1;
}

#define NC_FIELDS_OVERLAP                                                                          \
    "class '%.200s': fields '%.100s' and '%.100s' overlap; a reference must not share its bytes"

/* Return the first other field that overlaps the `size` bytes of fields[which], if one of the two
 * is a reference; otherwise NULL. Fields without references may overlap, as in a union. */
NC_STATIC const NcField *nc_class_field_over(const NcClass *cls, size_t which, size_t size)
{
    const NcField *field = &cls->fields[which];
    for (size_t i = 0; i < cls->field_count; i++) {
        const NcField *other = &cls->fields[i];
        const size_t own = nc_field_size(other);
        if (i != which && (nc_field_size(field) > 1 || own > 1) &&
            other->offset < field->offset + size && field->offset < other->offset + own) {
            return other;
        }
    }
    return NULL;
}

/* Check that all fields lie within the class's fields, and that no field overlaps a reference.
 * Python code checks the types and sizes of all other fields. */
NC_STATIC int nc_class_check_fields(const NcClass *cls, NcClassProblem *problem)
{
    for (size_t i = 0; i < cls->field_count; i++) {
        const NcField *field = &cls->fields[i];
        const size_t size = nc_field_size(field);
        if (field->offset % size != 0 || cls->fields_align % size != 0 || cls->fields_size < size ||
            field->offset > cls->fields_size - size) {
            (void)snprintf(problem->text, sizeof problem->text,
                           "class '%.200s': field '%.100s' lies outside the %zu bytes of the "
                           "class's fields, is misaligned, or needs more alignment than they have",
                           cls->name, field->name, cls->fields_size);
            return NC_E_RANGE;
        }
        const NcField *over = nc_class_field_over(cls, i, size);
        if (over != NULL) {
            (void)snprintf(problem->text, sizeof problem->text, NC_FIELDS_OVERLAP, cls->name,
                           field->name, over->name);
            return NC_E_RANGE;
        }
    }
    return NC_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Return the first definition of a method in part `from` or a later part, or NULL. Store the index
 * of the part in *which. */
NC_STATIC const NcMethod *nc_class_defined(const NcClass *cls, size_t from, const char *key,
                                           size_t *which)
{
    for (size_t i = from; i < cls->part_count; i++) {
        const NcClass *part = cls->parts[i].cls;
        for (size_t n = 0; n < part->method_count; n++) {
            if (part->methods[n].key == key) {
                *which = i;
                return &part->methods[n];
            }
        }
    }
    return NULL;
}

/* Return the row of a key for a class that is being built. */
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

/* Build the table: the first base's rows at their positions, then all others. So a method keeps its
 * position in every class that derives from this one through a chain of first bases. */
NC_STATIC int nc_class_build_table(NcClass *cls, const NcClass *first)
{
    const size_t inherited = first != NULL ? first->slots->count : 0;
    size_t capacity = inherited + 1 + cls->part_count;
    size_t count = 0;
    for (size_t i = 0; i < cls->part_count; i++) {
        capacity += cls->parts[i].cls->method_count;
    }
    PyCustomSlot *rows = (PyCustomSlot *)calloc(capacity, sizeof *rows);
    if (rows == NULL) {
        return NC_E_NOMEM;
    }
    for (size_t i = 0; i < inherited; i++) {
        rows[count++] = nc_class_row(cls, nc_slottable_rows(first->slots)[i].id);
    }
    if (inherited == 0) {
        rows[count++] = nc_class_row(cls, NC_SLOT_NATIVECLASS_ID);
    }
    for (size_t i = cls->part_count; i-- > 0;) {
        const NcClass *part = cls->parts[i].cls;
        if (inherited == 0 || nc_slottable_find(first->slots, (uintptr_t)part) == NULL) {
            rows[count++] = nc_class_row(cls, (uintptr_t)part);
        }
        for (size_t n = 0; n < part->method_count; n++) {
            const char *key = part->methods[n].key;
            if (nc_rows_find(rows, count, (uintptr_t)key) == NULL) {
                rows[count++] = nc_class_row(cls, (uintptr_t)key);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        /* Only abstract methods have NULL data: no class is at address 0, and no fields are at
         * offset 0. */
        cls->flags |= rows[i].data.pointer == NULL ? (uint32_t)NC_CLASS_ABSTRACT : 0;
    }
    int status = nc_slottable_build(rows, count, &cls->slots, NULL);
    free(rows);
    return status;
}

/* Free the memory allocated by nc_class_make. The class can be built again. No object or derived
 * class may still exist. */
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

/* Copy a text to *at and advance *at past it. NULL stays NULL. */
NC_STATIC const char *nc_text_copy(char **at, const char *text)
{
    const size_t length = text != NULL ? strlen(text) + 1 : 0;
    char *copy = *at;
    *at += length;
    return length != 0 ? (const char *)memcpy(copy, text, length) : NULL;
}

/* Return an unbuilt class with copies of the name, own fields and own methods of `own`. Reference
 * fields to `own`, or to NC_FIELD_SELF, refer to the copy. Free it with nc_class_free. Return NULL
 * if out of memory. */
NC_STATIC NcClass *nc_class_copy(const NcClass *own)
{
    const size_t fields_bytes = own->field_count * sizeof(NcField);
    const size_t methods_bytes = own->method_count * sizeof(NcMethod);
    size_t bytes = fields_bytes + methods_bytes + strlen(own->name) + 1;
    NcClass *cls = (NcClass *)calloc(1, sizeof *cls);
    NcField *fields;
    for (size_t i = 0; i < own->field_count; i++) {
        const char *type = own->fields[i].type;
        bytes += strlen(own->fields[i].name) + 1 + (type != NULL ? strlen(type) + 1 : 0);
    }
    char *at = (char *)malloc(bytes);
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
    for (size_t i = 0; i < own->field_count; i++) {
        fields[i] = own->fields[i];
        fields[i].name = nc_text_copy(&at, fields[i].name);
        fields[i].type = nc_text_copy(&at, fields[i].type);
        if (fields[i].cls == NC_FIELD_SELF || fields[i].cls == own) {
            fields[i].cls = cls;
        }
    }
    return cls;
}

/* Build a class whose own members are filled in. `first` is its first base or NULL, and `order` its
 * MRO without the class itself; all these classes must be built already. NC_E_RANGE: the alignment
 * is invalid, the fields of the MRO exceed NC_CLASS_MOST bytes, or a field lies outside the fields
 * or overlaps a reference. NC_E_DUPLICATE: a name is defined twice, or differently by two classes.
 * NC_E_NOMEM. */
NC_STATIC int nc_class_make(NcClass *cls, const NcClass *first, const NcClass *const *order,
                            size_t count, NcClassProblem *problem)
{

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
    for (size_t i = 0; i < count; i++) {
        cls->parts[i + 1].cls = order[i];
    }
    int status = nc_class_check_fields(cls, problem);
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
    for (size_t i = 0; i < cls->part_count; i++) {
        const NcClass *part = cls->parts[i].cls;
        int plain = part->destroy == NULL;
        for (size_t n = 0; n < part->field_count; n++) {
            plain = plain && part->fields[n].type != NULL;
        }
        cls->flags &= plain ? ~(uint32_t)0 : ~(uint32_t)NC_CLASS_PLAIN;
        cls->flags |= part->create != NULL ? NC_CLASS_CREATES : 0;
    }
    return NC_OK;
}

NC_C_END

#endif
