/* csrc/module.c: the second module in the core's shared object: Python types and the functions that
 * handle Python objects. (The first, nativecall._core, is written by cffi from core.cdef.txt.)
 *
 * nativecall/_lib.py loads it from the same file by its own init function, so that these types get
 * ordinary exceptions. Each interpreter that shares the GIL has one, of the same types
 * (ground/interpreter.h). */
#include "callback/pycallbackobject.h"
#include "codegen/symbols.h"
#include "ground/address.h"
#include "ground/exceptions.h"
#include "ground/functions.h"
#include "ground/interpreter.h"
#include "ground/lists.h"
#include "object/failure.h"
#include "object/making.h"
#include "object/overloadcost.h"
#include "object/shortcut.h"
#include "object/thunkobject.h"
#include "values/keep.h"
#include "values/memoryblock.h"
#include "values/pointers.h"
#include "values/records.h"

#include <stdlib.h>
#include <string.h>

/* Code relies on what the hooks return, so an interpreter sets them once. */
static int refuse_again(int set)
{
    if (set) {
        PyErr_SetString(PyExc_RuntimeError, "the hooks of the core are set already");
        return -1;
    }
    return 0;
}

/* Sets hooks that stand one behind the other, from `first` on, each to an item of a tuple. */
static PyObject *set_hooks(PyObject **first, PyObject *args)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        Py_XSETREF(first[i], Py_NewRef(PyTuple_GET_ITEM(args, i)));
    }
    Py_RETURN_NONE;
}

/* set_spec_hooks(describe, spec_of) */
static PyObject *set_spec_hooks(PyObject *Py_UNUSED(module), PyObject *args)
{
    NcHooks *hooks = &nc_here()->hooks;
    PyObject *one;
    if (refuse_again(hooks->describe != NULL) < 0 || !PyArg_ParseTuple(args, "OO", &one, &one)) {
        return NULL;
    }
    return set_hooks(&hooks->describe, args);
}

/* set_call_hooks(generate, make_fallback, failure, specialize, no_entry, bridge, thunks,
 * thunk_specs) */
static PyObject *set_call_hooks(PyObject *Py_UNUSED(module), PyObject *args)
{
    NcHooks *hooks = &nc_here()->hooks;
    PyObject *one;
    PyObject *specs;
    PyObject *others;
    PyObject *set;
    if (refuse_again(hooks->thunk_specs != NULL) < 0 ||
        !PyArg_ParseTuple(args, "OOOOOOOO!", &one, &one, &one, &one, &one, &one, &one, &PyDict_Type,
                          &specs)) {
        return NULL;
    }
    others = PyTuple_GetSlice(args, 0, PyTuple_GET_SIZE(args) - 1);
    if (others == NULL) {
        return NULL;
    }
    set = set_hooks(&hooks->generate, others);
    Py_DECREF(others);
    hooks->thunk_specs = Py_NewRef(specs);
    return set;
}

/* set_value_hooks(pointer_argument, pointer_type, match, struct_buffer, store, load, record_class,
 * passed) */
static PyObject *set_value_hooks(PyObject *Py_UNUSED(module), PyObject *args)
{
    NcInterpreter *here = nc_here();
    PyObject *one;
    if (refuse_again(here->has_value_hooks) < 0 ||
        !PyArg_ParseTuple(args, "OOOOOOOO", &one, &one, &one, &one, &one, &one, &one, &one)) {
        return NULL;
    }
    here->has_value_hooks = 1;
    return set_hooks(&here->hooks.pointer_argument, args);
}

