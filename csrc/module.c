/* csrc/module.c: the second module in the core's shared object: Python types and the functions that
 * handle Python objects. (The first, nativecall._core, is written by cffi from core.cdef.txt.)
 *
 * nativecall/_lib.py loads it from the same file by its own init function, so that these types get
 * ordinary exceptions. One process has one copy; subinterpreters are refused, because the slot
 * tables of static types and the PyGILState API know only the main one. */
#include "callable.h"
#include "convert.h"
#include "core.h"
#include "probe.h"

/* set_hooks(pointer_argument, pointer_result, make_invoke, match) */
static PyObject *set_hooks(PyObject *Py_UNUSED(module), PyObject *args)
{
    NcHooks hooks;
    if (!PyArg_ParseTuple(args, "OOOO", &hooks.pointer_argument, &hooks.pointer_result,
                          &hooks.make_invoke, &hooks.match)) {
        return NULL;
    }
    Py_XSETREF(nc_hooks.pointer_argument, Py_NewRef(hooks.pointer_argument));
    Py_XSETREF(nc_hooks.pointer_result, Py_NewRef(hooks.pointer_result));
    Py_XSETREF(nc_hooks.make_invoke, Py_NewRef(hooks.make_invoke));
    Py_XSETREF(nc_hooks.match, Py_NewRef(hooks.match));
    Py_RETURN_NONE;
}

/* set_struct_hook(struct_buffer) */
static PyObject *set_struct_hook(PyObject *Py_UNUSED(module), PyObject *hook)
{
    Py_XSETREF(nc_hooks.struct_buffer, Py_NewRef(hook));
    Py_RETURN_NONE;
}

/* viewed(object): the callable behind a built-in view, or None. */
static PyObject *viewed(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyObject *self = nc_native_viewed(object);
    if (self == NULL || !PyObject_TypeCheck(self, (PyTypeObject *)&NcCallable_Type)) {
        Py_RETURN_NONE;
    }
    return Py_NewRef(self);
}

/* store_scalar(letter, value, address, who): converts into memory; `who` begins the message. */
static PyObject *store_scalar(PyObject *Py_UNUSED(module), PyObject *args)
{
    int letter;
    PyObject *value;
    PyObject *address;
    PyObject *who;
    void *memory;
    if (!PyArg_ParseTuple(args, "COO!U", &letter, &value, &PyLong_Type, &address, &who)) {
        return NULL;
    }
    memory = PyLong_AsVoidPtr(address);
    if (memory == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "cannot store at address 0");
        }
        return NULL;
    }
    if (nc_convert_scalar(who, -1, value, (char)letter, memory) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* load_scalar(letter, address) */
static PyObject *load_scalar(PyObject *Py_UNUSED(module), PyObject *args)
{
    int letter;
    PyObject *address;
    void *memory;
    if (!PyArg_ParseTuple(args, "CO!", &letter, &PyLong_Type, &address)) {
        return NULL;
    }
    memory = PyLong_AsVoidPtr(address);
    if (memory == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "cannot load from address 0");
        }
        return NULL;
    }
    return nc_scalar_to_python((char)letter, memory);
}

/* A pointer argument held for the length of a call that Python code makes. */
typedef struct {
    PyObject_HEAD
    NcPointer pointer; /* released with the object */
} NcPin;

static void pin_dealloc(PyObject *object)
{
    nc_release_pointer(&((NcPin *)(void *)object)->pointer);
    PyObject_Free(object);
}

static PyObject *pin_get_address(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromVoidPtr(((NcPin *)(void *)object)->pointer.address);
}

