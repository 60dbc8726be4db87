/* csrc/pin.h: a Pin is a converted pointer argument as a Python object; what it points to is kept,
 * and buffers stay exported, while the Pin lives. */
#ifndef NC_PIN_H
#define NC_PIN_H

#include "convert.h"

typedef struct {
    PyObject_HEAD
    NcPointer pointer; /* released with the object */
} NcPin;

extern PyTypeObject NcPin_Type;

/* A Pin of a value as the first argument of a plan, a pointer; `who` is the whole subject of
 * messages. NULL with an exception. */
NcPin *nc_pin_value(const NcPlan *plan, PyObject *who, PyObject *value);

/* After code ran that may be anything's: whether what the pointers' buffers were exported with is
 * still where it was. ctypes.resize, and ndarray.resize without its check, move memory that is
 * exported. `name` is the callable's. 0, or -1 with a BufferError. */
int nc_check_unmoved(PyObject *name, const NcPointer *pointers, size_t count);
/* The same for all Pins in a list. */
int nc_pins_check(PyObject *name, PyObject *list);

/* Closes the stashes of all Pins in a list, as nc_stash_close does. */
void nc_pins_close(PyObject *list, PyObject **first);

/* The lengths of a buffer's dimensions, then its strides in bytes, into 2 * ndim words. */
void nc_buffer_extents(const Py_buffer *buffer, intptr_t *extents);

/* What Python code calls: pin(plan, name, index, value), hold(object), export(object),
 * check_unmoved(list, name), settle(list, raised). */
PyObject *nc_pin(PyObject *module, PyObject *args);
PyObject *nc_pin_hold(PyObject *module, PyObject *object);
PyObject *nc_pins_check_unmoved(PyObject *module, PyObject *args);
PyObject *nc_pin_export(PyObject *module, PyObject *object);
PyObject *nc_pins_settle(PyObject *module, PyObject *args);

/* What this file looks up once; -1 with an exception. */
int nc_pin_ready(void);

#endif
