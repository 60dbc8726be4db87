/* csrc/callable/pycallback.h: C function pointers that call Python functions (closures). This
 * header declares the part that all signatures share.
 *
 * How it works. C code calls a stub (stub.h), which jumps to nc_entry (call/entry.h) with the
 * NcPyCallback that holds the Python function. closure.c converts the arguments to Python objects,
 * following the plan of the spec. This header declares everything that does not depend on the
 * argument types. In outline, a call does this:
 *
 *     if (self->spec->enter(self, &call, &result)) {
 *         args[1] = nc_pycallback_float(x);
 *         nc_pycallback_run(self, &call, args, 1, &result);
 *     }
 *     return result;
 *
 * Exceptions. If the function raises an exception, or if its result cannot be converted, C gets the
 * sentinel. platform/exceptions.h says where the exception goes. An unraisable report has the
 * function as its object.
 *
 * Objects. Objects in arguments, also inside structs, are borrowed from C; the Python function gets
 * its own references. Results belong to C, so C gets a new reference to each object in a result or
 * sentinel.
 *
 * If the C stack has no room for a call (stack.h), the function does not run, and RecursionError is
 * raised as if by the function.
 *
 * A call preserves C's errno, unless the Python function calls set_errno().
 *
 * Lifetime. A running call holds a reference, so the function may close or delete its own callback.
 * On free-threaded builds, running calls are counted instead (platform/runs.h). C code returns
 * through code of the extension, which is never unloaded.
 *
 * While Python shuts down, threads that would have to take the GIL get the sentinel. If an
 * NcPyCallback is deallocated during shutdown, its memory is not freed, since these threads may use
 * it.
 *
 * Threads. C code may call from any thread, even from a thread that Python has never seen. All
 * fields of an NcPyCallback need the GIL, with two exceptions: `spec` never changes, and `names`
 * may be read while a thread waits for the GIL (waiting.h). After a call has left Python, another
 * thread may drop the last reference before the call returns. So a call reads no field after it has
 * left Python. On free-threaded builds, `names` and `kept` are atomic. `function` and `stash` are
 * removed only after the last run, so calls read them without a lock. */
#pragma once

#include "layout.h"
#include "platform/exceptions.h"
#include "platform/gil.h"
#include "platform/runs.h"
#include "platform/stub.h"
#include "call/failure.h"
#include "values/pointers.h"

#include <errno.h>

/* What all callbacks of one signature and one set of options share: where C passes the arguments
 * and the result, how both are converted, and the sentinel. For calls from Python, the counterpart
 * is the call interface (layout.h). Python code creates specs; a spec never changes. */
typedef struct NcPyCallback NcPyCallback;
typedef struct NcPyCallbackCall NcPyCallbackCall;

typedef struct {
    PyObject_HEAD
    /* Takes the GIL if needed and returns 1. If the function must not run, stores the sentinel in
     * `out` and returns 0; the callback may then be freed. */
    int (*enter)(NcPyCallback *, NcPyCallbackCall *, void *out);
    /* A tuple with an item for each argument: None for a number, "O" for an object. Otherwise, the
     * call interface of a function that returns such a value, or a Python function that makes the
     * argument's object. */
    PyObject *readers;
    PyObject *objects;       /* tuple: offsets of Python objects in the result */
    NcCallInterface *result; /* takes the result as its only argument; NULL for void and objects */
    PyObject *planned;       /* bytes: the closure plan */
    const struct NcClosurePlan *plan; /* the contents of `planned` (call/plan.h) */
    PyObject *sentinel;               /* bytes: C's result after a failure */
    size_t size;                      /* of the sentinel */
    PyObject *keep;    /* keeps alive the memory that the sentinel points to; or NULL */
    char letter;       /* of the result */
    int has_gil;       /* 1: C code holds the GIL when it calls (a user option) */
    int python_errors; /* 1: exceptions stay set even without an outer Python call */
    int frees;         /* 1: takes a pointer and returns void, like a destructor */
    int passed;        /* 1: callbacks are passed to a call, and have a stash */
    int kept;          /* 1: C stores these callbacks, and any functions that they return */
    int sets_errno;    /* 1: a failure sets errno; the errno of an OSError is the whole report */
} NcCallbackSpec;

extern PyTypeObject NcCallbackSpec_Type;

