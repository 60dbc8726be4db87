/* csrc/module.c: the module nativecall._ext, with Python types and functions on Python objects. The
 * core's shared object contains a second module, nativecall._core, which cffi generates from
 * core.cdef.txt.
 *
 * nativecall/_lib.py loads nativecall._ext from the same file, by its init function PyInit__ext.
 * Unlike the functions of nativecall._core, those of nativecall._ext can raise exceptions. The
 * types are static, so only the main interpreter can load the module. */
#include "callable/pycallback.h"
#include "codegen/symbols.h"
#include "platform/address.h"
#include "platform/exceptions.h"
#include "platform/functions.h"
#include "platform/gil.h"
#include "platform/hooks.h"
#include "call/failure.h"
#include "callable/construct.h"
#include "callable/overloadcost.h"
#include "call/thunkobject.h"
#include "values/destructor.h"
#include "values/memoryblock.h"
#include "values/pointers.h"
#include "values/record.h"
#include "values/structpointer.h"

#include <stdlib.h>
#include <string.h>

/* set_class(type): sets the class of new callables, Records or struct pointers: whichever base
 * class of the core the type has. Each class can be set only once. Records keep the tp_dealloc of
 * the core: the default for Python classes takes longer than creating a Record. */
static PyObject *set_class(PyObject *Py_UNUSED(module), PyObject *type)
{
    PyTypeObject *const bases[] = {(PyTypeObject *)(void *)&NcCallable_Type, &NcRecordBase_Type,
                                   &NcStructPointer_Type};
    PyTypeObject **const places[] = {&nc_callable_class, &nc_record_class,
                                     &nc_struct_pointer_class};
    for (size_t i = 0; PyType_Check(type) && i < Py_ARRAY_LENGTH(bases); i++) {
        if (PyType_IsSubtype((PyTypeObject *)(void *)type, bases[i]) &&
            (*places[i] == NULL || *places[i] == bases[i])) {
            *places[i] = (PyTypeObject *)(void *)Py_NewRef(type);
            if (bases[i] == &NcRecordBase_Type) {
                nc_record_class->tp_dealloc = NcRecordBase_Type.tp_dealloc;
            }
            Py_RETURN_NONE;
        }
    }
    PyErr_SetString(PyExc_TypeError, "the core has no base class of this type, or has its class");
    return NULL;
}

/* callable_of(object): the object itself if it is a native callable, the callable behind a built-in
 * view, or None. */
static PyObject *callable_of(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyObject *self = nc_abi_behind(object);
    return Py_NewRef(PyObject_TypeCheck(self, (PyTypeObject *)&NcCallable_Type) ? self : Py_None);
}

/* store_scalar(letter, value, address, who): converts a value and stores it in memory. Error
 * messages begin with `who`. */
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

/* value_letter(object): the letter of a number's type (nc_value_letter); "" for other objects. */
static PyObject *value_letter(PyObject *Py_UNUSED(module), PyObject *object)
{
    char letter[2] = {nc_value_letter(object), '\0'};
    if (PyErr_Occurred()) {
        return NULL;
    }
    return PyUnicode_FromString(letter);
}

/* call_table_offset(type): the offset of the call table in objects of a type. 0 if there is no call
 * table, or if a call in Python would not run the table's code (nc_abi_table). */
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
    {"set_class", set_class, METH_O, NULL},
    {"callable_of", callable_of, METH_O, NULL},
    {"wrapped", NC_METHOD(nc_wrapped), METH_FASTCALL, NULL},
    {"caller", nc_caller, METH_VARARGS, NULL},
    {"make", NC_METHOD(nc_memory_make), METH_FASTCALL, NULL},
    {"convert_pointer", NC_METHOD(nc_memory_pointer), METH_FASTCALL, NULL},
    {"string_at", NC_METHOD(nc_string_at), METH_FASTCALL, NULL},
    {"store_scalar", store_scalar, METH_VARARGS, NULL},
    {"load_scalar", load_scalar, METH_VARARGS, NULL},
    {"value_letter", value_letter, METH_O, NULL},
    {"call_table_offset", call_table_offset, METH_O, NULL},
    NC_FUNCTIONS(ROW){NULL, NULL, 0, NULL},
};

