/* csrc/callback/pycallback.c: C calls Python functions; pycallback.h says how. */
#include "pycallback.h"

#include "ground/exceptions.h"
#include "values/records.h"
#include "ground/stack.h"
#include "ground/stub.h"

#include <string.h>
#include <structmember.h>

/* ---- machine code that has to return --------------------------------------------------------- */

/* A set: of callbacks that died in calls of their own. */
static PyObject *staying;

NC_COLD void stay(PyObject *machine_code)
{
    if (machine_code == NULL) {
        return;
    }
    if (staying == NULL) {
        staying = PySet_New(NULL);
    }
    if (staying == NULL || PySet_Add(staying, machine_code) < 0) {
        PyErr_Clear();
        Py_INCREF(machine_code); /* without the set, once for each time */
    }
}

/* Drops the reference that a call holds. No exception is set. */
static inline void drop(NcPyCallback *self)
{
    if (NC_UNLIKELY(Py_REFCNT(self) == 1)) {
        stay(self->machine_code);
    }
    Py_DECREF(self);
}

/* ---- entering and leaving Python ------------------------------------------------------------- */

static inline void give_back(const NcPyCallbackCall *call)
{
    if (call->ending & NC_PYCALLBACK_SAVE_THREAD) {
        (void)PyEval_SaveThread();
    } else if (call->ending & NC_PYCALLBACK_RELEASE) {
        PyGILState_Release(call->gil);
    }
}

/* Gives C a reference of its own to each Python object in a result of this type. */
static void give_objects(const NcPyCallback *self, const void *result)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->spec->objects); i++) {
        size_t offset = PyLong_AsSize_t(PyTuple_GET_ITEM(self->spec->objects, i));
        PyObject *object;
        memcpy(&object, (const char *)result + offset, sizeof(object));
        Py_XINCREF(object);
    }
}

/* The callback whose sentinel was the last that C got in this thread, with objects in it. */
static NC_THREAD_LOCAL const NcPyCallback *lent;

/* Lends the sentinel to C, as a result with references of its own. */
NC_COLD void lend_sentinel(const NcPyCallback *self)
{
    if (PyTuple_GET_SIZE(self->spec->objects) != 0) {
        give_objects(self, self->sentinel);
        lent = self;
    }
}

NC_COLD void fail(NcPyCallback *self, NcPyCallbackCall *call, PyObject *value);

static void too_deep(const NcPyCallback *self)
{
    PyErr_Format(PyExc_RecursionError,
                 "callback '%U' is nested too deeply for the C stack of this thread", self->name);
}

/* Gives C the sentinel. The callback may die in what follows, so this comes first. */
NC_COLD void give_sentinel(const NcPyCallback *self, void *out)
{
    memcpy(out, self->sentinel, self->size);
    lend_sentinel(self);
}

/* The beginning of a call that is not as usual: 1, or 0 with the sentinel as the result. */
static int begin_slowly(NcPyCallback *self, NcPyCallbackCall *call, const PyThreadState *thread,
                        void *out)
{
    if (PyThreadState_GetInterpreter((PyThreadState *)(uintptr_t)thread) !=
        PyInterpreterState_Main()) {
        if (!nc_thread_has_exception(thread)) {
            PyErr_SetString(PyExc_RuntimeError, "a Python function was called by C code in another "
                                                "interpreter than its own");
        }
        give_sentinel(self, out);
        give_back(call);
        return 0;
    }
    if (nc_thread_has_exception(thread)) {
        if (nc_left_here()) {
            give_sentinel(self, out);
            give_back(call);
            return 0;
        }
        nc_raised_take(&call->before);
        call->ending |= NC_PYCALLBACK_RESTORE;
    }
    Py_INCREF(self);
    if (!nc_stack_has_room(thread, call) && !nc_stack_look(thread)) {
        too_deep(self);
        give_sentinel(self, out);
        fail(self, call, NULL);
        return 0;
    }
    return 1;
}

static PyInterpreterState *main_interpreter;

static inline int begin(NcPyCallback *self, NcPyCallbackCall *call, const PyThreadState *thread,
                        void *out)
{
    if (NC_UNLIKELY(nc_thread_has_exception(thread) || thread->interp != main_interpreter ||
                    !nc_stack_has_room(thread, call))) {
        return begin_slowly(self, call, thread, out);
    }
    Py_INCREF(self);
    return 1;
}

