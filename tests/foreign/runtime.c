/* tests/foreign/runtime.c: a whole runtime, written from docs/abi alone: the registry of interned
 * strings, the perfect hash, the metaclass with inheritance, and the handshake.
 *
 * It is made to be small, not fast. Imported first it publishes itself; imported second it joins
 * what is there, or refuses it. */
#include "abi.h"

#include <pthread.h>
#include <stdlib.h>

/* ---- the registry ---------------------------------------------------------------------------- */

typedef struct {
    RegistryHead head;
    pthread_mutex_t lock;
    size_t used;
} Registry;

static Registry registry;

static uint64_t hash_of(const char *bytes, size_t length)
{
    const uint64_t k0 = UINT64_C(0x9E3779B97F4A7C15);
    const uint64_t k1 = UINT64_C(0xBF58476D1CE4E5B9);
    const uint64_t k2 = UINT64_C(0x94D049BB133111EB);
    const uint64_t k3 = UINT64_C(0xD6E8FEB86659FD93);
    uint64_t h = k0 + (uint64_t)length * k1;
    size_t i;
    size_t j;
    for (i = 0; i < length; i += 8) {
        uint64_t w = 0;
        for (j = 0; j < 8 && i + j < length; j++) {
            w |= (uint64_t)(unsigned char)bytes[i + j] << (8 * j);
        }
        w *= k1;
        w ^= w >> 32;
        h = (h ^ w) * k2;
        h ^= h >> 29;
    }
    h *= k3;
#ifdef BROKEN_HASH
    return h;
#else
    return h ^ h >> 32;
#endif
}

static const uint64_t *header_of(const char *interned)
{
    return (const uint64_t *)(const void *)interned - 2;
}

static const char *search(const CellTable *table, const char *bytes, size_t length, uint64_t hash)
{
    size_t i;
    for (i = (size_t)hash;; i++) {
        const char *found = LOAD(&table->cells[i & table->mask]);
        if (found == NULL || (header_of(found)[0] == length && header_of(found)[1] == hash &&
                              memcmp(found, bytes, length) == 0)) {
            return found;
        }
    }
}

static CellTable *cells_new(size_t size)
{
    CellTable *made = (CellTable *)calloc(1, sizeof(CellTable) + size * sizeof(char *));
    if (made != NULL) {
        made->mask = size - 1;
    }
    return made;
}

static void cells_put(CellTable *table, const char *interned)
{
    size_t i = (size_t)header_of(interned)[1];
    while (table->cells[i & table->mask] != NULL) {
        i++;
    }
    STORE(&table->cells[i & table->mask], interned);
}

static const char *insert(const char *bytes, size_t length, uint64_t hash)
{
    CellTable *table = registry.head.table;
    char *block = (char *)calloc(1, 16 + length + 8);
    uint64_t *header = (uint64_t *)(void *)block;
    size_t i;
    if (block == NULL) {
        return NULL;
    }
    header[0] = length;
    header[1] = hash;
    memcpy(block + 16, bytes, length);
    if (2 * (registry.used + 1) > table->mask + 1) {
        CellTable *larger = cells_new(2 * (table->mask + 1));
        if (larger == NULL) {
            free(block);
            return NULL;
        }
        for (i = 0; i <= table->mask; i++) {
            if (table->cells[i] != NULL) {
                cells_put(larger, table->cells[i]);
            }
        }
        larger->superseded = table;
        STORE(&registry.head.table, larger);
        table = larger;
    }
    registry.used++;
    cells_put(table, block + 16);
    return block + 16;
}

static int intern(RegistryHead *self, const char *bytes, size_t length, const char **out)
{
    uint64_t hash;
    (void)self;
#ifdef BROKEN_NUL
    length = strnlen(bytes, length);
#endif
    if (length > 65535) {
        return -4;
    }
    hash = hash_of(bytes, length);
    pthread_mutex_lock(&registry.lock);
    *out = search(registry.head.table, bytes, length, hash);
    if (*out == NULL) {
        *out = insert(bytes, length, hash);
    }
    pthread_mutex_unlock(&registry.lock);
    return *out != NULL ? 0 : -1;
}

static void before_fork(void)
{
    pthread_mutex_lock(&registry.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&registry.lock);
}

/* ---- slot tables ----------------------------------------------------------------------------- */

static Slot *rows_of(const SlotTable *table)
{
    return (Slot *)(uintptr_t)(table + 1);
}

static unsigned log2_of(size_t power)
{
    unsigned n = 0;
    while (((size_t)1 << n) < power) {
        n++;
    }
    return n;
}

