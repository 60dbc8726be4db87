/* csrc/call/kept.c: implements kept.h: dicts that keep alive the functions that C stores. */
#include "kept.h"

#include "values/destructor.h"
#include "values/names.h"
#include "values/pointers.h"
#include "values/structpointer.h"

/* ---- the functions of one dict --------------------------------------------------------------- */

/* Returns the key of a function in a dict: a new tuple, or NULL with an exception. The key holds
 * the function and its C type: the CallbackSpec and the signature's address. For a native callable,
 * the key also identifies the current entry. If `itself` is 1, the key holds the function's address
 * instead of the function. */
static PyObject *key_of(const NcArgument *argument, PyObject *value, int itself)
{
    PyObject *passed = nc_kept(&argument->passed);
    PyObject *made_by = passed != NULL ? passed : Py_None;
    const uintptr_t type = nc_load_relaxed_uintptr(&argument->function);
    if (PyObject_TypeCheck(value, (PyTypeObject *)(void *)&NcCallable_Type)) {
        const NcCallable *callable = (NcCallable *)(void *)value;
        const uintptr_t target = (uintptr_t)NC_SINGLE_TARGET(callable);
        return Py_BuildValue("(OnOnn)", made_by, type, value, target,
                             nc_load_relaxed_size(&nc_more(callable)->changes));
    }
    return itself ? Py_BuildValue("(OnnO)", made_by, type, (uintptr_t)value, Py_None)
                  : Py_BuildValue("(OnO)", made_by, type, value);
}

/* Looks up a key. If the function's __hash__ or __eq__ raises, replaces *key with a key that holds
 * the function's address. Returns a new reference, or NULL, perhaps with an exception. */
static PyObject *found_in(PyObject *kept, const NcArgument *argument, PyObject *value,
                          PyObject **key)
{
    PyObject *found = *key != NULL ? nc_dict_get(kept, *key) : NULL;
    if (found != NULL || !PyErr_Occurred() || *key == NULL ||
        !PyErr_ExceptionMatches(PyExc_Exception)) {
        return found;
    }
    PyErr_Clear();
    Py_SETREF(*key, key_of(argument, value, 1));
    return *key != NULL ? nc_dict_get(kept, *key) : NULL;
}

int nc_keep_in(PyObject *kept, const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
               PyObject *value, void **address)
{
    const NcArgument *argument = &cif->arguments[index < 0 ? 0 : index];
    NcPin *pin = NULL;
    if (nc_kept(&argument->passed) == NULL) { /* nc_pin_value sets it */
        pin = nc_pin_value(cif, name, index, value);
        if (pin == NULL) {
            return -1;
        }
    }
    PyObject *key = key_of(argument, value, 0);
    PyObject *row = found_in(kept, argument, value, &key);
    if (row == NULL && key != NULL && !PyErr_Occurred()) {
        pin = pin != NULL ? pin : nc_pin_value(cif, name, index, value);
        PyObject *fresh = pin != NULL ? PyTuple_Pack(2, (PyObject *)pin, value) : NULL;
        row = fresh != NULL ? nc_dict_default(kept, key, fresh) : NULL;
        Py_XDECREF(fresh);
    }
    if (row != NULL) {
        *address = ((NcPin *)(void *)PyTuple_GET_ITEM(row, 0))->pointer.address;
    }
    Py_XDECREF(row); /* the dict keeps it */
    Py_XDECREF(key);
    Py_XDECREF((PyObject *)pin);
    return row != NULL ? 0 : -1;
}

/* ---- dicts ----------------------------------------------------------------------------------- */

static PyObject *of_process; /* NULL before first use */

/* Maps the address of an object to a dict of the functions kept with the object. Each dict also
 * holds a weak reference to its object. The reference's callback drops the dict. */
static PyObject *of_objects; /* NULL before first use */

static PyObject *made_once(PyObject **place)
{
    PyObject *found = nc_kept(place);
    return found != NULL ? found : nc_keep_first(place, PyDict_New());
}

/* The weak reference's callback; `key` is the object's former address. */
static PyObject *forget(PyObject *key, PyObject *Py_UNUSED(reference))
{
    if (PyDict_DelItem(of_objects, key) < 0) {
        PyErr_Clear();
    }
    Py_RETURN_NONE;
}

static PyMethodDef forget_definition = {"forget", forget, METH_O, NULL};

/* Returns the dict of the functions that live as long as the argument `holder`: a new reference, or
 * NULL with an exception. */
static PyObject *kept_with(NcCallable *self, Py_ssize_t index, PyObject *holder)
{
    PyObject *all = made_once(&of_objects);
    /* For an ffi.gc() object, use the original pointer: it lives until the destructor has run, and
     * the destructor may call the kept functions. */
    holder = nc_cffi_origin(holder);
    PyObject *key = all != NULL ? PyLong_FromVoidPtr(holder) : NULL;
    PyObject *kept = key != NULL ? nc_dict_get(all, key) : NULL;
    if (kept != NULL || PyErr_Occurred()) {
        Py_XDECREF(key);
        return kept;
    }
    PyObject *end = PyCFunction_New(&forget_definition, key);
    PyObject *reference = end != NULL ? PyWeakref_NewRef(holder, end) : NULL;
    Py_XDECREF(end);
    if (reference != NULL) {
        PyObject *made = PyDict_New();
        if (made != NULL && PyDict_SetItem(made, Py_None, reference) == 0) {
            kept = nc_dict_default(all, key, made);
        }
        Py_XDECREF(made);
        Py_DECREF(reference);
    } else if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyObject *name = nc_callable_name(self);
        if (name != NULL) {
            PyErr_Format(
                PyExc_TypeError,
                "argument %zd of '%U' must support weak references, as a cffi pointer does, to "
                "keep functions alive (got %.200s); otherwise use keep='library' or keep='process'",
                index + 1, name, Py_TYPE(holder)->tp_name);
        }
    }
    Py_DECREF(key);
    return kept;
}

/* Returns the dict of the library to which the callable's function belongs: a new reference, or
 * NULL with an exception. */
static PyObject *kept_by_library(NcCallable *self)
{
    PyObject *kept = nc_library_kept((PyObject *)self);
    if (kept == NULL) {
        nc_callable_error(self, PyExc_ValueError,
                          "does not belong to a library that could keep the functions alive");
    }
    return Py_XNewRef(kept);
}

int nc_keep_argument(NcCallable *self, const NcCallInterface *cif, PyObject *const *args,
                     Py_ssize_t index, void **address)
{
    const Py_ssize_t holder = cif->keep - NC_KEEP_ARGUMENT;
    PyObject *kept = cif->keep == NC_KEEP_PROCESS ? Py_XNewRef(made_once(&of_process))
                     : cif->keep == NC_KEEP_LIBRARY
                         ? kept_by_library(self)
                         : kept_with(self, holder, nc_bare(args[holder]));
    if (kept == NULL) {
        return -1;
    }
    int status = nc_keep_in(kept, cif, (PyObject *)self, index, args[index], address);
    Py_DECREF(kept);
    return status;
}
