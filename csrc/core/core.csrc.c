/* csrc/core/core.csrc.c: the preamble of cffi's wrapper of the core. It includes the headers of the
 * functions in core.cdef.txt. It also defines the functions of cffipointer.h, most of which call
 * cffi functions that exist only inside such a wrapper. */
#include "core/cffipointer.h"
#include "core/core.h"

#include "nativecall/customslots.h"
#include "nativecall/detail/core/intern.h"
#include "nativecall/detail/core/packedtable.h"
#include "nativecall/detail/core/calltable.h"
#include "nativecall/detail/core/slottable.h"

int nc_core_pack(const char *text, size_t length, uint64_t *words, size_t *count)
{
    return nc_signature_pack(text, length, 0, words, NC_PACKED_MAX_WORDS, count);
}

/* Ensures that cffi's functions can be called. Importing the wrapper's module sets the pointers to
 * cffi's functions, so the first use imports that module. Returns 0, or -1 with an exception if the
 * import fails. */
static int has_functions(void)
{
    if (_cffi_from_c_pointer != NULL) {
        return 0;
    }
    PyObject *module = PyImport_ImportModule("nativecall._core");
    Py_XDECREF(module);
    return module != NULL ? 0 : -1;
}

PyObject *nc_of_cffi(PyObject **place, const char *name)
{
    PyObject *found = (PyObject *)nc_load_acquire_ptr(place);
    if (found == NULL) {
        PyObject *module = PyImport_ImportModule("_cffi_backend");
        found = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
        Py_XDECREF(module);
        if (found != NULL && !nc_exchange_ptr(place, NULL, found)) {
            Py_DECREF(found); /* another thread was first */
            found = (PyObject *)nc_load_acquire_ptr(place);
        }
    }
    return found;
}

PyObject *nc_cffi_pointer(void *address, PyObject *type)
{
    if (has_functions() < 0) {
        return NULL;
    }
    return _cffi_from_c_pointer((char *)address, (struct _cffi_ctypedescr *)(void *)type);
}

int nc_cffi_long_double(PyObject *number, long double *out)
{
    if (has_functions() < 0) {
        return -1;
    }
    *out = _cffi_to_c_long_double(number);
    return *out == -1.0L && PyErr_Occurred() ? -1 : 0;
}

int nc_cffi_store(void *memory, PyObject *type, PyObject *value)
{
    if (has_functions() < 0) {
        return -1;
    }
    return _cffi_to_c((char *)memory, (struct _cffi_ctypedescr *)(void *)type, value);
}

void *nc_cffi_address(PyObject *pointer, PyObject *type)
{
    if (has_functions() < 0) {
        return NULL;
    }
    return _cffi_to_c_pointer(pointer, (struct _cffi_ctypedescr *)(void *)type);
}
