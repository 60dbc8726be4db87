/* csrc/platform/exceptions.c: holds the exceptions of Python functions that C code calls. See the
 * table of holders in exceptions.h. */
#include "exceptions.h"

#include "lock.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

/* ---- reports --------------------------------------------------------------------------------- */

/* The C function whose last call in this thread was reported to sys.unraisablehook, or NULL. */
static NC_THREAD_LOCAL const void *reported;
Py_ssize_t nc_threads_with_reports;

static void set_reported(const void *address)
{
    (void)__atomic_add_fetch(&nc_threads_with_reports, (address != NULL) - (reported != NULL),
                             __ATOMIC_RELAXED);
    reported = address;
}

int nc_report_taken(const void *address)
{
    if (reported == NULL || reported != address) {
        return 0;
    }
    set_reported(NULL);
    return 1;
}

/* Reports an exception to sys.unraisablehook with `object`. Steals the reference to the exception.
 * If another exception is set, it stays set. */
static void report(PyObject *exception, PyObject *object)
{
    Py_XINCREF(object); /* the hook may close the callback, and so release its function */
    PyObject *raised = nc_exception_take();
    nc_exception_put(exception);
    PyErr_WriteUnraisable(object);
    nc_exception_put(raised);
    Py_XDECREF(object);
}

/* ---- stashes --------------------------------------------------------------------------------- */

static unsigned long long stashed; /* number of exceptions so far */
static NcLock stashing;            /* guards `stashed`, and the stashes that threads fill */

/* Puts an exception into a stash. If the stash is closed or already has an exception, reports the
 * new exception with `object`. Steals the reference to the exception. */
static void put(NcStash *self, PyObject *exception, PyObject *object)
{
    NC_LOCK(&stashing);
    int is_taken = !self->closed && self->exception == NULL;
    if (is_taken) {
        nc_store_relaxed_ptr(&self->exception, exception);
        self->order = stashed++;
        NcStash *first = self->first != NULL ? self->first : self;
        __atomic_store_n(&first->failed, 1, __ATOMIC_RELAXED);
    }
    NC_UNLOCK(&stashing);
    if (!is_taken) {
        report(exception, object);
    }
}

/* Reports a stash's exception that no call will raise. Another exception may be set. */
static void stash_report(PyObject *object)
{
    NcStash *self = (NcStash *)(void *)object;
    PyObject *exception = self->exception;
    nc_store_relaxed_ptr(&self->exception, NULL);
    if (exception != NULL) {
        report(exception, NULL);
    }
}

/* An exception's traceback refers to the frame that holds the stash: a cycle. */
static int stash_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((NcStash *)(void *)object)->exception);
    Py_VISIT(((NcStash *)(void *)object)->first);
    return 0;
}

static int stash_clear(PyObject *object)
{
    Py_CLEAR(((NcStash *)(void *)object)->exception);
    Py_CLEAR(((NcStash *)(void *)object)->first);
    return 0;
}

static void stash_dealloc(PyObject *object)
{
    if (PyObject_CallFinalizerFromDealloc(object) < 0) {
        return;
    }
    PyObject_GC_UnTrack(object);
    (void)stash_clear(object);
    Py_TYPE(object)->tp_free(object);
}

void nc_stash_close(NcStash *stash, PyObject **first)
{
    NC_LOCK(&stashing);
    __atomic_store_n(&stash->closed, 1, __ATOMIC_RELAXED);
    NC_UNLOCK(&stashing);
    if (stash->exception == NULL) {
        return;
    }
    if (*first != NULL && ((NcStash *)(void *)*first)->order < stash->order) {
        stash_report((PyObject *)stash);
        return;
    }
    if (*first != NULL) {
        stash_report(*first);
    }
    Py_XSETREF(*first, Py_NewRef((PyObject *)stash));
}

PyObject *nc_stash_raise(PyObject *value, PyObject *first)
{
    NcStash *stash = (NcStash *)(void *)first;
    if (first == NULL) {
        return value;
    }
    PyObject *exception = stash->exception;
    nc_store_relaxed_ptr(&stash->exception, NULL);
    if (exception == NULL) {
        Py_DECREF(first); /* a finaliser has reported it */
        return value;
    }
    Py_XDECREF(value);
    /* If the call itself also raised, it did so because C got a sentinel. So report the call's
     * exception, and raise the stashed one. */
    if (PyErr_Occurred()) {
        PyErr_WriteUnraisable(NULL);
    }
    nc_exception_put(exception);
    Py_DECREF(first);
    return NULL;
}