static PyGetSetDef pin_getset[] = {
    {"address", pin_get_address, NULL, "what the callee gets; 0 for None", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject NcPin_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.Pin",
    .tp_doc = "A converted pointer argument; what it points to is kept while this lives.",
    .tp_basicsize = sizeof(NcPin),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = pin_dealloc,
    .tp_getset = pin_getset,
};

/* A new Pin of nothing yet. */
static NcPin *pin_new(void)
{
    NcPin *self = PyObject_New(NcPin, &NcPin_Type);
    if (self != NULL) {
        self->pointer.buffer.obj = NULL;
        self->pointer.keep = NULL;
        self->pointer.address = NULL;
    }
    return self;
}

/* pin(plan, name, index, value): argument `index` of a plan, which must be a pointer; with index -1 the
 * first one, and `name` is the whole subject of messages. */
static PyObject *pin(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *plan;
    PyObject *name;
    PyObject *value;
    Py_ssize_t index;
    NcPin *self;
    if (!PyArg_ParseTuple(args, "O!UnO", &NcPlan_Type, &plan, &name, &index, &value)) {
        return NULL;
    }
    if (index < -1 || (index < 0 ? 0 : index) >= ((NcPlan *)(void *)plan)->nargs) {
        PyErr_SetString(PyExc_IndexError, "no such argument");
        return NULL;
    }
    self = pin_new();
    if (self == NULL) {
        return NULL;
    }
    if (nc_convert_pointer_of((const NcPlan *)(void *)plan, name, index, value, &self->pointer) <
        0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* export(object): its buffer of any strides, as (Pin of it, the element's letter or "", format,
 * itemsize, shape, strides, read-only). The Pin's address is the element with all indices 0. */
static PyObject *export(PyObject *Py_UNUSED(module), PyObject *object)
{
    NcPin *held = pin_new();
    PyObject *shape = NULL;
    PyObject *strides = NULL;
    PyObject *result = NULL;
    const Py_buffer *buffer;
    Py_ssize_t inner;
    char letter[2] = {'\0', '\0'};
    if (held == NULL) {
        return NULL;
    }
    buffer = &held->pointer.buffer;
    if (PyObject_GetBuffer(object, &held->pointer.buffer, PyBUF_STRIDES | PyBUF_FORMAT) < 0) {
        held->pointer.buffer.obj = NULL;
        goto done;
    }
    held->pointer.address = buffer->buf;
    letter[0] = nc_buffer_letter(buffer);
    shape = PyTuple_New(buffer->ndim);
    strides = PyTuple_New(buffer->ndim);
    if (shape == NULL || strides == NULL) {
        goto done;
    }
    /* Without strides (ctypes never tells any) the memory is contiguous. */
    inner = buffer->itemsize;
    for (int i = buffer->ndim - 1; i >= 0; i--) {
        Py_ssize_t extent = buffer->shape != NULL ? buffer->shape[i] : buffer->len / inner;
        PyObject *length = PyLong_FromSsize_t(extent);
        PyObject *step = PyLong_FromSsize_t(buffer->strides != NULL ? buffer->strides[i] : inner);
        inner *= extent;
        PyTuple_SET_ITEM(shape, i, length);
        PyTuple_SET_ITEM(strides, i, step);
        if (length == NULL || step == NULL) {
            goto done;
        }
    }
    result = Py_BuildValue("(OssnOOO)", held, letter, buffer->format != NULL ? buffer->format : "B",
                           buffer->itemsize, shape, strides, buffer->readonly ? Py_True : Py_False);

done:
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    Py_DECREF(held);
    return result;
}

/* settle(list): ends a call that Python code made. Raises what Python functions among the Pins of
 * the list left. */
static PyObject *settle(PyObject *Py_UNUSED(module), PyObject *list)
{
    PyObject *first = NULL;
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "settle() takes a list");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        if (Py_IS_TYPE(item, &NcPin_Type)) {
            nc_stash_close(&((NcPin *)(void *)item)->pointer, &first);
        }
    }
    return nc_stash_raise(Py_NewRef(Py_None), first);
}

/* value_letter(object): what a number is by itself, "" for anything else. */
static PyObject *value_letter(PyObject *Py_UNUSED(module), PyObject *object)
{
    char letter[2] = {nc_value_letter(object), '\0'};
    return PyUnicode_FromString(letter);
}

/* slots(type): rows of a type's slot table as (id, flags, data) integers, None without a table. */
static PyObject *slots(PyObject *Py_UNUSED(module), PyObject *type)
{
    const PyCustomSlotTable *table;
    PyObject *rows;
    if (!PyType_Check(type)) {
        PyErr_Format(PyExc_TypeError, "slots() takes a type (got %.200s)", Py_TYPE(type)->tp_name);
        return NULL;
    }
    if (!nc_type_has_metatype((PyTypeObject *)(void *)type, nc_metatype)) {
        Py_RETURN_NONE;
    }
    table = ((PyHeapExtensibleTypeObject *)(void *)type)->etp_custom_slots;
    rows = PyList_New(0);
    for (size_t i = 0; rows != NULL && table != NULL && i < (size_t)table->count; i++) {
        const PyCustomSlot *slot = nc_slottable_rows(table) + i;
        PyObject *row =
            Py_BuildValue("(KKK)", (unsigned long long)slot->id, (unsigned long long)slot->flags,
                          (unsigned long long)(uintptr_t)slot->data.pointer);
        if (row == NULL || PyList_Append(rows, row) < 0) {
            Py_CLEAR(rows);
        }
        Py_XDECREF(row);
    }
    return rows;
}

/* call_table_offset(type): where objects of a type keep their call table; 0 for nowhere. */
static PyObject *call_table_offset(PyObject *Py_UNUSED(module), PyObject *type)
{
    if (!PyType_Check(type) || !nc_type_has_metatype((PyTypeObject *)(void *)type, nc_metatype)) {
        return PyLong_FromLong(0);
    }
    return PyLong_FromSsize_t(
        ((PyHeapExtensibleTypeObject *)(void *)type)->etp_obj_custom_slots_offset);
}

/* ---- capsules that own what they point into -------------------------------------------------- */

/* The name and the owner of a capsule in one block, which its name leads to. Not the capsule's
 * context: SciPy hands that to the function as its user_data. */
typedef struct {
    PyObject *owner; /* kept alive by the capsule */
    char name[1];    /* the capsule's name, as long as it needs to be */
} NamedOwner;

static void capsule_free(PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    NamedOwner *block = (NamedOwner *)(uintptr_t)(name - offsetof(NamedOwner, name));
    Py_DECREF(block->owner);
    PyMem_Free(block);
}

/* capsule(address, name, owner): a PyCapsule named `name` (bytes). */
static PyObject *capsule(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *address;
    PyObject *owner;
    PyObject *made;
    const char *name;
    Py_ssize_t length;
    void *pointer;
    NamedOwner *block;
    if (!PyArg_ParseTuple(args, "O!y#O", &PyLong_Type, &address, &name, &length, &owner)) {
        return NULL;
    }
    pointer = PyLong_AsVoidPtr(address);
    if (pointer == NULL && PyErr_Occurred()) {
        return NULL;
    }
    block = (NamedOwner *)PyMem_Calloc(1, sizeof(NamedOwner) + (size_t)length);
    if (block == NULL) {
        return PyErr_NoMemory();
    }
    memcpy(block->name, name, (size_t)length);
    made = PyCapsule_New(pointer, block->name, capsule_free);
    if (made == NULL) {
        PyMem_Free(block);
        return NULL;
    }
    block->owner = Py_NewRef(owner);
    return made;
}

/* ---- libraries ------------------------------------------------------------------------------- */

static void library_free(PyObject *capsule)
{
    (void)nc_core_library_close(PyCapsule_GetPointer(capsule, NULL));
}

/* library(handle): what keeps an open library open. Closed when the last reference is gone, by a
 * destructor and not a finaliser: the collector runs finalisers while others may still call. */
static PyObject *library(PyObject *Py_UNUSED(module), PyObject *handle)
{
    void *pointer = PyLong_Check(handle) ? PyLong_AsVoidPtr(handle) : NULL;
    if (pointer == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "library() takes the handle of an open library");
        }
        return NULL;
    }
    return PyCapsule_New(pointer, NULL, library_free);
}

