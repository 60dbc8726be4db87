/* csrc/values/names.c: implements names.h. */
#include "names.h"

#include "core/core.h"
#include "nativecall/detail/core/base.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

enum { TEXT = 4096 }; /* bytes for a path or a symbol */

/* Return the name of the symbol that starts exactly at an address, else "function". */
static PyObject *symbol_at(void *address)
{
    char path[TEXT];
    char symbol[TEXT];
    uintptr_t start = 0;
    int status;
    Py_BEGIN_ALLOW_THREADS status = nc_core_address_origin(address, path, symbol, TEXT, &start);
    Py_END_ALLOW_THREADS if (status != NC_OK || start != (uintptr_t)address || symbol[0] == '\0')
    {
        return PyUnicode_FromString("function");
    }
    return PyUnicode_DecodeUTF8(symbol, (Py_ssize_t)strlen(symbol), "replace");
}

PyObject **nc_callable_name_place(NcCallable *self)
{
    return self->as.view.ml_name != NULL ? &nc_more(self)->name : &self->as.unviewed.name;
}

PyObject *nc_callable_name(NcCallable *self)
{
    PyObject *name = nc_kept(nc_callable_name_place(self));
    if (name == NULL) {
        name = symbol_at(NC_SINGLE_TARGET(self));
        name = nc_keep_first(nc_callable_name_place(self), name);
    }
    return name;
}

PyObject *nc_callable_error(NcCallable *self, PyObject *exception, const char *format, ...)
{
    va_list arguments;
    PyObject *name = nc_callable_name(self);
    va_start(arguments, format);
    PyObject *what = name != NULL ? PyUnicode_FromFormatV(format, arguments) : NULL;
    va_end(arguments);
    if (what != NULL) {
        PyErr_Format(exception, "'%U' %U", name, what);
        Py_DECREF(what);
    }
    return NULL;
}

PyObject *nc_name(PyObject *name)
{
    if (PyUnicode_Check(name)) {
        return name;
    }
    assert(PyObject_TypeCheck(name, (PyTypeObject *)(void *)&NcCallable_Type));
    return nc_callable_name((NcCallable *)(void *)name);
}