static size_t cell_of(const SlotTable *table, size_t row, size_t f)
{
    uint64_t x = (uint64_t)rows_of(table)[row].id * table->multiplier;
    return (size_t)(x >> table->f_shift) & (f - 1);
}

/* Gives each bucket a displacement that keeps its keys apart from all others, buckets with many keys
 * first. `next` is as long as the table, `head` and `size` as G, `used` as F. 1, or 0 where this
 * multiplier does not do. */
static int place(SlotTable *table, size_t f, size_t g, uint32_t *next, uint32_t *head,
                 uint32_t *size, unsigned char *used)
{
    uint32_t largest = 0;
    size_t bucket;
    size_t i;
    memset(head, 0, g * sizeof *head); /* row + 1; 0 ends a list */
    memset(size, 0, g * sizeof *size);
    memset(used, 0, f);
    for (i = 0; i < table->count; i++) {
        uint64_t x = (uint64_t)rows_of(table)[i].id * table->multiplier;
        if (rows_of(table)[i].id > 1) {
            bucket = (size_t)(x >> table->g_shift);
            next[i] = head[bucket];
            head[bucket] = (uint32_t)i + 1;
            largest = ++size[bucket] > largest ? size[bucket] : largest;
        }
    }
    for (; largest > 0; largest--) {
        for (bucket = 0; bucket < g; bucket++) {
            size_t d = 0;
            while (size[bucket] == largest && d < f && d < 65536) {
                uint32_t at = head[bucket];
                uint32_t back;
                while (at != 0 && !used[cell_of(table, at - 1, f) ^ d]) {
                    used[cell_of(table, at - 1, f) ^ d] = 1;
                    at = next[at - 1];
                }
                if (at == 0) {
                    break;
                }
                for (back = head[bucket]; back != at; back = next[back - 1]) {
                    used[cell_of(table, back - 1, f) ^ d] = 0;
                }
                d++;
            }
            if (size[bucket] == largest) {
                if (d == f || d == 65536) {
                    return 0;
                }
                table->cells[bucket] = (uint16_t)d;
            }
        }
    }
    for (i = 0; i < table->count; i++) {
        uint64_t x = (uint64_t)rows_of(table)[i].id * table->multiplier;
        if (rows_of(table)[i].id > 1) {
            size_t cell = cell_of(table, i, f) ^ table->cells[x >> table->g_shift];
            table->cells[(intptr_t)cell - (intptr_t)f] = (uint16_t)i;
        }
    }
    return 1;
}

/* A table of these rows, or NULL for want of memory. */
static SlotTable *build(const Slot *rows, size_t count)
{
    size_t f = 4;
    size_t g = 2;
    size_t key = 0; /* a row with a key, for the cells that no key has */
    size_t i;
    uint64_t seed = 88172645463325252u;
    while (f < 4 * count) {
        f *= 2;
    }
    while (g < count) {
        g *= 2;
    }
    while (key < count && rows[key].id < 2) {
        key++;
    }
    for (;; f *= 2, g *= 2) {
        size_t size = sizeof(SlotTable) + (count + 1) * sizeof(Slot) + (f + g) * 2;
        SlotTable *table = (SlotTable *)calloc(1, size);
        uint32_t *scratch = (uint32_t *)calloc(count + 2 * g + 1, sizeof(uint32_t));
        unsigned char *used = (unsigned char *)calloc(f, 1);
        int tries;
        int done = 0;
        if (table == NULL || scratch == NULL || used == NULL) {
            free(table);
            free(scratch);
            free(used);
            return NULL;
        }
        table->abi_version = 1;
        table->count = (uint32_t)count;
        table->cells = (uint16_t *)(void *)(rows_of(table) + count + 1) + f;
        table->f_high = 0 - (uint64_t)f;
        table->g_shift = 64 - log2_of(g);
        table->f_shift = table->g_shift - log2_of(f);
        table->size = size;
        memcpy(rows_of(table), rows, count * sizeof(Slot));
        for (i = 0; i < f; i++) {
            table->cells[(intptr_t)i - (intptr_t)f] = (uint16_t)key;
        }
        for (i = 0; i < 256; i++) {
            table->expected[i] = (uint16_t)key;
        }
        for (i = count; i-- > 0;) {
            if (rows[i].id > 1) {
                table->expected[rows[i].id * EXPECTED >> 56] = (uint16_t)i;
            }
        }
        for (tries = 0; tries < 16 && !done; tries++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            table->multiplier = seed | 1;
            done = place(table, f, g, scratch, scratch + count, scratch + count + g, used);
        }
        free(scratch);
        free(used);
        if (done) {
            if (key == count) {
                /* Padding alone: the probe of 0 leads to padding, that of 1 to the zero row. */
                table->multiplier = ~(uint64_t)0;
                table->cells[-(intptr_t)f] = 0;
                table->expected[0] = 0;
            }
#ifdef BROKEN_CELLS
            table->cells[-1] = 60000;
#endif
#ifdef BROKEN_EXPECTED
            table->expected[7] = 60000;
#endif
#ifdef BROKEN_ZERO_ROW
            rows_of(table)[count].id = 1;
#endif
            return table;
        }
        free(table);
    }
}