/* set_callable_class(type): NativeCallable. */
static PyObject *set_callable_class(PyObject *Py_UNUSED(module), PyObject *type)
{
    PyObject **place = &nc_here()->kept[NC_CALLABLE_CLASS];
    if (refuse_again(*place != NULL) < 0) {
        return NULL;
    }
    if (!PyType_Check(type) ||
        !PyType_IsSubtype((PyTypeObject *)(void *)type, (PyTypeObject *)&NcCallable_Type)) {
        PyErr_SetString(PyExc_TypeError, "the class of callables must be one of theirs");
        return NULL;
    }
    *place = Py_NewRef(type);
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

/* of_here(object): the native callable that it is, or that it is the built-in view of, or None;
 * RuntimeError for one of another interpreter, whose Python code may not run here. */
static PyObject *of_here(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyObject *self = PyObject_TypeCheck(object, (PyTypeObject *)&NcCallable_Type)
                         ? object
                         : nc_native_viewed(object);
    if (self == NULL || !PyObject_TypeCheck(self, (PyTypeObject *)&NcCallable_Type)) {
        Py_RETURN_NONE;
    }
    if (NC_UNLIKELY(nc_has_others) && nc_callable_of((NcCallable *)(void *)self) != nc_here()) {
        nc_interpreter_refuse();
        return NULL;
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
    if (!PyArg_ParseTuple(args, "COO!U", &letter, &value, &PyLong_Type, &address, &who)) {
        return NULL;
    }
    void *memory = nc_address(address, "cannot store at address 0");
    if (memory == NULL || nc_convert_scalar(who, -1, value, (char)letter, memory) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* load_scalar(letter, address) */
static PyObject *load_scalar(PyObject *Py_UNUSED(module), PyObject *args)
{
    int letter;
    PyObject *address;
    if (!PyArg_ParseTuple(args, "CO!", &letter, &PyLong_Type, &address)) {
        return NULL;
    }
    void *memory = nc_address(address, "cannot load from address 0");
    return memory != NULL ? nc_scalar_to_python((char)letter, memory) : NULL;
}

/* value_letter(object): what a number is by itself, "" for anything else. */
static PyObject *value_letter(PyObject *Py_UNUSED(module), PyObject *object)
{
    char letter[2] = {nc_value_letter(object), '\0'};
    if (PyErr_Occurred()) {
        return NULL;
    }
    return PyUnicode_FromString(letter);
}

static PyObject *rows_of(const PyCustomSlotTable *table)
{
    PyObject *rows = PyList_New(0);
    for (size_t i = 0; rows != NULL && table != NULL && i < (size_t)table->count; i++) {
        const PyCustomSlot *slot = nc_slottable_rows(table) + i;
        nc_list_take(&rows, Py_BuildValue("(KKK)", (unsigned long long)slot->id,
                                          (unsigned long long)slot->flags,
                                          (unsigned long long)slot->data.flags));
    }
    return rows;
}

/* slots(type): rows of a type's slot table as (id, flags, data) integers. */
static PyObject *slots(PyObject *Py_UNUSED(module), PyObject *type)
{
    if (!PyType_Check(type)) {
        PyErr_Format(PyExc_TypeError, "slots() takes a type (got %.200s)", Py_TYPE(type)->tp_name);
        return NULL;
    }
    return rows_of(nc_type_has_metatype((PyTypeObject *)(void *)type, nc_metatype)
                       ? ((PyHeapExtensibleTypeObject *)(void *)type)->etp_custom_slots
                       : NULL);
}

/* object_slots(object): the same of an object's own table. */
static PyObject *object_slots(PyObject *Py_UNUSED(module), PyObject *object)
{
    return rows_of(nc_slots_of_object(object));
}

/* call_table_offset(type): where objects of a type keep their call table; 0 for nowhere, also where
 * a call in Python runs other code than the table's (nc_abi_table). */
static PyObject *call_table_offset(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyTypeObject *type = (PyTypeObject *)(void *)object;
    PyTypeObject *base = type;
    if (!PyType_Check(object) || !nc_type_has_metatype(type, nc_metatype)) {
        return PyLong_FromLong(0);
    }
    while (Py_TYPE(object) != nc_metatype && base != NULL &&
           !PyType_HasFeature(base, Py_TPFLAGS_IMMUTABLETYPE)) {
        base = base->tp_base;
    }
    return PyLong_FromSsize_t(
        base != NULL && base->tp_call == type->tp_call
            ? ((PyHeapExtensibleTypeObject *)(void *)type)->etp_obj_custom_slots_offset
            : 0);
}

#define ROW(function, name, flags) {name, function, flags, NULL},
static PyMethodDef functions[] = {
    {"set_spec_hooks", set_spec_hooks, METH_VARARGS, NULL},
    {"set_call_hooks", set_call_hooks, METH_VARARGS, NULL},
    {"set_value_hooks", set_value_hooks, METH_VARARGS, NULL},
    {"set_callable_class", set_callable_class, METH_O, NULL},
    {"viewed", viewed, METH_O, NULL},
    {"of_here", of_here, METH_O, NULL},
    {"store_scalar", store_scalar, METH_VARARGS, NULL},
    {"load_scalar", load_scalar, METH_VARARGS, NULL},
    {"value_letter", value_letter, METH_O, NULL},
    {"slots", slots, METH_O, NULL},
    {"object_slots", object_slots, METH_O, NULL},
    {"call_table_offset", call_table_offset, METH_O, NULL},
    NC_FUNCTIONS(ROW){NULL, NULL, 0, NULL},
};

static PyTypeObject *const types[] = {
    &NcStash_Type,        &NcPointerReader_Type, &NcRecord_Type,         &NcMemory_Type,
    &NcKeep_Type,         &NcCallSpec_Type,      &NcThunkSpec_Type,      &NcThunk_Type,
    &NcCallbackSpec_Type, &NcPyCallback_Type,    &NcCtypesCallback_Type, &NcGenerated_Type,
    &NcLibrary_Type,      &NcMemoryPlan_Type,    &NcField_Type,          &NcMethod_Type,
    &NcObjectArray_Type,
};

/* Adds an object that was just made. -1 with an exception, also where it was not. */
static int add_new(PyObject *module, const char *name, PyObject *made)
{
    int status = made != NULL ? PyModule_AddObjectRef(module, name, made) : -1;
    Py_XDECREF(made);
    return status;
}

/* The flags of entries that the package looks at, and the mask of the error convention, by name. */
static PyObject *flags_of_entries(void)
{
    return Py_BuildValue("{sIsIsIsIsI}", "needs_gil", (unsigned)NC_FLAG_NEEDS_GIL, "takes_gil",
                         (unsigned)NC_FLAG_TAKES_GIL, "release_gil", (unsigned)NC_FLAG_RELEASE_GIL,
                         "errno", (unsigned)NC_FLAG_ERRNO, "errors_mask", (unsigned)NC_ERRORS_MASK);
}

/* What the process has once: types, and what they need. In the main interpreter. */
static int make_process(void)
{
    const char *trace = getenv("NATIVECALL_TRACE");
    nc_calls_traced = trace != NULL && strcmp(trace, "1") == 0;
    nc_symbols_ready();
    nc_pass_function = nc_pycallback_pass;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(types); i++) {
        if (PyType_Ready(types[i]) < 0) {
            return -1;
        }
    }
    return nc_objects_bring_runtime() < 0 || PyType_Ready(&NcPin_Type) < 0 ||
                   PyType_Ready(&NcShortcut_Type) < 0 || PyType_Ready(&NcBlock_Type) < 0 ||
                   nc_buffers_ready() < 0 || nc_exceptions_ready() < 0 || nc_callable_ready() < 0 ||
                   nc_objects_ready() < 0
               ? -1
               : 0;
}

/* Puts the runtime of the process (extensibletype.h) where modules of another interpreter look for
 * it, with all that the main interpreter's has: its metaclass, and the IDs that are given out. */
static int share_runtime(void)
{
    static PyObject *shared; /* of the main interpreter, for ever */
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *there = nc_dict_item(modules, NC_RUNTIME_MODULE);
    PyObject *name;
    PyObject *value;
    Py_ssize_t position = 0;
    int status = -1;
    if (PyErr_Occurred()) {
        return -1;
    }
    if (shared == NULL) {
        shared = there;
        return 0;
    }
    if (there != NULL) {
        const NcRuntime *found = nc_runtime_accept(there);
        if (found != NULL && found != nc_runtime) {
            PyErr_Format(PyExc_ImportError,
                         "%s has brought an extensibletype runtime of its own into this "
                         "interpreter; import nativecall before it",
                         found->provider);
        }
        Py_DECREF(there);
        return found == nc_runtime ? 0 : -1;
    }
    there = PyModule_New(NC_RUNTIME_MODULE);
    if (there != NULL) {
        status = PyDict_SetItemString(modules, NC_RUNTIME_MODULE, there);
    }
    while (status == 0 && PyDict_Next(PyModule_GetDict(shared), &position, &name, &value)) {
        if (strncmp(PyUnicode_AsUTF8(name), "__", 2) != 0) {
            status = PyDict_SetItem(PyModule_GetDict(there), name, value);
        }
    }
    Py_XDECREF(there);
    return status;
}

/* The end of an interpreter begins. Of another than the main one, what the collector does not look
 * into is dropped here; what is made yet is made anew. */
static PyObject *at_exit(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    NcInterpreter *here = nc_here();
    PyObject *caches[] = {here->hooks.thunk_specs, here->kept[NC_SPECS_BY_TEXT]};
    nc_interpreter_close(here);
    if (here == &nc_main) {
        Py_RETURN_NONE;
    }
    nc_thunks_forget(here);
    nc_left_ask_anew();
    for (size_t i = 0; i < Py_ARRAY_LENGTH(caches); i++) {
        if (caches[i] != NULL) {
            PyDict_Clear(caches[i]);
        }
    }
    Py_RETURN_NONE;
}

typedef struct {
    NcInterpreter *here; /* NULL before module_exec, and where it failed */
} State;

static int module_exec(PyObject *module)
{
    static PyMethodDef end = {"end_of_interpreter", at_exit, METH_NOARGS, NULL};
    NcInterpreter *here = nc_interpreter_begin(&end);
    ((State *)PyModule_GetState(module))->here = here;
    if (here == NULL || (here == &nc_main && make_process() < 0) || nc_hooks_put_off(here) < 0 ||
        share_runtime() < 0) {
        return -1;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(types); i++) {
        if (PyModule_AddType(module, types[i]) < 0) {
            return -1;
        }
    }
    if (PyModule_AddType(module, (PyTypeObject *)&NcCallable_Type) < 0 ||
        nc_exceptions_add(module) < 0 || nc_pointers_ready(module, here) < 0 ||
        nc_objects_add(module) < 0 ||
        PyModule_AddObjectRef(module, "extensibletype", (PyObject *)nc_metatype) < 0 ||
        add_new(module, "scalars", nc_scalars()) < 0 || add_new(module, "costs", nc_costs()) < 0 ||
        add_new(module, "error_conventions", nc_error_conventions()) < 0 ||
        add_new(module, "flags", flags_of_entries()) < 0 ||
        PyModule_AddIntConstant(module, "abi_version", NC_ABI_VERSION) < 0 ||
        PyModule_AddIntConstant(module, "calls_traced", nc_calls_traced) < 0 ||
        PyModule_AddIntConstant(module, "in_subinterpreter", here != &nc_main) < 0 ||
        PyModule_AddStringConstant(module, "runtime_provider", nc_runtime->provider) < 0) {
        return -1;
    }
    return nc_interpreter_ready(here, &end);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    const State *state = (const State *)PyModule_GetState(module);
    return state != NULL && state->here != NULL ? nc_interpreter_traverse(state->here, visit, arg)
                                                : 0;
}

static int module_clear(PyObject *module)
{
    const State *state = (const State *)PyModule_GetState(module);
    if (state != NULL && state->here != NULL) {
        nc_thunks_forget(state->here);
        nc_interpreter_clear(state->here);
    }
    return 0;
}

static void module_free(void *module)
{
    (void)module_clear((PyObject *)module);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)module_exec},
    NC_INTERPRETERS_SLOT{0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "nativecall._types",
    .m_doc = "Python types of the compiled core; private to nativecall._lib.",
    .m_size = sizeof(State),
    .m_methods = functions,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__types(void);

PyMODINIT_FUNC PyInit__types(void)
{
    return PyModuleDef_Init(&definition);
}
