/* csrc/objects/casts.c: the way from a bare pointer back to the object, for nativecall/_objects/
 * casts.py. With the GIL. */
#include "ground/address.h"
#include "ground/functions.h"
#include "nativecall/nativeobject.h"

/* Whether an address can be that of an object of one of these classes: -1 with an exception. Of the
 * memory one word is read, and followed nowhere: it is compared with the classes that there are. */
static int is_made_with(const char *address, PyObject *classes)
{
    if ((uintptr_t)address % NC_OBJECT_ALIGN != 0 || (uintptr_t)address < NC_OBJECT_HEAD) {
        return 0;
    }
    const NcClass *made_with = nc_object_class(address);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(classes); i++) {
        PyObject *type = PyList_GET_ITEM(classes, i);
        if (!PyType_Check(type)) {
            PyErr_Format(PyExc_TypeError, "%R is no class of native objects", type);
            return -1;
        }
        const NcClass *cls = nc_type_class((PyTypeObject *)(void *)type);
        if (cls != NULL && cls == made_with) {
            return 1;
        }
    }
    return 0;
}

/* object_with_class(address, classes, owned): the object that was made with one of these classes at
 * an address, None if there is none. `owned` gives a native reference back, which came with it. */
PyObject *nc_object_with_class(PyObject *Py_UNUSED(module), PyObject *args)
{
    void *address;
    PyObject *classes;
    int owned;
    if (!PyArg_ParseTuple(args, "O&O!p", nc_take_address, &address, &PyList_Type, &classes,
                          &owned)) {
        return NULL;
    }
    const int found = is_made_with(address, classes);
    if (found <= 0) {
        return found == 0 ? Py_NewRef(Py_None) : NULL;
    }
    PyObject *object = nc_object_as_python(address);
    if (owned) {
        nc_object_release(address);
    }
    return object;
}
