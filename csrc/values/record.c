/* csrc/values/record.c: implements record.h. Rare operations, such as comparisons, are Python code
 * in the class that derives from RecordBase (nativecall/_values/storage.py). */
#include "record.h"

#include "platform/address.h"
#include "text.h"
#include "platform/lock.h"
#include "platform/references.h"

#include <string.h>
#include <structmember.h>

/* Indices into a layout's `about`, which is an About of storage.py. */
enum { TYPE, FORM, ENCODING, PLACES, OBJECTS, EXTENTS };

typedef struct {
    PyObject *name;    /* interned, borrowed from the layout's dict; or NULL */
    PyObject *type;    /* the member's CType */
    PyObject *who;     /* str: the subject of messages */
    PyObject *inner;   /* the Layout of a struct or array; else None */
    PyObject *foreign; /* the cffi type of a pointer, cached; or NULL */
    Py_ssize_t offset;
    Py_ssize_t size;
    int code;  /* the letter of a number; 's' text, 'T' a struct or array, 'P' a pointer,
                  'O' a Python object, '#' a bit-field, whose `type` is a Field */
    int other; /* whether the member is not a number */
} Member;

typedef NcRecord Record;

/* Free list of small Records of a layout, because allocating a garbage-collected object takes
 * longer than the rest of a call. Records in the list keep their class, layout and memory; `owner`
 * links them. Free-threaded builds have no free list, because the list has no lock. Builds with
 * ASan have none, because ASan could not detect use after free. */
#if defined(Py_GIL_DISABLED) || defined(__SANITIZE_ADDRESS__)
enum { MOST_FREE = 0 };
#else
enum { MOST_FREE = 8 };
#endif
enum { MOST_BYTES = 128 }; /* maximum size of a Record with its own memory */
enum { MOST_NAMED = 8 };   /* members that are found by their name's address */

typedef struct {
    Record *first;
    int room; /* number of Records that may still be added */
} FreeList;

typedef struct NcLayout {
    PyObject_VAR_HEAD PyObject *about;
    PyObject *rows; /* tuple: owns the objects in `members` */
    Py_ssize_t size;
    Py_ssize_t alignment;
    Py_ssize_t count;  /* members of a struct; items of an array, which has one row */
    Py_ssize_t step;   /* bytes from item to item; 0 for a struct */
    int leads_on;      /* whether the type contains pointers or Python objects */
    FreeList freed[2]; /* [0]: views; [1]: Records that own their memory */
    Member members[1];
} Layout;

PyTypeObject *nc_record_class; /* the class in storage.py */

static PyObject *said(const Layout *layout, int place)
{
    return PyTuple_GET_ITEM(layout->about, place);
}

/* ---- creation -------------------------------------------------------------------------------- */

static inline Record *popped(FreeList *list)
{
    Record *self = list->first;
    list->first = (Record *)(void *)self->owner;
    list->room++;
    return self;
}

/* Allocate a view, or a Record followed by its memory. The garbage collector tracks only views and
 * Records with pointers or Python objects. */
static inline Record *record_alloc(Layout *layout, int is_view)
{
    FreeList *list = &layout->freed[!is_view];
    Record *self;
    if (NC_LIKELY(list->first != NULL)) {
        self = popped(list);
        _Py_NewReference((PyObject *)(void *)self);
    } else {
        self = PyObject_GC_NewVar(Record, nc_record_class,
                                  is_view ? 0 : layout->size + layout->alignment);
        if (self == NULL) {
            return NULL;
        }
        uintptr_t mask = (uintptr_t)layout->alignment - 1;
        self->memory = (char *)(((uintptr_t)(self + 1) + mask) & ~mask);
        self->layout = layout;
        self->kept = NULL;
    }
    (void)nc_shared_ref(layout);
    self->owner = NULL;
    return self;
}

static void record_free(Record *self)
{
    PyObject_GC_Del(self);
    if (!NC_WITHOUT_GIL) { /* else CPython counted it for the thread; the class is never freed */
        Py_DECREF(nc_record_class);
    }
}

/* Free a Record that no longer owns anything, or put it on the free list. */
static inline void record_end(Record *self)
{
    Layout *layout = self->layout;
    FreeList *list = &layout->freed[Py_SIZE(self) != 0];
    if (NC_LIKELY(list->room > 0)) {
        list->room--;
        self->owner = (PyObject *)(void *)list->first;
        list->first = self;
    } else {
        record_free(self);
    }
    nc_shared_drop(layout); /* may be the last reference */
}