PyTypeObject NcStash_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.Stash",
    .tp_doc = "Keeps the first exception of a Python function that C calls, until C returns.",
    .tp_basicsize = sizeof(NcStash),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_traverse = stash_traverse,
    .tp_clear = stash_clear,
    .tp_finalize = stash_report,
    .tp_dealloc = stash_dealloc,
};

/* ---- marks: exceptions that were left in a thread -------------------------------------------- */

#define PATIENCE 2 /* seconds */

/* A mark for each thread with an exception that may still be set. The table has a fixed size,
 * because allocation may fail. It is large enough for the threads that wait for C code at once. */
typedef struct {
    PyThreadState *thread; /* NULL: free */
    PyObject *exception;   /* borrowed, for comparison */
} Mark;

enum { MARKS = 256 };
static Mark marks[MARKS];
static NcLock marking; /* guards `marks` and the fields below */

uintptr_t nc_left_count;
static int is_queued; /* whether CPython was asked to check in the main thread */

static int is_queued_anywhere; /* whether CPython was asked to check in any thread */
static time_t asked;           /* when an exception was last left or found again */

/* Returns the mark of a thread, or a free mark if `thread` is NULL. Returns NULL if there is no
 * such mark. */
static Mark *find_mark(const PyThreadState *thread)
{
    for (Mark *mark = marks; mark < marks + MARKS; mark++) {
        if (mark->thread == thread) {
            return mark;
        }
    }
    return NULL;
}

/* Frees the mark of a thread. Returns whether `exception` is the exception that was left there. */
static int take_mark(const PyThreadState *thread, const PyObject *exception)
{
    NC_LOCK(&marking);
    Mark *mark = find_mark(thread);
    int is_left = mark != NULL && mark->exception == exception;
    if (mark != NULL) {
        *mark = (Mark){NULL, NULL};
        nc_store_relaxed_uintptr(&nc_left_count, nc_left_count - 1);
    }
    NC_UNLOCK(&marking);
    return is_left;
}

/* The destructor of a capsule in the dict of a thread state, which is being cleared. */
static void forget(PyObject *capsule)
{
    (void)take_mark((PyThreadState *)PyCapsule_GetPointer(capsule, NULL), NULL);
}

/* Makes `forget` run when the state of this thread is cleared. If memory is short, the mark stays,
 * which only makes calls slower. */
static void forget_at_end(PyThreadState *thread)
{
    PyObject *dict = PyThreadState_GetDict();
    PyObject *capsule = dict != NULL ? PyCapsule_New(thread, NULL, forget) : NULL;
    if (capsule != NULL) {
        (void)PyDict_SetItemString(dict, "nativecall.left", capsule);
    }
    Py_XDECREF(capsule);
    PyErr_Clear();
}

/* The pending call. CPython makes this call between two Python instructions. If an exception is set
 * there, it was left in the thread, and no caller has checked for it. */
static int look_here(void)
{
    const PyThreadState *thread = PyThreadState_Get();
    return take_mark(thread, nc_thread_exception(thread)) ? -1 : 0;
}

static int look(void *Py_UNUSED(nothing))
{
    NC_LOCK(&marking);
    is_queued = 0;
    NC_UNLOCK(&marking);
    return look_here();
}

/* The pending call for any thread: the first thread that runs Python code makes the call. If the
 * marked thread still runs C code without the GIL, a different thread makes the call, and then
 * queues it again at once. The call must be pending when the marked thread returns from C, and
 * nothing signals that return. Until then other threads run slower, so there is a time limit. */
static int look_anywhere(void *Py_UNUSED(nothing))
{
    int raised = look_here();
    NC_LOCK(&marking);
    long long waited = (long long)time(NULL) - (long long)asked;
    is_queued_anywhere = nc_is_left() && waited >= 0 && waited <= PATIENCE &&
                         NC_ADD_ANY_THREAD_CALL(look_anywhere) == 0;
    NC_UNLOCK(&marking);
    return raised;
}

