/* csrc/pending.c: which threads a Python function left an exception in; pending.h says why. */
#include "pending.h"

#include "jit.h"
#include "nativecall/thunk.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

#define PATIENCE 2 /* seconds */

/* One for each thread that was ever left with an exception; its thread's dict owns it, unless it is
 * a spare. */
typedef struct Mark {
    PyThreadState *thread;
    PyObject *exception; /* borrowed, for comparison; NULL: none */
    PyObject *deferred;  /* to be set when somebody looks; NULL: none */
    struct Mark *next;
    struct Mark *previous;
} Mark;

/* For threads that there was no memory for, as long as they have an exception. */
#define SPARES 16
static Mark spares[SPARES];

static const char capsule_name[] = "nativecall.pending";
static Mark *marks;
static int is_queued; /* whether CPython was asked to look in the main thread */

/* ---- exceptions as objects ------------------------------------------------------------------- */

PyObject *nc_exception_take(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type;
    PyObject *value;
    PyObject *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL) {
        return NULL;
    }
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL) {
        (void)PyException_SetTraceback(value, traceback);
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

void nc_exception_put(PyObject *exception)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(exception);
#else
    PyErr_Restore(Py_NewRef(Py_TYPE(exception)), exception, PyException_GetTraceback(exception));
#endif
}

void nc_exception_report(PyObject *exception, PyObject *object)
{
    NcRaised raised;
    Py_XINCREF(object); /* the hook may close the callback, which drops its function */
    nc_raised_take(&raised);
    nc_exception_put(exception);
    PyErr_WriteUnraisable(object);
    nc_raised_restore(&raised);
    Py_XDECREF(object);
}

/* ---- looking in other threads than the main one ---------------------------------------------- */

#if PY_VERSION_HEX >= 0x030C0000 && defined(__ELF__)
/* Py_AddPendingCall but for which threads may run the function: with 0 in the end any thread. It is
 * private to CPython, though exported by 3.12, 3.13 and 3.14; weak, so that a Python without it
 * loads this and does as 3.11 does. */
extern int _PyEval_AddPendingCall(PyInterpreterState *interpreter, int (*function)(void *),
                                  void *argument, int flags) __attribute__((weak));
#define HAS_ANY_THREAD (_PyEval_AddPendingCall != NULL)
#define ADD_ANY_THREAD(function)                                                                   \
    _PyEval_AddPendingCall(PyInterpreterState_Main(), (function), NULL, 0)
#else
#define HAS_ANY_THREAD 0
#define ADD_ANY_THREAD(function) ((void)(function), -1)
#endif

static int is_queued_anywhere; /* whether CPython was asked to look in any thread */
static time_t asked;           /* when an exception was last left, or asked for again */

static int holds(const Mark *mark)
{
    return mark->exception != NULL || mark->deferred != NULL;
}

static int is_spare(const Mark *mark)
{
    return mark >= spares && mark < spares + SPARES;
}

static void link_mark(Mark *mark, PyThreadState *thread)
{
    mark->thread = thread;
    mark->previous = NULL;
    mark->next = marks;
    if (marks != NULL) {
        marks->previous = mark;
    }
    marks = mark;
}

static void unlink_mark(Mark *mark)
{
    if (mark->next != NULL) {
        mark->next->previous = mark->previous;
    }
    if (mark->previous != NULL) {
        mark->previous->next = mark->next;
    } else {
        marks = mark->next;
    }
}

/* Changes a mark; a spare that holds nothing is free from then on. */
static void change_mark(Mark *mark, PyObject *exception, PyObject *deferred)
{
    int held = holds(mark);
    mark->exception = exception;
    mark->deferred = deferred;
    nc_pending_add(holds(mark) - held);
    if (is_spare(mark) && !holds(mark)) {
        unlink_mark(mark);
        memset(mark, 0, sizeof(*mark));
    }
}

static void set_mark(Mark *mark, PyObject *exception)
{
    change_mark(mark, exception, mark->deferred);
}

/* The thread ends. */
static void free_mark(PyObject *capsule)
{
    Mark *mark = (Mark *)PyCapsule_GetPointer(capsule, capsule_name);
    PyObject *deferred = mark->deferred;
    change_mark(mark, NULL, NULL);
    unlink_mark(mark);
    PyMem_Free(mark);
    if (deferred != NULL) {
        nc_exception_report(deferred, NULL);
    }
}

static Mark *find_mark(const PyThreadState *thread)
{
    Mark *mark = marks;
    while (mark != NULL && mark->thread != thread) {
        mark = mark->next;
    }
    return mark;
}

/* A new mark of this thread; NULL with an exception, or without one in a thread that is ending. */
static Mark *make_mark(PyThreadState *thread)
{
    PyObject *dict = PyThreadState_GetDict();
    PyObject *capsule;
    int status;
    Mark *mark;
    if (dict == NULL) {
        return NULL;
    }
    mark = (Mark *)PyMem_Calloc(1, sizeof(*mark));
    if (mark == NULL) {
        return NULL;
    }
    capsule = PyCapsule_New(mark, capsule_name, free_mark);
    if (capsule == NULL) {
        PyMem_Free(mark);
        return NULL;
    }
    link_mark(mark, thread);
    status = PyDict_SetItemString(dict, capsule_name, capsule);
    Py_DECREF(capsule);
    return status < 0 ? NULL : mark;
}

/* The mark of this thread. NULL where there is none, and neither memory nor a spare for one. The
 * exception that is set stays. */
