/* csrc/values/cffitypes.h: cffi's types of its objects, without asking Python.
 *
 * An object of cffi's has its type in the first word behind the object's header. That is compared
 * with what typeof() says for the first object of each class, so another cffi would only be
 * slower. Read like that, a type takes 1 ns, where typeof() takes 20.
 *
 * Threads: with the GIL. */
#ifndef NC_CFFITYPES_H
#define NC_CFFITYPES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

/* Whether a value is data of cffi's, of any kind. */
static inline int nc_is_cdata(PyObject *value)
{
    const char *name = Py_TYPE(value)->tp_name;
    return strncmp(name, "_cffi_backend.", 14) == 0 && strstr(name, "CData") != NULL;
}

/* Whether a class is that of ffi.gc()'s objects. */
static inline int nc_is_gcp(const PyTypeObject *class_)
{
    return strcmp(class_->tp_name, "_cffi_backend.__CDataGCP") == 0;
}

/* Classes of cffi's objects, which are five; behind the last one that is known NULL. */
enum { NC_CFFI_CLASSES = 8 };
extern const PyTypeObject *nc_cffi_classes[NC_CFFI_CLASSES];

/* nc_type_of_cffi, of a class that is not known yet. */
PyObject *nc_type_asked(PyObject *value, int known);

/* cffi's type of one of its objects: borrowed. NULL, without an exception, for all else. */
static inline PyObject *nc_type_of_cffi(PyObject *value)
{
    int known = 0;
    for (; known < NC_CFFI_CLASSES && nc_cffi_classes[known] != NULL; known++) {
        if (nc_cffi_classes[known] == Py_TYPE(value)) {
            return *(PyObject **)(void *)(value + 1);
        }
    }
    return nc_type_asked(value, known);
}

#endif