static PyObject *view_of(PyObject *layout, PyObject *owner, char *memory)
{
    Record *self = record_alloc((Layout *)(void *)layout, 1);
    if (self != NULL) {
        self->owner = Py_NewRef(owner);
        self->memory = memory;
        PyObject_GC_Track(self);
    }
    return (PyObject *)self;
}

PyObject *nc_record_begin(PyObject *layout)
{
    return (PyObject *)(void *)record_alloc((Layout *)(void *)layout, 0);
}

PyObject *nc_record_finish(PyObject *record, int owned)
{
    PyObject_GC_Track(record);
    if (PyTuple_GET_SIZE(said(((Record *)(void *)record)->layout, OBJECTS)) != 0) {
        PyObject *done = PyObject_CallMethod(record, "_take_objects", "i", owned);
        Py_XDECREF(done);
        if (done == NULL) {
            Py_CLEAR(record);
        }
    }
    return record;
}

PyObject *nc_record_new(PyObject *object, const void *from, int owned)
{
    const Layout *layout = (Layout *)(void *)object;
    PyObject *self = nc_record_begin(object);
    if (self == NULL) {
        return NULL;
    }
    if (from != NULL) {
        memcpy(nc_record_memory(self), from, (size_t)layout->size);
    } else {
        memset(nc_record_memory(self), 0, (size_t)layout->size);
    }
    return layout->leads_on ? nc_record_finish(self, owned) : self;
}

static int record_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((Record *)(void *)object)->owner);
    Py_VISIT(((Record *)(void *)object)->kept);
    return 0;
}

/* Does not clear `owner`, since the Record still uses the owner's memory. */
static int record_clear(PyObject *object)
{
    Py_CLEAR(((Record *)(void *)object)->kept);
    return 0;
}

static void record_dealloc(PyObject *object);

/* The trashcan limits recursion: a Record may start a long chain of Records that each keep the next
 * alive. */
NC_NOINLINE void record_dealloc_deep(PyObject *object)
{
    Record *self = (Record *)(void *)object;
    PyObject_GC_UnTrack(object);
    Py_TRASHCAN_BEGIN(object, record_dealloc);
    Py_XDECREF(self->owner);
    Py_CLEAR(self->kept);
    record_end(self);
    Py_TRASHCAN_END;
}

