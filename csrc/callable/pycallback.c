/* csrc/callable/pycallback.c: implements pycallback.h: calls Python functions from C.
 *
 * Threads: without the GIL, several may run one callback at once. Each run is counted
 * (platform/runs.h). The function and the stash stay until the last run after close() or the last
 * reference. Names and kept results are exchanged atomically. */
#include "pycallback.h"

#include "call/kept.h"
#include "values/aggregates.h"
#include "values/record.h"
#include "values/text.h"
#include "platform/lock.h"
#include "platform/stack.h"
#include "platform/waiting.h"

#include <string.h>

/* ---- entering and leaving Python ------------------------------------------------------------- */

static inline void release_gil(const NcPyCallbackCall *call)
{
    int acquired = call->ending & NC_PYCALLBACK_ACQUIRED;
    if (acquired != 0) {
        nc_gil_release(acquired);
    }
}

/* Returns object number i in a result of this callback; borrowed, or NULL. */
static PyObject *object_in(const NcPyCallback *self, Py_ssize_t i, const void *result)
{
    size_t offset = PyLong_AsSize_t(PyTuple_GET_ITEM(self->spec->objects, i));
    PyObject *object;
    memcpy(&object, (const char *)result + offset, sizeof(object));
    return object;
}

/* Adds a reference for C to each Python object in a result of this callback. */
static void reference_objects(const NcPyCallback *self, const void *result)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->spec->objects); i++) {
        Py_XINCREF(object_in(self, i, result));
    }
}

NC_COLD void fail(NcPyCallback *self, NcPyCallbackCall *call, PyObject *value);

/* ---- keeping the callback alive during a call ------------------------------------------------ */

static void clear(NcPyCallback *self)
{
    NC_BEGIN_SECTION(self); /* against the getters */
    Py_CLEAR(self->function);
    Py_CLEAR(self->stash);
    Py_CLEAR(self->kept);
    NC_END_SECTION();
    if (nc_runs_over(&self->runs)) {
        nc_pycallback_free(self);
    }
}

int nc_pycallback_clear(PyObject *object)
{
    NcPyCallback *self = (NcPyCallback *)(void *)object;
    if (nc_runs_end(&self->runs)) {
        clear(self);
    }
    return 0;
}

/* Whether the callback was closed before the call. Then its fields may change during the call. */
static inline int is_closed(const NcPyCallbackCall *call)
{
    return NC_WITHOUT_GIL && call->row == NULL;
}

static inline void hold(NcPyCallback *self, NcPyCallbackCall *call)
{
    call->row = nc_runs_begin(&self->runs, NC_OWNED(self));
    if (call->row == NULL) {
        Py_INCREF(self);
    }
}

static inline void let_go(NcPyCallback *self, const NcPyCallbackCall *call)
{
    if (!NC_WITHOUT_GIL || NC_UNLIKELY(is_closed(call))) {
        Py_DECREF(self);
    } else if (NC_UNLIKELY(nc_runs_leave(&self->runs, call->row))) {
        clear(self);
    }
}

/* Writes the sentinel to the result. Call this first, because later steps may free the callback. */
NC_COLD void return_sentinel(const NcPyCallback *self, void *out)
{
    memcpy(out, PyBytes_AS_STRING(self->spec->sentinel), self->spec->size);
    reference_objects(self, out);
}

/* The slow path of begin(). Returns 1, or 0 with the sentinel as the result. */
static int begin_unusual(NcPyCallback *self, NcPyCallbackCall *call, const PyThreadState *thread,
                         void *out)
{
    if (nc_is_foreign(thread)) {
        nc_exception_refuse_foreign(thread);
        return_sentinel(self, out);
        release_gil(call);
        return 0;
    }
    const int has_exception = nc_thread_has_exception(thread);
    if (has_exception && nc_left_here()) {
        return_sentinel(self, out);
        release_gil(call);
        return 0;
    }
    hold(self, call); /* before 3.12, taking an exception may run Python code that frees `self` */
    if (has_exception) {
        call->before = nc_exception_take();
        call->ending |= NC_PYCALLBACK_RESTORE;
    }
    if (!nc_stack_has_room(thread, call) && !nc_stack_look(thread)) {
        PyErr_Format(PyExc_RecursionError,
                     "callback '%U' is nested too deeply for the C stack of this thread",
                     nc_pycallback_name(self));
        return_sentinel(self, out);
        fail(self, call, NULL);
        return 0;
    }
    return 1;
}

