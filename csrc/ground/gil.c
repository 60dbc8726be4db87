/* csrc/ground/gil.c: how threads acquire and release the GIL (gil.h). */
#include "gil.h"

PyInterpreterState *nc_interpreter;

int nc_gil_acquire_detached(void)
{
    PyThreadState *own;
    if (nc_is_finalizing()) {
        /* Waiting for the GIL would never end, or end the thread. */
        return NC_GIL_REFUSED;
    }
    own = PyGILState_GetThisThreadState();
    if (own != NULL) {
        /* As PyGILState_Ensure, but for the count of such calls, which ends at 0 only with the
         * outermost of those that made the thread state. */
        PyEval_RestoreThread(own);
        return NC_GIL_RESTORED;
    }
    (void)PyGILState_Ensure(); /* with a state that other code of this thread finds */
    return NC_GIL_ENSURED;
}

int nc_gil_acquire(void)
{
    return nc_thread_attached() != NULL ? NC_GIL_HELD : nc_gil_acquire_detached();
}

void nc_gil_release(int acquired)
{
    if (acquired == NC_GIL_RESTORED) {
        (void)PyEval_SaveThread();
    } else if (acquired == NC_GIL_ENSURED) {
        PyGILState_Release(PyGILState_UNLOCKED);
    }
}
