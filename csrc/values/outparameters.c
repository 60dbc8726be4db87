/* csrc/values/outparameters.c: implements outparameters.h. */
#include "outparameters.h"

#include "destructor.h"
#include "memoryblock.h"
#include "scalars.h"
#include "text.h"

/* ---- before the call ------------------------------------------------------------------------- */

/* Return numpy.zeros(shape, type, order) with `length` items, at least one. numpy.zeros, the type
 * and the order are cached; only the shape is built anew. */
static PyObject *array_of(const NcCallInterface *cif, NcOut *out, Py_ssize_t length)
{
    PyObject *how = nc_kept(&out->array);
    if (how == NULL) {
        how = nc_keep_first(&out->array, PyObject_CallFunctionObjArgs(NC_HOOK(out_array), out->type,
                                                                      cif->policies, NULL));
        if (how == NULL) {
            return NULL;
        }
    }
    PyObject *item = PyTuple_GET_ITEM(how, 3);
    PyObject *shape = Py_NewRef(item);
    if (length >= 0) {
        PyObject *first = Py_BuildValue("(n)", length > 0 ? length : 1);
        Py_SETREF(shape, first != NULL ? PySequence_Concat(first, item) : NULL);
        Py_XDECREF(first);
    }
    if (shape == NULL) {
        return NULL;
    }
    PyObject *const args[] = {shape, PyTuple_GET_ITEM(how, 1), PyTuple_GET_ITEM(how, 2)};
    PyObject *made = PyObject_Vectorcall(PyTuple_GET_ITEM(how, 0), args, 3, NULL);
    Py_DECREF(shape);
    return made;
}

/* Store the address of an array's elements. They cannot move, since no other code refers to the
 * array yet. */
static int find(NcOutMemory *memory)
{
    Py_buffer buffer;
    if (PyObject_GetBuffer(memory->owner, &buffer, PyBUF_ANY_CONTIGUOUS | PyBUF_WRITABLE) < 0) {
        return -1;
    }
    memory->address = (char *)buffer.buf;
    PyBuffer_Release(&buffer);
    return 0;
}

/* Store the initial value that Python passes. */
static int fill(const NcCallInterface *cif, PyObject *name, const NcOut *out, NcOutMemory *memory,
                PyObject *value, Py_ssize_t index)
{
    PyObject *who = nc_conversion_subject(name, index);
    PyObject *length = memory->length < 0 ? Py_NewRef(Py_None) : PyLong_FromSsize_t(memory->length);
    PyObject *kept = PyList_New(0);
    PyObject *done = NULL;
    if (who != NULL && length != NULL && kept != NULL) {
        done = PyObject_CallFunction(NC_HOOK(out_store), "OOONOOOO", out->type, length, value,
                                     PyLong_FromVoidPtr(memory->address), memory->owner, who, kept,
                                     cif->policies);
    }
    if (done != NULL && Py_IS_TYPE(memory->owner, &NcBlock_Type)) {
        ((NcBlock *)(void *)memory->owner)->kept = Py_NewRef(kept);
    }
    Py_XDECREF(done);
    Py_XDECREF(kept);
    Py_XDECREF(length);
    Py_XDECREF(who);
    return done != NULL ? 0 : -1;
}

int nc_out_make(NcCallInterface *cif, PyObject *name, NcOut *out, char *area, Py_ssize_t length,
                PyObject *value, Py_ssize_t index)
{
    NcOutMemory *memory = nc_out_memory(out, area);
    memory->length = length >= 0 ? length : out->length;
    if (out->kind == NC_OUT_ARRAY) {
        memory->owner = array_of(cif, out, memory->length);
        if (memory->owner == NULL || find(memory) < 0) {
            return -1;
        }
    } else {
        /* Extra bytes for alignment; they also make a block of length 0 non-empty. */
        size_t items = memory->length < 0 ? 1 : (size_t)memory->length;
        NcBlock *block = nc_block_new((Py_ssize_t)(items * out->size + out->alignment));
        if (block == NULL) {
            return -1;
        }
        memory->owner = (PyObject *)block;
        uintptr_t start = (uintptr_t)block->data + out->alignment - 1;
        memory->address = (char *)(start - start % out->alignment);
    }
    return value != NULL ? fill(cif, name, out, memory, value, index) : 0;
}