static inline int begin(NcPyCallback *self, NcPyCallbackCall *call, const PyThreadState *thread,
                        void *out)
{
    if (NC_UNLIKELY(nc_thread_has_exception(thread) || nc_is_foreign(thread) ||
                    !nc_stack_has_room(thread, call))) {
        return begin_unusual(self, call, thread, out);
    }
    hold(self, call);
    return 1;
}

/* Enters from a thread that does not hold the GIL. */
NC_NOINLINE int enter_outside(NcPyCallback *self, NcPyCallbackCall *call, PyThreadState *own,
                              void *out)
{
    /* A Python thread that released the GIL takes no slot (waiting.h), because the thread that
     * holds the GIL does not wait for that thread. */
    int slot = own == NULL || nc_thread_is_kept()
                   ? nc_waiting_begin((PyObject *)nc_load_acquire_ptr(&self->names))
                   : -1;
    int acquired = nc_gil_acquire_detached(own);
    nc_waiting_end(slot);
    if (acquired < 0) {
        /* Without the GIL, reference counts must not change. */
        memcpy(out, PyBytes_AS_STRING(self->spec->sentinel), self->spec->size);
        return 0;
    }
    nc_stub_require(call->slot, self); /* this thread waited: the callback may be freed */
    call->ending = acquired;
    return begin(self, call, own != NULL ? own : PyThreadState_Get(), out);
}

static inline int entered(NcPyCallbackCall *call, int runs)
{
    if (NC_UNLIKELY(!runs)) {
        nc_pycallback_errno_give(call);
    }
    return runs;
}

static int enter_any(NcPyCallback *self, NcPyCallbackCall *call, void *out)
{
    nc_pycallback_errno_take(call);
    PyThreadState *own;
    PyThreadState *attached = nc_thread_attached(&own);
    call->ending = 0;
    return entered(call, NC_LIKELY(attached != NULL) ? begin(self, call, attached, out)
                                                     : enter_outside(self, call, own, out));
}

static int enter_holding(NcPyCallback *self, NcPyCallbackCall *call, void *out)
{
    PyThreadState *now = nc_thread_unchecked();
    if (NC_UNLIKELY(now == NULL)) {
        return enter_any(self, call, out);
    }
    nc_pycallback_errno_take(call);
    call->ending = 0;
    return entered(call, begin(self, call, now, out));
}

static inline void leave(NcPyCallback *self, NcPyCallbackCall *call);

/* Returns whether the call to which the function was passed has failed already. */
static int has_failed(const NcPyCallback *self, const NcPyCallbackCall *call)
{
    const NcStash *stash = is_closed(call) ? NULL : self->stash;
    return stash != NULL && !self->spec->frees &&
           (nc_load_relaxed_ptr(&stash->exception) != NULL || nc_stash_call_failed(stash));
}

static int enter_passed(NcPyCallback *self, NcPyCallbackCall *call, void *out)
{
    if (!enter_any(self, call, out)) {
        return 0;
    }
    if (NC_UNLIKELY(has_failed(self, call))) {
        return_sentinel(self, out);
        leave(self, call);
        return 0;
    }
    return 1;
}

void nc_pycallback_set_enter(NcCallbackSpec *spec)
{
    spec->enter = spec->passed ? enter_passed : spec->has_gil ? enter_holding : enter_any;
}

static inline void leave(NcPyCallback *self, NcPyCallbackCall *call)
{
    let_go(self, call);
    if (NC_UNLIKELY(call->ending != 0)) {
        if (call->ending & NC_PYCALLBACK_RESTORE) {
            nc_exception_put(call->before);
        }
        release_gil(call);
    }
    nc_pycallback_errno_give(call);
}

/* ---- exceptions ------------------------------------------------------------------------------ */

/* Sets C's errno from the current exception, or to EIO. If the exception is an OSError with an
 * errno, clears the exception and returns 1, because errno reports the error. */
NC_COLD int tell_by_errno(void)
{
    int is_os_error = PyErr_ExceptionMatches(PyExc_OSError);
    PyObject *error = nc_exception_take();
    PyObject *code = PyObject_GetAttrString(error, "errno");
    long number = code != NULL && PyLong_Check(code) ? PyLong_AsLong(code) : 0;
    int is_told = is_os_error && number > 0 && number <= INT_MAX;
    PyErr_Clear();
    Py_XDECREF(code);
    *nc_errno_of_callback = is_told ? (int)number : EIO;
    if (is_told) {
        Py_DECREF(error);
    } else {
        nc_exception_put(error);
    }
    return is_told;
}

