/* csrc/object/callablecalls.c: the calls of callablecalls.h. */
#include "callablecalls.h"

#include "ground/compat.h"
#include "values/names.h"
#include "values/pointers.h"

/* ---- calls without an ahead-of-time trampoline ----------------------------------------------- */

/* Lets a single call through a generated trampoline, unless it has one. */
static void adopt(NcCallable *self, PyObject *made)
{
    if (self->generated == NULL) {
        self->generated = (NcGenerated *)(void *)Py_NewRef(made);
        /* Meanwhile there may be other entries, or the collector has cleared the callable. */
        if (self->vectorcall == nc_vectorcall_fallback) {
            self->vectorcall = self->generated->code.vectorcall;
        }
    }
}

/* The trampoline that was made for the call spec and the flags, if it is still there: a new
 * reference, or NULL without an exception. */
static PyObject *generated_before(const NcCallable *self)
{
    const NcCallSpec *spec = self->spec;
    return spec->generated != NULL && spec->generated_flags == NC_SINGLE_FLAGS(self)
               ? nc_weakref_get(spec->generated)
               : NULL;
}

/* Remembers it, if there is memory, and no longer than somebody else does. */
static void remember(NcCallSpec *spec, uintptr_t flags, PyObject *made)
{
    PyObject *reference = PyWeakref_NewRef(made, NULL);
    if (reference == NULL) {
        PyErr_Clear();
        return;
    }
    spec->generated_flags = flags;
    Py_XSETREF(spec->generated, reference);
}

int nc_callable_generate(NcCallable *self, PyObject *fixed)
{
    NcCallSpec *spec = self->spec;
    uintptr_t flags = NC_SINGLE_FLAGS(self);
    PyObject *made = fixed == NULL ? generated_before(self) : NULL;
    if (made != NULL) {
        adopt(self, made);
        Py_DECREF(made);
        return 0;
    }
    Py_INCREF(spec);
    made = PyObject_CallFunctionObjArgs(nc_hooks.generate, (PyObject *)self, fixed, NULL);
    if (made != NULL && fixed == NULL && Py_IS_TYPE(made, &NcGenerated_Type)) {
        remember(spec, flags, made);
    }
    Py_DECREF(spec);
    if (made == NULL) {
        return -1;
    }
    if (made != Py_None && !Py_IS_TYPE(made, &NcGenerated_Type)) {
        PyErr_Format(PyExc_TypeError, "generate() must return a Trampoline or None (got %.200s)",
                     Py_TYPE(made)->tp_name);
        Py_DECREF(made);
        return -1;
    }
    if (made != Py_None) {
        adopt(self, made);
    } else if (nc_callable_more(self) != NULL) {
        self->more->decided = 1;
    }
    Py_DECREF(made);
    return made != Py_None || self->more->decided ? 0 : -1;
}

int nc_callable_is_decided(const NcCallable *self)
{
    return self->vectorcall != nc_vectorcall_fallback || self->more->decided;
}

/* Calls a function of Python's with addresses for the objects that a method takes. */
static PyObject *call_with_addresses(const NcCallable *self, PyObject *function,
                                     PyObject *const *args, Py_ssize_t nargs)
{
    PyObject **given = (PyObject **)PyMem_Calloc((size_t)nargs + 1, sizeof *given);
    PyObject *result = NULL;
    int status = 0;
    if (given == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; status == 0 && i < nargs; i++) {
        void *address = nc_self_address(self, i, args[i]);
        given[i] = address != NULL ? (PyObject *)nc_pin_address(address) : Py_NewRef(args[i]);
        status = given[i] != NULL ? 0 : -1;
    }
    if (status == 0) {
        result = PyObject_Vectorcall(function, given, (size_t)nargs, NULL);
    }
    for (Py_ssize_t i = 0; i < nargs; i++) {
        Py_XDECREF(given[i]);
    }
    PyMem_Free(given);
    return result;
}