/* ---- after the call -------------------------------------------------------------------------- */

/* Return a pointer to a struct or union. The pointer keeps the memory alive. */
static PyObject *owning_pointer(const NcCallInterface *cif, NcOut *out, PyObject *block,
                                char *address)
{
    PyObject *bare = nc_given_pointer(cif, '\0', out->type, &out->pointer_type, address);
    PyObject *made = bare != NULL ? nc_cffi_keeping(bare, block) : NULL;
    Py_XDECREF(bare);
    return made;
}

static PyObject *load_at(const NcCallInterface *cif, NcOut *out, char text, char *address)
{
    if (nc_scalar_size(out->code) != 0) {
        return nc_scalar_to_python(out->code, address);
    }
    if (out->code == 'P') {
        void *found;
        memcpy(&found, address, sizeof(found));
        return nc_given_pointer(cif, text, out->type, &out->pointer_type, found);
    }
    return PyObject_CallFunction(NC_HOOK(load), "ONO", out->type, PyLong_FromVoidPtr(address),
                                 cif->policies);
}

static PyObject *load(const NcCallInterface *cif, NcOut *out, char text, char *area)
{
    if (NC_LIKELY(out->kind == NC_OUT_VALUE)) {
        return load_at(cif, out, text, area + out->offset);
    }
    const NcOutMemory *memory = nc_out_memory(out, area);
    if (out->kind == NC_OUT_ARRAY) {
        return memory->length == 0 ? PySequence_GetSlice(memory->owner, 0, 0)
                                   : Py_NewRef(memory->owner);
    }
    const Py_ssize_t count = memory->length < 0 ? 1 : memory->length;
    PyObject *all = PyList_New(count);
    for (Py_ssize_t i = 0; all != NULL && i < count; i++) {
        char *address = memory->address + (size_t)i * out->size;
        PyObject *one = out->kind == NC_OUT_RECORD
                            ? owning_pointer(cif, out, memory->owner, address)
                            : load_at(cif, out, text, address);
        if (one == NULL) {
            Py_CLEAR(all);
        } else {
            PyList_SET_ITEM(all, i, one);
        }
    }
    if (all != NULL && memory->length < 0) {
        Py_SETREF(all, Py_NewRef(PyList_GET_ITEM(all, 0)));
    }
    return all;
}

PyObject *nc_outs_together(NcCallInterface *cif, PyObject *result, char *area, int failed)
{
    Py_ssize_t first = result != NULL ? 1 : 0;
    NcOut *outs = cif->outs;
    if (first + cif->out_count == 1) {
        return first ? Py_NewRef(result) : load(cif, outs, failed ? '\0' : outs->text, area);
    }
    PyObject *made = PyTuple_New(first + cif->out_count);
    if (made != NULL && result != NULL) {
        PyTuple_SET_ITEM(made, 0, Py_NewRef(result));
    }
    for (Py_ssize_t i = 0; made != NULL && i < cif->out_count; i++) {
        PyObject *value = load(cif, &outs[i], failed ? '\0' : outs[i].text, area);
        if (value == NULL) {
            Py_CLEAR(made);
            break;
        }
        PyTuple_SET_ITEM(made, first + i, value);
    }
    return made;
}

void nc_outs_drop(const NcCallInterface *cif, char *area)
{
    for (Py_ssize_t i = 0; i < cif->out_count; i++) {
        if (cif->outs[i].kind != NC_OUT_VALUE) {
            Py_CLEAR(nc_out_memory(&cif->outs[i], area)->owner);
        }
    }
}