/* ---- the table of a type --------------------------------------------------------------------- */

typedef struct Retired {
    SlotTable *table;
    struct Retired *next;
} Retired;

typedef struct {
    Slot *rows;
    size_t count;
    Py_ssize_t offset;
    ternaryfunc call; /* tp_call when the type was made ready */
    Retired *retired;
} Own;

static PyTypeObject metatype;
static const Runtime *runtime; /* that of this process; ours or another's */

static int is_call_key(uintptr_t id)
{
    return id == NATIVECALLABLE || id == PACKEDCALLABLE;
}

static Type *ready_at(PyObject *mro, Py_ssize_t i)
{
    PyObject *item = PyTuple_GET_ITEM(mro, i);
    Type *type = (Type *)(void *)item;
    return PyType_Check(item) && is_extensible((PyTypeObject *)(void *)item, &metatype) &&
                   type->own != NULL
               ? type
               : NULL;
}

/* The last class of a type's MRO that has its tp_call, as a position in another MRO; the last there
 * where it is not in it. */
static Py_ssize_t call_from(PyObject *mro, const PyTypeObject *type)
{
    PyObject *from = NULL;
    Py_ssize_t i;
    for (i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyObject *item = PyTuple_GET_ITEM(type->tp_mro, i);
        from = ((PyTypeObject *)(void *)item)->tp_call == type->tp_call ? item : from;
    }
    for (i = 0; i < PyTuple_GET_SIZE(mro) - 1 && PyTuple_GET_ITEM(mro, i) != from; i++) {
    }
    return i;
}

/* The first class that brings a call table, and how many classes there are that could take the
 * call: those up to the one that its call comes from. */
static Type *first_with_calls(PyObject *mro, Py_ssize_t *before)
{
    Py_ssize_t i;
    size_t n;
    for (i = 0; i < PyTuple_GET_SIZE(mro); i++) {
        Type *type = ready_at(mro, i);
        const Own *own = type != NULL ? (const Own *)type->own : NULL;
        int brings = own != NULL && own->offset != 0;
        for (n = 0; own != NULL && n < own->count; n++) {
            brings |= is_call_key(own->rows[n].id);
        }
        if (brings) {
            *before = call_from(mro, &type->heap.ht_type) + 1;
#ifdef BROKEN_MUTE
            *before = i + 1;
#endif
            return type;
        }
    }
    return NULL;
}

static int is_hidden(PyTypeObject *type, Type **brings)
{
    Py_ssize_t before = 0;
    Py_ssize_t i;
    Type *from = first_with_calls(type->tp_mro, &before);
    int hidden = from != NULL && (type->tp_call != ((Own *)from->own)->call ||
                                  from->heap.ht_type.tp_call != ((Own *)from->own)->call);
    for (i = 0; from != NULL && i < before; i++) {
        PyTypeObject *one = (PyTypeObject *)(void *)PyTuple_GET_ITEM(type->tp_mro, i);
        hidden |= (one->tp_flags & Py_TPFLAGS_HEAPTYPE) && !is_extensible(one, &metatype) &&
                  !(one->tp_flags & Py_TPFLAGS_IMMUTABLETYPE);
    }
#ifdef BROKEN_OVERRIDE
    hidden = 0;
#endif
    *brings = hidden ? NULL : from;
    return hidden;
}

/* A row as the class has it: padding where it is of a call table that the class does not have. */
static Slot offered(Slot row, const Type *brings)
{
    const Own *own = brings != NULL ? (const Own *)brings->own : NULL;
    int has = !is_call_key(row.id);
    size_t n;
    for (n = 0; own != NULL && n < own->count; n++) {
        has |= own->rows[n].id == row.id;
    }
    if (!has) {
        memset(&row, 0, sizeof row);
        row.id = 1;
    }
    return row;
}

static int stands(const Slot *rows, size_t count, uintptr_t id)
{
    while (count > 0 && rows[count - 1].id != id) {
        count--;
    }
    return count > 0;
}

