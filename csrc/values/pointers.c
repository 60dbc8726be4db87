/* csrc/values/pointers.c: implements pointers.h: pointer arguments and Pins. */
#include "pointers.h"

#include "platform/address.h"
#include "platform/functions.h"
#include "nativecall/nativeobject.h"

#include "names.h"
#include "record.h"
#include "text.h"

/* ---- conversion ------------------------------------------------------------------------------ */

/* Return 1 if the object itself exported the buffer, and the buffer's elements obviously match.
 * Return 0 if this is unknown. */
static inline int is_plainly(const NcExport *wanted, PyObject *value, const Py_buffer *buffer)
{
    const char *format = buffer->format;
    return format != NULL && wanted->format != '\0' && format[0] == wanted->format &&
           format[1] == '\0' && buffer->itemsize == wanted->size &&
           ((uintptr_t)buffer->buf & wanted->mask) == 0 && buffer->obj == value &&
           !nc_may_be_masked(Py_TYPE(value));
}

/* If an argument points to the type of a Record, pass the Record's memory, which never moves.
 * Return whether this was done. */
static inline int take_record(const NcCallInterface *cif, Py_ssize_t index, PyObject *value,
                              NcPointer *out)
{
    if (NC_LIKELY(cif->arguments[index].pointee != 'T') ||
        !nc_is_record_behind(value, cif, index)) {
        return 0;
    }
    out->address = nc_record_memory(value);
    if (((uintptr_t)out->address & cif->arguments[index].export.mask) != 0) {
        return 0; /* misaligned: the slow path reports it */
    }
    out->buffer = (Py_buffer){.obj = Py_NewRef(value)}; /* length 0: skipped by nc_check_unmoved */
    return 1;
}

/* Export a value's buffer, and pass its memory. */
NC_NOINLINE int convert_memory(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                               PyObject *value, NcPointer *out, int flags)
{
    const NcExport *wanted = &cif->arguments[index < 0 ? 0 : index].export;
    int status = Py_TYPE(value)->tp_as_buffer->bf_getbuffer(value, &out->buffer, flags);
    if (NC_LIKELY(status == 0 && is_plainly(wanted, value, &out->buffer))) {
        out->address = out->buffer.buf;
        return 0;
    }
    return nc_convert_exporter(cif, name, index, value, value, out, status == 0);
}

int nc_convert_pointer_of(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                          PyObject *value, NcPointer *out)
{
    const PyBufferProcs *exporter = Py_TYPE(value)->tp_as_buffer;
    Py_ssize_t argument = index < 0 ? 0 : index;
    if (value == Py_None) {
        out->address = NULL;
        return cif->fortran && index >= 0 ? nc_refuse_null(cif, name, index) : 0;
    }
    if (cif->arguments[argument].pointee == '\0' || exporter == NULL ||
        exporter->bf_getbuffer == NULL) {
        return cif->fortran ? nc_convert_referred(cif, name, index, value, out)
                            : nc_convert_foreign(cif, name, index, value, out);
    }
    if (take_record(cif, argument, value, out)) {
        return 0;
    }
    return convert_memory(cif, name, index, value, out, nc_export_flags(cif, argument, value));
}

/* Return whether an argument has the same type as the first argument. Compares the texts of the
 * types, so no Python code runs. */
static int is_of_first_type(const NcCallInterface *cif, Py_ssize_t index)
{
    int is_same = index == 0;
    if (index > 0 && index < cif->nargs && cif->arguments[index].code == 'P') {
        PyObject *first = PyObject_GetAttrString(PyTuple_GET_ITEM(cif->types, 0), "text");
        PyObject *other = PyObject_GetAttrString(PyTuple_GET_ITEM(cif->types, index), "text");
        is_same = first != NULL && other != NULL && PyUnicode_Compare(first, other) == 0;
        Py_XDECREF(first);
        Py_XDECREF(other);
        PyErr_Clear();
    }
    return is_same;
}

/* Return the address to pass if `value` is a native object, and the callable is a method of its
 * class. The argument must be the first one, or have the same type as the first one. Return NULL
 * otherwise. */
static void *self_address(const NcCallable *self, Py_ssize_t index, PyObject *value)
{
    const NcClass *cls = nc_more(self)->self_class;
    NcObject *object = cls != NULL ? nc_object_of_python(value, cls) : NULL;
    if (object == NULL || !is_of_first_type(self->cif, index)) {
        return NULL;
    }
    return nc_more(self)->takes_fields ? nc_object_cast(object, cls) : object;
}