/* A thread without the GIL takes it. */
static int enter_outside(NcPyCallback *self, NcPyCallbackCall *call, PyThreadState *own, void *out)
{
    if (nc_is_finalizing()) {
        /* Waiting for the GIL would never end, or end the thread. Without it no object is lent. */
        memcpy(out, self->sentinel, self->size);
        return 0;
    }
    if (own != NULL) {
        /* As PyGILState_Ensure, but for the count of such calls, which ends at 0 only with the
         * outermost of those that made the thread state. */
        PyEval_RestoreThread(own);
        call->ending = NC_PYCALLBACK_SAVE_THREAD;
    } else {
        call->gil = PyGILState_Ensure();
        call->ending = NC_PYCALLBACK_RELEASE;
        own = PyThreadState_Get();
    }
    return begin(self, call, own, out);
}

/* C code of any thread, with or without the GIL. */
static int enter_any(NcPyCallback *self, NcPyCallbackCall *call, void *out)
{
    PyThreadState *attached = nc_thread_attached();
    call->ending = 0;
    if (NC_LIKELY(attached != NULL)) {
        return begin(self, call, attached, out);
    }
    return enter_outside(self, call, PyGILState_GetThisThreadState(), out);
}

/* C code that was said to have the GIL. */
static int enter_holding(NcPyCallback *self, NcPyCallbackCall *call, void *out)
{
    PyThreadState *now = nc_thread_unchecked();
    if (NC_UNLIKELY(now == NULL)) {
        return enter_any(self, call, out);
    }
    call->ending = 0;
    return begin(self, call, now, out);
}

static inline void leave(NcPyCallback *self, NcPyCallbackCall *call);

/* Whether the call that the function was passed to fails already, with what it raised in a thread
 * where no Python code waits. */
static int has_failed(const NcPyCallback *self)
{
    return self->stash != NULL && ((NcStash *)(void *)self->stash)->exception != NULL;
}

/* C code that a function was passed to. */
static int enter_passed(NcPyCallback *self, NcPyCallbackCall *call, void *out)
{
    if (!enter_any(self, call, out)) {
        return 0;
    }
    if (NC_UNLIKELY(has_failed(self))) {
        give_sentinel(self, out);
        leave(self, call);
        return 0;
    }
    return 1;
}

static inline void leave(NcPyCallback *self, NcPyCallbackCall *call)
{
    drop(self);
    if (NC_UNLIKELY(call->ending != 0)) {
        if (call->ending & NC_PYCALLBACK_RESTORE) {
            nc_raised_restore(&call->before);
        }
        give_back(call);
    }
}

/* ---- exceptions ------------------------------------------------------------------------------ */

/* What a report names. */
static PyObject *reported_as(const NcPyCallback *self)
{
    return self->function != NULL ? self->function : self->name;
}

/* Finds the place for the exception that is set; a new reference to what is to be left in the
 * thread, or NULL. `holding`: C called with the GIL. */
static PyObject *place_exception(NcPyCallback *self, int has_before, int holding)
{
    int may_leave = !has_before && (nc_is_called_from_python() || (self->python_errors && holding));
    return nc_exception_place((NcStash *)(void *)self->stash, may_leave, reported_as(self),
                              self->stub);
}

/* Ends a call with an exception set; drops the function's result if there is one. */
NC_COLD void fail(NcPyCallback *self, NcPyCallbackCall *call, PyObject *value)
{
    int has_before = (call->ending & NC_PYCALLBACK_RESTORE) != 0;
    int held = (call->ending & (NC_PYCALLBACK_SAVE_THREAD | NC_PYCALLBACK_RELEASE)) == 0;
    PyObject *left = place_exception(self, has_before, held);
    Py_XDECREF(value);
    drop(self);
    if (left != NULL) {
        nc_exception_leave(left, NULL);
    } else if (has_before) {
        nc_raised_restore(&call->before);
    }
    give_back(call);
}

/* ---- arguments and results ------------------------------------------------------------------- */

static PyObject *object_argument(const NcPyCallback *self, size_t index, PyObject *given)
{
    if (given == NULL) {
        PyErr_Format(PyExc_ValueError, "argument %zu of '%U' is NULL, which is no object",
                     index + 1, self->name);
        return NULL;
    }
    return Py_NewRef(given);
}

