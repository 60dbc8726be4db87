/* csrc/values/names.c: the names of names.h. */
#include "names.h"

#include "core/core.h"
#include "nativecall/detail/core/base.h"

enum { TEXT = 4096 }; /* bytes for a path or a symbol */

/* The symbol that begins exactly at an address, else "function". */
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
    return self->as.view.ml_name != NULL ? &self->more->name : &self->as.unviewed.name;
}

PyObject *nc_callable_name(NcCallable *self)
{
    PyObject *name = *nc_callable_name_place(self);
    if (name == NULL) {
        name = symbol_at(NC_SINGLE_TARGET(self));
        if (name == NULL) {
            return NULL;
        }
        nc_keep_first(nc_callable_name_place(self), name);
        name = *nc_callable_name_place(self);
    }
    return name;
}

PyObject *nc_name(PyObject *name)
{
    return PyUnicode_Check(name) ? name : nc_callable_name((NcCallable *)(void *)name);
}
