/* csrc/values/refusals.c: why a buffer is no pointer argument, and what would work; pointers.h. */
#include "pointers.h"

void nc_refuse_short(const NcCallSpec *spec, PyObject *name, Py_ssize_t place,
                     const Py_buffer *buffer)
{
    Py_ssize_t index = place < 0 ? 0 : place;
    PyObject *pointer = PyTuple_GET_ITEM(spec->types, index);
    PyObject *array = PyObject_GetAttrString(pointer, "pointee");
    PyObject *item = array != NULL ? PyObject_GetAttrString(array, "item") : NULL;
    if (item != NULL) {
        nc_conversion_error(PyExc_ValueError, name, place,
                            "must be a buffer of at least %zu items of '%S' (got %zu)",
                            spec->arguments[index].count, item,
                            (size_t)buffer->len / spec->arguments[index].size);
    }
    Py_XDECREF(item);
    Py_XDECREF(array);
}

/* Of a buffer that suits, but is not in the order that is wanted, or has gaps. */
static void order_error(char wanted, PyObject *name, Py_ssize_t place, const Py_buffer *buffer,
                        const char *given)
{
    static const char *const orders[] = {"C", "Fortran"};
    int fortran = wanted == 'F';
    if (wanted != 'A' && PyBuffer_IsContiguous(buffer, fortran ? 'C' : 'F')) {
        nc_conversion_error(PyExc_ValueError, name, place,
                            "must be in %s order, this %.200s is in %s order; %sload the function "
                            "with order=\"%c\" or order=\"A\" if C expects that",
                            orders[fortran], given, orders[!fortran],
                            fortran ? "pass numpy.asfortranarray() of it, or " : "",
                            fortran ? 'C' : 'F');
    } else {
        nc_conversion_error(PyExc_ValueError, name, place,
                            "must be %s, this %.200s is not; pass a contiguous copy%s",
                            fortran         ? "contiguous in Fortran order"
                            : wanted == 'A' ? "contiguous"
                                            : "C-contiguous",
                            given, fortran ? ", as numpy.asfortranarray() makes one" : "");
    }
}

void nc_refuse_buffer(const NcCallSpec *spec, PyObject *name, Py_ssize_t place, PyObject *value,
                      PyObject *shown)
{
    Py_ssize_t index = place < 0 ? 0 : place;
    Py_buffer buffer;
    PyObject *type = PyTuple_GET_ITEM(spec->types, index);
    if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO) < 0) {
        if (nc_clear_refusal()) {
            nc_conversion_type_error(name, place, "an object with a readable buffer", value);
        }
        return;
    }
    int suits = nc_buffer_suits(spec, index, value, &buffer);
    /* Held: to write '%S' runs Python code, and the value may get another class meanwhile. */
    PyTypeObject *class_ = (PyTypeObject *)(void *)Py_NewRef(Py_TYPE(shown));
    if (suits == 0) {
        nc_conversion_error(PyExc_TypeError, name, place,
                            "must be a buffer that suits '%S' (got '%s' elements in %.200s)", type,
                            buffer.format != NULL ? buffer.format : "B", class_->tp_name);
    } else if (suits > 0 && !PyBuffer_IsContiguous(&buffer, spec->order)) {
        order_error(spec->order, name, place, &buffer, class_->tp_name);
    } else if (suits > 0) {
        nc_conversion_error(
            PyExc_ValueError, name, place,
            "must be writable, this %.200s is read-only; a C declaration with const "
            "makes the argument read-only",
            class_->tp_name);
    }
    Py_DECREF(class_);
    PyBuffer_Release(&buffer);
}
