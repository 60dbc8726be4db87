/* csrc/ground/largerstack.c: a call where this thread's C stack may be too small for it.
 *
 * Such a call is made by a thread that is started for it, with a stack of its own, while this one
 * waits without the GIL. To the function that is called it is another thread: what is kept for each
 * thread, and locks that know their owner, are not the caller's there. So the caller must hold no
 * lock that the function takes. Python's collector may run any finalizer there: one that takes a
 * lock which the caller holds waits for ever, be it an RLock. docs/threads.md says so.
 *
 * Threads. The size of the stack is set for the next thread of the interpreter (that of
 * threading.stack_size), the thread is started and the size is set back under the GIL, which none
 * of the three lets go of: no other thread gets that stack, and nobody sees the size. The errand is
 * on the caller's stack. The new thread is done with it when it releases the lock, which the caller
 * waits for. Source of the functions: CPython's Include/pythread.h. */
#include "functions.h"
#include "interpreter.h"
#include "stack.h"

#define LARGER_STACK ((size_t)8 << 20) /* bytes; those that are not used are no memory */

typedef struct {
    NcInterpreter *of;
    PyObject *function;
    PyObject *result; /* or NULL */
    NcRaised raised;  /* where it is NULL; none where the thread could not enter the interpreter */
    PyThread_type_lock done; /* held until it is */
} Errand;

static void do_errand(void *given)
{
    Errand *errand = (Errand *)given;
    int entered = nc_interpreter_enter_outside(errand->of);
    if (entered != NC_NOT_ENTERED) {
        errand->result = PyObject_CallNoArgs(errand->function);
        nc_raised_take(&errand->raised);
        nc_interpreter_leave(errand->of, entered);
    }
    PyThread_release_lock(errand->done);
}

/* Whether a thread was started, which runs do_errand. */
static int start(Errand *errand)
{
    size_t usual = PyThread_get_stacksize();
    unsigned long started = PYTHREAD_INVALID_THREAD_ID;
    if (PyThread_set_stacksize(LARGER_STACK) == 0) {
        started = PyThread_start_new_thread(do_errand, errand);
        (void)PyThread_set_stacksize(usual);
    }
    return started != PYTHREAD_INVALID_THREAD_ID;
}

/* call_with_stack(function, bytes, elsewhere=True): what function() returns, which is called by
 * this thread where so much of its C stack is left, else by one that is started for it. None where
 * none can be started, or must not be (`elsewhere` is false), or Python ends. */
PyObject *nc_call_with_stack(PyObject *Py_UNUSED(module), PyObject *args)
{
    Errand errand = {.of = nc_here()};
    Py_ssize_t bytes;
    int elsewhere = 1;
    if (!PyArg_ParseTuple(args, "On|p", &errand.function, &bytes, &elsewhere)) {
        return NULL;
    }
    if (nc_stack_left() > (size_t)bytes) {
        return PyObject_CallNoArgs(errand.function);
    }
    /* While Python ends, no other thread gets the GIL. */
    errand.done = !elsewhere || nc_is_finalizing() ? NULL : PyThread_allocate_lock();
    if (errand.done == NULL) {
        Py_RETURN_NONE;
    }
    (void)PyThread_acquire_lock(errand.done, WAIT_LOCK);
    if (start(&errand)) {
        Py_BEGIN_ALLOW_THREADS;
        (void)PyThread_acquire_lock(errand.done, WAIT_LOCK);
        Py_END_ALLOW_THREADS;
    }
    PyThread_release_lock(errand.done);
    PyThread_free_lock(errand.done);
    if (errand.result == NULL && nc_raised_is_set(&errand.raised)) {
        nc_raised_restore(&errand.raised);
        return NULL;
    }
    return errand.result != NULL ? errand.result : Py_NewRef(Py_None);
}