PyObject *nc_pycallback_argument(NcPyCallback *self, size_t index, void *given)
{
    PyObject *reader = PyTuple_GET_ITEM(self->spec->readers, (Py_ssize_t)index);
    PyObject *number;
    PyObject *made;
    if (PyErr_Occurred()) {
        return NULL; /* of an argument before this one */
    }
    if (PyUnicode_Check(reader)) {
        return object_argument(self, index, (PyObject *)given);
    }
    if (Py_IS_TYPE(reader, &NcPointerReader_Type)) {
        return nc_pointer_read(reader, given);
    }
    if (Py_IS_TYPE(reader, &NcRecord_Type)) {
        return nc_record_read(reader, (const char *)given);
    }
    if (given == NULL) {
        Py_RETURN_NONE;
    }
    number = PyLong_FromVoidPtr(given);
    if (number == NULL) {
        return NULL;
    }
    made = PyObject_CallOneArg(reader, number);
    Py_DECREF(number);
    return made;
}

/* ---- floats used again ----------------------------------------------------------------------- */

/* A float that nobody else holds can be made to hold another number, as CPython itself makes tuples
 * hold other objects (zip, enumerate), and that is faster than to free it and to make a new one.
 * Free-threaded builds could not tell from a count that nobody else holds it. */
#if defined(Py_GIL_DISABLED)
#define REUSES_FLOATS 0
#else
#define REUSES_FLOATS 1
#endif

PyObject *nc_pycallback_float(NcPyCallback *self, double number)
{
    PyFloatObject *made;
    if (self->spare_count == 0) {
        return PyFloat_FromDouble(number);
    }
    made = (PyFloatObject *)(void *)self->spares[--self->spare_count];
    made->ob_fval = number;
    return (PyObject *)made;
}

/* Drops a reference. */
static inline void give_up(NcPyCallback *self, PyObject *object)
{
    if (REUSES_FLOATS && PyFloat_CheckExact(object) && Py_REFCNT(object) == 1 &&
        self->spare_count < NC_PYCALLBACK_SPARES) {
        self->spares[self->spare_count++] = object;
        return;
    }
    Py_DECREF(object);
}

