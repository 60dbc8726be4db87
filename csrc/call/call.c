/* csrc/call/call.c: executes call plans (plan.h): converts Python arguments, calls the C function
 * and converts its result.
 *
 * A call has three parts. `take` converts one argument, as one step of the plan describes. `call`
 * converts all arguments in order, and calls the function. `give` converts the result. Every path
 * releases the exported buffers and the objects that keep pointers valid. Only `call_flagged`
 * handles flags, so entries without flags do not pay for them. */
#include "call.h"

#include "calls.h"
#include "failure.h"
#include "kept.h"
#include "plan.h"

#include "platform/compat.h"
#include "platform/lists.h"
#include "platform/stack.h"
#include "values/aggregates.h"
#include "values/destructor.h"
#include "values/fortran.h"
#include "values/names.h"
#include "values/outparameters.h"
#include "values/pointers.h"
#include "values/record.h"

#include <errno.h>
#include <string.h>

#if NC_HAS_MACHINE_CODE

enum {
    SMALL = 512,       /* bytes of the frame that every call reserves on the C stack */
    MOST_LETTERS = 24, /* with more additional arguments, calls take the slow path */
    MOST_WAYS = 64     /* cached call interfaces of a variadic function */
};

/* One call. */
typedef struct {
    NcCallable *self;
    NcCallInterface *cif; /* the callable's, or one that includes additional arguments */
    const NcPlan *plan;
    char *frame;
    PyObject *made; /* the Record for a struct result, else NULL */
    int failed;     /* 1: C was not called, or reported a failure */
} Call;

/* ---- plans ----------------------------------------------------------------------------------- */

/* Makes the plan of a call interface, at its first call. `fixed` is the number of fixed arguments
 * of a variadic function, or NULL. Returns NULL with an exception on failure. */