static void record_dealloc(PyObject *object)
{
    Record *self = (Record *)(void *)object;
    if (NC_LIKELY(self->owner == NULL && self->kept == NULL && !self->layout->leads_on)) {
        record_end(self);
    } else {
        record_dealloc_deep(object);
    }
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* Set the names of the first members, except names that may also be attributes of the class. */
static void name_members(Layout *self)
{
    PyObject *name;
    PyObject *place;
    Py_ssize_t at = 0;
    while (PyDict_Next(said(self, PLACES), &at, &name, &place)) {
        Py_ssize_t i = PyLong_AsSsize_t(place);
        if (i < MOST_NAMED && i < Py_SIZE(self) && PyUnicode_READ_CHAR(name, 0) != '_') {
            self->members[i].name = name;
        }
    }
}

/* Layout(rows, about, size, alignment, count, step, leads_on). A row is (offset, size, letter,
 * type, subject of messages, Layout or None). */
static PyObject *layout_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *rows = PyTuple_GetItem(args, 0);
    Py_ssize_t count = rows != NULL ? PyTuple_Size(rows) : -1;
    Layout *self = count >= 0 ? (Layout *)(void *)type->tp_alloc(type, count) : NULL;
    int status = self == NULL || !PyArg_ParseTuple(args, "OO!nnnnp", &self->rows, &PyTuple_Type,
                                                   &self->about, &self->size, &self->alignment,
                                                   &self->count, &self->step, &self->leads_on);
    if (self != NULL) {
        Py_XINCREF(self->rows);
        Py_XINCREF(self->about);
        self->freed[0].room = MOST_FREE;
        self->freed[1].room = self->size <= MOST_BYTES ? MOST_FREE : 0;
    }
    for (Py_ssize_t i = 0; status == 0 && i < count; i++) {
        Member *member = &self->members[i];
        status =
            !PyArg_ParseTuple(PyTuple_GET_ITEM(rows, i), "nnCOUO", &member->offset, &member->size,
                              &member->code, &member->type, &member->who, &member->inner);
        member->other = nc_scalar_size((char)member->code) == 0;
    }
    if (status == 0) {
        name_members(self);
    } else {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void layout_dealloc(PyObject *object)
{
    Layout *self = (Layout *)(void *)object;
    for (int i = 0; i < 2; i++) {
        while (self->freed[i].first != NULL) {
            record_free(popped(&self->freed[i]));
        }
    }
    for (Py_ssize_t i = 0; i < Py_SIZE(object); i++) {
        Py_XDECREF(self->members[i].foreign);
    }
    Py_XDECREF(self->about);
    Py_XDECREF(self->rows);
    Py_TYPE(object)->tp_free(object);
}

/* layout(address, owned=False, owner=None): return a Record with a copy of the memory at an
 * address, or with zeros for address 0. With an owner, return a view; the owner keeps the memory
 * alive. */
static PyObject *layout_call(PyObject *object, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    void *address;
    int owned = 0;
    PyObject *owner = NULL;
    if (!PyArg_ParseTuple(args, "O&|pO", nc_take_address, &address, &owned, &owner)) {
        return NULL;
    }
    return owner != NULL ? view_of(object, owner, (char *)address)
                         : nc_record_new(object, address, owned);
}

static PyMemberDef layout_members[] = {
    {"about", T_OBJECT, offsetof(Layout, about), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* Not garbage-collected: a Layout holds only descriptions of types, and freed Records. */
PyTypeObject NcLayout_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.Layout",
    .tp_doc = "The layout of a struct, a union or an array; creates Records.",
    .tp_basicsize = offsetof(Layout, members),
    .tp_itemsize = sizeof(Member),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = layout_new,
    .tp_call = layout_call,
    .tp_members = layout_members,
    .tp_dealloc = layout_dealloc,
};

PyObject *nc_record_layout_asked(NcCallInterface *cif, Py_ssize_t index)
{
    return nc_keep_first(&cif->layouts[index],
                         PyObject_CallFunctionObjArgs(NC_HOOK(layout),
                                                      PyTuple_GET_ITEM(cif->types, index),
                                                      cif->policies, NULL));
}

/* ---- whole values in memory ------------------------------------------------------------------ */

/* Return whether a value is a Record of a CType. CTypes with equal texts are equal. */
static int is_of(PyObject *value, PyObject *ctype)
{
    if (!Py_IS_TYPE(value, nc_record_class)) {
        return 0;
    }
    PyObject *own = said(((Record *)(void *)value)->layout, TYPE);
    return own == ctype || PyObject_RichCompareBool(own, ctype, Py_EQ) == 1;
}

int nc_is_record_behind(PyObject *value, const NcCallInterface *cif, Py_ssize_t index)
{
    if (!Py_IS_TYPE(value, nc_record_class)) {
        return 0;
    }
    PyObject *pointee = nc_kept(&cif->layouts[index]);
    if (pointee == NULL) {
        pointee =
            nc_keep_first(&cif->layouts[index],
                          PyObject_GetAttrString(PyTuple_GET_ITEM(cif->types, index), "pointee"));
        if (pointee == NULL) {
            PyErr_Clear();
            return 0;
        }
    }
    return is_of(value, pointee);
}

/* Return the description of a member, and store the member's address in *at. */
static inline Member *member_at(Layout *layout, Py_ssize_t place, char *memory, char **at)
{
    Member *member = &layout->members[layout->step == 0 ? place : 0];
    *at = memory + (layout->step == 0 ? member->offset : place * layout->step);
    return member;
}

int nc_record_store(PyObject *object, PyObject *value, void *memory)
{
    Layout *layout = (Layout *)(void *)object;
    if (!layout->leads_on && is_of(value, said(layout, TYPE))) {
        memcpy(memory, nc_record_memory(value), (size_t)layout->size);
        return 1;
    }
    /* Python code stores unions (all members at offset 0): the tuple for a union has one item. */
    if (!PyTuple_CheckExact(value) || PyTuple_GET_SIZE(value) != layout->count ||
        (layout->step == 0 && layout->count > 1 && layout->members[1].offset == 0)) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < layout->count; i++) {
        char *at;
        const Member *member = member_at(layout, i, (char *)memory, &at);
        PyObject *item = PyTuple_GET_ITEM(value, i);
        if (member->inner != Py_None) {
            if (!nc_record_store(member->inner, item, at)) {
                return 0;
            }
            continue;
        }
        /* Converting other types may run arbitrary code. */
        if (member->other || (!PyFloat_CheckExact(item) && !PyLong_CheckExact(item) &&
                              !PyBool_Check(item) && !PyComplex_CheckExact(item))) {
            return 0;
        }
        if (nc_convert_scalar(member->who, -1, item, (char)member->code, at) < 0) {
            PyErr_Clear(); /* storage.py raises the error, with the field's name */
            return 0;
        }
    }
    return 1;
}

int nc_record_leads_on(const PyObject *layout)
{
    return ((const Layout *)(const void *)layout)->leads_on;
}

/* ---- members --------------------------------------------------------------------------------- */

static PyObject *read_member(Record *self, Py_ssize_t place)
{
    char *at;
    void *pointer;
    Member *member = member_at(self->layout, place, self->memory, &at);
    switch (member->code) {
    case 'T':
        return view_of(member->inner, self->owner != NULL ? self->owner : (PyObject *)self, at);
    case 's': {
        PyObject *encoding = said(self->layout, ENCODING);
        const char *end = memchr(at, '\0', (size_t)member->size);
        Py_ssize_t length = end != NULL ? end - at : member->size;
        return encoding != Py_None ? nc_decode_text(at, length, encoding)
                                   : PyBytes_FromStringAndSize(at, length);
    }
    case 'P':
        memcpy(&pointer, at, sizeof(pointer));
        return nc_given_pointer(NULL, '\0', member->type, &member->foreign, pointer);
    case '#':
        return PyObject_CallMethod((PyObject *)self, "_bits", "ON", member->type,
                                   PyLong_FromVoidPtr(at));
    case 'O':
        memcpy(&pointer, at, sizeof(pointer));
        return Py_NewRef(pointer != NULL ? (PyObject *)pointer : Py_None);
    default:
        return nc_scalar_to_python((char)member->code, at);
    }
}

static int write_member(Record *self, Py_ssize_t place, PyObject *value)
{
    char *at;
    const Member *member = member_at(self->layout, place, self->memory, &at);
    max_align_t number[2]; /* large enough for complex long double */
    if (value == NULL) {
        PyErr_Format(PyExc_TypeError, "%U cannot be deleted", member->who);
        return -1;
    }
    if (NC_UNLIKELY(member->other)) {
        PyObject *done =
            PyObject_CallMethod((PyObject *)self, "_assign", "nOONO", place, member->type,
                                member->who, PyLong_FromVoidPtr(at), value);
        Py_XDECREF(done);
        return done != NULL ? 0 : -1;
    }
    if (nc_convert_scalar(member->who, -1, value, (char)member->code, number) < 0) {
        return -1;
    }
    memcpy(at, number, (size_t)member->size);
    return 0;
}

/* Return the index of a member. Return -1 without an exception if there is none, or -1 with an
 * exception. Attributes of the class start with an underscore and take precedence over members. */
static Py_ssize_t place_of(const Record *self, PyObject *name)
{
    for (Py_ssize_t i = 0; i < MOST_NAMED && i < Py_SIZE(self->layout); i++) {
        if (self->layout->members[i].name == name) {
            return i;
        }
    }
    if (PyUnicode_GET_LENGTH(name) != 0 && PyUnicode_READ_CHAR(name, 0) == '_' &&
        _PyType_Lookup(nc_record_class, name) != NULL) {
        return -1;
    }
    PyObject *found = PyDict_GetItemWithError(said(self->layout, PLACES), name);
    return found != NULL ? PyLong_AsSsize_t(found) : -1;
}

/* Raise an AttributeError that lists the members. Return -1. */
static int refuse_name(PyObject *object, PyObject *name)
{
    PyErr_Clear();
    Py_XDECREF(PyObject_CallMethod(object, "_refuse", "O", name));
    return -1;
}

static PyObject *record_getattro(PyObject *object, PyObject *name)
{
    Record *self = (Record *)(void *)object;
    Py_ssize_t place = place_of(self, name);
    if (NC_LIKELY(place >= 0)) {
        return read_member(self, place);
    }
    PyObject *found = PyErr_Occurred() ? NULL : PyObject_GenericGetAttr(object, name);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_AttributeError) &&
        (PyUnicode_GET_LENGTH(name) == 0 || PyUnicode_READ_CHAR(name, 0) != '_')) {
        (void)refuse_name(object, name);
    }
    return found;
}