static void drop_spares(NcPyCallback *self)
{
    while (self->spare_count > 0) {
        PyObject *spare = self->spares[--self->spare_count];
        Py_DECREF(spare);
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

/* What is called is no function of Python's, or there is nothing to call. */
NC_COLD PyObject *call_unusual(NcPyCallback *self, PyObject **args, size_t count)
{
    PyObject *function = Py_XNewRef(self->function);
    PyObject *value = NULL;
    if (function == NULL) {
        PyErr_Format(PyExc_RuntimeError, "callback '%U' is closed", self->name);
        return NULL;
    }
    /* Native callables may lead back here without any function of Python's, which would look. */
    if (Py_EnterRecursiveCall(" in a callback") == 0) {
        value =
            PyObject_Vectorcall(function, args + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        Py_LeaveRecursiveCall();
    }
    Py_DECREF(function);
    return value;
}

/* Calls the function; a new reference, or NULL. */
static inline PyObject *call_function(NcPyCallback *self, PyObject **args, size_t count)
{
    PyObject *function = self->function;
    for (size_t i = 1; i <= count; i++) {
        if (NC_UNLIKELY(args[i] == NULL)) {
            return NULL; /* with an exception */
        }
    }
    if (NC_UNLIKELY(function == NULL || !Py_IS_TYPE(function, &PyFunction_Type))) {
        return call_unusual(self, args, count);
    }
    /* What PyObject_Vectorcall looks at besides is known of functions, and the frame of the call
     * holds its function. */
    return ((PyFunctionObject *)(void *)function)
        ->vectorcall(function, args + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

/* Keeps what a result points into; takes the reference. */
static int keep_result(NcPyCallback *self, PyObject *kept)
{
    int status = 0;
    if (self->kept != NULL && PyList_CheckExact(self->kept)) {
        status = PyList_Append(self->kept, kept);
        Py_DECREF(kept);
    } else {
        Py_XSETREF(self->kept, kept);
    }
    return status;
}

static int pointer_result(NcPyCallback *self, PyObject *value, void *out)
{
    NcPin *pin = nc_pin_value(self->spec->result, self->who, value);
    if (pin == NULL) {
        return -1;
    }
    memcpy(out, &pin->pointer.address, sizeof(void *));
    nc_pointer_end(&pin->pointer);
    return keep_result(self, (PyObject *)pin);
}

/* What of `keep` C has no references to: the objects in a result come in the order of their
 * offsets. A new list, or NULL. */
static PyObject *rest_of(const NcPyCallback *self, PyObject *keep, const void *result)
{
    PyObject *rest = PyList_New(0);
    Py_ssize_t next = 0;
    for (Py_ssize_t i = 0; rest != NULL && i < PyList_GET_SIZE(keep); i++) {
        PyObject *given = NULL;
        if (next < PyTuple_GET_SIZE(self->spec->objects)) {
            size_t offset = PyLong_AsSize_t(PyTuple_GET_ITEM(self->spec->objects, next));
            memcpy(&given, (const char *)result + offset, sizeof(given));
        }
        if (PyList_GET_ITEM(keep, i) == given) {
            next++;
        } else if (PyList_Append(rest, PyList_GET_ITEM(keep, i)) < 0) {
            Py_CLEAR(rest);
        }
    }
    return rest;
}

static int struct_result(NcPyCallback *self, PyObject *value, void *out)
{
    PyObject *address;
    PyObject *keep;
    PyObject *done = NULL;
    int status = -1;
    memset(out, 0, self->spec->result->arguments[0].size);
    if (self->spec->record != NULL &&
        nc_record_write(self->spec->record, self->who, value, (char *)out)) {
        return 0;
    }
    memset(out, 0, self->spec->result->arguments[0].size);
    address = PyLong_FromVoidPtr(out);
    keep = PyList_New(0);
    if (address != NULL && keep != NULL) {
        done =
            PyObject_CallFunctionObjArgs(self->spec->writer, value, address, self->who, keep, NULL);
    }
    if (done != NULL) {
        PyObject *none = NULL;
        PyObject *rest = rest_of(self, keep, out);
        nc_pins_close(keep, &none); /* as nc_stash_end does for one */
        if (rest != NULL && nc_pins_check(self->name, rest) < 0) {
            Py_CLEAR(rest);
        }
        if (rest != NULL) {
            /* In a tuple, so that it is one result of many. */
            PyObject *one = PyList_GET_SIZE(rest) != 0 ? PyTuple_Pack(1, rest) : NULL;
            status = one != NULL ? keep_result(self, one) : PyErr_Occurred() ? -1 : 0;
            Py_DECREF(rest);
        }
        if (status == 0) {
            give_objects(self, out);
        }
        Py_DECREF(done);
    }
    Py_XDECREF(address);
    Py_XDECREF(keep);
    return status;
}

/* Writes what the function returned as the C result, whatever it is. 0, or -1. */
static int store_result(NcPyCallback *self, PyObject *value, void *out)
{
    switch (self->code) {
    case 'v':
        return 0;
    case 'O':
        Py_INCREF(value);
        memcpy(out, &value, sizeof(value));
        return 0;
    case 'P':
        return pointer_result(self, value, out);
    case 'T':
        return struct_result(self, value, out);
    default:
        return nc_convert_scalar(self->who, -1, value, self->code, out);
    }
}

/* The usual results without a call. Whether it was one. */
static inline int store_exact(const NcPyCallback *self, PyObject *value, void *out)
{
    long small;
    if (NC_LIKELY(self->code == 'd')) {
        double number;
        if (NC_UNLIKELY(!PyFloat_CheckExact(value))) {
            return 0;
        }
        number = PyFloat_AS_DOUBLE(value);
        memcpy(out, &number, sizeof(number));
        return 1;
    }
    if ((self->code != 'i' && self->code != 'q') || !nc_small_integer(value, &small)) {
        return 0;
    }
    if (self->code == 'i') {
        int32_t narrow = (int32_t)small; /* a digit has 30 bits, or 15 */
        memcpy(out, &narrow, sizeof(narrow));
    } else {
        int64_t wide = small;
        memcpy(out, &wide, sizeof(wide));
    }
    return 1;
}

void nc_pycallback_run(NcPyCallback *self, NcPyCallbackCall *call, PyObject **args, size_t count,
                       void *out)
{
    PyObject *value = call_function(self, args, count);
    if (NC_LIKELY(value != NULL) &&
        (store_exact(self, value, out) || store_result(self, value, out) == 0)) {
        give_up(self, value);
        for (size_t i = 1; i <= count; i++) {
            give_up(self, args[i]);
        }
        if (NC_UNLIKELY(nc_threads_with_reports != 0)) {
            (void)nc_report_taken(self->stub);
        }
        leave(self, call);
        return;
    }
    for (size_t i = 1; i <= count; i++) {
        Py_XDECREF(args[i]);
    }
    give_sentinel(self, out);
    fail(self, call, value);
}

/* ---- called by ctypes ------------------------------------------------------------------------ */

/* A number of a class that holds a reraiser; NULL without an exception where memory is short. No
 * Python code runs, which could fail: C would be left without a result. */
static PyObject *make_holder(PyObject *type, PyObject *value, PyObject *reraiser)
{
    PyObject *args;
    PyObject *made;
    if (type == NULL) {
        return Py_NewRef(reraiser);
    }
    args = PyTuple_Pack(1, value);
    made = args != NULL
               ? ((PyTypeObject *)(void *)type)->tp_new((PyTypeObject *)(void *)type, args, NULL)
               : NULL;
    Py_XDECREF(args);
    if (made == NULL || PyObject_SetAttrString(made, "reraiser", reraiser) < 0) {
        PyErr_Clear();
        Py_CLEAR(made);
    }
    return made;
}

/* What to give to ctypes: `value`, or the sentinel where it is NULL, so that in the end the
 * exception `left` is left, or what was before is restored. Where there is no reraiser, that is
 * deferred. Takes the references. */
static PyObject *return_to_ctypes(NcPyCallback *self, PyObject *value, PyObject *left,
                                  NcPyCallbackCall *call)
{
    NcRaised before;
    PyObject *reraiser;
    PyObject *made = NULL;
    memset(&before, 0, sizeof(before));
    if ((call->ending & NC_PYCALLBACK_RESTORE) != 0) {
        before = call->before;
    }
    if (value == NULL) {
        value = Py_NewRef(self->lowered);
        lend_sentinel(self);
    }
    if (left == NULL && !nc_raised_is_set(&before)) {
        return value;
    }
    reraiser = nc_reraiser_new();
    if (reraiser != NULL) {
        made = make_holder(self->spec->holder, value, reraiser);
    }
    if (made != NULL) {
        nc_reraiser_arm(reraiser, left, &before);
        Py_DECREF(value);
    } else {
        PyErr_Clear();
        made = value;
        if (left == NULL) {
            nc_raised_restore(&before);
            left = nc_exception_take();
        }
        nc_exception_defer(left, reported_as(self));
    }
    Py_XDECREF(reraiser);
    return made;
}

/* What the function gets for an argument as ctypes hands it over: a number, a pointer as an int or
 * None, or a box. A new reference, or NULL. */
static PyObject *argument_of_ctypes(const NcPyCallback *self, size_t index, PyObject *given)
{
    PyObject *reader = PyTuple_GET_ITEM(self->spec->readers, (Py_ssize_t)index);
    if (PyUnicode_Check(reader)) {
        return object_argument(self, index,
                               given != Py_None ? (PyObject *)PyLong_AsVoidPtr(given) : NULL);
    }
    return PyCallable_Check(reader) ? PyObject_CallOneArg(reader, given) : Py_NewRef(given);
}

static PyObject *pycallback_vectorcall(PyObject *object, PyObject *const *args, size_t nargsf,
                                       PyObject *kwnames)
{
    NcPyCallback *self = (NcPyCallback *)(void *)object;
    size_t count = (size_t)PyVectorcall_NARGS(nargsf);
    PyThreadState *thread = PyThreadState_Get();
    NcPyCallbackCall call = {0, PyGILState_LOCKED, {NULL}};
    PyObject **given;
    PyObject *value = NULL;
    PyObject *left = NULL;
    PyObject *result;
    if (self->lowered == NULL || kwnames != NULL ||
        (Py_ssize_t)count != PyTuple_GET_SIZE(self->spec->readers)) {
        PyErr_SetString(PyExc_TypeError, "only ctypes calls this");
        return NULL;
    }
    if ((nc_thread_has_exception(thread) || nc_is_left()) && nc_left_here()) {
        return return_to_ctypes(self, NULL, nc_exception_take(), &call);
    }
    if (nc_thread_has_exception(thread)) {
        nc_raised_take(&call.before);
        call.ending = NC_PYCALLBACK_RESTORE;
    }
    if (has_failed(self)) {
        return return_to_ctypes(self, NULL, NULL, &call);
    }
    Py_INCREF(self);
    self->running++;
    given = (PyObject **)PyMem_Calloc(count + 1, sizeof(PyObject *));
    if (given == NULL) {
        (void)PyErr_NoMemory();
    } else if (!nc_stack_has_room(thread, &call) && !nc_stack_look(thread)) {
        too_deep(self);
    } else {
        for (size_t i = 0; i < count; i++) {
            given[1 + i] = PyErr_Occurred() ? NULL : argument_of_ctypes(self, i, args[i]);
        }
        value = call_function(self, given, count);
        for (size_t i = 1; i <= count; i++) {
            Py_XDECREF(given[i]);
        }
    }
    PyMem_Free(given);
    result = value == NULL ? NULL
                           : PyObject_CallFunctionObjArgs(self->spec->writer, object, value, NULL);
    if (result == NULL) {
        left = place_exception(self, call.ending != 0, self->enter == enter_holding);
    }
    Py_XDECREF(value);
    result = return_to_ctypes(self, result, left, &call);
    self->running--;
    Py_DECREF(self);
    return result;
}

/* ---- the object ------------------------------------------------------------------------------ */

/* CallbackSpec(readers, objects, code, result, record, writer[, lower, holder]); None is what is
 * not there. With `lower` it is for ctypes. */
static PyObject *callbackspec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"readers", "objects", "code",   "result", "record",
                            "writer",  "lower",   "holder", NULL};
    NcCallbackSpec *self;
    PyObject *readers;
    PyObject *objects;
    PyObject *result;
    PyObject *record;
    PyObject *writer;
    PyObject *lower = Py_None;
    PyObject *holder = Py_None;
    int code;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!COOO|OO", names, &PyTuple_Type, &readers,
                                     &PyTuple_Type, &objects, &code, &result, &record, &writer,
                                     &lower, &holder)) {
        return NULL;
    }
    if ((result != Py_None && !Py_IS_TYPE(result, &NcCallSpec_Type)) ||
        (record != Py_None && !Py_IS_TYPE(record, &NcRecord_Type)) ||
        (holder != Py_None && !PyType_Check(holder))) {
        PyErr_SetString(PyExc_TypeError,
                        "CallbackSpec() takes a call spec, a Record and a class, or None");
        return NULL;
    }
    if (((code == 'P' || code == 'T') && result == Py_None) ||
        ((code == 'T' || lower != Py_None) && writer == Py_None)) {
        PyErr_SetString(PyExc_TypeError, "CallbackSpec() of such a result takes a call spec and a "
                                         "writer");
        return NULL;
    }
    self = (NcCallbackSpec *)(void *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->readers = Py_NewRef(readers);
    self->objects = Py_NewRef(objects);
    self->result = result != Py_None ? (NcCallSpec *)(void *)Py_NewRef(result) : NULL;
    self->record = record != Py_None ? Py_NewRef(record) : NULL;
    self->writer = writer != Py_None ? Py_NewRef(writer) : NULL;
    self->lower = lower != Py_None ? Py_NewRef(lower) : NULL;
    self->holder = holder != Py_None ? Py_NewRef(holder) : NULL;
    self->code = (char)code;
    return (PyObject *)self;
}

static int callbackspec_traverse(PyObject *object, visitproc visit, void *arg)
{
    NcCallbackSpec *self = (NcCallbackSpec *)(void *)object;
    Py_VISIT(self->readers);
    Py_VISIT(self->writer);
    Py_VISIT(self->lower);
    Py_VISIT(self->holder);
    return 0;
}

static void callbackspec_dealloc(PyObject *object)
{
    NcCallbackSpec *self = (NcCallbackSpec *)(void *)object;
    PyObject_GC_UnTrack(object);
    Py_XDECREF(self->readers);
    Py_XDECREF(self->objects);
    Py_XDECREF(self->result);
    Py_XDECREF(self->record);
    Py_XDECREF(self->writer);
    Py_XDECREF(self->lower);
    Py_XDECREF(self->holder);
    Py_TYPE(object)->tp_free(object);
}

static PyMemberDef callbackspec_members[] = {
    {"readers", T_OBJECT_EX, offsetof(NcCallbackSpec, readers), READONLY, "of the arguments"},
    {NULL, 0, 0, 0, NULL},
};

/* No tp_clear: what is referred to is immutable in its turn, but for closures of Python's, whose
 * cells the collector clears. */
PyTypeObject NcCallbackSpec_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.CallbackSpec",
    .tp_doc = "What all callbacks of a signature share.",
    .tp_basicsize = sizeof(NcCallbackSpec),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = callbackspec_new,
    .tp_traverse = callbackspec_traverse,
    .tp_members = callbackspec_members,
    .tp_dealloc = callbackspec_dealloc,
};

/* Whether a sentinel of `size` bytes is a result, and its objects lie in it; else -1 with
 * ValueError. */
static int check_sentinel(const NcCallbackSpec *spec, Py_ssize_t size)
{
    PyObject *objects = spec->objects;
    size_t wanted = spec->code == 'v'                        ? (size_t)size
                    : spec->code == 'T'                      ? spec->result->arguments[0].size
                    : spec->code == 'O' || spec->code == 'P' ? sizeof(void *)
                                                             : nc_scalar_size(spec->code);
    if ((size_t)size != wanted) {
        PyErr_Format(PyExc_ValueError, "the sentinel has %zd bytes, the result %zu", size, wanted);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objects); i++) {
        size_t offset = PyLong_AsSize_t(PyTuple_GET_ITEM(objects, i));
        if (PyErr_Occurred()) {
            return -1;
        }
        if (offset + sizeof(PyObject *) > (size_t)size) {
            PyErr_SetString(PyExc_ValueError, "an object lies outside of the result");
            return -1;
        }
    }
    return 0;
}