/* A single without a trampoline for these arguments: they are counted here and converted there. */
static PyObject *call_fallback(NcCallable *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *fallback = Py_XNewRef(self->more->fallback);
    if (fallback == NULL) {
        /* Python code runs meanwhile, in other threads too: the pointer may be replaced, and what
         * is kept must call the new one. */
        void *target = NC_SINGLE_TARGET(self);
        fallback = PyObject_CallOneArg(nc_hooks.make_fallback, (PyObject *)self);
        if (fallback == NULL) {
            return NULL;
        }
        if (NC_SINGLE_TARGET(self) == target) {
            NcMore *more = nc_callable_more(self);
            if (more == NULL) {
                Py_DECREF(fallback);
                return NULL;
            }
            Py_XSETREF(more->fallback, Py_NewRef(fallback));
        }
    }
    /* Conversions for libffi know no classes of objects; what policies are composed of does: it
     * calls callables that come of this one. */
    PyObject *result = self->more->self_class != NULL && !self->spec->composed
                           ? call_with_addresses(self, fallback, args, nargs)
                           : PyObject_Vectorcall(fallback, args, (size_t)nargs, NULL);
    Py_DECREF(fallback);
    return result;
}

PyObject *nc_vectorcall_fallback(PyObject *object, PyObject *const *args, size_t nargsf,
                                 PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (kwnames != NULL || nargs < self->spec->nargs ||
        (nargs > self->spec->nargs && !self->spec->variadic)) {
        return nc_call_irregular(self, args, nargsf, kwnames);
    }
    if (!self->more->decided && nc_callable_generate(self, NULL) < 0) {
        return NULL;
    }
    if (self->vectorcall != nc_vectorcall_fallback) {
        return self->vectorcall(object, args, nargsf, NULL);
    }
    return call_fallback(self, args, nargs);
}

PyObject *nc_method_fallback(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    return nc_vectorcall_fallback(object, args, (size_t)nargs, NULL);
}

PyObject *nc_method_fallback_O(PyObject *object, PyObject *arg)
{
    return nc_vectorcall_fallback(object, &arg, 1, NULL);
}

PyObject *nc_method_fallback_NOARGS(PyObject *object, PyObject *Py_UNUSED(none))
{
    return nc_vectorcall_fallback(object, NULL, 0, NULL);
}

/* What the hook says of the values of a call: its method gets the callable, the values and `names`,
 * unless that is NULL. A new reference, also to None; NULL with an exception. */
static PyObject *ask_hook(NcCallable *self, const char *method, PyObject *const *args,
                          Py_ssize_t count, PyObject *names)
{
    PyObject *specializer = self->more->specializer;
    PyObject *answer = NULL;
    PyObject *values;
    if (specializer == NULL) {
        return Py_NewRef(Py_None);
    }
    Py_INCREF(specializer);
    values = PyTuple_New(count);
    for (Py_ssize_t i = 0; values != NULL && i < count; i++) {
        PyTuple_SET_ITEM(values, i, Py_NewRef(args[i]));
    }
    if (values != NULL) {
        answer = PyObject_CallMethod(specializer, method, names != NULL ? "OOO" : "OO",
                                     (PyObject *)self, values, names);
        Py_DECREF(values);
    }
    Py_DECREF(specializer);
    return answer;
}

NcCallable *nc_callable_for_call(NcCallable *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *made = ask_hook(self, "for_call", args, nargs, NULL);
    if (made == Py_None) {
        Py_CLEAR(made);
    } else if (made != NULL && (!PyObject_TypeCheck(made, (PyTypeObject *)&NcCallable_Type) ||
                                ((NcCallable *)(void *)made)->more->parts != NULL ||
                                ((NcCallable *)(void *)made)->spec == NULL)) {
        PyErr_Format(PyExc_TypeError, "for_call() must return a callable of one entry (got %.200s)",
                     Py_TYPE(made)->tp_name);
        Py_CLEAR(made);
    }
    return (NcCallable *)(void *)made;
}

PyObject *nc_callable_by_position(NcCallable *self, PyObject *const *args, Py_ssize_t nargs,
                                  PyObject *kwnames)
{
    PyObject *values =
        ask_hook(self, "by_position", args, nargs + PyTuple_GET_SIZE(kwnames), kwnames);
    PyObject *result = NULL;
    if (values != NULL && PyTuple_CheckExact(values)) {
        result = self->vectorcall((PyObject *)self, PySequence_Fast_ITEMS(values),
                                  (size_t)PyTuple_GET_SIZE(values), NULL);
    } else if (values != NULL && values != Py_None) {
        PyErr_SetString(PyExc_TypeError, "by_position() must return a tuple or None");
    }
    Py_XDECREF(values);
    return result;
}

PyObject *nc_refuse_empty(NcCallable *self)
{
    return nc_callable_error(self, PyExc_TypeError,
                             self->more->specializer != NULL
                                 ? "has no entries yet; ask for one as in f['d:d']"
                                 : "has no entries; add one first");
}

