/* csrc/native_objects/casts.c: finds the object behind a bare pointer, for
 * nativecall/_native_objects/casts.py.
 *
 * Threads: everything here needs the GIL. */
#include "platform/address.h"
#include "platform/functions.h"
#include "nativecall/nativeobject.h"

/* Returns the native class of the object at an address, if that class is known and is `cls` or
 * derives from `cls`. Otherwise returns NULL, perhaps with an exception. Reads only the word in
 * which an object stores its NcClass pointer, and does not dereference that pointer. find(word)
 * returns the Python class whose NcClass is at address `word`, or None if there is none. */
static const NcClass *made_with(const char *address, PyObject *find, const NcClass *cls)
{
    if ((uintptr_t)address % NC_OBJECT_ALIGN != 0 || (uintptr_t)address < NC_OBJECT_HEAD) {
        return NULL;
    }
    const NcClass *word = nc_object_class(address);
    if (word == cls) {
        return cls;
    }
    PyObject *type = PyObject_CallFunction(find, "N", PyLong_FromVoidPtr((void *)(uintptr_t)word));
    const NcClass *known =
        type != NULL && PyType_Check(type) ? nc_type_class((PyTypeObject *)(void *)type) : NULL;
    const int is_one = known != NULL && known == word && nc_class_derives(known, cls);
    Py_XDECREF(type);
    return is_one ? known : NULL;
}

/* object_with_class(address, find, class, owned): the object of a class at an address, or None. If
 * `owned`, releases a native reference that came with the address. */
PyObject *nc_object_with_class(PyObject *Py_UNUSED(module), PyObject *args)
{
    void *address;
    PyObject *find;
    PyObject *type;
    int owned;
    if (!PyArg_ParseTuple(args, "O&OO!p", nc_take_address, &address, &find, nc_objects->metatype,
                          &type, &owned)) {
        return NULL;
    }
    const NcClass *cls = nc_type_class((PyTypeObject *)(void *)type);
    if (cls == NULL || made_with(address, find, cls) == NULL) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    PyObject *object = nc_object_as_python(address);
    if (owned) {
        nc_object_release(address);
    }
    return object;
}