/* PyCallback(spec, code, function, name, who, sentinel, *, stash, keep, has_gil, python_errors).
 * `code` is (address, owner) of what a stub is to lead to; None with ctypes. */
static PyObject *pycallback_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"spec",  "code", "function", "name",          "who", "sentinel",
                            "stash", "keep", "has_gil",  "python_errors", NULL};
    NcPyCallback *self;
    NcCallbackSpec *spec;
    PyObject *code;
    PyObject *function;
    PyObject *name;
    PyObject *who;
    PyObject *stash = Py_None;
    PyObject *keep = Py_None;
    const char *sentinel;
    Py_ssize_t size;
    int has_gil = 0;
    int python_errors = 0;
    void *machine_code = NULL;
    PyObject *owner = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOUUy#|$OOpp", names, &NcCallbackSpec_Type,
                                     &spec, &code, &function, &name, &who, &sentinel, &size, &stash,
                                     &keep, &has_gil, &python_errors)) {
        return NULL;
    }
    if ((code == Py_None) != (spec->lower != NULL) ||
        (stash != Py_None && !Py_IS_TYPE(stash, &NcStash_Type))) {
        PyErr_SetString(PyExc_TypeError,
                        "PyCallback() takes code, or a spec for ctypes, and a Stash or None");
        return NULL;
    }
    if (code != Py_None) {
        if (!PyTuple_Check(code) || PyTuple_GET_SIZE(code) != 2) {
            PyErr_SetString(PyExc_TypeError, "the code of a PyCallback() is (address, owner)");
            return NULL;
        }
        machine_code = PyLong_AsVoidPtr(PyTuple_GET_ITEM(code, 0));
        owner = PyTuple_GET_ITEM(code, 1);
        if (machine_code == NULL) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "there is no code at address 0");
            }
            return NULL;
        }
    }
    if (check_sentinel(spec, size) < 0) {
        return NULL;
    }
    self = (NcPyCallback *)(void *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = pycallback_vectorcall;
    self->symbols = nc_symbols;
    self->enter = has_gil ? enter_holding : enter_any;
    self->spec = (NcCallbackSpec *)(void *)Py_NewRef(spec);
    self->function = Py_NewRef(function);
    self->name = Py_NewRef(name);
    self->who = Py_NewRef(who);
    self->machine_code = Py_XNewRef(owner);
    self->keep = keep != Py_None ? Py_NewRef(keep) : NULL;
    self->code = spec->code;
    self->python_errors = python_errors;
    if (spec->lower != NULL) {
        self->lowered = PyObject_CallFunction(spec->lower, "y#", sentinel, size);
        if (self->lowered == NULL) {
            goto fail;
        }
    }
    self->sentinel = PyMem_Calloc(1, (size_t)size + 1);
    if (self->sentinel == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    memcpy(self->sentinel, sentinel, (size_t)size);
    self->size = (size_t)size;
    if (stash != Py_None) {
        /* What C code was given must last as long as the call that the function was passed to. */
        self->stash = Py_NewRef(stash);
        self->enter = enter_passed;
        self->kept = PyList_New(0);
        if (self->kept == NULL) {
            goto fail;
        }
    }
    if (machine_code != NULL) {
        self->stub = nc_stub_new(machine_code, self);
        if (self->stub == NULL) {
            goto fail;
        }
    }
    return (PyObject *)self;

fail:
    Py_DECREF(self);
    return NULL;
}

static int pycallback_traverse(PyObject *object, visitproc visit, void *arg)
{
    NcPyCallback *self = (NcPyCallback *)(void *)object;
    Py_VISIT(self->spec);
    Py_VISIT(self->function);
    Py_VISIT(self->stash);
    Py_VISIT(self->kept);
    Py_VISIT(self->keep);
    return 0;
}

/* Cleared is closed. */
static int pycallback_clear(PyObject *object)
{
    NcPyCallback *self = (NcPyCallback *)(void *)object;
    Py_CLEAR(self->function);
    Py_CLEAR(self->stash);
    Py_CLEAR(self->kept);
    return 0;
}

static void pycallback_dealloc(PyObject *object)
{
    NcPyCallback *self = (NcPyCallback *)(void *)object;
    PyObject_GC_UnTrack(object);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs(object);
    }
    (void)pycallback_clear(object);
    drop_spares(self);
    if (self->stub != NULL && nc_is_finalizing()) {
        /* Threads of C code may call until the process ends; they get the sentinel. */
        return;
    }
    nc_stub_free(self->stub);
    Py_CLEAR(self->spec);
    Py_CLEAR(self->lowered);
    Py_CLEAR(self->name);
    Py_CLEAR(self->who);
    Py_CLEAR(self->keep);
    Py_CLEAR(self->machine_code);
    PyMem_Free(self->sentinel);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *pycallback_close(PyObject *object, PyObject *Py_UNUSED(none))
{
    NcPyCallback *self = (NcPyCallback *)(void *)object;
    Py_CLEAR(self->function);
    Py_CLEAR(self->kept);
    Py_RETURN_NONE;
}

/* store(value, address): what a result is for C. */
static PyObject *pycallback_store(PyObject *object, PyObject *args)
{
    PyObject *value;
    PyObject *address;
    void *out;
    if (!PyArg_ParseTuple(args, "OO!", &value, &PyLong_Type, &address)) {
        return NULL;
    }
    out = PyLong_AsVoidPtr(address);
    if (out == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "cannot store at address 0");
        }
        return NULL;
    }
    if (store_result((NcPyCallback *)(void *)object, value, out) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* take_back(): drops the references of the sentinel that was lent to C, where that was the last
 * thing that happened in this thread and C's result is lost; ctypes gives none with an
 * exception. */
static PyObject *pycallback_take_back(PyObject *object, PyObject *Py_UNUSED(none))
{
    const NcPyCallback *self = (const NcPyCallback *)(void *)object;
    if (lent == self) {
        lent = NULL;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->spec->objects); i++) {
            size_t offset = PyLong_AsSize_t(PyTuple_GET_ITEM(self->spec->objects, i));
            PyObject *given;
            memcpy(&given, (const char *)self->sentinel + offset, sizeof(given));
            Py_XDECREF(given);
        }
    }
    Py_RETURN_NONE;
}