NC_NOINLINE const NcPlan *plan_made(NcCallInterface *cif, PyObject *fixed)
{
    PyObject *made = PyObject_CallFunctionObjArgs(NC_HOOK(plan), (PyObject *)cif,
                                                  fixed != NULL ? fixed : Py_None, NULL);
    if (made == NULL || PyBytes_AsString(made) == NULL) {
        Py_XDECREF(made);
        return NULL;
    }
    made = nc_keep_first(&cif->planned, made); /* another thread may have been first */
    const NcPlan *plan = (const NcPlan *)(const void *)PyBytes_AS_STRING(made);
    nc_store_release_ptr(&cif->plan, (void *)(uintptr_t)plan);
    return plan;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static inline NcPointer *owner_of(const Call *now, const NcStep *step)
{
    return (NcPointer *)(void *)(now->frame + step->owner);
}

/* The slow path of `take` for integers: the value is not a small int, or does not fit. */
NC_NOINLINE int take_integer(const Call *now, const NcStep *step, PyObject *value, Py_ssize_t i)
{
    uint64_t bits = 0;
    if (nc_convert_integer((PyObject *)now->self, i, value, step->letter, &bits) < 0) {
        return -1;
    }
    nc_word_put(now->frame + step->at,
                step->code == NC_STEP_SIGNED ? (uint64_t)nc_word_extended(bits, step->size) : bits);
    return !PyLong_CheckExact(value);
}

/* Converts a value whose type is not exactly float to a double. */
NC_NOINLINE int take_number(const Call *now, PyObject *value, Py_ssize_t i, double *out)
{
    return nc_convert_double((PyObject *)now->self, i, value, out) < 0 ? -1
                                                                       : !PyLong_CheckExact(value);
}

static int take_pointer(const Call *now, PyObject *value, Py_ssize_t i, NcPointer *owner)
{
    /* The callable's own call interface does not describe additional arguments. */
    return i < now->self->cif->nargs
               ? nc_convert_pointer(now->self, i, value, owner)
               : nc_convert_pointer_of(now->cif, (PyObject *)now->self, i, value, owner);
}

/* Converts an argument that C stores: a function, or a handle passed with a function. Functions and
 * handles are kept alive after the call. Other `void *` data is not kept. The argument that
 * functions are kept with (the holder, kept.h) is not kept either. */
NC_NOINLINE int take_function(const Call *now, const NcStep *step, PyObject *const *args,
                              Py_ssize_t i)
{
    NcPointer *owner = owner_of(now, step);
    const int is_holder = i == now->cif->keep - NC_KEEP_ARGUMENT;
    const int is_native = PyObject_TypeCheck(args[i], (PyTypeObject *)(void *)&NcCallable_Type);
    const int is_function = args[i] != Py_None && (is_native ? !is_holder : step->letter == 'X');
    int status = is_function ? 0 : take_pointer(now, args[i], i, owner);
    if (is_function || (status >= 0 && !is_holder && nc_is_handle(args[i], owner->address))) {
        status = nc_keep_argument(now->self, now->cif, args, i, &owner->address);
    }
    memcpy(now->frame + step->at, &owner->address, sizeof(owner->address));
    return status < 0 ? -1 : 1;
}

/* The slow path of `take`, for all other steps and values. */
NC_NOINLINE int take_other(const Call *now, const NcStep *step, PyObject *const *args, Py_ssize_t i)
{
    PyObject *value = args[i];
    PyObject *name = (PyObject *)now->self;
    char *to = now->frame + step->at;
    NcPointer *owner = step->owner != 0 ? owner_of(now, step) : NULL;
    int status = 0;
    switch (step->code) {
    case NC_STEP_BOOL:
    case NC_STEP_SCALAR:
        memset(to, 0, step->size);
        if (nc_convert_scalar(name, i, value, step->letter, to) < 0) {
            return -1;
        }
        status = !PyFloat_CheckExact(value) && !PyLong_CheckExact(value) && !PyBool_Check(value);
        break;
    case NC_STEP_OBJECT:
        memcpy(to, &value, sizeof(value));
        return 0;
    case NC_STEP_VOID: /* the initial value of an out-parameter: converted later */
        return 0;
    case NC_STEP_FUNCTION:
        return take_function(now, step, args, i);
    case NC_STEP_VIEW:
        status = nc_convert_view(now->cif, name, i, value, step->size,
                                 (intptr_t *)(void *)(now->frame + step->memory), owner);
        if (status >= 0) {
            memcpy(to, &owner->address, sizeof(owner->address));
        }
        return status;
    case NC_STEP_STRUCT:
        status = nc_store_argument(now->cif, name, i, value, to, owner);
        if (status < 0) {
            return -1;
        }
        break;
    default:
        PyErr_SetString(PyExc_SystemError, "a call plan has an unknown step");
        return -1;
    }
    nc_move_all(step, now->frame, to);
    return status;
}

/* Fast path for a struct without pointers: if the value is a Record of exactly the argument's
 * layout, copies the Record's memory and returns 1. Otherwise returns 0. */
static inline int take_record(const Call *now, const NcStep *step, PyObject *value, Py_ssize_t i)
{
    const int is_plain = nc_record_has(value, nc_kept(&now->cif->layouts[i]));
    char *copy = now->frame + step->at; /* a copy, because C may write to it */
    if (NC_LIKELY(is_plain) && step->size == NC_PIECES) {
        nc_move_all(step, now->frame, nc_record_memory(value));
        return 1;
    }
    if (NC_LIKELY(is_plain) && step->size == NC_WHOLE) {
        nc_move_all(step, now->frame, copy);
        memcpy(copy, nc_record_memory(value), step->memory);
        return 1;
    }
    return 0;
}

/* Converts an argument. Returns 0, or 1 if arbitrary Python code may have run, or -1 with an
 * exception. */
NC_HOT_INLINE int take(const Call *now, const NcStep *step, PyObject *const *args, Py_ssize_t i)
{
    PyObject *value = args[i];
    char *to = now->frame + step->at;
    double number;
    long small;
    int status = 0;
    switch (step->code) {
    case NC_STEP_DOUBLE:
        if (NC_LIKELY(PyFloat_CheckExact(value))) {
            number = PyFloat_AS_DOUBLE(value);
        } else {
            status = take_number(now, value, i, &number);
        }
        memcpy(to, &number, sizeof(number));
        return status;
    case NC_STEP_FLOAT: {
        if (NC_LIKELY(PyFloat_CheckExact(value))) {
            number = PyFloat_AS_DOUBLE(value);
        } else if ((status = take_number(now, value, i, &number)) < 0) {
            return -1;
        }
        const float narrow = (float)number;
        uint32_t bits;
        if (NC_UNLIKELY(isinf(narrow)) && !isinf(number)) {
            return nc_float_overflow((PyObject *)now->self, i, 'f');
        }
        memcpy(&bits, &narrow, sizeof(bits));
        nc_word_put(to, bits); /* a whole word, because nc_invoke loads a whole word */
        return status;
    }
    case NC_STEP_SIGNED:
    case NC_STEP_UNSIGNED:
        if (NC_LIKELY(nc_small_integer(value, &small)) &&
            NC_LIKELY(step->code == NC_STEP_SIGNED
                          ? nc_word_extended((uint64_t)small, step->size) == small
                          : small >= 0 &&
                                nc_word_cleared((uint64_t)small, step->size) == (uint64_t)small)) {
            nc_word_put(to, (uint64_t)small);
            return 0;
        }
        return take_integer(now, step, value, i);
    case NC_STEP_BOOL:
        if (NC_LIKELY(PyBool_Check(value))) {
            nc_word_put(to, value == Py_True);
            return 0;
        }
        return take_other(now, step, args, i);
    case NC_STEP_POINTER: {
        NcPointer *owner = owner_of(now, step);
        status = take_pointer(now, value, i, owner);
        memcpy(to, &owner->address, sizeof(owner->address));
        return status;
    }
    case NC_STEP_STRUCT:
        return NC_LIKELY(take_record(now, step, value, i)) ? 0 : take_other(now, step, args, i);
    default:
        return take_other(now, step, args, i);
    }
}

/* Reads the number of items of an out-parameter from argument `index`, which is already
 * converted. */
static int length_by(const Call *now, const NcOut *out, Py_ssize_t index, Py_ssize_t *length)
{
    const NcStep *step = &now->plan->steps[index];
    const int is_pointer = step->code == NC_STEP_POINTER; /* Fortran passes it by reference */
    PyObject *number = nc_scalar_to_python(
        is_pointer ? now->cif->arguments[index].pointee : step->letter,
        is_pointer ? (const char *)owner_of(now, step)->address : now->frame + step->at);
    PyObject *subject = NULL;
    *length = number != NULL ? PyLong_AsSsize_t(number) : -1;
    if (*length >= 0 && (size_t)*length <= (size_t)PY_SSIZE_T_MAX / (out->size | 1)) {
        Py_DECREF(number);
        return 0;
    }
    if (number != NULL) {
        const int is_negative = *length < 0 && !PyErr_Occurred();
        PyErr_Clear();
        subject = nc_conversion_subject((PyObject *)now->self, index);
        if (subject != NULL) {
            PyErr_Format(
                is_negative ? PyExc_ValueError : PyExc_OverflowError,
                is_negative
                    ? "%U is the length of an out-parameter and must not be negative (got %R)"
                    : "%U is the length of an out-parameter that does not fit "
                      "in memory (got %R)",
                subject, number);
        }
    }
    Py_XDECREF(subject);
    Py_XDECREF(number);
    return -1;
}

/* Allocates the out-parameters that are not in the frame. */
static int make_outs(const Call *now, PyObject *const *args)
{
    const NcStep *step = now->plan->steps + now->plan->args;
    char *area = now->frame + now->plan->outs;
    for (const NcStep *end = step + now->plan->made; step < end; step++) {
        NcOut *out = &now->cif->outs[step->memory];
        Py_ssize_t length = -1;
        if ((out->sized >= 0 && length_by(now, out, out->sized, &length) < 0) ||
            nc_out_make(now->cif, (PyObject *)now->self, out, area, length,
                        out->given >= 0 ? args[out->given] : NULL, out->given) < 0) {
            return -1;
        }
        nc_word_put(now->frame + step->at, (uint64_t)(uintptr_t)nc_out_memory(out, area)->address);
    }
    return 0;
}

/* The length in bytes of the text in an out-parameter. */
static Py_ssize_t out_length(const Call *now, const NcOut *out)
{
    Py_ssize_t items =
        out->kind != NC_OUT_VALUE ? nc_out_memory(out, now->frame + now->plan->outs)->length : -1;
    return (items < 0 ? 1 : items) * (Py_ssize_t)out->size;
}

/* Stores the hidden lengths of Fortran texts, which follow all other arguments. */
static int take_lengths(const Call *now, PyObject *const *args)
{
    const NcStep *step = now->plan->steps + now->plan->args + now->plan->made;
    for (const NcStep *end = step + now->plan->lengths; step < end; step++) {
        Py_ssize_t index = step->memory;
        Py_ssize_t length = step->owner != 0 ? nc_text_length((PyObject *)now->self, index,
                                                              args[index], owner_of(now, step))
                                             : out_length(now, &now->cif->outs[index]);
        if (length < 0) {
            return -1;
        }
        nc_word_put(now->frame + step->at, nc_word_cleared((uint64_t)length, step->size));
    }
    return 0;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Allocates the Record for a struct result. Returns 0, or -1 with an exception. */
static inline int begin(Call *now)
{
    const NcStep *step = &now->plan->result;
    if (step->code == NC_STEP_STRUCT) {
        PyObject *layout = nc_record_layout(now->cif, now->cif->nargs);
        now->made = layout != NULL ? nc_record_begin(layout) : NULL;
        if (now->made == NULL) {
            return -1;
        }
        if (step->moves == 0) {
            nc_word_put(now->frame + step->at, (uint64_t)(uintptr_t)nc_record_memory(now->made));
        }
    }
    return 0;
}

/* Converts the function's result, which is in the block, to Python. Returns a new reference. */
static PyObject *give(const Call *now, uintptr_t convention, int code)
{
    const NcStep *step = &now->plan->result;
    char *from = now->frame + step->at;
    switch (step->code) {
    case NC_STEP_VOID:
        Py_RETURN_NONE;
    case NC_STEP_DOUBLE: {
        double number;
        memcpy(&number, from, sizeof(number));
        return PyFloat_FromDouble(number);
    }
    case NC_STEP_FLOAT: {
        float number;
        memcpy(&number, from, sizeof(number));
        return PyFloat_FromDouble((double)number);
    }
    case NC_STEP_SIGNED:
        return PyLong_FromLongLong(nc_word_extended(nc_word_at(from), step->size));
    case NC_STEP_UNSIGNED:
        return PyLong_FromUnsignedLongLong(nc_word_cleared(nc_word_at(from), step->size));
    case NC_STEP_BOOL:
        return PyBool_FromLong(*(const unsigned char *)from != 0);
    case NC_STEP_POINTER:
        return nc_pointer_to_python(now->self, (void *)(uintptr_t)nc_word_at(from));
    case NC_STEP_OBJECT:
        return nc_take_object((PyObject *)now->self, (PyObject *)(uintptr_t)nc_word_at(from),
                              convention, code);
    case NC_STEP_STRUCT:
        nc_move_all(step, nc_record_memory(now->made), now->frame);
        return step->owner != 0 ? nc_record_finish(now->made, 1) : now->made;
    default:
        nc_move_all(step, from, now->frame);
        return nc_scalar_to_python(step->letter, from);
    }
}

/* Releases the function's result, which is not returned because an exception is set. */
static void drop(const Call *now)
{
    PyObject *object = now->made;
    if (now->plan->result.code == NC_STEP_OBJECT) {
        memcpy(&object, now->frame + now->plan->result.at, sizeof(object));
    } else if (object != NULL && now->cif->has_objects) {
        PyObject *raised = nc_exception_take();
        object = give(now, NC_ERRORS_NONE, 0);
        nc_exception_put(raised);
    }
    Py_XDECREF(object);
}

/* Whether the result, errno or the error argument shows a failure. */
static int has_failed(const Call *now, uintptr_t convention, int code)
{
    const NcStep *step = &now->plan->result;
    const char *from = now->frame + step->at;
    switch (convention) {
    case NC_ERRORS_ERRNO:
    case NC_ERRORS_ARGUMENT:
        return code != 0;
    case NC_ERRORS_NONZERO:
        return nc_word_cleared(nc_word_at(from), step->size) != 0;
    case NC_ERRORS_ZERO:
    case NC_ERRORS_NULL:
        return nc_word_cleared(nc_word_at(from), step->size) == 0;
    default:
        return 0;
    }
}

/* If a Python function that was passed as an argument raised an exception, raises it. Called before
 * the result is converted. The pointers are released later. */
static int settle(const Call *now)
{
    NcPointer *owners = (NcPointer *)(void *)(now->frame + now->plan->owned);
    PyObject *first = NULL;
    for (size_t i = 0; i < now->plan->owners; i++) {
        if (owners[i].keep != NULL) {
            nc_pointer_close(&owners[i], &first);
        }
    }
    if (first == NULL) {
        return 0;
    }
    (void)nc_stash_raise(NULL, first);
    return -1;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Calls an entry that has flags. */
NC_NOINLINE PyObject *call_flagged(Call *now, uintptr_t flags)
{
    const NcPlan *plan = now->plan;
    const uintptr_t convention = flags & NC_ERRORS_MASK;
    const int keeps_errno = (flags & NC_FLAG_ERRNO) != 0 || convention == NC_ERRORS_ERRNO;
    int code = 0;
    PyThreadState *thread = NULL;
    if (convention > NC_ERRORS_ARGUMENT) {
        now->failed = 1;
        return nc_fail(now->self, Py_NewRef(Py_None), convention, 0); /* an unknown convention */
    }
    if (begin(now) < 0) {
        now->failed = 1;
        return NULL;
    }
    if (plan->told != 0) {
        memset(now->frame + plan->told, 0, sizeof(int));
    }
    if (flags & NC_FLAG_RELEASE_GIL) {
        thread = PyEval_SaveThread();
    }
    if (keeps_errno) {
        errno = 0;
    }
    nc_invoke(now->frame, NC_SINGLE_TARGET(now->self), plan->stack, plan->how);
    if (keeps_errno) {
        code = nc_errno_keep();
    }
    if (thread != NULL) {
        PyEval_RestoreThread(thread);
    }
    if (convention == NC_ERRORS_ARGUMENT) {
        memcpy(&code, now->frame + plan->told, sizeof(code));
    }
    if ((convention > NC_ERRORS_PYTHON && settle(now) < 0) || (nc_is_left() && nc_left_raise())) {
        drop(now);
        return NULL;
    }
    if ((convention == NC_ERRORS_PYTHON || (flags & NC_FLAG_NEEDS_GIL)) &&
        plan->result.code != NC_STEP_OBJECT && PyErr_Occurred()) {
        Py_XDECREF(now->made); /* discard a struct that C may have written */
        now->failed = 1;
        return NULL;
    }
    PyObject *value = give(now, convention, code);
    now->failed = has_failed(now, convention, code);
    return now->failed ? nc_fail(now->self, value, convention, code) : value;
}

/* Calls the function, once all arguments are converted. */
NC_HOT_INLINE PyObject *called(Call *now)
{
    const NcPlan *plan = now->plan;
    const uintptr_t flags = NC_SINGLE_FLAGS(now->self) & NC_CALL_FLAGS;
    if (NC_UNLIKELY(flags != 0)) {
        return call_flagged(now, flags);
    }
    void *function = NC_SINGLE_TARGET(now->self);
    if (plan->result.code == NC_STEP_DOUBLE) {
        double number = nc_invoke_double(now->frame, function, plan->stack, plan->how);
        return nc_is_left() && nc_left_raise() ? NULL : PyFloat_FromDouble(number);
    }
    if (plan->result.code == NC_STEP_SIGNED) {
        uint64_t bits = nc_invoke_word(now->frame, function, plan->stack, plan->how);
        return nc_is_left() && nc_left_raise()
                   ? NULL
                   : PyLong_FromLongLong(nc_word_extended(bits, plan->result.size));
    }
    if (begin(now) < 0) {
        now->failed = 1;
        return NULL;
    }
    nc_invoke(now->frame, function, plan->stack, plan->how);
    if (nc_is_left() && nc_left_raise()) {
        drop(now);
        return NULL;
    }
    return give(now, NC_ERRORS_NONE, 0);
}

/* ---- after a call ---------------------------------------------------------------------------- */

/* Returns the values that a failed call produced: its out-parameters, and a returned pointer that
 * the caller owns. Returns NULL without an exception if there are none, or with an exception on
 * failure. */
static PyObject *given_by(const Call *now)
{
    const NcPlan *plan = now->plan;
    char *area = now->frame + plan->outs;
    PyObject *pointer = NULL;
    if (now->cif->owns != NULL && plan->result.code == NC_STEP_POINTER) {
        void *address = (void *)(uintptr_t)nc_word_at(now->frame + plan->result.at);
        pointer = address != NULL ? nc_pointer_to_python(now->self, address) : NULL;
        if (pointer == NULL && PyErr_Occurred()) {
            return NULL;
        }
    }
    PyObject *all = pointer != NULL || now->cif->out_count != 0
                        ? nc_outs_together(now->cif, pointer, area, 1)
                        : NULL;
    Py_XDECREF(pointer);
    return all;
}

/* Stores a value as the attribute `out` of the current exception, unless the exception already has
 * `out`. If `value` is NULL, stores the values that the call produced. Destructors free or close
 * the pointers in `out` that the caller owns. */
static void keep_given(const Call *now, PyObject *value)
{
    PyObject *error = nc_exception_take();
    PyObject *found = value != NULL ? Py_NewRef(value) : given_by(now);
    if (found != NULL && now->cif->owns != NULL) {
        PyObject *lost = PyTuple_GetSlice(now->cif->owns, 2, 4);
        if (lost != NULL) {
            found = nc_owned(found, lost);
            Py_DECREF(lost);
        } else {
            Py_CLEAR(found);
        }
    }
    if (found != NULL && !PyObject_HasAttrString(error, "out")) {
        (void)PyObject_SetAttrString(error, "out", found);
    }
    PyErr_Clear();
    Py_XDECREF(found);
    nc_exception_put(error);
}

/* Calls check(value, callable, arguments) and returns its result. Takes over `value`. If `check`
 * raises, keep_given stores `value` in the exception, if there are out-parameters or owned
 * pointers. */
static PyObject *checked(const Call *now, PyObject *value, PyObject *const *args)
{
    PyObject *given[] = {value, (PyObject *)now->self, nc_tuple_of(args, now->plan->args)};
    PyObject *found = NULL;
    if (given[2] != NULL) {
        found = PyObject_Vectorcall(now->cif->check, given, 3, NULL);
        if (found == NULL && (now->cif->out_count != 0 || now->cif->owns != NULL)) {
            keep_given(now, value);
        }
        Py_DECREF(given[2]);
    }
    Py_DECREF(value);
    return found;
}

/* Applies the policies of a call: collects out-parameters, attaches destructors to owned pointers,
 * and calls `check`. `value` is the function's own result, or NULL with an exception. */
static PyObject *results(const Call *now, PyObject *value, PyObject *const *args)
{
    NcCallInterface *cif = now->cif;
    if (cif->out_count == 0 && cif->check == NULL && cif->owns == NULL) {
        return value;
    }
    if (value != NULL && settle(now) < 0) {
        Py_CLEAR(value);
    }
    if (value == NULL) {
        if (cif->out_count != 0 || cif->owns != NULL) {
            keep_given(now, NULL);
        }
        return NULL;
    }
    if (cif->out_count != 0) {
        const uintptr_t convention = NC_SINGLE_FLAGS(now->self) & NC_ERRORS_MASK;
        const int drops = now->plan->result.code == NC_STEP_VOID || convention == NC_ERRORS_NONZERO;
        PyObject *all =
            nc_outs_together(cif, drops ? NULL : value, now->frame + now->plan->outs, 0);
        Py_SETREF(value, all);
    }
    if (cif->owns != NULL) {
        value = nc_owned(value, cif->owns);
    }
    return value != NULL && cif->check != NULL ? checked(now, value, args) : value;
}

/* Makes a call whose plan has extras: pointers, lengths or policies. */
NC_NOINLINE PyObject *call_extra(Call *now, PyObject *const *args)
{
    const NcPlan *plan = now->plan;
    NcCallInterface *cif = now->cif;
    NcPointer *owners = (NcPointer *)(void *)(now->frame + plan->owned);
    const int composed = cif->composed;
    PyObject *value = NULL;
    int ran = 0;
    int ends = 0;
    nc_move_all(&plan->before, now->frame, now->frame);
    for (size_t i = 0; i < plan->owners; i++) {
        owners[i].buffer.obj = NULL;
        owners[i].keep = NULL;
    }
    if (composed) {
        /* Hold the call interface: the user's functions may replace the entry, and so drop its call
         * interface. */
        (void)nc_hold_interface(cif);
        memset(now->frame + plan->outs, 0, plan->out_bytes);
    }
    for (Py_ssize_t i = 0; i < (Py_ssize_t)plan->args; i++) {
        int status = take(now, &plan->steps[i], args, i);
        if (NC_UNLIKELY(status < 0)) {
            goto done;
        }
        ran |= status;
    }
    if (plan->made != 0) {
        if (make_outs(now, args) < 0) {
            goto done;
        }
        ran = 1;
    }
    /* If Python code ran, it may have moved the memory behind earlier pointers. */
    if ((NC_UNLIKELY(ran) && plan->owners > 0 &&
         nc_check_unmoved((PyObject *)now->self, owners, plan->owners) < 0) ||
        take_lengths(now, args) < 0) {
        goto done;
    }
    /* Mark the pointer that the function frees or closes as ended, so that no thread uses it
     * again. */
    if (composed && cif->ends != NULL &&
        (ends = nc_end(args[cif->ended], cif->ends, (PyObject *)now->self, cif->ended)) < 0) {
        goto done;
    }
    nc_join_pointers(owners, plan->owners);
    value = called(now);
    if (composed) {
        value = results(now, value, args);
    }

done:
    value = nc_release_pointers(value, owners, plan->owners);
    if (composed) {
        if (ends > 0 && value == NULL && now->failed) {
            /* Reopen the pointer only if C was not called or reported a failure. If a callback
             * raised, C may have freed the pointer. */
            nc_end_undo(args[cif->ended]);
        }
        nc_outs_drop(cif, now->frame + plan->outs);
        nc_drop_interface(cif);
    }
    return value;
}

NC_HOT_INLINE PyObject *call(Call *now, PyObject *const *args)
{
    const NcPlan *plan = now->plan;
    if (plan->extras) {
        return call_extra(now, args);
    }
    const NcStep *step = plan->steps;
    for (Py_ssize_t i = 0; i < (Py_ssize_t)plan->args; i++, step++) {
        if (NC_UNLIKELY(take(now, step, args, i) < 0)) {
            return NULL;
        }
    }
    return called(now);
}

/* Makes a call that needs a large frame or has no plan yet. */
NC_NOINLINE PyObject *call_large(NcCallable *self, PyObject *const *args, NcCallInterface *cif)
{
    const NcPlan *plan = (const NcPlan *)nc_load_acquire_ptr(&cif->plan);
    Call now = {self, cif, plan != NULL ? plan : plan_made(cif, NULL), NULL, NULL, 0};
    if (now.plan == NULL) {
        return NULL;
    }
    const size_t bytes = now.plan->bytes;
    if (bytes > 2 * SMALL) {
        /* Half of the required stack is for the frame and the copied stack arguments; a thunk may
         * need the other half. */
        PyObject *name = nc_callable_name(self);
        if (name == NULL || nc_stack_require(name, 4 * bytes) < 0) {
            return NULL;
        }
    }
    now.frame = (char *)__builtin_alloca_with_align(bytes, 128);
    return call(&now, args);
}

NC_NOINLINE PyObject *call_planned(NcCallable *self, PyObject *const *args, NcCallInterface *cif)
{
    _Alignas(16) char frame[SMALL];
    const NcPlan *plan = (const NcPlan *)nc_load_acquire_ptr(&cif->plan);
    if (NC_UNLIKELY(plan == NULL || plan->bytes > SMALL)) {
        return call_large(self, args, cif);
    }
    Call now = {self, cif, plan, frame, NULL, 0};
    return call(&now, args);
}

/* ---- variadic functions ---------------------------------------------------------------------- */

/* The type of an additional argument, as one letter; 0 if Python code must decide. */
static char letter_of(PyObject *value)
{
    if (PyFloat_CheckExact(value)) {
        return 'd';
    }
    if (PyLong_CheckExact(value)) {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
        return overflow != 0 ? '\0' : number >= INT32_MIN && number <= INT32_MAX ? 'i' : 'q';
    }
    return PyBytes_CheckExact(value) || value == Py_None ? 'P' : '\0';
}

/* Returns the call interface of a variadic function for additional arguments of these types, as a
 * new reference. `key` is a str with one letter for each type, or `types` itself. */
static NcCallInterface *cif_for(NcCallInterface *cif, PyObject *key, PyObject *types)
{
    PyObject *ways = nc_kept(&cif->ways);
    PyObject *known = ways != NULL ? nc_dict_get(ways, key) : NULL;
    if (known != NULL || PyErr_Occurred()) {
        return (NcCallInterface *)(void *)known;
    }
    PyObject *made = PyObject_CallFunctionObjArgs(NC_HOOK(extended), (PyObject *)cif, types, NULL);
    PyObject *fixed = made != NULL ? PyLong_FromSsize_t(cif->nargs) : NULL;
    if (fixed == NULL || plan_made((NcCallInterface *)(void *)made, fixed) == NULL ||
        nc_dict_put(&cif->ways, MOST_WAYS, key, made) < 0) {
        Py_CLEAR(made);
    }
    Py_XDECREF(fixed);
    return (NcCallInterface *)(void *)made;
}

/* Asks Python code for the type of an additional argument, and returns it. Replaces *value with the
 * value to convert to that type. */
static PyObject *described(const NcCallable *self, PyObject **value, Py_ssize_t index)
{
    PyObject *name = nc_callable_name((NcCallable *)(uintptr_t)self);
    PyObject *found = name == NULL ? NULL
                                   : PyObject_CallFunction(NC_HOOK(extra_argument), "OnOO", *value,
                                                           index, name, self->cif->policies);
    PyObject *type = NULL;
    if (found != NULL) {
        type = Py_NewRef(PyTuple_GET_ITEM(found, 0));
        Py_SETREF(*value, Py_NewRef(PyTuple_GET_ITEM(found, 1)));
        Py_DECREF(found);
    }
    return type;
}

/* Makes a call with additional arguments, using a call interface that includes their types. */
NC_NOINLINE PyObject *call_described(NcCallable *self, PyObject *const *args, Py_ssize_t nargs)
{
    NcCallInterface *cif = (NcCallInterface *)(void *)Py_NewRef(self->cif);
    const Py_ssize_t fixed = cif->nargs;
    const Py_ssize_t count = nargs - fixed;
    PyObject *given = nc_tuple_of(args, nargs);
    PyObject *types = given != NULL ? PyTuple_New(count) : NULL;
    PyObject *key = types != NULL ? PyUnicode_New(count, 127) : NULL;
    PyObject *result = NULL;
    NcCallInterface *whole = NULL;
    int plain = 1; /* every type is one letter, without a CType */
    if (key == NULL) {
        goto done;
    }
    PyObject **values = PySequence_Fast_ITEMS(given);
    for (Py_ssize_t i = 0; i < count; i++) {
        char letter = letter_of(values[fixed + i]);
        PyObject *type = letter != '\0' ? PyUnicode_FromOrdinal(letter)
                                        : described(self, &values[fixed + i], fixed + i);
        if (type == NULL) {
            goto done;
        }
        PyTuple_SET_ITEM(types, i, type);
        plain &= letter != '\0';
        PyUnicode_1BYTE_DATA(key)[i] = letter != '\0' ? (Py_UCS1)letter : ' ';
    }
    whole = cif_for(cif, plain ? key : types, types);
    if (whole != NULL) {
        result = call_planned(self, values, whole);
    }

done:
    Py_XDECREF(given);
    Py_XDECREF(types);
    Py_XDECREF(key);
    Py_XDECREF(whole);
    Py_DECREF(cif);
    return result;
}

/* Like call_described, but runs no Python code if arguments of these types were passed before. */
NC_NOINLINE PyObject *call_variadic(NcCallable *self, PyObject *const *args, Py_ssize_t nargs)
{
    const NcCallInterface *cif = self->cif;
    const Py_ssize_t count = nargs - cif->nargs;
    char letters[MOST_LETTERS];
    Py_ssize_t i = 0;
    PyObject *ways = nc_kept(&cif->ways);
    if (ways == NULL || count > MOST_LETTERS) {
        return call_described(self, args, nargs);
    }
    while (i < count && (letters[i] = letter_of(args[cif->nargs + i])) != '\0') {
        i++;
    }
    PyObject *key = i == count ? PyUnicode_FromStringAndSize(letters, count) : NULL;
    PyObject *known = key != NULL ? nc_dict_get(ways, key) : NULL;
    Py_XDECREF(key);
    if (known == NULL) {
        return PyErr_Occurred() ? NULL : call_described(self, args, nargs);
    }
    PyObject *result = call_planned(self, args, (NcCallInterface *)(void *)known);
    Py_DECREF(known);
    return result;
}

/* ---- vectorcall and methods ------------------------------------------------------------------ */

NC_NOINLINE PyObject *call_otherwise(NcCallable *self, PyObject *const *args, size_t nargsf,
                                     PyObject *kwnames)
{
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (self->cif->variadic && kwnames == NULL && nargs > self->cif->nargs) {
        return call_variadic(self, args, nargs);
    }
    return nc_call_irregular(self, args, nargsf, kwnames);
}

PyObject *nc_vectorcall_plan(PyObject *object, PyObject *const *args, size_t nargsf,
                             PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)object;
    if (NC_UNLIKELY(PyVectorcall_NARGS(nargsf) != self->cif->nargs || kwnames != NULL)) {
        return call_otherwise(self, args, nargsf, kwnames);
    }
    return call_planned(self, args, self->cif);
}

PyObject *nc_method_plan(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    NcCallable *self = (NcCallable *)(void *)object;
    if (NC_UNLIKELY(nargs != self->cif->nargs)) {
        return call_otherwise(self, args, (size_t)nargs, NULL);
    }
    return call_planned(self, args, self->cif);
}

PyObject *nc_method_plan_O(PyObject *object, PyObject *arg)
{
    NcCallable *self = (NcCallable *)(void *)object;
    return call_planned(self, &arg, self->cif);
}

PyObject *nc_method_plan_NOARGS(PyObject *object, PyObject *Py_UNUSED(none))
{
    NcCallable *self = (NcCallable *)(void *)object;
    return call_planned(self, NULL, self->cif);
}

#endif
