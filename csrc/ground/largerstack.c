/* csrc/ground/largerstack.c: a call of a C function that needs much of the C stack.
 *
 * Where this thread has too little left, the function is called by a thread that is started for it,
 * with a stack of its own, while this one waits. The other thread has no thread state: no Python
 * code runs there and the collector never does, and locks, imports and what is kept for each thread
 * stay the caller's. So the function must not call Python, nor take a lock that knows its owner.
 *
 * Threads. The size of the stack is set for the next thread of the interpreter (that of
 * threading.stack_size), the thread is started and the size is set back under the GIL, which none
 * of the three lets go of: no other thread gets that stack, and nobody sees the size. The errand is
 * on the caller's stack. The new thread is done with it when it releases the lock, which the caller
 * waits for. Neither needs the GIL meanwhile, so it is the same while Python ends. Source of the
 * functions: CPython's Include/pythread.h. */
#include "functions.h"
#include "stack.h"

#define LARGER_STACK ((size_t)8 << 20) /* bytes; those that are not used are no memory */

typedef uintptr_t (*Function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t);

typedef struct {
    Function function;
    uintptr_t arguments[4];
    uintptr_t result;
    PyThread_type_lock done; /* held until it is */
} Errand;

/* A function that takes fewer arguments does not read the other registers. */
static void call(Errand *errand)
{
    const uintptr_t *arguments = errand->arguments;
    errand->result = errand->function(arguments[0], arguments[1], arguments[2], arguments[3]);
}

static void do_errand(void *given)
{
    Errand *errand = (Errand *)given;
    call(errand);
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

/* call_with_stack(address, bytes, *arguments): what the C function at an address returns for up to
 * four arguments, all of which are pointers or integers. It is called without the GIL, by this
 * thread where so many bytes of its C stack are left, else by one that is started for it. None
 * where none can be started. */
PyObject *nc_call_with_stack(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_ssize_t address;
    Py_ssize_t bytes;
    Py_ssize_t given[4] = {0};
    if (!PyArg_ParseTuple(args, "nn|nnnn", &address, &bytes, &given[0], &given[1], &given[2],
                          &given[3])) {
        return NULL;
    }
    Errand errand = {.function = (Function)(uintptr_t)address};
    for (int i = 0; i < 4; i++) {
        errand.arguments[i] = (uintptr_t)given[i];
    }
    if (nc_stack_left() > (size_t)bytes) {
        Py_BEGIN_ALLOW_THREADS;
        call(&errand);
        Py_END_ALLOW_THREADS;
        return PyLong_FromVoidPtr((void *)errand.result);
    }
    errand.done = PyThread_allocate_lock();
    if (errand.done == NULL) {
        Py_RETURN_NONE;
    }
    (void)PyThread_acquire_lock(errand.done, WAIT_LOCK);
    int started = start(&errand);
    if (started) {
        Py_BEGIN_ALLOW_THREADS;
        (void)PyThread_acquire_lock(errand.done, WAIT_LOCK);
        Py_END_ALLOW_THREADS;
    }
    PyThread_release_lock(errand.done);
    PyThread_free_lock(errand.done);
    if (!started) {
        Py_RETURN_NONE;
    }
    return PyLong_FromVoidPtr((void *)errand.result);
}