/* Convert a value that nc_convert_pointer does not convert itself. */
NC_NOINLINE int convert_other(NcCallable *self, Py_ssize_t index, PyObject *value, NcPointer *out)
{
    out->address = Py_IS_TYPE(value, &NcPin_Type) /* from a forwarded call */
                       ? ((NcPin *)(void *)value)->pointer.address
                       : self_address(self, index, value);
    /* The caller keeps its arguments alive. */
    return out->address != NULL ||
                   nc_take_pointer(PyTuple_GET_ITEM(self->cif->types, index), value, &out->address)
               ? 0
               : nc_convert_pointer_of(self->cif, (PyObject *)self, index, value, out);
}

/* Only dispatches to functions that are not inlined, so that no case saves registers for another
 * case. */
int nc_convert_pointer(NcCallable *self, Py_ssize_t index, PyObject *value, NcPointer *out)
{
    const PyBufferProcs *exporter = Py_TYPE(value)->tp_as_buffer;
    if (self->cif->arguments[index].pointee == 'b' || self->cif->arguments[index].pointee == 'B') {
        /* The caller keeps its arguments alive. */
        const char *text = nc_text_itself(self->cif, index, value);
        if (text != NULL) {
            out->address = (void *)(uintptr_t)text;
            return 0;
        }
    }
    if (NC_LIKELY(exporter != NULL && exporter->bf_getbuffer != NULL)) {
        const int flags = self->cif->arguments[index].export.flags;
        if (take_record(self->cif, index, value, out)) {
            return 0;
        }
        if (NC_LIKELY(flags != 0)) {
            return convert_memory(self->cif, (PyObject *)self, index, value, out, flags);
        }
    }
    const NcClass *cls = nc_more(self)->self_class;
    if (cls != NULL && index == 0 && Py_TYPE(value) == cls->type) {
        NcObject *object = NC_OBJECT_GIVEN(value);
        out->address = (char *)object + (nc_more(self)->takes_fields ? cls->offset : 0);
        return 0;
    }
    return convert_other(self, index, value, out);
}

PyObject *nc_pointer_to_python(NcCallable *self, void *address)
{
    NcCallInterface *cif = self->cif;
    return nc_given_pointer(cif, cif->text_result, PyTuple_GET_ITEM(cif->types, cif->nargs),
                            &cif->pointer_type, address);
}

/* ---- Pins ------------------------------------------------------------------------------------ */

/* No tp_clear: C code may read pinned memory. The owners of the Pin break cycles. Before CPython
 * 3.13, two kinds of exporters are not visited: memoryviews, and CPython's wrapper of the
 * memoryview that a `__buffer__` method returned. The collector would clear the memoryview while it
 * is still exported, and releasing the export would read NULL. These exporters live as long as the
 * Pin. */
static int pin_traverse(PyObject *object, visitproc visit, void *arg)
{
    PyObject *exporter = ((NcPin *)(void *)object)->pointer.buffer.obj;
    if (NC_COLLECTOR_SPARES_MEMORYVIEWS || (exporter != NULL && !PyMemoryView_Check(exporter) &&
                                            nc_exporter_of(Py_TYPE(exporter)) != NULL)) {
        Py_VISIT(exporter);
    }
    Py_VISIT(((NcPin *)(void *)object)->pointer.keep);
    return 0;
}

static void pin_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    nc_release_pointer(&((NcPin *)(void *)object)->pointer);
    PyObject_GC_Del(object);
}

