/* csrc/platform/gil.c: acquires and releases the GIL (gil.h).
 *
 * Kept thread states. PyGILState_Ensure creates a thread state at the first call in a thread that
 * Python did not start. The state is kept until the thread ends. So `threading.local` data lasts
 * from one call to the next, and later calls allocate nothing. PyGILState counts this call of
 * Ensure as open, so calls of Ensure and Release in other code never delete the state.
 *
 * When a thread ends, the destructor of a thread-local value runs. The destructor does not hold the
 * GIL and must not wait for it, because the thread that holds the GIL may be joining this thread.
 * So the destructor pushes the state onto a list, with an atomic compare-exchange. The next thread
 * that gets a new state deletes the states on the list, with the GIL held. When Python ends, the
 * interpreter deletes all states, and the list is no longer read. After a fork, CPython deletes the
 * states of all other threads in the child, so the list is emptied in the child.
 *
 * On free-threaded builds, the destructor deletes the state itself. CPython's allocator identifies
 * the heaps of a thread by the thread's address. A new thread may get the same address, and would
 * then use a heap while another thread deletes it. So an ending thread waits until other threads
 * are no longer stopped (PEP 703). A C function that waits for its threads must be called with
 * gil="release", as on other builds.
 *
 * On systems without thread-local destructors, each call deletes its state at the end. */
#include "gil.h"

#include "lock.h"

#include <stdlib.h>

PyInterpreterState *nc_interpreter;

typedef struct Kept {
    PyThreadState *state;
    struct Kept *next;
} Kept;

static Kept *ended; /* the list of ended states; atomic */

/* Deletes the states of threads that have ended. Needs the GIL. */
static void delete_ended(void)
{
    Kept *kept = __atomic_exchange_n(&ended, NULL, __ATOMIC_ACQUIRE);
    while (kept != NULL) {
        Kept *next = kept->next;
        PyThreadState_Clear(kept->state);
#if PY_VERSION_HEX >= 0x030C0000
        /* Without this, the deletion would clear the current thread's state in PyGILState. */
        kept->state->_status.bound_gilstate = 0;
#endif
        PyThreadState_Delete(kept->state);
        free(kept);
        kept = next;
    }
}

#if defined(_WIN32)

static int keep(PyThreadState *Py_UNUSED(state))
{
    return 0;
}

int nc_thread_is_kept(void)
{
    return 0;
}

#else

#include <pthread.h>

static pthread_key_t key;
static int has_key; /* atomic: 1 once `key` exists; -1 if it cannot be created */

/* The destructor of the thread-local value: runs when a thread ends. */
static void leave(void *value)
{
    Kept *kept = (Kept *)value;
    if (NC_WITHOUT_GIL) {
        if (!nc_is_finalizing()) {
            PyEval_RestoreThread(kept->state);
            PyThreadState_Clear(kept->state);
            PyThreadState_DeleteCurrent();
        }
        free(kept);
        return;
    }
    kept->next = __atomic_load_n(&ended, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&ended, &kept->next, kept, 1, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
    }
}

static void forget_in_child(void)
{
    ended = NULL;
}

static void make_key(void)
{
    const int made =
        pthread_key_create(&key, leave) == 0 && pthread_atfork(NULL, NULL, forget_in_child) == 0;
    __atomic_store_n(&has_key, made ? 1 : -1, __ATOMIC_RELEASE);
}

/* Keeps this thread's state, with the GIL held. Returns whether it succeeded. */
static int keep(PyThreadState *state)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_key);
    Kept *kept = has_key > 0 ? (Kept *)malloc(sizeof(*kept)) : NULL;
    if (kept == NULL) {
        return 0;
    }
    kept->state = state;
    if (pthread_setspecific(key, kept) != 0) {
        free(kept);
        return 0;
    }
    return 1;
}

int nc_thread_is_kept(void)
{
    return __atomic_load_n(&has_key, __ATOMIC_ACQUIRE) > 0 && pthread_getspecific(key) != NULL;
}

#endif

int nc_gil_acquire_detached(PyThreadState *own)
{
    if (nc_is_finalizing()) {
        /* Waiting for the GIL would hang, or end the thread. */
        return NC_GIL_REFUSED;
    }
    if (own != NULL) {
        /* Like PyGILState_Ensure, but does not count the call. The count matters only for the
         * outermost call, which made the thread state. */
        PyEval_RestoreThread(own);
        return NC_GIL_RESTORED;
    }
    (void)PyGILState_Ensure(); /* creates a state that other code in this thread finds too */
    delete_ended();
    return keep(PyThreadState_Get()) ? NC_GIL_RESTORED : NC_GIL_ENSURED;
}

int nc_gil_acquire(void)
{
    PyThreadState *own;
    return nc_thread_attached(&own) != NULL ? NC_GIL_HELD : nc_gil_acquire_detached(own);
}

void nc_gil_release(int acquired)
{
    if (acquired == NC_GIL_RESTORED) {
        (void)PyEval_SaveThread();
    } else if (acquired == NC_GIL_ENSURED) {
        PyGILState_Release(PyGILState_UNLOCKED);
    }
}
