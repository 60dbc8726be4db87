/* csrc/pending.c: which threads a Python function left an exception in; pending.h says why. */
#include "pending.h"

#include "jit.h"

#include <time.h>

#define PATIENCE 2 /* seconds */

/* One for each thread that was ever left with an exception; its thread's dict owns it. */
typedef struct Mark {
    PyThreadState *thread;
    PyObject *exception; /* borrowed, for comparison; NULL: none */
    struct Mark *next;
    struct Mark *previous;
} Mark;

static const char capsule_name[] = "nativecall.pending";
static Mark *marks;
static int is_queued; /* whether CPython was asked to look in the main thread */

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

static void set_mark(Mark *mark, PyObject *exception)
{
    nc_pending_add((exception != NULL) - (mark->exception != NULL));
    mark->exception = exception;
}

/* The thread ends. */
static void free_mark(PyObject *capsule)
{
    Mark *mark = (Mark *)PyCapsule_GetPointer(capsule, capsule_name);
    set_mark(mark, NULL);
    if (mark->next != NULL) {
        mark->next->previous = mark->previous;
    }
    if (mark->previous != NULL) {
        mark->previous->next = mark->next;
    } else {
        marks = mark->next;
    }
    PyMem_Free(mark);
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
    mark->thread = thread;
    mark->next = marks;
    if (marks != NULL) {
        marks->previous = mark;
    }
    marks = mark;
    status = PyDict_SetItemString(dict, capsule_name, capsule);
    Py_DECREF(capsule);
    return status < 0 ? NULL : mark;
}

/* Removes marks whose exceptions are not set any more. */
static void sweep(void)
{
    for (Mark *mark = marks; mark != NULL; mark = mark->next) {
        if (mark->exception != NULL && mark->exception != nc_exception_of(mark->thread)) {
            set_mark(mark, NULL);
        }
    }
}

/* What CPython runs between two instructions of Python code: there no exception can be set, but one
 * that nobody looked for. */
static int look_here(void)
{
    Mark *mark = find_mark(PyThreadState_Get());
    sweep();
    if (mark == NULL || mark->exception == NULL) {
        return 0;
    }
    set_mark(mark, NULL);
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
        if (mark->exception != NULL) {
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
    PyThreadState *thread = PyThreadState_Get();
    Mark *mark = find_mark(thread);
    if (mark == NULL) {
        PyObject *type;
        PyObject *value;
        PyObject *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        mark = make_mark(thread);
        PyErr_Restore(type, value, traceback);
    }
    if (mark == NULL) {
        return -1;
    }
    set_mark(mark, nc_exception_of(thread));
    ask();
    return 0;
}

int nc_pending_is_left(void)
{
    const PyThreadState *thread = PyThreadState_Get();
    const Mark *mark = find_mark(thread);
    if (mark == NULL || mark->exception == NULL || mark->exception != nc_exception_of(thread)) {
        return 0;
    }
    ask(); /* C code goes on for long, perhaps */
    return 1;
}

int nc_pending_raised(void)
{
    const PyThreadState *thread = PyThreadState_Get();
    Mark *mark = find_mark(thread);
    sweep();
    if (mark != NULL) {
        set_mark(mark, NULL);
    }
    return nc_exception_of(thread) != NULL;
}

PyObject *nc_pending_check(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (nc_is_pending() && nc_pending_raised()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *nc_pending_forget(PyObject *Py_UNUSED(module), PyObject *exception)
{
    Mark *mark = find_mark(PyThreadState_Get());
    if (mark == NULL || mark->exception != exception) {
        Py_RETURN_FALSE;
    }
    set_mark(mark, NULL);
    Py_RETURN_TRUE;
}