/* Ends a call that raised an exception. Releases the function's result, if any. */
NC_COLD void fail(NcPyCallback *self, NcPyCallbackCall *call, PyObject *value)
{
    int has_before = (call->ending & NC_PYCALLBACK_RESTORE) != 0;
    int held = (call->ending & NC_PYCALLBACK_ACQUIRED) == 0;
    PyObject *left = NULL;
    if (!self->spec->sets_errno || !tell_by_errno()) {
        int may_leave =
            !has_before && (nc_is_called_from_python() || (self->spec->python_errors && held));
        PyObject *function = is_closed(call) ? NULL : self->function;
        PyObject *shown = Py_NewRef(function != NULL ? function : nc_pycallback_name(self));
        left =
            nc_exception_place(is_closed(call) ? NULL : self->stash, may_leave, shown, self->stub);
        Py_DECREF(shown);
    }
    Py_XDECREF(value);
    call->ending |= NC_PYCALLBACK_FAILED;
    let_go(self, call);
    if (left != NULL) {
        nc_exception_leave(left, NULL);
    } else if (has_before) {
        nc_exception_put(call->before);
    }
    release_gil(call);
    nc_pycallback_errno_give(call);
}

/* ---- arguments and results ------------------------------------------------------------------- */

static PyObject *noted(const NcPyCallback *self, size_t index, PyObject *made)
{
    if (made == NULL && PyErr_ExceptionMatches(PyExc_UnicodeError)) {
        nc_conversion_note(nc_pycallback_name(self), (Py_ssize_t)index);
    }
    return made;
}

PyObject *nc_pycallback_argument(NcPyCallback *self, size_t index, void *given)
{
    PyObject *reader = PyTuple_GET_ITEM(self->spec->readers, (Py_ssize_t)index);
    if (PyErr_Occurred()) {
        return NULL; /* an earlier argument failed */
    }
    if (PyUnicode_Check(reader)) {
        return given != NULL ? Py_NewRef((PyObject *)given)
                             : PyErr_Format(PyExc_ValueError,
                                            "argument %zu of '%U' must be an object (got NULL)",
                                            index + 1, nc_pycallback_name(self));
    }
    if (Py_IS_TYPE(reader, &NcCallInterface_Type)) {
        NcCallInterface *cif = (NcCallInterface *)(void *)reader;
        PyObject *ctype = PyTuple_GET_ITEM(cif->types, 0);
        if (cif->arguments[0].code == 'T') {
            PyObject *layout = nc_record_layout(cif, 0);
            return layout != NULL ? nc_record_new(layout, given, 0) : NULL;
        }
        return noted(self, index,
                     nc_given_pointer(cif, cif->text_result, ctype, &cif->pointer_type, given));
    }
    if (given == NULL) {
        Py_RETURN_NONE;
    }
    return PyObject_CallFunction(reader, "N", PyLong_FromVoidPtr(given));
}

/* ---- float reuse ----------------------------------------------------------------------------- */

/* A float with one reference can be reused for another number, as CPython reuses tuples in zip and
 * enumerate. Reuse is faster than freeing the float and allocating another. In free-threaded builds
 * a count of one does not prove that the reference is unique. */
#if defined(Py_GIL_DISABLED)
#define REUSES_FLOATS 0
#else
#define REUSES_FLOATS 1
#endif

#define SPARES 8
static PyObject *spares[SPARES]; /* floats with one reference */
static size_t spare_count;

PyObject *nc_pycallback_float(double number)
{
    if (spare_count == 0) {
        return PyFloat_FromDouble(number);
    }
    PyFloatObject *made = (PyFloatObject *)(void *)spares[--spare_count];
    made->ob_fval = number;
    return (PyObject *)made;
}

