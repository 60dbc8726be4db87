/* csrc/values/cffitypes.c: the slow path of cffitypes.h, which checks the first object of each cffi
 * class. */
#include "cffitypes.h"

#include "core/cffipointer.h"

const PyTypeObject *nc_cffi_classes[NC_CFFI_CLASSES];
const PyTypeObject *nc_cffi_gcp;
size_t nc_cffi_is_direct;

PyObject *nc_type_asked(PyObject *value, int known)
{
    static PyObject *known_typeof; /* cffi's typeof(); NULL before first use */
    PyTypeObject *class_ = Py_TYPE(value);
    if (class_->tp_name[0] != '_' || strncmp(class_->tp_name, "_cffi_backend.", 14) != 0 ||
        strstr(class_->tp_name, "CData") == NULL) {
        return NULL;
    }
    PyObject *type_of = nc_of_cffi(&known_typeof, "typeof");
    PyObject *type = type_of != NULL ? PyObject_CallOneArg(type_of, value) : NULL;
    if (type == NULL) {
        PyErr_Clear();
        return NULL;
    }
    Py_DECREF(type); /* the object keeps it alive */
    if (strcmp(class_->tp_name, "_cffi_backend.__CDataGCP") == 0) {
        nc_store_relaxed_ptr(&nc_cffi_gcp, class_); /* a static class */
    }
    if (known < NC_CFFI_CLASSES &&
        class_->tp_basicsize >= (Py_ssize_t)(sizeof(PyObject) + 2 * sizeof(void *)) &&
        *(PyObject **)(void *)(value + 1) == type) {
        nc_store_relaxed_ptr(&nc_cffi_classes[known], Py_NewRef(class_));
    }
    return type;
}

void *nc_address_asked(PyObject *pointer, PyObject *type)
{
    void *address = nc_cffi_address(pointer, type);
    if (!nc_load_relaxed_size(&nc_cffi_is_direct) && address != NULL && nc_is_cdata(pointer) &&
        nc_word_of_cffi(pointer) == address) { /* written once, because threads read it often */
        nc_store_relaxed_size(&nc_cffi_is_direct, 1);
    }
    return address;
}