/* One call, in the frame of the callback. */
struct NcPyCallbackCall {
    int ending;       /* NC_GIL_... if it took the GIL (platform/gil.h), and NC_PYCALLBACK_... */
    int error_number; /* errno for C */
    int *number;      /* address of this thread's errno */
    int **innermost;  /* address of this thread's nc_errno_of_callback */
    int *outer;       /* error_number of the enclosing callback */
    PyObject *before; /* the exception that was set before the call, or NULL */
    const NcStubSlot *slot; /* of the stub that C called */
    size_t *row; /* of the run (platform/runs.h); NULL: the call holds a reference instead */
};

enum {
    NC_PYCALLBACK_ACQUIRED = NC_GIL_RESTORED | NC_GIL_ENSURED,
    NC_PYCALLBACK_RESTORE = 4, /* restore the exception in `before` at the end */
    NC_PYCALLBACK_FAILED = 8   /* the call has ended, and C got the sentinel */
};

struct NcPyCallback {
    PyObject_HEAD
    NcCallbackSpec *spec;
    PyObject *function; /* NULL once closed */
    /* A str: the function's name in messages. Or a tuple: (name, prefix of messages about the
     * result) or (name, name of the call, index of the argument). When a message about the result
     * may be needed, result_name() replaces it by (name, prefix, previous `names`, None). */
    PyObject *names;
    NcStash *stash; /* the stash of the call to which the callback was passed, or NULL; owned */
    /* The object that the last result points into, or NULL. If the callback was passed to a call: a
     * list of such objects, for all results. If C stores the callback, and it returns functions: a
     * dict of these functions (kept.h). */
    PyObject *kept;
    void *stub; /* the C function pointer; owned */
#if defined(Py_GIL_DISABLED)
    NcRuns runs; /* calls in progress, which hold no references */
#endif
};

/* Releases the function: close() and tp_clear. Without the GIL, the last run does so. */
int nc_pycallback_clear(PyObject *object);
/* Frees a callback that nothing refers to or runs. */
void nc_pycallback_free(NcPyCallback *self);

/* Calls the function with args[1] to args[count] and releases these arguments. An argument is NULL
 * if its conversion raised an exception. args[0] is scratch space for the called function
 * (PY_VECTORCALL_ARGUMENTS_OFFSET). Writes the C result or the sentinel, and ends the call. */
void nc_pycallback_run(NcPyCallback *self, NcPyCallbackCall *call, PyObject **args, size_t count,
                       void *out);

/* A new reference to a float, or NULL. */
PyObject *nc_pycallback_float(double number);

/* The object for argument `index`: a new reference, or NULL. `given` is the value of a pointer
 * argument, or the address of any other argument's value. */
PyObject *nc_pycallback_argument(NcPyCallback *self, size_t index, void *given);

/* The first and last steps of a call: save C's errno, and restore it. */
static inline void nc_pycallback_errno_take(NcPyCallbackCall *call)
{
    call->number = &errno; /* look up once: each access to thread-local data takes a call */
    call->innermost = &nc_errno_of_callback;
    call->error_number = *call->number;
    call->outer = *call->innermost;
    *call->innermost = &call->error_number;
}

static inline void nc_pycallback_errno_give(const NcPyCallbackCall *call)
{
    *call->innermost = call->outer;
    *call->number = call->error_number;
}

/* Sets the `enter` field of a spec. */
void nc_pycallback_set_enter(NcCallbackSpec *spec);

/* The function's name in messages, a borrowed str. */
static inline PyObject *nc_pycallback_name(const NcPyCallback *self)
{
    PyObject *names = nc_kept(&self->names);
    return PyTuple_Check(names) ? PyTuple_GET_ITEM(names, 0) : names;
}

extern PyTypeObject NcPyCallback_Type;

/* Creates a callback of a spec, with names for messages (NcPyCallback.names). Returns a new
 * reference, or NULL with MemoryError, or with RuntimeError if the system refuses stubs. */
NcPyCallback *nc_pycallback_make(NcCallbackSpec *spec, PyObject *function, PyObject *names);

/* The value of the hook nc_pass_function (values/pointers.h). */
int nc_pycallback_pass(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                       PyObject *value, NcPointer *out);

/* caller(class, plans): returns a built-in function of (signature, function, options). If `options`
 * is empty and the dict `plans` has a plan for the signature, that function creates a Callback.
 * Otherwise it returns None, and Python code must create the Callback. */
PyObject *nc_caller(PyObject *module, PyObject *args);