/* Asks CPython to make both pending calls: in the main thread, without a time limit, and in any
 * thread, with the time limit. */
static void ask(void)
{
    NC_LOCK(&marking);
    asked = time(NULL);
    is_queued = is_queued || Py_AddPendingCall(look, NULL) == 0;
    if (NC_HAS_ANY_THREAD_CALLS) {
        is_queued_anywhere = is_queued_anywhere || NC_ADD_ANY_THREAD_CALL(look_anywhere) == 0;
    }
    NC_UNLOCK(&marking);
}

void nc_exception_leave(PyObject *exception, PyObject *object)
{
    PyThreadState *thread = PyThreadState_Get();
    forget_at_end(thread);
    nc_exception_put(exception);
    (void)take_mark(thread, NULL);
    NC_LOCK(&marking);
    Mark *mark = find_mark(NULL);
    if (mark != NULL) {
        *mark = (Mark){thread, exception};
        nc_store_relaxed_uintptr(&nc_left_count, nc_left_count + 1);
    }
    NC_UNLOCK(&marking);
    if (mark != NULL) {
        ask();
    } else {
        PyErr_WriteUnraisable(object);
    }
}

int nc_left_here(void)
{
    const PyThreadState *thread = PyThreadState_Get();
    NC_LOCK(&marking);
    const Mark *mark = find_mark(thread);
    int is_set = mark != NULL && mark->exception == nc_thread_exception(thread);
    NC_UNLOCK(&marking);
    if (!is_set) {
        return 0;
    }
    ask(); /* again, since C code may run much longer */
    return 1;
}

int nc_left_raise(void)
{
    (void)look_here();
    return nc_thread_has_exception(PyThreadState_Get());
}

/* ---- the place of an exception --------------------------------------------------------------- */

PyObject *nc_exception_place(NcStash *stash, int may_leave, PyObject *object, const void *address)
{
    if (!PyErr_Occurred()) {
        /* CPython 3.11 sets no exception if it cannot allocate the frame of a Python function. For
         * other callables, PyObject_Vectorcall checks that an exception is set. */
        (void)PyErr_NoMemory();
    }
    PyObject *exception = nc_exception_take();
    if (stash != NULL && !__atomic_load_n(&stash->closed, __ATOMIC_RELAXED)) {
        put(stash, exception, object);
        return NULL;
    }
    if (may_leave) {
        return exception;
    }
    report(exception, object);
    set_reported(address);
    return NULL;
}

void nc_exception_refuse_foreign(const PyThreadState *thread)
{
    if (!nc_thread_has_exception(thread)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "C code called a Python function in a different interpreter");
    }
}

void nc_exception_settle(PyObject *object)
{
    if (!PyErr_Occurred()) {
        return;
    }
    PyObject *left = nc_exception_place(NULL, nc_is_called_from_python(), object, NULL);
    if (left != NULL) {
        nc_exception_leave(left, object);
    }
}

/* ---- for ctypes ------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
} Check;

/* ctypes calls this as an errcheck with (result, function, arguments). Returns the result. This is
 * not a METH_FASTCALL function, because such functions must not be called with an exception set. */
static PyObject *check_vectorcall(PyObject *Py_UNUSED(self), PyObject *const *args, size_t nargsf,
                                  PyObject *kwnames)
{
    if (kwnames != NULL || PyVectorcall_NARGS(nargsf) != 3) {
        PyErr_SetString(PyExc_TypeError, "only ctypes may call this");
        return NULL;
    }
    return nc_is_left() && nc_left_raise() ? NULL : Py_NewRef(args[0]);
}

static PyTypeObject Check_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.Check",
    .tp_doc = "An errcheck of ctypes that raises the exception left by a call.",
    .tp_basicsize = sizeof(Check),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Check, call),
};

int nc_exceptions_ready(PyObject *module)
{
    if (PyType_Ready(&Check_Type) < 0) {
        return -1;
    }
    Check *check = PyObject_New(Check, &Check_Type);
    if (check == NULL) {
        return -1;
    }
    check->call = check_vectorcall;
    int status = PyModule_AddObjectRef(module, "raise_left", (PyObject *)check);
    Py_DECREF(check);
    return status;
}