/* forget_lent(): of calls before this one. */
static PyObject *pycallback_forget_lent(PyObject *Py_UNUSED(object), PyObject *Py_UNUSED(none))
{
    lent = NULL;
    Py_RETURN_NONE;
}

static PyObject *pycallback_get_address(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromVoidPtr(((NcPyCallback *)(void *)object)->stub);
}

static PyMethodDef pycallback_methods[] = {
    {"store", pycallback_store, METH_VARARGS, "store(value, address): as a result"},
    {"close", pycallback_close, METH_NOARGS, "drops the function; calls fail from now on"},
    {"take_back", pycallback_take_back, METH_NOARGS, "drops what the lost sentinel refers to"},
    {"forget_lent", pycallback_forget_lent, METH_NOARGS, "before a call that may take_back"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef pycallback_members[] = {
    {"function", T_OBJECT, offsetof(NcPyCallback, function), READONLY, "None once closed"},
    {"kept", T_OBJECT, offsetof(NcPyCallback, kept), READONLY, "what results point into"},
    {"machine_code", T_OBJECT, offsetof(NcPyCallback, machine_code), READONLY,
     "keeps it in memory"},
    {"running", T_PYSSIZET, offsetof(NcPyCallback, running), READONLY,
     "with ctypes: calls that run"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef pycallback_getset[] = {
    {"address", pycallback_get_address, NULL, "the C function pointer; 0 with ctypes", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject NcPyCallback_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.PyCallback",
    .tp_doc = "A Python function that C code calls.",
    .tp_basicsize = sizeof(NcPyCallback),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(NcPyCallback, vectorcall),
    .tp_weaklistoffset = offsetof(NcPyCallback, weakrefs),
    .tp_call = PyVectorcall_Call,
    .tp_new = pycallback_new,
    .tp_traverse = pycallback_traverse,
    .tp_clear = pycallback_clear,
    .tp_dealloc = pycallback_dealloc,
    .tp_methods = pycallback_methods,
    .tp_members = pycallback_members,
    .tp_getset = pycallback_getset,
};

int nc_pycallback_ready(PyObject *module)
{
    main_interpreter = PyInterpreterState_Main();
    return PyType_Ready(&NcCallbackSpec_Type) < 0 || PyType_Ready(&NcPyCallback_Type) < 0 ||
                   PyModule_AddObjectRef(module, "CallbackSpec", (PyObject *)&NcCallbackSpec_Type) <
                       0
               ? -1
               : PyModule_AddObjectRef(module, "PyCallback", (PyObject *)&NcPyCallback_Type);
}