static PyMethodDef functions[] = {
    {"set_hooks", set_hooks, METH_VARARGS, NULL},
    {"set_struct_hook", set_struct_hook, METH_O, NULL},
    {"viewed", viewed, METH_O, NULL},
    {"store_scalar", store_scalar, METH_VARARGS, NULL},
    {"load_scalar", load_scalar, METH_VARARGS, NULL},
    {"pin", pin, METH_VARARGS, NULL},
    {"export", export, METH_O, NULL},
    {"settle", settle, METH_O, NULL},
    {"value_letter", value_letter, METH_O, NULL},
    {"slots", slots, METH_O, NULL},
    {"call_table_offset", call_table_offset, METH_O, NULL},
    {"capsule", capsule, METH_VARARGS, NULL},
    {"library", library, METH_O, NULL},
    {"call_loop", nc_probe_call_loop, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module)
{
    static int loaded;
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(
            PyExc_ImportError,
            "nativecall cannot be imported in a subinterpreter: its types are static and "
            "shared by the process; import it in the main interpreter");
        return -1;
    }
    if (loaded) {
        PyErr_SetString(PyExc_ImportError,
                        "nativecall's core cannot be loaded twice in one process; restart Python");
        return -1;
    }
    if (PyExtensibleType_Import() == NULL || PyType_Ready(&NcPin_Type) < 0 ||
        PyType_Ready(&NcStash_Type) < 0 ||
        PyModule_AddObjectRef(module, "Stash", (PyObject *)&NcStash_Type) < 0 ||
        nc_callable_ready(module) < 0 ||
        PyModule_AddObjectRef(module, "extensibletype", (PyObject *)nc_metatype) < 0 ||
        PyModule_AddStringConstant(module, "runtime_provider", nc_runtime->provider) < 0) {
        return -1;
    }
    loaded = 1;
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)module_exec},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "nativecall._types",
    .m_doc = "Python types of the compiled core; private to nativecall._lib.",
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__types(void);

PyMODINIT_FUNC PyInit__types(void)
{
    return PyModuleDef_Init(&definition);
}