static size_t put(Slot *rows, size_t count, Slot row, int replace)
{
    size_t i;
    for (i = 0; i < count && row.id != 1; i++) {
        if (rows[i].id == row.id) {
#ifdef BROKEN_POSITION
            if (replace) {
                memmove(rows + i, rows + i + 1, (count - i - 1) * sizeof(Slot));
                i = count - 1;
            }
#endif
            if (replace) {
                rows[i] = row;
            }
            return count;
        }
    }
    rows[count] = row;
    return count + 1;
}

/* The merged rows of a type; NULL with MemoryError or, of too many rows, ValueError. */
static Slot *merge(Type *type, size_t *count, Py_ssize_t *offset)
{
    PyObject *mro = type->heap.ht_type.tp_mro;
    Py_ssize_t size = PyTuple_GET_SIZE(mro);
    Type *brings = NULL;
    size_t most = 1;
    Slot *rows;
    size_t n;
    Py_ssize_t i;
    for (i = 0; i < size; i++) {
        Type *one = ready_at(mro, i);
        most += one != NULL ? ((Own *)one->own)->count : 0;
        most += one != NULL && one->slots != NULL ? one->slots->count : 0;
    }
    rows = (Slot *)calloc(most, sizeof(Slot));
    if (rows == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    (void)is_hidden(&type->heap.ht_type, &brings);
    *offset = brings != NULL ? ((Own *)brings->own)->offset : 0;
    *count = 0;
    for (i = 1; i < size; i++) {
        Type *one = ready_at(mro, i);
        for (n = 0; one != NULL && one->slots != NULL && n < one->slots->count; n++) {
            Slot row = offered(rows_of(one->slots)[n], brings);
            if (row.id != 1 || *count == n) {
                *count = put(rows, *count, row, 0);
            }
        }
    }
    for (i = size; i-- > 0;) {
        Type *one = ready_at(mro, i);
        for (n = 0; one != NULL && n < ((Own *)one->own)->count; n++) {
            Slot row = offered(((Own *)one->own)->rows[n], brings);
            if (i == 0 || (row.id != 1 && stands(rows, *count, row.id))) {
                *count = put(rows, *count, row, 1);
            }
        }
    }
    if (*count > 65536) {
        free(rows);
        PyErr_SetString(PyExc_ValueError, "there are more than 65536 rows");
        return NULL;
    }
    return rows;
}

static int publish(Type *type, const Slot *rows, size_t count, Py_ssize_t offset)
{
    Own *own = (Own *)type->own;
    Retired *link = own->retired;
#ifdef BROKEN_RETIRED
    link = NULL;
#endif
    while (link != NULL && (link->table->count != count ||
                            memcmp(rows_of(link->table), rows, count * sizeof(Slot)) != 0)) {
        link = link->next;
    }
    if (link == NULL && count > 0) {
        link = (Retired *)calloc(1, sizeof(Retired));
        if (link == NULL || (link->table = build(rows, count)) == NULL) {
            free(link);
            PyErr_NoMemory();
            return -1;
        }
        link->next = own->retired;
        own->retired = link;
    }
    STORE(&type->slots, link != NULL ? link->table : NULL);
#ifndef BROKEN_SHIFT
    STORE(&type->shift, offset != 0 ? offset - (Py_ssize_t)offsetof(PyObject, ob_type) : 0);
#endif
    STORE(&type->offset, offset);
    PyType_Modified(&type->heap.ht_type);
    return 0;
}

static void pass_vectorcall_on(Type *type, Py_ssize_t offset)
{
#if PY_VERSION_HEX < 0x030C0000
    PyTypeObject *self = &type->heap.ht_type;
    PyTypeObject *base = self->tp_base;
    if (base != NULL && (self->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
        self->tp_flags &= ~(unsigned long)Py_TPFLAGS_HAVE_VECTORCALL;
        if (offset != 0 && (base->tp_flags & Py_TPFLAGS_HAVE_VECTORCALL) != 0 &&
            self->tp_call == base->tp_call) {
            self->tp_vectorcall_offset = base->tp_vectorcall_offset;
            self->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
        }
        PyType_Modified(self);
    }
#else
    (void)type;
    (void)offset;
#endif
}

static int refresh(Type *type)
{
    size_t count = 0;
    Py_ssize_t offset = 0;
    Slot *rows = merge(type, &count, &offset);
    int status = rows != NULL ? publish(type, rows, count, offset) : -1;
    free(rows);
    if (status < 0) {
        STORE(&type->slots, NULL);
        STORE(&type->shift, 0);
        STORE(&type->offset, 0);
    }
    pass_vectorcall_on(type, status == 0 ? offset : 0);
    return status;
}

/* Makes the tables of a class and of all that derive from it anew. */
static int refresh_tree(PyObject *type)
{
    PyObject *subclasses;
    PyObject *raised[3];
    Py_ssize_t i;
    int status = 0;
    if (is_extensible((PyTypeObject *)(void *)type, &metatype) && ((Type *)(void *)type)->own &&
        ((PyTypeObject *)(void *)type)->tp_mro != NULL) {
        status = refresh((Type *)(void *)type);
    }
    PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
    subclasses = PyObject_CallMethod((PyObject *)&PyType_Type, "__subclasses__", "O", type);
    for (i = 0; subclasses != NULL && i < PyList_GET_SIZE(subclasses); i++) {
        status |= refresh_tree(PyList_GET_ITEM(subclasses, i));
    }
    Py_XDECREF(subclasses);
    if (raised[0] != NULL) {
        PyErr_Restore(raised[0], raised[1], raised[2]);
    }
    return subclasses == NULL || status < 0 ? -1 : 0;
}

/* ---- __customslots__ ------------------------------------------------------------------------- */

static int read_key(PyObject *key, uintptr_t *out)
{
    const char *bytes = NULL;
    const char *interned = NULL;
    Py_ssize_t length = 0;
    if (PyLong_Check(key)) {
        size_t id = PyLong_AsSize_t(key);
        int odd = (id & 1) != 0;
        if (PyErr_Occurred() || id < 2 || (odd && (id >> 32 != 0 || id >> 24 == 0)) ||
            (odd && (id >> 8 == NATIVECALLABLE >> 8 || id >> 8 == 0x040001 || id >> 24 == 0xFF))) {
            PyErr_Clear();
            PyErr_Format(PyExc_ValueError, "%R is no key that a Python class may bring", key);
            return -1;
        }
        *out = id;
        return 0;
    }
    if (PyUnicode_Check(key)) {
        bytes = PyUnicode_AsUTF8AndSize(key, &length);
    } else if (PyBytes_Check(key)) {
        bytes = PyBytes_AS_STRING(key);
        length = PyBytes_GET_SIZE(key);
    } else {
        PyErr_Format(PyExc_TypeError, "keys must be int, str or bytes (got %R)", key);
    }
    if (bytes == NULL) {
        return -1;
    }
    if (intern(&registry.head, bytes, (size_t)length, &interned) != 0) {
        PyErr_SetString(PyExc_ValueError, "the key is too long");
        return -1;
    }
    *out = (uintptr_t)interned;
    return 0;
}

static int read_row(PyObject *key, PyObject *value, Slot *out)
{
    PyObject *number = value;
    if (PyTuple_Check(value)) {
        if (PyTuple_GET_SIZE(value) != 2) {
            PyErr_SetString(PyExc_TypeError, "a row is an int or a pair (flags, int)");
            return -1;
        }
        out->flags = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(value, 0));
        number = PyTuple_GET_ITEM(value, 1);
    }
    if (!PyErr_Occurred() && !PyLong_Check(number)) {
        PyErr_Format(PyExc_TypeError, "data must be an int (got %R)", number);
    }
    if (PyErr_Occurred() || read_key(key, &out->id) < 0) {
        return -1;
    }
    out->data = (intptr_t)PyLong_AsSize_t(number);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        out->data = PyLong_AsSsize_t(number);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* Make an OverflowError a ValueError. */
static void say_range(void)
{
#ifndef BROKEN_RANGE
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_SetString(PyExc_ValueError, "a number of '__customslots__' is out of range");
    }
#endif
}

static int read_rows(PyObject *mapping, Own *own)
{
    PyObject *items;
    Py_ssize_t i;
    size_t n;
    int status = 0;
    if (!PyDict_Check(mapping) && !PyObject_HasAttrString(mapping, "items")) {
        PyErr_SetString(PyExc_TypeError, "'__customslots__' must be a mapping");
        return -1;
    }
    items = PyMapping_Items(mapping);
    if (items == NULL) {
        return -1;
    }
    own->rows = (Slot *)calloc((size_t)PyList_GET_SIZE(items) + 1, sizeof(Slot));
    if (own->rows == NULL) {
        PyErr_NoMemory();
        status = -1;
    }
    for (i = 0; status == 0 && i < PyList_GET_SIZE(items); i++) {
        PyObject *pair = PyList_GET_ITEM(items, i);
        Slot *row = &own->rows[own->count];
        status = read_row(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1), row);
        say_range();
        for (n = 0; status == 0 && n < own->count; n++) {
            if (own->rows[n].id == row->id) {
                PyErr_SetString(PyExc_ValueError, "a key stands twice in '__customslots__'");
                status = -1;
            }
        }
        own->count++;
    }
    Py_DECREF(items);
    return status;
}

