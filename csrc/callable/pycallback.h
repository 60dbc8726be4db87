/* csrc/callable/pycallback.h: Python functions as C function pointers: what calls of all signatures
 * have in common.
 *
 * Idea. A stub (stub.h) leads C code to nc_entry (call/entry.h), and that to the NcPyCallback, the
 * object that knows the Python function. closure.c makes Python objects of the arguments, by the
 * spec's plan. All that does not depend on their types is here:
 *
 *     if (self->spec->enter(self, &call, &result)) {
 *         args[1] = nc_pycallback_float(x);
 *         nc_pycallback_run(self, &call, args, 1, &result);
 *     }
 *     return result;
 *
 * Exceptions. When the function raises, whatever it is, or its result does not convert, C gets the
 * sentinel. platform/exceptions.h says where the exception goes; a report has the function as its
 * object.
 *
 * Objects. Arguments are borrowed from C, in structs too; the Python function gets references of
 * its own. Results are C's: each object in one, a sentinel included, comes with a new reference.
 *
 * Where the C stack has no room for a call (stack.h), that is the exception, and nothing runs.
 *
 * errno belongs to C: a call leaves it as it was, unless the Python function called set_errno().
 *
 * Life. A call that runs holds a reference, so the function may close or delete what it was called
 * by. C code returns through code of the extension's own, which never goes.
 *
 * While Python shuts down, threads that would have to take the GIL get the sentinel. An
 * NcPyCallback that dies then leaves its memory to them.
 *
 * Threads. C code calls in any thread, also one that Python has never seen. What is in an
 * NcPyCallback is read and changed with the GIL, but for `spec`, which never changes. Another
 * thread may drop the last reference just when the last call has left Python and is about to
 * return, so nothing of it is read then. */
#ifndef NC_PYCALLBACK_H
#define NC_PYCALLBACK_H

#include "layout.h"
#include "platform/exceptions.h"
#include "platform/gil.h"
#include "platform/stub.h"
#include "call/failure.h"
#include "values/pointers.h"

#include "nativecall/detail/compat.h"

#include <errno.h>

/* What all callbacks of a signature and of the same options share: where C has the arguments and
 * the result, how both are converted, and what C gets when there is none. Its counterpart for calls
 * from Python is the call interface (layout.h). Made once by Python code, and never changed. */
typedef struct NcPyCallback NcPyCallback;
typedef struct NcPyCallbackCall NcPyCallbackCall;

typedef struct {
    PyObject_HEAD
    int (*enter)(NcPyCallback *, NcPyCallbackCall *, void *out); /* by what is known of the GIL: 1;
                                or 0 with the sentinel in `out`, and the callback may be gone */
    PyObject
        *readers; /* tuple: for each argument that is no number the call interface of a function
                               that returns it, or what makes an object of it */
    PyObject *objects;       /* tuple: offsets of Python objects in the result */
    NcCallInterface *result; /* has the result as its only argument; NULL for none and objects */
    PyObject *planned;       /* bytes: the closure plan */
    const struct NcClosurePlan *plan; /* the same (call/plan.h) */
    PyObject *sentinel;               /* bytes: what C gets when there is no result */
    size_t size;                      /* its bytes */
    PyObject *keep;                   /* what the sentinel points to; or NULL */
    char letter;                      /* of the result */
    int has_gil;                      /* 1: C code was said to have the GIL when it calls */
    int python_errors; /* 1: exceptions stay set also where there is no call from Python */
    int frees;         /* 1: it takes a pointer and returns nothing, as what C frees memory by */
    int passed;        /* 1: callbacks are passed to a call, and have its stash */
    int kept;          /* 1: C keeps them, and with them the functions that they return */
    int sets_errno;    /* 1: a failure sets errno, and an OSError is told by that alone */
} NcCallbackSpec;

extern PyTypeObject NcCallbackSpec_Type;

/* One call, in the frame of the callback. */
struct NcPyCallbackCall {
    int ending;       /* how it acquired the GIL (platform/gil.h), and what its end has to see to
                         besides: NC_PYCALLBACK_...; how it ended */
    int error_number; /* errno for C */
    int *number;      /* errno of this thread */
    int **innermost;  /* nc_errno_of_callback of this thread */
    int *outer;       /* error_number of the callback outside of this one */
    PyObject *before; /* what the C code had raised */
    const NcStubSlot *slot; /* of the stub that C called */
};

enum {
    NC_PYCALLBACK_ACQUIRED = NC_GIL_RESTORED | NC_GIL_ENSURED,
    NC_PYCALLBACK_RESTORE = 4, /* an exception in `before` */
    NC_PYCALLBACK_FAILED = 8   /* nothing: it has ended, and C got the sentinel */
};

struct NcPyCallback {
    PyObject_HEAD
    NcCallbackSpec *spec;
    PyObject *function; /* NULL once closed */
    PyObject *names;    /* str: what the function is called in messages; or a tuple of that and what
                           begins messages on the result, a str or a name and an index of an
                           argument; since the first of them name, str, the names before, None */
    NcStash *stash;     /* of the call that the function was passed to, or NULL; owned */
    PyObject *kept;     /* what the last result points into, or NULL; of one that was passed to a
                           call a list of what all results point into; of one that C keeps and that
                           returns functions a dict of these (kept.h) */
    void *stub;         /* the C function pointer; owned */
};

/* Calls the function with args[1] to args[count] and drops these, which may be NULL after an
 * exception; args[0] is for the callee to use. Writes the C result, or the sentinel, and ends the
 * call. */
void nc_pycallback_run(NcPyCallback *self, NcPyCallbackCall *call, PyObject **args, size_t count,
                       void *out);

/* A float. A new reference, or NULL. */
PyObject *nc_pycallback_float(double number);

/* The object for argument `index`, which is given as its value where it is a pointer, else as its
 * address. A new reference, or NULL. */
PyObject *nc_pycallback_argument(NcPyCallback *self, size_t index, void *given);

/* What begins and ends a call, outside of all else. */
static inline void nc_pycallback_errno_take(NcPyCallbackCall *call)
{
    call->number = &errno; /* looked up once: what is of a thread takes a call to find */
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

/* Sets `enter` of a spec. */
void nc_pycallback_set_enter(NcCallbackSpec *spec);

/* What the function is called in messages, a borrowed str. */
static inline PyObject *nc_pycallback_name(const NcPyCallback *self)
{
    return PyTuple_Check(self->names) ? PyTuple_GET_ITEM(self->names, 0) : self->names;
}

extern PyTypeObject NcPyCallback_Type;

/* A callback of a spec, called by `names` in messages (pycallback.h). A new reference,
 * or NULL with MemoryError, or RuntimeError where the system refuses stubs. */
NcPyCallback *nc_pycallback_make(NcCallbackSpec *spec, PyObject *function, PyObject *names);

/* What nc_pass_function (values/pointers.h) is. */
int nc_pycallback_pass(const NcCallInterface *cif, PyObject *name, Py_ssize_t index,
                       PyObject *value, NcPointer *out);

/* called(class, plans, signature, function): a Callback of a signature that the dict has a plan of;
 * None where Python code is to see to it. METH_FASTCALL. */
PyObject *nc_called(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

#endif