static int record_setattro(PyObject *object, PyObject *name, PyObject *value)
{
    Record *self = (Record *)(void *)object;
    Py_ssize_t place = place_of(self, name);
    return place >= 0         ? write_member(self, place, value)
           : PyErr_Occurred() ? -1
                              : refuse_name(object, name);
}

static Py_ssize_t record_length(PyObject *object)
{
    return ((Record *)(void *)object)->layout->count;
}

static int has_place(PyObject *object, Py_ssize_t place)
{
    if (place >= 0 && place < record_length(object)) {
        return 1;
    }
    PyErr_SetString(PyExc_IndexError, "index out of range");
    return 0;
}

static PyObject *record_item(PyObject *object, Py_ssize_t place)
{
    return has_place(object, place) ? read_member((Record *)(void *)object, place) : NULL;
}

static int record_ass_item(PyObject *object, Py_ssize_t place, PyObject *value)
{
    return has_place(object, place) ? write_member((Record *)(void *)object, place, value) : -1;
}

/* ---- the types ------------------------------------------------------------------------------- */

static int record_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    Record *self = (Record *)(void *)object;
    PyObject *form = said(self->layout, FORM);
    PyObject *extents = said(self->layout, EXTENTS); /* all lengths, then all strides */
    if (!PyBytes_Check(form)) {
        PyErr_SetObject(PyExc_BufferError, form);
        view->obj = NULL;
        return -1;
    }
    *view = (Py_buffer){.buf = self->memory, .len = self->layout->size};
    view->obj = Py_NewRef(object);
    view->ndim = (int)(PyBytes_GET_SIZE(extents) / (Py_ssize_t)(2 * sizeof(Py_ssize_t)));
    Py_ssize_t *lengths = (Py_ssize_t *)(void *)PyBytes_AS_STRING(extents);
    view->itemsize = view->ndim != 0 ? lengths[2 * view->ndim - 1] : view->len;
    view->format = (flags & PyBUF_FORMAT) != 0 ? PyBytes_AS_STRING(form) : NULL;
    if (view->ndim != 0) { /* otherwise both are NULL (PEP 3118) */
        view->shape = (flags & PyBUF_ND) != 0 ? lengths : NULL;
        view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? lengths + view->ndim : NULL;
    }
    return 0;
}