PyObject *nc_vectorcall_empty(PyObject *object, PyObject *const *args, size_t nargsf,
                              PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    NcCallable *made;
    if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0) {
        PyObject *called = nc_callable_by_position(self, args, nargs, kwnames);
        return called != NULL || PyErr_Occurred() ? called : nc_refuse_empty(self);
    }
    made = nc_callable_for_call(self, args, nargs);
    if (made == NULL) {
        return PyErr_Occurred() ? NULL : nc_refuse_empty(self);
    }
    PyObject *result = made->vectorcall((PyObject *)made, args, (size_t)nargs, NULL);
    Py_DECREF(made);
    return result;
}

/* ---- irregular calls ------------------------------------------------------------------------- */

static PyObject *wrong_count(NcCallable *self, Py_ssize_t given)
{
    Py_ssize_t nargs = self->spec->nargs;
    return nc_callable_error(self, PyExc_TypeError, "takes %s %zd argument%s (%zd given)",
                             self->spec->variadic ? "at least" : "exactly", nargs,
                             nargs == 1 ? "" : "s", given);
}

/* Of a call with keywords: names the first argument that is not given. */
static void missing(NcCallable *self, PyObject *const *ordered, Py_ssize_t given)
{
    PyObject *names = self->spec->names;
    for (Py_ssize_t i = 0; names != NULL && i < self->spec->nargs; i++) {
        PyObject *known = PyTuple_GET_ITEM(names, i);
        if (ordered[i] == NULL && known != Py_None) {
            nc_callable_error(self, PyExc_TypeError, "is missing argument %zd, %R", i + 1, known);
            return;
        }
    }
    wrong_count(self, given);
}

/* Where keyword `name` goes, or -1 with an exception. */
static Py_ssize_t keyword_position(NcCallable *self, PyObject *name)
{
    PyObject *names = self->spec->names;
    for (Py_ssize_t i = 0; names != NULL && i < self->spec->nargs; i++) {
        PyObject *known = PyTuple_GET_ITEM(names, i);
        int equal = known == Py_None ? 0 : PyObject_RichCompareBool(known, name, Py_EQ);
        if (equal < 0) {
            return -1;
        }
        if (equal) {
            return i;
        }
    }
    if (names == NULL) {
        nc_callable_error(self, PyExc_TypeError,
                          "takes no keyword arguments (got '%U'): its signature names none", name);
    } else {
        nc_callable_error(self, PyExc_TypeError, "has no argument named '%U'; it takes %R", name,
                          names);
    }
    return -1;
}

PyObject *nc_call_irregular(NcCallable *self, PyObject *const *args, size_t nargsf,
                            PyObject *kwnames)
{
    const NcCallSpec *spec = self->spec;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    Py_ssize_t keywords = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    PyObject **ordered = NULL;
    PyObject *result = NULL;
    if (keywords == 0) {
        if (given < spec->nargs || (given > spec->nargs && !spec->variadic)) {
            return wrong_count(self, given);
        }
        /* The trampoline of a variadic function takes its fixed arguments only. */
        if (given > spec->nargs && self->generated != NULL &&
            self->vectorcall == self->generated->code.vectorcall) {
            return call_fallback(self, args, given);
        }
        return self->vectorcall((PyObject *)self, args, (size_t)given, NULL);
    }
    ordered = (PyObject **)PyMem_Calloc((size_t)(given + keywords) + (size_t)spec->nargs + 1,
                                        sizeof(PyObject *));
    if (ordered == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < given; i++) {
        ordered[i] = args[i];
    }
    for (Py_ssize_t k = 0; k < keywords; k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        Py_ssize_t position = keyword_position(self, name);
        if (position < 0) {
            goto done;
        }
        if (ordered[position] != NULL) {
            nc_callable_error(self, PyExc_TypeError, "got several values for argument '%U'", name);
            goto done;
        }
        ordered[position] = args[given + k];
    }
    if (given + keywords > spec->nargs && !spec->variadic) {
        wrong_count(self, given + keywords);
        goto done;
    }
    for (Py_ssize_t i = 0; i < spec->nargs; i++) {
        if (ordered[i] == NULL) {
            missing(self, ordered, given + keywords);
            goto done;
        }
    }
    result = self->vectorcall((PyObject *)self, ordered, (size_t)(given + keywords), NULL);

done:
    PyMem_Free(ordered);
    return result;
}
