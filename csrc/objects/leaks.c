/* csrc/objects/leaks.c: the living native objects of the process, for nativecall/_objects/leaks.py.
 * Needs the GIL. */
#include "ground/functions.h"
#include "ground/lists.h"
#include "nativecall/nativeobject.h"

typedef struct {
    const NcObject *object;
    PyTypeObject *type; /* owned, which keeps the class and the names of its fields */
    size_t count;
    size_t references; /* how many, from `first` on */
    size_t first;
} Row;

typedef struct {
    const char *field;
    const NcObject *object;
} Reference;

typedef struct {
    Row *rows;
    size_t row_count;
    Reference *references;
    size_t reference_count;
} Snapshot;

/* Calls of the tracker's lock must not run Python code, which ends objects: so what is seen is
 * written down first. With NULL for rows it is only counted. */
static void look(const NcTracker *tracker, Snapshot *out)
{
    const NcObject *object = tracker->first;
    size_t rows = 0;
    size_t references = 0;
    for (; object != NULL; object = nc_object_links(object)[0]) {
        const NcClass *cls = nc_object_class(object);
        const size_t first = references;
        for (size_t p = 0; p < cls->part_count; p++) {
            const NcClass *part = cls->parts[p].cls;
            for (size_t n = 0; n < part->field_count; n++) {
                if (part->fields[n].type != NULL) {
                    continue;
                }
                if (out->rows != NULL) {
                    const char *place = (const char *)object + cls->parts[p].offset +
                                        (intptr_t)part->fields[n].offset;
                    out->references[references].field = part->fields[n].name;
                    out->references[references].object = nc_load_relaxed_ptr(place);
                }
                references++;
            }
        }
        if (out->rows != NULL) {
            Row *row = &out->rows[rows];
            row->object = object;
            row->type = (PyTypeObject *)(void *)Py_NewRef((PyObject *)cls->type);
            row->count = nc_load_relaxed_size(&nc_object_head(object)->count);
            row->first = first;
            row->references = references - first;
        }
        rows++;
    }
    out->row_count = rows;
    out->reference_count = references;
}

static PyObject *references_of(const Snapshot *seen, const Row *row)
{
    PyObject *list = PyList_New(0);
    for (size_t i = row->first; list != NULL && i < row->first + row->references; i++) {
        const Reference *reference = &seen->references[i];
        if (reference->object != NULL) {
            PyObject *address = PyLong_FromVoidPtr((void *)(uintptr_t)reference->object);
            nc_list_take(&list, Py_BuildValue("(sN)", reference->field, address));
        }
    }
    return list;
}

/* living_objects(): (address, class, native count, ((field, address), ...)) of each, with the
 * references that its fields hold; None where objects are not tracked. Objects are neither made nor
 * ended meanwhile; fields that other threads set meanwhile are read as they happen to be. */
PyObject *nc_living_objects(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    NcTracker *tracker = nc_objects->tracker;
    Snapshot seen = {NULL, 0, NULL, 0};
    if (tracker == NULL) {
        Py_RETURN_NONE;
    }
    nc_tracker_lock(tracker);
    look(tracker, &seen);
    seen.rows = calloc(seen.row_count + 1, sizeof *seen.rows);
    seen.references = calloc(seen.reference_count + 1, sizeof *seen.references);
    const int memory = seen.rows != NULL && seen.references != NULL;
    if (memory) {
        look(tracker, &seen);
    }
    nc_tracker_unlock(tracker);
    PyObject *list = memory ? PyList_New(0) : PyErr_NoMemory();
    for (size_t i = 0; list != NULL && i < seen.row_count; i++) {
        const Row *row = &seen.rows[i];
        PyObject *address = PyLong_FromVoidPtr((void *)(uintptr_t)row->object);
        nc_list_take(&list, Py_BuildValue("(NOnN)", address, row->type, (Py_ssize_t)row->count,
                                          references_of(&seen, row)));
    }
    for (size_t i = 0; memory && i < seen.row_count; i++) {
        Py_DECREF(seen.rows[i].type);
    }
    free(seen.rows);
    free(seen.references);
    return list;
}