static PyMemberDef pin_members[] = {
    {"address", NC_T_ADDRESS, offsetof(NcPin, pointer.address), READONLY,
     "the address that C gets; 0 for None"},
    {"size", T_PYSSIZET, offsetof(NcPin, pointer.buffer.len), READONLY,
     "size of a buffer in bytes"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject NcPin_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.Pin",
    .tp_doc = "A converted pointer argument; it keeps alive what it points to.",
    .tp_basicsize = sizeof(NcPin),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = pin_traverse,
    .tp_dealloc = pin_dealloc,
    .tp_members = pin_members,
};

/* Return a new, empty Pin, not yet tracked by the collector. */
static NcPin *pin_new(void)
{
    NcPin *self = PyObject_GC_New(NcPin, &NcPin_Type);
    if (self != NULL) {
        self->pointer.buffer.obj = NULL;
        self->pointer.buffer.len = 0;
        self->pointer.keep = NULL;
        self->pointer.address = NULL;
    }
    return self;
}

NcPin *nc_pin_value(const NcCallInterface *cif, PyObject *name, Py_ssize_t index, PyObject *value)
{
    NcPin *self = pin_new();
    if (self != NULL && nc_convert_pointer_of(cif, name, index, value, &self->pointer) < 0) {
        Py_CLEAR(self);
    }
    if (self != NULL) {
        PyObject_GC_Track(self);
    }
    return self;
}

/* pin(cif, name, index, value): return a Pin for argument `index` of a call interface, which must
 * be a pointer. An `index` of -1 means the first argument; messages then begin with `name` itself.
 * A Pin is returned unchanged. */
PyObject *nc_pin(PyObject *Py_UNUSED(module), PyObject *args)
{
    const NcCallInterface *cif;
    PyObject *name;
    PyObject *value;
    Py_ssize_t index;
    if (!PyArg_ParseTuple(args, "O!UnO", &NcCallInterface_Type, &cif, &name, &index, &value)) {
        return NULL;
    }
    if (index < -1 || (index < 0 ? 0 : index) >= cif->nargs) {
        PyErr_SetString(PyExc_IndexError, "no such argument");
        return NULL;
    }
    if (cif->arguments[index < 0 ? 0 : index].code != 'P') {
        PyErr_SetString(PyExc_TypeError, "the argument is not a pointer");
        return NULL;
    }
    return Py_IS_TYPE(value, &NcPin_Type) ? Py_NewRef(value)
                                          : (PyObject *)nc_pin_value(cif, name, index, value);
}

/* Return a Pin of an object's buffer. `export` is the bf_getbuffer of the object's type, or
 * PyObject_GetBuffer. */
static NcPin *pin_exported(PyObject *object, getbufferproc export, int flags)
{
    NcPin *held = pin_new();
    if (held == NULL) {
        return NULL;
    }
    const int status = export(object, &held->pointer.buffer, flags);
    PyObject_GC_Track(held);
    if (status < 0) {
        held->pointer.buffer.obj = NULL;
        Py_DECREF(held);
        return NULL;
    }
    held->pointer.address = held->pointer.buffer.buf;
    return held;
}

/* hold(object): return a Pin of an object's own memory, ignoring a __buffer__ method of its class.
 * The format of the memory does not matter. */
PyObject *nc_pin_hold(PyObject *Py_UNUSED(module), PyObject *object)
{
    getbufferproc export = nc_exporter_of(Py_TYPE(object));
    if (export == NULL) {
        return PyErr_Format(PyExc_TypeError, "a %.200s exports no memory of its own",
                            Py_TYPE(object)->tp_name);
    }
    return (PyObject *)pin_exported(object, export, PyBUF_FULL_RO);
}

static PyObject *tuple_of_sizes(const intptr_t *sizes, int count)
{
    PyObject *made = PyTuple_New(count);
    for (int i = 0; made != NULL && i < count; i++) {
        PyObject *size = PyLong_FromSsize_t(sizes[i]);
        if (size == NULL) {
            Py_CLEAR(made);
        } else {
            PyTuple_SET_ITEM(made, i, size);
        }
    }
    return made;
}

/* export(object): export the object's buffer, with any strides. Return (Pin, letter of the elements
 * or "", format, itemsize, shape, strides, read-only). The Pin's address is the element with all
 * indices 0. */
PyObject *nc_pin_export(PyObject *Py_UNUSED(module), PyObject *object)
{
    if (nc_may_be_masked(Py_TYPE(object))) {
        PyErr_SetString(PyExc_TypeError, "its elements may be masked"); /* arrays.py checks */
        return NULL;
    }
    NcPin *held = pin_exported(object, PyObject_GetBuffer, PyBUF_STRIDES | PyBUF_FORMAT);
    if (held == NULL) {
        return NULL;
    }
    const Py_buffer *buffer = &held->pointer.buffer;
    const int ndim = buffer->ndim;
    /* Exporters may exceed the limit: ctypes does not check it. */
    if (ndim > PyBUF_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "it has %d dimensions, more than %d", ndim, PyBUF_MAX_NDIM);
        Py_DECREF(held);
        return NULL;
    }
    intptr_t extents[2 * PyBUF_MAX_NDIM];
    const char letter[2] = {nc_buffer_letter(buffer), '\0'};
    nc_buffer_extents(buffer, extents);
    return Py_BuildValue("(NssnNNO)", held, letter, buffer->format != NULL ? buffer->format : "B",
                         buffer->itemsize, tuple_of_sizes(extents, ndim),
                         tuple_of_sizes(extents + ndim, ndim),
                         buffer->readonly ? Py_True : Py_False);
}

/* ---- memory that moved ----------------------------------------------------------------------- */