static PyTypeObject *const types[] = {
    &NcStash_Type,        &NcRecordBase_Type,    &NcMemory_Type,        &NcLayout_Type,
    &NcDestructor_Type,   &NcCallInterface_Type, &NcThunkSpec_Type,     &NcThunk_Type,
    &NcCallbackSpec_Type, &NcPyCallback_Type,    &NcLibrary_Type,       &NcField_Type,
    &NcMethod_Type,       &NcObjectArray_Type,   &NcStructPointer_Type, &NcLibraryBase_Type,
};

/* Adds a new object to the module and releases it. The object may be NULL with an exception.
 * Returns 0, or -1 with an exception. */
static int add_new(PyObject *module, const char *name, PyObject *made)
{
    int status = made != NULL ? PyModule_AddObjectRef(module, name, made) : -1;
    Py_XDECREF(made);
    return status;
}

static int module_exec(PyObject *module)
{
    static int is_loaded;
    const char *trace = getenv("NATIVECALL_TRACE");
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "nativecall cannot be imported in a subinterpreter: its types are shared "
                        "by the process; import it in the main interpreter");
        return -1;
    }
    if (is_loaded) {
        PyErr_SetString(PyExc_ImportError,
                        "nativecall's core cannot be loaded twice in one process; restart Python");
        return -1;
    }
    nc_interpreter = PyInterpreterState_Main();
    nc_calls_traced = trace != NULL && strcmp(trace, "1") == 0;
    nc_symbols_ready();
    nc_pass_function = nc_pycallback_pass;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(types); i++) {
        if (PyModule_AddType(module, types[i]) < 0) {
            return -1;
        }
    }
    if (nc_hooks_put_off() < 0 || nc_objects_ready(module) < 0 || PyType_Ready(&NcPin_Type) < 0 ||
        PyType_Ready(&NcBlock_Type) < 0 || nc_buffers_ready() < 0 ||
        nc_exceptions_ready(module) < 0 || nc_pointers_ready(module) < 0 ||
        nc_callable_ready(module) < 0 ||
        PyModule_AddObjectRef(module, "extensibletype", (PyObject *)nc_metatype) < 0 ||
        add_new(module, "scalars", nc_scalars()) < 0 ||
        add_new(module, "costs",
                Py_BuildValue("(iiiii)", NC_COST_EXACT, NC_COST_WIDER, NC_COST_OBJECT,
                              NC_COST_NARROW, NC_COST_REFUSED)) < 0 ||
        add_new(module, "error_conventions", nc_error_conventions()) < 0 ||
        add_new(module, "flags",
                Py_BuildValue("{sIsIsIsIsI}", "needs_gil", (unsigned)NC_FLAG_NEEDS_GIL, "takes_gil",
                              (unsigned)NC_FLAG_TAKES_GIL, "release_gil",
                              (unsigned)NC_FLAG_RELEASE_GIL, "errno", (unsigned)NC_FLAG_ERRNO,
                              "errors_mask", (unsigned)NC_ERRORS_MASK)) < 0 ||
        PyModule_AddIntConstant(module, "abi_version", NC_ABI_VERSION) < 0 ||
        PyModule_AddIntConstant(module, "calls_traced", nc_calls_traced) < 0) {
        return -1;
    }
    is_loaded = 1;
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)module_exec},
    NC_ANY_INTERPRETER_SLOT NC_NO_GIL_SLOT{0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "nativecall._ext",
    .m_doc = "Python types of the compiled core; private to nativecall.",
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__ext(void);

PyMODINIT_FUNC PyInit__ext(void)
{
    return PyModuleDef_Init(&definition);
}
