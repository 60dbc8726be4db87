/* csrc/plan.c: the Plan: everything about a signature that does not depend on a function.
 *
 * Python makes one for each (signature, read-only arguments, argument names) and hands it to all
 * callables of that signature (nativecall.entry). Immutable, so it needs no care from threads. */
#include "jit.h"

#include <structmember.h>

static void plan_dealloc(PyObject *object)
{
    NcPlan *self = (NcPlan *)(void *)object;
    Py_XDECREF(self->signature);
    Py_XDECREF(self->types);
    Py_XDECREF(self->names);
    Py_XDECREF(self->record);
    Py_XDECREF(self->pointer_type);
    PyMem_Free(self->words);
    PyMem_Free(self->codes);
    PyMem_Free(self->pointees);
    PyMem_Free(self->pointee_sizes);
    PyMem_Free(self->counts);
    PyMem_Free(self->exports);
    PyMem_Free(self->readonly);
    Py_TYPE(object)->tp_free(object);
}

/* Packs the canonical text. */
static int pack(NcPlan *self, const char *text, size_t length)
{
    uint64_t words[NC_PACKED_MAX_WORDS];
    int status = nc_signature_pack(text, length, 0, words, NC_PACKED_MAX_WORDS, &self->word_count);
    if (status != NC_OK) {
        PyErr_Format(PyExc_ValueError, "%s at offset %zu in the canonical signature '%s'",
                     nc_status_text(status), self->word_count, text);
        return -1;
    }
    self->words = (uint64_t *)PyMem_Calloc(self->word_count, sizeof(uint64_t));
    if (self->words == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(self->words, words, self->word_count * sizeof(uint64_t));
    return 0;
}

/* How buffers of elements of a letter are taken. */
static NcExport export_of(char pointee, size_t count, size_t alignment, int promised)
{
    /* NumPy's formats; its 64-bit integers are long where that has 64 bits. */
    static const char letters[] = "?bBhHiIqQefdg";
    static const char formats[] = {'?',
                                   'b',
                                   'B',
                                   'h',
                                   'H',
                                   'i',
                                   'I',
                                   sizeof(long) == 8 ? 'l' : 'q',
                                   sizeof(long) == 8 ? 'L' : 'Q',
                                   'e',
                                   'f',
                                   'd',
                                   'g'};
    NcExport found = {0, 0, alignment - 1, '\0'};
    const char *place = pointee != '\0' ? strchr(letters, pointee) : NULL;
    if (place != NULL && count == 0) {
        found.size = (Py_ssize_t)nc_scalar_size(pointee);
        found.format = formats[place - letters];
    }
    /* Text may come as bytes, which are read-only. */
    if (pointee != '\0' && (promised || (pointee != 'b' && pointee != 'B'))) {
        found.flags = promised ? NC_EXPORT : NC_EXPORT | PyBUF_WRITABLE;
    }
    return found;
}

/* A plan of its parts: (signature, text, shape, types, pointees, sizes, counts, alignments, readonly,
 * names, variadic). */
static PyObject *plan_new(PyObject *args)
{
    PyObject *signature;
    PyObject *types;
    PyObject *sizes;
    PyObject *counts;
    PyObject *alignments;
    PyObject *readonly;
    PyObject *names;
    const char *text;
    const char *shape;
    const char *pointees;
    Py_ssize_t text_length;
    Py_ssize_t shape_length;
    Py_ssize_t pointees_length;
    int variadic;
    NcPlan *self;
    if (!PyArg_ParseTuple(args, "Os#s#O!s#O!O!O!O!Op", &signature, &text, &text_length, &shape,
                          &shape_length, &PyTuple_Type, &types, &pointees, &pointees_length,
                          &PyTuple_Type, &sizes, &PyTuple_Type, &counts, &PyTuple_Type, &alignments,
                          &PyTuple_Type, &readonly, &names, &variadic)) {
        return NULL;
    }
    /* shape is "r:aaa"; the others have one item an argument, types the result's as the last. */
    if (shape_length < 2 || shape[1] != ':' || PyTuple_GET_SIZE(types) != shape_length - 1 ||
        pointees_length != shape_length - 2 || PyTuple_GET_SIZE(sizes) != shape_length - 2 ||
        PyTuple_GET_SIZE(counts) != shape_length - 2 ||
        PyTuple_GET_SIZE(alignments) != shape_length - 2 ||
        PyTuple_GET_SIZE(readonly) != shape_length - 2 ||
        (names != Py_None &&
         (!PyTuple_Check(names) || PyTuple_GET_SIZE(names) != shape_length - 2))) {
        PyErr_SetString(PyExc_ValueError, "the parts of a Plan disagree about the arguments");
        return NULL;
    }
    self = (NcPlan *)(void *)NcPlan_Type.tp_alloc(&NcPlan_Type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->signature = Py_NewRef(signature);
    self->types = Py_NewRef(types);
    self->names = names != Py_None ? Py_NewRef(names) : NULL;
    self->nargs = shape_length - 2;
    self->variadic = variadic;
    self->codes = (char *)PyMem_Calloc((size_t)self->nargs + 2, 1);
    self->pointees = (char *)PyMem_Calloc((size_t)self->nargs + 1, 1);
    self->readonly = (unsigned char *)PyMem_Calloc((size_t)self->nargs + 1, 1);
    self->pointee_sizes = (size_t *)PyMem_Calloc((size_t)self->nargs + 1, sizeof(size_t));
    self->counts = (size_t *)PyMem_Calloc((size_t)self->nargs + 1, sizeof(size_t));
    self->exports = (NcExport *)PyMem_Calloc((size_t)self->nargs + 1, sizeof(NcExport));
    if (self->codes == NULL || self->pointees == NULL || self->readonly == NULL ||
        self->pointee_sizes == NULL || self->counts == NULL || self->exports == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    memcpy(self->codes, shape + 2, (size_t)self->nargs);
    self->codes[self->nargs] = shape[0];
    for (Py_ssize_t i = 0; i < self->nargs; i++) {
        size_t alignment = PyLong_AsSize_t(PyTuple_GET_ITEM(alignments, i));
        int promised = PyObject_IsTrue(PyTuple_GET_ITEM(readonly, i));
        self->pointees[i] = pointees[i] != ' ' ? pointees[i] : '\0';
        self->pointee_sizes[i] = PyLong_AsSize_t(PyTuple_GET_ITEM(sizes, i));
        self->counts[i] = PyLong_AsSize_t(PyTuple_GET_ITEM(counts, i));
        if (promised < 0 || PyErr_Occurred()) {
            goto fail;
        }
        self->readonly[i] = (unsigned char)promised;
        self->exports[i] = export_of(self->pointees[i], self->counts[i], alignment, promised);
    }
    if (PyExtensibleType_Intern(text, text_length, &self->text) < 0) {
        goto fail;
    }
    if (pack(self, text, (size_t)text_length) < 0) {
        goto fail;
    }
    self->trampoline = variadic ? NULL : nc_trampoline_find(shape);
    return (PyObject *)self;

fail:
    Py_DECREF(self);
    return NULL;
}

PyObject *nc_plan(PyObject *Py_UNUSED(module), PyObject *signature)
{
    PyObject *parts = PyObject_CallOneArg(nc_hooks.describe, signature);
    PyObject *made = NULL;
    if (parts != NULL && PyTuple_Check(parts)) {
        made = plan_new(parts);
    } else if (parts != NULL) {
        PyErr_SetString(PyExc_TypeError, "the parts of a Plan must be a tuple");
    }
    Py_XDECREF(parts);
    return made;
}

static PyMemberDef plan_members[] = {
    {"signature", T_OBJECT_EX, offsetof(NcPlan, signature), READONLY, "the Signature"},
    {"nargs", T_PYSSIZET, offsetof(NcPlan, nargs), READONLY, "fixed arguments"},
    {"types", T_OBJECT_EX, offsetof(NcPlan, types), READONLY, "argument types, then the result's"},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *plan_get_trampoline(PyObject *object, void *Py_UNUSED(closure))
{
    const NcPlan *self = (const NcPlan *)(void *)object;
    if (self->trampoline == NULL) {
        Py_RETURN_NONE;
    }
    return PyUnicode_FromString(self->trampoline->shape);
}

static PyGetSetDef plan_getset[] = {
    {"trampoline", plan_get_trampoline, NULL, "shape of its ahead-of-time trampoline, or None",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject NcPlan_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.Plan",
    .tp_doc = "Everything about a signature that does not depend on a function.",
    .tp_basicsize = sizeof(NcPlan),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = plan_dealloc,
    .tp_members = plan_members,
    .tp_getset = plan_getset,
};