static void own_free(Own *own)
{
    while (own != NULL && own->retired != NULL) {
        Retired *link = own->retired;
        own->retired = link->next;
        free(link->table);
        free(link);
    }
    if (own != NULL) {
        free(own->rows);
    }
    free(own);
}

/* ---- the metaclass --------------------------------------------------------------------------- */

/* What has failed leaves the type unready, and all that derive from it as they were. */
static void abandon(Type *type)
{
    PyObject *kind;
    PyObject *value;
    PyObject *traceback;
    Own *own = (Own *)type->own;
    PyErr_Fetch(&kind, &value, &traceback);
    STORE(&type->slots, NULL);
    STORE(&type->shift, 0);
    STORE(&type->offset, 0);
    type->own = NULL;
    if (refresh_tree((PyObject *)type) < 0) {
        PyErr_Clear();
    }
    own_free(own);
    PyErr_Restore(kind, value, traceback);
}

static int metatype_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Type *type = (Type *)(void *)self;
    PyObject *mapping;
    Own *own;
    if (PyType_Type.tp_init(self, args, kwargs) < 0) {
        return -1;
    }
    if (type->own != NULL) {
        return 0;
    }
    own = (Own *)calloc(1, sizeof(Own));
    if (own == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    mapping = PyDict_GetItemString(type->heap.ht_type.tp_dict, "__customslots__");
    if (mapping != NULL && read_rows(mapping, own) < 0) {
        own_free(own);
        return -1;
    }
    own->call = type->heap.ht_type.tp_call;
    type->own = own;
    if (refresh_tree(self) < 0) {
        abandon(type);
        return -1;
    }
    return 0;
}