static Mark *mark_here(void)
{
    PyThreadState *thread = PyThreadState_Get();
    Mark *mark = find_mark(thread);
    if (mark == NULL) {
        NcRaised raised;
        nc_raised_take(&raised);
        mark = make_mark(thread);
        nc_raised_restore(&raised);
    }
    for (int i = 0; i < SPARES && mark == NULL; i++) {
        if (spares[i].thread == NULL) {
            mark = &spares[i];
            link_mark(mark, thread);
        }
    }
    return mark;
}

static int is_alive(const PyThreadState *thread)
{
    PyThreadState *one = PyInterpreterState_ThreadHead(PyInterpreterState_Main());
    while (one != NULL && one != thread) {
        one = PyThreadState_Next(one);
    }
    return one != NULL;
}

/* Removes marks whose exceptions are not set any more. */
static void sweep(void)
{
    Mark *next;
    for (Mark *mark = marks; mark != NULL; mark = next) {
        next = mark->next;
        if (mark->exception != NULL && ((is_spare(mark) && !is_alive(mark->thread)) ||
                                        mark->exception != nc_exception_of(mark->thread))) {
            set_mark(mark, NULL);
        }
    }
}

/* Somebody looks: what was deferred is set. Another one that is set came of it. */
static void end_mark(Mark *mark)
{
    PyObject *deferred = mark->deferred;
    change_mark(mark, NULL, NULL);
    if (deferred != NULL) {
        if (PyErr_Occurred()) {
            PyErr_WriteUnraisable(NULL);
        }
        nc_exception_put(deferred);
    }
}

/* What CPython runs between two instructions of Python code: there no exception can be set, but one
 * that nobody looked for. */
static int look_here(void)
{
    Mark *mark;
    sweep();
    mark = find_mark(PyThreadState_Get());
    if (mark == NULL || !holds(mark)) {
        return 0;
    }
    end_mark(mark);
    return -1;
}

static int look(void *Py_UNUSED(nothing))
{
    is_queued = 0;
    return look_here();
}

/* In whichever thread runs Python code first. Where that is not the one with the mark, whose C code
 * goes on without the GIL, it has to be asked for again at once: nothing tells when that thread
 * comes back, and it must find the question there. Until then the others run slower, for which
 * there is a limit. */
static int look_anywhere(void *Py_UNUSED(nothing))
{
    int raised;
    is_queued_anywhere = 0;
    raised = look_here();
    for (const Mark *mark = marks; mark != NULL; mark = mark->next) {
        if (holds(mark)) {
            long long waited = (long long)time(NULL) - (long long)asked;
            if (waited >= 0 && waited <= PATIENCE) {
                is_queued_anywhere = ADD_ANY_THREAD(look_anywhere) == 0;
            }
            break;
        }
    }
    return raised;
}

/* Asks CPython to look: in the main thread, which never tires of it, and in any. */
static void ask(void)
{
    asked = time(NULL);
    is_queued = is_queued || Py_AddPendingCall(look, NULL) == 0;
    if (HAS_ANY_THREAD) {
        is_queued_anywhere = is_queued_anywhere || ADD_ANY_THREAD(look_anywhere) == 0;
    }
}

int nc_pending_leave(void)
{
    Mark *mark = mark_here();
    if (mark == NULL) {
        return -1;
    }
    set_mark(mark, nc_exception_of(mark->thread));
    ask();
    return 0;
}

int nc_pending_defer(PyObject *exception, PyObject *object)
{
    Mark *mark = mark_here();
    if (mark == NULL || mark->deferred != NULL) {
        nc_exception_report(exception, object);
        return -1;
    }
    change_mark(mark, mark->exception, exception);
    ask();
    return 0;
}

int nc_pending_is_left(void)
{
    const PyThreadState *thread = PyThreadState_Get();
    const Mark *mark = find_mark(thread);
    if (mark == NULL || !holds(mark) ||
        (mark->deferred == NULL && mark->exception != nc_exception_of(thread))) {
        return 0;
    }
    ask(); /* C code goes on for long, perhaps */
    return 1;
}

int nc_pending_raised(void)
{
    const PyThreadState *thread = PyThreadState_Get();
    Mark *mark;
    sweep();
    mark = find_mark(thread);
    if (mark != NULL) {
        end_mark(mark);
    }
    return nc_exception_of(thread) != NULL;
}

/* ---- for ctypes ------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
} Check;

/* (result, function, arguments), as ctypes calls an errcheck: the result. Runs with an exception
 * set, as functions of METH_FASTCALL must not. */
static PyObject *check_vectorcall(PyObject *Py_UNUSED(self), PyObject *const *args, size_t nargsf,
                                  PyObject *kwnames)
{
    if (kwnames != NULL || PyVectorcall_NARGS(nargsf) != 3) {
        PyErr_SetString(PyExc_TypeError, "only ctypes calls this");
        return NULL;
    }
    return nc_is_pending() && nc_pending_raised() ? NULL : Py_NewRef(args[0]);
}

static PyTypeObject Check_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.Check",
    .tp_doc = "An errcheck that raises what was left.",
    .tp_basicsize = sizeof(Check),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Check, call),
};

int nc_pending_ready(PyObject *module)
{
    Check *check = PyType_Ready(&Check_Type) < 0 ? NULL : PyObject_New(Check, &Check_Type);
    int status;
    if (check == NULL) {
        return -1;
    }
    check->call = check_vectorcall;
    status = PyModule_AddObjectRef(module, "raise_pending", (PyObject *)check);
    Py_DECREF(check);
    return status;
}