static int fail_moved(PyObject *name, PyObject *owner)
{
    name = nc_name(name);
    if (name != NULL) {
        PyErr_Format(PyExc_BufferError,
                     "the memory of a %.200s was moved while the arguments of '%U' were converted; "
                     "do not resize arguments meanwhile",
                     Py_TYPE(owner)->tp_name, name);
    }
    return -1;
}

int nc_check_unmoved(PyObject *name, const NcPointer *pointers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const NcPointer *pointer = &pointers[i];
        PyObject *keep = pointer->keep;
        if (pointer->buffer.obj != NULL && !nc_buffer_is_unmoved(&pointer->buffer)) {
            return fail_moved(name, pointer->buffer.obj);
        }
        if (keep != NULL && PyList_CheckExact(keep)) {
            if (nc_pins_check(name, keep) < 0) {
                return -1;
            }
        } else if (keep != NULL && PyTuple_GET_SIZE(keep) > 1 &&
                   Py_IS_TYPE(PyTuple_GET_ITEM(keep, 1), &NcPin_Type)) {
            const NcPin *pin = (const NcPin *)(void *)PyTuple_GET_ITEM(keep, 1);
            if (nc_check_unmoved(name, &pin->pointer, 1) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

int nc_pins_check(PyObject *name, PyObject *list)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        if (Py_IS_TYPE(item, &NcPin_Type) &&
            nc_check_unmoved(name, &((NcPin *)(void *)item)->pointer, 1) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- the end of a call ----------------------------------------------------------------------- */

static NcStash *stash_of(const NcPointer *pointer)
{
    PyObject *keep = pointer->keep;
    if (keep == NULL || PyTuple_GET_SIZE(keep) < 3 ||
        !Py_IS_TYPE(PyTuple_GET_ITEM(keep, 2), &NcStash_Type)) {
        return NULL;
    }
    return (NcStash *)(void *)PyTuple_GET_ITEM(keep, 2);
}

/* Join a pointer's stash (platform/exceptions.h), or the stashes of the Pins in its list, to
 * `*first`. If `*first` is NULL, set it to the first stash found. */
static void join(const NcPointer *pointer, NcStash **first)
{
    PyObject *keep = pointer->keep;
    if (keep != NULL && PyList_CheckExact(keep)) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keep); i++) {
            PyObject *item = PyList_GET_ITEM(keep, i);
            if (Py_IS_TYPE(item, &NcPin_Type)) {
                join(&((const NcPin *)(void *)item)->pointer, first);
            }
        }
        return;
    }
    NcStash *stash = stash_of(pointer);
    if (stash != NULL && *first == NULL) {
        *first = stash;
    } else if (stash != NULL && stash != *first && stash->first == NULL) {
        stash->first = (NcStash *)(void *)Py_NewRef((PyObject *)*first);
    }
}

void nc_join_held_pointers(const NcPointer *pointers, size_t count)
{
    NcStash *first = NULL;
    for (size_t i = 0; i < count; i++) {
        join(&pointers[i], &first);
    }
}

void nc_pointer_close(const NcPointer *pointer, PyObject **first)
{
    if (pointer->keep != NULL && PyList_CheckExact(pointer->keep)) {
        nc_pins_close(pointer->keep, first);
        return;
    }
    NcStash *stash = stash_of(pointer);
    if (stash != NULL) {
        nc_stash_close(stash, first);
    }
}

void nc_pins_close(PyObject *list, PyObject **first)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        /* Hold a reference: reporting an exception calls a Python hook. */
        PyObject *item = Py_NewRef(PyList_GET_ITEM(list, i));
        if (Py_IS_TYPE(item, &NcPin_Type)) {
            nc_pointer_close(&((NcPin *)(void *)item)->pointer, first);
        }
        Py_DECREF(item);
    }
}

/* settle(list, raised, name): finish a call made by Python code. `raised` is the exception of that
 * call, or None. If a Python function among the Pins has stashed an exception, raise that
 * exception. Otherwise raise `raised`, or check with nc_pins_check if there is a name, and return
 * None. */
PyObject *nc_pins_settle(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *list;
    PyObject *raised;
    PyObject *name = NULL;
    PyObject *first = NULL;
    if (!PyArg_ParseTuple(args, "O!O|U", &PyList_Type, &list, &raised, &name)) {
        return NULL;
    }
    if (PyExceptionInstance_Check(raised)) {
        nc_exception_put(Py_NewRef(raised));
    }
    nc_pins_close(list, &first);
    PyObject *done = nc_stash_raise(PyErr_Occurred() ? NULL : Py_NewRef(Py_None), first);
    if (done != NULL && name != NULL && nc_pins_check(name, list) < 0) {
        Py_CLEAR(done);
    }
    return done;
}