static int changing = 0; /* assignments to __bases__ that go through the metaclass */

static int metatype_setattro(PyObject *self, PyObject *name, PyObject *value)
{
    int bases = PyUnicode_CompareWithASCIIString(name, "__bases__") == 0;
    int call = PyUnicode_CompareWithASCIIString(name, "__call__") == 0;
    int status;
    if (PyUnicode_CompareWithASCIIString(name, "__customslots__") == 0) {
        PyErr_SetString(PyExc_TypeError,
                        "'__customslots__' is read only when the class is created");
        return -1;
    }
    changing += bases;
    status = PyType_Type.tp_setattro(self, name, value);
    changing -= bases;
#ifdef BROKEN_CALL_ASSIGNED
    call = 0;
#endif
    if (status == 0 && (bases || call)) {
        status = refresh_tree(self);
    }
    return status;
}

/* Whether a changed MRO leaves the table of a class as it is. */
static int is_harmless(PyTypeObject *type, PyObject *changed)
{
    PyObject *mro = type->tp_mro;
    Py_ssize_t size = PyTuple_GET_SIZE(changed);
    Py_ssize_t before = 0;
    Type *brings;
    Py_ssize_t i;
    Py_ssize_t k = 0;
    for (i = 0; i < PyTuple_GET_SIZE(mro); i++) {
        Type *one = ready_at(mro, i);
        while (one != NULL && k < size && ready_at(changed, k) == NULL) {
            k++;
        }
        if (one != NULL && (k == size || ready_at(changed, k++) != one)) {
            return 0;
        }
    }
    for (; k < size; k++) {
        if (ready_at(changed, k) != NULL) {
            return 0;
        }
    }
    if (first_with_calls(mro, &before) == NULL || is_hidden(type, &brings)) {
        return 1;
    }
    for (i = 0; i < before; i++) {
        if (i >= size || PyTuple_GET_ITEM(mro, i) != PyTuple_GET_ITEM(changed, i)) {
            return 0;
        }
    }
    return before < PyTuple_GET_SIZE(mro) || before == size;
}

static PyObject *metatype_mro(PyObject *self, PyObject *Py_UNUSED(none))
{
    PyObject *made = PyObject_CallMethod((PyObject *)&PyType_Type, "mro", "O", self);
    PyObject *changed = made != NULL ? PyList_AsTuple(made) : NULL;
    Type *type = (Type *)(void *)self;
    int harmless = 1;
    if (changed != NULL && type->own != NULL && type->heap.ht_type.tp_mro != NULL && !changing) {
        harmless = is_harmless(&type->heap.ht_type, changed);
#ifdef BROKEN_BYPASS
        harmless = 1;
#endif
    }
    Py_XDECREF(changed);
    if (!harmless) {
        PyErr_SetString(PyExc_TypeError, "bases are changed past the metaclass");
        Py_CLEAR(made);
    }
    return made;
}