/* _put(kept, key, object, to, from, size): store an object in `kept` under a key, and copy the
 * pointer to the object from `from` to `to`. The previous object is released after the copy. Atomic
 * with respect to other threads. */
static PyObject *record_put(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *kept, *key, *object;
    void *to, *from;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "O!OOO&O&n", &PyDict_Type, &kept, &key, &object, nc_take_address,
                          &to, nc_take_address, &from, &size)) {
        return NULL;
    }
    PyObject *before;
    int status;
    NC_BEGIN_SECTION(kept);
    before = nc_dict_get(kept, key);
    status = PyErr_Occurred() ? -1 : PyDict_SetItem(kept, key, object);
    if (status == 0) {
        memcpy(to, from, (size_t)size);
    }
    NC_END_SECTION();
    Py_XDECREF(before);
    return status == 0 ? Py_NewRef(Py_None) : NULL;
}

/* _copy_to(address, kept): copy the memory, and return a list of the kept objects. Also atomic. */
static PyObject *record_copy_to(PyObject *object, PyObject *args)
{
    PyObject *kept;
    void *to;
    if (!PyArg_ParseTuple(args, "O&O!", nc_take_address, &to, &PyDict_Type, &kept)) {
        return NULL;
    }
    PyObject *values;
    NC_BEGIN_SECTION(kept);
    values = PyDict_Values(kept);
    if (values != NULL) {
        memcpy(to, nc_record_memory(object), (size_t)((Record *)(void *)object)->layout->size);
    }
    NC_END_SECTION();
    return values;
}

static PyMethodDef record_methods[] = {{"_put", record_put, METH_VARARGS, NULL},
                                       {"_copy_to", record_copy_to, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyMemberDef record_members[] = {
    {"_layout", T_OBJECT, offsetof(Record, layout), READONLY, NULL},
    {"_owner", T_OBJECT, offsetof(Record, owner), READONLY, NULL},
    {"_held", T_OBJECT, offsetof(Record, kept), 0, NULL},
    {"_address", NC_T_ADDRESS, offsetof(Record, memory), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyBufferProcs record_buffer = {record_getbuffer, NULL};
static PySequenceMethods record_sequence = {
    .sq_length = record_length, .sq_item = record_item, .sq_ass_item = record_ass_item};

PyTypeObject NcRecordBase_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall.RecordBase",
    .tp_doc = "C memory with a layout.",
    .tp_basicsize = sizeof(Record),
    .tp_itemsize = 1,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = record_traverse,
    .tp_clear = record_clear,
    .tp_dealloc = record_dealloc,
    .tp_iter = PySeqIter_New,
    .tp_getattro = record_getattro,
    .tp_setattro = record_setattro,
    .tp_as_buffer = &record_buffer,
    .tp_as_sequence = &record_sequence,
    .tp_methods = record_methods,
    .tp_members = record_members,
};
