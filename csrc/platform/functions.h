/* csrc/platform/functions.h: declares the functions and types that only module.c uses. NC_FUNCTIONS
 * also builds the module's method table. Each function is documented at its definition.
 *
 * Threads: everything here needs the GIL. */
#pragma once

#include <Python.h>

/* Casts a function with more than two parameters, for use in a method table. */
#define NC_METHOD(function) ((PyCFunction)(void (*)(void))(function))

/* The types of methods for METH_FASTCALL | METH_KEYWORDS, and of vectorcall functions. */
typedef PyObject *NcKeywordMethod(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                  PyObject *kwnames);
typedef PyObject *NcVectorcall(PyObject *self, PyObject *const *args, size_t nargsf,
                               PyObject *kwnames);

/* ROW(C function, Python name, flags). */
#define NC_FUNCTIONS(ROW)                                                                          \
    ROW(nc_set_hooks, "set_hooks", METH_VARARGS)                                                   \
    ROW(nc_allocate_block, "allocate_block", METH_O)                                               \
    ROW(nc_memory_of, "make_of", METH_VARARGS)                                                     \
    ROW(nc_callinterface, "callinterface", METH_VARARGS)                                           \
    ROW(nc_match, "match", METH_VARARGS)                                                           \
    ROW(nc_pin, "pin", METH_VARARGS)                                                               \
    ROW(nc_pin_hold, "hold", METH_O)                                                               \
    ROW(nc_pin_export, "export", METH_O)                                                           \
    ROW(nc_pins_settle, "settle", METH_VARARGS)                                                    \
    ROW(nc_library_keeps, "library_keeps", METH_O)                                                 \
    ROW(nc_take_ctypes, "take_ctypes", METH_VARARGS)                                               \
    ROW(nc_know_ctypes, "know_ctypes", METH_VARARGS)                                               \
    ROW(nc_know_byref, "know_byref", METH_VARARGS)                                                 \
    ROW(nc_take_cffi, "take_cffi", METH_VARARGS)                                                   \
    ROW(nc_stack_left_now, "stack_left", METH_NOARGS)                                              \
    ROW(nc_native_offer, "native_offer", METH_O)                                                   \
    ROW(nc_native_entry, "native_entry", METH_VARARGS)                                             \
    ROW(nc_capsule, "capsule", METH_VARARGS)                                                       \
    ROW(nc_capsule_entry, "capsule_entry", METH_O)                                                 \
    ROW(nc_open_library, "open_library", METH_VARARGS)                                             \
    ROW(nc_probe_call_loop, "call_loop", METH_VARARGS)                                             \
    ROW(nc_errno_set, "set_errno", METH_O)                                                         \
    ROW(nc_errno_saved, "saved_errno", METH_NOARGS)                                                \
    ROW(nc_bare_of, "bare", METH_O)                                                                \
    ROW(nc_handle_ended, "ended_by", METH_O)                                                       \
    ROW(nc_struct_pointer_of, "struct_pointer", METH_VARARGS)                                      \
    ROW(nc_object_at, "object_at", METH_VARARGS)                                                   \
    ROW(nc_code_layout, "code_layout", METH_NOARGS)                                                \
    ROW(nc_code_symbols, "code_symbols", METH_NOARGS)                                              \
    ROW(nc_has_room, "has_room", METH_O)                                                           \
    ROW(nc_code_refused, "code_refused", METH_NOARGS)                                              \
    ROW(nc_load_object, "load_object", METH_VARARGS)                                               \
    ROW(nc_processor, "processor", METH_NOARGS)                                                    \
    ROW(nc_make_thunk, "make_thunk", METH_VARARGS)                                                 \
    ROW(nc_begin_objects, "begin_objects", METH_NOARGS)                                            \
    ROW(nc_object_at_address, "object_as_python", METH_O)                                          \
    ROW(nc_object_with_class, "object_with_class", METH_VARARGS)                                   \
    ROW(nc_native_order, "native_order", METH_O)                                                   \
    ROW(nc_native_parts, "native_parts", METH_O)

#define NC_DECLARE(function, name, flags) PyObject *function(PyObject *module, PyObject *argument);
NC_FUNCTIONS(NC_DECLARE)
#undef NC_DECLARE

extern PyTypeObject NcLibrary_Type, NcLibraryBase_Type, NcMemory_Type;
extern PyTypeObject NcField_Type, NcMethod_Type, NcObjectArray_Type;

/* Readies the types of native callables and adds them to the module. Returns 0, or -1 with an
 * exception. */
int nc_callable_ready(PyObject *module);
/* Creates or adopts the process's metaclass, registry and root class of native objects, and adds
 * the root class to the module. Call this before any other use of them. Returns 0, or -1 with
 * ImportError. Only one C file should call PyExtensibleType_Import, because each C file that calls
 * it compiles the whole metaclass. */
int nc_objects_ready(PyObject *module);
/* Not in NC_FUNCTIONS, since their parameters differ (METH_FASTCALL). */
PyObject *nc_memory_make(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *nc_memory_pointer(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *nc_string_at(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