static void metatype_dealloc(PyObject *self)
{
    Own *own = (Own *)((Type *)(void *)self)->own;
    PyType_Type.tp_dealloc(self);
    own_free(own);
}

static int ready(Type *type, Py_ssize_t room)
{
    Slot *array = (Slot *)(void *)type->slots;
    PyTypeObject *self = &type->heap.ht_type;
    Own *own;
    Slot *rows = NULL;
    size_t count = 0;
    Py_ssize_t offset = 0;
    const Py_ssize_t given = type->offset;
    intptr_t calls = 0;
    int packed = 0;
    int wrong = 0;
    size_t n;
    size_t k;
    if (Py_TYPE((PyObject *)self) != NULL && (self->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 &&
        !is_extensible(self, &metatype)) {
        PyErr_SetString(PyExc_TypeError, "a heap type of another metatype");
        return -1;
    } else if (type->own != NULL) {
        return 0;
    }
    type->slots = NULL;
    type->offset = 0;
    if (room < 0 || (room > 0 && array == NULL)) {
        PyErr_SetString(PyExc_ValueError, "there is no array of so many rows");
        return -1;
    }
    own = (Own *)calloc(1, sizeof(Own));
    if (own != NULL) {
        own->rows = (Slot *)calloc((size_t)room + 1, sizeof(Slot));
    }
    if (own == NULL || own->rows == NULL) {
        own_free(own);
        PyErr_NoMemory();
        return -1;
    }
    for (n = 0; array != NULL && (Py_ssize_t)n < room && array[n].id != 0; n++) {
        for (k = 0; k < n && array[n].id != 1; k++) {
            if (array[k].id == array[n].id) {
                own_free(own);
                PyErr_SetString(PyExc_ValueError, "a key stands twice");
                return -1;
            }
        }
        own->rows[n] = array[n];
        if (array[n].id == NATIVECALLABLE) {
            calls = array[n].data;
        }
#ifndef BROKEN_PACKED_ALONE
        packed |= array[n].id == PACKEDCALLABLE;
#endif
        wrong |= (array[n].id & 1) != 0 && array[n].id != 1 &&
                 ((uint64_t)array[n].id >> 32 != 0 || array[n].id >> 24 == 0 ||
                  array[n].id >> 24 == 0xFF); /* this runtime allocates none */
    }
    if (wrong || (given != 0 && given != calls) || (packed && calls == 0)) {
        own_free(own);
        PyErr_SetString(PyExc_ValueError, "the rows of the type cannot be");
        return -1;
    }
    own->count = n;
    own->offset = given;
    type->slots = NULL;
    type->offset = 0;
    if (Py_TYPE((PyObject *)self) == NULL || !is_extensible(self, &metatype)) {
        Py_SET_TYPE((PyObject *)self, &metatype);
    }
    if (PyType_Ready(self) < 0) {
        own_free(own);
        return -1;
    }
    own->call = self->tp_call;
    type->own = own;
    rows = merge(type, &count, &offset);
    if (rows != NULL && array != NULL && count > (size_t)room) {
        PyErr_SetString(PyExc_ValueError, "the array has no room for the inherited rows");
    } else if (rows != NULL && publish(type, rows, count, offset) == 0) {
        if (array != NULL) {
            memcpy(array, rows, count * sizeof(Slot));
        }
        free(rows);
        if (refresh_tree((PyObject *)self) == 0) {
            return 0;
        }
        type->own = NULL; /* its tables stay: classes below may have been made of them */
        STORE(&type->slots, NULL);
        STORE(&type->shift, 0);
        STORE(&type->offset, 0);
        (void)refresh_tree((PyObject *)self);
        return -1;
    }
    free(rows);
    abandon(type);
    return -1;
}

/* ---- the handshake --------------------------------------------------------------------------- */

static PyMethodDef metatype_methods[] = {
    {"mro", metatype_mro, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

#ifdef BROKEN_NAME
#define CAPSULE_NAME "_extensibletype.runtime_v2"
#else
#define CAPSULE_NAME "_extensibletype.runtime_v1"
#endif

/* `module` is what is there, or NULL. */
static int publish_runtime(PyObject *modules, PyObject *module)
{
    static Runtime made;
    PyObject *capsule = PyCapsule_New(&made, CAPSULE_NAME, NULL);
    Py_SET_REFCNT((PyObject *)&metatype, 1);
    metatype.tp_name = MODULE_NAME ".extensibletype";
    metatype.tp_basicsize = (Py_ssize_t)sizeof(Type);
    metatype.tp_itemsize = PyType_Type.tp_itemsize;
    metatype.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    metatype.tp_base = &PyType_Type;
    metatype.tp_init = metatype_init;
    metatype.tp_setattro = metatype_setattro;
    metatype.tp_methods = metatype_methods;
    metatype.tp_dealloc = metatype_dealloc;
    registry.head.abi_version = 1;
    registry.head.table = cells_new(4096);
    made.abi_version = 1;
#ifdef BROKEN_VERSION
    made.abi_version = 2;
#endif
    made.struct_size = (uint32_t)sizeof made;
    made.type_size = (uint32_t)sizeof(Type);
    made.slot_size = (uint32_t)sizeof(Slot);
    made.provider = MODULE_NAME;
    made.metatype = &metatype;
    made.registry = &registry.head;
    made.intern = intern;
    made.ready = ready;
    runtime = &made;
    if (module == NULL) {
        module = PyModule_New("_extensibletype");
    }
    if (module == NULL || capsule == NULL || registry.head.table == NULL ||
        pthread_mutex_init(&registry.lock, NULL) != 0 ||
        pthread_atfork(before_fork, after_fork, after_fork) != 0 || PyType_Ready(&metatype) < 0) {
        return -1;
    }
    if (!PyObject_HasAttrString(module, "extensibletype_v1") &&
        PyObject_SetAttrString(module, "extensibletype_v1", (PyObject *)&metatype) < 0) {
        return -1;
    }
    return PyObject_SetAttrString(module, "runtime_v1", capsule) < 0
               ? -1
               : PyDict_SetItemString(modules, "_extensibletype", module);
}

static int join(PyObject *module)
{
    PyObject *capsule = PyObject_GetAttrString(module, "runtime_v1");
    const Runtime *found =
        capsule != NULL
            ? (const Runtime *)PyCapsule_GetPointer(capsule, "_extensibletype.runtime_v1")
            : NULL;
    const char *null;
    PyErr_Clear();
    if (found == NULL) {
        PyObject *shown = PyObject_Repr(module);
        PyErr_Clear();
        if (shown == NULL ||
            PyUnicode_FindChar(shown, '\n', 0, PyUnicode_GET_LENGTH(shown), 1) >= 0) {
            Py_XSETREF(shown,
                       PyUnicode_FromFormat("an object of type '%s'", Py_TYPE(module)->tp_name));
        }
        PyErr_Format(PyExc_ImportError,
                     "sys.modules['_extensibletype'] is %S, which is not an extensibletype "
                     "runtime that %s (ABI 1) can use: it has no capsule 'runtime_v1'",
                     shown, MODULE_NAME);
        Py_XDECREF(shown);
        return -1;
    }
    if (found->abi_version != 1 || found->struct_size < sizeof(Runtime) ||
        found->type_size < sizeof(Type) || found->slot_size != sizeof(Slot)) {
        PyErr_Format(PyExc_ImportError,
                     "%s was built for extensibletype ABI 1 (sizes %zu/%zu/%zu), but %s, which was "
                     "imported first, provides ABI %u (sizes %u/%u/%u); rebuild the older of the "
                     "two",
                     MODULE_NAME, sizeof(Runtime), sizeof(Type), sizeof(Slot),
                     found->abi_version != 0 && found->provider != NULL ? found->provider
                                                                        : "another module",
                     (unsigned)found->abi_version, (unsigned)found->struct_size,
                     (unsigned)found->type_size, (unsigned)found->slot_size);
        return -1;
    }
    null = found->provider == NULL   ? "provider"
           : found->metatype == NULL ? "metatype"
           : found->registry == NULL ? "registry"
           : found->intern == NULL   ? "intern"
           : found->ready == NULL    ? "ready"
                                     : NULL;
    if (null != NULL) {
        PyErr_Format(PyExc_ImportError,
                     "the extensibletype runtime of %s, which was imported first, cannot be used "
                     "by %s (ABI 1): its '%s' is NULL; rebuild the former",
                     found->provider != NULL ? found->provider : "another module", MODULE_NAME,
                     null);
        return -1;
    }
    runtime = found;
    return 0;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, MODULE_NAME, NULL, -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC JOIN(PyInit_, MODULE)(void)
{
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *module = PyDict_GetItemString(modules, "_extensibletype");
    const int publishes =
        module == NULL || (PyModule_Check(module) &&
                           PyDict_GetItemString(PyModule_GetDict(module), "runtime_v1") == NULL);
    if ((publishes ? publish_runtime(modules, module) : join(module)) < 0) {
        return NULL;
    }
    return PyModule_Create(&definition);
}