/* Drops a reference, or saves a float with one reference for reuse. */
static inline void drop_or_spare(PyObject *object)
{
    if (REUSES_FLOATS && PyFloat_CheckExact(object) && Py_REFCNT(object) == 1 &&
        spare_count < SPARES) {
        spares[spare_count++] = object;
        return;
    }
    Py_DECREF(object);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Calls something other than a Python function, or raises if the callback is closed. */
NC_COLD PyObject *call_unusual(NcPyCallback *self, PyObject *function, PyObject **args,
                               size_t count)
{
    PyObject *value = NULL;
    Py_XINCREF(function);
    if (function == NULL) {
        return PyErr_Format(PyExc_RuntimeError, "callback '%U' is closed",
                            nc_pycallback_name(self));
    }
    /* Native callables may recurse into this function without calling a Python function, which
     * would check the depth. */
    if (Py_EnterRecursiveCall(" in a callback") == 0) {
        value =
            PyObject_Vectorcall(function, args + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        Py_LeaveRecursiveCall();
    }
    Py_DECREF(function);
    return value;
}

/* Calls the function. Returns a new reference, or NULL. */
static inline PyObject *call_function(NcPyCallback *self, const NcPyCallbackCall *call,
                                      PyObject **args, size_t count)
{
    PyObject *function = is_closed(call) ? NULL : self->function;
    for (size_t i = 1; i <= count; i++) {
        if (NC_UNLIKELY(args[i] == NULL)) {
            return NULL; /* with an exception */
        }
    }
    if (NC_UNLIKELY(function == NULL || !Py_IS_TYPE(function, &PyFunction_Type))) {
        return call_unusual(self, function, args, count);
    }
    /* The checks of PyObject_Vectorcall are unnecessary for functions, and the frame of the call
     * keeps the function alive. */
    return ((PyFunctionObject *)(void *)function)
        ->vectorcall(function, args + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

/* Keeps alive the object that a result points into; takes the reference. */
static int keep_result(NcPyCallback *self, PyObject *kept)
{
    int status = 0;
    if (self->spec->passed) {
        /* Memory given to C must live until the end of the call to which the function was passed,
         * so keep all results. Without a stash, the callback is closed, and keeps none. */
        if (self->stash != NULL) {
            PyObject *list = nc_kept(&self->kept);
            list = Py_XNewRef(list != NULL ? list : nc_keep_first(&self->kept, PyList_New(0)));
            status = list != NULL ? PyList_Append(list, kept) : -1;
            Py_XDECREF(list);
        }
    } else {
        kept = __atomic_exchange_n(&self->kept, kept, __ATOMIC_ACQ_REL);
    }
    Py_XDECREF(kept);
    return status;
}

/* Keeps a function that a stored callback returns, because C stores it too. */
static int kept_result(NcPyCallback *self, PyObject *who, PyObject *value, void *out)
{
    void *address;
    PyObject *kept = nc_kept(&self->kept);
    kept = Py_XNewRef(kept != NULL ? kept : nc_keep_first(&self->kept, PyDict_New()));
    if (kept == NULL) {
        return -1;
    }
    int status = nc_keep_in(kept, self->spec->result, who, -1, value, &address);
    Py_DECREF(kept);
    if (status == 0) {
        memcpy(out, &address, sizeof(address));
    }
    return status;
}

static int pointer_result(NcPyCallback *self, PyObject *who, PyObject *value, void *out)
{
    if (self->spec->kept && self->spec->result->keep != NC_KEEP_CALL) {
        if (value == Py_None) { /* earlier results stay alive */
            memset(out, 0, sizeof(void *));
            return 0;
        }
        return kept_result(self, who, value, out);
    }
    PyObject *none = NULL; /* no exceptions: C has not called the function yet */
    NcPin *pin = nc_pin_value(self->spec->result, who, -1, value);
    if (pin == NULL) {
        return -1;
    }
    memcpy(out, &pin->pointer.address, sizeof(void *));
    nc_pointer_close(&pin->pointer, &none); /* no call closes its stash */
    return keep_result(self, (PyObject *)pin);
}

/* Returns a new list of the items of `keep` that are not objects in the result, or NULL. C gets its
 * own references to the objects in the result. In `keep`, these objects have the order of their
 * offsets. */
static PyObject *rest_of(const NcPyCallback *self, PyObject *keep, const void *result)
{
    PyObject *rest = PyList_New(0);
    Py_ssize_t next = 0;
    for (Py_ssize_t i = 0; rest != NULL && i < PyList_GET_SIZE(keep); i++) {
        int has_more = next < PyTuple_GET_SIZE(self->spec->objects);
        if (has_more && PyList_GET_ITEM(keep, i) == object_in(self, next, result)) {
            next++;
        } else if (PyList_Append(rest, PyList_GET_ITEM(keep, i)) < 0) {
            Py_CLEAR(rest);
        }
    }
    return rest;
}

static int struct_result(NcPyCallback *self, PyObject *who, PyObject *value, void *out)
{
    PyObject *keep;
    int status = nc_store_value(self->spec->result, who, -1, value, out, &keep);
    if (status > 0) {
        PyObject *none = NULL;
        PyObject *rest = rest_of(self, keep, out);
        nc_pins_close(keep, &none); /* as pointer_result does for one pin */
        if (rest != NULL && nc_pins_check(nc_pycallback_name(self), rest) < 0) {
            Py_CLEAR(rest);
        }
        status = -1;
        if (rest != NULL) {
            /* A tuple around the list makes it one item, like the pin of a pointer. */
            PyObject *one = PyList_GET_SIZE(rest) != 0 ? PyTuple_Pack(1, rest) : NULL;
            status = one != NULL ? keep_result(self, one) : PyErr_Occurred() ? -1 : 0;
            Py_DECREF(rest);
        }
        if (status == 0) {
            reference_objects(self, out);
        }
    }
    Py_XDECREF(keep);
    return status;
}

/* Returns the prefix of messages about the result, a borrowed str, or NULL. While another thread
 * waits for the GIL, the old names may be read (waiting.h), so the new tuple keeps them alive. */
static PyObject *result_name(NcPyCallback *self)
{
    PyObject *names = nc_kept(&self->names);
    if (!PyTuple_Check(names) || PyTuple_GET_SIZE(names) == 3) {
        PyObject *made =
            !PyTuple_Check(names)
                ? PyUnicode_FromFormat("the result of '%U'", names)
                : PyUnicode_FromFormat("the result of argument %zd of '%U'",
                                       PyLong_AsSsize_t(PyTuple_GET_ITEM(names, 2)) + 1,
                                       PyTuple_GET_ITEM(names, 1));
        PyObject *all =
            made != NULL ? PyTuple_Pack(4, nc_pycallback_name(self), made, names, Py_None) : NULL;
        Py_XDECREF(made);
        if (all == NULL) {
            return NULL;
        }
        if (nc_exchange_ptr(&self->names, names, all)) {
            Py_DECREF(names);
        } else { /* another thread was first */
            Py_DECREF(all);
            all = nc_kept(&self->names);
        }
        names = all;
    }
    return PyTuple_GET_ITEM(names, 1);
}

static int store(NcPyCallback *self, PyObject *value, void *out)
{
    const char letter = self->spec->letter;
    if (letter == 'v') {
        return 0;
    }
    if (letter == 'O') {
        Py_INCREF(value);
        memcpy(out, &value, sizeof(value));
        return 0;
    }
    PyObject *who = result_name(self);
    return who == NULL     ? -1
           : letter == 'P' ? pointer_result(self, who, value, out)
           : letter == 'T' ? struct_result(self, who, value, out)
                           : nc_convert_scalar(who, -1, value, letter, out);
}

/* Fast path for common results; returns whether it applied. */
static inline int store_exact(const NcPyCallback *self, PyObject *value, void *out)
{
    long small;
    if (NC_LIKELY(self->spec->letter == 'd')) {
        if (NC_UNLIKELY(!PyFloat_CheckExact(value))) {
            return 0;
        }
        double number = PyFloat_AS_DOUBLE(value);
        memcpy(out, &number, sizeof(number));
        return 1;
    }
    if (self->spec->letter == 'T') {
        PyObject *layout = nc_kept(&self->spec->result->layouts[0]);
        if (layout == NULL || !nc_record_has(value, layout) || nc_record_leads_on(layout)) {
            return 0;
        }
        memcpy(out, nc_record_memory(value), self->spec->size);
        return 1;
    }
    if ((self->spec->letter != 'i' && self->spec->letter != 'q') ||
        !nc_small_integer(value, &small)) {
        return 0;
    }
    if (self->spec->letter == 'i') {
        int32_t narrow = (int32_t)small; /* a small int has one digit, of 30 or 15 bits */
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
    PyObject *value = call_function(self, call, args, count);
    if (NC_LIKELY(value != NULL) &&
        (store_exact(self, value, out) || store(self, value, out) == 0)) {
        drop_or_spare(value);
        for (size_t i = 1; i <= count; i++) {
            drop_or_spare(args[i]);
        }
        if (NC_UNLIKELY(__atomic_load_n(&nc_threads_with_reports, __ATOMIC_RELAXED) != 0)) {
            (void)nc_report_taken(self->stub);
        }
        leave(self, call);
        return;
    }
    for (size_t i = 1; i <= count; i++) {
        Py_XDECREF(args[i]);
    }
    return_sentinel(self, out);
    fail(self, call, value);
}
